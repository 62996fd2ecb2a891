//! Tests of preemption on small clusters.

use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job_id::JobId;
use crate::model::policy::preemption::{
    NoAgenda, PreemptMode, PreemptTrigger, PreemptionPolicy, Victims,
};
use crate::model::policy::quality::{Flag, Qualities, Quality};
use crate::model::policy::{Filling, Precedence, PriorityOrder};
use crate::model::report::outlook::PreemptionOutlook;
use crate::model::resource::ResourceValue;
use crate::model::system_resource::Pool;
use crate::model::time::{Span, Time};
use crate::sched::fixture::{TestCluster, cluster, queue};
use crate::sched::view::plan::{Booking, Plan};
use crate::sched::view::preemption_candidate::PreemptionCandidate;

/// A cluster where jobs are ordered by their priority (`qsub -p`), with one preemption trigger.
fn fixture(nodes: &str, trigger: PreemptTrigger) -> TestCluster {
    let mut fixture = cluster(nodes);
    fixture.policy.precedence = Precedence {
        order: PriorityOrder::Priority,
        ..Precedence::default()
    };
    fixture.policy.backfill.policy = Filling::Skip;
    fixture.policy.preemption = PreemptionPolicy {
        mode: PreemptMode::Aggressive,
        ..PreemptionPolicy::by(trigger)
    };
    fixture
}

/// Adds a running job with this start time and priority.
fn runs(
    fixture: TestCluster,
    id: u64,
    request: &str,
    node: &str,
    (since, score): (i64, f64),
) -> TestCluster {
    fixture
        .running(id, request, node, 10_000)
        .candidate(JobId::job(id), since, score, |_| ())
}

/// Changes the preemption candidate of a running job.
fn also(
    fixture: TestCluster,
    id: u64,
    change: impl FnOnce(&mut PreemptionCandidate),
) -> TestCluster {
    let mut candidate = fixture.state.running[&JobId::job(id)]
        .candidate
        .as_deref()
        .unwrap()
        .clone();
    change(&mut candidate);
    let mut fixture = fixture;
    fixture.state.set_candidate(JobId::job(id), candidate);
    fixture
}

/// The victims of a plan, each with its preemptor: `3 for 4; 2 for 4`, or `3 for none`.
fn victims(plan: &Plan) -> String {
    let shown = |preemption: &crate::sched::view::plan::Preemption| {
        let by = preemption
            .by
            .map_or("none".to_string(), |by| by.to_string());
        format!("{} for {by}", preemption.job)
    };
    plan.preempts
        .iter()
        .map(shown)
        .collect::<Vec<_>>()
        .join("; ")
}

fn preempts(fixture: &TestCluster) -> String {
    victims(&fixture.plan())
}

/// Applies a plan and removes the victims.
fn remove_victims(fixture: &mut TestCluster, plan: &Plan) {
    fixture.apply(plan);
    plan.preempts
        .iter()
        .for_each(|preemption| fixture.state.vacate(preemption.job));
}

#[test]
fn as_few_jobs_as_possible_are_preempted_newest_first() {
    let fixture = fixture("1 x ncpus=4", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=2", "n1", (0, -9.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n1", (1, -9.0));
    let fixture = runs(fixture, 3, "select=1:ncpus=1", "n1", (2, -9.0)).at(100);
    assert_eq!(
        preempts(&fixture.clone().queued(4, "select=1:ncpus=1")),
        "3 for 4"
    );
    assert_eq!(
        preempts(&fixture.clone().queued(4, "select=1:ncpus=2")),
        "3 for 4; 2 for 4"
    );
    assert_eq!(
        preempts(&fixture.clone().queued(4, "select=1:ncpus=4")),
        "3 for 4; 2 for 4; 1 for 4"
    );
    assert_eq!(
        preempts(&fixture.queued(4, "select=1:ncpus=5")),
        "",
        "the node has only 4 CPUs, so no victims would help job 4 (G8)"
    );
}

/// Y12: jobs 2 and 3 are tried first, but preempting job 1 alone suffices.
#[test]
fn victims_that_are_not_needed_are_not_preempted() {
    let fixture = fixture("1 x ncpus=6", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=4", "n1", (0, -9.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n1", (1, -9.0));
    let fixture = runs(fixture, 3, "select=1:ncpus=1", "n1", (2, -9.0)).at(100);
    assert_eq!(preempts(&fixture.queued(4, "select=1:ncpus=4")), "1 for 4");
}

/// Q8, Q9.
#[test]
fn jobs_of_equal_priority_and_exempt_jobs_are_not_preempted() {
    let fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, 0.0))
        .at(100)
        .queued(2, "select=1:ncpus=1");
    assert_eq!(preempts(&fixture), "", "the priorities are equal");
    let less = also(fixture, 1, |candidate| candidate.score = Some(-1.0));
    assert_eq!(preempts(&less), "1 for 2");
    assert_eq!(
        preempts(&also(less, 1, |candidate| candidate.protected = true)),
        ""
    );
}

