//! Explains why a job waits, with the verdict of a cycle and a forecast. The verdict is not read
//! from storage: a new cycle computes it again.

use super::forecast::Outlook;
use super::{fair_share_status, node_survey, obstacles};
use crate::model::job_id::JobId;
use crate::model::policy::{Policy, PriorityOrder};
use crate::model::reason::Reason;
use crate::model::report::fair_share_status::FairShareReport;
use crate::model::report::outlook::{
    BlockingLimit, Explanation, JobForecast, Occupant, PreemptionOutlook, Prospect, QueueRank,
    Rejection, Survey,
};
use crate::model::time::{Span, Time};
use crate::sched::cycle::{self, preemption};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{self, Candidate};
use crate::sched::view::snapshot::ClusterState;

/// The jobs ahead of a job are counted up to this number.
const MAX_COUNTED: u64 = 500_000;

/// Explains why a job waits; None for a job that does not wait. `outlook` is a forecast that begins
/// with `state` at `now`. The fields `overtakers` and `run_time` stay empty;
/// schedd fills them.
pub fn explain(
    state: &ClusterState,
    policy: &Policy,
    now: Time,
    job: JobId,
    outlook: &Outlook,
) -> Option<Explanation> {
    let state = &*state.prioritised(policy, now);
    let found = examine(state, policy, now, job)?;
    let prospect = outlook
        .of(job)
        .map_or(Prospect::Beyond, |foreseen| foreseen.prospect.clone());
    let place = outlook
        .starts
        .iter()
        .position(|foreseen| is_of(foreseen.job, job));
    let mut occupants = occupants(state, &prospect);
    let more = occupants.len().saturating_sub(Explanation::MOST) as u64;
    occupants.truncate(Explanation::MOST);
    Some(Explanation {
        job,
        reason: found.objections.first().cloned(),
        barriers: found
            .objections
            .iter()
            .filter_map(|reason| barrier(reason, found.begun))
            .collect(),
        objections: found.objections,
        rank: Some(rank(state, policy, now, job)),
        survey: found.survey,
        shorter: found.shorter,
        ahead: ahead(&outlook.starts, place),
        prospect,
        range: outlook.of(job).and_then(|foreseen| foreseen.range),
        run_time: None,
        horizon: outlook.horizon,
        occupants,
        more,
        overtakers: Vec::new(),
        way: found.way,
        fair_share: found.fair_share,
    })
}

/// Whether a job is `other`, or a subjob of `other`.
fn is_of(id: JobId, other: JobId) -> bool {
    id == other || (other.is_array() && id.parent() == Some(other))
}

/// The obstacles to the start of a job.
struct Obstacles {
    /// The reasons why the job does not start; empty for a job that the next cycle starts.
    objections: Vec<Reason>,
    /// The nodes that fit a chunk of the job, and why the others do not.
    survey: Option<Survey>,
    /// A shorter walltime with which the job would start.
    shorter: Option<Span>,
    /// The number of running subjobs that count towards the limit of the job's array, including
    /// subjobs that the cycle starts.
    begun: u32,
    way: Option<PreemptionOutlook>,
    fair_share: Option<FairShareReport>,
}

/// Runs a cycle and finds the obstacles to the start of a job in the final state. Among the
/// objections of one stage, the verdict of the cycle comes first. None if the job does not wait.
fn examine(state: &ClusterState, policy: &Policy, now: Time, job: JobId) -> Option<Obstacles> {
    let class = state.classes.get(&state.class_of(job)?)?;
    let resolved = Resolved::new(state, policy, now);
    let mut cycle = cycle::decide(state, policy, &resolved, now, &mut CycleCache::default());
    let key = resolved.of(&class.key);
    let candidate = Candidate::element(job, key, class.begun());
    let found = obstacles::of(candidate, &mut cycle);
    let begun = cycle.running_subjobs_of(candidate);
    let counts_planned_starts = found
        .iter()
        .any(|reason| matches!(reason, Reason::WouldDelayBooking { .. }));
    let mut survey = node_survey::of(key, &cycle, counts_planned_starts);
    let mut shorter = found
        .first()
        .and_then(|first| obstacles::shorter(candidate, &mut cycle, first));
    let way = preemption::preemption_outlook(candidate, &mut cycle);
    let fair_share = fair_share_status::of_job(job, &cycle);
    let plan = cycle::close(cycle);
    let mut objections = obstacles::with_verdict(plan.verdict_on(&class.key, job), job, found);
    if plan.starts.iter().any(|start| is_of(start.job, job)) {
        objections.clear();
        (shorter, survey) = (None, None);
    }
    let objections = objections
        .into_iter()
        .map(|reason| more_specific(reason, survey.as_ref()))
        .collect();
    Some(Obstacles {
        objections,
        survey,
        shorter,
        begun,
        way,
        fair_share,
    })
}

