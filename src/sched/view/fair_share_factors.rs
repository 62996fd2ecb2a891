//! The owners of waiting jobs, and their fair-share factors as they were computed last (F3, F11).

use super::shape::{ClassKey, User};
use crate::model::account::member::Member;
use crate::model::credentials::Credentials;
use crate::sched::share_tree::{FairShareEntry, ShareIndex, ShareTable, Tree, TreeIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner of a class of jobs: a user, and the account that the jobs request.
pub(in crate::sched) type ClassOwner = (User, Option<String>);

/// The owners of the waiting classes, each with the number of its classes.
pub(in crate::sched) type ClassOwners = BTreeMap<ClassOwner, (usize, Arc<Credentials>)>;

/// The owner of the jobs of a class.
pub(in crate::sched) fn owner_of(class: &ClassKey) -> ClassOwner {
    (class.user, class.who.account.clone())
}

/// The fair-share factors of the owners of waiting jobs.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct FairShareFactors {
    /// By user, then by the requested account.
    pub entries: BTreeMap<User, Vec<(Option<String>, FairShareEntry)>>,
    /// Members with running jobs, by the requested account, and their factors.
    pub running: Vec<(Member, f64)>,
    /// The places of the members, kept for the next computation.
    pub indices: Option<MemberPlaces>,
    /// The usage of each member in percent, where the order needs it.
    pub percents: UsagePercents,
}

/// The places of members in the share tree.
#[derive(Clone, Debug)]
pub(in crate::sched) struct MemberPlaces {
    /// The index of the share tree.
    pub share_index: ShareIndex,
    /// The members with usage, as the usage names them, and their places.
    pub used: Vec<(Member, TreeIndex)>,
    /// The owners of jobs that wait or have waited.
    pub waiting: BTreeMap<ClassOwner, TreeIndex>,
    /// The owners among `waiting` without usage. Once they are gone, the others have larger shares.
    pub new: Vec<ClassOwner>,
}

/// The usage of users and accounts as parts of all usage.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct UsagePercents {
    /// None if the order does not need the percentages.
    pub known: Option<UsageTables>,
}

/// The share tables that hold the usage.
#[derive(Clone, Debug)]
pub(in crate::sched) struct UsageTables {
    /// The tree of accounts.
    pub tree: Tree,
    /// By user.
    pub users: ShareTable,
    /// By account, with all accounts below it.
    pub accounts: ShareTable,
}
