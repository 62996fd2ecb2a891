//! Whom usage is charged to.

use serde::{Deserialize, Serialize};

/// Whom usage is charged to: a user under an account. Ordered, serialisable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The account; empty for a user under none.
    pub account: String,
    /// The user's name.
    pub user: String,
}
