//! Tests of the access of jobs to reserved resources.

use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::reservation::window::{TimeLimit, Window, WindowAccess};
use crate::model::time::{Span, Time};
use crate::sched::backfill::reservation_window;
use crate::sched::fixture::{TestCluster, cluster};
use std::sync::Arc;

const HOUR: i64 = 3600;

fn at(seconds: i64) -> Time {
    Time(0) + Span::seconds(seconds)
}

/// A reservation for `users`; `hours` are its beginning and end. Each chunk is `NODE:NCPUS`, or
/// `NODE` for a whole node.
fn window(
    fixture: &TestCluster,
    id: &str,
    users: &[&str],
    chunks: &[&str],
    hours: (i64, i64),
) -> Window {
    let share = |chunk: &&str| {
        let (node, ncpus) = chunk.split_once(':').unwrap_or((chunk, ""));
        let mut share: NodeShare = reservation_window::whole(&fixture.state, &[node.to_string()])
            .unwrap()
            .remove(0);
        if let Ok(ncpus) = ncpus.parse() {
            share.taken = vec![(
                "ncpus".into(),
                crate::model::resource::ResourceValue::Long(ncpus),
            )];
        }
        share
    };
    Window {
        id: id.into(),
        from: at(hours.0 * HOUR),
        to: at(hours.1 * HOUR),
        shares: chunks.iter().map(share).collect(),
        whole: !chunks.iter().any(|chunk| chunk.contains(':')),
        access: WindowAccess {
            users: users.iter().map(ToString::to_string).collect(),
            ..WindowAccess::default()
        },
        by_name: false,
        owner_preempts: false,
    }
}

/// Adds a reservation.
fn with(mut fixture: TestCluster, window: Window) -> TestCluster {
    fixture.state.set_window(window);
    fixture
}

/// Submits a job of a user. The job requests `reservation`, if given.
fn job(
    mut fixture: TestCluster,
    id: u64,
    user: &str,
    reservation: Option<&str>,
    text: &str,
) -> TestCluster {
    let mut job = fixture.job(id, text);
    job.owner.user = user.into();
    Arc::make_mut(&mut job.spec).reservation = reservation.map(String::from);
    fixture.state.enqueue(&job);
    fixture
}

/// The code of the reason why a job waits; empty if it does not wait.
fn code(fixture: &TestCluster, id: u64) -> String {
    let plan = fixture.plan();
    let verdict = fixture.state.verdict(&plan, JobId::job(id));
    verdict.map_or_else(String::new, |reason| reason.code().to_string())
}

#[test]
fn m37_users_of_a_reservation_may_also_use_other_nodes() {
    let fixture = cluster("4 x ncpus=1");
    let reserved = window(&fixture, "john", &["john"], &["n1", "n2"], (0, 8));
    let fixture = with(fixture, reserved);
    let fixture = job(
        fixture,
        1,
        "mary",
        None,
        "select=3:ncpus=1 walltime=1:00:00",
    );
    assert_eq!(
        (fixture.starts().as_str(), code(&fixture, 1).as_str()),
        ("", "window_acl")
    );
    let fixture = job(
        fixture,
        2,
        "mary",
        None,
        "select=2:ncpus=1 walltime=1:00:00",
    );
    assert_eq!(fixture.starts(), "2 on n3,n4");
    let fixture = job(
        fixture,
        0,
        "john",
        None,
        "select=4:ncpus=1 walltime=1:00:00",
    );
    assert_eq!(fixture.starts(), "0 on n1,n2,n3,n4");
}

#[test]
fn m37_excluded_jobs_may_run_until_the_reservation_begins() {
    let fixture = cluster("1 x ncpus=1");
    let reserved = window(&fixture, "R1", &["john"], &["n1"], (2, 4));
    let fixture = with(fixture, reserved);
    let short = job(fixture.clone(), 1, "mary", None, "walltime=2:00:00");
    assert_eq!(short.starts(), "1 on n1");
    let long = job(fixture.clone(), 1, "mary", None, "walltime=2:00:01");
    assert_eq!(
        (long.starts().as_str(), code(&long, 1).as_str()),
        ("", "window_acl")
    );
    assert_eq!(long.at(4 * HOUR).starts(), "1 on n1");
}

