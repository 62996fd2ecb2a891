//! Hooks of the event `exechost_periodic`: noded runs them periodically on this host, without
//! blocking its loop. A hook that still runs when it is due again is not started a second time.

use super::job_hooks::answer;
use super::poller::Poller;
use crate::model::hook::{FailAction, Hook, HookAnswer, HookEvent};
use crate::model::node::NodeFacts;
use crate::model::resource::ResourceValue;
use crate::model::time::Span;
use crate::sys::program::{ProgramCall, ProgramResult, RunningProgram, Surroundings};
use serde_json::{Map, Value, json};
use std::io;
use tracing::warn;

/// The periodic hooks.
#[derive(Debug, Default)]
pub struct Periodic {
    server: String,
    entries: Vec<PeriodicHook>,
    /// Reasons to take this host out of service. noded reports them to schedd.
    unfit: Vec<String>,
}

#[derive(Debug)]
struct PeriodicHook {
    hook: Hook,
    next: Span,
    /// The running program, until all its processes are gone.
    running: Option<RunningProgram>,
    /// Whether the hook was removed, so that it must not run again.
    is_removed: bool,
}

impl Periodic {
    /// Sets the hooks to run. An unchanged hook keeps its schedule.
    pub fn set_hooks(&mut self, server: String, hooks: Vec<Hook>, now: Span) {
        self.server = server;
        for entry in &mut self.entries {
            entry.is_removed = !hooks.contains(&entry.hook);
        }
        self.entries
            .retain(|entry| !entry.is_removed || entry.running.is_some());
        for hook in hooks {
            if !self.entries.iter().any(|entry| entry.hook == hook) {
                self.entries.push(PeriodicHook {
                    hook,
                    next: now,
                    running: None,
                    is_removed: false,
                });
            }
        }
        self.entries.sort_by_key(|entry| entry.hook.order);
    }

    /// The next time at which a hook is due, or a running hook exceeds its time limit; None if
    /// there is no hook, or if all hooks have been killed and have not exited yet.
    pub fn due(&self) -> Option<Span> {
        self.entries.iter().filter_map(PeriodicHook::due).min()
    }

    /// Takes the reasons to take this host out of service.
    pub fn take_unfit(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unfit)
    }

    /// Handles finished hooks, and starts hooks that are due.
    pub fn run_due(&mut self, now: Span, host: &str, nodes: &[NodeFacts], poller: &mut Poller) {
        for entry in &mut self.entries {
            if let Some(running) = &mut entry.running {
                if let Some(result) = running.poll(now) {
                    self.unfit.extend(conclude(&entry.hook, &result));
                }
                if running.is_gone() {
                    entry.running = None;
                }
            } else if entry.next <= now {
                entry.next = Span(now.0.saturating_add(entry.hook.every.0));
                let document = document(&self.server, &entry.hook, host, nodes);
                match start(&entry.hook, &document, now).and_then(|hook| poller.watch(hook)) {
                    Ok(running) => entry.running = Some(running),
                    Err(error) => {
                        let program = entry.hook.command.first().map_or("", String::as_str);
                        let why = format!("{program} cannot be run: {error}");
                        self.unfit.extend(fail(&entry.hook, &why));
                    }
                }
            }
        }
        self.entries
            .retain(|entry| !entry.is_removed || entry.running.is_some());
    }
}

impl PeriodicHook {
    fn due(&self) -> Option<Span> {
        match &self.running {
            Some(running) => running.next(),
            None => Some(self.next),
        }
    }
}

fn start(hook: &Hook, document: &[u8], now: Span) -> io::Result<RunningProgram> {
    let environment = [("PBS_HOOK_EVENT", HookEvent::ExechostPeriodic.name())];
    let call = ProgramCall {
        input: document,
        surroundings: Surroundings::Own(&environment),
        ..ProgramCall::new(&hook.command, hook.alarm)
    };
    call.start(now)
}

/// Logs the answer of a hook if the hook rejects or fails. Returns a reason to take this host out
/// of service, if any.
fn conclude(hook: &Hook, result: &ProgramResult) -> Option<String> {
    match answer(result) {
        Ok(HookAnswer::Accept(set)) if set.is_empty() => None,
        Ok(HookAnswer::Accept(_)) => {
            let why = "it cannot set attributes: set resources of nodes in lanai.toml or with qmgr";
            fail(hook, why)
        }
        Ok(HookAnswer::Reject(why)) => {
            warn!("exechost_periodic hook '{}': {why}", hook.name);
            None
        }
        Err(why) => fail(hook, &why),
    }
}

