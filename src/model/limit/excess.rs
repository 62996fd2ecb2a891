//! What of a limit a job would exceed: the numbers behind "has reached its limit".
//!
//! The text is PBS's wherever PBS has such a limit: on what runs of one user, group or project or
//! of all, in a queue or everywhere. Tools go by it.

use super::{LimitKey, LimitScope, LimitStage, Quantity, Selector};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The names of the selectors.
const KINDS: [&str; 6] = ["queue", "user", "group", "project", "account", "qos"];

impl LimitScope {
    /// The kinds and names of a key of this scope: `[("queue", "batch"), ("user", "ann")]`.
    pub fn names<'a>(&self, key: &'a LimitKey) -> Vec<(&'static str, &'a str)> {
        KINDS
            .into_iter()
            .zip(self.selectors())
            .filter(|(_, selector)| **selector != Selector::All)
            .zip(key)
            .map(|((kind, _), name)| (kind, name.as_str()))
            .collect()
    }

    /// The scope in words: `user ann in queue batch`, `all jobs`.
    pub fn scope_text(&self, key: &LimitKey) -> String {
        let names = self.names(key);
        let owners: Vec<String> = names
            .iter()
            .filter(|(kind, _)| *kind != "queue")
            .map(|(kind, name)| format!("{kind} {name}"))
            .collect();
        let mut text = owners.join(", ");
        if text.is_empty() {
            text.push_str("all jobs");
        }
        if let Some((_, queue)) = names.iter().find(|(kind, _)| *kind == "queue") {
            text.push_str(&format!(" in queue {queue}"));
        }
        text
    }
}

/// A limit that a job would exceed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitExcess {
    /// Whose jobs count together.
    pub scope: LimitScope,
    /// Which of them.
    #[serde(rename = "counts")]
    pub stage: LimitStage,
    /// What of them.
    pub quantity: Quantity,
    /// The subject of the limit: a name for each selector that is not for all.
    #[serde(rename = "whom")]
    pub key: LimitKey,
    /// What the job would add, as shown.
    pub asked: String,
    /// What is used, as shown.
    pub used: String,
    /// What there may be, as shown.
    pub most: String,
    /// Whether more will be let through once nobody is left who is within the soft limits (M23).
    pub soft: bool,
    /// The jobs that use it, at most [`LimitExcess::MOST`].
    pub by: Vec<JobId>,
    /// How many more do.
    pub more: u64,
    /// When enough of it is left by the passing of time alone, where that is so (M21).
    pub until: Option<Time>,
}

impl LimitExcess {
    /// How many jobs are named at most.
    pub const MOST: usize = 8;

    /// Whether it is of somebody's own, and not of everybody together, in a queue or everywhere
    /// (I13).
    pub fn is_personal(&self) -> bool {
        self.scope.selectors()[1..]
            .iter()
            .any(|selector| **selector != Selector::All)
    }

    /// Whom it counts for, each with what it is: `[("queue", "batch"), ("user", "ann")]`.
    pub fn names(&self) -> Vec<(&'static str, &str)> {
        self.scope.names(&self.key)
    }

    /// For whom it is, in words: `user ann in queue batch`, `all jobs`.
    pub fn scope_text(&self) -> String {
        self.scope.scope_text(&self.key)
    }

    fn queue(&self) -> Option<&str> {
        self.names()
            .into_iter()
            .find(|(kind, _)| *kind == "queue")
            .map(|(_, name)| name)
    }

    /// Whom PBS has a limit for: nobody for all, else what he is, his name, and whether that is
    /// given. None for limits that PBS does not have.
    fn in_pbs(&self) -> Option<Option<(&'static str, &str, bool)>> {
        let selectors = KINDS.into_iter().zip(self.scope.selectors()).skip(1);
        let mut people = selectors.filter(|(_, selector)| **selector != Selector::All);
        let (first, second) = (people.next(), people.next());
        if self.stage != LimitStage::Running || second.is_some() {
            return None;
        }
        let Some((kind, selector)) = first else {
            return Some(None);
        };
        let is_known = matches!(kind, "user" | "group" | "project");
        is_known.then(|| {
            Some((
                kind,
                self.key.last().map_or("", String::as_str),
                matches!(selector, Selector::Named(_)),
            ))
        })
    }

    fn write_jobs(
        &self,
        f: &mut fmt::Formatter,
        subject: Option<(&str, &str, bool)>,
    ) -> fmt::Result {
        match (subject, self.queue()) {
            (None, None) => f.write_str("Server job limit has been reached."),
            (None, Some(queue)) => write!(f, "Queue {queue} job limit has been reached."),
            (Some((kind, name, true)), None) => {
                write!(f, "Server job limit reached for {kind} {name}")
            }
            (Some((kind, name, true)), Some(queue)) => {
                write!(f, "Queue {queue} job limit reached for {kind} {name}")
            }
            (Some(("user", ..)), None) => f.write_str("User has reached server running job limit."),
            (Some(("user", ..)), Some(queue)) => {
                write!(f, "User has reached queue {queue} running job limit.")
            }
            (Some(("group", ..)), None) => f.write_str("Group has reached server running limit."),
            (Some(("group", ..)), Some(queue)) => {
                write!(f, "Group has reached queue {queue} running limit.")
            }
            (Some(_), None) => f.write_str("Project has reached server running limit."),
            (Some(_), Some(queue)) => {
                write!(f, "Project has reached queue {queue}'s running limit.")
            }
        }
    }

