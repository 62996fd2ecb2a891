//! Asking the commands of resources what there is of them (Q21): beside the loop, few at a time,
//! and never for long. What one has said holds until it says something else; one that fails has
//! said nothing, which is logged once and shown with the resource.

use crate::config::Config;
use crate::model::resource::{ResourceType, Resources};
use crate::model::system_resource::{ReportedCount, ResourceMeter};
use crate::model::time::Span;
use crate::server::state::ServerState;
use crate::sys::tool::{Ended, Tool};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

/// Commands that run at the same time.
const AT_ONCE: usize = 4;

/// All of them.
#[derive(Debug, Default)]
pub struct ResourcePoller {
    all: BTreeMap<String, Line>,
    ended: Vec<Ended>,
}

/// One, as it goes on.
#[derive(Debug)]
struct Line {
    meter: ResourceMeter,
    kind: ResourceType,
    /// When it is asked again.
    due: Span,
    asked: Option<Tool>,
    /// Why it has said nothing when it was asked last.
    fault: Option<String>,
}

impl ResourcePoller {
    /// Those of a configuration; all are asked at once.
    pub fn new(config: &Config, resources: &Resources, now: Span) -> ResourcePoller {
        let mut meters = ResourcePoller::default();
        meters.follow(config, resources, now);
        meters
    }

    /// From now on these: who is the same is asked when it is due, the others at once.
    pub fn follow(&mut self, config: &Config, resources: &Resources, now: Span) {
        let mut before = std::mem::take(&mut self.all);
        for (name, meter) in &config.meters {
            let kind = resources
                .get(name)
                .map_or(ResourceType::Long, |definition| definition.kind);
            let known = before
                .remove(name)
                .filter(|line| line.meter == *meter && line.kind == kind);
            let new = || Line {
                meter: meter.clone(),
                kind,
                due: now,
                asked: None,
                fault: None,
            };
            self.all.insert(name.clone(), known.unwrap_or_else(new));
        }
        self.ended.extend(
            before
                .into_values()
                .filter_map(|line| line.asked)
                .map(Tool::end),
        );
    }

    /// What is to be heard.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all
            .values()
            .filter_map(|line| line.asked.as_ref())
            .flat_map(Tool::watched)
    }

    /// When one is to be asked, or has taken for long enough.
    pub fn next(&self) -> Option<Span> {
        let is_full = self.running() >= AT_ONCE;
        let moment = |line: &Line| match &line.asked {
            Some(tool) => Some(tool.until),
            None => Some(line.due).filter(|_| !is_full),
        };
        self.all.values().filter_map(moment).min()
    }

    /// Why the command of a resource has said nothing when it was asked last.
    pub fn fault(&self, resource: &str) -> Option<&str> {
        self.all.get(resource)?.fault.as_deref()
    }

    fn running(&self) -> usize {
        self.all
            .values()
            .filter(|line| line.asked.is_some())
            .count()
    }

    /// Takes in what was said, gives up what takes too long, and asks those whose time has come.
    pub fn attend(&mut self, server: &mut ServerState, now: Span) {
        if self.all.is_empty() && self.ended.is_empty() {
            return;
        }
        self.ended.retain_mut(|ended| !ended.is_gone());
        for (resource, line) in &mut self.all {
            let Some(said) = line.hear(now) else { continue };
            self.ended.extend(line.asked.take().map(Tool::end));
            line.due = now + line.meter.interval;
            line.note(resource, said.as_ref().err());
            if let Ok((total, elsewhere)) = said {
                let (at, by) = (server.now, ReportedCount::BY_COMMAND.to_string());
                server.tell(
                    resource,
                    Some(ReportedCount {
                        total: Some(total),
                        elsewhere,
                        at,
                        by,
                    }),
                );
            }
        }
        self.ask(now);
    }

    fn ask(&mut self, now: Span) {
        let mut room = AT_ONCE.saturating_sub(self.running());
        for (resource, line) in self
            .all
            .iter_mut()
            .filter(|(_, line)| line.asked.is_none() && line.due <= now)
        {
            if room == 0 {
                return;
            }
            match Tool::consult(&line.meter.command, b"", now + line.meter.timeout) {
                Ok(tool) => {
                    line.asked = Some(tool);
                    room -= 1;
                }
                Err(error) => {
                    line.due = now + line.meter.interval;
                    line.note(resource, Some(&error.to_string()));
                }
            }
        }
    }

    /// Ends those that still run.
    pub fn leave(&mut self) {
        std::mem::take(&mut self.all)
            .into_values()
            .filter_map(|line| line.asked)
            .for_each(|tool| drop(tool.end()));
    }
}

impl Line {
    /// How much is there and used elsewhere, or why that is not said; None while it is not over.
    fn hear(&mut self, now: Span) -> Option<Result<(i64, i64), String>> {
        let tool = self.asked.as_mut()?;
        match tool.outcome() {
            Some(Ok(said)) if said.status == Some(0) => {
                Some(ResourceMeter::read(self.kind, &said.text))
            }
            Some(Ok(said)) => {
                let how = said.status.map_or("it was killed".to_string(), |code| {
                    format!("it ends with {code}")
                });
                Some(Err(tool.complaint().map_or(how.clone(), |complaint| {
                    format!("{how}: {complaint}")
                })))
            }
            Some(Err(error)) => Some(Err(error.to_string())),
            None if tool.until <= now => Some(Err(format!(
                "it takes longer than {} s",
                self.meter.timeout.0 as f64 / 1000.0
            ))),
            None => None,
        }
    }

    fn note(&mut self, resource: &str, fault: Option<&String>) {
        if let Some(why) = fault.filter(|why| self.fault.as_ref() != Some(why)) {
            let program = &self.meter.command[0];
            tracing::warn!(
                "{program} does not say what there is of {resource}, which stays as it was: {why}"
            );
        }
        if fault.is_none() && self.fault.is_some() {
            tracing::info!(
                "{} says again what there is of {resource}",
                self.meter.command[0]
            );
        }
        self.fault = fault.cloned();
    }
}
