//! Requests of clients to schedd, and the replies of schedd. A request does not contain the user:
//! schedd gets the user from the kernel ([`super::peer`]). Messages between schedd and noded are in
//! [`super::order`].

use super::ahead::{ForecastAnswer, ForecastQuery};
use super::batch::Batch;
use crate::config::overrides::command::QmgrCommand;
use crate::config::overrides::description::Described;
use crate::model::account::accounting::{
    AccountingEntry, AccountingFilter, GroupKey, RequestTotals,
};
use crate::model::account::member::Member;
pub use crate::model::attribute::AttributeSetting;
use crate::model::job::array::Indices;
use crate::model::job::dependency::DependencyView;
use crate::model::job::event::Event;
use crate::model::job::promise::PromisedStart;
use crate::model::job::release::KeptNodes;
use crate::model::job::state::{Holds, JobState};
use crate::model::job::undo::UndoReport;
use crate::model::job::{Digest, Job, NodeShare, Spec};
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::refusal::Refusal;
use crate::model::reservation::Reservation;
use crate::model::reservation::request::ReservationRequest;
use crate::model::resource::Resources;
use crate::model::text::Text;
use crate::model::time::{ClockTable, Span, Time};
use crate::model::trigger::CycleRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The protocol version in every frame. Two programs with different versions report the mismatch
/// and disconnect.
pub const VERSION: u16 = 2;

