//! Counters for limits on queued jobs, which are checked when a job is submitted, moved or altered
//! (I19, F21, Y24).
//!
//! Counters are updated job by job. The cost of a submission therefore does not depend on the
//! number of waiting jobs. If no limit on queued jobs is configured, nothing is counted.

pub mod uses;

mod words;

use crate::model::credentials::Credentials;
use crate::model::job::state::JobState;
use crate::model::job::{Job, Spec};
use crate::model::job_id::JobId;
use crate::model::limit::directory::Directory;
use crate::model::limit::{
    ApplicableLimit, Limit, LimitKey, LimitStage, LimitSubject, Limits, Quantity, Selector,
};
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::resource::{ResourceValue, Resources};
use crate::model::time::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stages of the limits on queued jobs.
const STAGES: [LimitStage; 2] = [LimitStage::Queued, LimitStage::Waiting];

/// Counters over unfinished jobs for limits on queued jobs.
#[derive(Clone, Debug, Default)]
pub struct JobCounters {
    limits: Limits,
    directories: Vec<Directory>,
    default_walltime: Span,
    /// Sums by limit and key. An `i128` cannot overflow, so subtracting the amount of a removed job
    /// always gives the exact sum of the other jobs.
    sums: BTreeMap<LimitPlace, i128>,
    credential_groups: BTreeMap<Credentials, Arc<CredentialGroup>>,
    jobs: BTreeMap<JobId, CounterEntry>,
}

/// Job that enters a queue, for the check of limits.
#[derive(Clone, Copy, Debug)]
pub enum EnteringJob {
    /// New job with this state; only a job in state `Q` counts as waiting.
    New(JobState),
    /// Existing job from another queue, or with a changed request. Limits are checked only where
    /// the amount of the job increases.
    Known(JobId),
    /// Existing job that swaps places with another job.
    InPlaceOf {
        /// Job that enters.
        own: JobId,
        /// Job that leaves.
        other: JobId,
    },
}

/// Index of a limit, and the key under which jobs count together.
type LimitPlace = (usize, LimitKey);

fn place(concern: &ApplicableLimit) -> LimitPlace {
    (concern.place, concern.key.clone())
}

/// Returns the requested amount of a resource; 0 if not requested.
fn requested_amount(request: &Request, name: &str) -> i64 {
    request
        .list
        .get(name)
        .and_then(ResourceValue::amount)
        .unwrap_or(0)
}

/// Jobs with equal credentials, and the limits that apply to them.
#[derive(Debug)]
struct CredentialGroup {
    who: Credentials,
    concerns: Vec<ApplicableLimit>,
}

/// Amounts that a job adds to the limits that apply to it, in the order of `concerns`.
#[derive(Clone, Debug)]
struct CounterEntry {
    group: Arc<CredentialGroup>,
    amounts: Vec<i64>,
    times: JobCount,
}

/// Number of jobs that a job counts as: 1, or the number of unfinished subjobs of an array.
#[derive(Clone, Copy, Debug)]
struct JobCount {
    /// Unfinished jobs.
    all: i64,
    /// Jobs that count as waiting: 0 unless the job is in state `Q`, or is an array in state `B`.
    waiting: i64,
}

impl JobCount {
    /// Returns the counts of an existing job.
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

    /// Returns the counts of a new job that will have the state `state`.
    fn of_new(spec: &Spec, state: JobState) -> JobCount {
        let all = spec.subjob_count().unwrap_or(1).into();
        JobCount {
            all,
            waiting: if state == JobState::Queued { all } else { 0 },
        }
    }

    /// Returns the number of jobs that limits of a stage count.
    fn at(self, stage: LimitStage) -> i64 {
        if stage == LimitStage::Waiting {
            self.waiting
        } else {
            self.all
        }
    }
}

impl CounterEntry {
    /// Returns the amount that the job adds to a limit.
    fn amount(&self, (place, key): &LimitPlace) -> i64 {
        let mut known = self.group.concerns.iter().zip(&self.amounts);
        known
            .find(|(known, _)| known.place == *place && known.key == *key)
            .map_or(0, |(_, amount)| *amount)
    }
}

impl JobCounters {
    /// Creates empty counters. Jobs without walltime count with `default_walltime`.
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

    /// Tests whether no limit on queued jobs is configured.
    pub fn is_idle(&self) -> bool {
        self.limits.all.is_empty()
    }

    /// Tests whether a limit depends on groups; false without limits on queued jobs.
    pub fn uses_groups(&self) -> bool {
        self.limits
            .all
            .iter()
            .any(|limit| limit.scope.group != Selector::All)
    }

