//! A running job makes way: for whom, why, and how.

use super::attempt::Attempt;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

named! {
    /// How a job makes way (M45, X15).
    PreemptAction {
        /// Stopped where it is: it keeps its memory and goes on later.
        Suspend = "suspend",
        /// Told to write down how far it has come, ended, and put back into the queue.
        Checkpoint = "checkpoint",
        /// Ended, and put back into the queue.
        Requeue = "requeue",
        /// Ended for good.
        Delete = "delete",
        /// Left alone until it ends by itself; what it leaves is kept for the other (Q11).
        Finish = "finish",
    }
}

named! {
    /// Why a job makes way (X12, Y8).
    PreemptCause {
        /// Another goes before it by cluster and priority (Q8).
        Rank = "qube",
        /// Another's quality of service preempts its own (M43).
        Quality = "qos",
        /// Another is of a higher level (I20).
        Level = "levels",
        /// Another has been below its fair share for too long (Y2).
        Starvation = "starvation",
        /// Another has been for so long that it takes what is not beyond the other's fair share,
        /// too (Y9).
        AggressiveStarvation = "aggressive_starvation",
        /// It runs on room that was lent to it, which another is promised (M34).
        Promise = "promise",
        /// Its node has less than its jobs have (Y8).
        Overcommit = "overcommit",
        /// A limit has become lower than what runs (Y8, X16).
        Limit = "limit",
    }
}

/// The properties of an action. Other modules call these methods and compare no variants: a new
/// action is described here and takes effect in [`Job`](crate::model::job::Job).
impl PreemptAction {
    /// The letter in PBS's `preempt_order`; None for an action that a site cannot configure.
    pub fn letter(self) -> Option<char> {
        match self {
            PreemptAction::Suspend => Some('S'),
            PreemptAction::Checkpoint => Some('C'),
            PreemptAction::Requeue => Some('R'),
            PreemptAction::Delete => Some('D'),
            PreemptAction::Finish => None,
        }
    }

    /// Describes the preempted job in its comment and in `tracejob`: "suspended for job 7".
    fn participle(self) -> &'static str {
        match self {
            PreemptAction::Suspend => "suspended",
            PreemptAction::Checkpoint => "checkpointed and put back into the queue",
            PreemptAction::Requeue => "put back into the queue",
            PreemptAction::Delete => "deleted",
            PreemptAction::Finish => "to be followed at its end",
        }
    }

    /// The job stays on its nodes without running and frees only the resources that
    /// `resources_released` names.
    pub fn keeps_memory(self) -> bool {
        matches!(self, PreemptAction::Suspend)
    }

    /// The job writes a checkpoint before its attempt ends.
    pub fn checkpoints(self) -> bool {
        matches!(self, PreemptAction::Checkpoint)
    }

    /// The job runs again from its beginning, so that only a rerunnable job can be preempted so.
    pub fn restarts(self) -> bool {
        matches!(self, PreemptAction::Requeue)
    }

    /// The attempt ends now and frees all its resources.
    pub fn ends_attempt(self) -> bool {
        matches!(
            self,
            PreemptAction::Checkpoint | PreemptAction::Requeue | PreemptAction::Delete
        )
    }

    /// The job runs to its own end.
    pub fn waits_for_end(self) -> bool {
        matches!(self, PreemptAction::Finish)
    }

    /// The actions that a site can configure, with their names.
    pub fn configurable() -> Vec<(&'static str, PreemptAction)> {
        let all = PreemptAction::ALL.iter().copied();
        all.filter(|(_, action)| action.letter().is_some())
            .collect()
    }

    /// The action with this letter.
    pub fn from_letter(letter: char) -> Option<PreemptAction> {
        PreemptAction::ALL
            .iter()
            .map(|(_, action)| *action)
            .find(|action| action.letter() == Some(letter))
    }

    /// The letters of all actions that a site can configure: `SCRD`.
    pub fn order_characters() -> String {
        let all = PreemptAction::ALL.iter();
        all.filter_map(|(_, action)| action.letter()).collect()
    }
}

/// The latest preemption of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPreemption {
    /// The attempt that was preempted; None in records that older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// For which job; None where nobody gets what it had.
    pub to: Option<JobId>,
    /// Why.
    pub cause: PreemptCause,
    /// How.
    pub action: PreemptAction,
    /// When it was told.
    pub at: Time,
}

impl JobPreemption {
    /// Whether this attempt was preempted, and not an earlier one. A job can start again at the
    /// instant of its preemption, so the time decides only where the attempt is unknown.
    pub fn concerns(&self, attempt: Attempt, started: Time) -> bool {
        self.attempt
            .map_or(self.at >= started, |known| known == attempt)
    }

    /// In words, as the comment of the job that makes way has it; `id` shows a job's id.
    pub fn told(&self, id: impl Fn(JobId) -> String) -> String {
        let how = self.action.participle();
        match self.to {
            Some(job) => format!("{how} for job {} ({})", id(job), self.cause),
            None => format!("{how} ({})", self.cause),
        }
    }
}

/// Jobs by name, of many only the first.
pub fn shown_some(jobs: &[JobId], id: impl Fn(JobId) -> String) -> String {
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
            PreemptCause::Rank => "it goes before it by cluster and priority",
            PreemptCause::Quality => "its quality of service preempts",
            PreemptCause::Level => "it is of a higher preemption level",
            PreemptCause::Starvation => "it has been below its fair share for too long",
            PreemptCause::AggressiveStarvation => {
                "it has been below its fair share for so long that it takes of others' own"
            }
            PreemptCause::Promise => "it is promised that room",
            PreemptCause::Overcommit => "the node has less than its jobs have",
            PreemptCause::Limit => "a limit is lower than what runs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of older versions do not name the attempt: then the time decides.
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
    fn a_victim_shows_its_preemptor_and_the_cause() {
        let told = |to, cause, action| {
            JobPreemption {
                attempt: None,
                to,
                cause,
                action,
                at: Time(0),
            }
            .told(|job| job.full("head"))
        };
        assert_eq!(
            told(
                Some(JobId::job(7)),
                PreemptCause::Level,
                PreemptAction::Suspend
            ),
            "suspended for job 7.head (it is of a higher preemption level)"
        );
        assert_eq!(
            told(None, PreemptCause::Overcommit, PreemptAction::Requeue),
            "put back into the queue (the node has less than its jobs have)"
        );
    }

    #[test]
    fn of_many_jobs_the_first_ten_are_named() {
        let shown = |count: u64| {
            shown_some(&(1..=count).map(JobId::job).collect::<Vec<_>>(), |job| {
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

    /// Callers rely on exactly one of the three.
    #[test]
    fn an_action_suspends_ends_the_attempt_or_waits_for_its_end() {
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
    fn actions_have_the_characters_of_pbs() {
        assert_eq!(PreemptAction::order_characters(), "SCRD");
        assert_eq!(
            PreemptAction::from_letter('R'),
            Some(PreemptAction::Requeue)
        );
        assert_eq!(PreemptAction::from_letter('x'), None);
    }
}
