//! Node selection: which nodes a request gets. The steps are filter, rank and place.
//!
//! * [`filter`]: the nodes that a job may use
//! * [`rank`]: the order in which a job uses these nodes
//! * [`place`]: which chunks go on each node; no resources are claimed
//! * [`allocation`] and [`task_distribution`]: turn a placement into shares of nodes

pub(in crate::sched) mod allocation;
pub(in crate::sched) mod allocation_script;
pub(in crate::sched) mod availability_map;
pub(in crate::sched) mod availability_policy;
pub(in crate::sched) mod cluster_passes;
pub(in crate::sched) mod columns;
pub mod cycle_cache;
pub(in crate::sched) mod expression_context;
pub(in crate::sched) mod filter;
pub(in crate::sched) mod guide;
pub mod nearest_fit;
pub(in crate::sched) mod node_class;
pub(in crate::sched) mod place;
pub(in crate::sched) mod rank;
pub(in crate::sched) mod ranked_nodes;
pub(in crate::sched) mod resolution;
pub mod shared_hosts;
pub(in crate::sched) mod shortage;
pub(in crate::sched) mod task_distribution;
