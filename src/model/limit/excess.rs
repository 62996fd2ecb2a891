//! Limit that a job would exceed: the amounts, and the text for users.
//!
//! For a limit that PBS also has, the text is PBS's, because tools depend on it. PBS limits the
//! running jobs of a user, a group, a project or all users, in a queue or on the server.

use super::{LimitKey, LimitScope, LimitStage, Quantity, Selector};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of the selectors of a scope, in order.
const KINDS: [&str; 6] = ["queue", "user", "group", "project", "account", "qos"];

impl LimitScope {
    /// Returns the kinds and names of a key of this scope: `[("queue", "batch"), ("user",
    /// "ann")]`.
    pub fn names<'a>(&self, key: &'a LimitKey) -> Vec<(&'static str, &'a str)> {
        KINDS
            .into_iter()
            .zip(self.selectors())
            .filter(|(_, selector)| **selector != Selector::All)
            .zip(key)
            .map(|((kind, _), name)| (kind, name.as_str()))
            .collect()
    }

    /// Describes the scope: `user ann in queue batch`, `all jobs`.
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

/// Limit that a job would exceed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitExcess {
    /// Scope of the limit: the jobs that count together.
    pub scope: LimitScope,
    /// Stage at which the limit applies.
    #[serde(rename = "counts")]
    pub stage: LimitStage,
    /// Limited quantity, such as jobs or processors.
    pub quantity: Quantity,
    /// Subject of the limit: a name for each selector other than `All`.
    #[serde(rename = "whom")]
    pub key: LimitKey,
    /// Amount that the job would add, as displayed.
    pub asked: String,
    /// Amount used, as displayed.
    pub used: String,
    /// Value of the limit, as displayed.
    pub most: String,
    /// True for a soft limit. Jobs above a soft limit start after all jobs within their soft limits
    /// (M23).
    pub soft: bool,
    /// Jobs that count toward the limit, at most [`LimitExcess::MOST`].
    pub by: Vec<JobId>,
    /// Number of further jobs that count toward the limit.
    pub more: u64,
    /// Time at which the usage has decreased enough for the job, even if no job ends (M21). None if
    /// there is no such time: the usage does not decrease with time, it has no bound because a job
    /// has no known end, or the job alone exceeds the limit.
    pub until: Option<Time>,
}

impl LimitExcess {
    /// Maximum number of jobs in `by`.
    pub const MOST: usize = 8;

    /// Tests whether the limit applies to one user, group, project, account or quality, not to
    /// all jobs in a queue or on the server (I13).
    pub fn is_personal(&self) -> bool {
        self.scope.selectors()[1..]
            .iter()
            .any(|selector| **selector != Selector::All)
    }

    /// Returns the kinds and names of the subject: `[("queue", "batch"), ("user", "ann")]`.
    pub fn names(&self) -> Vec<(&'static str, &str)> {
        self.scope.names(&self.key)
    }

    /// Describes the subject: `user ann in queue batch`, `all jobs`.
    pub fn scope_text(&self) -> String {
        self.scope.scope_text(&self.key)
    }

    fn queue(&self) -> Option<&str> {
        self.names()
            .into_iter()
            .find(|(kind, _)| *kind == "queue")
            .map(|(_, name)| name)
    }

