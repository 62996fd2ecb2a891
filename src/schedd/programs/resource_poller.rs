//! Runs the commands that report the amounts of dynamic resources (Q21), outside the tick. A
//! reported amount holds until the next report. A failure is logged once and shown with the
//! resource.

use crate::config::Config;
use crate::model::resource::{ResourceType, Resources};
use crate::model::system_resource::{ReportedCount, ResourceMeter};
use crate::model::time::Span;
use crate::server::state::ServerState;
use crate::sys::program::{ProgramCall, ProgramFault, ProgramPool, ProgramResult};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

/// Maximum number of commands that run at once.
const AT_ONCE: usize = 4;

/// The resources that have a command.
#[derive(Debug)]
pub struct ResourcePoller {
    all: BTreeMap<String, Line>,
    /// The resources with a running command.
    running: ProgramPool<String>,
}

/// A resource with a command.
#[derive(Debug)]
struct Line {
    meter: ResourceMeter,
    kind: ResourceType,
    /// When its command runs next.
    due: Span,
    is_running: bool,
    /// Why its last command failed.
    fault: Option<String>,
}

impl ResourcePoller {
    /// The resources of a configuration; their commands are due at once.
    pub fn new(config: &Config, resources: &Resources, now: Span) -> ResourcePoller {
        let mut poller = ResourcePoller {
            all: BTreeMap::new(),
            running: ProgramPool::new(AT_ONCE),
        };
        poller.follow(config, resources, now);
        poller
    }

    /// Applies a new configuration. Unchanged resources keep their state, the others are due at
    /// once.
    pub fn follow(&mut self, config: &Config, resources: &Resources, now: Span) {
        let mut before = std::mem::take(&mut self.all);
        let mut unchanged = BTreeSet::new();
        for (name, meter) in &config.meters {
            let kind = resources
                .get(name)
                .map_or(ResourceType::Long, |definition| definition.kind);
            let line = match before.remove(name) {
                Some(line) if line.meter == *meter && line.kind == kind => {
                    unchanged.insert(name.as_str());
                    line
                }
                _ => Line {
                    meter: meter.clone(),
                    kind,
                    due: now,
                    is_running: false,
                    fault: None,
                },
            };
            self.all.insert(name.clone(), line);
        }
        self.running
            .stop(|resource| !unchanged.contains(resource.as_str()));
    }

    /// The descriptors that become readable when there is something to [`attend`](Self::attend).
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.watched()
    }

    /// When the next command is due, or exceeds its time limit.
    pub fn next(&self) -> Option<Span> {
        let waiting = self.all.values().filter(|line| !line.is_running);
        let due = if self.running.has_room() {
            waiting.map(|line| line.due).min()
        } else {
            None
        };
        self.running.next().into_iter().chain(due).min()
    }

    /// Why the last command of a resource failed.
    pub fn fault(&self, resource: &str) -> Option<&str> {
        self.all.get(resource)?.fault.as_deref()
    }

    /// Handles the output of finished commands, kills those that exceed their time limit, and
    /// starts those that are due.
    pub fn attend(&mut self, server: &mut ServerState, now: Span) {
        for (resource, result) in self.running.finished(now) {
            let Some(line) = self.all.get_mut(&resource) else {
                continue;
            };
            line.is_running = false;
            line.due = now + line.meter.interval;
            let report = line.read(result);
            line.note(&resource, report.as_ref().err());
            if let Ok((total, elsewhere)) = report {
                let count = ReportedCount {
                    total: Some(total),
                    elsewhere,
                    at: server.now,
                    by: ReportedCount::BY_COMMAND.to_string(),
                };
                server.tell(&resource, Some(count));
            }
        }
        for (resource, line) in &mut self.all {
            if line.is_running || line.due > now {
                continue;
            }
            if !self.running.has_room() {
                return;
            }
            match ProgramCall::new(&line.meter.command, line.meter.timeout).start(now) {
                Ok(running) => {
                    line.is_running = true;
                    self.running.add(resource.clone(), None, running);
                }
                Err(error) => {
                    line.due = now + line.meter.interval;
                    line.note(resource, Some(&error.to_string()));
                }
            }
        }
    }

    /// Kills the commands that run.
    pub fn leave(&mut self) {
        self.running.stop(|_| true);
    }
}

impl Line {
    /// The total and the amount used elsewhere that a command reports, or why it failed.
    fn read(&self, result: ProgramResult) -> Result<(i64, i64), String> {
        let exit = match result.exit {
            Ok(exit) => exit,
            Err(ProgramFault::Late(timeout)) => {
                let seconds = timeout.0 as f64 / 1000.0;
                return Err(format!("it takes longer than {seconds} s"));
            }
            Err(fault) => return Err(fault.to_string()),
        };
        let failure = match exit.status {
            Some(0) => return ResourceMeter::read(self.kind, &exit.text),
            Some(status) => format!("it ends with {status}"),
            None => "it was killed".to_string(),
        };
        Err(match result.complaint {
            Some(complaint) => format!("{failure}: {complaint}"),
            None => failure,
        })
    }

    fn note(&mut self, resource: &str, fault: Option<&String>) {
        let program = &self.meter.command[0];
        if let Some(why) = fault
            && self.fault.as_ref() != fault
        {
            tracing::warn!(
                "{program} does not say what there is of {resource}, which stays as it was: {why}"
            );
        }
        if fault.is_none() && self.fault.is_some() {
            tracing::info!("{program} says again what there is of {resource}");
        }
        self.fault = fault.cloned();
    }
}
