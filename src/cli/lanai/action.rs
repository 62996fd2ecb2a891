//! What the subcommands that change jobs share: the selection of jobs, the preview, the question,
//! the requests and the summary.

use super::columns;
use super::document;
use super::filter::JobFilter;
use super::job_view::JobView;
use super::session::{FoundJobs, OutputOptions, Session};
use super::table::printable;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, LazySchedd};
use crate::cli::client::query;
use crate::model::job_id::JobId;
use crate::wire::batch::{Act, BatchTarget};
use crate::wire::message::Arrays;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, stdin, stdout};

/// The maximum number of jobs in the table of a preview.
const SHOWN: usize = 10;

/// The number of jobs up to which lanai asks no question.
const UNASKED: usize = 10;

const OWN_COLUMNS: &str = "id,name,queue,state,elapsed,detail";

/// The columns if a job belongs to another user.
const ALL_COLUMNS: &str = "id,name,user,queue,state,elapsed,detail";

/// Options of all subcommands that change jobs.
#[derive(Args, Clone, Debug, Default)]
pub struct ActionOptions {
    /// Jobs with a name that matches this pattern; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    pub name: Option<String>,
    /// Do not ask before a change of more than ten jobs
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Show the jobs, but change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Job ids and conditions, such as state=queued name=sim* tag.run=7
    #[arg(value_name = "FILTER")]
    pub filter: Vec<OsString>,
}

/// A selection of jobs.
#[derive(Debug)]
pub struct Selection {
    filter: JobFilter,
    /// The selection in the words of the command line.
    words: Vec<String>,
}

impl Selection {
    /// The selection by the operands and `--name`.
    pub fn new(options: &ActionOptions, session: &Session) -> Result<Selection, Failure> {
        let filter = JobFilter::parse(&options.filter, &session.filter_context())?;
        let words = options.filter.iter().map(|word| word.to_string_lossy());
        let mut selection = Selection {
            filter,
            words: words.map(String::from).collect(),
        };
        if let Some(name) = &options.name {
            selection.require("name", name, session)?;
        }
        Ok(selection)
    }

    /// Adds the condition `key=value`.
    pub fn require(&mut self, key: &str, value: &str, session: &Session) -> Result<(), Failure> {
        self.words.push(format!("{key}={value}"));
        self.filter.require(key, value, &session.filter_context())
    }

    /// Whether the selection names jobs by id.
    pub fn has_ids(&self) -> bool {
        !self.filter.ids.is_empty()
    }

    /// Whether a condition restricts the period.
    pub fn restricts_period(&self) -> bool {
        self.filter.restricts_period()
    }

    /// Whether nothing selects jobs.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// The selected jobs. Without ids and without a condition on the owner, only jobs of the caller
    /// are selected, because a change of other users' jobs must be intended.
    fn find(&mut self, session: &mut Session) -> Result<FoundJobs, Failure> {
        if !self.has_ids() && !self.filter.restricts_owner() {
            self.require("user", "me", session)?;
        }
        session.jobs(&self.filter, Arrays::Folded)
    }
}

/// A change of several jobs.
pub struct Action<'a> {
    /// The subcommand, such as `cancel`.
    pub name: &'static str,
    /// The verb for the summary, such as `Canceled`.
    pub past: &'static str,
    /// The hint that the summary adds on a terminal; empty for none.
    pub hint: &'static str,
    /// The request for a job, or why the job is not suitable. Jobs selected by id get an error
    /// message, all others are skipped.
    pub choose: &'a dyn Fn(&JobView) -> Result<Act, String>,
}

/// A job with its request and, after the request, its refusal or notes.
struct Step<'a> {
    view: JobView<'a>,
    act: Act,
    outcome: Result<Vec<String>, String>,
}

