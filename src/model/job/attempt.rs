//! An attempt to run a job: what it holds on nodes, what it uses and how it ends.

use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Which of a job's starts: 1 for the first. (job, attempt) names one run for ever; noded refuses
/// an attempt below the highest it has seen.
pub type Attempt = u32;

/// Which process that a node was told to start for an attempt: 0 for the script, else a task that
/// the job started itself. (job, attempt, task) names one process, with its children, for ever.
pub type TaskNumber = u32;

/// What one chunk holds on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: String,
    /// The host it is part of.
    pub host: String,
    /// Consumables taken, in the order requested.
    pub taken: Vec<(String, ResourceValue)>,
    /// What the job has of system-wide resources; they are counted with one of its shares.
    #[serde(default)]
    pub pooled: Vec<(String, ResourceValue)>,
    /// Processors bound to, by the host's numbers; empty when nothing is bound.
    pub cpus: Vec<u16>,
    /// GPUs handed out, by the host's numbers.
    pub gpus: Vec<u16>,
    /// Lines in the node file: `mpiprocs`, else 1, or none where there are no processors.
    pub mpiprocs: u32,
    /// Which lines these are, counted from 0; empty for those after the shares before it.
    #[serde(default)]
    pub ranks: Vec<u32>,
}

/// A part of an attempt that was given back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// What it held.
    pub share: NodeShare,
    /// Until when.
    pub at: Time,
}

/// What somebody wants of a running job; the node is told until it has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Run to its end.
    #[default]
    Run,
    /// Deleted, by `user@host`.
    Gone(String),
    /// Back to the queue, by `user@host`.
    Requeue(String),
    /// Ended, as its node did not say in time that it had begun, and then started anew.
    Anew,
}

/// How far that is in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointProgress {
    /// Nobody has wanted it.
    #[default]
    Unasked,
    /// It is to be written down how far the job has come, and then the job is to be ended.
    Wanted,
    /// That failed: it is not tried again in this attempt.
    Failed,
}

/// What a job used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed, less time suspended.
    pub walltime: Span,
    /// Processor time of all its processes.
    pub cput: Span,
    /// Largest resident memory, in kilobytes.
    pub mem_kb: u64,
    /// Largest address space, in kilobytes.
    pub vmem_kb: u64,
    /// Processors held.
    pub ncpus: u32,
}

impl Usage {
    /// Processor time per elapsed time, in percent.
    pub fn cpupercent(&self) -> i64 {
        self.cput
            .0
            .saturating_mul(100)
            .checked_div(self.walltime.0)
            .unwrap_or(0)
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// `Exit_status` (`spec` 4.1): 0 to 255, 256+N for a signal we sent, 128+N for another,
    /// negative for an end by the system.
    pub status: i32,
    /// Whether it was deleted (substate 91), else 92 or 93 by the status.
    pub deleted: bool,
}

/// `Exit_status` of a deleted job: 256 + TERM, also if it never ran, trapped TERM or ignored it.
pub const DELETED: i32 = 271;

/// The exit status of a job that was ended by force while it ran: as if by SIGKILL.
pub const FORCED: i32 = 265;

/// `Exit_status` of a job over its walltime.
pub const OVER_WALLTIME: i32 = -29;

/// `Exit_status` of a job that was lost with its node and may not be run again.
pub const LOST: i32 = -4;

/// How an attempt ended, as its shepherd saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutcome {
    /// What happened.
    pub how: How,
    /// The last signal that we or `qsig` or `qdel` sent, if any.
    pub sent: Option<i32>,
    /// What it used.
    pub used: Usage,
    /// What else its owner should know: files that could not be delivered or copied.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why its node should get no more jobs: a hook of the site has failed there.
    #[serde(default)]
    pub unfit: Option<String>,
    /// Its script ended before its shepherd received an order to end it, and within its limits.
    #[serde(default)]
    pub on_its_own: bool,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Ended by itself, with this code.
    Exited(i32),
    /// Ended by this signal.
    Signaled(i32),
    /// Ended by its shepherd: over its walltime.
    Overran {
        /// Elapsed when it was ended.
        used: Span,
        /// Its limit.
        limit: Span,
    },
    /// Ended by its shepherd or the kernel: over another of its limits.
    Exceeded {
        /// Which.
        bound: RunLimit,
        /// The most it had when it was ended: kilobytes or milliseconds.
        used: i64,
        /// Its limit, likewise.
        limit: i64,
    },
    /// Never started, by its owner's fault: no such interpreter, not executable, no such directory.
    CannotStart {
        /// 254 for a command, 127 for a script.
        status: i32,
        /// What failed and on what.
        why: String,
    },
    /// Never started, by the node's fault: to be tried again.
    NodeFault(String),
    /// Cancelled before it started.
    Cancelled,
    /// The shepherd itself was killed; its exit status is not known.
    ShepherdLost,
    /// Never started, because files to stage in are missing, which are named here: to be tried
    /// again.
    AwaitsFiles(String),
}

