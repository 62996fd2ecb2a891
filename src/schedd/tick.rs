//! A tick: apply all that has arrived, commit, acknowledge, decide, commit, tell the nodes.
//!
//! A client never waits for a cycle, and what arrives while a tick runs forms the next one.

use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job::{Attempt, Job, TaskNumber, Usage, Want};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::schedd::Schedd;
use crate::schedd::clients::Token;
use crate::schedd::programs::hooks::Ruling;
use crate::schedd::timers;
use crate::server::caller::Caller;
use crate::server::checkpoint;
use crate::server::node_reports;
use crate::server::node_reports::Inventory;
use crate::server::notices::Whom;
use crate::server::orders;
use crate::server::release_nodes;
use crate::server::requests;
use crate::server::requests::Granted;
use crate::server::requests::shutdown::ShutdownMode;
use crate::server::reservations;
use crate::server::routing;
use crate::server::state::ServerState;
use crate::server::suspension;
use crate::server::tasks;
use crate::server::tasks::TaskName;
use crate::spool::SpoolError;
use crate::sys::clock::monotonic;
use crate::update::Update;
use crate::wire::message::{ClientRequest, Reply};
use crate::wire::order::{AttemptStatus, NodeReport, ScheddOrder};
use crate::wire::task::{TaskNews, TaskProgramOptions, TaskRequest};
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
    /// Whether nothing waits for this to be on disk: a node tells it again if asked.
    pub fn may_linger(&self) -> bool {
        let told = |report: &NodeReport| {
            let released =
                |asked: &TaskRequest| matches!(asked.wish, TaskProgramOptions::Release(_));
            matches!(
                report,
                NodeReport::Attempt(.., AttemptStatus::Running(_))
                    | NodeReport::Usage(_)
                    | NodeReport::Pong
            ) || matches!(report, NodeReport::Wish(asked) if released(asked))
        };
        matches!(self, Input::Report(_, report) if told(report))
    }
}

