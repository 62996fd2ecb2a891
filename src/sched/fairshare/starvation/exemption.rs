//! Exemption from preemption (Y27). An operation (a job, or an array with all its subjobs) is
//! exempt if it starves, or if its satisfaction (usage divided by fair share) is below a threshold.
//! If a pool (account) starves, or its satisfaction is below the threshold, its operations lose
//! allocations only to operations in this pool or in a pool below it. A *line* is a pool followed
//! by the pools above it.

use super::fair_share::{Entitled, FairShares, OperationShare};
use super::groups::{AllocationGroup, ROUNDING};
use super::time_below::StarvationStatus;
use crate::model::time::Time;
use crate::sched::view::starvation::{StarvationSubject, TimeBelow};

/// Computes which operations and pools are exempt from preemption.
pub struct PreemptionExemption<'a> {
    /// The fair share and the usage of all operations and pools.
    pub shares: &'a FairShares,
    /// The operations and pools below their fair share, and since when.
    pub time_below: &'a TimeBelow,
    /// The last group of allocations that the preemptor may take. The threshold of this group
    /// applies.
    pub last: AllocationGroup,
    /// The current time.
    pub now: Time,
}

/// The operations that may preempt an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Only operations in this pool or in a pool below it.
    Within(String),
    /// All operations.
    Open,
}

impl Exposure {
    /// Whether an operation of this line (its pool, then the pools above it) may preempt the
    /// operation.
    pub fn is_to(&self, line: &[String]) -> bool {
        match self {
            Exposure::Within(pool) => line.contains(pool),
            Exposure::Open => true,
        }
    }
}

impl PreemptionExemption<'_> {
    /// For each of [`FairShares::lines`], which operations may preempt the operations of its pool.
    pub fn by_line(&self) -> Vec<Exposure> {
        let lines = self.shares.lines.iter();
        // The lowest exempt pool decides, because its operations are also in all pools above it.
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

    /// Whether an operation is exempt from preemption by all other operations.
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
