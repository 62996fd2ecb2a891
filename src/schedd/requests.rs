//! What clients ask, one function each. A request changes the ledger or is refused; it is
//! acknowledged once the tick is on disk.

use super::caller::Caller;
use super::checkpointing;
use super::dependencies;
use super::dependencies::asked::Asked;
use super::ledger::Ledger;
use super::shutdown::ShutdownMode;
use super::tasks::Orders;
use crate::model::attribute::{self, Context, Draft, Origin, Rights, Setting};
use crate::model::job::array::Indices;
use crate::model::job::dependency::Wish;
use crate::model::job::dependency::effects::{self, Bonds};
use crate::model::job::event::Event;
use crate::model::job::staging::transfers;
use crate::model::job::state::{Holds, State};
use crate::model::job::{Attempt, Digest, Job, Life, Owner, Program, Spec};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::request::per_host::for_host;
use crate::model::time::Span;
use crate::spool::Spool;
use crate::sys::user;
use crate::update::Update;
use crate::wire::batch::{self, Act, Batch, Target};
use crate::wire::message::{Payload, Request, Submission};
use crate::wire::order::Order;
use std::sync::Arc;

/// What a granted request comes to.
#[derive(Clone, Debug)]
pub enum Granted {
    /// A new job, and what of it is not as it was asked for.
    Job(JobId, Vec<String>),
    /// Done.
    Done,
    /// Done, and there is something to know about it.
    Noted(String),
    /// Changed: the node of a running job has to be told. What is not as it was asked for.
    Altered(JobId, Vec<String>),
    /// To be answered when this job is over.
    Wait(JobId),
    /// Done; the nodes of running jobs have to pass on a signal.
    Signal(Vec<(JobId, Attempt)>, i32),
    /// Done; the node of a running job has this to do besides.
    Tell(JobId, Order),
    /// Done; this is what nodes have to do besides.
    Orders(Orders),
    /// Done; schedd shuts down.
    Shutdown(ShutdownMode),
    /// A reservation known under this full id, and whether it can be had.
    Reserved(String, Option<bool>),
    /// What each request of a batch comes to.
    Batch(Vec<Result<Granted, Refusal>>),
}

/// Applies a request. `lack` is there when the spool has no room: it refuses every request that
/// could make the spool grow much, so that jobs can still be held, released and deleted.
pub fn apply(
    ledger: &mut Ledger,
    spool: &Spool,
    caller: &Caller,
    request: &Request,
    lack: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    if let Request::Batch(batch) = request {
        return apply_batch(ledger, spool, caller, batch, lack);
    }
    if caller.privileged {
        ledger.bind_grantee(&caller.owner);
    }
    let mut desk = Desk {
        ledger,
        spool,
        caller,
    };
    if let Some(lack) = lack
        && needs_room(request)
    {
        return match request {
            Request::Submit(submission) => desk
                .submitted(submission.token)?
                .ok_or_else(|| lack.clone()),
            _ => Err(lack.clone()),
        };
    }
    match request {
        Request::Submit(submission) => desk.submit(submission),
        Request::Alter(id, settings) => desk.alter(*id, settings),
        Request::Hold(id, holds) => desk.hold(*id, *holds),
        Request::Release(id, holds) => desk.release(*id, *holds),
        Request::Delete {
            job,
            only,
            force,
            purge,
        } => match only.or(job.index().map(Indices::one)) {
            Some(only) => desk.delete_elements(*job, only, *force),
            None => desk.delete(*job, *force, *purge),
        },
        Request::Rerun { job, only, .. } => desk.rerun(*job, *only),
        Request::RerunFailed(id) => desk.rerun_failed(*id),
        Request::Retry { job, only } => desk.retry(*job, *only),
        Request::Signal { job, only, signal } => desk.signal(*job, *only, signal),
        Request::ReleaseNodes(id, keep) => desk.release_nodes(*id, keep),
        &Request::Terminate { manner, nodes } => desk.terminate(manner, nodes),
        Request::Move(id, destination) => desk.put(*id, destination),
        Request::Swap(one, other) => desk.swap(*one, *other),
        Request::Message {
            job,
            output,
            errors,
            text,
        } => desk.message(*job, *output, *errors, text),
        Request::Run { job, on, detached } => desk.run_now(*job, on, *detached),
        Request::Shove(id) => desk.shove(*id),
        Request::Adopt(adoption) => desk.adopt(adoption),
        Request::Claim(claim) => desk.claim(claim),
        Request::GiveBack { copy, to } => desk.give_back(*copy, to),
        Request::Wait(id) => desk.wait(*id),
        Request::MarkNode {
            node,
            offline,
            comment,
        } => desk.mark_node(node, *offline, comment.as_deref()),
        Request::DeclareGone { node } => desk.declare_gone(node),
        Request::Reserve(asked) => desk.reserve(asked),
        Request::AlterReservation { id, changes, force } => {
            desk.alter_reservation(id, changes, *force)
        }
        Request::Amend(command) => desk.amend(command),
        Request::ImportHook { name, content } => desk.import_hook(name, content),
        Request::DeleteReservation(id) => desk.delete_reservation(id),
        Request::Ask(_)
        | Request::Attach(_)
        | Request::Watch { .. }
        | Request::Status
        | Request::Stop => Err(Refusal::invalid_request()),
        Request::Batch(_) => Err(Refusal::invalid_request()),
    }
}

