//! Free amounts as a step function of time. The calendar uses it if nodes are interchangeable.
//!
//! Example: 8 of 16 CPUs are in use until 1:00, and a planned start uses all 16 from 1:00 to 2:00.
//! Then 8 CPUs are free from now on, 0 from 1:00, and 16 from 2:00. A walk over these steps finds
//! when a job fits. Nodes are chosen when the job starts.

use crate::model::time::{Span, Time};

/// The free amounts of the counted resources over time.
#[derive(Clone, Debug)]
pub struct FreeTimeline {
    /// The number of counted resources.
    width: usize,
    /// The beginning of each step. The last step has no end.
    begins: Vec<Time>,
    /// The free amounts: `width` values for each step.
    free: Vec<i64>,
}

impl FreeTimeline {
    /// A timeline with these free amounts from `now` on.
    pub fn new(now: Time, free: Vec<i64>) -> FreeTimeline {
        FreeTimeline {
            width: free.len(),
            begins: vec![now],
            free,
        }
    }

    /// Adds amounts from the time `at` on. `at` must not be before the beginning of the last step.
    pub fn release(&mut self, at: Time, amounts: impl Iterator<Item = i64>) {
        let last = self.free.len() - self.width;
        if self.begins.last() != Some(&at) {
            self.begins.push(at);
            self.free.extend_from_within(last..);
        }
        let last = self.free.len() - self.width;
        for (free, more) in self.free[last..].iter_mut().zip(amounts) {
            *free = free.saturating_add(more);
        }
    }

    /// Subtracts amounts from the free amounts between `from` and `until`.
    pub fn take(&mut self, amounts: &[i64], from: Time, until: Time) {
        self.change(amounts, from, until, -1);
    }

    /// Adds amounts to the free amounts between `from` and `until`.
    pub fn give(&mut self, amounts: &[i64], from: Time, until: Time) {
        self.change(amounts, from, until, 1);
    }

    fn change(&mut self, amounts: &[i64], from: Time, until: Time, sign: i64) {
        let first = self.step_at(from);
        let end = if until == Time::NEVER {
            self.begins.len()
        } else {
            self.step_at(until)
        };
        for step in
            self.free[first * self.width..end * self.width].chunks_exact_mut(self.width.max(1))
        {
            for (free, amount) in step.iter_mut().zip(amounts) {
                *free = free.saturating_add(sign * amount);
            }
        }
    }

    /// The index of the step that begins at `time`. Inserts the step if it does not exist. For a
    /// time before the first step, returns 0 and inserts nothing.
    fn step_at(&mut self, time: Time) -> usize {
        let place = self.begins.partition_point(|begin| *begin < time);
        if self.begins.get(place) != Some(&time) && place > 0 {
            self.begins.insert(place, time);
            let before = (place - 1) * self.width;
            let copied = self.free[before..before + self.width].to_vec();
            self.free
                .splice(place * self.width..place * self.width, copied);
        }
        place
    }

    /// The first time between `from` and `until` at which these amounts are not free; None if they
    /// are free all the time.
    pub fn shortage(&self, amounts: &[i64], from: Time, until: Time) -> Option<Time> {
        let first = self.begins.partition_point(|begin| *begin <= from).max(1) - 1;
        let steps = (first..self.begins.len())
            .take_while(|&step| step == first || self.begins[step] < until);
        let short = steps
            .into_iter()
            .find(|&step| !self.suffices(step, amounts));
        short.map(|step| self.begins[step].max(from))
    }

    /// The earliest time, not before `from`, from which these amounts are free for `span`; None if
    /// there is no such time.
    pub fn earliest(&self, amounts: &[i64], span: Span, from: Time) -> Option<Time> {
        let mut step = self.begins.partition_point(|begin| *begin <= from).max(1) - 1;
        let mut at = from;
        loop {
            if self.suffices(step, amounts) {
                match self.begins.get(step + 1) {
                    Some(next) if *next < at + span => step += 1,
                    _ => return Some(at),
                }
            } else {
                step += 1;
                at = *self.begins.get(step)?;
            }
        }
    }

    /// Whether these amounts are free in a step.
    fn suffices(&self, step: usize, amounts: &[i64]) -> bool {
        let free = &self.free[step * self.width..(step + 1) * self.width];
        free.iter()
            .zip(amounts)
            .all(|(free, amount)| *amount == 0 || amount <= free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(tally: &FreeTimeline) -> Vec<(i64, i64)> {
        tally
            .begins
            .iter()
            .map(|begin| begin.0)
            .zip(tally.free.iter().copied())
            .collect()
    }

    /// 8 of 16 CPUs are free until 100; a planned start uses all 16 from 100 to 200.
    fn promised() -> FreeTimeline {
        let mut tally = FreeTimeline::new(Time(0), vec![8]);
        tally.release(Time(100), [8].into_iter());
        tally.take(&[16], Time(100), Time(200));
        tally
    }

    #[test]
    fn take_and_give_change_the_steps() {
        let mut tally = promised();
        assert_eq!(steps(&tally), [(0, 8), (100, 0), (200, 16)]);
        tally.give(&[16], Time(100), Time(200));
        assert_eq!(steps(&tally), [(0, 8), (100, 16), (200, 16)]);
        tally.take(&[1], Time(50), Time::NEVER);
        assert_eq!(steps(&tally), [(0, 8), (50, 7), (100, 15), (200, 15)]);
    }

    #[test]
    fn a_job_that_ends_at_a_planned_start_fits_before_it() {
        let tally = promised();
        assert_eq!(tally.shortage(&[8], Time(0), Time(100)), None);
        assert_eq!(tally.shortage(&[8], Time(0), Time(101)), Some(Time(100)));
        assert_eq!(tally.shortage(&[9], Time(0), Time(1)), Some(Time(0)));
        assert_eq!(tally.shortage(&[0], Time(0), Time(500)), None);
        let earliest = |amount, span| tally.earliest(&[amount], Span(span), Time(0));
        assert_eq!(earliest(8, 100), Some(Time(0)));
        assert_eq!(earliest(8, 101), Some(Time(200)));
        assert_eq!(earliest(16, 1), Some(Time(200)));
        assert_eq!(earliest(17, 1), None);
    }

    #[test]
    fn each_resource_is_compared_separately() {
        let mut tally = FreeTimeline::new(Time(0), vec![4, 1]);
        tally.release(Time(10), [0, 3].into_iter());
        assert_eq!(tally.earliest(&[4, 2], Span(5), Time(0)), Some(Time(10)));
        assert_eq!(tally.earliest(&[4, 0], Span(5), Time(0)), Some(Time(0)));
        assert_eq!(tally.shortage(&[4, 1], Time(0), Time(99)), None);
    }
}
