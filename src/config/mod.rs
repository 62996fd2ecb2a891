//! The configuration: `lanai.toml`, its defaults, and the overrides of qmgr.
//!
//! [`Config::parse`] turns the text of the file into a [`Config`]. If any line has an error, the
//! whole file is refused; the [`ConfigError`] contains the line, the problem and usually the
//! remedy.
//! [`sections::listed`] lists all keys; a test compares the manual `lanai.toml(5)` with this list.

pub mod document;
mod key;
mod kinds;
pub mod overrides;
pub mod references;
pub mod sections;
pub mod settings;
pub mod warnings;

pub use document::ConfigError;

use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::hook::Hook;
use crate::model::hook::job_hooks::JobScripts;
use crate::model::job::checkpoint::CheckpointCommand;
use crate::model::job::environment::JobEnvironment;
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

/// The contents of `lanai.toml`, with defaults for the missing keys; after
/// [`Config::with_overrides`], also the overrides of qmgr.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[server]`.
    pub server: ServerConfig,
    /// `[launch]`.
    pub launch: LaunchConfig,
    /// The preset: the source of the defaults.
    pub preset: Preset,
    /// `[cycle]`.
    pub cycle: CycleConfig,
    /// `[idle]`.
    pub idle: IdleConfig,
    /// The scheduling settings, without those that [`Config::effective_policy`] adds.
    pub policy: Policy,
    /// `[[node]]`, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// `[[hook]]`, in the order of the file.
    pub hooks: Vec<Hook>,
    /// `[[reservation]]`, in the order of the file.
    pub reservations: Vec<ReservationConfig>,
    /// `[[dedicated]]`.
    pub dedicated: Vec<DedicatedConfig>,
    /// `[primetime]`.
    pub primetime: Option<PrimeHours>,
    /// The limits that the file defines, without the limits that qmgr sets.
    pub(super) limits_of_file: Arc<[Limit]>,
    /// `[[queue]]`, in the order of the file.
    pub(super) queues: Vec<Queue>,
    /// `[[resource]]`, in the order of the file.
    pub(super) resources: Vec<(String, Definition)>,
    /// The totals of system-wide resources, such as licenses, by resource name.
    pub pools: Vec<(String, Pool)>,
    /// The commands that report the totals of system-wide resources, by resource name.
    pub meters: Vec<(String, ResourceMeter)>,
    /// The values of qmgr attributes that no other field contains, such as the server's comment.
    pub(super) kept: BTreeMap<(QmgrObject, AttributeKey), String>,
}

/// `[server]`: the installation as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The part of a job id after the dot; None for the host's name.
    pub name: Option<String>,
    /// The queue of a job submitted without `-q`.
    pub default_queue: String,
    /// Whether users see the jobs of other users. Operators always see all jobs.
    pub query_other_jobs: bool,
    /// Default arguments of qsub, for options that neither the script nor the command line sets.
    pub default_qsub_arguments: String,
    /// The users who may act on the jobs of other users.
    pub operators: Vec<UserPattern>,
    /// The operators who may also change the configuration with qmgr.
    pub managers: Vec<UserPattern>,
    /// How long the spool keeps finished jobs.
    pub history: Span,
    /// How long the spool keeps accounting records; at least as long as the `history` in the file.
    pub accounting: Span,
    /// The directory in which a job starts.
    pub workdir: Workdir,
    /// The largest accepted job script.
    pub jobscript_max_size: Size,
    /// The largest number of subjobs of an array; None for no limit.
    pub max_array_size: Option<u32>,
    /// The limits on reservations by users.
    pub reserving: ReservationLimits,
    /// Whether to refuse a job that could not run even if all nodes were free (P24).
    pub refuse_impossible: bool,
    /// Defaults for a job's resources that neither the job nor its queue sets
    /// (`resources_default`).
    pub defaults: ResourceList,
    /// Defaults for a chunk's resources that neither the job nor its queue sets (`default_chunk`).
    pub chunk_defaults: ResourceList,
    /// The largest amounts that a job may request (`resources_max`). A limit of the job's queue on
    /// a resource replaces the amount for this resource.
    pub most: ResourceList,
    /// Whether several users share the installation. The installation that `/etc/lanai/lanai.toml`
    /// selects is always shared.
    pub shared: bool,
    /// The time without work after which the daemons of a personal installation exit.
    pub idle: Span,
    /// The lowest uid that may run jobs in a shared installation.
    pub min_uid: u32,
    /// The absolute path of the mail program; empty for no mail, None for the default program.
    pub mailer: Option<PathBuf>,
    /// The sender of mail; None for schedd's user.
    pub mail_from: Option<String>,
    /// The absolute path of the site's program that runs whenever a job begins, ends or is aborted.
    pub notify: Option<PathBuf>,
    /// Whether the log has lines about starts and ends of jobs; None for the default: only in a
    /// shared installation.
    pub log_jobs: Option<bool>,
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
            reserving: ReservationLimits::default(),
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
            log_jobs: None,
        }
    }
}