/// Q7: a job uses idle nodes first. Q10: jobs are preempted only on nodes where the preemptor can
/// run.
#[test]
fn no_job_is_preempted_if_a_node_is_idle_or_on_unsuitable_nodes() {
    let fixture = fixture("1 x ncpus=1, 1 x ncpus=1:ngpus=1", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (5, -90.0));
    let free = fixture.clone().at(100).queued(3, "select=1:ncpus=1");
    assert_eq!(
        (free.starts().as_str(), preempts(&free).as_str()),
        ("3 on n2", "")
    );
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n2", (0, -50.0)).at(100);
    assert_eq!(
        preempts(&fixture.queued(3, "select=1:ncpus=1:ngpus=1")),
        "2 for 3",
        "job 1 has a lower priority, but its node has no GPU"
    );
}

/// G8: no other job gets the freed resources, not even a job of higher priority. The preemptor
/// starts when all victims have ended.
#[test]
fn freed_resources_are_held_for_the_preemptor() {
    for policy in [Filling::Skip, Filling::FirstFit, Filling::None] {
        let mut fixture = fixture("1 x ncpus=2", PreemptTrigger::Qube);
        fixture.policy.backfill.policy = policy;
        fixture.policy.backfill.depth = 0;
        let fixture = runs(fixture, 1, "select=1:ncpus=1 walltime=50", "n1", (0, -9.0));
        let mut fixture = runs(fixture, 2, "select=1:ncpus=1 walltime=50", "n1", (1, -9.0)).at(100);
        fixture = fixture.queued(4, "select=1:ncpus=2 walltime=100");
        let plan = fixture.plan();
        assert_eq!(victims(&plan), "2 for 4; 1 for 4", "{policy:?}");
        assert_eq!(
            (plan.bookings[0].at, plan.bookings[0].held_until),
            (Time(100_001), Some(Time(160_000)))
        );
        fixture.apply(&plan);
        fixture.state.vacate(JobId::job(2));
        let waiting = fixture
            .clone()
            .queued(3, "select=1:ncpus=1 walltime=60 rank=1")
            .plan();
        assert_eq!(
            (waiting.starts.len(), victims(&waiting).as_str()),
            (0, ""),
            "{policy:?}: only one of the two victims has ended"
        );
        assert!(
            waiting
                .bookings
                .iter()
                .any(|booking| booking.job == JobId::job(4) && booking.held_until.is_some())
        );
        fixture.apply(&waiting);
        fixture.state.vacate(JobId::job(1));
        let fixture = fixture.queued(3, "select=1:ncpus=1 walltime=60 rank=1");
        assert_eq!(fixture.starts(), "4 on n1", "{policy:?}");
    }
}

/// Resources freed for a preemptor are held for at most 60 s after its last victim has ended. They
/// are released at once if the preemptor no longer waits for resources.
#[test]
fn held_resources_are_released_after_a_while() {
    let fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
    let mut fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0))
        .at(100)
        .queued(2, "select=1:ncpus=1");
    let plan = fixture.plan();
    remove_victims(&mut fixture, &plan);
    fixture.state.set_queue(&queue("workq", false));
    fixture.state.set_queue(&queue("other", true));
    let plan = fixture.plan();
    assert_eq!(
        plan.next,
        Some(Time(100_001)),
        "job 2 waits for its queue, no longer for resources"
    );
    let mut forfeited = fixture.clone().queued(3, "select=1:ncpus=1 queue=other");
    forfeited.apply(&plan);
    assert_eq!(forfeited.starts(), "3 on n1");
    let later = |seconds: i64| {
        fixture
            .clone()
            .at(100 + seconds)
            .queued(3, "select=1:ncpus=1 queue=other")
    };
    assert_eq!(later(10).starts(), "");
    assert_eq!(later(61).starts(), "3 on n1");
}

/// Both job 2 and job 3 fit if job 1 is preempted, but the plan preempts job 1 only once, for job
/// 2.
#[test]
fn a_victim_is_preempted_for_only_one_job() {
    let fixture = fixture("1 x ncpus=2", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=2", "n1", (0, -9.0)).at(100);
    let mut fixture = fixture
        .queued(2, "select=1:ncpus=1")
        .queued(3, "select=1:ncpus=1")
        .queued(4, "select=1:ncpus=1");
    let plan = fixture.plan();
    assert_eq!(victims(&plan), "1 for 2");
    fixture.apply(&plan);
    assert_eq!(preempts(&fixture), "", "job 1 is already being preempted");
    fixture.state.vacate(JobId::job(1));
    assert_eq!(fixture.starts(), "2 on n1; 3 on n1");
}

/// Until the hooks have decided about the first preemptor, no other job preempts the same victim.
#[test]
fn no_job_is_preempted_before_hooks_accept_the_start() {
    let fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0)).at(100);
    let mut fixture = fixture
        .queued(2, "select=1:ncpus=1")
        .queued(3, "select=1:ncpus=1");
    fixture.state.set_permits(Some([JobId::job(3)].into()));
    let plan = fixture.plan();
    assert_eq!(
        (victims(&plan).as_str(), plan.asks),
        ("", vec![(JobId::job(2), vec!["n1".to_string()])])
    );
    assert!(
        plan.bookings
            .iter()
            .all(|booking| booking.held_until.is_none())
    );
    fixture.state.set_permits(Some([JobId::job(2)].into()));
    assert_eq!(preempts(&fixture), "1 for 2");
}

