//! The order in which jobs are backfilled, once the cycle plans no more starts.
//!
//! `firstfit` uses the order of priority. With `order = "shortest"`, the job with the shortest
//! walltime comes first (EASY-SJBF); with `bestfit`, the job with the highest value of the metric
//! (M30). Between equal jobs, priority decides. Free resources only shrink within a cycle;
//! therefore one pass in this order has the same result as repeatedly starting the best job that
//! fits. With `greedy`, the combination of jobs with the highest total value starts first.

use super::greedy;
use super::state::CycleState;
use crate::model::policy::{FillOrder, Filling, Metric};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::priority::ranking::Ranking;
use crate::sched::view::shape::{ClassKey, Shape};

/// Puts the jobs that have not been considered yet into backfill order. If jobs may be refused
/// together, first refuses those that do not fit now.
pub fn reorder<'s>(ranking: &mut Ranking<'s>, cycle: &mut CycleState<'s>, cache: &mut CycleCache) {
    if cycle.may_refuse_together() {
        cache.find_changed_nodes(&cycle.space, cycle.placement());
        ranking.dismiss(|members| cycle.refuse_together(members, cache));
        cache.keep_used_results();
    }
    let backfill = cycle.backfill();
    match (backfill.policy, backfill.order) {
        (Filling::Greedy, _) => {
            let chosen = greedy::choose(ranking, cycle);
            ranking.choose(&chosen);
        }
        (Filling::BestFit, _) => {
            ranking.prefer(|class| metric_value(backfill.metric, class, cycle))
        }
        (_, FillOrder::Shortest) => ranking.prefer(|class| cycle.span_of(class).0.saturating_neg()),
        (_, FillOrder::Priority) => (),
    }
}

/// The value of a job of this class (M30), with times in seconds and processor equivalents in
/// thousandths.
pub fn metric_value(metric: Metric, class: &ClassKey, cycle: &CycleState) -> i64 {
    let seconds = cycle.span_of(class).as_seconds();
    match metric {
        Metric::Procs => cycle.processors(&class.shape),
        Metric::ProcSeconds => cycle.processors(&class.shape).saturating_mul(seconds),
        Metric::Seconds => seconds,
        Metric::Pe => equivalents(&class.shape, cycle),
        Metric::PeSeconds => equivalents(&class.shape, cycle).saturating_mul(seconds),
    }
}

/// The processor equivalents of a request, in thousandths. The request needs a fraction of each
/// resource of the cluster. The largest of these fractions is multiplied by the number of all CPUs.
fn equivalents(shape: &Shape, cycle: &CycleState) -> i64 {
    crate::sched::view::processor_equivalents::thousandths(&shape.total, &cycle.state.cluster)
}

#[cfg(test)]
mod tests {
    use crate::model::policy::{Filling, Metric};
    use crate::sched::fixture::{TestCluster, cluster};

    /// 10 of 20 CPUs are free until the planned start of job 2 at 3600.
    fn with_metric(metric: Metric) -> TestCluster {
        let mut fixture =
            cluster("1 x ncpus=20:mem=100gb").running(1, "select=1:ncpus=10", "n1", 3600);
        (
            fixture.policy.backfill.policy,
            fixture.policy.backfill.metric,
        ) = (Filling::BestFit, metric);
        fixture.queued(2, "select=1:ncpus=20 walltime=1:00:00")
    }

    /// M30: the resource of which a request needs the largest fraction determines its processor
    /// equivalents.
    #[test]
    fn m30_processor_equivalents_use_the_largest_fraction_of_a_resource() {
        let of = |metric, one: &str, other: &str| {
            with_metric(metric).queued(3, one).queued(4, other).starts()
        };
        let (wide, fat) = (
            "select=1:ncpus=6:mem=30gb walltime=0:10:00",
            "select=1:ncpus=2:mem=80gb walltime=0:10:00",
        );
        assert_eq!(of(Metric::Procs, fat, wide), "4 on n1");
        assert_eq!(
            of(Metric::Pe, wide, fat),
            "4 on n1",
            "80 of 100 GB equal 16 of 20 CPUs"
        );
        let longer = "select=1:ncpus=6:mem=30gb walltime=0:50:00";
        assert_eq!(of(Metric::PeSeconds, fat, longer), "4 on n1");
        assert_eq!(of(Metric::PeSeconds, wide, fat), "4 on n1");
        let narrow = "select=1:ncpus=4:mem=75gb walltime=0:10:00";
        assert_eq!(of(Metric::Pe, narrow, fat), "4 on n1");
    }

    /// M30: before the first blocked job, best fit does not change the order.
    #[test]
    fn m30_priority_decides_until_a_job_is_blocked() {
        let mut fixture = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=4");
        (fixture.policy.backfill.policy, fixture.policy.backfill.keep) = (
            Filling::BestFit,
            crate::model::policy::BookingRetention::Never,
        );
        assert_eq!(fixture.starts(), "1 on n1");
    }
}
