//! Past jobs. Forecasts predict the run times of other jobs from them.

use crate::model::time::Span;

/// Properties by which a job is compared with past jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobTraits {
    /// User name of the owner.
    pub user: String,
    /// Job name.
    pub name: String,
    /// Value that is equal for equal scripts; None if unknown.
    pub program: Option<Vec<u8>>,
    /// Requested number of processors.
    pub processors: i64,
    /// Requested walltime.
    pub walltime: Option<Span>,
}

/// Job that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastJob {
    /// Properties of the job.
    pub job: JobTraits,
    /// Run time of its last attempt.
    pub run_time: Span,
}
