//! What schedd does by the clock, whether anybody asks or not, and how it leaves.

use super::timers::{self, Timers};
use super::{Schedd, accounting, limbo, reports};
use crate::model::job::Job;
use crate::model::trigger::{Moment, Trigger};
use crate::spool::Checkpointer;
use crate::sys::{clock as machine, record};
use crate::update::Update;
use std::sync::Arc;

impl Schedd {
    pub(super) fn keep_house(&mut self) {
        let poll = self.ledger.setup.config.cycle.poll_interval;
        let moment = self.next_cycle.is_some_and(|next| self.ledger.now >= next);
        if Timers::ring(&mut self.timers.poll, poll) {
            self.memory.doubt();
            self.ledger.want_cycle(Trigger::Poll);
        }
        if moment {
            self.ledger.want_cycle(Trigger::Timer(Moment::Plan));
        }
        if self
            .timers
            .retry
            .is_some_and(|retry| retry <= machine::monotonic())
        {
            self.timers.retry = None;
            self.tell_again();
            self.ledger.want_cycle(Trigger::Timer(Moment::Disk));
        }
        if !Timers::ring(&mut self.timers.housekeeping, timers::HOUSEKEEPING) {
            return;
        }
        self.listener.rebind_if_vanished(&self.ledger.setup);
        self.clients.expire();
        self.end_late_calls();
        self.watchers
            .rest(machine::monotonic(), |token| self.clients.is_there(token));
        reports::note_silence(&mut self.ledger);
        if Timers::ring(
            &mut self.timers.starts,
            limbo::pace(self.ledger.setup.config.launch.start_timeout),
        ) {
            limbo::give_up(&mut self.ledger);
        }
        self.ledger.sweep();
        self.clear_remains();
        if Timers::ring(&mut self.timers.uses, timers::USES) {
            self.ledger.write_uses();
        }
        self.reserve.renew();
        let news = self.nodes.ping();
        self.note(news);
        let history = timers::kept(self.ledger.setup.config.server.history);
        if Timers::ring(&mut self.timers.purge, timers::PURGE.min(history)) {
            self.ledger.purge(self.ledger.now - history);
            if let Err(error) = self.ledger.forget_charges(&self.spool) {
                tracing::error!("old charges cannot be read now: {error}");
            }
            self.ledger
                .also(Update::ForgetTokens(self.ledger.now - timers::REPEATED));
        }
        self.leaving |= self.is_idle() && self.nobody_knocks();
    }

    /// Takes away some of what is left of forgotten jobs, and of old accounts, while the disk has
    /// room for that.
    fn clear_remains(&mut self) {
        if !self.reserve.is_whole() {
            return;
        }
        if self.spool.has_remains().unwrap_or(false) {
            self.ledger.also(Update::Clear);
        }
        match accounting::stale(&self.ledger.setup, self.ledger.now, &self.spool) {
            Ok(stale) => stale.into_iter().for_each(|row| self.ledger.also(row)),
            Err(error) => {
                tracing::error!("old entries of the accounts cannot be found now: {error}")
            }
        }
    }

    /// Takes the socket away, so that nobody finds it any more, and looks whether somebody had
    /// found it before: then schedd stays, and listens again.
    fn nobody_knocks(&mut self) -> bool {
        self.listener.remove();
        self.clients
            .accept(self.listener.socket(), &self.ledger.setup);
        if !self.clients.is_empty() {
            self.listener.rebind_if_vanished(&self.ledger.setup);
        }
        self.clients.is_empty()
    }

    /// A personal schedd with nothing to do for long leaves; the next command starts another.
    fn is_idle(&mut self) -> bool {
        let is_live = |job: &Arc<Job>| job.life.state.is_live() || job.life.open_run().is_some();
        let jobs = self.ledger.jobs().any(is_live) && self.ledger.stuck().is_none();
        let setup = &self.ledger.setup;
        if setup.shared
            || jobs
            || self
                .ledger
                .reservations()
                .any(|reservation| reservation.has_queue())
            || !self.clients.is_empty()
            || self.readers.are_busy()
            || !self.scripts.is_idle()
        {
            self.busy = machine::monotonic();
        }
        machine::monotonic() > self.busy + setup.config.server.idle
    }

    /// Leaves in order: running jobs go on under their shepherds.
    pub(super) fn leave(&mut self) {
        tracing::info!("leaving");
        self.postman.leave();
        self.send_last_notices();
        self.herald.leave();
        self.chooser.leave();
        self.meters.leave();
        self.hooks.leave();
        if !self.ledger.setup.shared {
            self.nodes.leave();
        }
        let home = &self.ledger.setup.home;
        self.listener.remove();
        record::erase(home);
        self.write_cycles();
        let home = &self.ledger.setup.home;
        if let Err(error) = Checkpointer::open(&crate::spool::file(home))
            .and_then(|checkpointer| checkpointer.checkpoint())
        {
            tracing::debug!("the spool's log was not emptied: {error}");
        }
    }
}