#[test]
fn m38_chunks_of_jobs_inside_need_not_match_those_of_the_reservation() {
    let fixture = cluster("2 x ncpus=8");
    let reserved = window(
        &fixture,
        "R1",
        &["john"],
        &["n1:1", "n1:1", "n1:1", "n2:2"],
        (0, 8),
    );
    let fixture = with(fixture, reserved);
    let fixture = job(
        fixture,
        1,
        "john",
        Some("R1"),
        "select=1:ncpus=3 walltime=1:00:00",
    );
    let fixture = job(
        fixture,
        2,
        "john",
        Some("R1"),
        "select=1:ncpus=3 walltime=1:00:00",
    );
    let fixture = job(
        fixture,
        3,
        "john",
        Some("R1"),
        "select=1:ncpus=2 walltime=1:00:00",
    );
    assert_eq!(fixture.starts(), "1 on n1; 3 on n2");
    assert_eq!(code(&fixture, 2), "amount.ncpus");
}

#[test]
fn m38_other_jobs_use_the_resources_of_a_node_that_are_not_reserved() {
    let fixture = cluster("1 x ncpus=8").running(9, "select=1:ncpus=4", "n1", HOUR);
    let reserved = window(&fixture, "R1", &["john"], &["n1:3"], (1, 8));
    let fixture = with(fixture, reserved);
    let fixture = job(
        fixture,
        1,
        "mary",
        None,
        "select=1:ncpus=4 walltime=2:00:00",
    );
    assert_eq!(
        fixture.starts(),
        "1 on n1",
        "job 9 has ended when the reservation begins"
    );
    let mut fixture = job(
        fixture,
        0,
        "mary",
        None,
        "select=1:ncpus=4 place=excl walltime=2:00:00",
    );
    fixture.state.vacate(JobId::job(9));
    assert_eq!(fixture.at(HOUR).starts(), "1 on n1");
}

#[test]
fn m39_a_job_needs_access_to_all_overlapping_reservations() {
    let fixture = cluster("1 x ncpus=1");
    let (staff, john) = (
        window(&fixture, "a", &["john", "ann"], &["n1"], (0, 8)),
        window(&fixture, "b", &["john"], &["n1"], (0, 8)),
    );
    let fixture = with(with(fixture, staff), john);
    assert_eq!(
        job(fixture.clone(), 1, "ann", None, "walltime=60").starts(),
        ""
    );
    assert_eq!(
        job(fixture.clone(), 1, "ann", Some("a"), "walltime=60").starts(),
        ""
    );
    assert_eq!(
        job(fixture, 1, "john", None, "walltime=60").starts(),
        "1 on n1"
    );
}

#[test]
fn m41_a_job_without_access_may_use_the_reservation_for_a_limited_time() {
    let fixture = cluster("1 x ncpus=1");
    let limit = Some(TimeLimit {
        most: Span::seconds(HOUR),
        binds_all: false,
    });
    let mut reserved = window(&fixture, "R1", &["john"], &["n1"], (0, 8));
    reserved.access.limit = limit;
    let fixture = with(fixture, reserved);
    assert_eq!(
        job(fixture.clone(), 1, "mary", None, "walltime=0:50:00").starts(),
        "1 on n1"
    );
    assert_eq!(
        job(fixture, 1, "mary", None, "walltime=1:10:00").starts(),
        ""
    );
}

#[test]
fn m42_a_reservation_by_name_is_for_jobs_that_request_it() {
    let fixture = cluster("2 x ncpus=1");
    let reserved = Window {
        by_name: true,
        ..window(&fixture, "john.1", &["john"], &["n1"], (0, 8))
    };
    let fixture = with(fixture, reserved);
    assert_eq!(
        job(fixture.clone(), 1, "john", None, "walltime=60").starts(),
        "1 on n2"
    );
    assert_eq!(
        job(fixture.clone(), 1, "john", Some("john.1"), "walltime=60").starts(),
        "1 on n1"
    );
    let two = job(
        fixture.clone(),
        1,
        "john",
        Some("john"),
        "select=2:ncpus=1 walltime=60",
    );
    assert_eq!(
        (two.starts().as_str(), code(&two, 1).as_str()),
        ("", "amount.ncpus")
    );
    let mary = job(fixture.clone(), 1, "mary", Some("john"), "walltime=60");
    assert_eq!(code(&mary, 1), "window_acl");
    let early = job(fixture, 1, "john", Some("office"), "walltime=60");
    assert_eq!(code(&early, 1), "not_open");
}

