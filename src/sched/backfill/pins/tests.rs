//! Tests of planned starts that are assigned (pinned) to nodes.

use crate::model::job_id::JobId;
use crate::model::policy::{Backfill, BookingRetention};
use crate::model::reservation::window::{Window, WindowAccess};
use crate::model::system_resource::Pool;
use crate::model::time::{Span, Time};
use crate::sched::backfill::reservation_window;
use crate::sched::fixture::{TestCluster, cluster};

const HOUR: i64 = 3600;

/// Adds a job with exclusive nodes in a stopped queue, so that nodes are not interchangeable and
/// planned starts are pinned.
fn pinned(fixture: TestCluster) -> TestCluster {
    fixture.queued(1_000_000, "select=1:ncpus=1 place=excl queue=stopped")
}

/// The nodes of the first planned start, one for each chunk.
fn booked_nodes(fixture: &TestCluster) -> String {
    let mut nodes = fixture.plan().bookings[0].nodes.to_vec();
    nodes.sort();
    nodes.join(",")
}

/// Runs a cycle and applies its plan.
fn later(mut fixture: TestCluster) -> TestCluster {
    let plan = fixture.plan();
    fixture.apply(&plan);
    fixture
}

#[test]
fn a_booking_prefers_busy_nodes_to_free_nodes() {
    let fixture = pinned(cluster("1 x ncpus=4").on_host("h", "2 x ncpus=4"))
        .running(1, "select=2:ncpus=4", "n2,n3", 100)
        .queued(2, "select=2:ncpus=4")
        .queued(3, "select=1:ncpus=4 walltime=99:00:00");
    assert_eq!(
        (fixture.booked().as_str(), fixture.starts().as_str()),
        ("2 at 100 on n2,n3", "3 on n1")
    );
}

#[test]
fn a_booking_of_scattered_chunks_uses_one_node_of_each_host() {
    let fixture = pinned(
        cluster("1 x ncpus=4")
            .on_host("h", "2 x ncpus=4")
            .on_host("i", "1 x ncpus=4"),
    );
    let fixture = fixture
        .running(1, "select=3:ncpus=4", "n2,n3,n4", 100)
        .queued(2, "select=2:ncpus=4 place=scatter");
    assert_eq!(fixture.booked(), "2 at 100 on n2,n4");
}

#[test]
fn a_booking_uses_only_suitable_nodes() {
    let nodes = "1 x ncpus=4:color=red, 1 x ncpus=4:color=blue, 1 x ncpus=4:color=red";
    let fixture = pinned(cluster(nodes)).running(1, "select=2:ncpus=4", "n2,n3", 100);
    let booked = |request: &str| fixture.clone().queued(2, request).booked();
    assert_eq!(booked("select=2:ncpus=4:color=red"), "2 at 100 on n3,n1");
    assert_eq!(
        booked("select=2:ncpus=4 omit_hosts=n2"),
        "2 at 100 on n3,n1"
    );
}

#[test]
fn a_booking_uses_no_more_of_a_node_than_will_be_free() {
    let fixture =
        pinned(cluster("1 x ncpus=4, 1 x ncpus=2")).running(1, "select=1:ncpus=2", "n1", 100);
    assert_eq!(
        booked_nodes(&fixture.queued(2, "select=5:ncpus=1")),
        "n1,n1,n1,n2,n2"
    );
    let fixture =
        pinned(cluster("1 x ncpus=8, 1 x ncpus=4")).running(1, "select=1:ncpus=6", "n1", 100);
    assert_eq!(
        booked_nodes(&fixture.queued(2, "select=7:ncpus=1")),
        "n1,n1,n1,n1,n1,n1,n2"
    );
}

/// Of four nodes, `n1` and `n3` are in use until 100. Job 2 has a planned start at 100.
fn kept(request: &str) -> TestCluster {
    let nodes = "4 x ncpus=4:color=red";
    let mut fixture = pinned(cluster(nodes)).running(1, "select=1:ncpus=4", "n1", 100);
    fixture.state.set_pool(
        "site_lic",
        Pool {
            total: 2,
            ..Pool::default()
        },
    );
    later(
        fixture
            .running(3, "select=1:ncpus=4", "n3", 100)
            .queued(2, request),
    )
}

