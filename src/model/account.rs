//! Accounts: the tree of fair-share entitlements.
//!
//! An account's entitlement is divided among the accounts and users directly below it, in
//! proportion to their shares (F10).

pub mod accounting;
pub mod charge;
pub mod decay;
pub mod lineage;
pub mod member;
pub mod pool_terms;
pub mod starvation;

use crate::model::account::pool_terms::PoolTerms;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum depth of the tree.
pub const DEEPEST: usize = 64;

/// Name of the root account, which stands for the whole tree.
pub const ROOT_NAME: &str = "root";

/// `[[account]]`: an account of the fair-share tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Unique name, by which jobs request the account (`-A`).
    pub name: String,
    /// Parent account; None if the parent is the root, and for the root itself.
    #[serde(default)]
    pub parent: Option<String>,
    /// Share of the parent's entitlement.
    #[serde(default)]
    pub shares: Shares,
    /// Usage target for method `target`; if None, the target follows from the shares.
    #[serde(default)]
    pub target: Option<UsageTarget>,
    /// Users of the account with their shares. If None, every user may charge the account and has
    /// one share.
    #[serde(default)]
    pub users: Option<Vec<(String, Shares)>>,
    /// Settings of the account as a YTsaurus pool.
    #[serde(default)]
    pub pool: PoolTerms,
}

/// Shares of an account or user, relative to the shares of the other accounts and users under the
/// same parent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shares {
    /// Number of shares, at least 0.
    Of(f64),
    /// No own shares. The accounts and users below an account without own shares compete with the
    /// siblings of that account. A user without own shares has the entitlement of the user's
    /// account.
    Parent,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::Of(1.0)
    }
}

/// Formats as in the configuration file: `30` or `parent`.
impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Shares::Of(number) => write!(f, "{number}"),
            Shares::Parent => f.write_str("parent"),
        }
    }
}

/// Target for the usage of a user or an account (M12).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageTarget {
    /// Percentage of all usage; for [`TargetKind::Amount`], seconds of weighted resources.
    pub value: f64,
    /// Effect of usage above and below the target.
    pub bound: TargetKind,
}

/// Effect of usage above and below a target (M12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// `25`: usage below the target raises priority, usage above it lowers priority.
    Target,
    /// `25+`: usage below the target raises priority.
    Floor,
    /// `25-`: usage above the target lowers priority.
    Ceiling,
    /// `25%`: cap as a percentage of all usage. `qstat --shares` reports usage above the cap;
    /// priorities and starts do not depend on the cap.
    Percent,
    /// `25^`: cap as an amount, with the same effect as `25%`.
    Amount,
}

impl UsageTarget {
    /// Parses `25`, `25+`, `25-`, `25%` or `25^`. None for any other text, for numbers below 0,
    /// and for percentages above 100.
    pub fn parse(text: &str) -> Option<UsageTarget> {
        let signs = [
            ('+', TargetKind::Floor),
            ('-', TargetKind::Ceiling),
            ('%', TargetKind::Percent),
            ('^', TargetKind::Amount),
        ]
        .into_iter();
        let signed = signs
            .filter_map(|(sign, bound)| Some((text.strip_suffix(sign)?, bound)))
            .next();
        let (number, bound) = signed.unwrap_or((text, TargetKind::Target));
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let value: f64 = number.parse().ok()?;
        let largest = if bound == TargetKind::Amount {
            f64::MAX
        } else {
            100.0
        };
        (0.0..=largest)
            .contains(&value)
            .then_some(UsageTarget { value, bound })
    }
}

/// Formats as in the configuration file.
impl fmt::Display for UsageTarget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let sign = match self.bound {
            TargetKind::Target => "",
            TargetKind::Floor => "+",
            TargetKind::Ceiling => "-",
            TargetKind::Percent => "%",
            TargetKind::Amount => "^",
        };
        write!(f, "{}{sign}", self.value)
    }
}

/// Reason why accounts do not form a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountFault {
    /// The parent is not a configured account.
    #[error("there is no [[account]] named `{parent}`: add it, or correct the parent of `{name}`")]
    Orphan {
        /// Account name.
        name: String,
        /// Name given as the parent.
        parent: String,
    },
    /// The parents form a cycle.
    #[error("`{0}` is its own ancestor: remove one of the parents in {1}")]
    Cycle(String, String),
    /// The root has a parent, shares or a target.
    #[error(
        "`{ROOT_NAME}` is the root of the tree: it may have users, but no parent, shares or target"
    )]
    Root,
    /// More than [`DEEPEST`] levels.
    #[error("`{0}` is more than {DEEPEST} levels deep: choose a parent nearer to the root")]
    Deep(String),
}

