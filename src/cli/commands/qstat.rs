//! `qstat`: shows jobs, queues and the server, as lists or with all attributes, as text, dsv or
//! JSON.

mod display;

pub mod watch;

use self::display::{Display, JobFormat};
use self::watch::WatchedView;
use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::installation;
use crate::cli::client::operand::Operand;
use crate::cli::client::query::{self, Ask, CommandOutput, Feed};
use crate::cli::output::alternate_list::{self, MemoryUnit};
use crate::cli::output::attribute_output::{self, AttributeFormat, AttributeWriter};
use crate::cli::output::full::Lines;
use crate::cli::output::job_list;
use crate::cli::output::job_selection::{self, JobQuery, OwnerPattern};

use crate::cli::output::objects::Objects;
use crate::cli::output::queues;
use crate::cli::report;
use crate::cli::report::efficiency;
use crate::cli::report::scores::Scores;
use crate::config::overrides::QmgrObject;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;
use crate::model::spelling::choice;
use crate::model::time::Wall;

use crate::sys::{clock, user};
use crate::wire::message::{
    Arrays, Detail, History, Question, QueueCounts, ServerFacts, WatchedJobs,
};
use clap::{CommandFactory, Parser};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The failure for an unreachable server, with qstat's own exit status 255.
pub fn no_server(why: &str) -> Failure {
    query::no_server(why, 255)
}

// The headings of `qstat --help`.
const JOBS: &str = "Jobs to show";
const OUTPUT: &str = "Output";
const OBJECTS: &str = "Queues and server";

/// Show the status of jobs, queues, or the server.
///
/// Without options, qstat prints one line for each unfinished job.
#[derive(Debug, Default, Parser)]
#[command(
    name = "qstat",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub struct QstatArgs {
    /// Jobs of these users (HOST is the submission host), in the format of -a; with -f, all
    /// attributes of these jobs
    #[arg(short = 'u', value_name = "USER[@HOST],...", help_heading = JOBS)]
    users: Option<String>,
    /// Running and suspended jobs
    #[arg(short = 'r', help_heading = JOBS)]
    running: bool,
    /// Queued and held jobs, and jobs that wait for their begin time
    #[arg(short = 'i', help_heading = JOBS)]
    idle: bool,
    /// Finished jobs
    #[arg(short = 'H', help_heading = JOBS)]
    finished: bool,
    /// Include finished jobs
    #[arg(short = 'x', help_heading = JOBS)]
    history: bool,
    /// All jobs, with the requested resources
    #[arg(short = 'a', help_heading = JOBS)]
    all: bool,
    /// Show the subjobs of job arrays
    #[arg(short = 't', help_heading = JOBS)]
    subjobs: bool,
    /// Job arrays only
    #[arg(short = 'J', help_heading = JOBS)]
    arrays: bool,
    /// Refuse operands that are not job ids
    #[arg(short = 'E', help_heading = JOBS)]
    express: bool,
    /// Show all attributes of each job, queue or server
    #[arg(short = 'f', help_heading = OUTPUT)]
    full: bool,
    /// Output format: json or dsv with -f, json with a scheduler report
    #[arg(short = 'F', value_name = "FORMAT", help_heading = OUTPUT)]
    format: Option<String>,
    /// Delimiter between values, with -F dsv
    #[arg(short = 'D', value_name = "DELIMITER", help_heading = OUTPUT)]
    delimiter: Option<String>,
    /// Add comments: why jobs wait, where they run, or how they ended
    #[arg(short = 's', help_heading = OUTPUT)]
    comment: bool,
    /// Add the hosts of each job
    #[arg(short = 'n', help_heading = OUTPUT)]
    hosts: bool,
    /// Print hosts (-n), comments (-s) or attributes (-f) on one line, without wrapping
    #[arg(short = '1', help_heading = OUTPUT)]
    one_line: bool,
    /// Use 120 columns; with -f, print each attribute on one line
    #[arg(short = 'w', help_heading = OUTPUT)]
    wide: bool,
    /// Show the planned start instead of the elapsed time
    #[arg(short = 'T', help_heading = OUTPUT)]
    starts: bool,
    /// Show the used percentage of the requested processor time or walltime, whichever is higher,
    /// instead of the used processor time
    #[arg(short = 'p', help_heading = OUTPUT)]
    percent: bool,
    /// Show memory in gigabytes
    #[arg(short = 'G', help_heading = OUTPUT)]
    gigabytes: bool,
    /// Show memory in megawords (8 bytes each)
    #[arg(short = 'M', help_heading = OUTPUT)]
    megawords: bool,
    /// Update the output whenever it changes, until all jobs named by id have finished, or until
    /// Ctrl-C. JSON output has one document per line
    #[arg(long, help_heading = OUTPUT)]
    watch: bool,
    /// Queues, with the number of jobs in each state
    #[arg(short = 'Q', help_heading = OBJECTS)]
    queues: bool,
    /// Queues, with their limits
    #[arg(short = 'q', help_heading = OBJECTS)]
    limits: bool,
    /// The server
    #[arg(short = 'B', help_heading = OBJECTS)]
    server: bool,
    /// Reports of the scheduler.
    #[command(flatten)]
    reports: report::ReportOptions,
    /// Compare used and requested resources of the given jobs, and suggest what to request next
    /// time. Without job ids: the same for your own jobs that ended in the last seven days
    #[arg(long = "eff", help_heading = report::HEADING)]
    efficiency: bool,
    /// Refused, as in PBS
    #[arg(short = 'W', value_name = "SITE", hide = true)]
    site: Option<OsString>,
    /// Job ids, queues, or @server
    #[arg(value_name = "JOB|QUEUE")]
    operands: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    QstatArgs::command()
}