/// Adds a node that comes before all others and is in use until 100. A new planned start would use
/// this node.
fn with_an_earlier_node(fixture: TestCluster) -> TestCluster {
    fixture
        .node("a", "ncpus=4:color=red", true)
        .running(8, "select=1:ncpus=4", "a", 100)
}

#[test]
fn a_booking_stays_on_its_nodes_while_no_job_ends() {
    for request in [
        "select=3:ncpus=4",
        "select=3:ncpus=4 place=group=color",
        "select=3:ncpus=4 site_lic=1",
    ] {
        let fixture = kept(request);
        let before = fixture.booked();
        assert_eq!(with_an_earlier_node(fixture).booked(), before, "{request}");
    }
    assert_eq!(kept("select=3:ncpus=4").booked(), "2 at 100 on n1,n3,n2");
}

#[test]
fn a_booking_moves_from_nodes_that_no_longer_suit() {
    let moved = |request: &str| {
        kept(request)
            .node("n3", "ncpus=4:color=blue", true)
            .booked()
    };
    assert_eq!(moved("select=3:ncpus=4:color=red"), "2 at 100 on n1,n2,n4");
    assert_eq!(
        moved("select=3:ncpus=4 place=group=color"),
        "2 at 100 on n1,n2,n4"
    );
}

#[test]
fn a_booking_moves_from_nodes_that_another_job_uses() {
    let fixture = kept("select=3:ncpus=4");
    let fixture = fixture.running(8, "select=1:ncpus=4", "n2", 500);
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n4");
}

/// Adds `total` licenses to the cluster, and plans the starts of all jobs.
fn with_licences(fixture: TestCluster, total: i64) -> TestCluster {
    let mut fixture = pinned(fixture);
    fixture.policy.backfill.depth = Backfill::ALL;
    fixture.state.set_pool(
        "site_lic",
        Pool {
            total,
            ..Pool::default()
        },
    );
    fixture
}

/// Q21, M31: jobs that each request both licenses get planned starts one after the other. The new
/// job 1, which comes before them, does not delay the existing planned starts.
#[test]
fn bookings_of_system_wide_resources_are_kept_when_jobs_are_submitted() {
    let fixture = with_licences(cluster("4 x ncpus=4"), 2).running(
        9,
        "select=1:ncpus=1 site_lic=2",
        "n1",
        100,
    );
    let request = "site_lic=2 walltime=100";
    let fixture = later(fixture.queued(2, request).queued(3, request));
    assert_eq!(times(&fixture), [(2, 100), (3, 200)]);
    assert_eq!(
        times(&fixture.queued(1, request)),
        [(1, 300), (2, 100), (3, 200)]
    );
}

/// G4, G7: the new planned start of job 2 does not delay job 3.
#[test]
fn a_booking_of_a_license_delays_no_other_booking() {
    let mut fixture = with_licences(cluster("2 x ncpus=4:mem=4gb, 1 x ncpus=8:mem=2gb"), 2);
    fixture.policy.backfill = Backfill {
        depth: 1,
        keep: BookingRetention::Highest,
        ..Backfill::default()
    };
    let fixture = fixture
        .running(8, "select=1:ncpus=1 place=excl", "n1", 100)
        .running(9, "select=1:ncpus=3", "n2", 200);
    let fixture = later(fixture.queued(3, "select=2:ncpus=2:mem=1gb place=scatter walltime=50"));
    assert_eq!(fixture.booked(), "3 at 100 on n1,n3");
    let ahead = "select=1:ncpus=1+1:ncpus=2:mem=2gb place=scatter site_lic=1 walltime=200 rank=0";
    let fixture = later(fixture.queued(2, ahead));
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("", "2 at 100 on n2,n1; 3 at 100 on n1,n3")
    );
}

