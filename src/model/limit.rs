//! Limits: how much may run, or wait, on somebody's behalf (M22 to M26, I19, Y24).
//!
//! A limit says whose jobs count together ([`Scope`]), which of them ([`Stage`]), what of them
//! ([`Quantity`]), and how much of that there may be. One that names somebody stands in the place of the one
//! for each of the same kind; all others that concern a job hold together.

pub mod pbs;

use super::credentials::Credentials;
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
pub struct Scope {
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
pub enum Stage {
    /// Those that run (M22): others wait.
    Running,
    /// Those that wait and may be considered (M24): others are not considered.
    Idle,
    /// All that are not over: others are refused when they are submitted (I19, F21).
    Queued,
    /// Those that wait, likewise (PBS's `queued_jobs_threshold`).
    Waiting,
}

impl Stage {
    /// With their names in `[[limit]]`.
    pub const ALL: [(&str, Stage); 4] =
        [("running", Stage::Running), ("idle", Stage::Idle), ("queued", Stage::Queued), ("waiting", Stage::Waiting)];

    /// As `[[limit]]` has it.
    pub fn name(self) -> &'static str {
        Stage::ALL.iter().find(|(_, stage)| *stage == self).map_or("", |(name, _)| name)
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
            other => Quantity::NAMED.iter().find(|(_, known)| known == other).map_or("", |(name, _)| name),
        }
    }
}

impl From<String> for Quantity {
    fn from(name: String) -> Quantity {
        let known = Quantity::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, quantity)| quantity);
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
    pub scope: Scope,
    /// Which of them.
    pub stage: Stage,
    /// What of them.
    pub quantity: Quantity,
    /// So much only when all others within theirs have started or are promised a start (M23).
    pub soft: Option<i64>,
    /// Never more than this. Of resources as [`super::resource::Value::amount`] counts: sizes in bytes.
    pub hard: Option<i64>,
    /// For its quality of service it stands in the place of all limits on the same quantity that do not name
    /// one (M26).
    pub overrides: bool,
}

impl Limit {
    /// What there may be while there are jobs within their soft limits.
    pub fn softly(&self) -> Option<i64> {
        self.soft.into_iter().chain(self.hard).min()
    }

    /// Whether it stands in the place of another one for somebody both concern: the same kinds of credentials
    /// matter to both, and this one names where the other means each.
    fn outranks(&self, other: &Limit) -> bool {
        let is_alike = self.stage == other.stage && self.quantity == other.quantity;
        let pairs = || self.scope.selectors().into_iter().zip(other.scope.selectors());
        let names_more = pairs().any(|(own, others)| matches!((own, others), (Selector::Named(_), Selector::Each)));
        let is_finer = pairs().all(|(own, others)| match (own, others) {
            (Selector::All, Selector::All) | (Selector::Named(_), Selector::Each) => true,
            (own, others) => own == others && *own != Selector::All,
        });
        is_alike && names_more && is_finer
    }
}

impl Scope {
    /// The selectors: queue, user, group, project, account, quality of service.
    pub fn selectors(&self) -> [&Selector; 6] {
        [&self.queue, &self.user, &self.group, &self.project, &self.account, &self.qos]
    }
}

/// The names by which limits know a job, in the order of [`Scope::selectors`]: one or none of each, but of an
/// account all above it too, the own one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its names.
    pub names: [Vec<String>; 6],
}

impl Subject {
    /// That of credentials; its accounts, the own one first, and the name of its group are told.
    pub fn new(who: &Credentials, group: String, accounts: Vec<String>) -> Subject {
        let qos = who.qos.clone().unwrap_or_else(|| super::quality::Qualities::NORMAL.to_string());
        let one = |name: &str| vec![name.to_string()];
        let names = [one(&who.queue), one(&who.user), vec![group], one(&who.project), accounts, vec![qos]];
        Subject { names }
    }
}

