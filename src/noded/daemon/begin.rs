//! The start of noded: detecting the host, locking the state, adopting attempts.

use super::connections::listen;
use super::{CHECK_INTERVAL, Daemon, REPEAT_INTERVAL};
use crate::config::{GPU_TOOL, NO_TOOL};
use crate::model::node::NodeFacts;
use crate::model::time::Span;
use crate::noded::args::NodedArgs;
use crate::noded::attempts::Attempts;
use crate::noded::checkpoint::CheckpointCommands;
use crate::noded::gauge::Gauge;
use crate::noded::notify::Notifications;
use crate::noded::periodic::Periodic;
use crate::noded::poller::{PollSource, Poller};
use crate::noded::probe::{self, Hardware};
use crate::noded::rules::NodeRules;
use crate::noded::site::Site;
use crate::noded::state::StateFolder;
use crate::noded::task_clients::TaskClients;
use crate::noded::{gpus, grant, tmpdir};
use crate::sys::home::Home;
use crate::sys::{cgroup, clock, env, process, sensors, user};
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracing::info;

impl Daemon {
    /// Reads the configuration, locks noded's state directory, forks the spawner, listens at the
    /// socket, and adopts the attempts in the state directory.
    pub(super) fn begin(
        args: &NodedArgs,
        home: &Home,
        state_folder: &Path,
        path: &Path,
    ) -> Result<Daemon> {
        process::default_signals();
        process::block_signals().context("cannot block signals")?;
        let own = user::own();
        let rules = NodeRules::of(args, home)?;
        let state = StateFolder::lock(state_folder, own.uid == 0)?;
        rules.check_scripts_reachable(state_folder)?;
        let HostSetup {
            hardware,
            nodes,
            site,
            gpus,
        } = HostSetup::detect(args, home, state_folder, &rules)?;
        let (others, tasks) = (own.uid == 0, site.tasks());
        let notifications = Notifications::new(site.clone());
        let attempts = attempts(args, site, &state)?;
        process::raise_descriptor_limit();
        let mut poller = Poller::new()?;
        let task_clients = TaskClients::open(state_folder, &tasks, others, &mut poller)
            .with_context(|| format!("cannot listen at {}", tasks.display()))?;
        let signals = process::signals(&[Signal::SIGTERM, Signal::SIGINT])?;
        poller.add(&signals, PollSource::Signals)?;
        let socket_mode = if args.schedd_uid.is_some() {
            0o666
        } else {
            0o600
        };
        let listener = listen(path, socket_mode)?;
        poller.add(&listener, PollSource::Listener)?;
        let now = clock::monotonic();
        let mut daemon = Daemon {
            poller,
            attempts,
            nodes,
            boot: clock::boot_id(),
            directory: state.identity()?,
            refused: None,
            epoch: state.epoch(),
            state,
            path: path.to_path_buf(),
            listener,
            socket_mode,
            signals,
            task_clients,
            connections: BTreeMap::new(),
            schedd: None,
            schedd_uids: [0, own.uid].into_iter().chain(args.schedd_uid).collect(),
            idle_limit: args
                .exit_when_idle
                .map(|seconds| Span::seconds(i64::from(seconds))),
            idle_since: now,
            gpus,
            periodic: (!args.hollow).then(Periodic::default),
            checkpoints: (!args.hollow)
                .then(|| CheckpointCommands::new(state_folder.to_path_buf(), own.uid)),
            notifications,
            host: hardware.host.clone(),
            gauge: (!args.hollow).then(|| Gauge::new(&hardware)),
            next_check: Span(now.0 + CHECK_INTERVAL.0),
            next_repeat: Span(now.0 + REPEAT_INTERVAL.0),
            stopping: false,
        };
        daemon.measure();
        daemon.attempts.tidy();
        daemon
            .attempts
            .adopt(&mut daemon.poller)
            .with_context(|| format!("state directory {}", state_folder.display()))?;
        info!(
            "nodes offered to schedd: {}; listening at {}",
            daemon.nodes.len(),
            path.display()
        );
        Ok(daemon)
    }
}

/// The host's resources, the nodes to present, the environment of all attempts (`site`), and the
/// watcher of GPU use.
struct HostSetup {
    hardware: Hardware,
    nodes: Vec<NodeFacts>,
    site: Site,
    gpus: gpus::GpuWatcher,
}

impl HostSetup {
    /// Detects the host's resources. Inside a job of another installation, only the resources
    /// granted to that job count.
    fn detect(
        args: &NodedArgs,
        home: &Home,
        state_folder: &Path,
        rules: &NodeRules,
    ) -> Result<HostSetup> {
        let grant = grant::read(home)?;
        let hardware = grant.iter().fold(Hardware::detect(), Hardware::within);
        let mut nodes = probe::nodes(args, &hardware);
        let mut site = site(args, state_folder, &hardware, rules, &nodes);
        site.home = home.is_personal().then(|| home.state.clone());
        let site = if grant.is_some() {
            site.inside_job(home)
        } else {
            site
        };
        let gpus = watcher(rules, site.gpus && !site.amd);
        if gpus.is_use_unknown() {
            nodes
                .iter_mut()
                .for_each(|node| node.gpus_outside = node.gpus.clone());
        }
        Ok(HostSetup {
            hardware,
            nodes,
            site,
            gpus,
        })
    }
}

/// Creates an empty set of attempts. With `--hollow`, attempts are simulated; otherwise forks the
/// spawner, which starts them.
fn attempts(args: &NodedArgs, site: Site, state: &StateFolder) -> Result<Attempts> {
    if args.hollow {
        return Ok(Attempts::hollow(site));
    }
    let _ = nix::unistd::chdir("/");
    Attempts::new(site, state.launch_lock.try_clone()?).context("cannot fork the spawner")
}

/// The environment that every attempt shares.
fn site(
    args: &NodedArgs,
    state_folder: &Path,
    hardware: &Hardware,
    rules: &NodeRules,
    nodes: &[NodeFacts],
) -> Site {
    let cgroup =
        cgroup::base().filter(|folder| !args.hollow && !args.no_cgroups && cgroup::usable(folder));
    cgroup
        .iter()
        .for_each(|folder| cgroup::offer_controllers(folder));
    Site {
        state: state_folder.to_path_buf(),
        boot: clock::boot_id(),
        tmp: tmpdir::base(state_folder),
        home: None,
        commands: commands(),
        host: hardware.host.clone(),
        cgroup,
        gpus: nodes
            .iter()
            .any(|node| !node.gpus.is_empty() || rules.with_gpus.contains(&node.name)),
        amd: sensors::has_amd_gpus(),
        max_processes: Some(u64::from(rules.max_processes)).filter(|&limit| limit > 0),
        shared: rules.shared,
        min_uid: rules.min_uid,
        own: user::own(),
    }
}

/// The directory of noded and Lanai's commands; None if it cannot be determined.
fn commands() -> Option<PathBuf> {
    Some(env::program().ok()?.parent()?.to_path_buf())
}

/// A watcher of GPU use that runs the tool named in `lanai.toml`, if any. The default tool,
/// NVIDIA's, is only run if `has_gpus`.
fn watcher(rules: &NodeRules, has_gpus: bool) -> gpus::GpuWatcher {
    let (named, interval) = rules.gpu_tool.clone();
    let is_enabled = named != Path::new(NO_TOOL) && (has_gpus || named != Path::new(GPU_TOOL));
    gpus::GpuWatcher::new(is_enabled.then_some(named), interval, clock::monotonic())
}