/// Q11 to Q13.
#[test]
fn subjobs_may_finish_under_passive_preemption() {
    let element = JobId::element(1, 3);
    let fixture = |mode, left: i64| {
        let mut fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
        fixture.policy.preemption.mode = mode;
        let fixture = fixture.running(9, "select=1:ncpus=1", "n1", 10_000);
        let mut fixture = fixture;
        fixture.state.vacate(JobId::job(9));
        let shares = cluster("1 x ncpus=1")
            .queued(9, "select=1:ncpus=1")
            .plan()
            .starts[0]
            .shares
            .clone();
        fixture
            .state
            .occupy(element, &shares, false, Time(10_000_000));
        let walltime = Some(Span::seconds(100));
        let fixture = fixture.candidate(element, 100 - (100 - left), -9.0, |candidate| {
            candidate.walltime = walltime
        });
        fixture.at(100).queued(2, "select=1:ncpus=1 walltime=10")
    };
    let actions = |mode, left| {
        fixture(mode, left)
            .plan()
            .preempts
            .iter()
            .map(|preemption| preemption.action)
            .collect::<Vec<_>>()
    };
    assert_eq!(actions(PreemptMode::Passive, 90), [PreemptAction::Finish]);
    assert_eq!(
        actions(PreemptMode::Aggressive, 10),
        [PreemptAction::Requeue]
    );
    assert_eq!(
        actions(PreemptMode::Mixed, 10),
        [PreemptAction::Finish],
        "most of the victim's walltime has passed"
    );
    assert_eq!(actions(PreemptMode::Mixed, 90), [PreemptAction::Requeue]);
    assert_eq!(actions(PreemptMode::Disabled, 90), []);
    let mut passive = fixture(PreemptMode::Passive, 90);
    let plan = passive.plan();
    passive.apply(&plan);
    assert_eq!(preempts(&passive), "", "the subjob is already finishing");
    passive.state.vacate(element);
    assert_eq!(passive.starts(), "2 on n1");
}

/// Q13.
#[test]
fn a_job_without_subjobs_is_requeued_or_finishes() {
    let passive = |no_agenda| {
        let mut fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
        (
            fixture.policy.preemption.mode,
            fixture.policy.preemption.no_agenda,
        ) = (PreemptMode::Passive, no_agenda);
        let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0));
        let plan = fixture.at(100).queued(2, "select=1:ncpus=1").plan();
        (victims(&plan), plan.preempts[0].action)
    };
    assert_eq!(
        passive(NoAgenda::Now),
        ("1 for 2".to_string(), PreemptAction::Requeue)
    );
    assert_eq!(
        passive(NoAgenda::Wait),
        ("1 for 2".to_string(), PreemptAction::Finish)
    );
}

/// A finishing victim frees its resources at the end of its walltime. Each cycle plans the
/// preemptor's start for this time.
#[test]
fn the_start_is_planned_for_the_end_of_a_finishing_victim() {
    let mut fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
    (
        fixture.policy.preemption.mode,
        fixture.policy.preemption.no_agenda,
    ) = (PreemptMode::Passive, NoAgenda::Wait);
    let mut fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0))
        .at(100)
        .queued(2, "select=1:ncpus=1");
    for now in [100, 130] {
        let plan = fixture.plan();
        assert_eq!(
            (plan.bookings[0].at, &plan.bookings[0].cause),
            (Time(10_000_000), &None),
            "{now}"
        );
        fixture.apply(&plan);
        fixture = fixture.at(130);
    }
}

fn quality(name: &str, flag: Flag) -> Quality {
    Quality {
        flags: vec![flag],
        ..Quality::new(name, 0.5)
    }
}

