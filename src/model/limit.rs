//! Limits on running and waiting jobs (M22 to M26, I19, Y24).
//!
//! A limit states which jobs count together ([`LimitScope`]), in which state jobs count
//! ([`LimitStage`]), what is counted ([`Quantity`]), and a soft and a hard value. A limit for a
//! named user replaces the per-user limit; likewise for queues, groups, projects, accounts and
//! qualities of service. A job must satisfy all limits that apply to it and are not replaced.

pub mod excess;

pub mod directory;
pub mod pbs;
pub mod usage;

use crate::model::credentials::{Credentials, NORMAL_QOS};
use directory::Directory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Selection of jobs by one of their credentials, such as the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Selector {
    /// All jobs, counted together whatever the value of their credential.
    #[default]
    All,
    /// All jobs, counted separately for each value of the credential.
    Each,
    /// Only jobs with this value of the credential.
    Named(String),
}

/// Jobs that count together: a job counts if it matches all selectors.
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

/// State of the jobs that a limit counts, and the effect of reaching the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LimitStage {
    /// Running jobs (M22). Jobs above the limit wait.
    Running,
    /// Waiting jobs that are eligible (M24). The scheduler ignores jobs above the limit.
    Idle,
    /// All unfinished jobs (I19, F21). Submissions, moves and alterations above the limit are
    /// refused.
    Queued,
    /// Jobs in state `Q`, and the waiting subjobs of arrays in state `Q` or `B` (PBS's
    /// `queued_jobs_threshold`). Submissions, moves and alterations above the limit are refused.
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
    /// Processor equivalents: the number of processors of the cluster times the fraction of the
    /// cluster that a job requests. The resource with the largest fraction counts.
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
    /// State of the jobs that the limit counts.
    pub stage: LimitStage,
    /// Quantity counted.
    pub quantity: Quantity,
    /// Soft limit. On stage `running`, jobs may exceed it once all jobs within their soft limits
    /// have started or have bookings (M23). On stages `queued` and `waiting`, exceeding it causes
    /// a warning.
    pub soft: Option<i64>,
    /// Hard limit. Amounts of resources have the unit of
    /// [`super::resource::ResourceValue::amount`], such as bytes.
    pub hard: Option<i64>,
    /// True if this limit is for one quality of service and replaces, for jobs of this quality, all
    /// limits of the same stage and quantity that do not select by quality (M26).
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
    /// Returns the lower of the values that are set; None if none is set. This limit applies until
    /// the scheduler has considered all jobs within their soft limits.
    pub fn soft_limit(self) -> Option<i64> {
        self.soft.into_iter().chain(self.hard).min()
    }

    /// Removes the soft value if `other` has a soft value, and likewise the hard value (X16).
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

    /// Tests whether this limit replaces `other` for the jobs to which both apply. It does if both
    /// have the same stage and quantity, at least one selector is `Named` in this limit and `Each`
    /// in `other`, and all remaining selectors are equal.
    fn outranks(&self, other: &Limit) -> bool {
        if !self.has_same_stage_and_quantity(other) {
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

    /// Tests whether this limit replaces `other` for jobs of this limit's quality of service (M26).
    fn overrides(&self, other: &Limit) -> bool {
        self.overrides
            && !other.overrides
            && other.scope.qos == Selector::All
            && self.has_same_stage_and_quantity(other)
    }

    fn has_same_stage_and_quantity(&self, other: &Limit) -> bool {
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

/// Values of a job's credentials, in the order of [`LimitScope::selectors`]. Each credential has
/// one value, except the account: its values are the job's own account and all accounts above it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitSubject {
    /// Values of the credential that each selector tests.
    pub names: [Vec<String>; 6],
}

impl LimitSubject {
    /// Creates the subject of a job with these credentials. `accounts` begins with the job's own
    /// account; the accounts above it follow.
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

/// Key of the jobs that a limit counts together: one value for each selector other than `All`.
pub type LimitKey = Vec<String>;

/// Limit that applies to the jobs with a [`LimitSubject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicableLimit {
    /// Index in [`Limits::all`].
    pub place: usize,
    /// Key under which the limit counts these jobs.
    pub key: LimitKey,
    /// The limit's values that no other limit replaces; at least one is set.
    pub bounds: LimitValues,
}

/// All configured limits, with the ids of the groups that have limits of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Limits in configuration order.
    pub all: Vec<Limit>,
    /// Names of the groups in [`Selector::Named`], by group id; see [`Limits::number_groups`].
    #[serde(default)]
    pub groups: BTreeMap<u32, String>,
}

impl Limits {
    /// Sets [`Limits::groups`], because jobs store only the id of their group. `number` returns the
    /// id of a group name; groups without an id are omitted.
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

    /// Returns the subject of jobs with these credentials. `accounts` begins with the jobs' own
    /// account; the accounts above it follow. A group without a named limit appears as an id.
    pub fn subject(&self, who: &Credentials, accounts: Vec<String>) -> LimitSubject {
        let group = self
            .groups
            .get(&who.gid)
            .cloned()
            .unwrap_or_else(|| who.gid.to_string());
        LimitSubject::new(who, group, accounts)
    }

    /// Tests whether a limit of this stage exists.
    pub fn concern(&self, stage: LimitStage) -> bool {
        self.all.iter().any(|limit| limit.stage == stage)
    }

    /// Returns the limits in `directory` (the limits of one stage) that apply to a subject, in
    /// configuration order. A per-account limit appears once for each account of the subject.
    /// Limits that other limits replace completely are omitted.
    pub fn concerning(
        &self,
        subject: &LimitSubject,
        directory: &Directory,
    ) -> Vec<ApplicableLimit> {
        let mut found = Vec::new();
        for place in directory.of(subject) {
            let limit = &self.all[place];
            for key in keys(&limit.scope, subject) {
                found.push(ApplicableLimit {
                    place,
                    key,
                    bounds: limit.bounds(),
                });
            }
        }
        let left = found.iter().map(|one| ApplicableLimit {
            bounds: self.remaining_values(one, &found),
            ..one.clone()
        });
        left.filter(|one| one.bounds != LimitValues::default())
            .collect()
    }

    /// Returns a limit's values that no other limit in `found` replaces.
    fn remaining_values(&self, one: &ApplicableLimit, found: &[ApplicableLimit]) -> LimitValues {
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

/// Returns the keys under which a limit with this scope counts a subject; empty if the subject does
/// not match the scope.
fn keys(scope: &LimitScope, subject: &LimitSubject) -> Vec<LimitKey> {
    let selectors = scope.selectors().into_iter().zip(&subject.names);
    // Do the cheap check first, because most limits name another user, group or queue.
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