/// Replaces the reason `Scattered` (too few chunks fit) by a more specific reason. The condition is
/// that no node fits, that all nodes that could ever fit have the same objection, and that this
/// objection has a text. Other reasons stay as they are.
fn more_specific(reason: Reason, survey: Option<&Survey>) -> Reason {
    let is_counted = matches!(reason, Reason::Scattered { .. });
    let Some(survey) = survey.filter(|survey| is_counted && survey.fitting == 0) else {
        return reason;
    };
    let mut possible = survey
        .rejections
        .iter()
        .filter(|rejection| !rejection.never);
    match (possible.next(), possible.next()) {
        (
            Some(Rejection {
                code,
                said: Some(text),
                nodes,
                ..
            }),
            None,
        ) => Reason::Nowhere {
            code: code.clone(),
            said: text.clone(),
            nodes: *nodes,
        },
        _ => reason,
    }
}

/// The limit or the system-wide resource for which a job waits; None if the reason is about
/// something else.
fn barrier(reason: &Reason, begun: u32) -> Option<BlockingLimit> {
    match reason {
        Reason::ArrayLimit { limit, .. } => Some(bare(
            "max_run_subjobs",
            limit.to_string(),
            begun.to_string(),
        )),
        Reason::Busy {
            resource,
            available,
            total,
            pooled: true,
            ..
        } => {
            let used = total
                .parse::<i64>()
                .ok()
                .zip(available.parse::<i64>().ok())
                .map_or(format!("all but {available}"), |(total, available)| {
                    (total - available).to_string()
                });
            Some(bare(resource, total.clone(), used))
        }
        Reason::Limited(excess) => {
            let soft = if excess.soft { "soft limit" } else { "limit" };
            let limit = format!(
                "{soft} on {} {} of {}",
                excess.stage.name(),
                excess.quantity.name(),
                excess.scope_text()
            );
            Some(BlockingLimit {
                by: excess.by.clone(),
                more: excess.more,
                ..bare(&limit, excess.most.clone(), excess.used.clone())
            })
        }
        _ => None,
    }
}

/// A limit without a list of the jobs that count towards it.
fn bare(limit: &str, value: String, used: String) -> BlockingLimit {
    BlockingLimit {
        limit: limit.to_string(),
        value,
        used,
        by: Vec::new(),
        more: 0,
    }
}

/// The position of a job: the number of jobs that a cycle considers before the job (None from
/// [`MAX_COUNTED`] on), and the number of all waiting jobs.
fn rank(state: &ClusterState, policy: &Policy, now: Time, job: JobId) -> QueueRank {
    let jobs = state.classes.values().flat_map(|class| class.jobs());
    let waiting = jobs
        .map(|(_, waiting)| match &waiting.array {
            Some(array) => u64::from(array.elements.waiting().len()),
            None => 1,
        })
        .sum();
    let resolved = Resolved::new(state, policy, now);
    let cluster = if policy.precedence.order == PriorityOrder::Cluster {
        let class = state.waiting_class(job);
        class.map(|class| class.cluster().to_string())
    } else {
        None
    };
    let mut ranking = ranking::rank(state, &resolved);
    let mut before = 0;
    while before < MAX_COUNTED
        && let Some(candidate) = ranking.next()
    {
        if is_of(candidate.job, job) {
            return QueueRank {
                before: Some(before),
                waiting,
                cluster,
            };
        }
        before += 1;
        ranking.follow(candidate);
    }
    QueueRank {
        before: None,
        waiting,
        cluster,
    }
}

/// The number of forecast starts before the job's own start, which is at index `place`. If the
/// forecast does not start the job (`place` is None), all its starts count.
fn ahead(starts: &[JobForecast], place: Option<usize>) -> u64 {
    place.unwrap_or(starts.len()) as u64
}

