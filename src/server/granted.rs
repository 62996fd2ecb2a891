//! The result of a granted request.

use crate::model::job::Attempt;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::orders::Orders;
use crate::wire::message::QtermMode;
use crate::wire::order::ScheddOrder;

/// The result of a granted request. Orders are sent once the tick is stored.
#[derive(Clone, Debug)]
pub enum Granted {
    /// The request created this job; the messages report what differs from the request.
    Job(JobId, Vec<String>),
    /// Done.
    Done,
    /// Done, with a message.
    Noted(String),
    /// The job was altered: the node that runs it receives its new limits. The messages report what
    /// differs from the request.
    Altered(JobId, Vec<String>),
    /// The client receives its reply when this job has finished.
    Wait(JobId),
    /// The nodes of these attempts deliver a signal.
    Signal(Vec<(JobId, Attempt)>, i32),
    /// The node of a running job receives this order.
    Tell(JobId, ScheddOrder),
    /// Nodes receive these orders.
    Orders(Orders),
    /// schedd shuts down.
    Shutdown(ShutdownMode),
    /// The full id of a reservation, and whether it is confirmed; None while that is open.
    Reserved(String, Option<bool>),
    /// The result of each request of a batch.
    Batch(Vec<Result<Granted, Refusal>>),
}

/// How the server shuts down.
#[derive(Clone, Copy, Debug)]
pub struct ShutdownMode {
    /// What happens to running jobs.
    pub manner: QtermMode,
    /// Whether the nodes' daemons exit too.
    pub nodes: bool,
}
