//! Pinned planned starts: the nodes that they take, and when they are kept.

use crate::model::job_id::JobId;
use crate::model::policy::{Backfill, BookingRetention};
use crate::model::reservation::window::{Window, WindowAccess};
use crate::model::system_resource::Pool;
use crate::model::time::{Span, Time};
use crate::sched::backfill::reservation_window;
use crate::sched::fixture::{TestCluster, cluster};

const HOUR: i64 = 3600;

/// The fixture with pinned planned starts, forced by a job in a stopped queue.
fn pinned(fixture: TestCluster) -> TestCluster {
    fixture.queued(1_000_000, "select=1:ncpus=1 place=excl queue=stopped")
}

/// The nodes of the first planned start, one for each chunk.
fn booked_nodes(fixture: &TestCluster) -> String {
    let mut nodes = fixture.plan().bookings[0].nodes.to_vec();
    nodes.sort();
    nodes.join(",")
}

/// The next cycle, with the planned starts of this one.
fn later(mut fixture: TestCluster) -> TestCluster {
    let plan = fixture.plan();
    fixture.apply(&plan);
    fixture
}

#[test]
fn a_booking_takes_busy_nodes_and_leaves_free_ones_to_backfill() {
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
fn a_booking_of_scattered_chunks_takes_one_node_of_each_host() {
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
fn a_booking_takes_only_suitable_nodes() {
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
fn a_booking_takes_no_more_of_a_node_than_will_be_free() {
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

/// Four nodes, of them `n1` and `n3` in use until 100, and job 2 with a planned start then.
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

/// Adds a node before all others that is also in use until 100: a new planned start would take it.
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
fn a_booking_leaves_nodes_that_no_longer_suit() {
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
fn a_booking_leaves_nodes_that_another_job_was_given() {
    let fixture = kept("select=3:ncpus=4");
    let fixture = fixture.running(8, "select=1:ncpus=4", "n2", 500);
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n4");
}

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

/// Q21, M31: planned starts use system-wide resources one after another, like nodes.
#[test]
fn bookings_of_system_wide_resources_are_kept_against_new_jobs() {
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

/// G4, G7: a planned start with a license stays on its nodes, and so leaves those of another.
#[test]
fn a_booking_of_a_license_displaces_no_other_booking() {
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
fn backfill_leaves_system_resources_for_bookings() {
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

/// Q21: also for jobs that request exclusive nodes.
#[test]
fn released_system_wide_resources_serve_exclusive_jobs() {
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

/// A reservation for bob of whole nodes; its hours from and to.
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

/// G4, M37: backfill leaves both planned and reserved resources.
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

/// M31: a planned start that must move to other nodes does so, and names them.
#[test]
fn a_booking_renewed_on_other_nodes_names_them() {
    let mut fixture = kept("select=3:ncpus=4");
    fixture.policy.backfill.depth = Backfill::ALL;
    let fixture = later(fixture).running(8, "select=1:ncpus=4", "n2", 500);
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n4");
}

/// A planned start is placed again after a job has ended: that leaves the most for backfill.
#[test]
fn a_booking_is_placed_again_after_an_end() {
    let fixture =
        with_an_earlier_node(kept("select=3:ncpus=4").running(7, "select=1:ncpus=0", "n4", 50));
    assert_eq!(fixture.booked(), "2 at 100 on n1,n3,n2");
    let mut fixture = fixture;
    fixture.state.vacate(JobId::job(7));
    assert_eq!(fixture.booked(), "2 at 100 on a,n1,n3");
}

/// M37: a planned start leaves its nodes when one of them is reserved.
#[test]
fn a_booking_leaves_a_reserved_node() {
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

fn all_booked(fixture: TestCluster) -> TestCluster {
    let mut fixture = pinned(fixture);
    fixture.policy.backfill.depth = Backfill::ALL;
    fixture
}

/// M31: resources of jobs started in this cycle serve several planned starts after their ends.
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

/// M31: planned starts on a node do not overlap.
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
fn a_booking_takes_no_more_than_it_needs() {
    let fixture = pinned(cluster("2 x ncpus=4")).running(1, "select=2:ncpus=4", "n1,n2", 100);
    assert_eq!(
        booked_nodes(&fixture.queued(2, "select=3:ncpus=2")),
        "n1,n1,n2"
    );
}

/// The rest of a planned start goes to the first nodes, including those of its picks.
#[test]
fn the_rest_of_a_booking_uses_the_first_nodes() {
    let mut fixture =
        pinned(cluster("1 x ncpus=8, 1 x ncpus=4")).running(1, "select=1:ncpus=6", "n1", 100);
    fixture.policy.placement.allocation =
        crate::model::request::placement_policy::NodeAllocation::FirstAvailable;
    assert_eq!(
        booked_nodes(&fixture.queued(2, "select=7:ncpus=1")),
        "n1,n1,n1,n1,n1,n1,n1"
    );
}

/// X4: one node of each host, also if part of a host becomes free and part of it is free.
#[test]
fn the_rest_of_scattered_chunks_uses_other_hosts() {
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

/// M31: if a resource has shrunk, the first planned starts keep it, until their jobs end.
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

/// M32: resources of a planned start are not given to another.
#[test]
fn a_booking_does_not_stay_on_resources_of_an_earlier_booking() {
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

/// M8d: the load now does not predict the load then.
#[test]
fn i29_bookings_ignore_the_load_by_which_starts_choose_nodes() {
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

/// M31: resources of a job that starts between two planned starts are free for the second.
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

/// No start is planned behind a job with an unknown end.
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
