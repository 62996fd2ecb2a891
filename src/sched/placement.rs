//! Node selection: which nodes a request gets. Filter, rank, place.
//!
//! * [`node_filter`]: the nodes that a job may use
//! * [`rank`]: the order in which it uses them
//! * [`matching`]: the chunks, placed on nodes; nothing is taken
//! * [`allocation`] and [`task_distribution`]: the placement, as shares of nodes

pub(in crate::sched) mod allocation;
pub(in crate::sched) mod allocation_script;
pub(in crate::sched) mod availability_map;
pub(in crate::sched) mod availability_policy;
pub(in crate::sched) mod candidates;
pub(in crate::sched) mod chunk_distribution;
pub(in crate::sched) mod cluster_passes;
pub(in crate::sched) mod columns;
pub mod cycle_cache;
pub(in crate::sched) mod expression_context;
pub(in crate::sched) mod matching;
pub mod nearest_fit;
pub(in crate::sched) mod neighborhood;
pub(in crate::sched) mod node_class;
pub(in crate::sched) mod node_filter;
pub(in crate::sched) mod node_sets;
pub(in crate::sched) mod rank;
pub(in crate::sched) mod rank_order;
pub(in crate::sched) mod resolution;
pub(in crate::sched) mod search;
pub mod shared_hosts;
pub(in crate::sched) mod shortage;
pub(in crate::sched) mod task_distribution;
pub(in crate::sched) mod tentative;
