//! The site's programs that run before and after a job: hooks, prologue and epilogue. The job's
//! shepherd runs them on the job's first node. A program that exceeds its time limit is killed with
//! its descendants.
//!
//! A program that runs before the job can prevent the start of the job. If the job is canceled,
//! that program is killed. A program that runs after the job cleans up, so a cancel does not kill
//! it.

mod instructions;

use super::control::Control;
use super::folder::Folder;
use super::site::Site;
use super::staging_worker::has_bare_cancel;
use super::variables;
use crate::model::hook::job_hooks::JobHooks;
use crate::model::hook::{FailAction, Hook, HookAnswer, HookEvent, HookExit, RunsAs, hooks_at};
use crate::model::job::{AttemptOutcome, How, attempt};
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::sys::program::{ProgramCall, ProgramResult, RunningProgram, Surroundings};
use crate::sys::user::{self, UserAccount};
use crate::sys::{clock, process};
use crate::wire::order::Launch;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::{Gid, getpid};
use std::os::fd::AsFd;
use std::path::Path;

/// Maximum length in characters of a note, or of the reason for a failed start, from the site's
/// programs. The exit record, which stores these texts, is small.
const MAX_NOTE: usize = 500;
/// Maximum time to wait until the processes of a finished or killed program have disappeared.
const EXIT_TIMEOUT: Span = Span::seconds(2);
/// `Exit_status` of a job that the prologue refuses permanently, as in PBS.
const REFUSED: i32 = -1;
/// The prefix of the attributes that a hook can set before the job.
const VARIABLE: &str = "Variable_List.";

/// Runs the site's programs for one job.
#[derive(Debug)]
pub struct JobHookRunner<'a> {
    /// The environment that all attempts share.
    pub site: &'a Site,
    /// The job's owner.
    pub account: UserAccount,
    /// The Unix groups for programs that run as the owner; None if noded runs as the owner.
    pub groups: Option<Vec<Gid>>,
    /// The attempt's directory.
    pub folder: &'a Folder,
    /// The hooks, prologue and epilogue to run.
    pub job_hooks: JobHooks,
}

/// The result of running a program.
enum RunResult {
    Ended(ProgramResult),
    NotStarted(String),
    Cancelled,
}

