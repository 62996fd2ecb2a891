//! Accrual of eligible time: which causes of waiting count.

use super::Job;
use super::eligible_time::{Accrual, Accrues, Eligibility, OwnLimit};
use super::life::EventContext;
use super::state::{Holds, JobState};

/// Cause for which a job waits, other than the order of jobs and a lack of free resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitCause {
    /// Hold by the owner, or an outdated password of the owner.
    OwnHold,
    /// Hold by an operator or the system.
    OthersHold,
    Dependency,
    BeginTime,
    RunLimit,
    IdleLimit,
    BelowThreshold,
    /// Suspension by request.
    Stopped,
    /// All subjobs of the array have started or ended.
    NothingLeft,
}

impl OwnLimit {
    fn wait_cause(self) -> WaitCause {
        match self {
            OwnLimit::Running => WaitCause::RunLimit,
            OwnLimit::Waiting => WaitCause::IdleLimit,
            OwnLimit::Threshold => WaitCause::BelowThreshold,
        }
    }
}

impl Accrual {
    /// Tests whether the time that a job waits because of this cause counts as eligible time.
    fn counts(self, wait_cause: WaitCause) -> bool {
        match (self, wait_cause) {
            (_, WaitCause::NothingLeft) => false,
            (Accrual::Always, _) => true,
            (Accrual::Pbs, wait_cause) => wait_cause == WaitCause::OthersHold,
            (Accrual::QueuePolicy, wait_cause) => wait_cause == WaitCause::RunLimit,
            (Accrual::FullPolicy, _) => false,
        }
    }
}

impl Job {
    /// Returns the job's eligible time so far, and the kind of time that the job accrues now.
    pub fn eligibility(&self, moment: EventContext) -> Eligibility {
        let limit = if self.is_queued() {
            self.life.eligibility.limit
        } else {
            None
        };
        self.eligibility_within(limit, moment)
    }

    /// After a change of the job, updates its eligible time and the kind of time that it accrues
    /// from now on.
    pub(super) fn accrue(&mut self, moment: EventContext) {
        self.life.eligibility = self.eligibility(moment);
    }

    /// Returns the eligibility after a scheduling cycle. `limit` is the limit within the owner's
    /// control that prevented the start in the cycle, if any; it is ignored if the policy counts
    /// waiting at this limit as eligible time. Returns None if the stored eligibility already has
    /// this limit, or if the job is not queued.
    pub fn judged(&self, limit: Option<OwnLimit>, moment: EventContext) -> Option<Eligibility> {
        let limit = limit.filter(|limit| !moment.accrual.counts(limit.wait_cause()));
        if self.is_queued() && self.life.eligibility.limit != limit {
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

    fn is_queued(&self) -> bool {
        matches!(self.life.state, JobState::Queued | JobState::Begun)
    }

    fn accrues(&self, limit: Option<OwnLimit>, moment: EventContext) -> Accrues {
        match self.life.state {
            JobState::Running => Accrues::Running,
            // A suspended job that waits for resources to resume is eligible, because other jobs
            // delay it.
            JobState::Suspended
                if self.waits_to_resume() || moment.accrual.counts(WaitCause::Stopped) =>
            {
                Accrues::Eligible
            }
            JobState::Suspended => Accrues::Ineligible,
            JobState::Expired | JobState::Finished => Accrues::Exiting,
            JobState::Queued | JobState::Begun | JobState::Held | JobState::Waiting => {
                let mut wait_causes = self
                    .wait_causes(moment)
                    .chain(limit.map(OwnLimit::wait_cause));
                if wait_causes.all(|wait_cause| moment.accrual.counts(wait_cause)) {
                    Accrues::Eligible
                } else {
                    Accrues::Ineligible
                }
            }
        }
    }

    /// Returns the causes for which the job waits, except limits. A job with an unmet dependency
    /// displays a system hold, but this hold is not in `life.holds` (I13).
    fn wait_causes(&self, moment: EventContext) -> impl Iterator<Item = WaitCause> {
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
            .map(|(_, wait_cause)| wait_cause)
    }
}

#[cfg(test)]
mod tests;