/// A request of a client to schedd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientRequest {
    /// `qsub`: submits a job.
    Submit(Box<NewJob>),
    /// `qalter`: sets attributes, either all of them or none.
    Alter(JobId, Vec<AttributeSetting>),
    /// `qhold`: sets holds.
    Hold(JobId, Holds),
    /// `qrls`: releases holds.
    Release(JobId, Holds),
    /// `qdel`: deletes the job, or subjobs of the array.
    Delete {
        /// The job.
        job: JobId,
        /// For an array: only these subjobs; None for all.
        only: Option<Indices>,
        /// `-W force`: the job is finished immediately, without waiting for its node.
        force: bool,
        /// `-x`: if the job is finished, remove it from the history.
        purge: bool,
    },
    /// `qrerun`: ends the running job and requeues it.
    Rerun {
        /// The job.
        job: JobId,
        /// For an array: only these subjobs; None for all.
        only: Option<Indices>,
        /// `-W force`, which has no effect.
        force: bool,
    },
    /// `qrerun --failed`: requeues the failed subjobs of this array, even if the array has
    /// finished.
    RerunFailed(JobId),
    /// `qalter --retry`: requeues a finished job that failed or was deleted; for an array, requeues
    /// the subjobs that failed or were deleted.
    Retry {
        /// The job.
        job: JobId,
        /// For an array: only these subjobs; None for all.
        only: Option<Indices>,
    },
    /// `qsig`: sends a signal to the job, or suspends or resumes the job.
    Signal {
        /// The job.
        job: JobId,
        /// For an array: only these subjobs; None for all.
        only: Option<Indices>,
        /// Signal name with or without `SIG`, number, or a name such as `suspend` or `resume`.
        signal: String,
    },
    /// `qmove`: moves the job to a destination `queue`, `queue@server` or `@server`.
    Move(JobId, String),
    /// `qorder`: swaps the positions of two jobs.
    Swap(JobId, JobId),
    /// `qmsg`: writes a line to the output files of a running job.
    Message {
        /// The job.
        job: JobId,
        /// True to write to the output file.
        output: bool,
        /// True to write to the error file.
        errors: bool,
        /// The line, without the newline.
        text: Text,
    },
    /// `qrun`: starts the job now, regardless of priority.
    Run {
        /// The job.
        job: JobId,
        /// The nodes to use.
        on: Placing,
        /// `-a`: the request is accepted even if the job cannot start now.
        detached: bool,
    },
    /// `qsub -W block=true`: waits for the end of the job. Answered by [`Reply::Ended`].
    Wait(JobId),
    /// A query of `qstat`, `qselect`, `pbsnodes` or another command, if the command does not read
    /// the spool itself.
    Ask(Question),
    /// `pbsnodes -o`, `-r`, `-C`: sets values of a node. None leaves a value unchanged.
    MarkNode {
        /// The node.
        node: String,
        /// True if the node accepts no new jobs.
        offline: Option<bool>,
        /// The comment; an empty text removes the comment.
        comment: Option<String>,
    },
    /// `pbsnodes --gone`: declares that the node's host will not return, and that no process runs
    /// on that host. Only managers may send this request.
    DeclareGone {
        /// The node.
        node: String,
    },
    /// Connects the caller, who must be the job's owner, to the terminal of a running interactive
    /// job (`qsub -I`). Answered by [`Reply::Attached`] with a descriptor.
    Attach(JobId),
    /// Waits for a visible change of jobs. Answered by [`Reply::Changed`], possibly also without a
    /// change of these jobs. A further watch on the same connection replaces the earlier watch.
    Watch {
        /// The jobs to watch.
        of: WatchedJobs,
        /// The change number in the last answer; 0 to get an answer immediately.
        since: u64,
    },
    /// `schedd --status`: returns the status of schedd.
    Status,
    /// `schedd --stop`: schedd exits, running jobs continue.
    Stop,
    /// `qmgr`: executes a command on one object.
    Amend(QmgrCommand),
    /// `qmgr`: imports the program of a hook.
    ImportHook {
        /// The hook.
        name: String,
        /// The contents of the file.
        content: Vec<u8>,
    },
    /// `pbs_rsub`: creates a reservation.
    Reserve(Box<ReservationRequest>),
    /// `pbs_ralter`: changes a reservation.
    AlterReservation {
        /// The reservation.
        id: String,
        /// The changed terms.
        changes: Box<ReservationRequest>,
        /// `-W force`: the reservation is changed even if it then conflicts with jobs or other
        /// reservations.
        force: bool,
    },
    /// `pbs_rdel`: deletes a reservation.
    DeleteReservation(String),
    /// `pbs_release_nodes`: releases the nodes that a running job does not keep.
    ReleaseNodes(JobId, KeptNodes),
    /// `qalter --shove`: makes the scheduler retry a deferred job now.
    Shove(JobId),
    /// `qterm`: schedd exits.
    Terminate {
        /// Treatment of running jobs.
        manner: QtermMode,
        /// True if the nodeds exit, too.
        nodes: bool,
    },
    /// Creates a copy of a job, with a system hold, in a nested installation. The job itself is in
    /// the parent installation.
    Adopt(Box<Adoption>),
    /// Ends a job in the parent installation, because the job continues as a copy in a nested
    /// installation. A repeated claim is granted again.
    Claim(NestedClaim),
    /// Ends a held copy in a nested installation, because the job was not claimed in the parent
    /// installation.
    GiveBack {
        /// The id of the copy.
        copy: JobId,
        /// The full id of the job in the parent installation.
        to: String,
    },
    /// A command with several job ids. Answered by [`Reply::Batch`] or [`Reply::NotBatched`].
    Batch(Batch),
    /// `lanai retry -l`: like [`ClientRequest::Retry`], with changed attributes.
    RetryWith {
        /// The job.
        job: JobId,
        /// For an array: only these subjobs; None for all.
        only: Option<Indices>,
        /// The attributes to change, either all of them or none.
        settings: Vec<AttributeSetting>,
    },
    /// `lanai undo`: reverts the caller's last hold, release, alteration or deletion of jobs.
    /// Answered by [`Reply::Undone`].
    Undo {
        /// True to report what would be reverted, without a change.
        dry_run: bool,
    },
}

