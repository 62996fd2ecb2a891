//! Tests of limits on running jobs in a cycle.

use crate::config::Config;
use crate::model::job_id::JobId;
use crate::model::limit::Quantity;
use crate::model::policy::{BookingRetention, Filling, Policy};
use crate::model::reason::Reason;
use crate::model::report::outlook::Prospect;
use crate::model::time::{Span, Time};
use crate::sched::cycle;
use crate::sched::explain::forecast::{self, Budget};
use crate::sched::explain::limits_in_force;
use crate::sched::explain::why::explain;
use crate::sched::fixture::{TestCluster, cluster};
use crate::sched::placement::cycle_cache::CycleCache;

fn limited(nodes: &str, limits: &[&str]) -> TestCluster {
    let mut fixture = cluster(nodes);
    let text: String = limits
        .iter()
        .map(|limit| format!("[[limit]]\n{limit}\n"))
        .collect();
    let policy = Config::parse(&text).unwrap().effective_policy();
    fixture.policy = Policy {
        limits: policy.limits,
        ..fixture.policy
    };
    fixture
}

const TWO: &str = "user = \"*\"\nrunning = { jobs = 2 }";

fn code(fixture: &TestCluster, job: u64) -> String {
    fixture
        .reason(job)
        .map_or(String::new(), |reason| reason.code().into_owned())
}

/// M5: the limit of one user refuses no job of another user, even if the requests are the same.
#[test]
fn a_limit_blocks_no_other_user_with_the_same_request() {
    let fixture = limited("1 x ncpus=9", &[TWO]).running(1, "select=1:ncpus=1", "n1", 60);
    let fixture = fixture
        .queued(2, "select=1:ncpus=1")
        .queued(3, "select=1:ncpus=1")
        .owned("bob");
    let fixture = fixture
        .queued(4, "select=1:ncpus=1")
        .queued(5, "select=1:ncpus=1 walltime=60");
    assert_eq!(fixture.starts(), "2 on n1; 4 on n1; 5 on n1");
    let Some(Reason::Limited(excess)) = fixture.reason(3) else {
        panic!("{:?}", fixture.reason(3))
    };
    assert_eq!(
        (
            excess.asked.as_str(),
            excess.used.as_str(),
            excess.most.as_str()
        ),
        ("1", "2", "2")
    );
    assert_eq!(
        (excess.by, excess.more),
        (vec![JobId::job(1), JobId::job(2)], 0)
    );
    assert!(
        fixture.plan().bookings.is_empty(),
        "job 3 does not wait for resources"
    );
}

/// G5: job 6 is refused because of ann's limit, although jobs 4 and 5 of bob, which have the same
/// request, are refused for lack of resources.
#[test]
fn a_limit_is_reported_before_lack_of_resources() {
    let fixture = limited("1 x ncpus=4", &[TWO]).running(1, "select=1:ncpus=2", "n1", 60);
    let fixture = fixture
        .running(2, "select=1:ncpus=2", "n1", 60)
        .owned("bob")
        .queued(3, "select=1:ncpus=4");
    let fixture = fixture
        .queued(4, "select=1:ncpus=2 walltime=9")
        .queued(5, "select=1:ncpus=2 walltime=8")
        .owned("ann");
    let fixture = fixture
        .queued(6, "select=1:ncpus=2 walltime=9")
        .queued(7, "select=1:ncpus=5");
    let found = [3, 4, 5, 6, 7].map(|job| code(&fixture, job));
    assert_eq!(
        found,
        [
            "amount.ncpus",
            "amount.ncpus",
            "amount.ncpus",
            "active_limit.hard",
            "unsatisfiable"
        ]
    );
}

#[test]
fn a_job_that_requests_none_of_a_limited_resource_starts() {
    let limit = "running = { mem = \"1gb\" }";
    let fixture = limited("1 x ncpus=4:mem=8gb", &[limit]).running(1, "select=1:mem=2gb", "n1", 60);
    let fixture = fixture
        .queued(2, "select=1:ncpus=1")
        .queued(3, "select=1:mem=1kb");
    assert_eq!(
        (fixture.starts().as_str(), code(&fixture, 3).as_str()),
        ("2 on n1", "active_limit.hard")
    );
}

