//! Rank: the order of the nodes that fit (M8). Nodes with the lowest rank are used first; nodes
//! with equal rank are used in the order of their indices.
//!
//! A rank that depends only on the kind of a node is computed once for each node class. Any other
//! rank is computed for each node that fits.

use super::availability_map::AvailabilityMap;
use super::expression_context::NodeView;
use super::filter::{self, FittingClass};
use super::guide::{Guide, Rank};
use crate::model::request::placement_policy::NodeAllocation;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::Shape;

impl Guide {
    /// The policy by which the nodes of a job are chosen.
    pub fn policy(&self, space: &AvailabilityMap, shape: &Shape) -> NodeAllocation {
        shape.allocation.map_or_else(
            || self.usual(space),
            |allocation| applicable(allocation, space),
        )
    }

    /// The policy by which the nodes of a job are chosen if the job requests no policy.
    pub fn usual(&self, space: &AvailabilityMap) -> NodeAllocation {
        applicable(self.allocation, space)
    }

    /// The rank of a node under a policy.
    pub fn of_node(
        &self,
        policy: NodeAllocation,
        space: &AvailabilityMap,
        shape: &Shape,
        ix: NodeIx,
    ) -> Rank {
        match policy {
            NodeAllocation::LastAvailable => idle_gap(space, shape, ix),
            NodeAllocation::CpuLoad => idle_processors(space, ix),
            NodeAllocation::Priority => self.score(space, ix),
            _ => space
                .cluster
                .node(ix)
                .kind
                .and_then(|kind| self.of_kind(policy, kind))
                .unwrap_or_default(),
        }
    }

    /// M8f: the rank by the site's expression. An undefined or erroneous value counts as 0.
    fn score(&self, space: &AvailabilityMap, ix: NodeIx) -> Rank {
        let view = NodeView::new(space, ix);
        let score = self
            .expression
            .as_ref()
            .and_then(|e| e.number(&view).ok().flatten());
        Rank::highest(score.unwrap_or(0.0))
    }
}

/// The policy that applies to this map. M8d: the current load says nothing about a later time or a
/// cluster without jobs; there, `CpuLoad` is replaced by `MinResource`.
fn applicable(allocation: NodeAllocation, space: &AvailabilityMap) -> NodeAllocation {
    match allocation {
        NodeAllocation::CpuLoad if space.is_hypothetical() => NodeAllocation::MinResource,
        other => other,
    }
}

/// M8b: the time for which a node would be idle between the job's end and the next planned start.
/// Nodes without a planned start come last.
fn idle_gap(space: &AvailabilityMap, shape: &Shape, ix: NodeIx) -> Rank {
    match (space.next_planned_start(ix), shape.end) {
        (Some(at), Some(end)) => Rank(at.since(end).0.max(0)),
        _ => Rank(i64::MAX),
    }
}

/// M8d: all CPUs of a node minus the larger of its load and the CPUs allocated to jobs. The node
/// with the most idle CPUs has the lowest rank.
fn idle_processors(space: &AvailabilityMap, ix: NodeIx) -> Rank {
    let node = space.cluster.node(ix);
    let (Some(index), Some(kind)) = (space.cluster.catalog.index("ncpus"), node.kind) else {
        return Rank(0);
    };
    let all = space.cluster.kind(kind).empty.free[index].saturating_mul(1000);
    let given = all - space.room(ix).free[index].saturating_mul(1000);
    Rank(-(all - given.max(i64::from(node.load))))
}

/// The nodes on which a kind of chunk fits, and the number of chunks that fit on each.
pub enum Candidates {
    /// All nodes of these classes. The other nodes of their hosts are not checked.
    Classes(Vec<FittingClass>),
    /// Single nodes in order of rank, each with the number of chunks that fit.
    Listed(Vec<(NodeIx, u64)>),
}

