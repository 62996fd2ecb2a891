//! Requests of clients to schedd, and its replies. No client message carries an identity: the
//! kernel provides it ([`super::peer`]). Messages between schedd and noded are in [`super::order`].

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

/// The protocol version in every frame. A daemon and a client of different versions report the
/// mismatch and disconnect.
pub const VERSION: u16 = 1;

/// A request of a client to schedd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientRequest {
    /// `qsub`.
    Submit(Box<NewJob>),
    /// `qalter`: attributes under their PBS names; all or none are set.
    Alter(JobId, Vec<AttributeSetting>),
    /// `qhold`.
    Hold(JobId, Holds),
    /// `qrls`.
    Release(JobId, Holds),
    /// `qdel`.
    Delete {
        /// The job.
        job: JobId,
        /// These subjobs of the array only.
        only: Option<Indices>,
        /// `-W force`: the job is finished at once, without waiting for its node.
        force: bool,
        /// `-x`: also remove the job from the history.
        purge: bool,
    },
    /// `qrerun`.
    Rerun {
        /// The job.
        job: JobId,
        /// These subjobs of the array only.
        only: Option<Indices>,
        /// `-W force`.
        force: bool,
    },
    /// `qrerun --failed`: requeues the failed subjobs of this array, even if it has finished.
    RerunFailed(JobId),
    /// `qalter --retry`: requeues a finished job that failed or was deleted, or such subjobs of an
    /// array.
    Retry {
        /// The job.
        job: JobId,
        /// These subjobs of the array only.
        only: Option<Indices>,
    },
    /// `qsig`.
    Signal {
        /// The job.
        job: JobId,
        /// These subjobs of the array only.
        only: Option<Indices>,
        /// Signal name with or without `SIG`, or number.
        signal: String,
    },
    /// `qmove` to another queue: `queue`, `queue@server`, `@server`.
    Move(JobId, String),
    /// `qorder`: swaps two jobs.
    Swap(JobId, JobId),
    /// `qmsg`: writes a line to the output files of a running job.
    Message {
        /// The job.
        job: JobId,
        /// Whether to standard output.
        output: bool,
        /// Whether to standard error.
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
        /// `-a`: accepted even if the job cannot start now.
        detached: bool,
    },
    /// Answered by [`Reply::Ended`] when the job has finished (`qsub -W block=true`).
    Wait(JobId),
    /// `qstat`, `qselect`, `pbsnodes` of a user who may not open the spool.
    Ask(Question),
    /// `pbsnodes -o`, `-r`, `-C`. None leaves a value unchanged.
    MarkNode {
        /// The node.
        node: String,
        /// Whether the node accepts no new jobs.
        offline: Option<bool>,
        /// The comment; empty clears it.
        comment: Option<String>,
    },
    /// `pbsnodes --gone`: the node's host will not return, and no process runs there. Managers
    /// only.
    DeclareGone {
        /// The node.
        node: String,
    },
    /// Connects the caller, who must be the job's owner, to the terminal of a running interactive
    /// job (`qsub -I`). Answered by [`Reply::Attached`] with a descriptor.
    Attach(JobId),
    /// Answered by [`Reply::Changed`] after a visible change, so that clients need not poll. A
    /// connection has at most one open watch, the last.
    Watch {
        /// The jobs to watch.
        of: WatchedJobs,
        /// The number in the last answer. 0 is answered at once.
        since: u64,
    },
    /// `schedd --status`.
    Status,
    /// `schedd --stop`: exit; running jobs continue.
    Stop,
    /// `qmgr`: a command on one object.
    Amend(QmgrCommand),
    /// `qmgr`: imports the program of a hook.
    ImportHook {
        /// The hook.
        name: String,
        /// The contents of the file.
        content: Vec<u8>,
    },
    /// `pbs_rsub`.
    Reserve(Box<ReservationRequest>),
    /// `pbs_ralter`.
    AlterReservation {
        /// The reservation.
        id: String,
        /// The changed terms.
        changes: Box<ReservationRequest>,
        /// `-W force`: even if jobs or other reservations conflict.
        force: bool,
    },
    /// `pbs_rdel`.
    DeleteReservation(String),
    /// `pbs_release_nodes`: releases the nodes that a running job does not keep.
    ReleaseNodes(JobId, KeptNodes),
    /// `qalter --shove`: makes the scheduler retry a deferred job now.
    Shove(JobId),
    /// `qterm`: exit, depending on running jobs.
    Terminate {
        /// What happens to running jobs.
        manner: QtermMode,
        /// Whether the nodeds exit too.
        nodes: bool,
    },
    /// A new job of a nested instance, with a system hold: a copy of a job of its parent.
    Adopt(Box<Adoption>),
    /// The job moves to a nested instance, which has a held copy. A repeated claim is granted
    /// again.
    Claim(NestedClaim),
    /// Ends a held copy in a nested instance: the job was not claimed.
    GiveBack {
        /// The copy.
        copy: JobId,
        /// The full id of the job.
        to: String,
    },
    /// A command with several job ids. Answered by [`Reply::Batch`] or [`Reply::NotBatched`].
    Batch(Batch),
}

