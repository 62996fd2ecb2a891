//! Tests of per-host resources that the subjobs of one array share on a host. The tests call the
//! resource `site_lic` "the license".

use crate::model::job::NodeShare;
use crate::model::job::event::Event;
use crate::model::job::suspension::SuspendMode;
use crate::model::job_id::JobId;
use crate::model::policy::preemption::{PreemptMode, PreemptTrigger, PreemptionPolicy};
use crate::model::policy::quality::{Flag, Qualities, Quality};
use crate::model::policy::{Backfill, Filling, NodeSets, SetChoice};
use crate::model::reservation::window::{Window, WindowAccess};
use crate::model::resource::{Definition, ResourceType, ResourceValue};
use crate::model::time::Time;
use crate::sched::backfill::reservation_window;
use crate::sched::fixture::{self, TestCluster, cluster};
use crate::sched::view::change::Change;
use crate::sched::view::holdings::RunningOwner;
use crate::sched::view::plan::Plan;
use crate::sched::view::pools::Pool;
use crate::sched::view::shape::AccessPolicy;
use crate::sched::view::snapshot::ClusterState;
use proptest::prelude::*;
use proptest::{collection, sample::Index};
use std::sync::Arc;

/// A cluster with `total` licenses. A job that requests one license uses one on each of its hosts.
fn fixture(nodes: &str, total: i64) -> TestCluster {
    let mut fixture = cluster(nodes);
    fixture.state.set_pool(
        "site_lic",
        Pool {
            total,
            per_host: true,
            ..Pool::default()
        },
    );
    fixture
}

/// Adds a running subjob of array 1 that uses one license on a node until `until` (in seconds).
fn on(mut fixture: TestCluster, index: u32, node: &str, until: i64) -> TestCluster {
    let amount = |name: &str| (name.to_string(), ResourceValue::Long(1));
    let share = NodeShare {
        taken: vec![amount("ncpus")],
        pooled: vec![amount("site_lic")],
        ..fixture::share(node)
    };
    fixture.state.occupy(
        JobId::element(1, index),
        &[share],
        AccessPolicy::Shared,
        Time(until * 1000),
    );
    fixture
}

/// The number of licenses in use.
fn used(fixture: &TestCluster) -> i64 {
    fixture.state.pool("site_lic").unwrap().0
}

/// G2: four subjobs on one host share one license. A fifth subjob on another host would need a
/// second license.
#[test]
fn subjobs_on_one_host_share_one_license() {
    let mut fixture = fixture("2 x ncpus=4", 1).queued(1, "select=1:ncpus=1 site_lic=1 array=1-6");
    assert_eq!(
        fixture.starts(),
        "1[1] on n1; 1[2] on n1; 1[3] on n1; 1[4] on n1"
    );
    let plan = fixture.plan();
    plan.audit(&fixture.state).unwrap();
    fixture.apply(&plan);
    assert_eq!((used(&fixture), fixture.starts().as_str()), (1, ""));
    let why = "Not Running: Insufficient amount of resource: site_lic (R: 1 A: 0 T: 1)";
    assert_eq!(fixture.why(1), why);
    fixture.state.vacate(JobId::element(1, 4));
    assert_eq!(
        (used(&fixture), fixture.starts().as_str()),
        (1, "1[5] on n1"),
        "other subjobs still use the license"
    );
    (1..=3).for_each(|index| fixture.state.vacate(JobId::element(1, index)));
    assert_eq!(used(&fixture), 0);
    assert_eq!(fixture.starts(), "1[5] on n1; 1[6] on n1");
}

/// G2.
#[test]
fn other_jobs_and_arrays_do_not_share_the_license() {
    let fixture = on(fixture("1 x ncpus=8", 2), 1, "n1", 100);
    let fixture = fixture
        .queued(2, "select=1:ncpus=1 site_lic=1")
        .queued(3, "select=1:ncpus=1 site_lic=1 array=1-2");
    assert_eq!(fixture.starts(), "2 on n1");
    let two = on(self::fixture("2 x ncpus=2", 2), 1, "n1", 100);
    assert_eq!(
        used(&on(two, 2, "n2", 100)),
        2,
        "an array on two hosts uses two licenses"
    );
}

