//! Tests of backfill and planned starts, with the examples of the rules.

use crate::model::job::preemption;
use crate::model::job_id::JobId;
use crate::model::policy::{
    Backfill, BookingGroup, BookingRetention, FillOrder, Filling, Metric, SetAside,
};
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::reservation::window::{Window, WindowAccess};
use crate::model::time::{Span, Time};
use crate::sched::fixture::{TestCluster, cluster};
use crate::sched::view::plan::{Plan, Preemption, SlipCause};

/// 8 of 16 CPUs are in use until 3600. Job 2 requests all CPUs for an hour.
fn blocked() -> TestCluster {
    cluster("1 x ncpus=16")
        .running(1, "select=1:ncpus=8", "n1", 3600)
        .queued(2, "select=1:ncpus=16 walltime=1:00:00")
}

#[test]
fn backfill_does_not_delay_the_booked_job() {
    let fixture = blocked()
        .queued(3, "select=1:ncpus=8 walltime=0:30:00")
        .queued(4, "select=1:ncpus=8 walltime=2:00:00");
    assert_eq!(fixture.starts(), "3 on n1");
    assert_eq!(fixture.booked(), "2 at 3600 on n1");
    let alone = blocked().queued(4, "select=1:ncpus=8 walltime=2:00:00");
    assert_eq!(
        alone.reason(4),
        Some(Reason::WouldDelayBooking {
            holder: JobId::job(2),
            at: Time(3_600_000)
        })
    );
}

#[test]
fn a_backfilled_job_may_end_when_the_booking_begins() {
    assert_eq!(
        blocked()
            .queued(3, "select=1:ncpus=8 walltime=1:00:00")
            .starts(),
        "3 on n1"
    );
    assert_eq!(
        blocked()
            .queued(3, "select=1:ncpus=8 walltime=1:00:01")
            .starts(),
        ""
    );
}

#[test]
fn a_long_job_may_start_if_enough_is_free_during_the_booking() {
    let fixture = cluster("1 x ncpus=16, 1 x ncpus=2")
        .running(1, "select=1:ncpus=8", "n1", 3600)
        .queued(2, "select=1:ncpus=14 walltime=1:00:00")
        .queued(3, "select=2:ncpus=1")
        .queued(4, "select=2:ncpus=2");
    assert_eq!(fixture.starts(), "3 on n2,n2");
    assert_eq!(
        fixture.why(4),
        "Not Running: Job would conflict with the planned start of job 2"
    );
}

#[test]
fn an_exclusive_backfilled_job_ends_before_the_booking_of_its_node() {
    let fixture = cluster("2 x ncpus=8")
        .running(1, "select=1:ncpus=8", "n1", 3600)
        .queued(2, "select=2:ncpus=2 place=scatter")
        .queued(3, "select=1:ncpus=1 place=excl")
        .queued(4, "select=1:ncpus=1 place=excl walltime=1:00:00");
    assert_eq!(fixture.starts(), "4 on n2");
}

#[test]
fn a_booking_becomes_earlier_if_a_job_ends_early() {
    // M28: job 1 uses 1 of 2 CPUs until 3:00. Job 2 requests 2 CPUs for 1 hour, and job 3 requests
    // 1 CPU for 2 hours.
    let mut fixture = cluster("1 x ncpus=2")
        .running(1, "select=1:ncpus=1", "n1", 3 * 3600)
        .queued(2, "select=1:ncpus=2 walltime=1:00:00")
        .queued(3, "select=1:ncpus=1 walltime=2:00:00");
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("3 on n1", "2 at 10800 on n1")
    );
    let plan = fixture.plan();
    fixture.apply(&plan);
    fixture.state.vacate(JobId::job(1));
    let fixture = fixture.at(3600);
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("", "2 at 7200 on n1")
    );
}

