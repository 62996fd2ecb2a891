//! Usage of limits, as `qstat --limits` displays it.

use crate::model::job_id::JobId;
use crate::model::limit::{Limit, LimitKey};
use serde::{Deserialize, Serialize};

/// Amount in the unit of a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Amount, with fractions rounded up.
    pub amount: i64,
    /// Amount as displayed: `4`, `12gb`, `3.500`.
    pub shown: String,
}

/// Limit with its usage, for one set of jobs that count together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitUse {
    /// Index in the list of limits.
    pub place: usize,
    /// Limit that applies.
    pub limit: Limit,
    /// Subject: a name for each selector other than `All`, in the order of
    /// [`crate::model::limit::LimitScope::selectors`].
    pub key: LimitKey,
    /// Amount used.
    pub used: Figure,
    /// Soft limit, if any.
    pub soft: Option<Figure>,
    /// Hard limit, if any.
    pub hard: Option<Figure>,
    /// Jobs that count toward the limit, in order of id, at most [`LimitUse::MOST`]. A limit on
    /// running jobs lists each subjob, other limits list only its array.
    pub by: Vec<JobId>,
    /// Number of further jobs that count toward the limit.
    pub more: u64,
    /// Number of waiting jobs to which the limit applies.
    pub waiting: u64,
    /// Number of waiting jobs that the limit blocks. A limit on running jobs blocks each job that
    /// would exceed the hard or soft value if it started next. A limit on idle jobs blocks each
    /// job that the scheduler does not consider. 0 for limits on stages `queued` and `waiting`.
    pub barred: u64,
}

impl LimitUse {
    /// Maximum number of jobs in `by`.
    pub const MOST: usize = 20;
}