#[test]
fn m1_jobs_inside_come_before_all_others() {
    let fixture = cluster("1 x ncpus=2");
    let reserved = window(&fixture, "R1", &["john"], &["n1:2"], (0, 8));
    let fixture = with(fixture, reserved);
    let fixture = job(fixture, 1, "john", None, "select=1:ncpus=1 walltime=60");
    let fixture = job(
        fixture,
        2,
        "john",
        Some("R1"),
        "select=1:ncpus=1 walltime=60",
    );
    assert_eq!(fixture.starts(), "2 on n1; 1 on n1");
}

#[test]
fn a_job_inside_may_not_outlast_its_reservation() {
    let fixture = cluster("1 x ncpus=2");
    let mut reserved = window(&fixture, "R1", &[], &["n1:2"], (0, 1));
    reserved.access.queues = vec!["R1".into()];
    let fixture = with(fixture, reserved);
    let mut fixture = fixture;
    fixture
        .state
        .set_queue(&crate::sched::fixture::queue("R1", true));
    let long = job(
        fixture.clone(),
        1,
        "john",
        Some("R1"),
        "queue=R1 walltime=2:00:00",
    );
    assert_eq!(code(&long, 1), "outlasts_window");
    let open_end = job(fixture, 1, "john", Some("R1"), "queue=R1");
    assert_eq!(
        open_end.plan().starts[0].until,
        at(HOUR),
        "job 1 ends with the reservation"
    );
}

#[test]
fn resources_of_jobs_inside_are_not_reserved_twice() {
    let mut fixture = cluster("1 x ncpus=8").running(9, "select=1:ncpus=3", "n1", 2 * HOUR);
    fixture.state.enclose(JobId::job(9), "R1");
    let reserved = window(&fixture, "R1", &["john"], &["n1:4"], (0, 8));
    let fixture = with(fixture, reserved);
    let fixture = job(
        fixture,
        1,
        "mary",
        None,
        "select=1:ncpus=4 walltime=1:00:00",
    );
    assert_eq!(fixture.starts(), "1 on n1");
    let fixture = job(
        fixture,
        0,
        "mary",
        None,
        "select=1:ncpus=1 walltime=1:00:00",
    );
    assert_eq!(fixture.starts(), "0 on n1");
}

#[test]
fn i23_no_job_starts_that_would_cross_into_dedicated_time() {
    let mut fixture = cluster("1 x ncpus=2")
        .queued(1, "walltime=2:00:00")
        .queued(2, "walltime=0:30:00");
    let dedicated = vec![(at(HOUR), at(2 * HOUR))];
    fixture
        .state
        .set_site_time(crate::model::policy::site_time::SiteTime {
            dedicated: Some(dedicated),
            prime: None,
        });
    assert_eq!(fixture.starts(), "2 on n1");
    assert_eq!(
        fixture.why(1),
        "Not Running: Job would cross dedicated time boundary"
    );
    assert_eq!(fixture.plan().next, Some(at(HOUR)));
    assert_eq!(fixture.at(2 * HOUR).starts(), "1 on n1; 2 on n1");
}

/// M38: job 1 uses the 2 CPUs of reservation a. The 2 CPUs of reservation b are still reserved for
/// bob, so job 2 of carl does not start.
#[test]
fn a_job_uses_only_the_reservation_that_it_requests() {
    let fixture = cluster("1 x ncpus=4");
    let (ann, bob) = (
        window(&fixture, "a", &["ann"], &["n1:2"], (0, 8)),
        window(&fixture, "b", &["bob"], &["n1:2"], (0, 8)),
    );
    let fixture = job(
        with(with(fixture, ann), bob),
        1,
        "ann",
        Some("a"),
        "select=1:ncpus=2 walltime=1:00:00",
    );
    assert_eq!(
        job(
            fixture,
            2,
            "carl",
            None,
            "select=1:ncpus=2 walltime=1:00:00"
        )
        .starts(),
        "1 on n1"
    );
}