impl Action<'_> {
    /// Runs the action for the selected jobs. Returns the exit status.
    pub fn run(
        &self,
        mut selection: Selection,
        options: &ActionOptions,
        session: &mut Session,
        output: &OutputOptions,
    ) -> Result<u8, Failure> {
        let mut found = selection.find(session)?;
        let mut seen = std::collections::BTreeSet::new();
        found.records.retain(|record| seen.insert(record.job.id));
        let mut code = query::report(&found.failures, "lanai", super::command);
        let mut steps = Vec::new();
        for view in found.views() {
            match (self.choose)(&view) {
                Ok(act) => steps.push(Step {
                    view,
                    act,
                    outcome: Ok(Vec::new()),
                }),
                Err(why) if selection.has_ids() => {
                    code = Failure::new(1, format!("{}: {why}", view.id()))
                        .report("lanai", super::command);
                }
                Err(_) => {}
            }
        }
        if steps.is_empty() {
            return self.report_none(&selection, code != 0);
        }
        if !output.json {
            exit::print(preview(&steps, session, output)?)?;
        }
        if options.dry_run {
            return self.finish(&steps, &found, code, true, output);
        }
        if !self.is_confirmed(steps.len(), options, output)? {
            exit::print("No job was changed.\n")?;
            return Ok(1);
        }
        request(&mut steps)?;
        self.finish(&steps, &found, code, false, output)
    }

    fn report_none(&self, selection: &Selection, is_reported: bool) -> Result<u8, Failure> {
        if is_reported {
            return Ok(1);
        }
        let text = format!(
            "no job to {} matches {}",
            self.name,
            selection.words.join(" ")
        );
        Err(Failure::new(1, text))
    }

    /// Asks the user before a change of many jobs. Without a terminal, there is no question.
    fn is_confirmed(
        &self,
        count: usize,
        options: &ActionOptions,
        output: &OutputOptions,
    ) -> Result<bool, Failure> {
        let has_user = stdin().is_terminal() && stdout().is_terminal();
        if options.yes || output.json || count <= UNASKED || !has_user {
            return Ok(true);
        }
        exit::print(format!("{} {count} jobs? [y/N] ", capitalized(self.name)))?;
        let mut answer = String::new();
        stdin().lock().read_line(&mut answer)?;
        Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
    }

    /// Prints the refusals and the summary, or the JSON document. Returns the exit status.
    fn finish(
        &self,
        steps: &[Step],
        found: &FoundJobs,
        code: u8,
        is_dry: bool,
        output: &OutputOptions,
    ) -> Result<u8, Failure> {
        let mut failed = 0;
        for step in steps {
            match &step.outcome {
                Ok(notes) => exit::print_notes("lanai", notes),
                Err(why) => {
                    failed += 1;
                    let text = format!("{}: {}", step.view.id(), printable(why.trim_end()));
                    Failure::new(1, text).report("lanai", super::command);
                }
            }
        }
        if output.json {
            let jobs: Vec<Value> = steps.iter().map(|step| data(step, is_dry)).collect();
            let content = json!({ "action": self.name, "dry_run": is_dry, "jobs": jobs });
            let text = document::document("action", &found.server, found.now, content);
            exit::print(text)?;
        } else if is_dry {
            exit::print("Dry run: no job was changed.\n")?;
        } else {
            exit::print(self.summary(steps.len(), failed))?;
        }
        Ok(u8::from(failed > 0 || code != 0))
    }

    fn summary(&self, total: usize, failed: usize) -> String {
        let done = total - failed;
        let mut text = match failed {
            0 => format!("{} {}.", self.past, jobs(total)),
            _ => format!("{} {done} of {}.", self.past, jobs(total)),
        };
        if done > 0 && !self.hint.is_empty() && stdout().is_terminal() {
            text.push_str(&format!(" {}", self.hint));
        }
        text.push('\n');
        text
    }
}

