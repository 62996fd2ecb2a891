//! The conditions of `qselect`: parsing of the options, and the check of each job.

use super::job_selection::OwnerPattern;
use crate::cli::arguments::date;
use crate::cli::client::exit::Failure;
use crate::model::job::state::{Holds, JobState};
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceValue, Resources};
use crate::model::time::{ClockTable, Span, Wall};
use crate::shown::timestamp;
use crate::wire::message::{JobRecord, ServerFacts};
use std::cmp::Ordering;

/// The operator of a comparison: `.eq.`, `.ge.` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `.eq.`
    Equal,
    /// `.ne.`
    NotEqual,
    /// `.ge.`
    AtLeast,
    /// `.gt.`
    More,
    /// `.le.`
    AtMost,
    /// `.lt.`
    Less,
}

impl Operator {
    fn parse(name: &str) -> Option<Operator> {
        Some(match name {
            "eq" => Operator::Equal,
            "ne" => Operator::NotEqual,
            "ge" => Operator::AtLeast,
            "gt" => Operator::More,
            "le" => Operator::AtMost,
            "lt" => Operator::Less,
            _ => return None,
        })
    }

    /// Parses `[.op.]value`; the default operator is `eq`.
    fn split(text: &str) -> Option<(Operator, &str)> {
        match text.strip_prefix('.') {
            None => Some((Operator::Equal, text)),
            Some(rest) => rest
                .split_once('.')
                .and_then(|(name, value)| Some((Operator::parse(name)?, value))),
        }
    }

    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::AtLeast => ordering.is_ge(),
            Operator::More => ordering.is_gt(),
            Operator::AtMost => ordering.is_le(),
            Operator::Less => ordering.is_lt(),
        }
    }
}

/// A condition that qselect itself checks on each job. The query to schedd or the spool already
/// filters by owner name, state, queue, history, and arrays and subjobs.
#[derive(Clone, Debug, PartialEq)]
pub enum JobCondition {
    /// `-u`: owners.
    Owner(Vec<OwnerPattern>),
    /// `-l`: a requested resource.
    Resource(String, Operator, ResourceValue),
    /// `-p`: the priority.
    Priority(Operator, i32),
    /// `-c`: checkpoints, compared in PBS's order of letters.
    Checkpoint(Operator, String),
    /// `-a`, `-t`: a time in the life of a job.
    Moment(Moment, Operator, Wall),
    /// `-t g`: eligible time.
    Eligible(Operator, Span),
    /// `-h`: the displayed holds are exactly these.
    Holds(Holds),
    /// `-r`: rerunnable or not.
    Rerunnable(bool),
    /// `-N`: the job name.
    Name(String),
    /// `-A`: the account.
    Account(String),
    /// `-P`: the project.
    Project(String),
}

/// A time in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// `-a`, `-t a`: earliest start set by the user.
    Begin,
    /// `-t c`: submission.
    Created,
    /// `-t e`: when the job became eligible to run.
    Eligible,
    /// `-t m`: last change.
    Modified,
    /// `-t q`: when the job entered its queue.
    Queued,
    /// `-t s`: start.
    Started,
    /// `-t t`: planned start.
    Promised,
}

/// The failure `qselect: illegal -<letter> value`, with the usage.
pub fn illegal(letter: char) -> Failure {
    Failure::usage(format!("illegal -{letter} value"))
}

/// Parses `-s`, a list of state letters. Letters of PBS states that Lanai does not have are
/// accepted and select nothing.
pub fn states(text: &str) -> Result<Vec<JobState>, Failure> {
    if text.is_empty() || !text.chars().all(|letter| "BEFHMQRSTUWX".contains(letter)) {
        return Err(illegal('s'));
    }
    Ok(text.chars().filter_map(JobState::from_letter).collect())
}

/// Parses `-l`: `res.op.value[,...]`; `res=value` means equal.
pub fn resources(text: &str, known: &Resources) -> Result<Vec<JobCondition>, Failure> {
    text.split(',')
        .map(|part| {
            let (name, operator, value) = resource_parts(part.trim()).ok_or_else(|| {
                Failure::usage(format!("illegal -l value\nresource_list: {text}"))
            })?;
            resource(name, operator, value, known)
        })
        .collect()
}

/// The parts of `res.op.value` or `res=value`.
fn resource_parts(part: &str) -> Option<(&str, Operator, &str)> {
    let (name, rest) = part.split_at(part.find(['.', '='])?);
    let (operator, value) = match rest.strip_prefix('=') {
        Some(value) => (Operator::Equal, value),
        None => Operator::split(rest)?,
    };
    (!name.is_empty() && !value.is_empty()).then_some((name, operator, value))
}

fn resource(
    name: &str,
    operator: Operator,
    value: &str,
    known: &Resources,
) -> Result<JobCondition, Failure> {
    let definition = known
        .get(name)
        .ok_or_else(|| Refusal::unknown_resource(name))?;
    let shown = format!("Resource_List.{name}");
    let value = ResourceValue::parse(definition.kind, value)
        .ok_or_else(|| Refusal::illegal_value(&shown))?;
    Ok(JobCondition::Resource(name.to_string(), operator, value))
}

/// Parses `-p`: `[.op.]number`.
pub fn priority(text: &str) -> Result<JobCondition, Failure> {
    let (operator, value) = Operator::split(text).ok_or_else(|| illegal('p'))?;
    let number = value.parse().map_err(|_| Refusal::illegal_value(""))?;
    Ok(JobCondition::Priority(operator, number))
}

