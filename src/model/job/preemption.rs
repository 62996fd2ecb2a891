//! Preemption of a running job: the job that gets the resources (preemptor), cause and action.

use super::attempt::Attempt;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

named! {
    /// Preemption action (M45, X15).
    PreemptAction {
        /// Suspend the job: it keeps its memory and resumes later.
        Suspend = "suspend",
        /// Have a checkpoint of the job written, then requeue the job.
        Checkpoint = "checkpoint",
        /// End the job and queue it again.
        Requeue = "requeue",
        /// Delete the job.
        Delete = "delete",
        /// Let the job run to its end; then the preemptor gets the job's resources (Q11).
        Finish = "finish",
    }
}

named! {
    /// Cause of a preemption (X12, Y8).
    PreemptCause {
        /// The preemptor precedes the job by cluster and priority (Q8).
        Rank = "qube",
        /// The preemptor's quality of service may preempt the job's quality of service (M43).
        Quality = "qos",
        /// The preemptor has a higher preemption level (I20).
        Level = "levels",
        /// The preemptor has been below its fair share for too long (Y2).
        Starvation = "starvation",
        /// The preemptor has been below its fair share for so long that it also preempts jobs
        /// within the fair shares of others (Y9).
        AggressiveStarvation = "aggressive_starvation",
        /// The job was started on resources that the planned start of another job needs (M34).
        Promise = "promise",
        /// The node now has fewer resources than its jobs use (Y8).
        Overcommit = "overcommit",
        /// A limit was lowered below the current usage (Y8, X16).
        Limit = "limit",
    }
}

/// Properties of an action. Other modules call these methods instead of comparing variants. A new
/// action therefore needs changes only in these methods and in [`Job`](crate::model::job::Job).
impl PreemptAction {
    /// Returns the letter in PBS's `preempt_order`; None for an action that a site cannot
    /// configure.
    pub fn letter(self) -> Option<char> {
        match self {
            PreemptAction::Suspend => Some('S'),
            PreemptAction::Checkpoint => Some('C'),
            PreemptAction::Requeue => Some('R'),
            PreemptAction::Delete => Some('D'),
            PreemptAction::Finish => None,
        }
    }

    /// Returns the words that describe the action in the comment of the preempted job and in
    /// `tracejob`, as in "suspended for job 7".
    fn participle(self) -> &'static str {
        match self {
            PreemptAction::Suspend => "suspended",
            PreemptAction::Checkpoint => "checkpointed and requeued",
            PreemptAction::Requeue => "requeued",
            PreemptAction::Delete => "deleted",
            PreemptAction::Finish => "to run to its end and then release its resources",
        }
    }

    /// Tests whether the job stays on its nodes without running, and releases only the configured
    /// resources (PBS's `resources_released`).
    pub fn keeps_memory(self) -> bool {
        matches!(self, PreemptAction::Suspend)
    }

    /// Tests whether a checkpoint is written before the attempt ends.
    pub fn checkpoints(self) -> bool {
        matches!(self, PreemptAction::Checkpoint)
    }

    /// Tests whether the job restarts from the beginning, for which it must be rerunnable.
    pub fn restarts(self) -> bool {
        matches!(self, PreemptAction::Requeue)
    }

    /// Tests whether schedd ends the attempt, which then releases all its resources.
    pub fn ends_attempt(self) -> bool {
        matches!(
            self,
            PreemptAction::Checkpoint | PreemptAction::Requeue | PreemptAction::Delete
        )
    }

    /// Tests whether the job runs to its own end.
    pub fn waits_for_end(self) -> bool {
        matches!(self, PreemptAction::Finish)
    }

    /// Returns the actions that a site can configure, with their names.
    pub fn configurable() -> Vec<(&'static str, PreemptAction)> {
        let all = PreemptAction::ALL.iter().copied();
        all.filter(|(_, action)| action.letter().is_some())
            .collect()
    }

    /// Returns the action with this letter; None for unknown letters.
    pub fn from_letter(letter: char) -> Option<PreemptAction> {
        PreemptAction::ALL
            .iter()
            .map(|(_, action)| *action)
            .find(|action| action.letter() == Some(letter))
    }

    /// Returns the letters of all actions that a site can configure: `SCRD`.
    pub fn order_characters() -> String {
        let all = PreemptAction::ALL.iter();
        all.filter_map(|(_, action)| action.letter()).collect()
    }
}

/// Latest preemption of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPreemption {
    /// Preempted attempt; None in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Preemptor; None if no job gets the resources.
    pub to: Option<JobId>,
    /// Cause of the preemption.
    pub cause: PreemptCause,
    /// Action of the preemption.
    pub action: PreemptAction,
    /// Time of the preemption.
    pub at: Time,
}

