//! Orders of schedd.

use super::super::control::{Cancel, Control};
use super::super::folder::AttemptName;
use super::super::poller::PollSource;
use super::Daemon;
use crate::model::hook::Hook;
use crate::model::job::Attempt;
use crate::model::job_id::JobId;
use crate::sys::clock;
use crate::wire::frame::FrameError;
use crate::wire::order::{Checkpoint, NodeReport, ScheddOrder};
use std::os::fd::AsFd;
use tracing::{error, info, warn};

impl Daemon {
    /// Executes an order that arrived on the connection with this number.
    pub(super) fn execute(&mut self, number: u64, order: ScheddOrder) {
        if let ScheddOrder::Hello { epoch } = order {
            return self.greet(number, epoch);
        }
        if let ScheddOrder::Attach {
            epoch,
            job,
            attempt,
        } = order
        {
            return self.attach(number, epoch, script(job, attempt));
        }
        if self.schedd != Some(number) {
            let error = std::io::Error::other("the first order must be a greeting");
            return self.close(number, &FrameError::Io(error));
        }
        let attempts = &mut self.attempts;
        match order {
            ScheddOrder::Hello { .. } | ScheddOrder::Attach { .. } => {}
            ScheddOrder::Start(launch) => attempts.start(&launch, &mut self.poller),
            ScheddOrder::Cancel {
                job,
                attempt,
                task,
                grace,
                signal,
                again,
            } => {
                let cancel = Cancel {
                    grace,
                    signal,
                    again,
                };
                self.cancel(AttemptName { job, attempt, task }, cancel);
            }
            ScheddOrder::Checkpoint(order) => self.checkpoint(&order),
            ScheddOrder::Signal {
                job,
                attempt,
                task,
                signal,
            } => {
                attempts.send_order(AttemptName { job, attempt, task }, Control::Signal(signal));
            }
            ScheddOrder::Walltime {
                job,
                attempt,
                times,
            } => {
                attempts.send_order(script(job, attempt), Control::Times(times));
            }
            ScheddOrder::Message {
                job,
                attempt,
                output,
                errors,
                text,
            } => {
                let message = Control::Message {
                    output,
                    errors,
                    text,
                };
                attempts.send_order(script(job, attempt), message);
            }
            ScheddOrder::Places {
                job,
                attempt,
                task,
                nodes,
            } => attempts.replace_nodes(AttemptName { job, attempt, task }, &nodes),
            ScheddOrder::Suspend { job, attempt, task } => {
                attempts.suspend(AttemptName { job, attempt, task })
            }
            ScheddOrder::Resume {
                job,
                attempt,
                task,
                cpus,
            } => attempts.resume(AttemptName { job, attempt, task }, cpus),
            ScheddOrder::Confirm { job, attempt, task } => {
                attempts.confirm(AttemptName { job, attempt, task })
            }
            ScheddOrder::Tell {
                job,
                attempt,
                asker,
                news,
            } => {
                self.task_clients
                    .send_news((job, attempt), asker, &news, &mut self.poller);
            }
            ScheddOrder::Attend { server, hooks } => self.set_periodic_hooks(server, hooks),
            ScheddOrder::Ping => self.send(number, &NodeReport::Pong),
            ScheddOrder::Leave => self.stopping = true,
            ScheddOrder::Notify(notification) => {
                self.notifications.begin(&notification, &mut self.poller)
            }
            ScheddOrder::Refuse { why } => self.handle_refusal(number, why),
        }
    }

    /// Ends an attempt or a task. If a checkpoint of the attempt is in progress, gives it up.
    fn cancel(&mut self, name: AttemptName, cancel: Cancel) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.give_up(name);
        }
        self.attempts.cancel(name, cancel);
    }

    /// Replaces the periodic hooks. schedd sends this order to every noded that it accepts, so the
    /// order also ends an earlier refusal.
    fn set_periodic_hooks(&mut self, server: String, hooks: Vec<Hook>) {
        if self.refused.take().is_some() {
            info!("accepted the schedd of epoch {}", self.epoch);
        }
        if let Some(periodic) = &mut self.periodic {
            periodic.set_hooks(server, hooks, clock::monotonic());
        }
    }

    /// Handles a refusal by schedd. schedd connects repeatedly, so only the first refusal is
    /// logged.
    fn handle_refusal(&mut self, number: u64, why: String) {
        if self.refused.is_none() {
            warn!("schedd refuses this noded: {why}");
        }
        self.refused = Some(why);
        self.drop_connection(number);
    }

    /// Starts to checkpoint a running job, which is killed when the checkpoint is complete. A
    /// hollow job is ended at once, to run again.
    fn checkpoint(&mut self, order: &Checkpoint) {
        let name = script(order.job, order.attempt);
        if self.attempts.session(name).is_none() {
            return;
        }
        match &mut self.checkpoints {
            Some(checkpoints) => checkpoints.begin(order, &mut self.poller),
            None => self.attempts.cancel(
                name,
                Cancel {
                    again: true,
                    ..Cancel::default()
                },
            ),
        }
    }

    /// Handles a greeting. noded refuses a schedd with an epoch below the highest known epoch.
    /// Otherwise noded accepts this schedd, closes the connection of the earlier schedd, and sends
    /// its inventory.
    fn greet(&mut self, number: u64, epoch: u64) {
        if epoch < self.epoch {
            self.send(number, &NodeReport::Fenced { epoch: self.epoch });
            let why = format!(
                "schedd has epoch {epoch}, lower than the highest known epoch {}",
                self.epoch
            );
            return self.close(number, &FrameError::Io(std::io::Error::other(why)));
        }
        if epoch > self.epoch {
            self.epoch = epoch;
            if let Err(e) = self.state.set_epoch(epoch) {
                error!("cannot record epoch {epoch}: {e:#}");
            }
        }
        if let Some(old) = self.schedd.replace(number).filter(|&old| old != number) {
            self.close(old, &FrameError::Closed);
        }
        if self.refused.is_none() {
            info!("accepted the schedd of epoch {epoch}");
        }
        self.attempts.take_reports();
        let (boot, directory) = (self.boot.clone(), self.directory.clone());
        let (nodes, attempts) = (self.nodes.clone(), self.attempts.statuses());
        self.send(
            number,
            &NodeReport::Hello {
                boot,
                directory,
                nodes,
                attempts,
            },
        );
        self.task_clients.take_reports();
        self.task_clients.request_repetition(&mut self.poller);
    }

    /// Passes a connection to the shepherd of an interactive job. Closes the connection instead if
    /// `epoch` is below the highest known epoch, if schedd has sent its greeting on this
    /// connection, or if the attempt has ended, is unknown or has no terminal.
    fn attach(&mut self, number: u64, epoch: u64, name: AttemptName) {
        if epoch < self.epoch {
            self.send(number, &NodeReport::Fenced { epoch: self.epoch });
        }
        let terminal = match self.attempts.connect_terminal(name) {
            Ok(terminal) if epoch >= self.epoch && self.schedd != Some(number) => terminal,
            Ok(_) => return self.close(number, &FrameError::Closed),
            Err(e) => return self.close(number, &FrameError::Io(e)),
        };
        self.send(number, &NodeReport::Attached);
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        self.poller
            .remove(&connection.link, PollSource::Connection(number));
        if let Err(e) = terminal.pass_connection(connection.link.as_fd()) {
            warn!("cannot pass a connection to the terminal of attempt {name}: {e}");
        }
    }
}

/// The name of an attempt's script, which is task 0.
fn script(job: JobId, attempt: Attempt) -> AttemptName {
    AttemptName {
        job,
        attempt,
        task: 0,
    }
}
