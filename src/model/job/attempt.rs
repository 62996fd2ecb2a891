//! Attempts to run a job: allocated resources, usage and outcome.

use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Number of an attempt, from 1. Job id and attempt number identify a run permanently; noded
/// refuses an attempt below the highest it has received.
pub type Attempt = u32;

/// Number of a process of an attempt: 0 for the script, others for tasks that the job started.
/// Job id, attempt and task number identify a process with its children permanently.
pub type TaskNumber = u32;

/// Allocated resources of one chunk on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// Node name.
    pub node: String,
    /// Host of the node.
    pub host: String,
    /// Amounts of consumable resources, in the order requested.
    pub taken: Vec<(String, ResourceValue)>,
    /// Amounts of system-wide resources; only one share of a job has them.
    #[serde(default)]
    pub pooled: Vec<(String, ResourceValue)>,
    /// Host numbers of the bound processors; empty without binding.
    pub cpus: Vec<u16>,
    /// Host numbers of the assigned GPUs.
    pub gpus: Vec<u16>,
    /// Number of lines in the node file: `mpiprocs`, else 1, or 0 without processors.
    pub mpiprocs: u32,
    /// Numbers of these lines, from 0; empty if they follow the lines of the previous shares.
    #[serde(default)]
    pub ranks: Vec<u32>,
}

/// Share that a running job released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// Released share.
    pub share: NodeShare,
    /// Time of the release.
    pub at: Time,
}

/// Requested end of a running job. The node receives the order until it is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// None: the job runs to its end.
    #[default]
    Run,
    /// Deletion, requested by this `user@host`.
    Gone(String),
    /// Requeue, requested by this `user@host`.
    Requeue(String),
    /// Restart: the node did not report the start in time.
    Anew,
}

/// State of the checkpoint of an attempt.
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

/// Resources used by a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time without suspensions.
    pub walltime: Span,
    /// Processor time of all processes.
    pub cput: Span,
    /// Maximum resident memory in kilobytes.
    pub mem_kb: u64,
    /// Maximum address space in kilobytes.
    pub vmem_kb: u64,
    /// Number of allocated processors.
    pub ncpus: u32,
}

impl Usage {
    /// Returns processor time per elapsed time, in percent.
    pub fn cpupercent(&self) -> i64 {
        self.cput
            .0
            .saturating_mul(100)
            .checked_div(self.walltime.0)
            .unwrap_or(0)
    }
}

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// `Exit_status` (`spec` 4.1): 0 to 255 from the job, 256+N for a signal that the system
    /// sent, 128+N for any other, negative for an end by the system.
    pub status: i32,
    /// The job was deleted (substate 91); otherwise the status gives substate 92 or 93.
    pub deleted: bool,
}

/// `Exit_status` of a deleted job: 256 + TERM, even if it never ran or trapped TERM.
pub const DELETED: i32 = 271;

/// `Exit_status` of a running job deleted by force: as after SIGKILL.
pub const FORCED: i32 = 265;

/// `Exit_status` of a job that exceeded its walltime.
pub const OVER_WALLTIME: i32 = -29;

/// `Exit_status` of a job lost with its node and not rerunnable.
pub const LOST: i32 = -4;

/// Outcome of an attempt as reported by its shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutcome {
    /// Kind of end.
    pub how: How,
    /// Last signal sent by the system, `qsig` or `qdel`, if any.
    pub sent: Option<i32>,
    /// Resources used.
    pub used: Usage,
    /// Messages for the owner about files that could not be delivered or copied.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Reason to give the node no more jobs: a hook failed there.
    #[serde(default)]
    pub unfit: Option<String>,
    /// The script ended before the shepherd received an order to end it, and within its limits.
    #[serde(default)]
    pub on_its_own: bool,
}

/// Kind of end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// The script exited with this code.
    Exited(i32),
    /// This signal ended the script.
    Signaled(i32),
    /// The shepherd ended the job because it exceeded its walltime.
    Overran {
        /// Elapsed time at the end.
        used: Span,
        /// Requested walltime.
        limit: Span,
    },
    /// The shepherd or the kernel ended the job because it exceeded another limit.
    Exceeded {
        /// Exceeded limit.
        bound: RunLimit,
        /// Maximum usage in kilobytes or milliseconds.
        used: i64,
        /// Value of the limit in the same unit.
        limit: i64,
    },
    /// The job could not start because of itself: no interpreter, not executable, no directory.
    CannotStart {
        /// Exit status: 254 for a command, 127 for a script.
        status: i32,
        /// Failed operation and its object.
        why: String,
    },
    /// The job could not start because of the node; it is retried later.
    NodeFault(String),
    /// The attempt was cancelled before it started.
    Cancelled,
    /// The shepherd itself was killed; the exit status of the job is unknown.
    ShepherdLost,
    /// The job did not start because these files to stage in are missing; it is retried later.
    AwaitsFiles(String),
}

impl How {
    /// Tests whether the script started.
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
    /// Creates an outcome without a signal, usage or notes.
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

    /// Returns details of the end beyond the status: the exceeded limit, then notes.
    pub fn remark(&self) -> Option<String> {
        let figures = self.how.excess().map(|text| format!(" ({text})"));
        let notes = self.notes.iter().map(|note| format!("; {note}"));
        Some(figures.into_iter().chain(notes).collect::<String>()).filter(|text| !text.is_empty())
    }
}

/// Returns the `Exit_status` of an attempt; None if it has none, such as after a node fault.
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

/// Limit, other than the walltime, at which a running job is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunLimit {
    /// Resident memory of the job on one node, in kilobytes.
    Mem,
    /// Resident memory of one process, in kilobytes.
    Pmem,
    /// Address space of the job on one node, in kilobytes.
    Vmem,
    /// Processor time of all processes, in milliseconds.
    Cput,
    /// Number of threads of all processes of a script, or of a task.
    Processes,
}

impl RunLimit {
    /// Returns the PBS name of the resource.
    pub fn name(self) -> &'static str {
        match self {
            RunLimit::Mem => "mem",
            RunLimit::Pmem => "pmem",
            RunLimit::Vmem => "vmem",
            RunLimit::Cput => "cput",
            RunLimit::Processes => "processes",
        }
    }

    /// Returns the `Exit_status` of a job ended at this limit.
    pub fn exit_status(self) -> i32 {
        match self {
            RunLimit::Vmem => -26,
            RunLimit::Mem | RunLimit::Pmem => -27,
            RunLimit::Cput => -28,
            // PBS has no status for this limit: as after SIGKILL.
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
    fn limit_amounts_have_units() {
        assert_eq!(
            (RunLimit::Mem.figure(600), RunLimit::Cput.figure(65_400)),
            ("600kb".into(), "65".into())
        );
    }
}
