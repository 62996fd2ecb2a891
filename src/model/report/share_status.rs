//! Shares, usage and balance of an account or user.

use crate::model::account::{Shares, UsageTarget};
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// Row of the share tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// Name of the account; for a user, the account that the user is charged under. Empty for a
    /// user without an account.
    pub account: String,
    /// User name; None for a row of an account. Such a row includes all accounts and users below
    /// the account.
    pub user: Option<String>,
    /// Number of ancestor accounts.
    pub depth: u32,
    /// Configured shares.
    pub shares: Shares,
    /// Configured usage target.
    pub target: Option<UsageTarget>,
    /// Entitlement from 0 to 1: a fraction of the cluster; with `fairtree`, of the parent account.
    pub normalised: f64,
    /// Total usage since the oldest stored charge, in seconds of weighted resources.
    pub raw: f64,
    /// Decayed usage.
    pub decayed: f64,
    /// Usage of the running jobs, in weighted resources.
    pub in_use: f64,
    /// Decayed usage as a fraction of all decayed usage, from 0 to 1.
    pub used: f64,
    /// Usage that the method compares with the shares, from 0 to 1.
    pub effective: f64,
    /// Value from which the method computes the factor: with `linear` 0 to 1,000,000; with
    /// `fairtree` shares over usage among siblings, infinite without usage; with `target` the
    /// distance from the target. None for other methods, and with `fairtree` for a row that has
    /// the shares of its parent.
    pub level: Option<f64>,
    /// Fair-share factor, from 0 to 1. A higher factor gives a higher priority.
    pub factor: f64,
    /// Rank among users, or among accounts: 1 comes first, ties have equal ranks.
    pub rank: u64,
    /// True if usage is above a target that is a cap (M12). Jobs still start.
    pub is_capped: bool,
    /// Time until usage returns to the entitlement.
    pub balance: TimeToBalance,
}

/// Time until the usage of an account or user has fallen to the entitlement, if the account or
/// user starts no jobs and all others continue at their present rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeToBalance {
    /// Usage does not exceed the entitlement.
    Kept,
    /// Usage falls to the entitlement after this time.
    After(Span),
    /// Usage never falls to the entitlement at the present rate of the others.
    Never,
}
