//! Errors in evaluating the priority formula (I15). Only the first error of a formula is logged.

use crate::model::expression::{EvaluationFault, Expression};
use crate::model::policy::Precedence;

/// The last formula with a logged error.
#[derive(Default)]
pub struct Faults {
    logged: Option<Expression>,
}

impl Faults {
    /// Logs an error of a formula, unless the last logged error was of the same formula.
    pub fn log_once(&mut self, fault: Option<&EvaluationFault>, rule: &Precedence) {
        if let Some(fault) = fault
            && self.is_new(rule)
        {
            tracing::warn!("[order] formula: {fault}; jobs with this error have priority 0");
        }
    }

    fn is_new(&mut self, rule: &Precedence) -> bool {
        std::mem::replace(&mut self.logged, rule.formula.clone()) != rule.formula
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_logged_once_per_formula() {
        let mut faults = Faults::default();
        let logged = ["1 / 0", "1 / 0", "2 / 0", "2 / 0"]
            .map(|text| faults.is_new(&Precedence::by_formula(text)));
        assert_eq!(logged, [true, false, true, false]);
    }
}
