//! `qsub --dry-run`: checks a job and predicts when and where it starts, without submitting it.

use super::{ask, counted, estimate, nodes};
use crate::cli::client::exit::{self, Failure};
use crate::model::report::outlook::{Explanation, Prospect};
use crate::model::time::Time;
use crate::shown::timestamp;
use crate::sys::home::Home;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::client::Client;
use crate::wire::message::{NewJob, ServerFacts};
use std::fmt::Write as _;

/// Requests a prediction from schedd and prints it. Fails if schedd would refuse the submission.
pub fn run(submission: NewJob, home: &Home) -> Result<u8, Failure> {
    let mut client = Client::connect(home)?;
    let (server, answers) = ask(&mut client, ForecastQuery::Trial(Box::new(submission)))?;
    let (Some(server), Some(ForecastAnswer::Tried { explanation, held })) =
        (server, answers.first())
    else {
        return Err(exit::protocol_error());
    };
    exit::print(prediction_text(explanation, *held, &server))?;
    Ok(0)
}

fn ctime(time: Time, server: &ServerFacts) -> String {
    timestamp::ctime(server.clock.wall(time)).to_string()
}

fn prediction_text(explanation: &Explanation, held: bool, server: &ServerFacts) -> String {
    let mut out = "The job is valid; it was not submitted.\n".to_string();
    let subject = if held {
        "The job would be held; once released, it would"
    } else {
        "The job would"
    };
    let _ = match &explanation.prospect {
        Prospect::Starts {
            at,
            end,
            nodes: names,
        } => {
            let start = if *at <= explanation.horizon.from {
                "now".to_string()
            } else {
                format!("at {}", ctime(*at, server))
            };
            let end = match *end {
                Time::NEVER => "; its end is unknown, because it has no walltime".to_string(),
                end => format!(", and end by {}", ctime(end, server)),
            };
            let range = explanation.range.map_or(String::new(), |range| {
                let now = server.clock.wall(explanation.horizon.from);
                format!(" {}", estimate::range(range, server, now))
            });
            writeln!(
                out,
                "{subject} start {start}{range} on {}{end}.",
                nodes(names)
            )
        }
        Prospect::Waits(_) => writeln!(out, "{subject} not start."),
        Prospect::Unknown(job) => {
            let unknown = estimate::unknown(&job.full(&server.name));
            writeln!(out, "{subject} not start at once; {unknown}.")
        }
        Prospect::Beyond => {
            let horizon = explanation.horizon;
            writeln!(
                out,
                "{subject} not start before {} ({} simulated).",
                ctime(horizon.until, server),
                counted(horizon.cycles, "cycle")
            )
        }
    };
    if let Some(run_time) = &explanation.run_time {
        let _ = writeln!(out, "Run time: {}.", estimate::run_time(run_time));
    }
    if let Some(reason) = &explanation.reason {
        let heading = if explanation.needs_change() {
            "Starts if"
        } else {
            "Sooner if"
        };
        let _ = writeln!(out, "{reason}\n{heading}: {}.", reason.remedy());
    }
    if let Some(walltime) = explanation.shorter {
        let _ = writeln!(
            out,
            "{subject} start immediately with a walltime of at most {walltime}."
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::model::job_id::JobId;
    use crate::model::reason::Reason;
    use crate::model::report::outlook::Horizon;
    use crate::model::time::Time;

    #[test]
    fn a_dry_run_shows_the_start_or_the_reason() {
        let horizon = Horizon {
            from: Time(1000),
            until: Time(5000),
            cycles: 3,
            is_whole: true,
        };
        let starts = |at| Prospect::Starts {
            at: Time(at),
            end: Time(9000),
            nodes: vec!["n1".into()],
        };
        let explanation = |prospect, reason: Option<Reason>| Explanation {
            job: JobId::job(4),
            objections: reason.iter().cloned().collect(),
            reason,
            barriers: vec![],
            rank: None,
            survey: None,
            shorter: None,
            prospect,
            horizon,
            ahead: 0,
            occupants: vec![],
            more: 0,
            overtakers: vec![],
            way: None,
            fair_share: None,
            range: None,
            run_time: None,
        };
        let text = |explanation, held| prediction_text(&explanation, held, &example::server());
        assert!(
            text(explanation(starts(1000), None), false)
                .contains("The job would start now on n1, and end by")
        );
        let later = text(explanation(starts(4000), Some(Reason::NoNodes)), true);
        assert!(
            later.contains("The job would be held; once released, it would start at "),
            "{later}"
        );
        assert!(
            later.contains("Sooner if: a node becomes available"),
            "{later}"
        );
        let never = explanation(
            Prospect::Waits(Reason::QueueStopped),
            Some(Reason::QueueStopped),
        );
        assert!(
            text(never, false)
                .contains("The job would not start.\nNot Running: Queue not started.\nStarts if: the queue is started")
        );
        assert!(text(explanation(Prospect::Beyond, None), false).contains("(3 cycles simulated)"));
    }
}
