//! The order of the nodes: first the nodes of `[[node]]` tables, in the order of the configuration,
//! then all other nodes by name. Numbers in names are compared by value (n2 before n10). If a
//! policy prefers none of several nodes, this order decides. It does not depend on the order in
//! which nodes report.

use super::cluster::{Cluster, NodeIx};
use std::collections::BTreeMap;

/// The order of the nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeOrder {
    listed: BTreeMap<String, usize>,
    /// The number of nodes that have been sorted. They are followed by new nodes.
    sorted: usize,
}

/// The sort key of a node name: its position in the configured list, then its parts.
type NodePlace = (usize, Vec<(u64, String)>);

impl NodeOrder {
    fn place(&self, name: &str) -> NodePlace {
        (
            self.listed.get(name).copied().unwrap_or(usize::MAX),
            natural(name),
        )
    }
}

/// Splits a name into pairs of a number and the text after it, so that numbers compare by value.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut parts = vec![(0, String::new())];
    let mut digits = String::new();
    for c in name.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            parts.push((digits.parse().unwrap_or(u64::MAX), String::new()));
            digits.clear();
        }
        if let Some((_, text)) = parts.last_mut() {
            text.push(c);
        }
    }
    if !digits.is_empty() {
        parts.push((digits.parse().unwrap_or(u64::MAX), String::new()));
    }
    parts
}

/// The new index of each node, by its old index.
pub struct Moves(Vec<NodeIx>);

impl Moves {
    /// The new index of a node.
    pub fn of(&self, ix: NodeIx) -> NodeIx {
        self.0[ix.0 as usize]
    }
}

impl Cluster {
    /// Sets the names that come first, in this order. Takes effect with the next
    /// [`put_in_order`](Self::put_in_order).
    pub fn list(&mut self, names: &[String]) {
        let listed = names
            .iter()
            .enumerate()
            .map(|(place, name)| (name.clone(), place))
            .collect();
        self.order = NodeOrder { listed, sorted: 0 };
    }

    /// Sorts all nodes again, unless the new nodes follow the sorted nodes in the right order.
    /// Returns the new indices; None if the nodes were already sorted.
    pub fn put_in_order(&mut self) -> Option<Moves> {
        let order = &self.order;
        let new = self
            .nodes
            .get(order.sorted.max(1) - 1..)
            .unwrap_or_default();
        let is_sorted = new.is_sorted_by(|a, b| order.place(&a.name) <= order.place(&b.name));
        self.order.sorted = self.nodes.len();
        if is_sorted {
            return None;
        }
        let places: Vec<NodePlace> = self
            .nodes
            .iter()
            .map(|node| self.order.place(&node.name))
            .collect();
        let mut sorted: Vec<usize> = (0..self.nodes.len()).collect();
        sorted.sort_by(|&a, &b| {
            (&places[a], &self.nodes[a].name).cmp(&(&places[b], &self.nodes[b].name))
        });
        let mut moves = vec![NodeIx(0); sorted.len()];
        for (new, &old) in sorted.iter().enumerate() {
            moves[old] = NodeIx(new as u32);
        }
        let moves = Moves(moves);
        self.edition += 1;
        self.move_nodes(&moves, &sorted);
        Some(moves)
    }

    fn move_nodes(&mut self, moves: &Moves, sorted: &[usize]) {
        let mut old: Vec<Option<_>> = std::mem::take(&mut self.nodes)
            .into_iter()
            .map(Some)
            .collect();
        self.nodes = sorted
            .iter()
            .filter_map(|&place| old[place].take())
            .collect();
        for ix in self.names.values_mut() {
            *ix = moves.of(*ix);
        }
        let sets = self
            .hosts
            .values_mut()
            .chain(self.buckets.values_mut())
            .chain(self.configured.values_mut())
            .chain([&mut self.with_outside, &mut self.measured]);
        for set in sets {
            *set = set.iter().map(|&ix| moves.of(ix)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    #[test]
    fn configured_nodes_come_first_then_all_others_by_name() {
        let fixture = ["n10", "n2", "b", "n1", "a"]
            .iter()
            .fold(cluster(""), |s, name| s.node(name, "ncpus=1", true));
        let wide = |fixture: &crate::sched::fixture::TestCluster| {
            fixture
                .clone()
                .queued(1, "select=5:ncpus=1 place=scatter")
                .starts()
        };
        assert_eq!(wide(&fixture), "1 on a,b,n1,n2,n10");
        let mut fixture = fixture.running(9, "select=2:ncpus=1", "n10,a", 60);
        fixture
            .state
            .list_nodes(&["n2".to_string(), "nosuch".to_string(), "b".to_string()]);
        assert_eq!(
            fixture.clone().queued(1, "select=3:ncpus=1").starts(),
            "1 on n2,b,n1"
        );
        fixture.state.vacate(crate::model::job_id::JobId::job(9));
        assert_eq!(wide(&fixture), "1 on n2,b,a,n1,n10");
    }

    #[test]
    fn every_number_in_a_name_is_compared_by_value() {
        let names = ["r10n2", "r2n10", "r2n9", "r2", "r2b"];
        let fixture = names.iter().fold(cluster(""), |fixture, name| {
            fixture.node(name, "ncpus=1", true)
        });
        let fixture = fixture.queued(1, "select=5:ncpus=1 place=scatter");
        assert_eq!(fixture.starts(), "1 on r2,r2b,r2n9,r2n10,r10n2");
    }
}
