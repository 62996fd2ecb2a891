//! Tests that amounts are counted only if nodes are interchangeable, and that counting gives the
//! same planned starts as assigning (pinning) them to nodes.

use super::ResourceMeasure;
use crate::model::expression::Expression;
use crate::model::node::{NodeSharing, NodeTerms};
use crate::model::policy::{Availability, NodeSets, Policy, SetChoice};
use crate::model::request::host_list::HostList;
use crate::model::request::placement_policy::{NodeAccess, NodeAllocation};
use crate::model::reservation::window::Window;
use crate::model::system_resource::Pool;
use crate::model::time::Time;
use crate::sched::backfill::reservation_window;
use crate::sched::fixture::{TestCluster, cluster};
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::guide::Guide;
use std::sync::Arc;

/// Whether amounts are counted.
fn counts(fixture: &TestCluster) -> bool {
    let guide = Guide::new(&fixture.policy.placement, &fixture.state.cluster);
    let space = AvailabilityMap::now(&fixture.state.cluster).guided(Arc::new(guide));
    ResourceMeasure::of(&fixture.state, &space).is_some()
}

/// Adds a job with exclusive nodes in a stopped queue, so that planned starts are pinned on any
/// cluster.
fn pinned(fixture: TestCluster) -> TestCluster {
    let fixture = fixture.queued(1_000_000, "select=1:ncpus=1 place=excl queue=stopped");
    assert!(!counts(&fixture));
    fixture
}

/// Two clusters with interchangeable nodes: one with a single node, and one with jobs of equal
/// chunks.
fn plain() -> [TestCluster; 2] {
    let one = cluster("1 x ncpus=4:mem=8gb").queued(2, "select=1:ncpus=2:mem=1gb place=pack");
    let many = cluster("2 x ncpus=4, 1 x ncpus=2").running(1, "select=3:ncpus=2", "n1,n1,n2", 100);
    [
        one.queued(3, "select=2:ncpus=1 walltime=60"),
        many.queued(2, "select=4:ncpus=2")
            .queued(3, "select=1:ncpus=2"),
    ]
}

fn with_policy(mut fixture: TestCluster, change: impl Fn(&mut Policy)) -> TestCluster {
    change(&mut fixture.policy);
    fixture
}

#[test]
fn amounts_are_counted_if_nodes_are_interchangeable() {
    for fixture in plain() {
        assert!(counts(&fixture));
        assert!(counts(
            &fixture.clone().queued(9, "select=2:ncpus=2 place=shared")
        ));
        assert_eq!(bookings_of(fixture.clone()), bookings_of(pinned(fixture)));
    }
}

#[test]
fn bookings_are_pinned_if_a_request_or_the_policy_limits_node_access() {
    for fixture in plain() {
        for request in [
            "place=excl",
            "place=exclhost",
            "naccess=singleuser",
            "naccess=singlejob",
            "naccess=singletask",
        ] {
            assert!(
                !counts(
                    &fixture
                        .clone()
                        .queued(9, &format!("select=1:ncpus=2 {request}"))
                ),
                "{request}"
            );
        }
        for access in [
            NodeAccess::SingleUser,
            NodeAccess::SingleJob,
            NodeAccess::SingleTask,
        ] {
            assert!(
                !counts(&with_policy(fixture.clone(), |policy| policy
                    .placement
                    .access = access)),
                "{access:?}"
            );
        }
    }
}

#[test]
fn bookings_are_pinned_if_terms_of_nodes_restrict_jobs() {
    let terms: [fn(&mut NodeTerms); 9] = [
        |terms| terms.max_jobs = Some(9),
        |terms| terms.max_user_jobs = Some(9),
        |terms| terms.max_load = Some(9000),
        |terms| terms.sharing = NodeSharing::DefaultExcl,
        |terms| terms.sharing = NodeSharing::ForceExcl,
        |terms| terms.access = NodeAccess::SingleUser,
        |terms| terms.access = NodeAccess::SingleTask,
        |terms| terms.restrictions = "/a".parse().ok(),
        |terms| terms.cluster = "/a".parse().unwrap(),
    ];
    for (fixture, node) in plain().into_iter().zip(["ncpus=4:mem=8gb", "ncpus=4"]) {
        for (which, change) in terms.iter().enumerate() {
            let mut terms = NodeTerms::default();
            change(&mut terms);
            assert_ne!(terms, NodeTerms::default());
            assert!(
                !counts(&fixture.clone().terms("n1", node, terms)),
                "{which}"
            );
        }
    }
}

#[test]
fn bookings_are_pinned_if_measured_use_counts() {
    for fixture in plain() {
        for how in [Availability::Utilized, Availability::Combined] {
            assert!(!counts(&with_policy(fixture.clone(), |policy| policy
                .placement
                .availability =
                how)));
            let of_one = ("mem".to_string(), how);
            let some = with_policy(fixture.clone(), |policy| {
                policy.placement.availabilities.extend([of_one.clone()])
            });
            assert!(!counts(&some));
        }
    }
}

