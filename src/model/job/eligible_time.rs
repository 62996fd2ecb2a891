//! Eligible time: how long a job has waited for what is not its own doing (I6, I13, M17, X9).
//!
//! What a job accrues follows from how it stands, from the limit of its own that the last cycle
//! found in its way, and from the policy. It is written down when it changes and never in between:
//! a job that goes on waiting goes on accruing, on schedd's clock, whoever looks and whether schedd
//! is there.

use crate::model::limit::LimitStage;
use crate::model::limit::excess::LimitExcess;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

named! {
    /// Which of a job's waiting counts as eligible time.
    Accrual {
        /// Waiting for what others have; not for itself: its owner's hold, its begin time, its
        /// dependencies, a limit of its own.
        Pbs = "pbs",
        /// All of it.
        Always = "always",
        /// Waiting without a hold, while it is within the limits on waiting jobs.
        QueuePolicy = "queue_policy",
        /// Waiting without a hold, while it is within all limits of its own.
        FullPolicy = "full_policy",
    }
}

/// What a job accrues: PBS's `accrue_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accrues {
    /// Nothing has been found out yet.
    #[default]
    Initial,
    /// It waits, and that does not count.
    Ineligible,
    /// It waits, and that counts.
    Eligible,
    /// It runs.
    Running,
    /// It is over.
    Exiting,
}

impl Accrues {
    /// PBS's number for it.
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

/// A limit of a job's own - of its array, its owner, his group or project - that keeps it from
/// starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnLimit {
    /// On how many jobs run, or on what they use.
    Running,
    /// On how many jobs wait.
    Waiting,
    /// On its priority: the formula threshold.
    #[serde(rename = "worth")]
    Threshold,
}

impl OwnLimit {
    /// The limit of a job's own that a reason speaks of, if any. Whatever else keeps a job waiting
    /// is others' doing.
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

    /// I13: what all use together is others' doing, as long as the job is considered (M24).
    fn exceeded(excess: &LimitExcess) -> Option<OwnLimit> {
        match excess.stage {
            LimitStage::Running => excess.is_personal().then_some(OwnLimit::Running),
            LimitStage::Idle | LimitStage::Queued | LimitStage::Waiting => Some(OwnLimit::Waiting),
        }
    }
}

/// What a job accrues, and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eligibility {
    /// What it accrues now.
    pub accrues: Accrues,
    /// Since when.
    pub since: Time,
    /// The eligible time it had then.
    pub had: Span,
    /// The limit of its own that kept it from starting in the last cycle, where that matters.
    #[serde(default)]
    pub limit: Option<OwnLimit>,
}

impl Eligibility {
    /// The eligible time at a moment; before `since`, what it was then.
    pub fn at(&self, now: Time) -> Span {
        match self.accrues {
            Accrues::Eligible => self.had + now.since(self.since).max(Span(0)),
            _ => self.had,
        }
    }

    /// It has this much at `now`, and goes on from there.
    pub fn set(&mut self, time: Span, now: Time) {
        (self.had, self.since) = (time, now);
    }

    /// It accrues this from `now` on.
    pub fn turn(&mut self, accrues: Accrues, now: Time) {
        if self.accrues != accrues {
            (self.had, self.since, self.accrues) = (self.at(now), now, accrues);
        }
    }
}
