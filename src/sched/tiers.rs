//! What goes before the score of a job (X18).

use super::shape::ClassKey;
use super::yardstick::Yardstick;

/// The tier of a job of a class: jobs of a higher one come first, whatever they are worth.
pub fn tier(yardstick: &Yardstick, class: &ClassKey) -> i64 {
    match yardstick.policy.precedence.lexicographic {
        // I2b.
        true => yardstick.queue_priority(class),
        false => 0,
    }
}
