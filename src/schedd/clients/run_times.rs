//! The predicted run times of the unfinished jobs of a snapshot.

use crate::model::job::{Job, JobProgram};
use crate::model::report::past_job::JobTraits;
use crate::model::resource::ResourceValue;
use crate::sched::explain::run_times::{RunTimeHistory, RunTimePrediction, RunTimes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The predictions for these jobs. Equal jobs share a prediction, so that a long queue of them takes
/// little time and memory.
pub(super) fn of_jobs(jobs: &[Arc<Job>], history: &RunTimeHistory) -> RunTimes {
    let mut by_traits: BTreeMap<JobTraits, RunTimePrediction> = BTreeMap::new();
    let mut run_times = RunTimes::default();
    for job in jobs {
        let mut prediction = by_traits
            .entry(traits(job))
            .or_insert_with_key(|traits| history.predict(traits, None))
            .clone();
        prediction.started = job.life.open_run().map(|run| run.started);
        run_times.insert(job.id, prediction);
    }
    run_times
}

/// The prediction for a job that has not started.
pub(super) fn of_job(job: &Job, history: &RunTimeHistory) -> RunTimePrediction {
    history.predict(&traits(job), None)
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
