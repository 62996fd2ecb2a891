//! What is done about attempts that do not start, and about jobs that go over a limit.

use super::attempt::How;
use super::attempt::RunLimit;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// The rules of `[launch]` that say what becomes of a job whose attempt went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureRules {
    /// After starts that failed.
    pub retries: Retries,
    /// Of a job over its walltime (M50).
    pub walltime: LimitAction,
    /// Of a job over another of its limits (M51).
    pub limits: Responses,
    /// When a file to stage in is missing.
    pub stage_in: StageIn,
    /// Whether a job that has made way goes before its equals (X25).
    pub boost: bool,
}

impl FailureRules {
    /// Whether a job that was ended so goes back into its queue, if it may be run again.
    pub fn requeues(&self, how: &How) -> bool {
        let action = match how {
            How::Overran { .. } => self.walltime,
            How::Exceeded { bound, .. } => self.limits.of(*bound).action,
            _ => LimitAction::Cancel,
        };
        action == LimitAction::Requeue
    }
}

/// What becomes of a job when a file to stage in is missing (M3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageIn {
    /// Whether the job waits for it.
    pub missing: Missing,
    /// After how long it is looked for again.
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
    /// What a job does whose file to stage in is missing.
    Missing {
        /// It ends.
        Fail = "fail",
        /// It waits in its queue until the file is there.
        Wait = "wait",
    }
}

/// When a start that failed is tried again (M10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// After so many failed starts in a row the job is held.
    pub most: u32,
    /// The wait after the first one; it doubles with each further one.
    pub first: Span,
    /// The longest wait.
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
    /// Maui's: an hour each time, and held after a day.
    pub const MAUI: Retries = Retries {
        most: 24,
        first: Span::seconds(3600),
        longest: Span::seconds(3600),
    };

    /// The wait after this many failed starts, from 1.
    pub fn wait(&self, failed: u32) -> Span {
        let doublings = failed.saturating_sub(1).min(40);
        // A first wait that is longer than the longest stands.
        Span(
            self.first
                .0
                .saturating_mul(1 << doublings)
                .min(self.longest.0.max(self.first.0)),
        )
    }
}

/// What is done about a job over a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitAction {
    /// It is ended.
    #[default]
    Cancel,
    /// It is ended and put back into its queue, if it may be run again.
    Requeue,
}

impl LimitAction {
    /// All of them with their names.
    pub const ALL: &[(&str, LimitAction)] = &[
        ("cancel", LimitAction::Cancel),
        ("requeue", LimitAction::Requeue),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LimitAction::Cancel => "cancel",
            LimitAction::Requeue => "requeue",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<LimitAction> {
        LimitAction::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, action)| *action)
    }
}

/// What is done about a job over one limit, and after how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// What.
    pub action: LimitAction,
    /// Once it has been over the limit for so long without a break.
    pub after: Span,
}

impl Response {
    /// Whether the job is ended the moment it is over the limit.
    pub fn ends_at_once(&self) -> bool {
        self.after == Span(0)
    }
}

/// What is done about a job over each of its limits, walltime aside (M51).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// Resident memory on a node.
    pub mem: Response,
    /// Resident memory of one process.
    pub pmem: Response,
    /// Address space on a node.
    pub vmem: Response,
    /// Processor time.
    pub cput: Response,
}

impl Responses {
    /// For this limit.
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
    fn the_wait_doubles_up_to_the_longest() {
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
