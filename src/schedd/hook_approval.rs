//! Approval by the site's hooks ([`crate::model::hook`]), programs that schedd runs before a job is
//! accepted, altered or started.
//!
//! A request that needs approval first passes all checks of the server, and then waits while the
//! event loop continues. Once the hooks allow the request, it is checked again with the hooks'
//! changes, and applied. Nothing is stored while the request waits. If the client disconnects or
//! schedd is killed during this time, the request is lost, but no client has seen a job id. A start
//! that needs approval is removed from the plan. Once the hooks allow the start, the next cycle
//! starts the job. No job is preempted for a start that hooks have not allowed.

use crate::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::hook::{Hook, HookAnswer, HookEvent, hooks_at};
use crate::model::job::deferral::Deferral;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::trigger::Trigger;
use crate::sched::view::plan::Plan;
use crate::schedd::inbox::Input;
use crate::schedd::programs::hooks::Ruling;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::schedd::programs::hooks::case_queue::HookResult;
use crate::schedd::programs::hooks::judging::check_case;
use crate::schedd::programs::hooks::judging::nodes_of;
use crate::schedd::programs::hooks::programs;
use crate::schedd::programs::hooks::question::question;
use crate::schedd::state::Schedd;
use crate::schedd::timers;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::server::request_context::RequestContext;
use crate::sys::clock::monotonic;
use crate::sys::program::{ProgramCall, RunningProgram};
use crate::wire::message::{ClientRequest, Reply};
use std::sync::Arc;

/// The refusal while too many requests wait for hooks.
const BUSY: &str = "too many requests wait for hooks of the site; try again in a moment";

impl Schedd {
    /// The hook event of a request; None if the site has no hooks for this event. Also None if the
    /// disk is full, because the request is refused anyway.
    pub(super) fn hook_event(&self, request: &ClientRequest) -> Option<HookEvent> {
        let hook_event = match request {
            ClientRequest::Submit(_) => HookEvent::QueueJob,
            ClientRequest::Alter(..) => HookEvent::ModifyJob,
            ClientRequest::Run { .. } => HookEvent::RunJob,
            ClientRequest::Batch(batch) => return self.hook_event(&batch.first()?),
            _ => return None,
        };
        (self.has_hooks(hook_event) && self.reserve.is_complete()).then_some(hook_event)
    }

    fn has_hooks(&self, hook_event: HookEvent) -> bool {
        !hooks_at(&self.server.setup.config.hooks, hook_event).is_empty()
    }

    /// Checks a request and queues it for hooks. A refused request is answered at once. A
    /// submission that repeats a granted one continues without hooks.
    pub(super) fn ask_hooks(
        &mut self,
        hook_event: HookEvent,
        token: Token,
        caller: Caller,
        request: ClientRequest,
    ) {
        self.server.begin(&timers::read_clocks());
        let matter = Matter::Request(token, caller, Box::new(request));
        let case = Case::new(matter, hook_event, &self.server.setup.config.hooks);
        match check_case(&mut self.server, &self.spool, &case) {
            Err(refusal) => self.clients.answer(token, &Reply::Refused(refusal)),
            Ok(None) => self.complete(case, Ok(())),
            Ok(Some(_)) if !self.hooks.requests.has_room_for(&case) => {
                self.clients
                    .answer(token, &Reply::Refused(Refusal::spool(BUSY)));
            }
            Ok(Some(_)) => {
                self.clients.await_change(token);
                self.hooks.requests.push(case);
                self.start_hooks();
            }
        }
    }

    /// Handles the answers of hooks, kills hooks that exceed their time limits, drops the requests
    /// of disconnected clients, and starts the next hooks.
    pub(super) fn handle_hooks(&mut self) {
        if self.hooks.is_idle() {
            return;
        }
        self.server.begin(&timers::read_clocks());
        let now = monotonic();
        self.hooks
            .requests
            .forget(|token| self.clients.is_connected(token));
        let mut results = self.hooks.requests.poll(now);
        results.extend(self.hooks.starts.poll(now));
        results
            .into_iter()
            .for_each(|result| self.handle_result(result));
        self.start_hooks();
    }

