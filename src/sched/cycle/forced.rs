//! Forced start by an operator (`qrun`): starts one job now. Holds, priority, limits, stopped
//! queues, reservations and planned starts of other jobs do not prevent the start. The job gets
//! only resources that are free now; no job is preempted for it.

use super::matching::Match;
use super::state::CycleState;
use super::{Pass, feasibility, launch};
use crate::model::job::Job;
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::placement::resolution::{Resolution, Resolved};
use crate::sched::placement::{allocation, task_distribution};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::plan::Start;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeSet;

/// Returns the start of the job, only on the nodes `on` if given. The error is the reason why the
/// job cannot start. Runs the stages feasibility, matching, allocation, distribution and launch,
/// but not priority and throttling.
pub fn start(
    state: &ClusterState,
    policy: &Policy,
    job: &Job,
    on: Option<&BTreeSet<String>>,
    now: Time,
) -> Result<Start, Reason> {
    let cluster = &state.cluster;
    let class = ClassKey::of(job, &cluster.catalog);
    let resolved = Resolved::default();
    let class = Resolution::needed(state, policy, now)
        .map_or(class.clone(), |policy| policy.class(&class, true));
    let mut cycle = CycleState::open(state, policy, &resolved, now);
    feasibility::check(&class.shape, &mut cycle)?;
    if let Some(names) = on {
        let others = cluster.present().filter(|node| !names.contains(&node.name));
        for ix in others.filter_map(|node| cluster.find(&node.name)) {
            cycle.space.close(ix);
        }
    }
    let job = Candidate::alone(job.id, &class);
    let placement = cycle
        .match_free(&class.shape)
        .map_err(|reason| Reason::clone(&reason))?;
    let space = &cycle.space;
    let (claim, extra) = allocation::allocate(space, &class.shape, &placement);
    let distribution = space.guide().distribution;
    let shares =
        task_distribution::distribute(cluster, &class.shape, &placement, &extra, distribution);
    let possible_start =
        launch::prepare(Pass::Order, &Match::without_delay(placement), claim, shares);
    Ok(launch::start(job, possible_start, &mut cycle).0)
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::{TestCluster, cluster};

    /// Job 1 uses half of each node. Job 2 waits for all CPUs of both nodes and has a planned
    /// start.
    fn busy() -> TestCluster {
        cluster("2 x ncpus=4")
            .running(1, "select=2:ncpus=2", "n1,n2", 3600)
            .queued(2, "select=2:ncpus=4 walltime=1:00:00")
    }

    #[test]
    fn planned_starts_stopped_queues_and_earliest_start_times_are_ignored() {
        let fixture = busy().queued(3, "select=1:ncpus=2");
        assert_eq!(
            (
                fixture.starts().as_str(),
                fixture.forced(3, "select=1:ncpus=2", &[])
            ),
            ("", Ok("n1".to_string()))
        );
        assert_eq!(
            fixture.forced(9, "select=1:ncpus=1 queue=night not_before=600", &[]),
            Ok("n1".to_string())
        );
    }

    #[test]
    fn a_forced_start_uses_only_free_resources() {
        let why = "Not Running: Insufficient amount of resource: ncpus (R: 8 A: 4 T: 8)";
        assert_eq!(
            busy().forced(2, "select=2:ncpus=4", &[]),
            Err(why.to_string())
        );
        let never = "Can Never Run: Insufficient amount of resource: ncpus (R: 5 A: 4 T: 8)";
        assert_eq!(
            busy().forced(2, "select=1:ncpus=5", &[]),
            Err(never.to_string())
        );
    }

    #[test]
    fn only_named_nodes_are_used() {
        assert_eq!(
            busy().forced(3, "select=1:ncpus=2", &["n2"]),
            Ok("n2".to_string())
        );
        assert_eq!(
            busy().forced(3, "select=2:ncpus=1", &["n2"]),
            Ok("n2,n2".to_string())
        );
        let why = "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 2 T: 8)";
        assert_eq!(
            busy().forced(3, "select=2:ncpus=2", &["n2"]),
            Err(why.to_string())
        );
    }
}
