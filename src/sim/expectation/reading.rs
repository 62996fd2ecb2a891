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
struct ClaimKey {
    name: &'static str,
    subject: Subject,
    /// The form of the value, for messages.
    wanted: &'static str,
    read: fn(&DeValue) -> Option<Assertion>,
}

/// Which of the keys `job` and `at` an expected value requires.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    /// A job, whenever.
    Job,
    /// A job at a moment.
    JobAtMoment,
    /// The cluster at a moment.
    Moment,
    /// The whole scenario.
    Course,
}

/// The keys of an `[[expect]]` besides `at` and `job`.
const CLAIMS: &[ClaimKey] = &[
    claim("start", Subject::Job, values::A_MOMENT, |v| {
        Some(Assertion::Start(Some(values::moment(v)?)))
    }),
    claim(
        "starts",
        Subject::Job,
        "a list of times, such as [0, 3600]",
        |v| Some(Assertion::Starts(moments(v)?)),
    ),
    claim("end", Subject::Job, values::A_MOMENT, |v| {
        Some(Assertion::End(values::moment(v)?))
    }),
    claim(
        "nodes",
        Subject::Job,
        "the node of each chunk, such as [\"n1\", \"n1\"], or chunks by node, such as { n1 = 2 }",
        nodes,
    ),
    claim(
        "state",
        Subject::Job,
        "a job state: Q, H, W, R, S, B or F",
        |v| Some(Assertion::State(state(v)?)),
    ),
    claim(
        "stage",
        Subject::JobAtMoment,
        "a stage, such as \"match\" or \"backfill\"",
        |v| Some(Assertion::Stage(stage(v)?)),
    ),
    claim(
        "reason",
        Subject::JobAtMoment,
        "a reason code, such as \"would_delay_booking\"",
        |v| Some(Assertion::Reason(values::words(v)?)),
    ),
    claim(
        "comment",
        Subject::JobAtMoment,
        "a part of the comment",
        |v| Some(Assertion::Comment(values::words(v)?)),
    ),
    claim(
        "booked",
        Subject::JobAtMoment,
        "the planned start, such as 3600, or false for none",
        |v| Some(Assertion::PlannedStart(or_false(v, values::moment)?)),
    ),
    claim(
        "booked_on",
        Subject::JobAtMoment,
        "a list of nodes, such as [\"n1\"]",
        |v| Some(Assertion::PlannedNodes(values::list(values::words)(v)?)),
    ),
    claim(
        "foreseen",
        Subject::JobAtMoment,
        "the predicted start, such as 3600, or false for none",
        |v| Some(Assertion::PredictedStart(or_false(v, values::moment)?)),
    ),
    claim(
        "eligible_time",
        Subject::JobAtMoment,
        "a time, such as 600 or \"10m\"",
        |v| Some(Assertion::EligibleTime(values::moment(v)?)),
    ),
    claim(
        "score",
        Subject::JobAtMoment,
        "a number, such as 40 or 8321.43",
        |v| Some(Assertion::Score(figure(v)?)),
    ),
    claim(
        "never",
        Subject::Job,
        "true; for a job that starts, use `start`",
        |v| (v.as_bool() == Some(true)).then_some(Assertion::Start(None)),
    ),
    claim("via", Subject::Job, "\"backfill\" or \"priority\"", via),
    claim(
        "exit",
        Subject::Job,
        "an exit status, such as 0 or 271",
        |v| Some(Assertion::Exit(values::whole(v)?)),
    ),
    claim(
        "refused",
        Subject::Job,
        "a part of the error message of qsub",
        |v| Some(Assertion::Refused(values::words(v)?)),
    ),
    claim(
        "warned",
        Subject::Job,
        "a part of the messages of qsub or qalter, or false for none",
        |v| Some(Assertion::Warned(or_false(v, values::words)?)),
    ),
    claim(
        "order",
        Subject::Course,
        "a list of jobs, such as [2, 1, 3]",
        |v| Some(Assertion::Order(jobs(v)?)),
    ),
    claim(
        "cycles",
        Subject::Course,
        "a list of times, such as [0, 3600]",
        |v| Some(Assertion::Cycles(moments(v)?)),
    ),
    claim(
        "trigger",
        Subject::Moment,
        "a trigger of the cycle, such as \"shove:3\", a list of triggers, or false for none",
        |v| Some(Assertion::Triggers(triggers(v)?)),
    ),
    claim(
        "running",
        Subject::Moment,
        "a list of jobs, such as [2, 3]",
        |v| Some(Assertion::Running(jobs(v)?)),
    ),
    claim(
        "usage",
        Subject::Moment,
        "usage in seconds by account, such as { P1 = 3600, P2 = 4242.64 }",
        |v| Some(Assertion::Usage(by_name(v, figure)?)),
    ),
    claim(
        "preempted",
        Subject::Job,
        "a number of preemptions, such as 1",
        |v| Some(Assertion::Preempted(values::whole(v)?)),
    ),
    claim(
        "made_way_for",
        Subject::Job,
        "the preempting job, such as 3, or false for none",
        |v| Some(Assertion::Preemptor(or_false(v, values::job)?)),
    ),
    claim(
        "made_way_by",
        Subject::Job,
        "\"requeue\", \"finish\", ...",
        |v| {
            Some(Assertion::PreemptionAction(PreemptAction::named(
                v.as_str()?,
            )?))
        },
    ),
    claim(
        "made_way_because",
        Subject::Job,
        "\"qube\", \"levels\", \"starvation\", ...",
        |v| {
            Some(Assertion::PreemptionCause(PreemptCause::named(
                v.as_str()?,
            )?))
        },
    ),
    claim(
        "in_use",
        Subject::Moment,
        "use and total by resource, such as { nuke = \"20/50\" }",
        |v| Some(Assertion::InUse(by_name(v, values::words)?)),
    ),
];

