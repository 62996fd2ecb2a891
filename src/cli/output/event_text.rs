//! The events of a job as printed by `tracejob`: time, log, description.

mod dependencies;
mod preemption;
mod runs;

#[cfg(test)]
mod tests;

use crate::model::job::Usage;
use crate::model::job::event::Event;
use crate::model::job::release::Division;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::signal;
use crate::model::time::{Time, Wall};
use crate::wire::message::{JobRecord, ServerFacts};
use std::collections::BTreeSet;

/// The PBS log that would contain an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// The server log: requests, and all events that belong to no other log.
    Server,
    /// The scheduler log: decisions.
    Scheduler,
    /// The MoM log: execution.
    Node,
    /// The accounting log: requested, allocated and used resources.
    Accounting,
}

impl LogSource {
    /// The letter of the log in tracejob's output.
    pub fn letter(self) -> char {
        match self {
            LogSource::Server => 'S',
            LogSource::Scheduler => 'L',
            LogSource::Node => 'M',
            LogSource::Accounting => 'A',
        }
    }
}

/// A line of `tracejob` output.
#[derive(Clone, Debug, PartialEq)]
pub struct EventLine {
    /// The time on schedd's clock.
    pub at: Time,
    /// The PBS log to which the line belongs.
    pub source: LogSource,
    /// PBS's type of log entry, for `tracejob -f`: `job`, `admin`, `sched`, `error`, `job_usage`.
    pub sort: &'static str,
    /// A stable name of the event, for scripts.
    pub event: &'static str,
    /// The description for users.
    pub text: String,
}

/// The lines about all events of a job, oldest first. The last lines describe the end of a finished
/// job, or why a queued job waits at `now`.
pub fn event_lines(
    record: &JobRecord,
    events: &[(Time, Event)],
    server: &ServerFacts,
    now: Time,
) -> Vec<EventLine> {
    let mut writer = EventWriter {
        record,
        server,
        at: record.job.life.ctime,
        lines: Vec::new(),
    };
    for (at, event) in events {
        writer.at = *at;
        match event {
            Event::Submitted => writer.submitted(events),
            event => writer.push_event(event),
        }
    }
    writer.push_current_state(now);
    writer.lines
}

struct EventWriter<'a> {
    record: &'a JobRecord,
    server: &'a ServerFacts,
    at: Time,
    lines: Vec<EventLine>,
}

use LogSource::{Accounting, Node, Scheduler, Server};