#[test]
fn without_backfill_no_job_passes_a_blocked_job() {
    let fixture = blocked()
        .strictly()
        .queued(3, "select=1:ncpus=1 walltime=0:01:00")
        .queued(4, "select=1:ncpus=9");
    assert_eq!(fixture.starts(), "");
    assert_eq!(fixture.reason(3).unwrap().code(), "would_delay_booking");
    assert_eq!(fixture.reason(4).unwrap().code(), "amount.ncpus");
}

#[test]
fn only_a_job_with_a_computable_start_is_booked() {
    let fixture = cluster("2 x ncpus=8")
        .node("n2", "ncpus=16", false)
        .running(1, "select=1:ncpus=4", "n1", 600)
        .queued(2, "select=1:ncpus=16")
        .queued(3, "select=1:ncpus=99")
        .queued(4, "select=1:ncpus=8")
        .queued(5, "select=1:ncpus=8 walltime=1:00");
    assert_eq!(fixture.booked(), "4 at 600 on n1");
    assert_eq!(fixture.reason(3).unwrap().code(), "unsatisfiable");
}

#[test]
fn a_job_past_its_walltime_is_expected_to_end_soon_but_not_now() {
    let fixture = blocked()
        .queued(3, "select=1:ncpus=8 walltime=0:30:00")
        .at(7200);
    let plan = fixture.plan();
    assert_eq!(plan.bookings[0].at, Time(7_200_001));
    assert!(plan.starts.is_empty());
    assert_eq!(plan.next, None);
}

#[test]
fn a_second_cycle_starts_no_job_and_keeps_the_booking() {
    let mut fixture = blocked()
        .queued(3, "select=1:ncpus=4 walltime=0:30:00")
        .queued(4, "select=1:ncpus=4 walltime=2:00:00");
    let plan = fixture.plan();
    fixture.apply(&plan);
    assert_eq!(fixture.starts(), "");
    assert_eq!(fixture.booked(), "2 at 3600 on n1");
}

/// Runs a cycle and applies its plan.
fn settled(mut fixture: TestCluster) -> TestCluster {
    let plan = fixture.plan();
    fixture.apply(&plan);
    fixture
}

/// Changes the backfill policy.
fn with(mut fixture: TestCluster, set: impl FnOnce(&mut Backfill)) -> TestCluster {
    set(&mut fixture.policy.backfill);
    fixture
}

/// 6 of 10 CPUs are in use until 2:00. Job 2 requests 8 CPUs for an hour.
fn ten() -> TestCluster {
    cluster("1 x ncpus=10")
        .running(1, "select=1:ncpus=6", "n1", 7200)
        .queued(2, "select=1:ncpus=8 walltime=1:00:00")
}

fn started(fixture: &TestCluster) -> Vec<u64> {
    fixture
        .plan()
        .starts
        .iter()
        .map(|start| start.job.number)
        .collect()
}

#[test]
fn m30_the_policy_orders_backfilled_jobs() {
    let first = || {
        ten()
            .queued(3, "select=1:ncpus=1 walltime=3:00:00")
            .queued(4, "select=1:ncpus=2 walltime=1:00:00")
            .queued(5, "select=1:ncpus=4 walltime=1:00:00")
            .queued(6, "select=1:ncpus=2 walltime=2:00:00")
    };
    assert_eq!(started(&first()), [3, 4]);
    assert_eq!(
        started(&with(first(), |b| b.policy = Filling::BestFit)),
        [5]
    );
    assert_eq!(started(&first().strictly()), [0; 0]);
    for policy in [
        Filling::FirstFit,
        Filling::BestFit,
        Filling::None,
        Filling::Greedy,
    ] {
        assert_eq!(
            with(first(), |b| b.policy = policy).booked(),
            "2 at 7200 on n1",
            "{policy:?}"
        );
    }
    let second = |policy, metric| {
        let fixture = ten()
            .queued(3, "select=1:ncpus=3 walltime=1:00:00")
            .queued(4, "select=1:ncpus=2 walltime=2:00:00")
            .queued(5, "select=1:ncpus=2 walltime=2:00:00");
        started(&with(fixture, |b| (b.policy, b.metric) = (policy, metric)))
    };
    assert_eq!(second(Filling::FirstFit, Metric::Procs), [3]);
    assert_eq!(second(Filling::BestFit, Metric::Procs), [3]);
    assert_eq!(second(Filling::BestFit, Metric::ProcSeconds), [4, 5]);
    assert_eq!(second(Filling::BestFit, Metric::Seconds), [4, 5]);
    assert_eq!(second(Filling::BestFit, Metric::Pe), [3]);
    assert_eq!(second(Filling::Greedy, Metric::Procs), [4, 5]);
}

