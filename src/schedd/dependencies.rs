//! Dependencies in the ledger: who may bind jobs to one another, and what is kept of it. What
//! follows from a bond is [`crate::model::job::dependency::effects`].

pub mod asked;

pub mod cycle;

mod labels;

pub mod named;

use super::ledger::Ledger;
use crate::model::job::dependency::effects::{Standing, Tied};
use crate::model::job::dependency::graph::Ties;
use crate::model::job::dependency::{Edge, Kind, Tie};
use crate::model::job::event::Event;
use crate::model::job::{Job, JobId};
use crate::update::Update;
use std::sync::Arc;

impl Tied for Ledger {
    fn job(&self, id: JobId) -> Option<&Job> {
        Ledger::job(self, id).map(Arc::as_ref)
    }

    fn ties(&self) -> &Ties {
        &self.ties
    }

    fn ties_mut(&mut self) -> &mut Ties {
        &mut self.ties
    }

    fn note(&mut self, id: JobId, event: Event) {
        Ledger::note(self, id, event);
    }

    fn keep(&mut self, tie: Tie, standing: Standing) {
        self.also(Update::Tie(tie, standing));
    }

    fn server(&self) -> &str {
        &self.setup.name
    }
}

/// Unties a job that an operator has released, and that stood as `was` before: it waits for nothing
/// any more; what it had waited for stays shown.
pub fn lift(ledger: &mut Ledger, was: &Job) {
    let id = was.id;
    for (other, condition) in ledger.ties.conditions(id) {
        let tie = Tie {
            job: id,
            edge: Edge {
                kind: Kind::After(condition),
                job: other,
            },
        };
        ledger.ties.remove(tie);
        ledger.also(Update::Tie(tie, Standing::Lifted));
    }
    if let Some(tie) = ledger
        .ties
        .membership(id)
        .filter(|_| was.life.bars.rival.is_some())
    {
        ledger.ties.remove(tie);
        ledger.also(Update::Tie(tie, Standing::Met));
    }
}
