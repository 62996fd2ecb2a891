//! Checkpoints of running jobs by the site's checkpoint command: orders to nodes, and handling of
//! failures.

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job::preemption::PreemptAction;
use crate::model::job::preemption::PreemptCause;
use crate::model::job::suspension::SuspendMode;
use crate::model::job_id::JobId;
use crate::sched::view::preemption_candidate::PreemptionCandidate;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use crate::wire::order::Checkpoint;
use crate::wire::order::ScheddOrder;

/// Whether a job must be checkpointed before it is ended. False if no checkpoint command is
/// configured (any more).
pub fn is_pending(setup: &Setup, job: &Job) -> bool {
    setup.config.launch.checkpoint.program.is_some() && job.awaits_checkpoint()
}

/// The order to checkpoint an attempt. None if no checkpoint command is configured.
pub fn order(setup: &Setup, job: &Job, run: &Run) -> Option<ScheddOrder> {
    let command = &setup.config.launch.checkpoint;
    Some(ScheddOrder::Checkpoint(Box::new(Checkpoint {
        job: job.id,
        attempt: run.attempt,
        full_id: job.id.full(&setup.name),
        owner: job.owner.clone(),
        program: command.program.clone()?,
        timeout: command.timeout,
        folders: command.folders.clone(),
    })))
}

/// Handles a hold on a running job. If the site's checkpoint command can checkpoint the job, the
/// job is checkpointed and requeued. Otherwise the job continues, as in PBS.
pub fn checkpoint_held_job(server: &mut ServerState, id: JobId, by: &str) {
    let has_command = server.setup.config.launch.checkpoint.program.is_some();
    let held = server
        .job(id)
        .filter(|job| has_command && job.is_checkpointed_by_site());
    if let Some(attempt) = held.and_then(|job| Some(job.life.open_run()?.attempt)) {
        server.apply_event(
            id,
            Event::CheckpointWanted {
                attempt,
                by: by.to_string(),
            },
        );
    }
}

/// Handles a failed checkpoint. If the checkpoint was for a preemption, the next possible
/// preemption action follows, unless the preemptor no longer waits. Without a further action the
/// job continues.
pub fn failed(server: &mut ServerState, id: JobId, attempt: Attempt, why: &str) {
    let Some(job) = server
        .job(id)
        .cloned()
        .filter(|job| job.awaits_checkpoint())
    else {
        return;
    };
    let Some(run) = job.life.open_run().filter(|run| run.attempt == attempt) else {
        return;
    };
    let preemption = job.life.preemption.clone().filter(|preemption| {
        preemption.concerns(run.attempt, run.started) && preemption.action.checkpoints()
    });
    server.apply_event(
        id,
        Event::CheckpointFailed {
            attempt,
            why: why.to_string(),
        },
    );
    // If the preemptor has started or ended since, the job continues.
    let waits = |to: JobId| server.holds_resources_for(to);
    let Some(preemption) = preemption.filter(|preemption| preemption.to.is_none_or(waits)) else {
        return;
    };
    if let Some(action) = next_action(server, id, preemption.action) {
        server.preempt(id, attempt, (preemption.to, preemption.cause, action));
    }
}

/// The next possible preemption action after the failed one. None if there is none, or if it is
/// suspension, which frees less than the preemptor needs.
fn next_action(server: &ServerState, id: JobId, failed: PreemptAction) -> Option<PreemptAction> {
    let candidate = PreemptionCandidate::of(server.job(id)?)?;
    let rule = &server.setup.policy.preemption;
    let order = rule.actions.of(candidate.left(server.now)).iter().copied();
    let mut later = order.skip_while(|action| *action != failed).skip(1);
    later
        .find(|action| candidate.can(*action, rule))
        .filter(|action| !action.keeps_memory())
}

impl ServerState {
    /// Preempts a running job, unless it is being ended already. `to` is the preemptor, if any.
    pub fn preempt(
        &mut self,
        job: JobId,
        attempt: Attempt,
        (to, cause, action): (Option<JobId>, PreemptCause, PreemptAction),
    ) {
        if self.job(job).is_none_or(|job| job.life.want != Want::Run) {
            return;
        }
        let by = format!("Scheduler@{}", self.setup.host);
        self.apply_event(
            job,
            Event::Preempted {
                attempt,
                to,
                cause,
                action,
                by: by.clone(),
            },
        );
        if action.keeps_memory()
            && let Some(to) = to
        {
            let manner = SuspendMode::For {
                job: to,
                releases: self.setup.policy.preemption.releases.clone(),
            };
            self.apply_event(
                job,
                Event::SuspendWanted {
                    by,
                    attempt,
                    manner,
                },
            );
        }
    }
}