/// M43: job 2 preempts job 1 only if the QOS of job 2 has the flag `PREEMPTOR`, the QOS of job 1
/// has the flag `PREEMPTEE`, and job 2 has a higher priority.
#[test]
fn a_qos_preempts_its_allowed_targets() {
    let mut fixture = fixture("1 x ncpus=2", PreemptTrigger::Qos);
    fixture.policy.qualities = Qualities::only(vec![
        quality("hi", Flag::Preemptor),
        quality("lo", Flag::Preemptee),
    ]);
    let lo = runs(
        fixture.clone(),
        1,
        "select=1:ncpus=2 qos=lo",
        "n1",
        (0, -20.0),
    )
    .at(100);
    let plan = lo.clone().queued(2, "select=1:ncpus=1 qos=hi").plan();
    assert_eq!(
        (victims(&plan).as_str(), plan.preempts[0].cause),
        ("1 for 2", PreemptCause::Quality)
    );
    assert_eq!(
        preempts(&lo.clone().queued(2, "select=1:ncpus=1")),
        "",
        "job 2 is no preemptor"
    );
    let higher_score = also(lo, 1, |candidate| candidate.score = Some(20.0));
    assert_eq!(
        preempts(&higher_score.queued(2, "select=1:ncpus=1 qos=hi")),
        "",
        "job 2 has a lower priority than job 1"
    );
    let normal = runs(fixture, 1, "select=1:ncpus=2", "n1", (0, -20.0)).at(100);
    assert_eq!(
        preempts(&normal.queued(2, "select=1:ncpus=1 qos=hi")),
        "",
        "job 1 is no preemptee"
    );
}

/// With the flag `RESTARTPREEMPT`, rerunnable jobs of any QOS are requeued.
#[test]
fn a_qos_may_preempt_rerunnable_jobs() {
    let mut fixture = fixture("1 x ncpus=2", PreemptTrigger::Qos);
    fixture.policy.qualities = Qualities::only(vec![quality("hi", Flag::RestartPreempt)]);
    fixture.policy.preemption.actions = "SD".parse().unwrap();
    let plain = runs(fixture, 1, "select=1:ncpus=2", "n1", (0, -20.0)).at(100);
    let waiting = plain.clone().queued(2, "select=1:ncpus=1 qos=hi");
    let actions: Vec<PreemptAction> = waiting
        .plan()
        .preempts
        .iter()
        .map(|preemption| preemption.action)
        .collect();
    assert_eq!(
        (preempts(&waiting).as_str(), actions),
        ("1 for 2", vec![PreemptAction::Requeue])
    );
    assert_eq!(
        preempts(&plain.clone().queued(2, "select=1:ncpus=1")),
        "",
        "job 2 is no preemptor"
    );
    assert_eq!(
        preempts(&also(waiting.clone(), 1, |candidate| candidate.score = Some(20.0))),
        "",
        "job 2 has a lower priority than job 1"
    );
    assert_eq!(
        preempts(&also(waiting, 1, |candidate| candidate.rerunnable = false)),
        "",
        "the job is not rerunnable"
    );
}

/// I20: jobs of express queues preempt the newest jobs of other queues.
#[test]
fn jobs_of_express_queues_preempt_the_newest_jobs() {
    let mut fixture = fixture("1 x ncpus=2", PreemptTrigger::Levels);
    fixture.state.set_queue(&crate::model::queue::Queue {
        priority: 150,
        ..queue("express", true)
    });
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, 50.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n1", (9, 50.0)).at(100);
    let plan = fixture
        .clone()
        .queued(3, "select=1:ncpus=1 queue=express")
        .plan();
    assert_eq!(
        (victims(&plan).as_str(), plan.preempts[0].cause),
        ("2 for 3", PreemptCause::Level)
    );
    assert_eq!(preempts(&fixture.queued(3, "select=1:ncpus=1")), "");
}

/// M44, M20.
#[test]
fn the_policy_orders_the_victims() {
    let fixture = |victims, need: u32| {
        let mut fixture = fixture("1 x ncpus=5", PreemptTrigger::Qos);
        fixture.policy.preemption.victims = victims;
        fixture.policy.qualities = Qualities::only(vec![
            quality("hi", Flag::Preemptor),
            quality("lo", Flag::Preemptee),
        ]);
        let fixture = runs(fixture, 1, "select=1:ncpus=4 qos=lo", "n1", (0, -100.0));
        let fixture = also(fixture, 1, |candidate| {
            (candidate.processors, candidate.score) = (4, Some(-100.0))
        });
        let fixture = runs(fixture, 2, "select=1:ncpus=1 qos=lo", "n1", (9, -60.0)).at(100);
        preempts(&fixture.queued(3, &format!("select=1:ncpus={need} qos=hi")))
    };
    assert_eq!(fixture(Victims::Newest, 1), "2 for 3");
    assert_eq!(fixture(Victims::Worst, 1), "1 for 3");
    assert_eq!(
        fixture(Victims::Cheapest, 1),
        "2 for 3",
        "the priority per CPU is -60 for job 2 and -25 for job 1"
    );
    assert_eq!(fixture(Victims::Cheapest, 4), "1 for 3");
}

