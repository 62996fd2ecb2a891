//! What a cycle sees: the nodes, the queue, the running jobs, and the plan that it returns.
//!
//! Every other directory of the scheduler reads these types. They decide nothing.

pub(crate) mod amounts;
pub mod change;
pub(crate) mod charging;
pub(crate) mod class;
pub(crate) mod cluster;
pub(crate) mod counting;
pub(crate) mod current_bookings;
pub(crate) mod expression_context;
pub(crate) mod external_use;
pub(crate) mod free_resources;
pub mod holdings;
pub(crate) mod limited;
pub(crate) mod node_access;
pub(crate) mod node_count;
pub(crate) mod node_index;
pub(crate) mod node_order;
pub mod plan;
pub mod pools;
pub(crate) mod predicted_suspension;
pub mod preemption_candidate;
pub(crate) mod processor_equivalents;
pub(crate) mod request_groups;
pub(crate) mod shape;
pub mod snapshot;
pub(crate) mod sort_key;
pub(crate) mod suspended;
pub mod usage;
pub(crate) mod wait;