/// If too few licenses are free, a subjob fits only on hosts of other subjobs of the array.
#[test]
fn a_subjob_uses_hosts_of_other_subjobs() {
    let fixture = on(fixture("3 x ncpus=2", 1), 9, "n3", 100);
    let waiting = |more: &str| {
        fixture
            .clone()
            .queued(1, &format!("select=1:ncpus=1 site_lic=1 array=1-2{more}"))
    };
    assert_eq!(waiting("").starts(), "1[1] on n3");
    let pair = fixture
        .clone()
        .queued(1, "select=2:ncpus=1 place=pack site_lic=1 array=1-2");
    assert_eq!(pair.starts(), "", "only one of the two chunks fits on n3");
    assert_eq!(
        on(self::fixture("3 x ncpus=3", 1), 9, "n3", 100)
            .queued(1, "select=2:ncpus=1 place=pack site_lic=1 array=1-2")
            .starts(),
        "1[1] on n3,n3"
    );
    let two = fixture.queued(1, "select=2:ncpus=1 place=scatter site_lic=1 array=1-2");
    assert_eq!(
        two.starts(),
        "",
        "one of the two hosts would need another license"
    );
}

/// The order of the starts does not matter.
#[test]
fn the_last_subjob_to_end_releases_the_license() {
    for order in [
        [(1, 50), (2, 70), (3, 60)],
        [(2, 70), (3, 60), (1, 50)],
        [(3, 60), (1, 50), (2, 70)],
    ] {
        let began = order
            .iter()
            .fold(fixture("1 x ncpus=8", 1), |fixture, &(index, end)| {
                on(fixture, index, "n1", end)
            });
        let fixture = began.queued(7, "select=1:ncpus=1 site_lic=1 walltime=9");
        assert_eq!(
            (
                used(&fixture),
                fixture.starts().as_str(),
                fixture.booked().as_str()
            ),
            (1, "", "7 at 70 on n1")
        );
        let mut fixture = fixture;
        fixture.state.vacate(JobId::element(1, 2));
        assert_eq!(
            (used(&fixture), fixture.booked().as_str()),
            (1, "7 at 60 on n1")
        );
    }
}

/// The start of job 0 with the license is planned for second 100. Subjobs that would share the
/// license beyond second 100 do not start.
#[test]
fn no_subjob_delays_a_booking_by_sharing() {
    let fixture = on(fixture("1 x ncpus=8", 1), 9, "n1", 100);
    let joins = |walltime: u32| {
        let array = format!("select=1:ncpus=1 site_lic=1 walltime={walltime} array=1-2");
        let fixture = fixture
            .clone()
            .queued(0, "select=1:ncpus=1 site_lic=1 walltime=50")
            .queued(1, &array);
        fixture.starts()
    };
    assert_eq!(joins(100), "1[1] on n1; 1[2] on n1");
    assert_eq!(joins(101), "");
}

/// Subjobs 1 and 2 share the license on n1. If one of them is preempted, it releases the license
/// only if the other is in `gone`, the subjobs that have already been preempted.
#[test]
fn the_last_preempted_subjob_on_a_host_releases_the_license() {
    let fixture = on(
        on(on(fixture("2 x ncpus=8", 2), 1, "n1", 70), 2, "n1", 50),
        3,
        "n2",
        60,
    );
    let n1 = fixture.state.cluster.find("n1").unwrap();
    let lic = fixture.state.cluster.catalog.index("site_lic").unwrap();
    let gives = |index: u32, gone: &[u32]| {
        let (id, gone) = (
            JobId::element(1, index),
            gone.iter().map(|&index| JobId::element(1, index)).collect(),
        );
        fixture.state.released_by(
            (id, n1),
            &fixture.state.cluster.node(n1).tenants[&id],
            &gone,
        )[lic]
    };
    assert_eq!((gives(1, &[]), gives(2, &[])), (0, 0));
    assert_eq!((gives(1, &[2]), gives(2, &[1]), gives(2, &[3])), (1, 1, 0));
}

