//! What a formula may ask of a job besides resources (I15), by PBS's names.

use crate::model::expression::Expression;

/// All of them.
pub const NAMES: &[&str] = &[
    "eligible_time",
    "job_priority",
    "queue_priority",
    "walltime",
    "nodect",
    "accrue_type",
    "fairshare",
    "fairshare_perc",
    "fair_share_perc",
    "fairshare_tree_usage",
    "fairshare_factor",
];

/// Whether the value of a formula hangs on what has been used, and by whom.
pub fn heeds_shares(formula: &Expression) -> bool {
    asks_for(formula, |name| {
        name.starts_with("fairshare") || name == "fair_share_perc"
    })
}

/// Whether a formula asks for such a name.
pub fn asks_for(formula: &Expression, is_sought: impl Fn(&str) -> bool) -> bool {
    formula
        .names()
        .into_iter()
        .chain(formula.words())
        .any(is_sought)
}
