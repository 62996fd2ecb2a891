//! Inputs that arrive between two ticks.

use crate::model::job_id::JobId;
use crate::schedd::programs::hooks::Ruling;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::wire::message::ClientRequest;
use crate::wire::order::{AttemptStatus, NodeReport};
use crate::wire::task::TaskRequestKind;

/// An input of a tick.
pub enum Input {
    /// A client's request.
    Request(Token, Caller, ClientRequest),
    /// A node's report.
    Report(usize, NodeReport),
    /// These nodes no longer respond.
    Lost(Vec<String>),
    /// The decision of hooks about a start.
    Ruled(JobId, Ruling),
}

impl Input {
    /// Whether the commit of this input may wait: the node reports it again on request.
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

/// Keeps an input until the disk accepts it: the last status of each attempt, but no usage and no
/// requests, which the node sends again. So the inbox does not grow while the disk is full.
pub fn keep(inbox: &mut Vec<Input>, kept: Input) {
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
