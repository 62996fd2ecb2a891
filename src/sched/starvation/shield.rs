//! Who is left alone (Y27): whoever starves, or has less than a threshold of what it is owed, loses nothing to
//! others; nor does anybody in a pool of which this is true, but to those in the same pool.

use super::fair::{Entitled, FairShares, Party};
use super::fasting::{Fasting, Hunger, Subject};
use super::groups::ROUNDING;
use crate::model::time::Time;

/// What is asked for all: since when others are below, and below which satisfaction nobody loses anything.
pub struct Shield<'a> {
    pub shares: &'a FairShares,
    pub fasting: &'a Fasting,
    pub threshold: f64,
    pub now: Time,
}

impl Shield<'_> {
    /// Whether somebody may lose something to another.
    pub fn lets(&self, victim: Party, newcomer: Party) -> bool {
        if victim == newcomer || self.is_blocked(Subject::Party(victim), self.shares.entitled(victim)) {
            return false;
        }
        let line = self.shares.line(victim);
        let is_blocked = |pool: &&String| self.is_blocked(Subject::Pool(pool.to_string()), self.shares.of_pool(pool));
        // Who is in the lowest such pool is in all above it.
        line.iter().find(is_blocked).is_none_or(|pool| self.shares.line(newcomer).contains(pool))
    }

    fn is_blocked(&self, subject: Subject, entitled: Option<Entitled>) -> bool {
        let is_short = entitled.is_some_and(|entitled| entitled.satisfaction() < self.threshold - ROUNDING);
        is_short || self.shares.hunger(&subject, self.fasting, self.now) != Hunger::None
    }
}
