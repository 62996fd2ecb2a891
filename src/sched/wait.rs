//! How long candidates wait.

use super::snapshot::State;
use crate::model::accrual::Eligibility;
use crate::model::job::JobId;
use crate::model::time::{Span, Time};

/// How long a candidate waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// Since when, as people count.
    pub since: Time,
    /// What of that counts.
    pub eligibility: Eligibility,
}

impl State {
    /// Since when a candidate waits; an element as long as its array.
    pub fn waits_since(&self, id: JobId) -> Option<Time> {
        self.wait(id).map(|wait| wait.since)
    }

    /// The eligible time of a candidate (I6); an element has that of its array.
    pub fn eligible_time(&self, id: JobId, now: Time) -> Option<Span> {
        self.wait(id).map(|wait| wait.eligibility.at(now))
    }
}
