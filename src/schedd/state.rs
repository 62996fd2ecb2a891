//! The data of the daemon.

use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::schedd::clients::Clients;
use crate::schedd::clients::calls::Calls;
use crate::schedd::clients::listen::Listener;
use crate::schedd::clients::readers::Readers;
use crate::schedd::clients::scripts::Scripts;
use crate::schedd::clients::snapshot::{Snapshots, WaitingForecasts};
use crate::schedd::clients::watchers::Watchers;
use crate::schedd::inbox::Input;
use crate::schedd::nodes::NodedEvent;
use crate::schedd::nodes::Nodes;
use crate::schedd::programs::allocation_script::AllocationScript;
use crate::schedd::programs::hooks::Hooks;
use crate::schedd::programs::mailer::Mailer;
use crate::schedd::programs::notifier::Notifier;
use crate::schedd::programs::resource_poller::ResourcePoller;
use crate::schedd::programs::user_notices::UserNotices;
use crate::schedd::storage::checkpoints::Checkpoints;
use crate::schedd::storage::cycles::Cycles;
use crate::schedd::storage::faults::Faults;
use crate::schedd::storage::recover::Recovered;
use crate::schedd::storage::reserve::Reserve;
use crate::schedd::storage::verdicts::Verdicts;
use crate::schedd::timers::Timers;
use crate::server::granted::ShutdownMode;
use crate::server::idle_jobs::IdleJobs;
use crate::server::startup;
use crate::server::startup::StartupGrace;
use crate::server::state::ServerState;
use crate::spool::Spool;
use crate::spool::lock::Lock;
use crate::sys::clock as machine;
use crate::sys::home::Home;
use crate::sys::signals::Signals;
use crate::update::Update;
use crate::wire::order::NodeReport;
use anyhow::Result;
use std::collections::BTreeSet;

/// The daemon.
pub struct Schedd {
    /// The directories of the installation.
    pub(super) home: Home,
    pub(super) server: ServerState,
    pub(super) spool: Spool,
    pub(super) listener: Listener,
    pub(super) clients: Clients,
    pub(super) nodes: Nodes,
    pub(super) watchers: Watchers,
    pub(super) calls: Calls,
    pub(super) readers: Readers,
    pub(super) snapshots: Snapshots,
    pub(super) waiting_forecasts: WaitingForecasts,
    pub(super) checkpoints: Checkpoints,
    pub(super) reserve: Reserve,
    pub(super) verdicts: Verdicts,
    pub(super) cycles: Cycles,
    pub(super) faults: Faults,
    pub(super) cycle_cache: CycleCache,
    pub(super) startup_grace: StartupGrace,
    pub(super) timers: Timers,
    pub(super) idle_jobs: IdleJobs,
    pub(super) mailer: Mailer,
    pub(super) notifier: Notifier,
    pub(super) user_notices: UserNotices,
    pub(super) allocation_script: AllocationScript,
    pub(super) resource_poller: ResourcePoller,
    pub(super) hooks: Hooks,
    pub(super) signals: Signals,
    /// The changes of a reload, as text for the log, until they are committed.
    pub(super) reloaded: Option<String>,
    /// Jobs with orders that could not be sent yet, because the spool could not be read.
    pub(super) unsent_orders: BTreeSet<JobId>,
    /// The inputs for the next tick.
    pub(super) inbox: Vec<Input>,
    pub(super) scripts: Scripts,
    /// Number of commits with changes of the state so far. Equal revisions mean equal state.
    pub(super) revision: u64,
    /// The time at which the last plan requests a further cycle; None if it requests none.
    pub(super) next_cycle: Option<Time>,
    /// When schedd last had work.
    pub(super) last_busy: Span,
    pub(super) started: Span,
    /// Why schedd exits; None while it serves.
    pub(super) exit_cause: Option<String>,
    /// Whether schedd continues when it is idle.
    pub(super) stays: bool,
    /// The shutdown mode, once `qterm` is requested.
    pub(super) shutdown_mode: Option<ShutdownMode>,
    _lock: Lock,
}

impl Schedd {
    /// Continues from the recovered state.
    pub(super) fn new(
        home: Home,
        recovered: Recovered,
        listener: Listener,
        signals: Signals,
    ) -> Result<Schedd> {
        let Recovered {
            lock,
            spool,
            server,
            epoch,
            verdicts,
            startup_grace,
            promises,
            last_cycle,
        } = recovered;
        let now = machine::monotonic();
        Ok(Schedd {
            nodes: Nodes::new(&server.setup, &home, epoch),
            watchers: Watchers::new(epoch),
            calls: Calls::default(),
            readers: Readers::start(crate::spool::file(&home))?,
            scripts: Scripts::start(&home)?,
            snapshots: Snapshots::default(),
            waiting_forecasts: WaitingForecasts::default(),
            checkpoints: Checkpoints::start(crate::spool::file(&home))?,
            reserve: Reserve::of(crate::spool::log(&home)),
            verdicts: Verdicts::new(verdicts, promises),
            cycles: Cycles::new(last_cycle),
            faults: Faults::default(),
            cycle_cache: CycleCache::default(),
            startup_grace,
            idle_jobs: IdleJobs::default(),
            timers: Timers::new(server.setup.config.cycle.poll_interval),
            mailer: Mailer::new(&server.setup),
            notifier: Notifier::default(),
            user_notices: UserNotices::new(epoch),
            allocation_script: AllocationScript::new(&server.setup.policy.placement),
            resource_poller: ResourcePoller::new(
                &server.setup.config,
                &server.setup.resources,
                now,
            ),
            hooks: Hooks::new(),
            clients: Clients::default(),
            reloaded: None,
            unsent_orders: BTreeSet::new(),
            inbox: Vec::new(),
            revision: 0,
            next_cycle: None,
            last_busy: now,
            started: now,
            exit_cause: None,
            stays: false,
            shutdown_mode: None,
            listener,
            signals,
            home,
            server,
            spool,
            _lock: lock,
        })
    }

    /// Whether a personal schedd that has just started still waits for its own noded. Until noded
    /// connects, the host's resources are unknown, so requests and cycles wait.
    pub(super) fn awaits_own_noded(&self) -> bool {
        self.nodes.awaits_own() && !self.server.is_settled(startup::OWN)
    }

    /// Handles events of node connections.
    pub(super) fn handle_node_events(&mut self, events: Vec<NodedEvent>) {
        for event in events {
            match event {
                NodedEvent::Report(target, NodeReport::Notified { token, why }) => {
                    self.user_notices.handle_end(target, token, why);
                }
                NodedEvent::Report(target, report) => {
                    self.inbox.push(Input::Report(target, report))
                }
                NodedEvent::Lost(nodes) => self.inbox.push(Input::Lost(nodes)),
                NodedEvent::Epoch(epoch) => self
                    .server
                    .add_update(Update::Meta("epoch", epoch.to_string())),
            }
        }
    }
}
