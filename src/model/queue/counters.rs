//! How much of what limits count is there, on whose behalf: limits on what is queued hold when a
//! job is submitted (I19, F21, Y24).
//!
//! Counts follow the jobs one by one, so that a submission costs the same whatever the number of
//! those that wait. Where no such limit is set nothing is counted.

pub mod uses;

mod words;

use crate::model::credentials::Credentials;
use crate::model::job::state::JobState;
use crate::model::job::{Job, Spec};
use crate::model::job_id::JobId;
use crate::model::limit::directory::Directory;
use crate::model::limit::{
    Concern, Limit, LimitKey, LimitStage, LimitSubject, Limits, Quantity, Selector,
};
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::resource::{ResourceValue, Resources};
use crate::model::time::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The stages whose limits hold at submission.
const STAGES: [LimitStage; 2] = [LimitStage::Queued, LimitStage::Waiting];

/// The jobs that are not over, as far as limits on what is queued count them.
#[derive(Clone, Debug, Default)]
pub struct JobCounters {
    limits: Limits,
    directories: Vec<Directory>,
    default_walltime: Span,
    /// So wide that no number of jobs overflows: what was added is taken away again to the last.
    sums: BTreeMap<LimitPlace, i128>,
    parties: BTreeMap<Credentials, Arc<CredentialGroup>>,
    jobs: BTreeMap<JobId, CounterEntry>,
}

/// Which job comes into a queue, as far as limits on how many there are go.
#[derive(Clone, Copy, Debug)]
pub enum Comer {
    /// A new one, that will stand so: what is held is not waiting.
    New(JobState),
    /// One that is there, and comes from another queue, or asks for something else than before: it
    /// is held against limits only where it would add to what it adds now.
    Known(JobId),
    /// Likewise one that changes places with another.
    InPlaceOf {
        /// Who comes.
        own: JobId,
        /// Who leaves.
        other: JobId,
    },
}

/// A limit, by its place, and those who count together under it.
type LimitPlace = (usize, LimitKey);

fn place(concern: &Concern) -> LimitPlace {
    (concern.place, concern.key.clone())
}

/// The amount of a resource that a request names, else 0.
fn asked(request: &Request, name: &str) -> i64 {
    request
        .list
        .get(name)
        .and_then(ResourceValue::amount)
        .unwrap_or(0)
}

/// Those whose jobs all go under the same names.
#[derive(Debug)]
struct CredentialGroup {
    who: Credentials,
    concerns: Vec<Concern>,
}

/// What a job adds, limit by limit.
#[derive(Clone, Debug)]
struct CounterEntry {
    party: Arc<CredentialGroup>,
    amounts: Vec<i64>,
    times: JobCount,
}

/// For how many jobs one counts: as many as its elements are.
#[derive(Clone, Copy, Debug)]
struct JobCount {
    /// Of those that are not over.
    all: i64,
    /// Of those that wait.
    waiting: i64,
}

impl JobCount {
    /// As a job stands.
    fn of(job: &Job) -> JobCount {
        let state = job.life.state;
        let Some(elements) = &job.elements else {
            return JobCount {
                all: 1,
                waiting: (state == JobState::Queued).into(),
            };
        };
        let counts = elements.counts();
        let may_start = matches!(state, JobState::Queued | JobState::Begun);
        let waiting = if may_start { counts.waiting } else { 0 };
        JobCount {
            all: i64::from(counts.waiting) + i64::from(counts.begun),
            waiting: waiting.into(),
        }
    }

    /// Of one that is yet to come, and will stand so.
    fn of_new(spec: &Spec, state: JobState) -> JobCount {
        let all = spec.element_count().unwrap_or(1).into();
        JobCount {
            all,
            waiting: if state == JobState::Queued { all } else { 0 },
        }
    }

    fn at(self, stage: LimitStage) -> i64 {
        if stage == LimitStage::Waiting {
            self.waiting
        } else {
            self.all
        }
    }
}

impl CounterEntry {
    /// What it adds at a place.
    fn amount(&self, (place, key): &LimitPlace) -> i64 {
        let mut known = self.party.concerns.iter().zip(&self.amounts);
        known
            .find(|(known, _)| known.place == *place && known.key == *key)
            .map_or(0, |(_, amount)| *amount)
    }
}

impl JobCounters {
    /// Of nobody yet. A job that does not say how long it runs counts as running for
    /// `default_walltime`.
    pub fn new(limits: &Limits, default_walltime: Span) -> JobCounters {
        let is_any = limits.all.iter().any(|limit| STAGES.contains(&limit.stage));
        let limits = if is_any {
            limits.clone()
        } else {
            Limits::default()
        };
        let directories = STAGES.map(|stage| Directory::new(&limits, stage)).to_vec();
        JobCounters {
            limits,
            directories,
            default_walltime,
            ..JobCounters::default()
        }
    }

    /// Whether there is nothing to count.
    pub fn is_idle(&self) -> bool {
        self.limits.all.is_empty()
    }

    /// Whether limits tell groups apart.
    pub fn heeds_groups(&self) -> bool {
        self.limits
            .all
            .iter()
            .any(|limit| limit.scope.group != Selector::All)
    }