impl JobPreemption {
    /// Tests whether the preemption concerns this attempt, and not an earlier attempt. The start
    /// time decides only if the preempted attempt is unknown, because a job can restart at the
    /// instant of its preemption.
    pub fn concerns(&self, attempt: Attempt, started: Time) -> bool {
        self.attempt
            .map_or(self.at >= started, |known| known == attempt)
    }

    /// Describes the preemption for the comment of the preempted job; `id` formats a job id.
    pub fn describe(&self, id: impl Fn(JobId) -> String) -> String {
        let how = self.action.participle();
        match self.to {
            Some(job) => format!("{how} for job {} ({})", id(job), self.cause),
            None => format!("{how} ({})", self.cause),
        }
    }
}

/// Formats a list of job ids, such as `jobs 1, 2`. After the first ten ids, only the number of
/// further jobs follows.
pub fn job_list_text(jobs: &[JobId], id: impl Fn(JobId) -> String) -> String {
    const MOST: usize = 10;
    let named: Vec<String> = jobs.iter().take(MOST).map(|&job| id(job)).collect();
    let more = jobs.len().saturating_sub(MOST);
    let jobs = if jobs.len() == 1 { "job" } else { "jobs" };
    match more {
        0 => format!("{jobs} {}", named.join(", ")),
        _ => format!("{jobs} {} and {more} more", named.join(", ")),
    }
}

impl fmt::Display for PreemptCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            PreemptCause::Rank => "that job ranks higher by cluster or priority",
            PreemptCause::Quality => "the quality of service of that job lets it preempt this job",
            PreemptCause::Level => "that job has a higher preemption level",
            PreemptCause::Starvation => "that job has been below its fair share for too long",
            PreemptCause::AggressiveStarvation => {
                "that job has been below its fair share for so long that it also preempts jobs \
                 within the fair shares of others"
            }
            PreemptCause::Promise => "the planned start of that job needs these resources",
            PreemptCause::Overcommit => "the node has fewer resources than its jobs use",
            PreemptCause::Limit => "a limit is below the current usage",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a record of an older version, which does not contain the attempt, the time decides.
    #[test]
    fn a_preemption_concerns_one_attempt() {
        let (cause, action) = (PreemptCause::Rank, PreemptAction::Requeue);
        let told = JobPreemption {
            attempt: Some(1),
            to: None,
            cause,
            action,
            at: Time(5),
        };
        let concerns = |told: &JobPreemption| {
            [(1, 0), (2, 5), (2, 6)].map(|(attempt, started)| told.concerns(attempt, Time(started)))
        };
        assert_eq!(concerns(&told), [true, false, false]);
        let text = r#"{"to":null,"cause":"qube","action":"requeue","at":5}"#;
        let old: JobPreemption = serde_json::from_str(text).unwrap();
        assert_eq!(concerns(&old), [true, true, false]);
    }

    #[test]
    fn a_preemption_is_described_with_preemptor_and_cause() {
        let told = |to, cause, action| {
            JobPreemption {
                attempt: None,
                to,
                cause,
                action,
                at: Time(0),
            }
            .describe(|job| job.full("head"))
        };
        assert_eq!(
            told(
                Some(JobId::job(7)),
                PreemptCause::Level,
                PreemptAction::Suspend
            ),
            "suspended for job 7.head (that job has a higher preemption level)"
        );
        assert_eq!(
            told(None, PreemptCause::Overcommit, PreemptAction::Requeue),
            "requeued (the node has fewer resources than its jobs use)"
        );
    }

    #[test]
    fn only_the_first_ten_jobs_are_listed() {
        let shown = |count: u64| {
            job_list_text(&(1..=count).map(JobId::job).collect::<Vec<_>>(), |job| {
                job.to_string()
            })
        };
        assert_eq!(
            (shown(1).as_str(), shown(2).as_str()),
            ("job 1", "jobs 1, 2")
        );
        assert_eq!(shown(10), "jobs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10");
        assert_eq!(shown(12), "jobs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more");
    }

    /// Every action has exactly one of the three properties, on which callers rely.
    #[test]
    fn an_action_suspends_the_job_or_ends_the_attempt_or_waits_for_the_end() {
        for &(name, action) in PreemptAction::ALL {
            let kinds = [
                action.keeps_memory(),
                action.ends_attempt(),
                action.waits_for_end(),
            ];
            assert_eq!(kinds.iter().filter(|is| **is).count(), 1, "{name}");
            assert!(action.ends_attempt() || !action.checkpoints(), "{name}");
            assert!(action.ends_attempt() || !action.restarts(), "{name}");
            assert_eq!(action.waits_for_end(), action.letter().is_none(), "{name}");
        }
    }

    #[test]
    fn action_letters_match_pbs() {
        assert_eq!(PreemptAction::order_characters(), "SCRD");
        assert_eq!(
            PreemptAction::from_letter('R'),
            Some(PreemptAction::Requeue)
        );
        assert_eq!(PreemptAction::from_letter('x'), None);
    }
}
