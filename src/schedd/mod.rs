//! The daemon: one loop, one writer, the working state in memory.
//!
//! The loop here gathers what arrives: requests of [`clients`], reports of [`nodes`], timers. A
//! [`tick`] lets the server ([`crate::server`]) handle all of it, commits the result to the spool
//! and answers. Then the cycle ([`deciding`]) plans, its plan is committed, and the nodes get their
//! orders.

pub mod accounts;
mod check;
mod clients;
mod configuration;
mod deciding;
mod housekeeping;
mod nested;
mod nodes;
mod programs;
mod reload;
mod shutdown;
mod start;
mod storage;
mod tick;
mod timers;

pub use start::{command, main};

use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::schedd::clients::Clients;
use crate::schedd::clients::ahead::Aside;
use crate::schedd::clients::attach::Calls;
use crate::schedd::clients::listen::Listener;
use crate::schedd::clients::readers::Readers;
use crate::schedd::clients::scripts::Scripts;
use crate::schedd::clients::snapshot::Snapshots;
use crate::schedd::clients::watchers::Watchers;
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
use crate::schedd::tick::Input;
use crate::schedd::timers::Timers;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::server::requests::shutdown::ShutdownMode;
use crate::server::startup;
use crate::server::startup::StartupGrace;
use crate::server::state::ServerState;
use crate::spool::Spool;
use crate::spool::lock::Lock;
use crate::sys::clock as machine;
use crate::sys::home::Home;
use crate::sys::signals::Signals;
use crate::update::Update;
use crate::wire::message::{self, ClientRequest, Question, Reply, ScheddStatus};
use crate::wire::order::NodeReport;
use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The daemon.
pub struct Schedd {
    /// The folders of the installation.
    home: Home,
    server: ServerState,
    spool: Spool,
    listener: Listener,
    clients: Clients,
    nodes: Nodes,
    watchers: Watchers,
    calls: Calls,
    readers: Readers,
    snapshots: Snapshots,
    aside: Aside,
    checkpoints: Checkpoints,
    reserve: Reserve,
    verdicts: Verdicts,
    cycles: Cycles,
    faults: Faults,
    memory: CycleCache,
    startup_grace: StartupGrace,
    timers: Timers,
    mailer: Mailer,
    notifier: Notifier,
    user_notices: UserNotices,
    allocation_script: AllocationScript,
    resource_poller: ResourcePoller,
    hooks: Hooks,
    signals: Signals,
    /// What a file read anew has changed, until that is on disk.
    reloaded: Option<String>,
    /// Jobs whose node could not be told.
    untold: BTreeSet<JobId>,
    /// What waits for the next tick.
    inbox: Vec<Input>,
    scripts: Scripts,
    /// The number of commits so far: answers of the same revision show the same state.
    revision: u64,
    /// When a cycle could decide something though nothing happens.
    next_cycle: Option<Time>,
    /// When there was last something to do.
    busy: Span,
    started: Span,
    stopping: bool,
    /// It has been told to leave, by whoever said how.
    shutdown_mode: Option<ShutdownMode>,
    _lock: Lock,
}

/// What the kernel was asked to watch.
enum Watched {
    Listener,
    Signals,
    Readers,
    Scripts,
    Client(Token),
    Node(usize),
    Call(Token),
    /// A program of the site.
    Site,
}

