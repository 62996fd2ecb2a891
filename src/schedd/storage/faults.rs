//! Errors in evaluating the priority formula (I15). They are logged once per loaded formula, not
//! per job or cycle.

use crate::model::expression::{EvaluationFault, Expression};
use crate::model::policy::Precedence;

/// The last formula with a logged error.
#[derive(Default)]
pub struct Faults {
    told: Option<Expression>,
}

impl Faults {
    /// Logs the first error of a rule's formula.
    pub fn take_in(&mut self, fault: Option<&EvaluationFault>, rule: &Precedence) {
        if let Some(fault) = fault
            && self.is_news(rule)
        {
            tracing::warn!("[order] formula: {fault}; a job's value is 0 where this is so");
        }
    }

    fn is_news(&mut self, rule: &Precedence) -> bool {
        std::mem::replace(&mut self.told, rule.formula.clone()) != rule.formula
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_once_of_each_formula() {
        let mut faults = Faults::default();
        let told = ["1 / 0", "1 / 0", "2 / 0", "2 / 0"]
            .map(|text| faults.is_news(&Precedence::by_formula(text)));
        assert_eq!(told, [true, false, true, false]);
    }
}
