//! A decaying sum of usage at a time, from which the sum at any later time can be computed.

use crate::model::account::charge::UsageRules;
use crate::model::account::decay::{UsageInterval, total};
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A sum of usage that decays over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecayingSum {
    /// The time of the sum.
    at: Time,
    /// If usage decays by windows, the usage in each window, without decay. Otherwise one decayed
    /// sum under the key 0.
    parts: BTreeMap<i64, f64>,
}

impl Default for DecayingSum {
    fn default() -> DecayingSum {
        DecayingSum {
            at: Time(i64::MIN),
            parts: BTreeMap::new(),
        }
    }
}

impl DecayingSum {
    /// The time of the sum. It is never earlier than the end of an added interval.
    pub fn at(&self) -> Time {
        self.at
    }

    /// An interval of usage from the time of the sum until `until`, with this rate.
    pub fn stretch_until(&self, until: Time, rate: f64) -> UsageInterval {
        UsageInterval {
            from: self.at,
            to: until,
            rate,
        }
    }

    /// The decayed sum at `now`, or at the time of the sum if that is later; 0 if all usage was
    /// reset after the time of the sum.
    pub fn left(&self, now: Time, rules: &UsageRules) -> f64 {
        let now = now.max(self.at);
        if rules.since(now) > self.at {
            return 0.0;
        }
        match rules.decay.part(self.at, now) {
            Some(part) => total(self.parts.values().copied()) * part,
            None => total(
                self.parts
                    .iter()
                    .map(|(&window, amount)| amount * rules.decay.weight(window, now)),
            ),
        }
    }

    /// Adds an interval of usage, or subtracts it if `sign` is -1. If the interval ends after the
    /// time of the sum, its end becomes the time of the sum.
    pub fn add(&mut self, stretch: UsageInterval, sign: f64, rules: &UsageRules) {
        self.advance(stretch.to, rules);
        let counted = rules.counted(stretch, self.at);
        match rules.decay.part(self.at, self.at) {
            Some(_) => {
                *self.parts.entry(0).or_default() += sign * rules.decay.left(counted, self.at)
            }
            None => {
                let pieces = rules.decay.windows(counted, self.at);
                for (window, amount) in pieces {
                    *self.parts.entry(window).or_default() += sign * amount
                }
            }
        }
    }

    fn advance(&mut self, to: Time, rules: &UsageRules) {
        if to <= self.at {
            return;
        }
        if rules.since(to) > self.at {
            self.parts.clear();
        }
        match rules.decay.part(self.at, to) {
            Some(part) => self.parts.values_mut().for_each(|sum| *sum *= part),
            None => self
                .parts
                .retain(|&window, _| rules.decay.weight(window, to) != 0.0),
        }
        self.at = to;
    }
}
