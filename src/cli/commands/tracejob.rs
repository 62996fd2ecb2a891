//! `tracejob`: prints the history of jobs from their events.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::operand::Operand;
use crate::cli::client::query::{self, Ask};
use crate::cli::output::attribute_output::preamble;
use crate::cli::output::event_text::{self, EventLine, LogSource};
use crate::cli::output::full::printable;
use crate::cli::output::json::Document;
use crate::model::job_id::JobId;
use crate::model::time::{Time, Wall};
use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::timestamp;
use crate::sys::clock;
use crate::wire::message::{Question, ServerFacts};
use clap::{CommandFactory, Parser};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The exit status of all failures.
const FAILED: u8 = 1;

/// PBS's types of log entries: the values of `-f`.
const SORTS: [&str; 13] = [
    "error",
    "system",
    "admin",
    "job",
    "job_usage",
    "security",
    "sched",
    "debug",
    "debug2",
    "resv",
    "debug3",
    "debug4",
    "force",
];

/// The number of columns before the text of a line.
const MARGIN: usize = 26;

/// Show the history of jobs, including finished jobs.
#[derive(Parser, Clone, Debug)]
#[command(name = "tracejob")]
pub struct TracejobArgs {
    /// Omit accounting records: resources requested, allocated and used
    #[arg(short = 'a')]
    accounting: bool,
    /// Omit events of the server, such as requests, dependencies and the end of the job
    #[arg(short = 's')]
    server: bool,
    /// Omit events of the scheduler: starts, changes of the planned start, and why the job waits
    #[arg(short = 'l')]
    scheduler: bool,
    /// Omit events of the nodes: launch, suspension, end and usage of attempts, and failures
    #[arg(short = 'm')]
    nodes: bool,
    /// Accepted for compatibility; has no effect
    #[arg(short = 'v')]
    verbose: bool,
    /// Show all repeated messages, without the limit of -c
    #[arg(short = 'z')]
    excessive: bool,
    /// Maximum number of times that a repeated message is shown
    #[arg(short = 'c', value_name = "count", default_value_t = 15)]
    count: usize,
    /// Number of days to look back
    #[arg(short = 'n', value_name = "days", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Wrap lines at this column (default: no wrapping)
    #[arg(short = 'w', value_name = "columns", value_parser = clap::value_parser!(u32).range(40..))]
    width: Option<u32>,
    /// Omit messages of this type: job, admin, sched, error or job_usage; may be repeated
    #[arg(short = 'f', value_name = "filter_type", action = clap::ArgAction::Append)]
    filters: Vec<String>,
    /// Accepted for compatibility; has no effect, because there are no log files
    #[arg(short = 'p', value_name = "path")]
    path: Option<OsString>,
    /// Output format: json
    #[arg(short = 'F', value_name = "format")]
    format: Option<String>,
    /// Job ids: 12 or 12.server
    #[arg(value_name = "job_identifier", required = true)]
    jobs: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(TracejobArgs::command()).args_override_self(false)
}

/// Runs tracejob. As in PBS, the usage goes to standard output.
pub fn main() -> ExitCode {
    exit::run("tracejob", command, || {
        run().or_else(|failure| {
            if failure.usage {
                exit::print(exit::usage_text("tracejob", command()))?;
            }
            Err(Failure {
                usage: false,
                code: FAILED,
                hints: Vec::new(),
                ..failure
            })
        })
    })
}

fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<TracejobArgs>(command)? else {
        return Ok(0);
    };
    let filters_are_known = args
        .filters
        .iter()
        .all(|word| SORTS.contains(&word.as_str()) || word.parse::<u64>().is_ok());
    if args.format.as_ref().is_some_and(|format| format != "json") || !filters_are_known {
        return Err(Failure::usage(""));
    }
    let mut source = query::source(|why| query::no_server(why, exit::NO_SERVER))?;
    args.answer(&mut source, clock::wall())?
        .print("tracejob", command)
}

/// The history of one job.
struct JobTrace {
    id: String,
    lines: Vec<EventLine>,
}

impl TracejobArgs {
    fn answer(&self, ask: &mut Ask, now: Wall) -> Result<query::CommandOutput, Failure> {
        let server = ask(&Question::Server)?.server;
        let (mut traces, mut failures) = (Vec::new(), Vec::new());
        for word in &self.jobs {
            match self.trace(word, &server, ask, now) {
                Ok(trace) => traces.push(trace),
                Err(failure) => failures.push(failure.with_code(FAILED)),
            }
        }
        let out = match self.format {
            Some(_) => document(&traces, &server, now),
            None => traces
                .iter()
                .map(|trace| self.shown(trace, &server))
                .collect::<String>()
                .into_bytes(),
        };
        Ok(query::CommandOutput { out, failures })
    }

