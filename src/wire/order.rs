//! What schedd and noded tell each other: orders one way, reports the other.

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

/// What schedd tells noded. schedd dials noded's socket and says [`ScheddOrder::Hello`] first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ScheddOrder {
    /// Who dials: an epoch grows by one with every start of schedd, and orders of an epoch below
    /// the highest heard are refused.
    Hello {
        /// schedd's epoch.
        epoch: u64,
    },
    /// Instead of a greeting: this connection serves the terminal of an interactive job. Answered
    /// by [`NodeReport::Attached`]. From then on the job's shepherd speaks ([`super::terminal`])
    /// once it receives a message.
    Attach {
        /// schedd's epoch.
        epoch: u64,
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
    },
    /// Start an attempt, or a task of one. Repeating it changes nothing; below the highest attempt
    /// seen of the job it is refused.
    Start(Box<Launch>),
    /// End the script of an attempt or one of its tasks, also one not yet seen: TERM, then KILL
    /// after `grace`.
    Cancel {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Which task; 0 for the script.
        task: TaskNumber,
        /// How long TERM may take.
        grace: Span,
        /// The first signal instead of TERM, for a job that handles it.
        signal: Option<i32>,
        /// Whether the job is to run again: what it has written is not brought to its place.
        again: bool,
    },
    /// Send a signal to an attempt's processes.
    Signal {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Which task; 0 for the script.
        task: TaskNumber,
        /// The signal's number.
        signal: i32,
    },
    /// Write a line into the files of a running attempt, as its owner.
    Message {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Whether into its standard output.
        output: bool,
        /// Whether into its standard error.
        errors: bool,
        /// What to say, without the newline.
        text: Text,
    },
    /// New limits on the time of a running attempt.
    Walltime {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// The limits; None for none.
        times: TimeLimits,
    },
    /// The end of this attempt is on schedd's disk: forget it.
    Confirm {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Which task; 0 for the script.
        task: TaskNumber,
    },
    /// For processes of an attempt: how tasks stand that they have asked for.
    Tell {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// The connection that made this request; None for the clients that wait for these tasks.
        asker: Option<u64>,
        /// The answer.
        news: TaskNews,
    },
    /// From now on run these hooks of `exechost_periodic` instead of all earlier ones.
    Attend {
        /// The server's name, for them to know.
        server: String,
        /// The hooks.
        hooks: Vec<Hook>,
    },
    /// Answered by [`NodeReport::Pong`].
    Ping,
    /// Leave; running jobs go on under their shepherds.
    Leave,
    /// The job has given nodes back: this is the node file of one of its processes from now on.
    Places {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Which task; 0 for the script.
        task: TaskNumber,
        /// The text.
        nodes: String,
    },
    /// Stop every process of the script of an attempt or of one of its tasks, until it is resumed.
    /// Answered by [`AttemptStatus::Suspended`]; repeating it changes nothing.
    Suspend {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Which task; 0 for the script.
        task: TaskNumber,
    },
    /// Let them go on. Answered by [`AttemptStatus::Running`]; repeating it changes nothing.
    Resume {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Which task; 0 for the script.
        task: TaskNumber,
        /// The processors they are bound to from now on; empty where they stay as they are.
        cpus: Vec<u16>,
    },
    /// Write down how far a running job has come, by the site's command, and then end it with KILL.
    /// Answered by its end, or by [`NodeReport::NotCheckpointed`]; repeating it changes nothing
    /// while the command runs.
    Checkpoint(Box<Checkpoint>),
    /// The answer to a [`NodeReport::Hello`] that is not accepted: jobs may still run under a noded
    /// with another state directory. schedd closes the connection and dials again later.
    Refuse {
        /// Why, and what the administrator can do.
        why: String,
    },
    /// Run a user's program that is notified of jobs. Answered by [`NodeReport::Notified`].
    Notify(Box<Notification>),
}

/// A program of a user and the document that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Identifies the notification in the answer; never used twice by one spool.
    pub token: u64,
    /// The user; noded checks it against its own account data.
    pub owner: Owner,
    /// The program: absolute.
    pub program: PathBuf,
    /// Its standard input.
    pub document: Vec<u8>,
}

