//! Validation of `-W depend=` against the existing jobs. A request is accepted completely or
//! refused.

use crate::model::job::Job;
use crate::model::job::dependency::DependencyCondition;
use crate::model::job::dependency::DependencyKind;
use crate::model::job::dependency::Edge;
use crate::model::job::dependency::ParsedDependency;
use crate::model::job::dependency::Tie;
use crate::model::job::dependency::effects::JobDependencies;
use crate::model::job::dependency::progress::DependencyProgress;
use crate::model::job::dependency::progress::DependencyVerdict;
use crate::model::job::dependency::progress::fate;
use crate::model::job::dependency::progress::judge;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::caller::Caller;
use crate::server::dependencies::cycle;
use crate::server::outside::JobHistory;
use crate::server::state::ServerState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A dependency request to validate.
pub struct DependencyRequest<'a> {
    /// The unfinished jobs.
    pub server: &'a ServerState,
    /// The stored jobs.
    pub history: &'a dyn JobHistory,
    /// The user who sent the request.
    pub caller: &'a Caller,
    /// The job that gets the dependencies; None for a job that is being submitted.
    pub job: Option<JobId>,
}

impl DependencyRequest<'_> {
    /// Validates a request. Conditions that are already met, or that the job already has, are
    /// dropped. A condition that can never be met causes a refusal.
    pub fn grant(&self, dependency: &ParsedDependency) -> Result<JobDependencies, Refusal> {
        let mut dependencies = JobDependencies {
            on: dependency.on,
            ..JobDependencies::default()
        };
        let mut room = BTreeMap::new();
        for &edge in &dependency.edges {
            if self.job == Some(edge.job) {
                return Err(Refusal::dependency(&format!(
                    "{} cannot depend on itself",
                    self.full_id(edge.job)
                )));
            }
            let job = self.find_job(edge.job)?;
            if let Some(to) = &job.life.moved_to {
                return Err(Refusal::dependency(&format!(
                    "{} was moved to {to}",
                    self.full_id(edge.job)
                )));
            }
            match edge.kind {
                DependencyKind::After(condition) => {
                    self.add_condition(&mut dependencies, &job, condition)?
                }
                DependencyKind::Before(condition) => {
                    self.check_precedence(&job, room.entry(edge.job).or_insert(job.life.bars.on))?;
                    dependencies.before.push((edge.job, condition));
                }
                DependencyKind::RunOne => self.add_runone_member(&mut dependencies, &job)?,
            }
        }
        self.refuse_circles(&dependencies)?;
        Ok(dependencies)
    }

    fn full_id(&self, id: JobId) -> String {
        id.full(&self.server.setup.name)
    }

    /// The job with this id, finished or not.
    fn find_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        if let Some(job) = self.server.job(id) {
            return Ok(job.clone());
        }
        let unknown = || Refusal::no_such_job(&self.full_id(id));
        // Every job number fits the spool's integers. A larger number is unknown.
        i64::try_from(id.number).map_err(|_| unknown())?;
        let past = self.history.job(id)?;
        past.filter(|job| job.id == id)
            .map(Arc::new)
            .ok_or_else(unknown)
    }

    fn add_condition(
        &self,
        dependencies: &mut JobDependencies,
        other: &Job,
        condition: DependencyCondition,
    ) -> Result<(), Refusal> {
        let edge = Edge {
            kind: DependencyKind::After(condition),
            job: other.id,
        };
        match judge(condition, DependencyProgress::of(other)) {
            DependencyVerdict::Met => {}
            DependencyVerdict::Impossible => {
                let which = format!(
                    "{}:{}, {}",
                    edge.kind.name(),
                    self.full_id(other.id),
                    fate(&other.life)
                );
                return Err(Refusal::unmet_dependency(&which));
            }
            DependencyVerdict::Pending
                if self
                    .job
                    .is_some_and(|job| self.server.dependencies.holds(Tie { job, edge })) => {}
            DependencyVerdict::Pending => dependencies.conditions.push((other.id, condition)),
        }
        Ok(())
    }

    /// Checks that the caller may make `other` wait for the job. Decreases `room`, the remaining
    /// number of dependencies that `other` accepts (`depend=on`).
    fn check_precedence(&self, other: &Job, room: &mut u32) -> Result<(), Refusal> {
        let refuse = |why: &str| {
            Err(Refusal::dependency(&format!(
                "{} {why}",
                self.full_id(other.id)
            )))
        };
        match other.life.state {
            _ if self.caller.must_own(other).is_err() => refuse("is another user's job"),
            JobState::Finished => refuse("has finished"),
            JobState::Running | JobState::Suspended => refuse("is already running"),
            _ if other.has_begun() => refuse("has started"),
            _ if *room == 0 => refuse(
                "accepts no further dependencies of type before: submit that job with \
                 -W depend=on:COUNT to allow COUNT of them",
            ),
            _ => {
                *room -= 1;
                Ok(())
            }
        }
    }

    /// Adds the job to the `runone` set of `other`. If `other` ended before it ran, it no longer
    /// belongs to a set, and nothing is added. If `other` has run and ended, the request is
    /// refused.
    fn add_runone_member(
        &self,
        dependencies: &mut JobDependencies,
        other: &Job,
    ) -> Result<(), Refusal> {
        if self.caller.must_own(other).is_err() {
            return Err(Refusal::dependency(&format!(
                "{} is another user's job",
                self.full_id(other.id)
            )));
        }
        match DependencyProgress::of(other) {
            DependencyProgress::Ended { began: false, .. } => {}
            DependencyProgress::Ended { .. } => {
                let which = format!("runone:{}, {}", self.full_id(other.id), fate(&other.life));
                return Err(Refusal::unmet_dependency(&which));
            }
            _ => {
                dependencies.runone_jobs.push(other.id);
                let running = other.life.state.is_under_way() || other.has_begun();
                let rival = if running {
                    Some(other.id)
                } else {
                    other.life.bars.rival
                };
                dependencies.rival = dependencies.rival.or(rival);
            }
        }
        Ok(())
    }

    fn refuse_circles(&self, dependencies: &JobDependencies) -> Result<(), Refusal> {
        let mut waiting: BTreeSet<JobId> = dependencies.before.iter().map(|&(id, _)| id).collect();
        let mut waited_for: Vec<JobId> =
            dependencies.conditions.iter().map(|&(id, _)| id).collect();
        if let Some(job) = self.job {
            waiting.extend(Some(job).filter(|&job| self.server.dependencies.has_dependents(job)));
            waited_for.extend(
                self.server
                    .dependencies
                    .conditions(job)
                    .into_iter()
                    .map(|(id, _)| id),
            );
        }
        let this = self
            .job
            .map_or("this job".to_string(), |job| self.full_id(job));
        match cycle::find(&self.server.dependencies, &waited_for, &waiting) {
            Some(mut trail) => {
                trail.pop_if(|last| Some(*last) == self.job);
                let circle = cycle::cycle_text(&trail, &this, &self.server.setup.name);
                Err(Refusal::dependency(&format!(
                    "jobs would wait in a circle: {circle}"
                )))
            }
            None => Ok(()),
        }
    }
}