/// Runs qstat.
pub fn main() -> ExitCode {
    exit::run("qstat", command, || {
        let Some(mut args) = getopt::read::<QstatArgs>(command)? else {
            return Ok(0);
        };
        args.operands.splice(..0, args.reports.take_job_ids_of_l());
        let format = args.check()?;
        if args.watch {
            return args
                .watched_view(&format)
                .run(command, || args.whole_output(&format));
        }
        let mut out = std::io::stdout().lock();
        let failures = args.write_report(&format, &mut out);
        out.flush()?;
        Ok(query::report(&failures, "qstat", command))
    })
}

impl QstatArgs {
    /// Checks the options, and returns the output format.
    fn check(&self) -> Result<AttributeFormat, Failure> {
        let wrong_format = self
            .format
            .as_deref()
            .is_some_and(|format| format != "json" && format != "dsv");
        if self.site.is_some()
            || wrong_format
            || (self.delimiter.is_some() && self.format.is_none())
        {
            return Err(Failure::usage(""));
        }
        let formatted = self.format.is_some();
        let lists = [
            self.all,
            self.idle,
            self.running,
            self.limits,
            self.finished,
        ];
        let conflict = lists.iter().filter(|given| **given).count() > 1
            || (self.gigabytes && self.megawords)
            || (formatted
                && (!(self.full || self.is_report()) || self.is_alternate() || self.wide))
            || self.has_report_conflict()
            || (self.limits && self.full)
            || (self.one_line && !(self.hosts || self.comment || self.full))
            || (self.server && self.queues);
        if conflict {
            let wide_message = if formatted && self.wide {
                "\nqstat: option w cannot be used with -F"
            } else {
                ""
            };
            return Err(Failure::usage(format!(
                "conflicting options.{wide_message}"
            )));
        }
        if self.express
            && !self
                .operands
                .iter()
                .all(|word| job_selection::is_job_id(word))
        {
            return Err(Failure::new(
                1,
                "Express option can only be used with job ids",
            ));
        }
        Ok(self.format())
    }

    /// True if a report conflicts with other options.
    fn has_report_conflict(&self) -> bool {
        let others = self.is_alternate()
            || self.full
            || self.queues
            || self.limits
            || self.server
            || self.watch;
        let dsv = self
            .format
            .as_deref()
            .is_some_and(|format| format != "json");
        let both = self.efficiency && self.reports.any_given();
        self.reports.conflict() || both || (self.is_report() && (others || dsv))
    }

    /// True if a report is requested instead of a list.
    fn is_report(&self) -> bool {
        self.reports.any_given() || self.efficiency
    }

    fn format(&self) -> AttributeFormat {
        match self.format.as_deref() {
            Some("json") => AttributeFormat::Json,
            Some(_) => {
                AttributeFormat::Dsv(self.delimiter.clone().unwrap_or_else(|| "|".to_string()))
            }
            None if self.wide || self.one_line => AttributeFormat::Text(Lines::Whole),
            None => AttributeFormat::Text(Lines::Wrapped),
        }
    }

    /// True if jobs are printed as the alternate list. `-u` selects this list, except together with
    /// `-f` or a report that accepts users.
    fn is_alternate(&self) -> bool {
        let users = self.users.is_some() && !self.reports.accept_users() && !self.full;
        let choosing = self.all || self.idle || self.running || self.finished || users;
        let showing = self.hosts || self.comment || self.starts || self.gigabytes || self.megawords;
        choosing || showing
    }

