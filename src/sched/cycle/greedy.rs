//! A bounded search for the combination of backfilled jobs with the highest total value (M30,
//! `greedy`).

use super::state::{CycleState, Pass};
use super::{backfill_order, feasibility, throttling};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::backfill::calendar::Calendar;
use crate::sched::placement::allocation;
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::place::{self, Placement};
use crate::sched::priority::ranking::{Candidate, Ranking};
use crate::sched::view::shape::{ClassId, ClassKey, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of combinations tried.
const MAX_COMBINATIONS: u64 = 10_000;

/// The maximum product of the number of combinations tried and the number of node classes. The time
/// to try one combination grows with the number of node classes.
const MAX_CLASS_TRIALS: u64 = 2_000_000;

/// The maximum number of jobs of one class in the search.
const MAX_JOBS_OF_A_CLASS: usize = 100;

/// Returns the number of jobs to start, by class. Classes without such jobs are absent. The jobs
/// are the combination with the highest total value that the bounded search finds. Of several
/// combinations with this value, the first in queue order is chosen.
pub fn choose(ranking: &mut Ranking, cycle: &mut CycleState) -> BTreeMap<ClassId, usize> {
    let mut options = Vec::new();
    for (class, jobs) in ranking.rest(MAX_JOBS_OF_A_CLASS) {
        let candidate = Candidate::alone(jobs[0], class);
        let may_pass = class.at_once.or(class.beyond).is_none() && !cycle.never_backfills(class);
        let may = may_pass && throttling::check(candidate, Pass::Order, cycle).is_ok();
        let shape = class.shape.clone();
        if may && feasibility::check(&shape, cycle).is_ok() && place::fits(&cycle.space, &shape) {
            let value = backfill_order::metric_value(cycle.backfill().metric, class, cycle);
            options.push(BackfillOption {
                class,
                shape,
                jobs,
                value,
                until: cycle.end_of(class),
            });
        }
    }
    let node_classes = cycle.space.buckets().len() as u64;
    let trials_left = MAX_COMBINATIONS
        .min(MAX_CLASS_TRIALS / (node_classes + 1))
        .max(1);
    let mut search = BestCombination {
        taken: vec![0; options.len()],
        options,
        best: 0,
        chosen: Vec::new(),
        trials_left,
    };
    search.extend(
        0,
        &Combination {
            space: cycle.space.clone(),
            calendar: cycle.calendar().clone(),
        },
        0,
    );
    let counts = search
        .options
        .iter()
        .zip(&search.chosen)
        .map(|(option, &count)| (option.class.id, count));
    counts.filter(|&(_, count)| count > 0).collect()
}

/// A class with waiting jobs that may be backfilled.
struct BackfillOption<'s> {
    class: &'s ClassKey,
    shape: Arc<Shape>,
    jobs: Vec<JobId>,
    value: i64,
    until: Time,
}

/// The free resources and the calendar after a combination of jobs has started.
struct Combination<'s> {
    space: AvailabilityMap<'s>,
    calendar: Calendar<'s>,
}

impl<'s> Combination<'s> {
    /// Finds nodes on which one more job of an option delays no planned start.
    fn place(&mut self, choice: &BackfillOption) -> Option<Placement> {
        let shape = &choice.shape;
        if self.calendar.ends_before_bookings(choice.until) {
            place::fit(&self.space, shape).ok()
        } else {
            self.calendar
                .fit_without_delay(&self.space, shape, choice.until)
        }
    }

    /// The combination with one more job; None if the job does not fit.
    fn with(&self, choice: &BackfillOption, job: JobId) -> Option<Combination<'s>> {
        let mut combination = Combination {
            space: self.space.clone(),
            calendar: self.calendar.clone(),
        };
        let placement = combination.place(choice)?;
        let claim = allocation::claim(combination.space.cluster, &choice.shape, &placement);
        combination.space.claim(&claim);
        combination
            .calendar
            .start(job, claim, choice.until, &combination.space);
        Some(combination)
    }
}

