//! Tests of the priority by components, and of the count of jobs that have passed a waiting job.

use super::*;
use crate::model::job::eligible_time::Eligibility;
use crate::model::job_id::JobId;
use crate::model::policy::components::Component;
use crate::model::policy::components::WeightAndCap;
use crate::model::policy::{Precedence, PriorityOrder};
use crate::model::report::priority_score::PriorityScore;
use crate::model::time::Time;
use crate::sched::fixture::{TestCluster, cluster};
use crate::sched::priority::calculator::PriorityCalculator;

/// A cluster with 128 CPUs and 512 GB of memory. Jobs are ordered by components, which `set`
/// configures.
fn fixture(set: impl Fn(&mut Components)) -> TestCluster {
    let mut fixture = cluster("8 x ncpus=16:mem=64gb");
    fixture.policy.precedence = Precedence {
        order: PriorityOrder::Components,
        ..Precedence::default()
    };
    set(&mut fixture.policy.precedence.components);
    fixture
}

/// Sets the weights and caps of these parts of a component.
fn count(rule: &mut Components, kind: ComponentKind, counts: &[(&str, WeightAndCap)]) {
    let component: &mut Component = rule.all.get_mut(&kind).unwrap();
    for (name, count) in counts {
        let place = kind.parts().iter().position(|part| part == name).unwrap();
        component.parts[place] = *count;
    }
}

fn priority(fixture: &TestCluster, id: u64) -> PriorityScore {
    fixture
        .state
        .report(&fixture.policy, fixture.now, JobId::job(id))
        .unwrap()
}

fn score(fixture: &TestCluster, id: u64) -> f64 {
    priority(fixture, id).score
}

/// M11.
#[test]
fn a_priority_is_the_sum_of_its_components() {
    let capped = |weight, cap| WeightAndCap {
        weight,
        cap: Some(cap),
    };
    let mut fixture = fixture(|rule| {
        count(
            rule,
            ComponentKind::Service,
            &[
                ("queue_time", capped(2.0, 30.0)),
                ("xfactor", WeightAndCap::of(1.0)),
            ],
        );
        count(
            rule,
            ComponentKind::Resource,
            &[
                ("processors", WeightAndCap::of(1.0)),
                ("memory", capped(1.0, 50.0)),
            ],
        );
        count(
            rule,
            ComponentKind::Credential,
            &[("user", WeightAndCap::of(1.0))],
        );
        rule.all.get_mut(&ComponentKind::Resource).unwrap().whole = capped(3.0, 40.0);
        rule.priorities.user.insert("ann".to_string(), -7.0);
    });
    fixture = fixture
        .queued(1, "select=2:ncpus=4:mem=1gb walltime=1:00:00")
        .at(2400);
    // Service: 2 * 30 minutes (capped) + 1 + 40/60. Resources: 3 * 40 (8 + 50, capped). User: -7.
    assert_eq!(format!("{:.3}", score(&fixture, 1)), "174.667");
    let parts = priority(&fixture, 1).parts;
    let sum: f64 = parts.iter().filter_map(ScorePart::product).sum();
    assert!((sum - score(&fixture, 1)).abs() < 1e-9, "{parts:?}");
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    let expected = [
        "credential.user",
        "resource.processors",
        "resource.memory",
        "resource.cap",
        "service.queue_time",
        "service.xfactor",
    ];
    assert_eq!(names, expected);
}

/// M11.
#[test]
fn the_effect_of_bounds_is_a_part_of_the_score() {
    let negative = |enable_negative| {
        let fixture = fixture(|rule| {
            count(
                rule,
                ComponentKind::Credential,
                &[("user", WeightAndCap::of(1.0))],
            );
            rule.priorities.user.insert("*".to_string(), -7.0);
            rule.enable_negative = enable_negative;
        });
        fixture.queued(1, "select=1:ncpus=1")
    };
    assert_eq!(
        [true, false].map(|enabled| score(&negative(enabled), 1)),
        [-7.0, 1.0]
    );
    assert_eq!(
        priority(&negative(false), 1).parts.last().unwrap(),
        &ScorePart::weighed("bounds", "1".to_string(), 8.0, 1.0)
    );
}

/// M15.
#[test]
fn each_part_of_the_resource_component_has_its_own_unit() {
    let of = |name: &str| {
        let fixture = fixture(|rule| {
            count(
                rule,
                ComponentKind::Resource,
                &[(name, WeightAndCap::of(1.0))],
            )
        });
        score(
            &fixture.queued(1, "select=4:ncpus=8:mem=64gb walltime=0:01:00"),
            1,
        )
    };
    // The job requests a quarter of the 128 CPUs and half of the memory.
    assert_eq!(of("processor_equivalents"), 64.0);
    assert_eq!(
        [of("nodes"), of("processors"), of("memory"), of("swap")],
        [4.0, 32.0, 262_144.0, 1.0]
    );
    assert_eq!([of("processor_seconds"), of("walltime")], [1920.0, 60.0]);
}

