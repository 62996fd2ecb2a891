//! noded's event loop: connections, orders, shepherds and timers.

use super::args::NodedArgs;
use super::attempts::Attempts;
use super::checkpoint::CheckpointCommands;
use super::gauge::{self, Gauge, Measured};
use super::gpus;
use super::notify::Notifications;
use super::periodic::Periodic;
use super::poller::{PollSource, Poller};
use super::state::StateFolder;
use super::task_clients::TaskClients;
use crate::model::node::NodeFacts;
use crate::model::time::Span;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::wire::frame::FrameError;
use crate::wire::order::NodeReport;
use anyhow::{Context, Result};
use connections::Connection;
use nix::sys::signalfd::SignalFd;
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use tracing::info;

mod begin;

mod connections;

mod orders;

/// Time limit for the first order on a connection: a greeting, or a request to attach a client.
const GREETING_TIMEOUT: Span = Span::seconds(10);
/// Interval of periodic checks, such as reading the usage of running jobs.
const CHECK_INTERVAL: Span = Span::seconds(10);
/// Interval of repeated reports of ends that schedd has not confirmed.
const REPEAT_INTERVAL: Span = Span::seconds(30);

/// Runs noded until an order or a signal ends it, or until it has been idle for too long.
pub fn main(args: NodedArgs) -> Result<()> {
    let home = Home::find()?;
    let state = std::path::absolute(args.state.clone().unwrap_or(home.node()))?;
    let path = args.socket.clone();
    let path = std::path::absolute(path.unwrap_or(home.runtime.join("noded.sock")))?;
    // Other users need access to some of the directories that noded creates. Private files get
    // stricter modes.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let ready = if args.foreground {
        None
    } else {
        Some(super::background::enter(&state)?)
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .init();
    let begun = Daemon::begin(&args, &home, &state, &path);
    let daemon = super::background::announce(ready, begun)?;
    daemon.run()
}

struct Daemon {
    poller: Poller,
    attempts: Attempts,
    nodes: Vec<NodeFacts>,
    state: StateFolder,
    boot: String,
    /// The identity of the state directory.
    directory: String,
    /// Why schedd refused this noded; None if schedd has not refused it, or has accepted it since.
    refused: Option<String>,
    epoch: u64,
    path: PathBuf,
    listener: UnixListener,
    /// Mode of the socket: 0666 with `--schedd-uid`, else 0600. noded also checks the user of each
    /// connection.
    socket_mode: u32,
    signals: SignalFd,
    /// Processes of jobs that request tasks.
    task_clients: TaskClients,
    connections: BTreeMap<u64, Connection>,
    /// The number of schedd's connection, if schedd is connected.
    schedd: Option<u64>,
    schedd_uids: Vec<u32>,
    idle_limit: Option<Span>,
    idle_since: Span,
    gpus: gpus::GpuWatcher,
    /// Periodic hooks; None on hollow nodes.
    periodic: Option<Periodic>,
    /// Checkpoint commands; None on hollow nodes.
    checkpoints: Option<CheckpointCommands>,
    notifications: Notifications,
    host: String,
    /// Measures the use of the host; None on hollow nodes.
    gauge: Option<Gauge>,
    next_check: Span,
    next_repeat: Span,
    stopping: bool,
}

impl Daemon {
    fn run(mut self) -> Result<()> {
        while !self.stopping {
            let timeout = self.timeout();
            for source in self.poller.wait(timeout) {
                self.handle(source)?;
            }
            self.check_times();
            self.send_reports();
        }
        let _ = std::fs::remove_file(&self.path);
        info!("exiting; running jobs continue under their shepherds");
        Ok(())
    }

    fn handle(&mut self, source: PollSource) -> Result<()> {
        match source {
            PollSource::Spawner => self.attempts.read_messages(&mut self.poller),
            PollSource::OldSpawner(_) => self.attempts.read_old_messages(source, &mut self.poller),
            PollSource::OldLaunches(number) => self
                .attempts
                .resolve_doubtful_launches(number, &mut self.poller),
            PollSource::SpawnerEnded => self
                .attempts
                .spawner_ended(&mut self.poller)
                .context("cannot replace the spawner")?,
            PollSource::Shepherd(name, _) => {
                self.attempts.shepherd_ended(name, source, &mut self.poller)
            }
            PollSource::Listener => self.admit(),
            PollSource::Signals => {
                self.stopping = self
                    .signals
                    .read_signal()
                    .is_ok_and(|signal| signal.is_some())
            }
            PollSource::Connection(number) => self.read_orders(number),
            // `check_times` handles the output of programs after each wait.
            PollSource::Program => {}
            PollSource::TaskListener => self.task_clients.admit(&mut self.poller),
            PollSource::TaskClient(number) => {
                self.task_clients
                    .read(number, self.can_pass_requests(), &mut self.poller)
            }
        }
        Ok(())
    }

