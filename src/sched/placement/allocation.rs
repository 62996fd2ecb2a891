//! Allocation: computes the resources that a placement uses on each node. Neither this step nor the
//! steps after it (task distribution and launch) refuse a job.

use super::availability_map::{AvailabilityMap, JobAmounts};
use super::place::Placement;
use crate::sched::view::cluster::Cluster;
use crate::sched::view::shape::Shape;
use std::collections::BTreeMap;

/// The resources that the placement uses on each node. A job with exclusive hosts also holds the
/// other nodes of these hosts. System-wide resources count on the job's first node. Per-host
/// resources (system-wide resources that a job uses once on each of its hosts) count on the job's
/// first node of each host.
pub fn claim(cluster: &Cluster, shape: &Shape, placement: &Placement) -> JobAmounts {
    let mut holds = BTreeMap::new();
    for &(node, chunk) in &placement.picks {
        let taken = holds
            .entry(node)
            .or_insert_with(|| cluster.catalog.nothing());
        for &(index, amount) in &shape.chunks[chunk].asked {
            taken[index] += amount;
        }
    }
    for (ix, index, amount) in
        shape.pooled_amounts(cluster, placement.picks.iter().map(|&(ix, _)| ix))
    {
        let taken = holds.entry(ix).or_insert_with(|| cluster.catalog.nothing());
        taken[index] += amount;
    }
    for neighbour in cluster.neighbours(shape.owner(), holds.keys()) {
        holds
            .entry(neighbour)
            .or_insert_with(|| cluster.catalog.nothing());
    }
    JobAmounts {
        holds,
        owner: shape.owner(),
        joins: Vec::new(),
    }
}

/// The resources that the placement uses on each node, and the amounts that each chunk gets in
/// addition to its minimum, in the order of the chunks. The list of amounts is empty if no chunk
/// requests a range.
pub fn allocate(
    space: &AvailabilityMap,
    shape: &Shape,
    placement: &Placement,
) -> (JobAmounts, Vec<BTreeMap<usize, i64>>) {
    let mut claim = claim(space.cluster, shape, placement);
    let extra = grow(space, shape, placement, &mut claim);
    (claim, extra)
}

/// Adds resources beyond the minimum to the claim (Q22): each chunk in turn gets as much as its
/// maximum and its node allow. Returns the added amounts of each chunk, by resource. Empty if no
/// chunk requests a range.
fn grow(
    space: &AvailabilityMap,
    shape: &Shape,
    placement: &Placement,
    claim: &mut JobAmounts,
) -> Vec<BTreeMap<usize, i64>> {
    if shape.chunks.iter().all(|chunk| chunk.growing.is_empty()) {
        return Vec::new();
    }
    let mut grown = Vec::with_capacity(placement.picks.len());
    for &(ix, chunk) in &placement.picks {
        let Some(taken) = claim.holds.get_mut(&ix) else {
            continue;
        };
        let mut more = BTreeMap::new();
        for &(index, amount) in &shape.chunks[chunk].growing {
            let least = amount.least() as i64;
            let open = least + (space.room(ix).free[index] - taken[index]).max(0);
            let all = amount
                .take(open.unsigned_abs(), true)
                .map_or(least, |all| all as i64);
            taken[index] += all - least;
            more.insert(index, all - least);
        }
        grown.push(more);
    }
    grown
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    /// Q22. On a node with 8 CPUs, 2 CPUs are in use.
    #[test]
    fn an_amount_grows_with_free_resources() {
        let fixture = cluster("1 x ncpus=8").running(9, "select=1:ncpus=2", "n1", 600);
        let taken = |amount: &str| {
            let plan = fixture
                .clone()
                .queued(1, &format!("select=1:ncpus={amount}"))
                .plan();
            plan.starts
                .first()
                .map(|start| start.shares[0].taken[0].1.to_string())
        };
        assert_eq!(taken("1+").as_deref(), Some("6"));
        assert_eq!(taken("1*"), None);
        assert_eq!(taken("all"), None);
        assert_eq!(taken("4-8").as_deref(), Some("6"));
        assert_eq!(taken("2-4").as_deref(), Some("4"));
        assert_eq!(taken("7+"), None);
        let plan = cluster("2 x ncpus=8")
            .running(9, "select=1:ncpus=2", "n1", 600)
            .queued(1, "select=1:ncpus=all")
            .plan();
        assert_eq!(
            (
                plan.starts[0].shares[0].node.as_str(),
                plan.starts[0].shares[0].cpus.len()
            ),
            ("n2", 8)
        );
    }

    /// Q22: the next chunk and other jobs cannot use the added resources.
    #[test]
    fn added_resources_are_in_use() {
        let fixture = cluster("1 x ncpus=8")
            .queued(1, "select=2:ncpus=1+")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(fixture.starts(), "1 on n1,n1");
        let taken: Vec<String> = fixture.plan().starts[0]
            .shares
            .iter()
            .map(|share| share.taken[0].1.to_string())
            .collect();
        assert_eq!(taken, ["7", "1"]);
        let mut fixture = fixture;
        let plan = fixture.plan();
        fixture.apply(&plan);
        assert_eq!(fixture.state.assigned("n1").taken["ncpus"].to_string(), "8");
    }

    /// Q22: three chunks need at least 6 of the 9 CPUs. Of the other 3 CPUs, the first chunk gets
    /// 2, because its maximum is 4, and the second chunk gets 1.
    #[test]
    fn chunks_grow_in_turn_up_to_their_maximum() {
        let plan = cluster("1 x ncpus=9")
            .queued(1, "select=3:ncpus=2-4")
            .plan();
        let taken: Vec<String> = plan.starts[0]
            .shares
            .iter()
            .map(|share| share.taken[0].1.to_string())
            .collect();
        assert_eq!(taken, ["4", "3", "2"]);
    }

    /// Q22: the chunk with `ncpus=3+` grows; the chunk with `ncpus=2` does not.
    #[test]
    fn only_chunks_with_a_range_grow() {
        let plan = cluster("2 x ncpus=8")
            .queued(1, "select=1:ncpus=2+1:ncpus=3+ place=scatter")
            .plan();
        let taken = |at: usize| plan.starts[0].shares[at].taken[0].1.to_string();
        assert_eq!((taken(0), taken(1)), ("2".to_string(), "8".to_string()));
    }
}
