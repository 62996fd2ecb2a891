//! Periodic work of schedd, such as timeouts, pings and the removal of old data.

use crate::model::trigger::{AwaitedMoment, Trigger};
use crate::schedd::state::Schedd;
use crate::schedd::storage::expiry;
use crate::schedd::timers;
use crate::schedd::timers::Timers;
use crate::server::idle_jobs;
use crate::server::launch_timeout;
use crate::server::node_reports;
use crate::sys::clock as machine;
use crate::update::Update;

impl Schedd {
    pub(super) fn run_housekeeping(&mut self) {
        let poll = self.server.setup.config.cycle.poll_interval;
        let moment = self.next_cycle.is_some_and(|next| self.server.now >= next);
        if Timers::restart_if_expired(&mut self.timers.poll, poll) {
            self.cycle_cache.doubt();
            self.server.want_cycle(Trigger::Poll);
        }
        if moment {
            self.server.want_cycle(Trigger::Timer(AwaitedMoment::Plan));
        }
        if self
            .timers
            .retry
            .is_some_and(|retry| retry <= machine::monotonic())
        {
            self.timers.retry = None;
            self.retry_orders();
            self.server.want_cycle(Trigger::Timer(AwaitedMoment::Disk));
        }
        if !Timers::restart_if_expired(&mut self.timers.housekeeping, timers::HOUSEKEEPING) {
            return;
        }
        self.listener
            .rebind_if_vanished(&self.server.setup, &self.home);
        self.clients.expire();
        self.end_late_calls();
        self.watchers.expire(machine::monotonic(), |token| {
            self.clients.is_connected(token)
        });
        node_reports::mark_lost_contacts(&mut self.server);
        if Timers::restart_if_expired(
            &mut self.timers.starts,
            launch_timeout::check_interval(self.server.setup.config.launch.start_timeout),
        ) {
            launch_timeout::cancel_overdue_starts(&mut self.server);
        }
        let interval = idle_jobs::check_interval(&self.server.setup.config.idle);
        if Timers::restart_if_expired(&mut self.timers.idle, interval) {
            self.idle_jobs.check(&mut self.server);
        }
        self.server.sweep();
        self.clear_remains();
        if Timers::restart_if_expired(&mut self.timers.uses, timers::USES) {
            self.server.write_uses();
        }
        self.reserve.renew();
        let events = self.nodes.ping();
        self.handle_node_events(events);
        let history = timers::retention(self.server.setup.config.server.history);
        if Timers::restart_if_expired(&mut self.timers.purge, timers::PURGE.min(history)) {
            self.server.purge(self.server.now - history);
            self.server.forget_expired_actions();
            if let Err(error) = expiry::forget_charges(&mut self.server, &self.spool) {
                tracing::error!("cannot read old charges now: {error}");
            }
            self.server
                .add_update(Update::ForgetTokens(self.server.now - timers::REPEATED));
        }
        if self.is_idle() && self.has_no_new_connection() {
            self.exit_because("no work left".to_string());
        }
    }

    /// Removes data of jobs that are no longer in the history (one batch), and old accounting
    /// records. Does nothing while the disk is full.
    fn clear_remains(&mut self) {
        if !self.reserve.is_complete() {
            return;
        }
        if self.spool.has_purged_rows().unwrap_or(false) {
            self.server.add_update(Update::Clear);
        }
        match expiry::stale_entries(&self.server.setup, self.server.now, &self.spool) {
            Ok(stale) => stale
                .into_iter()
                .for_each(|row| self.server.add_update(row)),
            Err(error) => {
                tracing::error!(
                    "cannot read the spool to delete old accounting records: {error}; trying again \
                     later"
                )
            }
        }
    }

    /// Before schedd exits: removes the socket, and accepts the connections that clients made
    /// before the removal. If there is a client, listens again and returns false.
    fn has_no_new_connection(&mut self) -> bool {
        self.listener.remove();
        self.clients
            .accept(self.listener.socket(), &self.server.setup);
        if !self.clients.is_empty() {
            self.listener
                .rebind_if_vanished(&self.server.setup, &self.home);
        }
        self.clients.is_empty()
    }

    /// Whether a personal schedd has had no work for longer than the idle limit (the key `idle` of
    /// `[server]`), and therefore exits. The next command starts it again.
    fn is_idle(&mut self) -> bool {
        let has_live_job = self
            .server
            .jobs()
            .any(|job| job.life.state.is_live() || job.life.open_run().is_some());
        let jobs = has_live_job && self.server.stuck().is_none();
        let setup = &self.server.setup;
        if setup.shared
            || self.stays
            || jobs
            || self
                .server
                .reservations()
                .any(|reservation| reservation.has_queue())
            || !self.clients.is_empty()
            || self.readers.are_busy()
            || !self.scripts.is_idle()
        {
            self.last_busy = machine::monotonic();
        }
        machine::monotonic() > self.last_busy + setup.config.server.idle
    }
}
