//! Fair-share: entitlement and usage of accounts and users, and pools below their fair share.

pub(crate) mod factor;
pub mod shares;
pub mod starvation;
pub(crate) mod status;
