//! The configuration: `lanai.toml`, its defaults, and what qmgr overrides.
//!
//! Reading is pure: text in, [`Config`] out, or a [`ConfigError`] that names the line, the key and
//! the remedy. A file is accepted whole or not at all. [`sections::listed`] is the list of all
//! keys; the manual `lanai.toml(5)` is held to it by a test.

pub mod document;
mod key;
mod kinds;
pub mod overrides;
pub mod sections;
pub mod settings;
pub mod warnings;

pub use document::ConfigError;

use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::hook::Hook;
use crate::model::hook::job_hooks::JobScripts;
use crate::model::job::checkpoint::CheckpointCommand;
use crate::model::job::response::{FailureRules, Missing, Retries};
use crate::model::limit::Limit;
use crate::model::node::NodeTerms;
use crate::model::policy::site_time::PrimeHours;
use crate::model::policy::{Policy, PreemptionPolicy, Preset};
use crate::model::queue::Queue;
use crate::model::reservation::recurrence::RecurringWindow;
use crate::model::reservation::window::WindowAccess;
use crate::model::resource::{Definition, ResourceList, Resources, Size};
use crate::model::system_resource::{Pool, ResourceMeter};
use crate::model::time::Span;
use chrono::NaiveDateTime;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// All that `lanai.toml` says, with the defaults filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[server]`.
    pub server: ServerConfig,
    /// `[launch]`.
    pub launch: LaunchConfig,
    /// Whose habits hold where the file says nothing.
    pub preset: Preset,
    /// `[cycle]`.
    pub cycle: CycleConfig,
    /// What the sections say of scheduling. [`Config::effective_policy`] adds what they say
    /// together.
    pub policy: Policy,
    /// `[[node]]`, in the order given.
    pub nodes: Vec<NodeConfig>,
    /// `[[hook]]`, in the order given.
    pub hooks: Vec<Hook>,
    /// `[[reservation]]`, in the order given.
    pub reservations: Vec<ReservationConfig>,
    /// `[[dedicated]]`.
    pub dedicated: Vec<DedicatedConfig>,
    /// `[primetime]`.
    pub primetime: Option<PrimeHours>,
    /// The limits of the file, without those of qmgr.
    pub(super) limits_of_file: Arc<[Limit]>,
    /// `[[queue]]`, in the order given.
    pub(super) queues: Vec<Queue>,
    /// `[[resource]]`, in the order given.
    pub(super) resources: Vec<(String, Definition)>,
    /// What the whole system has of some of these.
    pub pools: Vec<(String, Pool)>,
    /// How it is found out of some of these what there is.
    pub meters: Vec<(String, ResourceMeter)>,
    /// What `qmgr` has said besides, which is shown and has no effect.
    pub(super) kept: BTreeMap<(QmgrObject, AttributeKey), String>,
}