impl JobHookRunner<'_> {
    /// Runs the hooks of an event before the job. The hooks may change the job's environment.
    /// Returns the outcome if the job must not run.
    pub fn before(&self, event: HookEvent, launch: &mut Launch) -> Option<AttemptOutcome> {
        for hook in hooks_at(&self.job_hooks.hooks, event) {
            let document = self.document(hook, event, launch, None);
            let answer = match self.run_hook(hook, event, launch, &document, true) {
                RunResult::Cancelled => return Some(AttemptOutcome::new(How::Cancelled)),
                RunResult::NotStarted(why) => Err(why),
                RunResult::Ended(result) => answer(&result),
            };
            let changed = answer.and_then(|answer| match answer {
                HookAnswer::Reject(why) => Ok(Err(why)),
                HookAnswer::Accept(set) => variables(set).map(Ok),
            });
            match changed {
                Ok(Ok(set)) => launch.environ = variables::changed(&launch.environ, &set),
                Ok(Err(why)) => {
                    return Some(retry_later(format!(
                        "{} hook '{}': {why}",
                        event.name(),
                        hook.name
                    )));
                }
                Err(why) => {
                    let why = failure(hook, event, &why);
                    return Some(AttemptOutcome {
                        unfit: unfit(hook, &why),
                        ..retry_later(why)
                    });
                }
            }
        }
        None
    }

    /// Runs the hooks of an event after the job. Adds notes about rejections and failures to the
    /// outcome. If a hook with the fail action `offline_vnodes` fails, also adds the reason to set
    /// the nodes of this host offline.
    pub fn after(&self, event: HookEvent, launch: &Launch, outcome: &mut AttemptOutcome) {
        let mut notes = Vec::new();
        for hook in hooks_at(&self.job_hooks.hooks, event) {
            let document = self.document(hook, event, launch, Some(outcome));
            let answer = match self.run_hook(hook, event, launch, &document, false) {
                RunResult::Ended(result) => answer(&result),
                RunResult::NotStarted(why) => Err(why),
                RunResult::Cancelled => continue,
            };
            match answer {
                Ok(HookAnswer::Accept(set)) if set.is_empty() => {}
                Ok(HookAnswer::Accept(_)) => notes.push(failure(
                    hook,
                    event,
                    "a hook that runs after the job cannot set anything",
                )),
                Ok(HookAnswer::Reject(why)) => {
                    notes.push(format!("{} hook '{}': {why}", event.name(), hook.name))
                }
                Err(why) => {
                    let why = failure(hook, event, &why);
                    outcome.unfit = outcome.unfit.take().or(unfit(hook, &why));
                    notes.push(why);
                }
            }
        }
        if !notes.is_empty() {
            outcome.notes.push(shortened(notes.join("; "), MAX_NOTE));
        }
    }

    /// Runs the site's prologue. Returns the outcome if the job must not run.
    pub fn prologue(&self, launch: &Launch) -> Option<AttemptOutcome> {
        let script = self.job_hooks.scripts.prologue.as_ref()?;
        let why = match self.run_script(script, self.prologue_arguments(launch), true) {
            RunResult::Cancelled => return Some(AttemptOutcome::new(How::Cancelled)),
            RunResult::NotStarted(why) => why,
            RunResult::Ended(result) if result.exit.as_ref().is_ok_and(|e| e.status == Some(1)) => {
                let why = result.blame("the site's prologue ended with status 1".to_string());
                return Some(AttemptOutcome::new(How::CannotStart {
                    status: REFUSED,
                    why,
                }));
            }
            RunResult::Ended(result) => script_failure(&result)?,
        };
        Some(retry_later(format!("prologue {}: {why}", script.display())))
    }

    /// Runs the site's epilogue. Adds a note about a failure to the outcome.
    pub fn epilogue(&self, launch: &Launch, outcome: &mut AttemptOutcome) {
        let Some(script) = &self.job_hooks.scripts.epilogue else {
            return;
        };
        let why = match self.run_script(script, self.epilogue_arguments(launch, outcome), false) {
            RunResult::Ended(result) => script_failure(&result),
            RunResult::NotStarted(why) => Some(why),
            RunResult::Cancelled => None,
        };
        let Some(why) = why else { return };
        outcome.notes.push(shortened(
            format!("epilogue {}: {why}", script.display()),
            MAX_NOTE,
        ));
    }

    fn run_hook(
        &self,
        hook: &Hook,
        event: HookEvent,
        launch: &Launch,
        document: &[u8],
        ends_on_cancel: bool,
    ) -> RunResult {
        let environment = [
            ("PBS_HOOK_EVENT", event.name()),
            ("PBS_JOBID", &launch.full_id),
        ];
        let groups = if hook.runs_as == RunsAs::Owner {
            self.groups.as_deref()
        } else {
            None
        };
        let call = ProgramCall {
            input: document,
            surroundings: Surroundings::Own(&environment),
            identity: groups.map(|groups| (&self.account, groups)),
            ..ProgramCall::new(&hook.command, hook.alarm)
        };
        self.run(&call, ends_on_cancel)
    }

    fn run_script(&self, script: &Path, arguments: Vec<String>, ends_on_cancel: bool) -> RunResult {
        let mut words = vec![script.display().to_string()];
        words.extend(arguments);
        let call = ProgramCall {
            surroundings: Surroundings::Own(&[]),
            ..ProgramCall::new(&words, self.job_hooks.scripts.timeout)
        };
        self.run(&call, ends_on_cancel)
    }

    /// Runs a program until it ends or exceeds its time limit. With `ends_on_cancel`, a cancel of
    /// the job ends the program.
    fn run(&self, call: &ProgramCall, ends_on_cancel: bool) -> RunResult {
        let mut orders = match ends_on_cancel
            .then(|| AttemptOrders::open(self.folder))
            .transpose()
        {
            Ok(orders) => orders,
            Err(e) => return RunResult::NotStarted(format!("cannot receive signals: {e}")),
        };
        if orders.as_mut().is_some_and(AttemptOrders::read_cancel) {
            return RunResult::Cancelled;
        }
        let ran = match call.start(clock::monotonic()) {
            Ok(program) => wait_for_program(program, orders.as_mut()),
            Err(e) => {
                let program = call.words.first().map_or("", String::as_str);
                RunResult::NotStarted(format!("{program} cannot be run: {e}"))
            }
        };
        if let Some(orders) = orders
            && !matches!(ran, RunResult::Cancelled)
        {
            orders.repeat_signal();
        }
        ran
    }
}

/// Waits until a program ends or exceeds its time limit. With `orders`, a cancel of the job kills
/// the program.
fn wait_for_program(
    mut program: RunningProgram,
    mut orders: Option<&mut AttemptOrders>,
) -> RunResult {
    let ran = loop {
        if let Some(result) = program.poll(clock::monotonic()) {
            break RunResult::Ended(result);
        }
        if orders
            .as_deref_mut()
            .is_some_and(AttemptOrders::read_cancel)
        {
            program.stop();
            break RunResult::Cancelled;
        }
        program.wait_for_news(orders.as_deref().map(|orders| orders.signals.as_fd()));
    };
    // The wait is limited, because a process that is stuck in the kernel does not disappear.
    program.wait_until_gone(EXIT_TIMEOUT);
    ran
}

