//! The priorities of waiting jobs, kept from cycle to cycle (F9).

use super::fair_share_factors::FairShareFactors;
use crate::model::expression::EvaluationFault;
use crate::model::job_id::JobId;
use crate::model::policy::{FairShare, Precedence};
use crate::model::time::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The priorities computed last, with their rule and time, and the changes since.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct PriorityCache {
    /// The rule by which they were computed.
    pub rule: Option<Arc<PriorityRule>>,
    /// When all priorities were last computed.
    pub at: Time,
    /// Whether a change since then may affect every priority.
    pub is_stale: bool,
    /// Whether usage has grown since then. Relevant if priorities change with time.
    pub has_used: bool,
    /// Jobs added since then, without a priority.
    pub new: BTreeSet<JobId>,
    /// The fair-share factors at that time.
    pub shares: Arc<FairShareFactors>,
    /// The first error of the formula.
    pub fault: Option<EvaluationFault>,
}

/// The parts of the policy that decide the order of the queue.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct PriorityRule {
    /// The order and its weights.
    pub precedence: Precedence,
    /// The fair-share policy.
    pub fair_share: FairShare,
    /// The walltime of jobs that request none.
    pub default_walltime: Span,
}

impl PriorityCache {
    /// Notes a new job without a priority.
    pub fn note_new(&mut self, id: JobId) {
        self.new.insert(id);
    }

    /// Notes that a job is no longer a candidate.
    pub fn forget(&mut self, id: JobId) {
        self.new.remove(&id);
    }

    /// Notes a change that may affect every priority.
    pub fn note_change(&mut self) {
        self.is_stale = true;
    }

    /// Notes that usage has grown.
    pub fn note_use(&mut self) {
        self.has_used = true;
    }
}
