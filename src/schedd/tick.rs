//! A tick is one pass of the event loop: apply all inputs, commit, reply, run scheduling cycles,
//! commit their plans, send orders to nodes.
//!
//! The replies of a tick do not wait for its cycles. Inputs that arrive during a tick are handled
//! in the next tick.

use crate::model::refusal::Refusal;
use crate::schedd::inbox::{Input, keep_for_retry};
use crate::schedd::state::Schedd;
use crate::schedd::timers;
use crate::server::caller::Caller;
use crate::server::effects::Effects;
use crate::server::granted::Granted;
use crate::server::node_reports;
use crate::server::report_dispatch::ReportingNoded;
use crate::server::requests;
use crate::server::reservations;
use crate::server::routing;
use crate::server::tasks::cancellation;
use crate::spool::SpoolError;
use crate::sys::clock::monotonic;
use crate::wire::message::{ClientRequest, Reply};

impl Schedd {
    /// Applies the inputs, commits and replies; then runs scheduling cycles until none is due.
    pub fn tick(&mut self, inputs: Vec<Input>) {
        self.server.begin(&timers::read_clocks());
        let no_space = self.reserve.why_incomplete().map(Refusal::spool);
        let mut effects = self.apply(&inputs, no_space.as_ref());
        let mut committed = self.commit();
        if matches!(committed, Err(SpoolError::Full)) && self.reserve.is_complete() {
            // Without requests for new jobs, the other changes may fit on the disk.
            self.reserve.mark_incomplete(SpoolError::Full);
            effects = self.apply(&inputs, Some(&Refusal::spool(SpoolError::Full)));
            committed = self.commit();
        }
        match committed {
            Ok(touched) => self.carry_out(effects, &touched),
            Err(error) => self.refuse_or_keep(inputs, &error),
        }
        self.decide();
    }

    /// Applies the inputs, without a commit. While the reserved disk space is incomplete,
    /// `no_space` is the refusal of requests that may need much space.
    fn apply(&mut self, inputs: &[Input], no_space: Option<&Refusal>) -> Effects {
        let mut effects = Effects::default();
        self.server.release_due();
        for input in inputs {
            match input {
                Input::Request(token, caller, request) => {
                    self.server.set_connection(*token);
                    let granted = self.grant(caller, request, no_space);
                    effects.answer(&self.server, *token, granted);
                }
                Input::Report(target, report) => {
                    let noded = ReportingNoded {
                        target: *target,
                        boot: &self.nodes.boot(*target),
                        directory: &self.nodes.directory(*target),
                        presents: self.nodes.presents(*target),
                    };
                    effects.apply_report(&mut self.server, &noded, report);
                }
                Input::Ruled(job, ruling) => self.apply_ruling(*job, ruling),
                Input::Lost(nodes) => {
                    for node in nodes {
                        node_reports::node_down(&mut self.server, node);
                    }
                }
            }
        }
        reservations::advance(&mut self.server);
        routing::route_waiting_jobs(&mut self.server);
        cancellation::cancel_unwanted(&mut self.server, &mut effects.orders);
        effects
    }

    fn grant(
        &mut self,
        caller: &Caller,
        request: &ClientRequest,
        no_space: Option<&Refusal>,
    ) -> Result<Granted, Refusal> {
        let stored = match request {
            ClientRequest::ImportHook { name, content } if no_space.is_none() => {
                Some(self.store_hook_program(caller, name, content)?)
            }
            _ => None,
        };
        let request = stored.as_ref().unwrap_or(request);
        requests::apply(&mut self.server, &self.spool, caller, request, no_space)
    }

    /// Handles a failed commit: refuses the requests of clients, and keeps the other inputs to
    /// apply them again.
    fn refuse_or_keep(&mut self, inputs: Vec<Input>, error: &SpoolError) {
        // A full disk has been logged already, and the log file may be on it.
        if !matches!(error, SpoolError::Full) {
            tracing::error!("cannot store the changes of a transaction in the spool: {error}");
        }
        for input in inputs {
            match input {
                Input::Request(token, ..) => {
                    let refusal = Refusal::spool(error);
                    self.clients.answer(token, &Reply::Refused(refusal));
                }
                kept => keep_for_retry(&mut self.inbox, kept),
            }
        }
        self.timers.retry = Some(monotonic() + timers::RETRY);
    }
}
