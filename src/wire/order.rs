//! Messages between schedd and noded: orders and reports.

use super::message::Payload;
use super::task::{TaskNews, TaskPlace, TaskRequest};
use crate::model::hook::Hook;
use crate::model::hook::job_hooks::JobHooks;
use crate::model::job::response::Responses;
use crate::model::job::run_limits::{RunLimits, TimeLimits};
use crate::model::job::staging::Files;
use crate::model::job::{Attempt, AttemptOutcome, Join, NodeShare, Owner, TaskNumber, Usage};
use crate::model::job_id::JobId;
use crate::model::node::NodeFacts;
use crate::model::text::Text;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An order of schedd to noded. schedd connects to noded's socket and sends [`ScheddOrder::Hello`]
/// first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ScheddOrder {
    /// Greeting with schedd's epoch, which grows by one at every start of schedd. Orders of a lower
    /// epoch than the highest known one are refused.
    Hello {
        /// schedd's epoch.
        epoch: u64,
    },
    /// Instead of a greeting: this connection serves the terminal of an interactive job. Answered
    /// by [`NodeReport::Attached`]. Then the job's shepherd takes the connection over
    /// ([`super::terminal`]), and sends only after it has received a message.
    Attach {
        /// schedd's epoch.
        epoch: u64,
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
    },
    /// Start an attempt or a task. A repetition has no effect. Refused for a lower attempt than the
    /// highest known one of the job.
    Start(Box<Launch>),
    /// End the script of an attempt or one of its tasks, even an unknown one: SIGTERM, then SIGKILL
    /// after `grace`.
    Cancel {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
        /// Time between SIGTERM and SIGKILL.
        grace: Span,
        /// The first signal instead of SIGTERM, for a job that handles it.
        signal: Option<i32>,
        /// Whether the job is to run again: its output is then not delivered.
        again: bool,
    },
    /// Send a signal to an attempt's processes.
    Signal {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
        /// The signal's number.
        signal: i32,
    },
    /// Write a line to the output files of a running attempt, as its owner.
    Message {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// Whether to standard output.
        output: bool,
        /// Whether to standard error.
        errors: bool,
        /// The line, without the newline.
        text: Text,
    },
    /// Change the time limits of a running attempt.
    Walltime {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The limits.
        times: TimeLimits,
    },
    /// Remove this attempt: its end is on schedd's disk.
    Confirm {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
    },
    /// News about requested tasks, for processes of an attempt.
    Tell {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The connection that made this request; None for all clients that wait for these tasks.
        asker: Option<u64>,
        /// The answer.
        news: TaskNews,
    },
    /// From now on run these hooks of `exechost_periodic` instead of all earlier ones.
    Attend {
        /// The server's name, for the hooks' input.
        server: String,
        /// The hooks.
        hooks: Vec<Hook>,
    },
    /// Answered by [`NodeReport::Pong`].
    Ping,
    /// Exit; running jobs continue under their shepherds.
    Leave,
    /// Replace the node file of a process: its job has released nodes.
    Places {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
        /// The text of the node file.
        nodes: String,
    },
    /// Suspend all processes of the script of an attempt or of one of its tasks. Answered by
    /// [`AttemptStatus::Suspended`]. A repetition has no effect.
    Suspend {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
    },
    /// Resume suspended processes. Answered by [`AttemptStatus::Running`]. A repetition has no
    /// effect.
    Resume {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
        /// The processors to bind the processes to; empty for no change.
        cpus: Vec<u16>,
    },
    /// Checkpoint a running job by the site's command, then end it with SIGKILL. Answered by its
    /// end, or by [`NodeReport::NotCheckpointed`]. A repetition has no effect while the command
    /// runs.
    Checkpoint(Box<Checkpoint>),
    /// The answer to a [`NodeReport::Hello`] that is not accepted: jobs may still run under a noded
    /// with another state directory. schedd closes the connection and connects again later.
    Refuse {
        /// The reason, and what the administrator can do.
        why: String,
    },
    /// Run a user's notification program. Answered by [`NodeReport::Notified`].
    Notify(Box<Notification>),
}

/// A program of a user and the document that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Identifies the notification in the answer; never used twice by one spool.
    pub token: u64,
    /// The user; noded checks it against its own account data.
    pub owner: Owner,
    /// The program's absolute path.
    pub program: PathBuf,
    /// Standard input of the program.
    pub document: Vec<u8>,
}

/// The site's command that checkpoints a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// `PBS_JOBID`.
    pub full_id: String,
    /// The owner.
    pub owner: Owner,
    /// The site's program.
    pub program: PathBuf,
    /// Time limit.
    pub timeout: Span,
    /// The parent of the jobs' checkpoint directories: absolute, or relative to noded's state
    /// directory.
    pub folders: PathBuf,
}

