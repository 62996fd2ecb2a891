//! Jobs that stand still in the middle of their runs and wait to go on: what they keep they hold
//! like any other job, what they gave up they need again, on the very nodes on which they are
//! (M45).

use super::class::QueuePlace;
use super::class::Wait;
use super::shape::ClassKey;
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::time::Span;

/// A job that waits to go on.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// What it asked for, and whose it is.
    pub key: ClassKey,
    /// Its place in the order.
    pub place: QueuePlace,
    /// What it was worth when it started (F9), if that is known.
    pub score: Option<f64>,
    /// What it holds once it goes on, with the processors that it had.
    pub shares: Vec<NodeShare>,
    /// What of these it needs again.
    pub needed: Vec<NodeShare>,
    /// The job that it made way for.
    pub made_way_for: Option<JobId>,
    /// How long it has run.
    pub ran: Span,
    /// How long it has waited.
    pub(in crate::sched) wait: Wait,
}

impl Suspended {
    /// The nodes it is on.
    pub(in crate::sched) fn nodes(&self) -> Vec<String> {
        self.shares.iter().map(|share| share.node.clone()).collect()
    }
}