impl Candidates {
    /// The candidates for one kind of chunk, among all nodes or among the nodes `within`.
    pub fn of(
        space: &AvailabilityMap,
        shape: &Shape,
        chunk: usize,
        within: Option<&[NodeIx]>,
    ) -> Candidates {
        let requested = &shape.chunks[chunk];
        if let Some(nodes) = within {
            return Candidates::listed(space, shape, chunk, nodes.iter().copied());
        }
        if let Some(nodes) = filter::named_nodes(space, requested) {
            return Candidates::listed(space, shape, chunk, nodes.into_iter());
        }
        let fitting: Vec<FittingClass> = filter::fitting_classes(space, shape, requested).collect();
        if ranks_kinds(space, shape) && !filter::distinguishes_nodes(space, shape) {
            return Candidates::Classes(fitting);
        }
        let classes = fitting
            .iter()
            .map(|bucket| (Rank::default(), bucket.place, 0));
        let nodes = space.merged(classes).map(|(node, _)| node);
        Candidates::listed(space, shape, chunk, nodes)
    }

    fn listed(
        space: &AvailabilityMap,
        shape: &Shape,
        chunk: usize,
        nodes: impl Iterator<Item = NodeIx>,
    ) -> Candidates {
        let chunk = &shape.chunks[chunk];
        let mut listed: Vec<(NodeIx, u64)> = nodes
            .filter(|ix| {
                space.is_open(*ix)
                    && space.admits(*ix, shape.owner())
                    && space.cluster.node_meets(*ix, &chunk.needs)
                    && filter::suits(space, shape, *ix)
            })
            .map(|ix| (ix, filter::times_on_node(space, shape, chunk, ix)))
            .filter(|&(_, times)| times > 0)
            .collect();
        listed.sort_by_cached_key(|&(ix, _)| (rank(space, shape, ix), ix));
        Candidates::Listed(listed)
    }

    /// The number of chunks that fit on all candidates together.
    pub fn supply(&self) -> u64 {
        match self {
            Candidates::Classes(fitting) => fitting
                .iter()
                .map(|bucket| bucket.supply())
                .fold(0, u64::saturating_add),
            Candidates::Listed(nodes) => nodes
                .iter()
                .map(|&(_, times)| times)
                .fold(0, u64::saturating_add),
        }
    }

    /// The nodes in order of rank, each with the number of chunks that fit.
    pub fn nodes<'a>(
        &'a self,
        space: &'a AvailabilityMap,
        shape: &Shape,
    ) -> Box<dyn Iterator<Item = (NodeIx, u64)> + 'a> {
        match self {
            Candidates::Classes(fitting) => {
                let ranked = fitting
                    .iter()
                    .enumerate()
                    .map(|(i, bucket)| (class_rank(space, shape, bucket.place), bucket.place, i));
                let merged = space.merged(ranked);
                Box::new(merged.map(|(node, i)| (node, fitting[i].times)))
            }
            Candidates::Listed(nodes) => Box::new(nodes.iter().copied()),
        }
    }
}

/// Whether the rank of a node depends only on the kind of the node.
pub fn ranks_kinds(space: &AvailabilityMap, shape: &Shape) -> bool {
    !matches!(
        space.guide().policy(space, shape),
        NodeAllocation::LastAvailable | NodeAllocation::CpuLoad | NodeAllocation::Priority
    ) && shape.answer.is_none()
}

/// The rank of the nodes of a class for a job. Valid only if [`ranks_kinds`] is true.
pub fn class_rank(space: &AvailabilityMap, shape: &Shape, place: usize) -> Rank {
    let guide = space.guide();
    guide
        .of_kind(guide.policy(space, shape), space.head(place).kind)
        .unwrap_or_default()
}

/// The rank of a node for a job.
pub fn rank(space: &AvailabilityMap, shape: &Shape, ix: NodeIx) -> Rank {
    if let Some(answer) = &shape.answer {
        return Rank::at(answer.get(&space.cluster.node(ix).name).copied());
    }
    space
        .guide()
        .of_node(space.guide().policy(space, shape), space, shape, ix)
}

