//! Messages for exceeded limits on queued jobs: PBS's text, then the amounts in parentheses.

use crate::model::limit::{Limit, LimitKey, LimitStage, Quantity, Selector};
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceValue, Resources};

/// Limit that a job would exceed.
pub(super) struct QueuedExcess<'a> {
    pub limit: &'a Limit,
    /// Key of the jobs that count together.
    pub key: &'a LimitKey,
    /// Amount used.
    pub used: i64,
    /// Amount that the job would add.
    pub added: i64,
    /// Queue of the job.
    pub queue: &'a str,
    pub resources: &'a Resources,
}

impl QueuedExcess<'_> {
    /// Returns the refusal for an exceeded hard limit of `most`.
    pub fn refusal(&self, most: i64) -> Refusal {
        let text = format!("{} ({})", self.text(), self.count(most));
        if self.limit.quantity == Quantity::Jobs {
            Refusal::too_many(text)
        } else {
            Refusal::too_much(text)
        }
    }

    /// Returns the warning for an exceeded soft limit of `most`.
    pub fn note(&self, most: i64) -> String {
        format!(
            "warning: soft limit: {} ({})",
            self.text(),
            self.count(most)
        )
    }

    fn text(&self) -> String {
        let is_of_queue = self.limit.scope.queue != Selector::All;
        let place = if is_of_queue {
            format!("queue {}", self.queue)
        } else {
            "complex".to_string()
        };
        if self.limit.quantity == Quantity::Jobs {
            self.jobs_text(&place)
        } else {
            self.amount_text(&place)
        }
    }

    /// Formats a limit on jobs, such as `would exceed queue workq's per-user limit`.
    fn jobs_text(&self, place: &str) -> String {
        let each = self.each();
        if !each.is_empty() {
            let waiting = self.waiting(" of jobs in 'Q' state");
            return format!("would exceed {place}'s {each} limit{waiting}");
        }
        let waiting = self.waiting(" in 'Q' state");
        let mut named = self.named();
        if !named.is_empty() {
            named = format!(" for {named}");
        }
        format!("Maximum number of jobs{waiting}{named} already in {place}")
    }

    /// Formats a limit on an amount, such as `would exceed user ann's limit on resource mem in
    /// complex`.
    fn amount_text(&self, place: &str) -> String {
        let owner = match (self.each(), self.named()) {
            (each, _) if !each.is_empty() => format!("{each} "),
            (_, named) if !named.is_empty() => format!("{named}'s "),
            _ => String::new(),
        };
        let resource = self.limit.quantity.name();
        let waiting = self.waiting(" for jobs in 'Q' state");
        format!("would exceed {owner}limit on resource {resource} in {place}{waiting}")
    }

    /// Returns `per-user`, `per-group` and so on for a limit that counts each name separately;
    /// otherwise empty.
    fn each(&self) -> String {
        let kinds: Vec<String> = self
            .kinds()
            .into_iter()
            .filter(|(_, selector)| **selector == Selector::Each)
            .map(|(kind, _)| format!("per-{kind}"))
            .collect();
        kinds.join(" ")
    }

    /// Returns `user ann` and so on for a limit that selects by name; otherwise empty.
    fn named(&self) -> String {
        let named = self
            .kinds()
            .into_iter()
            .filter_map(|(kind, selector)| match selector {
                Selector::Named(name) => Some(format!("{kind} {name}")),
                _ => None,
            });
        named.collect::<Vec<_>>().join(" ")
    }

    fn kinds(&self) -> [(&'static str, &Selector); 5] {
        let scope = &self.limit.scope;
        [
            ("user", &scope.user),
            ("group", &scope.group),
            ("project", &scope.project),
            ("account", &scope.account),
            ("qos", &scope.qos),
        ]
    }

    /// Returns `text` for a limit on waiting jobs; otherwise empty.
    fn waiting(&self, text: &'static str) -> &'static str {
        if self.limit.stage == LimitStage::Waiting {
            text
        } else {
            ""
        }
    }

    /// Formats `ann: 10 of 10 in use, 1 more requested`.
    fn count(&self, most: i64) -> String {
        let is_of_queue = self.limit.scope.queue != Selector::All;
        let owner = self
            .key
            .iter()
            .skip(usize::from(is_of_queue))
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ");
        let owner = if owner.is_empty() {
            owner
        } else {
            format!("{owner}: ")
        };
        let [used, most, added] = [self.used, most, self.added].map(|amount| self.shown(amount));
        format!("{owner}{used} of {most} in use, {added} more requested")
    }

    fn shown(&self, amount: i64) -> String {
        let Quantity::Resource(name) = &self.limit.quantity else {
            return amount.to_string();
        };
        self.resources.get(name).map_or_else(
            || amount.to_string(),
            |definition| ResourceValue::of_amount(definition.kind, amount).to_string(),
        )
    }
}
