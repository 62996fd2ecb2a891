//! `[fairshare]`: effect of past usage on priority.

use crate::model::account::Account;
use serde::{Deserialize, Serialize};

/// Settings of `[fairshare]`, and the accounts of `[[account]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FairShare {
    /// Method of computing the factor from shares and usage.
    pub method: Method,
    /// Subject of a job's fair-share factor: the factor depends on the usage of this subject.
    pub subject: UsageSubject,
    /// Rule for ties in `fairtree`.
    #[serde(rename = "ties")]
    pub tie_rule: TieRule,
    /// Measure of the distance from the target, for method `target`.
    pub distance: Distance,
    /// Parent of automatic accounts (Y25). A user who is listed in no account and submits without
    /// `-A` has an automatic account, such as `research/ann`, while the user has jobs or usage.
    pub default_account: Option<String>,
    /// `[[account]]` in configuration order; if empty, every user counts separately.
    pub accounts: Vec<Account>,
}

impl FairShare {
    /// Returns the default account of a user: the first account that lists the user.
    pub fn account_of(&self, user: &str) -> Option<&str> {
        self.accounts
            .iter()
            .find(|account| {
                let mut users = account.users.iter().flatten();
                users.any(|(listed, _)| listed == user)
            })
            .map(|account| account.name.as_str())
    }

    /// Returns the automatic account of a user (Y25); None for a user who is listed in an account,
    /// or if [`FairShare::default_account`] is not set.
    pub fn default_for(&self, user: &str) -> Option<String> {
        let parent = self.default_account.as_deref()?;
        if self.account_of(user).is_some() {
            return None;
        }
        Some(format!("{parent}/{user}"))
    }
}

named! {
    /// Method of computing the factor from shares and usage (X8).
    Method {
        /// 2^(-effective usage / shares): 0.5 at the fair share (F11, I16).
        Classic = "classic",
        /// 1 minus the subject's fraction of all usage; shares have no effect (I3).
        Linear = "linear",
        /// Rank in a traversal of the tree, the least served first (F12).
        Tree = "fairtree",
        /// Distance from a usage target (M12).
        Target = "target",
        /// No fair share: equal factors for all.
        Off = "off",
    }
}

named! {
    /// Subject of a job's fair-share factor: the factor depends on the usage of this subject (X5).
    UsageSubject {
        /// User within the account.
        Member = "user@account",
        /// Account: all users of an account have the same factor.
        Account = "account",
        /// User across all accounts.
        User = "user",
        /// Pool, which is an account of the tree.
        Pool = "pool",
    }
}

named! {
    /// Rule for ties in `fairtree` (F12).
    TieRule {
        /// Exact comparison of fair-share levels; a user tied with an account shares the rank of
        /// the account's first user.
        Slurm = "slurm",
        /// Comparison up to rounding; a user tied with an account precedes the account.
        Flux = "flux",
    }
}

named! {
    /// Measure of the distance from a target (M12).
    Distance {
        /// Target minus usage, in percent.
        Difference = "difference",
        /// 1 minus usage divided by target.
        Ratio = "ratio",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Y25.
    #[test]
    fn unlisted_users_have_an_account_below_the_default_one() {
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