/// The default and the maximum of `jobscript_max_size`, in megabytes. A script is sent in one
/// message, and the size of messages is limited.
const LARGEST_SCRIPT_MB: u64 = 16;

/// The directory in which a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workdir {
    /// The directory in which `qsub` ran.
    Submit,
    /// The owner's home directory, as in PBS.
    Home,
}

/// `[launch]`: how jobs are started and ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchConfig {
    /// Whether the owner's login shell reads its profile before a script runs; None for jobs with
    /// the login environment only.
    pub login: Option<bool>,
    /// The environment of jobs that request none; None for a default by the kind of installation.
    pub environment: Option<JobEnvironment>,
    /// The time between TERM and KILL when a job is ended, for instance because it is deleted or
    /// exceeds its walltime.
    pub grace: Span,
    /// How long a job may run past its walltime before it is ended (M50).
    pub overrun: Span,
    /// The largest number of processes and threads that a job's script, or one of the job's tasks,
    /// may have on one host; 0 for no limit.
    pub max_processes: u32,
    /// The time in which a node must report a job's start, in addition to the time limits of hooks
    /// and the prologue; None for no limit. No limit applies to a job that has a private directory
    /// or files to stage in.
    pub start_timeout: Option<Span>,
    /// The longest time for staging in a job's files, and again for staging them out.
    pub staging_timeout: Span,
    /// The responses to failed starts and to jobs that exceed their limits.
    pub rules: FailureRules,
    /// The program that lists the processes on GPUs: a path, a name in `PATH`, or [`NO_TOOL`].
    /// The default, [`GPU_TOOL`], runs only on hosts where noded finds GPUs.
    pub gpu_tool: PathBuf,
    /// The interval between two runs of `gpu_tool`.
    pub gpu_look: Span,
    /// The site's programs that run before and after each job.
    pub scripts: JobScripts,
    /// The site's command that writes a job's checkpoint.
    pub checkpoint: CheckpointCommand,
}

/// NVIDIA's program that lists the processes on its GPUs.
pub const GPU_TOOL: &str = "nvidia-smi";

/// The value of [`LaunchConfig::gpu_tool`] that selects no program.
pub const NO_TOOL: &str = "none";

