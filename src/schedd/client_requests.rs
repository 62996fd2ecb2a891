//! Client requests. Queries are answered at once or passed to a reader thread. Requests for changes
//! are queued for the next tick (pass of the event loop); some of them first wait for script
//! storage or for hooks.

use crate::model::job::Attempt;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::schedd::clients::scripts::Stored;
use crate::schedd::inbox::Input;
use crate::schedd::state::Schedd;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::server::job_environment;
use crate::server::request_context::RequestContext;
use crate::spool::SpoolError;
use crate::spool::scripts::SMALLEST;
use crate::sys::clock::monotonic;
use crate::wire::message::{
    ClientRequest, NewJob, Payload, Question, Reply, ScheddStatus, WatchedJobs,
};
use crate::wire::order::ScheddOrder;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;

impl Schedd {
    /// Answers a query, or queues a request for a change. A request to stop schedd, or to connect
    /// to the terminal of a job, is handled at once.
    pub(super) fn handle_request(
        &mut self,
        token: Token,
        caller: Caller,
        mut request: ClientRequest,
    ) {
        // A submission with a stored script comes here a second time.
        if let ClientRequest::Submit(submission) = &mut request
            && submission.stored.is_none()
        {
            job_environment::decide(&self.server.setup, submission);
        }
        match request {
            ClientRequest::Ask(Question::Ahead(ahead)) => self.answer_forecast(token, ahead),
            ClientRequest::Ask(Question::Cycles) => self.answer_cycles(token, caller.privileged),
            ClientRequest::Ask(question) => {
                if let Some((stream, caller)) = self.clients.detach(token) {
                    self.readers.serve(stream, caller, question);
                }
            }
            ClientRequest::Attach(id) => self.attach(token, &caller, id),
            ClientRequest::Watch { of, since } => self.watch_jobs(token, &caller, &of, since),
            ClientRequest::Status => {
                let status = self.status();
                self.clients.answer(token, &Reply::Status(Box::new(status)));
            }
            ClientRequest::Stop => match caller.must_be_privileged() {
                Ok(()) => {
                    self.clients.answer(token, &Reply::Done);
                    self.exit_because(format!("schedd --stop at request of {}", caller.shown()));
                }
                Err(refusal) => self.clients.answer(token, &Reply::Refused(refusal)),
            },
            request if self.is_too_late_for(&request) => {
                self.clients
                    .answer(token, &Reply::Refused(Refusal::shutting_down()));
            }
            ClientRequest::Submit(submission) if submission.defaults != self.default_options() => {
                let defaults = self.default_options().to_string();
                self.clients.answer(token, &Reply::Defaults(defaults));
            }
            ClientRequest::Submit(submission) if self.awaits_storage(&caller, &submission) => {
                self.clients.await_change(token);
                self.scripts.store(token, caller, submission);
            }
            request => match self.hook_event(&request) {
                Some(_) if matches!(request, ClientRequest::Batch(_)) => {
                    self.clients.answer(token, &Reply::NotBatched)
                }
                Some(hook_event) => self.ask_hooks(hook_event, token, caller, request),
                None => self.inbox.push(Input::Request(token, caller, request)),
            },
        }
    }

    fn default_options(&self) -> &str {
        &self.server.setup.config.server.default_qsub_arguments
    }

    fn watch_jobs(&mut self, token: Token, caller: &Caller, of: &WatchedJobs, since: u64) {
        match self
            .watchers
            .open(token, caller.owner.uid, of, since, monotonic())
        {
            Some(reply) => self.clients.answer(token, &reply),
            None => self.clients.await_change(token),
        }
    }

