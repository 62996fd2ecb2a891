//! Text of events about starts, suspension, ends, and reports of the node.

use super::LogSource::{Accounting, Node, Scheduler, Server};
use super::{EventWriter, usage_fields};
use crate::model::job::event::Event;
use crate::model::job::growth::GrownResource;
use crate::model::job::promise::SlipCause;
use crate::model::job::suspension::SuspendMode;
use crate::model::job::undo::UndoKind;
use crate::model::job::{AttemptOutcome, How, NodeShare, Usage};
use crate::model::signal;
use crate::model::time::Time;
use crate::shown::exec_host;
use crate::shown::timestamp;

impl EventWriter<'_> {
    pub(super) fn started(&mut self, attempt: u32, shares: &[NodeShare]) {
        let vnodes = exec_host::exec_vnode(shares);
        self.push(
            Scheduler,
            "sched",
            "started",
            format!("Job run, attempt {attempt}, on exec_vnode {vnodes}"),
        );
        let gpus =
            exec_host::exec_gpus(shares).map_or(String::new(), |gpus| format!(" exec_gpus={gpus}"));
        let allocation = format!(
            "exec_host={} exec_vnode={vnodes}{gpus}",
            exec_host::exec_host(shares)
        );
        self.push(
            Accounting,
            "job_usage",
            "given",
            format!(
                "{} start={} {allocation}",
                self.job_fields(),
                self.epoch(self.at)
            ),
        );
    }

    pub(super) fn slipped(&mut self, from: Time, to: Time, cause: &SlipCause) {
        let from = timestamp::ctime(self.server.clock.wall(from));
        let to = timestamp::ctime(self.server.clock.wall(to));
        let cause = cause.describe(|job| job.full(&self.server.name));
        self.push(
            Scheduler,
            "sched",
            "slipped",
            format!("Planned start moved from {from} to {to}: {cause}"),
        );
    }

    pub(super) fn request_grown(&mut self, attempt: u32, changes: &[GrownResource]) {
        let grown = GrownResource::list(changes);
        self.push(
            Server,
            "job",
            "request_grown",
            format!("The retry after attempt {attempt} requests {grown}"),
        );
    }

    pub(super) fn rerun_event(&mut self, event: &Event) {
        match event {
            Event::FailedRerun { by, .. } => {
                self.push_request("failed_rerun", "Failed subjobs to be rerun", by);
            }
            Event::Retried { by, only: None, .. } => {
                self.push_request("retried", "Job to be retried", by)
            }
            Event::Retried {
                by,
                only: Some(only),
                ..
            } => {
                self.push_request("retried", format!("Subjobs {only} to be retried"), by);
            }
            Event::Undone { by, action, .. } => {
                let action = match action {
                    UndoKind::Hold => "Hold",
                    UndoKind::Release => "Release",
                    UndoKind::Alter => "Alteration",
                    UndoKind::Cancel => "Deletion",
                };
                self.push_request("undone", format!("{action} reverted"), by);
            }
            Event::RerunWanted { by } => {
                self.push_request("rerun_wanted", "Job to be requeued", by)
            }
            _ => {}
        }
    }

    pub(super) fn node_event(&mut self, event: &Event) {
        match event {
            Event::StartRefused { hook, why } => {
                self.push(
                    Server,
                    "sched",
                    "start_refused",
                    format!("Start refused by hook {hook}: {why}"),
                );
            }
            Event::StartTimedOut { attempt, after } => {
                let text = format!(
                    "Attempt {attempt} did not start within {} s: canceled",
                    after.as_seconds()
                );
                self.push(Server, "error", "start_timed_out", text);
            }
            Event::Vanished { attempt, why } => {
                self.push(
                    Node,
                    "error",
                    "vanished",
                    format!("Attempt {attempt} is lost: {why}"),
                );
            }
            Event::ContactLost { node } => {
                self.push(
                    Server,
                    "error",
                    "contact_lost",
                    format!("Node {node} does not respond: the state of the job is unknown"),
                );
            }
            Event::ContactRegained => self.push(
                Server,
                "job",
                "contact_regained",
                "Node responds again: the job is still running",
            ),
            Event::Idle { after, .. } => self.push(
                Server,
                "job",
                "idle",
                format!("Job has used almost no processor time for {after}"),
            ),
            Event::IdleEnded { .. } => {
                self.push(Server, "job", "idle_ended", "Job uses processor time again");
            }
            _ => {}
        }
    }

    pub(super) fn suspension_event(&mut self, event: &Event) {
        match event {
            Event::SuspendWanted { by, manner, .. } => {
                let action = match manner {
                    SuspendMode::UntilTold { .. } => "Job to be suspended".to_string(),
                    SuspendMode::For { job, .. } => {
                        format!(
                            "Job to be suspended for job {}",
                            job.full(&self.server.name)
                        )
                    }
                    SuspendMode::Maintenance => {
                        "Job to be suspended for maintenance of its nodes".to_string()
                    }
                };
                self.push_request("suspend_wanted", action, by);
            }
            Event::Suspended { attempt } => {
                self.push(
                    Node,
                    "job",
                    "suspended",
                    format!("Suspended, attempt {attempt}: all processes stopped"),
                );
            }
            Event::ResumeWanted { by } => {
                self.push_request("resume_wanted", "Job to be resumed", by)
            }
            Event::Resumed { attempt, shares } => {
                let vnodes = exec_host::exec_vnode(shares);
                self.push(
                    Server,
                    "sched",
                    "resumed",
                    format!("Resumed, attempt {attempt}, on exec_vnode {vnodes}"),
                );
            }
            _ => {}
        }
    }

    pub(super) fn ended(&mut self, attempt: u32, outcome: &AttemptOutcome) {
        let (sort, end) = match &outcome.how {
            How::Exited(code) => ("job", format!("Exited with code {code}")),
            How::Signaled(signal) => (
                "job",
                format!("Terminated by signal {}", signal::shown(*signal)),
            ),
            how @ (How::Overran { .. } | How::Exceeded { .. }) => (
                "job",
                format!(
                    "Terminated at a limit: {}",
                    how.excess().unwrap_or_default()
                ),
            ),
            How::CannotStart { why, .. } => ("error", format!("Could not start: {why}")),
            How::NodeFault(why) => ("error", format!("Start failed because of the node: {why}")),
            How::AwaitsFiles(files) => (
                "job",
                format!("Not started: files to stage in are missing: {files}"),
            ),
            How::Cancelled => ("job", "Canceled before it started".to_string()),
            How::ShepherdLost => (
                "error",
                "The job's shepherd was killed: the exit status is unknown".to_string(),
            ),
        };
        self.push(Node, sort, "ended", format!("{end} (attempt {attempt})"));
        if outcome.used != Usage::default() {
            self.push(Node, "job_usage", "used", usage_fields(&outcome.used));
        }
    }
}