    fn handle_result(&mut self, result: HookResult) {
        let HookResult {
            mut case,
            hook,
            answer,
        } = result;
        case.hooks.pop_front();
        let decision = match answer {
            Ok(HookAnswer::Accept(set)) => self.apply_changes(&mut case, &hook, set),
            Ok(HookAnswer::Reject(why)) => Err(Refusal::hook(why)),
            Err(cause) => Err(failure(&hook, &cause)),
        };
        match decision {
            Ok(()) if !case.hooks.is_empty() => self.hooks.queue_for(&case.matter).push_front(case),
            Ok(()) => self.complete(case, Ok(())),
            Err(refusal) => self.complete(case, Err((hook.name, refusal))),
        }
    }

    /// Applies a hook's changes to a case (a request or start), and checks the case like a client's
    /// request.
    fn apply_changes(
        &mut self,
        case: &mut Case,
        hook: &Hook,
        set: Vec<(String, Option<String>)>,
    ) -> Result<(), Refusal> {
        if set.is_empty() {
            return Ok(());
        }
        case.set_attributes(&hook.name, set);
        check_case(&mut self.server, &self.spool, case)
            .map(drop)
            .map_err(|refusal| {
                tracing::warn!(
                    "schedd refuses the changes by hook {}: {}",
                    hook.name,
                    refusal.text
                );
                Refusal::hook(format!("hook '{}': {}", hook.name, refusal.text))
            })
    }

    fn start_hooks(&mut self) {
        while let Some(case) = self.hooks.next_case(&self.server.setup.config.hooks) {
            let Some(hook) = case.hooks.front().cloned() else {
                continue;
            };
            match self.start_hook(&case, &hook) {
                Ok(running) => self
                    .hooks
                    .queue_for(&case.matter)
                    .begin(case, hook, running),
                Err(refusal) => self.complete(case, Err((hook.name, refusal))),
            }
        }
    }

    fn start_hook(&mut self, case: &Case, hook: &Hook) -> Result<RunningProgram, Refusal> {
        let question = question(&mut self.server, &self.spool, case, hook)?.to_string();
        let call = ProgramCall {
            input: question.as_bytes(),
            ..ProgramCall::new(&hook.command, hook.alarm)
        };
        call.start(monotonic())
            .map_err(|error| failure(hook, &format!("the program cannot be run: {error}")))
    }

    /// Completes a case: queues the request or the decision for the next tick (pass of the event
    /// loop), or refuses the request. An error in `decision` has the name of the hook that refused,
    /// failed or could not be run.
    fn complete(&mut self, case: Case, decision: Result<(), (String, Refusal)>) {
        let Case {
            matter, set, by, ..
        } = case;
        match (matter, decision) {
            (Matter::Request(token, caller, request), Ok(())) => {
                if let (ClientRequest::Run { job, .. }, false) = (&*request, set.is_empty()) {
                    self.inbox
                        .push(Input::Ruled(*job, Ruling::Granted(by, set)));
                }
                self.inbox.push(Input::Request(token, caller, *request));
            }
            (Matter::Request(token, ..), Err((_, refusal))) => {
                self.clients.answer(token, &Reply::Refused(refusal))
            }
            (Matter::Start(job, _), Ok(())) => {
                self.inbox.push(Input::Ruled(job, Ruling::Granted(by, set)))
            }
            // The server, not the hook, refuses this start, so the job is not deferred.
            (Matter::Start(..), Err((_, refusal))) if !refusal.is_of_hook() => {}
            (Matter::Start(job, _), Err((hook, refusal))) => {
                self.inbox
                    .push(Input::Ruled(job, Ruling::Refused(hook, refusal.text)));
            }
        }
    }

    /// Gives the scheduler the list of the starts that hooks have allowed. The scheduler preempts
    /// jobs only for these starts. Without hooks for starts, there is no list and no restriction.
    pub(super) fn renew_permits(&mut self) {
        let mut permits = None;
        if self.has_hooks(HookEvent::RunJob) {
            let server = &self.server;
            permits = Some(self.hooks.permissions.valid(
                monotonic(),
                |job, spec| {
                    let known = server.known(job);
                    known.is_some_and(|job| Arc::ptr_eq(&job.spec, spec) || job.spec == *spec)
                },
                |job| server.holds_resources_for(job),
            ));
        }
        self.server.set_permits(permits);
    }

