//! Handles client requests, one function each. A request changes the server or is refused. The
//! client gets the reply once the changes are on disk.

pub mod alter;

pub mod job_control;

mod nested;

mod node_gone;

mod qmgr;

mod retry;

pub mod shutdown;

pub mod subjobs;

pub mod submission;

mod undo;

use crate::model::job::array::Indices;
use crate::model::job::event::Event;
use crate::model::job::state::Holds;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::caller::Caller;
use crate::server::checkpoint;
use crate::server::dependencies;
use crate::server::granted::Granted;
use crate::server::log_lines;
use crate::server::outside::JobHistory;
use crate::server::request_context::RequestContext;
use crate::server::request_context::may_hold;
use crate::server::state::ServerState;
use crate::wire::batch;
use crate::wire::batch::Act;
use crate::wire::batch::Batch;
use crate::wire::batch::BatchTarget;
use crate::wire::message::ClientRequest;
use std::sync::Arc;

/// Applies a request. While the spool (schedd's database) has no space, `no_space` is the refusal
/// of each request that could make the spool grow much. Jobs can still be held, released and
/// deleted, and a repeated submission still gets its reply.
pub fn apply(
    server: &mut ServerState,
    history: &dyn JobHistory,
    caller: &Caller,
    request: &ClientRequest,
    no_space: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    let kind = undo::kind_of(request);
    if let Some(kind) = kind {
        server.start_recording(kind);
    }
    let granted = carry_out(server, history, caller, request, no_space);
    if kind.is_some() {
        server.finish_recording(&caller.owner);
    }
    granted
}

/// Applies a request, without a record for `lanai undo`.
fn carry_out(
    server: &mut ServerState,
    history: &dyn JobHistory,
    caller: &Caller,
    request: &ClientRequest,
    no_space: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    if let ClientRequest::Batch(batch) = request {
        return apply_batch(server, history, caller, batch, no_space);
    }
    if caller.privileged {
        server.bind_grantee(&caller.owner);
    }
    let line = log_lines::request_line(server, caller, request);
    let granted = apply_one(server, history, caller, request, no_space)?;
    server.log(line);
    Ok(granted)
}

/// Applies a request that is no batch.
fn apply_one(
    server: &mut ServerState,
    history: &dyn JobHistory,
    caller: &Caller,
    request: &ClientRequest,
    no_space: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    let mut context = RequestContext {
        server,
        history,
        caller,
    };
    if let Some(no_space) = no_space
        && may_grow_spool(request)
    {
        return match request {
            ClientRequest::Submit(submission) => context
                .earlier_submission(submission.token)?
                .ok_or_else(|| no_space.clone()),
            _ => Err(no_space.clone()),
        };
    }
    match request {
        ClientRequest::Submit(submission) => context.submit(submission),
        ClientRequest::Alter(id, settings) => context.alter(*id, settings),
        ClientRequest::Hold(id, holds) => context.hold(*id, *holds),
        ClientRequest::Release(id, holds) => context.release(*id, *holds),
        ClientRequest::Delete {
            job,
            only,
            force,
            purge,
        } => match only.or(job.index().map(Indices::one)) {
            Some(only) => context.delete_elements(*job, only, *force),
            None => context.delete(*job, *force, *purge),
        },
        ClientRequest::Rerun { job, only, .. } => context.rerun(*job, *only),
        ClientRequest::RerunFailed(id) => context.rerun_failed(*id),
        ClientRequest::Retry { job, only } => context.retry(*job, *only, &[]),
        ClientRequest::RetryWith {
            job,
            only,
            settings,
        } => context.retry(*job, *only, settings),
        ClientRequest::Undo { dry_run } => context.undo(*dry_run),
        ClientRequest::Signal { job, only, signal } => context.signal(*job, *only, signal),
        ClientRequest::ReleaseNodes(id, keep) => context.release_nodes(*id, keep),
        &ClientRequest::Terminate { manner, nodes } => context.terminate(manner, nodes),
        ClientRequest::Move(id, destination) => context.move_job(*id, destination),
        ClientRequest::Swap(one, other) => context.swap(*one, *other),
        ClientRequest::Message {
            job,
            output,
            errors,
            text,
        } => context.message(*job, *output, *errors, text),
        ClientRequest::Run { job, on, detached } => context.run_now(*job, on, *detached),
        ClientRequest::Shove(id) => context.shove(*id),
        ClientRequest::Adopt(adoption) => context.adopt(adoption),
        ClientRequest::Claim(claim) => context.claim(claim),
        ClientRequest::GiveBack { copy, to } => context.give_back(*copy, to),
        ClientRequest::Wait(id) => context.wait(*id),
        ClientRequest::MarkNode {
            node,
            offline,
            comment,
        } => context.mark_node(node, *offline, comment.as_deref()),
        ClientRequest::DeclareGone { node } => context.declare_gone(node),
        ClientRequest::Reserve(asked) => context.reserve(asked),
        ClientRequest::AlterReservation { id, changes, force } => {
            context.alter_reservation(id, changes, *force)
        }
        ClientRequest::Amend(command) => context.apply_qmgr_command(command),
        ClientRequest::DeleteReservation(id) => context.delete_reservation(id),
        ClientRequest::Ask(_)
        | ClientRequest::Attach(_)
        | ClientRequest::Watch { .. }
        | ClientRequest::Status
        | ClientRequest::ImportHook { .. }
        | ClientRequest::Stop => Err(Refusal::invalid_request()),
        ClientRequest::Batch(_) => Err(Refusal::invalid_request()),
    }
}

