//! Rate limit of messages. About the jobs of each user, up to 20 messages are sent per period of a
//! minute, and one summary of all further messages at the end of the period.

use crate::model::time::Span;
use std::collections::BTreeMap;

/// Maximum number of messages about the jobs of a user in one period, besides the summary.
pub const MAX_MESSAGES: usize = 20;
/// Length of a period. A user's period starts with the first message after the last period.
pub const PERIOD: Span = Span::seconds(60);

/// A summary of the messages above the limit.
pub trait Fold: Default {
    /// The type of the messages.
    type Message;

    /// Adds a message.
    fn fold(&mut self, message: Self::Message);

    /// The summary for this user; None if there were no messages.
    fn summary(self, user: String) -> Option<Self::Message>;
}

/// The current period of each user.
#[derive(Debug)]
pub struct RateLimit<F>(BTreeMap<String, Period<F>>);

#[derive(Debug)]
struct Period<F> {
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
    /// Returns the message if the limit allows it. Otherwise adds the message to the summary of
    /// the user's current period.
    pub fn allow(&mut self, user: &str, message: F::Message, now: Span) -> Option<F::Message> {
        let period = self.0.entry(user.to_string()).or_insert_with(|| Period {
            end: Span(now.0.saturating_add(PERIOD.0)),
            sent: 0,
            folded: F::default(),
        });
        if period.sent < MAX_MESSAGES {
            period.sent += 1;
            return Some(message);
        }
        period.folded.fold(message);
        None
    }

    /// Takes the summaries of the periods that have ended.
    pub fn due(&mut self, now: Span) -> Vec<F::Message> {
        let ended: Vec<String> = self
            .0
            .iter()
            .filter(|(_, period)| period.end <= now)
            .map(|(user, _)| user.clone())
            .collect();
        let periods = ended
            .into_iter()
            .filter_map(|user| self.0.remove_entry(&user));
        periods
            .filter_map(|(user, period)| period.folded.summary(user))
            .collect()
    }

    /// When the first of the current periods ends; None without a current period.
    pub fn next(&self) -> Option<Span> {
        self.0.values().map(|period| period.end).min()
    }
}