    /// Removes from a plan the starts that hooks have not allowed, and queues them for hooks. Also
    /// queues the starts for which the plan would preempt jobs if hooks allowed them.
    pub(super) fn hold_back_unapproved(&mut self, plan: &mut Plan) {
        self.hooks.wanted.clear();
        if !self.has_hooks(HookEvent::RunJob) {
            return;
        }
        let permits = self.server.cluster().permits();
        for start in std::mem::take(&mut plan.starts) {
            if permits.is_some_and(|permits| permits.contains(&start.job)) {
                self.hooks.permissions.remove(start.job);
                plan.starts.push(start);
            } else {
                self.hooks.wanted.push((start.job, nodes_of(&start)));
            }
        }
        self.hooks.wanted.append(&mut plan.asks);
        self.start_hooks();
    }

    /// Stores the program of a hook in a file of the installation. Returns the request that makes
    /// the hook run this file.
    pub(super) fn store_hook_program(
        &mut self,
        caller: &Caller,
        name: &str,
        content: &[u8],
    ) -> Result<ClientRequest, Refusal> {
        let context = RequestContext {
            server: &mut self.server,
            history: &self.spool,
            caller,
        };
        context.may_import_hook(name)?;
        let path =
            programs::store_program(&self.home.hooks(), name, content).map_err(Refusal::spool)?;
        let path = path
            .to_str()
            .ok_or_else(|| Refusal::illegal_value("LANAI_HOME"))?;
        let edit = Edit {
            key: AttributeKey::plain("command"),
            op: Op::Set,
            value: path.to_string(),
        };
        Ok(ClientRequest::Amend(QmgrCommand {
            verb: Verb::Set,
            target: QmgrObject::Hook(name.to_string()),
            edits: vec![edit],
        }))
    }

    /// Applies the hooks' decision about the start of a job: sets the job's attributes as the hooks
    /// request and allows the start for a while, or defers the job.
    pub(super) fn apply_ruling(&mut self, job: JobId, ruling: &Ruling) {
        match ruling {
            Ruling::Refused(hook, why) => self.defer(job, hook, why),
            Ruling::Granted(hook, set) => {
                let caller = Caller::hook(hook, &self.server.setup);
                let mut context = RequestContext {
                    server: &mut self.server,
                    history: &self.spool,
                    caller: &caller,
                };
                if let Err(refusal) = if set.is_empty() {
                    Ok(())
                } else {
                    context.alter(job, set).map(drop)
                } {
                    return self.defer(job, hook, &refusal.text);
                }
                let Some(known) = self.server.known(job) else {
                    return;
                };
                self.hooks
                    .permissions
                    .allow(job, known.spec.clone(), monotonic());
                self.cycle_cache.doubt();
                self.server.want_cycle(Trigger::Answer);
            }
        }
    }

    /// Defers a job after a hook refused its start. For a subjob that has never started, defers
    /// the array.
    fn defer(&mut self, job: JobId, hook: &str, why: &str) {
        let held = if self.server.job(job).is_some() {
            job
        } else {
            job.parent().unwrap_or(job)
        };
        if self.server.next_attempt(held).is_some() {
            let event = Event::StartRefused {
                hook: hook.to_string(),
                why: why.to_string(),
            };
            self.server.apply_event(held, event);
        }
    }

    /// Clears a hook's refusal from an array once one of its subjobs has started.
    pub(super) fn clear_hook_refusal(&mut self, started: JobId) {
        let Some(array) = started.parent() else {
            return;
        };
        if self
            .server
            .job(array)
            .is_some_and(|job| job.life.deferral == Some(Deferral::HookRefused))
        {
            self.server.change(array, |job| {
                (job.life.comment, job.life.deferral) = (None, None);
                job.life.not_before = None;
            });
        }
    }
}

/// The refusal that the user gets when a hook fails. The cause is only logged.
fn failure(hook: &Hook, cause: &str) -> Refusal {
    tracing::warn!("hook {} has failed: {cause}", hook.name);
    Refusal::hook(hook.failure())
}