#[test]
fn m31_the_depth_is_the_number_of_bookings() {
    let fixture = |depth| {
        let fixture = ten()
            .queued(3, "select=1:ncpus=10 walltime=1:00:00")
            .queued(4, "select=1:ncpus=2 walltime=4:00:00")
            .queued(5, "select=1:ncpus=2 walltime=2:00:00");
        with(fixture, |b| b.depth = depth)
    };
    assert_eq!(
        (started(&fixture(1)), fixture(1).booked()),
        (vec![4, 5], "2 at 7200 on n1".to_string())
    );
    assert_eq!(
        (started(&fixture(2)), fixture(2).booked()),
        (vec![5], "2 at 7200 on n1; 3 at 10800 on n1".to_string())
    );
    assert_eq!(
        fixture(2).reason(4),
        Some(Reason::WouldDelayBooking {
            holder: JobId::job(3),
            at: Time(10_800_000)
        })
    );
    let mut late = settled(fixture(1)).at(7200);
    [1, 5]
        .into_iter()
        .for_each(|job| late.state.vacate(JobId::job(job)));
    assert_eq!(
        (started(&late), late.booked()),
        (vec![2], "3 at 14400 on n1".to_string())
    );
    assert_eq!(with(fixture(1), |b| b.depth = 0).booked(), "");
}

#[test]
fn m31_each_job_of_a_class_has_its_own_booking() {
    let fixture = cluster("1 x ncpus=2").running(1, "select=1:ncpus=2", "n1", 60);
    let fixture = (2..6).fold(fixture, |fixture, job| {
        fixture.queued(job, "select=1:ncpus=2 walltime=60")
    });
    let fixture = with(fixture, |b| b.depth = Backfill::ALL);
    assert_eq!(
        fixture.booked(),
        "2 at 60 on n1; 3 at 120 on n1; 4 at 180 on n1; 5 at 240 on n1"
    );
    assert_eq!(fixture.plan().verdicts.len(), 1);
    assert_eq!(fixture.plan().next, Some(Time(60_000)));
}

#[test]
fn m31_bookings_of_a_large_array_are_bounded() {
    let fixture = cluster("1 x ncpus=2").running(1, "select=1:ncpus=2 place=excl", "n1", 60);
    let fixture = fixture.queued(2, "select=1:ncpus=2 walltime=60 array=0-999999 place=excl");
    let plan = with(fixture, |b| b.depth = Backfill::ALL).plan();
    assert_eq!((plan.bookings.len(), plan.considered), (500, 501));
}

#[test]
fn m31_conservative_bookings_become_earlier_after_an_early_end() {
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=4", "n1", 600)
        .queued(2, "select=1:ncpus=4 walltime=100")
        .queued(3, "select=1:ncpus=2 walltime=50");
    let mut fixture = settled(with(fixture, |b| b.depth = Backfill::ALL));
    assert_eq!(fixture.booked(), "2 at 600 on n1; 3 at 700 on n1");
    fixture.state.vacate(JobId::job(1));
    let fixture = fixture.at(200);
    assert_eq!(
        (started(&fixture), fixture.booked()),
        (vec![2], "3 at 300 on n1".to_string())
    );
    let booking = &fixture.plan().bookings[0];
    assert_eq!(
        (booking.was, &booking.cause),
        (Some(Time(700_000)), &None),
        "an earlier start has no cause of delay"
    );
}

