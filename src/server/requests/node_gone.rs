//! `pbsnodes --gone`: an administrator declares that a node will not return. Without this, a node
//! that does not respond keeps its jobs.

use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::log_lines::LogLine;
use crate::server::orders::Orders;
use crate::server::request_context::RequestContext;
use crate::server::startup;
use crate::server::state::ServerState;
use crate::server::tasks::task_reports;

impl RequestContext<'_> {
    /// Ends all jobs on a node: rerunnable jobs are requeued, other jobs terminated. After
    /// this, a noded with another state directory is admitted for this node.
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
                "node {name} is up: stop the noded of {name} first, or end its jobs with qrerun \
                 and qdel"
            )));
        }
        if !self.server.is_settled(startup::LONGEST) {
            let why = format!(
                "schedd has just started, and node {name} can still connect: retry in a few \
                 seconds"
            );
            return Err(Refusal::not_gone(&why));
        }
        let by = self.caller.shown();
        let mut orders = Orders::new();
        task_reports::lose_node(self.server, name, &mut orders);
        for job in jobs_on(self.server, name) {
            end_job(self.server, job, name, &by);
        }
        let changed = self.server.now;
        self.server.set_node(Node {
            directory: None,
            refused: None,
            changed,
            ..node
        });
        let line = format!(
            "node {name}: declared gone, its jobs are requeued or terminated, at request of {by}"
        );
        self.server.log(Some(LogLine::warning(line)));
        Ok(Granted::Orders(orders))
    }
}

/// The jobs with resources on this node and a script that has not ended.
fn jobs_on(server: &ServerState, node: &str) -> Vec<JobId> {
    let is_on = |run: &Run| run.has_script() && run.shares.iter().any(|share| share.node == node);
    server
        .holders()
        .filter(|job| job.life.open_run().is_some_and(is_on))
        .map(|job| job.id)
        .collect()
}

/// Ends a job with resources on a gone node. If the job's script runs on another node, that node
/// ends the job.
fn end_job(server: &mut ServerState, id: JobId, node: &str, by: &str) {
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
        end_request(&job, by)
    };
    server.apply_event(id, event);
}

fn end_request(job: &Job, by: &str) -> Event {
    let by = by.to_string();
    if job.spec.rerunnable {
        Event::RerunWanted { by }
    } else {
        Event::DeleteWanted { by, force: false }
    }
}
