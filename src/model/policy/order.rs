//! Who goes first.

use serde::{Deserialize, Serialize};

named! {
    /// Who goes first; ties end in the job's number.
    Order {
        /// First come, first served.
        Fcfs = "fcfs",
        /// The highest `-p` first.
        Priority = "priority",
        /// The highest value of a formula first (I15).
        Formula = "formula",
    }
}

/// `[priority]`: who goes first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Precedence {
    /// By what.
    pub order: Order,
    /// What [`Order::Formula`] goes by, an expression over what is known of a job.
    pub formula: Option<String>,
}

impl Precedence {
    /// By the value of a formula.
    pub fn by_formula(formula: &str) -> Precedence {
        Precedence { order: Order::Formula, formula: Some(formula.to_string()) }
    }
}
