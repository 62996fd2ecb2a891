//! Whose jobs a limit counts together, in words.

use super::{LimitKey, LimitScope, Selector};

/// The selectors, as people name them.
pub(super) const KINDS: [&str; 6] = ["queue", "user", "group", "project", "account", "qos"];

impl LimitScope {
    /// Those it counts for, each with what it is: `[("queue", "batch"), ("user", "ann")]`.
    pub fn names<'a>(&self, whom: &'a LimitKey) -> Vec<(&'static str, &'a str)> {
        let kinds = KINDS.into_iter().zip(self.selectors());
        let meant = kinds
            .filter(|(_, selector)| **selector != Selector::All)
            .map(|(kind, _)| kind);
        meant.zip(whom.iter().map(String::as_str)).collect()
    }

    /// For whom it is, in words: `user ann in queue batch`, `all jobs`.
    pub fn scope_text(&self, whom: &LimitKey) -> String {
        let names = self.names(whom);
        let people = names
            .iter()
            .filter(|(kind, _)| *kind != "queue")
            .map(|(kind, name)| format!("{kind} {name}"));
        let people = people.collect::<Vec<_>>().join(", ");
        let people = if people.is_empty() {
            "all jobs".to_string()
        } else {
            people
        };
        match names.iter().find(|(kind, _)| *kind == "queue") {
            Some((_, queue)) => format!("{people} in queue {queue}"),
            None => people,
        }
    }
}
