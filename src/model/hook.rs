//! `[[hook]]`: programs of the site that are asked when something is about to happen, and may let
//! it, refuse it with a message, or have it otherwise. PBS's events (`spec`: hooks), told as JSON
//! to any program instead of to Python within the daemon.

mod answer;

pub mod job_hooks;

pub use answer::{HookAnswer, HookExit};

use crate::model::text::is_word;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// When hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookEvent {
    /// A job is submitted.
    QueueJob,
    /// A job is altered.
    ModifyJob,
    /// A job is about to be started.
    RunJob,
    /// A node has been told to start a job; nothing of it is there yet.
    ExecjobBegin,
    /// On the node, right before the job.
    ExecjobPrologue,
    /// On the node, right after the job.
    ExecjobEpilogue,
    /// On the node, after all that belongs to the job is gone from it.
    ExecjobEnd,
    /// On each node, again and again.
    ExechostPeriodic,
}

impl HookEvent {
    /// All of them, as they are written.
    pub const ALL: &'static [(&'static str, HookEvent)] = &[
        ("queuejob", HookEvent::QueueJob),
        ("modifyjob", HookEvent::ModifyJob),
        ("runjob", HookEvent::RunJob),
        ("execjob_begin", HookEvent::ExecjobBegin),
        ("execjob_prologue", HookEvent::ExecjobPrologue),
        ("execjob_epilogue", HookEvent::ExecjobEpilogue),
        ("execjob_end", HookEvent::ExecjobEnd),
        ("exechost_periodic", HookEvent::ExechostPeriodic),
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<HookEvent> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, occasion)| *occasion)
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, occasion)| *occasion == self)
            .map_or("", |(name, _)| name)
    }

    /// Whether it is noded that asks, not schedd.
    pub fn is_on_nodes(self) -> bool {
        !matches!(
            self,
            HookEvent::QueueJob | HookEvent::ModifyJob | HookEvent::RunJob
        )
    }
}

/// As whom a hook runs on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunsAs {
    /// As the daemon that asks it: root, in a shared installation.
    #[default]
    Daemon,
    /// As the job's owner.
    Owner,
}

impl RunsAs {
    /// All of them, as PBS writes them.
    pub const ALL: &'static [(&'static str, RunsAs)] =
        &[("pbsadmin", RunsAs::Daemon), ("pbsuser", RunsAs::Owner)];
}

/// What is done on a node besides, when a hook fails: it cannot be run, takes too long, or says
/// nonsense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailAction {
    /// Nothing besides.
    #[default]
    None,
    /// The node is taken out of service, with the failure as its comment.
    OfflineVnodes,
}

impl FailAction {
    /// All of them, as they are written.
    pub const ALL: &'static [(&'static str, FailAction)] = &[
        ("none", FailAction::None),
        ("offline_vnodes", FailAction::OfflineVnodes),
    ];
}

/// The longest name of a hook, in bytes.
const LONGEST_NAME: usize = 64;

/// A program of the site, and when it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// When it is asked.
    pub occasions: BTreeSet<HookEvent>,
    /// The program, absolute, and its arguments. It reads what is about to happen as JSON.
    pub command: Vec<String>,
    /// Whether it is asked at all.
    pub is_enabled: bool,
    /// Of several hooks the lower comes first; of equals, who is written first.
    pub order: u16,
    /// How long it may take.
    pub alarm: Span,
    /// How often it is asked on nodes ([`HookEvent::ExechostPeriodic`]).
    pub every: Span,
    /// As whom it runs on a node.
    pub runs_as: RunsAs,
    /// What is done besides when it fails.
    pub on_failure: FailAction,
}

impl Hook {
    /// How long one may take that does not say, as in PBS.
    pub const ALARM: Span = Span::seconds(30);
    /// How often one is asked that does not say, as in PBS.
    pub const EVERY: Span = Span::seconds(120);
    /// The place among the others of one that does not say.
    pub const ORDER: u16 = 1;

    /// One of this name that is never asked: nobody has said what it runs, and when.
    pub fn blank(name: &str) -> Hook {
        Hook {
            name: name.to_string(),
            occasions: BTreeSet::new(),
            command: Vec::new(),
            is_enabled: true,
            order: Hook::ORDER,
            alarm: Hook::ALARM,
            every: Hook::EVERY,
            runs_as: RunsAs::default(),
            on_failure: FailAction::default(),
        }
    }

    /// Whether this can be the name of one: it may be that of a file.
    pub fn is_name(name: &str) -> bool {
        name.len() <= LONGEST_NAME && !name.starts_with('.') && is_word(name, "-_.")
    }

    /// What is said to the user when a hook fails, in PBS's words (exit code 32).
    pub fn failure(&self) -> String {
        format!(
            "request rejected as filter hook '{}' encountered an exception. Please inform Admin",
            self.name
        )
    }
}

/// Those asked on an occasion, in their order.
pub fn asked(hooks: &[Hook], occasion: HookEvent) -> Vec<&Hook> {
    let mut asked: Vec<&Hook> = hooks
        .iter()
        .filter(|hook| hook.is_enabled && !hook.command.is_empty())
        .filter(|hook| hook.occasions.contains(&occasion))
        .collect();
    asked.sort_by_key(|hook| hook.order);
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(name: &str, order: u16, is_enabled: bool) -> Hook {
        Hook {
            name: name.into(),
            occasions: [HookEvent::QueueJob].into(),
            command: vec!["/bin/true".into()],
            is_enabled,
            order,
            alarm: Hook::ALARM,
            every: Hook::EVERY,
            runs_as: RunsAs::Daemon,
            on_failure: FailAction::None,
        }
    }

    #[test]
    fn hooks_are_asked_in_their_order_and_only_when_they_want() {
        let hooks = [
            hook("c", 2, true),
            hook("off", 1, false),
            hook("a", 1, true),
            hook("b", 1, true),
        ];
        let names = |occasion| {
            asked(&hooks, occasion)
                .iter()
                .map(|hook| hook.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(HookEvent::QueueJob), ["a", "b", "c"]);
        assert!(names(HookEvent::RunJob).is_empty());
    }
}
