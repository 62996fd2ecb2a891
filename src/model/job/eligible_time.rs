//! Eligible time: how long a job has waited for what is not its own doing (I6, I13, M17, X9).
//!
//! What a job accrues follows from how it stands, from the limit of its own that the last cycle
//! found in its way, and from the policy. It is written down when it changes and never in between:
//! a job that goes on waiting goes on accruing, on schedd's clock, whoever looks and whether schedd
//! is there.

use super::Job;
use super::life::EventContext;
use super::state::{Holds, JobState};
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
    /// On how little it may be worth.
    Worth,
}

impl OwnLimit {
    /// The limit of a job's own that a reason speaks of, if any. Whatever else keeps a job waiting
    /// is others' doing.
    pub fn of(reason: &Reason) -> Option<OwnLimit> {
        match reason {
            Reason::ArrayLimit { .. } => Some(OwnLimit::Running),
            Reason::Limited(excess) => OwnLimit::exceeded(excess),
            Reason::UnderThreshold { .. } => Some(OwnLimit::Worth),
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

    fn obstacle(self) -> WaitCause {
        match self {
            OwnLimit::Running => WaitCause::RunLimit,
            OwnLimit::Waiting => WaitCause::IdleLimit,
            OwnLimit::Worth => WaitCause::TooLittleWorth,
        }
    }
}

/// What a job waits for besides its turn and room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitCause {
    /// `qhold`, by its owner, or a password of his that no longer fits.
    OwnHold,
    /// A hold by others.
    OthersHold,
    Dependency,
    BeginTime,
    RunLimit,
    IdleLimit,
    TooLittleWorth,
    /// A person keeps it suspended.
    Stopped,
    /// An array of which no element waits.
    NothingLeft,
}

impl Accrual {
    /// Whether waiting counts with this in the way: the policies, whole.
    fn counts(self, obstacle: WaitCause) -> bool {
        match (self, obstacle) {
            (_, WaitCause::NothingLeft) => false,
            (Accrual::Always, _) => true,
            (Accrual::Pbs, obstacle) => obstacle == WaitCause::OthersHold,
            (Accrual::QueuePolicy, obstacle) => obstacle == WaitCause::RunLimit,
            (Accrual::FullPolicy, _) => false,
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

impl Job {
    /// What it accrues as it stands.
    pub fn eligibility(&self, moment: EventContext) -> Eligibility {
        let before = self.life.eligibility;
        self.eligibility_within(before.limit.filter(|_| self.waits_for_its_turn()), moment)
    }

    /// Brings what it accrues in line with how it stands. To be called whenever that may have
    /// changed.
    pub(super) fn accrue(&mut self, moment: EventContext) {
        self.life.eligibility = self.eligibility(moment);
    }

    /// What it accrues now that a cycle has found this limit of its own in its way, or none; None
    /// if that is nothing new.
    pub fn judged(&self, limit: Option<OwnLimit>, moment: EventContext) -> Option<Eligibility> {
        let limit = limit.filter(|limit| !moment.accrual.counts(limit.obstacle()));
        let is_news = self.waits_for_its_turn() && self.life.eligibility.limit != limit;
        is_news.then(|| self.eligibility_within(limit, moment))
    }

    fn eligibility_within(&self, limit: Option<OwnLimit>, moment: EventContext) -> Eligibility {
        let mut eligibility = Eligibility {
            limit,
            ..self.life.eligibility
        };
        eligibility.turn(self.accrues(limit, moment), moment.now);
        eligibility
    }

    fn waits_for_its_turn(&self) -> bool {
        matches!(self.life.state, JobState::Queued | JobState::Begun)
    }

    fn accrues(&self, limit: Option<OwnLimit>, moment: EventContext) -> Accrues {
        match self.life.state {
            JobState::Running => Accrues::Running,
            // What is in the way of one that waits for room is others' doing.
            JobState::Suspended
                if self.waits_to_go_on() || moment.accrual.counts(WaitCause::Stopped) =>
            {
                Accrues::Eligible
            }
            JobState::Suspended => Accrues::Ineligible,
            JobState::Expired | JobState::Finished => Accrues::Exiting,
            JobState::Queued | JobState::Begun | JobState::Held | JobState::Waiting => {
                let mut obstacles = self.obstacles(moment).chain(limit.map(OwnLimit::obstacle));
                let counts = obstacles.all(|obstacle| moment.accrual.counts(obstacle));
                if counts {
                    Accrues::Eligible
                } else {
                    Accrues::Ineligible
                }
            }
        }
    }

    /// I13: what a dependency bars looks held by the system, and is not.
    fn obstacles(&self, moment: EventContext) -> impl Iterator<Item = WaitCause> {
        let (life, spec) = (&self.life, &self.spec);
        let held = |kinds: [Holds; 2]| kinds.into_iter().any(|kind| life.holds.contains(kind));
        let present = [
            (held([Holds::USER, Holds::PASSWORD]), WaitCause::OwnHold),
            (
                held([Holds::OPERATOR, Holds::SYSTEM]),
                WaitCause::OthersHold,
            ),
            (!life.bars.are_open(), WaitCause::Dependency),
            (
                spec.begin.is_some_and(|begin| begin > moment.wall),
                WaitCause::BeginTime,
            ),
            (
                self.elements
                    .as_ref()
                    .is_some_and(|elements| elements.waiting().is_empty()),
                WaitCause::NothingLeft,
            ),
        ];
        present
            .into_iter()
            .filter(|(is_there, _)| *is_there)
            .map(|(_, obstacle)| obstacle)
    }
}

#[cfg(test)]
mod tests;
