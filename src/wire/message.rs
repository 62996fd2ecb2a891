//! What clients ask of schedd, and what it answers. No client message carries an identity: that
//! comes from the kernel ([`super::peer`]). What schedd and noded tell each other is in
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

/// The version every frame carries. A daemon and a client of different versions say so in one
/// line and part.
pub const VERSION: u16 = 1;

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientRequest {
    /// `qsub`.
    Submit(Box<NewJob>),
    /// `qalter`: attributes as PBS names them; all or none are set.
    Alter(JobId, Vec<AttributeSetting>),
    /// `qhold`.
    Hold(JobId, Holds),
    /// `qrls`.
    Release(JobId, Holds),
    /// `qdel`.
    Delete {
        /// Which job.
        job: JobId,
        /// Of an array: these elements alone.
        only: Option<Indices>,
        /// `-W force`: over at once, whatever its node says.
        force: bool,
        /// `-x`: out of the history too.
        purge: bool,
    },
    /// `qrerun`.
    Rerun {
        /// Which job.
        job: JobId,
        /// Of an array: these elements alone.
        only: Option<Indices>,
        /// `-W force`.
        force: bool,
    },
    /// `qrerun --failed`: the elements of this array that failed wait again, also when it is over.
    RerunFailed(JobId),
    /// `qalter --retry`: a job that is over and has failed or was deleted waits again, an array
    /// with such elements.
    Retry {
        /// Which job.
        job: JobId,
        /// Of an array: these elements alone.
        only: Option<Indices>,
    },
    /// `qsig`.
    Signal {
        /// Which job.
        job: JobId,
        /// Of an array: these elements alone.
        only: Option<Indices>,
        /// By name, with or without `SIG`, or by number.
        signal: String,
    },
    /// `qmove`: to another queue: `queue`, `queue@server`, `@server`.
    Move(JobId, String),
    /// `qorder`: two jobs change places.
    Swap(JobId, JobId),
    /// `qmsg`: a line into the files of a running job.
    Message {
        /// Which job.
        job: JobId,
        /// Whether into its standard output.
        output: bool,
        /// Whether into its standard error.
        errors: bool,
        /// What to say, without the newline.
        text: Text,
    },
    /// `qrun`: start the job now, whatever the order.
    Run {
        /// Which job.
        job: JobId,
        /// On which nodes; any if there are none.
        on: Placing,
        /// `-a`: granted though it does not fit now.
        detached: bool,
    },
    /// Answered by [`Reply::Ended`] when the job is over (`qsub -W block=true`).
    Wait(JobId),
    /// `qstat`, `qselect`, `pbsnodes` of a caller who may not open the spool.
    Ask(Question),
    /// `pbsnodes -o`, `-r`, `-C`: None leaves as it is.
    MarkNode {
        /// Which node.
        node: String,
        /// Accept no new jobs, or again.
        offline: Option<bool>,
        /// The comment; empty clears it.
        comment: Option<String>,
    },
    /// `pbsnodes --gone`: the node's host will not return, and nothing runs there any more.
    /// Managers only.
    DeclareGone {
        /// Which node.
        node: String,
    },
    /// Connects the caller, who must be its owner, to the terminal of a running interactive job
    /// (`qsub -I`): answered by [`Reply::Attached`], and a descriptor with it.
    Attach(JobId),
    /// Answered by [`Reply::Changed`] once something visible has changed: the client need not ask
    /// again and again. At most one is open on a connection, the last.
    Watch {
        /// Of which jobs.
        of: WatchedJobs,
        /// The number in the last answer; 0 is answered at once.
        since: u64,
    },
    /// `schedd --status`.
    Status,
    /// `schedd --stop`: leave; running jobs go on.
    Stop,
    /// `qmgr`: a command about one object.
    Amend(QmgrCommand),
    /// `qmgr`: the program of a hook.
    ImportHook {
        /// Of which.
        name: String,
        /// The file.
        content: Vec<u8>,
    },
    /// `pbs_rsub`.
    Reserve(Box<ReservationRequest>),
    /// `pbs_ralter`.
    AlterReservation {
        /// Which.
        id: String,
        /// What is to be different.
        changes: Box<ReservationRequest>,
        /// `-W force`: also where jobs or other reservations are in the way.
        force: bool,
    },
    /// `pbs_rdel`.
    DeleteReservation(String),
    /// `pbs_release_nodes`: what a running job does not keep, it gives back.
    ReleaseNodes(JobId, KeptNodes),
    /// `qalter --shove`: the scheduler looks at a job now, which is no longer put off.
    Shove(JobId),
    /// `qterm`: leave, when what runs allows it.
    Terminate {
        /// What becomes of what runs.
        manner: QtermMode,
        /// Whether the nodeds leave too.
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
    /// They go on.
    Quick,
    /// They are put back into their queues; those that cannot be run again are waited for.
    Delay,
    /// They are put back into their queues; those that cannot be run again are deleted.
    Immediate,
}

/// What schedd answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The job is on disk.
    Accepted {
        /// Its full id.
        id: String,
        /// How the result differs from the request.
        notes: Vec<String>,
    },
    /// Done, and on disk.
    Done,
    /// The same, but not all as it was asked for.
    Noted(Vec<String>),
    /// Nothing was done: the job is to be submitted with these options of the server's, too.
    Defaults(String),
    /// Nothing was done.
    Refused(Refusal),
    /// The awaited job is over.
    Ended {
        /// `Exit_status`.
        status: i32,
        /// The user who deleted the job, if one did.
        deleted_by: Option<String>,
    },
    /// With it comes a descriptor: at its other end is the job's shepherd ([`super::terminal`]).
    Attached,
    /// To [`ClientRequest::Watch`].
    Changed {
        /// To send with the next [`ClientRequest::Watch`], so that no change from now on is missed.
        seen: u64,
    },
    /// Part of the answer to [`ClientRequest::Ask`]; [`Reply::Done`] follows the last part.
    Part(ClientAnswer),
    /// To [`ClientRequest::Status`].
    Status(Box<ScheddStatus>),
    /// To [`ClientRequest::Reserve`] and [`ClientRequest::AlterReservation`]: known under this full
    /// id.
    Reserved {
        /// `R12.head`.
        id: String,
        /// Whether it can be had; None if that is not known yet.
        confirmed: Option<bool>,
    },
    /// To [`ClientRequest::Batch`], for each of its jobs in their order: done, with what is not as
    /// it was asked for, or refused.
    Batch(Vec<Result<Vec<String>, Refusal>>),
    /// To [`ClientRequest::Batch`]: nothing was done. Hooks of the site are asked about each of
    /// these requests, so they must be sent one by one.
    NotBatched,
}