/// Applies a batch to its jobs in their order. Dependencies are evaluated after the last job: a job
/// that the batch deletes is neither released nor deleted because another job of the batch ends.
fn apply_batch(
    ledger: &mut Ledger,
    spool: &Spool,
    caller: &Caller,
    batch: &Batch,
    lack: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    if batch.jobs.len() > batch::LARGEST {
        return Err(Refusal::invalid_request());
    }
    ledger.defer_dependencies();
    let granted = batch
        .jobs
        .iter()
        .map(|target| apply_to(ledger, spool, caller, (&batch.act, target), lack));
    let granted = granted.collect();
    ledger.pass_on_deferred();
    Ok(Granted::Batch(granted))
}

/// Applies an act to one job of a batch.
fn apply_to(
    ledger: &mut Ledger,
    spool: &Spool,
    caller: &Caller,
    (act, target): (&Act, &Target),
    lack: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    let unknown = Refusal::unknown_job();
    let granted = apply(
        ledger,
        spool,
        caller,
        &act.on(target.job, target.only),
        lack,
    );
    match target.array() {
        Some(array) if granted.as_ref().is_err_and(|refusal| *refusal == unknown) => {
            apply(ledger, spool, caller, &act.on(array, None), lack)
        }
        _ => granted,
    }
}

/// Whether a request can make the spool grow much.
fn needs_room(request: &Request) -> bool {
    matches!(
        request,
        Request::Submit(_)
            | Request::Adopt(_)
            | Request::Alter(..)
            | Request::RerunFailed(_)
            | Request::Retry { .. }
            | Request::ReleaseNodes(..)
            | Request::Run { .. }
            | Request::Shove(_)
            | Request::Reserve(_)
            | Request::AlterReservation { .. }
            | Request::Amend(_)
            | Request::ImportHook { .. }
    )
}

/// One request in hand: what it may change, where history is looked up, who asks.
pub(super) struct Desk<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) spool: &'a Spool,
    pub(super) caller: &'a Caller,
}

