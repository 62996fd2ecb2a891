//! What jobs are worth under the order of the policy: who is worth most goes first (X18), and who came
//! first of those worth the same.

use super::factors::Factors;
use super::fair_shares::Shares;
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
    policy: &'s Policy,
    now: Time,
    by: By,
    shares: Shares<'s>,
    /// How many nodes there are.
    nodes: usize,
}

/// What the highest of is first.
enum By {
    /// `-p`.
    Priority,
    /// The value of a formula; of none where it cannot be read.
    Formula(Option<Expression>),
    /// The weighted sum of the factors.
    Factors,
}

impl<'s> Merits<'s> {
    /// None where who came first goes first.
    pub fn new(state: &'s State, policy: &'s Policy, now: Time) -> Option<Merits<'s>> {
        let precedence = &policy.precedence;
        let by = match precedence.order {
            Order::Fcfs => return None,
            Order::Priority => By::Priority,
            // A formula that cannot be read is refused with the configuration.
            Order::Formula => By::Formula(precedence.formula.as_deref().and_then(|text| Expression::parse(text).ok())),
            Order::Multifactor => By::Factors,
        };
        let shares = match by {
            By::Factors if precedence.weights.fair_share != 0.0 => Shares::of(state, &policy.fair_share, now),
            _ => Shares::default(),
        };
        Some(Merits { state, policy, now, by, shares, nodes: state.cluster.present().count() })
    }

    /// What a job of a class is worth.
    pub fn of(&self, class: &ClassKey, job: JobId) -> Merit {
        Merit::of(match &self.by {
            By::Priority => f64::from(class.priority),
            // I15: what cannot be told, or makes no sense, counts as 0.
            By::Formula(Some(formula)) => {
                formula.number(&Worth { merits: self, class, job }).ok().flatten().unwrap_or(0.0)
            }
            By::Formula(None) => 0.0,
            By::Factors => self.factors(class, job).sum(&self.policy.precedence.weights),
        })
    }

    /// What a job of a class has of each factor.
    fn factors(&self, class: &ClassKey, job: JobId) -> Factors {
        let (waited, fair_share) = (self.waited(job), self.shares.factor(class));
        Factors::of(&self.policy.precedence, class, waited, self.walltime(class), self.nodes, fair_share)
    }

    /// How long a job has been waiting, as far as that counts.
    fn waited(&self, job: JobId) -> Span {
        self.state.eligible_time(job, self.now).unwrap_or(Span(0)).max(Span(0))
    }

    fn walltime(&self, class: &ClassKey) -> Span {
        class.walltime.unwrap_or(self.policy.default_walltime)
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
            "eligible_time" => merits.waited(job).as_seconds() as f64,
            "job_priority" => f64::from(class.priority),
            "queue_priority" => {
                merits.state.queues.get(&class.who.queue).map_or(0.0, |queue| f64::from(queue.priority))
            }
            "walltime" => merits.walltime(class).as_seconds() as f64,
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
