//! Throttling: refuses jobs that may not start yet, regardless of free resources. Examples: a
//! stopped queue, a delay after a failed start, an array's limit on its running subjobs, and the
//! site's limits on running and idle jobs (M5).

use super::limits::LimitCounters;
use super::state::{CycleState, Pass};
use crate::model::job::SubjobLimit;
use crate::model::reason::Reason;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::plan::Plan;
use crate::sched::view::request_groups::Members;
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A check of one reason to refuse a job for now; None if the reason does not apply.
type Check = fn(Candidate, Pass, &CycleState) -> Option<Reason>;

/// The checks that do not depend on free resources or site limits. The first refusal is reported.
const CHECKS: [Check; 5] = [deferred, queue_stopped, site_time, array_limit, awaited];

/// The number of checks at the beginning of [`CHECKS`] that keep a job off the list of eligible
/// jobs.
const LIST_CHECKS: usize = 3;

/// Refuses a job that may not start yet. The error is the first reason found.
pub fn check(job: Candidate, pass: Pass, cycle: &mut CycleState) -> Result<(), Arc<Reason>> {
    if let Some(reason) = cycle.list_refusal(job) {
        return Err(reason);
    }
    if let Some(reason) = CHECKS.iter().find_map(|check| check(job, pass, cycle)) {
        return Err(reason.into());
    }
    cycle.limit_refusal(job.class, pass).map_or(Ok(()), Err)
}

/// Returns all reasons of this stage for which a job may not start yet.
pub fn objections(job: Candidate, cycle: &mut CycleState) -> Vec<Reason> {
    let found = CHECKS
        .iter()
        .filter_map(|check| check(job, Pass::Order, cycle));
    let reasons: Vec<Reason> = found
        .chain(cycle.list_refusal(job).map(Arc::unwrap_or_clone))
        .collect();
    reasons
        .into_iter()
        .chain(
            cycle
                .limit_refusal(job.class, Pass::Order)
                .map(Arc::unwrap_or_clone),
        )
        .collect()
}

/// Whether a job is deferred, in a stopped queue, or not allowed by site times. Such a job takes no
/// place on the list of eligible jobs.
pub fn is_ineligible(job: Candidate, cycle: &CycleState) -> bool {
    CHECKS[..LIST_CHECKS]
        .iter()
        .any(|check| check(job, Pass::Order, cycle).is_some())
}

fn deferred(job: Candidate, _: Pass, cycle: &CycleState) -> Option<Reason> {
    job.class
        .not_before
        .filter(|&until| until > cycle.now)
        .map(|until| Reason::Deferred { until })
}

fn queue_stopped(job: Candidate, _: Pass, cycle: &CycleState) -> Option<Reason> {
    stopped(cycle.state, &job.class.who.queue)
}

/// Returns why a queue starts no jobs; None if it starts jobs.
fn stopped(state: &ClusterState, queue: &str) -> Option<Reason> {
    match state.queues.get(queue) {
        Some(queue) if queue.runs_jobs() => None,
        Some(queue) if queue.route.is_some() => Some(Reason::QueueRoutes),
        Some(queue) if queue.nested && queue.started => Some(Reason::NestedQueue),
        _ => Some(Reason::QueueStopped),
    }
}

fn site_time(job: Candidate, _: Pass, cycle: &CycleState) -> Option<Reason> {
    cycle
        .state
        .site_time
        .admits(&job.class.who.queue, cycle.now, cycle.end_of(job.class))
        .err()
}

/// Refuses a subjob if the array's limit on running subjobs is reached. In [`Pass::Expansion`], the
/// higher limit `expand` applies.
fn array_limit(job: Candidate, pass: Pass, cycle: &CycleState) -> Option<Reason> {
    let SubjobLimit { limit, most } = cycle.subjob_limit(job)?;
    let bound = if pass == Pass::Expansion { most } else { limit };
    let expand = (most > limit).then_some(most);
    (cycle.running_subjobs_of(job) >= bound).then_some(Reason::ArrayLimit { limit, expand })
}

/// Refuses a job that waits for an answer of the allocation script.
fn awaited(job: Candidate, _: Pass, cycle: &CycleState) -> Option<Reason> {
    cycle
        .state
        .is_awaited(job.class.id)
        .then_some(Reason::AwaitsChoice)
}

/// If all jobs with the same request were refused for lack of resources, adds a verdict for the
/// classes in queues that start no jobs: the reason why the queue starts none. Queues are checked
/// before resources, so the queue is the reason to report (G5).
pub fn add_stopped_queue_verdicts(state: &ClusterState, plan: &mut Plan) {
    let groups = state.alike.groups().map(|(_, members)| members);
    let with_stopped_queue: Vec<&Members> = groups
        .filter(|members| {
            members
                .queues()
                .any(|queue| stopped(state, queue).is_some())
        })
        .collect();
    if with_stopped_queue.is_empty() {
        return;
    }
    let verdicts = VerdictIndex::of(plan);
    let classes = with_stopped_queue
        .iter()
        .flat_map(|members| &members.classes)
        .filter_map(|(_, id)| state.classes.get(id));
    plan.verdicts.extend(classes.filter_map(|class| {
        let why = stopped(state, &class.key.who.queue)?;
        verdicts
            .lacks(&class.key)
            .then(|| (class.key.id, Arc::new(why)))
    }));
}