    /// Writes the output as the answer arrives. Returns the failures.
    fn write_report(&self, format: &AttributeFormat, out: &mut dyn Write) -> Vec<Failure> {
        let now = clock::wall();
        if self.reports.any_given() {
            let result = self.reports.write(
                &self.operands,
                self.users.as_deref(),
                *format == AttributeFormat::Json,
                out,
            );
            return result.unwrap_or_else(|failure| vec![failure]);
        }
        match query::feed(no_server) {
            Ok(mut feed) if self.efficiency => {
                let result = efficiency::write(
                    &self.operands,
                    *format == AttributeFormat::Json,
                    &mut feed,
                    now,
                    out,
                );
                result.unwrap_or_else(|failure| vec![failure])
            }
            Ok(mut feed) => self.answer(format, &mut feed, now, out),
            Err(failure) => self.without_server(format, now, out, failure),
        }
    }

    /// The whole output at once. Fails if [`query::feed`] fails; later failures are part of the
    /// output.
    fn whole_output(&self, format: &AttributeFormat) -> Result<CommandOutput, Failure> {
        let mut feed = query::feed(no_server)?;
        let mut out = Vec::new();
        let failures = self.answer(format, &mut feed, clock::wall(), &mut out);
        Ok(CommandOutput { out, failures })
    }

    fn answer(
        &self,
        format: &AttributeFormat,
        feed: &mut Feed,
        now: Wall,
        out: &mut dyn Write,
    ) -> Vec<Failure> {
        if !self.server && !self.queues && !self.limits {
            return self.show_jobs(format, feed, now, out);
        }
        let ask = &mut query::whole(feed);
        let result = if self.server {
            self.show_server(format, ask, now)
        } else {
            self.show_queues(format, ask, now)
        };
        match result {
            Ok(output) => written(out, &output.out, output.failures),
            Err(failure) => self.without_server(format, now, out, failure),
        }
    }

    fn without_server(
        &self,
        format: &AttributeFormat,
        now: Wall,
        out: &mut dyn Write,
        failure: Failure,
    ) -> Vec<Failure> {
        written(
            out,
            &attribute_output::without_server(format, now),
            vec![failure],
        )
    }

    fn show_jobs(
        &self,
        format: &AttributeFormat,
        feed: &mut Feed,
        now: Wall,
        out: &mut dyn Write,
    ) -> Vec<Failure> {
        let scores = self.scores(feed);
        let mut display = Display::new(self.job_format(format, now), now, out).with_scores(scores);
        let found = job_selection::find(&self.job_query(), &self.operands, feed, &mut display);
        let mut failures = found.unwrap_or_else(|failure| vec![failure]);
        failures.extend(display.finish().err());
        failures
    }

    /// Queries the priorities before the jobs, because schedd might be unable to answer while qstat
    /// still reads jobs.
    fn scores(&self, feed: &mut Feed) -> Scores {
        if !self.full || self.is_alternate() {
            return Scores::default();
        }
        match query::whole(feed)(&Question::Server) {
            Ok(answers) if answers.server.has_scores => Scores::ask(&self.operands),
            _ => Scores::default(),
        }
    }

    fn job_format(&self, format: &AttributeFormat, now: Wall) -> JobFormat {
        if self.is_alternate() {
            JobFormat::Alternate(self.alternate_style(now))
        } else if self.full {
            JobFormat::Full(format.clone())
        } else {
            JobFormat::Plain(job_list::ListStyle {
                wide: self.wide,
                percent: self.percent,
            })
        }
    }

    fn job_query(&self) -> JobQuery {
        let detail = if self.is_alternate() {
            Detail::Whole
        } else if self.full {
            Detail::Environment
        } else if self.percent {
            Detail::Whole
        } else {
            Detail::Row
        };
        let history = if self.finished {
            History::Finished
        } else if self.history || !self.watched_jobs().is_empty() {
            // --watch shows a job even after its end.
            History::All
        } else {
            History::Live
        };
        let states = if self.idle {
            vec![JobState::Queued, JobState::Held, JobState::Waiting]
        } else if self.running {
            vec![JobState::Running, JobState::Suspended]
        } else {
            Vec::new()
        };
        let owners = self.users.as_deref().map(OwnerPattern::parse_list);
        JobQuery {
            detail,
            history,
            states,
            owners,
            arrays: Arrays::shown(self.arrays, self.subjobs),
        }
    }

    fn watched_view(&self, format: &AttributeFormat) -> WatchedView {
        let until = self.watched_jobs();
        let own = self.operands.is_empty()
            && self
                .users
                .as_ref()
                .is_some_and(|users| *users == user::own().name);
        let of = if !until.is_empty() {
            WatchedJobs::Jobs(until.iter().copied().collect())
        } else if own {
            WatchedJobs::Mine
        } else {
            WatchedJobs::Any
        };
        WatchedView {
            of,
            until,
            json: *format == AttributeFormat::Json,
        }
    }

