//! Hooks and scripts that run before and after each job, on the first node of the job.

use super::{Hook, HookEvent, hooks_at};
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Scripts of the site with PBS's arguments (`[launch] prologue`, `epilogue`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobScripts {
    /// Prologue, run immediately before the job.
    pub prologue: Option<PathBuf>,
    /// Epilogue, run immediately after the job.
    pub epilogue: Option<PathBuf>,
    /// Time limit of each script.
    pub timeout: Span,
}

impl Default for JobScripts {
    fn default() -> JobScripts {
        JobScripts {
            prologue: None,
            epilogue: None,
            timeout: Span::seconds(30),
        }
    }
}

/// Hooks and scripts that are sent with the order to start a job, and the data that they get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHooks {
    /// Hooks that run on the first node of the job.
    pub hooks: Vec<Hook>,
    /// Prologue and epilogue.
    pub scripts: JobScripts,
    /// Server name.
    pub server: String,
    /// Attributes of the job without its environment, as a JSON object.
    pub job: String,
}

/// Returns the enabled hooks that run before or after a job on the first node of the job.
pub fn around_a_job(hooks: &[Hook]) -> Vec<Hook> {
    hooks
        .iter()
        .filter(|hook| hook.is_enabled && hook.occasions.iter().any(is_around_a_job))
        .cloned()
        .collect()
}

fn is_around_a_job(event: &HookEvent) -> bool {
    event.is_on_nodes() && *event != HookEvent::ExechostPeriodic
}

/// Returns the maximum time by which hooks and the prologue delay the start of a job. It is the sum
/// of their time limits.
pub fn delay(hooks: &[Hook], scripts: &JobScripts) -> Span {
    let before = [HookEvent::ExecjobBegin, HookEvent::ExecjobPrologue];
    let alarms = before
        .iter()
        .flat_map(|occasion| hooks_at(hooks, *occasion))
        .map(|hook| hook.alarm.0);
    let script = scripts.prologue.as_ref().map_or(0, |_| scripts.timeout.0);
    Span(alarms.fold(script, i64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::super::{FailAction, RunsAs};
    use super::*;

    #[test]
    fn enabled_job_hooks_are_sent_and_hooks_before_the_job_delay_the_start() {
        let hook = |occasion, is_enabled| Hook {
            name: "h".into(),
            occasions: [occasion].into(),
            command: vec!["/bin/true".into()],
            is_enabled,
            order: 1,
            alarm: Span::seconds(5),
            every: Hook::EVERY,
            runs_as: RunsAs::Daemon,
            on_failure: FailAction::None,
        };
        let hooks = [
            hook(HookEvent::QueueJob, true),
            hook(HookEvent::ExecjobBegin, true),
            hook(HookEvent::ExecjobPrologue, false),
            hook(HookEvent::ExecjobEnd, true),
            hook(HookEvent::ExechostPeriodic, true),
        ];
        assert_eq!(around_a_job(&hooks), [hooks[1].clone(), hooks[3].clone()]);
        let scripts = JobScripts {
            prologue: Some("/p".into()),
            ..JobScripts::default()
        };
        assert_eq!(delay(&hooks, &scripts), Span::seconds(35));
        assert_eq!(delay(&hooks, &JobScripts::default()), Span::seconds(5));
    }
}
