//! `qselect`: prints the ids of the jobs that meet all conditions, one per line.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure, NO_SERVER};
use crate::cli::client::query::{self, Ask, Feed};
use crate::cli::output::conditions::{self, JobCondition};
use crate::cli::output::job_selection::OwnerPattern;
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;
use crate::model::spelling::choice;
use crate::model::time::Wall;
use crate::sys::clock;
use crate::wire::message::{Arrays, ClientAnswer, Detail, Filter, History, Question, ServerFacts};
use clap::{CommandFactory, Parser};
use std::io::Write;
use std::process::ExitCode;

/// Print the ids of the jobs that satisfy all conditions.
///
/// OP is one of .eq. .ne. .ge. .gt. .le. .lt. (default .eq.).
#[derive(Debug, Default, Parser)]
#[command(
    name = "qselect",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub struct QselectArgs {
    /// Begin time: [[[[CC]YY]MM]DD]hhmm[.SS]
    #[arg(short = 'a', value_name = "[OP]DATE_TIME")]
    begin: Option<String>,
    /// Account of the job
    #[arg(short = 'A', value_name = "ACCOUNT")]
    account: Option<String>,
    /// Checkpoint attribute: n, s, c, w, u, or an interval such as c=5
    #[arg(short = 'c', value_name = "[OP]CHECKPOINT")]
    checkpoint: Option<String>,
    /// Exactly these holds: letters of u o s p, or n
    #[arg(short = 'h', value_name = "HOLDS")]
    holds: Option<String>,
    /// Finished jobs only
    #[arg(short = 'H')]
    finished: bool,
    /// Job arrays only
    #[arg(short = 'J')]
    arrays: bool,
    /// Requested resources, such as ncpus.gt.4,walltime.le.1:00:00
    #[arg(short = 'l', value_name = "RESOURCE.OP.VALUE,...")]
    resources: Option<String>,
    /// Name of the job
    #[arg(short = 'N', value_name = "NAME")]
    name: Option<String>,
    /// Priority of the job
    #[arg(short = 'p', value_name = "[OP]PRIORITY")]
    priority: Option<String>,
    /// Project of the job
    #[arg(short = 'P', value_name = "PROJECT")]
    project: Option<String>,
    /// Queue of the job
    #[arg(short = 'q', value_name = "QUEUE")]
    queue: Option<String>,
    /// Whether the job is rerunnable: y or n
    #[arg(short = 'r', value_name = "y|n")]
    rerunnable: Option<String>,
    /// Job states, as letters such as RQ
    #[arg(short = 's', value_name = "STATES")]
    states: Option<String>,
    /// Time, with a letter for the attribute: a (Execution_Time), c (ctime), e (etime), m (mtime),
    /// q (qtime), s (stime) or t (planned start); or g (eligible_time) with a duration, HH:MM:SS or
    /// seconds. Give -t twice for a range
    #[arg(short = 't', value_name = "MOMENT[OP]DATE_TIME", action = clap::ArgAction::Append)]
    moments: Vec<String>,
    /// Include the subjobs of job arrays
    #[arg(short = 'T')]
    subjobs: bool,
    /// Owners of the jobs
    #[arg(short = 'u', value_name = "USER[@HOST],...")]
    users: Option<String>,
    /// Include finished jobs
    #[arg(short = 'x')]
    history: bool,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    QselectArgs::command()
}

/// Runs qselect.
pub fn main() -> ExitCode {
    exit::run("qselect", command, || {
        let Some(args) = getopt::read::<QselectArgs>(command)? else {
            return Ok(0);
        };
        let now = clock::wall();
        args.conditions(now)?;
        let mut feed = query::feed(|why| query::no_server(why, NO_SERVER))?;
        let mut out = std::io::stdout().lock();
        args.answer(&mut feed, now, &mut out)?;
        out.flush()?;
        Ok(0)
    })
}

