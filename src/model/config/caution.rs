//! What a configuration says that may not be what is meant.

use super::Config;
use crate::model::expression::Expression;
use crate::model::policy::Order;
use crate::model::policy::formula::asks_for;
use crate::model::queue::Queue;

/// Nearer queues may be overtaken: fair-share spans as much as one step of a queue's priority by IT4I's
/// formula, and waiting adds to that.
const NEAREST: i32 = 2;

/// One sentence for each.
pub fn cautions(config: &Config) -> Vec<String> {
    let rule = &config.precedence;
    let formula = rule.formula.as_deref().filter(|_| rule.order == Order::Formula && !rule.lexicographic);
    let formula = formula.and_then(|text| Expression::parse(text).ok());
    let sums_up = |formula: &Expression| asks_for(formula, |name| name == "queue_priority");
    if formula.as_ref().is_some_and(sums_up) { near_queues(config.queues()) } else { Vec::new() }
}

/// I2b: of queues that differ, yet by so little that the higher one does not always win.
fn near_queues(mut queues: Vec<Queue>) -> Vec<String> {
    queues.sort_by(|one, other| (one.priority, &one.name).cmp(&(other.priority, &other.name)));
    let is_near = |low: &Queue, high: &Queue| (1..NEAREST).contains(&(high.priority - low.priority));
    let said = |pair: &[Queue]| {
        let [low, high] = pair else { return None };
        is_near(low, high).then(|| {
            format!(
                "queues `{}` ({}) and `{}` ({}) are so near that fair-share and waiting can put a job of the lower \
                 one first: let their priorities differ by 2, or set [order] lexicographic = true",
                low.name, low.priority, high.name, high.priority
            )
        })
    };
    queues.windows(2).filter_map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I2b.
    #[test]
    fn queues_that_are_too_near_are_named_where_priorities_are_summed_up() {
        let queues = "[[queue]]\nname = \"low\"\npriority = 100\n[[queue]]\nname = \"high\"\npriority = 101\n\
                      [[queue]]\nname = \"top\"\npriority = 103\n[[queue]]\nname = \"also\"\npriority = 103\n";
        let said = |head: &str| cautions(&Config::parse(&format!("{head}\n{queues}")).unwrap());
        let warned = said("preset = \"it4i\"");
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].starts_with("queues `low` (100) and `high` (101) are so near"), "{warned:?}");
        assert!(said("preset = \"it4i\"\norder = { lexicographic = true }").is_empty());
        assert!(said("preset = \"it4i\"\norder = { formula = \"fairshare\" }").is_empty());
        assert!(said("preset = \"hybrid\"").is_empty());
    }
}