impl Desk<'_> {
    fn submit(&mut self, submission: &Submission) -> Result<Granted, Refusal> {
        let owner = self.admit()?;
        if let Some(granted) = self.submitted(submission.token)? {
            return Ok(granted);
        }
        let (draft, bonds, _) = self.admitted(&owner, submission)?;
        if let (None, Payload::Script(text)) = (&submission.stored, &submission.payload) {
            self.keep(text);
        }
        let environ = self.keep(&with_queue(
            &submission.environ,
            &self.asked_queue(submission),
        ));
        let elements = self.elements(&draft.spec)?;
        let id = self.ledger.take_number(elements.is_some());
        self.ledger.also(Update::Token(
            owner.uid,
            submission.token,
            id,
            self.ledger.now,
        ));
        let mut life = Life::new(draft.holds, draft.run_count, self.ledger.now);
        life.comment = draft.comment;
        life.bars = bonds.bars();
        life.awaits = bonds.labels.clone();
        draft
            .eligible_time
            .into_iter()
            .for_each(|time| life.eligibility.set(time, self.ledger.now));
        self.ledger.insert(Job {
            id,
            owner,
            spec: Arc::new(Spec {
                environ,
                ..draft.spec
            }),
            life,
            elements,
        });
        effects::bind(self.ledger, id, &bonds, false);
        Ok(Granted::Job(id, draft.notes))
    }

    /// The same of one that can also run, and the job that it comes to, without a number.
    pub(super) fn admitted(
        &mut self,
        owner: &Owner,
        submission: &Submission,
    ) -> Result<(Draft, Bonds, Job), Refusal> {
        let (draft, bonds) = self.draft(owner, submission)?;
        let job = Job {
            id: JobId::job(self.ledger.next_number()),
            owner: owner.clone(),
            spec: Arc::new(draft.spec.clone()),
            life: Life::new(draft.holds, draft.run_count, self.ledger.now),
            elements: None,
        };
        self.ledger.refuse_impossible(&job)?;
        Ok((draft, bonds, job))
    }

    /// What a submission asks for, and what its job would wait for, if it may be submitted.
    pub(super) fn draft(
        &self,
        owner: &Owner,
        submission: &Submission,
    ) -> Result<(Draft, Bonds), Refusal> {
        let origin = self.origin(submission)?;
        let is_member = |group: &str| is_member(owner, group);
        let mut draft = attribute::submit(
            &submission.settings,
            origin,
            &self.context(owner, false, &is_member),
        )?;
        self.grant_group(owner, None, &draft.spec)?;
        self.check_hosts(None, &draft.spec)?;
        self.wait_for_named(owner, &mut draft);
        let mut bonds = self.bonds(None, &draft.depend)?;
        bonds.labels = self.awaited(None, (owner, &draft.spec), &draft.depend.labels)?;
        self.no_circle_of_labels(None, (owner, &draft.spec), &bonds)?;
        let is_held = !draft.holds.is_none() || !bonds.bars().are_open();
        let is_early = draft
            .spec
            .begin
            .is_some_and(|begin| begin > self.ledger.wall());
        let standing = if is_held {
            State::Held
        } else if is_early {
            State::Waiting
        } else {
            State::Queued
        };
        let entered = self.enter(owner, &draft.spec, standing)?;
        draft.spec = entered.spec;
        draft.notes.extend(entered.notes);
        Ok((draft, bonds))
    }

    /// The queue that a submission names: `PBS_O_QUEUE`, wherever that routes the job.
    fn asked_queue(&self, submission: &Submission) -> String {
        let setup = &self.ledger.setup;
        let named = submission
            .settings
            .iter()
            .rev()
            .find(|setting| setting.attribute == "queue");
        let queue =
            named.and_then(|named| attribute::destination(&named.value.lossy(), &setup.name).ok());
        queue
            .filter(|queue| !queue.is_empty())
            .unwrap_or_else(|| setup.config.server.default_queue.clone())
    }

    /// What a wish for dependencies comes to; `job` has none while it has no number.
    pub(super) fn bonds(&self, job: Option<JobId>, wish: &Wish) -> Result<Bonds, Refusal> {
        match wish.is_empty() {
            true => Ok(Bonds::default()),
            false => Asked {
                ledger: self.ledger,
                spool: self.spool,
                caller: self.caller,
                job,
            }
            .grant(wish),
        }
    }

    /// The job of an earlier request with this token, in this tick or before.
    pub(super) fn submitted(&self, token: [u8; 16]) -> Result<Option<Granted>, Refusal> {
        let uid = self.caller.owner.uid;
        let found = match self.ledger.recorded(uid, token) {
            Some(id) => Some(id),
            None => self.spool.submitted(uid, token).map_err(Refusal::spool)?,
        };
        Ok(found.map(|id| Granted::Job(id, Vec::new())))
    }

    /// Root's jobs, and those of system accounts, are not run for many users.
    pub(super) fn admit(&self) -> Result<Owner, Refusal> {
        let owner = self.caller.owner.clone();
        let setup = &self.ledger.setup;
        match setup.shared && owner.uid < setup.config.server.min_uid.max(1) {
            true => Err(Refusal::bad_uid()),
            false => Ok(owner),
        }
    }

    fn origin(&self, submission: &Submission) -> Result<Origin, Refusal> {
        bounded(submission)?;
        let most = self.ledger.setup.config.server.jobscript_max_size.bytes();
        if !is_place(&submission.workdir.0) {
            return Err(Refusal::illegal_value("PBS_O_WORKDIR"));
        }
        if submission
            .script_size()
            .is_some_and(|size| size as u64 > most)
        {
            return Err(Refusal::script_too_large());
        }
        let program = match (&submission.stored, &submission.payload) {
            (Some(stored), _) => Program::Script(stored.digest),
            (None, Payload::Command(words)) if words.is_empty() => {
                return Err(Refusal::invalid_request());
            }
            (None, Payload::Command(words)) => Program::Command(words.clone()),
            (None, Payload::Script(text)) => Program::Script(Digest::of(text)),
        };
        Ok(Origin {
            program,
            environ: Digest::of(&submission.environ),
            workdir: submission.workdir.clone(),
            submit_host: submission.submit_host.clone(),
            arguments: submission.arguments.clone(),
        })
    }

    pub(super) fn context<'a>(
        &'a self,
        owner: &'a Owner,
        running: bool,
        is_member: &'a dyn Fn(&str) -> bool,
    ) -> Context<'a> {
        let setup = &self.ledger.setup;
        Context {
            resources: &setup.resources,
            rights: Rights {
                privileged: self.caller.privileged,
                running,
            },
            owner: &owner.user,
            server: &setup.name,
            default_queue: Some(&setup.config.server.default_queue),
            policy: &setup.policy,
            is_member,
        }
    }

    /// Refuses a group that the owner is not a member of. `before`: the job unaltered.
    pub(super) fn grant_group(
        &self,
        owner: &Owner,
        before: Option<&Spec>,
        after: &Spec,
    ) -> Result<(), Refusal> {
        let setup = &self.ledger.setup;
        let Some(list) = newly(before, after, "group_list") else {
            return Ok(());
        };
        let Some(name) = for_host(list.as_bytes(), &setup.host) else {
            return Ok(());
        };
        let group = user::named(&owner.user).and_then(|account| match account {
            Some(account) => user::group_of(&account, &String::from_utf8_lossy(name)),
            None => Ok(None),
        });
        let gid = group
            .map_err(Refusal::spool)?
            .ok_or_else(Refusal::bad_gid)?;
        // The noded of one user is that user, and cannot become what that user is not.
        if setup.shared || user::may_take_group(gid) {
            Ok(())
        } else {
            Err(Refusal::bad_gid())
        }
    }

    /// Refuses copies from and to hosts that no node is on.
    pub(super) fn check_hosts(&self, before: Option<&Spec>, after: &Spec) -> Result<(), Refusal> {
        let setup = &self.ledger.setup;
        let known = |host: &str| {
            let short = host.split('.').next().unwrap_or_default();
            let is = |name: &str| crate::model::server_name::same_server(name, short);
            short == "localhost"
                || is(&setup.host)
                || self.ledger.nodes().any(|node| is(&node.facts.host))
        };
        for name in ["stagein", "stageout"] {
            let list = newly(before, after, name)
                .and_then(transfers)
                .unwrap_or_default();
            if let Some(transfer) = list.iter().find(|transfer| !known(&transfer.host)) {
                return Err(Refusal::other_host(name, &transfer.host));
            }
        }
        Ok(())
    }

    /// Stores bytes by their digest: a hundred thousand equal environments are one.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.ledger.also(Update::Blob(digest, bytes.into()));
        digest
    }

    /// The job, if it is not over; else why it cannot be acted on.
    pub(super) fn live(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        match self.ledger.known(id) {
            Some(job) if job.life.state != State::Finished => Ok(job),
            Some(job) => Err(self.over(&job)),
            None => Err(self
                .past(id)?
                .map_or_else(Refusal::unknown_job, |job| self.over(&job))),
        }
    }

    /// What is said of a job that is over: without a history nobody knows of it any more.
    fn over(&self, job: &Job) -> Refusal {
        match &job.life.moved_to {
            _ if !self.has_history() => Refusal::unknown_job(),
            Some(to) => Refusal::moved(to),
            None => Refusal::finished(),
        }
    }

    /// Whether anybody is shown jobs that are over.
    pub(super) fn has_history(&self) -> bool {
        self.ledger.setup.config.server.history > Span(0)
    }

    /// A job out of the history.
    pub(super) fn past(&self, id: JobId) -> Result<Option<Job>, Refusal> {
        match self.ledger.is_forgotten(id.parent().unwrap_or(id)) {
            true => Ok(None),
            false => self.spool.job(id).map_err(Refusal::spool),
        }
    }

    /// The caller's own job, which elements of an array are not: they are what their array is.
    pub(super) fn whole(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        if id.index().is_some() {
            Err(Refusal::invalid_request())
        } else {
            self.owned(id)
        }
    }

    pub(super) fn owned(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        let job = self.live(id)?;
        self.caller.must_own(&job)?;
        Ok(job)
    }

    fn hold(&mut self, id: JobId, holds: Holds) -> Result<Granted, Refusal> {
        self.whole(id)?;
        may_hold(self.caller, holds)?;
        self.ledger.happen_to_all(
            id,
            &Event::Held {
                holds,
                by: self.caller.shown(),
            },
        );
        checkpointing::of_held(self.ledger, id, &self.caller.shown());
        Ok(Granted::Done)
    }

    fn release(&mut self, id: JobId, holds: Holds) -> Result<Granted, Refusal> {
        let was = self.whole(id)?;
        may_hold(self.caller, holds)?;
        self.ledger.happen_to_all(
            id,
            &Event::Released {
                holds,
                by: self.caller.shown(),
            },
        );
        if holds.contains(Holds::SYSTEM) {
            dependencies::lift(self.ledger, &was);
        }
        Ok(Granted::Done)
    }

    fn delete(&mut self, id: JobId, force: bool, purge: bool) -> Result<Granted, Refusal> {
        match self.owned(id) {
            Ok(_) => self.ledger.happen_to_all(
                id,
                &Event::DeleteWanted {
                    by: self.caller.shown(),
                    force,
                },
            ),
            Err(refusal) if purge && refusal.code == Refusal::finished().code => self.purge(id)?,
            Err(refusal) => return Err(refusal),
        }
        Ok(Granted::Done)
    }

    /// Out of the history. A job whose node has still to report stays until it has.
    fn purge(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.past(id)?.ok_or_else(Refusal::unknown_job)?;
        self.caller.must_own(&job)?;
        if self.ledger.is_unsettled(id) {
            return Err(Refusal::bad_state());
        }
        self.ledger.forget(id);
        Ok(())
    }

    fn wait(&self, id: JobId) -> Result<Granted, Refusal> {
        match self.live(id) {
            Err(refusal) => {
                let known = self.ledger.known(id).map(Arc::unwrap_or_clone);
                let job = known.map_or_else(|| self.past(id), |job| Ok(Some(job)))?;
                let has_ended = job.is_some_and(|job| job.life.moved_to.is_none());
                if has_ended {
                    Ok(Granted::Wait(id))
                } else {
                    Err(refusal)
                }
            }
            Ok(_) => Ok(Granted::Wait(id)),
        }
    }

    pub(super) fn mark_node(
        &mut self,
        name: &str,
        offline: Option<bool>,
        comment: Option<&str>,
    ) -> Result<Granted, Refusal> {
        self.caller.must_be_privileged()?;
        let mut node = self
            .ledger
            .node(name)
            .cloned()
            .ok_or_else(Refusal::unknown_node)?;
        if let Some(offline) = offline.filter(|&offline| offline != node.offline) {
            (node.offline, node.changed) = (offline, self.ledger.now);
        }
        if let Some(comment) = comment {
            node.comment = Some(comment.to_string()).filter(|comment| !comment.is_empty());
        }
        self.ledger.set_node(node);
        Ok(Granted::Done)
    }
}

