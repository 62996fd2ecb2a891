//! Computes the sort keys of waiting and suspended jobs with the priority calculator.

use super::calculator::PriorityCalculator;
use crate::sched::view::class::{Class, QueuePlace, WaitingJob};
use crate::sched::view::sort_key::SortKey;
use crate::sched::view::suspended::Suspended;

impl Class {
    /// Computes and sets the sort key of one job of the class.
    pub fn compute_sort_key(&mut self, place: QueuePlace, calculator: &PriorityCalculator) {
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

    /// Computes and sets the sort keys of all jobs of the class.
    pub fn rate(&mut self, calculator: &PriorityCalculator) {
        let rating = calculator.rate(&self.key);
        for waiting in self.jobs.values_mut() {
            waiting.sort_key = rating.sort_key(&waiting.wait);
        }
        self.update_sequence();
    }
}

impl Suspended {
    /// The sort key of the suspended job. The tier is the current tier. The score is the current
    /// score, but at least the score when the job started.
    pub(in crate::sched) fn sort_key(&self, calculator: &PriorityCalculator) -> SortKey {
        let now = calculator.rate(&self.key).sort_key(&self.wait);
        self.score
            .map_or(now, |score| now.min(SortKey::of(now.tier(), score)))
    }
}