impl Schedd {
    fn new(
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
            aside: Aside::default(),
            checkpoints: Checkpoints::start(crate::spool::file(&home))?,
            reserve: Reserve::of(crate::spool::log(&home)),
            verdicts: Verdicts::new(verdicts, promises),
            cycles: Cycles::new(last_cycle),
            faults: Faults::default(),
            memory: CycleCache::default(),
            startup_grace,
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
            untold: BTreeSet::new(),
            inbox: Vec::new(),
            revision: 0,
            next_cycle: None,
            busy: now,
            started: now,
            stopping: false,
            shutdown_mode: None,
            listener,
            signals,
            home,
            server,
            spool,
            _lock: lock,
        })
    }

    /// Serves until told to leave, or idle for long enough.
    fn serve(&mut self) {
        while !self.stopping {
            self.nodes.dial();
            let scripts = &self.scripts;
            self.clients.pause(|uid| scripts.is_full_for(uid));
            let ready = self.watch();
            self.gather(ready);
            self.allocation_script
                .hear(&mut self.server, machine::monotonic());
            self.resource_poller
                .attend(&mut self.server, machine::monotonic());
            self.hear_hooks();
            self.answer_watchers();
            self.take_up_again();
            self.keep_house();
            let inputs = if self.lingers() {
                Vec::new()
            } else {
                std::mem::take(&mut self.inbox)
            };
            self.tick(inputs);
            self.notify_users();
            self.wind_down();
            self.begin_log_anew();
        }
        self.leave();
    }

    /// Whether what has arrived is better written together with what comes next: nobody waits for
    /// the news that a job has begun, and what a short job does next is to end.
    fn lingers(&mut self) -> bool {
        if self.inbox.is_empty()
            || !self.inbox.iter().all(Input::may_linger)
            || self.somebody_sits_waiting()
        {
            self.timers.linger = None;
            return false;
        }
        let now = machine::monotonic();
        let until = *self.timers.linger.get_or_insert(now + timers::LINGER);
        let lingers = now < until;
        self.timers.linger = lingers.then_some(until);
        lingers
    }

    /// Whether a person waits for the news that an interactive job has begun.
    fn somebody_sits_waiting(&self) -> bool {
        self.inbox.iter().any(|input| match input {
            Input::Report(_, NodeReport::Attempt(id, ..)) => {
                self.server.job(*id).is_some_and(|job| job.spec.interactive)
            }
            _ => false,
        })
    }

    fn begin_log_anew(&self) {
        if self.checkpoints.take_done()
            && let Err(error) = self.spool.finish_checkpoint()
        {
            tracing::debug!("the spool's log was not begun anew: {error}");
        }
    }

    /// Waits until something is there to be read, or a timer runs out.
    fn watch(&self) -> Vec<Watched> {
        let mut watched = vec![
            Watched::Listener,
            Watched::Signals,
            Watched::Readers,
            Watched::Scripts,
        ];
        let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.readers.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.scripts.as_fd(), PollFlags::POLLIN));
        for (index, fd, writes) in self.nodes.watched() {
            watched.push(Watched::Node(index));
            fds.push(PollFd::new(fd, poll_flags(writes)));
        }
        for fd in self
            .allocation_script
            .watched()
            .chain(self.resource_poller.watched())
            .chain(self.hooks.watched())
        {
            watched.push(Watched::Site);
            fds.push(PollFd::new(fd, PollFlags::POLLIN));
        }
        for (token, fd) in self.calls.watched() {
            watched.push(Watched::Call(token));
            fds.push(PollFd::new(fd, PollFlags::POLLIN));
        }
        let clients = (!self.awaits_own_noded()).then(|| self.clients.watched());
        for (token, fd, writes) in clients.into_iter().flatten() {
            watched.push(Watched::Client(token));
            fds.push(PollFd::new(fd, poll_flags(writes)));
        }
        let unheard = self.clients.unheard();
        let patience = if unheard.is_empty() {
            self.patience()
        } else {
            PollTimeout::ZERO
        };
        if poll(&mut fds, patience).is_err() {
            return Vec::new();
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let ready = watched
            .into_iter()
            .zip(is_ready)
            .filter(|&(_, ready)| ready)
            .map(|(what, _)| what);
        ready
            .filter(|what| !matches!(what, Watched::Client(token) if unheard.contains(token)))
            .chain(unheard.iter().map(|&token| Watched::Client(token)))
            .collect()
    }

    /// Whether a personal schedd that has just started still waits for its own noded. Until then it
    /// does not know what its host has: requests wait, and so do cycles.
    pub(super) fn awaits_own_noded(&self) -> bool {
        self.nodes.await_own() && !self.server.is_settled(startup::OWN)
    }

    /// How long there is nothing to do unless somebody asks.
    fn patience(&self) -> PollTimeout {
        let now = machine::monotonic();
        let server = &self.server;
        let moments = [
            self.next_cycle,
            server.next_begin(),
            server.next_turn(),
            server.next_routed(),
        ];
        let moment = moments.into_iter().flatten().min();
        let moment = moment.map(|moment| now + moment.since(self.server.now) + Span(1));
        // While the disk takes nothing, what cannot be written is no reason to wake up.
        let timers = match self.timers.retry {
            Some(retry) => [Some(retry), None, None, None],
            None => [None, self.timers.linger, self.verdicts.due, moment],
        };
        let fixed = [
            self.timers.housekeeping,
            self.timers.poll,
            self.nodes.next(),
        ];
        let others = self
            .watchers
            .next()
            .into_iter()
            .chain(self.aside.due)
            .chain(self.allocation_script.next())
            .chain(self.hooks.next());
        let others = others.chain(self.resource_poller.next());
        let first = timers
            .into_iter()
            .flatten()
            .chain(others)
            .chain(fixed)
            .min()
            .unwrap_or(now);
        // Housekeeping comes round every second, so this always fits.
        PollTimeout::try_from((first.0 - now.0).clamp(0, 1000) as i32).unwrap_or(PollTimeout::ZERO)
    }

    fn gather(&mut self, ready: Vec<Watched>) {
        for what in ready {
            match what {
                Watched::Listener => self
                    .clients
                    .accept(self.listener.socket(), &self.server.setup),
                Watched::Signals => self.handle_signals(),
                Watched::Readers => {
                    for (stream, caller) in self.readers.answered() {
                        self.clients.take_back(stream, caller);
                    }
                }
                Watched::Scripts => self.take_stored(),
                // Heard in `serve`, with those that are late.
                Watched::Site => {}
                Watched::Call(token) => self.hear_call(token),
                Watched::Node(index) => {
                    let news = self.nodes.receive(index);
                    self.note(news);
                }
                Watched::Client(token) => {
                    for (caller, request) in self.clients.receive(token) {
                        self.busy = machine::monotonic();
                        self.hear(token, caller, request);
                    }
                }
            }
        }
    }

    fn handle_signals(&mut self) {
        let asked = self.signals.take();
        self.stopping |= asked.leave;
        if asked.reload {
            self.reload();
        }
    }

    /// Requests that change nothing are served at once, the others wait for the tick.
    fn hear(&mut self, token: Token, caller: Caller, request: ClientRequest) {
        match request {
            ClientRequest::Ask(Question::Ahead(ahead)) => self.look_ahead(token, ahead),
            ClientRequest::Ask(Question::Cycles) => self.tell_cycles(token, caller.privileged),
            ClientRequest::Ask(question) => {
                if let Some((stream, caller)) = self.clients.take(token) {
                    self.readers.serve(stream, caller, question);
                }
            }
            ClientRequest::Attach(id) => self.attach(token, &caller, id),
            ClientRequest::Watch { of, since } => self.watch_jobs(token, &caller, &of, since),
            ClientRequest::Status => {
                let status = self.status();
                self.clients.answer(token, &Reply::Status(Box::new(status)));
            }
            ClientRequest::Stop => match caller.must_be_privileged() {
                Ok(()) => {
                    self.clients.answer(token, &Reply::Done);
                    self.stopping = true;
                }
                Err(refusal) => self.clients.answer(token, &Reply::Refused(refusal)),
            },
            request if self.is_too_late_for(&request) => {
                self.clients
                    .answer(token, &Reply::Refused(Refusal::shutting_down()));
            }
            ClientRequest::Submit(submission) if submission.defaults != self.default_options() => {
                let defaults = self.default_options().to_string();
                self.clients.answer(token, &Reply::Defaults(defaults));
            }
            ClientRequest::Submit(submission) if self.awaits_storage(&caller, &submission) => {
                self.store_script(token, caller, submission);
            }
            request => match self.occasion(&request) {
                Some(_) if matches!(request, ClientRequest::Batch(_)) => {
                    self.clients.answer(token, &Reply::NotBatched)
                }
                Some(occasion) => self.consult(occasion, token, caller, request),
                None => self.inbox.push(Input::Request(token, caller, request)),
            },
        }
    }

    fn default_options(&self) -> &str {
        &self.server.setup.config.server.default_qsub_arguments
    }

    fn watch_jobs(&mut self, token: Token, caller: &Caller, of: &message::WatchedJobs, since: u64) {
        match self
            .watchers
            .open(token, caller.owner.uid, of, since, machine::monotonic())
        {
            Some(reply) => self.clients.answer(token, &reply),
            None => self.clients.await_change(token),
        }
    }

    fn answer_watchers(&mut self) {
        for (token, reply) in self.watchers.answers(machine::monotonic()) {
            self.clients.answer(token, &reply);
        }
    }

    fn note(&mut self, news: Vec<NodedEvent>) {
        for news in news {
            match news {
                NodedEvent::Report(target, NodeReport::Notified { token, why }) => {
                    self.user_notices.ended(target, token, why);
                }
                NodedEvent::Report(target, report) => {
                    self.inbox.push(Input::Report(target, report))
                }
                NodedEvent::Lost(nodes) => self.inbox.push(Input::Lost(nodes)),
                NodedEvent::Epoch(epoch) => {
                    self.server.also(Update::Meta("epoch", epoch.to_string()))
                }
            }
        }
    }

    fn status(&mut self) -> ScheddStatus {
        let mut jobs: BTreeMap<JobState, u64> = BTreeMap::new();
        for job in self
            .server
            .jobs()
            .map(Arc::as_ref)
            .filter(|job| job.life.state != JobState::Finished)
        {
            *jobs.entry(job.life.state).or_default() += 1;
        }
        ScheddStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            spool: self.home.spool().to_string_lossy().into_owned().into(),
            jobs: jobs.into_iter().collect(),
            nodes: self
                .server
                .nodes()
                .map(|node| (node.facts.name.clone(), node.up))
                .collect(),
            uptime: machine::monotonic() + Span(-self.started.0),
            stuck: self.server.stuck(),
        }
    }
}

fn poll_flags(writes: bool) -> PollFlags {
    if writes {
        PollFlags::POLLIN | PollFlags::POLLOUT
    } else {
        PollFlags::POLLIN
    }
}
