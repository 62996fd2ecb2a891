//! The accounts behind the names in `[server] managers` and `operators`.
//!
//! A name is bound to a uid when the right is granted, or, if the account does not exist yet, when
//! an account of this name first sends a request. Another account that gets the name later does not
//! have the right.

use crate::config::ServerConfig;
use crate::config::UserPattern;
use crate::server::outside::Accounts;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The uids of managers and operators, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grantees(BTreeMap<String, u32>);

impl Grantees {
    /// The key under which the spool keeps these uids.
    pub const KEY: &'static str = "grantees";

    /// Whether a right that names `user` applies to the account with this uid: the name is bound to
    /// this uid, or not bound yet.
    pub fn allow(&self, user: &str, uid: u32) -> bool {
        self.0.get(user).is_none_or(|bound| *bound == uid)
    }

    /// The uid that a name is bound to.
    pub fn number(&self, user: &str) -> Option<u32> {
        self.0.get(user).copied()
    }

    /// Binds a name that is not bound yet. Returns false if it is bound already.
    pub fn bind(&mut self, user: &str, uid: u32) -> bool {
        let is_new = !self.0.contains_key(user);
        if is_new {
            self.0.insert(user.to_string(), uid);
        }
        is_new
    }

    /// Unbinds these names. They are bound again when the configuration is next applied and their
    /// accounts exist, or when their accounts next send a request.
    pub fn release(&mut self, names: &[String]) {
        self.0.retain(|name, _| !names.contains(name));
    }

    /// Removes names that no longer have rights, and binds new names if their accounts exist.
    pub fn follow(&mut self, server: &ServerConfig, accounts: &dyn Accounts) {
        let named: BTreeSet<&str> = people(server).filter_map(UserPattern::account).collect();
        self.0.retain(|name, _| named.contains(name.as_str()));
        for name in named {
            if self.0.contains_key(name) {
                continue;
            }
            if let Some(number) = accounts.user_number(name) {
                self.0.insert(name.to_string(), number);
            }
        }
    }
}

/// All managers and operators of the configuration.
pub fn people(server: &ServerConfig) -> impl Iterator<Item = &UserPattern> {
    server.managers.iter().chain(&server.operators)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedd::accounts::SystemAccounts;

    fn server(managers: &[&str]) -> ServerConfig {
        let managers = managers
            .iter()
            .filter_map(|name| UserPattern::parse(name))
            .collect();
        ServerConfig {
            managers,
            ..ServerConfig::default()
        }
    }

    #[test]
    fn a_name_is_bound_until_it_is_removed_or_granted_again() {
        let mut grantees = Grantees::default();
        grantees.follow(
            &server(&["root@*", "*@head", "no-such-user"]),
            &SystemAccounts,
        );
        assert_eq!(grantees.number("root"), Some(0));
        assert!(
            !grantees.allow("root", 1000),
            "a later account of the same name"
        );
        assert!(
            grantees.allow("no-such-user", 1000),
            "no account is bound yet"
        );
        assert!(grantees.bind("no-such-user", 1000) && !grantees.bind("no-such-user", 1001));
        assert!(!grantees.allow("no-such-user", 1001));
        grantees.release(&["no-such-user".to_string()]);
        assert!(
            grantees.allow("no-such-user", 1001),
            "unbound names can be bound again"
        );
        grantees.follow(&server(&[]), &SystemAccounts);
        assert_eq!(grantees, Grantees::default());
    }
}
