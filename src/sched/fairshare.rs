//! Fair share: entitlement and usage of accounts and users, and starvation preemption for jobs and
//! pools (accounts, in the sense of YTsaurus) below their fair share.

pub(in crate::sched) mod factor;
pub mod starvation;
pub(in crate::sched) mod status;
pub(in crate::sched) mod usage_percent;
