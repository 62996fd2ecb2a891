//! The numbers of the CPUs and GPUs that a job uses on its nodes.

use crate::model::job::NodeShare;
use crate::model::resource::ResourceValue;
use crate::sched::view::cluster::{Cluster, NodeIx};
use std::collections::{BTreeMap, BTreeSet};

/// The free CPU and GPU numbers of the nodes on which this cycle starts or resumes jobs.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    free: BTreeMap<NodeIx, FreeNumbers>,
}

#[derive(Clone, Debug)]
struct FreeNumbers {
    cpus: Vec<u16>,
    gpus: Vec<u16>,
}

impl Numbers {
    /// Adds the lowest free numbers to a share, one number for each CPU and GPU of the share. If
    /// the node has too few free CPU numbers, the share gets no CPU numbers; likewise for GPUs.
    pub fn assign_numbers(
        &mut self,
        cluster: &Cluster,
        node: NodeIx,
        share: NodeShare,
    ) -> NodeShare {
        let free = self
            .free
            .entry(node)
            .or_insert_with(|| FreeNumbers::on(cluster, node));
        let (cpus, gpus) = (
            take(&mut free.cpus, requested(&share, "ncpus")),
            take(&mut free.gpus, requested(&share, "ngpus")),
        );
        NodeShare {
            cpus,
            gpus,
            ..share
        }
    }

    /// Assigns numbers to a share of a resumed job. The job gets new numbers for the resources that
    /// it had released (`needed`) and keeps its numbers for all others.
    pub fn reassign_numbers(
        &mut self,
        cluster: &Cluster,
        node: NodeIx,
        whole: &NodeShare,
        needed: &NodeShare,
    ) -> NodeShare {
        let numbers = self.assign_numbers(cluster, node, needed.clone());
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

/// The numbers in `all` that are not in use.
fn without(all: &[u16], used: &BTreeSet<&u16>) -> Vec<u16> {
    all.iter().copied().filter(|n| !used.contains(n)).collect()
}

fn requested(share: &NodeShare, resource: &str) -> usize {
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
    fn gpus_used_by_other_programs_are_not_assigned() {
        let fixture = cluster("1 x ncpus=8:ngpus=3").used_outside("n1", "ncpus=8:ngpus=3", &[0]);
        let plan = fixture
            .queued(1, "select=1:ngpus=2")
            .queued(2, "select=1:ngpus=1")
            .plan();
        assert_eq!(plan.starts.len(), 1);
        assert_eq!(plan.starts[0].shares[0].gpus, [1, 2]);
    }

    #[test]
    fn a_share_gets_no_numbers_if_its_node_has_too_few() {
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
}
