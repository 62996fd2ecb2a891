//! Launch: turns an allocation into a start, with the numbers of the CPUs and GPUs that the job
//! uses on each node. schedd sends the start to the nodes after it has written the plan to disk.

use super::matching::Match;
use super::state::{CycleState, Pass};
use crate::model::job::NodeShare;
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::plan::Start;
use crate::sched::view::snapshot::JobOwner;

/// A start that is possible now. [`launch`] claims its resources.
pub struct PossibleStart {
    claim: JobAmounts,
    shares: Vec<(NodeIx, NodeShare)>,
    is_preemptible: bool,
    pass: Pass,
}

/// Prepares the start of a job on these shares of nodes.
pub fn prepare(
    pass: Pass,
    found: &Match,
    claim: JobAmounts,
    shares: Vec<(NodeIx, NodeShare)>,
) -> PossibleStart {
    PossibleStart {
        claim,
        shares,
        is_preemptible: found.is_preemptible,
        pass,
    }
}

/// Adds a start to the plan.
pub fn launch(job: Candidate, attempt: PossibleStart, cycle: &mut CycleState) {
    let (start, claim) = start(job, attempt, cycle);
    cycle.enter(job, start, claim);
}

/// Assigns CPU and GPU numbers. Returns the start and the resources that it uses.
pub fn start(
    job: Candidate,
    attempt: PossibleStart,
    cycle: &mut CycleState,
) -> (Start, JobAmounts) {
    let shape = &job.class.shape;
    let cluster = &cycle.state.cluster;
    let mut claim = attempt.claim;
    cycle.space.share(shape, &mut claim);
    let numbers = &mut cycle.numbers;
    let shares = attempt.shares.into_iter();
    let shares = shares.map(|(node, share)| numbers.assign_numbers(cluster, node, share));
    let start = Start {
        job: job.job,
        shares: shares.collect(),
        exclusive: JobOwner {
            user: job.class.user,
            ..shape.owner()
        },
        until: cycle.end_of(job.class),
        passed: cycle.promises.blocked,
        behind: cycle.plan.bookings.len(),
        preemptible: attempt.is_preemptible,
        beyond: match attempt.pass {
            Pass::Expansion => cycle.subjob_limit(job).map(|limit| limit.limit),
            _ => None,
        },
    };
    (start, claim)
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    /// M46: a start always names its owner, even if the owner does not affect the placement.
    #[test]
    fn a_start_names_its_owner() {
        let plan = cluster("1 x ncpus=8")
            .owned("bob")
            .queued(1, "select=1:ncpus=1")
            .plan();
        assert_eq!(
            plan.starts[0].exclusive.user,
            crate::sched::view::snapshot::User::of("bob")
        );
    }
}
