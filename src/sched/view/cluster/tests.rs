//! Tests of the nodes, and of their indexes by host, kind and class.

use super::*;
use crate::model::resource::ResourceValue;
use crate::model::time::Time;
use crate::sched::fixture::{cluster, resources};
use crate::sched::view::snapshot::ClusterState;

/// The node report of a step: host, resources, and whether the node is usable.
fn report(step: usize) -> (NodeFacts, bool) {
    let node = step * 5 % 7;
    let (name, host) = (
        format!("n{node}"),
        [format!("n{node}"), "h".to_string(), "g".to_string()][step * 11 % 13 % 3].clone(),
    );
    let ncpus = (
        "ncpus".to_string(),
        ResourceValue::Long(4 + (step % 2) as i64),
    );
    let mut facts = NodeFacts {
        name,
        host,
        available: [ncpus].into(),
        ..NodeFacts::default()
    };
    if step % 5 < 3 {
        facts
            .available
            .insert("ngpus".to_string(), ResourceValue::Long(2));
        (facts.gpus, facts.gpus_outside) = (
            vec![0, 1],
            [vec![], vec![0], vec![1, 7]][step * 7 % 11 % 3].clone(),
        );
    }
    (facts, !step.is_multiple_of(4))
}

fn share(node: &str, gpu: u16) -> NodeShare {
    NodeShare {
        node: node.to_string(),
        host: node.to_string(),
        taken: vec![
            ("ncpus".to_string(), ResourceValue::Long(1)),
            ("ngpus".to_string(), ResourceValue::Long(1)),
        ],
        cpus: Vec::new(),
        gpus: vec![gpu],
        mpiprocs: 1,
        pooled: Vec::new(),
        ranks: Vec::new(),
    }
}

/// All indexes as text. Nodes appear with names, because their indices may differ.
fn indexes(cluster: &Cluster) -> Vec<String> {
    let names = |nodes: &BTreeSet<NodeIx>| {
        let mut names: Vec<&str> = nodes
            .iter()
            .map(|&ix| cluster.node(ix).name.as_str())
            .collect();
        names.sort_unstable();
        names.join(",")
    };
    let kind = |ix: KindIx| format!("{:?}", cluster.kind(ix).key);
    let hosts = cluster
        .hosts
        .iter()
        .map(|(host, nodes)| format!("host {host}: {}", names(nodes)));
    let composite = cluster
        .composite_hosts()
        .map(|nodes| format!("parts of one: {}", names(nodes)));
    let kinds = cluster
        .kinds()
        .map(|(ix, of)| format!("{} of kind {}", of.nodes, kind(ix)));
    let all = cluster.configured();
    let configured =
        all.map(|(key, nodes)| format!("there: {} {} {}", kind(key.kind), key.solo, names(nodes)));
    let usable = cluster.buckets();
    let buckets = usable.map(|(key, nodes)| {
        format!(
            "usable: {} {} {:?} {:?} {}",
            kind(key.kind),
            key.solo,
            key.condition,
            key.free,
            names(nodes)
        )
    });
    let outside = cluster.used_outside().map(|ix| {
        format!(
            "{} of {} from outside",
            cluster.outside(ix),
            cluster.node(ix).name
        )
    });
    let mut indexes: Vec<String> = hosts
        .chain(composite)
        .chain(kinds)
        .chain(configured)
        .chain(buckets)
        .chain(outside)
        .collect();
    indexes.sort_unstable();
    indexes.push(format!("{:?} in all", cluster.capacity()));
    indexes
}

#[test]
fn indexes_after_many_changes_equal_the_indexes_of_a_new_cluster() {
    let mut state = ClusterState::new(&resources());
    let (mut last, mut jobs) = (BTreeMap::new(), BTreeMap::new());
    for step in 0..400 {
        let (facts, usable) = report(step);
        let (name, job) = (facts.name.clone(), JobId::job(step as u64 % 9));
        match step * 3 % 8 {
            0 => {
                state.remove_node(&name);
                last.remove(&name);
            }
            1 => {
                jobs.insert(job, share(&name, step as u16 % 2));
                state.occupy(job, &[jobs[&job].clone()], false, Time(9));
            }
            2 => {
                jobs.remove(&job);
                state.vacate(job);
            }
            _ => {
                state.set_node(&facts, usable);
                last.insert(name, (facts, usable));
            }
        }
        let mut rebuilt = ClusterState::new(&resources());
        jobs.iter().for_each(|(job, share)| {
            rebuilt.occupy(*job, std::slice::from_ref(share), false, Time(9))
        });
        last.values()
            .for_each(|(facts, usable)| rebuilt.set_node(facts, *usable));
        assert_eq!(
            indexes(&state.cluster),
            indexes(&rebuilt.cluster),
            "step {step}"
        );
    }
}

#[test]
fn a_node_without_vmem_has_unlimited_vmem() {
    let starts = |what: &str| {
        cluster(what)
            .queued(1, "select=1:ncpus=1:vmem=4tb")
            .starts()
    };
    assert_eq!(starts("1 x ncpus=1"), "1 on n1");
    assert_eq!(starts("1 x ncpus=1:vmem=1tb"), "");
}

/// If `host` and `vnode` were part of the kind, no two nodes would be interchangeable.
#[test]
fn nodes_that_differ_only_in_host_and_vnode_are_of_one_kind() {
    let mut state = ClusterState::new(&resources());
    for name in ["n1", "n2"] {
        let mut facts = NodeFacts {
            name: name.to_string(),
            host: name.to_string(),
            ..NodeFacts::default()
        };
        for names in ["host", "vnode"] {
            facts
                .available
                .insert(names.to_string(), ResourceValue::String(name.to_string()));
        }
        state.set_node(&facts, true);
    }
    assert_eq!(state.cluster.kinds().count(), 1);
}

/// Processes outside of jobs use GPUs 1 and 7, but the node has no GPU 7.
#[test]
fn only_gpus_without_jobs_count_as_used_outside_of_jobs() {
    let mut fixture = cluster("1 x ncpus=4:ngpus=2").used_outside("n1", "ncpus=4:ngpus=2", &[1, 7]);
    fixture
        .state
        .occupy(JobId::job(1), &[share("n1", 0)], false, Time(9));
    assert_eq!(fixture.state.cluster.outside(NodeIx(0)), 1);
    fixture
        .state
        .occupy(JobId::job(1), &[share("n1", 1)], false, Time(9));
    assert_eq!(
        (
            fixture.state.cluster.outside(NodeIx(0)),
            fixture.state.cluster.used_outside().count()
        ),
        (0, 0)
    );
}

/// If GPUs of removed nodes counted, a job would wait for GPUs of a node that accepts no jobs.
#[test]
fn gpus_of_removed_nodes_do_not_count_as_used_outside_of_jobs() {
    let mut fixture = cluster("1 x ncpus=4:ngpus=2").used_outside("n1", "ncpus=4:ngpus=2", &[1]);
    let used =
        |fixture: &crate::sched::fixture::TestCluster| fixture.state.cluster.used_outside().count();
    assert_eq!(used(&fixture), 1);
    fixture.state.remove_node("n1");
    assert_eq!(used(&fixture), 0);
}
