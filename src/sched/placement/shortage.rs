//! The reason why a request does not fit, with the values or amounts that were compared, if any.
//!
//! [`never()`] is for requests that cannot fit at any time, [`now()`] for requests that do not fit at
//! present. Both check the possible reasons in a fixed order and return the first that holds.

use super::availability_map::AvailabilityMap;
use super::filter;
use super::place::{self, Misfit, TentativePlacement};
use super::rank::Candidates;
use crate::model::reason::{OutsideUse, Reason};
use crate::model::request::placement_policy::NodeAllocation;
use crate::model::request::select::Arrangement;
use crate::model::resource::ResourceValue;
use crate::sched::view::cluster::{Need, NodeClassKey, NodeIx};
use crate::sched::view::shape::{ChunkShape, Shape};

/// Why a request would not fit even if every node were up and without jobs.
pub fn never(vacant: &AvailabilityMap, shape: &Shape) -> Reason {
    if let Some(reason) = suits_no_node(vacant, shape) {
        return reason;
    }
    let chunk = shape
        .chunks
        .iter()
        .find_map(|chunk| wrong_value(vacant, chunk));
    chunk
        .or_else(|| {
            shape
                .chunks
                .iter()
                .find_map(|chunk| too_big_for_a_node(vacant, shape, chunk))
        })
        .or_else(|| too_much_for_all(vacant, shape))
        .or_else(|| too_big_for_a_host(vacant, shape))
        .unwrap_or_else(|| {
            let (total, requested) = places(vacant, shape);
            Reason::NeverNodes { requested, total }
        })
}

/// Why a request that could fit does not fit now.
pub fn now(space: &AvailabilityMap, shape: &Shape, misfit: Misfit) -> Reason {
    if space.has_no_nodes() {
        return Reason::NoNodes;
    }
    if let Some(reason) = unsuitable(space, shape)
        .or_else(|| used_outside(space, shape))
        .or_else(|| in_use(space, shape))
    {
        return reason;
    }
    let catalog = &space.cluster.catalog;
    let free = space.free(shape.access);
    if let Misfit::Places { fitting, needed } = misfit {
        return Reason::Scattered { fitting, needed };
    }
    let mut resources = shape.resources();
    // System-wide resources are checked before those of nodes.
    resources.sort_by_key(|index| !catalog.pooled().contains(index));
    match resources
        .into_iter()
        .find(|&index| shape.total[index] > free[index])
    {
        Some(index) => Reason::Busy {
            resource: catalog.names()[index].clone(),
            requested: shape.shown_total(index, catalog),
            available: shape.shown(index, free[index], catalog),
            total: shape.shown(index, space.cluster.capacity()[index], catalog),
            until: None,
            pooled: catalog.pooled().contains(&index),
        },
        None => nodes_apart(space, shape).unwrap_or_else(|| {
            let (fitting, needed) = places(space, shape);
            Reason::Scattered { fitting, needed }
        }),
    }
}

/// The reason if the request would fit without a condition on its nodes together: that they are in
/// one set (M47), that they have one value of a resource, or that they are adjacent (M8g).
fn nodes_apart(space: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    let by = shape
        .sets
        .as_ref()
        .map(|sets| sets.sets.by.clone())
        .or_else(|| shape.group.clone());
    let fits = |shape: &Shape| place::fit(space, shape).is_ok();
    if let Some(by) = by {
        let without_sets = Shape {
            sets: None,
            group: None,
            ..shape.clone()
        };
        if fits(&without_sets) {
            return Some(Reason::NoSet { by });
        }
    }
    if space.guide().policy(space, shape) != NodeAllocation::Contiguous {
        return None;
    }
    let elsewhere = Shape {
        allocation: Some(NodeAllocation::FirstAvailable),
        ..shape.clone()
    };
    fits(&elsewhere).then_some(Reason::NotContiguous)
}

