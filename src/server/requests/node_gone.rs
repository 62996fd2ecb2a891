//! `pbsnodes --gone`: a host that will not return. An administrator must declare it: a node that
//! does not respond keeps its jobs.

use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::orders::Orders;
use crate::server::request_context::RequestContext;
use crate::server::startup;
use crate::server::state::ServerState;
use crate::server::tasks::task_reports;

impl RequestContext<'_> {
    /// Ends all that ran on a node: rerunnable jobs are requeued, others terminated. From now on a
    /// noded with any state directory is admitted for it.
    pub(crate) fn declare_gone(&mut self, name: &str) -> Result<Granted, Refusal> {
        if !self.caller.manager {
            return Err(Refusal::unauthorized());
        }
        let node = self
            .server
            .node(name)
            .cloned()
            .ok_or_else(Refusal::unknown_node)?;
        if node.up {
            return Err(Refusal::not_gone(&format!(
                "node {name} responds and runs jobs: stop its noded first, or use qrerun and qdel"
            )));
        }
        if !self.server.is_settled(startup::LONGEST) {
            let why = format!(
                "schedd has just started; node {name} may still respond: retry in a few seconds"
            );
            return Err(Refusal::not_gone(&why));
        }
        let by = self.caller.shown();
        let mut orders = Orders::new();
        task_reports::lose_node(self.server, name, &mut orders);
        for job in held(self.server, name) {
            end(self.server, job, name, &by);
        }
        let changed = self.server.now;
        self.server.set_node(Node {
            directory: None,
            refused: None,
            changed,
            ..node
        });
        tracing::warn!(
            "node {name} was declared gone by {by}: its jobs are requeued or terminated"
        );
        Ok(Granted::Orders(orders))
    }
}

/// The jobs that hold shares of a node. Lingering tasks on other nodes do not count.
fn held(server: &ServerState, node: &str) -> Vec<JobId> {
    let is_on = |run: &Run| run.has_script() && run.shares.iter().any(|share| share.node == node);
    server
        .holders()
        .filter(|job| job.life.open_run().is_some_and(is_on))
        .map(|job| job.id)
        .collect()
}

/// Ends a job of a gone node. A script on another node that responds is ended there.
fn end(server: &mut ServerState, id: JobId, node: &str, by: &str) {
    let Some(job) = server.job(id).cloned() else {
        return;
    };
    let Some(attempt) = job.life.open_run().map(|run| run.attempt) else {
        return;
    };
    let event = if job.script_node() == Some(node) {
        Event::Vanished {
            attempt,
            why: format!("node {node} was declared gone by {by}"),
        }
    } else if !job.life.state.is_under_way() {
        return;
    } else {
        ended_elsewhere(&job, by)
    };
    server.happen(id, event);
}

fn ended_elsewhere(job: &Job, by: &str) -> Event {
    let by = by.to_string();
    if job.spec.rerunnable {
        Event::RerunWanted { by }
    } else {
        Event::DeleteWanted { by, force: false }
    }
}
