//! Text of events about checkpoints and preemption.

use super::EventWriter;
use super::LogSource::{Node, Server};
use crate::model::job::event::Event;
use crate::model::job::preemption::{self, JobPreemption, PreemptAction, job_list_text};
use crate::model::job_id::JobId;
use crate::model::time::Time;

impl EventWriter<'_> {
    pub(super) fn preemption_event(&mut self, event: &Event) {
        match event {
            Event::CheckpointWanted { by, .. } => {
                self.push_request(
                    "checkpoint_wanted",
                    "Job to be checkpointed and requeued",
                    by,
                );
            }
            Event::CheckpointFailed { why, .. } => {
                let text = format!("Checkpoint failed, the job continues: {why}");
                self.push(Node, "error", "checkpoint_failed", text);
            }
            Event::Preempted {
                to, cause, action, ..
            } => self.preempted(*to, *cause, *action),
            Event::RoomMade { by } => self.preempted_others(by),
            _ => {}
        }
    }

    fn preempted(
        &mut self,
        to: Option<JobId>,
        cause: preemption::PreemptCause,
        action: PreemptAction,
    ) {
        let description = JobPreemption {
            attempt: None,
            to,
            cause,
            action,
            at: Time(0),
        }
        .describe(|job| job.full(&self.server.name));
        self.push(
            Server,
            "sched",
            "preempted",
            format!("Job preempted: {description}"),
        );
    }

    fn preempted_others(&mut self, by: &[JobId]) {
        let jobs = job_list_text(by, |job| job.full(&self.server.name));
        self.push(
            Server,
            "sched",
            "room_made",
            format!("Preempted for this job: {jobs}"),
        );
    }
}