/// Those whose jobs count together: a value for each selector that is not for all.
pub type Key = Vec<String>;

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
        let named = self.all.iter().filter_map(|limit| match &limit.scope.group {
            Selector::Named(name) => Some((number(name)?, name.clone())),
            Selector::All | Selector::Each => None,
        });
        self.groups = named.collect();
    }

    /// The names by which limits know the jobs of somebody, whose accounts are these, the own one first. A
    /// group that no limit names goes by its number.
    pub fn subject(&self, who: &Credentials, accounts: Vec<String>) -> Subject {
        let group = self.groups.get(&who.gid).cloned().unwrap_or_else(|| who.gid.to_string());
        Subject::new(who, group, accounts)
    }

    /// The same, where one that names somebody and has a soft limit alone keeps the hard one of each: what lets
    /// somebody start later, or not, lets nobody have more (X16).
    pub fn with_hard_of_each(mut self) -> Limits {
        let hard: Vec<Option<i64>> =
            self.all.iter().map(|limit| limit.hard.or_else(|| self.hard_of_each(limit))).collect();
        self.all.iter_mut().zip(hard).for_each(|(limit, hard)| limit.hard = hard);
        self
    }

    fn hard_of_each(&self, limit: &Limit) -> Option<i64> {
        let replaced = |other: &&Limit| !limit.overrides && other.hard.is_some() && limit.outranks(other);
        let all: Vec<&Limit> = self.all.iter().filter(replaced).collect();
        let nearest = all.iter().find(|other| !all.iter().any(|finer| finer.outranks(other)));
        nearest.and_then(|other| other.hard)
    }

    /// Whether any is about a stage.
    pub fn concern(&self, stage: Stage) -> bool {
        self.all.iter().any(|limit| limit.stage == stage)
    }

    /// Those that concern a subject at a stage, by their places, each with whom it counts the subject for;
    /// a limit for each account counts it for several.
    pub fn concerning(&self, subject: &Subject, stage: Stage) -> Vec<(usize, Key)> {
        let mut found: Vec<(usize, Key)> = Vec::new();
        for (place, limit) in self.all.iter().enumerate().filter(|(_, limit)| limit.stage == stage) {
            found.extend(keys(&limit.scope, subject).into_iter().map(|key| (place, key)));
        }
        let stands = |(place, key): &(usize, Key)| !self.is_outranked(*place, key, &found);
        found.iter().filter(|found| stands(found)).cloned().collect()
    }

    /// Whether another of those found stands in the place of one.
    fn is_outranked(&self, place: usize, key: &Key, found: &[(usize, Key)]) -> bool {
        let limit = &self.all[place];
        found.iter().any(|(other, others_key)| {
            let other = &self.all[*other];
            let overrides = other.overrides && !limit.overrides && limit.scope.qos == Selector::All;
            (overrides && other.quantity == limit.quantity) || (others_key == key && other.outranks(limit))
        })
    }
}

