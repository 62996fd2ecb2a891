//! Dependencies that an action removed, and that its undo adds again.

use crate::model::job::Job;
use crate::model::job::dependency::Awaited;
use crate::model::job::dependency::DependencyCondition;
use crate::model::job::dependency::DependencyKind;
use crate::model::job::dependency::Edge;
use crate::model::job::dependency::Tie;
use crate::model::job::dependency::effects::TieState;
use crate::model::job::dependency::progress::DependencyProgress;
use crate::model::job::dependency::progress::DependencyVerdict;
use crate::model::job::dependency::progress::fate;
use crate::model::job::dependency::progress::judge;
use crate::model::job::event::Event;
use crate::model::job::undo::DependenciesBefore;
use crate::model::job_id::JobId;
use crate::server::dependencies::cycle;
use crate::server::request_context::RequestContext;
use crate::server::requests::undo::Outcome;
use crate::update::Update;
use std::collections::BTreeSet;
use std::sync::Arc;

impl RequestContext<'_> {
    /// A job in memory or in the history; None if it is unknown.
    pub(super) fn any_job(&self, id: JobId) -> Option<Arc<Job>> {
        let known = self.server.job(id).cloned();
        known.or_else(|| self.stored_job(id).ok().flatten().map(Arc::new))
    }

    /// Why a condition on another job can no longer be met; None if it can.
    pub(super) fn why_impossible(
        &self,
        (other, condition): (JobId, DependencyCondition),
    ) -> Option<String> {
        let Some(job) = self.any_job(other) else {
            return Some(format!(
                "it depends on job {other}, which is no longer known"
            ));
        };
        let verdict = judge(condition, DependencyProgress::of(&job));
        (verdict == DependencyVerdict::Impossible).then(|| {
            format!(
                "it depends on job {other} ({}), {}",
                DependencyKind::After(condition).name(),
                fate(&job.life)
            )
        })
    }

    /// Makes a job wait again for conditions that an action removed, except those that are met
    /// now.
    pub(super) fn bind_again(
        &mut self,
        id: JobId,
        conditions: &[(JobId, DependencyCondition)],
        labels: &[Awaited],
        on: u32,
    ) -> Outcome {
        let job = self.any_job(id).ok_or("the job is no longer known")?;
        let mut remark = None;
        let mut unmet = 0;
        for &(other, condition) in conditions {
            if let Some(why) = self.why_impossible((other, condition)) {
                remark = Some(format!("without a dependency: {why}"));
                continue;
            }
            let is_met = self.is_met_by(other, condition);
            let waiting = BTreeSet::from([id]);
            let graph = &self.server.dependencies;
            if is_met || cycle::find(graph, &[other], &waiting).is_some() {
                continue;
            }
            unmet += u32::from(self.add_tie(tie(id, other, condition)));
        }
        let labels = self
            .unmet_labels(Some(&job), (&job.owner, &job.spec), labels)
            .unwrap_or_default();
        let unmet = unmet + u32::try_from(labels.len()).unwrap_or(u32::MAX);
        if unmet > 0 || on > 0 {
            let event = Event::Bound {
                unmet,
                on,
                rival: None,
                labels,
            };
            self.server.apply_event(id, event);
        }
        Ok(remark)
    }

    fn is_met_by(&self, other: JobId, condition: DependencyCondition) -> bool {
        let progress = self.any_job(other).map(|job| DependencyProgress::of(&job));
        progress.is_some_and(|progress| judge(condition, progress) == DependencyVerdict::Met)
    }

    /// Adds the dependencies that an operator removed with `qrls -h s`.
    pub(super) fn restore_lifted_dependencies(
        &mut self,
        id: JobId,
        before: &DependenciesBefore,
    ) -> Outcome {
        let remark = self.bind_again(id, &before.conditions, &before.labels, before.on)?;
        self.join_set(id, before);
        Ok(remark)
    }

    /// Restores the dependencies of a job that the undo has returned to its queue. The job still
    /// counts them. Dependencies that were met meanwhile no longer count.
    pub(super) fn restore_dependencies(&mut self, id: JobId, before: &DependenciesBefore) {
        for &(other, condition) in &before.conditions {
            let tie = tie(id, other, condition);
            if let Some(why) = self.why_impossible((other, condition)) {
                let event = Event::DependencyBroken {
                    edge: tie.edge,
                    why,
                };
                self.server.apply_event(id, event);
                return;
            }
            if self.is_met_by(other, condition) {
                self.server.add_update(Update::Tie(tie, TieState::Met));
                let event = Event::DependencyMet { edge: tie.edge };
                self.server.apply_event(id, event);
            } else {
                self.add_tie(tie);
            }
        }
        self.note_met_labels(id);
        self.join_set(id, before);
    }

    /// Notes the labels that jobs have met while the job was deleted.
    fn note_met_labels(&mut self, id: JobId) {
        let Some(job) = self.server.job(id).cloned() else {
            return;
        };
        for awaited in &job.life.awaits {
            let met = self.label_met_by(Some(&job), (&job.owner, &job.spec), awaited);
            if let Ok(Some(by)) = met {
                let event = Event::LabelMet {
                    condition: awaited.condition,
                    label: awaited.label.clone(),
                    by,
                };
                self.server.apply_event(id, event);
            }
        }
    }

    /// Makes the job a member of its `runone` set again.
    fn join_set(&mut self, id: JobId, before: &DependenciesBefore) {
        let Some(set) = before.set else { return };
        let graph = &self.server.dependencies;
        let current = before
            .rivals
            .iter()
            .find_map(|&rival| graph.membership(rival));
        let set = current.map_or(set, |tie| tie.edge.job);
        self.add_tie(Tie {
            job: id,
            edge: Edge {
                kind: DependencyKind::RunOne,
                job: set,
            },
        });
        let rivals = self.server.dependencies.rivals(id);
        let started = rivals.into_iter().find(|&rival| {
            let job = self.server.job(rival);
            job.is_some_and(|job| job.life.state.is_under_way() || job.has_begun())
        });
        let known = self.server.job(id).and_then(|job| job.life.bars.rival);
        if let Some(rival) = known.filter(|_| known != started) {
            let event = Event::RivalReturned { job: rival };
            self.server.apply_event(id, event);
        }
        if let Some(rival) = started.filter(|_| known != started) {
            self.server
                .apply_event(id, Event::RivalBegan { job: rival });
        }
    }

    /// Adds a dependency. Returns false if it exists already.
    fn add_tie(&mut self, tie: Tie) -> bool {
        let is_new = self.server.dependencies.add(tie);
        if is_new {
            self.server.add_update(Update::Tie(tie, TieState::Open));
        }
        is_new
    }
}

fn tie(job: JobId, other: JobId, condition: DependencyCondition) -> Tie {
    Tie {
        job,
        edge: Edge {
            kind: DependencyKind::After(condition),
            job: other,
        },
    }
}
