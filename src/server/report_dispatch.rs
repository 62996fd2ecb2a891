//! Dispatches the reports of a noded. Reports on jobs and nodes of other nodeds are ignored.

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

/// The noded that has sent a report.
#[derive(Clone, Copy)]
pub struct ReportingNoded<'a> {
    /// The number of the noded's connection.
    pub target: usize,
    /// The kernel's boot id.
    pub boot: &'a str,
    /// The identity of the noded's state directory.
    pub directory: &'a str,
    /// The nodes of the noded; empty once its connection is lost.
    pub presents: &'a [String],
}

impl ReportingNoded<'_> {
    /// Whether the noded may report on a script or task. True if the script or task runs on the
    /// noded's nodes and is recorded in the noded's state directory. Also true if no such script or
    /// task is known to run, because the noded is then ordered to end it.
    fn may_report_on(&self, server: &ServerState, name: TaskName) -> bool {
        let is_here = self.runs(server, name).is_none_or(|is_own| is_own);
        is_here && node_reports::belongs_to(server, name, self.directory)
    }

    /// Whether a script or task runs on one of the noded's nodes; None if it is not known to run.
    fn runs(&self, server: &ServerState, name: TaskName) -> Option<bool> {
        let job = server.job(name.job)?;
        let node = tasks::node_of(job, name.attempt, name.task)?;
        Some(self.presents.iter().any(|own| own == node))
    }
}

impl Effects {
    /// Applies the report of a noded, and adds the resulting orders.
    pub fn apply_report(
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
                self.handle_hello(server, noded.target, inventory, &mut back);
            }
            &NodeReport::Attempt(job, attempt, task, ref status) => {
                let name = TaskName { job, attempt, task };
                if noded.may_report_on(server, name) {
                    self.apply_status(server, noded, name, status, &mut back);
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
                    let released = release_nodes::release_at_stage_out(server, job, attempt);
                    self.orders.extend(released);
                }
            }
            NodeReport::NotCheckpointed { job, attempt, why } => {
                if noded.may_report_on(server, script(*job, *attempt)) {
                    checkpoint::failed(server, *job, *attempt, why);
                }
            }
            NodeReport::Unfit { why } => node_reports::set_offline(server, noded.presents, why),
            NodeReport::Pong
            | NodeReport::Attached
            | NodeReport::Fenced { .. }
            | NodeReport::Notified { .. } => {}
        }
        let back = back.into_iter().map(|order| (noded.target, order));
        self.back.extend(back);
    }

    /// Applies the inventory of a noded that has just connected, unless it is not admitted.
    fn handle_hello(
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
        // The nodes come from the report, because the connection may be lost by now.
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
        node_reports::apply_inventory(server, &inventory, back);
        for &(job, attempt, task, ref status) in &inventory.attempts {
            if task > 0 {
                let name = TaskName { job, attempt, task };
                task_reports::handle_status(server, name, status, back, &mut self.orders);
            }
        }
        task_reports::apply_inventory(server, &inventory, &mut self.orders);
        back.push(orders::periodic_hooks(&server.setup));
        for (.., status) in &inventory.attempts {
            set_unfit_offline(server, &nodes, status);
        }
        self.connected.push(nodes);
    }

    /// Applies the status of a script or a task.
    fn apply_status(
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
            set_unfit_offline(server, noded.presents, status);
        }
    }

    /// Answers a process that requests tasks; None if the noded's connection was lost. The process
    /// repeats the request on the next connection.
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

/// Sets these nodes offline if an ended attempt reports that they are unfit for jobs, because a
/// hook has failed.
fn set_unfit_offline(server: &mut ServerState, nodes: &[String], status: &AttemptStatus) {
    if let AttemptStatus::Ended(outcome) = status
        && let Some(why) = &outcome.unfit
    {
        node_reports::set_offline(server, nodes, why);
    }
}

/// Records the resource usage of a script or task of the open attempt.
fn note_usage(server: &mut ServerState, name: TaskName, used: Usage) {
    let open = server.job(name.job).and_then(|job| job.life.open_run());
    let Some(run) = open.filter(|run| run.attempt == name.attempt) else {
        return;
    };
    if run.tasks().made > 0 {
        server.change_tasks(name.job, |job| job.record_task_usage(name.task, used));
    } else if name.task == 0 {
        server.set_used(name.job, used);
    }
}