/// Of the subjobs that share a license, the last to end is charged with the license and releases it
/// at its end. If another subjob becomes the last to end, that subjob is charged instead.
#[test]
fn the_last_subjob_to_end_is_charged_with_the_license() {
    let mut fixture = on(fixture("1 x ncpus=8", 2), 1, "n1", 50);
    let lic = fixture.state.cluster.catalog.index("site_lic").unwrap();
    let claimant = RunningOwner::of(&fixture.job(1, "select=1:ncpus=1 site_lic=1"));
    let parts = |fixture: &TestCluster| {
        let released = |at: i64| {
            fixture
                .state
                .releases
                .get(&Time(at * 1000))
                .map_or(0, |released| released[lic])
        };
        let has = |index: u32| {
            fixture
                .state
                .running
                .get(&JobId::element(1, index))
                .map_or(0, |one| one.taken[lic])
        };
        let whole = fixture
            .state
            .operations
            .all()
            .map(|(_, operation)| operation.taken[lic])
            .sum::<i64>();
        ([released(50), released(70)], [has(1), has(2)], whole)
    };
    let belongs = |mut fixture: TestCluster, index: u32| {
        fixture
            .state
            .belongs_to(JobId::element(1, index), &claimant);
        fixture.candidate(JobId::element(1, index), 0, 0.0, |_| ())
    };
    fixture = belongs(fixture, 1);
    assert_eq!(parts(&fixture), ([1, 0], [1, 0], 1));
    fixture = belongs(on(fixture, 2, "n1", 70), 2);
    assert_eq!(parts(&fixture), ([0, 1], [0, 1], 1));
    fixture.state.vacate(JobId::element(1, 2));
    assert_eq!(parts(&fixture), ([1, 0], [1, 0], 1));
    fixture = on(on(fixture, 2, "n1", 70), 2, "n1", 40);
    assert_eq!(parts(&fixture), ([1, 0], [1, 0], 1), "subjob 1 ends last");
}

/// M45: the order in which the subjobs are reported does not matter.
#[test]
fn a_suspended_subjob_that_released_the_license_does_not_share_it() {
    let suspend = |fixture: &mut TestCluster, index: u32| {
        let mut job = fixture.job(1, "select=1:ncpus=1 site_lic=1 walltime=100");
        job.id = JobId::element(1, index);
        let amount = |name: &str| (name.to_string(), ResourceValue::Long(1));
        let share = NodeShare {
            taken: vec![amount("ncpus")],
            pooled: vec![amount("site_lic")],
            ..fixture::share("n1")
        };
        let manner = SuspendMode::For {
            job: JobId::job(99),
            releases: vec!["ncpus".into(), "site_lic".into()],
        };
        for event in [
            Event::Started {
                attempt: 1,
                shares: vec![share],
                score: None,
                extra: false,
            },
            Event::Launched {
                attempt: 1,
                session: 1,
                boot: "b".into(),
            },
            Event::SuspendWanted {
                by: "s".into(),
                attempt: 1,
                manner,
            },
            Event::Suspended { attempt: 1 },
        ] {
            job.apply(&event, fixture::moment(0));
        }
        fixture
            .state
            .make(&Change::of(job.id, Some(&job), &fixture.policy));
    };
    let mut first = fixture("1 x ncpus=8", 1);
    suspend(&mut first, 1);
    assert_eq!(used(&first), 0);
    first = on(first, 2, "n1", 50);
    let mut last = on(fixture("1 x ncpus=8", 1), 2, "n1", 50);
    suspend(&mut last, 1);
    for mut fixture in [first, last] {
        let lic = fixture.state.cluster.catalog.index("site_lic").unwrap();
        assert_eq!(
            (used(&fixture), fixture.state.releases[&Time(50_000)][lic]),
            (1, 1)
        );
        let (id, n1) = (
            JobId::element(1, 1),
            fixture.state.cluster.find("n1").unwrap(),
        );
        let gone = [JobId::element(1, 2)].into();
        let back = fixture.state.released_by(
            (id, n1),
            &fixture.state.cluster.node(n1).tenants[&id],
            &gone,
        )[lic];
        assert_eq!(
            back, 0,
            "a suspended subjob does not release the license a second time"
        );
        fixture = fixture.queued(7, "select=1:ncpus=1 site_lic=1 walltime=9");
        assert_eq!(
            fixture.clone().resumes(),
            "",
            "no license is free for subjob 1"
        );
        fixture.state.vacate(JobId::element(1, 2));
        assert_eq!(
            (used(&fixture), fixture.resumes().as_str()),
            (0, "1[1] on n1 with 0 until 100")
        );
        fixture.state.vacate(JobId::element(1, 1));
        assert_eq!(fixture.starts(), "7 on n1");
    }
}

