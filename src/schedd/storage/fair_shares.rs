//! The fair-share priorities of the last cycle (I7), stored in one row of the spool for `qstat -f`.
//! The priorities change with any usage, so they are written with a delay.

use crate::model::account::member::Member;
use crate::model::time::Span;
use crate::schedd::timers::FIGURES;
use crate::update::Update;
use crate::wire::message::ServerFacts;

/// The current and the stored priorities.
#[derive(Default)]
pub struct StoredFairShares {
    latest: Vec<(Member, f64)>,
    /// The stored priorities; None until the first write, because an earlier schedd may have stored
    /// other ones.
    written: Option<Vec<(Member, f64)>>,
    due: Option<Span>,
    is_being_written: bool,
}

impl StoredFairShares {
    /// Sets the priorities of a cycle. Returns when the priorities must be written; None if they
    /// are stored already. `now` is monotonic time.
    pub fn update(&mut self, latest: Vec<(Member, f64)>, now: Span) -> Option<Span> {
        let is_new = self.written.as_ref() != Some(&latest);
        self.latest = latest;
        self.due = is_new.then(|| self.due.unwrap_or(now + FIGURES));
        self.due
    }

    /// The update with changed priorities, if it is due.
    pub fn change(&mut self, now: Span) -> Option<Update> {
        self.is_being_written = self.due.is_some_and(|due| due <= now);
        if !self.is_being_written {
            return None;
        }
        let text = serde_json::to_string(&self.latest).ok()?;
        Some(Update::Meta(ServerFacts::FAIR_SHARES, text))
    }

    /// Marks the update as written. Returns when the next update is due; None if the latest
    /// priorities are stored.
    pub fn written(&mut self) -> Option<Span> {
        if std::mem::take(&mut self.is_being_written) {
            (self.written, self.due) = (Some(self.latest.clone()), None);
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_priorities_are_written_every_two_seconds_and_constant_ones_once() {
        let (mut shares, mut written) = (StoredFairShares::default(), Vec::new());
        for tenth in 0..100 {
            let (now, value) = (Span(100 * tenth), tenth.min(45) as f64);
            let due = shares.update(vec![(Member::new("a", "ann"), value)], now);
            written.extend(shares.change(now).map(|_| (tenth, value)));
            assert_eq!(
                shares.written().is_some(),
                due.is_some_and(|due| due > now),
                "{tenth}"
            );
        }
        assert_eq!(written, [(20, 20.0), (41, 41.0), (62, 45.0)]);
    }

    #[test]
    fn a_change_is_written_again_until_it_is_stored() {
        let mut shares = StoredFairShares::default();
        assert_eq!(
            shares.update(Vec::new(), Span(0)),
            Some(FIGURES),
            "an earlier schedd may have stored priorities"
        );
        assert!(shares.change(FIGURES).is_some() && shares.change(FIGURES).is_some());
        assert_eq!(
            (shares.written(), shares.change(FIGURES).is_some()),
            (None, false)
        );
        assert_eq!(shares.update(Vec::new(), FIGURES), None);
    }
}