/// G9: a preemptor that has just started is exempt from preemption, so its victim does not preempt
/// it at once.
#[test]
fn a_job_that_has_just_started_is_exempt_from_preemption() {
    let mut fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
    fixture.policy.preemption.exempt = Span::seconds(60);
    let fixture =
        runs(fixture, 1, "select=1:ncpus=1", "n1", (50, -9.0)).queued(2, "select=1:ncpus=1");
    let young = fixture.clone().at(100).plan();
    assert_eq!(
        (victims(&young).as_str(), young.next),
        ("", Some(Time(110_000)))
    );
    assert_eq!(preempts(&fixture.at(110)), "1 for 2");
}

/// M45, X15: a suspended job keeps its memory. If suspension frees too little, the next action is
/// tried.
#[test]
fn actions_are_tried_in_order() {
    let fixture = |memory: &str| {
        let mut fixture = fixture("1 x ncpus=2:mem=4gb", PreemptTrigger::Qube);
        fixture.policy.preemption.actions = "SR".parse().unwrap();
        let fixture = runs(fixture, 1, "select=1:ncpus=2:mem=3gb", "n1", (0, -9.0)).at(100);
        let plan = fixture
            .queued(2, &format!("select=1:ncpus=1:mem={memory}"))
            .plan();
        plan.preempts
            .iter()
            .map(|preemption| preemption.action)
            .collect::<Vec<_>>()
    };
    assert_eq!(fixture("1gb"), [PreemptAction::Suspend]);
    assert_eq!(fixture("2gb"), [PreemptAction::Requeue]);
    let mut lasting = self::fixture("1 x ncpus=2", PreemptTrigger::Qube);
    lasting.policy.preemption.actions = vec![PreemptAction::Requeue].into();
    let lasting = runs(lasting, 1, "select=1:ncpus=2", "n1", (0, -9.0))
        .at(100)
        .queued(2, "select=1:ncpus=1");
    assert_eq!(
        preempts(&also(lasting, 1, |candidate| candidate.rerunnable = false)),
        "",
        "the job is not rerunnable"
    );
}

/// Job 3 preempts job 1 only if job 3 ends before the planned start of job 2.
#[test]
fn a_preemptor_does_not_delay_a_planned_start_of_a_job_ahead() {
    let fixture = |walltime: u32| {
        let mut fixture = fixture("1 x ncpus=4", PreemptTrigger::Qos);
        fixture.policy.backfill.policy = Filling::FirstFit;
        fixture.policy.qualities = Qualities::only(vec![
            quality("hi", Flag::Preemptor),
            quality("lo", Flag::Preemptee),
        ]);
        let fixture = fixture.running(1, "select=1:ncpus=2 qos=lo walltime=400", "n1", 400);
        let fixture = fixture
            .candidate(JobId::job(1), 0, -9.0, |_| ())
            .running(9, "select=1:ncpus=2", "n1", 400)
            .at(10);
        // The planned start of job 2 is at 400.
        let fixture = fixture.queued(2, "select=1:ncpus=4 walltime=50 rank=1");
        let plan = fixture
            .queued(3, &format!("select=1:ncpus=1 qos=hi walltime={walltime}"))
            .plan();
        let promised =
            |booking: &Booking| booking.job == JobId::job(2) && booking.at == Time(400_000);
        (victims(&plan), plan.bookings.iter().any(promised))
    };
    assert_eq!(fixture(300), ("1 for 3".to_string(), true));
    assert_eq!(fixture(1000), (String::new(), true));
}

/// Y8: jobs are preempted, without a preemptor, until the node has enough resources again.
#[test]
fn the_newest_jobs_of_an_overcommitted_node_are_preempted() {
    let mut fixture = fixture("1 x ncpus=6", PreemptTrigger::Qube);
    fixture.policy.preemption.triggers.clear();
    for id in 1..=6 {
        fixture = runs(fixture, id, "select=1:ncpus=1", "n1", (id as i64, 0.0));
    }
    let shrunk = fixture.at(100).node("n1", "ncpus=4", true);
    assert_eq!(preempts(&shrunk), "");
    let mut repaired = shrunk;
    repaired.policy.preemption.repair = true;
    assert_eq!(preempts(&repaired), "6 for none; 5 for none");
    assert_eq!(
        preempts(&also(repaired, 6, |candidate| candidate.protected = true)),
        "5 for none; 4 for none"
    );
}

/// A cluster where jobs of one CPU run in a pool (account) with a limit.
fn pool_with(jobs: u64, limit: &str) -> TestCluster {
    let mut fixture = fixture("1 x ncpus=6", PreemptTrigger::Qube);
    fixture.policy.preemption = PreemptionPolicy {
        repair: true,
        ..PreemptionPolicy::default()
    };
    let text =
        format!("[[account]]\nname = \"a\"\n[[limit]]\naccount = \"a\"\nrunning = {{ {limit} }}\n");
    let policy = crate::config::Config::parse(&text)
        .unwrap()
        .effective_policy();
    (fixture.policy.limits, fixture.policy.fair_share) = (policy.limits, policy.fair_share);
    for id in 1..=jobs {
        let mut job = fixture.job(id, "select=1:ncpus=1");
        std::sync::Arc::make_mut(&mut job.spec).account = Some("a".to_string());
        fixture = runs(fixture, id, "select=1:ncpus=1", "n1", (id as i64, 0.0));
        fixture.state.belongs_to(
            job.id,
            &crate::sched::view::holdings::RunningOwner::of(&job),
        );
    }
    fixture.at(100)
}

