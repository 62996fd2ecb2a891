//! Tests of placing chunks on nodes.

use crate::model::node::NodeTerms;
use crate::model::request::placement_policy::{NodeAccess, NodeAllocation};
use crate::sched::fixture::{TestCluster, cluster};

fn starts(nodes: &str, request: &str) -> String {
    cluster(nodes).queued(1, request).starts()
}

#[test]
fn free_chunks_fill_the_first_nodes() {
    assert_eq!(starts("3 x ncpus=8", "select=3:ncpus=4"), "1 on n1,n1,n2");
    assert_eq!(starts("2 x ncpus=8", "select=5:ncpus=4"), "");
}

#[test]
fn packed_chunks_share_a_host() {
    assert_eq!(
        starts("2 x ncpus=4, 1 x ncpus=8", "select=2:ncpus=4 place=pack"),
        "1 on n3,n3"
    );
    let vnodes = cluster("1 x ncpus=2").on_host("h", "3 x ncpus=2");
    assert_eq!(
        vnodes.queued(1, "select=3:ncpus=2 place=pack").starts(),
        "1 on n2,n3,n4"
    );
}

#[test]
fn each_scattered_chunk_has_its_own_host() {
    assert_eq!(
        starts("3 x ncpus=8", "select=3:ncpus=1 place=scatter"),
        "1 on n1,n2,n3"
    );
    let vnodes = cluster("1 x ncpus=2").on_host("h", "3 x ncpus=2");
    assert_eq!(
        vnodes
            .clone()
            .queued(1, "select=2:ncpus=1 place=scatter")
            .starts(),
        "1 on n1,n2"
    );
    assert_eq!(
        vnodes
            .clone()
            .queued(1, "select=3:ncpus=1 place=scatter")
            .starts(),
        ""
    );
    assert_eq!(
        vnodes.queued(1, "select=4:ncpus=1 place=vscatter").starts(),
        "1 on n1,n2,n3,n4"
    );
}

#[test]
fn an_exclusive_job_gets_an_idle_node_and_shares_it_with_no_job() {
    let busy = cluster("2 x ncpus=8").running(1, "select=1:ncpus=1", "n1", 100);
    let alone = busy
        .queued(2, "select=1:ncpus=1 place=excl")
        .queued(3, "select=1:ncpus=7")
        .queued(4, "select=1:ncpus=1");
    assert_eq!(alone.starts(), "2 on n2; 3 on n1");
}

#[test]
fn all_nodes_of_an_exclusive_host_are_closed_to_other_jobs() {
    let hosts = cluster("")
        .on_host("a", "2 x ncpus=2")
        .on_host("b", "2 x ncpus=2");
    let fixture = hosts.running(9, "select=1:ncpus=1", "n1", 100);
    let fixture = fixture
        .queued(1, "select=1:ncpus=1 place=exclhost")
        .queued(2, "select=3:ncpus=1")
        .queued(3, "select=1:ncpus=1");
    assert_eq!(fixture.starts(), "1 on n3; 2 on n1,n2,n2");
    assert_eq!(
        fixture.plan().starts[0].exclusive.access,
        crate::sched::view::snapshot::AccessPolicy::Hosts
    );
}

#[test]
fn requested_values_choose_the_nodes() {
    let nodes = "1 x ncpus=8, 1 x ncpus=8:big=True:color=red:speed=3";
    assert_eq!(starts(nodes, "select=1:ncpus=1:big=True"), "1 on n2");
    assert_eq!(starts(nodes, "select=1:ncpus=1:big=False"), "1 on n1");
    assert_eq!(starts(nodes, "select=1:ncpus=1:color=red"), "1 on n2");
    assert_eq!(starts(nodes, "select=1:ncpus=1:speed=2"), "1 on n2");
    assert_eq!(starts(nodes, "select=1:ncpus=1:host=n2"), "1 on n2");
    assert_eq!(
        starts(nodes, "select=1:ncpus=2+1:ncpus=1:vnode=n1"),
        "1 on n1,n1"
    );
    assert_eq!(
        starts(nodes, "select=2:ncpus=4 place=group=color"),
        "1 on n2,n2"
    );
}

#[test]
fn custom_consumable_resources_are_counted() {
    let fixture = cluster("2 x ncpus=8:lic=1")
        .queued(1, "select=1:lic=1")
        .queued(2, "select=1:lic=1")
        .queued(3, "select=1:lic=1");
    assert_eq!(fixture.starts(), "1 on n1; 2 on n2");
    assert_eq!(
        fixture.why(3),
        "Not Running: Insufficient amount of resource: lic (R: 1 A: 0 T: 2)"
    );
}

