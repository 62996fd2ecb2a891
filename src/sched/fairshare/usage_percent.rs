//! How far the usage of the owners of waiting jobs is below their usage targets (M12).

use crate::model::account::member::Member;
use crate::model::policy::components::Priorities;
use crate::model::policy::fair_share::{Method, UsageSubject};
use crate::model::policy::{Components, FairShare};
use crate::sched::share_tree::{ShareTable, Tree, share_table, target};
use crate::sched::view::fair_share_factors::{UsagePercents, UsageTables};
use crate::sched::view::shape::ClassKey;
use std::collections::BTreeMap;

impl UsagePercents {
    /// The percentages of all usage for the users and accounts of a tree, from the usage of the
    /// members (users under accounts).
    pub fn of(tree: &Tree, used: &BTreeMap<Member, f64>) -> UsagePercents {
        UsagePercents {
            known: Some(UsageTables {
                tree: tree.clone(),
                users: usage_by(UsageSubject::User, tree, used),
                accounts: usage_by(UsageSubject::Account, tree, used),
            }),
        }
    }

    /// How far the usage of the user and of the account of a class of jobs is below their targets
    /// (see [`target::delta`]); negative above a target. 0 without a target, or if the percentages
    /// are not computed.
    pub fn distances(&self, rule: &Components, policy: &FairShare, class: &ClassKey) -> [f64; 2] {
        let Some(known) = &self.known else {
            return [0.0; 2];
        };
        let member = known
            .tree
            .member(&class.who.user, class.who.account.as_deref());
        let user = rule
            .users
            .get(&member.user)
            .or_else(|| rule.users.get(Priorities::OTHERS));
        let account = policy
            .accounts
            .iter()
            .find(|account| account.name == member.account)
            .and_then(|account| account.target);
        [(user.copied(), &known.users), (account, &known.accounts)].map(|(target, table)| {
            target.map_or(0.0, |target| {
                target::delta(target, percent(table, &member), policy.distance)
            })
        })
    }
}

/// The usage of each user or of each account, depending on `subject`.
fn usage_by(subject: UsageSubject, tree: &Tree, used: &BTreeMap<Member, f64>) -> ShareTable {
    let policy = FairShare {
        method: Method::Off,
        subject,
        ..FairShare::default()
    };
    share_table(tree, &policy, used)
}

/// The usage of the user or of the account of a member, depending on the table, in percent of all
/// usage; 0 if unknown.
fn percent(table: &ShareTable, member: &Member) -> f64 {
    table.of(member).map_or(0.0, |row| 100.0 * row.used)
}
