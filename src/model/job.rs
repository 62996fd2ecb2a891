//! Jobs: owner, submitted options and requests, current state and history.

pub mod accrual;
pub mod array;
pub mod attempt;
pub mod checkpoint;
pub mod deferral;
pub mod dependency;
pub mod digest;
pub mod eligible_time;
pub mod environment;
pub mod event;
pub(crate) mod failed_start;
pub mod grant;
pub mod growth;
pub mod held;
pub mod life;
pub mod output_path;
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
pub mod tags;
pub mod task;
pub mod undo;
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
use dependency::{Awaited, UnmetDependencies};
use eligible_time::Eligibility;
use preemption::JobPreemption;
use serde::{Deserialize, Serialize};
use state::{Holds, JobState};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use suspension::{Pauses, Suspension};
use task::Tasks;

/// Owner of a job or reservation, as attested by the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// User name in the account database of schedd's machine.
    pub user: String,
    /// User id, which permission checks compare.
    pub uid: u32,
    /// Group id of the submitter.
    pub gid: u32,
}

impl Owner {
    /// Tests whether this user is the `owner` recorded with a job or a reservation.
    ///
    /// User id and user name must both match, because a site may reassign either of them to another
    /// person. `self` has the current user name, or the user id as text if no account has this id
    /// now. In the latter case the user id alone decides, because an id without an account has not
    /// been reassigned.
    pub fn is_same_account(&self, owner: &Owner) -> bool {
        self.uid == owner.uid && (self.user == owner.user || self.user == self.uid.to_string())
    }
}

/// A job, a job array or a subjob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Job id.
    pub id: JobId,
    /// User who submitted the job.
    pub owner: Owner,
    /// Options and requests of the job. Commands such as `qalter` and `qmove` change them; events
    /// of the job do not.
    pub spec: Arc<Spec>,
    /// State, history and latest attempt.
    pub life: Life,
    /// States of the subjobs, if the job is an array.
    pub elements: Option<Arc<Elements>>,
}

impl Job {
    /// Returns the range of subjob indices, if the job is an array.
    pub fn indices(&self) -> Option<Indices> {
        self.elements.as_ref().and(self.spec.array)
    }
}

impl Job {
    /// Tests whether the owner set `no_preempt`, which exempts the job from preemption (Q9).
    pub fn is_protected(&self) -> bool {
        self.spec
            .other
            .get("no_preempt")
            .is_some_and(|text| text == "True")
    }

    /// Tests whether attempt `run` was preempted.
    pub fn was_preempted(&self, run: &Run) -> bool {
        self.life
            .preemption
            .as_ref()
            .is_some_and(|preemption| preemption.concerns(run.attempt, run.started))
    }

    /// Returns the signal on which the job itself writes a checkpoint and exits (Y17); None if the
    /// owner set no valid signal.
    pub fn interruption(&self) -> Option<i32> {
        signal::parse(self.spec.other.get("interrupt")?)
    }

    /// Tests whether the job itself writes a checkpoint on a signal and its owner permits
    /// checkpoints.
    pub fn can_checkpoint(&self) -> bool {
        self.interruption().is_some() && self.allows_checkpoints()
    }

    /// Returns the job's position among waiting jobs of equal priority. Jobs start in order of
    /// their positions, and jobs with equal positions in order of their ids. A boosted job has
    /// position 0 (X25).
    pub fn rank(&self) -> u64 {
        if self.life.boosted {
            0
        } else {
            self.own_rank()
        }
    }

    /// Returns the job's position without a boost. It is the position set by `qorder`, otherwise
    /// the job number.
    pub fn own_rank(&self) -> u64 {
        self.life.rank.unwrap_or(self.id.number)
    }
}

/// SHA-256 of a script or an environment. The spool stores equal scripts or environments once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Script or command that the job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobProgram {
    /// Script, stored in the spool.
    Script(Digest),
    /// Command with arguments (`qsub -- command arguments`), run without a shell.
    Command(Vec<Text>),
}

/// Option `-j`: whether the job's output streams are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// `n`: two separate files.
    #[default]
    No,
    /// `oe`: both streams in the output file.
    Output,
    /// `eo`: both streams in the error file.
    Error,
}

