//! The inputs that the event loop collects for its next tick (the pass that applies and commits
//! them).

use crate::model::job_id::JobId;
use crate::schedd::programs::hooks::Ruling;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::wire::message::ClientRequest;
use crate::wire::order::{AttemptStatus, NodeReport};
use crate::wire::task::TaskRequestKind;

/// An input to apply to the server.
pub enum Input {
    /// A client's request.
    Request(Token, Caller, ClientRequest),
    /// A report, with the number of the noded's connection.
    Report(usize, NodeReport),
    /// These nodes no longer respond.
    Lost(Vec<String>),
    /// The decision of hooks about the start of a job.
    Ruled(JobId, Ruling),
}

impl Input {
    /// Whether the commit of this input may be delayed. True only for reports with information that
    /// noded sends again if the report is lost.
    pub fn may_be_delayed(&self) -> bool {
        match self {
            Input::Report(_, NodeReport::TaskRequest(request)) => {
                matches!(request.kind, TaskRequestKind::Release(_))
            }
            Input::Report(_, report) => matches!(
                report,
                NodeReport::Attempt(.., AttemptStatus::Running(_))
                    | NodeReport::Usage(_)
                    | NodeReport::Pong
            ),
            _ => false,
        }
    }
}

/// Keeps an input until the disk can be written. Of each task of an attempt, only the last status
/// is kept. Reports that nodes repeat, such as usage, are dropped. Therefore the inbox grows little
/// while the disk is full.
pub fn keep_for_retry(inbox: &mut Vec<Input>, kept: Input) {
    match &kept {
        Input::Report(
            _,
            NodeReport::Usage(_)
            | NodeReport::Pong
            | NodeReport::TaskRequest(_)
            | NodeReport::Unfit { .. }
            | NodeReport::StagingOut(..),
        ) => return,
        Input::Report(from, NodeReport::Attempt(job, attempt, task, _)) => {
            inbox.retain(|input| match input {
                Input::Report(node, NodeReport::Attempt(id, number, part, _)) => {
                    (node, id, number, part) != (from, job, attempt, task)
                }
                _ => true,
            });
        }
        _ => {}
    }
    inbox.push(kept);
}