#[test]
fn m31_a_delayed_booking_contains_the_cause() {
    let fixture = || {
        let fixture = cluster("2 x ncpus=4")
            .running(1, "select=1:ncpus=4 place=excl", "n1", 600)
            .running(9, "select=1:ncpus=4 place=excl", "n2", 900)
            .queued(2, "select=1:ncpus=4 walltime=100 place=excl");
        settled(with(fixture, |b| b.depth = Backfill::ALL))
    };
    let cause = |fixture: TestCluster| {
        let booking = fixture.plan().bookings[0].clone();
        (
            booking.was.map(|was| was.0 / 1000),
            booking.at.0,
            booking.cause,
        )
    };
    assert_eq!(cause(fixture()), (None, 600_000, None));
    assert_eq!(
        cause(fixture().at(600)),
        (
            Some(600),
            600_001,
            Some(SlipCause::Overdue { job: JobId::job(1) })
        )
    );
    let lost = fixture().node("n1", "ncpus=4", false);
    assert_eq!(
        cause(lost),
        (
            Some(600),
            900_000,
            Some(SlipCause::NodeLost {
                node: "n1".to_string()
            })
        )
    );
    let easy = settled(with(fixture(), |b| b.depth = 1));
    let overtaken = easy.queued(7, "select=1:ncpus=4 walltime=400 rank=0 place=excl");
    let overtaken = with(overtaken, |b| b.depth = 2);
    let slipped = overtaken.plan().bookings[1].clone();
    assert_eq!(
        (slipped.at, slipped.cause),
        (
            Time(900_000),
            Some(SlipCause::Overtaken { by: JobId::job(7) })
        )
    );
}

/// M32, G4: job 4 keeps its planned start when jobs 2 and 3 are submitted, which come before it.
/// Job 3 has the same request as job 4, but no planned start.
#[test]
fn m32_a_booking_is_kept_behind_jobs_with_the_same_request() {
    let same = "select=1:ncpus=4 walltime=50";
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=4", "n1", 100)
        .queued(4, same);
    let fixture = settled(with(fixture, |b| b.keep = BookingRetention::Highest));
    let fixture = fixture
        .queued(2, "select=1:ncpus=3 walltime=50 rank=1")
        .queued(3, &format!("{same} rank=2"));
    assert_eq!(fixture.booked(), "2 at 150 on n1; 4 at 100 on n1");
}

/// M32: job 1 runs past its walltime. The planned start of job 2 is 1 ms after now, but job 2 may
/// start now if job 1 ends now.
#[test]
fn m32_a_job_behind_an_overdue_job_starts_as_soon_as_that_job_ends() {
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=4", "n1", 10)
        .queued(2, "select=1:ncpus=4");
    let mut fixture = settled(with(fixture, |b| b.keep = BookingRetention::Highest).at(10));
    assert_eq!(
        fixture
            .state
            .bookings
            .promise(JobId::job(2))
            .map(|booking| booking.at),
        Some(Time(10_001))
    );
    assert_eq!(
        (fixture.starts().as_str(), fixture.plan().bookings[0].at),
        ("", Time(10_001)),
        "job 1 still runs"
    );
    fixture.state.vacate(JobId::job(1));
    assert_eq!(fixture.starts(), "2 on n1");
}

#[test]
fn m32_a_booking_may_be_kept_when_its_job_is_overtaken() {
    let fixture = |keep| {
        let fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=2", "n1", 600)
            .queued(2, "select=1:ncpus=4 walltime=100");
        let fixture = settled(with(fixture, |b| b.keep = keep));
        fixture
            .queued(3, "select=1:ncpus=3 walltime=50 rank=1")
            .queued(4, "select=1:ncpus=1 walltime=9999")
    };
    assert_eq!(
        fixture(BookingRetention::CurrentHighest).booked(),
        "3 at 600 on n1"
    );
    assert_eq!(
        fixture(BookingRetention::CurrentHighest).starts(),
        "4 on n1",
        "job 4 would delay only job 2, which has no planned start now"
    );
    assert_eq!(
        fixture(BookingRetention::Highest).booked(),
        "3 at 700 on n1; 2 at 600 on n1"
    );
    assert_eq!(fixture(BookingRetention::Highest).starts(), "");
    assert_eq!(
        (
            fixture(BookingRetention::Never).booked(),
            fixture(BookingRetention::Never).starts()
        ),
        (String::new(), "4 on n1".to_string())
    );
}