/// Adds the exceeded limit as verdict for classes over a limit if all jobs with the same request
/// were refused for lack of resources (I13).
pub fn add_limit_verdicts(state: &ClusterState, limits: &mut LimitCounters, plan: &mut Plan) {
    let verdicts = VerdictIndex::of(plan);
    let keys = state.classes.values().map(|class| &class.key);
    let over = keys.filter(|key| verdicts.lacks(key)).filter_map(|key| {
        let exceeded = limits.exceeded_limit(key)?;
        Some((key.id, limits.reason(exceeded, key)))
    });
    plan.verdicts.extend(over);
}

/// The classes and shapes with a verdict in a plan. The value is true if the jobs can never run.
pub(super) struct VerdictIndex(BTreeMap<ClassId, bool>);

impl VerdictIndex {
    pub fn of(plan: &Plan) -> VerdictIndex {
        let verdicts = plan.verdicts.iter();
        VerdictIndex(
            verdicts
                .map(|(class, reason)| (*class, reason.is_never()))
                .collect(),
        )
    }

    /// Whether a class has no verdict of its own, and its shape is refused for now but not forever.
    pub fn lacks(&self, key: &ClassKey) -> bool {
        let [own, shape] = key.verdict_names();
        !self.0.contains_key(&own) && self.0.get(&shape) == Some(&false)
    }
}

#[cfg(test)]
mod tests {
    use crate::model::time::Time;
    use crate::sched::fixture::{cluster, queue};

    #[test]
    fn a_stopped_queue_starts_no_job_and_blocks_no_other() {
        let mut fixture = cluster("1 x ncpus=1")
            .queued(1, "queue=night")
            .queued(2, "queue=workq");
        assert_eq!(fixture.why(1), "Not Running: Queue not started.");
        assert_eq!(fixture.starts(), "2 on n1");
        fixture.state.set_queue(&queue("night", true));
        assert_eq!(fixture.starts(), "1 on n1");
    }

    /// G5: jobs 4 and 7 report the stopped queue, although jobs with the same request are refused
    /// for lack of resources.
    #[test]
    fn a_stopped_queue_is_reported_before_lack_of_resources() {
        let mut fixture = cluster("1 x ncpus=4").running(1, "select=1:ncpus=4", "n1", 600);
        fixture.state.set_queue(&queue("night", false));
        let fixture = fixture
            .queued(2, "select=1:ncpus=4 walltime=60")
            .queued(3, "select=1:ncpus=4 walltime=70")
            .queued(4, "select=1:ncpus=4 walltime=60 queue=night")
            .queued(5, "select=1:ncpus=5 walltime=60")
            .queued(6, "select=1:ncpus=5 walltime=60 queue=night")
            .queued(7, "select=1:ncpus=4 walltime=60 queue=gone");
        let code = |job| fixture.reason(job).unwrap().code();
        assert_eq!(
            [code(2), code(3), code(4), code(7)],
            [
                "amount.ncpus",
                "amount.ncpus",
                "queue_stopped",
                "queue_stopped"
            ]
        );
        assert_eq!([code(5), code(6)], ["unsatisfiable", "unsatisfiable"]);
    }

    /// I26: the limit on running subjobs counts subjobs that already run, too.
    #[test]
    fn an_array_at_its_limit_blocks_no_other_job() {
        let fixture = cluster("1 x ncpus=8")
            .queued(1, "array=1-5%2")
            .queued(2, "array=1-2")
            .queued(3, "select=1:ncpus=1");
        assert_eq!(
            fixture.starts(),
            "1[1] on n1; 1[2] on n1; 2[1] on n1; 2[2] on n1; 3 on n1"
        );
        assert_eq!(
            fixture.why(1),
            "Not Running: Number of concurrent running subjobs limit reached (L: 2)"
        );
        assert_eq!(
            fixture.begun(1, 0, 1).starts(),
            "2[1] on n1; 2[2] on n1; 3 on n1"
        );
    }

    #[test]
    fn a_failed_start_is_retried_after_its_delay() {
        let fixture = cluster("1 x ncpus=1")
            .queued(1, "not_before=60")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(
            (fixture.starts().as_str(), fixture.plan().next),
            ("2 on n1", Some(Time(60_000)))
        );
        assert_eq!(fixture.reason(1).unwrap().code(), "deferred");
        assert_eq!(fixture.at(60).starts(), "1 on n1");
    }
}
