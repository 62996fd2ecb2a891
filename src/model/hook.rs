//! `[[hook]]`: programs of the site that run at certain events. At some events, a hook can reject
//! the event or change the job. PBS has these and other events (`spec`: hooks). Lanai runs a
//! program and passes it the event as JSON; PBS runs Python code in the daemon.

mod answer;

pub mod job_hooks;

pub use answer::{HookAnswer, HookExit};

use crate::model::text::is_word;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Event at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookEvent {
    /// Submission of a job.
    QueueJob,
    /// Alteration of a job.
    ModifyJob,
    /// Start decision, before the job is launched.
    RunJob,
    /// Receipt of the start order by the node, before stage-in and before the job has a process.
    ExecjobBegin,
    /// Start of the job's script on the node; the hook runs immediately before the script.
    ExecjobPrologue,
    /// End of the job's script on the node; the hook runs immediately after the script.
    ExecjobEpilogue,
    /// End of the job on the node, after the node has cleaned up.
    ExecjobEnd,
    /// Periodic event on each node, without a job.
    ExechostPeriodic,
}

impl HookEvent {
    /// All events with their names.
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

    /// Returns the event with this name.
    pub fn named(name: &str) -> Option<HookEvent> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, event)| *event)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, event)| *event == self)
            .map_or("", |(name, _)| name)
    }

    /// Tests whether noded, rather than schedd, runs the hooks of this event.
    pub fn is_on_nodes(self) -> bool {
        !matches!(
            self,
            HookEvent::QueueJob | HookEvent::ModifyJob | HookEvent::RunJob
        )
    }
}

/// User that runs a hook on a node. Hooks for [`HookEvent::ExechostPeriodic`] always run as the
/// user of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunsAs {
    /// User of the daemon: root in a shared installation.
    #[default]
    Daemon,
    /// Owner of the job.
    Owner,
}

impl RunsAs {
    /// All values with PBS's names.
    pub const ALL: &'static [(&'static str, RunsAs)] =
        &[("pbsadmin", RunsAs::Daemon), ("pbsuser", RunsAs::Owner)];
}

/// Additional action after the failure of a hook on a node. A hook fails if it cannot run, exceeds
/// its time limit, ends with a status other than 0 or by a signal, or gives an invalid answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailAction {
    /// No action.
    #[default]
    None,
    /// schedd sets all nodes of the host offline, with the failure as their comment.
    OfflineVnodes,
}

impl FailAction {
    /// All actions with their names.
    pub const ALL: &'static [(&'static str, FailAction)] = &[
        ("none", FailAction::None),
        ("offline_vnodes", FailAction::OfflineVnodes),
    ];
}

/// Maximum length of a hook name in bytes.
const LONGEST_NAME: usize = 64;

/// Hook: a program of the site, and the events at which it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Unique name; valid if [`Hook::is_name`] accepts it.
    pub name: String,
    /// Events at which the hook runs.
    pub occasions: BTreeSet<HookEvent>,
    /// Absolute path of the program, then its arguments. The program reads the event as JSON.
    pub command: Vec<String>,
    /// False if the hook is disabled and therefore never runs.
    pub is_enabled: bool,
    /// Position: hooks with lower values run first, hooks with equal values in configuration order.
    pub order: u16,
    /// Time limit of one run of the program.
    pub alarm: Span,
    /// Interval of [`HookEvent::ExechostPeriodic`].
    pub every: Span,
    /// User that runs the hook on a node.
    pub runs_as: RunsAs,
    /// Additional action after a failure.
    pub on_failure: FailAction,
}

impl Hook {
    /// Default time limit, as in PBS.
    pub const ALARM: Span = Span::seconds(30);
    /// Default interval, as in PBS.
    pub const EVERY: Span = Span::seconds(120);
    /// Default position.
    pub const ORDER: u16 = 1;

    /// Creates a hook without program and events, which never runs.
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

    /// Tests whether `name` is a valid hook name. A valid name can be used as a file name.
    pub fn is_name(name: &str) -> bool {
        name.len() <= LONGEST_NAME && !name.starts_with('.') && is_word(name, "-_.")
    }

    /// Returns PBS's message about a request that is rejected because this hook failed.
    pub fn failure(&self) -> String {
        format!(
            "request rejected as filter hook '{}' encountered an exception. Please inform Admin",
            self.name
        )
    }
}

/// Returns the hooks that run at an event, in the order in which they run.
pub fn hooks_at(hooks: &[Hook], event: HookEvent) -> Vec<&Hook> {
    let mut found: Vec<&Hook> = hooks
        .iter()
        .filter(|hook| hook.is_enabled && !hook.command.is_empty())
        .filter(|hook| hook.occasions.contains(&event))
        .collect();
    found.sort_by_key(|hook| hook.order);
    found
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
    fn hooks_run_in_order_and_only_at_their_events() {
        let hooks = [
            hook("c", 2, true),
            hook("off", 1, false),
            hook("a", 1, true),
            hook("b", 1, true),
        ];
        let names = |event| {
            hooks_at(&hooks, event)
                .iter()
                .map(|hook| hook.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(HookEvent::QueueJob), ["a", "b", "c"]);
        assert!(names(HookEvent::RunJob).is_empty());
    }
}
