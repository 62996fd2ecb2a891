//! The order of the waiting jobs: the priority of each, and the walk from the first to the last.

pub(crate) mod cache;
pub mod calculator;
pub mod components;
pub(crate) mod factors;
pub(crate) mod formula;
pub(crate) mod pool_satisfaction;
pub mod queue_order;
pub(crate) mod ranking;
pub(crate) mod round_robin;
pub(crate) mod tiers;
pub(crate) mod user_priority;
