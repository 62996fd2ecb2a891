//! A tick: apply all that has arrived, commit, acknowledge, decide, commit, tell the nodes.
//!
//! A client never waits for a cycle, and what arrives while a tick runs forms the next one.

use crate::model::job::state::JobState;
use crate::model::job::{Job, Want};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::schedd::Schedd;
use crate::schedd::programs::hooks::Ruling;
use crate::schedd::timers;
use crate::server::caller::Caller;
use crate::server::effects::{Effects, Token};
use crate::server::node_reports;
use crate::server::notices::Recipient;
use crate::server::orders;
use crate::server::report_dispatch::ReportingNoded;
use crate::server::requests;
use crate::server::requests::Granted;
use crate::server::reservations;
use crate::server::routing;
use crate::server::suspension;
use crate::server::tasks;
use crate::spool::SpoolError;
use crate::sys::clock::monotonic;
use crate::update::Update;
use crate::wire::message::{ClientRequest, Reply};
use crate::wire::order::{AttemptStatus, NodeReport, ScheddOrder};
use crate::wire::task::TaskRequestKind;
use std::sync::Arc;

/// Something that has arrived.
pub enum Input {
    /// A client's request.
    Request(Token, Caller, ClientRequest),
    /// A node's report.
    Report(usize, NodeReport),
    /// Nodes that no longer answer.
    Lost(Vec<String>),
    /// What hooks say of a start.
    Ruled(JobId, Ruling),
}

impl Input {
    /// Whether nothing waits for this to be on disk: a node reports it again if asked.
    pub fn may_linger(&self) -> bool {
        match self {
            Input::Report(_, NodeReport::TaskRequest(request)) => {
                matches!(request.kind, TaskRequestKind::Release(_))
            }
            Input::Report(_, report) => matches!(
                report,
                NodeReport::Attempt(.., AttemptStatus::Running(_))
                    | NodeReport::Usage(_)
                    | NodeReport::Pong
            ),
            _ => false,
        }
    }
}

impl Schedd {
    /// Applies, commits, acknowledges; then cycles until nothing more can be decided.
    pub fn tick(&mut self, inputs: Vec<Input>) {
        self.server.begin(&timers::read_clocks());
        let lack = self.reserve.lack().map(Refusal::spool);
        let mut effects = self.apply(&inputs, lack.as_ref());
        let mut committed = self.commit();
        if matches!(committed, Err(SpoolError::Full)) && self.reserve.is_whole() {
            // Without what is new the rest may fit.
            self.reserve.used(SpoolError::Full);
            effects = self.apply(&inputs, Some(&Refusal::spool(SpoolError::Full)));
            committed = self.commit();
        }
        match committed {
            Ok(touched) => self.carry_out(effects, &touched),
            Err(error) => self.give_back(inputs, &error),
        }
        self.decide();
    }

    /// `lack`: the refusal of requests that the spool has no room for.
    fn apply(&mut self, inputs: &[Input], lack: Option<&Refusal>) -> Effects {
        let mut effects = Effects::default();
        self.server.release_due();
        for input in inputs {
            match input {
                Input::Request(token, caller, request) => {
                    let granted = self.grant(caller, request, lack);
                    effects.answer(&self.server, *token, granted);
                }
                Input::Report(target, report) => {
                    let noded = ReportingNoded {
                        target: *target,
                        boot: &self.nodes.boot(*target),
                        directory: &self.nodes.directory(*target),
                        presents: self.nodes.presents(*target),
                    };
                    effects.take_report(&mut self.server, &noded, report);
                }
                Input::Ruled(job, ruling) => self.rule(*job, ruling),
                Input::Lost(nodes) => {
                    for node in nodes {
                        node_reports::node_down(&mut self.server, node);
                    }
                }
            }
        }
        reservations::attend(&mut self.server);
        routing::attend(&mut self.server);
        tasks::wind_up(&mut self.server, &mut effects.orders);
        effects
    }

    fn grant(
        &mut self,
        caller: &Caller,
        request: &ClientRequest,
        lack: Option<&Refusal>,
    ) -> Result<Granted, Refusal> {
        let stored = match request {
            ClientRequest::ImportHook { name, content } if lack.is_none() => {
                Some(self.store_hook_program(caller, name, content)?)
            }
            _ => None,
        };
        let request = stored.as_ref().unwrap_or(request);
        requests::apply(&mut self.server, &self.spool, caller, request, lack)
    }

