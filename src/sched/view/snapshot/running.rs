//! Running and suspended jobs: the resources that they hold on each node, and their ends.

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

/// A job with an allocation, running or suspended.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct RunningJob {
    pub nodes: Vec<NodeIx>,
    pub until: Time,
    /// The total resources that the job holds.
    pub taken: Amounts,
    /// Whether the job's access policy keeps jobs of other users, or all other jobs, off its nodes.
    pub alone: bool,
    /// The owner and the request of the job, if known.
    pub holder: Option<Holder>,
    /// The facts that preemption uses, if known.
    pub candidate: Option<Box<PreemptionCandidate>>,
}

impl RunningJob {
    /// Whether the end of the job is unknown.
    pub fn is_endless(&self) -> bool {
        self.until == Time::NEVER
    }
}

impl ClusterState {
    /// Records that a job holds these shares until `until` (`Time::NEVER` for a job without a known
    /// end). The job no longer waits to be started. `exclusive` is a [`JobOwner`] (from a `Start`
    /// or from [`JobOwner::of`]), the job's `Place`, or `true` for exclusive nodes.
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
        self.bookings.remove_promise(id);
        self.cluster.reserve_slots(shares);
        self.put_in_order();
        // `reserve_slots` has added all unknown nodes, so `holds_of` cannot fail.
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
        self.join_operation(id);
    }

    /// The resources of these shares, summed for each node. A job with exclusive hosts also gets an
    /// empty hold on each other node of these hosts, which keeps other jobs off the node. The error
    /// names an unknown node.
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

    /// Removes a running job that has ended or is requeued. A requeued job must be enqueued again.
    pub fn vacate(&mut self, id: JobId) {
        self.edition += 1;
        if let Some(running) = self.take_off(id) {
            self.bookings.note_end(id, running.until);
        }
    }

    /// Removes a running job from its nodes. The job has ended, or its resources are about to be
    /// recorded again.
    fn take_off(&mut self, id: JobId) -> Option<Arc<RunningJob>> {
        self.leave_operation(id);
        self.leave_subjobs(id);
        let running = self.running.remove(&id)?;
        self.jobs_in_reservations.remove(&id);
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

    /// Subtracts the resources of a job from the expected releases at `until`.
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

    /// The jobs with an allocation, running or suspended.
    pub fn holders(&self) -> impl Iterator<Item = JobId> {
        self.running.keys().copied()
    }
}

impl ClusterState {
    /// Sets the owner and the request of a running job. The job need not have waited in this state
    /// before.
    pub fn belongs_to(&mut self, id: JobId, claimant: &RunningOwner) {
        let holder = claimant.holder(&self.cluster.catalog);
        if self
            .running
            .get(&id)
            .is_none_or(|running| running.holder.as_ref() == Some(&holder))
        {
            return;
        }
        self.leave_operation(id);
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
        self.join_operation(id);
        self.edition += 1;
    }

    /// The running jobs with a known owner that have reached their expected ends: owner, CPUs and
    /// expected end of each. `RemainingUse` counts a negative remaining time for such a job, so the
    /// caller must remove the job from the sum.
    pub(in crate::sched) fn overdue(
        &self,
        now: Time,
    ) -> impl Iterator<Item = (&Arc<Credentials>, i64, Time)> {
        let ended = self.ends.iter().take_while(move |(end, _)| *end <= now);
        let holders =
            ended.filter_map(|(end, job)| Some((*end, self.running.get(job)?.holder.as_ref()?)));
        holders.map(|(end, holder)| (&holder.who, holder.processors(&self.cluster.catalog), end))
    }

    /// Adds a running job to its operation (a job, or an array with all its subjobs), if the owner
    /// and the start time are known.
    pub(in crate::sched) fn join_operation(&mut self, id: JobId) {
        let Some((age, who)) = self.operation_entry(id) else {
            return;
        };
        let Some(running) = self.running.get(&id) else {
            return;
        };
        Arc::make_mut(&mut self.operations).enter(age, &who, &running.taken);
    }

    /// Removes a running job from its operation. To be called before the job's facts change.
    pub(in crate::sched) fn leave_operation(&mut self, id: JobId) {
        let Some((age, _)) = self.operation_entry(id) else {
            return;
        };
        let Some(running) = self.running.get(&id) else {
            return;
        };
        Arc::make_mut(&mut self.operations).leave(age, &running.taken);
    }

    fn operation_entry(&self, id: JobId) -> Option<(Age, Arc<Credentials>)> {
        let running = self.running.get(&id)?;
        Some((
            (running.candidate.as_ref()?.started, id),
            running.holder.as_ref()?.who.clone(),
        ))
    }

    /// The [`PreemptionCandidate`] of a waiting job, as if the job started at `now`; None if the
    /// job does not wait.
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
            // `asked` and `preempted` are in the job's record, which this state does not contain.
            asked: Vec::new(),
            processors: Held::of(&start.shares).cores,
            preempted: 0,
            told: None,
            suspended: false,
            can_stop: false,
        })
    }

    /// Sets the [`PreemptionCandidate`] of a running job. Has no effect if the job does not run.
    pub fn set_candidate(&mut self, id: JobId, candidate: PreemptionCandidate) {
        if self
            .running
            .get(&id)
            .is_none_or(|running| running.candidate.as_deref() == Some(&candidate))
        {
            return;
        }
        self.leave_operation(id);
        self.bookings.note_preemption(id, candidate.told.as_ref());
        self.running
            .entry(id)
            .and_modify(|running| Arc::make_mut(running).candidate = Some(Box::new(candidate)));
        self.join_operation(id);
        self.edition += 1;
    }

    /// Records a suspended job that waits to resume.
    pub(in crate::sched::view) fn record_suspended(&mut self, job: &Job) {
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

    /// Whether a job is suspended and waits to resume.
    pub fn waits_to_resume(&self, job: JobId) -> bool {
        self.suspended.contains_key(&job)
    }
}