/// The running jobs on the nodes where the job is predicted to start, if they are expected to end
/// by then. The job that ends first comes first.
fn occupants(state: &ClusterState, prospect: &Prospect) -> Vec<Occupant> {
    let Prospect::Starts { at, nodes, .. } = prospect else {
        return Vec::new();
    };
    let mut occupants = Vec::new();
    for &(end, job) in state.ends.iter().take_while(|(end, _)| end <= at) {
        let held = state
            .running
            .get(&job)
            .map_or(&[][..], |running| &running.nodes);
        let shared: Vec<String> = held
            .iter()
            .map(|&ix| &state.cluster.node(ix).name)
            .filter(|name| nodes.contains(name))
            .cloned()
            .collect();
        if !shared.is_empty() {
            occupants.push(Occupant {
                job,
                end,
                nodes: shared,
            });
        }
    }
    occupants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::outlook::Horizon;
    use crate::sched::explain::forecast::{self, Budget};
    use crate::sched::fixture::{TestCluster, cluster};

    fn explained(fixture: &TestCluster, job: u64) -> Explanation {
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        explain(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            JobId::job(job),
            &outlook,
        )
        .unwrap()
    }

    #[test]
    fn an_explanation_lists_the_running_jobs_on_the_nodes_of_the_predicted_start() {
        let fixture = cluster("3 x ncpus=4")
            .running(1, "select=1:ncpus=4", "n1", 100)
            .running(2, "select=1:ncpus=4", "n2", 50)
            .running(3, "select=1:ncpus=4", "n3", 500)
            .queued(4, "select=2:ncpus=4 walltime=60")
            .queued(5, "select=1:ncpus=4 walltime=10");
        let why = explained(&fixture, 4);
        assert_eq!(
            (why.reason.unwrap().code().as_ref(), why.ahead, why.more),
            ("amount.ncpus", 1, 0)
        );
        let occupant = |job, end, node: &str| Occupant {
            job: JobId::job(job),
            end: Time(end),
            nodes: vec![node.into()],
        };
        assert_eq!(
            why.occupants,
            [occupant(2, 50_000, "n2"), occupant(1, 100_000, "n1")]
        );
        assert!(matches!(
            why.prospect,
            Prospect::Starts {
                at: Time(100_000),
                ..
            }
        ));
    }

    #[test]
    fn a_job_that_starts_now_has_no_reason() {
        let fixture = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=9");
        assert_eq!(explained(&fixture, 1).reason, None);
        let why = explained(&fixture, 2);
        assert_eq!(why.prospect, Prospect::Waits(why.reason.clone().unwrap()));
        assert_eq!(
            why.horizon,
            Horizon {
                from: Time(0),
                until: why.horizon.until,
                cycles: why.horizon.cycles,
                is_whole: true
            }
        );
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        assert_eq!(
            explain(
                &fixture.state,
                &fixture.policy,
                fixture.now,
                JobId::job(9),
                &outlook
            ),
            None
        );
    }

    #[test]
    fn a_reason_that_all_possible_nodes_share_is_reported() {
        let fixture = cluster("2 x ncpus=2, 1 x ncpus=4")
            .node("n3", "ncpus=4", false)
            .queued(1, "select=1:ncpus=4");
        let why = explained(&fixture, 1);
        assert_eq!(why.reason.unwrap().code(), "node_state");
        let alone =
            cluster("2 x ncpus=4").running(1, "select=2:ncpus=1 place=scatter", "n1,n2", 60);
        let why = explained(&alone.clone().queued(2, "select=1:ncpus=1 place=excl"), 2);
        assert_eq!(
            why.reason.unwrap().code(),
            "amount.ncpus",
            "no CPUs are free on a node without other jobs"
        );
        let half = alone.running(3, "select=1:ncpus=2", "n1", 60);
        assert_eq!(
            explained(&half.queued(2, "select=1:ncpus=3"), 2).reason,
            None
        );
        let apart =
            cluster("2 x ncpus=4").running(1, "select=2:ncpus=2 place=scatter", "n1,n2", 60);
        assert_eq!(
            explained(&apart.queued(2, "select=1:ncpus=3"), 2)
                .reason
                .unwrap()
                .code(),
            "fragmented"
        );
    }

    #[test]
    fn an_explanation_lists_a_limited_number_of_running_jobs() {
        let mut fixture = cluster("1 x ncpus=30");
        for job in 1..=30 {
            fixture = fixture.running(job, "select=1:ncpus=1", "n1", 100);
        }
        let why = explained(&fixture.queued(99, "select=1:ncpus=30"), 99);
        assert_eq!((why.occupants.len(), why.more), (Explanation::MOST, 10));
    }

    #[test]
    fn an_array_is_explained_by_its_first_subjob() {
        let fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=2 walltime=60");
        let fixture = fixture.queued(2, "select=1:ncpus=2 walltime=60 array=1-2");
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        let of = |id| explain(&fixture.state, &fixture.policy, fixture.now, id, &outlook).unwrap();
        let array = of(JobId::array(2));
        assert_eq!((array.reason, array.ahead), (None, 1));
        assert!(matches!(
            array.prospect,
            Prospect::Starts { at: Time(0), .. }
        ));
        let last = of(JobId::element(2, 2));
        assert_eq!(
            (last.reason.unwrap().code().as_ref(), last.ahead),
            ("amount.ncpus", 2)
        );
        let wide = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=4 walltime=60");
        let wide = wide.queued(2, "select=1:ncpus=2 walltime=60 array=1-2");
        let outlook = forecast::run(
            wide.state.clone(),
            &wide.policy,
            wide.now,
            Budget::default(),
        );
        let waits = explain(
            &wide.state,
            &wide.policy,
            wide.now,
            JobId::array(2),
            &outlook,
        )
        .unwrap();
        assert!(
            matches!(
                waits.prospect,
                Prospect::Starts {
                    at: Time(60_000),
                    ..
                }
            ) && waits.ahead == 1
        );
        assert_eq!(
            (explained(&fixture, 1).reason, explained(&fixture, 1).ahead),
            (None, 0)
        );
    }
}
