//! Commits the server's changes, then sends replies, orders, mail and notices.

use crate::model::job::state::JobState;
use crate::model::job::{Job, Want};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::schedd::state::Schedd;
use crate::schedd::timers;
use crate::server::effects::Effects;
use crate::server::log_lines::LogLine;
use crate::server::node_reports;
use crate::server::notices::Recipient;
use crate::server::orders;
use crate::server::suspension;
use crate::server::tasks::task_requests;
use crate::spool::SpoolError;
use crate::sys::clock::monotonic;
use crate::update::Update;
use crate::wire::message::Reply;
use crate::wire::order::ScheddOrder;
use std::sync::Arc;

impl Schedd {
    /// Commits the changes of the server. Returns the changed jobs. If the commit fails, all
    /// changes are undone.
    pub(super) fn commit(&mut self) -> Result<Vec<Arc<Job>>, SpoolError> {
        let mut changes = self.server.changes();
        let verdicts_due = self.verdicts.due.is_some_and(|due| due <= monotonic());
        if changes.is_empty() && !verdicts_due {
            return Ok(self.server.settle());
        }
        let mut reasons = self.verdicts.changes(monotonic());
        let reasoned = !reasons.is_empty();
        changes.append(&mut reasons);
        let saved = self.server.clock().save(&timers::read_clocks());
        changes.push(Update::Meta("clock", serde_json::to_string(&saved)?));
        changes.extend(self.cycles.changes());
        match self.spool.commit(&changes) {
            Ok(()) => {
                if changes
                    .iter()
                    .any(|change| matches!(change, Update::Sweep | Update::Purge(_)))
                {
                    self.scripts.sweep();
                }
                self.revision += 1;
                self.verdicts.written();
                self.cycles.written();
                if reasoned {
                    self.watchers.note_reasons(monotonic());
                }
                self.checkpoints.committed();
                Ok(self.server.settle())
            }
            Err(error) => {
                self.reloaded = None;
                self.server.roll_back();
                Err(error)
            }
        }
    }

    /// Writes the records of scheduling cycles that are not in the spool yet.
    pub(super) fn write_cycles(&mut self) {
        let rows: Vec<Update> = self.cycles.changes().collect();
        if rows.is_empty() || !self.reserve.is_complete() {
            return;
        }
        match self.spool.commit(&rows) {
            Ok(()) => self.cycles.written(),
            Err(error) => tracing::warn!("cannot write records of scheduling cycles now: {error}"),
        }
    }

    /// Sends the replies, orders, mail and notices that result from committed changes.
    pub(super) fn carry_out(&mut self, effects: Effects, touched: &[Arc<Job>]) {
        self.apply_committed_setup();
        self.shutdown_mode = effects.shutdown_mode.or(self.shutdown_mode);
        for LogLine { warns, text } in self.server.take_log() {
            if warns {
                tracing::warn!("{text}");
            } else {
                tracing::info!("{text}");
            }
        }
        let mails = self.server.take_mails();
        self.mailer.post(mails);
        let notices = self.server.take_notices();
        let (site, users) = notices
            .into_iter()
            .partition(|notice| notice.recipient == Recipient::Site);
        self.notifier.queue(site);
        self.user_notices.queue(users, monotonic());
        for (token, reply) in &effects.replies {
            self.clients.answer(*token, reply);
        }
        for (token, job) in effects.waits {
            self.clients.await_end(token, job);
            self.answer_end(job);
        }
        self.watchers
            .note_jobs(touched.iter().map(Arc::as_ref), monotonic());
        for job in touched {
            self.send_orders_of(job);
            self.answer_end(job.id);
        }
        for (target, order) in &effects.back {
            let events = self.nodes.send_to(*target, order);
            self.handle_node_events(events);
        }
        for (target, why) in effects.refused {
            self.nodes.refuse(target, why);
        }
        for (node, order) in &effects.orders {
            // The start of a task is skipped if it is no longer due, or if the noded has a large
            // backlog. In the second case, the process that requested the task repeats its request.
            if let ScheddOrder::Start(launch) = order
                && (!task_requests::is_due(&self.server, launch) || self.nodes.is_behind(node))
            {
                continue;
            }
            let events = self.nodes.send(node, order);
            self.handle_node_events(events);
        }
        for nodes in effects.connected {
            for job in
                node_reports::running_on(&self.server, |node| nodes.iter().any(|name| name == node))
            {
                self.send_orders_of(&job);
            }
        }
    }

    /// Sends to users those notices that can be sent now.
    pub(super) fn notify_users(&mut self) {
        let host = &self.server.setup.host;
        let events = self.user_notices.send(&mut self.nodes, host, monotonic());
        self.handle_node_events(events);
    }

    /// Sends the orders that follow from the state of a job.
    fn send_orders_of(&mut self, job: &Job) {
        for (node, order) in suspension::orders(job) {
            let events = self.nodes.send(&node, &order);
            self.handle_node_events(events);
        }
        match orders::order(&self.server, &self.spool, job) {
            Ok(Some((node, order))) => {
                let events = self.nodes.send(&node, &order);
                self.handle_node_events(events);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!("cannot send job {} to a node now: {error}", job.id);
                self.unsent_orders.insert(job.id);
                self.timers.retry = Some(monotonic() + timers::RETRY);
            }
        }
    }

    /// Sends the orders that an earlier error of the spool prevented.
    pub(super) fn retry_orders(&mut self) {
        for id in std::mem::take(&mut self.unsent_orders) {
            if let Some(job) = self.server.job(id).cloned() {
                self.send_orders_of(&job);
            }
        }
    }

    /// Answers the clients that wait for the end of a job, if the job has ended or is unknown.
    fn answer_end(&mut self, id: JobId) {
        if self
            .server
            .job(id)
            .is_some_and(|job| job.life.state != JobState::Finished)
        {
            return;
        }
        let waiting = self.clients.take_awaiting(id);
        if waiting.is_empty() {
            return;
        }
        let past = match self.spool.job(id) {
            Ok(past) => past,
            Err(error) => {
                tracing::error!("cannot read how job {id} ended: {error}");
                waiting
                    .into_iter()
                    .for_each(|token| self.clients.await_end(token, id));
                return;
            }
        };
        // The spool also has subjobs that have not started. Like finished jobs, these are not in
        // memory.
        if past
            .as_ref()
            .is_some_and(|job| job.life.state != JobState::Finished)
        {
            return waiting
                .into_iter()
                .for_each(|token| self.clients.await_end(token, id));
        }
        let reply = past
            .as_ref()
            .map_or(Reply::Refused(Refusal::unknown_job()), end_of);
        for token in waiting {
            self.clients.answer(token, &reply);
        }
    }
}

/// The reply to a client that waits for the end of a job.
fn end_of(job: &Job) -> Reply {
    let exit = job.life.exit;
    Reply::Ended {
        status: exit.map_or(0, |exit| exit.status),
        deleted_by: match &job.life.want {
            Want::Gone(by) => Some(by.clone()),
            _ => None,
        },
    }
}