/// Y8, X16: a victim counts for both limits, and no job is preempted twice.
#[test]
fn a_pool_above_two_limits_shrinks_to_the_tighter_limit() {
    assert_eq!(
        preempts(&pool_with(3, "jobs = 2, ncpus = 1")),
        "3 for none; 2 for none"
    );
    assert_eq!(
        preempts(&pool_with(3, "jobs = 1, ncpus = 2")),
        "3 for none; 2 for none"
    );
}

/// Y8, X16, Q9.
#[test]
fn protected_jobs_of_a_pool_above_its_limit_are_not_preempted() {
    let fixture = pool_with(2, "jobs = 1");
    let (plan, mut after_cycle) = (fixture.plan(), fixture.clone());
    assert_eq!(victims(&plan), "2 for none");
    after_cycle.apply(&plan);
    assert_eq!(
        preempts(&after_cycle),
        "",
        "one job being preempted is enough"
    );
    assert_eq!(
        preempts(&also(fixture, 2, |candidate| candidate.protected = true)),
        "1 for none"
    );
}

/// M45: a job that is being suspended keeps its memory.
#[test]
fn memory_of_a_job_being_suspended_is_not_free() {
    let mut fixture = fixture("1 x ncpus=2:mem=4gb", PreemptTrigger::Qube);
    fixture.policy.preemption.actions = "S".parse().unwrap();
    let fixture = runs(fixture, 5, "select=1:ncpus=1:mem=1mb", "n1", (0, -9.0));
    let mut fixture = runs(fixture, 1, "select=1:ncpus=1:mem=3gb", "n1", (9, -9.0)).at(100);
    fixture = fixture.queued(3, "select=1:ncpus=1:mem=1mb");
    let plan = fixture.plan();
    assert_eq!(victims(&plan), "1 for 3");
    fixture.apply(&plan);
    assert_eq!(
        preempts(&fixture.clone().queued(4, "select=1:ncpus=1:mem=2gb")),
        ""
    );
    assert_eq!(
        preempts(&fixture.queued(4, "select=1:ncpus=1:mem=1mb")),
        "5 for 4"
    );
}

/// `preempt_targets` names queues or requested resources.
#[test]
fn a_job_preempts_only_its_preemption_targets() {
    let mut fixture = fixture("1 x ncpus=2", PreemptTrigger::Qube);
    fixture.state.set_queue(&queue("other", true));
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1 queue=other", "n1", (9, -9.0)).at(100);
    assert_eq!(
        preempts(&fixture.clone().queued(3, "select=1:ncpus=1")),
        "2 for 3"
    );
    let with_targets = |targets: &str| {
        preempts(
            &fixture
                .clone()
                .queued(3, &format!("select=1:ncpus=1 preempt_targets={targets}")),
        )
    };
    assert_eq!(
        (
            with_targets("Queue=workq").as_str(),
            with_targets("None").as_str()
        ),
        ("1 for 3", "")
    );
    assert_eq!(
        (
            with_targets("Resource_List.ncpus=1").as_str(),
            with_targets("Resource_List.ncpus=2").as_str()
        ),
        ("2 for 3", "")
    );
    assert_eq!(
        (
            with_targets("Queue=workq,resource_list.ncpus=2").as_str(),
            with_targets("Resource_List.mem=1gb").as_str()
        ),
        ("1 for 3", "")
    );
    let requested = |name: &str, value: ResourceValue| vec![(name.to_string(), value)];
    let worded = also(fixture.clone(), 1, |candidate| {
        candidate.asked = requested("software", ResourceValue::String("vasp".into()))
    });
    let with_targets = |targets: &str| {
        preempts(&worded.clone().queued(
            3,
            &format!("select=1:ncpus=1 preempt_targets=Resource_List.{targets}"),
        ))
    };
    assert_eq!(
        (
            with_targets("software=vasp").as_str(),
            with_targets("software=other").as_str()
        ),
        ("1 for 3", "")
    );
    let timed = also(fixture.clone(), 1, |candidate| {
        candidate.walltime = Some(Span::seconds(3600))
    });
    let with_targets = |targets: &str| {
        preempts(&timed.clone().queued(
            3,
            &format!("select=1:ncpus=1 preempt_targets=Resource_List.{targets}"),
        ))
    };
    assert_eq!(
        (
            with_targets("walltime=1:00:00").as_str(),
            with_targets("walltime=2:00:00").as_str()
        ),
        ("1 for 3", "")
    );
}

