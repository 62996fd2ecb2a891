//! In which order those behind the blocked jobs are tried, once all promises are given.
//!
//! `firstfit` goes by rank. With `order = "shortest"` the shortest walltime comes first (EASY-SJBF),
//! and with `bestfit` what the metric says is worth most (M30); rank decides between equals. As room
//! only shrinks within a cycle, to take the best that fits again and again is to try them in this order.
//! With `greedy` those come first that are worth most together.

use super::greedy;
use super::ledger::Ledger;
use super::memory::Memory;
use super::priority::Ranking;
use super::shape::{ClassKey, Shape};
use crate::model::policy::{FillOrder, Filling, Metric};

/// Puts the rest of the queue in the order of filling, the first time that all promises are given; what
/// does not fit as it is drops out.
pub fn reorder<'s>(ranking: &mut Ranking<'s>, ledger: &mut Ledger<'s>, memory: &mut Memory) {
    if !ledger.is_filling() {
        return;
    }
    if ledger.may_refuse_together() {
        memory.wake(&ledger.space, ledger.placement());
        ranking.dismiss(|members| ledger.refuse_together(members, memory));
        memory.settle();
    }
    let backfill = ledger.backfill();
    match (backfill.policy, backfill.order) {
        (Filling::Greedy, _) => {
            let chosen = greedy::choose(ranking, ledger);
            ranking.choose(&chosen);
        }
        (Filling::BestFit, _) => ranking.prefer(|class| worth(backfill.metric, class, ledger)),
        (_, FillOrder::Shortest) => ranking.prefer(|class| ledger.span_of(class).0.saturating_neg()),
        (_, FillOrder::Priority) => (),
    }
}

/// What a job of this class is worth (M30); times count in seconds.
pub fn worth(metric: Metric, class: &ClassKey, ledger: &Ledger) -> i64 {
    let seconds = ledger.span_of(class).as_seconds();
    match metric {
        Metric::Procs => ledger.processors(&class.shape),
        Metric::ProcSeconds => ledger.processors(&class.shape).saturating_mul(seconds),
        Metric::Seconds => seconds,
        Metric::Pe => equivalents(&class.shape, ledger),
        Metric::PeSeconds => equivalents(&class.shape, ledger).saturating_mul(seconds),
    }
}

/// Processor equivalents, in thousandths: its largest share of any resource, times all processors.
fn equivalents(shape: &Shape, ledger: &Ledger) -> i64 {
    let cluster = &ledger.state.cluster;
    let all = cluster.catalog.index("ncpus").map_or(0, |index| cluster.capacity()[index]);
    let share = |(asked, all_of_it): (&i64, &i64)| *asked as f64 / (*all_of_it).max(1) as f64;
    let largest = shape.total.iter().zip(cluster.capacity()).map(share).fold(0.0, f64::max);
    (largest * all as f64 * 1000.0) as i64
}