/// `[server]`: the installation as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// What follows the dot of a job id; None for the host's name.
    pub name: Option<String>,
    /// The queue of a job submitted without `-q`.
    pub default_queue: String,
    /// Whether everybody sees everybody's jobs; operators do in any case.
    pub query_other_jobs: bool,
    /// What counts as said to qsub where neither script nor command line says otherwise; empty for
    /// nothing.
    pub default_qsub_arguments: String,
    /// Who may act on others' jobs.
    pub operators: Vec<Person>,
    /// Who may do anything.
    pub managers: Vec<Person>,
    /// How long finished jobs are kept.
    pub history: Span,
    /// How long the accounts are kept; no shorter than `history`.
    pub accounting: Span,
    /// Where a job starts.
    pub workdir: Workdir,
    /// The largest job script accepted.
    pub jobscript_max_size: Size,
    /// The most elements an array may have; None for any number.
    pub max_array_size: Option<u32>,
    /// What users may reserve.
    pub reserving: Reserving,
    /// Whether a job is refused that no node, nor all together, could ever take (P24).
    pub refuse_impossible: bool,
    /// What a job has that neither it nor its queue says.
    pub defaults: ResourceList,
    /// The same for each chunk.
    pub chunk_defaults: ResourceList,
    /// What a job may ask for at most, of what its queue does not limit.
    pub most: ResourceList,
    /// Many users; the file `/etc/lanai/lanai.toml` implies it.
    pub shared: bool,
    /// How long the daemons of a personal installation stay without work.
    pub idle: Span,
    /// Jobs of users below this number are not run in a shared installation.
    pub min_uid: u32,
    /// The program that sends mail, absolute; empty for none, None for the usual one.
    pub mailer: Option<PathBuf>,
    /// In whose name mail is sent; None for that of schedd's user.
    pub mail_from: Option<String>,
    /// The site's program that is told of every begin, end and abort, absolute.
    pub notify: Option<PathBuf>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            name: None,
            default_queue: "workq".to_string(),
            query_other_jobs: true,
            default_qsub_arguments: String::new(),
            operators: Vec::new(),
            managers: Vec::new(),
            history: Span::seconds(90 * 24 * 3600),
            accounting: Span::seconds(400 * 24 * 3600),
            workdir: Workdir::Submit,
            jobscript_max_size: Size::megabytes(LARGEST_SCRIPT_MB),
            max_array_size: None,
            reserving: Reserving::default(),
            refuse_impossible: true,
            defaults: ResourceList::new(),
            chunk_defaults: ResourceList::new(),
            most: ResourceList::new(),
            shared: false,
            idle: Span::seconds(600),
            min_uid: 1000,
            mailer: None,
            mail_from: None,
            notify: None,
        }
    }
}

/// The default and the most that `jobscript_max_size` may be, in megabytes: a script travels in
/// one frame, and frames are bounded.
const LARGEST_SCRIPT_MB: u64 = 16;

/// Where a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workdir {
    /// Where `qsub` ran.
    Submit,
    /// In the owner's home folder, PBS's own rule.
    Home,
}

/// `[launch]`: how jobs are started and ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchConfig {
    /// Whether the owner's login shell reads its profile before a script.
    pub login: bool,
    /// How long a job may take to heed TERM before KILL.
    pub grace: Span,
    /// How long a job may run on past its walltime before it is ended (M50).
    pub overrun: Span,
    /// The most processes and threads of a job's script, or of a task, on one host; 0 for any
    /// number.
    pub max_processes: u32,
    /// How long a node may take to say that a job has begun; None for ever. A job whose files are
    /// copied to it first is not held to it.
    pub start_timeout: Option<Span>,
    /// How long copying and delivering a job's files may take, before it and after it each.
    pub staging_timeout: Span,
    /// What is done about failed starts and about jobs over their limits.
    pub rules: FailureRules,
    /// The program that tells which processes use which GPUs: a path, the name of one in `PATH`, or
    /// [`NO_TOOL`]. [`GPU_TOOL`] is asked only where noded finds GPUs for it to tell of.
    pub gpu_tool: PathBuf,
    /// How often it is asked.
    pub gpu_look: Span,
    /// What the site runs right before and after each job.
    pub scripts: JobScripts,
    /// By which command of the site it is written down how far a job has come.
    pub checkpoint: CheckpointCommand,
}

/// NVIDIA's program that tells who uses its GPUs.
pub const GPU_TOOL: &str = "nvidia-smi";

/// Nobody is asked who uses the GPUs.
pub const NO_TOOL: &str = "none";

impl Default for LaunchConfig {
    fn default() -> LaunchConfig {
        LaunchConfig {
            login: true,
            grace: Span::seconds(10),
            overrun: Span(0),
            max_processes: 8192,
            start_timeout: Some(Span::seconds(600)),
            staging_timeout: Span::seconds(3600),
            rules: FailureRules::default(),
            gpu_tool: GPU_TOOL.into(),
            gpu_look: Span::seconds(30),
            scripts: JobScripts::default(),
            checkpoint: CheckpointCommand::default(),
        }
    }
}

impl LaunchConfig {
    /// The settings of a preset.
    fn of(preset: Preset) -> LaunchConfig {
        let mut launch = LaunchConfig::default();
        if preset == Preset::Maui {
            launch.rules.retries = Retries::MAUI;
            launch.rules.stage_in.missing = Missing::Wait;
        }
        launch
    }
}

