//! Shares, usage and balance of an account or user.

use crate::model::account::{Shares, UsageTarget};
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// Row of the share tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// Account, or account of the user; empty for none.
    pub account: String,
    /// User; None for an account with all its descendants.
    pub user: Option<String>,
    /// Number of ancestor accounts.
    pub depth: u32,
    /// Configured shares.
    pub shares: Shares,
    /// Configured usage target.
    pub target: Option<UsageTarget>,
    /// Entitlement from 0 to 1: of the whole machine; with `fairtree`, of the siblings' total.
    pub normalised: f64,
    /// Total usage since the oldest stored charge, in seconds of weighted resources.
    pub raw: f64,
    /// Decayed usage.
    pub decayed: f64,
    /// Present usage, in weighted resources.
    pub in_use: f64,
    /// Decayed usage as a fraction of all decayed usage, from 0 to 1.
    pub used: f64,
    /// Usage that the method compares with the shares, from 0 to 1.
    pub effective: f64,
    /// Unscaled value from which the method computes the factor: with `linear` 0 to 1,000,000; with
    /// `fairtree` shares over usage among siblings, infinite without usage; with `target` the
    /// distance from the target. None for other methods.
    pub level: Option<f64>,
    /// Fair-share factor from 0 (far above the share) to 1 (no usage).
    pub factor: f64,
    /// Rank among users, or among accounts: 1 comes first, ties have equal ranks.
    pub rank: u64,
    /// Usage is above a cap, such as a target of `25%` (M12). Jobs still start.
    pub is_capped: bool,
    /// Time until usage returns to the entitlement.
    pub balance: TimeToBalance,
}

/// Time without new usage after which an account or user is at its entitlement, if all others
/// continue at their present rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeToBalance {
    /// Usage does not exceed the entitlement.
    Kept,
    /// Balanced after this time.
    After(Span),
    /// Never balanced at the present usage of the others.
    Never,
}