impl How {
    /// Whether the job began.
    pub fn ran(&self) -> bool {
        !matches!(
            self,
            How::CannotStart { .. } | How::NodeFault(_) | How::Cancelled | How::AwaitsFiles(_)
        )
    }

    /// What is said of an end at a limit: `mem 600kb exceeded limit 500kb`. None for any other end.
    pub fn excess(&self) -> Option<String> {
        match self {
            How::Overran { used, limit } => Some(format!(
                "walltime {} exceeded limit {}",
                used.as_seconds(),
                limit.as_seconds()
            )),
            How::Exceeded { bound, used, limit } => {
                let (name, used, limit) = (bound.name(), bound.figure(*used), bound.figure(*limit));
                Some(format!("{name} {used} exceeded limit {limit}"))
            }
            _ => None,
        }
    }
}

impl AttemptOutcome {
    /// What is said of the end beyond its status, if anything: figures, then notes.
    pub fn remark(&self) -> Option<String> {
        let figures = self.how.excess().map(|text| format!(" ({text})"));
        let notes = self.notes.iter().map(|note| format!("; {note}"));
        Some(figures.into_iter().chain(notes).collect::<String>()).filter(|text| !text.is_empty())
    }
}

/// `Exit_status` of an attempt that began; None for one that did not.
pub fn exit_status(outcome: &AttemptOutcome) -> Option<i32> {
    match &outcome.how {
        How::Exited(code) => Some(*code),
        How::Signaled(signal) if outcome.sent == Some(*signal) => Some(256 + signal),
        How::Signaled(signal) => Some(128 + signal),
        How::Overran { .. } => Some(OVER_WALLTIME),
        How::Exceeded { bound, .. } => Some(bound.exit_status()),
        How::CannotStart { status, .. } => Some(*status),
        How::NodeFault(_) | How::Cancelled | How::ShepherdLost | How::AwaitsFiles(_) => None,
    }
}

/// A bound at which a job is ended, besides its walltime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunLimit {
    /// Resident memory of the job on one node.
    Mem,
    /// Resident memory of one process.
    Pmem,
    /// Address space of the job on one node.
    Vmem,
    /// Processor time of all processes.
    Cput,
    /// Threads of all processes of a script, or of a task.
    Processes,
}

impl RunLimit {
    /// The resource, as PBS names it.
    pub fn name(self) -> &'static str {
        match self {
            RunLimit::Mem => "mem",
            RunLimit::Pmem => "pmem",
            RunLimit::Vmem => "vmem",
            RunLimit::Cput => "cput",
            RunLimit::Processes => "processes",
        }
    }

    /// `Exit_status` of a job ended at this bound.
    pub fn exit_status(self) -> i32 {
        match self {
            RunLimit::Vmem => -26,
            RunLimit::Mem | RunLimit::Pmem => -27,
            RunLimit::Cput => -28,
            // PBS has no number for this: as after KILL.
            RunLimit::Processes => 256 + 9,
        }
    }

    /// How a figure of this bound is written: memory with its unit, time in whole seconds.
    pub fn figure(self, amount: i64) -> String {
        match self {
            RunLimit::Cput => Span(amount).as_seconds().to_string(),
            RunLimit::Processes => amount.to_string(),
            RunLimit::Mem | RunLimit::Pmem | RunLimit::Vmem => format!("{amount}kb"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_carry_their_units() {
        assert_eq!(
            (RunLimit::Mem.figure(600), RunLimit::Cput.figure(65_400)),
            ("600kb".into(), "65".into())
        );
    }
}
