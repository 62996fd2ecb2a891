//! The promises in force, and what has happened since they were made.
//!
//! A cycle only reads them. Whoever carries out its plan has the state take it over
//! ([`State::take_over`]), and so the next cycle knows what was promised.

use super::plan::{Booking, Plan};
use super::snapshot::State;
use crate::model::job::JobId;
use crate::model::time::Time;
use std::collections::BTreeMap;

/// What the last plan promised, and what has happened since.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    promises: BTreeMap<JobId, Booking>,
    /// The latest moment until which something was planned to run that is over now.
    released: Option<Time>,
}

impl Standing {
    /// The promises, by job.
    pub fn promises(&self) -> impl Iterator<Item = &Booking> {
        self.promises.values()
    }

    /// What a job is promised.
    pub fn promise(&self, job: JobId) -> Option<&Booking> {
        self.promises.get(&job)
    }

    /// Whether something is free from now on that was expected to be taken.
    pub fn is_loose(&self, now: Time) -> bool {
        self.released.is_some_and(|until| until > now)
    }

    /// A job is over that could have run until then.
    pub fn note_end(&mut self, until: Time) {
        self.released = self.released.max(Some(until));
    }

    /// A job has what it was promised.
    pub fn redeem(&mut self, job: JobId) {
        self.promises.remove(&job);
    }
}

impl State {
    /// Takes note of what a plan promises. To be told of each plan before or after its starts are
    /// carried out, but before anything else happens.
    pub fn take_over(&mut self, plan: &Plan) {
        self.standing.promises = plan.bookings.iter().map(|booking| (booking.job, booking.clone())).collect();
        self.standing.released = None;
    }
}