    fn trace(
        &self,
        word: &OsString,
        server: &ServerFacts,
        ask: &mut Ask,
        now: Wall,
    ) -> Result<JobTrace, Failure> {
        let operand = Operand::parse(word)?;
        if let Some(id) = operand.job(&server.name) {
            let lines = self.lines(id, server, ask, now)?;
            if !lines.is_empty() {
                let id = id.full(&server.name);
                return Ok(JobTrace { id, lines });
            }
        }
        let text = format!(
            "Couldn't find Job Id {} in logs of past {}",
            operand.short(),
            self.period_text()
        );
        Err(Failure::new(FAILED, text))
    }

    /// The lines of a job, except those that the options omit; empty for an unknown job.
    fn lines(
        &self,
        id: JobId,
        server: &ServerFacts,
        ask: &mut Ask,
        now: Wall,
    ) -> Result<Vec<EventLine>, Failure> {
        let answers = ask(&Question::Trace(id))?;
        let Some(record) = answers.jobs.first() else {
            return Ok(Vec::new());
        };
        let past = i64::from(self.days) * 86_400;
        let since = Wall(now.0.saturating_sub(past));
        let mut lines =
            event_text::event_lines(record, &answers.events, server, server.clock.time(now));
        lines.retain(|line| server.clock.wall(line.at) >= since && self.is_selected(line));
        if !self.excessive {
            lines = self.without_repetitions(lines);
        }
        Ok(lines)
    }

    fn period_text(&self) -> String {
        if self.days == 1 {
            "1 day".to_string()
        } else {
            format!("{} days", self.days)
        }
    }

    fn is_selected(&self, line: &EventLine) -> bool {
        let is_omitted = match line.source {
            LogSource::Accounting => self.accounting,
            LogSource::Server => self.server,
            LogSource::Scheduler => self.scheduler,
            LogSource::Node => self.nodes,
        };
        !is_omitted && !self.filters.iter().any(|sort| sort == line.sort)
    }

    /// Drops repetitions of a message beyond the count of `-c`. The last shown message states how
    /// many were dropped.
    fn without_repetitions(&self, lines: Vec<EventLine>) -> Vec<EventLine> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in &lines {
            *counts.entry(line.text.clone()).or_default() += 1;
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut kept = Vec::new();
        for mut line in lines {
            let more = counts[&line.text].saturating_sub(self.count);
            let count_so_far = seen.entry(line.text.clone()).or_default();
            *count_so_far += 1;
            if *count_so_far > self.count {
                continue;
            }
            if *count_so_far == self.count && more > 0 {
                let times = if more == 1 { "time" } else { "times" };
                let _ = write!(
                    line.text,
                    " (and {more} more {times}: -z shows all repetitions)"
                );
            }
            kept.push(line);
        }
        kept
    }

    fn shown(&self, trace: &JobTrace, server: &ServerFacts) -> String {
        let mut out = format!("\nJob: {}\n\n", trace.id);
        for line in &trace.lines {
            let (at, letter) = (stamp(line.at, server), line.source.letter());
            let text = printable(&line.text);
            let text = self
                .width
                .map_or(text.clone(), |width| wrapped(&text, width as usize).into());
            let _ = writeln!(out, "{at}  {letter}    {text}");
        }
        out
    }
}

/// The time as `MM/DD/YYYY HH:MM:SS`, local time.
fn stamp(at: Time, server: &ServerFacts) -> String {
    let wall = server.clock.wall(at);
    timestamp::local(wall).map_or(wall.0.to_string(), |at| {
        at.format("%m/%d/%Y %H:%M:%S").to_string()
    })
}

