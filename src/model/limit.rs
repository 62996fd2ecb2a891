//! Limits on running and waiting jobs (M22 to M26, I19, Y24).
//!
//! A limit states which jobs count together ([`LimitScope`]), in which stage ([`LimitStage`]), what
//! it counts ([`Quantity`]), and a soft and a hard value. A limit for a named user replaces the
//! generic per-user limit; likewise for groups, projects and accounts. All other limits that apply
//! to a job hold together.

pub mod excess;

pub mod directory;
pub mod pbs;
pub mod usage;

use crate::model::credentials::{Credentials, NORMAL_QOS};
use directory::Directory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Selection of values of one credential of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Selector {
    /// All values; their jobs count together.
    #[default]
    All,
    /// Each value counts separately.
    Each,
    /// This value only.
    Named(String),
}

/// Jobs that count together: those that match all selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LimitScope {
    /// Selection by queue.
    pub queue: Selector,
    /// Selection by owner.
    pub user: Selector,
    /// Selection by primary group.
    pub group: Selector,
    /// Selection by project.
    pub project: Selector,
    /// Selection by account. Jobs of an account count in all accounts above it (Y24).
    pub account: Selector,
    /// Selection by quality of service.
    pub qos: Selector,
}

/// Stage at which a limit applies, and the jobs that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LimitStage {
    /// Running jobs (M22). Jobs above the limit wait.
    Running,
    /// Waiting jobs that are eligible (M24). Jobs above the limit are not considered.
    Idle,
    /// All unfinished jobs (I19, F21). Submissions above the limit are refused.
    Queued,
    /// Waiting jobs. Submissions above the limit are refused (PBS's `queued_jobs_threshold`).
    Waiting,
}

impl LimitStage {
    /// All stages with their names in `[[limit]]`.
    pub const ALL: [(&str, LimitStage); 4] = [
        ("running", LimitStage::Running),
        ("idle", LimitStage::Idle),
        ("queued", LimitStage::Queued),
        ("waiting", LimitStage::Waiting),
    ];

    /// Returns the name in `[[limit]]`.
    pub fn name(self) -> &'static str {
        LimitStage::ALL
            .iter()
            .find(|(_, stage)| *stage == self)
            .map_or("", |(name, _)| name)
    }
}

/// Quantity that a limit counts. A subjob counts as a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Quantity {
    /// Number of jobs.
    Jobs,
    /// Number of chunks, as PBS counts nodes (`nodect`).
    Nodes,
    /// Processor equivalents.
    Equivalents,
    /// Processors times remaining walltime, in seconds (M21).
    ProcessorSeconds,
    /// Remaining walltime in seconds (M21).
    Seconds,
    /// Total requested amount of a resource.
    Resource(String),
}

impl Quantity {
    /// Quantities other than resources, with their names.
    pub const NAMED: [(&str, Quantity); 5] = [
        ("jobs", Quantity::Jobs),
        ("nodes", Quantity::Nodes),
        ("pe", Quantity::Equivalents),
        ("procseconds", Quantity::ProcessorSeconds),
        ("seconds", Quantity::Seconds),
    ];

    /// Returns the name in `[[limit]]`.
    pub fn name(&self) -> &str {
        match self {
            Quantity::Resource(name) => name,
            other => Quantity::NAMED
                .iter()
                .find(|(_, known)| known == other)
                .map_or("", |(name, _)| name),
        }
    }
}

impl From<String> for Quantity {
    fn from(name: String) -> Quantity {
        let known = Quantity::NAMED
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, quantity)| quantity);
        known.unwrap_or(Quantity::Resource(name))
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> String {
        quantity.name().to_string()
    }
}

/// Limit on running or waiting jobs, or on their resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Jobs that count together.
    pub scope: LimitScope,
    /// Stage at which the limit applies.
    pub stage: LimitStage,
    /// Quantity counted.
    pub quantity: Quantity,
    /// Soft limit. Jobs may exceed it once all jobs within their soft limits have started or have
    /// bookings (M23).
    pub soft: Option<i64>,
    /// Hard limit. Resources use the unit of [`super::resource::ResourceValue::amount`]: sizes in
    /// bytes.
    pub hard: Option<i64>,
    /// For jobs of its quality of service, this limit replaces all limits of the same stage and
    /// quantity that apply to any quality (M26).
    pub overrides: bool,
}

/// Soft and hard value of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitValues {
    /// Value of [`Limit::soft`].
    pub soft: Option<i64>,
    /// Value of [`Limit::hard`].
    pub hard: Option<i64>,
}

impl LimitValues {
    /// Returns the lower of both values: the limit until all jobs within their soft limits have been
    /// considered.
    pub fn soft_limit(self) -> Option<i64> {
        self.soft.into_iter().chain(self.hard).min()
    }

    /// Removes the values that `other` replaces, soft and hard separately (X16).
    fn replaced(self, other: LimitValues) -> LimitValues {
        let mut left = self;
        if other.soft.is_some() {
            left.soft = None;
        }
        if other.hard.is_some() {
            left.hard = None;
        }
        left
    }
}

impl Limit {
    /// Returns the soft and the hard value.
    pub fn bounds(&self) -> LimitValues {
        LimitValues {
            soft: self.soft,
            hard: self.hard,
        }
    }

