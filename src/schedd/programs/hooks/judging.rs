//! Checks whether the server could grant a case (a request or start that hooks allow or refuse),
//! and finds the job that the case concerns.

use crate::model::job::Job;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::text::Text;
use crate::sched::view::plan::Start;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::server::caller::Caller;
use crate::server::request_context::RequestContext;
use crate::server::state::ServerState;
use crate::spool::Spool;
use crate::wire::message::{ClientRequest, NewJob};
use std::sync::Arc;

/// The job of a case that could be granted.
pub struct CheckedCase {
    /// The job that hooks see. For a submission: the job that it would create. For an alteration:
    /// the job before it. For a start: the job, with the changes that earlier hooks made.
    pub job: Job,
    /// Whether the job is new. A new job has no number yet.
    pub is_new: bool,
    /// The nodes on which the job would start. Empty for a submission, for an alteration, and for
    /// a detached `qrun` that finds no free resources now.
    pub nodes: Vec<String>,
}

/// Checks a case as if all hooks had allowed it. None if the case repeats a submission that has
/// been granted.
pub fn check_case(
    server: &mut ServerState,
    spool: &Spool,
    case: &Case,
) -> Result<Option<CheckedCase>, Refusal> {
    let site = Caller::hook(&case.by, &server.setup);
    match &case.matter {
        Matter::Start(job, nodes) => {
            let mut context = RequestContext {
                server,
                history: spool,
                caller: &site,
            };
            let known = context
                .server
                .known(*job)
                .ok_or_else(Refusal::unknown_job)?;
            started(&mut context, &known, case, nodes.clone()).map(Some)
        }
        Matter::Request(_, caller, request) => {
            let mut context = RequestContext {
                server,
                history: spool,
                caller,
            };
            match &**request {
                ClientRequest::Submit(submission) => submitted(&mut context, submission),
                ClientRequest::Alter(id, settings) => {
                    let altered = context.altered(*id, settings)?;
                    Ok(Some(CheckedCase {
                        job: Job::clone(&altered.job),
                        is_new: false,
                        nodes: Vec::new(),
                    }))
                }
                ClientRequest::Run { job, on, detached } => {
                    let (job, start) = context.planned_run(*job, on, *detached)?;
                    let nodes = start.as_ref().map(nodes_of).unwrap_or_default();
                    let mut context = RequestContext {
                        server: context.server,
                        history: spool,
                        caller: &site,
                    };
                    started(&mut context, &job, case, nodes).map(Some)
                }
                _ => Err(Refusal::invalid_request()),
            }
        }
    }
}

fn submitted(
    context: &mut RequestContext,
    submission: &NewJob,
) -> Result<Option<CheckedCase>, Refusal> {
    let owner = context.job_owner()?;
    if context.earlier_submission(submission.token)?.is_some() {
        return Ok(None);
    }
    let (draft, _, mut job) = context.validated(&owner, submission)?;
    job.elements = context.new_subjobs(&draft.spec)?;
    if job.elements.is_some() {
        job.id = JobId::array(job.id.number);
    }
    Ok(Some(CheckedCase {
        job,
        is_new: true,
        nodes: Vec::new(),
    }))
}

/// A job to start, with the changes by hooks.
fn started(
    context: &mut RequestContext,
    job: &Arc<Job>,
    case: &Case,
    nodes: Vec<String>,
) -> Result<CheckedCase, Refusal> {
    let mut job = Job::clone(job);
    if !case.set.is_empty() {
        if job.id.index().is_some() {
            return Err(Refusal::illegal_placement(
                &attribute_names(case),
                "hooks cannot set attributes of a subjob: a subjob has the attributes of its array",
            ));
        }
        job.spec = Arc::new(context.altered(job.id, &case.set)?.after.spec);
    }
    Ok(CheckedCase {
        job,
        is_new: false,
        nodes,
    })
}

/// The nodes of a start, without duplicates.
pub fn nodes_of(start: &Start) -> Vec<String> {
    let mut nodes: Vec<String> = start
        .shares
        .iter()
        .map(|share| share.node.clone())
        .collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

fn attribute_names(case: &Case) -> String {
    case.set
        .iter()
        .map(|setting| setting.attribute.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The dependencies of a new job, as the client or a hook wrote them; None for other requests, or
/// without dependencies.
pub fn requested_dependencies(request: &ClientRequest) -> Option<&Text> {
    let ClientRequest::Submit(submission) = request else {
        return None;
    };
    submission
        .settings
        .iter()
        .rev()
        .find(|setting| setting.attribute.eq_ignore_ascii_case("depend"))
        .map(|setting| &setting.value)
}
