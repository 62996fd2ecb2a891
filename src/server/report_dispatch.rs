//! Dispatches the reports of a noded, as far as they concern jobs and nodes that it may report on.

use crate::model::job::Attempt;
use crate::model::job::Usage;
use crate::model::job::task::TaskName;
use crate::model::job_id::JobId;
use crate::server::checkpoint;
use crate::server::effects::Effects;
use crate::server::inventory::Inventory;
use crate::server::node_reports;
use crate::server::orders;
use crate::server::release_nodes;
use crate::server::state::ServerState;
use crate::server::tasks;
use crate::server::tasks::task_reports;
use crate::server::tasks::task_requests;
use crate::wire::order::AttemptStatus;
use crate::wire::order::NodeReport;
use crate::wire::order::ScheddOrder;
use crate::wire::task::TaskNews;
use crate::wire::task::TaskRequest;

/// The noded that reports.
#[derive(Clone, Copy)]
pub struct ReportingNoded<'a> {
    /// The number of its connection.
    pub target: usize,
    /// The kernel's boot id.
    pub boot: &'a str,
    /// The identity of its state directory.
    pub directory: &'a str,
    /// The nodes it presents; none once its connection is lost.
    pub presents: &'a [String],
}

impl ReportingNoded<'_> {
    /// Whether it may report on a process: the process runs on its nodes and belongs to its state
    /// directory, or its attempt has ended or is unknown, and the noded is then ordered to end it.
    fn may_report_on(&self, server: &ServerState, name: TaskName) -> bool {
        let is_here = self.runs(server, name).is_none_or(|is_own| is_own);
        is_here && node_reports::belongs_to(server, name, self.directory)
    }

    /// Whether a process runs on one of its nodes; None if the process runs nowhere.
    fn runs(&self, server: &ServerState, name: TaskName) -> Option<bool> {
        let job = server.job(name.job)?;
        let node = tasks::node_of(job, name.attempt, name.task)?;
        Some(self.presents.iter().any(|own| own == node))
    }
}

impl Effects {
    /// Applies the report of a noded, and adds the orders that follow from it.
    pub fn take_report(
        &mut self,
        server: &mut ServerState,
        noded: &ReportingNoded,
        report: &NodeReport,
    ) {
        let mut back = Vec::new();
        match report {
            NodeReport::Hello {
                boot,
                directory,
                nodes,
                attempts,
            } => {
                let inventory = Inventory {
                    boot: boot.clone(),
                    directory: directory.clone(),
                    nodes: nodes.clone(),
                    attempts: attempts.clone(),
                };
                self.take_hello(server, noded.target, inventory, &mut back);
            }
            &NodeReport::Attempt(job, attempt, task, ref status) => {
                let name = TaskName { job, attempt, task };
                if noded.may_report_on(server, name) {
                    self.take_status(server, noded, name, status, &mut back);
                }
            }
            NodeReport::Usage(all) => {
                for &(job, attempt, task, used) in all {
                    let name = TaskName { job, attempt, task };
                    if noded.may_report_on(server, name) {
                        note_usage(server, name, used);
                    }
                }
            }
            NodeReport::TaskRequest(request) => {
                back.extend(self.grant_tasks(server, noded, request))
            }
            NodeReport::Nodes(nodes) => {
                for facts in nodes {
                    if noded.presents.contains(&facts.name) {
                        node_reports::node_changed(server, facts);
                    }
                }
            }
            &NodeReport::StagingOut(job, attempt) => {
                if noded.may_report_on(server, script(job, attempt)) {
                    let released = release_nodes::at_stage_out(server, job, attempt);
                    self.orders.extend(released);
                }
            }
            NodeReport::NotCheckpointed { job, attempt, why } => {
                if noded.may_report_on(server, script(*job, *attempt)) {
                    checkpoint::failed(server, *job, *attempt, why);
                }
            }
            NodeReport::Unfit { why } => node_reports::take_out(server, noded.presents, why),
            NodeReport::Pong
            | NodeReport::Attached
            | NodeReport::Fenced { .. }
            | NodeReport::Notified { .. } => {}
        }
        let back = back.into_iter().map(|order| (noded.target, order));
        self.back.extend(back);
    }

