//! Nodes in maintenance. A node takes no new jobs while at least one job on the node is suspended
//! with `qsig -s admin-suspend`.

use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::server::state::ServerState;

impl ServerState {
    /// Adds (`is_wanted`) or removes a job as a cause of maintenance on its nodes.
    pub(crate) fn maintain_nodes(&mut self, id: JobId, is_wanted: bool) {
        let Some(run) = self.jobs.get(&id).and_then(|job| job.life.run.as_ref()) else {
            return;
        };
        let nodes: Vec<Node> = run
            .shares
            .iter()
            .filter_map(|share| self.nodes.get(&share.node))
            .cloned()
            .collect();
        for mut node in nodes {
            node.maintain(id, is_wanted);
            self.set_node(node);
        }
    }
}