/// The answer of a hook, or why it failed.
pub(super) fn answer(result: &ProgramResult) -> Result<HookAnswer, String> {
    match &result.exit {
        Ok(exit) => HookAnswer::read(exit).map_err(|why| result.blame(why)),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Why a script failed; None if it succeeded.
fn script_failure(result: &ProgramResult) -> Option<String> {
    match &result.exit {
        Ok(exit) if exit.status == Some(0) => None,
        Ok(exit) => Some(result.blame(ended(exit))),
        Err(fault) => Some(fault.to_string()),
    }
}

/// Orders to the shepherd while a program runs.
struct AttemptOrders<'a> {
    folder: &'a Folder,
    signals: SignalFd,
    seen: u64,
    is_ordered: bool,
}

impl AttemptOrders<'_> {
    fn open(folder: &Folder) -> std::io::Result<AttemptOrders<'_>> {
        let signals = process::signals(&[Signal::SIGUSR1, Signal::SIGUSR2])?;
        Ok(AttemptOrders {
            folder,
            signals,
            seen: 0,
            is_ordered: false,
        })
    }

    /// Reads new orders and signals. Returns whether one of them cancels the job.
    fn read_cancel(&mut self) -> bool {
        let bare = has_bare_cancel(&self.signals);
        let before = self.seen;
        let cancelled = self
            .folder
            .orders(&mut self.seen)
            .iter()
            .any(|order| matches!(order, Control::Cancel(..)));
        self.is_ordered |= self.seen > before;
        bare || cancelled
    }

    /// Sends SIGUSR1 to this shepherd again if `read_cancel` has read orders, because the code that
    /// watches the job must read them, too.
    fn repeat_signal(&self) {
        if self.is_ordered {
            process::send_signal(getpid().as_raw(), Signal::SIGUSR1 as i32);
        }
    }
}

/// The outcome of an attempt after which the job is tried again later (M10).
fn retry_later(why: String) -> AttemptOutcome {
    AttemptOutcome::new(How::NodeFault(shortened(why, MAX_NOTE)))
}

fn failure(hook: &Hook, event: HookEvent, why: &str) -> String {
    shortened(
        format!("{} hook '{}' failed: {why}", event.name(), hook.name),
        MAX_NOTE / 2,
    )
}

fn unfit(hook: &Hook, why: &str) -> Option<String> {
    (hook.on_failure == FailAction::OfflineVnodes).then(|| why.to_string())
}

fn ended(exit: &HookExit) -> String {
    exit.status
        .map_or("it was killed by a signal".to_string(), |status| {
            format!("it ended with status {status}")
        })
}

/// The environment variables that a hook changes. Fails if the hook changes anything else, or if a
/// name or value is invalid.
fn variables(set: Vec<(String, Option<String>)>) -> Result<Vec<(String, Option<String>)>, String> {
    let mut variables = Vec::new();
    for (name, value) in set {
        let has_zero = value.as_ref().is_some_and(|value| value.contains('\0'));
        match name.strip_prefix(VARIABLE) {
            Some(known) if !known.is_empty() && !known.contains(['=', '\0']) && !has_zero => {
                variables.push((known.to_string(), value));
            }
            _ => {
                return Err(format!(
                    "a hook that runs before the job can set only {VARIABLE}NAME, not `{name}`"
                ));
            }
        }
    }
    Ok(variables)
}

/// The groups for processes that become the owner: all the owner's groups, and the group that the
/// job requests. None if noded runs as the owner.
pub fn groups(
    site: &Site,
    account: &UserAccount,
    launch: &Launch,
) -> std::io::Result<Option<Vec<Gid>>> {
    if account.uid == site.own.uid {
        return Ok(None);
    }
    let mut groups = user::groups(account)?;
    if launch.groups.is_some() {
        groups.extend(user::named(&account.name)?.map(|account| Gid::from_raw(account.gid)));
    }
    Ok(Some(groups))
}

/// `Exit_status` of the job, as the site's programs get it. None if the outcome has no exit status.
fn status(outcome: &AttemptOutcome) -> Option<i32> {
    attempt::exit_status(outcome).or(match outcome.how {
        How::Cancelled => Some(attempt::DELETED),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_before_the_job_can_only_change_environment_variables() {
        let set = |name: &str| variables(vec![(name.to_string(), Some("x".into()))]);
        assert_eq!(
            set("Variable_List.A"),
            Ok(vec![("A".into(), Some("x".into()))])
        );
        for name in [
            "Resource_List.walltime",
            "Variable_List.",
            "Variable_List.A=B",
            "queue",
        ] {
            assert!(set(name).unwrap_err().contains(name), "{name}");
        }
    }
}