/// Each of the two reservations has a queue with the name of the reservation. The jobs of such a
/// reservation are ended when the reservation ends.
#[test]
fn a_job_ends_with_the_reservation_that_it_requests() {
    let fixture = cluster("2 x ncpus=4");
    let queue = |mut window: Window| {
        window.access.queues = vec![window.id.clone()];
        window
    };
    let first = queue(window(&fixture, "a", &["ann"], &["n1"], (0, 1)));
    let second = queue(window(&fixture, "b", &["ann"], &["n2"], (0, 2)));
    let fixture = with(with(fixture, first), second);
    let until = |reservation| {
        let fixture = job(
            fixture.clone(),
            1,
            "ann",
            Some(reservation),
            "select=1:ncpus=1",
        );
        fixture
            .plan()
            .starts
            .iter()
            .map(|start| (start.shares[0].node.clone(), start.until))
            .collect::<Vec<_>>()
    };
    assert_eq!(until("a"), [("n1".to_string(), at(HOUR))]);
    assert_eq!(until("b"), [("n2".to_string(), at(2 * HOUR))]);
}

/// M2: if a reservation has excluded a job, the next cycle is due as soon as any reservation begins
/// or ends.
#[test]
fn a_cycle_is_due_when_a_reservation_begins_or_ends() {
    let fixture = cluster("1 x ncpus=4");
    let (first, second) = (
        window(&fixture, "z", &["ann"], &["n1"], (1, 3)),
        window(&fixture, "a", &["bob"], &["n1"], (5, 6)),
    );
    let fixture = job(
        with(with(fixture, first), second),
        1,
        "carl",
        None,
        "select=1:ncpus=4 walltime=9:00:00",
    );
    let next = |hour: i64| {
        fixture
            .clone()
            .at(hour * HOUR)
            .plan()
            .next
            .map(|next| next.0 / 1000 / HOUR)
    };
    assert_eq!(
        [0, 1, 2, 3, 5].map(next),
        [Some(1), Some(3), Some(3), Some(5), Some(6)]
    );
    let plan = fixture.plan();
    let why = fixture
        .state
        .verdict(&plan, JobId::job(1))
        .unwrap()
        .to_string();
    assert!(
        why.contains('z') && !why.contains("reservation a"),
        "the reason names the reservation that begins first: {why}"
    );
}

/// M38, M40: job 2 needs all 4 CPUs. When job 9 releases 2 CPUs, a reservation of 2 CPUs begins.
/// Therefore job 2 can start only at the end of the reservation.
#[test]
fn a_booking_uses_no_reserved_resources_that_a_job_releases() {
    let fixture = cluster("1 x ncpus=4").running(9, "select=1:ncpus=2", "n1", HOUR);
    let reserved = window(&fixture, "R1", &["bob"], &["n1:2"], (1, 3));
    let fixture = job(
        with(fixture, reserved),
        2,
        "carl",
        None,
        "select=1:ncpus=4 walltime=1:00:00",
    );
    assert_eq!(fixture.booked(), "2 at 10800 on n1");
}

/// M37: a reservation of 2 of the 4 CPUs begins in one hour. A job of two hours that starts now may
/// use only the other 2 CPUs.
#[test]
fn jobs_that_would_run_into_a_later_reservation_do_not_use_its_resources() {
    let fixture = cluster("1 x ncpus=4");
    let reserved = window(&fixture, "R1", &["bob"], &["n1:2"], (1, 3));
    let fixture = with(fixture, reserved);
    let starts = |ncpus: u32| {
        job(
            fixture.clone(),
            2,
            "carl",
            None,
            &format!("select=1:ncpus={ncpus} walltime=2:00:00"),
        )
        .starts()
    };
    assert_eq!([2, 3].map(starts), ["2 on n1", ""]);
}

/// M38: job 9 uses the 2 reserved CPUs. When job 9 ends, these CPUs are reserved for bob again. So
/// a job of carl that requests 3 CPUs can start only at the end of the reservation.
#[test]
fn resources_of_a_job_inside_are_reserved_again_after_its_end() {
    let fixture = cluster("1 x ncpus=4").running(8, "select=1:ncpus=2", "n1", HOUR / 2);
    let mut fixture = fixture
        .owned("bob")
        .running(9, "select=1:ncpus=2", "n1", HOUR)
        .owned("ann");
    fixture.state.enclose(JobId::job(9), "R1");
    let reserved = window(&fixture, "R1", &["bob"], &["n1:2"], (0, 8));
    let fixture = with(fixture, reserved);
    let booked = |ncpus: u32| {
        job(
            fixture.clone(),
            2,
            "carl",
            None,
            &format!("select=1:ncpus={ncpus} walltime=1:00:00"),
        )
        .booked()
    };
    assert_eq!(booked(2), "2 at 1800 on n1");
    assert_eq!(booked(3), "2 at 28800 on n1");
}

