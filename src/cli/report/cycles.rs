//! `qstat --cycles`: the last scheduling cycles and their triggers (Q1, X2). The spool can lack the
//! latest cycles. Therefore a running schedd is queried first, and the spool only if no schedd
//! answers.

use crate::cli::client::exit::Failure;
use crate::cli::client::source::{Answers, QuerySource};
use crate::cli::output::attribute_output;
use crate::cli::output::json::Document;
use crate::cli::output::table::{self, ColumnHead};
use crate::model::trigger::{CycleRecord, Trigger};
use crate::shown::timestamp;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::client::Client;
use crate::wire::message::{Question, ServerFacts};
use serde_json::{Map, Value, json};

const HEADS: [ColumnHead; 7] = [
    ("Cycle", true),
    ("Time", false),
    ("Jobs", true),
    ("Started", true),
    ("Preempted", true),
    ("Duration ms", true),
    ("Trigger", false),
];

/// The recorded cycles, oldest first.
pub fn report(json: bool) -> Result<Vec<u8>, Failure> {
    let home = Home::find()?;
    let answers = match answer_of_schedd(&home) {
        Some(answers) => answers,
        None => QuerySource::open(&home)?.ask(&Question::Cycles)?,
    };
    Ok(if json {
        document(&answers.server, &answers.cycles)
    } else {
        text(&answers.server, &answers.cycles).into_bytes()
    })
}

/// The answer of a running schedd; None if no schedd runs or the query fails.
fn answer_of_schedd(home: &Home) -> Option<Answers> {
    let client = Client::reach(home).ok()?;
    let mut schedd = QuerySource::Schedd(Box::new(client));
    schedd.ask(&Question::Cycles).ok()
}

fn text(server: &ServerFacts, cycles: &[CycleRecord]) -> String {
    if cycles.is_empty() {
        return "No cycles are recorded.\n".to_string();
    }
    let rows = cycles.iter().map(|cycle| {
        [
            cycle.number.to_string(),
            timestamp::ctime(server.clock.wall(cycle.at)).to_string(),
            cycle.considered.to_string(),
            cycle.started.to_string(),
            cycle.preempted.to_string(),
            format!("{:.3}", cycle.took as f64 / 1000.0),
            cycle.triggers.to_string(),
        ]
    });
    table::with_heads(&HEADS, &rows.collect::<Vec<_>>())
}

fn document(server: &ServerFacts, cycles: &[CycleRecord]) -> Vec<u8> {
    let mut document = Document::begin(&attribute_output::preamble(server, clock::wall()));
    document.add_value(
        "Cycles",
        &cycles.iter().map(|cycle| data(server, cycle)).collect(),
    );
    document.end()
}

fn data(server: &ServerFacts, cycle: &CycleRecord) -> Value {
    let triggers = cycle.triggers.first.iter();
    let triggers: Vec<_> = triggers
        .map(|trigger| trigger_data(server, trigger))
        .collect();
    json!({
        "cycle": cycle.number,
        "at": server.clock.wall(cycle.at).0,
        "triggers": triggers,
        "more_triggers": cycle.triggers.more,
        "considered": cycle.considered,
        "started": cycle.started,
        "preempted": cycle.preempted,
        "microseconds": cycle.took,
    })
}

fn trigger_data(server: &ServerFacts, trigger: &Trigger) -> Map<String, Value> {
    let subject = match trigger {
        Trigger::Job(_, job) => Some(("job", job.full(&server.name))),
        other => other.about(),
    };
    let word = ("trigger".to_string(), json!(trigger.word()));
    let subject = subject.map(|(kind, what)| (kind.to_string(), json!(what)));
    std::iter::once(word).chain(subject).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::example::{self, SUBMITTED};
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::trigger::{JobChange, Triggers};

    #[test]
    fn cycles_are_shown_as_table_and_as_json() {
        let first = vec![
            Trigger::SlotFree("n1".into()),
            Trigger::Job(JobChange::Shove, JobId::job(3)),
        ];
        let triggers = Triggers { first, more: 2 };
        let cycle = CycleRecord {
            number: 41,
            at: SUBMITTED,
            triggers,
            considered: 7,
            started: 1,
            preempted: 0,
            took: 1250,
        };
        let server = example::server();
        let text = text(&server, std::slice::from_ref(&cycle));
        let mut lines = text.lines();
        let head = lines.next().unwrap();
        assert_eq!(
            head,
            "Cycle Time                     Jobs Started Preempted Duration ms Trigger"
        );
        let row = lines.nth(1).unwrap();
        assert!(
            row.starts_with("   41 ") && row.contains("    7       1         0       1.250 "),
            "{text}"
        );
        assert!(row.ends_with("slot_free:n1, shove:3 and 2 more"), "{text}");
        let data = data(&server, &cycle);
        assert_eq!(
            data["triggers"][0],
            json!({"trigger": "slot_free", "host": "n1"})
        );
        assert_eq!(
            data["triggers"][1],
            json!({"trigger": "shove", "job": "3.head"})
        );
        assert_eq!(
            (&data["microseconds"], &data["more_triggers"]),
            (&json!(1250), &json!(2))
        );
    }
}