/// Subjob 2 still uses the license on n1 when n1 has been removed. Subjob 3 is reported on n1
/// before n1 is reported again.
#[test]
fn a_subjob_on_a_removed_node_still_uses_the_license() {
    let mut fixture = on(on(fixture("2 x ncpus=8", 1), 1, "n1", 70), 2, "n1", 50);
    fixture.state.remove_node("n1");
    fixture.state.vacate(JobId::element(1, 1));
    assert_eq!(used(&fixture), 1);
    fixture = on(fixture, 3, "n1", 90);
    assert_eq!(used(&fixture), 1);
    fixture = fixture
        .node("n1", "ncpus=8", true)
        .queued(1, "select=1:ncpus=1 site_lic=1 array=4-4");
    assert_eq!(fixture.starts(), "1[4] on n1");
    [2, 3]
        .into_iter()
        .for_each(|index| fixture.state.vacate(JobId::element(1, index)));
    assert_eq!(used(&fixture), 0);
}

/// The order in which nodes and jobs are reported does not matter.
#[test]
fn the_nodes_of_one_host_share_the_license() {
    for known in [true, false] {
        let host = |fixture: TestCluster| fixture.on_host("h", "2 x ncpus=2");
        let mut fixture = if known {
            host(fixture("", 2))
        } else {
            fixture("", 2)
        };
        for (index, nodes, first) in [(1, ["n1", "n2"], 0), (2, ["n2", "n1"], 1)] {
            let share = |at: usize| NodeShare {
                host: "h".into(),
                taken: vec![("ncpus".into(), ResourceValue::Long(1))],
                pooled: if at == 0 {
                    vec![("site_lic".into(), ResourceValue::Long(1))]
                } else {
                    vec![]
                },
                ..fixture::share(nodes[at])
            };
            let (id, until) = (JobId::element(1, index), Time(50_000 + i64::from(index)));
            fixture
                .state
                .occupy(id, &[share(0), share(1)], AccessPolicy::Shared, until);
            assert_eq!(used(&fixture), 1, "{first}");
        }
        fixture = if known { fixture } else { host(fixture) };
        let (state, id) = (&fixture.state, JobId::element(1, 2));
        let lic = state.cluster.catalog.index("site_lic").unwrap();
        let gone = [JobId::element(1, 1)].into();
        let back = |name: &str| {
            let ix = state.cluster.find(name).unwrap();
            state.released_by((id, ix), &state.cluster.node(ix).tenants[&id], &gone)[lic]
        };
        assert_eq!(back("n1") + back("n2"), 1, "once per host, not per node");
        [2, 1]
            .into_iter()
            .for_each(|index| fixture.state.vacate(JobId::element(1, index)));
        assert_eq!(used(&fixture), 0);
    }
}

/// G8: a planned start takes subjobs started in the same cycle into account. The next cycle plans
/// the same start.
#[test]
fn a_booking_counts_subjobs_started_in_the_cycle() {
    let fixture = on(fixture("1 x ncpus=3", 1), 9, "n1", 100);
    let text = |walltime: u32, last: u32| {
        format!("select=1:ncpus=1 site_lic=1 walltime={walltime} array=1-{last}")
    };
    for (walltime, last, booked) in [(150, 2, "7 at 150 on n1"), (60, 2, "7 at 100 on n1")] {
        let fixture = fixture.clone().queued(1, &text(walltime, last));
        let mut fixture = fixture.queued(7, "select=1:ncpus=1 site_lic=1 walltime=9");
        let plan = fixture.plan();
        assert_eq!((plan.starts.len(), fixture.booked().as_str()), (2, booked));
        fixture.apply(&plan);
        assert_eq!(fixture.booked(), booked);
    }
}

/// Each host of other subjobs has free CPUs for only one chunk.
#[test]
fn packed_chunks_must_be_on_one_host_of_other_subjobs() {
    let fixture = on(on(fixture("2 x ncpus=2", 2), 8, "n1", 100), 9, "n2", 100);
    let pair = |place: &str| {
        fixture.clone().queued(
            1,
            &format!("select=2:ncpus=1 place={place} site_lic=1 array=1-1"),
        )
    };
    assert_eq!(pair("pack").starts(), "");
    assert_eq!(pair("scatter").starts(), "1[1] on n1,n2");
}

