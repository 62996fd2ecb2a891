//! Nodes in the order of their ranks, with their free amounts.

use super::columns::Columns;
use super::guide::Rank;
use crate::sched::view::cluster::NodeIx;

/// Nodes in order of preference.
#[derive(Clone, Debug)]
pub struct RankedNodes {
    nodes: Vec<NodeIx>,
    /// The position of each node in `nodes` and in `columns`.
    places: Vec<u32>,
    columns: Columns,
}

impl RankedNodes {
    /// All nodes by rank and then by index. All nodes are closed to jobs at first. `ranks` has one
    /// entry per node, `width` is the number of resources.
    pub fn closed(ranks: impl Iterator<Item = (Rank, NodeIx)>, width: usize) -> RankedNodes {
        let mut ranked: Vec<(Rank, NodeIx)> = ranks.collect();
        ranked.sort_unstable();
        let mut places = vec![0; ranked.len()];
        for (place, (_, ix)) in ranked.iter().enumerate() {
            places[ix.0 as usize] = place as u32;
        }
        let columns = Columns::closed(width, ranked.len());
        RankedNodes {
            nodes: ranked.into_iter().map(|(_, ix)| ix).collect(),
            places,
            columns,
        }
    }

    /// Opens these closed nodes, and sets their free amounts.
    pub fn fill<'a>(&mut self, nodes: impl Iterator<Item = (NodeIx, &'a [i64])>) {
        let RankedNodes {
            places, columns, ..
        } = self;
        columns.fill(nodes.map(|(ix, free)| (places[ix.0 as usize] as usize, free)));
    }

    /// Sets the free amounts of a node. None closes the node to jobs.
    pub fn set(&mut self, ix: NodeIx, free: Option<&[i64]>) {
        self.columns.set(self.places[ix.0 as usize] as usize, free);
    }

    /// The nodes with at least these amounts (see [`Columns::at_least`]).
    pub fn at_least(&self, amounts: Vec<(usize, i64)>) -> impl Iterator<Item = NodeIx> {
        self.columns
            .at_least(amounts)
            .map(|place| self.nodes[place])
    }
}
