//! Text of events about starts, suspension, ends, and reports of the node.

use super::LogSource::{Accounting, Node, Scheduler, Server};
use super::{EventWriter, used};
use crate::model::job::event::Event;
use crate::model::job::promise::SlipCause;
use crate::model::job::suspension::SuspendMode;
use crate::model::job::{AttemptOutcome, How, NodeShare, Usage};
use crate::model::signal;
use crate::model::time::Time;
use crate::shown::exec_host;
use crate::shown::timestamp;

impl EventWriter<'_> {
    pub(super) fn started(&mut self, attempt: u32, shares: &[NodeShare]) {
        let vnodes = exec_host::exec_vnode(shares);
        self.say(
            Scheduler,
            "sched",
            "started",
            format!("Job run, attempt {attempt}, on exec_vnode {vnodes}"),
        );
        let gpus =
            exec_host::exec_gpus(shares).map_or(String::new(), |gpus| format!(" exec_gpus={gpus}"));
        let given = format!(
            "exec_host={} exec_vnode={vnodes}{gpus}",
            exec_host::exec_host(shares)
        );
        self.say(
            Accounting,
            "job_usage",
            "given",
            format!("{} start={} {given}", self.owner(), self.epoch(self.at)),
        );
    }

    pub(super) fn slipped(&mut self, from: Time, to: Time, cause: &SlipCause) {
        let from = timestamp::ctime(self.server.clock.wall(from));
        let to = timestamp::ctime(self.server.clock.wall(to));
        let cause = cause.told(|job| job.full(&self.server.name));
        self.say(
            Scheduler,
            "sched",
            "slipped",
            format!("Promised start moved from {from} to {to}: {cause}"),
        );
    }

    pub(super) fn rerun_event(&mut self, event: &Event) {
        match event {
            Event::FailedRerun { by, .. } => {
                self.asked(
                    "failed_rerun",
                    "The elements that failed to be run again",
                    by,
                );
            }
            Event::Retried { by, only: None, .. } => {
                self.asked("retried", "Job to be run once more", by)
            }
            Event::Retried {
                by,
                only: Some(only),
                ..
            } => {
                self.asked(
                    "retried",
                    format!("Elements {only} to be run once more"),
                    by,
                );
            }
            Event::RerunWanted { by } => self.asked("rerun_wanted", "Job to be queued again", by),
            _ => {}
        }
    }

    pub(super) fn node_event(&mut self, event: &Event) {
        match event {
            Event::StartRefused { hook, why } => {
                self.say(
                    Server,
                    "sched",
                    "start_refused",
                    format!("Start refused by hook {hook}: {why}"),
                );
            }
            Event::StartTimedOut { attempt, after } => {
                let text = format!(
                    "Attempt {attempt} not begun within {} s: cancelled",
                    after.as_seconds()
                );
                self.say(Server, "error", "start_timed_out", text);
            }
            Event::Vanished { attempt, why } => {
                self.say(
                    Node,
                    "error",
                    "vanished",
                    format!("Attempt {attempt} is lost: {why}"),
                );
            }
            Event::ContactLost { node } => {
                self.say(
                    Server,
                    "error",
                    "contact_lost",
                    format!("Node {node} does not answer: nothing is known of the job"),
                );
            }
            Event::ContactRegained => self.say(
                Server,
                "job",
                "contact_regained",
                "Its node answers again: it runs",
            ),
            _ => {}
        }
    }

    pub(super) fn suspension_event(&mut self, event: &Event) {
        match event {
            Event::SuspendWanted { by, manner, .. } => {
                let what = match manner {
                    SuspendMode::UntilTold { .. } => "Job to be suspended".to_string(),
                    SuspendMode::For { job, .. } => {
                        format!("Job to be suspended for {}", job.full(&self.server.name))
                    }
                    SuspendMode::Maintenance => {
                        "Job to be suspended, its nodes to be maintained,".to_string()
                    }
                };
                self.asked("suspend_wanted", what, by);
            }
            Event::Suspended { attempt } => {
                self.say(
                    Node,
                    "job",
                    "suspended",
                    format!("Suspended, attempt {attempt}: no process of it runs"),
                );
            }
            Event::ResumeWanted { by } => self.asked("resume_wanted", "Job to be resumed", by),
            Event::Resumed { attempt, shares } => {
                let on = exec_host::exec_vnode(shares);
                self.say(
                    Server,
                    "sched",
                    "resumed",
                    format!("Resumed, attempt {attempt}, on {on}"),
                );
            }
            _ => {}
        }
    }

    pub(super) fn ended(&mut self, attempt: u32, outcome: &AttemptOutcome) {
        let (sort, what) = match &outcome.how {
            How::Exited(code) => ("job", format!("Ended by itself with exit code {code}")),
            How::Signaled(signal) => ("job", format!("Ended by signal {}", signal::shown(*signal))),
            how @ (How::Overran { .. } | How::Exceeded { .. }) => (
                "job",
                format!("Ended at its limit: {}", how.excess().unwrap_or_default()),
            ),
            How::CannotStart { why, .. } => ("error", format!("Could not be started: {why}")),
            How::NodeFault(why) => ("error", format!("Start failed on its node: {why}")),
            How::AwaitsFiles(files) => (
                "job",
                format!("Not started: files to stage in are missing: {files}"),
            ),
            How::Cancelled => ("job", "Cancelled before it started".to_string()),
            How::ShepherdLost => (
                "error",
                "Its shepherd was killed: how it ended is not known".to_string(),
            ),
        };
        self.say(Node, sort, "ended", format!("{what} (attempt {attempt})"));
        if outcome.used != Usage::default() {
            self.say(Node, "job_usage", "used", used(&outcome.used));
        }
    }
}
