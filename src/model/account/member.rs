//! Members: usage is charged to a user under an account.

use serde::{Deserialize, Serialize};
use std::fmt;

/// User under an account, to which usage is charged.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Account name; empty for none.
    pub account: String,
    /// User name.
    pub user: String,
}

impl Member {
    /// Creates the member for `user` under `account`.
    pub fn new(account: &str, user: &str) -> Member {
        Member {
            account: account.to_string(),
            user: user.to_string(),
        }
    }
}

/// Formats as `account/user`, or `user` without an account.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.account.is_empty() {
            write!(f, "{}/", self.account)?;
        }
        f.write_str(&self.user)
    }
}
