//! Fair share: entitlement and usage of accounts and users, and pools below their fair share.

pub(in crate::sched) mod factor;
pub mod starvation;
pub(in crate::sched) mod status;
pub(in crate::sched) mod usage_percent;