    /// Counts a job as it stands now, and no more once it is over. `subject` tells its names.
    pub fn count(&mut self, job: &Job, subject: impl FnOnce(&Credentials) -> LimitSubject) {
        // An element of an array counts with its array.
        if self.is_idle() || job.id.index().is_some() {
            return;
        }
        if job.life.state == JobState::Finished {
            return self.forget(job.id);
        }
        // Before the job leaves it: a party that is dropped is looked up anew.
        let (party, times) = (self.party(job, subject), JobCount::of(job));
        self.forget(job.id);
        let mut amounts = Vec::new();
        for one in &party.concerns {
            let amount = self.amount(&self.limits.all[one.place], &job.spec.request, times);
            *self.sums.entry(place(one)).or_default() += i128::from(amount);
            amounts.push(amount);
        }
        self.jobs.insert(
            job.id,
            CounterEntry {
                party,
                amounts,
                times,
            },
        );
    }

    /// Counts a job no more.
    pub fn forget(&mut self, id: JobId) {
        let Some(CounterEntry { party, amounts, .. }) = self.jobs.remove(&id) else {
            return;
        };
        for (one, amount) in party.concerns.iter().zip(amounts) {
            let place = place(one);
            let Some(sum) = self.sums.get_mut(&place) else {
                continue;
            };
            *sum -= i128::from(amount);
            if *sum == 0 {
                self.sums.remove(&place);
            }
        }
        // Nobody else holds it but the list and this job.
        if Arc::strong_count(&party) == 2 {
            self.parties.remove(&party.who);
        }
    }

    fn party(
        &mut self,
        job: &Job,
        subject: impl FnOnce(&Credentials) -> LimitSubject,
    ) -> Arc<CredentialGroup> {
        let who = Credentials::of(job);
        if let Some(party) = self.parties.get(&who) {
            return party.clone();
        }
        let concerns = self.concerning(&subject(&who));
        let party = Arc::new(CredentialGroup {
            who: who.clone(),
            concerns,
        });
        self.parties.insert(who, party.clone());
        party
    }

    fn concerning(&self, subject: &LimitSubject) -> Vec<Concern> {
        self.directories
            .iter()
            .flat_map(|directory| self.limits.concerning(subject, directory))
            .collect()
    }

    /// What so many jobs of a request add to what a limit counts.
    fn amount(&self, limit: &Limit, request: &Request, times: JobCount) -> i64 {
        self.of_one(&limit.quantity, request)
            .saturating_mul(times.at(limit.stage))
    }

    /// What there is at a place.
    fn sum(&self, place: &LimitPlace) -> i64 {
        self.sums
            .get(place)
            .map_or(0, |sum| i64::try_from(*sum).unwrap_or(i64::MAX))
    }

    /// What one job of a request counts.
    fn of_one(&self, quantity: &Quantity, request: &Request) -> i64 {
        match quantity {
            Quantity::Jobs => 1,
            Quantity::Nodes => asked(request, "nodect"),
            Quantity::Seconds => self.seconds(request),
            Quantity::ProcessorSeconds => {
                asked(request, "ncpus").saturating_mul(self.seconds(request))
            }
            Quantity::Resource(name) => asked(request, name),
            // Measured against a cluster, which is another every day: such limits hold for what
            // runs.
            Quantity::Equivalents => 0,
        }
    }

    /// The walltime of a request in seconds.
    fn seconds(&self, request: &Request) -> i64 {
        let walltime = request.list.get("walltime").and_then(ResourceValue::amount);
        walltime.map_or(self.default_walltime, Span).as_seconds()
    }

    /// Refuses a job that would be one too many in the queue it names, with PBS's words and the
    /// count; tells of soft limits that it passes. One that is there already is held against limits
    /// only where it would add to what it adds now.
    pub fn admit(
        &self,
        comer: Comer,
        spec: &Spec,
        subject: &LimitSubject,
        resources: &Resources,
    ) -> Result<Vec<String>, Refusal> {
        if self.is_idle() {
            return Ok(Vec::new());
        }
        let (own, other) = match comer {
            Comer::New(_) => (None, None),
            Comer::Known(own) => (Some(own), None),
            Comer::InPlaceOf { own, other } => (Some(own), Some(other)),
        };
        let known = own.and_then(|id| self.jobs.get(&id));
        let leaver = other.and_then(|id| self.jobs.get(&id));
        let times = match (known, comer) {
            (Some(entry), _) => entry.times,
            (None, Comer::New(state)) => JobCount::of_new(spec, state),
            (None, _) => JobCount::of_new(spec, JobState::Queued),
        };
        let mut notes = Vec::new();
        for concern in self.concerning(subject) {
            let limit = &self.limits.all[concern.place];
            let place = place(&concern);
            let before = known.map_or(0, |entry| entry.amount(&place));
            let more = self
                .amount(limit, &spec.request, times)
                .saturating_sub(before);
            if more <= 0 {
                continue;
            }
            // If the job already counts here, the other job will count here, too.
            let left = match leaver {
                Some(leaver) if before == 0 => leaver.amount(&place),
                _ => 0,
            };
            let there = self.sum(&place).saturating_sub(left);
            let total = there.saturating_add(more);
            let excess = words::QueuedExcess {
                limit,
                key: &place.1,
                there,
                more,
                queue: &spec.queue,
                resources,
            };
            if let Some(most) = concern.bounds.hard
                && total > most
            {
                return Err(excess.refusal(most));
            }
            if let Some(most) = concern.bounds.soft_limit()
                && total > most
            {
                notes.push(excess.note(most));
            }
        }
        Ok(notes)
    }
}

#[cfg(test)]
mod tests;
