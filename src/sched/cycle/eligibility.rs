//! Eligibility: which waiting jobs a cycle considers, if the number of idle jobs is limited (M24).
//!
//! Each cycle makes a list of eligible jobs once, in order of priority. Of the jobs to which a
//! limit on idle jobs applies, the cycle considers only those on the list; the unlisted jobs wait
//! for the list of a later cycle. A job takes no place on the list if it cannot start anyway: its
//! request could never run, its priority is too low, it is deferred, its queue is stopped, or site
//! times do not allow it.

use super::limits::LimitCounters;
use super::state::CycleState;
use super::{feasibility, priority_threshold, throttling};
use crate::model::job_id::JobId;
use crate::model::limit::LimitStage;
use crate::model::policy::Policy;
use crate::model::reason::{self, Reason};
use crate::model::time::Span;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking;
use crate::sched::view::eligible::{Eligible, EligibleJobs};
use crate::sched::view::plan::Plan;
use crate::sched::view::shape::ClassId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Returns the list of eligible jobs; empty without limits on idle jobs.
pub(super) fn list<'s>(
    policy: &'s Policy,
    resolved: &'s Resolved,
    cycle: &mut CycleState<'s>,
) -> Eligible {
    list_with_counters(policy, resolved, cycle)
        .map(|(eligible, _)| eligible)
        .unwrap_or_default()
}

/// Returns the list of eligible jobs and the counters of the limits on idle jobs; None without such
/// limits.
pub(in crate::sched) fn list_with_counters<'s>(
    policy: &'s Policy,
    resolved: &'s Resolved,
    cycle: &mut CycleState<'s>,
) -> Option<(Eligible, LimitCounters<'s>)> {
    let mut counters = LimitCounters::blank(cycle.state, policy, LimitStage::Idle, cycle.now)?;
    let (mut listed, mut eligible) = (
        BTreeMap::<ClassId, BTreeSet<JobId>>::new(),
        Eligible::default(),
    );
    let mut ranking = ranking::rank(cycle.state, resolved);
    while let Some(job) = ranking.next() {
        let class = job.class;
        let can_run = feasibility::check(&class.shape, cycle).is_ok()
            && priority_threshold::check(job, cycle).is_ok();
        let is_ineligible = !can_run || throttling::is_ineligible(job, cycle);
        if is_ineligible || counters.counters_of(&class.who).is_empty() {
            ranking.pass(job);
            continue;
        }
        match counters.exceeded_limit(class) {
            None => {
                counters.enter(class, job.job);
                listed
                    .entry(class.id)
                    .or_default()
                    .extend([Some(job.job), job.job.parent()].into_iter().flatten());
                ranking.follow(job);
            }
            Some(exceeded) => {
                let (jobs, why) = (
                    listed.remove(&class.id).unwrap_or_default(),
                    counters.reason(exceeded, class),
                );
                eligible.0.insert(class.id, EligibleJobs { jobs, why });
                ranking.pass(job);
            }
        }
    }
    Some((eligible, counters))
}

