//! The configured tree as text, without usage.

use super::charged::Charged;
use super::tree::{ROOT, Tree};
use crate::model::account::{Account, ROOT_NAME};
use crate::model::policy::FairShare;
use crate::model::policy::fair_share::UsageSubject;
use std::collections::BTreeMap;

/// The text: one line for the method, one line for each account, indented by level, and one line
/// for the users of the account `root`, if it is configured. If no accounts are configured, a
/// second line says so.
pub fn outline(policy: &FairShare) -> String {
    let head = format!(
        "fairshare: {}, by {}\n",
        policy.method.name(),
        policy.subject.name()
    );
    if policy.accounts.is_empty() {
        return format!("{head}  no accounts: every user has one share\n");
    }
    let tree = Charged::new(
        &Tree::of(&policy.accounts),
        UsageSubject::Member,
        &BTreeMap::new(),
    );
    let mut outline = Outline {
        tree: &tree,
        entitlements: tree.entitlements(),
        accounts: &policy.accounts,
        text: head,
    };
    outline.below(ROOT, 1);
    outline.text
}

/// The input of the outline, and the text written so far.
struct Outline<'a> {
    tree: &'a Charged,
    entitlements: Vec<f64>,
    accounts: &'a [Account],
    text: String,
}

impl Outline<'_> {
    /// Writes all accounts below `parent`; those directly below it are indented by `depth` levels.
    /// If `parent` is the root, also writes the line of the account `root`, if any.
    fn below(&mut self, parent: usize, depth: usize) {
        let accounts = &self.tree.tree.accounts;
        let below: Vec<(&String, usize)> = accounts
            .iter()
            .map(|(name, &place)| (name, place))
            .filter(|(_, place)| self.tree.tree.nodes[*place].parent == parent)
            .collect();
        for (name, place) in below {
            let shares = self.tree.tree.nodes[place].shares;
            let line = format!(
                "{:depth$}{name}: shares {shares}, {:.2}% of the cluster",
                "",
                100.0 * self.entitlements[place],
                depth = 2 * depth
            );
            self.line(&line, name);
            self.below(place, depth + 1);
        }
        if parent == ROOT {
            self.root();
        }
    }

    fn root(&mut self) {
        if self
            .accounts
            .iter()
            .any(|account| account.name == ROOT_NAME)
        {
            self.line("  users directly below the root", ROOT_NAME);
        }
    }

    fn line(&mut self, line: &str, name: &str) {
        let account = self.accounts.iter().find(|account| account.name == name);
        let target = account
            .and_then(|account| account.target)
            .map(|target| format!(", target {target}"));
        let users = match account.and_then(|account| account.users.as_ref()) {
            None => "any user".to_string(),
            Some(users) => users
                .iter()
                .map(|(user, shares)| format!("{user} {shares}"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let users = if users.is_empty() {
            String::new()
        } else {
            format!(": {users}")
        };
        self.text += &format!("{line}{}{users}\n", target.unwrap_or_default());
    }
}
