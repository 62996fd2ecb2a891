//! The event loop. Each pass waits for events, collects inputs from them, and runs a tick, which
//! applies and commits the inputs.

use crate::model::time::Span;
use crate::schedd::inbox::Input;
use crate::schedd::state::Schedd;
use crate::schedd::timers;
use crate::server::effects::Token;
use crate::sys::clock as machine;
use crate::wire::order::NodeReport;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

/// What a polled descriptor belongs to.
enum Watched {
    Listener,
    Signals,
    Readers,
    Scripts,
    Client(Token),
    Node(usize),
    Call(Token),
    /// A program of the site. [`Schedd::serve`] checks the output and time limits of all programs
    /// of the site in each pass.
    Site,
}

impl Schedd {
    /// Runs until a request or a signal ends schedd, or the idle limit is reached.
    pub(super) fn serve(&mut self) {
        while self.exit_cause.is_none() {
            self.nodes.dial();
            let scripts = &self.scripts;
            self.clients.pause(|uid| scripts.is_full_for(uid));
            let ready = self.wait_for_events();
            self.handle_ready(ready);
            self.allocation_script
                .poll(&mut self.server, machine::monotonic());
            self.resource_poller
                .poll(&mut self.server, machine::monotonic());
            self.handle_hooks();
            self.answer_watchers();
            self.retry_forecasts();
            self.run_housekeeping();
            let inputs = if self.delays_commit() {
                Vec::new()
            } else {
                std::mem::take(&mut self.inbox)
            };
            self.tick(inputs);
            self.notify_users();
            self.exit_after_qterm();
            self.finish_checkpoint();
        }
        self.exit();
    }

    /// Whether to delay the inputs, to commit them together with later inputs. Only reports such as
    /// the start of a job are delayed, because no client waits until they are committed. If a short
    /// job ends during the delay, its start and end are committed together.
    fn delays_commit(&mut self) -> bool {
        if self.inbox.is_empty()
            || !self.inbox.iter().all(Input::may_be_delayed)
            || self.has_interactive_start()
        {
            self.timers.delayed_commit = None;
            return false;
        }
        let now = machine::monotonic();
        let until = *self
            .timers
            .delayed_commit
            .get_or_insert(now + timers::MAX_COMMIT_DELAY);
        let delays_commit = now < until;
        self.timers.delayed_commit = delays_commit.then_some(until);
        delays_commit
    }

    /// Whether the inbox has a report on the state of an attempt of an interactive job. Then no
    /// input is delayed, because a user can be waiting for the start of the job.
    fn has_interactive_start(&self) -> bool {
        self.inbox.iter().any(|input| match input {
            Input::Report(_, NodeReport::Attempt(id, ..)) => {
                self.server.job(*id).is_some_and(|job| job.spec.interactive)
            }
            _ => false,
        })
    }

    fn finish_checkpoint(&self) {
        if self.checkpoints.take_done()
            && let Err(error) = self.spool.finish_checkpoint()
        {
            tracing::debug!("cannot copy the rest of the spool's write-ahead log: {error}");
        }
    }

    /// Waits until a descriptor can be read, until a descriptor with waiting output can be written,
    /// or until a timer expires. Does not wait if complete requests of clients are pending.
    fn wait_for_events(&self) -> Vec<Watched> {
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
        let pending_clients = self.clients.pending_clients();
        let poll_timeout = if pending_clients.is_empty() {
            self.poll_timeout()
        } else {
            PollTimeout::ZERO
        };
        if poll(&mut fds, poll_timeout).is_err() {
            return Vec::new();
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let ready = watched
            .into_iter()
            .zip(is_ready)
            .filter(|&(_, ready)| ready)
            .map(|(what, _)| what);
        ready
            .filter(
                |what| !matches!(what, Watched::Client(token) if pending_clients.contains(token)),
            )
            .chain(pending_clients.iter().map(|&token| Watched::Client(token)))
            .collect()
    }

    /// The maximum time to wait for events: until the next timer expires.
    fn poll_timeout(&self) -> PollTimeout {
        let now = machine::monotonic();
        let server = &self.server;
        let moments = [
            self.next_cycle,
            server.next_begin(),
            server.next_reservation_time(),
            server.next_routed(),
        ];
        let moment = moments.into_iter().flatten().min();
        let moment = moment.map(|moment| now + moment.since(self.server.now) + Span(1));
        // While the disk is unwritable, timers that need a write do not wake the loop.
        let timers = match self.timers.retry {
            Some(retry) => [Some(retry), None, None, None],
            None => [None, self.timers.delayed_commit, self.verdicts.due, moment],
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
            .chain(self.waiting_forecasts.due)
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
        // Housekeeping runs every second, so the value fits.
        PollTimeout::try_from((first.0 - now.0).clamp(0, 1000) as i32).unwrap_or(PollTimeout::ZERO)
    }

    fn handle_ready(&mut self, ready: Vec<Watched>) {
        for what in ready {
            match what {
                Watched::Listener => self
                    .clients
                    .accept(self.listener.socket(), &self.server.setup),
                Watched::Signals => self.handle_signals(),
                Watched::Readers => {
                    for (stream, caller) in self.readers.answered() {
                        self.clients.reattach(stream, caller);
                    }
                }
                Watched::Scripts => self.take_stored(),
                Watched::Site => {}
                Watched::Call(token) => self.connect_terminal(token),
                Watched::Node(index) => {
                    let events = self.nodes.receive(index);
                    self.handle_node_events(events);
                }
                Watched::Client(token) => {
                    for (caller, request) in self.clients.receive(token) {
                        self.last_busy = machine::monotonic();
                        self.handle_request(token, caller, request);
                    }
                }
            }
        }
    }

    fn handle_signals(&mut self) {
        let received = self.signals.take();
        if let Some(signal) = received.leave {
            self.exit_because(signal.to_string());
        }
        if received.reload {
            self.reload();
        }
    }

    fn answer_watchers(&mut self) {
        for (token, reply) in self.watchers.answers(machine::monotonic()) {
            self.clients.answer(token, &reply);
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