#[test]
fn m33_a_qos_may_have_its_own_bookings() {
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=4", "n1", 600)
        .queued(2, "select=1:ncpus=4 walltime=100 qos=high")
        .queued(3, "select=1:ncpus=4 walltime=100 qos=high")
        .queued(4, "select=1:ncpus=4 walltime=100 qos=batch")
        .queued(5, "select=1:ncpus=4 walltime=100");
    let group = |qos: &str| BookingGroup {
        qos: vec![qos.to_string()],
        depth: 1,
    };
    let fixture = with(fixture, |b| {
        (b.depth, b.groups) = (0, vec![group("high"), group("batch")])
    });
    assert_eq!(fixture.booked(), "2 at 600 on n1; 4 at 700 on n1");
}

#[test]
fn i18_a_queue_may_have_its_own_bookings() {
    let fixture = |depth, own| {
        let mut fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=4", "n1", 600)
            .queued(2, "select=1:ncpus=4 walltime=100")
            .queued(3, "select=1:ncpus=4 walltime=100 queue=fast")
            .queued(4, "select=1:ncpus=4 walltime=100 queue=fast")
            .queued(5, "select=1:ncpus=4 walltime=100 queue=fast qos=high")
            .queued(6, "select=1:ncpus=4 walltime=100");
        fixture.state.set_queue(&Queue {
            backfill_depth: own,
            ..Queue::named("fast")
        });
        with(fixture, |b| b.depth = depth)
    };
    assert_eq!(fixture(1, None).booked(), "2 at 600 on n1");
    assert_eq!(
        fixture(1, Some(1)).booked(),
        "2 at 600 on n1; 3 at 700 on n1"
    );
    assert_eq!(
        fixture(0, Some(2)).booked(),
        "3 at 600 on n1; 4 at 700 on n1"
    );
    assert_eq!(
        fixture(2, Some(0)).booked(),
        "2 at 600 on n1; 6 at 700 on n1"
    );
    let high = BookingGroup {
        qos: vec!["high".to_string()],
        depth: 1,
    };
    assert_eq!(
        with(fixture(0, Some(1)), |b| b.groups = vec![high]).booked(),
        "3 at 600 on n1; 5 at 700 on n1"
    );
}

#[test]
fn m34_preemptible_backfill_is_preempted() {
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=2", "n1", 3600)
        .queued(2, "select=1:ncpus=4 walltime=1:00:00")
        .queued(3, "select=1:ncpus=1 walltime=4:00:00")
        .queued(4, "select=1:ncpus=1 walltime=1:00:00");
    let fixture = with(fixture, |b| b.policy = Filling::Preempt);
    let plan = fixture.plan();
    let started: Vec<_> = plan
        .starts
        .iter()
        .map(|start| (start.job.number, start.preemptible))
        .collect();
    assert_eq!(
        (started, fixture.booked()),
        (vec![(3, true), (4, false)], "2 at 3600 on n1".to_string())
    );
    let mut fixture = settled(fixture);
    assert_eq!(
        (fixture.plan().preempts, fixture.booked()),
        (vec![], "2 at 3600 on n1".to_string())
    );
    [1, 4]
        .into_iter()
        .for_each(|job| fixture.state.vacate(JobId::job(job)));
    let mut fixture = fixture.at(3600);
    assert_eq!(
        fixture.plan().preempts,
        [Preemption {
            job: JobId::job(3),
            by: Some(JobId::job(2)),
            cause: preemption::PreemptCause::Promise,
            action: preemption::PreemptAction::Requeue,
        }]
    );
    assert_eq!(fixture.starts(), "");
    fixture.state.vacate(JobId::job(3));
    let fixture = fixture.queued(3, "select=1:ncpus=1 walltime=4:00:00");
    assert_eq!(
        (fixture.starts().as_str(), fixture.plan().preempts),
        ("2 on n1", vec![])
    );
}

