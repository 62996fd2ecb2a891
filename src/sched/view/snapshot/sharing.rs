//! Per-host resources that subjobs of one array share: all subjobs of the array on a host together
//! use the resources once. In the snapshot, the subjob that ends last holds the resources, so that
//! they become free when all subjobs of the array on the host have ended.

use super::ClusterState;
use crate::model::job_id::JobId;
use crate::sched::amounts::Amounts;
use crate::sched::view::cluster::{Cluster, Hold, NodeIx};
use crate::sched::view::shared_hosts::{SharedPlace, Sharers, last};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Cluster {
    /// The shared resources of a subjob on these nodes.
    fn shared_by(&self, id: JobId, nodes: &[NodeIx]) -> BTreeSet<SharedPlace> {
        if self.shared.is_empty() {
            return BTreeSet::new();
        }
        let hosts: BTreeSet<&String> = nodes.iter().map(|&ix| &self.node(ix).host).collect();
        let places = hosts.into_iter().flat_map(|host| {
            let first = (id.number, host.clone(), 0);
            let last = (id.number, host.clone(), usize::MAX);
            self.shared.range(first..=last)
        });
        places
            .filter(|(_, sharers)| sharers.contains_key(&id))
            .map(|(place, _)| place.clone())
            .collect()
    }

    fn held(&self, ix: NodeIx, job: JobId, index: usize) -> i64 {
        self.node(ix)
            .tenants
            .get(&job)
            .map_or(0, |hold| hold.taken[index])
    }
}

impl ClusterState {
    /// Adds a running subjob to the sharers of each per-host resource that it holds on a host. Has
    /// no effect on jobs that are no subjobs.
    pub(in crate::sched) fn join_subjobs(&mut self, id: JobId) {
        if id.index().is_none() {
            return;
        }
        let Some(running) = self.running.get(&id) else {
            return;
        };
        let until = running.until;
        let mut requested: BTreeMap<SharedPlace, i64> = BTreeMap::new();
        for (&ix, index) in running
            .nodes
            .iter()
            .flat_map(|ix| self.cluster.pools.by_host().map(move |index| (ix, index)))
        {
            let amount = self.cluster.held(ix, id, index);
            if amount > 0 {
                *requested
                    .entry((id.number, self.cluster.node(ix).host.clone(), index))
                    .or_default() += amount;
            }
        }
        for (place, amount) in requested {
            let mut sharers = self.cluster.shared.get(&place).cloned().unwrap_or_default();
            sharers.insert(id, (until, amount));
            self.set_holder(place, sharers, id);
        }
    }

    /// Removes a subjob from the sharers of the per-host resources of its array. From now on, the
    /// remaining sharer that ends last on a host holds the resources.
    pub(in crate::sched) fn leave_subjobs(&mut self, id: JobId) {
        if self.cluster.shared.is_empty() {
            return;
        }
        let Some(running) = self.running.get(&id) else {
            return;
        };
        for place in self.cluster.shared_by(id, &running.nodes) {
            let mut sharers = self.cluster.shared.remove(&place).unwrap_or_default();
            sharers.remove(&id);
            self.set_holder(place, sharers, id);
        }
    }

    /// Makes the subjob that ends last the holder of a shared resource. `moved` is the subjob that
    /// joins or leaves the sharers.
    fn set_holder(&mut self, place: SharedPlace, sharers: Sharers, moved: JobId) {
        let most = sharers
            .values()
            .map(|&(_, amount)| amount)
            .max()
            .unwrap_or(0);
        let last = last(&sharers).map(|(_, job)| job);
        for &job in sharers.keys() {
            let amount = if last == Some(job) { most } else { 0 };
            self.hold(job, amount, (&place.1, place.2), moved);
        }
        if !sharers.is_empty() {
            self.cluster.shared.insert(place, sharers);
        }
    }

    /// Sets the amount of a resource that a subjob holds on a host. The whole amount is counted on
    /// the first node of the subjob on the host.
    fn hold(&mut self, job: JobId, mut amount: i64, (host, index): (&str, usize), moved: JobId) {
        for ix in self.nodes_on(job, host) {
            let more = std::mem::take(&mut amount) - self.cluster.held(ix, job, index);
            if more != 0 {
                self.add_to_hold((job, ix), index, more, moved);
            }
        }
    }

    fn nodes_on(&self, job: JobId, host: &str) -> Vec<NodeIx> {
        let nodes = self
            .running
            .get(&job)
            .into_iter()
            .flat_map(|running| &running.nodes)
            .copied();
        nodes
            .filter(|&ix| self.cluster.node(ix).host == host)
            .collect()
    }

    /// Adds `more` to the amount of a resource that a subjob holds on a node.
    fn add_to_hold(&mut self, (job, ix): (JobId, NodeIx), index: usize, more: i64, moved: JobId) {
        let Some(mut hold) = self.cluster.node(ix).tenants.get(&job).cloned() else {
            return;
        };
        // `moved` joins or leaves the sharers, and the caller updates its operation.
        if job != moved {
            self.leave_operation(job);
        }
        hold.taken[index] += more;
        self.cluster.occupy(ix, job, hold);
        if let Some(running) = self.running.get_mut(&job).map(Arc::make_mut) {
            running.taken[index] += more;
            if let Some(released) = self.releases.get_mut(&running.until) {
                released[index] += more;
            }
        }
        if job != moved {
            self.join_operation(job);
        }
    }

    /// The resources that a job releases on a node if it ends after the jobs in `gone`. The subjob
    /// that ends last on a host releases the resources that its array shares on that host.
    pub(in crate::sched) fn released_by<'h>(
        &self,
        (id, ix): (JobId, NodeIx),
        hold: &'h Hold,
        gone: &BTreeSet<JobId>,
    ) -> Cow<'h, Amounts> {
        let mut given = Cow::Borrowed(&hold.taken);
        for place in self.cluster.shared_by(id, &[ix]) {
            let sharers = &self.cluster.shared[&place];
            let is_first = self.nodes_on(id, &place.1).first() == Some(&ix);
            let is_last = sharers
                .keys()
                .all(|other| *other == id || gone.contains(other));
            let most = sharers.values().map(|&(_, amount)| amount).max();
            given.to_mut()[place.2] = if is_last && is_first {
                most.unwrap_or(0)
            } else {
                0
            };
        }
        given
    }
}