/// What happens to running jobs at a shutdown of schedd (`qterm -t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QtermMode {
    /// Running jobs continue.
    Quick,
    /// Running jobs are requeued; schedd waits for those that cannot be rerun.
    Delay,
    /// Running jobs are requeued; those that cannot be rerun are deleted.
    Immediate,
}

/// A reply of schedd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The job is on disk.
    Accepted {
        /// Full id of the job.
        id: String,
        /// How the result differs from the request.
        notes: Vec<String>,
    },
    /// Done, and on disk.
    Done,
    /// Done and on disk, with warnings.
    Noted(Vec<String>),
    /// Nothing was done: submit the job again with these default options of the server.
    Defaults(String),
    /// Nothing was done.
    Refused(Refusal),
    /// The awaited job has finished.
    Ended {
        /// `Exit_status`.
        status: i32,
        /// The user who deleted the job, if one did.
        deleted_by: Option<String>,
    },
    /// Carries a descriptor of a connection to the job's shepherd ([`super::terminal`]).
    Attached,
    /// Reply to [`ClientRequest::Watch`].
    Changed {
        /// The number to send with the next [`ClientRequest::Watch`], so that no later change is
        /// missed.
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
        /// Whether the reservation is confirmed; None while that is open.
        confirmed: Option<bool>,
    },
    /// Reply to [`ClientRequest::Batch`], for each of its jobs in order: done with warnings, or
    /// refused.
    Batch(Vec<Result<Vec<String>, Refusal>>),
    /// Reply to [`ClientRequest::Batch`]: nothing was done. The site's hooks apply to these
    /// requests, so they must be sent one by one.
    NotBatched,
}

impl ClientRequest {
    /// Whether the request asks for a change, not only for information.
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

    /// Whether a repetition has the same effect, so that a client may repeat it if there was no
    /// reply.
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

/// The jobs of which a client receives changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchedJobs {
    /// These jobs; a subjob stands for its whole array.
    Jobs(Vec<JobId>),
    /// The caller's jobs.
    Mine,
    /// All jobs.
    Any,
}

/// The nodes for a job started by `qrun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placing {
    /// Any nodes.
    Anywhere,
    /// Some of these nodes.
    On(Vec<String>),
    /// The nodes where the job ran before.
    Again,
}

/// A submitted job, before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// A random number of the client. Two submissions of a user with the same token are one job, so
    /// a submission without a reply can be repeated.
    pub token: [u8; 16],
    /// Attributes under their PBS names, in the order in which they take effect.
    pub settings: Vec<AttributeSetting>,
    /// The script or command.
    pub payload: Payload,
    /// The job's environment: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The directory where qsub ran, absolute.
    pub workdir: Text,
    /// The host where qsub ran.
    pub submit_host: String,
    /// The arguments of qsub, joined by spaces.
    pub arguments: Text,
    /// The server's default options that were applied.
    pub defaults: String,
    /// The script, once schedd has stored it; `payload` is then empty. Not part of the message.
    #[serde(skip)]
    pub stored: Option<Arc<StoredScript>>,
}

impl NewJob {
    /// The length of the script in bytes. None for a command.
    pub fn script_size(&self) -> Option<usize> {
        match (&self.stored, &self.payload) {
            (Some(stored), _) => Some(stored.size),
            (None, Payload::Script(text)) => Some(text.len()),
            (None, Payload::Command(_)) => None,
        }
    }
}

/// A script that schedd has stored. It stays in the spool as long as a job refers to it.
#[derive(Debug, PartialEq, Eq)]
pub struct StoredScript {
    /// The key under which the script is stored.
    pub digest: Digest,
    /// Length of the script in bytes.
    pub size: usize,
}

