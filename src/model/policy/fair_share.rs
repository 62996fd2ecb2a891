//! `[fairshare]`: how what somebody has used makes their jobs go later.

use crate::model::account::Account;
use serde::{Deserialize, Serialize};

/// `[fairshare]`, and the accounts it is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FairShare {
    /// How the factor comes from shares and usage.
    pub method: Method,
    /// Whose usage counts for a job.
    pub subject: UsageSubject,
    /// What `fairtree` takes for equal.
    #[serde(rename = "ties")]
    pub tie_rule: TieRule,
    /// How `target` measures the distance.
    pub distance: Distance,
    /// The account below which who asks for none, and is listed by none, has one of their own for
    /// as long as there are jobs or usage of theirs: `research/ann` (Y25).
    pub default_account: Option<String>,
    /// `[[account]]`, in the order given; empty where every user is on their own.
    pub accounts: Vec<Account>,
}

impl FairShare {
    /// The account of a job of a user that asks for none: the first that lists the user.
    pub fn account_of(&self, user: &str) -> Option<&str> {
        self.accounts
            .iter()
            .find(|account| {
                let mut users = account.users.iter().flatten();
                users.any(|(listed, _)| listed == user)
            })
            .map(|account| account.name.as_str())
    }

    /// The account that a job of a user gets that asks for none and whose user none lists (Y25).
    pub fn default_for(&self, user: &str) -> Option<String> {
        let parent = self.default_account.as_deref()?;
        if self.account_of(user).is_some() {
            return None;
        }
        Some(format!("{parent}/{user}"))
    }
}

named! {
    /// How the factor comes from shares and usage (X8).
    Method {
        /// 2 to the power of minus effective usage over shares: 0.5 is served perfectly (F11, I16).
        Classic = "classic",
        /// One minus the part of all usage; shares do not count (I3).
        Linear = "linear",
        /// The rank in a walk through the tree, the least served first (F12).
        Tree = "fairtree",
        /// The distance from a target in percent (M12).
        Target = "target",
        /// Everybody is alike.
        Off = "off",
    }
}

named! {
    /// Whose usage counts for a job (X5).
    UsageSubject {
        /// That of its user under its account.
        Member = "user@account",
        /// That of its account: all its users are alike.
        Account = "account",
        /// That of its user, whatever the accounts.
        User = "user",
        /// That of its pool, which is an account of the tree.
        Pool = "pool",
    }
}

named! {
    /// What `fairtree` takes for equal (F12).
    TieRule {
        /// Levels as computed; a user as good as an account shares the rank of its first user.
        Slurm = "slurm",
        /// Levels but for rounding; a user as good as an account goes before it.
        Flux = "flux",
    }
}

named! {
    /// How `target` measures the distance (M12).
    Distance {
        /// Target minus usage, in percent.
        Difference = "difference",
        /// One minus usage over target.
        Ratio = "ratio",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Y25.
    #[test]
    fn who_is_listed_nowhere_has_an_account_below_the_default_one() {
        let users = Some([("bob".to_string(), crate::model::account::Shares::default())].into());
        let research = Account {
            name: "research".to_string(),
            users,
            ..Account::default()
        };
        let default_account = Some("research".to_string());
        let policy = FairShare {
            accounts: vec![research],
            default_account,
            ..FairShare::default()
        };
        assert_eq!(policy.default_for("ann").as_deref(), Some("research/ann"));
        assert_eq!(policy.default_for("bob"), None);
    }
}
