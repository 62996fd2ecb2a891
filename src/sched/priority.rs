//! The order of the waiting jobs: the priority of each job, and the iteration in that order.

pub(in crate::sched) mod cache;
pub mod calculator;
pub mod components;
pub(in crate::sched) mod factors;
pub(in crate::sched) mod formula;
pub mod inputs;
pub(in crate::sched) mod pool_satisfaction;
pub mod queue_order;
pub(in crate::sched) mod ranking;
pub(in crate::sched) mod rating;
pub(in crate::sched) mod round_robin;
pub(in crate::sched) mod tiers;
pub(in crate::sched) mod user_priority;
