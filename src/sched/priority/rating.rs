//! The sort keys of waiting and suspended jobs, from the priority calculator.

use super::calculator::Yardstick;
use crate::sched::view::class::{Class, Place, Waiting};
use crate::sched::view::sort_key::Merit;
use crate::sched::view::suspended::Suspended;

impl Class {
    /// Sets the sort key of one job.
    pub fn rate_one(&mut self, place: Place, yardstick: &Yardstick) {
        let Some(waiting) = self.remove(place) else {
            return;
        };
        let merit = yardstick.rate(&self.key).merit(&waiting.wait);
        self.insert(place, Waiting { merit, ..waiting });
    }

    /// Sets the sort keys of all jobs.
    pub fn rate(&mut self, yardstick: &Yardstick) {
        let rating = yardstick.rate(&self.key);
        for waiting in self.jobs.values_mut() {
            waiting.merit = rating.merit(&waiting.wait);
        }
        self.put_in_turn();
    }
}

impl Suspended {
    /// The sort key of the job: its priority at its start, in the tier that it would have now; or
    /// its priority now, if that is higher. So no job that came later overtakes it by waiting.
    pub(in crate::sched) fn merit(&self, yardstick: &Yardstick) -> Merit {
        let now = yardstick.rate(&self.key).merit(&self.wait);
        self.score
            .map_or(now, |score| now.min(Merit::of(now.tier(), score)))
    }
}
