//! What jobs are worth under the order of the policy: who is worth most goes first (X18), and who came
//! first of those worth the same.

use super::shape::ClassKey;
use super::snapshot::State;
use crate::model::expression::{Expression, Scope, Value};
use crate::model::job::JobId;
use crate::model::policy::{Order, Policy};
use crate::model::time::{Span, Time};

/// What a job is worth, so that the highest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Merit(i64);

impl Merit {
    /// That of the highest number is first.
    pub fn of(value: f64) -> Merit {
        Merit(highest_first(value))
    }
}

/// Numbers in falling order, as rising integers.
pub fn highest_first(value: f64) -> i64 {
    // The bits of a number that is not negative rise with it; those of negative ones fall.
    let bits = (value + 0.0).to_bits() as i64;
    let rising = if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits };
    rising.wrapping_neg()
}

/// The yardstick of a cycle.
pub struct Merits<'s> {
    state: &'s State,
    now: Time,
    formula: Option<Expression>,
    default_walltime: Span,
}

impl<'s> Merits<'s> {
    /// None where who came first goes first.
    pub fn new(state: &'s State, policy: &Policy, now: Time) -> Option<Merits<'s>> {
        let precedence = &policy.precedence;
        let formula = match precedence.order {
            Order::Fcfs => return None,
            Order::Priority => None,
            // A formula that cannot be read is refused with the configuration.
            Order::Formula => precedence.formula.as_deref().and_then(|text| Expression::parse(text).ok()),
        };
        Some(Merits { state, now, formula, default_walltime: policy.default_walltime })
    }

    /// What a job of a class is worth.
    pub fn of(&self, class: &ClassKey, job: JobId) -> Merit {
        Merit::of(match &self.formula {
            // I15: what cannot be told, or makes no sense, counts as 0.
            Some(formula) => formula.number(&Worth { merits: self, class, job }).ok().flatten().unwrap_or(0.0),
            None => f64::from(class.priority),
        })
    }

    /// For how many seconds a job has been waiting.
    fn waited(&self, job: JobId) -> i64 {
        self.state.waits_since(job).map_or(0, |since| self.now.since(since).as_seconds().max(0))
    }
}

/// What a formula can ask of a job: PBS's names, and what is asked for in all of each resource.
struct Worth<'a> {
    merits: &'a Merits<'a>,
    class: &'a ClassKey,
    job: JobId,
}

impl Scope for Worth<'_> {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        let Worth { merits, class, job } = *self;
        let number = match name {
            "eligible_time" => merits.waited(job) as f64,
            "job_priority" => f64::from(class.priority),
            "queue_priority" => {
                merits.state.queues.get(&class.who.queue).map_or(0.0, |queue| f64::from(queue.priority))
            }
            "walltime" => class.walltime.unwrap_or(merits.default_walltime).as_seconds() as f64,
            "nodect" => class.shape.instances as f64,
            resource => self.amount(resource)?,
        };
        Some(Value::Number(number))
    }
}

impl Worth<'_> {
    /// What is asked for in all of a resource: bytes, seconds, plain numbers.
    fn amount(&self, resource: &str) -> Option<f64> {
        let catalog = &self.merits.state.cluster.catalog;
        let index = catalog.index(resource)?;
        Some(catalog.number(index, self.class.shape.total[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_comes_first() {
        let values = [f64::MAX, 900.0, 400.1, 1.0, 1e-300, 0.0, -1e-300, -2.0, f64::MIN];
        let merits: Vec<Merit> = values.iter().map(|&value| Merit::of(value)).collect();
        assert!(merits.is_sorted_by(|a, b| a < b));
        assert_eq!(Merit::of(-0.0), Merit::of(0.0));
    }
}
