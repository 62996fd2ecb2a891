//! Suspended jobs that wait to resume: they keep some resources like any running job, and need
//! those that they released again, on the same nodes (M45).

use super::class::QueuePlace;
use super::class::Wait;
use super::shape::ClassKey;
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::time::Span;

/// A suspended job that waits to resume.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// Its request and owner.
    pub key: ClassKey,
    /// Its place in the queue.
    pub place: QueuePlace,
    /// Its priority at its start (F9), if known.
    pub score: Option<f64>,
    /// Its shares once it resumes, with its former CPUs.
    pub shares: Vec<NodeShare>,
    /// The part of these shares that it needs again.
    pub needed: Vec<NodeShare>,
    /// Its preemptor.
    pub made_way_for: Option<JobId>,
    /// How long it has run.
    pub ran: Span,
    /// Its wait.
    pub(in crate::sched) wait: Wait,
}

impl Suspended {
    /// Its nodes.
    pub(in crate::sched) fn nodes(&self) -> Vec<String> {
        self.shares.iter().map(|share| share.node.clone()).collect()
    }
}