/// How it is written down how far a job has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Which job.
    pub job: JobId,
    /// Which attempt.
    pub attempt: Attempt,
    /// `PBS_JOBID`.
    pub full_id: String,
    /// The owner.
    pub owner: Owner,
    /// The site's program.
    pub program: PathBuf,
    /// How long it may take.
    pub timeout: Span,
    /// Where each job has a folder for it: absolute, or from the folder of the node's state.
    pub folders: PathBuf,
}

/// All a node needs to run one attempt, or a task of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Which job.
    pub job: JobId,
    /// Which attempt.
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
    /// What to run.
    pub payload: Payload,
    /// What the script is given: each argument ended by a zero byte.
    pub arguments: Text,
    /// `-S` as given, for a script.
    pub shell: Option<Text>,
    /// Whether the owner's login shell reads its profile first.
    pub login: bool,
    /// Runs on a terminal: the owner's shell instead of a script, no output files.
    pub interactive: bool,
    /// The environment handed on: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// Where the job starts: absolute; empty for the home folder.
    pub workdir: Text,
    /// Where output goes: absolute, or from the home folder; a folder gets `<full id>.OU` in it.
    pub output: Text,
    /// Where errors go: absolute, or from the home folder; a folder gets `<full id>.ER` in it.
    pub error: Text,
    /// Whether both go to one.
    pub join: Join,
    /// The umask of the job and of its output files; None: 077.
    pub umask: Option<u32>,
    /// The elapsed limit.
    pub walltime: Option<Span>,
    /// How long it may run on past that.
    pub overrun: Span,
    /// How long TERM may take before KILL.
    pub grace: Span,
    /// How long copying and delivering its files may take, before it and after it each.
    pub staging_timeout: Span,
    /// What it holds on all its nodes; the first share's node runs the script. For a task: the
    /// share it runs on.
    pub shares: Vec<NodeShare>,
    /// Open MP threads of the first chunk: `ompthreads`, else its `ncpus`.
    pub threads: u32,
    /// What bounds it besides its walltime.
    pub limits: RunLimits,
    /// What is done when it is over one of those.
    pub responses: Responses,
    /// What is done about files before and after it.
    pub files: Files,
    /// `-W group_list` as given: `group[@host],...`.
    pub groups: Option<String>,
    /// Which process of the attempt this is.
    pub place: TaskPlace,
    /// Where each job has a folder for checkpoints, if the site makes any: absolute, or from the
    /// folder of the node's state.
    pub checkpoints: Option<PathBuf>,
    /// What the site has done around it, if anything; around a task nothing.
    pub job_hooks: Option<Box<JobHooks>>,
}

/// What noded tells schedd.
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
    /// Something changed about the nodes presented.
    Nodes(Vec<NodeFacts>),
    /// Something changed about an attempt, or a task of one.
    Attempt(JobId, Attempt, TaskNumber, AttemptStatus),
    /// What running attempts and tasks have used so far.
    Usage(Vec<(JobId, Attempt, TaskNumber, Usage)>),
    /// What a process of an attempt wants; answered by [`ScheddOrder::Tell`].
    TaskRequest(Box<TaskRequest>),
    /// Its nodes should get no more jobs: a hook of the site has failed there.
    Unfit {
        /// Why.
        why: String,
    },
    /// The answer to [`ScheddOrder::Ping`].
    Pong,
    /// The answer to [`ScheddOrder::Attach`]: the last that noded says on this connection.
    Attached,
    /// This noded follows a schedd of a higher epoch.
    Fenced {
        /// That epoch.
        epoch: u64,
    },
    /// The script of an attempt on several hosts is over, and files are being copied away: what the
    /// attempt has elsewhere is needed no more.
    StagingOut(JobId, Attempt),
    /// It could not be written down how far a job has come: it goes on.
    NotCheckpointed {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: Attempt,
        /// Why.
        why: String,
    },
    /// A program that was notified has ended, and all its processes have.
    Notified {
        /// The token of a [`Notification`].
        token: u64,
        /// Why it failed, if it did: names the program.
        why: Option<String>,
    },
}

/// How an attempt stands at its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AttemptStatus {
    /// Ordered; its shepherd has not yet said anything.
    Starting,
    /// Running, in this session.
    Running(u32),
    /// Over; repeated until confirmed.
    Ended(AttemptOutcome),
    /// Running in this session, with all its processes stopped.
    Suspended(u32),
}