/// `[cycle]`: how the scheduler decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleConfig {
    /// Whether cycles start jobs; if not, only `qrun` does.
    pub scheduling: bool,
    /// The longest time between two cycles when nothing happens.
    pub poll_interval: Span,
    /// The file in which all that cycles go by and come to is written down; None for nowhere.
    pub record: Option<PathBuf>,
    /// The longest that file may grow.
    pub record_size: Size,
}

impl Default for CycleConfig {
    fn default() -> CycleConfig {
        CycleConfig {
            scheduling: true,
            poll_interval: Span::seconds(60),
            record: None,
            record_size: Size::megabytes(64),
        }
    }
}

/// `[[node]]`: a node and what the administrator says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfig {
    /// As its noded presents it.
    pub name: String,
    /// The absolute path of its noded's socket; None for the noded of this host.
    pub socket: Option<PathBuf>,
    /// Laid over what noded measured.
    pub available: ResourceList,
    /// On what terms jobs get it.
    pub terms: NodeTerms,
    /// Its GPUs by number, in the order in which jobs get them; None for those noded found, lowest
    /// first.
    pub gpus: Option<Vec<u16>>,
    /// GPUs that no job gets.
    pub exclude_gpus: Vec<u16>,
    /// Whether it has a place of its own in the order of the nodes: the file names it.
    pub is_listed: bool,
}

impl NodeConfig {
    /// A node of which the file says nothing.
    pub fn unlisted(name: &str) -> NodeConfig {
        NodeConfig {
            name: name.to_string(),
            socket: None,
            available: ResourceList::new(),
            terms: NodeTerms::default(),
            gpus: None,
            exclude_gpus: Vec::new(),
            is_listed: false,
        }
    }

    /// The GPUs jobs may have, of those that were found.
    pub fn gpus(&self, found: &[u16]) -> Vec<u16> {
        let all = self.gpus.as_deref().unwrap_or(found);
        all.iter()
            .copied()
            .filter(|number| !self.exclude_gpus.contains(number))
            .collect()
    }
}

/// `[[reservation]]`: a window that the configuration makes, once or again and again (M37 to M42).
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationConfig {
    /// By which jobs ask for it.
    pub name: String,
    /// These nodes as a whole; else what `select` says.
    pub nodes: Vec<String>,
    /// Chunks, wherever they fit.
    pub select: Option<String>,
    /// When it is there.
    pub times: Times,
    /// Primary groups with access, by name.
    pub groups: Vec<String>,
    /// All others with access.
    pub access: WindowAccess,
    /// Only for who asks for it by name.
    pub by_name: bool,
    /// Those it is for may preempt others in it.
    pub owner_preempts: bool,
}

/// When a window of the configuration is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Times {
    /// Once, in local time.
    Once {
        /// When it opens.
        from: NaiveDateTime,
        /// When it closes.
        to: NaiveDateTime,
    },
    /// Again and again.
    Standing(RecurringWindow),
}

/// `[[dedicated]]`: a time, local, in which only jobs of dedicated queues run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedicatedConfig {
    /// When it begins.
    pub from: NaiveDateTime,
    /// When it ends.
    pub to: NaiveDateTime,
}

/// What users who are neither operators nor managers may reserve (`resv_...` in `[server]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Reserving {
    /// The users who may; `*` for all.
    pub users: Vec<Person>,
    /// The most reservations of one user. Each occurrence of a standing one counts.
    pub number: u32,
    /// The longest duration of one.
    pub duration: Span,
    /// The most of all processors, 0 to 1, that one user's reservations have at any time.
    pub share: f64,
}

impl Default for Reserving {
    fn default() -> Reserving {
        let users = Person::parse("*").into_iter().collect();
        Reserving {
            users,
            number: 10,
            duration: Span::seconds(24 * 3600),
            share: 0.5,
        }
    }
}

/// Somebody named in `operators` or `managers`: `ann`, `ann@head`, `*@head`, `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    user: String,
    host: Option<String>,
}

