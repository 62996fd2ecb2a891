//! The state of the computed priorities of waiting jobs between cycles (F9). The priorities
//! themselves are in the sort keys of the jobs.

use super::fair_share_factors::FairShareFactors;
use crate::model::expression::EvaluationFault;
use crate::model::job_id::JobId;
use crate::model::policy::{FairShare, Precedence};
use crate::model::time::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How and when the priorities were last computed, and the changes since then.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct PriorityCache {
    /// The rule by which the priorities were computed.
    pub rule: Option<Arc<PriorityRule>>,
    /// When all priorities were last computed.
    pub at: Time,
    /// Whether a change since `at` can affect every priority.
    pub is_stale: bool,
    /// Whether usage has changed since `at`.
    pub has_new_usage: bool,
    /// The jobs that were added since `at` and have no priority yet.
    pub new: BTreeSet<JobId>,
    /// The fair-share factors as last computed.
    pub shares: Arc<FairShareFactors>,
    /// The first error of the priority formula, if any.
    pub fault: Option<EvaluationFault>,
}

/// The parts of the policy that decide the order of the waiting jobs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct PriorityRule {
    /// The order of jobs, such as first come, first served, with the weights of priority factors.
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

    /// Notes that a job no longer waits.
    pub fn forget(&mut self, id: JobId) {
        self.new.remove(&id);
    }

    /// Notes a change that can affect every priority.
    pub fn note_change(&mut self) {
        self.is_stale = true;
    }

    /// Notes that usage has changed.
    pub fn note_use(&mut self) {
        self.has_new_usage = true;
    }
}