/// Whether somebody is a member of a group; who cannot be looked up is of none.
pub(super) fn is_member(owner: &Owner, group: &str) -> bool {
    let account = user::named(&owner.user).ok().flatten();
    account
        .is_some_and(|account| user::group_of(&account, group).is_ok_and(|number| number.is_some()))
}

/// The text of an attribute, if the job did not have it before.
fn newly<'a>(before: Option<&Spec>, after: &'a Spec, name: &str) -> Option<&'a str> {
    let text = after.other.get(name)?;
    let known = before.and_then(|spec| spec.other.get(name));
    (known != Some(text)).then_some(text.as_str())
}

/// The owner sets and releases user holds; the others are for operators.
pub(super) fn may_hold(caller: &Caller, holds: Holds) -> Result<(), Refusal> {
    if Holds::USER.contains(holds) {
        Ok(())
    } else {
        caller.must_be_privileged()
    }
}

/// Whether a path can be that of a folder: absolute, and one the kernel could be given.
fn is_place(path: &[u8]) -> bool {
    path.starts_with(b"/") && path.len() < nix::libc::PATH_MAX as usize && !path.contains(&0)
}

/// The largest environment kept for a job: more than a program can be given.
const LARGEST_ENVIRON: usize = 1 << 20;
/// The most that all else of a job may take, besides its script: it is kept in memory.
pub(super) const LARGEST_REST: usize = 256 << 10;