/// Whom a scope counts a subject for; nobody if it does not concern it.
fn keys(scope: &Scope, subject: &Subject) -> Vec<Key> {
    // Where many are named by many limits, most limits are for somebody else.
    let is_else = |(selector, names): (&Selector, &Vec<String>)| matches!(selector, Selector::Named(name) if !names.contains(name));
    if scope.selectors().into_iter().zip(&subject.names).any(is_else) {
        return Vec::new();
    }
    let mut keys: Vec<Key> = vec![Vec::new()];
    for (selector, names) in scope.selectors().into_iter().zip(&subject.names) {
        let meant: Vec<&String> = match selector {
            Selector::All => continue,
            Selector::Each => names.iter().collect(),
            Selector::Named(name) => names.iter().filter(|known| *known == name).collect(),
        };
        let with = |key: &Key, name: &String| key.iter().chain([name]).cloned().collect();
        keys = keys.iter().flat_map(|key| meant.iter().map(move |name| with(key, name))).collect();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(user: &str, qos: &str) -> Subject {
        let names = [vec!["batch"], vec![user], vec!["staff"], vec!["none"], vec!["dev", "root"], vec![qos]];
        Subject { names: names.map(|names| names.into_iter().map(str::to_string).collect()) }
    }

    fn jobs(scope: Scope, hard: i64) -> Limit {
        let (stage, quantity) = (Stage::Running, Quantity::Jobs);
        Limit { scope, stage, quantity, soft: None, hard: Some(hard), overrides: false }
    }

    fn named(name: &str) -> Selector {
        Selector::Named(name.to_string())
    }

    fn found(limits: &Limits, user: &str, qos: &str) -> Vec<(i64, String)> {
        let found = limits.concerning(&subject(user, qos), Stage::Running);
        found.iter().map(|(place, key)| (limits.all[*place].hard.unwrap(), key.join("/"))).collect()
    }

    #[test]
    fn a_limit_on_something_else_or_elsewhere_stands_in_nobodys_place() {
        let each = || Scope { user: Selector::Each, ..Scope::default() };
        let own = || Scope { user: named("ann"), ..Scope::default() };
        let both = |other: Limit| {
            found(&Limits { all: vec![jobs(each(), 2), other], ..Limits::default() }, "ann", "normal").len()
        };
        assert_eq!(both(jobs(own(), 5)), 1);
        assert_eq!(both(Limit { quantity: Quantity::Nodes, ..jobs(own(), 5) }), 2);
        assert_eq!(both(jobs(Scope { queue: named("batch"), ..own() }, 5)), 2);
    }

    /// M22.
    #[test]
    fn who_is_named_has_a_limit_of_his_own_in_place_of_that_of_each() {
        let each = jobs(Scope { user: Selector::Each, ..Scope::default() }, 4);
        let john = jobs(Scope { user: named("john"), ..Scope::default() }, 8);
        let everybody = jobs(Scope::default(), 100);
        let limits = Limits { all: vec![each, john, everybody], ..Limits::default() };
        assert_eq!(found(&limits, "john", "normal"), [(8, "john".into()), (100, String::new())]);
        assert_eq!(found(&limits, "ann", "normal"), [(4, "ann".into()), (100, String::new())]);
        assert_eq!(limits.concerning(&subject("ann", "normal"), Stage::Idle), []);
    }

    /// M25.
    #[test]
    fn a_limit_may_be_one_of_each_user_in_a_queue() {
        let scope = |queue: Selector| Scope { queue, user: Selector::Each, ..Scope::default() };
        let limits = Limits {
            all: vec![jobs(scope(named("batch")), 3), jobs(scope(named("fast")), 5), jobs(scope(Selector::Each), 7)],
            ..Limits::default()
        };
        assert_eq!(found(&limits, "ann", "normal"), [(3, "batch/ann".into())]);
    }

    /// M26.
    #[test]
    fn a_quality_of_service_may_have_its_limit_in_place_of_all_others() {
        let steve = jobs(Scope { user: named("steve"), ..Scope::default() }, 30);
        let high = Limit { overrides: true, ..jobs(Scope { qos: named("high"), ..Scope::default() }, 64) };
        let limits = Limits { all: vec![steve, high], ..Limits::default() };
        assert_eq!(found(&limits, "steve", "high"), [(64, "high".into())]);
        assert_eq!(found(&limits, "steve", "normal"), [(30, "steve".into())]);
    }

    /// I19: `g:staff` is a name, and jobs know their group by number.
    #[test]
    fn a_group_that_is_named_is_known_by_its_number() {
        let staff = jobs(Scope { group: named("staff"), ..Scope::default() }, 2);
        let each = jobs(Scope { group: Selector::Each, ..Scope::default() }, 4);
        let mut limits = Limits { all: vec![staff, each], ..Limits::default() };
        limits.number_groups(|name| (name == "staff").then_some(50));
        let who = |gid| {
            let names = ["ann", "none", "batch"].map(str::to_string);
            let [user, project, queue] = names;
            Credentials { user, gid, project, account: None, qos: None, queue }
        };
        let hard = |gid| {
            let found = limits.concerning(&limits.subject(&who(gid), Vec::new()), Stage::Running);
            found.into_iter().map(|(place, key)| (limits.all[place].hard.unwrap(), key.join("/"))).collect::<Vec<_>>()
        };
        assert_eq!((hard(50), hard(51)), (vec![(2, "staff".to_string())], vec![(4, "51".to_string())]));
    }

    /// X16: in PBS `max_run` and `max_run_soft` name whom they are for, each by itself.
    #[test]
    fn who_is_named_by_a_soft_limit_alone_keeps_the_hard_one_of_each() {
        let user = |user| Scope { user, ..Scope::default() };
        let soft = |scope| Limit { soft: Some(2), hard: None, ..jobs(scope, 0) };
        let (each, ann) = (jobs(user(Selector::Each), 4), soft(user(named("ann"))));
        let high = Limit { overrides: true, ..soft(Scope { qos: named("high"), ..Scope::default() }) };
        let other = soft(Scope { queue: named("batch"), ..Scope::default() });
        let limits = Limits { all: vec![ann, each, other, high], ..Limits::default() }.with_hard_of_each();
        let hard: Vec<_> = limits.all.iter().map(|limit| limit.hard).collect();
        assert_eq!(hard, [Some(4), Some(4), None, None]);
        let queue = |queue, hard| jobs(Scope { queue, ..user(Selector::Each) }, hard);
        let finest = soft(Scope { queue: named("batch"), ..user(named("ann")) });
        let all = vec![finest, queue(Selector::Each, 7), queue(named("batch"), 3)];
        assert_eq!(Limits { all, ..Limits::default() }.with_hard_of_each().all[0].hard, Some(3));
    }

    /// Y24.
    #[test]
    fn a_limit_of_each_account_counts_for_all_above_it() {
        let each = jobs(Scope { account: Selector::Each, ..Scope::default() }, 8);
        let limits = Limits { all: vec![each], ..Limits::default() };
        assert_eq!(found(&limits, "ann", "normal"), [(8, "dev".into()), (8, "root".into())]);
    }

    #[test]
    fn a_soft_limit_above_the_hard_one_is_the_hard_one() {
        let of = |soft, hard| Limit { soft, hard, ..jobs(Scope::default(), 0) }.softly();
        assert_eq!(
            [of(Some(2), Some(8)), of(Some(9), Some(8)), of(None, Some(8)), of(Some(2), None)],
            [Some(2), Some(8), Some(8), Some(2)]
        );
    }
}