/// If no node suits the job, the reason why the first node does not suit. None if a node suits, or
/// if there are no nodes.
fn suits_no_node(vacant: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    let mut first = None;
    for ix in vacant.cluster.indices().filter(|&ix| vacant.is_open(ix)) {
        let objection = filter::objection(vacant, shape, ix)?;
        first.get_or_insert(objection);
    }
    first.map(|(bar, said)| Reason::Unsuitable {
        bar,
        said,
        never: true,
    })
}

/// Finds nodes for the job as if it had no node filter and nodes had no restrictions. If there are
/// such nodes, returns the reason why one of them does not suit the job. Otherwise None.
fn unsuitable(space: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    let mut kinds = space.cluster.kinds();
    if shape.node_filter.is_none() && !kinds.any(|(_, kind)| kind.terms.restrictions.is_some()) {
        return None;
    }
    let anywhere = Shape {
        node_filter: None,
        ignores_restrictions: true,
        ..shape.clone()
    };
    let placement = place::fit(space, &anywhere).ok()?;
    let (bar, said) = placement
        .picks
        .iter()
        .find_map(|&(ix, _)| filter::objection(space, shape, ix))?;
    Some(Reason::Unsuitable {
        bar,
        said,
        never: false,
    })
}

/// The reason if the request does not fit only because processes outside of jobs use GPUs.
fn used_outside(space: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    let catalog = &space.cluster.catalog;
    let index = catalog
        .index("ngpus")
        .filter(|&index| shape.total[index] > 0)?;
    let mut freed = space.clone();
    let mut outside = 0;
    for ix in space.cluster.used_outside() {
        let mut room = space.room(ix).clone();
        room.free[index] += space.cluster.outside(ix);
        outside += space.cluster.outside(ix);
        freed.refile(ix, room);
    }
    let is_cause = outside > 0 && place::fits(&freed, shape);
    is_cause.then(|| Reason::UsedOutside {
        requested: shape.shown_total(index, catalog),
        available: shape.shown(index, space.free(shape.access)[index], catalog),
        total: shape.shown(index, space.cluster.capacity()[index], catalog),
        outside,
    })
}

/// The reason if the request would fit without the measured use beyond the allocations of jobs (M6,
/// M48).
fn in_use(space: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    if space.in_use().is_empty() {
        return None;
    }
    let mut freed = space.clone();
    for (&ix, in_use) in space.in_use() {
        freed.refile(ix, in_use.free_without_use(space.room(ix)));
    }
    if !place::fits(&freed, shape) {
        return None;
    }
    let (cluster, free) = (space.cluster, space.free(shape.access));
    let catalog = &cluster.catalog;
    let used = |index: usize| -> i64 {
        let in_use = space.in_use().values();
        in_use.map(|in_use| in_use.amounts[index]).sum()
    };
    let short = shape
        .resources()
        .into_iter()
        .filter(|&index| used(index) > 0 || shape.total[index] > free[index]);
    let index = short.max_by_key(|&index| (shape.total[index] > free[index], used(index) > 0))?;
    let most = space
        .in_use()
        .keys()
        .map(|&ix| cluster.node(ix))
        .max_by_key(|node| node.load)?;
    Some(Reason::InUse(Box::new(OutsideUse {
        resource: catalog.names()[index].clone(),
        requested: shape.shown_total(index, catalog),
        available: shape.shown(index, free[index].max(0), catalog),
        total: shape.shown(index, cluster.capacity()[index], catalog),
        in_use: shape.shown(index, used(index), catalog),
        node: most.name.clone(),
        load: format!("{:.1}", f64::from(most.load) / 1000.0),
    })))
}

/// The reason if no node has a requested value. The values are checked in order, each among the
/// nodes that have all values checked so far. Host and node names are checked separately from other
/// values.
fn wrong_value(space: &AvailabilityMap, chunk: &ChunkShape) -> Option<Reason> {
    let mut keys = keys(space);
    for (place, need) in chunk.needs.iter().enumerate() {
        let found = if need.is_pinned() {
            found_name(space, &chunk.needs[..=place])
        } else {
            found_value(space, &mut keys, need)
        };
        if let Some(found) = found {
            let (resource, requested) = (need.resource.clone(), need.value.to_string());
            return Some(Reason::NeverMatches {
                resource,
                requested,
                found,
            });
        }
    }
    None
}

