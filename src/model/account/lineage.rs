//! Lineage of a job: the account of the job, and all accounts above this account. Limits on an
//! account also count the jobs of the accounts below the account (Y24).

use super::{Account, DEEPEST, ROOT_NAME};
use std::collections::BTreeMap;

/// Account tree, for lookups by job.
#[derive(Clone, Debug, Default)]
pub struct Lineages<'a> {
    /// Parent by account; None if the parent is the root.
    parents: BTreeMap<&'a str, Option<&'a str>>,
    /// By user, the first account that lists the user.
    homes: BTreeMap<&'a str, &'a str>,
}

impl<'a> Lineages<'a> {
    /// Creates the lookup for accounts that passed [`check`](super::check).
    pub fn new(accounts: &'a [Account]) -> Lineages<'a> {
        let mut lineages = Lineages::default();
        for account in accounts {
            lineages
                .parents
                .insert(&account.name, account.parent.as_deref());
            for (user, _) in account.users.iter().flatten() {
                lineages.homes.entry(user).or_insert(&account.name);
            }
        }
        lineages
    }

    /// Returns the account of a job of `user`, then the accounts above it, the nearest first. The
    /// account of the job is `requested` (`-A`), else the first account that lists the user. The
    /// root, which stands for the whole system, is left out.
    pub fn of(&self, user: &str, requested: Option<&str>) -> Vec<String> {
        let own = requested.or_else(|| self.homes.get(user).copied());
        let lineage = std::iter::successors(own, |account| self.parent(account));
        lineage
            .filter(|account| *account != ROOT_NAME)
            .take(DEEPEST)
            .map(str::to_string)
            .collect()
    }

    /// Returns the parent of an account. The parent of an unconfigured account `NAME/USER` is the
    /// configured account `NAME`: the default account has such an account for each user (Y25).
    fn parent<'b>(&self, account: &'b str) -> Option<&'b str>
    where
        'a: 'b,
    {
        match self.parents.get(account) {
            Some(parent) => *parent,
            None => account
                .rsplit_once('/')
                .map(|(above, _)| above)
                .filter(|above| self.parents.contains_key(above)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::Shares;

    fn account(name: &str, parent: Option<&str>, users: &[&str]) -> Account {
        let users = users
            .iter()
            .map(|user| (user.to_string(), Shares::default()))
            .collect();
        Account {
            name: name.into(),
            parent: parent.map(str::to_string),
            users: Some(users),
            ..Account::default()
        }
    }

    /// Y24.
    #[test]
    fn the_lineage_has_all_accounts_above_except_the_root() {
        let physics = account("physics", None, &["bob"]);
        let accounts = [
            physics,
            account("optics", Some("physics"), &["ann", "bob"]),
            account(ROOT_NAME, None, &["cid"]),
        ];
        let lineages = Lineages::new(&accounts);
        assert_eq!(lineages.of("zoe", Some("optics")), ["optics", "physics"]);
        assert_eq!(
            (lineages.of("ann", None), lineages.of("bob", None)),
            (
                vec!["optics".to_string(), "physics".to_string()],
                vec!["physics".to_string()],
            )
        );
        assert_eq!(lineages.of("zoe", Some("elsewhere")), ["elsewhere"]);
        assert_eq!(
            (lineages.of("zoe", None), lineages.of("cid", None)),
            (vec![], vec![])
        );
    }

    /// Y25: jobs in a user's automatic account also count in the default account.
    #[test]
    fn an_automatic_account_belongs_to_the_default_account() {
        let accounts = [
            account("physics", None, &[]),
            account("optics", Some("physics"), &[]),
        ];
        let lineages = Lineages::new(&accounts);
        assert_eq!(
            lineages.of("ann", Some("optics/ann")),
            ["optics/ann", "optics", "physics"]
        );
        assert_eq!(lineages.of("ann", Some("nowhere/ann")), ["nowhere/ann"]);
    }
}
