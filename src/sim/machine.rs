//! The machine on which a trace is replayed.
//!
//! By default the machine is one node with all processors. Each job is then one chunk, which makes
//! the replay fast. On several nodes a job consists of chunks of one processor, placed freely. In
//! both cases a job fits if enough processors are free, so the start times do not depend on the
//! number of nodes.

use super::swf::Log;
use crate::config::Config;
use crate::model::node::NodeFacts;
use crate::model::resource::ResourceValue;
use crate::sched::view::snapshot::ClusterState;
use serde::Serialize;
use std::fmt;

/// A machine that consists of equal nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeBatch {
    nodes: u32,
    cores_per_node: u32,
}

/// `32 x 4`: 32 nodes with 4 processors each.
impl fmt::Display for NodeBatch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} x {}", self.nodes, self.cores_per_node)
    }
}

/// Why the size of the machine is unknown or invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineSizeError {
    /// The options give at most one number, and the header has no size above 0.
    #[error(
        "the header has no MaxProcs or MaxNodes above 0: give the machine size with --nodes and \
         --cores-per-node"
    )]
    Unknown,
    /// The header's processors are not divisible by the given number.
    #[error(
        "{processors} processors are not divisible by {parts}: give both --nodes and \
         --cores-per-node"
    )]
    Uneven {
        /// The processors in the header.
        processors: u32,
        /// The number of nodes, or of processors per node.
        parts: u32,
    },
    /// More processors than a 32-bit number holds.
    #[error(
        "{nodes} nodes with {cores} processors each are more than {} processors",
        u32::MAX
    )]
    TooLarge {
        /// The number of nodes.
        nodes: u32,
        /// The number of processors per node.
        cores: u32,
    },
}

impl NodeBatch {
    /// The machine for a log, with this number of nodes and this number of processors per node,
    /// both above 0. A missing number follows from the processors in the log's header. If both
    /// numbers are missing, the machine is one node with the header's processors.
    pub fn new(
        log: &Log,
        nodes: Option<u32>,
        cores: Option<u32>,
    ) -> Result<NodeBatch, MachineSizeError> {
        let (nodes, cores) = match (nodes, cores) {
            (Some(nodes), Some(cores)) => (nodes, cores),
            (Some(nodes), None) => (nodes, divided(log, nodes)?),
            (None, Some(cores)) => (divided(log, cores)?, cores),
            (None, None) => (1, log.processors().ok_or(MachineSizeError::Unknown)?),
        };
        let machine = NodeBatch {
            nodes,
            cores_per_node: cores,
        };
        nodes
            .checked_mul(cores)
            .map(|_| machine)
            .ok_or(MachineSizeError::TooLarge { nodes, cores })
    }

    /// The total number of processors.
    pub fn processors(self) -> u32 {
        self.nodes * self.cores_per_node
    }

    /// The `select` statement of a job with this many processors.
    pub fn select(self, processors: u32) -> String {
        match self.nodes {
            1 => format!("1:ncpus={processors}"),
            _ => format!("{processors}:ncpus=1"),
        }
    }

    /// The idle machine, with the queues of a configuration.
    pub fn state(self, config: &Config) -> ClusterState {
        let mut state = ClusterState::new(&config.resources());
        config
            .queues()
            .iter()
            .for_each(|queue| state.set_queue(queue));
        (1..=self.nodes).for_each(|number| state.set_node(&self.node(number), true));
        state
    }

    /// A node. The processors have no numbers, because a replay does not bind jobs to processors.
    fn node(self, number: u32) -> NodeFacts {
        let name = format!("n{number}");
        NodeFacts {
            host: name.clone(),
            available: [(
                "ncpus".to_string(),
                ResourceValue::Long(i64::from(self.cores_per_node)),
            )]
            .into(),
            pcpus: self.cores_per_node,
            cpus: Vec::new(),
            name,
            ..NodeFacts::default()
        }
    }
}

/// The header's processors divided by `parts`.
fn divided(log: &Log, parts: u32) -> Result<u32, MachineSizeError> {
    let processors = log.processors().ok_or(MachineSizeError::Unknown)?;
    match processors % parts {
        0 => Ok(processors / parts),
        _ => Err(MachineSizeError::Uneven { processors, parts }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_gives_one_node_and_options_override_it() {
        let log = Log {
            max_procs: Some(128),
            ..Log::default()
        };
        let machine = |nodes, cores| {
            NodeBatch::new(&log, nodes, cores).map(|m| (m.nodes, m.cores_per_node, m.select(3)))
        };
        assert_eq!(machine(None, None), Ok((1, 128, "1:ncpus=3".to_string())));
        assert_eq!(
            machine(Some(32), None),
            Ok((32, 4, "3:ncpus=1".to_string()))
        );
        assert_eq!(
            machine(None, Some(64)),
            Ok((2, 64, "3:ncpus=1".to_string()))
        );
        assert_eq!(
            machine(Some(5), Some(7)),
            Ok((5, 7, "3:ncpus=1".to_string()))
        );
        assert_eq!(
            machine(Some(5), None),
            Err(MachineSizeError::Uneven {
                processors: 128,
                parts: 5
            })
        );
        assert!(matches!(
            machine(Some(1 << 20), Some(1 << 20)),
            Err(MachineSizeError::TooLarge { .. })
        ));
        assert_eq!(
            NodeBatch::new(&Log::default(), Some(2), None),
            Err(MachineSizeError::Unknown)
        );
    }
}