/// The keys of the node classes that have nodes.
fn keys<'a>(space: &'a AvailabilityMap) -> Vec<&'a NodeClassKey> {
    space
        .buckets()
        .iter()
        .filter(|bucket| bucket.len() > 0)
        .map(|bucket| &*bucket.key)
        .collect()
}

/// Removes the node classes without a requested value. If no class is left, returns the value of
/// the first removed class; without a value, `False` for a Boolean resource or "unset" for any
/// other.
fn found_value(
    space: &AvailabilityMap,
    keys: &mut Vec<&NodeClassKey>,
    need: &Need,
) -> Option<String> {
    let first = keys.first().copied();
    keys.retain(|key| space.cluster.meets(key.kind, need));
    if !keys.is_empty() {
        return None;
    }
    let value = first.and_then(|key| space.cluster.kind(key.kind).attributes.get(&need.resource));
    Some(match (value, &need.value) {
        (Some(value), _) => value.to_string(),
        (None, ResourceValue::Boolean(_)) => ResourceValue::Boolean(false).to_string(),
        (None, _) => "unset".to_string(),
    })
}

/// None if one node has all requested host and node names. Otherwise the value that the first node
/// has for the last resource in `needs`: its node name or host name.
fn found_name(space: &AvailabilityMap, needs: &[Need]) -> Option<String> {
    let cluster = space.cluster;
    let names: Vec<Need> = needs
        .iter()
        .filter(|need| need.is_pinned())
        .cloned()
        .collect();
    let requested = needs.last().map_or("", |need| need.resource.as_str());
    let mut nodes = cluster.present();
    let first = cluster
        .present()
        .next()
        .and_then(|node| cluster.value(node, requested));
    let is_named = nodes.any(|node| {
        cluster
            .find(&node.name)
            .is_some_and(|ix| cluster.node_meets(ix, &names))
    });
    if is_named {
        None
    } else {
        Some(first.map_or("unset".to_string(), |value| value.to_string()))
    }
}

/// The reason if no node has enough of each resource for one chunk. Resources are checked in order,
/// each among the nodes with the requested values and with enough of all previous resources.
fn too_big_for_a_node(
    space: &AvailabilityMap,
    shape: &Shape,
    chunk: &ChunkShape,
) -> Option<Reason> {
    let mut keys: Vec<&NodeClassKey> = match filter::named_nodes(space, chunk) {
        Some(nodes) => nodes.iter().filter_map(|&ix| key_of(space, ix)).collect(),
        None => keys(space)
            .into_iter()
            .filter(|key| space.meets(key.kind, &chunk.needs))
            .collect(),
    };
    for &(index, amount) in &chunk.asked {
        let most = keys.iter().map(|key| key.free[index]).max().unwrap_or(0);
        keys.retain(|key| key.free[index] >= amount);
        if keys.is_empty() {
            let requested = chunk
                .given
                .iter()
                .find(|(i, _)| *i == index)
                .map(|(_, value)| value.to_string());
            return Some(never_enough(
                space,
                shape,
                index,
                requested.unwrap_or_default(),
                most,
            ));
        }
    }
    None
}

/// The key of the first node class of the node's kind.
fn key_of<'a>(space: &'a AvailabilityMap, ix: NodeIx) -> Option<&'a NodeClassKey> {
    let kind = space.cluster.node(ix).kind?;
    space
        .buckets()
        .iter()
        .map(|bucket| &*bucket.key)
        .find(|key| key.kind == kind)
}

/// The reason if the whole cluster has too little of a resource.
fn too_much_for_all(space: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    let all = space.free(shape.access);
    let index = shape
        .resources()
        .into_iter()
        .find(|&index| shape.total[index] > all[index])?;
    let requested = shape.shown_total(index, &space.cluster.catalog);
    Some(never_enough(space, shape, index, requested, all[index]))
}