/// Options and requests of a submitted job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Job name, `Job_Name`.
    pub name: String,
    /// `--label`: label by which other jobs of the process group can depend on this job (Q29).
    #[serde(default)]
    pub label: Option<String>,
    /// `--group`: process group, the scope of the job's label and of the labels for which the job
    /// waits.
    #[serde(default)]
    pub process_group: Option<String>,
    /// Queue, `-q` or the default queue.
    pub queue: String,
    /// `-A`: account to which the job's usage is charged.
    pub account: Option<String>,
    /// `-P`: project; [`DEFAULT_PROJECT`] by default.
    pub project: String,
    /// `-p`: -1024 to 1023, higher values first. In a policy with Qube's range: 1 to 9999, lower
    /// values first.
    pub priority: i32,
    /// `--user-factor`, 0 to 1: factor by which the owner scales the job's priority.
    #[serde(default = "one")]
    pub user_factor: f64,
    /// `system_priority`, set by an operator. Within its tier, the job precedes all jobs without a
    /// system priority and all jobs with a lower system priority.
    #[serde(default)]
    pub system_priority: Option<i32>,
    /// `-r`: the job may be restarted from the beginning.
    pub rerunnable: bool,
    /// `-a`: the job is not eligible before this time.
    pub begin: Option<Wall>,
    /// `-j`: whether the output streams are joined.
    pub join: Join,
    /// `-o` as displayed: `host:/abs/path`, `host:/abs/dir/`; None for the default file.
    pub output: Option<Text>,
    /// `-e`, in the form of `output`.
    pub error: Option<Text>,
    /// `-S`: shell as given, `path[@host],...`.
    pub shell: Option<Text>,
    /// `-W umask=`: umask of the job.
    pub umask: Option<u32>,
    /// `-W block=true`: the client waits for the job to end.
    pub block: bool,
    /// `-J`: range of indices, if the job is an array.
    #[serde(default)]
    pub array: Option<Indices>,
    /// Indices of the subjobs, if they were submitted as a list; None for a single range.
    #[serde(default)]
    pub array_list: Option<IndexList>,
    /// `-J %M`, `-W max_run_subjobs=`: maximum number of running subjobs. None and 0 mean no
    /// limit.
    #[serde(default)]
    pub max_run_subjobs: Option<u32>,
    /// `--expand`, `-W expand=`: maximum number of running subjobs while resources are otherwise
    /// idle (Q15); `u32::MAX` for no limit. A number up to `max_run_subjobs` has no effect.
    #[serde(default)]
    pub expand: u32,
    /// `-W retry=`: maximum number of reruns after a failure.
    #[serde(default)]
    pub retry: u32,
    /// `-W retry_delay=`: delay before each rerun.
    #[serde(default)]
    pub retry_delay: Span,
    /// `-I`: the job runs on a terminal that is connected to the user's `qsub`.
    #[serde(default)]
    pub interactive: bool,
    /// `-W qos=`: quality of service.
    #[serde(default)]
    pub qos: Option<String>,
    /// Placement requirements beyond `-l`, such as hosts and clusters.
    #[serde(default, rename = "wishes")]
    pub placement: PlacementRequirements,
    /// Reservation that the job must run in, given by the job's queue or by `-W resv=`.
    #[serde(default)]
    pub reservation: Option<String>,
    /// `-l`: requested resources. Jobs with equal requests may share one value.
    pub request: Arc<Request>,
    /// Script or command to run.
    pub program: JobProgram,
    /// Digest of the job's environment (`Variable_List`): `K=V` entries, each terminated by a zero
    /// byte.
    pub environ: Digest,
    /// Working directory of qsub, absolute.
    pub workdir: Text,
    /// Initial working directory of the job, absolute, if the owner set it.
    #[serde(default)]
    pub init_workdir: Option<Text>,
    /// Arguments of the script, each terminated by a zero byte.
    #[serde(default)]
    pub job_arguments: Text,
    /// Host on which qsub ran.
    pub submit_host: String,
    /// Command line of qsub, `Submit_arguments`.
    pub arguments: Text,
    /// Attributes stored as their displayed text (`Mail_Points`, `Checkpoint`, `stagein`, ...), by
    /// PBS name. The code that uses an attribute parses its text.
    pub other: BTreeMap<String, String>,
}

