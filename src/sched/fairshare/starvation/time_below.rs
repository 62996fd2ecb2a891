//! The starvation status of operations (jobs, or arrays with all their subjobs) and pools
//! (accounts). It results from the time for which they have been below their fair share (Y1, Y2).

use crate::model::account::starvation::StarvationConditions;
use crate::model::time::Time;

/// The starvation status of an operation or pool (Y2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StarvationStatus {
    /// No starvation: not below the fair share, or below it for less than the timeout.
    #[default]
    None,
    /// Starvation: below the fair share for at least the timeout.
    Starving,
    /// Aggressive starvation: below the fair share for at least the longer timeout. The policy must
    /// enable this status.
    Aggressive,
}

impl StarvationStatus {
    /// The status of an operation or pool that has been below its fair share since `since`. Without
    /// `since`, it is not below.
    pub fn of(since: Option<Time>, patience: &StarvationConditions, now: Time) -> StarvationStatus {
        let Some(since) = since else {
            return StarvationStatus::None;
        };
        let below_for = now.since(since);
        if below_for < patience.timeout {
            StarvationStatus::None
        } else if patience.enable_aggressive && below_for >= patience.aggressive_timeout {
            StarvationStatus::Aggressive
        } else {
            StarvationStatus::Starving
        }
    }

    /// When the status changes next if the operation or pool stays below its fair share; None if
    /// the status does not change any more.
    pub fn next(since: Time, patience: &StarvationConditions, now: Time) -> Option<Time> {
        let aggressive = patience
            .enable_aggressive
            .then_some(since + patience.aggressive_timeout);
        std::iter::once(since + patience.timeout)
            .chain(aggressive)
            .filter(|moment| *moment > now)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::sched::view::starvation::{ShareParty, StarvationSubject, TimeBelow};

    fn seconds(seconds: i64) -> Time {
        Time(seconds * 1000)
    }

    /// Y2: the operation has been below its fair share since second 0.
    #[test]
    fn a_party_starves_once_it_has_been_below_its_fair_share_for_the_timeout() {
        let aggressive = StarvationConditions {
            enable_aggressive: true,
            ..StarvationConditions::default()
        };
        let at = |patience: StarvationConditions| {
            [29, 30, 119, 120]
                .map(|now| StarvationStatus::of(Some(Time(0)), &patience, seconds(now)))
        };
        assert_eq!(
            at(aggressive),
            [
                StarvationStatus::None,
                StarvationStatus::Starving,
                StarvationStatus::Starving,
                StarvationStatus::Aggressive
            ]
        );
        assert_eq!(
            at(StarvationConditions::default()),
            [
                StarvationStatus::None,
                StarvationStatus::Starving,
                StarvationStatus::Starving,
                StarvationStatus::Starving
            ]
        );
        assert_eq!(
            StarvationStatus::of(None, &aggressive, seconds(900)),
            StarvationStatus::None
        );
        let next = |patience: StarvationConditions| {
            [0, 29, 30, 120].map(|now| StarvationStatus::next(Time(0), &patience, seconds(now)))
        };
        assert_eq!(
            next(aggressive),
            [
                Some(seconds(30)),
                Some(seconds(30)),
                Some(seconds(120)),
                None
            ]
        );
        assert_eq!(
            next(StarvationConditions::default()),
            [Some(seconds(30)), Some(seconds(30)), None, None]
        );
    }

    /// Y2: the array is not below its fair share at second 60, and is below again at second 61.
    #[test]
    fn the_time_below_starts_again_after_a_party_has_recovered() {
        let subject = || StarvationSubject::Party(ShareParty::Operation(JobId::array(1)));
        let time_below = TimeBelow::default().renewed(std::iter::once(subject()), Time(0));
        let still = time_below.renewed(std::iter::once(subject()), seconds(59));
        assert_eq!(still.since(&subject()), Some(Time(0)));
        let recovered = still.renewed(std::iter::empty(), seconds(60));
        assert_eq!(recovered.since(&subject()), None);
        let again = recovered.renewed(std::iter::once(subject()), seconds(61));
        assert_eq!(again.since(&subject()), Some(seconds(61)));
    }
}