/// Job 1 already uses the limit of one running job. `qrun` starts job 2 nevertheless.
#[test]
fn a_forced_start_ignores_limits() {
    let fixture = limited("1 x ncpus=9", &["running = { jobs = 1 }"]).running(
        1,
        "select=1:ncpus=1",
        "n1",
        60,
    );
    assert_eq!(
        fixture.forced(2, "select=1:ncpus=1", &[]),
        Ok("n1".to_string())
    );
}

/// The limits are 3 units of `site_lic`, a system-wide resource, for user ann, and 6 CPUs for all
/// users.
#[test]
fn system_wide_and_multi_chunk_resources_may_be_limited() {
    let mut fixture = limited(
        "1 x ncpus=9",
        &[
            "user = \"ann\"\nrunning = { mem = 3 }",
            "running = { ncpus = 6 }",
        ],
    );
    fixture.policy.limits.all[0].quantity = Quantity::Resource("site_lic".to_string());
    fixture.state.set_pool(
        "site_lic",
        crate::sched::view::pools::Pool {
            total: 9,
            ..Default::default()
        },
    );
    let fixture = fixture
        .queued(1, "select=2:ncpus=2 site_lic=2")
        .queued(2, "site_lic=2")
        .queued(3, "select=3:ncpus=1");
    let fixture = fixture
        .queued(4, "select=1:ncpus=1 site_lic=1")
        .queued(5, "select=1:ncpus=1");
    assert_eq!(fixture.starts(), "1 on n1,n1; 4 on n1; 5 on n1");
    assert_eq!(
        fixture.why(2),
        "Not Running: would exceed user ann's limit on resource site_lic in complex"
    );
    assert_eq!(
        fixture.why(3),
        "Not Running: would exceed overall limit on resource ncpus in complex"
    );
}

/// M21: a cycle is scheduled for the time at which job 2 no longer exceeds the limit (`late`). No
/// cycle is scheduled if job 2 alone exceeds the limit (`never`), or if the used amount does not
/// decrease with time (`counted`).
#[test]
fn processor_seconds_of_a_job_started_in_the_same_cycle_decrease() {
    let limit = "running = { procseconds = 1000 }";
    let fixture = limited("1 x ncpus=9", &[limit]).queued(1, "select=1:ncpus=3 walltime=300");
    let late = fixture.clone().queued(2, "select=1:ncpus=1 walltime=401");
    assert_eq!(
        (late.starts().as_str(), late.plan().next),
        ("1 on n1", Some(Time(100_334)))
    );
    let never = fixture.queued(2, "select=1:ncpus=2 walltime=501");
    assert_eq!(
        (never.starts().as_str(), never.plan().next),
        ("1 on n1", None)
    );
    let counted = limited("1 x ncpus=9", &["running = { ncpus = 3 }"])
        .queued(1, "select=1:ncpus=3 walltime=300");
    let counted = counted.queued(2, "select=1:ncpus=1 walltime=60");
    assert_eq!(
        (counted.starts().as_str(), counted.plan().next),
        ("1 on n1", None),
        "job 1 counts until it ends"
    );
}

/// M21: if the default walltime is unlimited, so is the remaining time of a job without a walltime.
#[test]
fn a_job_without_walltime_exceeds_a_limit_on_walltimes() {
    let mut fixture = limited("1 x ncpus=9", &["running = { seconds = 99999999 }"]);
    fixture.policy.default_walltime = Span(i64::MAX);
    let fixture = fixture
        .queued(1, "select=1:ncpus=1")
        .queued(2, "select=1:ncpus=1 walltime=60");
    assert_eq!(
        (fixture.starts().as_str(), code(&fixture, 1).as_str()),
        ("2 on n1", "active_limit.hard")
    );
    let fixture = fixture.running(9, "select=1:ncpus=1", "n1", i64::MAX);
    assert_eq!((fixture.starts().as_str(), fixture.plan().next), ("", None));
}