/// The search for the best combination.
struct BestCombination<'s> {
    options: Vec<BackfillOption<'s>>,
    /// The number of jobs of each option in the current combination.
    taken: Vec<usize>,
    /// The highest total value found so far.
    best: i64,
    /// The number of jobs of each option in the best combination.
    chosen: Vec<usize>,
    /// The number of combinations that may still be tried.
    trials_left: u64,
}

impl<'s> BestCombination<'s> {
    /// Tries adding jobs to `combination`: jobs of the options from index `from` on, in queue
    /// order, until no trials are left. `value` is the total value of `combination`.
    fn extend(&mut self, from: usize, combination: &Combination<'s>, value: i64) {
        if value > self.best {
            (self.best, self.chosen) = (value, self.taken.clone());
        }
        for option in from..self.options.len() {
            let Some(trials_left) = self.trials_left.checked_sub(1) else {
                return;
            };
            self.trials_left = trials_left;
            let choice = &self.options[option];
            let Some(&job) = choice.jobs.get(self.taken[option]) else {
                continue;
            };
            let gain = choice.value;
            let Some(further) = combination.with(choice, job) else {
                continue;
            };
            self.taken[option] += 1;
            self.extend(option, &further, value.saturating_add(gain));
            self.taken[option] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::policy::Filling;
    use crate::model::policy::quality::{Flag, Quality};
    use crate::sched::fixture::{TestCluster, cluster};

    fn greedy(options: &[&str]) -> TestCluster {
        let mut fixture = cluster("1 x ncpus=8").running(1, "select=1:ncpus=4", "n1", 3600);
        fixture.policy.backfill.policy = Filling::Greedy;
        let fixture = fixture.queued(2, "select=1:ncpus=8 walltime=1:00:00");
        options
            .iter()
            .zip(3..)
            .fold(fixture, |fixture, (text, id)| {
                fixture.queued(id, &format!("walltime=1:00:00 {text}"))
            })
    }

    /// M30. The metric is the number of CPUs, so both options of the first case have equal value.
    #[test]
    fn m30_the_first_of_the_best_combinations_is_chosen() {
        assert_eq!(
            greedy(&["select=1:ncpus=4", "select=1:ncpus=4 walltime=0:59:00"]).starts(),
            "3 on n1"
        );
        assert_eq!(
            greedy(&["select=1:ncpus=3", "select=2:ncpus=2"]).starts(),
            "4 on n1,n1"
        );
    }

    /// Jobs that may not start yet, or that could never run, are excluded.
    #[test]
    fn m30_jobs_that_cannot_start_are_in_no_combination() {
        let options = [
            "select=1:ncpus=4 queue=stopped",
            "select=1:ncpus=4:color=red",
            "select=1:ncpus=2",
        ];
        assert_eq!(greedy(&options).starts(), "5 on n1");
    }

    /// M27: jobs with a QoS that forbids backfill are excluded.
    #[test]
    fn m27_jobs_without_backfill_are_in_no_combination() {
        let mut fixture = greedy(&[
            "select=1:ncpus=4 qos=still",
            "select=1:ncpus=2",
            "select=1:ncpus=3",
        ]);
        let without_backfill = Quality {
            flags: vec![Flag::NoBackfill],
            ..Quality::new("still", 1.0)
        };
        fixture.policy.qualities.all.push(without_backfill);
        assert_eq!(fixture.starts(), "5 on n1");
    }

    /// M30: a second job with `ncpus=1` would not fit with the chosen job with `ncpus=3`.
    #[test]
    fn m30_only_the_chosen_number_of_jobs_of_a_class_starts() {
        let options = [
            "select=1:ncpus=1",
            "select=1:ncpus=1",
            "select=1:ncpus=1",
            "select=1:ncpus=3",
        ];
        assert_eq!(greedy(&options).starts(), "3 on n1; 6 on n1");
    }
}