/// Treatment of running jobs at a shutdown of schedd (`qterm -t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QtermMode {
    /// Running jobs continue.
    Quick,
    /// Running jobs are requeued; schedd waits for jobs that cannot be rerun.
    Delay,
    /// Running jobs are requeued; jobs that cannot be rerun are deleted.
    Immediate,
}

/// A reply of schedd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The submitted job is on disk.
    Accepted {
        /// Full id of the job.
        id: String,
        /// Warnings for the user, for example about settings that were changed.
        notes: Vec<String>,
    },
    /// The request was executed, and its changes are on disk.
    Done,
    /// Like [`Reply::Done`], with these warnings.
    Noted(Vec<String>),
    /// The job was not accepted. The client must submit it again with these default options of the
    /// server.
    Defaults(String),
    /// The request was refused, and has changed nothing.
    Refused(Refusal),
    /// The awaited job has finished.
    Ended {
        /// `Exit_status`.
        status: i32,
        /// The user who deleted the job; None if the job was not deleted.
        deleted_by: Option<String>,
    },
    /// Reply to [`ClientRequest::Attach`]. The message comes with the file descriptor of a
    /// connection to the job's shepherd ([`super::terminal`]).
    Attached,
    /// Reply to [`ClientRequest::Watch`].
    Changed {
        /// The change number for the next [`ClientRequest::Watch`], with which the client misses no
        /// change.
        seen: u64,
    },
    /// Part of the answer to [`ClientRequest::Ask`]; [`Reply::Done`] follows the last part.
    Part(ClientAnswer),
    /// Reply to [`ClientRequest::Status`].
    Status(Box<ScheddStatus>),
    /// Reply to [`ClientRequest::Reserve`] and [`ClientRequest::AlterReservation`].
    Reserved {
        /// The full id, such as `R12.head`.
        id: String,
        /// True if the reservation is confirmed, false if it is denied; None while undecided.
        confirmed: Option<bool>,
    },
    /// Reply to [`ClientRequest::Batch`], for each of its jobs in order: the warnings, or the
    /// refusal.
    Batch(Vec<Result<Vec<String>, Refusal>>),
    /// Reply to [`ClientRequest::Batch`]: nothing was done. The client must send a request for each
    /// job, because hooks of the site apply to each request.
    NotBatched,
    /// Reply to [`ClientRequest::Undo`].
    Undone(Box<UndoReport>),
}

impl ClientRequest {
    /// Tests whether the request changes the state of schedd, jobs or nodes.
    pub fn is_change(&self) -> bool {
        !matches!(
            self,
            ClientRequest::Wait(_)
                | ClientRequest::Ask(_)
                | ClientRequest::Attach(_)
                | ClientRequest::Watch { .. }
                | ClientRequest::Status
        )
    }

    /// Tests whether the request can be repeated without further effect, for instance if the client
    /// got no reply.
    pub fn is_repeatable(&self) -> bool {
        if let ClientRequest::Batch(batch) = self {
            return batch.first().is_none_or(|request| request.is_repeatable());
        }
        !matches!(
            self,
            ClientRequest::Signal { .. }
                | ClientRequest::Rerun { .. }
                | ClientRequest::RerunFailed(_)
                | ClientRequest::Retry { .. }
                | ClientRequest::RetryWith { .. }
                | ClientRequest::Undo { .. }
                | ClientRequest::Delete { .. }
                | ClientRequest::Stop
                | ClientRequest::Swap(..)
                | ClientRequest::Message { .. }
                | ClientRequest::Run { .. }
                | ClientRequest::Reserve(_)
                | ClientRequest::AlterReservation { .. }
                | ClientRequest::DeleteReservation(_)
                | ClientRequest::ReleaseNodes(..)
                | ClientRequest::Terminate { .. }
                | ClientRequest::Amend(_)
        )
    }
}

/// The jobs that a client watches for changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchedJobs {
    /// These jobs; the id of a subjob stands for the whole array.
    Jobs(Vec<JobId>),
    /// All jobs of the user who sends the request.
    Mine,
    /// All jobs.
    Any,
}

