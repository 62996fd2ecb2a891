//! Approval by the site's hooks ([`crate::model::hook`]), as far as schedd runs them: before a job
//! is accepted, altered or started.
//!
//! A request that needs approval has passed all checks of the server and waits beside the loop.
//! Once the hooks allow it, the next tick checks it again, with their changes. Nothing is stored
//! until then: when the client disconnects or schedd is killed, the request is gone, and no client
//! has seen a job id. A start that needs approval is left out of its plan; once the hooks allow it,
//! the next cycle makes it. No job is preempted for a start before that is allowed.

use crate::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::hook::{Hook, HookAnswer, HookEvent, asked};
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
use crate::schedd::programs::hooks::lane::Heard;
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

/// The answer while too many requests wait for hooks.
const BUSY: &str = "too many requests wait for the hooks of the site; try again in a moment";

impl Schedd {
    /// On which occasion hooks are asked about a request, if any are. A full disk refuses it by
    /// itself.
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
        !asked(&self.server.setup.config.hooks, occasion).is_empty()
    }

    /// Lets a request wait for hooks, if it could be granted.
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
            // It has been granted already, and is asked for once more.
            Ok(None) => self.settle(case, Ok(())),
            Ok(Some(_)) if !self.hooks.requests.has_room_for(&case) => {
                self.clients
                    .answer(token, &Reply::Refused(Refusal::spool(BUSY)));
            }
            Ok(Some(_)) => {
                self.clients.await_change(token);
                self.hooks.requests.push(case);
                self.ask_hooks();
            }
        }
    }

    /// Takes in what hooks have said, gives up those that take too long, and asks the next.
    pub(super) fn hear_hooks(&mut self) {
        if self.hooks.is_idle() {
            return;
        }
        self.server.begin(&timers::read_clocks());
        let now = monotonic();
        self.hooks
            .requests
            .forget(|token| self.clients.is_there(token));
        let mut heard = self.hooks.requests.hear(now);
        heard.extend(self.hooks.starts.hear(now));
        heard.into_iter().for_each(|heard| self.take_answer(heard));
        self.ask_hooks();
    }

    fn take_answer(&mut self, heard: Heard) {
        let Heard {
            mut case,
            hook,
            answer,
        } = heard;
        case.hooks.pop_front();
        let said = match answer {
            Ok(HookAnswer::Accept(set)) => self.lay_over(&mut case, &hook, set),
            Ok(HookAnswer::Reject(why)) => Err(Refusal::hook(why)),
            Err(cause) => Err(failure(&hook, &cause)),
        };
        match said {
            Ok(()) if !case.hooks.is_empty() => self.hooks.lane(&case.matter).push_front(case),
            Ok(()) => self.settle(case, Ok(())),
            Err(refusal) => self.settle(case, Err((hook.name, refusal))),
        }
    }

    /// What a hook has changed must pass as if it had been asked for.
    fn lay_over(
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
                    "what hook {} has set cannot be: {}",
                    hook.name,
                    refusal.text
                );
                Refusal::hook(format!("hook '{}': {}", hook.name, refusal.text))
            })
    }

    fn ask_hooks(&mut self) {
        while let Some(case) = self.hooks.next_case(&self.server.setup.config.hooks) {
            let Some(hook) = case.hooks.front().cloned() else {
                continue;
            };
            match self.ask(&case, &hook) {
                Ok(running) => self.hooks.lane(&case.matter).begin(case, hook, running),
                Err(refusal) => self.settle(case, Err((hook.name, refusal))),
            }
        }
    }

    fn ask(&mut self, case: &Case, hook: &Hook) -> Result<RunningProgram, Refusal> {
        let question = question(&mut self.server, &self.spool, case, hook)?.to_string();
        let call = ProgramCall {
            input: question.as_bytes(),
            ..ProgramCall::new(&hook.command, hook.alarm)
        };
        call.start(monotonic())
            .map_err(|error| failure(hook, &format!("it cannot be run: {error}")))
    }

    /// What was asked about takes its turn, or is refused, by which hook.
    fn settle(&mut self, case: Case, said: Result<(), (String, Refusal)>) {
        let Case {
            matter, set, by, ..
        } = case;
        match (matter, said) {
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
            // One that can no longer start by our own word is no matter of the hook's.
            (Matter::Start(..), Err((_, refusal))) if !refusal.is_of_hook() => {}
            (Matter::Start(job, _), Err((hook, refusal))) => {
                self.inbox
                    .push(Input::Ruled(job, Ruling::Refused(hook, refusal.text)));
            }
        }
    }

    /// Tells the scheduler which jobs hooks have let start: others are preempted only for these.
    pub(super) fn renew_permits(&mut self) {
        let mut permits = None;
        if self.has_hooks(HookEvent::RunJob) {
            let server = &self.server;
            permits = Some(self.hooks.words.valid(
                monotonic(),
                |job, spec| {
                    let known = server.known(job);
                    known.is_some_and(|job| Arc::ptr_eq(&job.spec, spec) || job.spec == *spec)
                },
                |job| server.keeps_room_for(job),
            ));
        }
        self.server.set_permits(permits);
    }

    /// Leaves out of a plan what hooks have not let start yet, and sees to it that they are asked,
    /// also about those for which others are to be preempted.
    pub(super) fn hold_back(&mut self, plan: &mut Plan) {
        self.hooks.wanted.clear();
        if !self.has_hooks(HookEvent::RunJob) {
            return;
        }
        let permits = self.server.cluster().permits();
        for start in std::mem::take(&mut plan.starts) {
            if permits.is_some_and(|permits| permits.contains(&start.job)) {
                self.hooks.words.use_up(start.job);
                plan.starts.push(start);
            } else {
                self.hooks.wanted.push((start.job, nodes_of(&start)));
            }
        }
        self.hooks.wanted.append(&mut plan.asks);
        self.ask_hooks();
    }

    /// Stores the program of a hook in a file of the installation. Returns the request that lets
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

    /// Heeds what hooks have said of a start: for a while its next one is made, or it is put off.
    pub(super) fn rule(&mut self, job: JobId, ruling: &Ruling) {
        match ruling {
            Ruling::Refused(hook, why) => self.put_off(job, hook, why),
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
                    return self.put_off(job, hook, &refusal.text);
                }
                let Some(known) = self.server.known(job) else {
                    return;
                };
                self.hooks.words.note(job, known.spec.clone(), monotonic());
                self.memory.doubt();
                self.server.want_cycle(Trigger::Answer);
            }
        }
    }

    /// An element that has never started is put off with its array: it is what its array is.
    fn put_off(&mut self, job: JobId, hook: &str, why: &str) {
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

    /// An array of which an element has started no longer says that a hook refused that.
    pub(super) fn forgive(&mut self, started: JobId) {
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

/// What is said of a hook's failure to who asks; its cause is for the log.
fn failure(hook: &Hook, cause: &str) -> Refusal {
    tracing::warn!("hook {} has failed: {cause}", hook.name);
    Refusal::hook(hook.failure())
}