/// A subjob is reported again. If its end has not changed, no resources have become free
/// unexpectedly.
#[test]
fn an_unchanged_subjob_releases_nothing() {
    let mut fixture = on(on(fixture("1 x ncpus=8", 1), 1, "n1", 50), 2, "n1", 70);
    fixture.state.take_over(&Plan::new(Time(0)));
    for index in [1, 2] {
        let until = if index == 1 { 50 } else { 70 };
        assert!(
            on(fixture.clone(), index, "n1", until)
                .state
                .bookings
                .is_as_planned()
        );
        assert!(
            !on(fixture.clone(), index, "n1", 40)
                .state
                .bookings
                .is_as_planned()
        );
    }
}

/// The preempted jobs, each with its preemptor.
fn victims(fixture: &TestCluster) -> String {
    let shown = |preemption: &crate::sched::view::plan::Preemption| {
        format!("{} for {}", preemption.job, preemption.by.unwrap())
    };
    fixture
        .plan()
        .preempts
        .iter()
        .map(shown)
        .collect::<Vec<_>>()
        .join("; ")
}

/// M45, Q21: the license becomes free only if all subjobs that share it end.
#[test]
fn all_subjobs_that_share_the_license_are_preempted() {
    let mut fixture = fixture("1 x ncpus=8", 2);
    fixture.policy.backfill.policy = Filling::Skip;
    fixture.policy.preemption = PreemptionPolicy {
        mode: PreemptMode::Aggressive,
        ..PreemptionPolicy::by(PreemptTrigger::Qube)
    };
    fixture = fixture
        .running(3, "select=1:ncpus=1 site_lic=1", "n1", 9000)
        .candidate(JobId::job(3), 0, -9.0, |_| ());
    for index in [1, 2] {
        let id = JobId::element(1, index);
        fixture = on(fixture, index, "n1", 9000).candidate(id, i64::from(index), -9.0, |_| ());
    }
    fixture = fixture
        .running(6, "select=1:ncpus=1", "n1", 9000)
        .candidate(JobId::job(6), 9, -9.0, |_| ());
    let fixture = fixture
        .at(100)
        .queued(4, "select=1:ncpus=1 site_lic=1")
        .queued(5, "select=1:ncpus=1 site_lic=1");
    assert_eq!(victims(&fixture), "1[2] for 4; 1[1] for 4; 3 for 5");
}

/// M43, Q21: the preemptors would run beyond the planned start of job 2. They may use only what
/// their victims release, so that they do not delay this start. The subjob that is preempted last
/// releases the license.
#[test]
fn the_last_victim_releases_the_license_to_a_preemptor() {
    let preempted = |total: i64, waiting: &[&str]| {
        let mut fixture = fixture("1 x ncpus=4", total);
        fixture.policy.preemption = PreemptionPolicy {
            mode: PreemptMode::Aggressive,
            ..PreemptionPolicy::by(PreemptTrigger::Qos)
        };
        let quality = |name: &str, flag: Flag| Quality {
            flags: vec![flag],
            ..Quality::new(name, 0.5)
        };
        fixture.policy.qualities = Qualities::only(vec![
            quality("hi", Flag::Preemptor),
            quality("lo", Flag::Preemptee),
        ]);
        let claimant = RunningOwner::of(&fixture.job(1, "select=1:ncpus=1 qos=lo"));
        for index in [1, 2] {
            let id = JobId::element(1, index);
            fixture = on(fixture, index, "n1", 1000).candidate(id, i64::from(index), -9.0, |_| ());
            fixture.state.belongs_to(id, &claimant);
        }
        // The planned start of job 2 is at 400.
        fixture = fixture
            .running(9, "select=1:ncpus=2", "n1", 400)
            .queued(2, "select=1:ncpus=2 walltime=50")
            .at(10);
        let waiting = (3..).zip(waiting);
        fixture = waiting.fold(fixture, |fixture, (id, text)| {
            fixture.queued(id, &format!("{text} qos=hi walltime=500"))
        });
        victims(&fixture)
    };
    let licensed = "select=1:ncpus=1 site_lic=1";
    assert_eq!(preempted(1, &[licensed]), "1[2] for 3; 1[1] for 3");
    assert_eq!(
        preempted(1, &["select=1:ncpus=1", licensed]),
        "1[2] for 3; 1[1] for 4"
    );
    assert_eq!(
        preempted(2, &[licensed]),
        "",
        "the only victim that is needed releases no license"
    );
}

