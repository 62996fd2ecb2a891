//! Classes of interchangeable jobs: two jobs of one class get the same verdict at the same time.

use super::{Shape, ShapeId, User, array, shape_key};
use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::request::cluster_path::ClusterPath;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use crate::sched::amounts::Catalog;
use crate::sched::view::stable_hash::stable_hash;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The id of a class: the first eight bytes of a SHA-256 of everything that its jobs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u64);

impl ClassId {
    /// The id of a job's class; for an array, of the class of its subjobs.
    pub fn of(job: &Job) -> ClassId {
        ClassKey::id_of(job)
    }

    /// The id of all jobs with the same request as a job.
    pub fn of_request(job: &Job) -> ClassId {
        ClassId::of_shape(ShapeId::of(job))
    }

    /// The id of all classes of a shape, for verdicts on all of them.
    pub fn of_shape(shape: ShapeId) -> ClassId {
        ClassId(shape.0)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The common properties of interchangeable jobs.
#[derive(Clone, Debug)]
pub struct ClassKey {
    /// The id.
    pub id: ClassId,
    /// Everything that decides where they fit.
    pub shape: Arc<Shape>,
    /// Their walltime; None if they request none.
    pub walltime: Option<Span>,
    /// Their credentials.
    pub who: Arc<Credentials>,
    /// Their user, as a number.
    pub user: User,
    /// Their `-p`.
    pub priority: i32,
    /// The factor by which their owner scales their priority, from 0 to 1.
    pub user_factor: f64,
    /// The priority set by an operator, above any other priority.
    pub system_priority: Option<i32>,
    /// The reservation that they request; they run nowhere else.
    pub reservation: Option<String>,
    /// The earliest start.
    pub not_before: Option<Time>,
    /// Whether an operator has denied them planned starts: other jobs pass them, and they start
    /// when they fit.
    pub unpromised: bool,
    /// Whether their owner exempts them from preemption (Q9).
    pub protected: bool,
    /// Whether they are rerunnable.
    pub rerunnable: bool,
    /// Whether they checkpoint themselves on request.
    pub checkpoints: bool,
    /// Whether they may be checkpointed from outside.
    pub may_be_checkpointed: bool,
    /// The only jobs that they may preempt (`preempt_targets`).
    pub targets: Option<Arc<str>>,
    /// The limit on running subjobs of an array; such an array has a class of its own.
    pub at_once: Option<u32>,
    /// The maximum number of running subjobs of such an array if resources would otherwise be idle
    /// (Q15).
    pub expands_to: Option<u32>,
    /// For subjobs that start again, the limit of their array. They form a class of their own for
    /// each array, and subjobs above the limit use only otherwise idle resources (Q15).
    pub beyond: Option<u32>,
}

impl ClassKey {
    /// The ids under which a verdict on its jobs may be: the class, then all jobs with the same
    /// request.
    pub fn verdict_names(&self) -> [ClassId; 2] {
        [self.id, ClassId::of_shape(self.shape.id)]
    }

    /// Their place in the tree of clusters.
    pub fn cluster(&self) -> ClusterPath {
        self.shape
            .node_filter
            .as_ref()
            .map_or_else(ClusterPath::root, |filter| filter.cluster.clone())
    }

    /// The id of a job's class.
    pub fn id_of(job: &Job) -> ClassId {
        let spec = &job.spec;
        let common = (
            shape_key(job),
            spec.walltime(),
            Credentials::of(job),
            job.life.not_before,
        );
        let id = match (at_once(job), &spec.reservation) {
            (None, None) => ClassId(stable_hash(&common)),
            (None, Some(reservation)) => ClassId(stable_hash(&(common, reservation))),
            (Some(_), _) => ClassId(stable_hash(&(common, job.id))),
        };
        // An array that may expand has a class of its own.
        let expands_to = if job.id.is_array() {
            spec.expands_to()
        } else {
            None
        };
        let id = expands_to.map_or(id, |most| {
            ClassId(stable_hash(&(id, "expand", spec.max_run_subjobs, most)))
        });
        // Jobs that are not rerunnable may not use resources of planned starts.
        let id = if spec.rerunnable {
            id
        } else {
            ClassId(stable_hash(&(id, spec.rerunnable)))
        };
        let id = if spec.priority == 0 {
            id
        } else {
            ClassId(stable_hash(&(id, "priority", spec.priority)))
        };
        let id = if spec.user_factor == 1.0 {
            id
        } else {
            ClassId(stable_hash(&(id, "user_factor", spec.user_factor)))
        };
        let (targets, checkpoints) = (targets(job), job.can_checkpoint());
        let id = match (job.is_protected(), checkpoints, targets) {
            (false, false, None) => id,
            preemption => ClassId(stable_hash(&(id, "preemption", preemption))),
        };
        let refuses = spec.rerunnable && !job.allows_checkpoints();
        let id = if refuses {
            ClassId(stable_hash(&(id, "checkpoint", "n")))
        } else {
            id
        };
        let id = beyond(job).map_or(id, |limit| {
            ClassId(stable_hash(&(id, "beyond", limit, job.id.number)))
        });
        let id = array(job).map_or(id, |number| ClassId(stable_hash(&(id, "array", number))));
        let avoided = job.life.avoided_hosts();
        let id = avoided.map_or(id, |hosts| {
            ClassId(stable_hash(&(id, "failed_hosts", hosts)))
        });
        let id = if is_topjob_ineligible(job) {
            ClassId(stable_hash(&(id, "topjob_ineligible")))
        } else {
            id
        };
        spec.system_priority.map_or(id, |number| {
            ClassId(stable_hash(&(id, "system_priority", number)))
        })
    }

    /// The class of a job, with a shape of its own.
    pub fn of(job: &Job, catalog: &Catalog) -> ClassKey {
        ClassKey::with(job, Arc::new(Shape::new(job, catalog)))
    }

    /// The class of a job of this shape.
    pub fn with(job: &Job, shape: Arc<Shape>) -> ClassKey {
        ClassKey {
            id: ClassKey::id_of(job),
            shape,
            walltime: job.spec.walltime(),
            who: Arc::new(Credentials::of(job)),
            user: User::of(&job.owner.user),
            priority: job.spec.priority,
            user_factor: job.spec.user_factor,
            system_priority: job.spec.system_priority,
            reservation: job.spec.reservation.clone(),
            not_before: job.life.not_before,
            unpromised: is_topjob_ineligible(job),
            protected: job.is_protected(),
            rerunnable: job.spec.rerunnable,
            checkpoints: job.can_checkpoint(),
            may_be_checkpointed: job.allows_checkpoints(),
            targets: targets(job).map(Into::into),
            at_once: at_once(job),
            expands_to: if job.id.is_array() || beyond(job).is_some() {
                job.spec.expands_to()
            } else {
                None
            },
            beyond: beyond(job),
        }
    }
}

/// The value of `preempt_targets`, if it is text.
fn targets(job: &Job) -> Option<&str> {
    match job.spec.request.list.get("preempt_targets")? {
        ResourceValue::String(text) => Some(text),
        _ => None,
    }
}

/// Whether an operator has set `topjob_ineligible`.
fn is_topjob_ineligible(job: &Job) -> bool {
    job.spec
        .other
        .get("topjob_ineligible")
        .is_some_and(|text| text == "True")
}

/// `max_run_subjobs` of an array, if it is a limit.
fn at_once(job: &Job) -> Option<u32> {
    job.spec
        .max_run_subjobs
        .filter(|&limit| job.id.is_array() && limit > 0)
}

/// The limit of the array, for a subjob that starts again.
fn beyond(job: &Job) -> Option<u32> {
    job.id.index()?;
    job.spec.max_run_subjobs.filter(|&limit| limit > 0)
}
