//! What a formula can ask of a job (I15): PBS's names, and what is asked for in all of each resource.

use super::shape::ClassKey;
use super::yardstick::Yardstick;
use crate::model::expression::{Expression, Scope, Value};
use crate::model::time::Span;
use crate::model::worth::Part;

/// The value of a formula for a job of a class that has been waiting for so long: 0 for what cannot be
/// told, or makes no sense.
pub fn value(formula: &Expression, yardstick: &Yardstick, class: &ClassKey, waited: Span) -> f64 {
    formula.number(&Job { yardstick, class, waited }).ok().flatten().filter(|value| !value.is_nan()).unwrap_or(0.0)
}

/// What it asks for, each with its value.
pub fn parts(formula: &Expression, yardstick: &Yardstick, class: &ClassKey, waited: Span) -> Vec<Part> {
    let job = Job { yardstick, class, waited };
    let names = formula.names().into_iter().chain(formula.words());
    names.filter_map(|name| Some(Part::named(name, job.number(name)?))).collect()
}

struct Job<'a> {
    yardstick: &'a Yardstick<'a>,
    class: &'a ClassKey,
    waited: Span,
}

impl Scope for Job<'_> {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        self.number(name).map(Value::Number)
    }
}

impl Job<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        let Job { yardstick, class, waited } = self;
        Some(match name {
            "eligible_time" => waited.as_seconds() as f64,
            "job_priority" => f64::from(class.priority),
            "queue_priority" => yardstick.queue_priority(class) as f64,
            "walltime" => yardstick.walltime(class).as_seconds() as f64,
            "nodect" => class.shape.instances as f64,
            resource => yardstick.amount(class, resource)?,
        })
    }
}
