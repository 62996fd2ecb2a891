//! Rerun of finished jobs (Q27). A failed or deleted job returns to its queue and keeps its job
//! number. In an array, the failed or deleted subjobs wait again.
//!
//! If the job or array has finished, its count of retries, its waiting times and its dependencies
//! are reset. Attempt numbers continue, because each attempt of a job has a different number.

use super::Job;
use super::array::SubjobState;
use super::attempt::{Attempt, DELETED, Want};
use super::eligible_time::{Accrues, Eligibility};
use super::life::EventContext;
use super::state::JobState;
use crate::model::indices::Indices;
use std::sync::Arc;

/// Selection of finished jobs or subjobs to rerun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Jobs that failed and were not deleted.
    Failed,
    /// Jobs that failed or were deleted. If indices are given: only these subjobs of an array.
    Unsuccessful(Option<Indices>),
}

impl Again {
    fn includes(self, status: i32) -> bool {
        match self {
            Again::Failed => !matches!(status, 0 | DELETED),
            Again::Unsuccessful(_) => status != 0,
        }
    }
}

impl Job {
    /// Tests whether the job has finished and `again` includes it. For an array, tests whether
    /// `again` includes a finished subjob.
    pub fn can_run_again(&self, again: Again) -> bool {
        match &self.elements {
            Some(_) => !self.to_run_again(again).is_empty(),
            None => {
                self.life.state == JobState::Finished
                    && self
                        .life
                        .exit
                        .is_some_and(|exit| again.includes(exit.status))
            }
        }
    }

    /// Returns the subjobs that `again` includes, as ranges of positions.
    fn to_run_again(&self, again: Again) -> Vec<(u32, u32)> {
        let (Some(indices), Some(elements)) = (self.indices(), &self.elements) else {
            return Vec::new();
        };
        let sets = elements
            .ended()
            .iter()
            .filter(|(status, _)| again.includes(**status))
            .map(|(_, set)| set);
        match again {
            Again::Unsuccessful(Some(only)) => {
                let sets: Vec<_> = sets.collect();
                let named = only.iter().filter_map(|index| indices.position(index));
                named
                    .filter(|at| sets.iter().any(|set| set.contains(*at)))
                    .map(|at| (at, at))
                    .collect()
            }
            _ => sets.flat_map(|set| set.iter()).collect(),
        }
    }

    /// Returns the job, or the subjobs that `again` includes, to the queue. The next attempts get
    /// numbers above `highest`. Does nothing if `again` includes neither the job nor a subjob.
    pub fn run_again(&mut self, again: Again, highest: Attempt, moment: EventContext) {
        if !self.can_run_again(again) {
            return;
        }
        let positions = self.to_run_again(again);
        if let Some(elements) = self.elements.as_mut().map(Arc::make_mut) {
            for (first, last) in positions {
                elements.mark(first, last, SubjobState::Waiting);
            }
        }
        if self.life.state == JobState::Finished {
            self.reset_state(moment);
        }
        self.life.attempt = self.life.attempt.max(highest);
        self.update_waiting_state(moment);
    }

    /// Returns a deleted job to its queue, with its holds, its position and its dependencies. Of an
    /// array, returns the subjobs at these positions.
    pub(super) fn restore_deleted(&mut self, subjobs: &[(u32, u32)]) {
        if let Some(elements) = self.elements.as_mut().map(Arc::make_mut) {
            for &(first, last) in subjobs {
                elements.mark(first, last, SubjobState::Waiting);
            }
        }
        let life = &mut self.life;
        if life.state == JobState::Finished {
            life.state = JobState::Queued;
            (life.exit, life.obittime, life.ending) = (None, None, None);
            life.attempt = life.attempt.max(life.highest);
        }
        life.want = Want::Run;
        life.bars.broken = false;
    }

