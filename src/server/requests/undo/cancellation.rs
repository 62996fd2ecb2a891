//! Undo of a deletion: jobs that had not started return to their queue, with their id, place,
//! holds and dependencies.
//!
//! First all jobs are selected that can return. A job cannot return if a dependency can no longer
//! be met, unless the other job returns, too. Then the jobs return, and afterwards their
//! dependencies are restored, so that the order of the jobs does not matter.

use crate::model::indices::spans::Spans;
use crate::model::job::Job;
use crate::model::job::attempt::DELETED;
use crate::model::job::dependency::progress::DependencyProgress;
use crate::model::job::state::Holds;
use crate::model::job::state::JobState;
use crate::model::job::undo::DependenciesBefore;
use crate::model::job::undo::JobBefore;
use crate::model::job::undo::UndoKind;
use crate::model::job::undo::UserAction;
use crate::model::job_id::JobId;
use crate::server::request_context::RequestContext;
use crate::server::requests::undo::Outcome;
use crate::server::requests::undo::has_started_since;
use crate::server::requests::undo::text_of;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A deleted job that can return.
struct Returning<'a> {
    before: &'a JobBefore,
    job: Arc<Job>,
    /// For an array: the deleted subjobs, as ranges of positions.
    subjobs: Vec<(u32, u32)>,
    /// A remark for the user.
    remark: Option<String>,
}

type Plan<'a> = BTreeMap<JobId, Returning<'a>>;
type Outcomes = BTreeMap<JobId, Outcome>;

