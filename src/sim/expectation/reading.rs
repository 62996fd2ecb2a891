//! Reads the `[[expect]]` sections of a scenario.

use super::{Assertion, Expectation};
use crate::config::document::{ConfigError, LocatedValue, Section};
use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::reason::CycleStage;
use crate::model::time::Span;
use crate::sim::scenario::values;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// A key that states an expected value.
struct AssertionKey {
    name: &'static str,
    subject: Subject,
    /// The form of the value, for messages.
    wanted: &'static str,
    read: fn(&DeValue) -> Option<Assertion>,
}

/// The subject of an expected value. It determines which of the keys `job` and `at` are required.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    /// A job: only `job` is required.
    Job,
    /// A job at a time: `job` and `at` are required.
    JobAtMoment,
    /// The cluster at a time: only `at` is required.
    Moment,
    /// The whole scenario: no key is required.
    Scenario,
}

/// The keys of an `[[expect]]` besides `at` and `job`.
const ASSERTION_KEYS: &[AssertionKey] = &[
    assertion_key("start", Subject::Job, values::A_MOMENT, |v| {
        Some(Assertion::Start(Some(values::moment(v)?)))
    }),
    assertion_key(
        "starts",
        Subject::Job,
        "a list of times, such as [0, 3600]",
        |v| Some(Assertion::Starts(moments(v)?)),
    ),
    assertion_key("end", Subject::Job, values::A_MOMENT, |v| {
        Some(Assertion::End(values::moment(v)?))
    }),
    assertion_key(
        "nodes",
        Subject::Job,
        "the node of each chunk, such as [\"n1\", \"n1\"], or the number of chunks on each \
         node, such as { n1 = 2 }",
        nodes,
    ),
    assertion_key(
        "state",
        Subject::Job,
        "a job state: Q, H, W, R, S, B or F",
        |v| Some(Assertion::State(state(v)?)),
    ),
    assertion_key(
        "stage",
        Subject::JobAtMoment,
        "a stage, such as \"match\" or \"backfill\"",
        |v| Some(Assertion::Stage(stage(v)?)),
    ),
    assertion_key(
        "reason",
        Subject::JobAtMoment,
        "a reason code, such as \"would_delay_booking\"",
        |v| Some(Assertion::Reason(values::nonempty_text(v)?)),
    ),
    assertion_key(
        "comment",
        Subject::JobAtMoment,
        "a part of the comment",
        |v| Some(Assertion::Comment(values::nonempty_text(v)?)),
    ),
    assertion_key(
        "booked",
        Subject::JobAtMoment,
        "the planned start, such as 3600, or false for none",
        |v| Some(Assertion::PlannedStart(or_false(v, values::moment)?)),
    ),
    assertion_key(
        "booked_on",
        Subject::JobAtMoment,
        "a list of nodes, such as [\"n1\"]",
        |v| {
            Some(Assertion::PlannedNodes(values::list(
                values::nonempty_text,
            )(v)?))
        },
    ),
    assertion_key(
        "foreseen",
        Subject::JobAtMoment,
        "the predicted start, such as 3600, or false for none",
        |v| Some(Assertion::PredictedStart(or_false(v, values::moment)?)),
    ),
    assertion_key(
        "eligible_time",
        Subject::JobAtMoment,
        "a time, such as 600 or \"10m\"",
        |v| Some(Assertion::EligibleTime(values::moment(v)?)),
    ),
    assertion_key(
        "score",
        Subject::JobAtMoment,
        "a number, such as 40 or 8321.43",
        |v| Some(Assertion::Score(figure(v)?)),
    ),
    assertion_key(
        "never",
        Subject::Job,
        "true; for a job that starts, use `start`",
        |v| (v.as_bool() == Some(true)).then_some(Assertion::Start(None)),
    ),
    assertion_key("via", Subject::Job, "\"backfill\" or \"priority\"", via),
    assertion_key(
        "exit",
        Subject::Job,
        "an exit status, such as 0 or 271",
        |v| Some(Assertion::Exit(values::whole(v)?)),
    ),
    assertion_key(
        "refused",
        Subject::Job,
        "a part of the error message of qsub",
        |v| Some(Assertion::Refused(values::nonempty_text(v)?)),
    ),
    assertion_key(
        "warned",
        Subject::Job,
        "a part of the messages of qsub, qalter or qmove, or false for none",
        |v| Some(Assertion::Warned(or_false(v, values::nonempty_text)?)),
    ),
    assertion_key(
        "order",
        Subject::Scenario,
        "a list of jobs, such as [2, 1, 3]",
        |v| Some(Assertion::Order(jobs(v)?)),
    ),
    assertion_key(
        "cycles",
        Subject::Scenario,
        "a list of times, such as [0, 3600]",
        |v| Some(Assertion::Cycles(moments(v)?)),
    ),
    assertion_key(
        "trigger",
        Subject::Moment,
        "a trigger of the cycle, such as \"shove:3\", a list of triggers, or false for none",
        |v| Some(Assertion::Triggers(triggers(v)?)),
    ),
    assertion_key(
        "running",
        Subject::Moment,
        "a list of jobs, such as [2, 3]",
        |v| Some(Assertion::Running(jobs(v)?)),
    ),
    assertion_key(
        "usage",
        Subject::Moment,
        "usage in seconds by account, such as { P1 = 3600, P2 = 4242.64 }",
        |v| Some(Assertion::Usage(by_name(v, figure)?)),
    ),
    assertion_key(
        "preempted",
        Subject::Job,
        "a number of preemptions, such as 1",
        |v| Some(Assertion::Preempted(values::whole(v)?)),
    ),
    assertion_key(
        "made_way_for",
        Subject::Job,
        "the preempting job, such as 3, or false for none",
        |v| Some(Assertion::Preemptor(or_false(v, values::job)?)),
    ),
    assertion_key(
        "made_way_by",
        Subject::Job,
        "\"requeue\", \"finish\", ...",
        |v| {
            Some(Assertion::PreemptionAction(PreemptAction::named(
                v.as_str()?,
            )?))
        },
    ),
    assertion_key(
        "made_way_because",
        Subject::Job,
        "\"qube\", \"levels\", \"starvation\", ...",
        |v| {
            Some(Assertion::PreemptionCause(PreemptCause::named(
                v.as_str()?,
            )?))
        },
    ),
    assertion_key(
        "in_use",
        Subject::Moment,
        "the used and total amount of resources, such as { nuke = \"20/50\" }",
        |v| Some(Assertion::InUse(by_name(v, values::nonempty_text)?)),
    ),
];

