//! Names that formulas can use besides resource names (I15). The names are those of PBS.

use crate::model::expression::Expression;

/// Names of job properties.
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

/// Tests whether a formula depends on usage or fair share.
pub fn uses_fair_share(formula: &Expression) -> bool {
    uses_name(formula, |name| {
        name.starts_with("fairshare") || name == "fair_share_perc"
    })
}

/// Tests whether a formula contains a name that satisfies `matches`.
pub fn uses_name(formula: &Expression, matches: impl Fn(&str) -> bool) -> bool {
    formula
        .names()
        .into_iter()
        .chain(formula.words())
        .any(matches)
}