impl Default for LaunchConfig {
    fn default() -> LaunchConfig {
        LaunchConfig {
            login: None,
            environment: None,
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
    /// The settings of `[launch]` in a preset.
    fn of_preset(preset: Preset) -> LaunchConfig {
        let mut launch = LaunchConfig::default();
        if preset == Preset::Maui {
            launch.rules.retries = Retries::MAUI;
            launch.rules.stage_in.missing = Missing::Wait;
        }
        launch
    }
}

/// `[cycle]`: when the scheduler runs, and what it records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleConfig {
    /// Whether scheduling cycles run; if false, only `qrun` starts jobs.
    pub scheduling: bool,
    /// The longest time between two scheduling cycles when no event occurs.
    pub poll_interval: Span,
    /// The file that records the input and the plan of every cycle; None for no recording.
    pub record: Option<PathBuf>,
    /// The file size at which recording stops.
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

/// `[idle]`: what happens to running jobs that use no processor time.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleConfig {
    /// The time after which a job that uses almost no processor time is idle; None for never.
    pub after: Option<Span>,
    /// The use of processors below which a job is idle, as part of one processor, 0 to 1.
    pub cpu: f64,
    /// Whether schedd ends idle interactive jobs.
    pub end_interactive: bool,
}

impl Default for IdleConfig {
    fn default() -> IdleConfig {
        IdleConfig {
            after: None,
            cpu: 0.01,
            end_interactive: false,
        }
    }
}

/// `[[node]]`: the administrator's settings for a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfig {
    /// The name that the node's noded reports.
    pub name: String,
    /// The absolute path of the socket of the node's noded; None for the noded of this host.
    pub socket: Option<PathBuf>,
    /// Resources that replace the values measured by noded.
    pub available: ResourceList,
    /// The conditions for jobs on the node.
    pub terms: NodeTerms,
    /// The numbers of the GPUs for jobs, in the order of allocation; None for all GPUs that noded
    /// finds, the lowest number first.
    pub gpus: Option<Vec<u16>>,
    /// The numbers of GPUs that are never allocated.
    pub exclude_gpus: Vec<u16>,
    /// Whether the file has a section for the node. Only nodes with a section have a position in
    /// the order of nodes.
    pub is_listed: bool,
}

impl NodeConfig {
    /// A node without a section in the file.
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

    /// The numbers of the GPUs that jobs may use, in the order of allocation. `found` are the GPUs
    /// that noded found, which apply if the section does not set `gpus`.
    pub fn gpus(&self, found: &[u16]) -> Vec<u16> {
        let all = self.gpus.as_deref().unwrap_or(found);
        all.iter()
            .copied()
            .filter(|number| !self.exclude_gpus.contains(number))
            .collect()
    }
}

/// `[[reservation]]`: a reservation that the file defines, single or recurring (M37 to M42).
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationConfig {
    /// The name by which jobs request the reservation.
    pub name: String,
    /// The nodes to reserve as a whole; if empty, `select` applies.
    pub nodes: Vec<String>,
    /// The chunks to reserve on any suitable nodes, instead of whole nodes.
    pub select: Option<String>,
    /// The times of the reservation.
    pub times: Times,
    /// Primary groups with access, by name.
    pub groups: Vec<String>,
    /// The other access lists, and the time limit of jobs in the reservation.
    pub access: WindowAccess,
    /// Whether only jobs that request the reservation by name may use it.
    pub by_name: bool,
    /// Whether the reservation has the flag `ownerpreempt`, which has no effect.
    pub owner_preempts: bool,
}

/// The times of a [`ReservationConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Times {
    /// A single period, in local time.
    Once {
        /// The start.
        from: NaiveDateTime,
        /// The end.
        to: NaiveDateTime,
    },
    /// Recurring periods.
    Standing(RecurringWindow),
}

/// `[[dedicated]]`: a period, in local time, in which only jobs of queues named `ded...` run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedicatedConfig {
    /// The start.
    pub from: NaiveDateTime,
    /// The end.
    pub to: NaiveDateTime,
}

/// The limits on reservations by users who are neither operators nor managers (`resv_...` in
/// `[server]`).
#[derive(Clone, Debug, PartialEq)]
pub struct ReservationLimits {
    /// The users who may make reservations; `*` for all.
    pub users: Vec<UserPattern>,
    /// The largest number of reservations per user. Each occurrence of a standing reservation
    /// counts until it has ended.
    pub number: u32,
    /// The longest duration of a reservation.
    pub duration: Span,
    /// The largest part of all processors, 0 to 1, that the reservations of one user may have at
    /// any time.
    pub share: f64,
}

