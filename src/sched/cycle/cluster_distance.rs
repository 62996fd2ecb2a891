//! Passes by distance from a job's cluster (Q5, Q17). Each pass allows nodes farther away than the
//! pass before. So a node takes no job while a nearer job, or an equally near one of higher
//! priority, fits there. This equals each host choosing its best job (X20), with the usual order of
//! the queue.

use super::launch;
use super::state::{CycleState, Pass};
use crate::model::policy::Filling;
use crate::sched::cycle;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{Candidate, Ranking};

/// Starts the jobs that fit in one pass, without verdicts for the others. If the policy plans
/// starts, the pass ends at the first job that is blocked on all its nodes, so that this job gets
/// its planned start before any job behind it is considered (G4).
pub fn start_near<'s>(mut ranking: Ranking<'s>, whole: &'s Resolved, cycle: &mut CycleState<'s>) {
    let promises = cycle.backfill().policy != Filling::Skip;
    while let Some(job) = ranking.next() {
        if cycle.has_started(job.job) {
            ranking.follow(job);
            continue;
        }
        if promises && cycle.state.bookings.promise(job.job).is_some() {
            break;
        }
        cycle.consider();
        match cycle::place(job, Pass::Order, cycle) {
            Ok(attempt) => {
                launch::launch(job, attempt, cycle);
                ranking.follow(job);
            }
            Err(_) if promises && is_blocked(job, whole, cycle) => break,
            Err(_) => ranking.pass(job),
        }
    }
    cycle.begin_again();
}

/// Whether a job is blocked on all nodes that it may use.
fn is_blocked<'s>(job: Candidate<'s>, whole: &'s Resolved, cycle: &mut CycleState<'s>) -> bool {
    let Some(class) = cycle.state.class(job.class.id) else {
        return false;
    };
    let job = job.asking(whole.of(class));
    cycle::place(job, Pass::Order, cycle).is_err_and(|reason| reason.is_blocked())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::node::NodeTerms;
    use crate::model::policy::PriorityOrder;
    use crate::sched::fixture::{TestCluster, cluster};

    /// Two nodes of a cluster, one of them in use for a while, and a small node elsewhere.
    fn fixture() -> TestCluster {
        let terms = |path: &str| NodeTerms {
            cluster: path.parse().unwrap(),
            ..NodeTerms::default()
        };
        let mut fixture = cluster("3 x ncpus=4")
            .terms("n1", "ncpus=4", terms("/a"))
            .terms("n2", "ncpus=4", terms("/a"));
        fixture =
            fixture
                .terms("n3", "ncpus=1", terms("/b"))
                .running(9, "select=1:ncpus=4", "n1", 100);
        fixture.policy.precedence.order = PriorityOrder::Cluster;
        fixture
    }

    /// G4: a nearer job does not pass a job with a planned start, unless the policy skips blocked
    /// jobs.
    #[test]
    fn nearer_jobs_delay_no_planned_start() {
        let fixture = fixture().queued(1, "select=2:ncpus=4 walltime=50 cluster=/a");
        let mut fixture = fixture.queued(2, "select=1:ncpus=4 walltime=1000 cluster=/a");
        assert_eq!(
            (fixture.starts().as_str(), fixture.booked().as_str()),
            ("", "1 at 100 on n1,n2")
        );
        let short = fixture
            .clone()
            .queued(3, "select=1:ncpus=4 walltime=60 cluster=/a");
        assert_eq!(short.starts(), "3 on n2");
        fixture.policy.backfill.policy = Filling::Skip;
        assert_eq!(fixture.starts(), "2 on n2");
    }
}