/// Q21, G4.
#[test]
fn backfilled_jobs_leave_system_wide_resources_for_bookings() {
    let fixture = with_licences(cluster("2 x ncpus=4:color=red, 2 x ncpus=4"), 3);
    let fixture = fixture.running(9, "select=1:ncpus=4", "n1", 100);
    let fixture = fixture.queued(2, "select=2:ncpus=4:color=red site_lic=2 walltime=100");
    let (long, short) = ("site_lic=1 walltime=1:00:00", "site_lic=1 walltime=100");
    assert_eq!(
        fixture
            .clone()
            .queued(3, long)
            .queued(4, long)
            .queued(5, short)
            .starts(),
        "3 on n3; 5 on n2"
    );
    let short = fixture
        .queued(3, short)
        .queued(4, short)
        .queued(5, short)
        .queued(6, long);
    assert_eq!(short.starts(), "3 on n2; 4 on n2; 5 on n2");
}

/// Q21.
#[test]
fn a_booking_of_an_exclusive_job_uses_released_system_wide_resources() {
    let fixture = with_licences(cluster("2 x ncpus=4"), 2).running(
        9,
        "select=1:ncpus=1 site_lic=2",
        "n1",
        100,
    );
    assert_eq!(
        fixture
            .queued(2, "select=1:ncpus=1 place=excl site_lic=2")
            .booked(),
        "2 at 100 on n1"
    );
}

/// Adds a reservation of whole nodes for user bob; `hours` are its beginning and end.
fn bobs(mut fixture: TestCluster, nodes: &[&str], hours: (i64, i64)) -> TestCluster {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    fixture.state.set_window(Window {
        id: "R1".into(),
        from: Time(0) + Span::seconds(hours.0 * HOUR),
        to: Time(0) + Span::seconds(hours.1 * HOUR),
        shares: reservation_window::whole(&fixture.state, &names).unwrap(),
        whole: true,
        access: WindowAccess {
            users: vec!["bob".to_string()],
            ..WindowAccess::default()
        },
        by_name: false,
        owner_preempts: false,
    });
    fixture
}

/// G4, M37: on each node, a backfilled job ends before a planned start or a reservation begins.
#[test]
fn backfill_respects_bookings_and_reservations_together() {
    let fixture =
        cluster("2 x ncpus=4:color=red, 2 x ncpus=4").running(9, "select=1:ncpus=4", "n1", HOUR);
    let fixture =
        bobs(fixture, &["n3"], (1, 9)).queued(2, "select=2:ncpus=4:color=red walltime=1:00:00");
    let fixture = fixture
        .queued(3, "select=1:ncpus=4 walltime=2:00:00")
        .queued(4, "select=1:ncpus=4 walltime=2:00:00");
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("3 on n4", "2 at 3600 on n1,n2")
    );
    let short = fixture.queued(5, "select=1:ncpus=4 walltime=1:00:00");
    assert_eq!(short.starts(), "3 on n4; 5 on n2");
    assert_eq!(short.plan().starts[0].job, JobId::job(3));
}

/// M31.
#[test]
fn a_booking_renewed_on_other_nodes_contains_these_nodes() {
    let mut fixture = kept("select=3:ncpus=4");
    fixture.policy.backfill.depth = Backfill::ALL;
    let fixture = later(fixture).running(8, "select=1:ncpus=4", "n2", 500);
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n4");
}

/// After the end of job 7, the planned start moves from the free node n2 to node a, which is in use
/// until 100. This leaves more resources for backfill.
#[test]
fn a_booking_is_placed_again_after_an_end() {
    let fixture =
        with_an_earlier_node(kept("select=3:ncpus=4").running(7, "select=1:ncpus=0", "n4", 50));
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n2");
    let mut fixture = fixture;
    fixture.state.vacate(JobId::job(7));
    assert_eq!(fixture.booked(), "2 at 100 on a,n1,n3");
}

/// M37.
#[test]
fn a_booking_moves_from_a_node_that_is_reserved() {
    let fixture = bobs(kept("select=3:ncpus=4"), &["n2"], (0, 9));
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n4");
}

