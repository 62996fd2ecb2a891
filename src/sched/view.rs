//! What a cycle sees: the nodes, the queue, the running jobs, and the plan that it returns.
//!
//! Every other directory of the scheduler reads these types. They decide nothing.

pub(in crate::sched) mod amounts;
pub mod change;
pub(in crate::sched) mod charging;
pub(in crate::sched) mod class;
pub(in crate::sched) mod cluster;
pub(in crate::sched) mod counting;
pub(in crate::sched) mod current_bookings;
pub(in crate::sched) mod expression_context;
pub(in crate::sched) mod external_use;
pub(in crate::sched) mod free_resources;
pub mod holdings;
pub(in crate::sched) mod limited;
pub(in crate::sched) mod node_access;
pub(in crate::sched) mod node_count;
pub(in crate::sched) mod node_index;
pub(in crate::sched) mod node_order;
pub mod plan;
pub mod pools;
pub(in crate::sched) mod predicted_suspension;
pub mod preemption_candidate;
pub(in crate::sched) mod processor_equivalents;
pub(in crate::sched) mod request_groups;
pub(in crate::sched) mod shape;
pub mod snapshot;
pub(in crate::sched) mod sort_key;
pub(in crate::sched) mod suspended;
pub mod usage;
pub(in crate::sched) mod wait;
