//! Classes: sets of interchangeable waiting jobs. All jobs of a class wait for the same reason,
//! unless the cycle considers only some of them (M24).

use super::{Shape, ShapeId, User, shape_key, sharing_array};
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

/// The id of a class: the first eight bytes of a SHA-256 of the common properties of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u64);

impl ClassId {
    /// The id of the class of a job or array.
    pub fn of(job: &Job) -> ClassId {
        ClassKey::id_of(job)
    }

    /// The id for verdicts on all jobs with the shape of this job.
    pub fn of_request(job: &Job) -> ClassId {
        ClassId::of_shape(ShapeId::of(job))
    }

    /// The id for verdicts on all classes of a shape.
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
    /// The id of the class.
    pub id: ClassId,
    /// The shape: the part of the request that decides where a job fits.
    pub shape: Arc<Shape>,
    /// The walltime; None if the jobs request none.
    pub walltime: Option<Span>,
    /// The credentials: user, group, account, queue and so on.
    pub who: Arc<Credentials>,
    /// The user, as a number.
    pub user: User,
    /// The priority of `qsub -p`.
    pub priority: i32,
    /// The factor from 0 to 1 by which the owner scales the priority.
    pub user_factor: f64,
    /// The priority that an operator has set; it takes precedence over any other priority.
    pub system_priority: Option<i32>,
    /// The requested reservation; the jobs run only in this reservation.
    pub reservation: Option<String>,
    /// The time before which the jobs are not tried again, for example after a failed start.
    pub not_before: Option<Time>,
    /// Whether an operator has set the attribute `topjob_ineligible`. The jobs then get no planned
    /// starts, and start when they fit.
    pub unpromised: bool,
    /// Whether the owner exempts the jobs from preemption (Q9).
    pub protected: bool,
    /// Whether the jobs are rerunnable.
    pub rerunnable: bool,
    /// Whether the jobs checkpoint themselves on request.
    pub checkpoints: bool,
    /// Whether a checkpoint may be made from outside the job.
    pub may_be_checkpointed: bool,
    /// The only jobs that these jobs may preempt (`preempt_targets`).
    pub targets: Option<Arc<str>>,
    /// The limit of an array on its running subjobs. An array with a limit is a class of its own.
    pub at_once: Option<u32>,
    /// The maximum number of running subjobs of an array if resources would otherwise be idle
    /// (Q15).
    pub expands_to: Option<u32>,
    /// For subjobs that start again, the limit of their array on its running subjobs. The subjobs
    /// of each array form a class of their own, and subjobs above the limit use only resources
    /// that would otherwise be idle (Q15).
    pub beyond: Option<u32>,
}

impl ClassKey {
    /// The ids under which a plan can store a verdict on all jobs of the class: the id of the
    /// class, then the id that stands for all classes of the same shape.
    pub fn verdict_names(&self) -> [ClassId; 2] {
        [self.id, ClassId::of_shape(self.shape.id)]
    }

    /// The cluster label of the jobs, such as `/film/shot3`; the root if the jobs have no label.
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
        // Arrays with different limits of expansion are in different classes.
        let expands_to = if job.id.is_array() {
            spec.expands_to()
        } else {
            None
        };
        let id = expands_to.map_or(id, |most| {
            ClassId(stable_hash(&(id, "expand", spec.max_run_subjobs, most)))
        });
        // Only rerunnable jobs may use resources of planned starts.
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
        let id =
            sharing_array(job).map_or(id, |number| ClassId(stable_hash(&(id, "array", number))));
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

    /// The class of a job, with a new shape.
    pub fn of(job: &Job, catalog: &Catalog) -> ClassKey {
        ClassKey::with(job, Arc::new(Shape::new(job, catalog)))
    }

    /// The class of a job that has this shape.
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

/// Whether an operator has set the attribute `topjob_ineligible`.
fn is_topjob_ineligible(job: &Job) -> bool {
    job.spec
        .other
        .get("topjob_ineligible")
        .is_some_and(|text| text == "True")
}

/// The limit that the attribute `max_run_subjobs` sets for an array; None if it sets no limit, or
/// if the job is no array.
fn at_once(job: &Job) -> Option<u32> {
    job.spec
        .max_run_subjobs
        .filter(|&limit| job.id.is_array() && limit > 0)
}

/// For a subjob that starts again, the limit of its array on running subjobs, if any.
fn beyond(job: &Job) -> Option<u32> {
    job.id.index()?;
    job.spec.max_run_subjobs.filter(|&limit| limit > 0)
}
