//! A job: who submitted it, what was asked for, and what became of it.

pub mod accrual;
pub mod array;
pub mod attempt;
pub mod checkpoint;
pub mod deferral;
pub mod dependency;
pub mod digest;
pub mod eligible_time;
pub mod event;
pub(crate) mod failed_start;
pub mod grant;
pub mod held;
pub mod life;
pub mod placeholder;
pub mod preemption;
pub mod promise;
pub mod release;
pub mod response;
pub mod retry;
mod run;
pub mod run_limits;
pub mod staging;
pub mod state;
mod subjobs;
pub mod suspend;
pub mod suspension;
pub mod task;
pub mod value_syntax;

use crate::model::credentials::Credentials;
use crate::model::indices::list::IndexList;
use crate::model::job_id::JobId;
use crate::model::request::placement_requirements::PlacementRequirements;
use crate::model::request::select::Request;
use crate::model::resource::ResourceValue;
use crate::model::signal;
use crate::model::text::Text;
use crate::model::time::{Span, Time, Wall};
use array::{Elements, Indices};
pub use attempt::{Attempt, AttemptOutcome, Exit, How, NodeShare, TaskNumber, Usage, Want};
use attempt::{CheckpointProgress, Released};
use deferral::Deferral;
use dependency::{Awaited, Bars};
use eligible_time::Eligibility;
use preemption::JobPreemption;
use serde::{Deserialize, Serialize};
use state::{Holds, JobState};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use suspension::{Pauses, Suspension};
use task::Tasks;

/// Who submitted the job, as the kernel attested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Name in the account data of schedd's machine.
    pub user: String,
    /// What decides.
    pub uid: u32,
    /// The submitter's primary group.
    pub gid: u32,
}

impl Owner {
    /// Whether this user, whose name was looked up just now, is the owner of a job or a
    /// reservation.
    ///
    /// Both the number and the name must be the same: a site may give either of them to another
    /// person. A user whose name is unknown now is known by the number alone: no other account has
    /// it.
    pub fn is_same_account(&self, owner: &Owner) -> bool {
        self.uid == owner.uid && (self.user == owner.user || self.user == self.uid.to_string())
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Whose it is.
    pub owner: Owner,
    /// What was asked for; changed only by `qalter`.
    pub spec: Arc<Spec>,
    /// What became of it so far.
    pub life: Life,
    /// How its elements stand, if it is an array.
    pub elements: Option<Arc<Elements>>,
}

impl Job {
    /// The indices of its elements, if it is an array.
    pub fn indices(&self) -> Option<Indices> {
        self.elements.as_ref().and(self.spec.array)
    }
}

impl Job {
    /// Whether its owner wants it left alone by those who could have its place (Q9).
    pub fn is_protected(&self) -> bool {
        self.spec
            .other
            .get("no_preempt")
            .is_some_and(|text| text == "True")
    }

    /// Whether this attempt was preempted.
    pub fn makes_way(&self, run: &Run) -> bool {
        self.life
            .preemption
            .as_ref()
            .is_some_and(|told| told.concerns(run.attempt, run.started))
    }

    /// The signal on which it writes down how far it has come and ends, if it does (Y17).
    pub fn interruption(&self) -> Option<i32> {
        signal::parse(self.spec.other.get("interrupt")?)
    }

    /// Whether it can write down how far it has come, when told to.
    pub fn can_checkpoint(&self) -> bool {
        self.interruption().is_some() && self.allows_checkpoints()
    }

    /// Its place among the jobs that wait, the lowest first; ties go by the id. Who has made way
    /// may stand before all others (X25).
    pub fn rank(&self) -> u64 {
        if self.life.boosted {
            0
        } else {
            self.own_rank()
        }
    }

    /// The place that it has by its number, or has got by qorder.
    pub fn own_rank(&self) -> u64 {
        self.life.rank.unwrap_or(self.id.number)
    }
}

/// SHA-256 of a script or an environment, by which the spool keeps it once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What the job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobProgram {
    /// A script, kept in the spool.
    Script(Digest),
    /// `qsub -- command arguments`, run without a shell.
    Command(Vec<Text>),
}