/// A waiting job that its owner's nested instances can take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The job.
    pub job: JobId,
    /// Attributes and requests of the job.
    pub spec: Arc<Spec>,
    /// A digest of `spec`, for the claim.
    pub revision: Digest,
    /// The script's text, if it has one.
    #[serde(with = "super::raw")]
    pub script: Vec<u8>,
    /// The job's environment: `K=V` entries, each ended by a zero byte.
    #[serde(with = "super::raw")]
    pub environ: Vec<u8>,
}

/// A job to copy into a nested instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adoption {
    /// Random number: two adoptions with the same token are one job.
    pub token: [u8; 16],
    /// The job of the parent.
    pub offered: Offered,
}

/// Ends a job that continues in a nested instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedClaim {
    /// The job.
    pub job: JobId,
    /// [`Offered::revision`]: the claim of a job altered since then is refused.
    pub revision: Digest,
    /// The full id of the copy.
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

/// A query. The spool or schedd can answer it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Jobs by number, finished or not; unknown ones are omitted.
    JobsById(Vec<JobId>, Detail),
    /// Jobs that match a filter.
    Jobs(Filter, Detail),
    /// The subjobs of an array, all or these, in index order.
    Elements(JobId, Option<Indices>, Detail),
    /// All queues with their job counts.
    Queues,
    /// All nodes with their jobs.
    Nodes,
    /// The server itself.
    Server,
    /// The job and its events.
    Trace(JobId),
    /// All reservations.
    Reservations,
    /// The configured objects, as `qmgr` shows them.
    Objects,
    /// Totals of accounting records, grouped by these keys.
    Accounts(Box<AccountingFilter>, Vec<GroupKey>),
    /// Accounting records by job, of these jobs or of all if none are named. An array means its
    /// subjobs.
    Entries(Box<AccountingFilter>, Vec<JobId>),
    /// A forecast.
    Ahead(ForecastQuery),
    /// The last scheduling cycles and their triggers; for operators.
    Cycles,
    /// `schedd --nested --queue`: the first job of the caller in this queue that a nested instance
    /// can take.
    Offer {
        /// The queue.
        queue: String,
        /// Jobs to skip.
        except: BTreeSet<JobId>,
    },
}

impl Question {
    /// The rest of this query after a job, in the order of the answer. None if there is no rest, or
    /// the query is not for a list of jobs.
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

/// The amount of data per job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// The columns of a plain `qstat`.
    Row,
    /// Everything except the environment.
    Whole,
    /// Everything, with the environment if the caller may see it.
    Environment,
}

/// A filter of jobs. An empty list of states, queues or owners means any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Unfinished, finished, or both.
    pub history: History,
    /// In one of these queues.
    pub queues: Vec<String>,
    /// Owned by one of these users.
    pub owners: Vec<String>,
    /// In one of these states.
    pub states: Vec<JobState>,
    /// Arrays, their subjobs, or both.
    pub arrays: Arrays,
    /// Only jobs after this one.
    pub after: Option<JobId>,
}

/// How arrays are shown in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrays {
    /// Jobs and arrays, without subjobs.
    #[default]
    Folded,
    /// `-J`: arrays only.
    Only,
    /// `-t`: jobs, and arrays followed by their subjobs.
    Unfolded,
    /// `-Jt`: subjobs only.
    ElementsOnly,
}

impl Arrays {
    /// The form that the flags `-J` and `-t` select.
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

    /// Whether the list contains subjobs.
    pub fn shows_elements(self) -> bool {
        matches!(self, Arrays::Unfolded | Arrays::ElementsOnly)
    }
}

impl Filter {
    /// Whether a job of this id is after the start of the filter.
    pub fn reaches(&self, id: JobId) -> bool {
        self.after.is_none_or(|after| id > after)
    }

