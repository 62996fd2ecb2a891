//! Launch: turns an allocation into a start and assigns CPU and GPU numbers on each node. schedd
//! writes the plan to disk and then sends the launch orders.

use super::matching::Match;
use super::state::{CycleState, Pass};
use crate::model::job::NodeShare;
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::plan::Start;
use crate::sched::view::snapshot::JobOwner;

/// A start that is possible now. [`launch`] claims the resources of the start.
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

/// Adds the start of a job to the plan and claims the resources of the start.
pub fn launch(job: Candidate, possible_start: PossibleStart, cycle: &mut CycleState) {
    let (start, claim) = start(job, possible_start, cycle);
    cycle.add_start(job, start, claim);
}

/// Assigns CPU and GPU numbers. Returns the start and the resources that the job uses.
pub fn start(
    job: Candidate,
    possible_start: PossibleStart,
    cycle: &mut CycleState,
) -> (Start, JobAmounts) {
    let shape = &job.class.shape;
    let cluster = &cycle.state.cluster;
    let mut claim = possible_start.claim;
    cycle.space.share(shape, &mut claim);
    let numbers = &mut cycle.numbers;
    let shares = possible_start.shares.into_iter();
    let shares = shares.map(|(node, share)| numbers.assign_numbers(cluster, node, share));
    let start = Start {
        job: job.job,
        shares: shares.collect(),
        exclusive: JobOwner {
            user: job.class.user,
            ..shape.owner()
        },
        until: cycle.end_of(job.class),
        passed: cycle.booking_budget.blocked,
        behind: cycle.plan.bookings.len(),
        preemptible: possible_start.is_preemptible,
        beyond: match possible_start.pass {
            Pass::Expansion => cycle.subjob_limit(job).map(|limit| limit.limit),
            _ => None,
        },
    };
    (start, claim)
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    /// M46: a start contains the owner of the job, even if the owner does not affect the placement.
    #[test]
    fn a_start_contains_the_job_owner() {
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
