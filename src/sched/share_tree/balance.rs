//! The time to balance: how long an account or user above its share must run no jobs until its
//! usage is back at its share, while the running jobs of all others continue. With a half-life, all
//! usage decays at the same rate. If no other jobs run, each member's fraction of all usage
//! therefore stays the same until the usage no longer counts.
//!
//! Usage can decay in steps and windows, so there is no closed formula. The usage is computed for
//! sample times further and further ahead. If it falls to the share between two sample times, the
//! time at which it does so is interpolated linearly.

use super::charged::{Charged, ratio};
use super::tree::ROOT;
use super::{classic, target};
use crate::model::policy::FairShare;
use crate::model::policy::fair_share::Method;
use crate::model::report::share_status::TimeToBalance;
use crate::model::time::{Span, Time};
use crate::sched::share_tree::usage::UsageTable;

/// How far ahead the usage is computed if usage never expires.
const FAR: Span = Span::seconds(10 * 365 * 24 * 3600);
/// How far ahead the usage is computed at most.
const FARTHEST: Span = Span::seconds(100 * 365 * 24 * 3600);

/// The ratio of successive sample times.
const STEP: f64 = 1.02;

/// The tolerance for rounding errors.
const ROUNDING: f64 = 1e-9;

/// The input for the time to balance: the usage of all members and how it will change.
pub struct UsageTrend<'a> {
    pub charged: &'a Charged,
    pub policy: &'a FairShare,
    pub usage: &'a UsageTable,
    /// The place (node of the tree) of each member, in the order of the usage table; None if the
    /// tree has no place for the member.
    pub places: &'a [Option<usize>],
    pub now: Time,
}

/// The decayed usage of each place at a later time, including all places below it.
struct DecayedSums {
    /// The usage if no jobs run at the place from now on.
    idle: Vec<f64>,
    /// The usage if all running jobs continue.
    continuing: Vec<f64>,
}

impl DecayedSums {
    /// The usage of a place above or equal to the place `idle`, if no jobs run at `idle` and all
    /// other running jobs continue.
    fn usage(&self, place: usize, idle: usize) -> f64 {
        (self.continuing[place] - self.continuing[idle] + self.idle[idle]).max(0.0)
    }

    fn used(&self, place: usize, idle: usize) -> f64 {
        ratio(self.usage(place, idle), self.usage(ROOT, idle))
    }
}

impl UsageTrend<'_> {
    /// The time to balance of each place.
    pub fn balances(&self) -> Vec<TimeToBalance> {
        let entitlements = self.charged.entitlements();
        let mut last = self.excesses(Span(0), &entitlements);
        let mut balances: Vec<TimeToBalance> = last
            .iter()
            .map(|excess| {
                if *excess <= ROUNDING {
                    TimeToBalance::Kept
                } else {
                    TimeToBalance::Never
                }
            })
            .collect();
        let (mut before, mut after) = (Span(0), Span::seconds(1));
        let far = self.usage.rules().counts_for().unwrap_or(FAR).min(FARTHEST);
        while before < far && balances.contains(&TimeToBalance::Never) {
            let excesses = self.excesses(after, &entitlements);
            for (place, balance) in balances
                .iter_mut()
                .enumerate()
                .filter(|(_, known)| **known == TimeToBalance::Never)
            {
                if excesses[place] <= ROUNDING {
                    *balance = TimeToBalance::After(crossing(
                        (before, last[place]),
                        (after, excesses[place]),
                    ));
                }
            }
            (before, last) = (after, excesses);
            after = Span((after.0 as f64 * STEP) as i64 + 1).min(far.max(before));
        }
        balances
    }

    /// How far the usage of each place will be above its share after this time, if no jobs run at
    /// the place. The unit is the fraction that the method compares; 0 or less means at or below
    /// the share.
    fn excesses(&self, after: Span, entitlements: &[f64]) -> Vec<f64> {
        let mut sums = DecayedSums {
            idle: vec![0.0; entitlements.len()],
            continuing: vec![0.0; entitlements.len()],
        };
        for (entry, (idle, continuing)) in self
            .places
            .iter()
            .zip(self.usage.ahead(self.now, self.now + after))
        {
            let Some(entry) = *entry else { continue };
            sums.idle[entry] += idle;
            sums.continuing[entry] += continuing;
        }
        self.charged.tree.sum_up(&mut sums.idle);
        self.charged.tree.sum_up(&mut sums.continuing);
        let places = self
            .charged
            .places()
            .map(|place| self.excess(&sums, place, entitlements[place]));
        std::iter::once(0.0).chain(places).collect()
    }

    fn excess(&self, sums: &DecayedSums, place: usize, entitlement: f64) -> f64 {
        let tree = self.charged;
        match self.policy.method {
            Method::Off => 0.0,
            Method::Linear => sums.used(place, place) - entitlement,
            Method::Classic => self.effective_usage(sums, place, place) - entitlement,
            Method::Tree => tree.part(place).map_or(0.0, |part| {
                ratio(
                    sums.usage(place, place),
                    sums.usage(tree.above(place), place),
                ) - part
            }),
            Method::Target => {
                let percent = 100.0 * sums.used(place, place);
                -target::delta(
                    target::of(tree, place, entitlement),
                    percent,
                    self.policy.distance,
                ) / 100.0
            }
        }
    }

    /// The effective usage of a place with method `classic`, if no jobs run at the place `idle`.
    fn effective_usage(&self, sums: &DecayedSums, place: usize, idle: usize) -> f64 {
        let above = self.charged.above(place);
        match self.charged.part(place) {
            None if above == ROOT => 1.0,
            None => self.effective_usage(sums, above, idle),
            Some(_) if above == ROOT => sums.used(place, idle),
            Some(part) => classic::effective(
                sums.used(place, idle),
                self.effective_usage(sums, above, idle),
                part,
            ),
        }
    }
}

/// The time at which a straight line from (`before`, `high`) to (`after`, `low`) crosses 0.
fn crossing((before, high): (Span, f64), (after, low): (Span, f64)) -> Span {
    let part = ratio(high, high - low.min(0.0)).clamp(0.0, 1.0);
    Span(before.0 + ((after.0 - before.0) as f64 * part).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_is_interpolated_linearly() {
        let from_100 = |high, low| crossing((Span(100), high), (Span(200), low)).0;
        assert_eq!(
            [from_100(0.5, -0.5), from_100(0.3, -0.1), from_100(0.3, 0.0)],
            [150, 175, 200]
        );
        assert_eq!((from_100(0.0, -0.5), from_100(0.3, 1e-12)), (100, 200));
    }
}
