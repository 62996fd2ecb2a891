//! Placement of a subjob on hosts where other subjobs of the same array run. A job uses a per-host
//! resource, such as a license, once on each of its hosts; all subjobs of an array on a host share
//! it (Q21, G2).

use super::availability_map::{AvailabilityMap, JobAmounts};
use super::place::{self, Placement};
use crate::model::request::select::Arrangement;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};

impl AvailabilityMap<'_> {
    /// Whether subjobs of array `number` use a per-host resource on a host now, so that another
    /// subjob can share it. False in maps of other times, for which the use is unknown. Also false
    /// while the resource is held for a planned start, which another subjob could delay.
    fn is_shared(&self, number: u64, host: &str, index: usize) -> bool {
        let is_known = !self.is_hypothetical() && self.is_unheld(index);
        let key = (number, host.to_string(), index);
        is_known && (self.cluster.shared.contains_key(&key) || self.joined().contains(&key))
    }

    /// The amounts of system-wide resources that a job of this shape needs on these nodes, without
    /// those that it shares with other subjobs of its array.
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

    /// Removes from the claim of a subjob the per-host resources that other subjobs of its array
    /// already use on the same hosts. Notes all per-host resources that the subjob uses, so that
    /// further subjobs can share them.
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

/// Places a subjob on hosts where other subjobs of its array use the per-host resources of which
/// too little is free. None if the subjob does not fit there.
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

/// The request of a subjob, without those per-host resources that other subjobs of its array use
/// and of which too little is free. None if there are no such resources. Also None if all nodes of
/// the subjob must be in one set of nodes, or must have the same value of a resource
/// (`place=group=`).
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

/// The hosts on which other subjobs of the array use the resource with this index.
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
