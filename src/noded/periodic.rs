//! Hooks of `exechost_periodic`: asked again and again on this host, by noded's loop, which never
//! waits for them. One that still runs when it is due again is not run beside itself.

use super::poller::{PollSource, Poller};
use crate::model::hook::{FailAction, Hook, HookAnswer, HookEvent};
use crate::model::node::NodeFacts;
use crate::model::resource::ResourceValue;
use crate::model::time::Span;
use crate::sys::call::{Called, ProgramCall};
use serde_json::json;
use tracing::warn;

/// The hooks.
#[derive(Debug, Default)]
pub struct Periodic {
    server: String,
    entries: Vec<PeriodicHook>,
    /// Why schedd should give this host no more jobs.
    unfit: Vec<String>,
}

#[derive(Debug)]
struct PeriodicHook {
    hook: Hook,
    next: Span,
    asked: Option<RunningHook>,
    /// No longer to be asked, but still running.
    is_dismissed: bool,
}

#[derive(Debug)]
struct RunningHook {
    called: Called,
    until: Span,
    is_late: bool,
    /// Where the poller says that there is something to hear.
    sources: Vec<PollSource>,
}

impl Periodic {
    /// Asks these from now on; one that was asked before keeps its pace.
    pub fn attend(&mut self, server: String, hooks: Vec<Hook>, now: Span) {
        self.server = server;
        for entry in &mut self.entries {
            entry.is_dismissed = !hooks.contains(&entry.hook);
        }
        self.entries
            .retain(|entry| !entry.is_dismissed || entry.asked.is_some());
        for hook in hooks {
            if !self.entries.iter().any(|entry| entry.hook == hook) {
                self.entries.push(PeriodicHook {
                    hook,
                    next: now,
                    asked: None,
                    is_dismissed: false,
                });
            }
        }
        self.entries.sort_by_key(|entry| entry.hook.order);
    }

    /// When there is next something to do.
    pub fn due(&self) -> Option<Span> {
        let due = |entry: &PeriodicHook| match &entry.asked {
            Some(asked) if asked.is_late => None,
            Some(asked) => Some(asked.until),
            None => Some(entry.next),
        };
        self.entries.iter().filter_map(due).min()
    }

    /// Why this host should get no more jobs, since the last call.
    pub fn take_unfit(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unfit)
    }

    /// Asks those whose time has come, and ends those that take too long.
    pub fn keep_time(&mut self, now: Span, host: &str, nodes: &[NodeFacts], poller: &mut Poller) {
        for entry in &mut self.entries {
            match &mut entry.asked {
                Some(asked) if asked.until <= now && !asked.is_late => {
                    asked.is_late = true;
                    asked.called.kill();
                }
                Some(_) => {}
                None if entry.next <= now => {
                    entry.next = Span(now.0.saturating_add(entry.hook.every.0));
                    let question = question(&self.server, &entry.hook, host, nodes);
                    match ask(&entry.hook, &question, now, poller) {
                        Ok(asked) => entry.asked = Some(asked),
                        Err(error) => {
                            let program = entry.hook.command.first().map_or("", String::as_str);
                            self.unfit.extend(fail(
                                &entry.hook,
                                &format!("{program} cannot be run: {error}"),
                            ));
                        }
                    }
                }
                None => {}
            }
        }
    }

    /// Takes in what they say.
    pub fn hear(&mut self, poller: &mut Poller) {
        for entry in &mut self.entries {
            let Some(asked) = &mut entry.asked else {
                continue;
            };
            let Some(heard) = asked.called.hear() else {
                continue;
            };
            let answer = match heard {
                _ if asked.is_late => Err(format!(
                    "it took longer than {} s",
                    entry.hook.alarm.as_seconds()
                )),
                Ok(said) => HookAnswer::read(&said).map_err(|why| asked.called.blame(why)),
                Err(error) => Err(error.to_string()),
            };
            asked
                .sources
                .drain(..)
                .for_each(|source| poller.overlook(source));
            entry.asked = None;
            match answer {
                Ok(HookAnswer::Accept(set)) if set.is_empty() => {}
                Ok(HookAnswer::Accept(_)) => {
                    let why = "it sets something: what nodes have is said in lanai.toml or to qmgr";
                    self.unfit.extend(fail(&entry.hook, why));
                }
                Ok(HookAnswer::Reject(why)) => {
                    warn!("exechost_periodic hook '{}': {why}", entry.hook.name)
                }
                Err(why) => self.unfit.extend(fail(&entry.hook, &why)),
            }
        }
        self.entries
            .retain(|entry| !entry.is_dismissed || entry.asked.is_some());
    }
}