/// The reason if all chunks must be on one host and no host has enough of a resource for them.
fn too_big_for_a_host(space: &AvailabilityMap, shape: &Shape) -> Option<Reason> {
    if shape.arrangement != Arrangement::Pack {
        return None;
    }
    let cluster = space.cluster;
    let mut of_hosts = shape
        .resources()
        .into_iter()
        .filter(|index| !cluster.catalog.pooled().contains(index));
    of_hosts.find_map(|index| {
        let solo = keys(space)
            .into_iter()
            .filter(|key| key.solo)
            .map(|key| key.free[index])
            .max();
        let composite = cluster
            .composite_hosts()
            .map(|nodes| nodes.iter().map(|&ix| space.room(ix).free[index]).sum());
        let most: i64 = composite.chain(solo).max().unwrap_or(0);
        let requested = shape.shown_total(index, &cluster.catalog);
        (shape.total[index] > most).then(|| never_enough(space, shape, index, requested, most))
    })
}

fn never_enough(
    space: &AvailabilityMap,
    shape: &Shape,
    index: usize,
    requested: String,
    most: i64,
) -> Reason {
    let catalog = &space.cluster.catalog;
    Reason::NeverEnough {
        resource: catalog.names()[index].clone(),
        requested,
        available: shape.shown(index, most, catalog),
        total: shape.shown(index, space.cluster.capacity()[index], catalog),
    }
}

/// The number of chunks that fit, and the number requested, which is always larger. Counts only the
/// first kind of chunk of which too few fit, or all chunks if enough of each kind fit.
fn places(space: &AvailabilityMap, shape: &Shape) -> (u64, u64) {
    for chunk in 0..shape.chunks.len() {
        let supply = Candidates::of(space, shape, chunk, None).supply();
        if supply < shape.chunks[chunk].count {
            return (supply, shape.chunks[chunk].count);
        }
    }
    let mut trial = TentativePlacement::new(space, shape);
    let placed: u64 = (0..shape.chunks.len())
        .map(|chunk| trial.place(chunk, None))
        .sum();
    (
        placed.min(shape.instances.saturating_sub(1)),
        shape.instances,
    )
}

#[cfg(test)]
mod tests {
    use crate::model::node::NodeTerms;
    use crate::model::policy::Availability;
    use crate::sched::fixture::{TestCluster, cluster};

    fn why(fixture: &TestCluster, request: &str) -> String {
        fixture.clone().queued(99, request).why(99)
    }

    #[test]
    fn the_reason_can_never_run_names_what_no_node_has() {
        let node =
            cluster("1 x ncpus=4:mem=8gb:arch=linux").running(1, "select=1:ncpus=2", "n1", 60);
        let never = "Can Never Run: Insufficient amount of resource: ";
        assert_eq!(
            why(&node, "select=1:ncpus=8"),
            format!("{never}ncpus (R: 8 A: 4 T: 4)")
        );
        assert_eq!(
            why(&node, "select=2:ncpus=4"),
            format!("{never}ncpus (R: 8 A: 4 T: 4)")
        );
        assert_eq!(
            why(&node, "select=1:ncpus=1:mem=100gb"),
            format!("{never}mem (R: 100gb A: 8gb T: 8gb)")
        );
        assert_eq!(
            why(&node, "select=1:host=nosuch"),
            format!("{never}host (nosuch != n1)")
        );
        assert_eq!(
            why(&node, "select=1:vnode=nosuch"),
            format!("{never}vnode (nosuch != n1)")
        );
        assert_eq!(
            why(&node, "select=1:arch=aix"),
            format!("{never}arch (aix != linux)")
        );
        assert_eq!(
            why(&node, "select=1:big=true"),
            format!("{never}big (True != False)")
        );
        assert_eq!(
            why(&node, "select=1:color=red"),
            format!("{never}color (red != unset)")
        );
        assert_eq!(
            why(&node, "select=1:ngpus=1"),
            format!("{never}ngpus (R: 1 A: 0 T: 0)")
        );
        let scatter = "Can Never Run: Not enough total nodes available (R: 2 T: 1)";
        assert_eq!(why(&node, "select=2:ncpus=1 place=scatter"), scatter);
    }

