//! After a start: nothing is decided before the nodes that were there have answered, or had time
//! to.
//!
//! A cycle that sees but some of them would drop the promises that stand on the others, and start
//! in their way whatever fits on those that were quickest.

use crate::model::node::Node;
use crate::model::time::Span;
use crate::server::state::ServerState;
use crate::update::Update;
use std::collections::BTreeSet;

/// How long nodes are waited for. Those that are there answer within milliseconds.
pub(crate) const LONGEST: Span = Span::seconds(2);

/// How long a personal schedd waits for the noded that it starts itself, before it takes requests.
pub(crate) const OWN: Span = Span::seconds(5);

/// The nodes that are waited for.
pub struct StartupGrace(BTreeSet<String>);

impl StartupGrace {
    /// Waits for those of the nodes, as the spool has them, that jobs could be started on.
    pub fn of<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> StartupGrace {
        let usable = nodes.into_iter().filter(|node| node.is_usable());
        StartupGrace(usable.map(|node| node.facts.name.clone()).collect())
    }

    /// Whether a node is still waited for. One that has not answered in time is written down as
    /// away, so that the next start does not wait for it.
    pub fn goes_on(&mut self, server: &mut ServerState) -> bool {
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
                .for_each(|node| server.also(Update::Node(Box::new(node))));
        }
        !self.0.is_empty()
    }
}
