//! Where a subjob fits on hosts of other subjobs of its array, with which it shares what is counted
//! by host (Q21, G2).

use super::availability_map::{AvailabilityMap, JobAmounts};
use super::place::{self, Placement};
use crate::model::request::select::Arrangement;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};

impl AvailabilityMap<'_> {
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
        for (ix, index, amount) in shape.pooled_amounts(self.cluster, nodes) {
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
    pub fn share(&mut self, shape: &Shape, claim: &mut JobAmounts) {
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
pub fn place(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    let eased = eased(space, shape)?;
    let mut hosts: Option<BTreeSet<&str>> = None;
    for index in (0..eased.total.len()).filter(|&index| eased.total[index] < shape.total[index]) {
        let shared: BTreeSet<&str> = shared_hosts(space, shape, index).collect();
        hosts = Some(hosts.map_or(shared.clone(), |hosts| &hosts & &shared));
    }
    let hosts = hosts.unwrap_or_default();
    let nodes_of = |host| space.cluster.nodes_of_host(host);
    if shape.arrangement == Arrangement::Pack {
        let mut hosts = hosts.into_iter();
        hosts.find_map(|host| {
            place::spread(space, &eased, Some(&nodes_of(host).collect::<Vec<_>>()))
        })
    } else {
        let nodes: Vec<NodeIx> = hosts.into_iter().flat_map(nodes_of).collect();
        place::spread(space, &eased, Some(&nodes))
    }
}

/// The request of an element without what is counted by host and too little of which is free: on
/// hosts of others of its array it takes none. None where that is nothing, or where its nodes must
/// have something in common.
pub fn eased(space: &AvailabilityMap, shape: &Shape) -> Option<Shape> {
    if shape.array.is_none() || shape.sets.is_some() || shape.group.is_some() {
        return None;
    }
    let free = space.free(shape.access);
    let mut eased: Option<Shape> = None;
    for index in space.cluster.pools.by_host() {
        if shape.total[index] > free[index] && shared_hosts(space, shape, index).next().is_some() {
            eased.get_or_insert_with(|| shape.clone()).total[index] = 0;
        }
    }
    eased
}

/// The hosts on which others of an element's array have that.
fn shared_hosts<'a>(
    space: &'a AvailabilityMap,
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
