//! An attempt to run a job: what it holds on nodes, what it uses and how it ends.

use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// The number of a start of a job: 1 for the first. A job and an attempt name one run for ever;
/// noded refuses an attempt below the highest it has seen.
pub type Attempt = u32;

/// The number of a process of an attempt: 0 for the script, else a task that the job started. A
/// job, an attempt and a task name one process with its children for ever.
pub type TaskNumber = u32;

/// The resources of one chunk on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: String,
    /// The host of the node.
    pub host: String,
    /// Amounts of consumable resources, in the order requested.
    pub taken: Vec<(String, ResourceValue)>,
    /// Amounts of system-wide resources; one share of the job has them.
    #[serde(default)]
    pub pooled: Vec<(String, ResourceValue)>,
    /// Numbers of the bound processors on the host; empty when nothing is bound.
    pub cpus: Vec<u16>,
    /// Numbers of the assigned GPUs on the host.
    pub gpus: Vec<u16>,
    /// Number of lines in the node file: `mpiprocs`, else 1, or 0 without processors.
    pub mpiprocs: u32,
    /// The numbers of these lines, from 0; empty if they follow the lines of the previous shares.
    #[serde(default)]
    pub ranks: Vec<u32>,
}

/// A share that a running job released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// The share.
    pub share: NodeShare,
    /// When it was released.
    pub at: Time,
}

/// The requested end of a running job. The node receives the order until it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Run to the end.
    #[default]
    Run,
    /// Delete it, requested by `user@host`.
    Gone(String),
    /// Requeue it, requested by `user@host`.
    Requeue(String),
    /// End it and start it again: the node did not report the start in time.
    Anew,
}

/// The state of the checkpoint of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointProgress {
    /// No checkpoint was requested.
    #[default]
    Unasked,
    /// The job writes a checkpoint and then ends.
    Wanted,
    /// The checkpoint failed; this attempt writes no other.
    Failed,
}

/// The resources that a job used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time without suspensions.
    pub walltime: Span,
    /// Processor time of all processes.
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

/// `Exit_status` of a deleted job: 256 + TERM, even if it never ran or trapped TERM.
pub const DELETED: i32 = 271;

/// `Exit_status` of a running job that was deleted by force: as after SIGKILL.
pub const FORCED: i32 = 265;

/// `Exit_status` of a job over its walltime.
pub const OVER_WALLTIME: i32 = -29;

/// `Exit_status` of a job that was lost with its node and is not rerunnable.
pub const LOST: i32 = -4;

/// The end of an attempt as its shepherd reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutcome {
    /// What happened.
    pub how: How,
    /// The last signal that the system, `qsig` or `qdel` sent, if any.
    pub sent: Option<i32>,
    /// The resources used.
    pub used: Usage,
    /// Messages for the owner about files that could not be delivered or copied.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the node should get no more jobs: a hook failed there.
    #[serde(default)]
    pub unfit: Option<String>,
    /// Its script ended before its shepherd received an order to end it, and within its limits.
    #[serde(default)]
    pub on_its_own: bool,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Exited with this code.
    Exited(i32),
    /// Ended by this signal.
    Signaled(i32),
    /// Ended by its shepherd: over its walltime.
    Overran {
        /// Elapsed time at the end.
        used: Span,
        /// The limit.
        limit: Span,
    },
    /// Ended by its shepherd or the kernel: over another limit.
    Exceeded {
        /// The exceeded limit.
        bound: RunLimit,
        /// The highest usage in kilobytes or milliseconds.
        used: i64,
        /// The limit in the same unit.
        limit: i64,
    },
    /// Never started because of the job: no interpreter, not executable, no directory.
    CannotStart {
        /// 254 for a command, 127 for a script.
        status: i32,
        /// The failed operation and its object.
        why: String,
    },
    /// Never started because of the node; started again later.
    NodeFault(String),
    /// Cancelled before it started.
    Cancelled,
    /// The shepherd itself was killed; its exit status is not known.
    ShepherdLost,
    /// Never started because these files to stage in are missing; started again later.
    AwaitsFiles(String),
}

impl How {
    /// Whether the job ran.
    pub fn ran(&self) -> bool {
        !matches!(
            self,
            How::CannotStart { .. } | How::NodeFault(_) | How::Cancelled | How::AwaitsFiles(_)
        )
    }

    /// Describes an exceeded limit: `mem 600kb exceeded limit 500kb`. None for any other end.
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
    /// An outcome without a signal, usage or notes.
    pub fn new(how: How) -> AttemptOutcome {
        AttemptOutcome {
            how,
            sent: None,
            used: Usage::default(),
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        }
    }

    /// Describes the end beyond its status: figures, then notes.
    pub fn remark(&self) -> Option<String> {
        let figures = self.how.excess().map(|text| format!(" ({text})"));
        let notes = self.notes.iter().map(|note| format!("; {note}"));
        Some(figures.into_iter().chain(notes).collect::<String>()).filter(|text| !text.is_empty())
    }
}

/// `Exit_status` of an attempt that ran; None for one that did not.
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

/// A limit besides the walltime at which a job is ended.
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

    /// Formats an amount of this limit: memory with its unit, time in whole seconds.
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
