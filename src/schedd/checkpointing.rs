//! Running jobs that the site's command checkpoints: what their nodes are told, and what follows if
//! that fails.

use super::ledger::Ledger;
use super::setup::Setup;
use crate::model::job::event::Event;
use crate::model::job::preemption::{Action, Cause};
use crate::model::job::suspension::Manner;
use crate::model::job::{Attempt, Job, JobId, Run, Want};
use crate::sched::view::preemption_candidate::Tenure;
use crate::wire::order::{Checkpoint, Order};

/// Whether a job is to be ended as soon as it is checkpointed. One whose site has no command for
/// that any more is ended as it is.
pub fn is_pending(setup: &Setup, job: &Job) -> bool {
    setup.config.launch.checkpoint.program.is_some() && job.awaits_checkpoint()
}

/// What its node is told.
pub fn order(setup: &Setup, job: &Job, run: &Run) -> Option<Order> {
    let command = &setup.config.launch.checkpoint;
    Some(Order::Checkpoint(Box::new(Checkpoint {
        job: job.id,
        attempt: run.attempt,
        full_id: job.id.full(&setup.name),
        owner: job.owner.clone(),
        program: command.program.clone()?,
        timeout: command.timeout,
        folders: command.folders.clone(),
    })))
}

/// A job that was held while it runs is checkpointed and waits, where that is possible; else it
/// goes on, as in PBS.
pub fn of_held(ledger: &mut Ledger, id: JobId, by: &str) {
    let has_command = ledger.setup.config.launch.checkpoint.program.is_some();
    let held = ledger
        .job(id)
        .filter(|job| has_command && job.is_checkpointed_by_site());
    if let Some(attempt) = held.and_then(|job| Some(job.life.open_run()?.attempt)) {
        ledger.happen(
            id,
            Event::CheckpointWanted {
                attempt,
                by: by.to_string(),
            },
        );
    }
}

/// It could not be: a job that was to make way does so in the next way there is, the others go on.
pub fn failed(ledger: &mut Ledger, id: JobId, attempt: Attempt, why: &str) {
    let Some(job) = ledger
        .job(id)
        .cloned()
        .filter(|job| job.awaits_checkpoint())
    else {
        return;
    };
    let Some(run) = job.life.open_run().filter(|run| run.attempt == attempt) else {
        return;
    };
    let told = job
        .life
        .yielding
        .clone()
        .filter(|told| told.concerns(run) && told.action == Action::Checkpoint);
    ledger.happen(
        id,
        Event::CheckpointFailed {
            attempt,
            why: why.to_string(),
        },
    );
    // Nobody makes way in another way for who has started meanwhile, or is gone.
    let waits = |to: JobId| ledger.keeps_room_for(to);
    let Some(told) = told.filter(|told| told.to.is_none_or(waits)) else {
        return;
    };
    if let Some(action) = next_action(ledger, id) {
        ledger.make_way(id, attempt, (told.to, told.cause, action));
    }
}

/// What comes after a checkpoint in the order in which a job is asked. Not a suspension: that gives
/// less than what was counted on, and the next cycles find out whether it will do.
fn next_action(ledger: &Ledger, id: JobId) -> Option<Action> {
    let tenure = Tenure::of(ledger.job(id)?)?;
    let rule = &ledger.setup.policy.preemption;
    let order = rule.actions.of(tenure.left(ledger.now)).iter().copied();
    let mut later = order
        .skip_while(|action| *action != Action::Checkpoint)
        .skip(1);
    later
        .find(|action| tenure.can(*action, rule))
        .filter(|action| *action != Action::Suspend)
}

impl Ledger {
    /// Tells a running job to make way: for whom, why and how.
    pub fn make_way(
        &mut self,
        job: JobId,
        attempt: Attempt,
        (to, cause, action): (Option<JobId>, Cause, Action),
    ) {
        if self.job(job).is_none_or(|job| job.life.want != Want::Run) {
            return;
        }
        let by = format!("Scheduler@{}", self.setup.host);
        self.happen(
            job,
            Event::Preempted {
                attempt,
                to,
                cause,
                action,
                by: by.clone(),
            },
        );
        if let (Action::Suspend, Some(to)) = (action, to) {
            let manner = Manner::For {
                job: to,
                releases: self.setup.policy.preemption.releases.clone(),
            };
            self.happen(
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