fn document(server: &str, hook: &Hook, host: &str, nodes: &[NodeFacts]) -> Vec<u8> {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| json!({ "name": node.name, "resources_available": available(node) }))
        .collect();
    let document = json!({
        "event": HookEvent::ExechostPeriodic.name(),
        "hook": hook.name,
        "server": server,
        "requestor": "noded",
        "requestor_host": host,
        "nodes": nodes,
    });
    document.to_string().into_bytes()
}

fn available(node: &NodeFacts) -> Map<String, Value> {
    let mut available = Map::new();
    for (name, value) in &node.available {
        let value = match value {
            ResourceValue::Long(number) => json!(number),
            ResourceValue::Float(number) => json!(number),
            other => json!(other.to_string()),
        };
        available.insert(name.clone(), value);
    }
    available
}

/// Logs a failure of a hook. Returns the failure if the fail action of the hook is
/// `offline_vnodes`.
fn fail(hook: &Hook, why: &str) -> Option<String> {
    let why = format!("exechost_periodic hook '{}' failed: {why}", hook.name);
    warn!("{why}");
    (hook.on_failure == FailAction::OfflineVnodes).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hooks that are due every ten seconds and run until their time limit.
    fn hooks() -> [Hook; 2] {
        ["one", "two"].map(|name| Hook {
            command: vec!["/bin/sleep".into(), "300".into()],
            alarm: Span::seconds(5),
            every: Span::seconds(10),
            ..Hook::blank(name)
        })
    }

    fn set_hooks_at(periodic: &mut Periodic, hooks: &[Hook], now: i64) {
        periodic.set_hooks("head".into(), hooks.to_vec(), Span::seconds(now));
    }

    fn are_running(periodic: &Periodic) -> Vec<bool> {
        periodic
            .entries
            .iter()
            .map(|entry| entry.running.is_some())
            .collect()
    }

    #[test]
    fn unchanged_hooks_keep_their_schedule() {
        let (mut periodic, mut poller) = (Periodic::default(), Poller::new().unwrap());
        set_hooks_at(&mut periodic, &hooks(), 100);
        assert_eq!(
            (periodic.entries.len(), periodic.due()),
            (2, Some(Span::seconds(100)))
        );
        periodic.run_due(Span(99_999), "n1", &[], &mut poller);
        assert_eq!(
            are_running(&periodic),
            [false, false],
            "before the hooks are due"
        );
        set_hooks_at(&mut periodic, &hooks(), 101);
        assert_eq!(
            (periodic.entries.len(), periodic.due()),
            (2, Some(Span::seconds(100)))
        );
        set_hooks_at(&mut periodic, &hooks()[..1], 102);
        assert_eq!(
            (periodic.entries.len(), periodic.due()),
            (1, Some(Span::seconds(100)))
        );
        set_hooks_at(&mut periodic, &[], 103);
        assert_eq!((periodic.entries.len(), periodic.due()), (0, None));
    }

    #[test]
    fn a_running_hook_is_due_at_its_time_limit_even_if_removed() {
        let (mut periodic, mut poller) = (Periodic::default(), Poller::new().unwrap());
        set_hooks_at(&mut periodic, &hooks()[..1], 100);
        periodic.run_due(Span::seconds(100), "n1", &[], &mut poller);
        assert_eq!(
            (are_running(&periodic), periodic.due()),
            (vec![true], Some(Span::seconds(105)))
        );
        set_hooks_at(&mut periodic, &[], 101);
        assert_eq!(
            (are_running(&periodic), periodic.due()),
            (vec![true], Some(Span::seconds(105))),
            "the removed hook still runs"
        );
        periodic.run_due(Span::seconds(105), "n1", &[], &mut poller);
        assert_eq!(
            periodic.due(),
            None,
            "nothing is due before the hook has exited"
        );
        while !periodic.entries.is_empty() {
            assert_ne!(poller.wait(10_000), [], "the exit of the hook is noticed");
            periodic.run_due(Span::seconds(105), "n1", &[], &mut poller);
        }
    }
}
