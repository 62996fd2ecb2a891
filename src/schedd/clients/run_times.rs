//! The predicted run times of the unfinished jobs of a snapshot.

use crate::model::job::{Job, JobProgram};
use crate::model::report::past_job::JobTraits;
use crate::model::resource::ResourceValue;
use crate::sched::explain::run_times::{RunTimeHistory, RunTimePrediction, RunTimes};
use std::sync::Arc;

/// The predictions for these jobs.
pub(super) fn of_jobs(jobs: &[Arc<Job>], history: &RunTimeHistory) -> RunTimes {
    let mut run_times = RunTimes::default();
    for job in jobs {
        run_times.insert(job.id, of_job(job, history));
    }
    run_times
}

/// The prediction for a job.
pub(super) fn of_job(job: &Job, history: &RunTimeHistory) -> RunTimePrediction {
    let started = job.life.open_run().map(|run| run.started);
    history.predict(&traits(job), started)
}

fn traits(job: &Job) -> JobTraits {
    let spec = &job.spec;
    let program = match &spec.program {
        JobProgram::Script(digest) => Some(digest.0.to_vec()),
        JobProgram::Command(_) => None,
    };
    let processors = spec.request.list.get("ncpus");
    JobTraits {
        user: job.owner.user.clone(),
        name: spec.name.clone(),
        program,
        processors: processors.and_then(ResourceValue::amount).unwrap_or(0),
        walltime: spec.walltime(),
    }
}