const fn assertion_key(
    name: &'static str,
    subject: Subject,
    wanted: &'static str,
    read: fn(&DeValue) -> Option<Assertion>,
) -> AssertionKey {
    AssertionKey {
        name,
        subject,
        wanted,
        read,
    }
}

/// Reads all expectations. Returns an error for a scenario without expectations.
pub fn read_all(root: &Section) -> Result<Vec<Expectation>, ConfigError> {
    let all: Vec<Expectation> = root
        .sections("expect")?
        .iter()
        .map(read)
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        let text =
            "this scenario has no expectation: add an [[expect]], such as job = 1, start = 0";
        Err(root.section_error(text.to_string()))
    } else {
        Ok(all)
    }
}

fn read(section: &Section) -> Result<Expectation, ConfigError> {
    let names: Vec<&str> = ASSERTION_KEYS.iter().map(|key| key.name).collect();
    section.refuse_unknown(&[&["at", "job"], &names[..]].concat())?;
    let at = section.read("at", values::A_MOMENT, values::moment)?;
    let job = section.read("job", values::A_JOB, values::job)?;
    let mut assertions = Vec::new();
    for (key, value) in section.keys_except(&["at", "job"]) {
        assertions.extend(read_assertion(section, key, value, (at, job))?);
    }
    if assertions.is_empty() {
        Err(section.section_error(format!(
            "this [[expect]] has no expected value: add one of {}",
            names.join(", ")
        )))
    } else {
        Ok(Expectation {
            line: section.line(),
            at,
            job,
            assertions,
        })
    }
}

/// The expected value of a key; None for an unknown key.
fn read_assertion(
    section: &Section,
    key: &str,
    value: &LocatedValue,
    (at, job): (Option<Span>, Option<JobId>),
) -> Result<Option<Assertion>, ConfigError> {
    let Some(expected) = ASSERTION_KEYS.iter().find(|known| known.name == key) else {
        return Ok(None);
    };
    let is_of_moment = matches!(expected.subject, Subject::Moment | Subject::JobAtMoment);
    let is_of_job = matches!(expected.subject, Subject::Job | Subject::JobAtMoment);
    if is_of_moment && at.is_none() {
        let text = format!("`{key}` requires a time, such as at = 3600");
        return Err(section.key_error(key, text));
    }
    if is_of_job && job.is_none() {
        let text = format!("`{key}` requires a job, such as job = 1");
        return Err(section.key_error(key, text));
    }
    match (expected.read)(value.get_ref()) {
        None => Err(section.refuse(key, value, expected.wanted)),
        assertion => Ok(assertion),
    }
}

fn moments(value: &DeValue) -> Option<Vec<Span>> {
    values::list(values::moment)(value)
}

fn jobs(value: &DeValue) -> Option<Vec<JobId>> {
    values::list(values::job)(value)
}

/// Reads a value with `read`. `Some(None)` means the value `false`; None means an invalid value.
fn or_false<T>(value: &DeValue, read: fn(&DeValue) -> Option<T>) -> Option<Option<T>> {
    match value.as_bool() {
        Some(false) => Some(None),
        _ => read(value).map(Some),
    }
}

/// Reads a table, and each of its values with `read`.
fn by_name<T>(value: &DeValue, read: fn(&DeValue) -> Option<T>) -> Option<BTreeMap<String, T>> {
    let mut entries = BTreeMap::new();
    for (name, value) in value.as_table()? {
        entries.insert(name.get_ref().to_string(), read(value.get_ref())?);
    }
    Some(entries)
}

fn nodes(value: &DeValue) -> Option<Assertion> {
    if value.as_table().is_some() {
        by_name(value, values::whole).map(Assertion::Chunks)
    } else {
        values::list(values::nonempty_text)(value).map(Assertion::Nodes)
    }
}

fn triggers(value: &DeValue) -> Option<Vec<String>> {
    if value.as_bool() == Some(false) {
        return Some(Vec::new());
    }
    let one = values::nonempty_text(value).map(|word| vec![word]);
    one.or_else(|| values::list(values::nonempty_text)(value))
}

/// A number as written in the file: the number of digits determines the precision of the
/// comparison.
fn figure(value: &DeValue) -> Option<String> {
    match value {
        DeValue::Integer(_) => values::whole::<i64>(value).map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_string()),
        _ => None,
    }
}

fn state(value: &DeValue) -> Option<JobState> {
    let mut letters = value.as_str()?.chars();
    let state = JobState::from_letter(letters.next()?);
    if letters.next().is_some() {
        return None;
    }
    state
}

fn stage(value: &DeValue) -> Option<CycleStage> {
    serde_json::from_value(serde_json::Value::String(value.as_str()?.to_string())).ok()
}

fn via(value: &DeValue) -> Option<Assertion> {
    match value.as_str()? {
        "backfill" => Some(Assertion::Backfilled(true)),
        "priority" => Some(Assertion::Backfilled(false)),
        _ => None,
    }
}
