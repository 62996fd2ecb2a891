//! Elements of one array have what is counted by host together (Q21, G2): however many of them are
//! on a host, they take it once there. One of them holds it, the one that ends last, so that it is
//! free again when all of them are over.

use super::availability_map::{Claim, Space};
use super::matching::{self, Placement};
use crate::model::job::JobId;
use crate::model::request::select::Arrangement;
use crate::model::time::Time;
use crate::sched::view::amounts::Amounts;
use crate::sched::view::cluster::{Cluster, Hold, NodeIx};
use crate::sched::view::pools;
use crate::sched::view::shape::Shape;
use crate::sched::view::snapshot::State;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where an array has what: its number, the host, and the resource.
pub type Place = (u64, String, usize);

/// Where arrays have what.
pub type SharedHosts = BTreeSet<Place>;

/// The elements that are at such a place: when each of them ends, and how much it asks for.
pub type There = BTreeMap<JobId, (Time, i64)>;

/// Who ends last there, and when.
pub fn last(there: &There) -> Option<(Time, JobId)> {
    there.iter().map(|(&job, &(until, _))| (until, job)).max()
}

impl Cluster {
    /// What an element has part in.
    fn shared_by(&self, id: JobId, nodes: &[NodeIx]) -> BTreeSet<Place> {
        if self.shared.is_empty() {
            return BTreeSet::new();
        }
        let hosts: BTreeSet<&String> = nodes.iter().map(|&ix| &self.node(ix).host).collect();
        let on =
            |host: &String| (id.number, host.clone(), 0)..=(id.number, host.clone(), usize::MAX);
        let all = hosts
            .into_iter()
            .flat_map(|host| self.shared.range(on(host)));
        all.filter(|(_, there)| there.contains_key(&id))
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

impl State {
    /// An element has come to its nodes: what is counted by host it has together with the others
    /// there.
    pub(in crate::sched) fn join_siblings(&mut self, id: JobId) {
        let Some(running) = self.running.get(&id).filter(|_| id.index().is_some()) else {
            return;
        };
        let until = running.until;
        let mut asked: BTreeMap<Place, i64> = BTreeMap::new();
        for (&ix, index) in running
            .nodes
            .iter()
            .flat_map(|ix| self.cluster.pools.by_host().map(move |index| (ix, index)))
        {
            let amount = self.cluster.held(ix, id, index);
            if amount > 0 {
                *asked
                    .entry((id.number, self.cluster.node(ix).host.clone(), index))
                    .or_default() += amount;
            }
        }
        for (place, amount) in asked {
            let mut there = self.cluster.shared.get(&place).cloned().unwrap_or_default();
            there.insert(id, (until, amount));
            self.settle(place, there, id);
        }
    }

    /// An element leaves: those that stay on its hosts have it from now on.
    pub(in crate::sched) fn leave_to_siblings(&mut self, id: JobId) {
        let Some(running) = self
            .running
            .get(&id)
            .filter(|_| !self.cluster.shared.is_empty())
        else {
            return;
        };
        for place in self.cluster.shared_by(id, &running.nodes) {
            let mut there = self.cluster.shared.remove(&place).unwrap_or_default();
            there.remove(&id);
            self.settle(place, there, id);
        }
    }

    /// Those who are there now have it: the one that ends last holds it for all of them.
    fn settle(&mut self, place: Place, there: There, moved: JobId) {
        let most = there.values().map(|&(_, amount)| amount).max();
        let last = last(&there).map(|(_, job)| job);
        for &job in there.keys() {
            let amount = most.filter(|_| last == Some(job)).unwrap_or(0);
            self.hold(job, amount, (&place.1, place.2), moved);
        }
        if !there.is_empty() {
            self.cluster.shared.insert(place, there);
        }
    }

    /// An element holds so much on a host from now on, with the first of its nodes there.
    fn hold(&mut self, job: JobId, mut amount: i64, (host, index): (&str, usize), moved: JobId) {
        for ix in self.nodes_on(job, host) {
            let more = std::mem::take(&mut amount) - self.cluster.held(ix, job, index);
            if more != 0 {
                self.hand((job, ix), index, more, moved);
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

    /// One holds so much more from now on, or less.
    fn hand(&mut self, (job, ix): (JobId, NodeIx), index: usize, more: i64, moved: JobId) {
        let Some(mut hold) = self.cluster.node(ix).tenants.get(&job).cloned() else {
            return;
        };
        // Who moves is counted by whoever moves it.
        if job != moved {
            self.strike(job);
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
            self.enroll(job);
        }
    }

    /// What a job gives back of a node when it goes after these: what its array has there with the
    /// last of them.
    pub(in crate::sched) fn gives_back<'h>(
        &self,
        (id, ix): (JobId, NodeIx),
        hold: &'h Hold,
        gone: &BTreeSet<JobId>,
    ) -> Cow<'h, Amounts> {
        let mut given = Cow::Borrowed(&hold.taken);
        for place in self.cluster.shared_by(id, &[ix]) {
            let (there, is_first) = (
                &self.cluster.shared[&place],
                self.nodes_on(id, &place.1).first() == Some(&ix),
            );
            let is_last = there
                .keys()
                .all(|other| *other == id || gone.contains(other));
            let most = there
                .values()
                .map(|&(_, amount)| amount)
                .max()
                .filter(|_| is_last && is_first);
            given.to_mut()[place.2] = most.unwrap_or(0);
        }
        given
    }
}

impl Space<'_> {
    /// Whether elements of an array have a resource on a host. Of another moment than this nobody
    /// can tell; and where somebody is promised of it, one more would keep it for longer.
    fn is_shared(&self, number: u64, host: &str, index: usize) -> bool {
        let can_tell = !self.is_imagined() && self.is_unpromised(index);
        let key = (number, host.to_string(), index);
        can_tell && (self.cluster.shared.contains_key(&key) || self.joined().contains(&key))
    }

    /// What a job of this shape takes of the whole system's resources on these nodes, beside others
    /// of its array.
    pub fn pooled(
        &self,
        shape: &Shape,
        nodes: impl Iterator<Item = NodeIx>,
    ) -> BTreeMap<usize, i64> {
        let mut taken = BTreeMap::new();
        for (ix, index, amount) in pools::amounts(self.cluster, shape, nodes) {
            let host = &self.cluster.node(ix).host;
            if !shape
                .array
                .is_some_and(|number| self.is_shared(number, host, index))
            {
                *taken.entry(index).or_default() += amount;
            }
        }
        taken
    }

    /// Leaves out of a claim what others of its array have on its hosts, and notes what it has
    /// there itself.
    pub fn share(&mut self, shape: &Shape, claim: &mut Claim) {
        let Some(number) = shape.array else { return };
        for (&ix, taken) in &mut claim.holds {
            let host = &self.cluster.node(ix).host;
            for index in self.cluster.pools.by_host() {
                if taken[index] == 0 {
                    continue;
                }
                if self.is_shared(number, host, index) {
                    taken[index] = 0;
                }
                claim.joins.push(((number, host.clone(), index), ix));
            }
        }
        self.join(claim.joins.iter().map(|(place, _)| place.clone()).collect());
    }
}

/// Where an element fits on hosts of others of its array: there it takes no more of what is counted
/// by host.
pub fn place(space: &Space, shape: &Shape) -> Option<Placement> {
    let eased = eased(space, shape)?;
    let mut hosts: Option<BTreeSet<&str>> = None;
    for index in (0..eased.total.len()).filter(|&index| eased.total[index] < shape.total[index]) {
        let shared: BTreeSet<&str> = shared_hosts(space, shape, index).collect();
        hosts = Some(hosts.map_or(shared.clone(), |hosts| &hosts & &shared));
    }
    let hosts = hosts.unwrap_or_default();
    let nodes = |host: &&str| space.cluster.nodes_of_host(host).collect::<Vec<_>>();
    match shape.arrangement {
        Arrangement::Pack => hosts
            .iter()
            .find_map(|host| matching::spread(space, &eased, Some(&nodes(host)))),
        _ => matching::spread(
            space,
            &eased,
            Some(&hosts.iter().flat_map(nodes).collect::<Vec<_>>()),
        ),
    }
}

/// The request of an element without what is counted by host and too little of which is free: on
/// hosts of others of its array it takes none. None where that is nothing, or where its nodes must
/// have something in common.
pub fn eased(space: &Space, shape: &Shape) -> Option<Shape> {
    shape
        .array
        .filter(|_| shape.sets.is_none() && shape.group.is_none())?;
    let free = space.free(shape.tenancy);
    let is_short = |&index: &usize| shape.total[index] > free[index];
    let is_had = |index: &usize| shared_hosts(space, shape, *index).next().is_some();
    let mut eased: Option<Shape> = None;
    let had = space
        .cluster
        .pools
        .by_host()
        .filter(is_short)
        .filter(is_had);
    had.for_each(|index| eased.get_or_insert_with(|| shape.clone()).total[index] = 0);
    eased
}

/// The hosts on which others of an element's array have that.
fn shared_hosts<'a>(
    space: &'a Space,
    shape: &Shape,
    index: usize,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let number = shape.array.unwrap_or(0);
    let of_array = (number, String::new(), 0)..(number + 1, String::new(), 0);
    let known = space
        .cluster
        .shared
        .range(of_array.clone())
        .map(|(place, _)| place);
    let all = known
        .chain(space.joined().range(of_array))
        .filter(move |place| place.2 == index);
    all.map(|place| place.1.as_str())
        .filter(move |host| space.is_shared(number, host, index))
}

#[cfg(test)]
mod tests;
