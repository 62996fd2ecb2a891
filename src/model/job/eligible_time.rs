//! Eligible time: time that a job has waited for causes outside its owner's control (I6, I13, M17,
//! X9).
//!
//! At each moment, a job accrues one kind of time. The kind depends on the state of the job, on the
//! policy, and on the limit that prevented the start in the last cycle. The eligible time is stored
//! only when the kind changes or when an operator or manager sets it. A waiting job continues to
//! accrue eligible time while schedd is down.

use crate::model::limit::LimitStage;
use crate::model::limit::excess::LimitExcess;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

named! {
    /// Policy that decides which waiting counts as eligible time. Time in which a queued job waits
    /// for resources or for its place in the order of jobs always counts.
    Accrual {
        /// Time under a hold by an operator or the system counts, too.
        Pbs = "pbs",
        /// All waiting counts, and suspension on request counts, too.
        Always = "always",
        /// Time in which a limit on running jobs prevents the start counts, too.
        QueuePolicy = "queue_policy",
        /// No other waiting counts.
        FullPolicy = "full_policy",
    }
}

/// Kind of time that a job accrues: PBS's `accrue_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accrues {
    /// The kind is not determined yet.
    #[default]
    Initial,
    /// The job waits or is suspended, and the time does not count as eligible time.
    Ineligible,
    /// The job waits or is suspended, and the time counts as eligible time.
    Eligible,
    /// The job runs.
    Running,
    /// The job has finished.
    Exiting,
}

impl Accrues {
    /// Returns PBS's number.
    pub fn number(self) -> i64 {
        match self {
            Accrues::Initial => 0,
            Accrues::Ineligible => 1,
            Accrues::Eligible => 2,
            Accrues::Running => 3,
            Accrues::Exiting => 4,
        }
    }
}

/// Kind of limit that prevents a job's start and is within its owner's control, such as a limit on
/// the job's array, owner, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnLimit {
    /// Limit on running jobs or on the resources of running jobs.
    Running,
    /// Limit on waiting jobs.
    Waiting,
    /// Threshold that the priority must exceed.
    #[serde(rename = "worth")]
    Threshold,
}

impl OwnLimit {
    /// Returns the kind of limit for a reason; None for reasons outside the owner's control.
    pub fn of(reason: &Reason) -> Option<OwnLimit> {
        match reason {
            Reason::ArrayLimit { .. } => Some(OwnLimit::Running),
            Reason::Limited(excess) => OwnLimit::exceeded(excess),
            Reason::UnderThreshold { .. } => Some(OwnLimit::Threshold),
            Reason::NeverEnough { .. }
            | Reason::NeverMatches { .. }
            | Reason::NeverNodes { .. } => None,
            Reason::Busy { .. }
            | Reason::Scattered { .. }
            | Reason::UsedOutside { .. }
            | Reason::NoNodes => None,
            Reason::InUse(_) => None,
            Reason::Unsuitable { .. } | Reason::AwaitsChoice => None,
            Reason::WouldDelayBooking { .. }
            | Reason::BackfillDepth { .. }
            | Reason::KeptForWider { .. } => None,
            Reason::NotContiguous | Reason::NoSet { .. } | Reason::Nowhere { .. } => None,
            Reason::Booked { .. } => None,
            Reason::NoWalltime | Reason::QueueStopped | Reason::Deferred { .. } => None,
            Reason::QueueRoutes | Reason::NestedQueue | Reason::NoBackfill => None,
            Reason::Reserved { .. } | Reason::NotOpen { .. } | Reason::OutlastsWindow { .. } => {
                None
            }
            Reason::DedicatedTime | Reason::CrossesDedicated { .. } => None,
            Reason::PrimeOnly | Reason::NonprimeOnly | Reason::CrossesPrime { .. } => None,
        }
    }

    /// Returns the kind of limit for an exceeded limit. A limit on the running jobs of all users
    /// together is outside the owner's control (I13). A limit on waiting jobs is always within it
    /// (M24).
    fn exceeded(excess: &LimitExcess) -> Option<OwnLimit> {
        match excess.stage {
            LimitStage::Running => excess.is_personal().then_some(OwnLimit::Running),
            LimitStage::Idle | LimitStage::Queued | LimitStage::Waiting => Some(OwnLimit::Waiting),
        }
    }
}

/// Accrued eligible time of a job, and the kind of time that the job accrues now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eligibility {
    /// Kind of time accrued now.
    pub accrues: Accrues,
    /// Time of the last change of `accrues` or `had`.
    pub since: Time,
    /// Eligible time at `since`.
    pub had: Span,
    /// Limit that prevented the start in the last cycle, if waiting at this limit does not count
    /// under the policy.
    #[serde(default)]
    pub limit: Option<OwnLimit>,
}

impl Eligibility {
    /// Returns the eligible time at `now`; if `now` is before `since`, the eligible time at
    /// `since`.
    pub fn at(&self, now: Time) -> Span {
        match self.accrues {
            Accrues::Eligible => self.had + now.since(self.since).max(Span(0)),
            _ => self.had,
        }
    }

    /// Sets the eligible time at `now`.
    pub fn set(&mut self, time: Span, now: Time) {
        (self.had, self.since) = (time, now);
    }

    /// Changes the kind of time accrued from `now` on.
    pub fn turn(&mut self, accrues: Accrues, now: Time) {
        if self.accrues != accrues {
            (self.had, self.since, self.accrues) = (self.at(now), now, accrues);
        }
    }
}