    fn send_reports(&mut self) {
        let mut reports = self.attempts.take_reports();
        reports.extend(self.task_clients.take_reports());
        reports.extend(
            self.checkpoints
                .iter_mut()
                .flat_map(CheckpointCommands::take_reports),
        );
        reports.extend(self.notifications.take_reports());
        for report in reports {
            // Without a connected schedd, reports are dropped. A schedd that connects gets an
            // inventory of the attempts, and repeats its unfinished orders.
            if let Some(number) = self.schedd {
                self.send(number, &report);
            }
        }
        if let Some(number) = self.schedd {
            self.update_polling(number);
        }
    }

    fn timeout(&self) -> i64 {
        let now = clock::monotonic().0;
        let connection = self
            .connections
            .iter()
            .filter(|(number, _)| self.schedd != Some(**number));
        let connection = connection
            .map(|(_, connection)| connection.since.0 + GREETING_TIMEOUT.0)
            .min();
        let idle = match self.idle_limit {
            Some(limit) if self.is_idle() => Some(self.idle_since.0 + limit.0),
            _ => None,
        };
        let ends = self.attempts.next_end().map(|end| end.0);
        let gpus = self.gpus.due().map(|due| due.0);
        let task_clients = self.task_clients.next().map(|next| next.0);
        let hooks = self
            .periodic
            .as_ref()
            .and_then(Periodic::due)
            .map(|due| due.0);
        let checkpoints = self
            .checkpoints
            .as_ref()
            .and_then(CheckpointCommands::due)
            .map(|due| due.0);
        let stops = self.attempts.next_stop_check().map(|next| next.0);
        let next = [
            connection,
            idle,
            ends,
            gpus,
            task_clients,
            hooks,
            checkpoints,
            stops,
            Some(self.next_check.0),
        ]
        .into_iter()
        .flatten()
        .min();
        next.unwrap_or(now).saturating_sub(now).max(0)
    }

    fn is_idle(&self) -> bool {
        self.schedd.is_none() && self.attempts.is_idle()
    }

    fn check_times(&mut self) {
        let now = clock::monotonic();
        self.attempts.end_hollow_jobs();
        self.attempts.check_stops(now);
        if !self.is_idle() {
            self.idle_since = now;
        }
        self.stopping |= self
            .idle_limit
            .is_some_and(|limit| self.is_idle() && now.0 - self.idle_since.0 >= limit.0);
        let late = self.connections.iter().filter(|(number, connection)| {
            self.schedd != Some(**number) && now.0 - connection.since.0 >= GREETING_TIMEOUT.0
        });
        let slow: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in slow {
            self.close(
                number,
                &FrameError::Io(std::io::Error::other("no greeting arrived in time")),
            );
        }
        let attempts = &self.attempts;
        self.gpus
            .update(now, &mut self.poller, || attempts.shepherds());
        self.report_gpus();
        self.task_clients.expire(&mut self.poller);
        self.run_hooks(now);
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.update(now, &mut self.attempts, &mut self.poller);
        }
        self.notifications.update(now);
        if now >= self.next_check {
            self.next_check = Span(now.0 + CHECK_INTERVAL.0);
            self.attempts.check_all(&mut self.poller);
            if self.measure() {
                self.report_nodes();
            }
            self.recreate_socket();
            self.task_clients.recreate_socket(&mut self.poller);
        }
        if now >= self.next_repeat {
            self.next_repeat = Span(now.0 + REPEAT_INTERVAL.0);
            self.attempts.repeat_ends();
        }
    }

    /// Reports changes of GPU use by processes outside of jobs.
    fn report_gpus(&mut self) {
        let Some(used) = self.gpus.take_news() else {
            return;
        };
        let before = self.nodes.clone();
        for node in &mut self.nodes {
            // A node that lists no GPUs reports all GPUs used outside of jobs. schedd decides which
            // of them the node has.
            node.gpus_outside = used.iter().copied().collect();
            if !node.gpus.is_empty() {
                node.gpus_outside
                    .retain(|number| node.gpus.contains(number));
            }
        }
        if self.nodes != before {
            self.report_nodes();
        }
    }

    /// Runs the periodic hooks that are due. Reports failures that make this host unfit for jobs.
    fn run_hooks(&mut self, now: Span) {
        let Some(periodic) = &mut self.periodic else {
            return;
        };
        periodic.run_due(now, &self.host, &self.nodes, &mut self.poller);
        // Without a connected schedd, these failures are dropped. Later failures are reported.
        let unfit = periodic.take_unfit();
        for (number, why) in self
            .schedd
            .into_iter()
            .flat_map(|number| unfit.iter().map(move |why| (number, why)))
        {
            self.send(number, &NodeReport::Unfit { why: why.clone() });
        }
    }

    /// Measures the use of the host. Returns whether the use has changed noticeably since the last
    /// report.
    fn measure(&mut self) -> bool {
        let measured = self
            .gauge
            .as_mut()
            .and_then(|gauge| Measured::now().filter(|now| gauge.is_news(*now)));
        if let Some(measured) = measured {
            gauge::set_use(&mut self.nodes, measured);
        }
        measured.is_some()
    }

    fn report_nodes(&mut self) {
        if let Some(number) = self.schedd {
            let nodes = self.nodes.clone();
            self.send(number, &NodeReport::Nodes(nodes));
        }
    }
}
