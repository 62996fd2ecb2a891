//! Refusals within a cycle that hold for more than one job.

use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::Span;
use crate::sched::view::shape::{ClassId, ClassKey, Shape, ShapeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The jobs for which a refusal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The job alone: the next job of its class may start.
    Job,
    /// Its class: other classes with the same request may start.
    Class,
    /// All jobs with the same request.
    Shape,
}

/// The refusals of the current cycle, by shape and class.
pub struct Refusals {
    /// Whether the policy distinguishes between classes with the same request.
    pub(super) distinguishes_classes: bool,
    /// Shapes that do not fit now.
    pub(super) waiting: BTreeMap<ShapeId, Arc<Reason>>,
    /// Shapes without a computable start.
    pub(super) hopeless: BTreeSet<ShapeId>,
    /// Shapes that delay a planned start with this walltime or a longer one, and the reason.
    pub(super) delaying: BTreeMap<ShapeId, (Span, Arc<Reason>)>,
    /// Classes that have a verdict while more of their jobs are considered.
    with_verdict: BTreeSet<ClassId>,
    /// Whether a job waits because it would delay the planned start of another job.
    has_delayed_jobs: bool,
}

impl Refusals {
    /// Without any refusal.
    pub fn new(distinguishes_classes: bool) -> Refusals {
        Refusals {
            distinguishes_classes,
            waiting: BTreeMap::new(),
            hopeless: BTreeSet::new(),
            delaying: BTreeMap::new(),
            with_verdict: BTreeSet::new(),
            has_delayed_jobs: false,
        }
    }

    /// Refuses a shape for the rest of the cycle.
    pub fn refuse(&mut self, shape: &Shape, reason: Reason) -> Arc<Reason> {
        let reason = Arc::new(reason);
        self.waiting.insert(shape.id, reason.clone());
        reason
    }

    /// Why a shape is refused for every walltime; None if it is not refused.
    pub fn of_shape(&self, shape: &Shape) -> Option<Arc<Reason>> {
        self.waiting.get(&shape.id).cloned()
    }

    /// Why a shape is refused for jobs with this walltime; None if they are not refused.
    pub fn of_span(&self, shape: &Shape, span: Span) -> Option<Arc<Reason>> {
        let (from, reason) = self.delaying.get(&shape.id)?;
        (*from <= span).then(|| reason.clone())
    }

    /// Notes whether a job waits because it would delay the planned start of another job.
    pub fn note(&mut self, job: JobId, reason: &Reason) {
        self.has_delayed_jobs |=
            matches!(*reason, Reason::WouldDelayBooking { holder, .. } if holder != job);
    }

    /// Whether a job waits because it would delay the planned start of another job.
    pub fn has_delayed_jobs(&self) -> bool {
        self.has_delayed_jobs
    }

    /// Records that the start of a shape cannot be computed.
    pub fn give_up(&mut self, shape: &Shape) {
        self.hopeless.insert(shape.id);
    }

    /// Records that a class has its verdict; more of its jobs are considered.
    pub fn note_verdict(&mut self, class: &ClassKey) {
        self.with_verdict.insert(class.id);
    }

    /// Whether [`note_verdict`](Self::note_verdict) was called for a class.
    pub fn has_verdict(&self, class: &ClassKey) -> bool {
        self.with_verdict.contains(&class.id)
    }
}
