//! Compares the expected values of a scenario with the actual values.

use super::{Assertion, Difference, Expectation};
use crate::model::account::decay::total;
use crate::model::job::Job;
use crate::model::job::preemption::JobPreemption;
use crate::model::job_id::JobId;
use crate::model::reason;
use crate::model::time::{Span, Time};
use crate::model::trigger::Triggers;
use crate::sim::world::{PastAttempt, World};
use std::collections::BTreeMap;

/// The state of a scenario at the time of a check.
pub struct ScenarioState<'a> {
    /// The simulated cluster.
    pub world: &'a World,
    /// The beginning of the scenario.
    pub zero: Time,
    /// The messages of refused submissions, by job number.
    pub refused: &'a BTreeMap<u64, String>,
}

/// An expected value, the value found, and whether the expectation is met.
struct Comparison {
    what: &'static str,
    expected: String,
    found: String,
    is_met: bool,
}

/// Compares two values for equality.
fn equal(what: &'static str, expected: String, found: String) -> Comparison {
    Comparison {
        what,
        is_met: expected == found,
        expected,
        found,
    }
}

/// Compares a text with an expected part of the text.
fn containing(what: &'static str, part: &str, found: String) -> Comparison {
    Comparison {
        what,
        is_met: found.contains(part),
        expected: format!("... {part} ..."),
        found,
    }
}

impl Expectation {
    /// The expected values that differ from the actual values.
    pub fn differences(&self, state: &ScenarioState) -> Vec<Difference> {
        let job = self
            .job
            .map_or_else(String::new, |job| format!("job {job}: "));
        let when = self
            .at
            .map_or_else(String::new, |at| format!(" at {}", seconds(at)));
        let mut differences = Vec::new();
        for assertion in &self.assertions {
            let id = self.job.unwrap_or(JobId::job(0));
            let compared = state.compare(assertion, id, self.at.unwrap_or_default());
            if !compared.is_met {
                differences.push(Difference {
                    line: self.line,
                    what: format!("{job}{}{when}", compared.what),
                    expected: compared.expected,
                    found: compared.found,
                });
            }
        }
        differences
    }
}

