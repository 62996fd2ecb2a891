//! The tier of a job. Jobs of a higher tier come first whatever their scores (X18).

use super::inputs::PriorityInputs;
use crate::model::policy::TurnPolicy;
use crate::sched::view::class::Wait;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::sort_key::SortKey;

/// The difference in tier between successive queue priorities. It exceeds any number of queues,
/// because [`of_class`] can subtract a number of queues from a tier.
const QUEUE: i64 = 1 << 36;

/// The difference in tier between jobs that have waited longer than `max_starve` and all others. It
/// exceeds any difference of queue priorities.
const STARVING: i64 = 1 << 52;

/// The tier of the jobs of a class (a set of interchangeable jobs) that have not waited longer than
/// `max_starve`.
pub fn of_class(inputs: &PriorityInputs, class: &ClassKey) -> i64 {
    let rule = &inputs.policy.precedence;
    let by_queue = rule.lexicographic || rule.tiers.turns != TurnPolicy::Together;
    let tier = if by_queue {
        inputs.queue_priority(class) * QUEUE
    } else {
        0
    };
    match rule.tiers.turns {
        // All jobs of a queue come before the jobs of the next queue. Queues of equal priority are
        // sorted by name.
        TurnPolicy::ByQueue => {
            tier - inputs.state.queues.range(..class.who.queue.clone()).count() as i64
        }
        TurnPolicy::Together | TurnPolicy::RoundRobin => tier,
    }
}

/// The sort key of a job with this score. `tier` is the result of [`of_class`].
pub fn of_job(inputs: &PriorityInputs, tier: i64, wait: &Wait, score: f64) -> SortKey {
    let rule = &inputs.policy.precedence.tiers;
    let starves = rule
        .max_starve
        .is_some_and(|most| inputs.waited(wait) > most);
    SortKey::of(tier + if starves { STARVING } else { 0 }, score)
}

/// A tier as text; empty for the tier 0.
pub fn describe(tier: i64) -> String {
    let starves = (tier + STARVING / 2).div_euclid(STARVING);
    let rest = tier - starves * STARVING;
    let queue = (rest + QUEUE / 2).div_euclid(QUEUE);
    let turn = queue * QUEUE - rest;
    let words = [
        (starves != 0).then(|| "waited longer than max_starve".to_string()),
        (queue != 0).then(|| format!("queue priority {queue}")),
        (turn != 0).then(|| format!("queue turn {turn} (lower turns first)")),
    ];
    words
        .into_iter()
        .flatten()
        .collect::<Vec<String>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_described_by_its_parts() {
        assert_eq!(describe(0), "");
        assert_eq!(describe(150 * QUEUE), "queue priority 150");
        assert_eq!(
            describe(-1024 * QUEUE - 3),
            "queue priority -1024, queue turn 3 (lower turns first)"
        );
        assert_eq!(
            describe(STARVING + QUEUE),
            "waited longer than max_starve, queue priority 1"
        );
    }
}
