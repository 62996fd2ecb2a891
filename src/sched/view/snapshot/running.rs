//! Jobs that have their allocation: what they take of which nodes, and until when.

use super::ClusterState;
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, subtract};
use crate::sched::view::cluster::{Hold, NodeIx};
use crate::sched::view::holdings::Holder;
use crate::sched::view::preemption_candidate::PreemptionCandidate;
use crate::sched::view::shape::{AccessPolicy, JobOwner};
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
    pub tenure: Option<Box<PreemptionCandidate>>,
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
        class
            .iter()
            .for_each(|class| self.served.note(&class.who.queue));
        self.withdraw(id);
        let before = self.take_off(id);
        let holder = class.or_else(|| before.as_ref()?.holder.clone());
        holder.iter().for_each(|holder| {
            self.holdings
                .enter(id, holder, until, &self.cluster.catalog)
        });
        self.standing.redeem(id);
        self.cluster.reserve_slots(shares);
        self.put_in_order();
        // Every share's node has a slot now.
        let tenant: JobOwner = exclusive.into();
        let holds = self.holds_of(shares, tenant).unwrap_or_default();
        let nodes = holds.keys().copied().collect();
        let (mut taken, alone) = (
            self.cluster.catalog.nothing(),
            tenant.tenancy > AccessPolicy::Shared,
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
            tenure: None,
        };
        running.tenure = before.as_ref().and_then(|before| before.tenure.clone());
        self.running.insert(id, Arc::new(running));
        self.join_subjobs(id);
        if let Some(before) = before.filter(|before| self.running.get(&id) != Some(before)) {
            self.standing.note_release(before.until);
        }
        self.enroll(id);
    }

    /// What shares come to, node by node. A job that wants whole hosts has a hold on nothing on
    /// their other nodes, which bars all others from them.
    pub(in crate::sched) fn holds_of(
        &self,
        shares: &[NodeShare],
        tenant: JobOwner,
    ) -> Result<BTreeMap<NodeIx, Hold>, String> {
        let mut holds = self.cluster.holds(shares, tenant)?;
        for neighbour in self.cluster.neighbours(tenant, holds.keys()) {
            holds
                .entry(neighbour)
                .or_insert_with(|| self.cluster.bare_hold(tenant));
        }
        Ok(holds)
    }

    /// A running job is over, or back in the queue (then enqueue it).
    pub fn vacate(&mut self, id: JobId) {
        self.edition += 1;
        if let Some(running) = self.take_off(id) {
            self.standing.note_end(id, running.until);
        }
    }

    /// Takes a running job off its nodes, for good or to be put on them anew.
    fn take_off(&mut self, id: JobId) -> Option<Arc<RunningJob>> {
        self.strike(id);
        self.leave_to_subjobs(id);
        let running = self.running.remove(&id)?;
        self.insiders.remove(&id);
        self.suspended.remove(&id);
        let holder = running.holder.iter();
        holder.for_each(|holder| {
            self.holdings
                .leave(id, holder, running.until, &self.cluster.catalog)
        });
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