/// `-j`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// `n`: two files.
    #[default]
    No,
    /// `oe`: both into the output file.
    Output,
    /// `eo`: both into the error file.
    Error,
}

/// What the submitter asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// `Job_Name`.
    pub name: String,
    /// `--label`: by what others of its process group may wait for it (Q29).
    #[serde(default)]
    pub label: Option<String>,
    /// `--group`: within which its label counts, and those it waits for.
    #[serde(default)]
    pub process_group: Option<String>,
    /// `-q`, or the default queue.
    pub queue: String,
    /// `-A`.
    pub account: Option<String>,
    /// `-P`; `_pbs_project_default` when not given.
    pub project: String,
    /// `-p`: -1024 to 1023, or 1 to 9999 where the lowest is the best.
    pub priority: i32,
    /// `--user-factor`, 0 to 1: what its owner leaves of its priority.
    #[serde(default = "one")]
    pub user_factor: f64,
    /// `system_priority`: an operator says that it goes before all that have none, and before lower
    /// ones.
    #[serde(default)]
    pub system_priority: Option<i32>,
    /// `-r`: may be started again from the beginning.
    pub rerunnable: bool,
    /// `-a`: not eligible before.
    pub begin: Option<Wall>,
    /// `-j`.
    pub join: Join,
    /// `-o` as shown: `host:/abs/path`, `host:/abs/dir/`; None for the default place.
    pub output: Option<Text>,
    /// `-e`, likewise.
    pub error: Option<Text>,
    /// `-S`, as given: `path[@host],...`.
    pub shell: Option<Text>,
    /// `-W umask=`.
    pub umask: Option<u32>,
    /// `-W block=true`: a client waits for the end.
    pub block: bool,
    /// `-J`: the indices, if it is an array of jobs.
    #[serde(default)]
    pub array: Option<Indices>,
    /// Those of the indices that there are, where some of the range are left out.
    #[serde(default)]
    pub array_list: Option<IndexList>,
    /// `-J %M`, `-W max_run_subjobs=`: so many elements run at once at most; 0 for any number.
    #[serde(default)]
    pub max_run_subjobs: Option<u32>,
    /// `--expand`, `-W expand=`: so many at most, where nobody else wants the room (Q15);
    /// `u32::MAX` for any number, 0 for no more than the limit.
    #[serde(default)]
    pub expand: u32,
    /// `-W retry=`: how often a job that failed is run again.
    #[serde(default)]
    pub retry: u32,
    /// `-W retry_delay=`: how long it waits before that.
    #[serde(default)]
    pub retry_delay: Span,
    /// `-I`: runs on a terminal that its `qsub` is attached to.
    #[serde(default)]
    pub interactive: bool,
    /// Its quality of service, `-W qos=`.
    #[serde(default)]
    pub qos: Option<String>,
    /// Further requirements on where it runs.
    #[serde(default, rename = "wishes")]
    pub placement: PlacementRequirements,
    /// The reservation it asks for, by the queue it is in or by `-W resv=`: it runs nowhere else.
    #[serde(default)]
    pub reservation: Option<String>,
    /// `-l`; jobs that ask for the same may share it.
    pub request: Arc<Request>,
    /// What to run.
    pub program: JobProgram,
    /// The environment handed on (`Variable_List`): `K=V` entries, each ended by a zero byte.
    pub environ: Digest,
    /// Where qsub ran, absolute.
    pub workdir: Text,
    /// Where the job is to start, absolute, if its owner says so.
    #[serde(default)]
    pub init_workdir: Option<Text>,
    /// What the script is given: each argument ended by a zero byte.
    #[serde(default)]
    pub job_arguments: Text,
    /// Where qsub ran: the host.
    pub submit_host: String,
    /// `Submit_arguments`.
    pub arguments: Text,
    /// Attributes kept and shown as given, read where they count (`Mail_Points`, `stagein`,
    /// `warn`, ...) if they count at all (`Checkpoint`); PBS attribute name to text.
    pub other: BTreeMap<String, String>,
}

/// The project of a job that names none.
pub const DEFAULT_PROJECT: &str = "_pbs_project_default";