    /// Writes what the server has changed; the jobs it has touched. A failure takes it all back.
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

    pub(super) fn carry_out(&mut self, effects: Effects, touched: &[Arc<Job>]) {
        self.take_up_setup();
        self.shutdown_mode = effects.shutdown_mode.or(self.shutdown_mode);
        let mails = self.server.take_mails();
        self.mailer.post(mails);
        let notices = self.server.take_notices();
        let (site, users) = notices
            .into_iter()
            .partition(|notice| notice.recipient == Recipient::Site);
        self.notifier.tell(site);
        self.user_notices.take(users, monotonic());
        for (token, reply) in &effects.replies {
            self.clients.answer(*token, reply);
        }
        for (token, job) in effects.waits {
            self.clients.await_end(token, job);
            self.tell_end(job);
        }
        self.watchers
            .note_jobs(touched.iter().map(Arc::as_ref), monotonic());
        for job in touched {
            self.tell_node(job);
            self.tell_end(job.id);
        }
        for (target, order) in &effects.back {
            let news = self.nodes.send_to(*target, order);
            self.note(news);
        }
        for (target, why) in effects.refused {
            self.nodes.refuse(target, why);
        }
        for (node, order) in &effects.orders {
            // The process that requested a task requests it again.
            if let ScheddOrder::Start(launch) = order
                && (!tasks::is_due(&self.server, launch) || self.nodes.is_behind(node))
            {
                continue;
            }
            let news = self.nodes.send(node, order);
            self.note(news);
        }
        for nodes in effects.met {
            for job in
                node_reports::running_on(&self.server, |node| nodes.iter().any(|name| name == node))
            {
                self.tell_node(&job);
            }
        }
    }

    /// Tells nodes what could not be read from the spool before.
    pub(super) fn tell_again(&mut self) {
        for id in std::mem::take(&mut self.untold) {
            if let Some(job) = self.server.job(id).cloned() {
                self.tell_node(&job);
            }
        }
    }

    /// Sends the order that follows from how a job stands.
    fn tell_node(&mut self, job: &Job) {
        for (node, order) in suspension::orders(job) {
            let news = self.nodes.send(&node, &order);
            self.note(news);
        }
        match orders::order(&self.server, &self.spool, job) {
            Ok(Some((node, order))) => {
                let news = self.nodes.send(&node, &order);
                self.note(news);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!("job {} cannot be sent to its node now: {error}", job.id);
                self.untold.insert(job.id);
                self.timers.retry = Some(monotonic() + timers::RETRY);
            }
        }
    }

    /// Answers those who wait for the end of a job, if it has ended.
    fn tell_end(&mut self, id: JobId) {
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
                tracing::error!("the end of job {id} cannot be read now: {error}");
                waiting
                    .into_iter()
                    .for_each(|token| self.clients.await_end(token, id));
                return;
            }
        };
        // An element that has not started yet.
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

    /// The disk took nothing: clients are told, reports are kept for later.
    fn give_back(&mut self, inputs: Vec<Input>, error: &SpoolError) {
        // A full disk has been logged already, and a log may lie on it.
        if !matches!(error, SpoolError::Full) {
            tracing::error!("the spool did not take a tick: {error}");
        }
        for input in inputs {
            match input {
                Input::Request(token, ..) => {
                    let refusal = Refusal::spool(error);
                    self.clients.answer(token, &Reply::Refused(refusal));
                }
                kept => keep(&mut self.inbox, kept),
            }
        }
        self.timers.retry = Some(monotonic() + timers::RETRY);
    }
}

/// Keeps what a node has said until the disk takes it: of each attempt only the last word, and no
/// figures and no wishes, which will come again. So what is kept does not grow while the disk is
/// full.
fn keep(inbox: &mut Vec<Input>, kept: Input) {
    match &kept {
        Input::Report(
            _,
            NodeReport::Usage(_)
            | NodeReport::Pong
            | NodeReport::TaskRequest(_)
            | NodeReport::Unfit { .. }
            | NodeReport::StagingOut(..),
        ) => return,
        Input::Report(from, NodeReport::Attempt(job, attempt, task, _)) => {
            let of = (*from, *job, *attempt, *task);
            inbox.retain(
                |other| !matches!(other, Input::Report(f, NodeReport::Attempt(j, a, t, _)) if (*f, *j, *a, *t) == of),
            );
        }
        _ => {}
    }
    inbox.push(kept);
}

/// What a waiting client is told of a job that is over.
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
