//! What of a limit is used, and by whom: what `qstat --limits` shows.

use crate::model::job_id::JobId;
use crate::model::limit::{Limit, LimitKey};
use serde::{Deserialize, Serialize};

/// An amount of what a limit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// As the limit counts; what is a fraction is rounded up.
    pub amount: i64,
    /// For people: `4`, `12gb`, `3.500`.
    pub shown: String,
}

/// A limit, as it stands for some whose jobs count together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitUse {
    /// Its place among all.
    pub place: usize,
    /// The limit.
    pub limit: Limit,
    /// Whose jobs these are: a name for each selector that is not for all, in the order of
    /// [`crate::model::limit::LimitScope::selectors`].
    pub key: LimitKey,
    /// What of it is used.
    pub used: Figure,
    /// Its soft limit, if it has one.
    pub soft: Option<Figure>,
    /// Its hard limit, if it has one.
    pub hard: Option<Figure>,
    /// Jobs that use it, by number; at most [`LimitUse::MOST`]. Of arrays each element that runs,
    /// and the array once for those that wait.
    pub by: Vec<JobId>,
    /// How many more use it.
    pub more: u64,
    /// How many of those it concerns wait to be considered.
    pub waiting: u64,
    /// How many of these it keeps waiting, each looked at for itself: with it, the hard limit would
    /// be exceeded, or the soft one.
    pub barred: u64,
}

impl LimitUse {
    /// How many jobs are named at most.
    pub const MOST: usize = 20;
}