/// Sets the verdict of each class of equal jobs that has unlisted jobs: the reason why these jobs
/// wait. Each listed job that waits gets a verdict of its own: the one that the class or its shape
/// had before. `names` returns the verdict names of a class.
pub(super) fn set_verdicts(plan: &mut Plan, names: impl Fn(ClassId) -> Option<[ClassId; 2]>) {
    if plan.eligible.0.is_empty() {
        return;
    }
    let eligible = std::mem::take(&mut plan.eligible);
    let verdicts: BTreeMap<ClassId, Arc<Reason>> = plan.verdicts.iter().rev().cloned().collect();
    let started: BTreeSet<JobId> = plan.starts.iter().map(|start| start.job).collect();
    plan.verdicts
        .retain(|(class, _)| !eligible.0.contains_key(class));
    for (class, few) in &eligible.0 {
        let of_class =
            names(*class).and_then(|names| names.iter().find_map(|name| verdicts.get(name)));
        let waiting = few.jobs.iter().filter(|job| !started.contains(job));
        if let Some(of_class) = of_class {
            let own = waiting.map(|job| (ClassId(reason::own_reason_key(*job)), of_class.clone()));
            plan.verdicts.extend(own);
        }
        plan.verdicts.push((*class, few.why.clone()));
    }
    // A job that starts leaves the list, so the next cycle may consider another job.
    if !plan.starts.is_empty() {
        plan.request_cycle(plan.now + Span(1));
    }
    plan.eligible = eligible;
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::job_id::JobId;
    use crate::model::policy::Policy;
    use crate::sched::explain::forecast::{self, Budget};
    use crate::sched::explain::why::explain;
    use crate::sched::fixture::{TestCluster, cluster};

    fn limited(nodes: &str, limit: &str) -> TestCluster {
        let mut fixture = cluster(nodes);
        let policy = Config::parse(&format!("[[limit]]\n{limit}\n"))
            .unwrap()
            .effective_policy();
        fixture.policy = Policy {
            limits: policy.limits,
            ..fixture.policy
        };
        fixture
    }

    fn codes(fixture: &TestCluster, jobs: impl Iterator<Item = JobId>) -> Vec<String> {
        let plan = fixture.plan();
        let code = |job| {
            fixture
                .state
                .verdict(&plan, job)
                .map_or(String::new(), |reason| reason.code().into_owned())
        };
        jobs.map(code).collect()
    }

    /// M24: listed jobs report the lack of resources. Unlisted jobs report the limit on idle jobs.
    #[test]
    fn listed_jobs_wait_for_resources_and_unlisted_jobs_for_the_list() {
        let fixture = limited("1 x ncpus=4", "user = \"*\"\nidle = { jobs = 2 }").running(
            9,
            "select=1:ncpus=4",
            "n1",
            60,
        );
        let mut fixture = (1..6).fold(fixture, |fixture, id| {
            fixture.queued(id, "select=1:ncpus=2 walltime=60")
        });
        let all = || (1..6).map(JobId::job);
        assert_eq!(
            codes(&fixture, all()),
            [
                "amount.ncpus",
                "amount.ncpus",
                "idle_limit",
                "idle_limit",
                "idle_limit"
            ]
        );
        fixture.state.vacate(JobId::job(9));
        assert_eq!(fixture.starts(), "1 on n1; 2 on n1", "job 3 would not fit");
        let plan = fixture.plan();
        assert_eq!(
            plan.next,
            Some(crate::model::time::Time(1)),
            "another cycle makes a new list"
        );
        fixture.apply(&plan);
        assert_eq!(
            codes(&fixture, all()),
            ["", "", "amount.ncpus", "amount.ncpus", "idle_limit"]
        );
    }

    /// M24: a job that is not on the list does not start, even if resources are free.
    #[test]
    fn unlisted_jobs_do_not_start_and_jobs_that_cannot_start_are_not_listed() {
        let fixture = limited("1 x ncpus=4", "idle = { jobs = 1 }");
        let two = fixture
            .clone()
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(
            (
                two.starts().as_str(),
                codes(&two, [JobId::job(2)].into_iter())
            ),
            ("1 on n1", vec!["idle_limit".to_string()])
        );
        let mut fixture = fixture
            .queued(1, "not_before=60")
            .queued(2, "queue=night")
            .queued(3, "select=1:ncpus=1");
        fixture
            .state
            .set_queue(&crate::sched::fixture::queue("night", false));
        assert_eq!(fixture.starts(), "3 on n1");
    }

    #[test]
    fn subjobs_are_listed_one_by_one_and_their_array_with_the_first() {
        let fixture =
            limited("1 x ncpus=4", "idle = { jobs = 2 }").running(9, "select=1:ncpus=4", "n1", 60);
        let fixture = fixture
            .queued(1, "select=1:ncpus=2 walltime=60 array=3-6")
            .queued(2, "select=1:ncpus=1");
        let ids = [
            JobId::array(1),
            JobId::element(1, 3),
            JobId::element(1, 5),
            JobId::job(2),
        ];
        assert_eq!(
            codes(&fixture, ids.into_iter()),
            ["amount.ncpus", "amount.ncpus", "idle_limit", "idle_limit"]
        );
    }

    /// Each cycle of the forecast makes a new list, and each waiting job gets a reason.
    #[test]
    fn the_forecast_starts_unlisted_jobs_later() {
        let fixture = limited("1 x ncpus=1", "user = \"*\"\nidle = { jobs = 1 }");
        let fixture = (1..4).fold(fixture, |fixture, id| {
            fixture.queued(id, "select=1:ncpus=1 walltime=60")
        });
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        let starts: Vec<u64> = outlook
            .starts
            .iter()
            .map(|start| start.job.number)
            .collect();
        assert_eq!(starts, [1, 2, 3]);
        let explained = explain(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            JobId::job(3),
            &outlook,
        )
        .unwrap();
        assert_eq!(explained.reason.unwrap().code(), "idle_limit");
        let barrier = &explained.barriers[0];
        let shown = (
            barrier.limit.as_str(),
            barrier.value.as_str(),
            barrier.used.as_str(),
        );
        assert_eq!(
            (shown, &barrier.by),
            (
                ("limit on idle jobs of user ann", "1", "1"),
                &vec![JobId::job(1)]
            )
        );
        let endless = fixture.running(9, "select=1:ncpus=1", "n1", i64::MAX);
        let outlook = forecast::run(
            endless.state.clone(),
            &endless.policy,
            endless.now,
            Budget::default(),
        );
        let waits = |job| match &outlook.of(JobId::job(job)).unwrap().prospect {
            crate::model::report::outlook::Prospect::Waits(reason) => reason.code().into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!([waits(1), waits(2)], ["amount.ncpus", "idle_limit"]);
    }

    /// I13: the list also decides which jobs accrue eligible time.
    #[test]
    fn only_listed_jobs_of_a_class_accrue_eligible_time() {
        use crate::model::job::eligible_time::OwnLimit;
        let fixture = limited("1 x ncpus=4", "user = \"*\"\nidle = { jobs = 2 }").running(
            9,
            "select=1:ncpus=4",
            "n1",
            60,
        );
        let mut fixture = (1..5).fold(fixture, |fixture, id| {
            fixture.queued(id, "select=1:ncpus=4 walltime=60")
        });
        let plan = fixture.plan();
        let judged = fixture.state.judge_limits(&plan);
        let of =
            |limits: [Option<OwnLimit>; 4]| (1..5).map(JobId::job).zip(limits).collect::<Vec<_>>();
        let waits = Some(OwnLimit::Waiting);
        assert_eq!(judged, of([None, None, waits, waits]));
        fixture.state.withdraw(JobId::job(1));
        let plan = fixture.plan();
        assert_eq!(
            fixture.state.judge_limits(&plan),
            of([None, None, None, waits])[1..3]
        );
    }
}
