//! How much of what limits count is there, on whose behalf: limits on what is queued hold when a job is submitted
//! (I19, F21, Y24).
//!
//! Counts follow the jobs one by one, so that a submission costs the same whatever the number of those that wait.
//! Where no such limit is set nothing is counted.

pub mod uses;

mod words;

use super::credentials::Credentials;
use super::job::{Job, JobId, Spec};
use super::limit::{Key, Limit, Limits, Quantity, Selector, Stage, Subject};
use super::refusal::Refusal;
use super::resource::{Resources, Value};
use super::select::Request;
use super::state::State;
use super::time::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The stages whose limits hold at submission.
const STAGES: [Stage; 2] = [Stage::Queued, Stage::Waiting];

/// The jobs that are not over, as far as limits on what is queued count them.
#[derive(Clone, Debug, Default)]
pub struct Census {
    limits: Limits,
    default_walltime: Span,
    sums: BTreeMap<Place, i64>,
    parties: BTreeMap<Credentials, Arc<Party>>,
    jobs: BTreeMap<JobId, Entry>,
}

/// A limit, by its place, and those who count together under it.
type Place = (usize, Key);

/// Those whose jobs all go under the same names.
#[derive(Debug)]
struct Party {
    who: Credentials,
    places: Vec<Place>,
}

/// What a job adds, limit by limit.
#[derive(Clone, Debug)]
struct Entry {
    party: Arc<Party>,
    amounts: Vec<i64>,
}

impl Census {
    /// Of nobody yet. A job that does not say how long it runs counts as running for `default_walltime`.
    pub fn new(limits: &Limits, default_walltime: Span) -> Census {
        let is_any = limits.all.iter().any(|limit| STAGES.contains(&limit.stage));
        let limits = if is_any { limits.clone() } else { Limits::default() };
        Census { limits, default_walltime, ..Census::default() }
    }

    /// Whether there is nothing to count.
    pub fn is_idle(&self) -> bool {
        self.limits.all.is_empty()
    }

    /// Whether limits tell groups apart.
    pub fn heeds_groups(&self) -> bool {
        self.limits.all.iter().any(|limit| limit.scope.group != Selector::All)
    }

    /// Counts a job as it stands now, and no more once it is over. `subject` tells its names.
    pub fn count(&mut self, job: &Job, subject: impl FnOnce(&Credentials) -> Subject) {
        // An element of an array counts with its array.
        if self.is_idle() || job.id.index().is_some() {
            return;
        }
        self.forget(job.id);
        if job.life.state == State::Finished {
            return;
        }
        let party = self.party(job, subject);
        let amounts: Vec<i64> =
            party.places.iter().map(|(place, _)| self.amount(&self.limits.all[*place], job)).collect();
        for (place, amount) in party.places.iter().zip(&amounts) {
            *self.sums.entry(place.clone()).or_default() += amount;
        }
        self.jobs.insert(job.id, Entry { party, amounts });
    }

    /// Counts a job no more.
    pub fn forget(&mut self, id: JobId) {
        let Some(Entry { party, amounts }) = self.jobs.remove(&id) else { return };
        for (place, amount) in party.places.iter().zip(amounts) {
            let Some(sum) = self.sums.get_mut(place) else { continue };
            *sum -= amount;
            if *sum == 0 {
                self.sums.remove(place);
            }
        }
        // Nobody else holds it but the list and this job.
        if Arc::strong_count(&party) == 2 {
            self.parties.remove(&party.who);
        }
    }

    fn party(&mut self, job: &Job, subject: impl FnOnce(&Credentials) -> Subject) -> Arc<Party> {
        let who = Credentials::of(job);
        if let Some(party) = self.parties.get(&who) {
            return party.clone();
        }
        let places = self.concerning(&subject(&who));
        let party = Arc::new(Party { who: who.clone(), places });
        self.parties.insert(who, party.clone());
        party
    }

    fn concerning(&self, subject: &Subject) -> Vec<Place> {
        STAGES.into_iter().flat_map(|stage| self.limits.concerning(subject, stage)).collect()
    }

    /// What a job as it stands adds to what a limit counts.
    fn amount(&self, limit: &Limit, job: &Job) -> i64 {
        let (all, waiting) = match &job.elements {
            None => (1, u32::from(job.life.state == State::Queued)),
            Some(elements) => {
                let counts = elements.counts();
                let may_start = matches!(job.life.state, State::Queued | State::Begun);
                (counts.waiting + counts.begun, if may_start { counts.waiting } else { 0 })
            }
        };
        let times = if limit.stage == Stage::Waiting { waiting } else { all };
        self.of_one(&limit.quantity, &job.spec.request).saturating_mul(times.into())
    }

    /// What one job of a request counts.
    fn of_one(&self, quantity: &Quantity, request: &Request) -> i64 {
        let asked = |name: &str| request.list.get(name).and_then(Value::amount);
        let seconds = || asked("walltime").map_or(self.default_walltime, Span).as_seconds();
        match quantity {
            Quantity::Jobs => 1,
            Quantity::Nodes => asked("nodect").unwrap_or(0),
            Quantity::Seconds => seconds(),
            Quantity::ProcessorSeconds => asked("ncpus").unwrap_or(0).saturating_mul(seconds()),
            Quantity::Resource(name) => asked(name).unwrap_or(0),
            // Measured against a cluster, which is another every day: such limits hold for what runs.
            Quantity::Equivalents => 0,
        }
    }

    /// Refuses a job that would be one too many in the queue it names, with PBS's words and the count; tells of
    /// soft limits that it passes. `id`: one that is there already, and comes from another queue.
    pub fn admit(
        &self,
        id: Option<JobId>,
        spec: &Spec,
        subject: &Subject,
        resources: &Resources,
    ) -> Result<Vec<String>, Refusal> {
        if self.is_idle() {
            return Ok(Vec::new());
        }
        let known = id.and_then(|id| self.jobs.get(&id));
        let is_counted = |place: &Place| known.is_some_and(|entry| entry.party.places.contains(place));
        let times = i64::from(spec.array.map_or(1, |indices| indices.count()));
        let mut notes = Vec::new();
        for place in self.concerning(subject).into_iter().filter(|place| !is_counted(place)) {
            let limit = &self.limits.all[place.0];
            let more = self.of_one(&limit.quantity, &spec.request).saturating_mul(times);
            let there = self.sums.get(&place).copied().unwrap_or(0);
            let is_over = |most: Option<i64>| most.filter(|most| more > 0 && there.saturating_add(more) > *most);
            let told = |most| words::Excess { limit, key: &place.1, there, more, most, queue: &spec.queue, resources };
            if let Some(most) = is_over(limit.hard) {
                return Err(told(most).refusal());
            }
            notes.extend(is_over(limit.softly()).map(|most| told(most).note()));
        }
        Ok(notes)
    }
}

#[cfg(test)]
mod tests;
