//! What goes before the score of a job (X18).

use super::merit::Merit;
use super::shape::ClassKey;
use super::wait::Wait;
use super::yardstick::Yardstick;
use crate::model::policy::Turns;

/// Steps far enough apart that nothing below reaches across: queues, then who starves.
const QUEUE: i64 = 1 << 36;
const STARVING: i64 = 1 << 52;

/// The tier of all jobs of a class: jobs of a higher one come first, whatever they are worth.
pub fn of_class(yardstick: &Yardstick, class: &ClassKey) -> i64 {
    let rule = &yardstick.policy.precedence;
    let by_queue = rule.lexicographic || rule.tiers.turns != Turns::Together;
    let tier = if by_queue { yardstick.queue_priority(class) * QUEUE } else { 0 };
    match rule.tiers.turns {
        // One queue after the other, those of the same priority by name.
        Turns::ByQueue => tier - yardstick.state.queues.range(..class.who.queue.clone()).count() as i64,
        Turns::Together | Turns::RoundRobin => tier,
    }
}

/// The tier of one of them, and what it is worth there.
pub fn of_job(yardstick: &Yardstick, tier: i64, wait: &Wait, score: f64) -> Merit {
    let rule = &yardstick.policy.precedence.tiers;
    let starves = rule.max_starve.is_some_and(|most| yardstick.waited(wait) > most);
    Merit::of(tier + if starves { STARVING } else { 0 }, score)
}
