//! `[[expect]]`: the values that a scenario expects ([`reading`]), and the comparison of expected
//! and actual values ([`comparison`]).

pub mod comparison;

pub mod reading;

use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::reason::CycleStage;
use crate::model::time::Span;
use std::collections::BTreeMap;

/// The expected values of one `[[expect]]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The line in the file.
    pub line: usize,
    /// The time, from the beginning, at which the values are checked; None for the end of the
    /// scenario.
    pub at: Option<Span>,
    /// The job concerned; None for the whole cluster.
    pub job: Option<JobId>,
    /// The expected values.
    pub assertions: Vec<Assertion>,
}

/// One expected value. It belongs to the job of the expectation, or to the cluster if the
/// description of the variant begins with "Of the cluster".
#[derive(Clone, Debug, PartialEq)]
pub enum Assertion {
    /// The first start; None for a job that never starts.
    Start(Option<Span>),
    /// All starts.
    Starts(Vec<Span>),
    /// The end of the last attempt.
    End(Span),
    /// The node of each chunk of the running attempt; if none is running, of the first attempt.
    Nodes(Vec<String>),
    /// The number of chunks on each node, of the same attempt as `Nodes`.
    Chunks(BTreeMap<String, u64>),
    /// The job state, a letter of PBS.
    State(JobState),
    /// The stage of the scheduling cycle to which the reason code of the waiting job belongs.
    Stage(CycleStage),
    /// The code of the reason why the job waits.
    Reason(String),
    /// A part of the job's comment or, if the job has none, of the reason why the job waits.
    Comment(String),
    /// The planned start; None for no planned start.
    PlannedStart(Option<Span>),
    /// The nodes of the planned start.
    PlannedNodes(Vec<String>),
    /// The start that `qstat --start` predicts; None for no prediction.
    PredictedStart(Option<Span>),
    /// The eligible time.
    EligibleTime(Span),
    /// The priority, compared with as many decimals as the expected value has.
    Score(String),
    /// The number of preemptions of the job.
    Preempted(u32),
    /// The waiting job for which this job was last preempted. None if this job was not preempted,
    /// or if its last preemption was not for a waiting job.
    Preemptor(Option<JobId>),
    /// The action of the last preemption.
    PreemptionAction(PreemptAction),
    /// The cause of the last preemption.
    PreemptionCause(PreemptCause),
    /// Whether the first start is a backfill: the job starts ahead of a job that keeps waiting.
    Backfilled(bool),
    /// The exit status.
    Exit(i64),
    /// A part of the message that refuses the submission.
    Refused(String),
    /// A part of the messages of the last submission, alteration or move; None for no message.
    Warned(Option<String>),
    /// Of the cluster: these jobs start in this order; other jobs are ignored.
    Order(Vec<JobId>),
    /// Of the cluster: the times of all scheduling cycles, each time once.
    Cycles(Vec<Span>),
    /// Of the cluster: the triggers of all cycles that run at this time. Each trigger is listed
    /// once, in order. Empty if no cycle runs.
    Triggers(Vec<String>),
    /// Of the cluster: the running and suspended jobs.
    Running(Vec<JobId>),
    /// Of the cluster: the decayed usage of these accounts, without the accounts below them,
    /// compared with as many decimals as the expected values have.
    Usage(BTreeMap<String, String>),
    /// Of the cluster: the used and total amounts of system-wide resources, such as `20/50`.
    InUse(BTreeMap<String, String>),
}

/// A difference between the expected and the actual result.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The line in the file.
    pub line: usize,
    /// What was compared, such as `job 3: start`.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
}