impl ScenarioState<'_> {
    fn compare(&self, assertion: &Assertion, id: JobId, at: Span) -> Comparison {
        match assertion {
            Assertion::Start(start) => equal("start", or_never(start.map(seconds)), self.start(id)),
            Assertion::Starts(all) => equal("starts", moments(all), moments(&self.starts(id))),
            Assertion::End(end) => equal("end", seconds(*end), self.end(id)),
            Assertion::Nodes(nodes) => equal("nodes", nodes.join(" "), self.nodes(id).join(" ")),
            Assertion::Chunks(chunks) => {
                equal("chunks on each node", counted(chunks), self.chunks(id))
            }
            Assertion::State(state) => equal("state", state.letter().to_string(), self.state(id)),
            Assertion::Stage(stage) => equal("stage", stage.name().to_string(), self.stage(id)),
            Assertion::Reason(code) => equal("reason", code.clone(), or_none(self.why(id))),
            Assertion::Comment(part) => containing("comment", part, self.comment(id)),
            Assertion::PlannedStart(start) => equal(
                "planned start",
                or_none(start.map(seconds)),
                self.planned_start(id),
            ),
            Assertion::PlannedNodes(nodes) => {
                equal("planned nodes", nodes.join(" "), self.planned_nodes(id))
            }
            Assertion::PredictedStart(start) => equal(
                "predicted start",
                or_none(start.map(seconds)),
                self.predicted_start(id),
            ),
            Assertion::EligibleTime(time) => {
                equal("eligible time", seconds(*time), self.eligible_time(id, at))
            }
            Assertion::Score(score) => equal("score", score.clone(), self.score(id, score, at)),
            Assertion::Preempted(times) => {
                let found = self.job(id, |job| Some(job.life.preempted));
                equal("number of preemptions", times.to_string(), found)
            }
            Assertion::Preemptor(to) => {
                let found = self.preemption(id, |preemption| preemption.to);
                equal("preempting job", or_none(*to), found)
            }
            Assertion::PreemptionAction(action) => {
                let found = self.preemption(id, |preemption| Some(preemption.action.name()));
                equal("preemption action", action.name().to_string(), found)
            }
            Assertion::PreemptionCause(cause) => {
                let found = self.preemption(id, |preemption| Some(preemption.cause.name()));
                equal("preemption cause", cause.name().to_string(), found)
            }
            Assertion::Backfilled(is_backfilled) => equal("via", via(*is_backfilled), self.via(id)),
            Assertion::Exit(status) => equal("exit status", status.to_string(), self.exit(id)),
            Assertion::Refused(part) => {
                let found = or_none(self.refused.get(&id.number).cloned());
                containing("refusal", part, found)
            }
            Assertion::Warned(Some(part)) => containing("warning", part, self.notes(id)),
            Assertion::Warned(None) => equal("warning", String::new(), self.notes(id)),
            Assertion::Order(jobs) => equal("order", joined(jobs), self.order(jobs)),
            Assertion::Cycles(all) => equal("cycles", moments(all), self.cycles()),
            Assertion::Triggers(all) => equal("trigger", all.join(", "), self.triggers(at)),
            Assertion::Running(jobs) => equal("running", joined(jobs), self.running()),
            Assertion::InUse(all) => equal("in use", amounts(all), self.in_use(all)),
            Assertion::Usage(all) => equal("usage", amounts(all), self.usage(all, at)),
        }
    }

    /// The attempts of a job.
    fn past(&self, id: JobId) -> Vec<&PastAttempt> {
        let past = self.world.past().iter();
        past.filter(|past| past.job == id).collect()
    }

    fn since(&self, time: Time) -> Span {
        time.since(self.zero)
    }

    fn start(&self, id: JobId) -> String {
        or_never(self.starts(id).first().copied().map(seconds))
    }

    fn starts(&self, id: JobId) -> Vec<Span> {
        let past = self.past(id);
        past.iter().map(|past| self.since(past.start)).collect()
    }

    fn end(&self, id: JobId) -> String {
        let end = self.past(id).last().and_then(|past| past.end);
        or_none(end.map(|end| seconds(self.since(end))))
    }

    /// The nodes of the running attempt, or of the first attempt if none is running.
    fn nodes(&self, id: JobId) -> Vec<String> {
        let past = self.past(id);
        let shown = past.iter().find(|past| past.end.is_none()).or(past.first());
        shown.map_or(Vec::new(), |past| {
            past.shares.iter().map(|share| share.node.clone()).collect()
        })
    }

    fn chunks(&self, id: JobId) -> String {
        let mut chunks = BTreeMap::new();
        for node in self.nodes(id) {
            *chunks.entry(node).or_default() += 1;
        }
        counted(&chunks)
    }

    /// How the first attempt was started.
    fn via(&self, id: JobId) -> String {
        or_never(self.past(id).first().map(|past| via(past.is_backfilled)))
    }

    /// An attribute of a job, as text.
    fn job<T: ToString>(&self, id: JobId, attribute: impl Fn(&Job) -> Option<T>) -> String {
        or_none(self.world.find(id).and_then(attribute))
    }

    /// An attribute of the last preemption of a job, as text.
    fn preemption<T: ToString>(
        &self,
        id: JobId,
        attribute: impl Fn(&JobPreemption) -> Option<T>,
    ) -> String {
        self.job(id, |job| attribute(job.life.preemption.as_ref()?))
    }

    fn state(&self, id: JobId) -> String {
        self.job(id, |job| Some(job.life.state.letter()))
    }

    fn exit(&self, id: JobId) -> String {
        self.job(id, |job| Some(job.life.exit?.status))
    }

    /// The code of the reason why a job waits: the job's state, such as a hold, or otherwise the
    /// verdict of the last cycle.
    fn why(&self, id: JobId) -> Option<String> {
        let own = self.world.ineligible_reason(id).map(str::to_string);
        own.or_else(|| Some(self.world.reason(id)?.code().to_string()))
    }

    fn stage(&self, id: JobId) -> String {
        or_none(self.why(id).map(|code| reason::stage_of(&code).name()))
    }

    fn comment(&self, id: JobId) -> String {
        let own = self.world.find(id).and_then(|job| job.life.comment.clone());
        or_none(own.or_else(|| Some(self.world.reason(id)?.to_string())))
    }

    fn notes(&self, id: JobId) -> String {
        self.world.notes(id).join("; ")
    }

    fn planned_start(&self, id: JobId) -> String {
        let booking = self.world.booking(id);
        or_none(booking.map(|booking| seconds(self.since(booking.at))))
    }

    fn planned_nodes(&self, id: JobId) -> String {
        let booking = self.world.booking(id);
        or_none(booking.map(|booking| booking.nodes.join(" ")))
    }

    fn predicted_start(&self, id: JobId) -> String {
        let start = self.world.predicted_start(id);
        or_none(start.map(|start| seconds(self.since(start))))
    }

    fn eligible_time(&self, id: JobId, at: Span) -> String {
        or_none(self.world.eligible_time(id, self.zero + at).map(seconds))
    }

    /// The priority, with as many decimals as the expected value.
    fn score(&self, id: JobId, expected: &str, at: Span) -> String {
        let score = self.world.score(id, self.zero + at);
        or_none(score.map(|score| rounded(score, digits(expected))))
    }

    /// The given jobs that have started, in the order of their first starts.
    fn order(&self, jobs: &[JobId]) -> String {
        let mut started: Vec<JobId> = Vec::new();
        for past in self.world.past() {
            if jobs.contains(&past.job) && !started.contains(&past.job) {
                started.push(past.job);
            }
        }
        joined(&started)
    }

    fn cycles(&self) -> String {
        let cycles = self.world.cycles().iter();
        let mut times: Vec<Span> = cycles.map(|(now, _)| self.since(*now)).collect();
        times.dedup();
        moments(&times)
    }

    /// The triggers of all cycles that ran at this time, without repetitions; empty if no cycle
    /// ran.
    fn triggers(&self, at: Span) -> String {
        let mut all = Triggers::default();
        for (now, triggers) in self.world.cycles() {
            if self.since(*now) == at {
                for trigger in &triggers.first {
                    all.note(trigger.clone());
                }
            }
        }
        all.to_string()
    }

    fn running(&self) -> String {
        let open = self.world.past().iter().filter(|past| past.end.is_none());
        let mut running: Vec<JobId> = open.map(|past| past.job).collect();
        running.sort_unstable();
        joined(&running)
    }

    /// The amounts in use of these resources, and their totals.
    fn in_use(&self, expected: &BTreeMap<String, String>) -> String {
        let mut found = BTreeMap::new();
        for name in expected.keys() {
            let amounts = self.world.in_use(name);
            let amounts = amounts.map(|(used, total)| format!("{used}/{total}"));
            found.insert(name.clone(), or_none(amounts));
        }
        amounts(&found)
    }

    /// The decayed usage of these accounts, with as many decimals as the expected values.
    fn usage(&self, expected: &BTreeMap<String, String>, at: Span) -> String {
        let usage = self.world.usage();
        let mut found = BTreeMap::new();
        for (account, text) in expected {
            let members = usage.members().filter(|member| member.account == *account);
            let used = total(members.map(|member| usage.decayed(member, self.zero + at)));
            found.insert(account.clone(), rounded(used, digits(text)));
        }
        amounts(&found)
    }
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_string(), |value| value.to_string())
}