/// Parses `-c`: `[.op.]n|s|c|w|u`, or an interval such as `c=5`.
pub fn checkpoint(text: &str) -> Result<JobCondition, Failure> {
    let (operator, value) = Operator::split(text).ok_or_else(|| illegal('c'))?;
    let known =
        checkpoint_rank(value).is_some() || value.starts_with("c=") || value.starts_with("w=");
    if known {
        Ok(JobCondition::Checkpoint(operator, value.to_string()))
    } else {
        Err(illegal('c'))
    }
}

/// The rank of a checkpoint letter in PBS's order, from the highest: never, at shutdown, at an
/// interval, unspecified.
fn checkpoint_rank(value: &str) -> Option<u8> {
    ["n", "s", "c", "w", "u"]
        .iter()
        .zip([5, 4, 3, 3, 0])
        .find(|(letter, _)| **letter == value)
        .map(|(_, rank)| rank)
}

/// Parses `-a`: `[.op.]date_time`.
pub fn begin(text: &str, now: Wall) -> Result<JobCondition, Failure> {
    let (operator, moment) = Operator::split(text).ok_or_else(|| illegal('a'))?;
    let at = date(moment, now).ok_or_else(|| illegal('a'))?;
    Ok(JobCondition::Moment(Moment::Begin, operator, at))
}

/// Parses `-t`: a letter, then `[.op.]` and a date, or for the letter `g` a duration.
pub fn moment(text: &str, now: Wall) -> Result<JobCondition, Failure> {
    time_condition(text, now).ok_or_else(|| illegal('t'))
}

fn time_condition(text: &str, now: Wall) -> Option<JobCondition> {
    let sub = text.chars().next()?;
    let (operator, value) = Operator::split(&text[sub.len_utf8()..])?;
    if sub == 'g' {
        return Some(JobCondition::Eligible(operator, Span::parse(value)?));
    }
    let moment = match sub {
        'a' => Moment::Begin,
        'c' => Moment::Created,
        'e' => Moment::Eligible,
        'm' => Moment::Modified,
        'q' => Moment::Queued,
        's' => Moment::Started,
        't' => Moment::Promised,
        _ => return None,
    };
    Some(JobCondition::Moment(moment, operator, date(value, now)?))
}

fn date(text: &str, now: Wall) -> Option<Wall> {
    date::parse(text, &timestamp::local(now)?)
}

/// Parses `-h`: letters of holds, or `n`.
pub fn holds(text: &str) -> Result<JobCondition, Failure> {
    Holds::parse(text)
        .map(JobCondition::Holds)
        .ok_or_else(|| illegal('h'))
}

/// Parses `-r`: `y` or `n`.
pub fn rerunnable(text: &str) -> Result<JobCondition, Failure> {
    match text {
        "y" => Ok(JobCondition::Rerunnable(true)),
        "n" => Ok(JobCondition::Rerunnable(false)),
        _ => Err(illegal('r')),
    }
}

impl JobCondition {
    /// True if a job meets the condition. A job without the compared value does not meet it, but a
    /// missing `Checkpoint` counts as `u`.
    pub fn is_met(&self, record: &JobRecord, server: &ServerFacts) -> bool {
        let (job, spec) = (&record.job, &record.job.spec);
        match self {
            JobCondition::Owner(owners) => owners.iter().any(|owner| owner.owns(record)),
            JobCondition::Resource(name, operator, wanted) => {
                let has = spec
                    .request
                    .list
                    .get(name)
                    .and_then(|value| compare(value, wanted));
                has.is_some_and(|ordering| operator.accepts(ordering))
            }
            JobCondition::Priority(operator, number) => operator.accepts(spec.priority.cmp(number)),
            JobCondition::Checkpoint(operator, wanted) => {
                let has = spec.other.get("Checkpoint").map_or("u", String::as_str);
                operator.accepts(compare_checkpoints(has, wanted))
            }
            JobCondition::Moment(moment, operator, wanted) => moment
                .of(record, &server.clock)
                .is_some_and(|at| operator.accepts(at.cmp(wanted))),
            JobCondition::Eligible(operator, wanted) => {
                let has = job.life.eligibility.at(server.now);
                operator.accepts(has.as_seconds().cmp(&wanted.as_seconds()))
            }
            JobCondition::Holds(holds) => job.life.shown_holds() == *holds,
            JobCondition::Rerunnable(rerunnable) => spec.rerunnable == *rerunnable,
            JobCondition::Name(name) => spec.name == *name,
            JobCondition::Account(account) => spec.account.as_ref() == Some(account),
            JobCondition::Project(project) => spec.project == *project,
        }
    }
}

impl Moment {
    fn of(self, record: &JobRecord, clock: &ClockTable) -> Option<Wall> {
        let life = &record.job.life;
        let time = match self {
            Moment::Begin => return record.job.spec.begin,
            Moment::Created => Some(life.ctime),
            Moment::Eligible => life.etime,
            Moment::Modified => Some(life.mtime),
            Moment::Queued => Some(life.qtime),
            Moment::Started => life.run.as_ref().map(|run| run.started),
            Moment::Promised => record.promise.as_ref().map(|promise| promise.at),
        };
        time.map(|time| clock.wall(time))
    }
}

fn compare(has: &ResourceValue, wanted: &ResourceValue) -> Option<Ordering> {
    match (has, wanted) {
        (ResourceValue::Float(has), ResourceValue::Float(wanted)) => has.partial_cmp(wanted),
        _ => match (has.amount(), wanted.amount()) {
            (Some(has), Some(wanted)) => Some(has.cmp(&wanted)),
            _ => Some(has.to_string().cmp(&wanted.to_string())),
        },
    }
}

fn compare_checkpoints(has: &str, wanted: &str) -> Ordering {
    match (checkpoint_rank(has), checkpoint_rank(wanted)) {
        (Some(has), Some(wanted)) if has != wanted => has.cmp(&wanted),
        _ => has.cmp(wanted),
    }
}
