//! noded's loop: connections, orders, what shepherds say, time.

use super::args::NodedArgs;
use super::askers::Askers;
use super::attempts::Attempts;
use super::checkpoint::CheckpointCommands;
use super::control::{Cancel, Control};
use super::folder::AttemptName;
use super::gauge::{self, Gauge, Measured};
use super::gpus;
use super::notify::Notifications;
use super::periodic::Periodic;
use super::poller::{PollSource, Poller};
use super::state::StateFolder;
use crate::model::node::NodeFacts;
use crate::model::time::Span;
use crate::sys::home::Home;
use crate::sys::{clock, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::order::{Checkpoint, NodeReport, ScheddOrder};
use crate::wire::peer;
use anyhow::{Context, Result};
use nix::sys::signalfd::SignalFd;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tracing::{error, info, warn};

mod begin;

/// How long a connection may take to say who it is, and how many may be about it.
const PATIENCE: Span = Span::seconds(10);
const MOST_GUESTS: usize = 16;
/// What a schedd that does not listen may leave unread, in bytes, before it is cut off.
const BACKLOG: usize = 64 << 20;
/// How often usage is looked at, and how often an unconfirmed end is said again.
const ROUND: Span = Span::seconds(10);
const REPEAT: Span = Span::seconds(30);

/// Runs noded until it is told to leave.
pub fn main(args: NodedArgs) -> Result<()> {
    let home = Home::find()?;
    let absolute = |given: &Option<PathBuf>, usual: PathBuf| {
        std::path::absolute(given.clone().unwrap_or(usual))
    };
    let state = absolute(&args.state, home.node())?;
    let path = absolute(&args.socket, home.runtime.join("noded.sock"))?;
    // Others pass through some of our folders; what they must not see is closed one by one.
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
    /// Why schedd has refused this noded; None once it is admitted.
    refused: Option<String>,
    epoch: u64,
    path: PathBuf,
    listener: UnixListener,
    /// A schedd that is neither root nor our own user must be able to knock; who does is asked of
    /// the kernel at each dial.
    socket_mode: u32,
    signals: SignalFd,
    /// Processes of jobs that want tasks started.
    askers: Askers,
    guests: BTreeMap<u64, Guest>,
    /// The guest that is schedd.
    schedd: Option<u64>,
    welcome: Vec<u32>,
    idle_limit: Option<Span>,
    idle_since: Span,
    gpus: gpus::GpuWatcher,
    /// Hooks that are asked again and again; None on nodes that are only pretended.
    periodic: Option<Periodic>,
    /// Commands that write down how far jobs have come; None on nodes that are only pretended.
    checkpoints: Option<CheckpointCommands>,
    notifications: Notifications,
    host: String,
    /// What is in use of the host; None where nothing is measured.
    gauge: Option<Gauge>,
    next_round: Span,
    next_repeat: Span,
    leaving: bool,
}

struct Guest {
    link: FrameSocket,
    uid: u32,
    since: Span,
    writing: bool,
    /// Why it can be told nothing more. What it has said before is carried out all the same: a
    /// schedd that leaves says so and waits for no answer.
    deaf: Option<FrameError>,
}

impl Guest {
    /// Writes what it has room for.
    fn flush(&mut self) {
        if let Err(e) = self.link.flush() {
            self.deaf.get_or_insert(e.into());
        }
    }
}

impl Daemon {
    fn run(mut self) -> Result<()> {
        while !self.leaving {
            let timeout = self.timeout();
            for source in self.poller.wait(timeout) {
                self.hear(source)?;
            }
            self.keep_time();
            self.tell_schedd();
        }
        let _ = std::fs::remove_file(&self.path);
        info!("leaving; running jobs go on under their shepherds");
        Ok(())
    }

    fn hear(&mut self, source: PollSource) -> Result<()> {
        match source {
            PollSource::Spawner => self.attempts.hear(&mut self.poller),
            PollSource::OldSpawner(_) => self.attempts.hear_old(source, &mut self.poller),
            PollSource::OldBuilders(number) => self.attempts.settle(number, &mut self.poller),
            PollSource::SpawnerEnded => self
                .attempts
                .spawner_ended(&mut self.poller)
                .context("the spawner")?,
            PollSource::Shepherd(name, _) => {
                self.attempts.shepherd_ended(name, source, &mut self.poller)
            }
            PollSource::Listener => self.admit(),
            PollSource::Signals => {
                self.leaving = self
                    .signals
                    .read_signal()
                    .is_ok_and(|signal| signal.is_some())
            }
            PollSource::Guest(number) => self.listen_to(number),
            // What programs write is taken in by keep_time, after each wait.
            PollSource::Program => {}
            PollSource::AskerListener => self.askers.admit(&mut self.poller),
            PollSource::Asker(number) => {
                self.askers
                    .hear(number, self.schedd_listens(), &mut self.poller)
            }
        }
        Ok(())
    }

    // ------------------------------------------------------------------------- connections

    fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Err(e) = self.take_in(stream) {
                warn!("a connection was refused: {e:#}");
            }
        }
    }

    fn take_in(&mut self, stream: UnixStream) -> Result<()> {
        let peer = peer::of(&stream)?;
        anyhow::ensure!(
            self.welcome.contains(&peer.uid()),
            "user {} is not schedd's",
            peer.uid()
        );
        anyhow::ensure!(self.guests.len() <= MOST_GUESTS, "too many connections");
        let guest = Guest {
            link: FrameSocket::new(stream)?,
            uid: peer.uid(),
            since: clock::monotonic(),
            writing: false,
            deaf: None,
        };
        let number = self.poller.number();
        self.poller.add(&guest.link, PollSource::Guest(number))?;
        self.guests.insert(number, guest);
        Ok(())
    }

    fn listen_to(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else {
            return;
        };
        guest.flush();
        let orders = match guest.link.receive::<ScheddOrder>() {
            Ok(orders) => orders,
            Err(e) => return self.close(number, &e),
        };
        for order in orders {
            if !self.guests.contains_key(&number) {
                return;
            }
            self.carry_out(number, order);
        }
        self.settle(number);
    }

    fn close(&mut self, number: u64, why: &FrameError) {
        let Some(guest) = self.guests.get_mut(&number) else {
            return;
        };
        match why {
            FrameError::Closed if self.refused.is_some() => {}
            FrameError::Closed => info!("a connection of user {} was closed", guest.uid),
            FrameError::Version { .. } => guest.link.send_version(),
            _ => {}
        }
        if !matches!(why, FrameError::Closed) {
            warn!("a connection of user {} is closed: {why}", guest.uid);
        }
        self.let_go(number);
    }

    fn let_go(&mut self, number: u64) {
        let Some(guest) = self.guests.remove(&number) else {
            return;
        };
        self.poller.remove(&guest.link, PollSource::Guest(number));
        if self.schedd == Some(number) {
            self.schedd = None;
            self.idle_since = clock::monotonic();
        }
    }

    fn send(&mut self, number: u64, report: &NodeReport) {
        let Some(guest) = self
            .guests
            .get_mut(&number)
            .filter(|guest| guest.deaf.is_none())
        else {
            return;
        };
        guest.deaf = guest.link.send(report).err();
        let backlog = guest.link.backlog();
        if backlog > BACKLOG {
            guest.deaf = Some(FrameError::TooLarge(backlog));
        }
    }

    /// Lets go of a guest that can be told nothing more; of another, waits for room to write where
    /// there is something to.
    fn settle(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else {
            return;
        };
        if let Some(why) = guest.deaf.take() {
            return self.close(number, &why);
        }
        if guest.writing != guest.link.wants_write() {
            guest.writing = guest.link.wants_write();
            self.poller
                .want_write(&guest.link, PollSource::Guest(number), guest.writing);
        }
    }

    /// Whether wishes may be passed on: those that are not are said again.
    fn schedd_listens(&self) -> bool {
        let schedd = self.schedd.and_then(|number| self.guests.get(&number));
        schedd.is_some_and(|guest| guest.link.backlog() < BACKLOG / 4)
    }

    // ------------------------------------------------------------------------- orders

    fn carry_out(&mut self, number: u64, order: ScheddOrder) {
        if let ScheddOrder::Hello { epoch } = order {
            return self.greet(number, epoch);
        }
        if let ScheddOrder::Attach {
            epoch,
            job,
            attempt,
        } = order
        {
            return self.attach(
                number,
                epoch,
                AttemptName {
                    job,
                    attempt,
                    task: 0,
                },
            );
        }
        if self.schedd != Some(number) {
            let unsaid = std::io::Error::other("an order before a greeting");
            return self.close(number, &FrameError::Io(unsaid));
        }
        let attempts = &mut self.attempts;
        match order {
            ScheddOrder::Hello { .. } | ScheddOrder::Attach { .. } => {}
            ScheddOrder::Start(launch) => attempts.start(&launch, &mut self.poller),
            ScheddOrder::Cancel {
                job,
                attempt,
                task,
                grace,
                signal,
                again,
            } => {
                let name = AttemptName { job, attempt, task };
                self.checkpoints
                    .iter_mut()
                    .for_each(|checkpoints| checkpoints.give_up(name));
                attempts.cancel(
                    name,
                    Cancel {
                        grace,
                        signal,
                        again,
                    },
                );
            }
            ScheddOrder::Checkpoint(order) => self.checkpoint(&order),
            ScheddOrder::Signal {
                job,
                attempt,
                task,
                signal,
            } => {
                attempts.tell(AttemptName { job, attempt, task }, Control::Signal(signal));
            }
            ScheddOrder::Walltime {
                job,
                attempt,
                times,
            } => {
                attempts.tell(
                    AttemptName {
                        job,
                        attempt,
                        task: 0,
                    },
                    Control::Times(times),
                );
            }
            ScheddOrder::Message {
                job,
                attempt,
                output,
                errors,
                text,
            } => {
                attempts.tell(
                    AttemptName {
                        job,
                        attempt,
                        task: 0,
                    },
                    Control::Message {
                        output,
                        errors,
                        text,
                    },
                );
            }
            ScheddOrder::Places {
                job,
                attempt,
                task,
                nodes,
            } => attempts.replace_nodes(AttemptName { job, attempt, task }, &nodes),
            ScheddOrder::Suspend { job, attempt, task } => {
                attempts.suspend(AttemptName { job, attempt, task })
            }
            ScheddOrder::Resume {
                job,
                attempt,
                task,
                cpus,
            } => attempts.resume(AttemptName { job, attempt, task }, cpus),
            ScheddOrder::Confirm { job, attempt, task } => {
                attempts.confirm(AttemptName { job, attempt, task })
            }
            ScheddOrder::Tell {
                job,
                attempt,
                asker,
                news,
            } => {
                self.askers
                    .tell((job, attempt), asker, &news, &mut self.poller);
            }
            ScheddOrder::Attend { server, hooks } => {
                // What every noded is told that is admitted.
                if self.refused.take().is_some() {
                    info!("following a schedd of epoch {}", self.epoch);
                }
                let now = clock::monotonic();
                self.periodic
                    .iter_mut()
                    .for_each(|periodic| periodic.attend(server.clone(), hooks.clone(), now));
            }
            ScheddOrder::Ping => self.send(number, &NodeReport::Pong),
            ScheddOrder::Leave => self.leaving = true,
            ScheddOrder::Notify(notification) => {
                self.notifications.begin(&notification, &mut self.poller)
            }
            ScheddOrder::Refuse { why } => self.be_refused(number, why),
        }
    }

    /// schedd dials again and again: the log says the first time only why it refuses.
    fn be_refused(&mut self, number: u64, why: String) {
        if self.refused.is_none() {
            warn!("schedd refuses this noded: {why}");
        }
        self.refused = Some(why);
        self.let_go(number);
    }

    /// Has it written down how far a running job has come, and then ends the job.
    fn checkpoint(&mut self, order: &Checkpoint) {
        let name = AttemptName {
            job: order.job,
            attempt: order.attempt,
            task: 0,
        };
        if self.attempts.session(name).is_none() {
            return;
        }
        match &mut self.checkpoints {
            Some(checkpoints) => checkpoints.begin(order, &mut self.poller),
            None => self.attempts.cancel(
                name,
                Cancel {
                    again: true,
                    ..Cancel::default()
                },
            ),
        }
    }

    /// A schedd of the highest epoch heard is followed, and any other connection of one is closed
    /// with its orders unread.
    fn greet(&mut self, number: u64, epoch: u64) {
        if epoch < self.epoch {
            self.send(number, &NodeReport::Fenced { epoch: self.epoch });
            let why = format!("its epoch {epoch} is below {}", self.epoch);
            return self.close(number, &FrameError::Io(std::io::Error::other(why)));
        }
        if epoch > self.epoch {
            self.epoch = epoch;
            if let Err(e) = self.state.set_epoch(epoch) {
                error!("epoch {epoch} cannot be recorded: {e:#}");
            }
        }
        if let Some(old) = self.schedd.replace(number).filter(|&old| old != number) {
            self.close(old, &FrameError::Closed);
        }
        if self.refused.is_none() {
            info!("following a schedd of epoch {epoch}");
        }
        self.attempts.said();
        let (boot, directory) = (self.boot.clone(), self.directory.clone());
        let (nodes, attempts) = (self.nodes.clone(), self.attempts.statuses());
        self.send(
            number,
            &NodeReport::Hello {
                boot,
                directory,
                nodes,
                attempts,
            },
        );
        self.askers.said();
        self.askers.again(&mut self.poller);
    }

    /// Hands a connection on to the shepherd of an interactive job. It may have been dialled by no
    /// schedd but the one that is followed.
    fn attach(&mut self, number: u64, epoch: u64, name: AttemptName) {
        if epoch < self.epoch {
            self.send(number, &NodeReport::Fenced { epoch: self.epoch });
        }
        let door = match self.attempts.door(name) {
            Ok(door) if epoch >= self.epoch && self.schedd != Some(number) => door,
            Ok(_) => return self.close(number, &FrameError::Closed),
            Err(e) => return self.close(number, &FrameError::Io(e)),
        };
        self.send(number, &NodeReport::Attached);
        let Some(guest) = self.guests.remove(&number) else {
            return;
        };
        self.poller.remove(&guest.link, PollSource::Guest(number));
        if let Err(e) = door.hand_in(guest.link.as_fd()) {
            warn!("the terminal of attempt {name} cannot be handed its connection: {e}");
        }
    }

    fn tell_schedd(&mut self) {
        let mut said = self.attempts.said();
        said.extend(self.askers.said());
        said.extend(
            self.checkpoints
                .iter_mut()
                .flat_map(CheckpointCommands::said),
        );
        said.extend(self.notifications.said());
        for report in said {
            // Without a schedd it is dropped here: the next one's greeting is answered with all.
            if let Some(number) = self.schedd {
                self.send(number, &report);
            }
        }
        if let Some(number) = self.schedd {
            self.settle(number);
        }
    }

    // ------------------------------------------------------------------------- time

    fn timeout(&self) -> i64 {
        let now = clock::monotonic().0;
        let guest = self
            .guests
            .iter()
            .filter(|(number, _)| self.schedd != Some(**number));
        let guest = guest.map(|(_, guest)| guest.since.0 + PATIENCE.0).min();
        let idle = self
            .idle_limit
            .filter(|_| self.idle())
            .map(|limit| self.idle_since.0 + limit.0);
        let ends = self.attempts.next_end().map(|end| end.0);
        let gpus = self.gpus.due().map(|due| due.0);
        let askers = self.askers.next().map(|next| next.0);
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
        let stops = self.attempts.next_look().map(|next| next.0);
        let next = [
            guest,
            idle,
            ends,
            gpus,
            askers,
            hooks,
            checkpoints,
            stops,
            Some(self.next_round.0),
        ]
        .into_iter()
        .flatten()
        .min();
        next.unwrap_or(now).saturating_sub(now).max(0)
    }

    fn idle(&self) -> bool {
        self.schedd.is_none() && self.attempts.idle()
    }

    fn keep_time(&mut self) {
        let now = clock::monotonic();
        self.attempts.pretend();
        self.attempts.look_after_stops(now);
        if !self.idle() {
            self.idle_since = now;
        }
        self.leaving |= self
            .idle_limit
            .is_some_and(|limit| self.idle() && now.0 - self.idle_since.0 >= limit.0);
        let slow = |(number, guest): (&u64, &Guest)| {
            (self.schedd != Some(*number) && now.0 - guest.since.0 >= PATIENCE.0).then_some(*number)
        };
        let slow: Vec<u64> = self.guests.iter().filter_map(slow).collect();
        for number in slow {
            self.close(
                number,
                &FrameError::Io(std::io::Error::other("it did not say who it is")),
            );
        }
        let attempts = &self.attempts;
        self.gpus
            .attend(now, &mut self.poller, || attempts.shepherds());
        self.tell_of_gpus();
        self.askers.expire(&mut self.poller);
        self.ask_hooks(now);
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.attend(now, &mut self.attempts, &mut self.poller);
        }
        self.notifications.attend(now);
        if now >= self.next_round {
            self.next_round = Span(now.0 + ROUND.0);
            self.attempts.look_round(&mut self.poller);
            if self.measure() {
                self.tell_of_nodes();
            }
            self.listen_again();
            self.askers.listen_again(&mut self.poller);
        }
        if now >= self.next_repeat {
            self.next_repeat = Span(now.0 + REPEAT.0);
            self.attempts.repeat();
        }
    }

    /// Tells schedd when GPUs have come into use from outside, or are free of it again.
    fn tell_of_gpus(&mut self) {
        let Some(used) = self.gpus.take_news() else {
            return;
        };
        let before = self.nodes.clone();
        for node in &mut self.nodes {
            // Which GPUs a node has that names none is for schedd to say.
            let is_its = |number: &u16| node.gpus.is_empty() || node.gpus.contains(number);
            node.gpus_outside = used.iter().copied().filter(is_its).collect();
        }
        if self.nodes != before {
            self.tell_of_nodes();
        }
    }

    /// Asks the hooks that are due; what they have failed at since, schedd is told.
    fn ask_hooks(&mut self, now: Span) {
        let Some(periodic) = &mut self.periodic else {
            return;
        };
        periodic.keep_time(now, &self.host, &self.nodes, &mut self.poller);
        // Without a schedd it is dropped here: what fails again is said again.
        let unfit = periodic.take_unfit();
        for (number, why) in self
            .schedd
            .into_iter()
            .flat_map(|number| unfit.iter().map(move |why| (number, why)))
        {
            self.send(number, &NodeReport::Unfit { why: why.clone() });
        }
    }

    /// Measures what is in use of the host; whether that is worth telling.
    fn measure(&mut self) -> bool {
        let measured = self
            .gauge
            .as_mut()
            .and_then(|gauge| Measured::now().filter(|now| gauge.is_news(*now)));
        if let Some(measured) = measured {
            gauge::note(&mut self.nodes, measured);
        }
        measured.is_some()
    }

    fn tell_of_nodes(&mut self) {
        if let Some(number) = self.schedd {
            let nodes = self.nodes.clone();
            self.send(number, &NodeReport::Nodes(nodes));
        }
    }

    /// A runtime folder may be emptied under us: then the socket is made again.
    fn listen_again(&mut self) {
        if self.path.exists() {
            return;
        }
        warn!(
            "the socket {} has vanished: making it again",
            self.path.display()
        );
        match listen(&self.path, self.socket_mode) {
            Ok(listener) => {
                self.poller.remove(&self.listener, PollSource::Listener);
                self.listener = listener;
                if let Err(e) = self.poller.add(&self.listener, PollSource::Listener) {
                    error!("the socket cannot be listened at: {e}");
                }
            }
            Err(e) => error!("{e:#}"),
        }
    }
}

fn listen(path: &Path, mode: u32) -> Result<UnixListener> {
    let place = || {
        format!(
            "listening at {}: give another place with --socket",
            path.display()
        )
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        crate::sys::filesystem::make_private(folder).with_context(place)?;
    }
    socket::bind(path, mode).with_context(place)
}
