//! How long somebody who has had more than their share must stay idle, while all others go on at
//! their present rate, until they have had no more than that. With nobody else using anything usage
//! fades alike for all, and nothing changes.
//!
//! Nothing is drawn from one formula, as usage may fade by steps and by windows: moments further
//! and further ahead are looked at, each time at everybody, and between two of them a straight line
//! is drawn.

use super::charged::{Charged, ratio};
use super::tree::ROOT;
use super::{classic, target};
use crate::model::policy::FairShare;
use crate::model::policy::fair_share::Method;
use crate::model::report::share_status::TimeToBalance;
use crate::model::time::{Span, Time};
use crate::sched::share_tree::usage::UsageTable;

/// As far ahead is looked where usage is never forgotten, and at most.
const FAR: Span = Span::seconds(10 * 365 * 24 * 3600);
const FARTHEST: Span = Span::seconds(100 * 365 * 24 * 3600);

/// How much further ahead each moment lies than the one before it.
const STEP: f64 = 1.02;

/// What may be rounding.
const ROUNDING: f64 = 1e-9;

/// The usage of all, as it goes on.
pub struct UsageTrend<'a> {
    pub charged: &'a Charged,
    pub policy: &'a FairShare,
    pub usage: &'a UsageTable,
    /// The place of each member, in the order of the usage's.
    pub seats: &'a [Option<usize>],
    pub now: Time,
}

/// What is left after a while at each place, with all below it.
struct DecayedSums {
    /// If nothing runs there.
    idle: Vec<f64>,
    /// If all goes on.
    going: Vec<f64>,
}

impl DecayedSums {
    /// What is left at a place, or above it, if nothing runs at `idle` while all others go on.
    fn usage(&self, place: usize, idle: usize) -> f64 {
        (self.going[place] - self.going[idle] + self.idle[idle]).max(0.0)
    }

    fn used(&self, place: usize, idle: usize) -> f64 {
        ratio(self.usage(place, idle), self.usage(ROOT, idle))
    }
}

impl UsageTrend<'_> {
    /// For each place.
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

    /// How much more than their share each will have had after a while, as parts of the machine; 0
    /// or less for who will not.
    fn excesses(&self, after: Span, entitlements: &[f64]) -> Vec<f64> {
        let mut sums = DecayedSums {
            idle: vec![0.0; entitlements.len()],
            going: vec![0.0; entitlements.len()],
        };
        for (entry, (idle, going)) in self
            .seats
            .iter()
            .zip(self.usage.ahead(self.now, self.now + after))
        {
            let Some(entry) = *entry else { continue };
            sums.idle[entry] += idle;
            sums.going[entry] += going;
        }
        self.charged.tree.sum_up(&mut sums.idle);
        self.charged.tree.sum_up(&mut sums.going);
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
            Method::Classic => self.held(sums, place, place) - entitlement,
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

    /// What `classic` holds against a place.
    fn held(&self, sums: &DecayedSums, place: usize, idle: usize) -> f64 {
        let above = self.charged.above(place);
        match self.charged.part(place) {
            None if above == ROOT => 1.0,
            None => self.held(sums, above, idle),
            Some(_) if above == ROOT => sums.used(place, idle),
            Some(part) => {
                classic::effective(sums.used(place, idle), self.held(sums, above, idle), part)
            }
        }
    }
}

/// When a straight line from one point to another, below it, is at 0.
fn crossing((before, high): (Span, f64), (after, low): (Span, f64)) -> Span {
    let part = ratio(high, high - low.min(0.0)).clamp(0.0, 1.0);
    Span(before.0 + ((after.0 - before.0) as f64 * part).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_moments_a_straight_line_is_drawn() {
        let from_100 = |high, low| crossing((Span(100), high), (Span(200), low)).0;
        assert_eq!(
            [from_100(0.5, -0.5), from_100(0.3, -0.1), from_100(0.3, 0.0)],
            [150, 175, 200]
        );
        assert_eq!((from_100(0.0, -0.5), from_100(0.3, 1e-12)), (100, 200));
    }
}
