//! Messages between schedd and noded: orders of schedd, and reports of noded. The shepherd of an
//! attempt is the process on the node that starts and watches the attempt.

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
    /// Greeting with schedd's epoch, a number that grows by one at every start of schedd. noded
    /// refuses orders of an epoch below the highest epoch that it has received.
    Hello {
        /// schedd's epoch.
        epoch: u64,
    },
    /// First message on a connection for the terminal of an interactive job, in place of `Hello`.
    /// Answered by [`NodeReport::Attached`]. noded then passes the connection to the job's shepherd
    /// ([`super::terminal`]). The shepherd sends no message before it has received one.
    Attach {
        /// schedd's epoch.
        epoch: u64,
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
    },
    /// Start an attempt or a task. noded answers a repetition only with the current status. noded
    /// refuses an attempt if it knows an attempt of the job with a higher number.
    Start(Box<Launch>),
    /// End the script or a task of an attempt by a first signal, and by SIGKILL after `grace`. The
    /// order is also valid for an attempt that noded has not received. Then noded never starts this
    /// attempt.
    Cancel {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
        /// Time between the first signal and SIGKILL.
        grace: Span,
        /// The first signal; None for SIGTERM.
        signal: Option<i32>,
        /// True if the job is to run again. With a `signal`, it does not run again if the attempt
        /// exits with 0 or exceeds a limit (Y17). Output is delivered only if the job does not run
        /// again.
        again: bool,
    },
    /// Send a signal to the processes of an attempt's script or of an attempt's task.
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
    /// Write a line to the output files of a running attempt, with the rights of the job's owner.
    Message {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// True to write to the output file.
        output: bool,
        /// True to write to the error file.
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
    /// Remove the records of this attempt or task, because schedd has stored its end on disk.
    Confirm {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The task; 0 for the script.
        task: TaskNumber,
    },
    /// Pass news about requested tasks to processes of an attempt.
    Tell {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// [`TaskRequest::asker`] of the answered request; None for all processes that wait for
        /// these tasks.
        asker: Option<u64>,
        /// The news, such as the answer to a request.
        news: TaskNews,
    },
    /// Run these hooks of `exechost_periodic` from now on, instead of all earlier hooks.
    Attend {
        /// The server's name, which is part of the input of the hooks.
        server: String,
        /// The hooks.
        hooks: Vec<Hook>,
    },
    /// Test of the connection. Answered by [`NodeReport::Pong`].
    Ping,
    /// Exit. Running jobs continue under their shepherds.
    Leave,
    /// Replace the node file of the script or of a task, because the job has released nodes.
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
    /// Suspend all processes of an attempt's script or of an attempt's task. Answered by
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
    /// Write a checkpoint of a running job with the site's command, then end the job with SIGKILL.
    /// Answered by the end of the attempt, or by [`NodeReport::NotCheckpointed`]. A repetition has
    /// no effect while the command runs.
    Checkpoint(Box<Checkpoint>),
    /// schedd refuses this noded in answer to [`NodeReport::Hello`], because jobs of this host can
    /// still be running under a noded with another state directory. schedd closes the connection
    /// and connects again later.
    Refuse {
        /// The reason, and what the administrator can do.
        why: String,
    },
    /// Run the notification program of a user. Answered by [`NodeReport::Notified`].
    Notify(Box<Notification>),
}

/// A notification program of a user, and the document that the program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Number that identifies the notification in the answer. schedd never uses a number twice.
    pub token: u64,
    /// The user. noded compares user name and ids with the accounts of its own host.
    pub owner: Owner,
    /// The program's absolute path.
    pub program: PathBuf,
    /// Standard input of the program.
    pub document: Vec<u8>,
}

/// Order to checkpoint an attempt with the site's command.
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
    /// Time limit of the program.
    pub timeout: Span,
    /// The parent of the jobs' checkpoint directories: absolute, or relative to noded's state
    /// directory.
    pub folders: PathBuf,
}

