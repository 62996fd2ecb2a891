//! The owners of waiting jobs, and their fair-share factors as last computed (F3, F11).

use super::shape::{ClassKey, User};
use crate::model::account::member::Member;
use crate::model::credentials::Credentials;
use crate::sched::share_tree::{FairShareEntry, ShareIndex, ShareTable, Tree, TreeIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner of a class of interchangeable jobs: the user, and the account that the jobs request.
pub(in crate::sched) type ClassOwner = (User, Option<String>);

/// The owners of the waiting classes, each with the number of its waiting classes and its
/// credentials.
pub(in crate::sched) type ClassOwners = BTreeMap<ClassOwner, (usize, Arc<Credentials>)>;

/// The owner of the jobs of a class.
pub(in crate::sched) fn owner_of(class: &ClassKey) -> ClassOwner {
    (class.user, class.who.account.clone())
}

/// The fair-share factors of the owners of waiting jobs.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct FairShareFactors {
    /// For each user, the accounts that the waiting jobs request (None if a job requests none),
    /// each with its entry.
    pub entries: BTreeMap<User, Vec<(Option<String>, FairShareEntry)>>,
    /// The members (users under requested accounts) with running jobs, and their factors. Empty
    /// unless the method is linear.
    pub running: Vec<(Member, f64)>,
    /// The places of the members in the share tree, kept for the next computation.
    pub indices: Option<MemberPlaces>,
    /// The usage of users and accounts in percent, if the order of jobs uses it.
    pub percents: UsagePercents,
}

/// The places of members in the share tree.
#[derive(Clone, Debug)]
pub(in crate::sched) struct MemberPlaces {
    /// The index of the share tree.
    pub share_index: ShareIndex,
    /// The members with usage, as named in the usage records, and their places.
    pub used: Vec<(Member, TreeIndex)>,
    /// The owners of jobs that wait, or waited at an earlier computation, and their places.
    pub waiting: BTreeMap<ClassOwner, TreeIndex>,
    /// The owners in `waiting` that had no usage when the index was made. When such an owner has no
    /// waiting jobs any more, the index must be made again, because the shares of other members
    /// become larger.
    pub new: Vec<ClassOwner>,
}

/// The usage of users and accounts in percent of all usage.
#[derive(Clone, Debug, Default)]
pub(in crate::sched) struct UsagePercents {
    /// None if the order does not need the percentages.
    pub known: Option<UsageTables>,
}

/// The share tables that contain the usage.
#[derive(Clone, Debug)]
pub(in crate::sched) struct UsageTables {
    /// The tree of accounts.
    pub tree: Tree,
    /// The usage of each user.
    pub users: ShareTable,
    /// The usage of each account, including all accounts below it.
    pub accounts: ShareTable,
}