impl EventWriter<'_> {
    fn push(
        &mut self,
        source: LogSource,
        sort: &'static str,
        event: &'static str,
        text: impl Into<String>,
    ) {
        self.lines.push(EventLine {
            at: self.at,
            source,
            sort,
            event,
            text: text.into(),
        });
    }

    /// Adds a line for a request of the user `by`.
    fn push_request(&mut self, event: &'static str, action: impl Into<String>, by: &str) {
        self.push(
            Server,
            "admin",
            event,
            format!("{} at request of {by}", action.into()),
        );
    }

    fn submitted(&mut self, events: &[(Time, Event)]) {
        let (job, spec) = (&self.record.job, &self.record.job.spec);
        let owner = format!("{}@{}", job.owner.user, spec.submit_host);
        // If the job was moved, the event of the first move contains the queue at submission.
        let first = events.iter().find_map(|(_, event)| match event {
            Event::Moved { from, .. } => Some(from),
            _ => None,
        });
        let queue = first.unwrap_or(&spec.queue);
        let name = &spec.name;
        let text = format!(
            "Job Queued at request of {owner}, owner = {owner}, job name = {name}, queue = {queue}"
        );
        self.push(Server, "job", "submitted", text);
        if !spec.arguments.is_empty() {
            let arguments = spec.arguments.lossy().into_owned();
            self.push(
                Server,
                "job",
                "submitted_as",
                format!("Submitted as: qsub {arguments}"),
            );
        }
        self.push(
            Accounting,
            "job_usage",
            "queued",
            format!("{} {}", self.job_fields(), self.requested_resources()),
        );
    }

    fn push_event(&mut self, event: &Event) {
        match event {
            Event::Submitted => {}
            Event::Held { holds, by } => {
                self.push_request("held", format!("Holds {holds} set"), by)
            }
            Event::Released { holds, by } => {
                self.push_request("released", format!("Holds {holds} released"), by)
            }
            Event::Due => self.push(
                Server,
                "sched",
                "due",
                "Earliest start time reached: the job can start",
            ),
            Event::Altered { by, attributes } => self.altered(by, attributes),
            Event::Moved { by, from, to } => {
                self.push_request("moved", format!("Job moved from queue {from} to {to}"), by)
            }
            Event::Taken { by, to } => self.push_request(
                "moved",
                format!("Job moved to another installation as {to}"),
                by,
            ),
            Event::Reordered { by, with } => self.reordered(by, *with),
            Event::Shoved { by } => {
                self.push_request("shoved", "Job to be considered immediately", by)
            }
            Event::RunWanted { by } => {
                self.push_request("run_wanted", "Job to be run immediately", by)
            }
            Event::Messaged { by, output, errors } => self.messaged(by, *output, *errors),
            Event::Signalled { by, signal } => {
                self.push_request(
                    "signalled",
                    format!("Signal {} sent", signal::shown(*signal)),
                    by,
                );
            }
            Event::DeleteWanted { by, force } => self.delete_wanted(by, *force),
            Event::ElementsDeleted { by, indices } => {
                self.push_request(
                    "elements_deleted",
                    format!("Waiting subjobs {indices} deleted"),
                    by,
                );
            }
            Event::FailedRerun { .. }
            | Event::Retried { .. }
            | Event::Undone { .. }
            | Event::RerunWanted { .. } => {
                self.rerun_event(event);
            }
            Event::CheckpointWanted { .. }
            | Event::CheckpointFailed { .. }
            | Event::Preempted { .. }
            | Event::RoomMade { .. } => self.preemption_event(event),
            Event::Slipped { from, to, cause } => self.slipped(*from, *to, cause),
            Event::Started {
                attempt, shares, ..
            } => self.started(*attempt, shares),
            Event::NodesReleased { by, division, .. } => self.nodes_released(by, division),
            Event::Launched {
                attempt, session, ..
            } => {
                self.push(
                    Node,
                    "job",
                    "launched",
                    format!("Started, attempt {attempt}, session = {session}"),
                );
            }
            Event::SuspendWanted { .. }
            | Event::Suspended { .. }
            | Event::ResumeWanted { .. }
            | Event::Resumed { .. } => self.suspension_event(event),
            Event::Ended { attempt, outcome } => self.ended(*attempt, outcome),
            Event::RequestGrown { attempt, changes } => self.request_grown(*attempt, changes),
            Event::StartRefused { .. }
            | Event::StartTimedOut { .. }
            | Event::Vanished { .. }
            | Event::ContactLost { .. }
            | Event::ContactRegained
            | Event::Idle { .. }
            | Event::IdleEnded { .. } => self.node_event(event),
            Event::Bound { .. }
            | Event::Named { .. }
            | Event::DependencyMet { .. }
            | Event::LabelMet { .. }
            | Event::DependencyBroken { .. }
            | Event::RivalBegan { .. }
            | Event::RivalReturned { .. } => self.dependency_event(event),
        }
    }

    fn delete_wanted(&mut self, by: &str, force: bool) {
        let text = if force {
            "Job to be deleted by force, without waiting for its node,"
        } else {
            "Job to be deleted"
        };
        self.push_request("delete_wanted", text, by);
    }

    fn nodes_released(&mut self, by: &str, division: &Division) {
        let nodes: BTreeSet<&str> = division
            .released
            .iter()
            .map(|share| share.node.as_str())
            .collect();
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(" ");
        self.push_request("nodes_released", format!("Nodes {nodes} released"), by);
    }

    fn messaged(&mut self, by: &str, output: bool, errors: bool) {
        let files = [(output, "standard output"), (errors, "standard error")];
        let files: Vec<&str> = files
            .into_iter()
            .filter(|(written, _)| *written)
            .map(|(_, file)| file)
            .collect();
        self.push_request(
            "messaged",
            format!("Message written to the job's {}", files.join(" and ")),
            by,
        );
    }

    fn altered(&mut self, by: &str, attributes: &[String]) {
        self.push_request(
            "altered",
            format!("Job Modified ({})", attributes.join(", ")),
            by,
        );
    }

    fn reordered(&mut self, by: &str, with: JobId) {
        let other = with.full(&self.server.name);
        self.push_request(
            "reordered",
            format!("Place in the queue exchanged with job {other}"),
            by,
        );
    }

    /// Adds lines about the end of a finished job, or about the reason why a queued job waits.
    fn push_current_state(&mut self, now: Time) {
        let life = &self.record.job.life;
        match (life.state, life.exit, &self.record.reason) {
            (JobState::Finished, Some(exit), _) => {
                self.at = life.obittime.unwrap_or(life.mtime);
                let result = format!("Exit_status={} {}", exit.status, usage_fields(&life.used));
                self.push(Server, "job", "finished", result.clone());
                let entry = format!("{} end={} {result}", self.job_fields(), self.epoch(self.at));
                self.push(Accounting, "job_usage", "finished", entry);
            }
            (JobState::Queued, _, Some(reason)) => {
                self.at = now;
                self.push(Scheduler, "sched", "waits", reason.to_string());
            }
            _ => {}
        }
    }

    fn job_fields(&self) -> String {
        let (job, spec) = (&self.record.job, &self.record.job.spec);
        let account = spec
            .account
            .as_ref()
            .map_or(String::new(), |account| format!(" account=\"{account}\""));
        let (ctime, qtime) = (self.epoch(job.life.ctime), self.epoch(job.life.qtime));
        let (user, project, name, queue) =
            (&job.owner.user, &spec.project, &spec.name, &spec.queue);
        format!(
            "user={user}{account} project={project} jobname={name} queue={queue} ctime={ctime} qtime={qtime}"
        )
    }

    fn requested_resources(&self) -> String {
        let list = self.record.job.spec.request.list.iter();
        list.map(|(name, value)| format!("Resource_List.{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn epoch(&self, time: Time) -> i64 {
        let Wall(seconds) = self.server.clock.wall(time);
        seconds
    }
}

fn usage_fields(used: &Usage) -> String {
    let Usage {
        cput,
        mem_kb,
        ncpus,
        vmem_kb,
        walltime,
    } = used;
    format!(
        "resources_used.cpupercent={} resources_used.cput={cput} resources_used.mem={mem_kb}kb \
         resources_used.ncpus={ncpus} resources_used.vmem={vmem_kb}kb resources_used.walltime={walltime}",
        used.cpupercent()
    )
}
