//! `lanai undo`: reverts the last hold, release, alteration or deletion of the caller, for the jobs
//! that have not started since.
//!
//! Only the caller's own action is reverted, and only for jobs that the caller may still change.
//! Each job is reverted completely or not at all.

mod cancellation;

mod dependencies;

use crate::model::hook::HookEvent;
use crate::model::hook::hooks_at;
use crate::model::job::Job;
use crate::model::job::Spec;
use crate::model::job::event::Event;
use crate::model::job::state::Holds;
use crate::model::job::state::JobState;
use crate::model::job::undo::AlterationBefore;
use crate::model::job::undo::JobBefore;
use crate::model::job::undo::UndoKind;
use crate::model::job::undo::UndoReport;
use crate::model::job::undo::UserAction;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::request_context::RequestContext;
use crate::server::request_context::may_hold;
use crate::wire::batch::Act;
use crate::wire::message::ClientRequest;
use std::sync::Arc;

/// The result for a job: an optional remark, or why the job is not changed.
type Outcome = Result<Option<String>, String>;

/// The kind of action of a request; None for a request that cannot be reverted.
pub(crate) fn kind_of(request: &ClientRequest) -> Option<UndoKind> {
    match request {
        ClientRequest::Hold(..) => Some(UndoKind::Hold),
        ClientRequest::Release(..) => Some(UndoKind::Release),
        ClientRequest::Alter(..) => Some(UndoKind::Alter),
        ClientRequest::Delete { .. } => Some(UndoKind::Cancel),
        ClientRequest::Batch(batch) => match batch.act {
            Act::Hold(_) => Some(UndoKind::Hold),
            Act::Release(_) => Some(UndoKind::Release),
            Act::Alter(_) => Some(UndoKind::Alter),
            Act::Delete { .. } => Some(UndoKind::Cancel),
            _ => None,
        },
        _ => None,
    }
}