fn ask(
    hook: &Hook,
    question: &[u8],
    now: Span,
    poller: &mut Poller,
) -> std::io::Result<RunningHook> {
    let environment = [("PBS_HOOK_EVENT", HookEvent::ExechostPeriodic.name())];
    let call = ProgramCall {
        words: &hook.command,
        environment: &environment,
        input: question,
        identity: None,
    };
    let called = call.start()?;
    let sources = poller
        .add_all(called.watched(), PollSource::Hook)
        .inspect_err(|_| called.kill())?;
    Ok(RunningHook {
        called,
        until: Span(now.0.saturating_add(hook.alarm.0)),
        is_late: false,
        sources,
    })
}

fn question(server: &str, hook: &Hook, host: &str, nodes: &[NodeFacts]) -> Vec<u8> {
    let available = |node: &NodeFacts| -> serde_json::Map<String, serde_json::Value> {
        let value = |value: &ResourceValue| match value {
            ResourceValue::Long(number) => (*number).into(),
            ResourceValue::Float(number) => (*number).into(),
            other => other.to_string().into(),
        };
        node.available
            .iter()
            .map(|(name, known)| (name.clone(), value(known)))
            .collect()
    };
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

/// Logs it; what schedd is to be told besides.
fn fail(hook: &Hook, why: &str) -> Option<String> {
    let why = format!("exechost_periodic hook '{}' failed: {why}", hook.name);
    warn!("{why}");
    (hook.on_failure == FailAction::OfflineVnodes).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hooks that are asked every ten seconds, and never answer.
    fn hooks() -> [Hook; 2] {
        ["one", "two"].map(|name| Hook {
            command: vec!["/bin/sleep".into(), "300".into()],
            alarm: Span::seconds(5),
            every: Span::seconds(10),
            ..Hook::blank(name)
        })
    }

    fn attend(periodic: &mut Periodic, hooks: &[Hook], now: i64) {
        periodic.attend("head".into(), hooks.to_vec(), Span::seconds(now));
    }

    fn are_asked(periodic: &Periodic) -> Vec<bool> {
        periodic
            .entries
            .iter()
            .map(|entry| entry.asked.is_some())
            .collect()
    }

    #[test]
    fn hooks_keep_their_pace_when_they_are_told_of_again() {
        let (mut periodic, mut poller) = (Periodic::default(), Poller::new().unwrap());
        attend(&mut periodic, &hooks(), 100);
        assert_eq!(
            (periodic.entries.len(), periodic.due()),
            (2, Some(Span::seconds(100)))
        );
        periodic.keep_time(Span(99_999), "n1", &[], &mut poller);
        assert_eq!(are_asked(&periodic), [false, false], "before its time");
        attend(&mut periodic, &hooks(), 101);
        assert_eq!(
            (periodic.entries.len(), periodic.due()),
            (2, Some(Span::seconds(100)))
        );
        attend(&mut periodic, &hooks()[..1], 102);
        assert_eq!(
            (periodic.entries.len(), periodic.due()),
            (1, Some(Span::seconds(100)))
        );
        attend(&mut periodic, &[], 103);
        assert_eq!((periodic.entries.len(), periodic.due()), (0, None));
    }

    #[test]
    fn who_is_asked_is_waited_for_until_its_time_is_over_and_then_its_end() {
        let (mut periodic, mut poller) = (Periodic::default(), Poller::new().unwrap());
        attend(&mut periodic, &hooks()[..1], 100);
        periodic.keep_time(Span::seconds(100), "n1", &[], &mut poller);
        assert_eq!(
            (are_asked(&periodic), periodic.due()),
            (vec![true], Some(Span::seconds(105)))
        );
        attend(&mut periodic, &[], 101);
        assert_eq!(
            (are_asked(&periodic), periodic.due()),
            (vec![true], Some(Span::seconds(105))),
            "it still runs"
        );
        periodic.keep_time(Span::seconds(105), "n1", &[], &mut poller);
        assert_eq!(
            periodic.due(),
            None,
            "nothing is to be done before it has ended"
        );
        while !periodic.entries.is_empty() {
            assert_ne!(poller.wait(10_000), [], "its end is heard");
            periodic.hear(&mut poller);
        }
    }
}