    /// Returns the subject in PBS's terms: kind, name, and whether the limit is for this name only;
    /// the inner None means all jobs. The outer None means a limit that PBS does not have.
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

/// Formats the text for the comment of a job.
impl fmt::Display for LimitExcess {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.in_pbs(), &self.quantity) {
            (Some(subject), Quantity::Jobs) => self.write_jobs(f, subject)?,
            (Some(subject), _) => self.write_amount(f, subject)?,
            (None, quantity) => {
                let (stage, what, scope) = (self.stage.name(), quantity.name(), self.scope_text());
                let (used, most, asked) = (&self.used, &self.most, &self.asked);
                write!(
                    f,
                    "Limit on {stage} {what} of {scope} would be exceeded \
                     ({used} of {most} in use, this job adds {asked})"
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

    /// Creates a limit of 2 running jobs that user ann has reached.
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

    fn formatted(scope: LimitScope, key: &[&str], quantity: &str) -> String {
        let key = key.iter().map(ToString::to_string).collect();
        LimitExcess {
            scope,
            key,
            quantity: Quantity::from(quantity.to_string()),
            ..of_user()
        }
        .to_string()
    }

    /// I19: tools depend on these texts.
    #[test]
    fn limits_that_pbs_has_are_described_as_in_pbs() {
        let all = LimitScope::default;
        let (batch, each) = (|| named("batch"), || Selector::Each);
        assert_eq!(
            formatted(all(), &[], "jobs"),
            "Server job limit has been reached."
        );
        let queue = LimitScope {
            queue: batch(),
            ..all()
        };
        assert_eq!(
            formatted(queue.clone(), &["batch"], "jobs"),
            "Queue batch job limit has been reached."
        );
        assert_eq!(
            formatted(queue.clone(), &["batch"], "mem"),
            "would exceed overall limit on resource mem in queue batch"
        );
        let user = LimitScope {
            user: each(),
            ..all()
        };
        assert_eq!(
            formatted(user.clone(), &["ann"], "jobs"),
            "User has reached server running job limit."
        );
        assert_eq!(
            formatted(user, &["ann"], "mem"),
            "Server per-user limit reached on resource mem"
        );
        let both = LimitScope {
            queue: batch(),
            user: each(),
            ..all()
        };
        assert_eq!(
            formatted(both.clone(), &["batch", "ann"], "jobs"),
            "User has reached queue batch running job limit."
        );
        assert_eq!(
            formatted(both, &["batch", "ann"], "ncpus"),
            "Queue batch per-user limit reached on resource ncpus"
        );
        let ann = LimitScope {
            user: named("ann"),
            ..all()
        };
        assert_eq!(
            formatted(ann.clone(), &["ann"], "jobs"),
            "Server job limit reached for user ann"
        );
        assert_eq!(
            formatted(ann, &["ann"], "ncpus"),
            "would exceed user ann's limit on resource ncpus in complex"
        );
        let group = LimitScope {
            queue: each(),
            group: each(),
            ..all()
        };
        assert_eq!(
            formatted(group, &["batch", "staff"], "jobs"),
            "Group has reached queue batch running limit."
        );
        let project = LimitScope {
            queue: each(),
            project: each(),
            ..all()
        };
        assert_eq!(
            formatted(project, &["batch", "P1"], "jobs"),
            "Project has reached queue batch's running limit."
        );
        let project = LimitScope {
            queue: batch(),
            project: named("P1"),
            ..all()
        };
        assert_eq!(
            formatted(project, &["batch", "P1"], "jobs"),
            "Queue batch job limit reached for project P1"
        );
    }

    /// M24, P9: limits that PBS does not have.
    #[test]
    fn other_limits_are_described_with_scope_and_usage() {
        let account = LimitScope {
            queue: named("batch"),
            account: Selector::Each,
            ..LimitScope::default()
        };
        let expected = "Limit on running pe of account P1 in queue batch would be exceeded \
                        (2 of 2 in use, this job adds 1)";
        assert_eq!(formatted(account, &["batch", "P1"], "pe"), expected);
        let idle = LimitExcess {
            stage: LimitStage::Idle,
            soft: true,
            ..of_user()
        };
        assert_eq!(
            idle.to_string(),
            "Limit on idle jobs of user ann would be exceeded (2 of 2 in use, this job adds 1) \
             (soft limit)"
        );
        let of_all_jobs = LimitExcess {
            stage: LimitStage::Idle,
            scope: LimitScope::default(),
            key: vec![],
            ..of_user()
        };
        assert_eq!(
            of_all_jobs.to_string(),
            "Limit on idle jobs of all jobs would be exceeded (2 of 2 in use, this job adds 1)"
        );
    }
}