/// The nodes for a job started by `qrun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placing {
    /// The job may use any nodes.
    Anywhere,
    /// The job may use only these nodes.
    On(Vec<String>),
    /// The job uses the nodes of its last attempt.
    Again,
}

/// A submitted job, before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// A random number of the client. If a user repeats a submission with the same token, no second
    /// job is created, so the client can repeat a submission that got no reply.
    pub token: [u8; 16],
    /// Settings of attributes, in the order in which they take effect.
    pub settings: Vec<AttributeSetting>,
    /// The script or command.
    pub payload: Payload,
    /// The job's environment: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The other variables of qsub's environment, in the same form. They are added to `environ` if
    /// the job gets the environment of its submission.
    pub inherited: Vec<u8>,
    /// The directory where qsub ran, absolute.
    pub workdir: Text,
    /// The host where qsub ran.
    pub submit_host: String,
    /// The arguments of qsub, joined by spaces.
    pub arguments: Text,
    /// The server's default options that were applied.
    pub defaults: String,
    /// The script, after schedd has stored it; `payload` is then empty. This field is not part of
    /// the message.
    #[serde(skip)]
    pub stored: Option<Arc<StoredScript>>,
}

impl NewJob {
    /// Returns the length of the script in bytes; None for a command.
    pub fn script_size(&self) -> Option<usize> {
        match (&self.stored, &self.payload) {
            (Some(stored), _) => Some(stored.size),
            (None, Payload::Script(text)) => Some(text.len()),
            (None, Payload::Command(_)) => None,
        }
    }
}

/// A script in the spool. The spool keeps the script as long as a job refers to it.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredScript {
    /// The key under which the script is stored.
    pub digest: Digest,
    /// Length of the script in bytes.
    pub size: usize,
}

/// A waiting job that can move to a nested installation of its owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The job.
    pub job: JobId,
    /// Attributes and requests of the job.
    pub spec: Arc<Spec>,
    /// The digest of `spec`, which a claim contains.
    pub revision: Digest,
    /// The text of the job's script; empty for a command.
    #[serde(with = "super::raw")]
    pub script: Vec<u8>,
    /// The job's environment: `K=V` entries, each ended by a zero byte.
    #[serde(with = "super::raw")]
    pub environ: Vec<u8>,
}

/// A job to copy into a nested installation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adoption {
    /// Random number: two adoptions with the same token create only one job.
    pub token: [u8; 16],
    /// The job in the parent installation.
    pub offered: Offered,
}

/// Ends a job that continues in a nested installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedClaim {
    /// The job.
    pub job: JobId,
    /// [`Offered::revision`]. The claim is refused if the job was altered after the offer.
    pub revision: Digest,
    /// The full id of the copy in the nested installation.
    pub to: String,
    /// Random number of this claim and its repetitions.
    pub token: [u8; 16],
}

/// The bytes of a script, or a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// The script's text.
    Script(#[serde(with = "super::raw")] Vec<u8>),
    /// A command and its arguments.
    Command(Vec<Text>),
}

/// A query. Clients that may read the spool answer most queries from the spool; schedd answers all
/// queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// The jobs with these ids, finished or not. Unknown jobs, and jobs that the caller may not
    /// see, are omitted.
    JobsById(Vec<JobId>, Detail),
    /// Jobs that match a filter.
    Jobs(Filter, Detail),
    /// The subjobs of an array in the order of their indices; all subjobs if the indices are None.
    Elements(JobId, Option<Indices>, Detail),
    /// All queues with their job counts.
    Queues,
    /// All nodes with their jobs.
    Nodes,
    /// Facts about the server.
    Server,
    /// A job and its events.
    Trace(JobId),
    /// All reservations.
    Reservations,
    /// The configured objects, as `qmgr` shows them.
    Objects,
    /// Totals of accounting records, grouped by these keys.
    Accounts(Box<AccountingFilter>, Vec<GroupKey>),
    /// Accounting records of these jobs; of all jobs if the list is empty. The id of an array
    /// stands for all its subjobs.
    Entries(Box<AccountingFilter>, Vec<JobId>),
    /// A query that the scheduler answers.
    Ahead(ForecastQuery),
    /// The last scheduling cycles and their triggers; only for privileged users
    /// ([`ServerFacts::privileged`]).
    Cycles,
    /// `schedd --nested --queue`: in this queue, the caller's first job that can move to a nested
    /// installation.
    Offer {
        /// The queue.
        queue: String,
        /// Jobs to skip.
        except: BTreeSet<JobId>,
    },
}