/// Refuses what would cost everybody, not only its owner.
fn bounded(submission: &Submission) -> Result<(), Refusal> {
    if submission.environ.len() > LARGEST_ENVIRON {
        return Err(Refusal::too_large("an environment", LARGEST_ENVIRON));
    }
    // An empty word or setting takes room, too.
    let words = match &submission.payload {
        Payload::Command(words) => words.iter().map(|word| word.0.len() + 32).sum(),
        Payload::Script(_) => 0,
    };
    let rest =
        submission.arguments.0.len() + submission.workdir.0.len() + submission.submit_host.len();
    match words + rest + size_of(&submission.settings) {
        size if size > LARGEST_REST => Err(Refusal::too_large("a request", LARGEST_REST)),
        _ => Ok(()),
    }
}

/// About what settings take in memory, in bytes.
pub(super) fn size_of(settings: &[Setting]) -> usize {
    let one = |setting: &Setting| {
        setting.attribute.len()
            + setting.value.0.len()
            + setting.resource.as_ref().map_or(0, String::len)
            + 96
    };
    settings.iter().map(one).sum()
}

/// What stands behind `PBS_O_QUEUE`, as in PBS.
const HOST: &[u8] = b"\0PBS_O_HOST=";

/// `PBS_O_QUEUE` is known only here.
fn with_queue(environ: &[u8], queue: &str) -> Vec<u8> {
    let entry = format!("PBS_O_QUEUE={queue}\0");
    let host = environ
        .windows(HOST.len())
        .rposition(|part| part == HOST)
        .map(|at| at + 1);
    let (before, behind) = environ.split_at(host.unwrap_or(environ.len()));
    [before, entry.as_bytes(), behind].concat()
}