fn or_never(value: Option<String>) -> String {
    value.unwrap_or_else(|| "never".to_string())
}

fn via(is_backfilled: bool) -> String {
    if is_backfilled {
        "backfill"
    } else {
        "priority"
    }
    .to_string()
}

/// A duration as seconds, with a fraction unless the fraction is 0.
pub fn seconds(span: Span) -> String {
    match span.0 % 1000 {
        0 => span.as_seconds().to_string(),
        _ => format!("{:.3}", span.0 as f64 / 1000.0)
            .trim_end_matches('0')
            .to_string(),
    }
}

fn moments(times: &[Span]) -> String {
    let times: Vec<String> = times.iter().map(|time| seconds(*time)).collect();
    times.join(" ")
}

fn joined(jobs: &[JobId]) -> String {
    let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    ids.join(" ")
}

fn amounts(all: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = all
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    all.join(" ")
}

fn counted(chunks: &BTreeMap<String, u64>) -> String {
    let chunks: Vec<String> = chunks
        .iter()
        .map(|(node, count)| format!("{node}*{count}"))
        .collect();
    chunks.join(" ")
}

/// The number of digits after the decimal point.
fn digits(text: &str) -> usize {
    text.split_once('.')
        .map_or(0, |(_, fraction)| fraction.len())
}

/// A number with this many digits after the decimal point. A zero has no sign.
fn rounded(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|char| matches!(char, '0' | '.')) => zero.to_string(),
        _ => text,
    }
}
