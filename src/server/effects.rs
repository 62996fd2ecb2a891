//! The effects of requests and reports: replies to clients and orders for nodes. schedd sends them
//! after it has stored the changes in the spool.

use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::granted::ShutdownMode;
use crate::server::orders;
use crate::server::orders::Orders;
use crate::server::state::ServerState;
use crate::server::tasks::cancellation;
use crate::wire::message::Reply;
use crate::wire::order::ScheddOrder;

/// The number of a client's connection.
pub type Token = u64;

/// Replies and orders that wait until the changes of a transaction are stored.
#[derive(Default)]
pub struct Effects {
    /// Replies to clients.
    pub replies: Vec<(Token, Reply)>,
    /// Clients that wait for the end of a job, each with the job.
    pub waits: Vec<(Token, JobId)>,
    /// Orders, each with a node of the noded that receives the order.
    pub orders: Orders,
    /// Orders for nodeds that have sent a report, each with the number of the noded's connection.
    pub back: Vec<(usize, ScheddOrder)>,
    /// The nodes of each noded that has just connected. Orders for jobs on these nodes are sent
    /// again.
    pub connected: Vec<Vec<String>>,
    /// The connections of nodeds that are not admitted, each with the reason.
    pub refused: Vec<(usize, String)>,
    /// How the server shuts down, if an operator requested it.
    pub shutdown_mode: Option<ShutdownMode>,
}

impl Effects {
    /// Adds the reply to a request, and the orders that follow from the request. If the client
    /// waits for the end of a job, adds the client to `waits` instead.
    pub fn answer(
        &mut self,
        server: &ServerState,
        token: Token,
        granted: Result<Granted, Refusal>,
    ) {
        if let Ok(Granted::Wait(id)) = granted {
            self.waits.push((token, id));
        } else {
            let reply = self.reply(server, granted);
            self.replies.push((token, reply));
        }
    }

    /// Returns the reply to a request that is answered at once. Adds the orders and the shutdown
    /// mode that follow from the request.
    fn reply(&mut self, server: &ServerState, granted: Result<Granted, Refusal>) -> Reply {
        let granted = match granted {
            Ok(granted) => granted,
            Err(refusal) => return Reply::Refused(refusal),
        };
        match granted {
            Granted::Job(id, notes) => {
                return Reply::Accepted {
                    id: id.full(&server.setup.name),
                    notes,
                };
            }
            Granted::Noted(note) => return Reply::Noted(vec![note]),
            Granted::Reserved(id, confirmed) => return Reply::Reserved { id, confirmed },
            Granted::Batch(all) => {
                let outcomes = all.into_iter().map(|one| outcome(self.reply(server, one)));
                return Reply::Batch(outcomes.collect());
            }
            Granted::Undone(report) => return Reply::Undone(report),
            Granted::Wait(_) => return Reply::Refused(Refusal::invalid_request()),
            Granted::Altered(id, notes) => {
                let walltime = server.job(id).and_then(|job| orders::time_limits(job));
                self.orders.extend(walltime);
                if !notes.is_empty() {
                    return Reply::Noted(notes);
                }
            }
            Granted::Signal(attempts, signal) => {
                for (job, attempt) in attempts {
                    let order = ScheddOrder::Signal {
                        job,
                        attempt,
                        task: 0,
                        signal,
                    };
                    self.order_script(server, job, order);
                    if let Some(job) = server.job(job) {
                        self.orders.extend(cancellation::signal(job, signal));
                    }
                }
            }
            Granted::Orders(orders) => self.orders.extend(orders),
            Granted::Shutdown(mode) => self.shutdown_mode = Some(mode),
            Granted::Tell(job, order) => self.order_script(server, job, order),
            Granted::Done => {}
        }
        Reply::Done
    }

    /// Adds an order for the node that runs the script of a job.
    fn order_script(&mut self, server: &ServerState, job: JobId, order: ScheddOrder) {
        if let Some(node) = server.job(job).and_then(|job| job.script_node()) {
            self.orders.push((node.to_string(), order));
        }
    }
}

/// The reply for one job, as part of the reply to a batch.
fn outcome(reply: Reply) -> Result<Vec<String>, Refusal> {
    match reply {
        Reply::Done => Ok(Vec::new()),
        Reply::Noted(notes) => Ok(notes),
        Reply::Refused(refusal) => Err(refusal),
        _ => Err(Refusal::invalid_request()),
    }
}