/// M21: the scheduled time is exact to the millisecond, and no cycle is due earlier.
#[test]
fn a_cycle_is_due_when_the_used_amount_has_decreased_enough() {
    let mut fixture = limited("1 x ncpus=9", &["running = { procseconds = 1000 }"])
        .running(1, "select=1:ncpus=3", "n1", 300)
        .queued(2, "select=1:ncpus=1 walltime=401");
    let mut memory = CycleCache::default();
    fixture.state.prioritise(&fixture.policy, fixture.now);
    let mut plan =
        |at: i64| cycle::run_again(&fixture.state, &fixture.policy, Time(at), &mut memory);
    // 900 + 401 exceed the limit by 301; each second removes 3.
    let next = plan(0).next.unwrap();
    assert_eq!(
        (
            next,
            plan(next.0 - 1).starts.len(),
            plan(next.0).starts.len()
        ),
        (Time(100_334), 0, 1)
    );
    assert!(!cycle::is_due(
        &fixture.state,
        &fixture.policy,
        Time(50_000),
        &{
            let mut memory = CycleCache::default();
            cycle::run_again(&fixture.state, &fixture.policy, Time(0), &mut memory);
            memory
        }
    ));
}

/// A planned start of an earlier cycle is not renewed for a job over a limit.
#[test]
fn a_job_over_a_limit_loses_its_planned_start() {
    let mut fixture = limited("1 x ncpus=4", &[TWO]).running(1, "select=1:ncpus=2", "n1", 60);
    fixture.policy.backfill.keep = BookingRetention::Highest;
    let mut fixture = fixture.queued(2, "select=1:ncpus=4 walltime=60");
    let plan = fixture.plan();
    assert_eq!(plan.bookings.len(), 1);
    fixture.apply(&plan);
    let fixture = fixture
        .running(3, "select=1:ncpus=1", "n1", 60)
        .owned("bob")
        .queued(4, "select=1:ncpus=1 walltime=900");
    assert_eq!(
        (fixture.starts().as_str(), code(&fixture, 2).as_str()),
        ("4 on n1", "active_limit.hard")
    );
}

#[test]
fn the_forecast_starts_jobs_when_limits_allow() {
    let fixture = limited("1 x ncpus=9", &[TWO]);
    let fixture = (1..6).fold(fixture, |fixture, id| {
        fixture.queued(id, &format!("select=1:ncpus=1 walltime={}", id * 100))
    });
    let outlook = forecast::run(
        fixture.state.clone(),
        &fixture.policy,
        fixture.now,
        Budget::default(),
    );
    let at = |job: u64| match outlook.of(JobId::job(job)).unwrap().prospect {
        Prospect::Starts { at, .. } => at.0 / 1000,
        ref other => panic!("{other:?}"),
    };
    assert_eq!([1, 2, 3, 4, 5].map(at), [0, 0, 100, 200, 400]);
    let explained = explain(
        &fixture.state,
        &fixture.policy,
        fixture.now,
        JobId::job(5),
        &outlook,
    )
    .unwrap();
    let barrier = &explained.barriers[0];
    assert_eq!(
        (barrier.limit.as_str(), barrier.used.as_str()),
        ("limit on running jobs of user ann", "2")
    );
    assert_eq!(barrier.by, [1, 2].map(JobId::job));
}

const SOFT: &str = "user = \"*\"\nrunning_soft = { jobs = 1 }\nrunning = { jobs = 3 }";