impl Question {
    /// Returns the query for those jobs that follow job `id` in the answer to this query. None if
    /// no job can follow, or if this query is neither [`Question::Jobs`] nor
    /// [`Question::Elements`].
    pub fn after(&self, id: JobId) -> Option<Question> {
        match self {
            Question::Jobs(filter, detail) => Some(Question::Jobs(
                Filter {
                    after: Some(id),
                    ..filter.clone()
                },
                *detail,
            )),
            Question::Elements(array, only, detail) => {
                let rest = Indices::after(id.index()?)?;
                let only = only.map_or(Some(rest), |only| only.common(rest))?;
                Some(Question::Elements(*array, Some(only), *detail))
            }
            Question::JobsById(..) | Question::Trace(_) | Question::Ahead(_) => None,
            Question::Queues | Question::Nodes | Question::Server => None,
            Question::Reservations | Question::Objects => None,
            Question::Accounts(..)
            | Question::Entries(..)
            | Question::Cycles
            | Question::Offer { .. } => None,
        }
    }
}

/// The amount of data about each job in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// The columns of a plain `qstat`.
    Row,
    /// All data except the environment.
    Whole,
    /// All data. The environment is included if the caller may see it.
    Environment,
}

/// A filter of jobs. An empty list of states, queues or owners includes all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Whether unfinished jobs, finished jobs or both are included.
    pub history: History,
    /// Queues of the included jobs.
    pub queues: Vec<String>,
    /// Owners of the included jobs.
    pub owners: Vec<String>,
    /// States of the included jobs.
    pub states: Vec<JobState>,
    /// Which arrays and subjobs are included.
    pub arrays: Arrays,
    /// Only jobs with ids after this id are included; None for all.
    pub after: Option<JobId>,
}

/// Which arrays and subjobs a list contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrays {
    /// Jobs and arrays, without subjobs.
    #[default]
    Folded,
    /// `-J`: only arrays.
    Only,
    /// `-t`: jobs, and arrays followed by their subjobs.
    Unfolded,
    /// `-Jt`: only subjobs.
    ElementsOnly,
}

impl Arrays {
    /// Returns the list that the flags `-J` (`only`) and `-t` (`unfolded`) select.
    pub fn shown(only: bool, unfolded: bool) -> Arrays {
        if only && unfolded {
            Arrays::ElementsOnly
        } else if only {
            Arrays::Only
        } else if unfolded {
            Arrays::Unfolded
        } else {
            Arrays::Folded
        }
    }

    /// Tests whether the list contains subjobs.
    pub fn shows_elements(self) -> bool {
        matches!(self, Arrays::Unfolded | Arrays::ElementsOnly)
    }
}

impl Filter {
    /// Tests whether [`Filter::after`] includes the job `id`.
    pub fn reaches(&self, id: JobId) -> bool {
        self.after.is_none_or(|after| id > after)
    }

