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

/// Which values of one of a job's credentials are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Selector {
    /// Whatever it is: their jobs count together.
    #[default]
    All,
    /// Each value by itself.
    Each,
    /// This one.
    Named(String),
}

/// Whose jobs count together: those that all selectors mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LimitScope {
    /// By queue.
    pub queue: Selector,
    /// By user.
    pub user: Selector,
    /// By primary group.
    pub group: Selector,
    /// By project.
    pub project: Selector,
    /// By account: the jobs of an account are also those of all accounts above it (Y24).
    pub account: Selector,
    /// By quality of service.
    pub qos: Selector,
}

/// Which jobs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LimitStage {
    /// Those that run (M22): others wait.
    Running,
    /// Those that wait and may be considered (M24): others are not considered.
    Idle,
    /// All that are not over: others are refused when they are submitted (I19, F21).
    Queued,
    /// Those that wait, likewise (PBS's `queued_jobs_threshold`).
    Waiting,
}

impl LimitStage {
    /// With their names in `[[limit]]`.
    pub const ALL: [(&str, LimitStage); 4] = [
        ("running", LimitStage::Running),
        ("idle", LimitStage::Idle),
        ("queued", LimitStage::Queued),
        ("waiting", LimitStage::Waiting),
    ];

    /// As `[[limit]]` has it.
    pub fn name(self) -> &'static str {
        LimitStage::ALL
            .iter()
            .find(|(_, stage)| *stage == self)
            .map_or("", |(name, _)| name)
    }
}

/// What counts of a job. An element of an array is a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Quantity {
    /// The job itself.
    Jobs,
    /// Its chunks, as PBS counts nodes (`nodect`).
    Nodes,
    /// Its processor equivalents.
    Equivalents,
    /// What is left of its processors times its walltime, in seconds (M21).
    ProcessorSeconds,
    /// What is left of its walltime, in seconds (M21).
    Seconds,
    /// What it asks for of a resource in all.
    Resource(String),
}

impl Quantity {
    /// Those that are no resources, with their names.
    pub const NAMED: [(&str, Quantity); 5] = [
        ("jobs", Quantity::Jobs),
        ("nodes", Quantity::Nodes),
        ("pe", Quantity::Equivalents),
        ("procseconds", Quantity::ProcessorSeconds),
        ("seconds", Quantity::Seconds),
    ];

    /// As `[[limit]]` has it.
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

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Whose jobs count together.
    pub scope: LimitScope,
    /// Which of them.
    pub stage: LimitStage,
    /// What of them.
    pub quantity: Quantity,
    /// So much only when all others within theirs have started or are promised a start (M23).
    pub soft: Option<i64>,
    /// Never more than this. Of resources as [`super::resource::ResourceValue::amount`] counts:
    /// sizes in bytes.
    pub hard: Option<i64>,
    /// For its quality of service it stands in the place of all limits on the same quantity that do
    /// not name one (M26).
    pub overrides: bool,
}

/// How much there may be of what some count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitValues {
    /// As [`Limit::soft`].
    pub soft: Option<i64>,
    /// As [`Limit::hard`].
    pub hard: Option<i64>,
}

impl LimitValues {
    /// What there may be while there are jobs within their soft limits.
    pub fn soft_limit(self) -> Option<i64> {
        self.soft.into_iter().chain(self.hard).min()
    }

    /// What is left of them where others stand in their place, each for what it says itself (X16).
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
    /// What it says.
    pub fn bounds(&self) -> LimitValues {
        LimitValues {
            soft: self.soft,
            hard: self.hard,
        }
    }

    /// Whether what it says stands in the place of what another one says for somebody both concern:
    /// the same kinds of credentials matter to both, and this one names where the other means each.
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

    /// Whether it stands in the place of all that another one says for jobs of the quality of
    /// service it names (M26).
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
    /// The selectors: queue, user, group, project, account, quality of service.
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

/// The names by which limits know a job, in the order of [`LimitScope::selectors`]: one or none of
/// each, but of an account all above it too, the own one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitSubject {
    /// Its names.
    pub names: [Vec<String>; 6],
}

impl LimitSubject {
    /// That of credentials; its accounts, the own one first, and the name of its group are told.
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

/// Those whose jobs count together: a value for each selector that is not for all.
pub type LimitKey = Vec<String>;

/// A limit that concerns somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// Its place among all.
    pub place: usize,
    /// With whom it counts them.
    pub key: LimitKey,
    /// What of it no other limit stands in the place of; something is.
    pub bounds: LimitValues,
}

/// All limits there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// In the order given.
    pub all: Vec<Limit>,
    /// What the groups are called that limits name, by number: see [`Limits::number_groups`].
    #[serde(default)]
    pub groups: BTreeMap<u32, String>,
}

impl Limits {
    /// Takes note of the numbers of the groups that are named: jobs know theirs by number.
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

    /// The names by which limits know the jobs of somebody, whose accounts are these, the own one
    /// first. A group that no limit names goes by its number.
    pub fn subject(&self, who: &Credentials, accounts: Vec<String>) -> LimitSubject {
        let group = self
            .groups
            .get(&who.gid)
            .cloned()
            .unwrap_or_else(|| who.gid.to_string());
        LimitSubject::new(who, group, accounts)
    }

    /// Whether any is about a stage.
    pub fn concern(&self, stage: LimitStage) -> bool {
        self.all.iter().any(|limit| limit.stage == stage)
    }

    /// Those of a directory that concern a subject, in their order; a limit for each account counts
    /// it for several.
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

    /// What a limit says where no other one of those found stands in its place.
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

/// Whom a scope counts a subject for; nobody if it does not concern it.
fn keys(scope: &LimitScope, subject: &LimitSubject) -> Vec<LimitKey> {
    let selectors = scope.selectors().into_iter().zip(&subject.names);
    // Most limits name another user, group or queue.
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
