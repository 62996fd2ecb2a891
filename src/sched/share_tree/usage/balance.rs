//! What is left of stretches of usage as of a moment, from which follows what is left at any later
//! one.

use crate::model::account::charge::UsageRules;
use crate::model::account::decay::{UsageInterval, total};
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A sum that fades.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecayingSum {
    at: Time,
    /// By window, none of it forgotten, where windows are forgotten each by its age; else one sum
    /// under 0, of which only what is left at the moment is there.
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
    /// Its moment: never before the end of what was added.
    pub fn at(&self) -> Time {
        self.at
    }

    /// From its moment until then.
    pub fn stretch_until(&self, until: Time, rate: f64) -> UsageInterval {
        UsageInterval {
            from: self.at,
            to: until,
            rate,
        }
    }

    /// What is left at `now`, or at its moment if that is later.
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

    /// Adds a stretch, or with a `sign` of -1 takes it out again; its moment is then no earlier
    /// than the end of that.
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
