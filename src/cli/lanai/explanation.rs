//! The JSON object of `lanai why`, from the explanation of `qstat --why -F json`.
//!
//! The older document has PBS's letters for states, seconds since 1970 for times, and texts for some
//! numbers. Scripts depend on it, so it does not change. This object follows the rules of
//! [`super::document`].

use super::document;
use crate::model::job::state::JobState;
use crate::model::time::Wall;
use serde_json::{Value, json};

/// The explanation of a job.
pub fn data(explanation: &Value) -> Value {
    let estimated = &explanation["estimated"];
    let promise = &explanation["promise"];
    json!({
        "job": explanation["job"],
        "state": state(&explanation["state"]),
        "text": explanation["comment"],
        "reason": reason(&explanation["reason"]),
        "obstacles": list(&explanation["objections"], reason),
        "stages": list(&explanation["stages"], |stage| json!({
            "stage": stage["stage"],
            "verdict": stage["verdict"],
            "code": stage["code"],
            "text": stage["text"],
        })),
        "jobs_ahead": explanation["rank"]["before"],
        "jobs_waiting": explanation["rank"]["waiting"],
        "expected_start": time(&estimated["start"]),
        "earliest_start": time(&estimated["earliest"]),
        "latest_start": time(&estimated["latest"]),
        "run_time": run_time(&explanation["run_time"]),
        "expected_end": time(&estimated["end"]),
        "expected_nodes": list(&estimated["nodes"], Value::clone),
        "planned_start": time(&promise["start"]),
        "first_planned_start": time(&promise["first"]),
        "waits_for": list(&explanation["waits_for"], |occupant| json!({
            "job": occupant["job"],
            "end": time(&occupant["end"]),
            "nodes": occupant["nodes"],
        })),
        "passed_by": list(&explanation["passed_by"], |passed| passed["job"].clone()),
        "limits": list(&explanation["limits"], |limit| json!({
            "limit": limit["limit"],
            "value": limit["value"],
            "used": limit["used"],
            "used_by": limit["by"],
        })),
        "rejecting_nodes": list(&explanation["nodes"]["rejected"], |rejection| json!({
            "code": rejection["code"],
            "text": rejection["text"],
            "count": rejection["nodes"],
            "first_nodes": rejection["named"],
        })),
        "walltime_seconds_to_start_now": explanation["walltime_to_start_now"],
    })
}

/// The predicted run time; null without past jobs like this one.
fn run_time(estimate: &Value) -> Value {
    if estimate.is_null() {
        return Value::Null;
    }
    json!({
        "past_jobs_with_same": estimate["like"],
        "past_jobs": estimate["jobs"],
        "median_seconds": estimate["median"],
        "p90_seconds": estimate["p90"],
        "longest_seconds": estimate["longest"],
    })
}

fn reason(reason: &Value) -> Value {
    if reason.is_null() {
        return Value::Null;
    }
    json!({
        "stage": reason["stage"],
        "code": reason["code"],
        "text": reason["text"],
        "remedies": list(&reason["help"], Value::clone),
    })
}

/// The elements of a list, converted; an empty list if `value` is no list.
fn list(value: &Value, convert: impl Fn(&Value) -> Value) -> Value {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(convert)
        .collect()
}

/// Seconds since 1970 as a time; null if `value` is no number.
fn time(value: &Value) -> Value {
    value
        .as_i64()
        .map_or(Value::Null, |seconds| document::time(Wall(seconds)))
}

/// PBS's letter of a state as a word; a letter without a word stays.
fn state(letter: &Value) -> Value {
    let known = letter
        .as_str()
        .and_then(|text| JobState::from_letter(text.chars().next()?));
    known.map_or_else(
        || letter.clone(),
        |state| {
            let word = match state {
                JobState::Queued => "queued",
                JobState::Held => "held",
                JobState::Waiting => "waiting",
                JobState::Running | JobState::Begun => "running",
                JobState::Suspended => "suspended",
                JobState::Expired | JobState::Finished => "finished",
            };
            word.into()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_null_or_empty() {
        let data = data(&json!({"job": "1.head", "state": "F", "estimated": null}));
        assert_eq!(data["state"], "finished");
        assert_eq!(data["expected_start"], Value::Null);
        assert_eq!(data["waits_for"], json!([]));
        assert_eq!(data["reason"], Value::Null);
    }

    #[test]
    fn times_and_remedies_are_converted() {
        let data = data(&json!({
            "state": "Q",
            "estimated": {"start": 0, "end": 60, "nodes": ["n"]},
            "reason": {"stage": "match", "code": "x", "text": "t", "help": ["wait"]},
        }));
        let start = data["expected_start"].as_str().unwrap();
        assert!(chrono::DateTime::parse_from_rfc3339(start).is_ok());
        assert_eq!(data["reason"]["remedies"], json!(["wait"]));
    }
}
