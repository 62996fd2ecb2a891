//! Refusals within a cycle that hold for more than one job.

use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::Span;
use crate::sched::view::shape::{ClassId, ClassKey, Shape, ShapeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The set of jobs for which a refusal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Only the refused job. The next job of the class (of equal jobs) may still start.
    Job,
    /// All jobs of the class. Other classes with the same shape may still start.
    Class,
    /// All jobs with the same shape.
    Shape,
}

/// The refusals of the current cycle, by shape and class.
pub struct Refusals {
    /// Whether the policy distinguishes between classes with the same shape.
    pub(super) distinguishes_classes: bool,
    /// Shapes that are refused for the rest of the cycle, and the reason.
    pub(super) refused_shapes: BTreeMap<ShapeId, Arc<Reason>>,
    /// Shapes without a computable start.
    pub(super) unplannable: BTreeSet<ShapeId>,
    /// Shapes that would delay a planned start, each with the shortest walltime known to delay it,
    /// and the reason.
    pub(super) delaying: BTreeMap<ShapeId, (Span, Arc<Reason>)>,
    /// Classes that have a verdict although the cycle still considers more of their jobs.
    with_verdict: BTreeSet<ClassId>,
    /// Whether a job waits because it would delay the planned start of another job.
    has_delayed_jobs: bool,
}

impl Refusals {
    /// No refusals, as at the beginning of a cycle.
    pub fn new(distinguishes_classes: bool) -> Refusals {
        Refusals {
            distinguishes_classes,
            refused_shapes: BTreeMap::new(),
            unplannable: BTreeSet::new(),
            delaying: BTreeMap::new(),
            with_verdict: BTreeSet::new(),
            has_delayed_jobs: false,
        }
    }

    /// Refuses a shape for the rest of the cycle.
    pub fn refuse(&mut self, shape: &Shape, reason: Reason) -> Arc<Reason> {
        let reason = Arc::new(reason);
        self.refused_shapes.insert(shape.id, reason.clone());
        reason
    }

    /// Why a shape is refused for every walltime; None if jobs with this shape may still start.
    pub fn for_shape(&self, shape: &Shape) -> Option<Arc<Reason>> {
        self.refused_shapes.get(&shape.id).cloned()
    }

    /// Why jobs with this shape and walltime `span` are refused; None if they may still start.
    pub fn for_walltime(&self, shape: &Shape, span: Span) -> Option<Arc<Reason>> {
        let (from, reason) = self.delaying.get(&shape.id)?;
        (*from <= span).then(|| reason.clone())
    }

    /// Records that a refused job would delay the planned start of another job, if `reason` says
    /// so. See [`Refusals::has_delayed_jobs`].
    pub fn note_delay(&mut self, job: JobId, reason: &Reason) {
        self.has_delayed_jobs |=
            matches!(*reason, Reason::WouldDelayBooking { holder, .. } if holder != job);
    }

    /// Whether a refused job would delay the planned start of another job.
    pub fn has_delayed_jobs(&self) -> bool {
        self.has_delayed_jobs
    }

    /// Records that no start can be computed for jobs with this shape.
    pub fn note_unplannable(&mut self, shape: &Shape) {
        self.unplannable.insert(shape.id);
    }

    /// Records that a class has a verdict although the cycle considers more of its jobs.
    pub fn note_verdict(&mut self, class: &ClassKey) {
        self.with_verdict.insert(class.id);
    }

    /// Whether [`note_verdict`](Self::note_verdict) was called for a class.
    pub fn has_verdict(&self, class: &ClassKey) -> bool {
        self.with_verdict.contains(&class.id)
    }
}
