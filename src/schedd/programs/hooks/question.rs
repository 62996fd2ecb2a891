//! The input of a hook: the event, the hook, the requesting user, the job in the format of `qstat
//! -f -F json`, and facts about the request, such as the changes of an alteration.

use crate::model::attribute::AttributeSetting;
use crate::model::hook::Hook;
use crate::model::refusal::Refusal;
use crate::schedd::programs::hooks::case::Case;
use crate::schedd::programs::hooks::case::Matter;
use crate::schedd::programs::hooks::case::script;
use crate::schedd::programs::hooks::judging::CheckedCase;
use crate::schedd::programs::hooks::judging::check_case;
use crate::schedd::programs::hooks::judging::requested_dependencies;
use crate::server::state::ServerState;
use crate::shown::attributes;
use crate::shown::job_json;
use crate::spool::Spool;
use crate::spool::scripts::SMALLEST;
use crate::wire::message::{ClientRequest, JobRecord, ServerFacts};
use serde_json::{Map, Value};

/// Maximum length of a script in a hook's input, in bytes. Must be below [`SMALLEST`], because
/// schedd stores scripts of at least that size first and removes their text from the request.
const MAX_SCRIPT: usize = 64 << 10;
const _: () = assert!(MAX_SCRIPT < SMALLEST);

/// Attributes that only existing jobs have.
const ATTRIBUTES_OF_EXISTING_JOBS: [&str; 10] = [
    "accrue_type",
    "comment",
    "ctime",
    "eligible_time",
    "etime",
    "job_state",
    "mtime",
    "qtime",
    "server",
    "substate",
];

/// The input for the next hook of a case. Fails if the case can no longer be granted.
pub fn question(
    server: &mut ServerState,
    spool: &Spool,
    case: &Case,
    hook: &Hook,
) -> Result<Value, Refusal> {
    let checked = check_case(server, spool, case)?.ok_or_else(Refusal::invalid_request)?;
    let mut question = Map::new();
    question.insert("event".into(), case.hook_event.name().into());
    question.insert("hook".into(), hook.name.as_str().into());
    question.insert("server".into(), server.setup.name.as_str().into());
    let scheduler = ("Scheduler", server.setup.host.as_str());
    let (requestor, host) = case.caller().map_or(scheduler, |(_, caller)| {
        (caller.owner.user.as_str(), caller.host())
    });
    question.insert("requestor".into(), requestor.into());
    question.insert("requestor_host".into(), host.into());
    let (record, facts) = (record(spool, case, &checked)?, facts(server));
    let mut job = job_json::of(&attributes::of_job(&record, &facts));
    if checked.is_new {
        ATTRIBUTES_OF_EXISTING_JOBS
            .iter()
            .for_each(|name| drop(job.remove(*name)));
    } else {
        job.insert("id".into(), checked.job.id.full(&server.setup.name).into());
    }
    if let Matter::Request(_, _, request) = &case.matter {
        let depend = requested_dependencies(request).map(|text| text.lossy().into_owned());
        depend
            .into_iter()
            .for_each(|depend| drop(job.insert("depend".into(), depend.into())));
        question.extend(request_facts(request));
    }
    if !checked.nodes.is_empty() {
        question.insert("nodes".into(), checked.nodes.into());
    }
    question.insert("job".into(), Value::Object(job));
    Ok(Value::Object(question))
}

/// The parts of a hook's input that describe the request, not the job.
fn request_facts(request: &ClientRequest) -> Map<String, Value> {
    let mut facts = Map::new();
    match request {
        ClientRequest::Alter(_, settings) => {
            drop(facts.insert("changes".into(), Value::Object(changes(settings))))
        }
        ClientRequest::Submit(submission) => {
            let Some(size) = submission.script_size() else {
                return facts;
            };
            facts.insert("script_size".into(), size.into());
            if size <= MAX_SCRIPT
                && let Some(text) = script(submission)
            {
                facts.insert("script".into(), String::from_utf8_lossy(text).into());
            }
        }
        _ => {}
    }
    facts
}

/// The requested changes of an alteration, by names such as `Resource_List.walltime`.
fn changes(settings: &[AttributeSetting]) -> Map<String, Value> {
    let mut changes = Map::new();
    for setting in settings {
        let name = match &setting.resource {
            Some(resource) => format!("{}.{resource}", setting.attribute),
            None => setting.attribute.clone(),
        };
        changes.insert(name, setting.value.lossy().into());
    }
    changes
}

fn record(spool: &Spool, case: &Case, checked: &CheckedCase) -> Result<JobRecord, Refusal> {
    let job = checked.job.clone();
    let mut environ = None;
    if let Matter::Request(_, _, request) = &case.matter
        && let ClientRequest::Submit(submission) = &**request
    {
        environ = Some(submission.environ.clone());
    }
    if environ.is_none() {
        environ = spool.blob(job.spec.environ).map_err(Refusal::spool)?;
    }
    let owner_id = job.id.parent().unwrap_or(job.id);
    let links = if checked.is_new {
        Vec::new()
    } else {
        spool.links(owner_id).map_err(Refusal::spool)?
    };
    Ok(JobRecord {
        job,
        reason: None,
        never_since: None,
        promise: None,
        waiting_again: 0,
        environ,
        links,
        score: None,
    })
}

fn facts(server: &ServerState) -> ServerFacts {
    let clock = server.clock().table().clone();
    ServerFacts {
        now: server.now,
        clock,
        privileged: true,
        ..server.setup.facts()
    }
}