#[test]
fn m34_jobs_that_are_not_rerunnable_use_no_booked_resources() {
    let fixture = blocked();
    let mut job = fixture.job(3, "select=1:ncpus=8 walltime=2:00:00");
    std::sync::Arc::make_mut(&mut job.spec).rerunnable = false;
    let mut fixture = with(fixture, |b| b.policy = Filling::Preempt);
    fixture.state.enqueue(&job);
    assert_eq!(fixture.starts(), "");
    assert_eq!(
        fixture
            .queued(4, "select=1:ncpus=8 walltime=2:00:00")
            .starts(),
        "4 on n1"
    );
}

#[test]
fn m34_no_more_jobs_are_preempted_than_needed() {
    let fixture = cluster("1 x ncpus=6")
        .running(1, "select=1:ncpus=3", "n1", 3600)
        .queued(2, "select=1:ncpus=5 walltime=1:00:00")
        .queued(3, "select=1:ncpus=2 walltime=4:00:00")
        .queued(4, "select=1:ncpus=1 walltime=4:00:00");
    let mut fixture = settled(with(fixture, |b| b.policy = Filling::Preempt));
    fixture.state.vacate(JobId::job(1));
    let preempts: Vec<_> = fixture
        .at(60)
        .plan()
        .preempts
        .iter()
        .map(|preemption| preemption.job.number)
        .collect();
    assert_eq!(preempts, [3], "job 2 fits although job 4 runs");
}

#[test]
fn m37_a_booking_uses_no_reserved_resources() {
    let window = |fixture: &TestCluster| Window {
        id: "R1".to_string(),
        from: Time(3_600_000),
        to: Time(7_200_000),
        shares: crate::sched::backfill::reservation_window::whole(
            &fixture.state,
            &["n1".to_string()],
        )
        .unwrap(),
        whole: true,
        access: WindowAccess {
            users: vec!["john".to_string()],
            ..WindowAccess::default()
        },
        by_name: false,
        owner_preempts: false,
    };
    let fixture = |walltime: &str, depth| {
        let mut fixture = cluster("1 x ncpus=4").running(1, "select=1:ncpus=4", "n1", 1800);
        fixture.state.set_window(window(&fixture));
        with(
            fixture.queued(2, &format!("select=1:ncpus=4 walltime={walltime}")),
            |b| b.depth = depth,
        )
    };
    for depth in [1, Backfill::ALL] {
        assert_eq!(
            fixture("0:30:00", depth).booked(),
            "2 at 1800 on n1",
            "job 2 ends when the reservation begins"
        );
        assert_eq!(fixture("0:31:00", depth).booked(), "2 at 7200 on n1");
    }
    let mut kept = cluster("1 x ncpus=4").running(1, "select=1:ncpus=4", "n1", 1800);
    kept = settled(with(
        kept.queued(2, "select=1:ncpus=4 walltime=0:31:00"),
        |b| b.depth = Backfill::ALL,
    ));
    let aside = window(&kept);
    kept.state.set_window(aside);
    let booking = kept.plan().bookings[0].clone();
    assert_eq!(
        (booking.at, booking.was),
        (Time(7_200_000), Some(Time(1_800_000)))
    );
    assert_eq!(
        booking.cause,
        Some(SlipCause::Window {
            id: "R1".to_string()
        })
    );
}

