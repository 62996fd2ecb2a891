//! Text of a job's events, as printed by `tracejob`: time, log, description.

mod dependencies;
mod preemption;
mod runs;

#[cfg(test)]
mod tests;

use crate::model::job::Usage;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::signal;
use crate::model::time::{Time, Wall};
use crate::wire::message::{JobRecord, ServerFacts};
use std::collections::BTreeSet;

/// The PBS log that records such an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// The server log: requests.
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

/// One line of output.
#[derive(Clone, Debug, PartialEq)]
pub struct EventLine {
    /// The time on schedd's clock.
    pub at: Time,
    /// The log.
    pub source: LogSource,
    /// PBS's word for this type of entry: `job`, `admin`, `sched`, `error`, `job_usage`.
    pub sort: &'static str,
    /// A stable name of the event, for scripts.
    pub event: &'static str,
    /// The description for users.
    pub text: String,
}

/// All events of a job, oldest first, and its state at `now`.
pub fn of(
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
            event => writer.tell(event),
        }
    }
    writer.so_far(now);
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
    fn say(
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

    /// Adds the line of a request by the user `by`.
    fn asked(&mut self, event: &'static str, what: impl Into<String>, by: &str) {
        self.say(
            Server,
            "admin",
            event,
            format!("{} at request of {by}", what.into()),
        );
    }

    fn submitted(&mut self, events: &[(Time, Event)]) {
        let (job, spec) = (&self.record.job, &self.record.job.spec);
        let owner = format!("{}@{}", job.owner.user, spec.submit_host);
        // The first queue: later moves are separate events.
        let first = events.iter().find_map(|(_, event)| match event {
            Event::Moved { from, .. } => Some(from),
            _ => None,
        });
        let queue = first.unwrap_or(&spec.queue);
        let name = &spec.name;
        let text = format!(
            "Job Queued at request of {owner}, owner = {owner}, job name = {name}, queue = {queue}"
        );
        self.say(Server, "job", "submitted", text);
        if !spec.arguments.is_empty() {
            let words = spec.arguments.lossy().into_owned();
            self.say(
                Server,
                "job",
                "submitted_as",
                format!("Submitted as: qsub {words}"),
            );
        }
        self.say(
            Accounting,
            "job_usage",
            "queued",
            format!("{} {}", self.owner(), self.wanted()),
        );
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Submitted => {}
            Event::Held { holds, by } => self.asked("held", format!("Holds {holds} set"), by),
            Event::Released { holds, by } => {
                self.asked("released", format!("Holds {holds} released"), by)
            }
            Event::Due => self.say(Server, "sched", "due", "Its time has come: it may start"),
            Event::Altered { by, attributes } => self.altered(by, attributes),
            Event::Moved { by, from, to } => {
                self.asked("moved", format!("Job moved from queue {from} to {to}"), by)
            }
            Event::Taken { by, to } => self.asked(
                "moved",
                format!("Job moved to {to} of another instance"),
                by,
            ),
            Event::Reordered { by, with } => self.reordered(by, *with),
            Event::Shoved { by } => self.asked("shoved", "Job to be looked at now", by),
            Event::RunWanted { by } => self.asked("run_wanted", "Job to be run at once", by),
            Event::Messaged { by, output, errors } => self.messaged(by, *output, *errors),
            Event::Signalled { by, signal } => {
                self.asked(
                    "signalled",
                    format!("Signal {} sent", signal::shown(*signal)),
                    by,
                );
            }
            Event::DeleteWanted { by, force: false } => {
                self.asked("delete_wanted", "Job to be deleted", by)
            }
            Event::DeleteWanted { by, force: true } => {
                self.asked(
                    "delete_wanted",
                    "Job to be deleted by force, whatever its node says,",
                    by,
                );
            }
            Event::ElementsDeleted { by, indices } => {
                self.asked(
                    "elements_deleted",
                    format!("Elements {indices} that had not started deleted"),
                    by,
                );
            }
            Event::FailedRerun { .. } | Event::Retried { .. } | Event::RerunWanted { .. } => {
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
            Event::NodesReleased { by, division, .. } => {
                let nodes: BTreeSet<&str> = division
                    .released
                    .iter()
                    .map(|share| share.node.as_str())
                    .collect();
                let nodes = nodes.into_iter().collect::<Vec<_>>().join(" ");
                self.asked("nodes_released", format!("Nodes {nodes} released"), by);
            }
            Event::Launched {
                attempt, session, ..
            } => {
                self.say(
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
            Event::StartRefused { .. }
            | Event::StartTimedOut { .. }
            | Event::Vanished { .. }
            | Event::ContactLost { .. }
            | Event::ContactRegained => self.node_event(event),
            Event::Bound { .. }
            | Event::Named { .. }
            | Event::DependencyMet { .. }
            | Event::LabelMet { .. }
            | Event::DependencyBroken { .. }
            | Event::RivalBegan { .. }
            | Event::RivalReturned { .. } => self.dependency_event(event),
        }
    }

    fn messaged(&mut self, by: &str, output: bool, errors: bool) {
        let files = [(output, "standard output"), (errors, "standard error")];
        let files: Vec<&str> = files
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, file)| file)
            .collect();
        self.asked(
            "messaged",
            format!("Message written to its {}", files.join(" and ")),
            by,
        );
    }

    fn altered(&mut self, by: &str, attributes: &[String]) {
        self.asked(
            "altered",
            format!("Job Modified ({})", attributes.join(", ")),
            by,
        );
    }

    fn reordered(&mut self, by: &str, with: JobId) {
        let other = with.full(&self.server.name);
        self.asked(
            "reordered",
            format!("Place in the order changed for that of {other}"),
            by,
        );
    }

    /// Adds a line for the job's current state.
    fn so_far(&mut self, now: Time) {
        let life = &self.record.job.life;
        match (life.state, life.exit, &self.record.reason) {
            (JobState::Finished, Some(exit), _) => {
                self.at = life.obittime.unwrap_or(life.mtime);
                let spent = format!("Exit_status={} {}", exit.status, used(&life.used));
                self.say(Server, "job", "finished", spent.clone());
                let stamps = format!("{} end={} {spent}", self.owner(), self.epoch(self.at));
                self.say(Accounting, "job_usage", "finished", stamps);
            }
            (JobState::Queued, _, Some(reason)) => {
                self.at = now;
                self.say(Scheduler, "sched", "waits", reason.to_string());
            }
            _ => {}
        }
    }

    fn owner(&self) -> String {
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

    fn wanted(&self) -> String {
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

fn used(used: &Usage) -> String {
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
