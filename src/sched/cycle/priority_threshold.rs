//! Priority threshold: a job starts only if its priority exceeds the threshold of the policy (I15,
//! X17).

use super::state::CycleState;
use super::throttling::VerdictIndex;
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::plan::Plan;
use crate::sched::view::snapshot::ClusterState;
use std::sync::Arc;

/// Refuses a job with a priority at or below the threshold.
pub fn check(job: Candidate, cycle: &CycleState) -> Result<(), Reason> {
    cycle
        .threshold(job.job)
        .map_or(Ok(()), |(least, value)| check_score(value, least))
}

fn check_score(value: f64, least: f64) -> Result<(), Reason> {
    if value > least {
        return Ok(());
    }
    Err(Reason::UnderThreshold {
        value: value.to_string(),
        threshold: least.to_string(),
    })
}

/// Adds the verdict "under threshold" for classes without a job above the threshold if all jobs
/// with the same request were refused for lack of resources. The threshold is checked before
/// resources, so it is the reason to report (G5).
pub fn add_threshold_verdicts(state: &ClusterState, policy: &Policy, plan: &mut Plan) {
    let Some(least) = policy.precedence.threshold else {
        return;
    };
    let verdicts = VerdictIndex::of(plan);
    let lacking = state
        .classes
        .values()
        .filter(|class| verdicts.lacks(&class.key));
    plan.verdicts.extend(lacking.filter_map(|class| {
        let (_, (_, job)) = class.first()?;
        let refusal = check_score(state.score(policy, job)?, least).err()?;
        Some((class.key.id, Arc::new(refusal)))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::policy::Precedence;
    use crate::sched::fixture::cluster;
    use crate::sched::view::shape::ClassId;

    /// I15, F14: by default, an earlier job has a higher priority.
    #[test]
    fn the_threshold_refuses_the_later_of_two_equal_jobs() {
        let mut fixture = cluster("1 x ncpus=2")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1");
        fixture.policy.precedence.threshold = Some(f64::from(u32::MAX - 1));
        assert_eq!(fixture.starts(), "1 on n1");
        assert_eq!(fixture.reason(2).unwrap().code(), "under_threshold");
    }

    /// G5, X17: the verdict is added only for classes without a verdict of their own, and only if
    /// the verdict of their shape is not that the request can never run.
    #[test]
    fn a_low_priority_is_reported_before_lack_of_resources() {
        let mut fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=1");
        fixture.policy.precedence = Precedence {
            threshold: Some(5.0),
            ..Precedence::by_formula("5")
        };
        fixture.state.prioritise(&fixture.policy, fixture.now);
        let [own, shape] = fixture
            .state
            .waiting_class(JobId::job(1))
            .unwrap()
            .verdict_names();
        let (room, never) = (
            Reason::NotContiguous,
            Reason::NeverNodes {
                requested: 2,
                total: 1,
            },
        );
        let added = |policy: &Policy, verdicts: &[(ClassId, &Reason)]| {
            let mut plan = Plan::new(fixture.now);
            plan.verdicts = verdicts
                .iter()
                .map(|(job, reason)| (*job, Arc::new(Reason::clone(reason))))
                .collect();
            add_threshold_verdicts(&fixture.state, policy, &mut plan);
            plan.verdicts.split_off(verdicts.len())
        };
        let low = Reason::UnderThreshold {
            value: "5".to_string(),
            threshold: "5".to_string(),
        };
        assert_eq!(
            added(&fixture.policy, &[(shape, &room)]),
            [(own, Arc::new(low))]
        );
        for verdicts in [
            &[][..],
            &[(shape, &never)],
            &[(own, &room)],
            &[(own, &room), (shape, &room)],
        ] {
            assert_eq!(added(&fixture.policy, verdicts), [], "{verdicts:?}");
        }
        let mut lower = fixture.policy.clone();
        lower.precedence.threshold = Some(4.9);
        assert_eq!(added(&lower, &[(shape, &room)]), []);
    }
}
