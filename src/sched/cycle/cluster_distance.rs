//! Jobs go first where they belong (Q5, Q17): in one pass after the other they may use nodes
//! farther away from their clusters, so that no node takes a job while one that is nearer, or as
//! near and better, fits there. That is each host taking its best (X20), with the walk of all other
//! orders.

use super::launch;
use super::state::{CycleState, Pass};
use crate::model::policy::Filling;
use crate::sched::cycle;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{Candidate, Ranking};

/// Starts what fits in a pass; of what does not nothing is said yet. Where jobs are promised
/// starts, nobody behind one that waits for room everywhere is looked at before that has its
/// promise (G4).
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

/// Whether a job waits for room wherever it may go.
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

    /// Two nodes of a cluster, one of them taken for a while, and a small one elsewhere.
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

    /// G4: who is nearer does not pass who is promised a start, but for where that is the policy.
    #[test]
    fn the_nearest_delay_no_promise() {
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
