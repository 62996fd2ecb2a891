//! `[[expect]]`: what a scenario expects of the scheduler ([`reading`]), and how that compares with
//! what happened ([`comparison`]).

pub mod comparison;

pub mod reading;

use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::reason::CycleStage;
use crate::model::time::Span;
use std::collections::BTreeMap;

/// Something expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The line in the file.
    pub line: usize,
    /// The time from the beginning at which it is checked; None for the end of the scenario.
    pub at: Option<Span>,
    /// The job concerned; None for the whole cluster.
    pub job: Option<JobId>,
    /// The expected values.
    pub assertions: Vec<Assertion>,
}

/// One expected value. It is an attribute of the job unless the comment says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Assertion {
    /// The first start; None for a job that never starts.
    Start(Option<Span>),
    /// All starts.
    Starts(Vec<Span>),
    /// The last end.
    End(Span),
    /// The node of each chunk.
    Nodes(Vec<String>),
    /// The number of chunks on each node.
    Chunks(BTreeMap<String, u64>),
    /// The job state, a letter of PBS.
    State(JobState),
    /// The stage of the scheduling cycle that leaves the job waiting.
    Stage(CycleStage),
    /// The code of the reason why the job waits.
    Reason(String),
    /// A part of the comment.
    Comment(String),
    /// The planned start; None for no planned start.
    PlannedStart(Option<Span>),
    /// The nodes of the planned start.
    PlannedNodes(Vec<String>),
    /// The start that `qstat --start` predicts; None for no prediction.
    PredictedStart(Option<Span>),
    /// The eligible time.
    EligibleTime(Span),
    /// The priority, compared to as many digits as are given.
    Score(String),
    /// The number of preemptions of the job.
    Preempted(u32),
    /// The job that preempted it last; None if it was preempted for no job.
    Preemptor(Option<JobId>),
    /// The action of the last preemption.
    PreemptionAction(PreemptAction),
    /// The cause of the last preemption.
    PreemptionCause(PreemptCause),
    /// Whether the job is backfilled: it starts before a job with a planned start.
    Backfilled(bool),
    /// The exit status.
    Exit(i64),
    /// A part of the message that refuses the submission.
    Refused(String),
    /// A part of the messages of the last submission or alteration; None for no message.
    Warned(Option<String>),
    /// These jobs start in this order; other jobs are ignored.
    Order(Vec<JobId>),
    /// The times of all scheduling cycles.
    Cycles(Vec<Span>),
    /// The triggers of the cycles at a time, in their order; none if there is no cycle.
    Triggers(Vec<String>),
    /// The running jobs.
    Running(Vec<JobId>),
    /// The decayed usage of these accounts, compared to as many digits as are given.
    Usage(BTreeMap<String, String>),
    /// Amounts of system-wide resources in use, and their totals: `20/50`.
    InUse(BTreeMap<String, String>),
}

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The line in the file.
    pub line: usize,
    /// The value concerned: `job 3: start`.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
}