/// Q9: a waiting job reports its victims, or why no job is preempted for it.
#[test]
fn the_reason_for_no_preemption_is_reported() {
    let why = |fixture: &TestCluster, id: u64| {
        let outlook = crate::sched::explain::forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Default::default(),
        );
        crate::sched::explain::why::explain(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            JobId::job(id),
            &outlook,
        )
        .unwrap()
        .way
    };
    let fixture = fixture("1 x ncpus=1", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0))
        .at(100)
        .queued(2, "select=1:ncpus=1");
    assert_eq!(
        why(&fixture, 2),
        Some(PreemptionOutlook::Made(vec![JobId::job(1)]))
    );
    let no_victims = |candidates, protected| {
        Some(PreemptionOutlook::Barred {
            candidates,
            protected,
        })
    };
    let exempted = also(fixture.clone(), 1, |candidate| candidate.protected = true);
    assert_eq!(why(&exempted, 2), no_victims(0, 1));
    assert_eq!(
        why(
            &also(exempted, 1, |candidate| candidate.score = Some(9.0)),
            2
        ),
        no_victims(0, 0)
    );
    assert_eq!(
        why(&fixture.clone().queued(3, "select=1:ncpus=1"), 3),
        no_victims(1, 0),
        "the resources of job 1 are already held for job 2"
    );
    let mut off = also(fixture.clone(), 1, |candidate| candidate.protected = true);
    off.policy.preemption.mode = PreemptMode::Disabled;
    assert_eq!(why(&off, 2), no_victims(0, 0));
    off.policy.preemption.triggers.clear();
    assert_eq!(why(&off, 2), None);
}

/// The victims of other jobs are not reported for the array.
#[test]
fn an_array_reports_the_victims_of_its_subjobs() {
    let fixture = fixture("1 x ncpus=2", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n1", (1, -9.0)).at(100);
    let mut fixture = fixture
        .queued(3, "select=1:ncpus=1")
        .queued(4, "select=1:ncpus=1 array=1-3");
    let plan = fixture.plan();
    assert_eq!(victims(&plan), "2 for 3; 1 for 4[1]");
    fixture.apply(&plan);
    let outlook_of = |id| {
        let outlook = crate::sched::explain::forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Default::default(),
        );
        crate::sched::explain::why::explain(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            id,
            &outlook,
        )
        .unwrap()
        .way
    };
    assert_eq!(
        outlook_of(JobId::array(4)),
        Some(PreemptionOutlook::Made(vec![JobId::job(1)]))
    );
    assert_eq!(
        outlook_of(JobId::job(3)),
        Some(PreemptionOutlook::Made(vec![JobId::job(2)]))
    );
}

/// Y12: job 200 fits only on n1. The newest jobs run on n2, so they are not preempted.
#[test]
fn of_many_candidates_those_on_the_nodes_of_the_job_are_preempted() {
    let mut fixture = fixture("1 x ncpus=130, 1 x ncpus=20", PreemptTrigger::Qube);
    for id in 1..=150 {
        let node = if id <= 130 { "n1" } else { "n2" };
        fixture = runs(fixture, id, "select=1:ncpus=1", node, (id as i64, -9.0));
    }
    let plan = fixture.at(1000).queued(200, "select=1:ncpus=120").plan();
    let gone: Vec<u64> = plan
        .preempts
        .iter()
        .map(|preemption| preemption.job.number)
        .collect();
    assert_eq!(gone, (11..=130).rev().collect::<Vec<_>>());
}

/// Job 200 needs CPUs of n1 and the only license. Job 1 uses the license on n2, so it is preempted.
#[test]
fn of_many_candidates_the_user_of_a_license_is_preempted() {
    let mut fixture = fixture("1 x ncpus=130, 1 x ncpus=1", PreemptTrigger::Qube);
    fixture.state.set_pool(
        "site_lic",
        Pool {
            total: 1,
            ..Pool::default()
        },
    );
    fixture = runs(fixture, 1, "select=1:ncpus=1 site_lic=1", "n2", (0, -9.0));
    for id in 2..=131 {
        fixture = runs(fixture, id, "select=1:ncpus=1", "n1", (id as i64, -9.0));
    }
    let plan = fixture
        .at(1000)
        .queued(200, "select=1:ncpus=120 site_lic=1")
        .plan();
    let gone: Vec<u64> = plan
        .preempts
        .iter()
        .map(|preemption| preemption.job.number)
        .collect();
    assert_eq!(gone, (12..=131).rev().chain([1]).collect::<Vec<_>>());
}