const fn claim(
    name: &'static str,
    subject: Subject,
    wanted: &'static str,
    read: fn(&DeValue) -> Option<Assertion>,
) -> ClaimKey {
    ClaimKey {
        name,
        subject,
        wanted,
        read,
    }
}

/// Reads all expectations. A scenario without any is refused.
pub fn read_all(root: &Section) -> Result<Vec<Expectation>, ConfigError> {
    let all: Vec<Expectation> = root
        .sections("expect")?
        .iter()
        .map(read)
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        let text =
            "this scenario has no expectation: add an [[expect]], such as job = 1, start = 0";
        Err(root.wrong(text.to_string()))
    } else {
        Ok(all)
    }
}

fn read(section: &Section) -> Result<Expectation, ConfigError> {
    let claimed: Vec<&str> = CLAIMS.iter().map(|claim| claim.name).collect();
    section.only(&[&["at", "job"], &claimed[..]].concat())?;
    let at = section.read("at", values::A_MOMENT, values::moment)?;
    let job = section.read("job", values::A_JOB, values::job)?;
    let mut assertions = Vec::new();
    for (key, value) in section.rest(&["at", "job"]) {
        assertions.extend(read_claim(section, key, value, (at, job))?);
    }
    if assertions.is_empty() {
        Err(section.wrong(format!(
            "this [[expect]] has no expected value: add one of {}",
            claimed.join(", ")
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
fn read_claim(
    section: &Section,
    key: &str,
    value: &LocatedValue,
    (at, job): (Option<Span>, Option<JobId>),
) -> Result<Option<Assertion>, ConfigError> {
    let Some(claim) = CLAIMS.iter().find(|claim| claim.name == key) else {
        return Ok(None);
    };
    let is_of_moment = matches!(claim.subject, Subject::Moment | Subject::JobAtMoment);
    let is_of_job = matches!(claim.subject, Subject::Job | Subject::JobAtMoment);
    if is_of_moment && at.is_none() {
        let text = format!("`{key}` requires a time, such as at = 3600");
        return Err(section.wrong_at(key, text));
    }
    if is_of_job && job.is_none() {
        let text = format!("`{key}` requires a job, such as job = 1");
        return Err(section.wrong_at(key, text));
    }
    match (claim.read)(value.get_ref()) {
        None => Err(section.refuse(key, value, claim.wanted)),
        assertion => Ok(assertion),
    }
}

fn moments(value: &DeValue) -> Option<Vec<Span>> {
    values::list(values::moment)(value)
}

fn jobs(value: &DeValue) -> Option<Vec<JobId>> {
    values::list(values::job)(value)
}

/// A value, or None for `false`.
fn or_false<T>(value: &DeValue, read: fn(&DeValue) -> Option<T>) -> Option<Option<T>> {
    match value.as_bool() {
        Some(false) => Some(None),
        _ => read(value).map(Some),
    }
}

/// A table, entry by entry.
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
        values::list(values::words)(value).map(Assertion::Nodes)
    }
}

fn triggers(value: &DeValue) -> Option<Vec<String>> {
    if value.as_bool() == Some(false) {
        return Some(Vec::new());
    }
    let one = values::words(value).map(|word| vec![word]);
    one.or_else(|| values::list(values::words)(value))
}

/// A number as it is written: its digits determine how exactly it is compared.
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
