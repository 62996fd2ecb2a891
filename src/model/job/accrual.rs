//! Whether the time that a job waits counts as eligible time.

use super::Job;
use super::eligible_time::{Accrual, Accrues, Eligibility, OwnLimit};
use super::life::EventContext;
use super::state::{Holds, JobState};

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

impl OwnLimit {
    fn obstacle(self) -> WaitCause {
        match self {
            OwnLimit::Running => WaitCause::RunLimit,
            OwnLimit::Waiting => WaitCause::IdleLimit,
            OwnLimit::Worth => WaitCause::TooLittleWorth,
        }
    }
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

impl Job {
    /// What it accrues as it stands.
    pub fn eligibility(&self, moment: EventContext) -> Eligibility {
        let limit = if self.waits_for_its_turn() {
            self.life.eligibility.limit
        } else {
            None
        };
        self.eligibility_within(limit, moment)
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
        if self.waits_for_its_turn() && self.life.eligibility.limit != limit {
            Some(self.eligibility_within(limit, moment))
        } else {
            None
        }
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
                if obstacles.all(|obstacle| moment.accrual.counts(obstacle)) {
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
        let holds = life.holds;
        let present = [
            (holds.contains(Holds::USER), WaitCause::OwnHold),
            (holds.contains(Holds::PASSWORD), WaitCause::OwnHold),
            (holds.contains(Holds::OPERATOR), WaitCause::OthersHold),
            (holds.contains(Holds::SYSTEM), WaitCause::OthersHold),
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
