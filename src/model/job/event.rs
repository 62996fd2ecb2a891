//! Job events. The events of a job are the job's history.

use super::array::Indices;
use super::attempt::{Attempt, AttemptOutcome, NodeShare};
use super::dependency::Awaited;
use super::dependency::{DependencyCondition, Edge};
use super::growth::GrownResource;
use super::preemption::{self, PreemptAction};
use super::promise::SlipCause;
use super::release::Division;
use super::state::Holds;
use super::suspension::SuspendMode;
use super::undo::UndoKind;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Event in the history of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The job was submitted.
    Submitted,
    /// Holds were set.
    Held {
        /// Holds set.
        holds: Holds,
        /// Requester, `user@host`.
        by: String,
    },
    /// The job was moved to another installation (nested or parent), and is finished in this
    /// installation.
    Taken {
        /// Requester, `user@host`.
        by: String,
        /// Full id of the job in the other installation.
        to: String,
    },
    /// Holds were released.
    Released {
        /// Holds released.
        holds: Holds,
        /// Requester, `user@host`.
        by: String,
    },
    /// The job's start time (`-a`) was reached.
    Due,
    /// `qalter` changed the job.
    Altered {
        /// Requester, `user@host`.
        by: String,
        /// Names of the changed attributes.
        attributes: Vec<String>,
    },
    /// The planned start moved to a later time.
    Slipped {
        /// Previous planned start.
        from: Time,
        /// New planned start.
        to: Time,
        /// Cause of the delay.
        cause: SlipCause,
    },
    /// The scheduler or `qrun` allocated resources to the job. The node receives the start order
    /// once this event is on disk.
    Started {
        /// Number of the attempt.
        attempt: Attempt,
        /// Allocated resources.
        shares: Vec<NodeShare>,
        /// Priority at the start; None for a start by `qrun`.
        #[serde(default)]
        score: Option<f64>,
        /// The job is a subjob that was started above the array's own limit (Q15).
        #[serde(default)]
        extra: bool,
    },
    /// A site hook rejected the start; the start is deferred.
    StartRefused {
        /// Name of the hook.
        hook: String,
        /// Message of the hook.
        why: String,
    },
    /// The running job released resources on some of its nodes.
    NodesReleased {
        /// Requester, `user@host`.
        by: String,
        /// Number of the attempt.
        attempt: Attempt,
        /// Kept and released resources.
        division: Division,
    },
    /// The node reported the start.
    Launched {
        /// Number of the attempt.
        attempt: Attempt,
        /// Session id of the job.
        session: u32,
        /// Boot id of the node.
        boot: String,
    },
    /// The node did not report the start in time; the attempt is canceled and repeated.
    StartTimedOut {
        /// Number of the attempt.
        attempt: Attempt,
        /// Time without a report.
        after: Span,
    },
    /// The node reported the end.
    Ended {
        /// Number of the attempt.
        attempt: Attempt,
        /// Outcome of the attempt.
        outcome: AttemptOutcome,
    },
    /// The request of the job grew after an attempt that exceeded a limit (`-W retry_mem=`,
    /// `-W retry_walltime=`).
    RequestGrown {
        /// Number of the attempt.
        attempt: Attempt,
        /// Changed resources.
        changes: Vec<GrownResource>,
    },
    /// The attempt is lost. The node has rebooted, has no record of the attempt, or was declared
    /// gone.
    Vanished {
        /// Number of the attempt.
        attempt: Attempt,
        /// Evidence of the loss.
        why: String,
    },
    /// A node on which the script or a task of the job runs has not responded for some time.
    ContactLost {
        /// Name of the node.
        node: String,
    },
    /// The node responds again and the job still runs.
    ContactRegained,
    /// Deletion was requested.
    DeleteWanted {
        /// Requester, `user@host`.
        by: String,
        /// The job is to end immediately, without waiting for the node.
        force: bool,
    },
    /// Waiting subjobs of an array were deleted.
    ElementsDeleted {
        /// Requester, `user@host`.
        by: String,
        /// Indices of the subjobs.
        indices: Indices,
    },
    /// A rerun of an array's failed subjobs was requested.
    FailedRerun {
        /// Requester, `user@host`.
        by: String,
        /// Highest known attempt number of the subjobs.
        highest: Attempt,
    },
    /// A rerun of the finished job, which failed or was deleted, was requested. For an array, a
    /// rerun of its failed and deleted subjobs was requested.
    Retried {
        /// Requester, `user@host`.
        by: String,
        /// For an array: only these subjobs are rerun; None for all.
        only: Option<Indices>,
        /// For an array: highest known attempt number of the subjobs.
        highest: Attempt,
    },
    /// A user reverted an action on the job.
    Undone {
        /// Requester, `user@host`.
        by: String,
        /// Reverted action.
        action: UndoKind,
        /// Holds that are set again.
        hold: Holds,
        /// Holds that are released again.
        release: Holds,
        /// After a deletion, for an array: positions of the restored subjobs, as ranges.
        subjobs: Vec<(u32, u32)>,
    },
    /// A user or operator requested to end the attempt and queue the job again.
    RerunWanted {
        /// Requester, `user@host`.
        by: String,
    },
    /// A user or operator requested to write a checkpoint and then queue the job again.
    CheckpointWanted {
        /// Number of the attempt.
        attempt: Attempt,
        /// Requester, `user@host`.
        by: String,
    },
    /// The checkpoint failed; the job continues.
    CheckpointFailed {
        /// Number of the attempt.
        attempt: Attempt,
        /// Cause of the failure.
        why: String,
    },
    /// The scheduler preempted the job.
    Preempted {
        /// Number of the attempt.
        attempt: Attempt,
        /// Preemptor; None if no job gets the resources.
        to: Option<JobId>,
        /// Cause of the preemption.
        cause: preemption::PreemptCause,
        /// Action of the preemption.
        action: PreemptAction,
        /// Scheduler, as `user@host`.
        by: String,
    },
    /// The scheduler preempted other jobs for this job.
    RoomMade {
        /// Preempted jobs.
        by: Vec<JobId>,
    },
    /// `qalter` added dependencies.
    Bound {
        /// Number of unmet conditions added.
        unmet: u32,
        /// Number of further jobs that must name this job in a `before...` dependency.
        on: u32,
        /// Job of the `runone` set that has already started.
        rival: Option<JobId>,
        /// Those of the unmet conditions that refer to labels.
        #[serde(default)]
        labels: Vec<Awaited>,
    },
    /// A job satisfied a condition on a label.
    LabelMet {
        /// Satisfied condition.
        condition: DependencyCondition,
        /// Label.
        label: String,
        /// Job that satisfied the condition.
        by: JobId,
    },
    /// Another job named this job in a `before...` dependency. This job now waits for the other
    /// job, and its count `on` decreases by one if it is above 0.
    Named {
        /// Other job.
        by: JobId,
        /// Condition that the other job must satisfy.
        condition: DependencyCondition,
    },
    /// A condition on another job was satisfied.
    DependencyMet {
        /// Satisfied condition.
        edge: Edge,
    },
    /// A condition on another job can never be satisfied. This job ends unless it is running or
    /// suspended. If it is an array, its waiting subjobs end.
    DependencyBroken {
        /// Failed condition.
        edge: Edge,
        /// Explanation for the owner, as a complete sentence.
        why: String,
    },
    /// Another job of the `runone` set started.
    RivalBegan {
        /// The started job.
        job: JobId,
    },
    /// The started job of the `runone` set returned to its queue.
    RivalReturned {
        /// The returned job.
        job: JobId,
    },
    /// Suspension was requested, by a user or the scheduler.
    SuspendWanted {
        /// Requester, `user@host`.
        by: String,
        /// Number of the attempt.
        attempt: Attempt,
        /// Kind of suspension: how it ends, and which resources the job releases.
        manner: SuspendMode,
    },
    /// The nodes reported that all processes are stopped. Other jobs may now use the released
    /// resources.
    Suspended {
        /// Number of the attempt.
        attempt: Attempt,
    },
    /// Resumption was requested. The job waits for free resources.
    ResumeWanted {
        /// Requester, `user@host`.
        by: String,
    },
    /// The job got its resources again and resumes. Its nodes receive the order once this event is
    /// on disk.
    Resumed {
        /// Number of the attempt.
        attempt: Attempt,
        /// Resources of the job from now on. Only the choice of processors and GPUs on the
        /// hosts can differ from the earlier resources.
        shares: Vec<NodeShare>,
    },
    /// A signal was sent to the job.
    Signalled {
        /// Requester, `user@host`.
        by: String,
        /// Signal number.
        signal: i32,
    },
    /// The job was moved to another queue.
    Moved {
        /// Requester, `user@host`.
        by: String,
        /// Previous queue.
        from: String,
        /// New queue.
        to: String,
    },
    /// The job swapped its position with another job.
    Reordered {
        /// Requester, `user@host`.
        by: String,
        /// The other job.
        with: JobId,
    },
    /// The scheduler was requested to consider the job now; a deferral of the start is canceled.
    Shoved {
        /// Requester, `user@host`.
        by: String,
    },
    /// An immediate start out of order was requested (`qrun`). Event `Started` follows.
    RunWanted {
        /// Requester, `user@host`.
        by: String,
    },
    /// A message is written to the job's output, error output or both (`qmsg`).
    Messaged {
        /// Requester, `user@host`.
        by: String,
        /// The message is written to standard output.
        output: bool,
        /// The message is written to standard error.
        errors: bool,
    },
    /// The processes of the running job have used almost no processor time for some time.
    Idle {
        /// Number of the attempt.
        attempt: Attempt,
        /// Time since when the job is idle.
        since: Time,
        /// Configured time after which a job is idle.
        after: Span,
    },
    /// The idle job uses processor time again.
    IdleEnded {
        /// Number of the attempt.
        attempt: Attempt,
    },
}