/// The data that a node needs to run the script of an attempt, or a task.
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
    /// The owner. noded compares user name and ids with the accounts of its own host.
    pub owner: Owner,
    /// The script or command.
    pub payload: Payload,
    /// The arguments of the script, each ended by a zero byte.
    pub arguments: Text,
    /// `-S` as given, if the job has a script.
    pub shell: Option<Text>,
    /// True if the shell of the script is a login shell, which reads the owner's profile first.
    pub login: bool,
    /// True for an interactive job: it runs the owner's shell on a terminal and has no output
    /// files.
    pub interactive: bool,
    /// The job's environment: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The working directory: absolute; empty for the home directory.
    pub workdir: Text,
    /// Path of the output file, absolute or relative to the home directory. If the path is a
    /// directory, the name of the file is `<full id>.OU`.
    pub output: Text,
    /// Path of the error file, absolute or relative to the home directory. If the path is a
    /// directory, the name of the file is `<full id>.ER`.
    pub error: Text,
    /// Whether both output streams go to one file.
    pub join: Join,
    /// The umask of the job and its output files; 077 if None.
    pub umask: Option<u32>,
    /// The walltime limit; None for no limit, and for a task.
    pub walltime: Option<Span>,
    /// Time for which the job may exceed the walltime.
    pub overrun: Span,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Time limit for stage-in before the job, and again for the delivery of output and stage-out
    /// after the job.
    pub staging_timeout: Span,
    /// The shares of the job on all nodes; the script runs on the node of the first share. For a
    /// task: only the share on which the task runs.
    pub shares: Vec<NodeShare>,
    /// Number of OpenMP threads: `ompthreads` of the first chunk, otherwise the processors that the
    /// first chunk got.
    pub threads: u32,
    /// Limits of the job other than the walltime.
    pub limits: RunLimits,
    /// Responses to a job that exceeds one of these limits.
    pub responses: Responses,
    /// File operations before and after the job.
    pub files: Files,
    /// `-W group_list` as given: `group[@host],...`.
    pub groups: Option<String>,
    /// The script or task to start, and its place among the tasks of the attempt.
    pub place: TaskPlace,
    /// The parent of the jobs' checkpoint directories: absolute, or relative to noded's state
    /// directory. None if the site writes no checkpoints.
    pub checkpoints: Option<PathBuf>,
    /// The site's hooks, prologues and epilogues for the job. None if there are none, and for a
    /// task.
    pub job_hooks: Option<Box<JobHooks>>,
}

/// A report of noded to schedd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeReport {
    /// The answer to [`ScheddOrder::Hello`].
    Hello {
        /// The kernel's boot id.
        boot: String,
        /// The identity of noded's state directory: 32 hexadecimal digits. The directory contains
        /// the records of all attempts.
        directory: String,
        /// The nodes of this noded.
        nodes: Vec<NodeFacts>,
        /// All attempts and tasks that schedd has not confirmed yet ([`ScheddOrder::Confirm`]).
        attempts: Vec<(JobId, Attempt, TaskNumber, AttemptStatus)>,
    },
    /// The facts of all nodes of this noded, sent after a change.
    Nodes(Vec<NodeFacts>),
    /// The status of an attempt or a task has changed.
    Attempt(JobId, Attempt, TaskNumber, AttemptStatus),
    /// The changed usages of running attempts and tasks. Unchanged usages are omitted.
    Usage(Vec<(JobId, Attempt, TaskNumber, Usage)>),
    /// A process of an attempt sent this request. Answered by [`ScheddOrder::Tell`].
    TaskRequest(Box<TaskRequest>),
    /// The nodes of this noded must get no more jobs, because a periodic hook has failed on
    /// noded's host.
    Unfit {
        /// The reason.
        why: String,
    },
    /// The answer to [`ScheddOrder::Ping`].
    Pong,
    /// The answer to [`ScheddOrder::Attach`], and noded's last message on this connection.
    Attached,
    /// noded refuses the orders, because it has received orders of a higher epoch.
    Fenced {
        /// The higher epoch.
        epoch: u64,
    },
    /// The script of an attempt on several hosts has ended, and stage-out has begun. The job no
    /// longer needs its shares on other hosts.
    StagingOut(JobId, Attempt),
    /// A checkpoint failed, and the job continues.
    NotCheckpointed {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The reason.
        why: String,
    },
    /// A notification program and all its child processes have ended, or the program could not be
    /// started.
    Notified {
        /// The token of the [`Notification`].
        token: u64,
        /// Name of the program, and why it failed; None if it succeeded.
        why: Option<String>,
    },
}

/// The status of an attempt or a task on its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AttemptStatus {
    /// The start was ordered, but the shepherd has reported nothing yet.
    Starting,
    /// The attempt runs under this session id.
    Running(u32),
    /// The attempt has ended. noded repeats this report until schedd confirms it.
    Ended(AttemptOutcome),
    /// The attempt has this session id, and all its processes are suspended.
    Suspended(u32),
}
