//! Submits the jobs of a trace as `qsub` would, so that the scheduler receives the same requests as
//! in schedd.
//!
//! Jobs with the same number of processors, estimate and user form one class, which is computed
//! once.

use super::machine::NodeBatch;
use super::trace;
use crate::model::attribute::{self, AttributeSetting, Context, Rights, SubmitContext};
use crate::model::job::state::Holds;
use crate::model::job::{Digest, Job, JobProgram, Life, Owner, Spec};
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::refusal::Refusal;
use crate::model::resource::Resources;
use crate::model::text::Text;
use crate::model::time::Time;
use crate::sched::view::snapshot::{ClassKey, ClusterState};
use std::collections::HashMap;
use std::sync::Arc;

/// The classes of the submitted jobs.
#[derive(Debug)]
pub struct Classes {
    machine: NodeBatch,
    resources: Resources,
    queue: String,
    /// The specifications of jobs, by number of processors and estimate.
    specs: HashMap<(u32, i64), Arc<Spec>>,
    /// The classes of jobs, by number of processors, estimate and user.
    known: HashMap<(u32, i64, i64), ClassKey>,
}

impl Classes {
    /// Creates an empty set of classes for jobs in this queue.
    pub fn new(machine: NodeBatch, resources: Resources, queue: &str) -> Classes {
        Classes {
            machine,
            resources,
            queue: queue.to_string(),
            specs: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// The class of a job in the cluster `state`, or the refusal of the job's request.
    pub fn class_of(
        &mut self,
        job: &trace::TraceJob,
        state: &ClusterState,
    ) -> Result<&ClassKey, Refusal> {
        let key = (job.processors, job.estimate, job.user);
        if !self.known.contains_key(&key) {
            let class = state.class_key(&submitted(self.spec(job)?, job.user));
            self.known.insert(key, class);
        }
        Ok(&self.known[&key])
    }

    fn spec(&mut self, job: &trace::TraceJob) -> Result<Arc<Spec>, Refusal> {
        let key = (job.processors, job.estimate);
        if let Some(spec) = self.specs.get(&key) {
            return Ok(spec.clone());
        }
        let select = self.machine.select(job.processors);
        let settings = [
            AttributeSetting::resource("select", select),
            AttributeSetting::resource("walltime", job.estimate.to_string()),
        ];
        let policy = Policy::default();
        let context = Context {
            resources: &self.resources,
            rights: Rights::default(),
            owner: "",
            server: "",
            default_queue: Some(&self.queue),
            policy: &policy,
            is_member: &|_| false,
        };
        let spec = Arc::new(attribute::submit(&settings, origin(), &context)?.spec);
        self.specs.insert(key, spec.clone());
        Ok(spec)
    }
}

/// The submission context of a trace's jobs, which have no script.
fn origin() -> SubmitContext {
    SubmitContext {
        program: JobProgram::Command(Vec::new()),
        environ: Digest([0; 32]),
        workdir: Text::default(),
        submit_host: String::new(),
        arguments: Text::default(),
    }
}

/// A job in the state right after its submission.
fn submitted(spec: Arc<Spec>, user: i64) -> Job {
    let owner = Owner {
        user: format!("user{user}"),
        uid: 0,
        gid: 0,
    };
    Job {
        id: JobId::job(0),
        owner,
        spec,
        life: Life::new(Holds::NONE, 0, Time(0)),
        elements: None,
    }
}
