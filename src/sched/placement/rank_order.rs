//! The nodes in the order in which most jobs are to get them, with what each has free: so that the
//! first with room are found without a look at the others.

use super::columns::Columns;
use super::rank::Rank;
use crate::sched::view::cluster::NodeIx;

/// Nodes, those to be given first first.
#[derive(Clone, Debug)]
pub struct Preferred {
    nodes: Vec<NodeIx>,
    /// The place of each node.
    places: Vec<u32>,
    columns: Columns,
}

impl Preferred {
    /// All nodes by rank and then in their order, which nobody can join so far; `ranks` has one for
    /// each, `width` is the number of resources.
    pub fn closed(ranks: impl Iterator<Item = (Rank, NodeIx)>, width: usize) -> Preferred {
        let mut ranked: Vec<(Rank, NodeIx)> = ranks.collect();
        ranked.sort_unstable();
        let mut places = vec![0; ranked.len()];
        ranked
            .iter()
            .enumerate()
            .for_each(|(place, (_, ix))| places[ix.0 as usize] = place as u32);
        let columns = Columns::closed(width, ranked.len());
        Preferred {
            nodes: ranked.into_iter().map(|(_, ix)| ix).collect(),
            places,
            columns,
        }
    }

    /// What these nodes have free, of which nobody could join any so far.
    pub fn fill<'a>(&mut self, nodes: impl Iterator<Item = (NodeIx, &'a [i64])>) {
        let Preferred {
            places, columns, ..
        } = self;
        columns.fill(nodes.map(|(ix, free)| (places[ix.0 as usize] as usize, free)));
    }

    /// What a node has free; None when nobody can join it.
    pub fn set(&mut self, ix: NodeIx, free: Option<&[i64]>) {
        self.columns.set(self.places[ix.0 as usize] as usize, free);
    }

    /// The nodes that have at least these amounts (see [`Columns::at_least`]).
    pub fn at_least(&self, asked: Vec<(usize, i64)>) -> impl Iterator<Item = NodeIx> {
        self.columns.at_least(asked).map(|place| self.nodes[place])
    }
}