    fn status(&mut self) -> ScheddStatus {
        let mut jobs: BTreeMap<JobState, u64> = BTreeMap::new();
        for job in self
            .server
            .jobs()
            .map(Arc::as_ref)
            .filter(|job| job.life.state != JobState::Finished)
        {
            *jobs.entry(job.life.state).or_default() += 1;
        }
        ScheddStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            spool: self.home.spool().to_string_lossy().into_owned().into(),
            jobs: jobs.into_iter().collect(),
            nodes: self
                .server
                .nodes()
                .map(|node| (node.facts.name.clone(), node.up))
                .collect(),
            uptime: monotonic() + Span(-self.started.0),
            stuck: self.server.stuck(),
            attempts: self.server.attempts(),
        }
    }

    /// Answers `qstat --cycles`, for operators and the owner of a personal installation only.
    fn answer_cycles(&mut self, token: Token, is_privileged: bool) {
        if !is_privileged {
            return self
                .clients
                .answer(token, &Reply::Refused(Refusal::unauthorized()));
        }
        self.write_cycles();
        if let Some((stream, caller)) = self.clients.detach(token) {
            self.readers.serve(stream, caller, Question::Cycles);
        }
    }

    /// Whether a submission must wait until its large script is stored in a file. Repeated
    /// submissions do not wait, nor do submissions to be refused, for example because the script is
    /// too large or the disk is full.
    fn awaits_storage(&mut self, caller: &Caller, submission: &NewJob) -> bool {
        let Payload::Script(text) = &submission.payload else {
            return false;
        };
        let most = self.server.setup.config.server.jobscript_max_size.bytes();
        if text.len() < SMALLEST || text.len() as u64 > most || !self.reserve.is_complete() {
            return false;
        }
        let context = RequestContext {
            server: &mut self.server,
            history: &self.spool,
            caller,
        };
        context.job_owner().is_ok()
            && matches!(context.earlier_submission(submission.token), Ok(None))
    }

    /// Handles a failure to store a script. If the disk is full, schedd refuses new jobs from now
    /// on, before a commit fails.
    fn handle_storage_error(&mut self, error: SpoolError) {
        match error {
            SpoolError::Full => self.reserve.mark_incomplete(error),
            error => tracing::error!("cannot store a job script: {error}"),
        }
    }

    /// Continues submissions with scripts that have been stored. Refuses submissions with scripts
    /// that could not be stored.
    pub(super) fn take_stored(&mut self) {
        for Stored {
            token,
            caller,
            submission,
        } in self.scripts.take_stored()
        {
            self.last_busy = monotonic();
            match submission {
                Ok(submission) => {
                    self.handle_request(token, caller, ClientRequest::Submit(submission))
                }
                Err(error) => {
                    let refusal = Refusal::spool(&error);
                    self.handle_storage_error(error);
                    self.clients.answer(token, &Reply::Refused(refusal));
                }
            }
        }
    }

    /// Connects a client to the terminal of its job. Only the job's owner may connect; operators
    /// may not.
    fn attach(&mut self, token: Token, caller: &Caller, id: JobId) {
        let begun = self.terminal_of(caller, id).and_then(|(node, attempt)| {
            let noded = self
                .nodes
                .socket_of(&node)
                .ok_or_else(|| no_terminal_now("the job's node does not respond"))?;
            let order = ScheddOrder::Attach {
                epoch: self.nodes.epoch(),
                job: id,
                attempt,
            };
            self.calls
                .begin(token, noded, &order)
                .map_err(no_terminal_now)
        });
        if let Err(refusal) = begun {
            self.clients.answer(token, &Reply::Refused(refusal));
        }
    }

    fn terminal_of(&self, caller: &Caller, id: JobId) -> Result<(String, Attempt), Refusal> {
        let job = self.server.job(id).ok_or_else(Refusal::unknown_job)?;
        if !caller.owner.is_same_account(&job.owner) {
            return Err(Refusal::unauthorized());
        }
        let run = job
            .life
            .open_run()
            .filter(|run| run.session.is_some() && job.spec.interactive);
        let run = run.ok_or_else(Refusal::bad_state)?;
        Ok((
            job.script_node().unwrap_or_default().to_string(),
            run.attempt,
        ))
    }

    /// Passes a terminal connection to its client once noded has accepted it. Refuses the client's
    /// request if the connection has failed.
    pub(super) fn connect_terminal(&mut self, token: Token) {
        match self.calls.poll(token) {
            None => {}
            Some(Ok(stream)) => {
                self.clients
                    .answer_with_descriptor(token, &Reply::Attached, stream.as_fd())
            }
            Some(Err(why)) => self
                .clients
                .answer(token, &Reply::Refused(no_terminal_now(why))),
        }
    }

    /// Refuses terminal connections that noded has not accepted in time.
    pub(super) fn end_late_calls(&mut self) {
        for token in self.calls.expired() {
            self.clients.answer(
                token,
                &Reply::Refused(no_terminal_now("the job's node does not respond")),
            );
        }
    }
}

fn no_terminal_now(why: impl std::fmt::Display) -> Refusal {
    Refusal::no_terminal(&why.to_string())
}