#[test]
fn bookings_are_pinned_if_a_request_chooses_nodes_or_is_not_in_equal_pieces() {
    for mut fixture in plain() {
        let scope = HostList::default();
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: 4,
                missing: 0,
                elsewhere: 0,
                per_host: false,
                scope,
            },
        );
        for request in [
            "select=1:ncpus=2 site_lic=1",
            "select=1:ncpus=1+",
            "select=1:ncpus=2 requirements=host.ncpus>1",
            "select=1:ncpus=2 hosts=n1",
            "select=1:ncpus=2 omit_hosts=n1",
            "select=1:ncpus=2 restrictions=/a",
            "select=2:ncpus=1 geometry={(0,1)}",
            "select=1:ncpus=2 nalloc=contiguous",
        ] {
            assert!(!counts(&fixture.clone().queued(9, request)), "{request}");
        }
    }
    let [_, many] = plain();
    for request in [
        "select=2:ncpus=2 place=pack",
        "select=2:ncpus=2 place=scatter",
        "select=2:ncpus=2 place=vscatter",
        "select=2:ncpus=2 place=group=color",
        "select=1:ncpus=2:host=n1",
        "select=1:ncpus=2:big=True",
        "select=1:ncpus=1",
        "select=1:ncpus=2:mem=1gb",
        "select=1:ncpus=2+1:ncpus=1",
        "select=1:ncpus=2+1:ncpus=2:big=True",
    ] {
        assert!(!counts(&many.clone().queued(9, request)), "{request}");
    }
}

#[test]
fn bookings_are_pinned_if_the_policy_chooses_nodes() {
    let set = NodeSets {
        choice: SetChoice::OneOf,
        by: "color".into(),
        values: vec![],
        delay: None,
    };
    for fixture in plain() {
        assert!(!counts(&with_policy(fixture.clone(), |policy| policy
            .placement
            .sets =
            Some(set.clone()))));
        assert!(!counts(&with_policy(fixture.clone(), |policy| policy
            .placement
            .veto =
            Expression::parse("host.ncpus > 9").ok())));
        for allocation in [
            NodeAllocation::Contiguous,
            NodeAllocation::MaxBalance,
            NodeAllocation::Site,
        ] {
            assert!(!counts(&with_policy(fixture.clone(), |policy| policy
                .placement
                .allocation =
                allocation)));
        }
    }
}

/// At 60, enough CPUs become free for job 2, which runs for two hours. But n1 is reserved from 3600
/// to 7200.
#[test]
fn a_reservation_delays_a_booking() {
    for (nodes, all) in [
        ("1 x ncpus=4", "select=2:ncpus=2"),
        ("2 x ncpus=4", "select=4:ncpus=2"),
    ] {
        let mut fixture = cluster(nodes);
        fixture.state.set_window(Window {
            id: "R1".to_string(),
            from: Time(3_600_000),
            to: Time(7_200_000),
            shares: reservation_window::whole(&fixture.state, &["n1".to_string()]).unwrap(),
            whole: true,
            access: Default::default(),
            by_name: true,
            owner_preempts: false,
        });
        let fixture = fixture
            .running(1, "select=1:ncpus=2", "n1", 60)
            .queued(2, &format!("{all} walltime=2:00:00"));
        assert_eq!(bookings_of(fixture), ["2 at 7200"]);
    }
}

/// The planned starts without their nodes: `2 at 100`.
fn bookings_of(fixture: TestCluster) -> Vec<String> {
    let plan = fixture.plan();
    plan.bookings
        .iter()
        .map(|booking| format!("{} at {}", booking.job, booking.at.0 / 1000))
        .collect()
}

/// M46: only the owner of job 1 may use the free CPUs of the node.
#[test]
fn a_job_waits_for_a_node_of_another_user() {
    let fixture =
        cluster("1 x ncpus=4").running(1, "select=1:ncpus=1 naccess=singleuser", "n1", 100);
    let fixture = fixture
        .owned("bob")
        .queued(2, "select=1:ncpus=1 walltime=60");
    assert_eq!(
        (counts(&fixture), bookings_of(fixture.clone())),
        (false, vec!["2 at 100".to_string()])
    );
    assert_eq!(bookings_of(fixture.clone()), bookings_of(pinned(fixture)));
}

/// A piece is 2 CPUs. Job 1 uses half a piece on each of two nodes.
#[test]
fn bookings_are_pinned_if_a_running_job_uses_parts_of_pieces() {
    let fixture = cluster("2 x ncpus=2").running(1, "select=2:ncpus=1", "n1,n2", 100);
    let fixture = fixture.queued(2, "select=2:ncpus=2 walltime=60");
    assert_eq!(
        (counts(&fixture), bookings_of(fixture.clone())),
        (false, vec!["2 at 100".to_string()])
    );
    assert_eq!(bookings_of(fixture.clone()), bookings_of(pinned(fixture)));
}

#[test]
fn bookings_are_pinned_if_a_running_job_has_chunks_of_another_size() {
    let [_, many] = plain();
    assert!(counts(&many));
    assert!(!counts(&many.clone().running(
        8,
        "select=1:ncpus=1",
        "n3",
        100
    )));
    assert!(!counts(&many.running(
        8,
        "select=1:ncpus=2:mem=1gb",
        "n3",
        100
    )));
}
