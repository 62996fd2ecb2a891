//! Attempts to run a job: allocated resources, usage and outcome.

use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Number of an attempt to run a job, from 1. A job never has two attempts with the same number.
/// noded refuses an attempt with a lower number than the highest that it has received for the job.
pub type Attempt = u32;

/// Number of a task within an attempt. Task 0 is the script; the job starts all other tasks. A task
/// consists of a process and its descendants. An attempt never has two tasks with the same number.
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
    /// Amounts of system-wide resources. Only one share of a job has such amounts.
    #[serde(default)]
    pub pooled: Vec<(String, ResourceValue)>,
    /// Processors to which the job is bound, by their numbers on the host; empty without binding.
    pub cpus: Vec<u16>,
    /// Assigned GPUs, by their numbers on the host.
    pub gpus: Vec<u16>,
    /// Number of lines for this share in the node file (`PBS_NODEFILE`): the requested `mpiprocs`;
    /// without such a request 1, or 0 for a share without processors.
    pub mpiprocs: u32,
    /// Positions of these lines in the node file, from 0; empty if the lines follow those of the
    /// previous shares.
    #[serde(default)]
    pub ranks: Vec<u32>,
}

/// Share of a node that a running job released before its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// Released share.
    pub share: NodeShare,
    /// Time of the release.
    pub at: Time,
}

/// Requested end of a running job. schedd repeats the order to the node until the job has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// No end is requested: the job runs to its end.
    #[default]
    Run,
    /// This `user@host` requested to delete the job.
    Gone(String),
    /// This `user@host` requested to end the attempt and queue the job again.
    Requeue(String),
    /// The attempt is canceled and repeated, because the node did not report the start in time.
    Anew,
}

/// State of the checkpoint of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointProgress {
    /// No checkpoint was requested.
    #[default]
    Unasked,
    /// The job is to end after a checkpoint has been written.
    Wanted,
    /// The checkpoint failed or was canceled. The site's command does not checkpoint this attempt
    /// again.
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
    /// Returns processor time as a percentage of elapsed time; 0 if no time has elapsed.
    pub fn cpupercent(&self) -> i64 {
        self.cput
            .0
            .saturating_mul(100)
            .checked_div(self.walltime.0)
            .unwrap_or(0)
    }
}

/// Exit status of a finished job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// `Exit_status` (`spec` 4.1). Up to 255: the job's own exit code, or 128+N if signal N from
    /// another sender than Lanai ended the job. 256+N: signal N from Lanai ended the job, or the
    /// job was deleted. Negative: set by Lanai, for example for an exceeded limit or a lost job.
    pub status: i32,
    /// The job was deleted (PBS's substate 91). Otherwise the substate is 92 or 93, according to
    /// the status.
    pub deleted: bool,
}

/// `Exit_status` of a deleted job: 256 + SIGTERM, even if the job never ran or trapped SIGTERM.
pub const DELETED: i32 = 271;

/// `Exit_status` of a running job, other than a subjob, that was deleted by force: 256 + SIGKILL.
pub const FORCED: i32 = 265;

/// `Exit_status` of a job that exceeded its walltime.
pub const OVER_WALLTIME: i32 = -29;

/// `Exit_status` of a job that was lost, for example with its node, and is not rerunnable. Such a
/// job also has this status if the cancellation of its start ended its script.
pub const LOST: i32 = -4;

/// Outcome of an attempt, as reported by its shepherd: the process on the node that starts and
/// watches the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutcome {
    /// How the attempt ended.
    pub how: How,
    /// Last signal that Lanai, `qsig` or `qdel` sent to the job; None if no signal was sent.
    pub sent: Option<i32>,
    /// Resources used by the attempt.
    pub used: Usage,
    /// Messages for the owner, for example about files that could not be delivered or copied.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Failure of a hook, if this failure sets the nodes of the host offline.
    #[serde(default)]
    pub unfit: Option<String>,
    /// The script ended within its limits, before the shepherd received an order to end the script.
    #[serde(default)]
    pub on_its_own: bool,
}

/// How an attempt ended.
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
        /// Maximum usage in the unit of [`RunLimit`].
        used: i64,
        /// Value of the limit in the same unit.
        limit: i64,
    },
    /// The job could not start, for example because the interpreter is missing, the stage-in
    /// failed, or the prologue refused the job. The attempt ends with `status`.
    CannotStart {
        /// `Exit_status`: 127 or 254 if the program cannot be executed, -1 after a failed stage-in
        /// or a refusal by the prologue.
        status: i32,
        /// Failed operation and its object, such as the path of a file.
        why: String,
    },
    /// The job could not start because of this fault of the node, a hook or the prologue. The start
    /// is retried by the rules of M10.
    NodeFault(String),
    /// The attempt was canceled before its script started.
    Cancelled,
    /// The shepherd was killed. The exit status of the job is therefore unknown.
    ShepherdLost,
    /// The job did not start because these files to stage in are missing; the start is retried
    /// later.
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

    /// Returns details of the end that the exit status does not contain: the exceeded limit, then
    /// the notes. None without such details.
    pub fn remark(&self) -> Option<String> {
        let figures = self.how.excess().map(|text| format!(" ({text})"));
        let notes = self.notes.iter().map(|note| format!("; {note}"));
        Some(figures.into_iter().chain(notes).collect::<String>()).filter(|text| !text.is_empty())
    }
}

/// Returns the `Exit_status` of an attempt; None if the attempt has no exit status, such as after a
/// fault of the node.
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

/// Limit other than the walltime. A running job that exceeds the limit is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunLimit {
    /// Resident memory of the job on one host, in kilobytes.
    Mem,
    /// Resident memory of one process, in kilobytes.
    Pmem,
    /// Address space of the job on one host, in kilobytes.
    Vmem,
    /// Processor time of all processes, in milliseconds.
    Cput,
    /// Number of threads of all processes of one task of the job.
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
            // PBS has no status for this limit; use the status after SIGKILL.
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