    /// Updates the counters for a job, and removes a finished job. `subject` returns the names of
    /// the job's credentials.
    pub fn count(&mut self, job: &Job, subject: impl FnOnce(&Credentials) -> LimitSubject) {
        // Subjobs count with their array.
        if self.is_idle() || job.id.index().is_some() {
            return;
        }
        if job.life.state == JobState::Finished {
            return self.forget(job.id);
        }
        // Look up the credentials before removing the job, because removal can drop their entry.
        let (group, times) = (self.credential_group(job, subject), JobCount::of(job));
        self.forget(job.id);
        let mut amounts = Vec::new();
        for one in &group.concerns {
            let amount = self.amount(&self.limits.all[one.place], &job.spec.request, times);
            *self.sums.entry(place(one)).or_default() += i128::from(amount);
            amounts.push(amount);
        }
        self.jobs.insert(
            job.id,
            CounterEntry {
                group,
                amounts,
                times,
            },
        );
    }

    /// Removes a job from the counters.
    pub fn forget(&mut self, id: JobId) {
        let Some(CounterEntry { group, amounts, .. }) = self.jobs.remove(&id) else {
            return;
        };
        for (one, amount) in group.concerns.iter().zip(amounts) {
            let place = place(one);
            let Some(sum) = self.sums.get_mut(&place) else {
                continue;
            };
            *sum -= i128::from(amount);
            if *sum == 0 {
                self.sums.remove(&place);
            }
        }
        // Drop the entry if only the map and the variable `group` still refer to it.
        if Arc::strong_count(&group) == 2 {
            self.credential_groups.remove(&group.who);
        }
    }

    fn credential_group(
        &mut self,
        job: &Job,
        subject: impl FnOnce(&Credentials) -> LimitSubject,
    ) -> Arc<CredentialGroup> {
        let who = Credentials::of(job);
        if let Some(group) = self.credential_groups.get(&who) {
            return group.clone();
        }
        let concerns = self.concerning(&subject(&who));
        let group = Arc::new(CredentialGroup {
            who: who.clone(),
            concerns,
        });
        self.credential_groups.insert(who, group.clone());
        group
    }

    fn concerning(&self, subject: &LimitSubject) -> Vec<ApplicableLimit> {
        self.directories
            .iter()
            .flat_map(|directory| self.limits.concerning(subject, directory))
            .collect()
    }

    /// Returns the amount that `times` jobs with this request add to a limit.
    fn amount(&self, limit: &Limit, request: &Request, times: JobCount) -> i64 {
        self.of_one(&limit.quantity, request)
            .saturating_mul(times.at(limit.stage))
    }

    /// Returns the present sum for a limit and key.
    fn sum(&self, place: &LimitPlace) -> i64 {
        self.sums
            .get(place)
            .map_or(0, |sum| i64::try_from(*sum).unwrap_or(i64::MAX))
    }

    /// Returns the amount for one job with this request.
    fn of_one(&self, quantity: &Quantity, request: &Request) -> i64 {
        match quantity {
            Quantity::Jobs => 1,
            Quantity::Nodes => requested_amount(request, "nodect"),
            Quantity::Seconds => self.seconds(request),
            Quantity::ProcessorSeconds => {
                requested_amount(request, "ncpus").saturating_mul(self.seconds(request))
            }
            Quantity::Resource(name) => requested_amount(request, name),
            // Limits on processor equivalents apply only to running jobs, because the amounts
            // change with the size of the cluster.
            Quantity::Equivalents => 0,
        }
    }

    /// Returns the walltime of a request in seconds.
    fn seconds(&self, request: &Request) -> i64 {
        let walltime = request.list.get("walltime").and_then(ResourceValue::amount);
        walltime.map_or(self.default_walltime, Span).as_seconds()
    }

    /// Refuses a job that would exceed a hard limit; returns warnings for exceeded soft limits. For
    /// an existing job, only an increase is checked.
    pub fn admit(
        &self,
        entering: EnteringJob,
        spec: &Spec,
        subject: &LimitSubject,
        resources: &Resources,
    ) -> Result<Vec<String>, Refusal> {
        if self.is_idle() {
            return Ok(Vec::new());
        }
        let (own, other) = match entering {
            EnteringJob::New(_) => (None, None),
            EnteringJob::Known(own) => (Some(own), None),
            EnteringJob::InPlaceOf { own, other } => (Some(own), Some(other)),
        };
        let known = own.and_then(|id| self.jobs.get(&id));
        let leaving = other.and_then(|id| self.jobs.get(&id));
        let times = match (known, entering) {
            (Some(entry), _) => entry.times,
            (None, EnteringJob::New(state)) => JobCount::of_new(spec, state),
            (None, _) => JobCount::of_new(spec, JobState::Queued),
        };
        let mut notes = Vec::new();
        for concern in self.concerning(subject) {
            let limit = &self.limits.all[concern.place];
            let place = place(&concern);
            let before = known.map_or(0, |entry| entry.amount(&place));
            let added = self
                .amount(limit, &spec.request, times)
                .saturating_sub(before);
            if added <= 0 {
                continue;
            }
            // The other job leaves this queue. This frees nothing if the entering job already
            // counts under this key, because the same jobs then count before and after the swap.
            let left = match leaving {
                Some(leaving) if before == 0 => leaving.amount(&place),
                _ => 0,
            };
            let used = self.sum(&place).saturating_sub(left);
            let total = used.saturating_add(added);
            let excess = words::QueuedExcess {
                limit,
                key: &place.1,
                used,
                added,
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