impl QselectArgs {
    /// Writes the ids as they are found.
    fn answer(&self, feed: &mut Feed, now: Wall, out: &mut dyn Write) -> Result<(), Failure> {
        let server = query::whole(feed)(&Question::Server)?.server;
        if !server.history && (self.finished || self.history) {
            return Err(Failure::new(0, Refusal::no_history().text));
        }
        let mut conditions = self.conditions(now)?;
        if let Some(text) = &self.resources {
            conditions.extend(conditions::resources(text, &server.resources)?);
        }
        let filter = self.filter(&server, &mut query::whole(feed))?;
        // If `-s` has only letters of PBS states that Lanai does not have, no job is selected.
        if self.states.is_some() && filter.states.is_empty() {
            return Ok(());
        }
        feed(&Question::Jobs(filter, Detail::Whole), &mut |part| {
            let ClientAnswer::Jobs(jobs) = part else {
                return Ok(());
            };
            let mut ids = String::new();
            for record in &jobs {
                if conditions
                    .iter()
                    .all(|condition| condition.is_met(record, &server))
                {
                    ids += &record.job.id.full(&server.name);
                    ids.push('\n');
                }
            }
            Ok(out.write_all(ids.as_bytes())?)
        })
    }

    /// The conditions that can be parsed without the server. `-s` is checked, but gives no
    /// condition: it is a part of the filter that the server applies.
    fn conditions(&self, now: Wall) -> Result<Vec<JobCondition>, Failure> {
        let mut conditions = Vec::new();
        self.states.as_deref().map(conditions::states).transpose()?;
        let read = [
            self.begin
                .as_deref()
                .map(|text| conditions::begin(text, now)),
            self.checkpoint.as_deref().map(conditions::checkpoint),
            self.holds.as_deref().map(conditions::holds),
            self.priority.as_deref().map(conditions::priority),
            self.rerunnable.as_deref().map(conditions::rerunnable),
        ];
        for condition in read.into_iter().flatten() {
            conditions.push(condition?);
        }
        for text in &self.moments {
            conditions.push(conditions::moment(text, now)?);
        }
        if self.users.as_deref().is_some_and(str::is_empty) {
            return Err(Failure::usage("illegal -u value"));
        }
        conditions.extend(
            self.users
                .as_deref()
                .map(|text| JobCondition::Owner(OwnerPattern::parse_list(text))),
        );
        conditions.extend(self.account.clone().map(JobCondition::Account));
        conditions.extend(self.name.clone().map(JobCondition::Name));
        conditions.extend(self.project.clone().map(JobCondition::Project));
        Ok(conditions)
    }

    /// The filter that the server applies.
    fn filter(&self, server: &ServerFacts, ask: &mut Ask) -> Result<Filter, Failure> {
        let history = if self.finished {
            History::Finished
        } else if self.history {
            History::All
        } else {
            History::Live
        };
        let owners = self
            .users
            .as_deref()
            .map(OwnerPattern::parse_list)
            .unwrap_or_default();
        let owners = owners
            .iter()
            .map(|owner| owner.user().to_string())
            .collect();
        let states = self
            .states
            .as_deref()
            .map(conditions::states)
            .transpose()?
            .unwrap_or_default();
        let queues = self.queue(server, ask)?.into_iter().collect();
        Ok(Filter {
            history,
            owners,
            states,
            queues,
            arrays: Arrays::shown(self.arrays, self.subjobs),
            after: None,
        })
    }

