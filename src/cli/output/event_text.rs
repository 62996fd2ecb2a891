//! A job's events in words, as `tracejob` tells them: when, on whose word, what.

use crate::model::job::dependency::label::Awaited;
use crate::model::job::dependency::{Edge, Kind};
use crate::model::job::event::Event;
use crate::model::job::preemption::{self, PreemptAction, Yielding, shown_some};
use crate::model::job::promise::SlipCause;
use crate::model::job::state::State;
use crate::model::job::suspension::Manner;
use crate::model::job::{How, Outcome, Share, Usage};
use crate::model::job_id::JobId;
use crate::model::signal;
use crate::model::time::{Time, Wall};
use crate::shown::exec_host;
use crate::shown::timestamp;
use crate::wire::message::{Record, ServerFacts};
use std::collections::BTreeSet;

/// Who knows of it; PBS has a log of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The server: what was asked of it.
    Server,
    /// The scheduler: what it decided.
    Scheduler,
    /// The node: what became of it there.
    Node,
    /// The books: what was asked for, given and used.
    Accounting,
}

impl Source {
    /// As a line shows it.
    pub fn letter(self) -> char {
        match self {
            Source::Server => 'S',
            Source::Scheduler => 'L',
            Source::Node => 'M',
            Source::Accounting => 'A',
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// On schedd's clock.
    pub at: Time,
    /// Who knows it.
    pub source: Source,
    /// PBS's word for entries of this sort: `job`, `admin`, `sched`, `error`, `job_usage`.
    pub sort: &'static str,
    /// A stable name of what happened, for scripts.
    pub event: &'static str,
    /// In words.
    pub text: String,
}

/// The whole story of a job, oldest first; `now` is when it is told.
pub fn of(record: &Record, events: &[(Time, Event)], server: &ServerFacts, now: Time) -> Vec<Line> {
    let mut teller = Teller {
        record,
        server,
        at: record.job.life.ctime,
        lines: Vec::new(),
    };
    for (at, event) in events {
        teller.at = *at;
        match event {
            Event::Submitted => teller.submitted(events),
            event => teller.tell(event),
        }
    }
    teller.so_far(now);
    teller.lines
}

struct Teller<'a> {
    record: &'a Record,
    server: &'a ServerFacts,
    at: Time,
    lines: Vec<Line>,
}

use Source::{Accounting, Node, Scheduler, Server};

impl Teller<'_> {
    fn say(
        &mut self,
        source: Source,
        sort: &'static str,
        event: &'static str,
        text: impl Into<String>,
    ) {
        self.lines.push(Line {
            at: self.at,
            source,
            sort,
            event,
            text: text.into(),
        });
    }

