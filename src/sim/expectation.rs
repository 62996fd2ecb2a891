//! `[[expect]]`: what a scenario expects of the scheduler, and how that compares with what came of
//! it.

use super::scenario::values;
use super::world::{Past, World};
use crate::config::document::{ConfigError, LocatedValue, Section};
use crate::model::account::decay::total;
use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job::state::JobState;
use crate::model::job::{Job, NodeShare};
use crate::model::job_id::JobId;
use crate::model::reason::{self, CycleStage};
use crate::model::time::{Span, Time};
use crate::model::trigger::Triggers;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// The keys of an `[[expect]]`: where it looks, then what it may claim.
const KEYS: &[&str] = &[
    "at",
    "job",
    "start",
    "starts",
    "end",
    "nodes",
    "state",
    "stage",
    "reason",
    "comment",
    "booked",
    "booked_on",
    "foreseen",
    "eligible_time",
    "score",
    "never",
    "via",
    "exit",
    "refused",
    "warned",
    "order",
    "cycles",
    "trigger",
    "running",
    "usage",
    "preempted",
    "made_way_for",
    "made_way_by",
    "made_way_because",
    "in_use",
];

/// What is claimed of a moment, not of the whole course.
const OF_A_MOMENT: &[&str] = &[
    "stage",
    "reason",
    "comment",
    "booked",
    "booked_on",
    "foreseen",
    "eligible_time",
    "score",
    "trigger",
    "running",
    "usage",
    "in_use",
];

/// What is claimed of the course, not of one job.
const OF_NO_JOB: &[&str] = &["order", "cycles", "trigger", "running", "usage", "in_use"];

/// Something expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The line in the file.
    pub line: usize,
    /// The moment it is about, from the beginning; None for the whole course.
    pub at: Option<Span>,
    /// The job it is about.
    pub job: Option<JobId>,
    /// What is claimed.
    pub assertions: Vec<Assertion>,
}

/// A claim: about a job unless said.
#[derive(Clone, Debug, PartialEq)]
pub enum Assertion {
    /// Its first start.
    Start(Span),
    /// All its starts.
    Starts(Vec<Span>),
    /// Its last end.
    End(Span),
    /// Its nodes, chunk by chunk.
    Nodes(Vec<String>),
    /// How many chunks it has on which node.
    Chunks(BTreeMap<String, u64>),
    /// Where it stands: PBS's letter.
    State(JobState),
    /// The stage that leaves it waiting.
    Stage(CycleStage),
    /// The code of the reason why it waits.
    Reason(String),
    /// A part of the comment.
    Comment(String),
    /// The start it is promised, if any.
    Booked(Option<Span>),
    /// The nodes it is promised.
    BookedOn(Vec<String>),
    /// The start that `qstat --start` tells, if any.
    Foreseen(Option<Span>),
    /// Its eligible time.
    EligibleTime(Span),
    /// What it is worth under the order while it waits, to as many digits as are given.
    Score(String),
    /// How often it has made way.
    Preempted(u32),
    /// For which job it made way last; None for nobody.
    MadeWayFor(Option<JobId>),
    /// How it did.
    MadeWayBy(PreemptAction),
    /// Why it made way last.
    MadeWayBecause(PreemptCause),
    /// It never starts.
    Never,
    /// Whether it passes a job that was promised a start.
    Backfilled(bool),
    /// Its exit status.
    Exit(i64),
    /// A part of what its submission was refused with.
    Refused(String),
    /// A part of what was said when it was submitted or altered last; None for nothing.
    Warned(Option<String>),
    /// These jobs start in this order; others do not matter.
    Order(Vec<JobId>),
    /// The scheduler looks at these moments and no others.
    Cycles(Vec<Span>),
    /// For these reasons the scheduler looks, first things first; none where it does not look.
    Triggers(Vec<String>),
    /// These jobs run and no others.
    Running(Vec<JobId>),
    /// What is left of what these accounts have used, to as many digits as are given; others do not
    /// matter.
    Usage(BTreeMap<String, String>),
    /// So much of these resources of the whole system is in use or not there, of how much: `20/50`.
    InUse(BTreeMap<String, String>),
}

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The line in the file.
    pub line: usize,
    /// What it is about: `job 3: start`.
    pub what: String,
    /// As expected.
    pub expected: String,
    /// As it was.
    pub found: String,
}

