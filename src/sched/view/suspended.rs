//! Jobs that stand still in the middle of their runs and wait to go on: what they keep they hold
//! like any other job, what they gave up they need again, on the very nodes on which they are
//! (M45).

use super::class::QueuePlace;
use super::shape::ClassKey;
use super::snapshot::ClusterState;
use super::wait::Wait;
use crate::model::job::{Job, NodeShare};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use std::sync::Arc;

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

impl ClusterState {
    /// A job that holds what it keeps waits to go on.
    pub(super) fn stand_by(&mut self, job: &Job) {
        let Some(run) = job.life.open_run() else {
            return;
        };
        let still = run
            .suspension
            .as_ref()
            .and_then(|suspension| suspension.still)
            .unwrap_or(run.started);
        let since = job.life.etime.unwrap_or(job.life.qtime);
        let suspended = Suspended {
            key: self.class_key(job),
            place: (job.rank(), job.id),
            score: run.score,
            needed: run.shares.iter().map(|share| run.given_up(share)).collect(),
            shares: run.shares.clone(),
            made_way_for: run
                .suspension
                .as_ref()
                .and_then(|suspension| suspension.manner.for_job()),
            ran: Span(still.since(run.started + run.pauses().total).0),
            wait: Wait {
                since,
                eligibility: job.life.eligibility,
                bypassed: 0,
            },
        };
        self.edition += 1;
        self.suspended.insert(job.id, Arc::new(suspended));
    }

    /// Whether a job waits to go on.
    pub fn waits_to_go_on(&self, job: JobId) -> bool {
        self.suspended.contains_key(&job)
    }
}
