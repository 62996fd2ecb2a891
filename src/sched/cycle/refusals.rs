//! The refusals of a cycle, as far as they hold for other jobs too.

use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::Span;
use crate::sched::view::shape::{ClassId, ClassKey, Shape, ShapeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// For whom a refusal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// For the job alone: the next of its class may fare better.
    Job,
    /// For its class: others that ask for the same may fare better.
    Class,
    /// For all that ask for the same.
    Shape,
}

/// What a cycle has refused, as far as that holds for others too.
pub struct Refusals {
    /// Whether the policy tells classes apart that ask for the same.
    pub(super) tells_apart: bool,
    /// Shapes that do not fit.
    pub(super) waiting: BTreeMap<ShapeId, Arc<Reason>>,
    /// Shapes of which nobody can tell when they will fit.
    pub(super) hopeless: BTreeSet<ShapeId>,
    /// Shapes that would delay a promise if they ran for so long.
    pub(super) fenced: BTreeMap<ShapeId, (Span, Arc<Reason>)>,
    /// Classes of which it was said why they wait though jobs of them are still considered.
    told: BTreeSet<ClassId>,
    /// Whether a job waits because it would delay the planned start of another job.
    has_delayed_jobs: bool,
}

impl Refusals {
    /// None yet.
    pub fn new(tells_apart: bool) -> Refusals {
        Refusals {
            tells_apart,
            waiting: BTreeMap::new(),
            hopeless: BTreeSet::new(),
            fenced: BTreeMap::new(),
            told: BTreeSet::new(),
            has_delayed_jobs: false,
        }
    }

    /// Refuses a shape for the rest of the cycle.
    pub fn refuse(&mut self, shape: &Shape, reason: Reason) -> Arc<Reason> {
        let reason = Arc::new(reason);
        self.waiting.insert(shape.id, reason.clone());
        reason
    }

    /// Why a shape is refused, however long its jobs run.
    pub fn of_shape(&self, shape: &Shape) -> Option<Arc<Reason>> {
        self.waiting.get(&shape.id).cloned()
    }

    /// Why those of a shape are refused that run for so long.
    pub fn of_span(&self, shape: &Shape, span: Span) -> Option<Arc<Reason>> {
        let (from, reason) = self.fenced.get(&shape.id)?;
        (*from <= span).then(|| reason.clone())
    }

    /// Records why a job waits.
    pub fn note(&mut self, job: JobId, reason: &Reason) {
        self.has_delayed_jobs |=
            matches!(*reason, Reason::WouldDelayBooking { holder, .. } if holder != job);
    }

    /// Whether a job waits because it would delay the planned start of another job.
    pub fn has_delayed_jobs(&self) -> bool {
        self.has_delayed_jobs
    }

    /// Nobody can tell when a shape will fit.
    pub fn give_up(&mut self, shape: &Shape) {
        self.hopeless.insert(shape.id);
    }

    /// It was said why a class waits of which jobs are still considered.
    pub fn note_told(&mut self, class: &ClassKey) {
        self.told.insert(class.id);
    }

    /// Whether [`note_told`](Self::note_told) was called for a class.
    pub fn is_told(&self, class: &ClassKey) -> bool {
        self.told.contains(&class.id)
    }
}
