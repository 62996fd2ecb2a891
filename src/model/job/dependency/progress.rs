//! Progress of a job, on which the conditions of dependent jobs depend.

use super::DependencyCondition;
use crate::model::job::attempt::{LOST, OVER_WALLTIME};
use crate::model::job::state::JobState;
use crate::model::job::{Job, Life};

/// Progress of a job, as seen by its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyProgress {
    /// The job has never started.
    Unbegun,
    /// The job has started at least once, and has not finished. It can be back in its queue.
    Begun,
    /// The job has finished.
    Ended {
        /// `Exit_status`; [`LOST`] if the job has none.
        status: i32,
        /// The job has started at least once.
        began: bool,
    },
}

impl DependencyProgress {
    /// Returns the progress of a job.
    pub fn of(job: &Job) -> DependencyProgress {
        let life = &job.life;
        // An array has no attempts. It has started if a subjob has started, or if it finished and
        // was not deleted.
        let began =
            life.attempt > 0 || job.has_begun() || life.exit.is_some_and(|exit| !exit.deleted);
        match life.state {
            JobState::Finished => DependencyProgress::Ended {
                status: life.exit.map_or(LOST, |exit| exit.status),
                began,
            },
            _ if began => DependencyProgress::Begun,
            _ => DependencyProgress::Unbegun,
        }
    }
}

/// State of a condition on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyVerdict {
    /// The condition is undecided.
    Pending,
    /// The condition is satisfied.
    Met,
    /// The condition can never be satisfied.
    Impossible,
}

/// Evaluates a condition on a job with this progress. A job that ended without a start counts as
/// failed.
pub fn judge(condition: DependencyCondition, progress: DependencyProgress) -> DependencyVerdict {
    let (status, began) = match progress {
        DependencyProgress::Begun if condition == DependencyCondition::Begun => {
            return DependencyVerdict::Met;
        }
        DependencyProgress::Unbegun | DependencyProgress::Begun => {
            return DependencyVerdict::Pending;
        }
        DependencyProgress::Ended { status, began } => (status, began),
    };
    let is_met = match condition {
        DependencyCondition::Begun => began,
        DependencyCondition::EndedOk => began && status == 0,
        DependencyCondition::EndedNotOk => !began || status != 0,
        DependencyCondition::Ended => true,
    };
    if is_met {
        DependencyVerdict::Met
    } else {
        DependencyVerdict::Impossible
    }
}

/// Describes the end of a job for the message to the owners of dependent jobs, such as
/// `but it ended with status 3`.
pub fn fate(life: &Life) -> String {
    let status = life.exit.map_or(LOST, |exit| exit.status);
    match (life.exit, status) {
        _ if life.bars.broken => "but it was deleted as result of its own dependency".into(),
        (Some(exit), _) if exit.deleted && life.attempt == 0 && life.began.is_none() => {
            "but it was deleted before it ran".into()
        }
        (Some(exit), _) if exit.deleted => "but it was deleted".into(),
        (_, OVER_WALLTIME) => "but it exceeded its walltime".into(),
        (_, LOST) => "but it was lost".into(),
        (_, status) => format!("but it ended with status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_depends_on_the_progress_of_the_other_job() {
        use DependencyVerdict::{Impossible, Met, Pending};
        let ended = |status, began| DependencyProgress::Ended { status, began };
        let conditions = [
            DependencyCondition::Begun,
            DependencyCondition::EndedOk,
            DependencyCondition::EndedNotOk,
            DependencyCondition::Ended,
        ];
        for (progress, expected) in [
            (
                DependencyProgress::Unbegun,
                [Pending, Pending, Pending, Pending],
            ),
            (DependencyProgress::Begun, [Met, Pending, Pending, Pending]),
            (ended(0, true), [Met, Met, Impossible, Met]),
            (ended(3, true), [Met, Impossible, Met, Met]),
            (ended(-29, true), [Met, Impossible, Met, Met]),
            (ended(271, false), [Impossible, Impossible, Met, Met]),
        ] {
            assert_eq!(
                conditions.map(|condition| judge(condition, progress)),
                expected,
                "{progress:?}"
            );
        }
    }
}
