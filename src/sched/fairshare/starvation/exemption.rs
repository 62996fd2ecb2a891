//! Exemption from preemption (Y27): a party that starves, or has less than a threshold of its fair
//! share, loses nothing to others. Parties in such a pool lose allocations only to parties in the
//! same pool.

use super::fair_share::{Entitled, FairShares, OperationShare};
use super::groups::{AllocationGroup, ROUNDING};
use super::time_below::StarvationStatus;
use crate::model::time::Time;
use crate::sched::view::starvation::{StarvationSubject, TimeBelow};

/// Protects operations and pools that starve, or that have a satisfaction below their threshold.
pub struct PreemptionExemption<'a> {
    /// The fair share and the usage of all parties.
    pub shares: &'a FairShares,
    /// The parties below their fair share, and since when.
    pub time_below: &'a TimeBelow,
    /// The last group of allocations that is preempted: its threshold counts.
    pub last: AllocationGroup,
    /// The current time.
    pub now: Time,
}

/// Which parties may preempt a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Those in this pool.
    Within(String),
    /// All.
    Open,
}

impl Exposure {
    /// Whether a party in this pool, given with the pools above, may preempt it.
    pub fn is_to(&self, line: &[String]) -> bool {
        match self {
            Exposure::Within(pool) => line.contains(pool),
            Exposure::Open => true,
        }
    }
}

impl PreemptionExemption<'_> {
    /// By line of the fair shares: the pools to which its operations may lose allocations.
    pub fn by_line(&self) -> Vec<Exposure> {
        let lines = self.shares.lines.iter();
        // Operations in the lowest such pool are in all pools above it.
        let blocking = lines.map(|line| line.pools.iter().find(|pool| self.is_pool_blocked(pool)));
        blocking
            .map(|pool| pool.map_or(Exposure::Open, |pool| Exposure::Within(pool.clone())))
            .collect()
    }

    fn is_pool_blocked(&self, pool: &str) -> bool {
        self.is_blocked(
            &StarvationSubject::Pool(pool.to_string()),
            self.shares.of_pool(pool),
        )
    }

    /// Whether a party is exempt from preemption by all others.
    pub fn is_before(&self, victim: &OperationShare) -> bool {
        self.is_blocked(
            &StarvationSubject::Party(victim.party),
            Some(victim.entitled),
        )
    }

    fn is_blocked(&self, subject: &StarvationSubject, entitled: Option<Entitled>) -> bool {
        let threshold = self
            .shares
            .cutoffs_of(subject)
            .map_or(0.0, |cutoffs| self.last.threshold(cutoffs));
        let is_short =
            entitled.is_some_and(|entitled| entitled.satisfaction() < threshold - ROUNDING);
        is_short
            || self.shares.starvation(subject, self.time_below, self.now) != StarvationStatus::None
    }
}