    /// Parses `-q`: `queue`, `@server` or `queue@server`; None for all queues.
    fn queue(&self, server: &ServerFacts, ask: &mut Ask) -> Result<Option<String>, Failure> {
        let Some(text) = &self.queue else {
            return Ok(None);
        };
        let (name, host) = text.split_once('@').unwrap_or((text, &server.name));
        if !same_server(host, &server.name) {
            return Err(Failure::unknown_host(host));
        }
        if name.is_empty() {
            return Ok(None);
        }
        let queues = ask(&Question::Queues)?.queues;
        if !queues.iter().any(|counted| counted.queue.name == name) {
            let refusal = Refusal::unknown_queue();
            let text = format!("{} destination", refusal.text);
            let known: Vec<&str> = queues.iter().map(|queue| &*queue.queue.name).collect();
            let hint = format!("{name}: {}", choice(name, "queues", &known));
            return Err(Failure::new(refusal.exit_code(), text).hint(hint));
        }
        Ok(Some(name.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, NOW, System, finished, queued, running, share, with};

    fn system() -> System {
        let notable = with(
            queued(2, "nr", "ncpus=3 walltime=2:00:00 mem=1gb"),
            |spec| {
                spec.priority = 5;
                spec.rerunnable = false;
                spec.account = Some("x".into());
                spec.project = "p".into();
                spec.other.insert("Checkpoint".into(), "c=5".into());
            },
        );
        let mut held = queued(3, "held", "ncpus=1");
        held.job.life.state = crate::model::job::state::JobState::Held;
        held.job.life.holds = crate::model::job::state::Holds::USER;
        held.job.owner.user = "bob".into();
        let over = finished(
            running(queued(4, "over", "ncpus=1"), vec![share(1, None)]),
            0,
            false,
        );
        System {
            jobs: vec![
                running(queued(1, "a", "ncpus=1"), vec![share(1, None)]),
                notable,
                held,
                over,
            ],
            nodes: vec![],
        }
    }

    fn output_of(words: &str) -> Result<String, Failure> {
        let args: QselectArgs = example::parse(command, words)?;
        let mut out = Vec::new();
        args.answer(&mut system().feed(), NOW, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn ids(words: &str) -> String {
        output_of(words)
            .unwrap()
            .lines()
            .map(|id| id.strip_suffix(".head").unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn jobs_that_meet_all_conditions_are_printed() {
        for (words, expected) in [
            ("", "1 2 3"),
            ("-x", "1 2 3 4"),
            ("-H", "4"),
            ("-s R", "1"),
            ("-s HQ", "2 3"),
            ("-s F", ""),
            ("-x -s F", "4"),
            ("-s B", ""),
            ("-u bob", "3"),
            ("-u alice,bob", "1 2 3"),
            ("-u alice@head", "1 2"),
            ("-u alice@other", ""),
            ("-q workq", "1 2 3"),
            ("-q @head", "1 2 3"),
            ("-q workq@head -s R", "1"),
            ("-N nr", "2"),
            ("-N zzz", ""),
            ("-A x", "2"),
            ("-P p", "2"),
            ("-P _pbs_project_default", ""),
            ("-l ncpus.gt.1", "2"),
            ("-l ncpus=3", "2"),
            ("-l ncpus.eq.3,mem.ge.2gb", ""),
            ("-l ncpus.ne.3", "1 3"),
            ("-l walltime.gt.1:00:00", "2"),
            ("-p 0", "1 3"),
            ("-p .gt.0", "2"),
            ("-p .ge.-1", "1 2 3"),
            ("-r n", "2"),
            ("-r y", "1 3"),
            ("-h u", "3"),
            ("-h n", "1 2"),
            ("-c u", "1 3"),
            ("-c c=5", "2"),
            ("-c n", ""),
            ("-a .gt.0001", ""),
            ("-tc.gt.197001010000", "1 2 3"),
            ("-t c.gt.197001010000", "1 2 3"),
            ("-tc.gt.197001010000 -tc.lt.197101010000", ""),
            ("-ts.gt.197001010000", "1"),
            ("-tg.gt.5", ""),
            ("-J", ""),
            ("-T", "1 2 3"),
        ] {
            let words = words
                .replace("_pbs_project_default", "none")
                .replace("-t c", "-tc");
            assert_eq!(ids(&words), expected, "{words}");
        }
    }

    #[test]
    fn errors_have_the_messages_of_pbs() {
        for (words, text) in [
            ("-s Z", "illegal -s value"),
            ("-r x", "illegal -r value"),
            ("-h x", "illegal -h value"),
            ("-a 9999", "illegal -a value"),
            ("-t x", "illegal -t value"),
            ("-c x", "illegal -c value"),
            ("-l ncpus", "illegal -l value\nresource_list: ncpus"),
            (
                "-l ncpus.foo.3",
                "illegal -l value\nresource_list: ncpus.foo.3",
            ),
            ("-y", "invalid option -- 'y'"),
        ] {
            let failure = output_of(words).unwrap_err();
            assert_eq!(
                (failure.text.as_str(), failure.usage, failure.code),
                (text, true, 2),
                "{words}"
            );
        }
        for (words, text, code) in [
            ("-p x", "Illegal attribute or resource value", 166),
            ("-q nosuch", "Unknown queue destination", 170),
            (
                "-l ncpus.eq.x",
                "Illegal attribute or resource value Resource_List.ncpus",
                166,
            ),
            ("-l foo.eq.1", "Unknown resource Resource_List.foo", 187),
        ] {
            let failure = output_of(words).unwrap_err();
            assert_eq!(
                (failure.text.as_str(), failure.usage, failure.code),
                (text, false, code),
                "{words}"
            );
        }
        assert_eq!(output_of("-q @nosuch").unwrap_err().code, 160);
        assert!(output_of("operand").unwrap_err().usage);
    }
}
