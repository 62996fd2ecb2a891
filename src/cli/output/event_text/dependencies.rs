//! Text of events about dependencies between jobs.

use super::EventWriter;
use super::LogSource::Server;
use crate::model::job::dependency::Awaited;
use crate::model::job::dependency::{DependencyKind, Edge};
use crate::model::job::event::Event;

impl EventWriter<'_> {
    pub(super) fn dependency_event(&mut self, event: &Event) {
        match event {
            Event::Bound { .. } => {
                self.push(Server, "job", "bound", "Dependencies on other jobs added")
            }
            Event::Named { by, condition } => {
                let edge = Edge {
                    kind: DependencyKind::After(*condition),
                    job: *by,
                };
                self.push_dependency("named", "Dependency added:", edge);
            }
            Event::LabelMet {
                condition,
                label,
                by,
            } => {
                let awaited = Awaited {
                    condition: *condition,
                    label: label.clone(),
                };
                let text = format!(
                    "Dependency met: {awaited}, by job {}",
                    by.full(&self.server.name)
                );
                self.push(Server, "job", "label_met", text);
            }
            Event::DependencyMet { edge } => {
                self.push_dependency("dependency_met", "Dependency met:", *edge)
            }
            Event::DependencyBroken { why, .. } => {
                self.push(Server, "job", "dependency_broken", why.as_str())
            }
            Event::RivalBegan { job } => {
                let text = format!(
                    "Held: job {} of this job's runone set has started",
                    job.full(&self.server.name)
                );
                self.push(Server, "job", "rival_began", text);
            }
            Event::RivalReturned { job } => {
                let text = format!(
                    "Released: job {} of this job's runone set is queued again",
                    job.full(&self.server.name)
                );
                self.push(Server, "job", "rival_returned", text);
            }
            _ => {}
        }
    }

    fn push_dependency(&mut self, event: &'static str, label: &str, edge: Edge) {
        let text = format!(
            "{label} {}:{}",
            edge.kind.name(),
            edge.job.full(&self.server.name)
        );
        self.push(Server, "job", event, text);
    }
}