/// M23, G3: if a job over a soft limit would fit now, the cycle first plans a start for every other
/// job that waits for resources, even beyond the maximum number of planned starts (the key `depth`
/// of `[backfill]`).
#[test]
fn no_extra_starts_are_planned_if_no_job_over_a_soft_limit_fits() {
    let full = limited("1 x ncpus=4", &[SOFT])
        .running(1, "select=1:ncpus=4", "n1", 60)
        .owned("bob");
    let full = full
        .queued(2, "select=1:ncpus=4 walltime=60")
        .owned("cid")
        .queued(3, "select=1:ncpus=4 walltime=60");
    let full = full.owned("ann").queued(4, "select=1:ncpus=1 walltime=60");
    assert_eq!(
        (full.booked().as_str(), full.starts().as_str()),
        ("2 at 60 on n1", "")
    );
    let half = limited("1 x ncpus=4", &[SOFT])
        .running(1, "select=1:ncpus=2", "n1", 60)
        .owned("bob");
    let half = half
        .queued(2, "select=1:ncpus=4 walltime=60")
        .owned("cid")
        .queued(3, "select=1:ncpus=4 walltime=60");
    let half = half.owned("ann").queued(4, "select=1:ncpus=1 walltime=60");
    assert_eq!(
        (half.booked().as_str(), half.starts().as_str()),
        ("2 at 60 on n1; 3 at 120 on n1", "4 on n1")
    );
    let late = half.owned("ann").queued(5, "select=1:ncpus=1 walltime=61");
    assert_eq!(code(&late, 5), "active_limit.soft");
}

/// Job 2 needs n2, which is down. No start can be computed for job 2, so it delays no other job.
#[test]
fn a_job_without_a_computable_start_blocks_no_job_over_a_soft_limit() {
    let fixture = limited("2 x ncpus=4", &[SOFT])
        .node("n2", "ncpus=4", false)
        .running(1, "select=1:ncpus=1", "n1", 60);
    let fixture = fixture
        .owned("bob")
        .queued(2, "select=2:ncpus=4 place=scatter")
        .owned("ann")
        .queued(3, "select=1:ncpus=1");
    assert_eq!(fixture.starts(), "3 on n1");
}

#[test]
fn no_job_over_a_soft_limit_starts_if_too_many_other_jobs_wait() {
    let fixture = limited("1 x ncpus=4", &[SOFT])
        .running(1, "select=1:ncpus=2", "n1", 60)
        .queued(2, "select=1:ncpus=1 walltime=9");
    let with = |count: u64| {
        let fixture = (10..10 + count).fold(fixture.clone().owned("bob"), |fixture, id| {
            fixture.queued(id, "select=1:ncpus=4 walltime=9")
        });
        fixture.starts()
    };
    assert_eq!([with(900), with(1100)], ["2 on n1", ""]);
}

/// I18: if the policy has no backfill, no job passes a blocked job.
#[test]
fn without_backfill_jobs_over_a_soft_limit_pass_no_blocked_job() {
    let fixture =
        limited("1 x ncpus=4", &[SOFT])
            .strictly()
            .running(1, "select=1:ncpus=2", "n1", 60);
    let fixture = fixture.queued(2, "select=1:ncpus=1 walltime=9");
    assert_eq!(fixture.starts(), "2 on n1");
    assert_eq!(
        fixture.owned("bob").queued(3, "select=1:ncpus=4").starts(),
        ""
    );
}

/// M30.
#[test]
fn all_backfill_policies_respect_limits() {
    for policy in [
        Filling::FirstFit,
        Filling::BestFit,
        Filling::Greedy,
        Filling::Preempt,
        Filling::Skip,
    ] {
        let mut fixture = limited("1 x ncpus=9", &[TWO]).running(1, "select=1:ncpus=1", "n1", 60);
        fixture.policy.backfill.policy = policy;
        let fixture = fixture
            .owned("bob")
            .queued(2, "select=1:ncpus=9 walltime=60")
            .owned("ann");
        let fixture = (3..7).fold(fixture, |fixture, id| {
            fixture.queued(id, "select=1:ncpus=1 walltime=30")
        });
        assert_eq!(fixture.starts(), "3 on n1", "{policy:?}");
    }
}

#[test]
fn without_configured_limits_the_report_is_empty() {
    let fixture = cluster("1 x ncpus=9")
        .running(1, "select=1:ncpus=1", "n1", 60)
        .queued(2, "select=1:ncpus=1");
    assert_eq!(
        limits_in_force::limits_in_force(&fixture.state, &fixture.policy, fixture.now),
        []
    );
}
