//! Runs the commands that report the amounts of dynamic resources, such as licenses (Q21). The
//! event loop does not wait for these commands. A reported amount applies until the next report or
//! until it is revoked. A failure is shown with the resource, and logged unless the run before
//! failed for the same reason.

use crate::config::Config;
use crate::model::resource::{ResourceType, Resources};
use crate::model::system_resource::{ReportedCount, ResourceMeter};
use crate::model::time::Span;
use crate::server::state::ServerState;
use crate::sys::program::{ProgramCall, ProgramFault, ProgramPool, ProgramResult};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

/// Maximum number of commands that run at once.
const MAX_RUNNING: usize = 4;

/// The resources that have a command.
#[derive(Debug)]
pub struct ResourcePoller {
    all: BTreeMap<String, PolledResource>,
    /// The resources with a running command.
    running: ProgramPool<String>,
}

/// A resource with a command.
#[derive(Debug)]
struct PolledResource {
    meter: ResourceMeter,
    kind: ResourceType,
    /// When the command runs next.
    due: Span,
    is_running: bool,
    /// Why the last completed run of the command failed; None if it succeeded, or if no run has
    /// ended.
    fault: Option<String>,
}

impl ResourcePoller {
    /// Starts with the resources of a configuration. Their commands are due at once.
    pub fn new(config: &Config, resources: &Resources, now: Span) -> ResourcePoller {
        let mut poller = ResourcePoller {
            all: BTreeMap::new(),
            running: ProgramPool::new(MAX_RUNNING),
        };
        poller.apply_configuration(config, resources, now);
        poller
    }

    /// Applies a changed configuration. Unchanged resources keep their state; the commands of other
    /// resources are due at once.
    pub fn apply_configuration(&mut self, config: &Config, resources: &Resources, now: Span) {
        let mut before = std::mem::take(&mut self.all);
        let mut unchanged = BTreeSet::new();
        for (name, meter) in &config.meters {
            let kind = resources
                .get(name)
                .map_or(ResourceType::Long, |definition| definition.kind);
            let polled = match before.remove(name) {
                Some(polled) if polled.meter == *meter && polled.kind == kind => {
                    unchanged.insert(name.as_str());
                    polled
                }
                _ => PolledResource {
                    meter: meter.clone(),
                    kind,
                    due: now,
                    is_running: false,
                    fault: None,
                },
            };
            self.all.insert(name.clone(), polled);
        }
        self.running
            .stop(|resource| !unchanged.contains(resource.as_str()));
    }

    /// The descriptors that become readable when [`poll`](Self::poll) has something to do.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.watched()
    }

    /// When the next command is due, or exceeds its time limit.
    pub fn next(&self) -> Option<Span> {
        let waiting = self.all.values().filter(|polled| !polled.is_running);
        let due = if self.running.has_room() {
            waiting.map(|polled| polled.due).min()
        } else {
            None
        };
        self.running.next().into_iter().chain(due).min()
    }

    /// Why the last run of a resource's command failed; None if it succeeded, or if no run has
    /// ended.
    pub fn fault(&self, resource: &str) -> Option<&str> {
        self.all.get(resource)?.fault.as_deref()
    }

    /// Handles the output of finished commands, kills commands that exceed their time limits, and
    /// starts commands that are due, up to the limit.
    pub fn poll(&mut self, server: &mut ServerState, now: Span) {
        for (resource, result) in self.running.finished(now) {
            let Some(polled) = self.all.get_mut(&resource) else {
                continue;
            };
            polled.is_running = false;
            polled.due = now + polled.meter.interval;
            let report = polled.read(result);
            polled.record_result(&resource, report.as_ref().err());
            if let Ok((total, elsewhere)) = report {
                let count = ReportedCount {
                    total: Some(total),
                    elsewhere,
                    at: server.now,
                    by: ReportedCount::BY_COMMAND.to_string(),
                };
                server.set_reported(&resource, Some(count));
            }
        }
        for (resource, polled) in &mut self.all {
            if polled.is_running || polled.due > now {
                continue;
            }
            if !self.running.has_room() {
                return;
            }
            match ProgramCall::new(&polled.meter.command, polled.meter.timeout).start(now) {
                Ok(running) => {
                    polled.is_running = true;
                    self.running.add(resource.clone(), None, running);
                }
                Err(error) => {
                    polled.due = now + polled.meter.interval;
                    polled.record_result(resource, Some(&error.to_string()));
                }
            }
        }
    }

    /// Kills the running commands.
    pub fn shut_down(&mut self) {
        self.running.stop(|_| true);
    }
}

impl PolledResource {
    /// The total that a command reports, and the amount used outside this cluster; or why the
    /// command failed.
    fn read(&self, result: ProgramResult) -> Result<(i64, i64), String> {
        let exit = match result.exit {
            Ok(exit) => exit,
            Err(ProgramFault::Late(timeout)) => {
                let seconds = timeout.0 as f64 / 1000.0;
                return Err(format!("the command took longer than {seconds} s"));
            }
            Err(fault) => return Err(fault.to_string()),
        };
        let failure = match exit.status {
            Some(0) => return ResourceMeter::read(self.kind, &exit.text),
            Some(status) => format!("the command ended with status {status}"),
            None => "the command was killed".to_string(),
        };
        Err(match result.complaint {
            Some(complaint) => format!("{failure}: {complaint}"),
            None => failure,
        })
    }

    fn record_result(&mut self, resource: &str, fault: Option<&String>) {
        let program = &self.meter.command[0];
        if let Some(why) = fault
            && self.fault.as_ref() != fault
        {
            tracing::warn!(
                "{program} reported no amount of {resource}, so the amount is unchanged; cause: {why}"
            );
        }
        if fault.is_none() && self.fault.is_some() {
            tracing::info!("{program} reports the amount of {resource} again");
        }
        self.fault = fault.cloned();
    }
}
