//! The results of granted requests: what the client and the nodes receive.

use crate::model::job::Attempt;
use crate::model::job::undo::UndoReport;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::orders::Orders;
use crate::wire::message::QtermMode;
use crate::wire::order::ScheddOrder;

/// The result of a granted request. Replies and orders are sent once the changes are on disk.
#[derive(Clone, Debug)]
pub enum Granted {
    /// The request created this job. The texts are messages for the client, such as warnings.
    Job(JobId, Vec<String>),
    /// The request is carried out.
    Done,
    /// The request is carried out, with a message for the client.
    Noted(String),
    /// The request altered this job. If the job is running, its node receives the new time limits.
    /// The texts are messages for the client, such as warnings.
    Altered(JobId, Vec<String>),
    /// The client receives its reply when this job has finished.
    Wait(JobId),
    /// The nodes of these attempts deliver a signal.
    Signal(Vec<(JobId, Attempt)>, i32),
    /// The node that runs the job's script receives this order.
    Tell(JobId, ScheddOrder),
    /// Nodes receive these orders.
    Orders(Orders),
    /// schedd shuts down.
    Shutdown(ShutdownMode),
    /// The full id of a reservation, and whether the reservation is confirmed; None while
    /// undecided.
    Reserved(String, Option<bool>),
    /// The result of each request of a batch.
    Batch(Vec<Result<Granted, Refusal>>),
    /// The caller's last action is reverted as far as possible.
    Undone(Box<UndoReport>),
}

/// How the server shuts down.
#[derive(Clone, Copy, Debug)]
pub struct ShutdownMode {
    /// What happens to running jobs.
    pub manner: QtermMode,
    /// Whether the nodes' daemons exit too.
    pub nodes: bool,
}