/// The data a node needs to run one attempt, or a task of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// `PBS_JOBID`.
    pub full_id: String,
    /// `PBS_JOBNAME`.
    pub name: String,
    /// `PBS_QUEUE`.
    pub queue: String,
    /// `PBS_ACCOUNT`.
    pub account: Option<String>,
    /// The owner; noded checks it against its own account data.
    pub owner: Owner,
    /// The script or command.
    pub payload: Payload,
    /// The arguments of the script, each ended by a zero byte.
    pub arguments: Text,
    /// `-S` as given, for a script.
    pub shell: Option<Text>,
    /// Whether the owner's login shell reads its profile first.
    pub login: bool,
    /// Runs on a terminal: the owner's shell instead of a script, no output files.
    pub interactive: bool,
    /// The job's environment: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The working directory: absolute; empty for the home directory.
    pub workdir: Text,
    /// The output file: absolute, or relative to the home directory; in a directory, `<full
    /// id>.OU`.
    pub output: Text,
    /// The error file: absolute, or relative to the home directory; in a directory, `<full id>.ER`.
    pub error: Text,
    /// Whether both streams go to one file.
    pub join: Join,
    /// The umask of the job and its output files; None: 077.
    pub umask: Option<u32>,
    /// The walltime limit.
    pub walltime: Option<Span>,
    /// Time for which the job may exceed the walltime.
    pub overrun: Span,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Time limit for stage-in, and for delivery and stage-out.
    pub staging_timeout: Span,
    /// The shares on all nodes of the job; the script runs on the first share's node. For a task:
    /// its own share.
    pub shares: Vec<NodeShare>,
    /// Number of OpenMP threads of the first chunk: `ompthreads`, else its `ncpus`.
    pub threads: u32,
    /// Limits of the job besides the walltime.
    pub limits: RunLimits,
    /// Actions for a job that exceeds one of these limits.
    pub responses: Responses,
    /// File operations before and after the job.
    pub files: Files,
    /// `-W group_list` as given: `group[@host],...`.
    pub groups: Option<String>,
    /// The process of the attempt.
    pub place: TaskPlace,
    /// The parent of the jobs' checkpoint directories, if the site checkpoints jobs: absolute, or
    /// relative to noded's state directory.
    pub checkpoints: Option<PathBuf>,
    /// The site's hooks and scripts, if any; None for a task.
    pub job_hooks: Option<Box<JobHooks>>,
}

/// A report of noded to schedd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeReport {
    /// The answer to [`ScheddOrder::Hello`].
    Hello {
        /// The kernel's boot id.
        boot: String,
        /// The identity of the state directory, which holds the records of all attempts: 32
        /// hexadecimal digits.
        directory: String,
        /// The nodes presented.
        nodes: Vec<NodeFacts>,
        /// Every attempt and task that is not yet confirmed.
        attempts: Vec<(JobId, Attempt, TaskNumber, AttemptStatus)>,
    },
    /// The facts of the presented nodes have changed.
    Nodes(Vec<NodeFacts>),
    /// The status of an attempt or a task has changed.
    Attempt(JobId, Attempt, TaskNumber, AttemptStatus),
    /// The usage of running attempts and tasks.
    Usage(Vec<(JobId, Attempt, TaskNumber, Usage)>),
    /// The request of a process of an attempt; answered by [`ScheddOrder::Tell`].
    TaskRequest(Box<TaskRequest>),
    /// The nodes of this noded should get no more jobs: a site hook has failed there.
    Unfit {
        /// The reason.
        why: String,
    },
    /// The answer to [`ScheddOrder::Ping`].
    Pong,
    /// The answer to [`ScheddOrder::Attach`], and noded's last message on this connection.
    Attached,
    /// This noded follows a schedd of a higher epoch.
    Fenced {
        /// The higher epoch.
        epoch: u64,
    },
    /// The script of an attempt on several hosts has ended, and stage-out has begun: its shares on
    /// other hosts are no longer needed.
    StagingOut(JobId, Attempt),
    /// A checkpoint failed: the job continues.
    NotCheckpointed {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The reason.
        why: String,
    },
    /// A notification program has ended, with all its processes.
    Notified {
        /// The token of a [`Notification`].
        token: u64,
        /// Why the program failed, if it did, with its name.
        why: Option<String>,
    },
}

/// The status of an attempt on its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AttemptStatus {
    /// Ordered, without a report of its shepherd yet.
    Starting,
    /// Running under this session id.
    Running(u32),
    /// Ended. Repeated until confirmed.
    Ended(AttemptOutcome),
    /// Running under this session id, with all its processes suspended.
    Suspended(u32),
}