impl RequestContext<'_> {
    /// Reverts a deletion. A dry run only reports.
    pub(super) fn undo_cancellation(
        &mut self,
        action: &UserAction,
        dry_run: bool,
    ) -> Vec<(JobId, Outcome)> {
        let (mut plan, mut outcomes) = (Plan::new(), Outcomes::new());
        let mut released = Vec::new();
        for before in &action.jobs {
            if before.is_dependent && self.is_unfinished(before.job) {
                released.push(before);
                continue;
            }
            match self.returning(before) {
                Ok(returning) => drop(plan.insert(before.job, returning)),
                Err(why) => drop(outcomes.insert(before.job, Err(why))),
            }
        }
        self.drop_impossible(&mut plan, &mut outcomes);
        if !dry_run {
            self.return_jobs(&mut plan, &mut outcomes);
        }
        for (&id, returning) in &plan {
            outcomes.insert(id, Ok(returning.remark.clone()));
        }
        for before in released {
            if let Some(outcome) = self.bind_released(before, &plan, dry_run) {
                outcomes.insert(before.job, outcome);
            }
        }
        outcomes.into_iter().collect()
    }

    fn is_unfinished(&self, id: JobId) -> bool {
        let job = self.server.job(id);
        job.is_some_and(|job| job.life.state != JobState::Finished)
    }

    /// Checks whether a deleted job can return.
    fn returning<'b>(&self, before: &'b JobBefore) -> Result<Returning<'b>, String> {
        let job = self
            .any_job(before.job)
            .ok_or("the job was removed from the history")?;
        self.may_revert(&job)?;
        if job.spec.interactive {
            return Err("the job is interactive, and its terminal is closed".into());
        }
        let subjobs = deleted_subjobs(&job, before);
        let mut remark = None;
        if job.elements.is_some() {
            if before.had_started {
                remark = Some(format!(
                    "subjobs that had started have ended: lanai retry {} runs them again",
                    job.id
                ));
            }
            if subjobs.is_empty() {
                return Err(remark.unwrap_or("the array has been retried since".into()));
            }
        } else {
            check_end(&job, before)?;
        }
        if job.life.state == JobState::Finished {
            self.check_queue(&job)
                .map_err(|refusal| text_of(&refusal))?;
        }
        Ok(Returning {
            before,
            job,
            subjobs,
            remark,
        })
    }

    /// Removes jobs from the plan with a dependency that can no longer be met, and the jobs that
    /// depend on them.
    fn drop_impossible(&self, plan: &mut Plan, outcomes: &mut Outcomes) {
        loop {
            let mut impossible = Vec::new();
            for (&id, returning) in plan.iter() {
                if let Some(why) = self.why_stuck(returning, plan) {
                    impossible.push((id, why));
                }
            }
            if impossible.is_empty() {
                return;
            }
            for (id, why) in impossible {
                plan.remove(&id);
                outcomes.insert(id, Err(why));
            }
        }
    }

    fn why_stuck(&self, returning: &Returning, plan: &Plan) -> Option<String> {
        let before = returning.before.dependencies.as_deref()?;
        let conditions = before.conditions.iter();
        let stuck = conditions
            .filter(|(other, _)| !plan.contains_key(other))
            .find_map(|&condition| self.why_impossible(condition));
        stuck.or_else(|| {
            let rival = before.rivals.iter().find(|&&rival| self.has_run(rival))?;
            Some(format!("job {rival} of its runone set has run since"))
        })
    }

    fn has_run(&self, id: JobId) -> bool {
        let progress = self.any_job(id).map(|job| DependencyProgress::of(&job));
        matches!(
            progress,
            Some(DependencyProgress::Ended { began: true, .. })
        )
    }

    /// Returns the jobs to their queues, within the limits of the queues, and restores their
    /// dependencies.
    fn return_jobs(&mut self, plan: &mut Plan, outcomes: &mut Outcomes) {
        plan.retain(|&id, returning| {
            let outcome = self.return_job(returning);
            outcome.map_err(|why| outcomes.insert(id, Err(why))).is_ok()
        });
        for (&id, returning) in plan.iter() {
            if let Some(before) = returning.before.dependencies.as_deref() {
                self.restore_dependencies(id, before);
                if let Err(why) = self.bind_met(id, before, plan) {
                    outcomes.insert(id, Err(why));
                }
            }
        }
        plan.retain(|&id, _| {
            let is_back = self.is_unfinished(id);
            if !is_back {
                let why = "a job that it depends on is not restored";
                outcomes.insert(id, Err(why.into()));
            }
            is_back
        });
    }

    fn return_job(&mut self, returning: &Returning) -> Result<(), String> {
        let job = &returning.job;
        if job.life.state == JobState::Finished {
            // Jobs that have returned before this one count, too.
            self.check_queue(job).map_err(|refusal| text_of(&refusal))?;
        }
        self.server.restore_from_history(Job::clone(job));
        let (none, subjobs) = (Holds::NONE, returning.subjobs.clone());
        let event = self.undone(UndoKind::Cancel, none, none, subjobs);
        self.server.apply_event(job.id, event);
        Ok(())
    }

    /// Makes a job wait again for returned jobs, whose deletion had met its conditions.
    fn bind_met(&mut self, id: JobId, before: &DependenciesBefore, plan: &Plan) -> Outcome {
        let conditions: Vec<_> = before
            .met
            .iter()
            .filter(|(other, _)| plan.contains_key(other))
            .copied()
            .collect();
        let labels = before
            .met_labels
            .iter()
            .filter(|(by, _)| plan.contains_key(by));
        let labels: Vec<_> = labels.map(|(_, awaited)| awaited.clone()).collect();
        self.bind_again(id, &conditions, &labels, 0)
    }

    /// Makes a job wait again that the deletion had released. None if none of the jobs returns for
    /// which it waited.
    fn bind_released(&mut self, before: &JobBefore, plan: &Plan, dry_run: bool) -> Option<Outcome> {
        let dependencies = before.dependencies.as_deref()?;
        let met = dependencies.met.iter().map(|(other, _)| other);
        let by_label = dependencies.met_labels.iter().map(|(other, _)| other);
        if !met.chain(by_label).any(|other| plan.contains_key(other)) {
            return None;
        }
        let job = self.any_job(before.job)?;
        if let Err(why) = self.may_revert(&job) {
            return Some(Err(why));
        }
        if has_started_since(&job, before) {
            let why = "the job has started, because the job for which it waited was deleted";
            return Some(Err(why.into()));
        }
        if !dry_run && let Err(why) = self.bind_met(before.job, dependencies, plan) {
            return Some(Err(why));
        }
        Some(Ok(Some("the job waits for its dependency again".into())))
    }
}

/// The subjobs that waited before the deletion and are deleted now.
fn deleted_subjobs(job: &Job, before: &JobBefore) -> Vec<(u32, u32)> {
    let empty = Spans::default();
    let ended = job.elements.as_ref().map(|elements| elements.ended());
    let deleted = ended
        .and_then(|ended| ended.get(&DELETED))
        .unwrap_or(&empty);
    let waiting = before.waiting.iter();
    waiting
        .flat_map(|&(first, last)| deleted.within(first, last))
        .collect()
}

/// Checks that a job without subjobs ended by the action, before it started.
fn check_end(job: &Job, before: &JobBefore) -> Result<(), String> {
    let life = &job.life;
    if before.had_started {
        return Err(format!(
            "the job had started, and its processes have ended: lanai retry {} runs it again",
            job.id
        ));
    }
    if life.state != JobState::Finished {
        return Err("the job has been retried since".into());
    }
    let is_by_action = life.exit.is_some_and(|exit| exit.deleted)
        && life.obittime == Some(before.at)
        && life.attempt == before.attempt
        && life.open_run().is_none();
    if is_by_action {
        Ok(())
    } else {
        Err("the job has been retried since, and has ended".into())
    }
}