/// The start of job 1 is planned for second 100. Job 1 needs no license.
#[test]
fn subjobs_started_in_one_cycle_share_a_license_ahead_of_a_booking() {
    let fixture = fixture("1 x ncpus=4", 1).running(9, "select=1:ncpus=2", "n1", 100);
    let fixture = fixture.queued(1, "select=1:ncpus=4 walltime=50");
    let fixture = fixture.queued(2, "select=1:ncpus=1 site_lic=1 walltime=50 array=1-2");
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("2[1] on n1; 2[2] on n1", "1 at 100 on n1")
    );
}

/// Subjobs can request different amounts if the array was altered.
#[test]
fn subjobs_with_different_amounts_use_the_maximum() {
    let mut fixture = on(fixture("1 x ncpus=8", 3), 1, "n1", 50);
    let pooled = vec![("site_lic".to_string(), ResourceValue::Long(2))];
    let id = JobId::element(1, 2);
    fixture.state.occupy(
        id,
        &[NodeShare {
            pooled,
            ..fixture::share("n1")
        }],
        AccessPolicy::Shared,
        Time(40_000),
    );
    assert_eq!(used(&fixture), 2);
    fixture.state.vacate(id);
    assert_eq!(used(&fixture), 1);
}

/// The licenses are used on n2 and n3, and these hosts have different colors.
#[test]
fn nodes_of_other_subjobs_need_the_common_value() {
    let nodes = fixture("2 x ncpus=2:color=red, 1 x ncpus=2:color=blue", 2);
    let fixture = on(on(nodes, 8, "n2", 100), 9, "n3", 100);
    let fixture = fixture.running(5, "select=1:ncpus=2", "n1", 100);
    assert_eq!(
        fixture
            .queued(1, "select=2:ncpus=1 place=group=color site_lic=1 array=1-1")
            .starts(),
        ""
    );
}

/// M47: the licenses are used on n2 and n3. With node sets by color, a subjob may not use both
/// hosts, because their colors differ.
#[test]
fn nodes_of_other_subjobs_need_the_same_set() {
    let nodes = fixture("2 x ncpus=2:color=red, 1 x ncpus=2:color=blue", 2);
    let mut fixture =
        on(on(nodes, 8, "n2", 100), 9, "n3", 100).running(5, "select=1:ncpus=2", "n1", 100);
    fixture = fixture.queued(1, "select=2:ncpus=1 place=scatter site_lic=1 array=1-1");
    assert_eq!(fixture.starts(), "1[1] on n2,n3");
    let (choice, by) = (SetChoice::OneOf, "color".to_string());
    fixture.policy.placement.sets = Some(NodeSets {
        choice,
        by,
        values: vec![],
        delay: None,
    });
    assert_eq!(fixture.starts(), "");
}

/// A cluster with two per-host resources with these totals. `has` contains the resources that
/// subjobs of array 1 use on `n1` and on `n2`. A subjob that requests both resources waits.
fn with_two(totals: [i64; 2], has: [&[&str]; 2]) -> TestCluster {
    const BOTH: [&str; 2] = ["site_lic", "site_seat"];
    let mut resources = fixture::resources();
    let of_system = Definition {
        kind: ResourceType::Long,
        host_level: false,
        consumable: true,
        requestable: true,
    };
    resources.define(BOTH[1], of_system);
    let mut fixture = cluster("");
    fixture.state = ClusterState::new(&resources);
    fixture.state.set_queue(&fixture::queue("workq", true));
    fixture = fixture
        .node("n1", "ncpus=2", true)
        .node("n2", "ncpus=2", true);
    for (name, total) in BOTH.into_iter().zip(totals) {
        fixture.state.set_pool(
            name,
            Pool {
                total,
                per_host: true,
                ..Pool::default()
            },
        );
    }
    for (index, node, names) in [(8, "n1", has[0]), (9, "n2", has[1])] {
        let pooled = names
            .iter()
            .map(|name| (name.to_string(), ResourceValue::Long(1)))
            .collect();
        let share = NodeShare {
            pooled,
            ..fixture::share(node)
        };
        fixture.state.occupy(
            JobId::element(1, index),
            &[share],
            AccessPolicy::Shared,
            Time(100_000),
        );
    }
    let mut job = fixture.job(1, "select=1:ncpus=1 site_lic=1 array=1-1");
    let request = Arc::make_mut(&mut Arc::make_mut(&mut job.spec).request);
    request
        .list
        .insert(BOTH[1].to_string(), ResourceValue::Long(1));
    fixture.state.enqueue(&job);
    fixture
}