/// Project of a job submitted without `-P`.
pub const DEFAULT_PROJECT: &str = "_pbs_project_default";

fn one() -> f64 {
    1.0
}

impl Spec {
    /// Creates the options of a job, all with their defaults.
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

    /// Returns the subjob states of a new array, all waiting; None if the job is not an array.
    pub fn elements(&self) -> Option<Elements> {
        let count = self.array?.count();
        Some(self.array_list.as_ref().map_or_else(
            || Elements::new(count),
            |list| Elements::of(&list.positions()),
        ))
    }

    /// Returns the number of subjobs, if the job is an array.
    pub fn subjob_count(&self) -> Option<u32> {
        let count = self.array?.count();
        Some(
            self.array_list
                .as_ref()
                .map_or(count, |list| list.positions().len()),
        )
    }

    /// Returns the limits on running subjobs; None if `max_run_subjobs` sets no limit, or if the
    /// job is no array.
    pub fn subjob_limit(&self) -> Option<SubjobLimit> {
        let limit = self
            .max_run_subjobs
            .filter(|&limit| limit > 0 && self.array.is_some())?;
        Some(SubjobLimit {
            limit,
            most: self.expands_to().unwrap_or(limit),
        })
    }

    /// Returns the maximum number of running subjobs while resources are otherwise idle (Q15). None
    /// if `expand` has no effect: `max_run_subjobs` sets no limit, or `expand` is not above it.
    pub fn expands_to(&self) -> Option<u32> {
        let limit = self.max_run_subjobs.filter(|&limit| limit > 0)?;
        Some(self.expand).filter(|&most| most > limit)
    }

    /// Returns the requested walltime; None if the job requests none.
    pub fn walltime(&self) -> Option<Span> {
        match self.request.list.get("walltime") {
            Some(ResourceValue::Time(span)) => Some(*span),
            _ => None,
        }
    }
}

/// Limits on the running subjobs of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjobLimit {
    /// Limit from `max_run_subjobs`.
    pub limit: u32,
    /// Limit while resources are free that no other job needs (`expand`); at least `limit`.
    pub most: u32,
}

impl SubjobLimit {
    /// Limits of an array without `max_run_subjobs`.
    pub const NONE: SubjobLimit = SubjobLimit {
        limit: u32::MAX,
        most: u32::MAX,
    };
}