    #[test]
    fn the_reason_can_never_run_shows_the_largest_amount_on_a_node() {
        let nodes = cluster("2 x ncpus=8:mem=8gb, 1 x ncpus=4:mem=64gb");
        let never = "Can Never Run: Insufficient amount of resource: ";
        assert_eq!(
            why(&nodes, "select=1:ncpus=10"),
            format!("{never}ncpus (R: 10 A: 8 T: 20)")
        );
        assert_eq!(
            why(&nodes, "select=1:ncpus=8:mem=16gb"),
            format!("{never}mem (R: 16gb A: 8gb T: 80gb)")
        );
        assert_eq!(
            why(&nodes, "select=2:ncpus=5 place=pack"),
            format!("{never}ncpus (R: 10 A: 8 T: 20)")
        );
        assert_eq!(
            why(&nodes, "select=3:ncpus=5"),
            "Can Never Run: Not enough total nodes available (R: 3 T: 2)"
        );
    }

    #[test]
    fn the_reason_busy_has_the_free_amount_in_the_requested_unit() {
        let node =
            cluster("1 x ncpus=4:mem=8gb").running(1, "select=1:ncpus=2:mem=1536mb", "n1", 60);
        let busy = "Not Running: Insufficient amount of resource: ";
        assert_eq!(
            why(&node, "select=1:ncpus=3"),
            format!("{busy}ncpus (R: 3 A: 2 T: 4)")
        );
        assert_eq!(
            why(&node, "select=1:ncpus=1:mem=7000mb"),
            format!("{busy}mem (R: 7000mb A: 6656mb T: 8192mb)")
        );
        assert_eq!(
            why(&node, "select=2:mem=4gb"),
            format!("{busy}mem (R: 8gb A: 6815744kb T: 8gb)")
        );
        assert_eq!(
            why(&node, "select=1:ncpus=1 place=excl"),
            format!("{busy}ncpus (R: 1 A: 0 T: 4)")
        );
    }

    #[test]
    fn a_chunk_can_fit_on_no_node_although_enough_is_free_in_total() {
        let nodes = cluster("2 x ncpus=4").running(1, "select=2:ncpus=2", "n1,n2", 60);
        assert_eq!(
            why(&nodes, "select=1:ncpus=3"),
            "Not Running: Not enough free nodes available (R: 1 A: 0)"
        );
    }

    #[test]
    fn gpus_used_by_other_programs_are_reported_only_if_they_would_suffice() {
        let fixture = cluster("1 x ncpus=4:ngpus=2, 1 x ncpus=4:ngpus=1").used_outside(
            "n1",
            "ncpus=4:ngpus=2",
            &[1],
        );
        let busy = |r, a| {
            format!("Not Running: Insufficient amount of resource: ngpus (R: {r} A: {a} T: 3")
        };
        let outside = ", 1 in use by processes that belong to no job)";
        assert_eq!(
            why(&fixture, "select=1:ngpus=2"),
            format!("{}{outside}", busy(2, 2))
        );
        assert_eq!(
            why(&fixture, "select=3:ngpus=1"),
            format!("{}{outside}", busy(3, 2))
        );
        let full = fixture.clone().running(1, "select=1:ngpus=1", "n1", 60);
        assert_eq!(why(&full, "select=3:ngpus=1"), format!("{})", busy(3, 1)));
        assert_eq!(
            why(&full, "select=2:ngpus=1"),
            format!("{}{outside}", busy(2, 1))
        );
        assert_eq!(
            full.queued(5, "select=1:ngpus=1")
                .queued(6, "select=1:ncpus=1")
                .starts(),
            "5 on n2; 6 on n2"
        );
    }