impl Person {
    /// Reads one; None for what names nobody.
    pub fn parse(text: &str) -> Option<Person> {
        let is_name = |name: &str| {
            !name.is_empty() && !name.contains(|c: char| c == '@' || c == ',' || c.is_whitespace())
        };
        let (user, host) = match text.split_once('@') {
            Some((user, host)) => (user, Some(host)),
            None => (text, None),
        };
        let valid = is_name(user) && host.is_none_or(is_name);
        valid.then(|| Person {
            user: user.to_string(),
            host: host.map(str::to_string),
        })
    }

    /// The name of the account that is meant; None for any account.
    pub fn account(&self) -> Option<&str> {
        Some(self.user.as_str()).filter(|user| *user != "*")
    }

    /// Whether `user` at `host` is meant. Without a host, any host is.
    pub fn is(&self, user: &str, host: &str) -> bool {
        let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        fits(&self.user, user)
            && self
                .host
                .as_deref()
                .is_none_or(|pattern| fits(pattern, host))
    }
}

/// As it stands in the file.
impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{}@{host}", self.user),
            None => f.write_str(&self.user),
        }
    }
}

impl Config {
    /// The settings of a preset where the file sets nothing.
    pub fn with_preset(preset: Preset) -> Config {
        Config {
            launch: LaunchConfig::of(preset),
            preset,
            cycle: CycleConfig {
                poll_interval: preset.poll_interval(),
                ..CycleConfig::default()
            },
            policy: preset.policy(),
            ..Config::default()
        }
    }

    /// The settings of its preset.
    fn of_preset(&self) -> Config {
        Config::with_preset(self.preset)
    }

    /// PBS's own resources and the site's.
    pub fn resources(&self) -> Resources {
        let mut all = Resources::builtin();
        for (name, definition) in &self.resources {
            all.define(name, definition.clone());
        }
        all
    }

    /// This without what is only shown.
    pub fn without_remarks(&self) -> Config {
        let queues = self.queues.iter().map(|queue| Queue {
            comment: None,
            ..queue.clone()
        });
        Config {
            queues: queues.collect(),
            kept: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// What becomes of jobs whose attempts go wrong, or that have made way.
    pub fn rules(&self) -> FailureRules {
        FailureRules {
            boost: self.policy.preemption.boost,
            ..self.launch.rules
        }
    }

    /// The policy of a cycle: that of the sections, completed by what several of them say
    /// together. Exemptions of a quality of service come after all other limits (M27).
    pub fn effective_policy(&self) -> Policy {
        let Policy {
            qualities,
            backfill,
            limits,
            preemption,
            ..
        } = &self.policy;
        Policy {
            backfill: backfill.with_qualities(qualities),
            limits: qualities.with_exemptions(limits),
            preemption: PreemptionPolicy {
                checkpoints: self.launch.checkpoint.program.is_some(),
                ..preemption.clone()
            },
            ..self.policy.clone()
        }
    }

    /// What the administrators want everybody to read who lists jobs.
    pub fn comment(&self) -> Option<&String> {
        self.kept
            .get(&(QmgrObject::Server, AttributeKey::plain("comment")))
    }

    /// The queues in the order given; the default queue is always among them. What the server says
    /// of resources holds where a queue does not say.
    pub fn queues(&self) -> Vec<Queue> {
        let mut queues = self.stated_queues();
        let server = &self.server;
        for queue in &mut queues {
            lay_under(&mut queue.defaults, &server.defaults);
            lay_under(&mut queue.chunk_defaults, &server.chunk_defaults);
            lay_under(&mut queue.most, &server.most);
        }
        queues
    }

    /// The same, with what is said of themselves alone.
    pub fn stated_queues(&self) -> Vec<Queue> {
        let mut queues = self.queues.clone();
        if !queues
            .iter()
            .any(|queue| queue.name == self.server.default_queue)
        {
            queues.push(Queue::named(&self.server.default_queue));
        }
        queues
    }
}

fn lay_under(list: &mut ResourceList, below: &ResourceList) {
    for (name, value) in below {
        list.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests;