/// Applies one act, such as a deletion, to all jobs of a batch. Dependencies are evaluated after
/// the last job. Therefore the end of one job never affects another job that the same batch
/// deletes.
fn apply_batch(
    server: &mut ServerState,
    history: &dyn JobHistory,
    caller: &Caller,
    batch: &Batch,
    no_space: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    if batch.jobs.len() > batch::LARGEST {
        return Err(Refusal::invalid_request());
    }
    server.defer_dependencies();
    let granted = batch
        .jobs
        .iter()
        .map(|target| apply_to(server, history, caller, (&batch.act, target), no_space));
    let granted = granted.collect();
    server.pass_on_deferred();
    Ok(Granted::Batch(granted))
}

/// Applies the act of a batch to one job. If the job is unknown, and the target names an array for
/// this case, the act is applied to the array.
fn apply_to(
    server: &mut ServerState,
    history: &dyn JobHistory,
    caller: &Caller,
    (act, target): (&Act, &BatchTarget),
    no_space: Option<&Refusal>,
) -> Result<Granted, Refusal> {
    let unknown = Refusal::unknown_job();
    let granted = carry_out(
        server,
        history,
        caller,
        &act.on(target.job, target.only),
        no_space,
    );
    match target.array() {
        Some(array) if granted.as_ref().is_err_and(|refusal| *refusal == unknown) => {
            carry_out(server, history, caller, &act.on(array, None), no_space)
        }
        _ => granted,
    }
}

/// Whether a request can make the spool grow much.
fn may_grow_spool(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::Submit(_)
            | ClientRequest::Adopt(_)
            | ClientRequest::Alter(..)
            | ClientRequest::RerunFailed(_)
            | ClientRequest::Retry { .. }
            | ClientRequest::RetryWith { .. }
            | ClientRequest::Undo { .. }
            | ClientRequest::ReleaseNodes(..)
            | ClientRequest::Run { .. }
            | ClientRequest::Shove(_)
            | ClientRequest::Reserve(_)
            | ClientRequest::AlterReservation { .. }
            | ClientRequest::Amend(_)
            | ClientRequest::ImportHook { .. }
    )
}

impl RequestContext<'_> {
    fn hold(&mut self, id: JobId, holds: Holds) -> Result<Granted, Refusal> {
        self.owned_whole_job(id)?;
        may_hold(self.caller, holds)?;
        self.server.apply_event_to_all(
            id,
            &Event::Held {
                holds,
                by: self.caller.shown(),
            },
        );
        checkpoint::checkpoint_held_job(self.server, id, &self.caller.shown());
        Ok(Granted::Done)
    }

    fn release(&mut self, id: JobId, holds: Holds) -> Result<Granted, Refusal> {
        let was = self.owned_whole_job(id)?;
        may_hold(self.caller, holds)?;
        self.server.apply_event_to_all(
            id,
            &Event::Released {
                holds,
                by: self.caller.shown(),
            },
        );
        if holds.contains(Holds::SYSTEM) {
            dependencies::lift(self.server, &was);
        }
        Ok(Granted::Done)
    }

    fn delete(&mut self, id: JobId, force: bool, purge: bool) -> Result<Granted, Refusal> {
        match self.owned_job(id) {
            Ok(_) => self.server.apply_event_to_all(
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

    /// Removes a finished job from the history. Refused while a node still has to report on the
    /// job.
    fn purge(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.stored_job(id)?.ok_or_else(Refusal::unknown_job)?;
        self.caller.must_own(&job)?;
        if self.server.awaits_reports(id) {
            return Err(Refusal::bad_state());
        }
        self.server.forget(id);
        Ok(())
    }

    fn wait(&self, id: JobId) -> Result<Granted, Refusal> {
        match self.unfinished_job(id) {
            Err(refusal) => {
                let known = self.server.known(id).map(Arc::unwrap_or_clone);
                let job = known.map_or_else(|| self.stored_job(id), |job| Ok(Some(job)))?;
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

    pub(crate) fn mark_node(
        &mut self,
        name: &str,
        offline: Option<bool>,
        comment: Option<&str>,
    ) -> Result<Granted, Refusal> {
        self.caller.must_be_privileged()?;
        let mut node = self
            .server
            .node(name)
            .cloned()
            .ok_or_else(Refusal::unknown_node)?;
        if let Some(offline) = offline.filter(|&offline| offline != node.offline) {
            (node.offline, node.changed) = (offline, self.server.now);
            node.offline_by = offline.then(|| self.caller.shown());
        }
        if let Some(comment) = comment {
            node.comment = Some(comment.to_string()).filter(|comment| !comment.is_empty());
        }
        let line = self
            .server
            .node(name)
            .and_then(|before| log_lines::mark_line(before, &node, &self.caller.shown()));
        self.server.log(line);
        self.server.set_node(node);
        Ok(Granted::Done)
    }
}