/// `1 job`, `12 jobs`.
pub fn jobs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "job" } else { "jobs" })
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The table of the first jobs, the number of all jobs, and the owners of other users' jobs.
fn preview(steps: &[Step], session: &Session, output: &OutputOptions) -> Result<String, Failure> {
    let owners = owners(steps);
    let is_own = owners == [session.user.as_str()];
    let columns = columns::parse(if is_own { OWN_COLUMNS } else { ALL_COLUMNS })?;
    let first: Vec<JobView> = steps.iter().take(SHOWN).map(|step| step.view).collect();
    let mut text = columns::table(&first, &columns, output.width(), output.has_color());
    if steps.len() > SHOWN {
        text.push_str(&format!("... and {} more\n", steps.len() - SHOWN));
    }
    text.push_str(&jobs(steps.len()));
    if !is_own {
        text.push_str(&format!(" of {}", printable(&owners.join(", "))));
    }
    text.push('\n');
    Ok(text)
}

/// The owners of the jobs, each once.
fn owners<'a>(steps: &[Step<'a>]) -> Vec<&'a str> {
    let mut owners: Vec<&str> = steps
        .iter()
        .map(|step| step.view.record.job.owner.user.as_str())
        .collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// Sends the requests. Jobs with equal requests are in the same request, so that an end of one of
/// them has no effect on the others.
fn request(steps: &mut [Step]) -> Result<(), Failure> {
    let mut schedd = LazySchedd::find()?;
    let mut acts: Vec<Act> = Vec::new();
    for step in steps.iter() {
        if !acts.contains(&step.act) {
            acts.push(step.act.clone());
        }
    }
    for act in acts {
        let mut same: Vec<&mut Step> = steps.iter_mut().filter(|step| step.act == act).collect();
        let targets: Vec<BatchTarget> = same
            .iter()
            .map(|step| target(step.view.record.job.id))
            .collect();
        let outcomes = job_batch::request(&mut schedd, &act, &targets);
        for (step, outcome) in same.iter_mut().zip(outcomes) {
            step.outcome = outcome?.map_err(|refusal| refusal.text);
        }
    }
    Ok(())
}

fn target(job: JobId) -> BatchTarget {
    BatchTarget {
        job,
        only: None,
        or_array: false,
    }
}

/// The result for one job, for JSON. `is_done` is false also in a dry run.
fn data(step: &Step, is_dry: bool) -> Value {
    let job = &step.view.record.job;
    let refused = step.outcome.as_ref().err();
    json!({
        "id": job.id.full(&step.view.server.name),
        "name": job.spec.name,
        "user": job.owner.user,
        "state": step.view.status().word(),
        "done": refused.is_none() && !is_dry,
        "error": refused.map(|why| why.trim_end()),
        "notes": step.outcome.as_ref().map_or(Vec::new(), Clone::clone),
    })
}

/// The failure for a subcommand without a selection of jobs.
pub fn nothing_selected(name: &str, examples: &[&str]) -> Failure {
    let examples: Vec<String> = examples
        .iter()
        .map(|example| format!("  lanai {name} {example}\n"))
        .collect();
    let text = format!(
        "select the jobs to {name}, for example:\n{}",
        examples.concat()
    );
    Failure::new(exit::USAGE, text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANCEL: Action = Action {
        name: "cancel",
        past: "Canceled",
        hint: "",
        choose: &|_| Err(String::new()),
    };

    #[test]
    fn the_summary_counts_jobs_and_refusals() {
        assert_eq!(CANCEL.summary(1, 0), "Canceled 1 job.\n");
        assert_eq!(CANCEL.summary(12, 0), "Canceled 12 jobs.\n");
        assert_eq!(CANCEL.summary(12, 2), "Canceled 10 of 12 jobs.\n");
    }

    #[test]
    fn a_usage_error_has_examples() {
        let failure = nothing_selected("cancel", &["12", "--mine"]);
        assert_eq!(failure.code, exit::USAGE);
        assert!(
            failure
                .text
                .ends_with("\n  lanai cancel 12\n  lanai cancel --mine")
        );
        assert_eq!(capitalized("cancel"), "Cancel");
    }
}