/// Checks that the accounts form a tree; the caller has checked that their names differ. The error
/// contains the reason, and the index of the first account with a fault in itself or in an
/// ancestor.
pub fn check(accounts: &[Account]) -> Result<(), (usize, AccountFault)> {
    let parents: BTreeMap<&str, Option<&str>> = accounts
        .iter()
        .map(|account| (account.name.as_str(), account.parent.as_deref()))
        .collect();
    for (place, account) in accounts.iter().enumerate() {
        check_one(account, &parents).map_err(|fault| (place, fault))?;
    }
    Ok(())
}

fn check_one(
    account: &Account,
    parents: &BTreeMap<&str, Option<&str>>,
) -> Result<(), AccountFault> {
    if account.name != ROOT_NAME {
        return check_ancestors(&account.name, parents);
    }
    let is_bare =
        account.parent.is_none() && account.shares == Shares::default() && account.target.is_none();
    if is_bare {
        Ok(())
    } else {
        Err(AccountFault::Root)
    }
}

/// Checks that the parents of an account lead to the root within [`DEEPEST`] levels.
fn check_ancestors(name: &str, parents: &BTreeMap<&str, Option<&str>>) -> Result<(), AccountFault> {
    let mut path = vec![name];
    let mut seen = BTreeSet::from([name]);
    let mut at = name;
    while let Some(Some(parent)) = parents.get(at).filter(|parent| **parent != Some(ROOT_NAME)) {
        if !parents.contains_key(parent) {
            return Err(AccountFault::Orphan {
                name: at.to_string(),
                parent: parent.to_string(),
            });
        }
        path.push(parent);
        if !seen.insert(parent) {
            return Err(AccountFault::Cycle(parent.to_string(), path.join(" -> ")));
        }
        if path.len() > DEEPEST {
            return Err(AccountFault::Deep(name.to_string()));
        }
        at = parent;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, parent: &str) -> Account {
        let parent = Some(parent.to_string()).filter(|parent| !parent.is_empty());
        Account {
            name: name.to_string(),
            parent,
            ..Account::default()
        }
    }

    fn fault(accounts: &[Account]) -> String {
        let (place, fault) = check(accounts).unwrap_err();
        format!("{place}: {fault}")
    }

    #[test]
    fn accounts_in_any_order_form_a_tree() {
        assert_eq!(
            check(&[account("b", "a"), account("a", ""), account("c", "b")]),
            Ok(())
        );
    }

    #[test]
    fn accounts_that_form_no_tree_are_refused_with_the_index_of_an_invalid_account() {
        let error = fault(&[account("a", ""), account("b", "x")]);
        assert_eq!(
            error,
            "1: there is no [[account]] named `x`: add it, or correct the parent of `b`"
        );
        let error = fault(&[account("a", "b"), account("b", "a")]);
        assert_eq!(
            error,
            "0: `a` is its own ancestor: remove one of the parents in a -> b -> a"
        );
        assert!(fault(&[account("a", "a")]).contains("`a` is its own ancestor"));
        assert!(
            fault(&[account("c", "a"), account("a", "b"), account("b", "a")])
                .contains("a -> b -> a")
        );
        let mut chain = vec![account("0", "")];
        chain.extend((1..DEEPEST).map(|n| account(&n.to_string(), &(n - 1).to_string())));
        assert_eq!(check(&chain), Ok(()));
        chain.push(account("64", "63"));
        assert_eq!(
            fault(&chain),
            "64: `64` is more than 64 levels deep: choose a parent nearer to the root"
        );
    }

    #[test]
    fn the_root_may_be_configured_but_has_no_parent_shares_or_target() {
        assert_eq!(check(&[account("a", "root"), account("root", "")]), Ok(()));
        assert_eq!(check(&[account("a", "root")]), Ok(()));
        let error =
            "1: `root` is the root of the tree: it may have users, but no parent, shares or target";
        assert_eq!(fault(&[account("a", ""), account("root", "a")]), error);
        let target = Account {
            target: UsageTarget::parse("5"),
            ..account("root", "")
        };
        assert_eq!(fault(&[account("a", ""), target]), error);
    }

    #[test]
    fn targets_are_parsed_and_formatted() {
        for text in ["50", "10+", "35-", "25%", "12.5", "86400^"] {
            assert_eq!(UsageTarget::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(UsageTarget::parse("10+").unwrap().bound, TargetKind::Floor);
        for text in ["", "+", "-5", "101", "inf", "NaN", "10+-", "1e400^", "ten"] {
            assert_eq!(UsageTarget::parse(text), None, "{text}");
        }
    }
}
