//! What an account or a user owns of the machine, has had of it, and how that stands.

use crate::model::account::{Shares, UsageTarget};
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// A row of the tree of shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// The account, or that of the user; empty for none.
    pub account: String,
    /// The user; None for an account, with all below it.
    pub user: Option<String>,
    /// How many accounts are above it.
    pub depth: u32,
    /// As the file has them.
    pub shares: Shares,
    /// What it is to have, if the file says so.
    pub target: Option<UsageTarget>,
    /// What is owed, from 0 to 1: of the whole machine; by `fairtree`, of what the siblings share.
    pub normalised: f64,
    /// What it has used in all, as far back as charges are kept, in seconds of weighted resources.
    pub raw: f64,
    /// What of that is not forgotten.
    pub decayed: f64,
    /// What is in use now: weighted resources.
    pub in_use: f64,
    /// What is not forgotten as a part of everybody's, from 0 to 1.
    pub used: f64,
    /// What the method holds against the shares, from 0 to 1.
    pub effective: f64,
    /// What the method goes by before it scales, where that is something else; infinite by
    /// `fairtree` for who has used nothing.
    pub level: Option<f64>,
    /// From 0 (served too much) to 1 (not at all).
    pub factor: f64,
    /// Among users, or among accounts: 1 goes first, equal ones have the same.
    pub rank: u64,
    /// Whether it is above a cap and so to start nothing (M12).
    pub is_capped: bool,
    /// When it is in balance again.
    pub balance: TimeToBalance,
}

/// How long somebody must use nothing, while everybody else goes on as now, until they have had no
/// more than what is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeToBalance {
    /// They have had no more as it is.
    Kept,
    /// So long.
    After(Span),
    /// However long: at the present rate of the others they will always have had more.
    Never,
}