/// Reads all; that there is one at least is a rule of scenarios.
pub fn read_all(root: &Section) -> Result<Vec<Expectation>, ConfigError> {
    let all: Vec<Expectation> = root
        .sections("expect")?
        .iter()
        .map(read)
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        let said = "this scenario expects nothing, so it shows nothing: add an [[expect]], as job = 1, start = 0";
        Err(root.wrong(said.to_string()))
    } else {
        Ok(all)
    }
}

fn read(section: &Section) -> Result<Expectation, ConfigError> {
    section.only(KEYS)?;
    let at = section.read("at", values::A_MOMENT, values::moment)?;
    let job = section.read("job", values::A_JOB, values::job)?;
    let mut assertions = Vec::new();
    for (key, value) in section.rest(&["at", "job"]) {
        if OF_A_MOMENT.contains(&key) && at.is_none() {
            return Err(section.wrong_at(
                key,
                format!("`{key}` is of a moment: say which, as at = 3600"),
            ));
        }
        if !OF_NO_JOB.contains(&key) && job.is_none() {
            return Err(
                section.wrong_at(key, format!("`{key}` is of a job: say which, as job = 1"))
            );
        }
        assertions.push(assertion(section, key, value)?);
    }
    if assertions.is_empty() {
        Err(section.wrong(format!(
            "this [[expect]] claims nothing: add one of {}",
            KEYS[2..].join(", ")
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

fn assertion(section: &Section, key: &str, value: &LocatedValue) -> Result<Assertion, ConfigError> {
    let (assertion, wanted): (fn(&DeValue) -> Option<Assertion>, &str) = match key {
        "start" => (
            |v| values::moment(v).map(Assertion::Start),
            values::A_MOMENT,
        ),
        "starts" => (
            |v| values::list(values::moment)(v).map(Assertion::Starts),
            "a list of moments, as [0, 3600]",
        ),
        "end" => (|v| values::moment(v).map(Assertion::End), values::A_MOMENT),
        "nodes" => (
            nodes,
            "the node of each chunk, as [\"n1\", \"n1\"], or chunks by node, as { n1 = 2 }",
        ),
        "state" => (
            |v| state(v).map(Assertion::State),
            "a letter of PBS's: Q, H, W, R, S, B or F",
        ),
        "stage" => (
            |v| stage(v).map(Assertion::Stage),
            "a stage, as \"match\" or \"backfill\"",
        ),
        "reason" => (
            |v| values::words(v).map(Assertion::Reason),
            "the code of a reason, as \"would_delay_booking\"",
        ),
        "comment" => (
            |v| values::words(v).map(Assertion::Comment),
            "a part of the comment",
        ),
        "booked" => (
            |v| start_or_none(v).map(Assertion::Booked),
            "the start promised, as 3600, or false for none",
        ),
        "foreseen" => (
            |v| start_or_none(v).map(Assertion::Foreseen),
            "the start foreseen, as 3600, or false for none",
        ),
        "booked_on" => (
            |v| values::list(values::words)(v).map(Assertion::BookedOn),
            "a list of nodes, as [\"n1\"]",
        ),
        "eligible_time" => (
            |v| values::moment(v).map(Assertion::EligibleTime),
            "a time, as 600 or \"10m\"",
        ),
        "score" => (
            |v| figure(v).map(Assertion::Score),
            "a number, as 40 or 8321.43",
        ),
        "never" => (
            |v| {
                values::boolean(v)
                    .filter(|never| *never)
                    .map(|_| Assertion::Never)
            },
            "true: else say when it starts",
        ),
        "via" => (
            |v| via(v).map(Assertion::Backfilled),
            "\"backfill\" or \"priority\"",
        ),
        "exit" => (
            |v| values::whole(v).map(Assertion::Exit),
            "an exit status, as 0 or 271",
        ),
        "refused" => (
            |v| values::words(v).map(Assertion::Refused),
            "a part of what qsub says",
        ),
        "warned" => (
            warned,
            "a part of what qsub or qalter says, or false for nothing",
        ),
        "order" => (
            |v| values::list(values::job)(v).map(Assertion::Order),
            "a list of jobs, as [2, 1, 3]",
        ),
        "preempted" => (
            |v| values::whole(v).map(Assertion::Preempted),
            "a number of times, as 1",
        ),
        "made_way_for" => (made_way_for, "a job, as 3, or false for nobody"),
        "made_way_by" => (
            |v| PreemptAction::named(v.as_str()?).map(Assertion::MadeWayBy),
            "\"requeue\", \"finish\", ...",
        ),
        "made_way_because" => (
            |v| PreemptCause::named(v.as_str()?).map(Assertion::MadeWayBecause),
            "\"qube\", \"levels\", \"starvation\", ...",
        ),
        "cycles" => (
            |v| values::list(values::moment)(v).map(Assertion::Cycles),
            "a list of moments, as [0, 3600]",
        ),
        "trigger" => (
            triggers,
            "why the scheduler looks, as \"shove:3\", or a list of such, or false",
        ),
        "in_use" => (
            in_use,
            "what is in use of how much by resource, as { nuke = \"20/50\" }",
        ),
        "usage" => (
            usage,
            "seconds that count by account, as { P1 = 3600, P2 = 4242.64 }",
        ),
        _ => (
            |v| values::list(values::job)(v).map(Assertion::Running),
            "a list of jobs, as [2, 3]",
        ),
    };
    assertion(value.get_ref()).ok_or_else(|| section.refuse(key, value, wanted))
}

fn nodes(value: &DeValue) -> Option<Assertion> {
    if let Some(table) = value.as_table() {
        let count = |(node, count): (&toml::Spanned<_>, &toml::Spanned<_>)| {
            let node: &std::borrow::Cow<str> = node.get_ref();
            Some((node.to_string(), values::whole(count.get_ref())?))
        };
        return table
            .iter()
            .map(count)
            .collect::<Option<_>>()
            .map(Assertion::Chunks);
    }
    values::list(values::words)(value).map(Assertion::Nodes)
}

fn warned(value: &DeValue) -> Option<Assertion> {
    match value.as_bool() {
        Some(false) => Some(Assertion::Warned(None)),
        _ => values::words(value).map(|part| Assertion::Warned(Some(part))),
    }
}

fn triggers(value: &DeValue) -> Option<Assertion> {
    match value.as_bool() {
        Some(false) => Some(Assertion::Triggers(Vec::new())),
        _ => {
            let one = values::words(value).map(|word| vec![word]);
            one.or_else(|| values::list(values::words)(value))
                .map(Assertion::Triggers)
        }
    }
}

/// A number as it is written, so that it tells how many digits are meant.
fn figure(value: &DeValue) -> Option<String> {
    match value {
        DeValue::Integer(_) => values::whole::<i64>(value).map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_string()),
        _ => None,
    }
}

fn usage(value: &DeValue) -> Option<Assertion> {
    let account = |(account, value): (&toml::Spanned<_>, &toml::Spanned<_>)| {
        let account: &std::borrow::Cow<str> = account.get_ref();
        Some((account.to_string(), figure(value.get_ref())?))
    };
    value
        .as_table()?
        .iter()
        .map(account)
        .collect::<Option<_>>()
        .map(Assertion::Usage)
}

fn in_use(value: &DeValue) -> Option<Assertion> {
    let resource = |(name, of): (&toml::Spanned<_>, &toml::Spanned<_>)| {
        let name: &std::borrow::Cow<str> = name.get_ref();
        Some((name.to_string(), values::words(of.get_ref())?))
    };
    value
        .as_table()?
        .iter()
        .map(resource)
        .collect::<Option<_>>()
        .map(Assertion::InUse)
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

fn start_or_none(value: &DeValue) -> Option<Option<Span>> {
    match value.as_bool() {
        Some(false) => Some(None),
        Some(true) => None,
        None => values::moment(value).map(Some),
    }
}

fn made_way_for(value: &DeValue) -> Option<Assertion> {
    match value.as_bool() {
        Some(false) => Some(Assertion::MadeWayFor(None)),
        _ => values::job(value).map(|job| Assertion::MadeWayFor(Some(job))),
    }
}

fn via(value: &DeValue) -> Option<bool> {
    match value.as_str()? {
        "backfill" => Some(true),
        "priority" => Some(false),
        _ => None,
    }
}

/// What came of a scenario, or has come so far.
pub struct Course<'a> {
    /// The world as it stands.
    pub world: &'a World,
    /// Its beginning.
    pub zero: Time,
    /// What submissions were refused with, by the number of the job.
    pub refused: &'a BTreeMap<u64, String>,
}

impl Expectation {
    /// What of it was not met.
    pub fn differences(&self, course: &Course) -> Vec<Difference> {
        let difference = |assertion: &Assertion| {
            let (what, expected, found) = course.compare(assertion, self.job, self.at)?;
            let subject = self
                .job
                .map(|job| format!("job {job}: "))
                .unwrap_or_default();
            let when = self
                .at
                .map(|at| format!(" at {}", seconds(at)))
                .unwrap_or_default();
            Some(Difference {
                line: self.line,
                what: format!("{subject}{what}{when}"),
                expected,
                found,
            })
        };
        self.assertions.iter().filter_map(difference).collect()
    }
}

impl Course<'_> {
    /// What a claim is about, as expected and as found; None when both are the same.
    fn compare(
        &self,
        assertion: &Assertion,
        job: Option<JobId>,
        at: Option<Span>,
    ) -> Option<(&'static str, String, String)> {
        let id = job.unwrap_or(JobId::job(0));
        let (what, expected, found) = match assertion {
            Assertion::Start(at) => (
                "start",
                seconds(*at),
                self.starts(id)
                    .first()
                    .copied()
                    .map(seconds)
                    .unwrap_or_else(never),
            ),
            Assertion::Starts(all) => ("starts", listed(all), listed(&self.starts(id))),
            Assertion::End(at) => ("end", seconds(*at), self.end(id)),
            Assertion::Nodes(nodes) => ("nodes", nodes.join(" "), self.nodes(id).join(" ")),
            Assertion::Chunks(chunks) => (
                "chunks by node",
                counted(chunks),
                counted(&chunks_of(&self.nodes(id))),
            ),
            Assertion::State(state) => ("state", state.letter().to_string(), self.state(id)),
            Assertion::Stage(stage) => (
                "stage",
                named(*stage),
                self.why(id)
                    .map_or_else(none, |code| named(reason::stage_of(&code))),
            ),
            Assertion::Reason(code) => ("reason", code.clone(), self.why(id).unwrap_or_else(none)),
            Assertion::Comment(part) => return differs("comment", part, self.comment(id)),
            Assertion::Booked(at) => (
                "promised start",
                at.map_or_else(none, seconds),
                self.booked(id),
            ),
            Assertion::BookedOn(nodes) => ("promised nodes", nodes.join(" "), self.booked_on(id)),
            Assertion::Foreseen(at) => (
                "foreseen start",
                at.map_or_else(none, seconds),
                self.foreseen(id),
            ),
            Assertion::EligibleTime(time) => (
                "eligible time",
                seconds(*time),
                self.eligible_time(id, at.unwrap_or_default()),
            ),
            Assertion::Score(score) => (
                "score",
                score.clone(),
                self.score(id, score, at.unwrap_or_default()),
            ),
            Assertion::Never => (
                "start",
                never(),
                self.starts(id)
                    .first()
                    .copied()
                    .map(seconds)
                    .unwrap_or_else(never),
            ),
            Assertion::Preempted(times) => (
                "times it has made way",
                times.to_string(),
                self.job(id, |job| Some(job.life.preempted)),
            ),
            Assertion::MadeWayFor(to) => {
                let found = self.job(id, |job| job.life.preemption.as_ref()?.to);
                (
                    "job it made way for",
                    to.map_or_else(none, |to| to.to_string()),
                    found,
                )
            }
            Assertion::MadeWayBy(action) => {
                let found = self.job(id, |job| Some(job.life.preemption.as_ref()?.action.name()));
                ("way it made way", action.name().to_string(), found)
            }
            Assertion::MadeWayBecause(cause) => {
                let found = self.job(id, |job| Some(job.life.preemption.as_ref()?.cause.name()));
                ("reason it made way", cause.name().to_string(), found)
            }
            Assertion::Backfilled(backfilled) => (
                "via",
                way(*backfilled),
                self.past(id)
                    .first()
                    .map_or_else(never, |past| way(past.is_backfilled)),
            ),
            Assertion::Exit(status) => ("exit status", status.to_string(), self.exit(id)),
            Assertion::Refused(part) => {
                return differs(
                    "refusal",
                    part,
                    self.refused.get(&id.number).cloned().unwrap_or_else(none),
                );
            }
            Assertion::Warned(Some(part)) => {
                return differs("warning", part, self.world.notes(id).join("; "));
            }
            Assertion::Warned(None) => ("warning", String::new(), self.world.notes(id).join("; ")),
            Assertion::Order(jobs) => ("order", ids(jobs), self.order(jobs)),
            Assertion::Cycles(all) => ("cycles", listed(all), self.cycles()),
            Assertion::Triggers(all) => (
                "trigger",
                all.join(", "),
                self.triggers(at.unwrap_or_default()),
            ),
            Assertion::Running(jobs) => ("running", ids(jobs), self.running()),
            Assertion::InUse(all) => ("in use", amounts(all), amounts(&self.in_use(all))),
            Assertion::Usage(all) => (
                "usage",
                amounts(all),
                amounts(&self.usage(all, at.unwrap_or_default())),
            ),
        };
        (expected != found).then_some((what, expected, found))
    }

    fn past(&self, id: JobId) -> Vec<&Past> {
        self.world
            .past()
            .iter()
            .filter(|past| past.job == id)
            .collect()
    }

    /// Something of a job, in words.
    fn job<T: ToString>(&self, id: JobId, of: impl Fn(&Job) -> Option<T>) -> String {
        self.world
            .find(id)
            .and_then(of)
            .map_or_else(none, |found| found.to_string())
    }

    fn since(&self, time: Time) -> Span {
        time.since(self.zero)
    }

    /// The name of why a job waits: what bars it as it stands, else what the scheduler has said.
    fn why(&self, id: JobId) -> Option<String> {
        let barred = self.world.barred_by(id).map(str::to_string);
        barred.or_else(|| {
            self.world
                .reason(id)
                .map(|reason| reason.code().to_string())
        })
    }

    fn starts(&self, id: JobId) -> Vec<Span> {
        self.past(id)
            .iter()
            .map(|past| self.since(past.start))
            .collect()
    }

    fn end(&self, id: JobId) -> String {
        let end = self.past(id).last().and_then(|past| past.end);
        end.map_or_else(|| "none".to_string(), |end| seconds(self.since(end)))
    }

    /// Those of the attempt that runs, else of the first.
    fn nodes(&self, id: JobId) -> Vec<String> {
        let past = self.past(id);
        let shown = past.iter().find(|past| past.end.is_none()).or(past.first());
        shown.map_or(Vec::new(), |past| {
            past.shares
                .iter()
                .map(|share: &NodeShare| share.node.clone())
                .collect()
        })
    }

    fn state(&self, id: JobId) -> String {
        self.world
            .find(id)
            .map_or_else(none, |job| job.life.state.letter().to_string())
    }

    fn exit(&self, id: JobId) -> String {
        let exit = self.world.find(id).and_then(|job| job.life.exit);
        exit.map_or_else(none, |exit| exit.status.to_string())
    }

    fn comment(&self, id: JobId) -> String {
        let own = self.world.find(id).and_then(|job| job.life.comment.clone());
        own.or_else(|| self.world.reason(id).map(ToString::to_string))
            .unwrap_or_else(none)
    }

    fn booked(&self, id: JobId) -> String {
        self.world
            .booking(id)
            .map_or_else(none, |booking| seconds(self.since(booking.at)))
    }

    fn foreseen(&self, id: JobId) -> String {
        self.world
            .foreseen(id)
            .map_or_else(none, |at| seconds(self.since(at)))
    }

    fn eligible_time(&self, id: JobId, at: Span) -> String {
        self.world
            .eligible_time(id, self.zero + at)
            .map_or_else(none, seconds)
    }

    /// To as many digits as are expected.
    fn score(&self, id: JobId, expected: &str, at: Span) -> String {
        let score = self.world.score(id, self.zero + at);
        score.map_or_else(none, |score| rounded(score, digits(expected)))
    }

    fn booked_on(&self, id: JobId) -> String {
        self.world
            .booking(id)
            .map_or_else(none, |booking| booking.nodes.join(" "))
    }

    fn order(&self, jobs: &[JobId]) -> String {
        let mut started: Vec<JobId> = Vec::new();
        for past in self
            .world
            .past()
            .iter()
            .filter(|past| jobs.contains(&past.job))
        {
            if !started.contains(&past.job) {
                started.push(past.job);
            }
        }
        ids(&started)
    }

    fn cycles(&self) -> String {
        let mut moments: Vec<Span> = self
            .world
            .cycles()
            .iter()
            .map(|(now, _)| self.since(*now))
            .collect();
        moments.dedup();
        listed(&moments)
    }

    /// Why the scheduler looked at a moment, each reason once.
    fn triggers(&self, at: Span) -> String {
        let mut all = Triggers::default();
        let then = self
            .world
            .cycles()
            .iter()
            .filter(|(now, _)| self.since(*now) == at);
        then.flat_map(|(_, triggers)| &triggers.first)
            .for_each(|trigger| all.note(trigger.clone()));
        all.to_string()
    }

    /// What is left of what each of these accounts has used, to as many digits as are expected.
    fn usage(&self, expected: &BTreeMap<String, String>, at: Span) -> BTreeMap<String, String> {
        let usage = self.world.usage();
        let left = |account: &str| -> f64 {
            let members = usage.members().filter(|member| member.account == account);
            total(members.map(|member| usage.decayed(member, self.zero + at)))
        };
        let shown = |(account, text): (&String, &String)| {
            (account.clone(), rounded(left(account), digits(text)))
        };
        expected.iter().map(shown).collect()
    }

    /// What of these resources is in use, of how much.
    fn in_use(&self, expected: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let shown = |name: &String| {
            self.world
                .in_use(name)
                .map_or_else(none, |(used, total)| format!("{used}/{total}"))
        };
        expected
            .keys()
            .map(|name| (name.clone(), shown(name)))
            .collect()
    }

    fn running(&self) -> String {
        let mut running: Vec<JobId> = self
            .world
            .past()
            .iter()
            .filter(|past| past.end.is_none())
            .map(|past| past.job)
            .collect();
        running.sort_unstable();
        ids(&running)
    }
}

fn amounts(all: &BTreeMap<String, String>) -> String {
    all.iter()
        .map(|(account, seconds)| format!("{account}={seconds}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many digits a number has behind its point.
fn digits(text: &str) -> usize {
    text.split_once('.')
        .map_or(0, |(_, fraction)| fraction.len())
}

/// A number with this many digits behind its point. A zero has no sign, whatever it was rounded
/// from.
fn rounded(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|char| matches!(char, '0' | '.')) => zero.to_string(),
        _ => text,
    }
}

fn differs(
    what: &'static str,
    part: &str,
    found: String,
) -> Option<(&'static str, String, String)> {
    (!found.contains(part)).then(|| (what, format!("... {part} ..."), found))
}

/// Seconds, with a fraction if there is one.
pub fn seconds(span: Span) -> String {
    match span.0 % 1000 {
        0 => span.as_seconds().to_string(),
        _ => format!("{:.3}", span.0 as f64 / 1000.0)
            .trim_end_matches('0')
            .to_string(),
    }
}

fn never() -> String {
    "never".to_string()
}

fn none() -> String {
    "none".to_string()
}

fn way(is_backfilled: bool) -> String {
    if is_backfilled {
        "backfill"
    } else {
        "priority"
    }
    .to_string()
}

fn named(stage: CycleStage) -> String {
    stage.name().to_string()
}

fn listed(moments: &[Span]) -> String {
    moments
        .iter()
        .map(|at| seconds(*at))
        .collect::<Vec<_>>()
        .join(" ")
}

fn ids(jobs: &[JobId]) -> String {
    jobs.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

fn chunks_of(nodes: &[String]) -> BTreeMap<String, u64> {
    let mut chunks = BTreeMap::new();
    nodes
        .iter()
        .for_each(|node| *chunks.entry(node.clone()).or_default() += 1);
    chunks
}

fn counted(chunks: &BTreeMap<String, u64>) -> String {
    chunks
        .iter()
        .map(|(node, count)| format!("{node}*{count}"))
        .collect::<Vec<_>>()
        .join(" ")
}