#[test]
fn several_kinds_of_chunks_share_nodes() {
    assert_eq!(
        starts("1 x ncpus=4, 1 x ncpus=2", "select=1:ncpus=2+1:ncpus=4"),
        "1 on n2,n1"
    );
    assert_eq!(
        starts("2 x ncpus=6", "select=2:ncpus=3+3:ncpus=2"),
        "1 on n1,n1,n2,n2,n2"
    );
    assert_eq!(
        starts("2 x ncpus=4", "select=1:ncpus=1+1:ncpus=4"),
        "1 on n1,n2",
        "chunks are placed in the order of the request if they fit in this order"
    );
    assert_eq!(
        starts(
            "1 x ncpus=5, 1 x ncpus=7",
            "select=1:ncpus=4+1:ncpus=3+1:ncpus=5"
        ),
        "1 on n2,n2,n1"
    );
}

#[test]
fn chunks_may_request_nothing() {
    assert_eq!(starts("1 x ncpus=1", "select=2:ncpus=0"), "1 on n1,n1");
}

#[test]
fn billions_of_chunks_are_refused_at_once() {
    for request in [
        "select=4000000000:ncpus=1",
        "select=4000000000:ncpus=0",
        "select=4000000000:ncpus=1 place=scatter",
    ] {
        assert!(
            cluster("3 x ncpus=8")
                .queued(1, request)
                .reason(1)
                .unwrap()
                .is_never(),
            "{request}"
        );
    }
}

#[test]
fn nodes_that_are_down_or_removed_get_no_jobs() {
    let mut fixture: TestCluster = cluster("2 x ncpus=8").node("n1", "ncpus=8", false);
    assert_eq!(
        fixture
            .clone()
            .queued(2, "select=1:ncpus=1:host=n1")
            .starts(),
        ""
    );
    assert_eq!(
        fixture.clone().queued(2, "select=1:ncpus=0").starts(),
        "2 on n2"
    );
    fixture = fixture.queued(1, "select=1:ncpus=8");
    assert_eq!(fixture.starts(), "1 on n2");
    fixture.state.remove_node("n2");
    assert_eq!(fixture.starts(), "");
    assert_eq!(fixture.node("n1", "ncpus=8", true).starts(), "1 on n1");
}

/// Packed chunks use the first suitable host, even if unsuitable hosts precede it.
#[test]
fn packed_chunks_skip_unsuitable_nodes() {
    let red = "1 x ncpus=4:color=red, 2 x ncpus=4:color=blue";
    assert_eq!(
        starts(red, "select=2:ncpus=2:color=blue place=pack"),
        "1 on n2,n2"
    );
    assert_eq!(
        starts(
            red,
            "select=1:ncpus=2:color=blue+1:ncpus=1:vnode=n3 place=pack"
        ),
        "1 on n3,n3"
    );
    assert_eq!(
        starts(red, "select=2:ncpus=2:color=blue place=pack omit_hosts=n2"),
        "1 on n3,n3"
    );
    assert_eq!(
        starts(
            red,
            "select=2:ncpus=2 place=pack requirements=host.color==\"blue\""
        ),
        "1 on n2,n2"
    );
    assert_eq!(
        starts(red, "select=2:ncpus=1:vnode=n1 place=pack omit_hosts=n1"),
        ""
    );
    assert_eq!(
        starts("1 x ncpus=8, 1 x ncpus=4", "select=2:ncpus=2 place=pack"),
        "1 on n2,n2",
        "the smallest node"
    );
    assert_eq!(
        starts("1 x ncpus=4, 1 x ncpus=8", "select=2:ncpus=2 place=pack"),
        "1 on n1,n1"
    );
}

/// M46: a node dedicated to one user is closed to other users, even if resources are free.
#[test]
fn packed_chunks_skip_nodes_of_other_users() {
    let fixture = cluster("2 x ncpus=4").owned("bob").running(
        9,
        "select=1:ncpus=1 naccess=singleuser",
        "n1",
        60,
    );
    let packed = "select=2:ncpus=1 place=pack";
    assert_eq!(fixture.clone().queued(1, packed).starts(), "1 on n1,n1");
    assert_eq!(
        fixture.owned("ann").queued(1, packed).starts(),
        "1 on n2,n2"
    );
}