    /// Whether the filter includes this state.
    pub fn shows(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// Whether to include finished jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum History {
    /// Unfinished jobs.
    #[default]
    Live,
    /// Both.
    All,
    /// Finished jobs.
    Finished,
}

/// A part of an answer. Jobs come in the order of their numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientAnswer {
    /// For [`Detail::Row`].
    Rows(Vec<JobRow>),
    /// For the other details.
    Jobs(Vec<JobRecord>),
    /// Comes before jobs by number, and before lists with subjobs: the maximum length of the ids to
    /// come, without server name. For an array the ids of its subjobs count.
    Longest(u32),
    /// For [`Question::Queues`].
    Queues(Vec<QueueCounts>),
    /// For [`Question::Nodes`].
    Nodes(Vec<NodeRecord>),
    /// For [`Question::Trace`], after the job: its events in order.
    Events(Vec<(Time, Event)>),
    /// For [`Question::Server`], and first in every answer, since it is needed to show ids and
    /// times.
    Server(Box<ServerFacts>),
    /// For [`Question::Reservations`].
    Reservations(Vec<Reservation>),
    /// For [`Question::Objects`].
    Objects(Vec<Described>),
    /// For [`Question::Accounts`].
    Tallies(Vec<RequestTotals>),
    /// For [`Question::Entries`].
    Entries(Vec<AccountingEntry>),
    /// For [`Question::Ahead`].
    Ahead(ForecastAnswer),
    /// For [`Question::Cycles`], oldest first.
    Cycles(Vec<CycleRecord>),
    /// For [`Question::Offer`]: the job, if any, or why this queue offers none.
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
    /// Why a queued job does not start.
    pub reason: Option<Reason>,
    /// Since when the job can never start, if it could before.
    pub never_since: Option<Time>,
    /// The planned start.
    pub promise: Option<PromisedStart>,
    /// Number of requeued subjobs of an array.
    pub waiting_again: u32,
    /// The environment, if requested and visible to the caller.
    pub environ: Option<Vec<u8>>,
    /// Dependencies of the job, in both directions.
    pub links: Vec<DependencyView>,
    /// The computed priority of a waiting job. It is not in the spool: the client adds it from the
    /// answer to [`super::ahead::ForecastQuery::Scores`].
    #[serde(default)]
    pub score: Option<f64>,
}

/// A queue and the jobs in it by state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueCounts {
    /// The queue.
    pub queue: Queue,
    /// Jobs by state, finished ones included.
    pub jobs: Vec<(JobState, u64)>,
    /// Number of running subjobs.
    pub elements: u64,
    /// Consumable resources held by its running jobs, as amounts.
    pub assigned: Vec<(String, i64)>,
}

/// A node and its jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: Node,
    /// The running jobs with their shares of this node.
    pub jobs: Vec<(JobId, NodeShare)>,
    /// Whether one of the jobs uses the node exclusively.
    pub exclusive: bool,
    /// The reservations that hold shares of the node, now or at their next occurrence.
    pub reservations: Vec<String>,
    /// Whether one of the reservations holds the whole node now.
    pub reserved: bool,
}

/// The facts about the server that every display needs.
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
    /// A text of the administrators for all users who list jobs.
    #[serde(default)]
    pub comment: Option<String>,
    /// Default options of qsub.
    #[serde(default)]
    pub default_qsub_arguments: String,
    /// Whether all users see all jobs.
    #[serde(default = "yes")]
    pub query_other_jobs: bool,
    /// The steps of the wall clock, to show times.
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
    /// Whether the caller is a manager, an operator, root, or the only user of a personal system.
    pub privileged: bool,
    /// Whether finished jobs are kept and shown.
    #[serde(default = "yes")]
    pub history: bool,
    /// Whether cycles start jobs.
    #[serde(default = "yes")]
    pub scheduling: bool,
    /// The fair-share priorities of users with jobs, by account, as of the last cycle. Empty if the
    /// policy does not use them (I7).
    #[serde(default)]
    pub fair_shares: Vec<(Member, f64)>,
    /// Whether the order computes job priorities: all orders except first come, first served.
    #[serde(default)]
    pub has_scores: bool,
}

impl ServerFacts {
    /// The key under which the spool keeps the configured objects.
    pub const OBJECTS: &str = "objects";
    /// The key under which the spool keeps the fair-share priorities of the last cycle.
    pub const FAIR_SHARES: &str = "fairshare";

    /// The fair-share priority of a user's jobs under an account.
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
    /// Jobs by state.
    pub jobs: Vec<(JobState, u64)>,
    /// Nodes, and whether each responds.
    pub nodes: Vec<(String, bool)>,
    /// Time since the start of schedd.
    pub uptime: Span,
    /// Set if the only jobs left are waiting jobs that can never run.
    #[serde(default)]
    pub stuck: Option<StuckJobs>,
}

/// None of the remaining jobs that are not held can ever run, even if every node were up and empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckJobs {
    /// Number of these jobs.
    pub jobs: u64,
    /// The first of these jobs.
    pub first: JobId,
    /// Why the first job cannot run, with the nearest request that could.
    pub why: String,
}