    /// Tests whether this limit replaces another for a subject that matches both: the selectors
    /// agree, except that this one is `Named` where the other is `Each`.
    fn outranks(&self, other: &Limit) -> bool {
        if !self.counts_as(other) {
            return false;
        }
        let mut names_more = false;
        for (own, others) in self
            .scope
            .selectors()
            .into_iter()
            .zip(other.scope.selectors())
        {
            match (own, others) {
                (Selector::Named(_), Selector::Each) => names_more = true,
                (own, others) if own == others => {}
                _ => return false,
            }
        }
        names_more
    }

    /// Tests whether this limit replaces the other for jobs of its quality of service (M26).
    fn overrides(&self, other: &Limit) -> bool {
        self.overrides
            && !other.overrides
            && other.scope.qos == Selector::All
            && self.counts_as(other)
    }

    fn counts_as(&self, other: &Limit) -> bool {
        self.stage == other.stage && self.quantity == other.quantity
    }
}

impl LimitScope {
    /// Returns the selectors: queue, user, group, project, account, quality of service.
    pub fn selectors(&self) -> [&Selector; 6] {
        [
            &self.queue,
            &self.user,
            &self.group,
            &self.project,
            &self.account,
            &self.qos,
        ]
    }
}

/// Names of a job's credentials, in the order of [`LimitScope::selectors`]. The list for accounts
/// holds the job's own account, then all accounts above it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitSubject {
    /// Names for each selector.
    pub names: [Vec<String>; 6],
}

impl LimitSubject {
    /// Creates the subject of these credentials; `accounts` begins with the job's own account.
    pub fn new(who: &Credentials, group: String, accounts: Vec<String>) -> LimitSubject {
        let qos = who.qos.clone().unwrap_or_else(|| NORMAL_QOS.to_string());
        let names = [
            vec![who.queue.clone()],
            vec![who.user.clone()],
            vec![group],
            vec![who.project.clone()],
            accounts,
            vec![qos],
        ];
        LimitSubject { names }
    }
}

/// Key of jobs that count together: one value for each selector other than `All`.
pub type LimitKey = Vec<String>;

/// Limit that applies to a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// Index in [`Limits::all`].
    pub place: usize,
    /// Key under which the subject counts.
    pub key: LimitKey,
    /// Values that no other limit replaces; at least one is set.
    pub bounds: LimitValues,
}

/// All configured limits, with the ids of the groups that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Limits in configuration order.
    pub all: Vec<Limit>,
    /// Names of the groups that limits name, by group id; see [`Limits::number_groups`].
    #[serde(default)]
    pub groups: BTreeMap<u32, String>,
}

impl Limits {
    /// Looks up the ids of all named groups, because jobs store their group as an id.
    pub fn number_groups(&mut self, number: impl Fn(&str) -> Option<u32>) {
        let named = self
            .all
            .iter()
            .filter_map(|limit| match &limit.scope.group {
                Selector::Named(name) => Some((number(name)?, name.clone())),
                Selector::All | Selector::Each => None,
            });
        self.groups = named.collect();
    }

    /// Returns the subject of jobs with these credentials; `accounts` begins with their own
    /// account. A group that no limit names appears as its id.
    pub fn subject(&self, who: &Credentials, accounts: Vec<String>) -> LimitSubject {
        let group = self
            .groups
            .get(&who.gid)
            .cloned()
            .unwrap_or_else(|| who.gid.to_string());
        LimitSubject::new(who, group, accounts)
    }

    /// Tests whether any limit applies at a stage.
    pub fn concern(&self, stage: LimitStage) -> bool {
        self.all.iter().any(|limit| limit.stage == stage)
    }

    /// Returns the limits of a directory that apply to a subject, in order. A per-account limit
    /// appears once for each account of the subject.
    pub fn concerning(&self, subject: &LimitSubject, directory: &Directory) -> Vec<Concern> {
        let mut found = Vec::new();
        for place in directory.of(subject) {
            let limit = &self.all[place];
            for key in keys(&limit.scope, subject) {
                found.push(Concern {
                    place,
                    key,
                    bounds: limit.bounds(),
                });
            }
        }
        let left = found.iter().map(|one| Concern {
            bounds: self.left(one, &found),
            ..one.clone()
        });
        left.filter(|one| one.bounds != LimitValues::default())
            .collect()
    }

    /// Returns the values of a limit that no other limit in `found` replaces.
    fn left(&self, one: &Concern, found: &[Concern]) -> LimitValues {
        let limit = &self.all[one.place];
        if found
            .iter()
            .any(|other| self.all[other.place].overrides(limit))
        {
            return LimitValues::default();
        }
        let mut left = one.bounds;
        for other in found {
            if other.key == one.key && self.all[other.place].outranks(limit) {
                left = left.replaced(other.bounds);
            }
        }
        left
    }
}

/// Returns the keys under which a scope counts a subject; none if the scope does not match.
fn keys(scope: &LimitScope, subject: &LimitSubject) -> Vec<LimitKey> {
    let selectors = scope.selectors().into_iter().zip(&subject.names);
    // Cheap check first: most limits name another user, group or queue.
    for (selector, names) in selectors.clone() {
        if matches!(selector, Selector::Named(name) if !names.contains(name)) {
            return Vec::new();
        }
    }
    let mut keys: Vec<LimitKey> = vec![Vec::new()];
    for (selector, names) in selectors {
        let meant: Vec<&String> = match selector {
            Selector::All => continue,
            Selector::Each => names.iter().collect(),
            Selector::Named(name) => vec![name],
        };
        let mut longer = Vec::new();
        for key in &keys {
            for name in &meant {
                longer.push(key.iter().chain([*name]).cloned().collect());
            }
        }
        keys = longer;
    }
    keys
}

#[cfg(test)]
mod tests;