/// Hosts with one node and hosts with several nodes are tried in one common order.
#[test]
fn packed_chunks_use_the_first_host_with_one_or_several_nodes() {
    let packed = "select=2:ncpus=2 place=pack";
    let parts_first = cluster("")
        .on_host("h", "2 x ncpus=2")
        .on_host("n3", "1 x ncpus=4");
    assert_eq!(parts_first.queued(1, packed).starts(), "1 on n1,n2");
    let mut parts_last = cluster("1 x ncpus=4")
        .on_host("h", "2 x ncpus=2")
        .queued(1, packed);
    assert_eq!(
        parts_last.starts(),
        "1 on n2,n3",
        "the smallest nodes come first"
    );
    parts_last.policy.placement.allocation = NodeAllocation::FirstAvailable;
    assert_eq!(parts_last.starts(), "1 on n1,n1");
}

/// M46.
#[test]
fn packed_chunks_skip_nodes_that_take_one_task() {
    let alone = NodeTerms {
        access: NodeAccess::SingleTask,
        ..NodeTerms::default()
    };
    let fixture = cluster("2 x ncpus=4").terms("n1", "ncpus=4", alone);
    assert_eq!(
        fixture.queued(1, "select=2:ncpus=1 place=pack").starts(),
        "1 on n2,n2"
    );
}

/// Q22: a chunk with an exclusive host (`ncpus=1*`) is not packed with other chunks.
#[test]
fn chunks_with_an_exclusive_host_are_not_packed() {
    for request in [
        "select=1:ncpus=1*+1:ncpus=0",
        "select=1:ncpus=0+1:ncpus=1*",
        "select=2:ncpus=1*",
    ] {
        assert!(
            cluster("3 x ncpus=4")
                .queued(1, request)
                .starts()
                .starts_with("1 on"),
            "{request}"
        );
        let fixture = cluster("3 x ncpus=4").running(9, "select=1:ncpus=1", "n1", 60);
        assert_eq!(
            fixture.queued(1, &format!("{request} place=pack")).starts(),
            "",
            "{request}"
        );
    }
}

/// M8: the ranks can differ between nodes of one kind, and a condition can exclude a single node.
#[test]
fn packed_chunks_use_the_node_with_the_lowest_rank() {
    let packed = "select=2:ncpus=1 place=pack";
    let mut fixture = cluster("")
        .measured("n1", "ncpus=4", "", 3000)
        .measured("n2", "ncpus=4", "", 0);
    assert_eq!(fixture.clone().queued(1, packed).starts(), "1 on n1,n1");
    fixture.policy.placement.allocation = NodeAllocation::CpuLoad;
    assert_eq!(fixture.queued(1, packed).starts(), "1 on n2,n2");
    assert_eq!(
        starts("4 x ncpus=4", &format!("{packed} omit_hosts=n1")),
        "1 on n2,n2"
    );
    let mut hosts = cluster("")
        .on_host("h", "1 x ncpus=8, 1 x ncpus=2")
        .on_host("i", "2 x ncpus=4");
    assert_eq!(hosts.clone().queued(1, packed).starts(), "1 on n2,n2");
    hosts.policy.placement.allocation = NodeAllocation::Fastest;
    let fast = hosts.on_host("j", "1 x ncpus=1:speed=1, 1 x ncpus=1:speed=3");
    assert_eq!(fast.queued(1, packed).starts(), "1 on n6,n5");
}

#[test]
fn a_chunk_that_requests_a_host_or_node_is_placed_there() {
    let nodes = "3 x ncpus=8:color=red";
    assert_eq!(
        starts(nodes, "select=1:ncpus=1:color=red:host=n2"),
        "1 on n2"
    );
    assert_eq!(
        starts(nodes, "select=2:ncpus=1:vnode=n3:color=red"),
        "1 on n3,n3"
    );
}

/// Q22: `ncpus=1*` requests an exclusive host for the chunk.
#[test]
fn no_other_chunk_of_the_job_is_placed_on_an_exclusive_host() {
    let starts = |busy: bool, select: &str| {
        let fixture = cluster("3 x ncpus=4");
        let fixture = if busy {
            fixture.running(9, "select=1:ncpus=1", "n1", 60)
        } else {
            fixture
        };
        fixture.queued(1, &format!("select={select}")).starts()
    };
    assert_eq!(starts(false, "1:ncpus=1*+1:ncpus=1"), "1 on n1,n2");
    assert_eq!(starts(false, "1:ncpus=1+1:ncpus=1*"), "1 on n1,n2");
    assert_eq!(starts(true, "1:ncpus=1*+1:ncpus=1"), "1 on n2,n1");
    assert_eq!(starts(true, "2:ncpus=1*"), "1 on n2,n3");
    assert_eq!(starts(true, "3:ncpus=1*"), "");
    assert_eq!(starts(true, "2:ncpus=1*+2:ncpus=1"), "1 on n2,n3,n1,n1");
}