/// What is to be done once the tick is on disk.
#[derive(Default)]
pub(super) struct Effects {
    replies: Vec<(Token, Reply)>,
    waits: Vec<(Token, JobId)>,
    /// Orders for the noded that reported.
    back: Vec<(usize, ScheddOrder)>,
    /// Orders for the noded of a node.
    orders: Vec<(String, ScheddOrder)>,
    /// Nodeds that have just given their inventory: their open attempts are told anew.
    met: Vec<Vec<String>>,
    /// Nodeds that are not admitted, and why.
    refused: Vec<(usize, String)>,
    shutdown_mode: Option<ShutdownMode>,
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
        for id in self.server.due() {
            self.server.happen(id, Event::Due);
        }
        for input in inputs {
            match input {
                Input::Request(token, caller, request) => {
                    let granted = self.grant(caller, request, lack);
                    effects.answer(&self.server, *token, granted);
                }
                Input::Report(target, report) => {
                    let noded = Noded {
                        target: *target,
                        boot: &self.nodes.boot(*target),
                        directory: &self.nodes.directory(*target),
                        presents: self.nodes.presents(*target),
                    };
                    effects.take_in(&mut self.server, &noded, report);
                }
                Input::Ruled(job, ruling) => self.rule(*job, ruling),
                Input::Lost(nodes) => nodes
                    .iter()
                    .for_each(|node| node_reports::node_down(&mut self.server, node)),
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
        let letters = self.server.take_mails();
        self.mailer.post(letters);
        let notices = self.server.take_notices();
        let (site, users) = notices
            .into_iter()
            .partition(|notice| notice.whom == Whom::Site);
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
            let task = if let ScheddOrder::Start(launch) = order {
                Some(launch)
            } else {
                None
            };
            // Whoever asked for a task asks again.
            if task.is_some_and(|launch| {
                !tasks::is_due(&self.server, launch) || self.nodes.is_behind(node)
            }) {
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
            | NodeReport::Wish(_)
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

/// The reply for one job, as part of the reply to a batch.
fn outcome(reply: Reply) -> Result<Vec<String>, Refusal> {
    match reply {
        Reply::Done => Ok(Vec::new()),
        Reply::Noted(notes) => Ok(notes),
        Reply::Refused(refusal) => Err(refusal),
        _ => Err(Refusal::invalid_request()),
    }
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

impl Effects {
    fn answer(&mut self, server: &ServerState, token: Token, granted: Result<Granted, Refusal>) {
        if let Ok(Granted::Wait(id)) = granted {
            return self.waits.push((token, id));
        }
        let reply = self.reply(server, granted);
        self.replies.push((token, reply));
    }

    /// The reply to a request that is answered at once.
    fn reply(&mut self, server: &ServerState, granted: Result<Granted, Refusal>) -> Reply {
        match granted {
            Ok(Granted::Job(id, notes)) => Reply::Accepted {
                id: id.full(&server.setup.name),
                notes,
            },
            Ok(Granted::Done) => Reply::Done,
            Ok(Granted::Noted(note)) => Reply::Noted(vec![note]),
            Ok(Granted::Reserved(id, confirmed)) => Reply::Reserved { id, confirmed },
            Ok(Granted::Batch(granted)) => Reply::Batch(
                granted
                    .into_iter()
                    .map(|granted| outcome(self.reply(server, granted)))
                    .collect(),
            ),
            Ok(Granted::Wait(_)) => Reply::Refused(Refusal::invalid_request()),
            Ok(Granted::Altered(id, notes)) => {
                self.orders
                    .extend(server.job(id).and_then(|job| orders::walltime(job)));
                if notes.is_empty() {
                    Reply::Done
                } else {
                    Reply::Noted(notes)
                }
            }
            Ok(Granted::Signal(attempts, signal)) => {
                for (job, attempt) in attempts {
                    let node = server.job(job).and_then(|job| job.script_node());
                    let order = ScheddOrder::Signal {
                        job,
                        attempt,
                        task: 0,
                        signal,
                    };
                    self.orders
                        .extend(node.map(|node| (node.to_string(), order)));
                    self.orders.extend(
                        server
                            .job(job)
                            .into_iter()
                            .flat_map(|job| tasks::signal(job, signal)),
                    );
                }
                Reply::Done
            }
            Ok(Granted::Orders(orders)) => {
                self.orders.extend(orders);
                Reply::Done
            }
            Ok(Granted::Shutdown(mode)) => {
                self.shutdown_mode = Some(mode);
                Reply::Done
            }
            Ok(Granted::Tell(job, order)) => {
                let node = server.job(job).and_then(|job| job.script_node());
                self.orders
                    .extend(node.map(|node| (node.to_string(), order)));
                Reply::Done
            }
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    fn take_in(&mut self, server: &mut ServerState, noded: &Noded, report: &NodeReport) {
        let mut orders = Vec::new();
        match report {
            NodeReport::Hello {
                boot,
                directory,
                nodes,
                attempts,
            } => {
                let (boot, directory) = (boot.clone(), directory.clone());
                let inventory = Inventory {
                    boot,
                    directory,
                    nodes: nodes.clone(),
                    attempts: attempts.clone(),
                };
                match node_reports::refusal(server, nodes, &inventory.directory) {
                    Some(why) => {
                        node_reports::refuse(server, &inventory, &why, &mut orders);
                        self.refused.push((noded.target, why));
                    }
                    None => {
                        // The connection may have been lost since: the report itself says whose it
                        // is.
                        let presents: Vec<String> =
                            nodes.iter().map(|facts| facts.name.clone()).collect();
                        let (boot, directory) =
                            (&inventory.boot.clone(), &inventory.directory.clone());
                        let noded = Noded {
                            target: noded.target,
                            boot,
                            directory,
                            presents: &presents,
                        };
                        self.meet(server, &noded, inventory, &mut orders);
                    }
                }
            }
            &NodeReport::Attempt(job, attempt, task, ref standing)
                if noded.may_speak_of(server, job, attempt, task) =>
            {
                match task {
                    0 => {
                        node_reports::attempt_stands(
                            server,
                            job,
                            attempt,
                            standing,
                            noded.boot,
                            &mut orders,
                        );
                        unfit(standing)
                            .iter()
                            .for_each(|why| node_reports::take_out(server, noded.presents, why));
                    }
                    _ => {
                        let name = TaskName { job, attempt, task };
                        tasks::task_stands(server, name, standing, &mut orders, &mut self.orders);
                    }
                }
            }
            NodeReport::Usage(used) => {
                let may = |of: &&(JobId, Attempt, TaskNumber, Usage)| {
                    noded.may_speak_of(server, of.0, of.1, of.2)
                };
                let own = used.iter().filter(may).collect::<Vec<_>>();
                own.into_iter().for_each(|used| note_usage(server, used));
            }
            // The connection was lost: the process repeats its request on the next one.
            NodeReport::Wish(_) if noded.presents.is_empty() => {}
            NodeReport::Wish(asked) => {
                let (job, attempt) = (asked.job, asked.attempt);
                let news = match noded.runs(server, job, attempt, asked.task) {
                    true => tasks::grant(server, asked, &mut self.orders),
                    false => TaskNews::Refused(format!("job {job} does not run on this node")),
                };
                orders.push(ScheddOrder::Tell {
                    job,
                    attempt,
                    asker: Some(asked.asker),
                    news,
                });
            }
            NodeReport::Nodes(nodes) => {
                let own = nodes
                    .iter()
                    .filter(|facts| noded.presents.contains(&facts.name));
                own.for_each(|facts| node_reports::node_changed(server, facts));
            }
            &NodeReport::StagingOut(job, attempt)
                if noded.may_speak_of(server, job, attempt, 0) =>
            {
                self.orders
                    .extend(release_nodes::at_stage_out(server, job, attempt));
            }
            NodeReport::NotCheckpointed { job, attempt, why }
                if noded.may_speak_of(server, *job, *attempt, 0) =>
            {
                checkpoint::failed(server, *job, *attempt, why);
            }
            NodeReport::Unfit { why } => node_reports::take_out(server, noded.presents, why),
            NodeReport::Attempt(..)
            | NodeReport::StagingOut(..)
            | NodeReport::NotCheckpointed { .. } => {}
            NodeReport::Pong
            | NodeReport::Attached
            | NodeReport::Fenced { .. }
            | NodeReport::Notified { .. } => {}
        }
        self.back
            .extend(orders.into_iter().map(|order| (noded.target, order)));
    }
}

impl Effects {
    /// Takes in the inventory of a noded that is admitted.
    fn meet(
        &mut self,
        server: &mut ServerState,
        noded: &Noded,
        mut inventory: Inventory,
        orders: &mut Vec<ScheddOrder>,
    ) {
        inventory
            .attempts
            .retain(|&(job, attempt, task, _)| noded.may_speak_of(server, job, attempt, task));
        node_reports::take_inventory(server, &inventory, orders);
        for &(job, attempt, task, ref standing) in
            inventory.attempts.iter().filter(|known| known.2 > 0)
        {
            let name = TaskName { job, attempt, task };
            tasks::task_stands(server, name, standing, orders, &mut self.orders);
        }
        tasks::take_inventory(server, &inventory, &mut self.orders);
        self.met.push(
            inventory
                .nodes
                .iter()
                .map(|facts| facts.name.clone())
                .collect(),
        );
        orders.push(orders::attend(&server.setup));
        let ended = inventory
            .attempts
            .iter()
            .filter_map(|known| unfit(&known.3));
        ended.for_each(|why| node_reports::take_out(server, noded.presents, why));
    }
}

/// Why an attempt's node should get no more jobs.
fn unfit(standing: &AttemptStatus) -> Option<&str> {
    match standing {
        AttemptStatus::Ended(outcome) => outcome.unfit.as_deref(),
        _ => None,
    }
}

/// Who reports.
struct Noded<'a> {
    target: usize,
    boot: &'a str,
    /// The identity of its state directory.
    directory: &'a str,
    presents: &'a [String],
}

impl Noded<'_> {
    /// A noded speaks of jobs on the nodes it presents as far as they belong to its state
    /// directory, and of attempts that are over or that nobody knows of: these it is told to end.
    fn may_speak_of(
        &self,
        server: &ServerState,
        job: JobId,
        attempt: Attempt,
        task: TaskNumber,
    ) -> bool {
        let node = server
            .job(job)
            .and_then(|job| tasks::node_of(job, attempt, task));
        node.is_none_or(|node| self.presents.iter().any(|name| name == node))
            && node_reports::belongs_to(server, TaskName { job, attempt, task }, self.directory)
    }

    /// Whether a process of an attempt runs on one of its nodes.
    fn runs(&self, server: &ServerState, id: JobId, attempt: Attempt, task: TaskNumber) -> bool {
        let node = server
            .job(id)
            .and_then(|job| tasks::node_of(job, attempt, task));
        node.is_some_and(|node| self.presents.iter().any(|name| name == node))
    }
}

fn note_usage(
    server: &mut ServerState,
    &(id, attempt, task, used): &(JobId, Attempt, TaskNumber, Usage),
) {
    let open = server
        .job(id)
        .and_then(|job| job.life.open_run())
        .filter(|run| run.attempt == attempt);
    match open.map(|run| run.tasks().made) {
        Some(0) if task == 0 => server.used(id, used),
        Some(_) => server.change_tasks(id, |job| job.task_used(task, used)),
        None => {}
    }
}
