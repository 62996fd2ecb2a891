//! What a formula may ask of a job besides resources (I15), by PBS's names.

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

/// Whether it hangs on what has been used, and by whom.
pub fn is_of_shares(name: &str) -> bool {
    name.starts_with("fairshare") || name == "fair_share_perc"
}