impl ClientRequest {
    /// Whether it asks for a change, and not only for an answer.
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

    /// Whether asking again comes to the same: a client that got no answer then simply does.
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

/// The jobs of which a client wants to receive changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchedJobs {
    /// These; an element stands for its whole array.
    Jobs(Vec<JobId>),
    /// The caller's own.
    Mine,
    /// Anybody's.
    Any,
}

/// Where `qrun` wants a job to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placing {
    /// Wherever it fits.
    Anywhere,
    /// On some of these nodes.
    On(Vec<String>),
    /// On the nodes where it ran before.
    Again,
}

/// A new job, before the server has looked at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// Made up by the client, at random: two submissions of one user with one token are one job,
    /// so one that got no answer can be repeated.
    pub token: [u8; 16],
    /// Attributes as PBS names them, in the order in which they take effect.
    pub settings: Vec<AttributeSetting>,
    /// What to run.
    pub payload: Payload,
    /// The environment handed on: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// Where qsub ran, absolute.
    pub workdir: Text,
    /// The host where qsub ran.
    pub submit_host: String,
    /// The command line's arguments, joined by blanks.
    pub arguments: Text,
    /// The server's default options that were applied.
    pub defaults: String,
    /// The script, once schedd has stored it; `payload` is then empty. No part of the message.
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
    /// What it is stored under.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: usize,
}

/// A waiting job that its owner's nested instances can take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The job.
    pub job: JobId,
    /// What it asks for.
    pub spec: Arc<Spec>,
    /// A digest of `spec`, for the claim.
    pub revision: Digest,
    /// The script's text, if it has one.
    #[serde(with = "super::raw")]
    pub script: Vec<u8>,
    /// The environment handed on: `K=V` entries, each ended by a zero byte.
    #[serde(with = "super::raw")]
    pub environ: Vec<u8>,
}

