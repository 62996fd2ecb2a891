//! The input of a cycle (nodes, queue, running jobs), and the plan that the cycle returns.
//!
//! The other modules of the scheduler share these types. This module makes no scheduling decisions.

pub(in crate::sched) mod allocation_answer;
pub mod change;
pub(in crate::sched) mod charging;
pub(in crate::sched) mod class;
pub(in crate::sched) mod cluster;
pub(in crate::sched) mod counting;
pub(in crate::sched) mod current_bookings;
pub(in crate::sched) mod eligible;
pub(in crate::sched) mod external_use;
pub(in crate::sched) mod fair_share_factors;
pub(in crate::sched) mod free_resources;
pub mod holdings;
pub(in crate::sched) mod job_facts;
pub(in crate::sched) mod limited;
pub(in crate::sched) mod node_access;
pub(in crate::sched) mod node_count;
pub(in crate::sched) mod node_filter;
pub(in crate::sched) mod node_index;
pub(in crate::sched) mod node_order;
pub(in crate::sched) mod operations;
pub mod plan;
pub mod pools;
pub(in crate::sched) mod predicted_suspension;
pub mod preemption_candidate;
pub(in crate::sched) mod priority_cache;
pub(in crate::sched) mod processor_equivalents;
pub(in crate::sched) mod queue_turns;
pub(in crate::sched) mod request_groups;
pub(in crate::sched) mod shape;
pub(in crate::sched) mod shared_hosts;
pub mod snapshot;
pub(in crate::sched) mod sort_key;
pub(in crate::sched) mod stable_hash;
pub mod starvation;
pub(in crate::sched) mod suspended;