/// State and history of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Current state.
    pub state: JobState,
    /// Holds that prevent a start.
    pub holds: Holds,
    /// Number of starts, PBS's `run_count`. `qsub` and `qalter` can change it.
    pub run_count: u32,
    /// Number of the latest attempt; 0 before the first.
    pub attempt: Attempt,
    /// Number of consecutive starts that failed or were lost. After a counted failure, failures on
    /// the next few other hosts are not counted (M10).
    pub failed_starts: u32,
    /// Number of reruns after failures (`-W retry=`).
    #[serde(default)]
    pub retries: u32,
    /// Latest attempt, even if it has ended.
    pub run: Option<Run>,
    /// Pending request to end the running job, such as a deletion or a requeue.
    pub want: Want,
    /// Resource usage: updated while the job runs, final afterwards.
    pub used: Usage,
    /// Exit status; None before the end, and for a job that was moved to another installation.
    pub exit: Option<Exit>,
    /// Comment set by an operator or schedd. If None, commands display the scheduler's latest
    /// reason.
    pub comment: Option<String>,
    /// Submission time.
    pub ctime: Time,
    /// Time of the last change.
    pub mtime: Time,
    /// Time of entry into the current queue.
    pub qtime: Time,
    /// Time at which the job became eligible; None while a hold, a dependency or its start time
    /// prevents the start.
    pub etime: Option<Time>,
    /// Earliest time of the next start, if the start is deferred on all hosts or on `failed_hosts`.
    pub not_before: Option<Time>,
    /// Hosts on which starts of the job failed because of the host. Emptied when `failed_starts` is
    /// reset, and by `qalter --shove`.
    #[serde(default)]
    pub failed_hosts: BTreeSet<String>,
    /// Number of further hosts on which a start may fail before `not_before` applies to all hosts;
    /// 0 if `not_before` applies to all hosts already.
    #[serde(default)]
    pub hosts_to_try: u32,
    /// End time.
    pub obittime: Option<Time>,
    /// Dependencies that prevent a start.
    #[serde(default)]
    pub bars: UnmetDependencies,
    /// Conditions on labels for which the job waits. `bars` counts them as unmet.
    #[serde(default)]
    pub awaits: Vec<Awaited>,
    /// Details of the end that the exit status does not contain: an exceeded limit, and messages
    /// for the owner ([`AttemptOutcome::remark`]).
    #[serde(default)]
    pub ending: Option<String>,
    /// Position in the queue, if `qorder` swapped the job with another; otherwise the job number
    /// is the position.
    #[serde(default)]
    pub rank: Option<u64>,
    /// For an array: time of the first start of a subjob.
    #[serde(default)]
    pub began: Option<Time>,
    /// For an array: highest attempt number of a subjob. It is updated when a subjob starts for the
    /// first time or finishes.
    #[serde(default)]
    pub highest: Attempt,
    /// Eligible time so far, and the kind of time that accrues now.
    #[serde(default)]
    pub eligibility: Eligibility,
    /// Number of preemptions.
    #[serde(default)]
    pub preempted: u32,
    /// The job precedes jobs of equal priority because its latest attempt was preempted (X25).
    #[serde(default)]
    pub boosted: bool,
    /// Id of the job in the installation (nested or parent) to which it was moved, such as
    /// `7.job1.head`; None if it was not moved.
    #[serde(default)]
    pub moved_to: Option<String>,
    /// Latest preemption: which job preempted this one, and by which action.
    #[serde(default, rename = "yielding")]
    pub preemption: Option<Box<JobPreemption>>,
    /// Reason for which the start was deferred, if the comment displays this reason.
    #[serde(default)]
    pub deferral: Option<Deferral>,
}

/// One attempt to run a job: its resources and reported progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number of the attempt.
    pub attempt: Attempt,
    /// Allocated resources, chunk by chunk. The node of the first share runs the script.
    pub shares: Vec<NodeShare>,
    /// Time of the decision to start.
    pub started: Time,
    /// Priority at the start (F9), fixed for the attempt. None for a job started out of order, or
    /// by an earlier version.
    #[serde(default)]
    pub score: Option<f64>,
    /// Session id reported by the node; None before the report.
    pub session: Option<u32>,
    /// Boot id of the script's node; None before the node reports the start.
    pub boot: Option<String>,
    /// True until the script and all tasks have ended, as reported by their nodes, or are lost.
    pub open: bool,
    /// True if the node of the script or of a task has not responded for some time.
    #[serde(default)]
    pub silent: bool,
    /// Tasks that the job started on its nodes; None before the first task.
    #[serde(default)]
    pub tasks: Option<Box<Tasks>>,
    /// Resources released before the end (`pbs_release_nodes`).
    #[serde(default)]
    pub released: Vec<Released>,
    /// A subjob's attempt that was started above the array's own limit, because no other job needed
    /// the resources (Q15).
    #[serde(default)]
    pub extra: bool,
    /// Current suspension; None while the job runs.
    #[serde(default)]
    pub suspension: Option<Box<Suspension>>,
    /// Number and total duration of earlier suspensions.
    #[serde(default)]
    pub pauses: Option<Box<Pauses>>,
    /// Progress of a requested checkpoint.
    #[serde(default)]
    pub checkpoint: CheckpointProgress,
    /// Identity of the state directory of the noded that starts the attempt. None for an attempt
    /// started by an earlier version: that attempt belongs to the last state directory of the node.
    #[serde(default)]
    pub directory: Option<String>,
    /// Time since when the job has used almost no processor time; None for a job that is not idle.
    #[serde(default)]
    pub idle_since: Option<Time>,
}

impl Credentials {
    /// Returns the credentials of a job.
    pub fn of(job: &Job) -> Credentials {
        Credentials::new(&job.owner, &job.spec)
    }

    /// Returns the credentials of a job with this owner and these options.
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