/// M14.
#[test]
fn the_priorities_of_user_group_account_qos_and_queue_count() {
    let of = |part: &str| {
        let fixture = fixture(|rule| {
            count(
                rule,
                ComponentKind::Credential,
                &[(part, WeightAndCap::of(2.0))],
            );
            let table = |name: &str, value| [(name.to_string(), value)].into();
            rule.priorities.user = table("ann", 10.0);
            rule.priorities.group = table("staff", 20.0);
            rule.priorities.qos = table("hi", 30.0);
            rule.priorities.account = table("*", 40.0);
            rule.number_groups(|name| (name == "staff").then_some(1000));
        });
        score(&fixture.queued(1, "select=1:ncpus=1 qos=hi"), 1)
    };
    assert_eq!(
        ["user", "group", "account", "qos"].map(of),
        [20.0, 40.0, 80.0, 60.0]
    );
    let mut fixture = fixture(|rule| {
        count(
            rule,
            ComponentKind::Credential,
            &[("queue", WeightAndCap::of(2.0))],
        )
    });
    let workq = crate::model::queue::Queue {
        priority: 25,
        ..crate::model::queue::Queue::named("workq")
    };
    fixture.state.set_queue(&workq);
    let mut fixture = fixture.queued(1, "select=1:ncpus=1");
    assert_eq!(
        score(&fixture, 1),
        50.0,
        "the Priority attribute of the queue counts"
    );
    fixture
        .policy
        .precedence
        .components
        .priorities
        .queue
        .insert("workq".to_string(), 3.0);
    assert_eq!(score(&fixture, 1), 6.0);
}

/// M18: jobs 2 and 4 get planned starts. Jobs 3, 5 and 6 are backfilled: job 3 passes job 2, jobs 5
/// and 6 pass jobs 2 and 4.
#[test]
fn jobs_with_planned_starts_count_the_later_jobs_that_start_before_them() {
    let mut fixture = cluster("10 x ncpus=1").running(
        1,
        "select=6:ncpus=1 place=scatter",
        "n1,n2,n3,n4,n5,n6",
        7200,
    );
    fixture.policy.backfill.depth = 2;
    let mut fixture = fixture
        .queued(2, "select=8:ncpus=1 walltime=1:00:00")
        .queued(3, "select=1:ncpus=1 walltime=1:00:00")
        .queued(4, "select=10:ncpus=1 walltime=1:00:00")
        .queued(5, "select=1:ncpus=1 walltime=1:00:00")
        .queued(6, "select=1:ncpus=1 walltime=1:00:00");
    let plan = fixture.plan();
    fixture.apply(&plan);
    let bypassed = |fixture: &TestCluster, id| fixture.state.bypassed(JobId::job(id));
    assert_eq!(
        (
            plan.starts.len(),
            bypassed(&fixture, 2),
            bypassed(&fixture, 4)
        ),
        (3, 3, 2)
    );
    // The count is kept if the job is enqueued again while it waits.
    let fixture = fixture.queued(2, "select=8:ncpus=1 walltime=1:00:00");
    assert_eq!(bypassed(&fixture, 2), 3);
}

/// M18.
#[test]
fn without_planned_starts_only_the_first_blocked_job_counts_as_passed() {
    let mut fixture = cluster("1 x ncpus=4")
        .queued(1, "select=1:ncpus=5")
        .queued(2, "select=1:ncpus=4");
    fixture.policy.backfill.depth = 0;
    let mut fixture = fixture
        .running(9, "select=1:ncpus=1", "n1", 100)
        .queued(3, "select=1:ncpus=1 walltime=5");
    let plan = fixture.plan();
    fixture.apply(&plan);
    assert_eq!(
        [1, 2].map(|id| fixture.state.bypassed(JobId::job(id))),
        [0, 1],
        "job 1 can never run and does not count as passed"
    );
}

/// M18.
#[test]
fn each_job_that_has_passed_the_job_raises_its_score() {
    let mut fixture = fixture(|rule| {
        count(
            rule,
            ComponentKind::Service,
            &[("bypass", WeightAndCap::of(5.0))],
        )
    });
    fixture = fixture.queued(1, "select=1:ncpus=1");
    let wait = Wait {
        since: Time(0),
        eligibility: Eligibility::default(),
        bypassed: 3,
    };
    let calculator = PriorityCalculator::new(
        &fixture.state,
        &fixture.policy,
        fixture.now,
        Default::default(),
    );
    let class = fixture.state.waiting_class(JobId::job(1)).unwrap();
    assert_eq!(
        Common::of(&calculator.inputs, class).score(Span(0), &wait),
        15.0
    );
}