#[test]
fn backfill_delays_no_booking_when_nodes_are_reserved() {
    let mut fixture = cluster("2 x ncpus=4")
        .running(1, "select=1:ncpus=4", "n1", 600)
        .queued(2, "select=2:ncpus=4 walltime=60")
        .queued(3, "select=1:ncpus=1 walltime=300")
        .queued(4, "select=1:ncpus=1 walltime=900");
    let window = Window {
        id: "R1".to_string(),
        from: Time(300_000),
        to: Time(400_000),
        shares: crate::sched::backfill::reservation_window::whole(
            &fixture.state,
            &["n2".to_string()],
        )
        .unwrap(),
        whole: true,
        access: WindowAccess::default(),
        by_name: false,
        owner_preempts: false,
    };
    fixture.state.set_window(window);
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("3 on n2", "2 at 600 on n1,n2")
    );
    assert_eq!(fixture.reason(4).unwrap().code(), "would_delay_booking");
}

#[test]
fn m35_freed_resources_are_held_for_wide_jobs_for_a_while() {
    let fixture = |wide: &str| {
        let fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=1", "n1", 600)
            .running(2, "select=1:ncpus=3", "n1", 9000)
            .queued(3, wide)
            .queued(4, "select=1:ncpus=1 walltime=60");
        let chunk = SetAside {
            size: 4,
            duration: Span::seconds(300),
        };
        let mut fixture = settled(with(fixture, |b| b.chunk = Some(chunk)));
        fixture.state.vacate(JobId::job(1));
        settled(fixture.at(100))
    };
    let held = fixture("select=1:ncpus=4 walltime=60");
    assert_eq!(
        (held.starts(), held.plan().next),
        (String::new(), Some(Time(400_000)))
    );
    assert_eq!(held.reason(4).unwrap().code(), "chunking");
    assert_eq!(held.clone().at(399).starts(), "");
    assert_eq!(held.at(400).starts(), "4 on n1");
    assert_eq!(
        fixture("select=1:ncpus=3 walltime=60")
            .state
            .holders()
            .count(),
        2,
        "no wide job is blocked"
    );
}

#[test]
fn m36_the_key_consider_limits_the_considered_jobs() {
    let fixture = |consider| {
        let fixture = ten()
            .queued(3, "select=1:ncpus=5 walltime=60")
            .queued(4, "select=1:ncpus=5 walltime=60")
            .queued(5, "select=1:ncpus=1 walltime=60");
        with(fixture, |b| b.consider = consider)
    };
    assert_eq!(fixture(2).starts(), "");
    assert_eq!(
        fixture(2).reason(5),
        Some(Reason::BackfillDepth { limit: 2 })
    );
    assert_eq!(fixture(3).starts(), "5 on n1");
    assert_eq!(fixture(0).starts(), "5 on n1");
}

/// With `consider = 1`, the first cycle considers only job 3 behind the blocked job 2. In the next
/// cycle, job 3 has a kept planned start and still counts, so jobs 4 and 5 are not considered.
#[test]
fn m36_a_job_with_a_booking_counts_as_a_considered_job() {
    let fixture = ten()
        .queued(3, "select=1:ncpus=5 walltime=60")
        .queued(4, "select=1:ncpus=5 walltime=60");
    let mut fixture = with(fixture.queued(5, "select=1:ncpus=1 walltime=60"), |b| {
        (b.consider, b.depth, b.keep) = (1, 3, BookingRetention::Highest);
    });
    let plan = fixture.plan();
    let promised = |plan: &Plan| {
        plan.bookings
            .iter()
            .map(|booking| booking.job.number)
            .collect::<Vec<_>>()
    };
    assert_eq!((plan.starts.len(), promised(&plan)), (0, vec![2, 3]));
    fixture.apply(&plan);
    let again = fixture.at(1).plan();
    assert_eq!((again.starts.len(), promised(&again)), (0, vec![2, 3]));
}