/// A job for a nested instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adoption {
    /// Random: two adoptions with one token are one job.
    pub token: [u8; 16],
    /// The job of the parent.
    pub offered: Offered,
}

/// Ends a job because it goes on in a nested instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedClaim {
    /// The job.
    pub job: JobId,
    /// [`Offered::revision`]: a job that was altered since then is refused.
    pub revision: Digest,
    /// The full id of the copy.
    pub to: String,
    /// Random: of this claim and its repetitions.
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

/// What a reader wants to know. The same question goes to the spool directly or to schedd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Jobs by number, finished or not; unknown ones are left out of the answer.
    JobsById(Vec<JobId>, Detail),
    /// Jobs by what they are.
    Jobs(Filter, Detail),
    /// The elements of an array, all or these alone, in the order of their indices.
    Elements(JobId, Option<Indices>, Detail),
    /// All queues, with their counts of jobs.
    Queues,
    /// All nodes, with what runs on them.
    Nodes,
    /// The server itself.
    Server,
    /// What has happened to a job, and the job.
    Trace(JobId),
    /// All reservations.
    Reservations,
    /// What is configured, as `qmgr` shows it.
    Objects,
    /// What entries of the accounts come to, taken together by these keys.
    Accounts(Box<AccountingFilter>, Vec<GroupKey>),
    /// Entries of the accounts, in the order of their jobs; of these jobs, an array standing for
    /// its elements, or of any if there are none.
    Entries(Box<AccountingFilter>, Vec<JobId>),
    /// What is to come.
    Ahead(ForecastQuery),
    /// The last looks of the scheduler, and why it looked; for operators.
    Cycles,
    /// `schedd --nested --queue`: the first job of the caller in this queue that a nested instance
    /// can take.
    Offer {
        /// The queue.
        queue: String,
        /// Jobs that are left out.
        except: BTreeSet<JobId>,
    },
}

impl Question {
    /// The same about what comes after a job, in the order of the answer; None if that is not asked
    /// for or there can be nothing.
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

/// How much of each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// The columns of a plain `qstat`.
    Row,
    /// All but the environment.
    Whole,
    /// All, with the environment where the caller may see it.
    Environment,
}

/// Which jobs; an empty list of states, queues or owners means any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Unfinished, finished, or both.
    pub history: History,
    /// In one of these queues.
    pub queues: Vec<String>,
    /// Of one of these users.
    pub owners: Vec<String>,
    /// In one of these states.
    pub states: Vec<JobState>,
    /// Arrays, their elements, or both.
    pub arrays: Arrays,
    /// Only those that come after this one.
    pub after: Option<JobId>,
}

/// How arrays are shown in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrays {
    /// Once each, beside jobs that are none.
    #[default]
    Folded,
    /// `-J`: once each, and nothing else.
    Only,
    /// `-t`: each followed by its elements, beside jobs that are none.
    Unfolded,
    /// `-Jt`: their elements, and nothing else.
    ElementsOnly,
}

impl Arrays {
    /// What `-J` and `-t`, or neither, ask for.
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

    /// Whether elements stand in the list.
    pub fn shows_elements(self) -> bool {
        matches!(self, Arrays::Unfolded | Arrays::ElementsOnly)
    }
}

impl Filter {
    /// Whether a job of this id is among those that come after the one it begins with.
    pub fn reaches(&self, id: JobId) -> bool {
        self.after.is_none_or(|after| id > after)
    }

    /// Whether a job in this state is meant.
    pub fn shows(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// Whether finished jobs are meant.
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
    /// Comes before jobs by number, and before lists with elements of arrays: the most characters
    /// of an id to come, without the name of its server. An array counts with the ids of its
    /// elements.
    Longest(u32),
    /// For [`Question::Queues`].
    Queues(Vec<QueueCounts>),
    /// For [`Question::Nodes`].
    Nodes(Vec<NodeRecord>),
    /// For [`Question::Trace`], after the job: what has happened, in this order.
    Events(Vec<(Time, Event)>),
    /// For [`Question::Server`], and first in every answer: how to show ids and times.
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
    /// For [`Question::Cycles`], the first first.
    Cycles(Vec<CycleRecord>),
    /// For [`Question::Offer`]: the job, if there is one, or why this queue has none.
    Offer(Box<Result<Option<Offered>, Refusal>>),
}

/// The columns of a plain `qstat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its number.
    pub id: JobId,
    /// `Job_Name`.
    pub name: String,
    /// The owner's user name.
    pub owner: String,
    /// Processor time used; None if it has never run.
    pub cput: Option<Span>,
    /// The state.
    pub state: JobState,
    /// The queue.
    pub queue: String,
}