/// No amount of either resource is free. A resource with total 2 is in use on both hosts.
#[test]
fn a_subjob_uses_hosts_where_other_subjobs_use_all_unavailable_resources() {
    let both: &[&str] = &["site_lic", "site_seat"];
    assert_eq!(
        with_two([2, 1], [&["site_lic"], both]).starts(),
        "1[1] on n2"
    );
    assert_eq!(
        with_two([1, 2], [&["site_seat"], both]).starts(),
        "1[1] on n2"
    );
    assert_eq!(
        with_two([1, 1], [&["site_seat"], &["site_lic"]]).starts(),
        ""
    );
}

/// The subjob shares the unavailable resource and uses the free amount of the other resource.
#[test]
fn a_subjob_may_share_one_resource_and_use_another_free_resource() {
    assert_eq!(
        with_two([2, 1], [&["site_lic"], &["site_seat"]]).starts(),
        "1[1] on n2"
    );
    assert_eq!(
        with_two([1, 2], [&["site_lic"], &["site_seat"]]).starts(),
        "1[1] on n1"
    );
}

/// Subjob 9 uses a license on each of two hosts. When it ends, subjob 1 still uses the license on
/// n1.
#[test]
fn a_subjob_releases_only_the_licenses_that_no_other_subjob_shares() {
    let mut fixture = fixture("2 x ncpus=4", 2);
    let pooled = vec![("site_lic".to_string(), ResourceValue::Long(1))];
    let shares = ["n1", "n2"].map(|node| NodeShare {
        pooled: pooled.clone(),
        ..fixture::share(node)
    });
    fixture.state.occupy(
        JobId::element(1, 9),
        &shares,
        AccessPolicy::Shared,
        Time(100_000),
    );
    let fixture = fixture.queued(1, "select=1:ncpus=1 site_lic=1 walltime=150 array=1-1");
    let one = fixture
        .clone()
        .queued(7, "select=1:ncpus=1 site_lic=1 walltime=9");
    assert_eq!(
        (one.starts().as_str(), one.booked().as_str()),
        ("1[1] on n1", "7 at 100 on n1")
    );
    assert_eq!(
        fixture
            .queued(7, "select=1:ncpus=1 site_lic=2 walltime=9")
            .booked(),
        "7 at 150 on n1"
    );
}

/// The subjobs still run when job 1 starts as planned.
#[test]
fn subjobs_that_run_during_a_booking_share_a_license() {
    let fixture = fixture("1 x ncpus=6", 1).running(9, "select=1:ncpus=4", "n1", 100);
    let fixture = fixture.queued(1, "select=1:ncpus=3 walltime=90");
    let fixture = fixture.queued(2, "select=1:ncpus=1 site_lic=1 walltime=150 array=1-2");
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("2[1] on n1; 2[2] on n1", "1 at 100 on n1")
    );
}

/// G8: the cycle plans the start of job 7 after it has started the subjobs and planned job 0.
#[test]
fn a_later_booking_counts_subjobs_started_in_the_cycle() {
    let mut fixture =
        on(fixture("2 x ncpus=3", 1), 9, "n1", 100).running(6, "select=1:ncpus=3", "n2", 100);
    fixture.policy.backfill.depth = Backfill::ALL;
    let fixture = fixture.queued(1, "select=1:ncpus=1 site_lic=1 walltime=150 array=1-2");
    let fixture = fixture.queued(0, "select=1:ncpus=3 walltime=9 hosts=n2");
    let fixture = fixture.queued(7, "select=1:ncpus=1 site_lic=1 walltime=9 hosts=n1");
    assert_eq!(fixture.starts(), "1[1] on n1; 1[2] on n1");
    assert_eq!(fixture.booked(), "0 at 100 on n2; 7 at 150 on n1");
}

