//! So much for each user in a round of a minute, and of the rest one message at its end: nobody is
//! flooded by what happens to a thousand jobs at once.

use crate::model::time::Span;
use std::collections::BTreeMap;

/// Messages to one user in one round, and how long a round is.
pub const MOST: usize = 20;
/// How long a round is.
pub const ROUND: Span = Span::seconds(60);

/// What is told at the end of a round in place of what was too much.
pub trait Fold: Default {
    /// A message.
    type Message;

    /// Takes in one more.
    fn fold(&mut self, message: Self::Message);

    /// The message about all of them to this user; None if there was none.
    fn told(self, user: String) -> Option<Self::Message>;
}

/// What each user has been sent lately.
#[derive(Debug)]
pub struct RateLimit<F>(BTreeMap<String, Round<F>>);

#[derive(Debug)]
struct Round<F> {
    end: Span,
    sent: usize,
    folded: F,
}

impl<F> Default for RateLimit<F> {
    fn default() -> RateLimit<F> {
        RateLimit(BTreeMap::new())
    }
}

impl<F: Fold> RateLimit<F> {
    /// The message, if it is to be sent now; else it is kept for the end of the round.
    pub fn take(&mut self, user: &str, message: F::Message, now: Span) -> Option<F::Message> {
        let round = self.0.entry(user.to_string()).or_insert_with(|| Round {
            end: Span(now.0.saturating_add(ROUND.0)),
            sent: 0,
            folded: F::default(),
        });
        if round.sent < MOST {
            round.sent += 1;
            return Some(message);
        }
        round.folded.fold(message);
        None
    }

    /// The messages of rounds that are over.
    pub fn due(&mut self, now: Span) -> Vec<F::Message> {
        let over: Vec<String> = self
            .0
            .iter()
            .filter(|(_, round)| round.end <= now)
            .map(|(user, _)| user.clone())
            .collect();
        let rounds = over
            .into_iter()
            .filter_map(|user| self.0.remove_entry(&user));
        rounds
            .filter_map(|(user, round)| round.folded.told(user))
            .collect()
    }

    /// When the next round is over.
    pub fn next(&self) -> Option<Span> {
        self.0.values().map(|round| round.end).min()
    }
}
