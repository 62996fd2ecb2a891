//! The state of a job as one word, and its exit status in words.

use crate::model::job::array::SubjobState;
use crate::model::job::state::JobState;
use crate::model::job::{Exit, Job};
use crate::model::signal;
use crate::shown::comment;
use comfy_table::Color;

/// State of a job. Unlike PBS's letters, it distinguishes how a job has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobStatus {
    /// The job starts as soon as resources and limits allow.
    Queued,
    /// A hold or a dependency prevents the start.
    Held,
    /// The begin time of the job lies in the future.
    Waiting,
    /// The job, or at least one subjob of the array, has started.
    Running,
    /// The job has an allocation but is suspended.
    Suspended,
    /// The job finished with exit status 0.
    Done,
    /// The job finished with another exit status.
    Failed,
    /// The job was deleted.
    Deleted,
}

/// Words that stand for several states in a filter.
const GROUPS: [(&str, &[JobStatus]); 5] = [
    (
        "pending",
        &[JobStatus::Queued, JobStatus::Held, JobStatus::Waiting],
    ),
    ("active", &[JobStatus::Running, JobStatus::Suspended]),
    (
        "unfinished",
        &[
            JobStatus::Queued,
            JobStatus::Held,
            JobStatus::Waiting,
            JobStatus::Running,
            JobStatus::Suspended,
        ],
    ),
    (
        "finished",
        &[JobStatus::Done, JobStatus::Failed, JobStatus::Deleted],
    ),
    ("canceled", &[JobStatus::Deleted]),
];

impl JobStatus {
    /// All states.
    pub const ALL: [JobStatus; 8] = [
        JobStatus::Queued,
        JobStatus::Held,
        JobStatus::Waiting,
        JobStatus::Running,
        JobStatus::Suspended,
        JobStatus::Done,
        JobStatus::Failed,
        JobStatus::Deleted,
    ];

    /// The state of a job, an array or a subjob.
    pub fn of(job: &Job) -> JobStatus {
        match job.life.state {
            JobState::Queued => JobStatus::Queued,
            JobState::Held => JobStatus::Held,
            JobState::Waiting => JobStatus::Waiting,
            JobState::Running | JobState::Begun => JobStatus::Running,
            JobState::Suspended => JobStatus::Suspended,
            JobState::Finished | JobState::Expired => JobStatus::of_finished(job),
        }
    }

    /// A job without an exit status was moved to another installation, or deleted before its start.
    fn of_finished(job: &Job) -> JobStatus {
        match (job.life.exit, job.state_in_array()) {
            (Some(Exit { deleted: true, .. }), _) => JobStatus::Deleted,
            (Some(Exit { status: 0, .. }), _) => JobStatus::Done,
            (Some(_), _) => JobStatus::Failed,
            (None, SubjobState::Ended(0)) if job.id.index().is_some() => JobStatus::Done,
            (None, _) if job.life.moved_to.is_some() => JobStatus::Done,
            (None, _) => JobStatus::Deleted,
        }
    }

    /// The word for this state.
    pub fn word(self) -> &'static str {
        match self {
            JobStatus::Queued => "queued",
            JobStatus::Held => "held",
            JobStatus::Waiting => "waiting",
            JobStatus::Running => "running",
            JobStatus::Suspended => "suspended",
            JobStatus::Done => "done",
            JobStatus::Failed => "failed",
            JobStatus::Deleted => "deleted",
        }
    }

    /// The states that `word` stands for in a filter; None for an unknown word.
    pub fn parse(word: &str) -> Option<Vec<JobStatus>> {
        let one = JobStatus::ALL
            .into_iter()
            .find(|status| status.word() == word);
        let group = GROUPS.iter().find(|(name, _)| *name == word);
        one.map(|status| vec![status])
            .or_else(|| group.map(|(_, states)| states.to_vec()))
    }

    /// All words that [`JobStatus::parse`] accepts.
    pub fn words() -> Vec<&'static str> {
        let groups = GROUPS.iter().map(|(name, _)| *name);
        JobStatus::ALL
            .iter()
            .map(|status| status.word())
            .chain(groups)
            .collect()
    }

    /// Tests whether the job has finished.
    pub fn is_finished(self) -> bool {
        matches!(
            self,
            JobStatus::Done | JobStatus::Failed | JobStatus::Deleted
        )
    }

    /// Tests whether the job has not started, or waits for another start.
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            JobStatus::Queued | JobStatus::Held | JobStatus::Waiting
        )
    }

    /// The color of this state in tables; None for the terminal's default color.
    pub fn color(self) -> Option<Color> {
        match self {
            JobStatus::Queued => None,
            JobStatus::Held | JobStatus::Waiting => Some(Color::Yellow),
            JobStatus::Running => Some(Color::Green),
            JobStatus::Suspended => Some(Color::Magenta),
            JobStatus::Done => Some(Color::DarkGreen),
            JobStatus::Failed => Some(Color::Red),
            JobStatus::Deleted => Some(Color::DarkGrey),
        }
    }
}

/// An `Exit_status` in words: `exit 3`, `signal 9 (KILL)`, `exceeded mem`.
pub fn exit_text(status: i32) -> String {
    if let Some(resource) = comment::exceeded_resource(status) {
        return format!("exceeded {resource}");
    }
    match status {
        129..=192 => format!("signal {}", signal::shown(status - 128)),
        257.. => format!("signal {}", signal::shown(status - 256)),
        _ => format!("exit {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{finished, queued, running, share};

    #[test]
    fn a_finished_job_is_done_failed_or_deleted() {
        let job = running(queued(1, "a", ""), vec![share(1, None)]);
        assert_eq!(JobStatus::of(&job.job), JobStatus::Running);
        for (status, deleted, expected) in [
            (0, false, JobStatus::Done),
            (3, false, JobStatus::Failed),
            (271, true, JobStatus::Deleted),
        ] {
            let job = finished(job.clone(), status, deleted);
            assert_eq!(JobStatus::of(&job.job), expected);
        }
    }

    #[test]
    fn every_word_stands_for_states() {
        for word in JobStatus::words() {
            assert!(JobStatus::parse(word).is_some_and(|states| !states.is_empty()));
        }
        assert_eq!(JobStatus::parse("Failed"), None);
    }

    #[test]
    fn an_exit_status_names_its_cause() {
        assert_eq!(exit_text(0), "exit 0");
        assert_eq!(exit_text(127), "exit 127");
        assert_eq!(exit_text(137), "signal 9 (KILL)");
        assert_eq!(exit_text(271), "signal 15 (TERM)");
        assert_eq!(exit_text(-29), "exceeded walltime");
        assert_eq!(exit_text(-3), "exit -3");
    }
}
