//! Rules of the configuration for failed starts, for jobs that exceed limits, for missing input
//! files, and for preempted jobs.

use super::attempt::How;
use super::attempt::RunLimit;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// Rules of `[launch]` for failed attempts, and of `[preemption]` for requeued jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureRules {
    /// Schedule of retries after failed starts.
    pub retries: Retries,
    /// Action for a job that exceeds its walltime (M50).
    pub walltime: LimitAction,
    /// Responses to a job that exceeds another limit (M51).
    pub limits: Responses,
    /// Behavior if a file to stage in is missing.
    pub stage_in: StageIn,
    /// A preempted job precedes other waiting jobs of equal priority (X25).
    pub boost: bool,
}

impl FailureRules {
    /// Tests whether a rerunnable job is requeued because its attempt ended at a limit.
    pub fn requeues(&self, how: &How) -> bool {
        let action = match how {
            How::Overran { .. } => self.walltime,
            How::Exceeded { bound, .. } => self.limits.of(*bound).action,
            _ => LimitAction::Cancel,
        };
        action == LimitAction::Requeue
    }
}

/// Behavior if a file to stage in is missing (M3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageIn {
    /// Whether the job fails or waits.
    pub missing: Missing,
    /// Delay before the next start, which checks again whether the file exists.
    pub retry: Span,
}

impl Default for StageIn {
    fn default() -> StageIn {
        StageIn {
            missing: Missing::Fail,
            retry: Span::seconds(60),
        }
    }
}

named! {
    /// Effect of a missing file to stage in.
    Missing {
        /// The job fails.
        Fail = "fail",
        /// The job waits in its queue until the file exists.
        Wait = "wait",
    }
}

/// Schedule of retries after failed starts (M10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Number of consecutive failed starts after which the job is held.
    pub most: u32,
    /// Delay after the first failure. The delay doubles with each further failure, up to `longest`.
    pub first: Span,
    /// Maximum delay.
    pub longest: Span,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            most: 20,
            first: Span::seconds(60),
            longest: Span::seconds(3600),
        }
    }
}

impl Retries {
    /// Maui's values: a delay of one hour after each failure, and a hold after 24 failures.
    pub const MAUI: Retries = Retries {
        most: 24,
        first: Span::seconds(3600),
        longest: Span::seconds(3600),
    };

    /// Returns the delay after `failed` consecutive failed starts.
    pub fn wait(&self, failed: u32) -> Span {
        let doublings = failed.saturating_sub(1).min(40);
        // If `first` exceeds `longest`, `first` applies.
        Span(
            self.first
                .0
                .saturating_mul(1 << doublings)
                .min(self.longest.0.max(self.first.0)),
        )
    }
}

/// Action for a job that exceeds a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitAction {
    /// End the job.
    #[default]
    Cancel,
    /// End the job; if the job is rerunnable, queue it again.
    Requeue,
}

impl LimitAction {
    /// All actions with their names.
    pub const ALL: &[(&str, LimitAction)] = &[
        ("cancel", LimitAction::Cancel),
        ("requeue", LimitAction::Requeue),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            LimitAction::Cancel => "cancel",
            LimitAction::Requeue => "requeue",
        }
    }

    /// Returns the action with this name.
    pub fn named(name: &str) -> Option<LimitAction> {
        LimitAction::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, action)| *action)
    }
}

/// Response to a job that exceeds a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// Action to take.
    pub action: LimitAction,
    /// Time for which the job must exceed the limit without interruption before the action.
    pub after: Span,
}

impl Response {
    /// Tests whether the action is taken as soon as the job exceeds the limit.
    pub fn ends_at_once(&self) -> bool {
        self.after == Span(0)
    }
}

/// Responses to jobs that exceed a limit other than the walltime, by limit (M51).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// Resident memory on a host.
    pub mem: Response,
    /// Resident memory of a process.
    pub pmem: Response,
    /// Address space on a host.
    pub vmem: Response,
    /// Processor time.
    pub cput: Response,
}

impl Responses {
    /// Returns the response for this limit; the default for limits without a setting.
    pub fn of(&self, bound: RunLimit) -> Response {
        match bound {
            RunLimit::Mem => self.mem,
            RunLimit::Pmem => self.pmem,
            RunLimit::Vmem => self.vmem,
            RunLimit::Cput => self.cput,
            RunLimit::Processes => Response::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(retries: Retries, failed: u32) -> i64 {
        retries.wait(failed).0 / 1000
    }

    #[test]
    fn the_delay_doubles_up_to_the_maximum() {
        let waits = (1..=8)
            .map(|failed| seconds(Retries::default(), failed))
            .collect::<Vec<_>>();
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(seconds(Retries::default(), u32::MAX), 3600);
        assert_eq!(
            (seconds(Retries::MAUI, 1), seconds(Retries::MAUI, 23)),
            (3600, 3600)
        );
        let slow = Retries {
            first: Span::seconds(7200),
            ..Retries::default()
        };
        assert_eq!(seconds(slow, 3), 7200);
    }

    #[test]
    fn each_limit_has_its_own_action() {
        let requeue = Response {
            action: LimitAction::Requeue,
            after: Span(0),
        };
        let rules = FailureRules {
            limits: Responses {
                cput: requeue,
                ..Responses::default()
            },
            ..FailureRules::default()
        };
        let over = |bound| How::Exceeded {
            bound,
            used: 2,
            limit: 1,
        };
        assert!(rules.requeues(&over(RunLimit::Cput)) && !rules.requeues(&over(RunLimit::Mem)));
        assert!(!rules.requeues(&How::Overran {
            used: Span(2),
            limit: Span(1)
        }));
        assert!(
            FailureRules {
                walltime: LimitAction::Requeue,
                ..rules
            }
            .requeues(&How::Overran {
                used: Span(2),
                limit: Span(1)
            })
        );
        assert!(!rules.requeues(&How::Exited(1)));
    }
}