/// A job with what is kept elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: Job,
    /// Why it does not start, for a queued job.
    pub reason: Option<Reason>,
    /// Since when it can never start, if it could before.
    pub never_since: Option<Time>,
    /// The start promised to it.
    pub promise: Option<PromisedStart>,
    /// Of an array: elements that have begun and wait to be started again.
    pub waiting_again: u32,
    /// The environment, where asked for and the caller may see it.
    pub environ: Option<Vec<u8>>,
    /// Its dependencies: what it waits for, and who waits for it.
    pub links: Vec<DependencyView>,
    /// The priority that the order computed for it, while it waits. The spool does not know it: the
    /// client adds what schedd answers to [`super::ahead::ForecastQuery::Scores`].
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
    /// Elements of arrays that run.
    pub elements: u64,
    /// Consumables held by its running jobs, as amounts.
    pub assigned: Vec<(String, i64)>,
}

/// A node and what runs on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: Node,
    /// The running jobs and what each holds here.
    pub jobs: Vec<(JobId, NodeShare)>,
    /// Whether one of them has the node to itself.
    pub exclusive: bool,
    /// The reservations that have something of it, now or the next time they come.
    pub reservations: Vec<String>,
    /// Whether one of them has the node to itself now.
    pub reserved: bool,
}

/// What every display needs to know of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFacts {
    /// The name after the dot of every job id.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Lanai's version.
    pub version: String,
    /// The queue of jobs submitted without `-q`.
    pub default_queue: Option<String>,
    /// A text of the administrators for all users who list jobs.
    #[serde(default)]
    pub comment: Option<String>,
    /// What counts as said to qsub where nothing else is.
    #[serde(default)]
    pub default_qsub_arguments: String,
    /// Whether all users see all jobs.
    #[serde(default = "yes")]
    pub query_other_jobs: bool,
    /// How to show times.
    pub clock: ClockTable,
    /// schedd's clock when it was asked.
    #[serde(default)]
    pub now: Time,
    /// All resources known.
    pub resources: Resources,
    /// Users (`name@host`, `*`) who may do anything.
    pub managers: Vec<String>,
    /// Users who may act on others' jobs.
    pub operators: Vec<String>,
    /// Whether the caller is one of either, or root, or the one user of a personal system.
    pub privileged: bool,
    /// Whether finished jobs are kept and shown.
    #[serde(default = "yes")]
    pub history: bool,
    /// Whether cycles start jobs.
    #[serde(default = "yes")]
    pub scheduling: bool,
    /// The fair-share priorities of those who have jobs, by the account they ask for, as of the
    /// last cycle: where the policy goes by such (I7).
    #[serde(default)]
    pub fair_shares: Vec<(Member, f64)>,
    /// Whether the order computes priorities for jobs: all orders but first come, first served.
    #[serde(default)]
    pub has_scores: bool,
}

impl ServerFacts {
    /// Under which name the spool keeps what is configured.
    pub const OBJECTS: &str = "objects";
    /// Under which name the spool keeps the fair-share priorities of the last cycle.
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

/// `schedd --status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScheddStatus {
    /// Its process.
    pub pid: u32,
    /// Lanai's version.
    pub version: String,
    /// Where the spool is.
    pub spool: Text,
    /// Jobs by state.
    pub jobs: Vec<(JobState, u64)>,
    /// Nodes, and whether each answers.
    pub nodes: Vec<(String, bool)>,
    /// Time since it started.
    pub uptime: Span,
    /// What there is to say if no job is left that could ever run, but some that wait to.
    #[serde(default)]
    pub stuck: Option<StuckJobs>,
}

/// None of the remaining jobs that are not held can ever run, even if every node were up and empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckJobs {
    /// How many these are.
    pub jobs: u64,
    /// The first of them.
    pub first: JobId,
    /// Why that one cannot, with the nearest request that could.
    pub why: String,
}