fn one() -> f64 {
    1.0
}

impl Spec {
    /// A job with all options at their defaults.
    pub fn new(program: JobProgram, environ: Digest, workdir: Text) -> Spec {
        Spec {
            name: "STDIN".to_string(),
            label: None,
            process_group: None,
            queue: String::new(),
            account: None,
            project: DEFAULT_PROJECT.to_string(),
            priority: 0,
            user_factor: 1.0,
            system_priority: None,
            rerunnable: true,
            begin: None,
            join: Join::No,
            output: None,
            error: None,
            shell: None,
            umask: None,
            block: false,
            array: None,
            array_list: None,
            max_run_subjobs: None,
            expand: 0,
            retry: 0,
            retry_delay: Span(0),
            interactive: false,
            qos: None,
            placement: PlacementRequirements::default(),
            reservation: None,
            request: Arc::default(),
            program,
            environ,
            workdir,
            init_workdir: None,
            job_arguments: Text::default(),
            submit_host: String::new(),
            arguments: Text::default(),
            other: BTreeMap::new(),
        }
    }

    /// The elements of the array that it is, none of them begun.
    pub fn elements(&self) -> Option<Elements> {
        let count = self.array?.count();
        Some(self.array_list.as_ref().map_or_else(
            || Elements::new(count),
            |list| Elements::of(&list.positions()),
        ))
    }

    /// How many elements it has, if it is an array.
    pub fn element_count(&self) -> Option<u32> {
        let count = self.array?.count();
        Some(
            self.array_list
                .as_ref()
                .map_or(count, |list| list.positions().len()),
        )
    }

    /// The limits of its running subjobs, if it is an array that has any.
    pub fn subjob_limit(&self) -> Option<SubjobLimit> {
        let limit = self
            .max_run_subjobs
            .filter(|&limit| limit > 0 && self.array.is_some())?;
        Some(SubjobLimit {
            limit,
            most: self.expands_to().unwrap_or(limit),
        })
    }

    /// How many of its elements run at once at most, however much room there is, if it is an array
    /// that takes room beyond its limit (Q15).
    pub fn expands_to(&self) -> Option<u32> {
        let limit = self.max_run_subjobs.filter(|&limit| limit > 0)?;
        Some(self.expand).filter(|&most| most > limit)
    }

    /// The walltime asked for.
    pub fn walltime(&self) -> Option<Span> {
        match self.request.list.get("walltime") {
            Some(ResourceValue::Time(span)) => Some(*span),
            _ => None,
        }
    }
}

/// How many subjobs of an array run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjobLimit {
    /// As `max_run_subjobs`.
    pub limit: u32,
    /// With free resources that no other job wants (`expand`); no less than `limit`.
    pub most: u32,
}

impl SubjobLimit {
    /// That of an array that limits itself no more.
    pub const NONE: SubjobLimit = SubjobLimit {
        limit: u32::MAX,
        most: u32::MAX,
    };
}

