//! Rate limit of messages: each user gets a number of them per minute, and one summary of the rest
//! at its end.

use crate::model::time::Span;
use std::collections::BTreeMap;

/// Maximum number of messages to a user in one round.
pub const MOST: usize = 20;
/// Length of a round.
pub const ROUND: Span = Span::seconds(60);

/// A summary of the messages above the limit.
pub trait Fold: Default {
    /// The type of the messages.
    type Message;

    /// Adds a message.
    fn fold(&mut self, message: Self::Message);

    /// The summary for this user; None if there were no messages.
    fn summary(self, user: String) -> Option<Self::Message>;
}

/// The current rounds by user.
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
    /// The message, if it may be sent now. Otherwise it is added to the summary.
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

    /// The summaries of rounds that have ended.
    pub fn due(&mut self, now: Span) -> Vec<F::Message> {
        let ended: Vec<String> = self
            .0
            .iter()
            .filter(|(_, round)| round.end <= now)
            .map(|(user, _)| user.clone())
            .collect();
        let rounds = ended
            .into_iter()
            .filter_map(|user| self.0.remove_entry(&user));
        rounds
            .filter_map(|(user, round)| round.folded.summary(user))
            .collect()
    }

    /// When the next round ends.
    pub fn next(&self) -> Option<Span> {
        self.0.values().map(|round| round.end).min()
    }
}
