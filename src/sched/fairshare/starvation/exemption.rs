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

/// The parties that may preempt a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Parties in this pool.
    Within(String),
    /// All parties.
    Open,
}

impl Exposure {
    /// Whether a party in the pool `line[0]`, below the pools in the rest of `line`, may preempt
    /// the party.
    pub fn is_to(&self, line: &[String]) -> bool {
        match self {
            Exposure::Within(pool) => line.contains(pool),
            Exposure::Open => true,
        }
    }
}

impl PreemptionExemption<'_> {
    /// For each line of the fair shares, the parties that may preempt its operations.
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
    pub fn is_exempt(&self, victim: &OperationShare) -> bool {
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
