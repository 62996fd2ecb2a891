//! Launch: turns an allocation into a start, with the numbers of the processors and GPUs that the
//! job may use on each node. schedd sends it to the nodes once the plan is on disk.

use super::matching::Match;
use super::state::{CycleState, Pass};
use crate::model::job::NodeShare;
use crate::model::resource::ResourceValue;
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::{Cluster, NodeIx};
use crate::sched::view::plan::Start;
use crate::sched::view::snapshot::JobOwner;
use std::collections::{BTreeMap, BTreeSet};

/// The numbers still free on the nodes that got something in this cycle.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    free: BTreeMap<NodeIx, FreeNumbers>,
}

#[derive(Clone, Debug)]
struct FreeNumbers {
    cpus: Vec<u16>,
    gpus: Vec<u16>,
}

/// A start that is possible now. Nothing is taken before [`start`].
pub struct PossibleStart {
    claim: JobAmounts,
    shares: Vec<(NodeIx, NodeShare)>,
    is_borrowed: bool,
    pass: Pass,
}

/// The start of a job on these shares of nodes, in this pass.
pub fn prepare(
    pass: Pass,
    found: &Match,
    claim: JobAmounts,
    shares: Vec<(NodeIx, NodeShare)>,
) -> PossibleStart {
    PossibleStart {
        claim,
        shares,
        is_borrowed: found.is_borrowed,
        pass,
    }
}

/// Hands out numbers of processors and GPUs and returns the start and what it takes.
pub fn start(
    job: Candidate,
    attempt: PossibleStart,
    cycle: &mut CycleState,
) -> (Start, JobAmounts) {
    let shape = &job.class.shape;
    let cluster = &cycle.state.cluster;
    let mut claim = attempt.claim;
    cycle.space.share(shape, &mut claim);
    let numbers = &mut cycle.numbers;
    let shares = attempt.shares.into_iter();
    let shares = shares.map(|(node, share)| numbers.hand_out(cluster, node, share));
    let start = Start {
        job: job.job,
        shares: shares.collect(),
        exclusive: JobOwner {
            user: job.class.user,
            ..shape.owner()
        },
        until: cycle.end_of(job.class),
        passed: cycle.promises.blocked,
        behind: cycle.plan.bookings.len(),
        preemptible: attempt.is_borrowed,
        beyond: match attempt.pass {
            Pass::Expansion => cycle.subjob_limit(job).map(|limit| limit.limit),
            _ => None,
        },
    };
    (start, claim)
}

impl Numbers {
    /// The lowest free numbers, as many as the share has processors and GPUs; none where the node
    /// has too few to bind each job to its own.
    fn hand_out(&mut self, cluster: &Cluster, node: NodeIx, share: NodeShare) -> NodeShare {
        let free = self
            .free
            .entry(node)
            .or_insert_with(|| FreeNumbers::on(cluster, node));
        let (cpus, gpus) = (
            take(&mut free.cpus, asked(&share, "ncpus")),
            take(&mut free.gpus, asked(&share, "ngpus")),
        );
        NodeShare {
            cpus,
            gpus,
            ..share
        }
    }
}

impl Numbers {
    /// The same for a share that gave up some of what it had, with the numbers of that: the others
    /// it keeps.
    pub fn hand_out_again(
        &mut self,
        cluster: &Cluster,
        node: NodeIx,
        whole: &NodeShare,
        needed: &NodeShare,
    ) -> NodeShare {
        let numbers = self.hand_out(cluster, node, needed.clone());
        let mut share = whole.clone();
        for (name, _) in &needed.taken {
            match name.as_str() {
                "ncpus" => share.cpus.clone_from(&numbers.cpus),
                "ngpus" => share.gpus.clone_from(&numbers.gpus),
                _ => {}
            }
        }
        share
    }
}