    /// Tests whether [`Filter::states`] includes `state`.
    pub fn shows(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// Whether a list contains unfinished jobs, finished jobs or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum History {
    /// Unfinished jobs.
    #[default]
    Live,
    /// Unfinished and finished jobs.
    All,
    /// Finished jobs.
    Finished,
}

/// A part of an answer. Jobs are in the order of their numbers, or, for [`Question::JobsById`], in
/// the order of the ids in the query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientAnswer {
    /// Jobs, if the query has [`Detail::Row`].
    Rows(Vec<JobRow>),
    /// Jobs, if the query has another [`Detail`].
    Jobs(Vec<JobRecord>),
    /// Upper bound for the length of the ids that follow, without the server name; includes the ids
    /// of the subjobs of an array. This part precedes lists with subjobs, and jobs that were
    /// queried by id.
    Longest(u32),
    /// Answers [`Question::Queues`].
    Queues(Vec<QueueCounts>),
    /// Answers [`Question::Nodes`].
    Nodes(Vec<NodeRecord>),
    /// Answers [`Question::Trace`] after the part with the job: the events of the job in order.
    Events(Vec<(Time, Event)>),
    /// Answers [`Question::Server`]. This part is also the first part of every other answer,
    /// because clients need it to display ids and times.
    Server(Box<ServerFacts>),
    /// Answers [`Question::Reservations`].
    Reservations(Vec<Reservation>),
    /// Answers [`Question::Objects`].
    Objects(Vec<Described>),
    /// Answers [`Question::Accounts`].
    Tallies(Vec<RequestTotals>),
    /// Answers [`Question::Entries`].
    Entries(Vec<AccountingEntry>),
    /// Answers [`Question::Ahead`].
    Ahead(ForecastAnswer),
    /// Answers [`Question::Cycles`], oldest cycle first.
    Cycles(Vec<CycleRecord>),
    /// Answers [`Question::Offer`]: a job, None if no job can move, or why the queue offers no
    /// jobs.
    Offer(Box<Result<Option<Offered>, Refusal>>),
}

/// The columns of a plain `qstat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Job id.
    pub id: JobId,
    /// `Job_Name`.
    pub name: String,
    /// The owner's user name.
    pub owner: String,
    /// Processor time used; None if the job has never run.
    pub cput: Option<Span>,
    /// The state.
    pub state: JobState,
    /// The queue.
    pub queue: String,
}

/// A job with related data from other tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: Job,
    /// Reason why a queued job, or the waiting subjobs of a begun array, do not start; None if
    /// unknown.
    pub reason: Option<Reason>,
    /// Time since when the job can never start; None if the job can start, or never could.
    pub never_since: Option<Time>,
    /// The planned start; None without a planned start.
    pub promise: Option<PromisedStart>,
    /// Number of an array's subjobs that have started, but neither run nor have finished.
    pub waiting_again: u32,
    /// The environment, if the caller requested it and may see it.
    pub environ: Option<Vec<u8>>,
    /// Dependencies of the job on other jobs, and of other jobs on the job.
    pub links: Vec<DependencyView>,
    /// The computed priority of a waiting job. The spool does not contain it; the client adds it
    /// from the answer to [`super::ahead::ForecastQuery::Scores`].
    #[serde(default)]
    pub score: Option<f64>,
}

/// A queue and the jobs in it by state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueCounts {
    /// The queue.
    pub queue: Queue,
    /// Number of jobs in each state, including the finished jobs of the history.
    pub jobs: Vec<(JobState, u64)>,
    /// Number of running subjobs.
    pub elements: u64,
    /// Amounts of consumable resources that the queue's running jobs hold, and of `mpiprocs` and
    /// `nodect` that they request.
    pub assigned: Vec<(String, i64)>,
}

/// A node and its jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: Node,
    /// The running jobs with their shares of this node.
    pub jobs: Vec<(JobId, NodeShare)>,
    /// True if one of the jobs uses the node exclusively.
    pub exclusive: bool,
    /// The reservations that have resources of the node, now or at their next occurrence.
    pub reservations: Vec<String>,
    /// True if one of the reservations has the whole node now.
    pub reserved: bool,
}

