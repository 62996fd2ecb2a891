//! The amount of each resource of a node that counts as used (M6, M7): the allocations of jobs, the
//! measured use, or the larger of both. For a node with a maximum load (M48), its terms select one
//! of two rules: the number of free CPUs is at most the maximum minus the load, or the node takes
//! no jobs while its load is at or above the maximum.
//!
//! Within a cycle, each start reduces the free amounts by the job's request. The next cycle uses
//! the latest measurements.

use super::availability_map::AvailabilityMap;
use crate::model::node::{Adjust, NodeFacts};
use crate::model::policy::{Availability, PlacementPolicy};
use crate::sched::amounts::counted;
use crate::sched::view::cluster::{Cluster, ClusterNode, FreeResources, NodeIx, NodeKind};
use crate::sched::view::free_resources::InUse;

impl Cluster {
    /// Records the measured use and the load of a node.
    pub fn measure(&mut self, ix: NodeIx, facts: &NodeFacts) {
        let utilized: Vec<(usize, i64)> = facts
            .utilized
            .iter()
            .filter_map(|(name, value)| Some((self.catalog.index_on_node(name)?, counted(value)?)))
            .collect();
        if utilized.is_empty() && facts.terms.max_load.is_none() {
            self.measured.remove(&ix);
        } else {
            self.measured.insert(ix);
        }
        let node = self.node_mut(ix);
        (node.utilized, node.load) = (utilized, facts.load);
    }
}

/// The indices of the node resources of which only the measured use counts. The allocations of such
/// a resource can exceed its total.
pub fn by_use(cluster: &Cluster, placement: &PlacementPolicy) -> Vec<usize> {
    let of_nodes = 0..cluster.catalog.pooled().start;
    of_nodes
        .filter(|&index| of(cluster, placement, index) == Availability::Utilized)
        .collect()
}

/// The policy for one resource of nodes.
fn of(cluster: &Cluster, placement: &PlacementPolicy, index: usize) -> Availability {
    let own = placement
        .availabilities
        .get(&cluster.catalog.names()[index]);
    own.copied().unwrap_or(placement.availability)
}

/// Adjusts the free resources to the measured use and the load of nodes.
pub fn observe(space: &mut AvailabilityMap, placement: &PlacementPolicy) {
    let cluster = space.cluster;
    for &ix in &cluster.measured {
        let node = cluster.node(ix);
        let Some(kind) = node.kind.map(|kind| cluster.kind(kind)) else {
            continue;
        };
        let mut room = space.room(ix).clone();
        for &(index, used) in &node.utilized {
            let unused = kind.empty.free[index] - used;
            room.free[index] = match of(cluster, placement, index) {
                Availability::Dedicated => room.free[index],
                Availability::Utilized => unused,
                Availability::Combined => room.free[index].min(unused),
            };
        }
        apply_load(&mut room, node, kind, cluster.catalog.index("ncpus"));
        if room != *space.room(ix) {
            let given = space.room(ix);
            let amounts = given
                .free
                .iter()
                .zip(&room.free)
                .map(|(given, left)| (given - left).max(0))
                .collect();
            let in_use = InUse {
                amounts,
                is_closed: room.alone > given.alone,
            };
            space.withhold(ix, in_use);
            space.refile(ix, room);
        }
    }
}

/// Reduces the free CPUs of a node to those that its maximum load leaves, or closes a node at its
/// maximum load.
fn apply_load(room: &mut FreeResources, node: &ClusterNode, kind: &NodeKind, ncpus: Option<usize>) {
    let Some(most) = kind.terms.max_load else {
        return;
    };
    match (kind.terms.adjust, ncpus) {
        (Adjust::Procs, Some(ncpus)) => {
            room.free[ncpus] =
                room.free[ncpus].min(i64::from(most.saturating_sub(node.load) / 1000));
        }
        _ if node.load >= most => room.close(),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::node::{Adjust, NodeTerms};
    use crate::model::policy::Availability::{self, Combined, Dedicated, Utilized};
    use crate::sched::fixture::{TestCluster, cluster};

    fn under(
        fixture: &TestCluster,
        all: Availability,
        each: &[(&str, Availability)],
    ) -> TestCluster {
        let mut fixture = fixture.clone();
        fixture.policy.placement.availability = all;
        fixture.policy.placement.availabilities = each
            .iter()
            .map(|(name, how)| (name.to_string(), *how))
            .collect();
        fixture
    }

    /// M6: of 8 CPUs, 2 are allocated and 5 in use; of 16000 MB, 8000 are allocated and 3000 in
    /// use.
    #[test]
    fn free_resources_follow_allocations_and_measured_use() {
        let fixture = cluster("1 x ncpus=8:mem=16000mb")
            .running(9, "select=1:ncpus=2:mem=8000mb", "n1", 600)
            .measured("n1", "ncpus=8:mem=16000mb", "ncpus=5:mem=3000mb", 5000);
        let starts = |all, each: &[_], request: &str| {
            !under(&fixture, all, each)
                .queued(1, request)
                .starts()
                .is_empty()
        };
        assert_eq!(
            [3, 4].map(|n| starts(Combined, &[], &format!("select=1:ncpus={n}"))),
            [true, false]
        );
        assert_eq!(
            [6, 7].map(|n| starts(Dedicated, &[], &format!("select=1:ncpus={n}"))),
            [true, false]
        );
        assert_eq!(
            [3, 4].map(|n| starts(Utilized, &[], &format!("select=1:ncpus={n}"))),
            [true, false]
        );
        assert!(starts(Combined, &[], "select=1:ncpus=1:mem=8000mb"));
        assert!(!starts(Combined, &[], "select=1:ncpus=1:mem=8001mb"));
        assert!(starts(
            Combined,
            &[("ncpus", Dedicated)],
            "select=1:ncpus=4:mem=8000mb"
        ));
    }

    /// M7: each job requests one CPU, but uses only 0.4 CPUs.
    #[test]
    fn allocated_but_unused_resources_may_be_allocated_again() {
        let running_after_cycles = |how| {
            let mut fixture = under(&cluster("1 x ncpus=4"), how, &[]);
            for job in 1..=8 {
                fixture = fixture.queued(job, "select=1:ncpus=1");
            }
            let mut counts = Vec::new();
            for _ in 0..4 {
                let plan = fixture.plan();
                fixture.apply(&plan);
                counts.push(fixture.state.assigned("n1").jobs.len());
                let load = 400 * counts[counts.len() - 1];
                let used = format!("ncpus={}", load.div_ceil(1000));
                fixture = fixture.measured("n1", "ncpus=4", &used, load as u32);
            }
            counts
        };
        assert_eq!(running_after_cycles(Utilized), [4, 6, 7, 8]);
        assert_eq!(running_after_cycles(Combined), [4, 4, 4, 4]);
    }

    /// M48.
    #[test]
    fn a_node_at_its_maximum_load_takes_no_more_jobs() {
        let fixture = |load, adjust| {
            let terms = NodeTerms {
                max_load: Some(4000),
                adjust,
                ..NodeTerms::default()
            };
            cluster("")
                .terms("n1", "ncpus=8", terms.clone())
                .loaded("n1", "ncpus=8", terms, load)
        };
        let starts = |load, adjust| {
            fixture(load, adjust)
                .queued(1, "select=1")
                .queued(2, "select=1:ncpus=3")
                .starts()
        };
        assert_eq!(starts(3900, Adjust::State), "1 on n1; 2 on n1");
        assert_eq!(starts(4000, Adjust::State), "");
        assert_eq!(starts(1900, Adjust::Procs), "1 on n1");
    }
}
