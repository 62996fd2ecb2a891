//! Jobs that have their allocation: what they take of which nodes, and until when.

use super::ClusterState;
use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::job::NodeShare;
use crate::model::job::held::Held;
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, subtract};
use crate::sched::view::class::Wait;
use crate::sched::view::cluster::{Hold, NodeIx};
use crate::sched::view::holdings::{Holder, RunningOwner};
use crate::sched::view::operations::Age;
use crate::sched::view::plan::Start;
use crate::sched::view::preemption_candidate::PreemptionCandidate;
use crate::sched::view::shape::{AccessPolicy, JobOwner};
use crate::sched::view::suspended::Suspended;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job that has its allocation.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct RunningJob {
    pub nodes: Vec<NodeIx>,
    pub until: Time,
    /// What it has in all.
    pub taken: Amounts,
    /// Whether it has its nodes alone.
    pub alone: bool,
    /// Whose it is, where that is known.
    pub holder: Option<Holder>,
    /// What counts where another could have its place, where that is known.
    pub candidate: Option<Box<PreemptionCandidate>>,
}

impl RunningJob {
    /// Whether nobody can tell when it ends.
    pub fn is_endless(&self) -> bool {
        self.until == Time::NEVER
    }
}

impl ClusterState {
    /// A job has these shares until then: it was started, or found running at recovery. It is no
    /// longer a candidate. `exclusive` takes a `Start`'s, [`JobOwner::of`] a job, its `Place`, or
    /// `true` for the nodes of the shares alone. `Time::NEVER` for a job without an end.
    pub fn occupy(
        &mut self,
        id: JobId,
        shares: &[NodeShare],
        exclusive: impl Into<JobOwner>,
        until: Time,
    ) {
        self.edition += 1;
        let class = self.waiting_class(id).map(Holder::of);
        if let Some(class) = &class {
            self.served.note(&class.who.queue);
        }
        self.withdraw(id);
        let before = self.take_off(id);
        let holder = class.or_else(|| before.as_ref()?.holder.clone());
        if let Some(holder) = &holder {
            self.holdings
                .enter(id, holder, until, &self.cluster.catalog)
        }
        self.bookings.redeem(id);
        self.cluster.reserve_slots(shares);
        self.put_in_order();
        // Every share's node has a slot now.
        let owner: JobOwner = exclusive.into();
        let holds = self.holds_of(shares, owner).unwrap_or_default();
        let nodes = holds.keys().copied().collect();
        let (mut taken, alone) = (
            self.cluster.catalog.nothing(),
            owner.access > AccessPolicy::Shared,
        );
        for (ix, hold) in holds {
            add(&mut taken, &hold.taken);
            self.cluster.occupy(ix, id, hold);
        }
        if until != Time::NEVER {
            self.ends.insert((until, id));
            let released = self
                .releases
                .entry(until)
                .or_insert_with(|| self.cluster.catalog.nothing());
            add(released, &taken);
        }
        let mut running = RunningJob {
            nodes,
            until,
            taken,
            alone,
            holder,
            candidate: None,
        };
        running.candidate = before.as_ref().and_then(|before| before.candidate.clone());
        self.running.insert(id, Arc::new(running));
        self.join_subjobs(id);
        if let Some(before) = before.filter(|before| self.running.get(&id) != Some(before)) {
            self.bookings.note_release(before.until);
        }
        self.enroll(id);
    }

    /// What shares come to, node by node. A job that wants whole hosts has a hold on nothing on
    /// their other nodes, which bars all others from them.
    pub(in crate::sched) fn holds_of(
        &self,
        shares: &[NodeShare],
        owner: JobOwner,
    ) -> Result<BTreeMap<NodeIx, Hold>, String> {
        let mut holds = self.cluster.holds(shares, owner)?;
        for neighbour in self.cluster.neighbours(owner, holds.keys()) {
            holds
                .entry(neighbour)
                .or_insert_with(|| self.cluster.bare_hold(owner));
        }
        Ok(holds)
    }

    /// A running job is over, or back in the queue (then enqueue it).
    pub fn vacate(&mut self, id: JobId) {
        self.edition += 1;
        if let Some(running) = self.take_off(id) {
            self.bookings.note_end(id, running.until);
        }
    }

    /// Takes a running job off its nodes, for good or to be put on them anew.
    fn take_off(&mut self, id: JobId) -> Option<Arc<RunningJob>> {
        self.strike(id);
        self.leave_to_subjobs(id);
        let running = self.running.remove(&id)?;
        self.insiders.remove(&id);
        self.suspended.remove(&id);
        if let Some(holder) = &running.holder {
            self.holdings
                .leave(id, holder, running.until, &self.cluster.catalog)
        }
        if self.ends.remove(&(running.until, id)) {
            self.take_back(running.until, &running.taken);
        }
        for &ix in &running.nodes {
            self.cluster.vacate(ix, id);
        }
        Some(running)
    }

    /// A job that was to give this back then no longer does.
    fn take_back(&mut self, until: Time, taken: &[i64]) {
        let is_last = self
            .ends
            .range((until, JobId::job(0))..)
            .next()
            .is_none_or(|&(next, _)| next > until);
        match self.releases.get_mut(&until) {
            Some(_) if is_last => drop(self.releases.remove(&until)),
            Some(released) => subtract(released, taken),
            None => (),
        }
    }