/// M37.
#[test]
fn subjobs_share_the_license_within_a_reservation() {
    let mut fixture = fixture("1 x ncpus=4", 1);
    fixture.state.set_window(Window {
        id: "R1".into(),
        from: Time(0),
        to: Time(90_000),
        shares: reservation_window::whole(&fixture.state, &["n1".to_string()]).unwrap(),
        whole: true,
        access: WindowAccess {
            users: vec!["ann".to_string()],
            ..WindowAccess::default()
        },
        by_name: false,
        owner_preempts: false,
    });
    let array = "select=1:ncpus=1 site_lic=1 walltime=50 array=1-2";
    assert_eq!(
        fixture.clone().queued(1, array).starts(),
        "1[1] on n1; 1[2] on n1"
    );
    let mut asking = fixture.job(1, array);
    Arc::make_mut(&mut asking.spec).reservation = Some("R1".to_string());
    fixture.state.enqueue(&asking);
    assert_eq!(
        fixture.starts(),
        "1[1] on n1; 1[2] on n1",
        "the array requests the reservation"
    );
}

/// G2: the plan of a cluster with two licenses is invalid on a cluster with one.
#[test]
fn a_plan_that_exceeds_the_number_of_licenses_is_invalid() {
    let two = fixture("2 x ncpus=1", 2).queued(1, "select=1:ncpus=1 site_lic=1 array=1-2");
    let one = fixture("2 x ncpus=1", 1).queued(1, "select=1:ncpus=1 site_lic=1 array=1-2");
    let plan = two.plan();
    assert_eq!(
        (
            plan.starts.len(),
            plan.audit(&two.state).is_ok(),
            plan.audit(&one.state).is_ok()
        ),
        (2, true, false)
    );
}

/// A plan can assign the license to any node of the host.
#[test]
fn the_audit_counts_a_license_on_any_node_of_the_host() {
    let nodes = |total: i64| fixture("", total).on_host("h", "2 x ncpus=1");
    let [one, none] =
        [1, 0].map(|total| nodes(total).queued(1, "select=2:ncpus=1 site_lic=1 array=1-1"));
    let mut plan = one.plan();
    let [first, second] = &mut plan.starts[0].shares[..] else {
        panic!("two chunks")
    };
    std::mem::swap(&mut first.pooled, &mut second.pooled);
    assert_eq!(plan.audit(&one.state), Ok(()));
    assert_eq!(
        plan.audit(&none.state),
        Err("job 1[1]: exceeds a system-wide resource".to_string())
    );
}

/// The number of hosts on which jobs use the license; subjobs of one array on a host count once.
fn hosts(fixture: &TestCluster) -> i64 {
    let place = |job: JobId, ix| {
        (
            job.index()
                .map_or((job, 0), |_| (JobId::job(0), job.number)),
            ix,
        )
    };
    let running = fixture.state.running.iter();
    let places =
        running.flat_map(|(&job, running)| running.nodes.iter().map(move |&ix| place(job, ix)));
    places.collect::<std::collections::BTreeSet<_>>().len() as i64
}

proptest! {
    /// G2: the number of licenses in use equals the sum of the numbers of hosts that each array and
    /// each other job uses. It never exceeds the total. After each cycle, no more jobs can start.
    #[test]
    fn the_number_of_licenses_in_use_equals_the_number_of_hosts(
        total in 1..4_i64,
        ends in collection::vec(any::<Index>(), 1..20),
        requests in collection::vec((1..3_u32, 1..3_u32, 10..99_u32), 1..4),
    ) {
        let mut fixture = fixture("3 x ncpus=4", total);
        for (id, (chunks, ncpus, walltime)) in (1..).zip(requests) {
            let text = format!("select={chunks}:ncpus={ncpus} walltime={walltime} site_lic=1");
            fixture = fixture
                .queued(2 * id, &format!("{text} array=1-5"))
                .queued(2 * id + 1, &text);
        }
        for end in ends {
            let plan = fixture.plan();
            prop_assert_eq!(plan.audit(&fixture.state), Ok(()));
            fixture.apply(&plan);
            prop_assert_eq!(used(&fixture), hosts(&fixture));
            prop_assert!(used(&fixture) <= total);
            prop_assert_eq!(fixture.starts(), "");
            let running: Vec<JobId> = fixture.state.running.keys().copied().collect();
            if let Some(&job) = (!running.is_empty()).then(|| end.get(&running)) {
                fixture.state.vacate(job);
                prop_assert_eq!(used(&fixture), hosts(&fixture));
            }
        }
    }
}