impl FreeNumbers {
    fn on(cluster: &Cluster, node: NodeIx) -> FreeNumbers {
        let node = cluster.node(node);
        let holds = node.tenants.values();
        let cpus: BTreeSet<&u16> = holds.clone().flat_map(|hold| &hold.cpus).collect();
        let gpus: BTreeSet<&u16> = holds
            .flat_map(|hold| &hold.gpus)
            .chain(&node.gpus_outside)
            .collect();
        FreeNumbers {
            cpus: without(&node.cpus, &cpus),
            gpus: without(&node.gpus, &gpus),
        }
    }
}

/// The numbers that are not used.
fn without(all: &[u16], used: &BTreeSet<&u16>) -> Vec<u16> {
    all.iter().copied().filter(|n| !used.contains(n)).collect()
}

fn asked(share: &NodeShare, resource: &str) -> usize {
    let value = share
        .taken
        .iter()
        .find(|(name, _)| name == resource)
        .and_then(|(_, value)| ResourceValue::amount(value));
    usize::try_from(value.unwrap_or(0)).unwrap_or(usize::MAX)
}

fn take(free: &mut Vec<u16>, count: usize) -> Vec<u16> {
    if count > free.len() {
        Vec::new()
    } else {
        free.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    #[test]
    fn each_share_gets_the_lowest_free_numbers() {
        let mut fixture = cluster("1 x ncpus=8:ngpus=2")
            .queued(1, "select=2:ncpus=2")
            .queued(2, "select=1:ncpus=1:ngpus=1");
        let plan = fixture.plan();
        let cpus: Vec<_> = plan
            .starts
            .iter()
            .flat_map(|s| s.shares.iter().map(|share| share.cpus.clone()))
            .collect();
        assert_eq!(cpus, [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(plan.starts[1].shares[0].gpus, [0]);
        fixture.apply(&plan);
        fixture.state.vacate(plan.starts[0].job);
        let plan = fixture.queued(3, "select=1:ncpus=6:ngpus=1").plan();
        assert_eq!(plan.starts[0].shares[0].cpus, [0, 1, 2, 3, 5, 6]);
        assert_eq!(plan.starts[0].shares[0].gpus, [1]);
    }

    #[test]
    fn gpus_used_from_outside_are_passed_over() {
        let fixture = cluster("1 x ncpus=8:ngpus=3").used_outside("n1", "ncpus=8:ngpus=3", &[0]);
        let plan = fixture
            .queued(1, "select=1:ngpus=2")
            .queued(2, "select=1:ngpus=1")
            .plan();
        assert_eq!(plan.starts.len(), 1);
        assert_eq!(plan.starts[0].shares[0].gpus, [1, 2]);
    }

    #[test]
    fn a_node_without_enough_numbers_binds_nothing() {
        let mut fixture = cluster("1 x ncpus=1");
        let mut facts = crate::model::node::NodeFacts {
            name: "n1".into(),
            host: "n1".into(),
            available: [(
                "ncpus".to_string(),
                crate::model::resource::ResourceValue::Long(8),
            )]
            .into(),
            pcpus: 8,
            cpus: vec![0, 1],
            gpus: vec![],
            ..Default::default()
        };
        fixture.state.set_node(&facts, true);
        let fixture = fixture
            .queued(1, "select=1:ncpus=3")
            .queued(2, "select=1:ncpus=1");
        let plan = fixture.plan();
        assert_eq!(plan.starts[0].shares[0].cpus, [0u16; 0]);
        assert_eq!(plan.starts[1].shares[0].cpus, [0]);
        facts.cpus.clear();
        let mut fixture = fixture;
        fixture.state.set_node(&facts, true);
        assert!(
            fixture
                .plan()
                .starts
                .iter()
                .all(|start| start.shares[0].cpus.is_empty())
        );
    }

    /// M46: whose a job is stands in its start, whether it mattered for its place or not.
    #[test]
    fn a_start_names_its_owner() {
        let plan = cluster("1 x ncpus=8")
            .owned("bob")
            .queued(1, "select=1:ncpus=1")
            .plan();
        assert_eq!(
            plan.starts[0].exclusive.user,
            crate::sched::view::snapshot::User::of("bob")
        );
    }
}