impl Default for ReservationLimits {
    fn default() -> ReservationLimits {
        let users = UserPattern::parse("*").into_iter().collect();
        ReservationLimits {
            users,
            number: 10,
            duration: Span::seconds(24 * 3600),
            share: 0.5,
        }
    }
}

/// A pattern for users in `operators`, `managers` or `resv_users`: `ann`, `ann@head`, `*@head`,
/// `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPattern {
    user: String,
    host: Option<String>,
}

impl UserPattern {
    /// Reads a pattern; None for invalid text.
    pub fn parse(text: &str) -> Option<UserPattern> {
        let is_name = |name: &str| {
            !name.is_empty() && !name.contains(|c: char| c == '@' || c == ',' || c.is_whitespace())
        };
        let (user, host) = match text.split_once('@') {
            Some((user, host)) => (user, Some(host)),
            None => (text, None),
        };
        let valid = is_name(user) && host.is_none_or(is_name);
        valid.then(|| UserPattern {
            user: user.to_string(),
            host: host.map(str::to_string),
        })
    }

    /// The user name; None if the pattern matches every user name.
    pub fn account(&self) -> Option<&str> {
        Some(self.user.as_str()).filter(|user| *user != "*")
    }

    /// Whether the pattern matches `user` at `host`. A pattern without a host matches any host.
    pub fn is(&self, user: &str, host: &str) -> bool {
        let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        fits(&self.user, user)
            && self
                .host
                .as_deref()
                .is_none_or(|pattern| fits(pattern, host))
    }
}

/// The pattern as written in the file.
impl fmt::Display for UserPattern {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{}@{host}", self.user),
            None => f.write_str(&self.user),
        }
    }
}

impl Config {
    /// The settings of a preset, without a file.
    pub fn with_preset(preset: Preset) -> Config {
        Config {
            launch: LaunchConfig::of_preset(preset),
            preset,
            cycle: CycleConfig {
                poll_interval: preset.poll_interval(),
                ..CycleConfig::default()
            },
            policy: preset.policy(),
            ..Config::default()
        }
    }

    /// The settings of this configuration's preset.
    fn of_preset(&self) -> Config {
        Config::with_preset(self.preset)
    }

    /// PBS's resources and the resources that the site defines.
    pub fn resources(&self) -> Resources {
        let mut all = Resources::builtin();
        for (name, definition) in &self.resources {
            all.define(name, definition.clone());
        }
        all
    }

    /// The configuration without the comments of queues and the server, and without other qmgr
    /// attributes that are only displayed.
    pub fn without_comments(&self) -> Config {
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

    /// The responses to failed attempts, to jobs that exceed their limits and to preemption.
    pub fn rules(&self) -> FailureRules {
        FailureRules {
            boost: self.policy.preemption.boost,
            ..self.launch.rules
        }
    }

    /// The scheduling policy, including settings that depend on several sections. Exemptions that
    /// qualities of service grant are listed after all limits (M27).
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

    /// The server's comment: a message of the administrators to all users.
    pub fn comment(&self) -> Option<&String> {
        self.kept
            .get(&(QmgrObject::Server, AttributeKey::plain("comment")))
    }

    /// The queues in the order of the file, always including the default queue. A queue that lacks
    /// a resource setting gets the server's setting.
    pub fn queues(&self) -> Vec<Queue> {
        let mut queues = self.configured_queues();
        let server = &self.server;
        for queue in &mut queues {
            add_missing(&mut queue.defaults, &server.defaults);
            add_missing(&mut queue.chunk_defaults, &server.chunk_defaults);
            add_missing(&mut queue.most, &server.most);
        }
        queues
    }

    /// The queues as configured, without the server's resource settings, always including the
    /// default queue.
    pub fn configured_queues(&self) -> Vec<Queue> {
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

fn add_missing(list: &mut ResourceList, defaults: &ResourceList) {
    for (name, value) in defaults {
        list.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests;