    /// The jobs that have their allocation.
    pub fn holders(&self) -> impl Iterator<Item = JobId> {
        self.running.keys().copied()
    }
}

impl ClusterState {
    /// Says whose a running job is, where that was not seen when it waited.
    pub fn belongs_to(&mut self, id: JobId, claimant: &RunningOwner) {
        let holder = claimant.holder(&self.cluster.catalog);
        if self
            .running
            .get(&id)
            .is_none_or(|running| running.holder.as_ref() == Some(&holder))
        {
            return;
        }
        self.strike(id);
        let Some(running) = self.running.get_mut(&id).map(Arc::make_mut) else {
            return;
        };
        let (until, before) = (running.until, running.holder.replace(holder.clone()));
        if let Some(before) = before {
            self.holdings
                .leave(id, &before, until, &self.cluster.catalog)
        }
        self.holdings
            .enter(id, &holder, until, &self.cluster.catalog);
        self.enroll(id);
        self.edition += 1;
    }

    /// The running jobs that are past their expected ends: owner, processors and end of each. Their
    /// remaining time is zero, but sums of remaining times count it as negative.
    pub(in crate::sched) fn overdue(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (&Arc<Credentials>, i64, Time)> {
        let over = self.ends.iter().take_while(move |(end, _)| *end <= now);
        let holders =
            over.filter_map(|(end, job)| Some((*end, self.running.get(job)?.holder.as_ref()?)));
        holders.map(|(end, holder)| (&holder.who, holder.processors(&self.cluster.catalog), end))
    }

    /// Enters a running job among those of its operation, once it is known whose it is and since
    /// when it runs.
    pub(in crate::sched) fn enroll(&mut self, id: JobId) {
        let Some((age, who)) = self.enrolled(id) else {
            return;
        };
        let Some(running) = self.running.get(&id) else {
            return;
        };
        Arc::make_mut(&mut self.operations).enter(age, &who, &running.taken);
    }

    /// Takes a running job out of its operation, before anything of it changes.
    pub(in crate::sched) fn strike(&mut self, id: JobId) {
        let Some((age, _)) = self.enrolled(id) else {
            return;
        };
        let Some(running) = self.running.get(&id) else {
            return;
        };
        Arc::make_mut(&mut self.operations).leave(age, &running.taken);
    }

    fn enrolled(&self, id: JobId) -> Option<(Age, Arc<Credentials>)> {
        let running = self.running.get(&id)?;
        Some((
            (running.candidate.as_ref()?.started, id),
            running.holder.as_ref()?.who.clone(),
        ))
    }

    /// What others will ask of a candidate that starts now, once it runs.
    pub fn future_candidate(
        &self,
        policy: &Policy,
        start: &Start,
        now: Time,
    ) -> Option<PreemptionCandidate> {
        let (class, waiting) = (self.waiting_class(start.job)?, self.waiting(start.job)?);
        Some(PreemptionCandidate {
            started: now,
            score: self.score(policy, start.job),
            cluster: class.cluster(),
            protected: class.protected,
            rerunnable: class.rerunnable,
            checkpoints: class.checkpoints,
            may_be_checkpointed: class.may_be_checkpointed,
            waited: waiting.wait.eligibility.at(now),
            walltime: class.walltime,
            // Known once it has started, too.
            asked: Vec::new(),
            processors: Held::of(&start.shares).cores,
            // Known once it has started.
            preempted: 0,
            told: None,
            suspended: false,
            can_stop: false,
        })
    }

    /// Says what of a running job others ask who could have its place.
    pub fn set_candidate(&mut self, id: JobId, candidate: PreemptionCandidate) {
        if self
            .running
            .get(&id)
            .is_none_or(|running| running.candidate.as_deref() == Some(&candidate))
        {
            return;
        }
        self.strike(id);
        self.bookings.note_told(id, candidate.told.as_ref());
        self.running
            .entry(id)
            .and_modify(|running| Arc::make_mut(running).candidate = Some(Box::new(candidate)));
        self.enroll(id);
        self.edition += 1;
    }

    /// A job that holds what it keeps waits to go on.
    pub(in crate::sched::view) fn stand_by(&mut self, job: &Job) {
        let Some(run) = job.life.open_run() else {
            return;
        };
        let still = run
            .suspension
            .as_ref()
            .and_then(|suspension| suspension.still)
            .unwrap_or(run.started);
        let since = job.life.etime.unwrap_or(job.life.qtime);
        let suspended = Suspended {
            key: self.class_key(job),
            place: (job.rank(), job.id),
            score: run.score,
            needed: run.shares.iter().map(|share| run.given_up(share)).collect(),
            shares: run.shares.clone(),
            made_way_for: run
                .suspension
                .as_ref()
                .and_then(|suspension| suspension.manner.for_job()),
            ran: Span(still.since(run.started + run.pauses().total).0),
            wait: Wait {
                since,
                eligibility: job.life.eligibility,
                bypassed: 0,
            },
        };
        self.edition += 1;
        self.suspended.insert(job.id, Arc::new(suspended));
    }

    /// Whether a job waits to go on.
    pub fn waits_to_go_on(&self, job: JobId) -> bool {
        self.suspended.contains_key(&job)
    }
}
