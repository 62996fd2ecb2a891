//! Fillers on borrowed room make way when a promise is due (M34).

use super::matching;
use super::plan::Preemption;
use super::shape::Shape;
use super::snapshot::State;
use super::space::Space;
use crate::model::job::JobId;

/// What is free once those have made way that are told to, in this cycle.
pub struct Borrowed<'s> {
    state: &'s State,
    space: Space<'s>,
    left: Vec<JobId>,
}

impl<'s> Borrowed<'s> {
    /// All fillers stay so far; the last to come is the first to go.
    pub fn new(state: &'s State, space: &Space<'s>) -> Borrowed<'s> {
        let left = state.standing.fillers().filter(|job| state.running.contains_key(job)).collect();
        Borrowed { state, space: space.clone(), left }
    }

    /// Who has to make way so that a request fits now; nobody when it fits without, or does not even
    /// if all go.
    pub fn claim_back(&mut self, by: JobId, shape: &Shape) -> Vec<Preemption> {
        let mut trial = self.space.clone();
        let mut gone = Vec::new();
        for &job in self.left.iter().rev() {
            if matching::fits(&trial, shape) {
                break;
            }
            self.shift(&mut trial, job, false);
            gone.push(job);
        }
        if !matching::fits(&trial, shape) {
            return Vec::new();
        }
        gone.retain(|&job| {
            self.shift(&mut trial, job, true);
            let is_needed = !matching::fits(&trial, shape);
            if is_needed {
                self.shift(&mut trial, job, false);
            }
            is_needed
        });
        self.left.retain(|job| !gone.contains(job));
        self.space = trial;
        gone.into_iter().map(|job| Preemption { job, by }).collect()
    }

    fn shift(&self, space: &mut Space<'s>, job: JobId, back: bool) {
        for &ix in self.state.running.get(&job).into_iter().flat_map(|running| &running.nodes) {
            match self.state.cluster.node(ix).tenants.get(&job) {
                Some(hold) if back => space.admit(ix, &hold.taken, hold.tenant),
                Some(hold) => space.dismiss(ix, &hold.taken, hold.tenant),
                None => (),
            }
        }
    }
}
