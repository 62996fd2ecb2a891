//! `pbs_release_nodes`: a running job releases nodes before its end. The job's processes on these
//! nodes are ended, the nodes are removed from the job's node files, and charging for these nodes
//! ends.

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::TaskNumber;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job::release::KeptNodes;
use crate::model::job::task::node_file;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::request::select::Select;
use crate::server::granted::Granted;
use crate::server::orders::Orders;
use crate::server::request_context::RequestContext;
use crate::server::state::ServerState;
use crate::server::tasks::cancellation;
use crate::wire::order::ScheddOrder;

impl RequestContext<'_> {
    /// Releases all nodes that `keep` does not include.
    pub(crate) fn release_nodes(
        &mut self,
        id: JobId,
        keep: &KeptNodes,
    ) -> Result<Granted, Refusal> {
        let job = self.owned_job(id)?;
        if id.is_array() {
            return Err(Refusal::not_for_arrays());
        }
        let runs =
            |run: &&Run| run.session.is_some() && run.has_script() && job.life.want == Want::Run;
        let run = job
            .life
            .open_run()
            .filter(runs)
            .ok_or_else(Refusal::bad_state)?;
        let requested = self.select(keep)?;
        let division = run.divide(keep, &requested, |node| {
            Some(&self.server.node(node)?.facts)
        })?;
        let by = self.caller.shown();
        self.server.apply_event(
            id,
            Event::NodesReleased {
                by,
                attempt: run.attempt,
                division,
            },
        );
        Ok(Granted::Orders(orders_after_release(self.server, id)))
    }

    fn select(&self, keep: &KeptNodes) -> Result<Select, Refusal> {
        let KeptNodes::Select(text) = keep else {
            return Ok(Select::default());
        };
        let requested = [("select".to_string(), text.clone())];
        Ok(Request::parse(&requested, &self.server.setup.resources)?.select)
    }
}

/// Handles the start of stage-out. If the job has `-W release_nodes_on_stageout`, releases all
/// nodes except those on the script's host.
pub fn release_at_stage_out(server: &mut ServerState, id: JobId, attempt: Attempt) -> Orders {
    let Some(job) = server.job(id).cloned() else {
        return Vec::new();
    };
    let is_requested = job
        .spec
        .other
        .get("release_nodes_on_stageout")
        .is_some_and(|text| text == "True");
    let run = job
        .life
        .open_run()
        .filter(|run| is_requested && run.attempt == attempt && run.has_script());
    let Some(run) = run else { return Vec::new() };
    let Ok(division) = run.divide(&KeptNodes::Nothing, &Select::default(), |_| None) else {
        return Vec::new();
    };
    let by = format!("schedd@{}", server.setup.host);
    server.apply_event(
        id,
        Event::NodesReleased {
            by,
            attempt,
            division,
        },
    );
    orders_after_release(server, id)
}

/// The orders after a job has released nodes: end the tasks on these nodes, and update node files.
fn orders_after_release(server: &mut ServerState, id: JobId) -> Orders {
    let Some(job) = server.job(id).cloned() else {
        return Vec::new();
    };
    let mut orders = cancellation::cancel_on_released(server, &job);
    let Some(job) = server.job(id) else {
        return orders;
    };
    orders.extend(
        job.script_node()
            .and_then(|node| Some((node.to_string(), node_file_order(job, 0)?))),
    );
    let Some(run) = job.life.open_run() else {
        return orders;
    };
    let stays = run.tasks().open().filter(|(_, task)| !task.ending);
    orders.extend(stays.filter_map(|(task, _)| {
        Some((
            run.share_of_task(task)?.node.clone(),
            node_file_order(job, task)?,
        ))
    }));
    orders
}

/// The order with the current node file of a script (task 0) or task; None if the job has released
/// no nodes. The order can safely be repeated.
pub fn node_file_order(job: &Job, task: TaskNumber) -> Option<ScheddOrder> {
    let run = job.life.open_run().filter(|run| !run.released.is_empty())?;
    Some(ScheddOrder::Places {
        job: job.id,
        attempt: run.attempt,
        task,
        nodes: node_file(&run.shares),
    })
}