    /// Applies the inventory of a noded that has just connected, unless it is not admitted.
    fn take_hello(
        &mut self,
        server: &mut ServerState,
        target: usize,
        mut inventory: Inventory,
        back: &mut Vec<ScheddOrder>,
    ) {
        let refusal = node_reports::refusal(server, &inventory.nodes, &inventory.directory);
        if let Some(why) = refusal {
            node_reports::refuse(server, &inventory, &why, back);
            self.refused.push((target, why));
            return;
        }
        // The connection may have been lost since: the report itself names its nodes.
        let nodes = inventory.nodes.iter().map(|facts| facts.name.clone());
        let nodes: Vec<String> = nodes.collect();
        let noded = ReportingNoded {
            target,
            boot: &inventory.boot,
            directory: &inventory.directory,
            presents: &nodes,
        };
        let mut attempts = std::mem::take(&mut inventory.attempts);
        attempts.retain(|&(job, attempt, task, _)| {
            noded.may_report_on(server, TaskName { job, attempt, task })
        });
        inventory.attempts = attempts;
        node_reports::take_inventory(server, &inventory, back);
        for &(job, attempt, task, ref status) in &inventory.attempts {
            if task > 0 {
                let name = TaskName { job, attempt, task };
                task_reports::handle_status(server, name, status, back, &mut self.orders);
            }
        }
        task_reports::take_inventory(server, &inventory, &mut self.orders);
        back.push(orders::attend(&server.setup));
        for (.., status) in &inventory.attempts {
            take_out_unfit(server, &nodes, status);
        }
        self.met.push(nodes);
    }

    /// Applies the status of a script or a task.
    fn take_status(
        &mut self,
        server: &mut ServerState,
        noded: &ReportingNoded,
        name: TaskName,
        status: &AttemptStatus,
        back: &mut Vec<ScheddOrder>,
    ) {
        if name.task > 0 {
            task_reports::handle_status(server, name, status, back, &mut self.orders);
        } else {
            node_reports::handle_attempt(server, name.job, name.attempt, status, noded.boot, back);
            take_out_unfit(server, noded.presents, status);
        }
    }

    /// Answers the request of a process for tasks; None if the connection was lost: the process
    /// repeats its request on the next one.
    fn grant_tasks(
        &mut self,
        server: &mut ServerState,
        noded: &ReportingNoded,
        request: &TaskRequest,
    ) -> Option<ScheddOrder> {
        if noded.presents.is_empty() {
            return None;
        }
        let (job, attempt) = (request.job, request.attempt);
        let task = request.task;
        let name = TaskName { job, attempt, task };
        let news = if noded.runs(server, name) == Some(true) {
            task_requests::grant(server, request, &mut self.orders)
        } else {
            TaskNews::Refused(format!("job {job} does not run on this node"))
        };
        Some(ScheddOrder::Tell {
            job,
            attempt,
            asker: Some(request.asker),
            news,
        })
    }
}

/// The script of an attempt.
fn script(job: JobId, attempt: Attempt) -> TaskName {
    TaskName {
        job,
        attempt,
        task: 0,
    }
}

/// Takes nodes out of service if an attempt has ended because its node is unfit.
fn take_out_unfit(server: &mut ServerState, nodes: &[String], status: &AttemptStatus) {
    if let AttemptStatus::Ended(outcome) = status
        && let Some(why) = &outcome.unfit
    {
        node_reports::take_out(server, nodes, why);
    }
}

/// Notes what a process of the open attempt has used. A job without tasks is charged for its
/// script.
fn note_usage(server: &mut ServerState, name: TaskName, used: Usage) {
    let open = server.job(name.job).and_then(|job| job.life.open_run());
    let Some(run) = open.filter(|run| run.attempt == name.attempt) else {
        return;
    };
    if run.tasks().made > 0 {
        server.change_tasks(name.job, |job| job.task_used(name.task, used));
    } else if name.task == 0 {
        server.used(name.job, used);
    }
}