#[cfg(test)]
mod tests {
    use crate::model::expression::Expression;
    use crate::model::request::placement_policy::NodeAllocation;
    use crate::model::time::Time;
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::placement::guide::Rank;

    /// The four nodes of M8, with different sizes, speeds and loads.
    fn four(policy: NodeAllocation) -> TestCluster {
        let nodes = [
            ("n1", "ncpus=4:mem=8192mb:speed=1", 500),
            ("n2", "ncpus=8:mem=16384mb:speed=1", 5000),
            ("n3", "ncpus=4:mem=32768mb:speed=2", 1000),
            ("n4", "ncpus=4:mem=8192mb:speed=2", 0),
        ];
        let mut fixture = cluster("");
        for (name, what, load) in nodes {
            fixture = fixture.measured(name, what, "", load);
        }
        fixture.policy.placement.allocation = policy;
        fixture
    }

    const JOB: &str = "select=1:ncpus=4:mem=4gb";

    /// The nodes that four jobs get, one after another.
    fn order(fixture: &TestCluster) -> String {
        let fixture = (1..=4).fold(fixture.clone(), |fixture, job| {
            fixture.queued(job, "select=1:ncpus=4:mem=4gb place=excl")
        });
        let nodes: Vec<String> = fixture
            .plan()
            .starts
            .iter()
            .map(|start| start.shares[0].node.clone())
            .collect();
        nodes.join(",")
    }

    #[test]
    fn m8a_firstavailable_uses_the_first_node() {
        assert_eq!(
            four(NodeAllocation::FirstAvailable).queued(1, JOB).starts(),
            "1 on n1"
        );
    }

    #[test]
    fn m8b_lastavailable_leaves_the_smallest_gap() {
        use crate::sched::placement::availability_map::AvailabilityMap;
        use crate::sched::placement::rank::Guide;
        use crate::sched::view::shape::Shape;
        let fixture = four(NodeAllocation::LastAvailable);
        let cluster = &fixture.state.cluster;
        let guide = Guide::new(&fixture.policy.placement, cluster);
        let mut space = AvailabilityMap::now(cluster).guided(guide.into());
        for (node, hours) in [("n1", 2), ("n2", 5)] {
            space.promise(cluster.find(node).unwrap(), Time(hours * 3_600_000));
        }
        let job = fixture.job(1, JOB);
        let shape = Shape {
            end: Some(Time(7_200_000)),
            ..Shape::new(&job, &cluster.catalog)
        };
        let mut nodes_found = Vec::new();
        for _ in 0..3 {
            let pick = super::super::place::fit(&space, &shape).unwrap().picks[0].0;
            nodes_found.push(cluster.node(pick).name.clone());
            space.close(pick);
        }
        assert_eq!(nodes_found, ["n1", "n2", "n3"]);
    }

    #[test]
    fn m8c_minresource_uses_the_smallest_node_that_fits() {
        assert_eq!(
            four(NodeAllocation::MinResource).queued(1, JOB).starts(),
            "1 on n1"
        );
        let mut fixture = cluster("1 x ncpus=1:mem=256mb, 1 x ncpus=1:mem=1gb");
        fixture.policy.placement.allocation = NodeAllocation::MinResource;
        let (x, y) = ("select=1:ncpus=1:mem=512mb", "select=1:ncpus=1:mem=128mb");
        assert_eq!(
            fixture.clone().queued(1, x).queued(2, y).starts(),
            "1 on n2; 2 on n1"
        );
        assert_eq!(
            fixture.queued(1, y).queued(2, x).starts(),
            "1 on n1; 2 on n2"
        );
    }

    #[test]
    fn m8c_each_resource_counts_as_a_fraction_of_its_maximum() {
        let mut fixture = cluster("1 x ncpus=4:mem=32gb, 1 x ncpus=8:mem=2gb");
        fixture.policy.placement.allocation = NodeAllocation::MinResource;
        assert_eq!(fixture.queued(1, "select=1:ncpus=1").starts(), "1 on n2");
    }