/// M41.
#[test]
fn a_time_limit_applies_to_jobs_that_request_the_reservation() {
    for chunk in ["n1", "n1:4"] {
        let fixture = cluster("1 x ncpus=4");
        let mut reserved = window(&fixture, "R1", &["ann"], &[chunk], (0, 8));
        reserved.access.limit = Some(TimeLimit {
            most: Span::seconds(HOUR),
            binds_all: true,
        });
        let fixture = with(fixture, reserved);
        let starts = |walltime: &str| {
            job(
                fixture.clone(),
                1,
                "ann",
                Some("R1"),
                &format!("walltime={walltime}"),
            )
            .starts()
        };
        assert_eq!(
            ["1:00:00", "1:00:01"].map(starts),
            ["1 on n1", ""],
            "{chunk}"
        );
    }
}

/// A job that requests `*` may use all reservations to which it has access. It may run until the
/// last of them ends.
#[test]
fn a_job_may_run_until_its_last_reservation_ends() {
    let fixture = cluster("2 x ncpus=4");
    let (short, long) = (
        window(&fixture, "a", &["ann"], &["n1"], (0, 1)),
        window(&fixture, "b", &["ann"], &["n2"], (0, 2)),
    );
    let fixture = with(with(fixture, short), long);
    let starts = |walltime: &str| {
        job(
            fixture.clone(),
            1,
            "ann",
            Some("*"),
            &format!("walltime={walltime}"),
        )
        .starts()
    };
    assert!(!starts("2:00:00").is_empty());
    assert!(starts("2:00:01").is_empty());
}

/// Job 3 is excluded by the reservation. Job 4 has the same request, but has access to the
/// reservation.
#[test]
fn an_excluded_job_blocks_no_job_with_access() {
    let fixture = cluster("2 x ncpus=4").running(9, "select=1:ncpus=2", "n1", HOUR);
    let reserved = window(&fixture, "R1", &["bob"], &["n2"], (0, 8));
    let fixture = job(
        with(fixture, reserved),
        2,
        "ann",
        None,
        "select=1:ncpus=4:vnode=n1 walltime=1:00:00",
    );
    let request = "select=1:ncpus=2 walltime=2:00:00";
    let fixture = job(
        job(fixture, 3, "ann", None, request),
        4,
        "bob",
        None,
        request,
    );
    assert_eq!(fixture.starts(), "4 on n2");
}

/// I23: a cycle is scheduled for the beginning of prime time.
#[test]
fn i23_no_job_starts_that_would_cross_into_prime_time() {
    use crate::model::policy::site_time::{Prime, SiteTime};
    let mut fixture = cluster("1 x ncpus=2")
        .queued(1, "walltime=2:00:00")
        .queued(2, "walltime=0:30:00");
    let prime = Prime {
        is_on: false,
        until: at(HOUR),
        may_cross: false,
    };
    fixture.state.set_site_time(SiteTime {
        dedicated: None,
        prime: Some(prime),
    });
    assert_eq!(fixture.starts(), "2 on n1");
    assert_eq!(fixture.clone().plan().next, Some(at(HOUR)));
    assert_eq!(
        fixture.queued(3, "walltime=1:00:00").starts(),
        "2 on n1; 3 on n1"
    );
}

/// M39: job 1 requests no CPUs. It may run on a node of which a part is reserved, but not on a node
/// that is reserved as a whole.
#[test]
fn a_node_reserved_as_a_whole_is_closed_to_other_jobs() {
    let fixture = cluster("1 x ncpus=4");
    let (whole, part) = (
        window(&fixture, "a", &["john"], &["n1"], (0, 8)),
        window(&fixture, "b", &["bob"], &["n1:2"], (0, 8)),
    );
    let nothing = "select=1:ncpus=0 walltime=60";
    assert_eq!(
        job(
            with(fixture.clone(), part.clone()),
            1,
            "mary",
            None,
            nothing
        )
        .starts(),
        "1 on n1"
    );
    assert_eq!(
        job(with(with(fixture, whole), part), 1, "mary", None, nothing).starts(),
        ""
    );
}
