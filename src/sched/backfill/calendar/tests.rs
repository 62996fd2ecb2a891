//! Tests of planned starts on interchangeable nodes, where only amounts are counted.

use crate::model::job::preemption::{JobPreemption, PreemptAction, PreemptCause};
use crate::model::job_id::JobId;
use crate::model::policy::{Backfill, BookingRetention};
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::fixture::{TestCluster, cluster};

/// Runs a cycle and applies its plan.
fn later(mut fixture: TestCluster) -> TestCluster {
    let plan = fixture.plan();
    fixture.apply(&plan);
    fixture
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

/// I29: nodes that become free come first, then free nodes.
#[test]
fn a_counted_booking_contains_a_node_for_each_chunk() {
    let fixture = cluster("3 x ncpus=1, 2 x ncpus=1").running(1, "select=1:ncpus=1", "n2", 100);
    let fixture = fixture.queued(2, "select=5:ncpus=1");
    assert_eq!(fixture.plan().bookings[0].nodes.join(","), "n2,n1,n3,n4,n5");
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=2", "n1", 100)
        .queued(2, "select=3:ncpus=1");
    assert_eq!(fixture.plan().bookings[0].nodes.join(","), "n1,n1,n1");
}

/// The time is 50. Job 1 is being preempted, so its CPU is expected to be free 1 ms later, whether
/// or not job 1 has exceeded its walltime. Job 2 uses the other CPU until 200.
#[test]
fn resources_of_a_victim_are_counted_once() {
    for ends in [49, 50, 51, 100] {
        let mut fixture = cluster("1 x ncpus=2").running(1, "select=1:ncpus=1", "n1", ends);
        let preemption = JobPreemption {
            attempt: None,
            to: None,
            cause: PreemptCause::Rank,
            action: PreemptAction::Requeue,
            at: Time(0),
        };
        fixture
            .state
            .bookings
            .note_preemption(JobId::job(1), Some(&preemption));
        let fixture = fixture.running(2, "select=1:ncpus=1", "n1", 200).at(50);
        assert_eq!(
            times(&fixture.clone().queued(3, "select=1:ncpus=1")),
            [(3, 50)],
            "{ends}"
        );
        assert_eq!(
            times(&fixture.queued(3, "select=1:ncpus=2")),
            [(3, 200)],
            "{ends}"
        );
    }
}

#[test]
fn a_blocked_job_reports_its_planned_start() {
    let fixture = cluster("1 x ncpus=4")
        .running(1, "select=1:ncpus=4", "n1", 100)
        .queued(2, "select=1:ncpus=4 walltime=60");
    assert!(matches!(
        fixture.reason(2),
        Some(Reason::Busy {
            until: Some(Time(100_000)),
            ..
        })
    ));
    let fixture = fixture.queued(3, "select=1:ncpus=3 walltime=60");
    assert!(
        matches!(fixture.reason(3), Some(Reason::Busy { until: None, .. })),
        "only the first job has a planned start"
    );
}

/// M31: job 2 requests 3 CPUs, job 3 requests 1 CPU, and both are planned from 100 to 200. After
/// one of the 4 nodes has gone down, only 3 CPUs are left, so the planned start of job 3 moves to
/// 200.
#[test]
fn bookings_of_lost_resources_are_not_renewed() {
    let mut fixture = cluster("4 x ncpus=1").running(9, "select=4:ncpus=1", "n1,n2,n3,n4", 100);
    fixture.policy.backfill.depth = Backfill::ALL;
    let fixture = later(
        fixture
            .queued(2, "select=3:ncpus=1 walltime=100")
            .queued(3, "select=1:ncpus=1 walltime=100"),
    );
    assert_eq!(times(&fixture), [(2, 100), (3, 100)]);
    assert_eq!(
        times(&later(fixture.node("n4", "ncpus=1", false))),
        [(2, 100), (3, 200)]
    );
}

/// M32: the new job 2 comes before job 3 in the same class, and cannot start now. Job 3 keeps its
/// planned start at 100, and job 2 gets a planned start after it.
#[test]
fn a_booking_is_kept_behind_a_new_job_of_its_class() {
    let mut fixture = cluster("1 x ncpus=4").running(9, "select=1:ncpus=4", "n1", 100);
    fixture.policy.backfill.keep = BookingRetention::Highest;
    let fixture = later(fixture.queued(3, "select=1:ncpus=4 walltime=60"));
    assert_eq!(times(&fixture), [(3, 100)]);
    assert_eq!(
        times(&fixture.queued(2, "select=1:ncpus=4 walltime=60")),
        [(2, 160), (3, 100)]
    );
}

/// A job that ends at 200 delays no planned start; a job that ends at 201 would delay job 3.
#[test]
fn a_backfill_refusal_names_the_job_that_would_be_delayed() {
    let mut fixture = cluster("1 x ncpus=4").running(9, "select=1:ncpus=3", "n1", 100);
    fixture.policy.backfill.depth = 2;
    let fixture = fixture
        .queued(2, "select=1:ncpus=2 walltime=100")
        .queued(3, "select=1:ncpus=4 walltime=100");
    assert_eq!(times(&fixture), [(2, 100), (3, 200)]);
    let holder = |walltime: i64| match fixture
        .clone()
        .queued(4, &format!("select=1:ncpus=1 walltime={walltime}"))
        .reason(4)
    {
        Some(Reason::WouldDelayBooking { holder, .. }) => Some(holder),
        _ => None,
    };
    assert_eq!([200, 201].map(holder), [None, Some(JobId::job(3))]);
}
