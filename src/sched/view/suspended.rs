//! Suspended jobs that wait to resume. A suspended job has released some of its resources. It can
//! resume only once these resources are free again on the same nodes (M45).

use super::class::QueuePlace;
use super::class::Wait;
use super::shape::ClassKey;
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::time::Span;

/// A suspended job that waits to resume.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// The request and the owner of the job.
    pub key: ClassKey,
    /// The place in the queue.
    pub place: QueuePlace,
    /// The priority at the start of the job (F9), if known.
    pub score: Option<f64>,
    /// All shares of the job when it runs, with the CPU numbers that it had.
    pub shares: Vec<NodeShare>,
    /// The part of `shares` that the job has released and needs again.
    pub needed: Vec<NodeShare>,
    /// The preemptor; None if the job was not suspended for another job.
    pub made_way_for: Option<JobId>,
    /// How long the job has run, without suspensions.
    pub ran: Span,
    /// The waiting time of the job.
    pub(in crate::sched) wait: Wait,
}

impl Suspended {
    /// The names of the nodes, chunk by chunk.
    pub(in crate::sched) fn nodes(&self) -> Vec<String> {
        self.shares.iter().map(|share| share.node.clone()).collect()
    }
}