/// The planned starts in seconds, by job number.
fn times(fixture: &TestCluster) -> Vec<(u64, i64)> {
    let mut times: Vec<_> = fixture
        .plan()
        .bookings
        .iter()
        .map(|b| (b.job.number, b.at.0 / 1000))
        .collect();
    times.sort_unstable();
    times
}

/// Plans the starts of all jobs, assigned to nodes.
fn all_booked(fixture: TestCluster) -> TestCluster {
    let mut fixture = pinned(fixture);
    fixture.policy.backfill.depth = Backfill::ALL;
    fixture
}

/// M31: this cycle starts job 2. Two planned starts share the resources that job 2 will release.
#[test]
fn bookings_use_resources_of_jobs_started_in_this_cycle() {
    let fixture = all_booked(cluster("1 x ncpus=4")).queued(2, "select=1:ncpus=4 walltime=50");
    let fixture = fixture
        .queued(3, "select=1:ncpus=3 walltime=100")
        .queued(4, "select=1:ncpus=1 walltime=100");
    assert_eq!(
        (fixture.starts().as_str(), times(&fixture)),
        ("2 on n1", vec![(3, 50), (4, 50)])
    );
}

/// M31: 2 CPUs are free from 50 to 100. Job 2 uses all 4 CPUs from 100 to 200. Job 3 requests 2
/// CPUs.
#[test]
fn bookings_on_a_node_do_not_overlap() {
    let fixture = all_booked(cluster("1 x ncpus=4"));
    let fixture =
        fixture
            .running(1, "select=1:ncpus=2", "n1", 50)
            .running(9, "select=1:ncpus=2", "n1", 100);
    let fixture = fixture.queued(2, "select=1:ncpus=4 walltime=100");
    let third = |walltime: i64| {
        times(
            &fixture
                .clone()
                .queued(3, &format!("select=1:ncpus=2 walltime={walltime}")),
        )[1]
    };
    assert_eq!([50, 51].map(third), [(3, 50), (3, 200)]);
}

#[test]
fn a_booking_uses_no_more_chunks_than_requested() {
    let fixture = pinned(cluster("2 x ncpus=4")).running(1, "select=2:ncpus=4", "n1,n2", 100);
    assert_eq!(
        booked_nodes(&fixture.queued(2, "select=3:ncpus=2")),
        "n1,n1,n2"
    );
}

/// Six chunks use CPUs that job 1 releases on n1. The seventh chunk uses a free CPU of n1, too.
#[test]
fn the_remaining_chunks_of_a_booking_use_the_first_nodes() {
    let mut fixture =
        pinned(cluster("1 x ncpus=8, 1 x ncpus=4")).running(1, "select=1:ncpus=6", "n1", 100);
    fixture.policy.placement.allocation =
        crate::model::request::placement_policy::NodeAllocation::FirstAvailable;
    assert_eq!(
        booked_nodes(&fixture.queued(2, "select=7:ncpus=1")),
        "n1,n1,n1,n1,n1,n1,n1"
    );
}

/// X4: of host h, n1 is in use until 100 and n2 is free. Of these two nodes, the scattered job 2
/// uses only n1.
#[test]
fn the_remaining_scattered_chunks_use_other_hosts() {
    let fixture = pinned(
        cluster("")
            .on_host("h", "2 x ncpus=4")
            .on_host("i", "1 x ncpus=4")
            .on_host("j", "1 x ncpus=4"),
    );
    let fixture = fixture
        .running(1, "select=2:ncpus=4", "n1,n4", 100)
        .queued(2, "select=3:ncpus=4 place=scatter");
    assert_eq!(fixture.booked(), "2 at 100 on n1,n4,n3");
}

/// M31: after the number of licenses has decreased to 1, job 2 keeps its planned start at 50 and
/// uses the license until 250. The planned start of job 3 moves to 250.
#[test]
fn a_kept_booking_of_a_license_lasts_until_its_job_ends() {
    let fixture = with_licences(cluster("4 x ncpus=4"), 2).running(
        9,
        "select=1:ncpus=1 site_lic=2",
        "n1",
        50,
    );
    let fixture = fixture.running(8, "select=2:ncpus=4", "n3,n4", 100);
    let fixture = fixture.queued(2, "select=1:ncpus=1:vnode=n1 site_lic=1 walltime=200");
    let mut fixture =
        later(fixture.queued(3, "select=3:ncpus=4 place=scatter site_lic=1 walltime=100"));
    assert_eq!(times(&fixture), [(2, 50), (3, 100)]);
    fixture.state.set_total("site_lic", 1, 0);
    assert_eq!(times(&fixture), [(2, 50), (3, 250)]);
}

