//! Dependencies in the server: validation of requests, and storage. The effects of dependencies are
//! in [`crate::model::job::dependency::effects`].

mod by_name;

pub(crate) mod cycle;

pub mod grant;

mod labels;

use crate::model::job::Job;
use crate::model::job::dependency::DependencyKind;
use crate::model::job::dependency::Edge;
use crate::model::job::dependency::Tie;
use crate::model::job::dependency::effects::JobStore;
use crate::model::job::dependency::effects::TieState;
use crate::model::job::dependency::graph::DependencyGraph;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::server::state::ServerState;
use crate::update::Update;
use std::sync::Arc;

impl JobStore for ServerState {
    fn job(&self, id: JobId) -> Option<&Job> {
        ServerState::job(self, id).map(Arc::as_ref)
    }

    fn dependencies(&self) -> &DependencyGraph {
        &self.dependencies
    }

    fn dependencies_mut(&mut self) -> &mut DependencyGraph {
        &mut self.dependencies
    }

    fn note(&mut self, id: JobId, event: Event) {
        ServerState::apply_event_alone(self, id, event);
    }

    fn keep(&mut self, tie: Tie, state: TieState) {
        self.add_update(Update::Tie(tie, state));
    }

    fn server(&self) -> &str {
        &self.setup.name
    }
}

/// Removes a job's dependencies on other jobs, after an operator has released the job with
/// `qrls -h s`. If another job of its `runone` set bars the job, also removes the job from this
/// set. `was` is the job before the release. The removed dependencies are still displayed; the
/// membership in the set is not.
pub fn lift(server: &mut ServerState, was: &Job) {
    let id = was.id;
    for (other, condition) in server.dependencies.conditions(id) {
        let tie = Tie {
            job: id,
            edge: Edge {
                kind: DependencyKind::After(condition),
                job: other,
            },
        };
        server.dependencies.remove(tie);
        server.add_update(Update::Tie(tie, TieState::Lifted));
    }
    if was.life.bars.rival.is_some()
        && let Some(tie) = server.dependencies.membership(id)
    {
        server.dependencies.remove(tie);
        server.add_update(Update::Tie(tie, TieState::Met));
    }
}
