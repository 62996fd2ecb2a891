//! Passes by the distance of nodes from a job's cluster (Q5, Q17). A cluster is a label of nodes
//! and jobs, as in Qube!. Each pass also allows nodes that are farther away than those of the
//! previous pass. Therefore no job starts on a node as long as a job of a nearer cluster fits
//! there, or a job of an equally near cluster fits there and has a higher priority. The result is
//! the same as if each host chose its best job (X20).

use super::launch;
use super::state::{CycleState, Pass};
use crate::model::policy::Filling;
use crate::sched::cycle;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{Candidate, Ranking};

/// In one pass, starts the jobs that fit. Records no verdicts for the other jobs. Unless the
/// backfill policy is `Skip`, the pass ends at the first job that already has a planned start or is
/// blocked on all nodes that it may use. The cycle later plans the start of this job before it
/// considers any job of lower priority (G4).
pub fn start_near<'s>(mut ranking: Ranking<'s>, whole: &'s Resolved, cycle: &mut CycleState<'s>) {
    let stops_at_blocked_job = cycle.backfill().policy != Filling::Skip;
    while let Some(job) = ranking.next() {
        if cycle.has_started(job.job) {
            ranking.follow(job);
            continue;
        }
        if stops_at_blocked_job && cycle.state.bookings.promise(job.job).is_some() {
            break;
        }
        cycle.count_considered();
        match cycle::place(job, Pass::Order, cycle) {
            Ok(possible_start) => {
                launch::launch(job, possible_start, cycle);
                ranking.follow(job);
            }
            Err(_) if stops_at_blocked_job && is_blocked(job, whole, cycle) => break,
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

    /// Nodes n1 and n2 in cluster /a, and a small node n3 in cluster /b. n1 is in use until 100.
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

    /// G4: a near job starts before a job with a planned start only if it does not delay that
    /// start, or if the policy skips blocked jobs.
    #[test]
    fn near_jobs_delay_no_planned_start() {
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
