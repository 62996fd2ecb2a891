//! Node selection: which nodes a request gets. Filter, rank, place.
//!
//! * [`node_filter`]: the nodes that a job may use
//! * [`rank`]: the order in which it uses them
//! * [`matching`]: the chunks, placed on nodes; nothing is taken
//! * [`allocation`] and [`task_distribution`]: the placement, as shares of nodes

pub(crate) mod allocation;
pub(crate) mod allocation_script;
pub(crate) mod availability_map;
pub(crate) mod availability_policy;
pub(crate) mod candidates;
pub(crate) mod chunk_distribution;
pub(crate) mod columns;
pub mod cycle_cache;
pub(crate) mod matching;
pub mod nearest_fit;
pub(crate) mod neighborhood;
pub(crate) mod node_class;
pub(crate) mod node_filter;
pub(crate) mod node_sets;
pub(crate) mod rank;
pub(crate) mod rank_order;
pub(crate) mod resolution;
pub(crate) mod search;
pub mod shared_hosts;
pub(crate) mod shortage;
pub(crate) mod task_distribution;
pub(crate) mod tentative;