    #[test]
    fn m8d_cpuload_uses_the_node_with_the_most_idle_cpus() {
        assert_eq!(order(&four(NodeAllocation::CpuLoad)), "n4,n1,n2,n3");
    }

    #[test]
    fn m8d_cpus_of_jobs_are_not_idle_even_if_the_load_is_low() {
        let mut fixture =
            cluster("1 x ncpus=8, 1 x ncpus=4").running(9, "select=1:ncpus=6", "n1", 60);
        fixture.policy.placement.allocation = NodeAllocation::CpuLoad;
        assert_eq!(fixture.queued(1, "select=1:ncpus=1").starts(), "1 on n2");
    }

    #[test]
    fn m8e_fastest_uses_the_fastest_node() {
        assert_eq!(
            four(NodeAllocation::Fastest).queued(1, JOB).starts(),
            "1 on n3"
        );
    }

    #[test]
    fn m8f_priority_ranks_nodes_by_an_expression() {
        let mut fixture = four(NodeAllocation::Priority);
        fixture.policy.placement.rank = Expression::parse("SPEED + .01*AMEM - 10*JOBCOUNT").ok();
        let idle = "select=1:ncpus=0";
        let fixture = fixture
            .running(91, idle, "n2", 600)
            .running(92, idle, "n3", 600)
            .running(93, idle, "n3", 600);
        let starts = (1..=4)
            .fold(fixture.clone(), |s, job| s.queued(job, "select=1:ncpus=4"))
            .starts();
        assert_eq!(starts, "1 on n3; 2 on n2; 3 on n2; 4 on n4");
        let mut packing = fixture;
        packing.policy.placement.rank = Expression::parse("JOBCOUNT").ok();
        assert_eq!(
            packing
                .queued(1, "select=1:ncpus=1")
                .queued(2, "select=1:ncpus=1")
                .starts(),
            "1 on n3; 2 on n3"
        );
    }

    #[test]
    fn m8_a_job_may_choose_another_policy() {
        let mut fixture =
            four(NodeAllocation::FirstAvailable).queued(1, &format!("{JOB} nalloc=fastest"));
        assert_eq!(fixture.starts(), "1 on n3");
        fixture = four(NodeAllocation::Fastest).queued(1, &format!("{JOB} nalloc=firstavailable"));
        assert_eq!(fixture.starts(), "1 on n1");
    }

    #[test]
    fn m8i_the_allocation_script_selects_the_nodes() {
        let mut fixture = four(NodeAllocation::Site).queued(1, JOB);
        assert_eq!(
            fixture.starts(),
            "1 on n1",
            "without an answer of the script, nodes are ranked by size"
        );
        let class = fixture
            .state
            .class_of(crate::model::job_id::JobId::job(1))
            .unwrap();
        assert!(fixture.state.set_answer(class, Some(&["n2".to_string()])));
        assert_eq!(fixture.starts(), "1 on n2");
        assert!(!fixture.state.set_answer(class, Some(&["nX".to_string()])));
        assert_eq!(fixture.starts(), "1 on n1");
    }

    #[test]
    fn the_highest_score_has_the_lowest_rank() {
        let scores = [1e9, 2.5, 2.0, 0.0, -0.0, -1.0, -1e9];
        assert!(
            scores
                .windows(2)
                .all(|pair| Rank::highest(pair[0]) <= Rank::highest(pair[1]))
        );
        assert!(
            Rank::highest(2.5) < Rank::highest(2.0) && Rank::highest(0.0) == Rank::highest(-0.0)
        );
    }

    #[test]
    fn m8e_fractions_of_speed_count() {
        let mut fixture =
            cluster("1 x ncpus=4:speed=1.2, 1 x ncpus=4:speed=1.5, 1 x ncpus=4:speed=0.9");
        fixture.policy.placement.allocation = NodeAllocation::Fastest;
        assert_eq!(fixture.queued(1, "select=1:ncpus=1").starts(), "1 on n2");
    }
}