    #[test]
    fn measured_use_is_reported_only_if_the_request_would_fit_without_it() {
        let fixture = cluster("").measured("n1", "ncpus=2", "ncpus=17", 17_040);
        let mut fixture = fixture.node("n2", "ncpus=1", true);
        fixture.policy.placement.availability = Availability::Utilized;
        let busy = "Not Running: Insufficient amount of resource: ncpus (R: 2 A: 1 T: 3";
        let outside = ", 17 in use beyond what is allocated to jobs; load average 17.0 on n1)";
        assert_eq!(
            why(&fixture, "select=1:ncpus=2"),
            format!("{busy}{outside}")
        );
        assert_eq!(
            fixture
                .clone()
                .queued(5, "select=1:ncpus=2")
                .reason(5)
                .unwrap()
                .code(),
            "in_use"
        );
        let full = fixture.running(1, "select=1:ncpus=1", "n1", 60);
        assert_eq!(
            why(&full, "select=1:ncpus=2"),
            format!("{busy})"),
            "job 1 uses one of the two CPUs of n1"
        );
    }

    #[test]
    fn a_node_at_its_highest_load_is_the_reason() {
        let terms = NodeTerms {
            max_load: Some(4000),
            ..NodeTerms::default()
        };
        let fixture = cluster("")
            .terms("n1", "ncpus=8", terms.clone())
            .loaded("n1", "ncpus=8", terms, 4200);
        let expected = "Not Running: Insufficient amount of resource: ncpus (R: 1 A: 0 T: 8; \
                        load average 4.2 on n1)";
        assert_eq!(why(&fixture, "select=1:ncpus=1"), expected);
    }

    #[test]
    fn without_nodes_no_request_is_impossible() {
        let none = "Not Running: No nodes available: none answers, or all are offline";
        assert_eq!(why(&cluster(""), "select=1:ncpus=1000"), none);
        assert_eq!(
            why(
                &cluster("").node("n1", "ncpus=4", false),
                "select=1:ncpus=4"
            ),
            none
        );
    }

    #[test]
    fn the_reason_can_never_run_shows_the_amount_of_the_named_node() {
        let nodes = cluster("1 x ncpus=8, 1 x ncpus=4, 1 x ncpus=2").node("n3", "ncpus=2", true);
        let never = "Can Never Run: Insufficient amount of resource: ";
        assert_eq!(
            why(&nodes, "select=1:ncpus=5:vnode=n2"),
            format!("{never}ncpus (R: 5 A: 4 T: 14)")
        );
        assert_eq!(
            why(&nodes, "select=1:ncpus=1:host=n1:vnode=n2"),
            format!("{never}vnode (n2 != n1)")
        );
        assert_eq!(
            why(&nodes, "select=2:ncpus=9:host=n3"),
            format!("{never}ncpus (R: 9 A: 2 T: 14)")
        );
    }

    #[test]
    fn a_host_has_the_resources_of_all_its_nodes() {
        let hosts = cluster("1 x ncpus=4").on_host("h", "2 x ncpus=4");
        let never = "Can Never Run: Insufficient amount of resource: ";
        assert_eq!(
            why(&hosts, "select=3:ncpus=3 place=pack"),
            format!("{never}ncpus (R: 9 A: 8 T: 12)")
        );
    }

    #[test]
    fn fewer_chunks_than_requested_are_reported_to_fit() {
        let nodes = cluster("2 x ncpus=4").running(1, "select=1:ncpus=2", "n2", 60);
        let scattered =
            |fitting| format!("Not Running: Not enough free nodes available (R: 2 A: {fitting})");
        assert_eq!(why(&nodes, "select=1:ncpus=3+1:ncpus=3"), scattered(1));
        let halves = cluster("2 x ncpus=5").running(1, "select=2:ncpus=2", "n1,n2", 60);
        assert_eq!(
            why(&halves.node("n3", "ncpus=2", true), "select=2:ncpus=4"),
            scattered(0)
        );
    }
}
