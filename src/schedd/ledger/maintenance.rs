//! Nodes that are maintained while jobs on them are suspended for that (`qsig -s admin-suspend`): they take no new
//! jobs until the last of these goes on, or is over.

use super::Ledger;
use crate::model::job::{Job, JobId};
use crate::model::node::Node;
use crate::model::suspension::Manner;

/// Whether a job is suspended so that its nodes can be maintained.
pub(super) fn is_wanted(job: &Job) -> bool {
    job.suspension().is_some_and(|suspension| suspension.manner == Manner::Maintenance)
}

impl Ledger {
    /// From now on a job keeps its nodes under maintenance, or no more.
    pub(super) fn maintain_nodes(&mut self, id: JobId, is_wanted: bool) {
        let Some(run) = self.jobs.get(&id).and_then(|job| job.life.run.as_ref()) else { return };
        let nodes: Vec<Node> = run.shares.iter().filter_map(|share| self.nodes.get(&share.node)).cloned().collect();
        for mut node in nodes {
            node.maintenance.retain(|known| *known != id);
            node.maintenance.extend(is_wanted.then_some(id));
            self.set_node(node);
        }
    }
}
