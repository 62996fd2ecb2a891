//! Eligible time: time that a job has waited for causes outside its own control (I6, I13, M17,
//! X9).
//!
//! The kind of time that a job accrues depends on its state, on its own limit found by the last
//! cycle, and on the policy. It is stored only when it changes. A waiting job continues to accrue
//! on schedd's clock, even while schedd is down.

use crate::model::limit::LimitStage;
use crate::model::limit::excess::LimitExcess;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

named! {
    /// Policy for which waiting counts as eligible time.
    Accrual {
        /// Waiting for resources, or under a hold by an operator or the system; not under the
        /// owner's hold, for a start time, for dependencies or at the job's own limits.
        Pbs = "pbs",
        /// All waiting.
        Always = "always",
        /// Waiting without a hold, within the limits on waiting jobs.
        QueuePolicy = "queue_policy",
        /// Waiting without a hold, within all limits of the job.
        FullPolicy = "full_policy",
    }
}

/// Kind of time that a job accrues: PBS's `accrue_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accrues {
    /// Not determined yet.
    #[default]
    Initial,
    /// Waiting that does not count.
    Ineligible,
    /// Waiting that counts.
    Eligible,
    /// Running.
    Running,
    /// Finished.
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

/// Limit on the job itself, its array, owner, group or project that prevents the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnLimit {
    /// Limit on running jobs or their resources.
    Running,
    /// Limit on waiting jobs.
    Waiting,
    /// Formula threshold on the priority.
    #[serde(rename = "worth")]
    Threshold,
}

impl OwnLimit {
    /// Returns the job's own limit that a reason names; None for all causes outside its control.
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

    /// I13: a limit on all users together is outside the job's control, as long as the job is
    /// considered (M24).
    fn exceeded(excess: &LimitExcess) -> Option<OwnLimit> {
        match excess.stage {
            LimitStage::Running => excess.is_personal().then_some(OwnLimit::Running),
            LimitStage::Idle | LimitStage::Queued | LimitStage::Waiting => Some(OwnLimit::Waiting),
        }
    }
}

/// Accrued eligible time of a job and the kind of time it accrues now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eligibility {
    /// Kind of time accrued now.
    pub accrues: Accrues,
    /// Start of this kind.
    pub since: Time,
    /// Eligible time at `since`.
    pub had: Span,
    /// Own limit that prevented the start in the last cycle, where that matters.
    #[serde(default)]
    pub limit: Option<OwnLimit>,
}

impl Eligibility {
    /// Returns the eligible time at `now`; before `since`, the time at `since`.
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