impl RequestContext<'_> {
    /// Reverts the last action of the caller, and removes it from the log. A dry run changes
    /// nothing.
    pub(crate) fn undo(&mut self, dry_run: bool) -> Result<Granted, Refusal> {
        let action = self.server.last_action(&self.caller.owner);
        let action = action.ok_or_else(Refusal::nothing_to_undo)?;
        if action.kind == UndoKind::Alter && self.has_modify_hooks() {
            return Err(Refusal::undo_with_hooks());
        }
        let jobs = match action.kind {
            UndoKind::Cancel => self.undo_cancellation(&action, dry_run),
            _ => self.undo_each(&action, dry_run),
        };
        if !dry_run {
            self.server.forget_action(self.caller.owner.uid);
        }
        Ok(Granted::Undone(Box::new(UndoReport {
            kind: action.kind,
            at: action.at,
            unrecorded: action.unrecorded,
            jobs,
        })))
    }

    /// Whether hooks of the site check changes of attributes.
    pub(crate) fn has_modify_hooks(&self) -> bool {
        !hooks_at(&self.server.setup.config.hooks, HookEvent::ModifyJob).is_empty()
    }

    fn undo_each(&mut self, action: &UserAction, dry_run: bool) -> Vec<(JobId, Outcome)> {
        let mut outcomes = Vec::with_capacity(action.jobs.len());
        // A job can occur twice: the later change is reverted first.
        for before in action.jobs.iter().rev() {
            let outcome = match &before.alteration {
                Some(alteration) => self.undo_alteration(before, alteration, dry_run),
                None => self.undo_holds(action.kind, before, dry_run),
            };
            outcomes.push((before.job, outcome));
        }
        outcomes.reverse();
        outcomes
    }

    /// The unfinished job, if the caller may change it and it has not started since the action.
    fn unstarted_job(&self, before: &JobBefore) -> Result<Arc<Job>, String> {
        let job = self.server.job(before.job).cloned();
        let job = job
            .filter(|job| job.life.state != JobState::Finished)
            .ok_or("the job has finished since")?;
        self.may_revert(&job)?;
        if has_started_since(&job, before) {
            return Err("the job has started since".into());
        }
        Ok(job)
    }

    /// Refuses jobs that the caller may not change, for example because the caller is no longer an
    /// operator.
    fn may_revert(&self, job: &Job) -> Result<(), String> {
        let is_permitted = self.caller.must_own(job);
        is_permitted.map_err(|_| "the job belongs to another user".into())
    }

    fn undo_holds(&mut self, kind: UndoKind, before: &JobBefore, dry_run: bool) -> Outcome {
        let job = self.unstarted_job(before)?;
        let hold = before.released.without(job.life.holds);
        let release = common(before.held, job.life.holds);
        may_hold(self.caller, hold.with(release)).map_err(|refusal| text_of(&refusal))?;
        if hold.is_none() && release.is_none() && before.dependencies.is_none() {
            return Err("the holds have changed since".into());
        }
        if dry_run {
            return Ok(None);
        }
        let event = self.undone(kind, hold, release, Vec::new());
        self.server.apply_event_to_all(before.job, &event);
        match before.dependencies.as_deref() {
            Some(dependencies) if job.life.bars.are_open() => {
                self.restore_lifted_dependencies(before.job, dependencies)
            }
            _ => Ok(None),
        }
    }

    fn undone(
        &self,
        action: UndoKind,
        hold: Holds,
        release: Holds,
        subjobs: Vec<(u32, u32)>,
    ) -> Event {
        Event::Undone {
            by: self.caller.shown(),
            action,
            hold,
            release,
            subjobs,
        }
    }

    fn undo_alteration(
        &mut self,
        before: &JobBefore,
        alteration: &AlterationBefore,
        dry_run: bool,
    ) -> Outcome {
        let job = self.unstarted_job(before)?;
        if before.had_started {
            return Err("the job had started: change it again with qalter".into());
        }
        if job.spec.revision().ok() != Some(alteration.after) {
            return Err("the job was changed again since".into());
        }
        if is_of_operators(&job, alteration) && !self.caller.privileged {
            return Err("only operators may change these attributes".into());
        }
        let mut spec = (*alteration.spec).clone();
        let hold = before.released.without(job.life.holds);
        let release = common(before.held, job.life.holds);
        may_hold(self.caller, hold.with(release))
            .and_then(|()| self.check_altered(&job, &mut spec).map(drop))
            .map_err(|refusal| text_of(&refusal))?;
        if !dry_run {
            self.server.change(job.id, |job| {
                job.spec = Arc::new(spec);
                job.life.run_count = alteration.run_count.unwrap_or(job.life.run_count);
                if alteration.altered_comment {
                    job.life.comment.clone_from(&alteration.comment);
                    job.life.deferral = None;
                }
            });
            let event = self.undone(UndoKind::Alter, hold, release, Vec::new());
            self.server.apply_event(job.id, event);
        }
        let remark = "the dependencies that qalter added remain";
        Ok(alteration.added_dependencies.then(|| remark.into()))
    }
}

/// Whether the job has started after the action.
fn has_started_since(job: &Job, before: &JobBefore) -> bool {
    let is_started = job.life.state.is_under_way() || job.has_begun();
    job.life.attempt != before.attempt || (is_started && !before.had_started)
}

/// Whether the alteration changed attributes that only operators may change.
fn is_of_operators(job: &Job, alteration: &AlterationBefore) -> bool {
    let (before, after) = (&alteration.spec, &job.spec);
    let text = |spec: &Spec| spec.other.get("topjob_ineligible").cloned();
    alteration.altered_comment
        || before.system_priority != after.system_priority
        || text(before) != text(after)
}

/// The holds in both sets.
fn common(a: Holds, b: Holds) -> Holds {
    a.without(a.without(b))
}

fn text_of(refusal: &Refusal) -> String {
    refusal.text.trim_end().to_string()
}