    fn reset_state(&mut self, moment: EventContext) {
        // The dependencies of a finished job are decided and do not apply to the rerun.
        self.clear_dependencies();
        let life = &mut self.life;
        (life.state, life.want) = (JobState::Queued, Want::Run);
        (life.exit, life.obittime, life.ending, life.not_before) = (None, None, None, None);
        life.retries = 0;
        life.forget_failed_starts();
        (life.qtime, life.etime) = (moment.now, None);
        life.eligibility = Eligibility {
            accrues: Accrues::default(),
            since: moment.now,
            ..Eligibility::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::event::Event;
    use crate::model::job::state::Holds;
    use crate::model::job::undo::UndoKind;
    use crate::model::time::Time;
    use crate::sched::fixture::{cluster, moment};

    fn at(now: i64) -> EventContext {
        EventContext {
            now: Time(now),
            ..moment(0)
        }
    }

    fn happen(job: &mut Job, now: i64, event: Event) {
        job.apply(&event, at(now));
    }

    fn retried(job: &mut Job, now: i64, only: Option<Indices>) {
        happen(
            job,
            now,
            Event::Retried {
                by: "ann@head".into(),
                only,
                highest: job.life.highest,
            },
        );
    }

    /// Q27.
    #[test]
    fn a_retried_job_waits_with_reset_state_and_gets_the_next_attempt_number() {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        happen(&mut job, 0, Event::Submitted);
        assert!(
            !job.can_run_again(Again::Unsuccessful(None)),
            "the job is already waiting"
        );
        happen(
            &mut job,
            5,
            Event::Started {
                attempt: 3,
                shares: vec![],
                score: None,
                extra: false,
            },
        );
        happen(
            &mut job,
            9,
            Event::DeleteWanted {
                by: "ann@head".into(),
                force: false,
            },
        );
        job.life.run.as_mut().unwrap().open = false;
        job.finish(DELETED, true, at(10));
        job.life.retries = 2;
        happen(
            &mut job,
            11,
            Event::Released {
                holds: Holds::USER,
                by: "ann@head".into(),
            },
        );
        assert_eq!(
            job.life.state,
            JobState::Finished,
            "a release does not requeue a finished job"
        );
        retried(&mut job, 20, None);
        let life = &job.life;
        assert_eq!(
            (life.state, life.exit, life.obittime, &life.want),
            (JobState::Queued, None, None, &Want::Run)
        );
        assert_eq!(
            (life.attempt, life.retries, life.etime),
            (3, 0, Some(Time(20)))
        );
        assert_eq!(
            life.eligibility.at(Time(25)).0,
            5,
            "earlier eligible time does not count"
        );
        let before = job.clone();
        retried(&mut job, 30, None);
        assert_eq!(
            job.life.etime, before.life.etime,
            "a waiting job is not retried"
        );
    }

    /// A job at time 10, after its deletion.
    fn deleted(job: &mut Job) {
        happen(
            job,
            10,
            Event::DeleteWanted {
                by: "ann@head".into(),
                force: false,
            },
        );
        assert_eq!(job.life.state, JobState::Finished);
    }

    fn restored(job: &mut Job, subjobs: Vec<(u32, u32)>) {
        happen(
            job,
            20,
            Event::Undone {
                by: "ann@head".into(),
                action: UndoKind::Cancel,
                hold: Holds::NONE,
                release: Holds::NONE,
                subjobs,
            },
        );
    }

    #[test]
    fn a_restored_job_is_as_before_its_deletion() {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        job.life.rank = Some(9);
        job.life.bars.unmet = 2;
        happen(&mut job, 0, Event::Submitted);
        let before = job.clone();
        deleted(&mut job);
        restored(&mut job, vec![]);
        assert_eq!(
            job.life.eligibility.at(Time(25)),
            before.life.eligibility.at(Time(10)),
            "the time between deletion and undo does not count"
        );
        job.life.eligibility = before.life.eligibility;
        job.life.mtime = before.life.mtime;
        assert_eq!(job, before);
        job.life.bars.unmet = 0;
        happen(&mut job, 30, Event::Submitted);
        assert_eq!(job.life.state, JobState::Queued);
    }

    #[test]
    fn only_the_given_subjobs_are_restored() {
        let mut array = cluster("1 x ncpus=1").job(1, "array=1-6");
        happen(&mut array, 0, Event::Submitted);
        array.end_waiting(1, 1, at(5));
        deleted(&mut array);
        restored(&mut array, vec![(0, 0), (2, 5)]);
        assert_eq!(
            (array.life.state, &array.life.want),
            (JobState::Queued, &Want::Run)
        );
        let waiting = array.elements.as_ref().unwrap().waiting();
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [(0, 0), (2, 5)]);
    }

    #[test]
    fn successful_jobs_are_not_rerun() {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        job.finish(0, false, at(10));
        assert!(!job.can_run_again(Again::Unsuccessful(None)));
        retried(&mut job, 20, None);
        assert_eq!(job.life.state, JobState::Finished);
    }

    #[test]
    fn failed_and_deleted_subjobs_are_rerun() {
        let over = |highest| {
            let mut array = cluster("1 x ncpus=1").job(1, "array=1-6");
            for (index, status) in [(1, 0), (2, 3), (3, DELETED), (4, -29), (5, 0), (6, 1)] {
                array.set_subjob_state(index, SubjobState::Ended(status), at(9));
            }
            array.life.highest = highest;
            assert_eq!(array.life.state, JobState::Finished);
            array
        };
        let waiting = |array: &Job| {
            super::super::array::shown(
                array.elements.as_ref().unwrap().waiting(),
                array.indices().unwrap(),
            )
        };
        let mut array = over(4);
        happen(
            &mut array,
            12,
            Event::FailedRerun {
                by: "ann@head".into(),
                highest: 4,
            },
        );
        assert_eq!(
            (
                waiting(&array).as_str(),
                array.life.attempt,
                array.life.exit
            ),
            ("2,4,6", 4, None)
        );
        for (only, expected) in [(None, "2-4,6"), (Some("1-3"), "2-3"), (Some("6"), "6")] {
            let mut array = over(1);
            retried(
                &mut array,
                12,
                only.map(|only: &str| only.parse().unwrap_or_else(|_| Indices::one(6))),
            );
            assert_eq!(waiting(&array), expected, "{only:?}");
        }
        assert!(!over(1).can_run_again(Again::Unsuccessful(Some(Indices::one(5)))));
    }
}