/// Y8: two nodes have become too small for their jobs. Job 3 runs on both nodes. If each node still
/// has 2 CPUs, preempting job 3 is sufficient; if each has only 1, it is not.
#[test]
fn a_job_on_two_overcommitted_nodes_is_preempted_once() {
    let fixture = runs(
        fixture("2 x ncpus=4", PreemptTrigger::Qube),
        1,
        "select=1:ncpus=2",
        "n1",
        (0, 0.0),
    );
    let fixture = runs(fixture, 2, "select=1:ncpus=2", "n2", (0, 0.0));
    let mut fixture = runs(
        fixture,
        3,
        "select=2:ncpus=2 place=scatter",
        "n1,n2",
        (1, 0.0),
    );
    fixture.policy.preemption.triggers.clear();
    fixture.policy.preemption.repair = true;
    let shrunk = |what: &str| {
        fixture
            .clone()
            .at(100)
            .node("n1", what, true)
            .node("n2", what, true)
    };
    assert_eq!(preempts(&shrunk("ncpus=2")), "3 for none");
    assert_eq!(
        preempts(&shrunk("ncpus=1")),
        "3 for none; 1 for none; 2 for none"
    );
}

/// Y8, G8: a preemptor needs its own victims.
#[test]
fn no_preemptor_gets_resources_released_by_a_repair() {
    let fixture = runs(
        fixture("1 x ncpus=4", PreemptTrigger::Qube),
        1,
        "select=1:ncpus=2",
        "n1",
        (0, -9.0),
    );
    let mut fixture = runs(fixture, 2, "select=1:ncpus=2", "n1", (1, -9.0))
        .at(100)
        .queued(3, "select=1:ncpus=2");
    fixture.policy.preemption.repair = true;
    assert_eq!(preempts(&fixture), "2 for 3");
    assert_eq!(
        preempts(&fixture.node("n1", "ncpus=3", true)),
        "2 for none; 1 for 3"
    );
}

/// Q15.
#[test]
fn over_limit_subjobs_are_preempted_first() {
    let mut fixture = fixture("1 x ncpus=3", PreemptTrigger::Qube);
    fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (50, -9.0));
    let shares = cluster("1 x ncpus=1")
        .queued(9, "select=1:ncpus=1")
        .plan()
        .starts[0]
        .shares
        .clone();
    for index in 1..=2 {
        let element = JobId::element(2, index);
        fixture
            .state
            .occupy(element, &shares, false, Time(10_000_000));
        fixture.state.bookings.note_over_limit(element, 1);
        fixture = fixture.candidate(element, i64::from(index), -9.0, |_| ());
    }
    assert_eq!(
        preempts(&fixture.at(100).queued(3, "select=1:ncpus=1")),
        "2[2] for 3"
    );
}

/// G8: job 3 starts on the resources freed for job 4. Then the resources that will be freed for job
/// 3 are held for job 4.
#[test]
fn a_preemptor_gets_other_resources_if_its_own_were_used_by_another_preemptor() {
    let fixture = fixture("2 x ncpus=1", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (0, -9.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n2", (1, -9.0)).at(100);
    let mut fixture = fixture
        .queued(3, "select=1:ncpus=1")
        .queued(4, "select=1:ncpus=1");
    let plan = fixture.plan();
    assert_eq!(victims(&plan), "2 for 3; 1 for 4");
    fixture.apply(&plan);
    fixture.state.vacate(JobId::job(1));
    let mut fixture = fixture.at(110);
    assert_eq!(
        fixture.starts(),
        "3 on n1",
        "job 3 uses the resources freed for job 4"
    );
    assert!(
        [3, 4]
            .iter()
            .all(|&id| fixture.state.holds_resources_for(JobId::job(id)))
    );
    for seconds in [110, 140, 170, 210, 250] {
        fixture = fixture.at(seconds);
        let plan = fixture.plan();
        fixture.apply(&plan);
        let kept = [3, 4].map(|id| fixture.state.holds_resources_for(JobId::job(id)));
        assert_eq!(kept, [false, true], "at {seconds}");
    }
    fixture.state.vacate(JobId::job(2));
    assert_eq!(
        fixture
            .queued(5, "select=1:ncpus=1 rank=0")
            .at(260)
            .starts(),
        "4 on n2"
    );
}

/// G8: a third preemptor needs its own victim.
#[test]
fn a_preemptor_uses_only_the_resources_freed_for_it() {
    let fixture = fixture("1 x ncpus=1:color=red, 2 x ncpus=1", PreemptTrigger::Qube);
    let fixture = runs(fixture, 1, "select=1:ncpus=1", "n1", (1, -9.0));
    let fixture = runs(fixture, 2, "select=1:ncpus=1", "n2", (2, -9.0));
    let fixture = runs(fixture, 3, "select=1:ncpus=1", "n3", (0, -9.0)).at(100);
    let mut fixture = fixture
        .queued(4, "select=1:ncpus=1")
        .queued(5, "select=1:ncpus=1:color=red");
    let plan = fixture.plan();
    assert_eq!(victims(&plan), "2 for 4; 1 for 5");
    fixture.apply(&plan);
    assert_eq!(preempts(&fixture.queued(6, "select=1:ncpus=1")), "3 for 6");
}