/// The text, broken between words into lines of at most `width` columns, including the margin. A
/// longer word is not broken.
fn wrapped(text: &str, width: usize) -> String {
    let (mut out, mut column) = (String::new(), MARGIN);
    for word in text.split(' ') {
        let length = word.chars().count() + 1;
        if column > MARGIN && column + length > width {
            let _ = write!(out, "\n{:MARGIN$}", "");
            column = MARGIN;
        } else if column > MARGIN {
            out.push(' ');
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn document(traces: &[JobTrace], server: &ServerFacts, now: Wall) -> Vec<u8> {
    let mut document = Document::begin(&preamble(server, now));
    for trace in traces {
        let events = trace.lines.iter().map(|line| {
            serde_json::json!({
                "time": stamp(line.at, server),
                "epoch": server.clock.wall(line.at).0,
                "source": line.source.letter().to_string(),
                "sort": line.sort,
                "event": line.event,
                "text": line.text,
            })
        });
        let mut attributes = Attributes::default();
        attributes.add("events", AttributeDisplay::Data(events.collect()));
        document.add_object("Jobs", &trace.id, &attributes);
    }
    document.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::source::Answers;
    use crate::cli::example::{NOW, SUBMITTED, System, parse, queued};
    use crate::model::job::event::Event;
    use crate::model::time::Span;

    fn trace_of(words: &str, events: Vec<(Time, Event)>) -> (String, Vec<String>) {
        let args: TracejobArgs = parse(command, words).unwrap();
        let system = System {
            jobs: vec![queued(1, "a", "ncpus=1")],
            nodes: vec![],
        };
        let mut source = system.ask();
        let mut ask = |question: &Question| {
            let answers = source(question)?;
            Ok(Answers {
                events: events.clone(),
                ..answers
            })
        };
        let output = args.answer(&mut ask, NOW).unwrap();
        (
            String::from_utf8(output.out).unwrap(),
            output
                .failures
                .into_iter()
                .map(|failure| failure.text)
                .collect(),
        )
    }

    fn signals(count: usize) -> Vec<(Time, Event)> {
        let signalled = Event::Signalled {
            by: "b@h".into(),
            signal: 10,
        };
        vec![(SUBMITTED, signalled); count]
    }

    #[test]
    fn lines_have_the_layout_of_pbs() {
        let at = stamp(SUBMITTED, &crate::cli::example::server());
        let expected =
            format!("\nJob: 1.head\n\n{at}  S    Signal 10 (USR1) sent at request of b@h\n");
        assert_eq!(trace_of("-l 1", signals(1)).0, expected);
        assert_eq!(at.len(), 19);
    }

    /// Users can put control characters into texts that are shown on terminals of other users.
    #[test]
    fn control_characters_are_escaped() {
        let signalled = Event::Signalled {
            by: "b\x1b[31m\n@h".into(),
            signal: 10,
        };
        assert!(
            trace_of("-l 1", vec![(SUBMITTED, signalled)])
                .0
                .ends_with("at request of b^[[31m\\n@h\n")
        );
    }

    #[test]
    fn unknown_jobs_have_the_message_of_pbs() {
        let missing =
            |id: &str, past: &str| format!("Couldn't find Job Id {id} in logs of past {past}");
        assert_eq!(trace_of("9", vec![]).1, [missing("9", "1 day")]);
        assert_eq!(trace_of("-n 3 9", vec![]).1, [missing("9", "3 days")]);
        assert_eq!(trace_of("-sal 1", signals(1)).1, [missing("1", "1 day")]);
        let old = vec![(
            SUBMITTED + Span::seconds(-2 * 86_400),
            signals(1)[0].1.clone(),
        )];
        assert_eq!(trace_of("-l 1", old.clone()).1, [missing("1", "1 day")]);
        assert!(trace_of("-l -n 3 1", old).0.contains("USR1"));
    }

    #[test]
    fn types_of_messages_can_be_omitted_and_repetitions_are_counted() {
        assert_eq!(trace_of("-l -f admin 1", signals(1)).1.len(), 1);
        assert_eq!(trace_of("-l 1", signals(20)).0.matches("USR1").count(), 15);
        assert!(
            trace_of("-l 1", signals(20))
                .0
                .ends_with("(and 5 more times: -z shows all repetitions)\n")
        );
        assert_eq!(trace_of("-lz 1", signals(20)).0.matches("USR1").count(), 20);
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrapped("aa bb cc", 32), format!("aa bb\n{:26}cc", ""));
        assert_eq!(wrapped(&"x".repeat(50), 40), "x".repeat(50));
    }

    #[test]
    fn json_has_the_events_of_each_job() {
        let document: serde_json::Value =
            serde_json::from_str(&trace_of("-l -F json 1", signals(2)).0).unwrap();
        let events = document["Jobs"]["1.head"]["events"].as_array().unwrap();
        assert_eq!(
            (
                events.len(),
                events[1]["event"].as_str(),
                events[1]["source"].as_str()
            ),
            (2, Some("signalled"), Some("S"))
        );
    }
}