    fn write_amount(
        &self,
        f: &mut fmt::Formatter,
        subject: Option<(&str, &str, bool)>,
    ) -> fmt::Result {
        let resource = self.quantity.name();
        let place = self
            .queue()
            .map_or("complex".to_string(), |queue| format!("queue {queue}"));
        match subject {
            None => write!(
                f,
                "would exceed overall limit on resource {resource} in {place}"
            ),
            Some((kind, name, true)) => {
                write!(
                    f,
                    "would exceed {kind} {name}'s limit on resource {resource} in {place}"
                )
            }
            Some((kind, ..)) => match self.queue() {
                Some(queue) => write!(
                    f,
                    "Queue {queue} per-{kind} limit reached on resource {resource}"
                ),
                None => write!(f, "Server per-{kind} limit reached on resource {resource}"),
            },
        }
    }
}

/// In words, as the comment of a job has it.
impl fmt::Display for LimitExcess {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.in_pbs(), &self.quantity) {
            (Some(subject), Quantity::Jobs) => self.write_jobs(f, subject)?,
            (Some(subject), _) => self.write_amount(f, subject)?,
            (None, quantity) => {
                let (stage, what, scope) = (self.stage.name(), quantity.name(), self.scope_text());
                let (used, most) = (&self.used, &self.most);
                write!(
                    f,
                    "Limit on {stage} {what} of {scope} has been reached ({used} of {most})"
                )?;
            }
        }
        if self.soft {
            f.write_str(" (soft limit)")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A limit on jobs that run of one user, reached.
    pub fn of_user() -> LimitExcess {
        LimitExcess {
            scope: LimitScope {
                user: Selector::Each,
                ..LimitScope::default()
            },
            stage: LimitStage::Running,
            quantity: Quantity::Jobs,
            key: vec!["ann".to_string()],
            asked: "1".to_string(),
            used: "2".to_string(),
            most: "2".to_string(),
            soft: false,
            by: vec![JobId::job(1), JobId::job(2)],
            more: 0,
            until: None,
        }
    }

    fn named(name: &str) -> Selector {
        Selector::Named(name.to_string())
    }

    fn said(scope: LimitScope, key: &[&str], quantity: &str) -> String {
        let key = key.iter().map(ToString::to_string).collect();
        LimitExcess {
            scope,
            key,
            quantity: Quantity::from(quantity.to_string()),
            ..of_user()
        }
        .to_string()
    }

    /// I19: tools go by these.
    #[test]
    fn what_pbs_limits_too_is_said_in_its_words() {
        let all = LimitScope::default;
        let (batch, each) = (|| named("batch"), || Selector::Each);
        assert_eq!(
            said(all(), &[], "jobs"),
            "Server job limit has been reached."
        );
        let queue = LimitScope {
            queue: batch(),
            ..all()
        };
        assert_eq!(
            said(queue.clone(), &["batch"], "jobs"),
            "Queue batch job limit has been reached."
        );
        assert_eq!(
            said(queue.clone(), &["batch"], "mem"),
            "would exceed overall limit on resource mem in queue batch"
        );
        let user = LimitScope {
            user: each(),
            ..all()
        };
        assert_eq!(
            said(user.clone(), &["ann"], "jobs"),
            "User has reached server running job limit."
        );
        assert_eq!(
            said(user, &["ann"], "mem"),
            "Server per-user limit reached on resource mem"
        );
        let both = LimitScope {
            queue: batch(),
            user: each(),
            ..all()
        };
        assert_eq!(
            said(both.clone(), &["batch", "ann"], "jobs"),
            "User has reached queue batch running job limit."
        );
        assert_eq!(
            said(both, &["batch", "ann"], "ncpus"),
            "Queue batch per-user limit reached on resource ncpus"
        );
        let ann = LimitScope {
            user: named("ann"),
            ..all()
        };
        assert_eq!(
            said(ann.clone(), &["ann"], "jobs"),
            "Server job limit reached for user ann"
        );
        assert_eq!(
            said(ann, &["ann"], "ncpus"),
            "would exceed user ann's limit on resource ncpus in complex"
        );
        let group = LimitScope {
            queue: each(),
            group: each(),
            ..all()
        };
        assert_eq!(
            said(group, &["batch", "staff"], "jobs"),
            "Group has reached queue batch running limit."
        );
        let project = LimitScope {
            queue: each(),
            project: each(),
            ..all()
        };
        assert_eq!(
            said(project, &["batch", "P1"], "jobs"),
            "Project has reached queue batch's running limit."
        );
        let project = LimitScope {
            queue: batch(),
            project: named("P1"),
            ..all()
        };
        assert_eq!(
            said(project, &["batch", "P1"], "jobs"),
            "Queue batch job limit reached for project P1"
        );
    }

    /// M24, P9: what PBS has no words for is said with whose it is and how much is used.
    #[test]
    fn other_limits_are_described_with_scope_and_usage() {
        let account = LimitScope {
            queue: named("batch"),
            account: Selector::Each,
            ..LimitScope::default()
        };
        let expected = "Limit on running pe of account P1 in queue batch has been reached (2 of 2)";
        assert_eq!(said(account, &["batch", "P1"], "pe"), expected);
        let idle = LimitExcess {
            stage: LimitStage::Idle,
            soft: true,
            ..of_user()
        };
        assert_eq!(
            idle.to_string(),
            "Limit on idle jobs of user ann has been reached (2 of 2) (soft limit)"
        );
        let nobody = LimitExcess {
            stage: LimitStage::Idle,
            scope: LimitScope::default(),
            key: vec![],
            ..of_user()
        };
        assert_eq!(
            nobody.to_string(),
            "Limit on idle jobs of all jobs has been reached (2 of 2)"
        );
    }
}
