//! The sort keys of waiting and suspended jobs, from the priority calculator.

use super::calculator::PriorityCalculator;
use crate::sched::view::class::{Class, QueuePlace, WaitingJob};
use crate::sched::view::sort_key::SortKey;
use crate::sched::view::suspended::Suspended;

impl Class {
    /// Sets the sort key of one job.
    pub fn rate_one(&mut self, place: QueuePlace, calculator: &PriorityCalculator) {
        let Some(waiting) = self.remove(place) else {
            return;
        };
        let sort_key = calculator.rate(&self.key).sort_key(&waiting.wait);
        self.insert(
            place,
            WaitingJob {
                sort_key,
                ..waiting
            },
        );
    }

    /// Sets the sort keys of all jobs.
    pub fn rate(&mut self, calculator: &PriorityCalculator) {
        let rating = calculator.rate(&self.key);
        for waiting in self.jobs.values_mut() {
            waiting.sort_key = rating.sort_key(&waiting.wait);
        }
        self.put_in_turn();
    }
}

impl Suspended {
    /// The sort key of the job: its priority at its start, in its current tier, or its current
    /// priority if that is higher. A later job therefore cannot overtake it by waiting.
    pub(in crate::sched) fn sort_key(&self, calculator: &PriorityCalculator) -> SortKey {
        let now = calculator.rate(&self.key).sort_key(&self.wait);
        self.score
            .map_or(now, |score| now.min(SortKey::of(now.tier(), score)))
    }
}
