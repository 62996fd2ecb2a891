//! Approval of requests and starts by the site's hooks ([`crate::model::hook`]) that schedd runs:
//! before a job is accepted, altered or started.
//!
//! A request that needs approval has passed all checks of the server and waits outside the tick.
//! Once the hooks allow it, the next tick checks it again, with their changes. Nothing is stored
//! until then: when the client disconnects or schedd is killed, the request is gone, and no client
//! has seen a job id. A start that needs approval is left out of its plan; once the hooks allow it,
//! the next cycle starts the job. No job is preempted for a start that hooks have not allowed.

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
use crate::schedd::programs::hooks::judging::judge;
use crate::schedd::programs::hooks::judging::nodes_of;
use crate::schedd::programs::hooks::lane::HookResult;
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
    /// The hook event of a request; None if no hooks apply. With a full disk none apply: the
    /// request is refused anyway.
    pub(super) fn occasion(&self, request: &ClientRequest) -> Option<HookEvent> {
        let occasion = match request {
            ClientRequest::Submit(_) => HookEvent::QueueJob,
            ClientRequest::Alter(..) => HookEvent::ModifyJob,
            ClientRequest::Run { .. } => HookEvent::RunJob,
            ClientRequest::Batch(batch) => return self.occasion(&batch.first()?),
            _ => return None,
        };
        (self.has_hooks(occasion) && self.reserve.is_whole()).then_some(occasion)
    }

    fn has_hooks(&self, occasion: HookEvent) -> bool {
        !hooks_at(&self.server.setup.config.hooks, occasion).is_empty()
    }

    /// Queues a request for hooks, if it could be granted.
    pub(super) fn consult(
        &mut self,
        occasion: HookEvent,
        token: Token,
        caller: Caller,
        request: ClientRequest,
    ) {
        self.server.begin(&timers::read_clocks());
        let matter = Matter::Request(token, caller, Box::new(request));
        let case = Case::new(matter, occasion, &self.server.setup.config.hooks);
        match judge(&mut self.server, &self.spool, &case) {
            Err(refusal) => self.clients.answer(token, &Reply::Refused(refusal)),
            // A repetition of a granted request needs no hooks.
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

    /// Handles the answers of hooks, kills those that exceed their time limit, and starts the next.
    pub(super) fn handle_hooks(&mut self) {
        if self.hooks.is_idle() {
            return;
        }
        self.server.begin(&timers::read_clocks());
        let now = monotonic();
        self.hooks
            .requests
            .forget(|token| self.clients.is_there(token));
        let mut heard = self.hooks.requests.poll(now);
        heard.extend(self.hooks.starts.poll(now));
        heard.into_iter().for_each(|heard| self.take_answer(heard));
        self.start_hooks();
    }

    fn take_answer(&mut self, heard: HookResult) {
        let HookResult {
            mut case,
            hook,
            answer,
        } = heard;
        case.hooks.pop_front();
        let decision = match answer {
            Ok(HookAnswer::Accept(set)) => self.apply_changes(&mut case, &hook, set),
            Ok(HookAnswer::Reject(why)) => Err(Refusal::hook(why)),
            Err(cause) => Err(failure(&hook, &cause)),
        };
        match decision {
            Ok(()) if !case.hooks.is_empty() => self.hooks.lane(&case.matter).push_front(case),
            Ok(()) => self.complete(case, Ok(())),
            Err(refusal) => self.complete(case, Err((hook.name, refusal))),
        }
    }

    /// Applies a hook's changes to a case, after the same checks as for a client's request.
    fn apply_changes(
        &mut self,
        case: &mut Case,
        hook: &Hook,
        set: Vec<(String, Option<String>)>,
    ) -> Result<(), Refusal> {
        if set.is_empty() {
            return Ok(());
        }
        case.lay_over(&hook.name, set);
        judge(&mut self.server, &self.spool, case)
            .map(drop)
            .map_err(|refusal| {
                tracing::warn!(
                    "the changes by hook {} are refused: {}",
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
                Ok(running) => self.hooks.lane(&case.matter).begin(case, hook, running),
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
            .map_err(|error| failure(hook, &format!("it cannot be run: {error}")))
    }

    /// Completes a case: passes it to the tick, or refuses it. The error names the hook.
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
            // The server itself refuses the start now, so no refusal by the hook is recorded.
            (Matter::Start(..), Err((_, refusal))) if !refusal.is_of_hook() => {}
            (Matter::Start(job, _), Err((hook, refusal))) => {
                self.inbox
                    .push(Input::Ruled(job, Ruling::Refused(hook, refusal.text)));
            }
        }
    }

    /// Passes the starts that hooks have allowed to the scheduler. It preempts jobs only for these.
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

    /// Removes starts that hooks have not allowed yet from a plan, and queues them for hooks.
    /// Starts that need preemption are queued too.
    pub(super) fn hold_back(&mut self, plan: &mut Plan) {
        self.hooks.wanted.clear();
        if !self.has_hooks(HookEvent::RunJob) {
            return;
        }
        let permits = self.server.cluster().permits();
        for start in std::mem::take(&mut plan.starts) {
            if permits.is_some_and(|permits| permits.contains(&start.job)) {
                self.hooks.permissions.use_up(start.job);
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
        let path = programs::keep(&self.home.hooks(), name, content).map_err(Refusal::spool)?;
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

    /// Applies the hooks' decision about a start: allows its next start for a while, or defers it.
    pub(super) fn rule(&mut self, job: JobId, ruling: &Ruling) {
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
                    .note(job, known.spec.clone(), monotonic());
                self.memory.doubt();
                self.server.want_cycle(Trigger::Answer);
            }
        }
    }

    /// Defers a start that a hook refused. A subjob that has never started is deferred with its
    /// array.
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
            self.server.happen(held, event);
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

/// The refusal shown to the user when a hook fails. The cause is only logged.
fn failure(hook: &Hook, cause: &str) -> Refusal {
    tracing::warn!("hook {} has failed: {cause}", hook.name);
    Refusal::hook(hook.failure())
}
