//! `qterm`: schedd leaves at once, with its jobs going on (`-t quick`), when those that cannot be
//! run again have ended (`-t delay`), or with all jobs put back or deleted (`-t immediate`). Until
//! it has left it starts nothing more.

use super::Schedd;
use super::ledger::Ledger;
use super::requests::{Desk, Granted};
use crate::model::event::Event;
use crate::model::job::{Job, JobId, Run, Want};
use crate::model::refusal::Refusal;
use crate::wire::batch::{Act, Batch};
use crate::wire::message::{Manner, Request};
use crate::wire::order::Order;
use std::sync::Arc;

/// How schedd is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Farewell {
    manner: Manner,
    nodes: bool,
}

impl Desk<'_> {
    /// Puts jobs back or deletes them, as the manner is; that they are ended goes on without this
    /// schedd.
    pub(super) fn terminate(&mut self, manner: Manner, nodes: bool) -> Result<Granted, Refusal> {
        self.caller.must_be_privileged()?;
        let by = self.caller.shown();
        let running: Vec<(JobId, bool)> = running(self.ledger)
            .map(|job| (job.id, job.spec.rerunnable))
            .collect();
        for (id, rerunnable) in running {
            match (manner, rerunnable) {
                (Manner::Quick, _) | (Manner::Delay, false) => {}
                (_, true) => self
                    .ledger
                    .happen(id, Event::RerunWanted { by: by.clone() }),
                (Manner::Immediate, false) => {
                    self.ledger.happen(
                        id,
                        Event::DeleteWanted {
                            by: by.clone(),
                            force: false,
                        },
                    );
                }
            }
        }
        Ok(Granted::Farewell(Farewell { manner, nodes }))
    }
}

/// The jobs that run and are to run on.
fn running(ledger: &Ledger) -> impl Iterator<Item = &Arc<Job>> {
    let runs = |job: &&Arc<Job>| {
        job.life.want == Want::Run && job.life.open_run().is_some_and(Run::has_script)
    };
    ledger.jobs().filter(runs)
}

impl Schedd {
    /// Leaves, if it is to and nothing is waited for any more.
    pub(super) fn wind_down(&mut self) {
        let Some(farewell) = self.farewell else {
            return;
        };
        if farewell.manner == Manner::Delay && running(&self.ledger).next().is_some() {
            return;
        }
        if farewell.nodes {
            self.nodes.send_to_all(&Order::Leave);
        }
        self.leaving = true;
    }

    /// Whether a request comes too late: it would begin something.
    pub(super) fn is_too_late_for(&self, request: &Request) -> bool {
        let begins = matches!(
            request,
            Request::Submit(_) | Request::Run { .. } | Request::Reserve(_)
        ) || matches!(
            request,
            Request::Batch(Batch {
                act: Act::Run { .. },
                ..
            })
        );
        self.farewell.is_some() && begins
    }
}
