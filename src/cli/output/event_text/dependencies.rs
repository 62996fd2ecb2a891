//! Text of events about dependencies between jobs.

use super::EventWriter;
use super::LogSource::Server;
use crate::model::job::dependency::Awaited;
use crate::model::job::dependency::{DependencyKind, Edge};
use crate::model::job::event::Event;

impl EventWriter<'_> {
    pub(super) fn dependency_event(&mut self, event: &Event) {
        match event {
            Event::Bound { .. } => self.say(Server, "job", "bound", "Waits for further jobs"),
            Event::Named { by, condition } => {
                let edge = Edge {
                    kind: DependencyKind::After(*condition),
                    job: *by,
                };
                self.depends("named", "Waits for one more job:", edge);
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
                let what = format!(
                    "Dependency met: {awaited}, by {}",
                    by.full(&self.server.name)
                );
                self.say(Server, "job", "label_met", what);
            }
            Event::DependencyMet { edge } => {
                self.depends("dependency_met", "Dependency met:", *edge)
            }
            Event::DependencyBroken { why, .. } => {
                self.say(Server, "job", "dependency_broken", why.as_str())
            }
            Event::RivalBegan { job } => {
                let what = format!(
                    "Held: {} of its runone set has begun",
                    job.full(&self.server.name)
                );
                self.say(Server, "job", "rival_began", what);
            }
            Event::RivalReturned { job } => {
                let what = format!(
                    "Free again: {} of its runone set is back in its queue",
                    job.full(&self.server.name)
                );
                self.say(Server, "job", "rival_returned", what);
            }
            _ => {}
        }
    }

    fn depends(&mut self, event: &'static str, what: &str, edge: Edge) {
        let text = format!(
            "{what} {}:{}",
            edge.kind.name(),
            edge.job.full(&self.server.name)
        );
        self.say(Server, "job", event, text);
    }
}
