//! Who is left alone (Y27): whoever starves, or has less than a threshold of what it is owed, loses
//! nothing to others; nor does anybody in a pool of which this is true, but to those in the same
//! pool.

use super::fair_share::{Entitled, FairShares, OperationShare};
use super::groups::{AllocationGroup, ROUNDING};
use super::time_below::StarvationStatus;
use crate::model::time::Time;
use crate::sched::view::starvation::{StarvationSubject, TimeBelow};

/// Protects operations and pools that starve, or whose satisfaction is below their threshold.
pub struct PreemptionExemption<'a> {
    /// What everybody is owed, and has.
    pub shares: &'a FairShares,
    /// Since when who has less.
    pub time_below: &'a TimeBelow,
    /// The last group of allocations that is preempted: its threshold counts.
    pub last: AllocationGroup,
    /// When that is.
    pub now: Time,
}

/// Whether somebody may lose something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// To those in this pool.
    Within(String),
    /// To anybody.
    Open,
}

impl Exposure {
    /// Whether it is one to somebody with this pool and those above it.
    pub fn is_to(&self, line: &[String]) -> bool {
        match self {
            Exposure::Within(pool) => line.contains(pool),
            Exposure::Open => true,
        }
    }
}

impl PreemptionExemption<'_> {
    /// By line of the fair shares: to which pools its operations may lose allocations.
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

    /// Whether somebody loses nothing to anybody.
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