/// Facts about the server that clients need to display any answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Server name: the part of a job id after the dot.
    pub name: String,
    /// Host of the server.
    pub host: String,
    /// Lanai's version.
    pub version: String,
    /// The queue of jobs submitted without `-q`.
    pub default_queue: Option<String>,
    /// A text of the administrators that `qstat` shows to all users.
    #[serde(default)]
    pub comment: Option<String>,
    /// Default options of qsub.
    #[serde(default)]
    pub default_qsub_arguments: String,
    /// True if all users may see all jobs.
    #[serde(default = "yes")]
    pub query_other_jobs: bool,
    /// The steps of the wall clock, which are needed to display times.
    pub clock: ClockTable,
    /// schedd's clock at the time of the answer.
    #[serde(default)]
    pub now: Time,
    /// All resource definitions.
    pub resources: Resources,
    /// Users (`name@host`, `*`) with all rights.
    pub managers: Vec<String>,
    /// Users who may change other users' jobs.
    pub operators: Vec<String>,
    /// True if the caller is a manager, an operator, root, or the user of a personal installation.
    pub privileged: bool,
    /// True if finished jobs are kept in the history.
    #[serde(default = "yes")]
    pub history: bool,
    /// True if scheduling cycles start jobs.
    #[serde(default = "yes")]
    pub scheduling: bool,
    /// The fair-share priorities that users with jobs had in the last cycle, sorted by account and
    /// user. Empty if the policy does not use fair-share priorities (I7).
    #[serde(default)]
    pub fair_shares: Vec<(Member, f64)>,
    /// True if the configured order of jobs computes priorities; false for first come, first
    /// served.
    #[serde(default)]
    pub has_scores: bool,
}

impl ServerFacts {
    /// The key under which the spool stores the configured objects.
    pub const OBJECTS: &str = "objects";
    /// The key under which the spool stores the fair-share priorities of the last cycle.
    pub const FAIR_SHARES: &str = "fairshare";

    /// Returns the fair-share priority of a user's jobs under an account; None if unknown.
    pub fn fair_share(&self, user: &str, account: Option<&str>) -> Option<f64> {
        let of = (account.unwrap_or_default(), user);
        let at = self
            .fair_shares
            .binary_search_by(|(member, _)| (&*member.account, &*member.user).cmp(&of));
        at.ok().map(|at| self.fair_shares[at].1)
    }
}

fn yes() -> bool {
    true
}

/// The reply to `schedd --status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScheddStatus {
    /// Process id of schedd.
    pub pid: u32,
    /// Lanai's version.
    pub version: String,
    /// The directory of the spool.
    pub spool: Text,
    /// Number of unfinished jobs in each state. An array counts as one job; in addition, each of
    /// its started subjobs counts.
    pub jobs: Vec<(JobState, u64)>,
    /// The name of each node, and true if the node responds.
    pub nodes: Vec<(String, bool)>,
    /// Time since the start of schedd.
    pub uptime: Span,
    /// A report if none of the queued jobs can ever run; None otherwise. Also None if no job is
    /// queued, if a job runs or waits for its begin time, or if a configured node has never
    /// connected.
    #[serde(default)]
    pub stuck: Option<StuckJobs>,
    /// Starts and ends of jobs.
    #[serde(default)]
    pub attempts: AttemptCounts,
}

/// Numbers of attempts to run a job since the start of schedd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptCounts {
    /// Number of started attempts.
    pub started: u64,
    /// Number of attempts that ended, those of requeued jobs included.
    pub ended: u64,
}

/// A report that none of the queued jobs can ever run, even if every node were up and empty. schedd
/// makes it only if no job runs or waits for its begin time. Held jobs do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckJobs {
    /// Number of queued jobs.
    pub jobs: u64,
    /// The queued job with the lowest number.
    pub first: JobId,
    /// Why the first job cannot run, and the most similar request that could run.
    pub why: String,
}
