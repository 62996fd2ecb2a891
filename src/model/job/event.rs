//! What can happen to a job. The history of a job is its list of events.

use super::array::Indices;
use super::attempt::{Attempt, AttemptOutcome, NodeShare};
use super::dependency::Awaited;
use super::dependency::{DependencyCondition, Edge};
use super::preemption::{self, PreemptAction};
use super::promise::SlipCause;
use super::release::Division;
use super::state::Holds;
use super::suspension::SuspendMode;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// A fact about one job, in the past tense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Accepted from its owner.
    Submitted,
    /// Barred, by `user@host`.
    Held {
        /// The holds set.
        holds: Holds,
        /// Who set them.
        by: String,
    },
    /// Moved to another instance, by `user@host`: to a nested one, or back to its parent. It is
    /// over here.
    Taken {
        /// Who moved it.
        by: String,
        /// The full id of the job there.
        to: String,
    },
    /// No longer barred by these, by `user@host`.
    Released {
        /// The holds released.
        holds: Holds,
        /// Who released them.
        by: String,
    },
    /// Its begin time, or the time to try a failed start again, has come.
    Due,
    /// Changed by `qalter`.
    Altered {
        /// Who changed it.
        by: String,
        /// Which attributes.
        attributes: Vec<String>,
    },
    /// Promised a later start than before.
    Slipped {
        /// What was promised.
        from: Time,
        /// What is promised now.
        to: Time,
        /// Why.
        cause: SlipCause,
    },
    /// Given resources by a cycle; the node is told once this is on disk.
    Started {
        /// The attempt's number.
        attempt: Attempt,
        /// What it got.
        shares: Vec<NodeShare>,
        /// What it was worth then: the score by which it was its turn.
        #[serde(default)]
        score: Option<f64>,
        /// Whether it is an element beyond what its array limits itself to (Q15).
        #[serde(default)]
        extra: bool,
    },
    /// Not started though it was its turn: a hook of the site refused that. It is put off.
    StartRefused {
        /// Which hook.
        hook: String,
        /// What it said.
        why: String,
    },
    /// Some of its nodes given back for good while it runs, by `user@host`.
    NodesReleased {
        /// Who gave them back.
        by: String,
        /// Of which attempt.
        attempt: Attempt,
        /// What it keeps and what not.
        division: Division,
    },
    /// Running, says its node.
    Launched {
        /// Which attempt.
        attempt: Attempt,
        /// The job's session.
        session: u32,
        /// The boot of the node.
        boot: String,
    },
    /// Not begun, for all its node has said, for too long: cancelled there, to be started anew.
    StartTimedOut {
        /// Which attempt.
        attempt: Attempt,
        /// How long that was waited for.
        after: Span,
    },
    /// Over, says its node.
    Ended {
        /// Which attempt.
        attempt: Attempt,
        /// How.
        outcome: AttemptOutcome,
    },
    /// Gone without a trace: its node has booted since, or knows nothing of it.
    Vanished {
        /// Which attempt.
        attempt: Attempt,
        /// What was found instead.
        why: String,
    },
    /// Running on a node that has not answered for a while.
    ContactLost {
        /// The node.
        node: String,
    },
    /// Running still, says its node, which answers again.
    ContactRegained,
    /// To be deleted, by `user@host`.
    DeleteWanted {
        /// Who wants it.
        by: String,
        /// End it here and now, whatever its node says.
        force: bool,
    },
    /// Elements of an array that have never started are deleted, by `user@host`.
    ElementsDeleted {
        /// Who wants it.
        by: String,
        /// Which.
        indices: Indices,
    },
    /// The elements of an array that failed are to run again, by `user@host`.
    FailedRerun {
        /// Who wants it.
        by: String,
        /// The highest attempt of any element so far.
        highest: Attempt,
    },
    /// Over, and to run once more, by `user@host`: a job that failed or was deleted, or such
    /// elements of an array.
    Retried {
        /// Who wants it.
        by: String,
        /// Of an array: these elements alone.
        only: Option<Indices>,
        /// The highest attempt of any element so far.
        highest: Attempt,
    },
    /// To be put back into the queue, by `user@host`.
    RerunWanted {
        /// Who wants it.
        by: String,
    },
    /// To be written down how far it has come, and then put back into the queue, by `user@host`.
    CheckpointWanted {
        /// Of which attempt.
        attempt: Attempt,
        /// Who wants it.
        by: String,
    },
    /// It could not be written down how far it has come: it goes on.
    CheckpointFailed {
        /// Of which attempt.
        attempt: Attempt,
        /// Why.
        why: String,
    },
    /// To make way, by the scheduler.
    Preempted {
        /// Of which attempt.
        attempt: Attempt,
        /// For which job; None where nobody gets what it had.
        to: Option<JobId>,
        /// Why.
        cause: preemption::PreemptCause,
        /// How.
        action: PreemptAction,
        /// The scheduler, as `user@host`.
        by: String,
    },
    /// Others make way for it.
    RoomMade {
        /// Which.
        by: Vec<JobId>,
    },
    /// Bound to further jobs by `qalter`.
    Bound {
        /// How many conditions not yet met were added.
        unmet: u32,
        /// How many jobs more are to name it in a `before...`.
        on: u32,
        /// The job of its `runone` set that has begun already.
        rival: Option<JobId>,
        /// What of that it waits for by label.
        #[serde(default)]
        labels: Vec<Awaited>,
    },
    /// A job of a label that it waits for has come so far.
    LabelMet {
        /// How far.
        condition: DependencyCondition,
        /// Which label.
        label: String,
        /// Which job.
        by: JobId,
    },
    /// Named in a `before...` of a new job: one of those it was to wait for (`on`) is known now.
    Named {
        /// By which job.
        by: JobId,
        /// What must become of that job.
        condition: DependencyCondition,
    },
    /// A condition on another job is met.
    DependencyMet {
        /// Which.
        edge: Edge,
    },
    /// A condition on another job can never be met: it ends.
    DependencyBroken {
        /// Which.
        edge: Edge,
        /// The whole story, as its owner is told.
        why: String,
    },
    /// Another job of its `runone` set has begun.
    RivalBegan {
        /// Which.
        job: JobId,
    },
    /// The other job of its `runone` set is back in its queue.
    RivalReturned {
        /// Which.
        job: JobId,
    },
    /// To stand still, by `user@host` or by the scheduler.
    SuspendWanted {
        /// Who wants it.
        by: String,
        /// Of which attempt.
        attempt: Attempt,
        /// For how long, and what becomes of what it holds.
        manner: SuspendMode,
    },
    /// All its processes stand still, say its nodes: what it gives up meanwhile others may have.
    Suspended {
        /// Which attempt.
        attempt: Attempt,
    },
    /// To go on as soon as there is room, by `user@host`.
    ResumeWanted {
        /// Who wants it.
        by: String,
    },
    /// Goes on: has again what it had given up. Its nodes are told once this is on disk.
    Resumed {
        /// Which attempt.
        attempt: Attempt,
        /// What it holds from now on: as before, but perhaps other processors.
        shares: Vec<NodeShare>,
    },
    /// Sent a signal, by `user@host`.
    Signalled {
        /// Who sent it.
        by: String,
        /// Its number.
        signal: i32,
    },
    /// Put into another queue, by `user@host`.
    Moved {
        /// Who moved it.
        by: String,
        /// The queue it was in.
        from: String,
        /// The queue it is in.
        to: String,
    },
    /// Its place in the order was changed for that of another job, by `user@host`.
    Reordered {
        /// Who asked for it.
        by: String,
        /// The other job.
        with: JobId,
    },
    /// To be looked at now, by `user@host`, and no longer put off.
    Shoved {
        /// Who wants it.
        by: String,
    },
    /// To be started here and now, by `user@host`, whatever the order; its start follows.
    RunWanted {
        /// Who wants it.
        by: String,
    },
    /// Sent a message, by `user@host`, into its output, its errors or both.
    Messaged {
        /// Who sent it.
        by: String,
        /// Whether into its standard output.
        output: bool,
        /// Whether into its standard error.
        errors: bool,
    },
}
