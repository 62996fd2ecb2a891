//! The tree of accounts and their users, each with shares (F10).

use crate::model::account::member::Member;
use crate::model::account::{Account, ROOT_NAME, Shares, UsageTarget};
use std::collections::{BTreeMap, VecDeque};

/// The accounts of a site and their users.
///
/// If no accounts are configured, every user with a job is directly below the root and has one
/// share. If accounts are configured, a user who belongs to none of them has no shares. An account
/// without a list of users is open to all users, with one share each. The account [`ROOT_NAME`] is
/// the root itself; its users are on the level of the accounts.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The nodes of the tree: the root first, and parents before children. A *place* is an index
    /// into this list. Among configured siblings, the users come first, by name, and then the
    /// accounts, by name, so that sums do not depend on the order in the file. Places that are
    /// added later follow at the end.
    pub(super) nodes: Vec<TreeNode>,
    pub(super) accounts: BTreeMap<String, usize>,
    pub(super) members: BTreeMap<Member, usize>,
    /// For each user, the first configured account with this user in its list.
    defaults: BTreeMap<String, String>,
    is_flat: bool,
}

/// An account, or a user under an account.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TreeNode {
    pub parent: usize,
    pub shares: Shares,
    pub target: Option<UsageTarget>,
    /// Whether new users or accounts directly below the node get a share.
    pub is_open: bool,
    pub is_user: bool,
}

/// The index of the root.
pub(super) const ROOT: usize = 0;

impl TreeNode {
    fn root(is_open: bool) -> TreeNode {
        TreeNode {
            parent: ROOT,
            shares: Shares::default(),
            target: None,
            is_open,
            is_user: false,
        }
    }
}

impl Tree {
    /// The tree of these accounts, which must have passed [`check`](crate::model::account::check).
    pub fn of(accounts: &[Account]) -> Tree {
        let mut tree = Tree::bare(accounts.is_empty());
        let mut below: BTreeMap<&str, BTreeMap<&str, &Account>> = BTreeMap::new();
        for account in accounts {
            for (user, _) in account.users.iter().flatten() {
                tree.defaults
                    .entry(user.clone())
                    .or_insert_with(|| account.name.clone());
            }
            if account.name == ROOT_NAME {
                tree.open_root(account);
            } else {
                below
                    .entry(account.parent.as_deref().unwrap_or(ROOT_NAME))
                    .or_default()
                    .insert(&account.name, account);
            }
        }
        let mut next = VecDeque::from([(ROOT, ROOT_NAME)]);
        while let Some((parent, name)) = next.pop_front() {
            for (name, account) in below.remove(name).unwrap_or_default() {
                next.push_back((tree.add_account(account, parent), name));
            }
        }
        tree
    }

    fn open_root(&mut self, account: &Account) {
        self.nodes[ROOT].is_open = account.users.is_none();
        self.add_users(account, "", ROOT);
    }

    /// An empty tree. If `is_open` is true, the tree is flat (without accounts), and each new
    /// member directly below the root gets a share.
    pub(super) fn bare(is_open: bool) -> Tree {
        let (accounts, members, defaults) = Default::default();
        Tree {
            nodes: vec![TreeNode::root(is_open)],
            accounts,
            members,
            defaults,
            is_flat: is_open,
        }
    }

    /// Whether the tree was made without accounts, so that users are added directly below the root.
    pub fn is_flat(&self) -> bool {
        self.is_flat
    }

    /// The member (user under an account) to which a job of `user` is charged. The account is the
    /// requested account (`-A`), which need not be configured; otherwise the first configured
    /// account with this user in its list. It is empty if no account is requested and none lists
    /// the user, or if it is the root.
    pub fn member(&self, user: &str, requested: Option<&str>) -> Member {
        let account = requested
            .or_else(|| self.defaults.get(user).map(String::as_str))
            .filter(|account| *account != ROOT_NAME);
        Member::new(account.unwrap_or_default(), user)
    }

    /// The member to which recorded usage counts. `member` has the user and the requested account
    /// of the record.
    pub fn named(&self, member: &Member) -> Member {
        let account = Some(member.account.as_str()).filter(|account| !account.is_empty());
        self.member(&member.user, account)
    }

    fn add_account(&mut self, account: &Account, parent: usize) -> usize {
        let node = TreeNode {
            parent,
            shares: account.shares,
            target: account.target,
            is_open: account.users.is_none(),
            is_user: false,
        };
        let place = self.push(node);
        self.accounts.insert(account.name.clone(), place);
        self.add_users(account, &account.name, place);
        place
    }

    fn add_users(&mut self, account: &Account, name: &str, place: usize) {
        let users: BTreeMap<&str, Shares> = account
            .users
            .iter()
            .flatten()
            .map(|(user, shares)| (user.as_str(), *shares))
            .collect();
        for (user, shares) in users {
            self.add_user(Member::new(name, user), place, shares);
        }
    }

    fn add_user(&mut self, member: Member, parent: usize, shares: Shares) -> usize {
        let place = self.push(TreeNode {
            shares,
            is_user: true,
            parent,
            ..TreeNode::root(false)
        });
        self.members.insert(member, place);
        place
    }

    fn push(&mut self, node: TreeNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The place of an account. A missing account is added: `parent/name` below `parent` if
    /// `parent` exists (Y25), any other account below the root.
    pub(super) fn account(&mut self, name: &str) -> usize {
        if let Some(&place) = self.accounts.get(name) {
            return place;
        }
        let above = name
            .rsplit_once('/')
            .and_then(|(above, _)| self.accounts.get(above));
        let parent = above.copied().unwrap_or(ROOT);
        let place = self.push(TreeNode {
            parent,
            shares: self.default_shares(parent),
            ..TreeNode::root(true)
        });
        self.accounts.insert(name.to_string(), place);
        place
    }

    /// The place of a member; adds the member if it is missing.
    pub(super) fn entry_or_insert(&mut self, member: &Member) -> usize {
        if let Some(&place) = self.members.get(member) {
            return place;
        }
        let parent = if member.account.is_empty() {
            ROOT
        } else {
            self.account(&member.account)
        };
        self.add_user(member.clone(), parent, self.default_shares(parent))
    }

    /// The shares of a new member or account below `parent`.
    fn default_shares(&self, parent: usize) -> Shares {
        Shares::Of(if self.nodes[parent].is_open { 1.0 } else { 0.0 })
    }

    /// Adds to the amount of each place the amounts of all places below it.
    pub(super) fn sum_up(&self, amounts: &mut [f64]) {
        for place in (1..self.nodes.len()).rev() {
            amounts[self.nodes[place].parent] += amounts[place];
        }
    }

    /// The tree without its users.
    pub(super) fn of_accounts(&self) -> Tree {
        let mut tree = Tree::bare(self.nodes[ROOT].is_open);
        tree.is_flat = self.is_flat;
        let mut places = BTreeMap::from([(ROOT, ROOT)]);
        let names: BTreeMap<usize, &String> = self
            .accounts
            .iter()
            .map(|(name, &place)| (place, name))
            .collect();
        for (place, name) in names {
            let node = &self.nodes[place];
            let parent = places.get(&node.parent).copied().unwrap_or(ROOT);
            let copy = tree.push(TreeNode {
                parent,
                ..node.clone()
            });
            tree.accounts.insert(name.clone(), copy);
            places.insert(place, copy);
        }
        tree
    }
}
