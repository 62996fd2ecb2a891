//! Whom usage is charged to.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whom usage is charged to: a user under an account. Ordered, serialisable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The account, by name; empty where there is none.
    pub account: String,
    /// The user, by name.
    pub user: String,
}

impl Member {
    /// `user` under `account`.
    pub fn new(account: &str, user: &str) -> Member {
        Member {
            account: account.to_string(),
            user: user.to_string(),
        }
    }
}

/// `account/user`, or `user` where there is no account.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.account.is_empty() {
            write!(f, "{}/", self.account)?;
        }
        f.write_str(&self.user)
    }
}
