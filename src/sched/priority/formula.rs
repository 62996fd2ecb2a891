//! The names that a priority formula can use (I15): the names of PBS, and the name of each
//! consumable resource, with the total request as its value.

use super::inputs::PriorityInputs;
use crate::model::expression::{EvaluationFault, Expression, ExpressionValue, NameScope};
use crate::model::report::priority_score::ScorePart;
use crate::sched::share_tree::FairShareEntry;
use crate::sched::share_tree::linear::MAX_FAIRSHARE;
use crate::sched::view::class::Wait;
use crate::sched::view::shape::ClassKey;

/// A job, from which a formula takes its values.
pub struct FormulaJob<'a> {
    /// The inputs of the priority.
    pub inputs: &'a PriorityInputs<'a>,
    /// The request and the owner of the job.
    pub class: &'a ClassKey,
    /// The waiting time of the job.
    pub wait: &'a Wait,
}

impl FormulaJob<'_> {
    /// The value of a formula; 0 if the value is undefined, because a name has no value. The error
    /// is the first error of the evaluation.
    pub fn value(&self, formula: &Expression) -> Result<f64, EvaluationFault> {
        formula.number(self).map(Option::unwrap_or_default)
    }

    /// The names in the formula that have a value, each with its value.
    pub fn parts(&self, formula: &Expression) -> Vec<ScorePart> {
        let names = formula.names().into_iter().chain(formula.words());
        names
            .filter_map(|name| Some(ScorePart::named(name, self.number(name)?)))
            .collect()
    }

    fn entry(&self) -> Option<FairShareEntry> {
        self.inputs.shares.entry(self.class)
    }

    fn number(&self, name: &str) -> Option<f64> {
        let FormulaJob {
            inputs,
            class,
            wait,
        } = self;
        Some(match name {
            "eligible_time" => inputs.waited(wait).as_seconds() as f64,
            "accrue_type" => wait.eligibility.accrues.number() as f64,
            "job_priority" => f64::from(class.priority),
            "queue_priority" => inputs.queue_priority(class) as f64,
            "walltime" => inputs.walltime(class).as_seconds() as f64,
            "nodect" => class.shape.instances as f64,
            // The scale of I3, which is used with every method.
            "fairshare" => MAX_FAIRSHARE * self.entry()?.factor,
            // I16: with `classic`, the factor is 2 to the power of -(usage / percentage).
            "fairshare_factor" => self.entry()?.factor,
            "fairshare_perc" | "fair_share_perc" => self.entry()?.entitlement,
            "fairshare_tree_usage" => self.entry()?.used,
            resource => inputs.amount(class, resource)?,
        })
    }
}

impl NameScope for FormulaJob<'_> {
    fn value(&self, name: &str) -> Option<ExpressionValue<'_>> {
        self.number(name).map(ExpressionValue::Number)
    }
}
