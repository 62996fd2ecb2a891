//! Startup grace: no scheduling cycle runs until all usable nodes have connected, or 2 seconds have
//! passed.
//!
//! A cycle with only some of the nodes would drop the bookings (planned starts) on missing nodes.
//! It could then start jobs that delay these planned starts.

use crate::model::node::Node;
use crate::model::time::Span;
use crate::server::state::ServerState;
use crate::update::Update;
use std::collections::BTreeSet;

/// Maximum wait for nodes. Nodes that are up respond within milliseconds.
pub(crate) const LONGEST: Span = Span::seconds(2);

/// Maximum time a personal schedd waits for the noded that it starts, before it handles requests.
pub(crate) const OWN: Span = Span::seconds(5);

/// The nodes that have not connected yet.
pub struct StartupGrace(BTreeSet<String>);

impl StartupGrace {
    /// Starts the grace period for all stored nodes that could run jobs when they were stored.
    pub fn new<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> StartupGrace {
        let usable = nodes.into_iter().filter(|node| node.is_usable());
        StartupGrace(usable.map(|node| node.facts.name.clone()).collect())
    }

    /// Whether schedd still waits for nodes. At the end of the grace period, missing nodes are
    /// stored as down, so that the next start of schedd does not wait for them.
    pub fn is_waiting(&mut self, server: &mut ServerState) -> bool {
        self.0.retain(|name| {
            server
                .node(name)
                .is_some_and(|node| !node.up && !node.offline && node.refused.is_none())
        });
        if server.is_settled(LONGEST) {
            let late = std::mem::take(&mut self.0);
            let late: Vec<Node> = late
                .iter()
                .filter_map(|name| server.node(name).cloned())
                .collect();
            late.into_iter()
                .for_each(|node| server.add_update(Update::Node(Box::new(node))));
        }
        !self.0.is_empty()
    }
}