#[test]
fn i8_and_i10_only_jobs_that_end_in_time_are_backfilled() {
    let fixture = blocked()
        .queued(3, "select=1:ncpus=8 walltime=0:30:00")
        .queued(4, "select=1:ncpus=8 walltime=2:00:00");
    let mut fixture = settled(fixture);
    assert!(fixture.state.holders().any(|job| job == JobId::job(3)));
    fixture.state.vacate(JobId::job(3));
    let fixture = fixture.at(1800);
    assert_eq!(
        (fixture.starts(), fixture.booked()),
        (String::new(), "2 at 3600 on n1".to_string())
    );
    assert_eq!(
        fixture
            .queued(4, "select=1:ncpus=8 walltime=0:30:00")
            .starts(),
        "4 on n1"
    );
}

#[test]
fn i9_a_start_contains_the_first_job_that_it_passed() {
    let plan = blocked()
        .queued(3, "select=1:ncpus=8 walltime=0:30:00")
        .plan();
    assert_eq!(plan.starts[0].passed, Some(JobId::job(2)));
    assert_eq!(
        cluster("1 x ncpus=1")
            .queued(1, "select=1:ncpus=1")
            .plan()
            .starts[0]
            .passed,
        None
    );
}

#[test]
fn x3_with_policy_skip_no_start_is_planned() {
    let fixture = blocked().queued(3, "select=1:ncpus=8 walltime=9:00:00");
    let fixture = with(fixture, |b| b.policy = Filling::Skip);
    assert_eq!(
        (fixture.starts().as_str(), fixture.booked().as_str()),
        ("3 on n1", "")
    );
}

#[test]
fn x4_a_job_without_an_end_is_not_backfilled() {
    let mut fixture = blocked().queued(3, "select=1:ncpus=1");
    fixture.policy.default_walltime = Span(i64::MAX);
    assert_eq!(
        (fixture.starts(), fixture.reason(3)),
        (String::new(), Some(Reason::NoWalltime))
    );
    let mut fixture = blocked().queued(1000, "select=1:ncpus=1 rank=1");
    fixture.policy.default_walltime = Span(i64::MAX);
    assert_eq!(
        fixture.starts(),
        "1000 on n1",
        "a job ahead of the blocked job starts"
    );
    assert_eq!(
        fixture.booked(),
        "",
        "the start of the blocked job cannot be computed"
    );
}

#[test]
fn the_shortest_jobs_may_be_backfilled_first() {
    let fixture = ten()
        .queued(3, "select=1:ncpus=4 walltime=1:00:00")
        .queued(4, "select=1:ncpus=4 walltime=0:30:00");
    assert_eq!(started(&fixture), [3]);
    assert_eq!(
        started(&with(fixture.clone(), |b| b.order = FillOrder::Shortest)),
        [4]
    );
    let free = cluster("1 x ncpus=4")
        .queued(3, "select=1:ncpus=4 walltime=90")
        .queued(4, "select=1:ncpus=4 walltime=60");
    assert_eq!(
        started(&with(free, |b| b.order = FillOrder::Shortest)),
        [3],
        "without a blocked job, jobs start in queue order"
    );
}

/// G7: the first cycle plans the start of job 2 on two of the nodes that job 1 releases, and starts
/// job 4 on another node. The second cycle plans the same starts, although job 4 will have released
/// its node when job 2 starts.
#[test]
fn g7_a_booking_stays_when_a_backfilled_job_has_started() {
    let mut fixture =
        cluster("1 x ncpus=5:mem=2gb, 1 x ncpus=3:mem=2gb").on_host("h", "2 x ncpus=3:mem=2gb");
    fixture = fixture
        .running(1, "select=3:ncpus=2", "n2,n3,n4", 110)
        .queued(2, "select=2:ncpus=2 place=scatter walltime=10")
        .queued(3, "select=2:ncpus=2:mem=2gb place=pack walltime=10")
        .queued(4, "select=1:ncpus=0 place=free:excl walltime=10");
    fixture.policy.backfill.depth = 2;
    let first = fixture.plan();
    assert_eq!(first.starts.len(), 1);
    fixture.apply(&first);
    assert_eq!(fixture.plan().bookings, first.bookings);
}