/// What became of a job so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Where it stands.
    pub state: JobState,
    /// What bars it from starting.
    pub holds: Holds,
    /// PBS's count of starts; `-W run_count=` and `qalter` may raise it.
    pub run_count: u32,
    /// The number of the latest attempt; 0 before the first.
    pub attempt: Attempt,
    /// Starts in a row that failed by a node's fault.
    pub failed_starts: u32,
    /// How often it was run again because it had failed.
    #[serde(default)]
    pub retries: u32,
    /// The latest attempt, also when it is over.
    pub run: Option<Run>,
    /// What somebody wants of the running job.
    pub want: Want,
    /// What it has used: live while it runs, final afterwards.
    pub used: Usage,
    /// How it ended.
    pub exit: Option<Exit>,
    /// The comment shown; None shows the scheduler's latest reason.
    pub comment: Option<String>,
    /// Submitted.
    pub ctime: Time,
    /// Last changed.
    pub mtime: Time,
    /// Entered its queue.
    pub qtime: Time,
    /// Became eligible; None while held or waiting.
    pub etime: Option<Time>,
    /// Not to be started again before (after a failed start).
    pub not_before: Option<Time>,
    /// The hosts on which starts failed by the host's fault, until a start succeeds.
    #[serde(default)]
    pub failed_hosts: BTreeSet<String>,
    /// How many other hosts may fail before the pause until `not_before` holds for all hosts. With
    /// 0 it does.
    #[serde(default)]
    pub hosts_to_try: u32,
    /// Ended.
    pub obittime: Option<Time>,
    /// What of its dependencies bars it from starting.
    #[serde(default)]
    pub bars: Bars,
    /// The labels that it waits for; its bars count them as well.
    #[serde(default)]
    pub awaits: Vec<Awaited>,
    /// What is said of its end beyond its status: figures, and what became of its files.
    #[serde(default)]
    pub ending: Option<String>,
    /// Its place in the order, if `qorder` gave it another job's; else its number says it.
    #[serde(default)]
    pub rank: Option<u64>,
    /// Of an array: its first element began.
    #[serde(default)]
    pub began: Option<Time>,
    /// Of an array: the highest attempt of its elements that have ended.
    #[serde(default)]
    pub highest: Attempt,
    /// What it accrues while it waits, and its eligible time so far.
    #[serde(default)]
    pub eligibility: Eligibility,
    /// How often it has made way for others.
    #[serde(default)]
    pub preempted: u32,
    /// Whether it goes before its equals, having made way in its latest attempt (X25).
    #[serde(default)]
    pub boosted: bool,
    /// The job of another instance that it was moved to: `7.job1.head`.
    #[serde(default)]
    pub moved_to: Option<String>,
    /// Its latest preemption: which job preempted it, and how.
    #[serde(default, rename = "yielding")]
    pub preemption: Option<Box<JobPreemption>>,
    /// Why its start was put off, if the comment says that it was.
    #[serde(default)]
    pub deferral: Option<Deferral>,
}

/// One attempt: where it runs and what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its number.
    pub attempt: Attempt,
    /// What it holds, chunk by chunk; the first share's node runs the script.
    pub shares: Vec<NodeShare>,
    /// When it was decided.
    pub started: Time,
    /// What it was worth then (F9): the score stays as it was. None for one that was started out of
    /// turn, or by an earlier version.
    #[serde(default)]
    pub score: Option<f64>,
    /// The session the node reported; None until it did.
    pub session: Option<u32>,
    /// The boot of the node it was launched in, once reported.
    pub boot: Option<String>,
    /// Whether the node has still to report its end.
    pub open: bool,
    /// Whether the node has not answered for a while: the job is shown as lost contact.
    #[serde(default)]
    pub silent: bool,
    /// What it has started itself on its nodes; None for nothing yet.
    #[serde(default)]
    pub tasks: Option<Box<Tasks>>,
    /// What it has given back before its end (`pbs_release_nodes`).
    #[serde(default)]
    pub released: Vec<Released>,
    /// Of an element: whether it started beyond what its array limits itself to, in room that
    /// nobody else wanted (Q15).
    #[serde(default)]
    pub extra: bool,
    /// How it stands still, while it does.
    #[serde(default)]
    pub suspension: Option<Box<Suspension>>,
    /// How often and for how long it has stood still before.
    #[serde(default)]
    pub pauses: Option<Box<Pauses>>,
    /// Whether it is to be written down how far it has come.
    #[serde(default)]
    pub checkpoint: CheckpointProgress,
    /// The identity of the state directory of the noded that is ordered to start it. None for an
    /// attempt of an earlier version: it belongs to the state directory that its node had last.
    #[serde(default)]
    pub directory: Option<String>,
}

impl Credentials {
    /// Those of a job.
    pub fn of(job: &Job) -> Credentials {
        Credentials::new(&job.owner, &job.spec)
    }

    /// Those of a job of this owner.
    pub fn new(owner: &Owner, spec: &Spec) -> Credentials {
        Credentials {
            user: owner.user.clone(),
            gid: owner.gid,
            project: spec.project.clone(),
            account: spec.account.clone(),
            qos: spec.qos.clone(),
            queue: spec.queue.clone(),
        }
    }
}