    /// The jobs of `--watch` if all operands are job ids; otherwise empty.
    fn watched_jobs(&self) -> BTreeSet<JobId> {
        let only_ids = self
            .operands
            .iter()
            .all(|word| job_selection::is_job_id(word));
        if !self.watch || !only_ids {
            return BTreeSet::new();
        }
        let ids = self
            .operands
            .iter()
            .filter_map(|word| Operand::parse(word).ok());
        // For a range of subjobs, the whole array is watched.
        ids.map(|id| id.id()).collect()
    }

    fn alternate_style(&self, now: Wall) -> alternate_list::AlternateStyle {
        let unit = if self.gigabytes {
            MemoryUnit::Gigabytes
        } else if self.megawords {
            MemoryUnit::Megawords
        } else {
            MemoryUnit::Own
        };
        alternate_list::AlternateStyle {
            wide: self.wide,
            hosts: self.hosts,
            comment: self.comment,
            one_line: self.one_line,
            starts: self.starts.then_some(now),
            unit,
        }
    }

    fn show_queues(
        &self,
        format: &AttributeFormat,
        ask: &mut Ask,
        now: Wall,
    ) -> Result<CommandOutput, Failure> {
        let answers = ask(&Question::Queues)?;
        let configured = ask(&Question::Objects)?.objects;
        let objects = Objects(&configured);
        let (chosen, failures) = self.choose(&answers.queues, &answers.server);
        let out = if self.limits {
            queues::limits(&chosen, &answers.server, objects).into_bytes()
        } else if self.full {
            let resources = &answers.server.resources;
            let preamble = attribute_output::preamble(&answers.server, now);
            let mut writer = AttributeWriter::begin("Queue", format, &preamble);
            for queue in chosen {
                let name = &queue.queue.name;
                let attributes = queues::of_queue(queue, resources);
                let target = QmgrObject::Queue(name.clone());
                writer.add(name, &objects.joined(&target, attributes, resources));
            }
            writer.end()
        } else {
            queues::list(&chosen, objects).into_bytes()
        };
        Ok(CommandOutput { out, failures })
    }

    /// The queues that the operands name, and a failure for each unknown queue or server; without
    /// operands, all queues.
    fn choose<'a>(
        &self,
        queues: &'a [QueueCounts],
        server: &ServerFacts,
    ) -> (Vec<&'a QueueCounts>, Vec<Failure>) {
        let (mut chosen, mut failures) = (Vec::new(), Vec::new());
        for word in &self.operands {
            let text = word.to_string_lossy();
            let (name, host) = text.split_once('@').unwrap_or((&text, &server.name));
            let named: Vec<_> = queues
                .iter()
                .filter(|q| name.is_empty() || q.queue.name == name)
                .collect();
            if !same_server(host, &server.name) {
                failures.push(job_selection::unknown_server(host));
            } else if named.is_empty() && !name.is_empty() {
                failures.push(unknown_queue(name, queues));
            } else {
                chosen.extend(named);
            }
        }
        if self.operands.is_empty() {
            chosen.extend(queues);
        }
        (chosen, failures)
    }

    fn show_server(
        &self,
        format: &AttributeFormat,
        ask: &mut Ask,
        now: Wall,
    ) -> Result<CommandOutput, Failure> {
        let answers = ask(&Question::Queues)?;
        let server = &answers.server;
        let mut failures = Vec::new();
        for word in &self.operands {
            let host = word.to_string_lossy();
            if !same_server(&host, &server.name) {
                failures.push(job_selection::unknown_server(&host));
            }
        }
        let shown = self.operands.is_empty() || failures.len() < self.operands.len();
        let out = if self.full {
            let preamble = attribute_output::preamble(server, now);
            let mut writer = AttributeWriter::begin("Server", format, &preamble);
            if shown {
                let configured = ask(&Question::Objects)?.objects;
                let sums = queues::assigned_in_all(&answers.queues);
                let mut attributes = queues::of_server(&answers.queues, &sums, server);
                attributes.text_if("installation", installation::current());
                let all =
                    Objects(&configured).joined(&QmgrObject::Server, attributes, &server.resources);
                writer.add(&server.name, &all);
            }
            writer.end()
        } else if shown {
            queues::server_list(&answers.queues, server).into_bytes()
        } else {
            Vec::new()
        };
        Ok(CommandOutput { out, failures })
    }
}

fn unknown_queue(name: &str, queues: &[QueueCounts]) -> Failure {
    let refusal = Refusal::unknown_queue();
    let known: Vec<&str> = queues.iter().map(|queue| &*queue.queue.name).collect();
    Failure::new(refusal.exit_code(), format!("{} {name}", refusal.text))
        .hint(choice(name, "queues", &known))
}

/// Writes to the output and adds an output error to the failures.
fn written(out: &mut dyn Write, text: &[u8], mut failures: Vec<Failure>) -> Vec<Failure> {
    failures.extend(out.write_all(text).err().map(Failure::from));
    failures
}

#[cfg(test)]
mod tests;