/// M32: job 3 runs for 100 seconds and had a planned start at 100. The new job 1 ahead of it needs
/// both nodes from 150 to 250, so the planned start of job 3 moves to 250.
#[test]
fn a_booking_moves_if_a_job_ahead_needs_its_resources() {
    let mut fixture = pinned(cluster("2 x ncpus=4")).running(8, "select=1:ncpus=4", "n1", 100);
    fixture.policy.backfill.depth = 2;
    let fixture = fixture.running(9, "select=1:ncpus=4", "n2", 150);
    let fixture = later(fixture.queued(3, "select=1:ncpus=4 walltime=100"));
    assert_eq!(times(&fixture), [(3, 100)]);
    let beside = |walltime: i64| {
        let first = format!("select=2:ncpus=4 place=scatter walltime={walltime} rank=0");
        times(&fixture.clone().queued(1, &first))
    };
    assert_eq!(beside(100), [(1, 150), (3, 250)]);
}

/// M8d: the current load of a node is no forecast of its load at the planned start.
#[test]
fn i29_bookings_do_not_choose_nodes_by_load() {
    use crate::model::request::placement_policy::NodeAllocation;
    let fixture = pinned(cluster(""))
        .measured("n1", "ncpus=8", "", 0)
        .measured("n2", "ncpus=4", "", 4000);
    let mut fixture = fixture.running(8, "select=1:ncpus=8+1:ncpus=4", "n1,n2", 100);
    fixture.policy.placement.allocation = NodeAllocation::CpuLoad;
    assert_eq!(
        fixture.queued(2, "select=1:ncpus=2+1:ncpus=1").booked(),
        "2 at 100 on n2"
    );
}

/// M31: job 3 starts after the start of job 2 has been planned; job 4 uses the resources of job 3.
#[test]
fn bookings_use_resources_of_jobs_started_after_the_first_booking() {
    let fixture = all_booked(cluster("2 x ncpus=4")).running(9, "select=1:ncpus=4", "n1", 100);
    let fixture = fixture.queued(2, "select=1:ncpus=4:vnode=n1 walltime=100");
    let fixture = fixture.queued(3, "select=1:ncpus=4:vnode=n2 walltime=50");
    let fixture = fixture.queued(4, "select=1:ncpus=4:vnode=n2 walltime=50");
    assert_eq!(
        (fixture.starts().as_str(), times(&fixture)),
        ("3 on n2", vec![(2, 100), (4, 50)])
    );
}

/// Job 2 has a planned start and no known end, so no start can be planned for job 3.
#[test]
fn no_booking_follows_a_booking_without_an_end() {
    let mut fixture = all_booked(cluster("1 x ncpus=4")).running(9, "select=1:ncpus=4", "n1", 100);
    fixture.policy.default_walltime = Span(i64::MAX);
    let fixture = fixture
        .queued(2, "select=1:ncpus=4")
        .queued(3, "select=1:ncpus=4 walltime=60");
    assert_eq!(times(&fixture), [(2, 100)]);
}

/// A node that is down stays down after its job has ended.
#[test]
fn a_booking_uses_no_node_that_is_down() {
    let fixture =
        pinned(cluster("3 x ncpus=4, 1 x ncpus=1")).running(9, "select=1:ncpus=4", "n1", 100);
    let fixture = fixture
        .running(8, "select=1:ncpus=4", "n2", 200)
        .node("n1", "ncpus=4", false);
    let fixture = fixture
        .queued(1, "select=1:ncpus=1 walltime=9:00:00")
        .queued(2, "select=2:ncpus=4");
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("1 on n4", "2 at 200 on n2,n3")
    );
}