    /// What somebody asked the server to do about the job.
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
        // Where it was put first: later moves are told as they come.
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
            format!("{} {}", self.whose(), self.wanted()),
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
                self.tell_of_another_run(event);
            }
            Event::CheckpointWanted { .. }
            | Event::CheckpointFailed { .. }
            | Event::Preempted { .. }
            | Event::RoomMade { .. } => self.tell_of_making_way(event),
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
            | Event::Resumed { .. } => self.tell_of_pauses(event),
            Event::Ended { attempt, outcome } => self.ended(*attempt, outcome),
            Event::StartRefused { .. }
            | Event::StartTimedOut { .. }
            | Event::Vanished { .. }
            | Event::ContactLost { .. }
            | Event::ContactRegained => self.tell_of_its_node(event),
            Event::Bound { .. }
            | Event::Named { .. }
            | Event::DependencyMet { .. }
            | Event::LabelMet { .. }
            | Event::DependencyBroken { .. }
            | Event::RivalBegan { .. }
            | Event::RivalReturned { .. } => self.tell_of_bonds(event),
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

    fn tell_of_making_way(&mut self, event: &Event) {
        match event {
            Event::CheckpointWanted { by, .. } => {
                self.asked(
                    "checkpoint_wanted",
                    "Job to be checkpointed and queued again",
                    by,
                );
            }
            Event::CheckpointFailed { why, .. } => {
                let text = format!("Job not checkpointed, it goes on: {why}");
                self.say(Node, "error", "checkpoint_failed", text);
            }
            Event::Preempted {
                to, cause, action, ..
            } => self.preempted(*to, *cause, *action),
            Event::RoomMade { by } => self.room_made(by),
            _ => {}
        }
    }

    fn preempted(
        &mut self,
        to: Option<JobId>,
        cause: preemption::PreemptCause,
        action: PreemptAction,
    ) {
        let told = Yielding {
            attempt: None,
            to,
            cause,
            action,
            at: Time(0),
        }
        .told(|job| job.full(&self.server.name));
        self.say(
            Server,
            "sched",
            "preempted",
            format!("Job preempted: {told}"),
        );
    }

    fn room_made(&mut self, by: &[JobId]) {
        let jobs = shown_some(by, |job| job.full(&self.server.name));
        self.say(
            Server,
            "sched",
            "room_made",
            format!("Room is made for it by {jobs}"),
        );
    }

    fn tell_of_another_run(&mut self, event: &Event) {
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

    fn tell_of_its_node(&mut self, event: &Event) {
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

    fn tell_of_pauses(&mut self, event: &Event) {
        match event {
            Event::SuspendWanted { by, manner, .. } => {
                let what = match manner {
                    Manner::UntilTold { .. } => "Job to be suspended".to_string(),
                    Manner::For { job, .. } => {
                        format!("Job to be suspended for {}", job.full(&self.server.name))
                    }
                    Manner::Maintenance => {
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

    fn tell_of_bonds(&mut self, event: &Event) {
        match event {
            Event::Bound { .. } => self.say(Server, "job", "bound", "Waits for further jobs"),
            Event::Named { by, condition } => {
                let edge = Edge {
                    kind: Kind::After(*condition),
                    job: *by,
                };
                self.depends("named", "Waits for one more job:", edge);
            }
            Event::LabelMet {
                condition,
                label,
                by,
            } => {
                let awaited = Awaited {
                    condition: *condition,
                    label: label.clone(),
                };
                let what = format!(
                    "Dependency met: {awaited}, by {}",
                    by.full(&self.server.name)
                );
                self.say(Server, "job", "label_met", what);
            }
            Event::DependencyMet { edge } => {
                self.depends("dependency_met", "Dependency met:", *edge)
            }
            Event::DependencyBroken { why, .. } => {
                self.say(Server, "job", "dependency_broken", why.as_str())
            }
            Event::RivalBegan { job } => {
                let what = format!(
                    "Held: {} of its runone set has begun",
                    job.full(&self.server.name)
                );
                self.say(Server, "job", "rival_began", what);
            }
            Event::RivalReturned { job } => {
                let what = format!(
                    "Free again: {} of its runone set is back in its queue",
                    job.full(&self.server.name)
                );
                self.say(Server, "job", "rival_returned", what);
            }
            _ => {}
        }
    }

    fn depends(&mut self, event: &'static str, what: &str, edge: Edge) {
        let text = format!(
            "{what} {}:{}",
            edge.kind.name(),
            edge.job.full(&self.server.name)
        );
        self.say(Server, "job", event, text);
    }

    fn slipped(&mut self, from: Time, to: Time, cause: &SlipCause) {
        let moment = |time| timestamp::ctime(self.server.clock.wall(time)).to_string();
        let (from, to, cause) = (
            moment(from),
            moment(to),
            cause.told(|job| job.full(&self.server.name)),
        );
        self.say(
            Scheduler,
            "sched",
            "slipped",
            format!("Promised start moved from {from} to {to}: {cause}"),
        );
    }

    fn started(&mut self, attempt: u32, shares: &[Share]) {
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
            format!("{} start={} {given}", self.whose(), self.epoch(self.at)),
        );
    }

    fn ended(&mut self, attempt: u32, outcome: &Outcome) {
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

    /// How it stands now.
    fn so_far(&mut self, now: Time) {
        let life = &self.record.job.life;
        match (life.state, life.exit, &self.record.reason) {
            (State::Finished, Some(exit), _) => {
                self.at = life.obittime.unwrap_or(life.mtime);
                let spent = format!("Exit_status={} {}", exit.status, used(&life.used));
                self.say(Server, "job", "finished", spent.clone());
                let stamps = format!("{} end={} {spent}", self.whose(), self.epoch(self.at));
                self.say(Accounting, "job_usage", "finished", stamps);
            }
            (State::Queued, _, Some(reason)) => {
                self.at = now;
                self.say(Scheduler, "sched", "waits", reason.to_string());
            }
            _ => {}
        }
    }

    fn whose(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, SUBMITTED, finished, queued, running, share};
    use crate::model::job::state::Holds;
    use crate::model::job_id::JobId;
    use crate::model::time::Span;

    fn told(record: &Record, events: Vec<Event>) -> Vec<String> {
        let events: Vec<_> = events.into_iter().map(|event| (SUBMITTED, event)).collect();
        let lines = of(record, &events, &example::server(), SUBMITTED);
        lines
            .into_iter()
            .map(|line| format!("{} {}", line.source.letter(), line.text))
            .collect()
    }

    #[test]
    fn what_people_did_is_told_with_their_names() {
        let record = queued(1, "a", "ncpus=1");
        let by = || "bob@head".to_string();
        let events = vec![
            Event::Held {
                holds: Holds::USER,
                by: by(),
            },
            Event::Moved {
                by: by(),
                from: "workq".into(),
                to: "night".into(),
            },
            Event::Taken {
                by: by(),
                to: "7.job1.head".into(),
            },
            Event::Reordered {
                by: by(),
                with: JobId::job(7),
            },
            Event::Messaged {
                by: by(),
                output: true,
                errors: true,
            },
            Event::Signalled {
                by: by(),
                signal: 10,
            },
        ];
        let wanted = [
            "S Holds u set at request of bob@head",
            "S Job moved from queue workq to night at request of bob@head",
            "S Job moved to 7.job1.head of another instance at request of bob@head",
            "S Place in the order changed for that of 7.head at request of bob@head",
            "S Message written to its standard output and standard error at request of bob@head",
            "S Signal 10 (USR1) sent at request of bob@head",
        ];
        assert_eq!(told(&record, events), wanted);
    }

    #[test]
    fn an_end_is_told_by_the_node_the_server_and_the_books() {
        let record = finished(
            running(queued(1, "a", "ncpus=1"), vec![share(1, None)]),
            3,
            false,
        );
        let outcome = Outcome {
            how: How::Exited(3),
            sent: None,
            used: Usage {
                cput: Span(2000),
                ..Usage::default()
            },
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        let lines = told(
            &record,
            vec![Event::Ended {
                attempt: 1,
                outcome,
            }],
        );
        assert_eq!(lines[0], "M Ended by itself with exit code 3 (attempt 1)");
        assert!(
            lines[1].starts_with("M resources_used.cpupercent=0 resources_used.cput=00:00:02"),
            "{lines:?}"
        );
        assert!(
            lines[2].starts_with("S Exit_status=3 resources_used."),
            "{lines:?}"
        );
        assert!(
            lines[3].starts_with("A user=alice ") && lines[3].contains(" Exit_status=3 "),
            "{lines:?}"
        );
    }

    #[test]
    fn a_job_is_told_where_it_was_put_first_and_a_withheld_command_line_is_not_told() {
        let mut record = queued(1, "a", "ncpus=1");
        let moved = Event::Moved {
            by: "b@h".into(),
            from: "early".into(),
            to: "workq".into(),
        };
        let lines = told(&record, vec![Event::Submitted, moved.clone()]);
        assert!(
            lines[0].ends_with("job name = a, queue = early"),
            "{lines:?}"
        );
        record = example::with(record, |spec| spec.arguments = "".into());
        assert!(
            told(&record, vec![Event::Submitted])
                .iter()
                .all(|line| !line.contains("Submitted as"))
        );
        record = example::with(record, |spec| spec.arguments = "-N a x".into());
        assert_eq!(
            told(&record, vec![Event::Submitted, moved])[1],
            "S Submitted as: qsub -N a x"
        );
    }
}
