//! The attributes of a job that somebody may set, and what each does to it (`spec` section 4).
//!
//! `qsub` and `qalter` say what they want as settings: attribute, value. [`submit`] makes a new
//! job's [`Draft`] of them, [`alter`] a changed one of an old; both do all or nothing.

use super::job::dependency::ParsedDependency;
use super::job::state::Holds;
use super::job::{Digest, Job, JobProgram, Spec, value_syntax};
use crate::model::policy::Policy;
use crate::model::policy::quality::QosApplicant;
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::request::{operands, placement_requirements};
use crate::model::resource::{ResourceValue, Resources};
use crate::model::server_name::same_server;
use crate::model::spelling::close;
use crate::model::text::Text;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod dialects;

mod table;

use table::{AttributeRule, Effect, TABLE, Who};

/// One attribute to set: `Resource_List` has a resource, others have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeSetting {
    /// As PBS names it: `Job_Name`, `Priority`, `Resource_List`.
    pub attribute: String,
    /// The resource, for `Resource_List`.
    pub resource: Option<String>,
    /// The value's text.
    pub value: Text,
}

impl AttributeSetting {
    /// Sets `attribute` to `value`.
    pub fn new(attribute: &str, value: impl Into<Text>) -> AttributeSetting {
        AttributeSetting {
            attribute: attribute.into(),
            resource: None,
            value: value.into(),
        }
    }

    /// Asks for `value` of `resource`.
    pub fn resource(resource: &str, value: impl Into<Text>) -> AttributeSetting {
        AttributeSetting {
            attribute: LIST.into(),
            resource: Some(resource.into()),
            value: value.into(),
        }
    }
}

/// What settings decide about a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// What is asked for.
    pub spec: Spec,
    /// What bars it from starting.
    pub holds: Holds,
    /// The count of starts.
    pub run_count: u32,
    /// The comment an operator gave it.
    pub comment: Option<String>,
    /// The dependencies to add to those it has.
    pub depend: ParsedDependency,
    /// The names of jobs to wait for, and patterns of such names.
    pub names: Vec<String>,
    /// The eligible time that an operator says it has now.
    pub eligible_time: Option<Span>,
    /// What of it is not as it was asked for, for who asked.
    pub notes: Vec<String>,
}

impl Draft {
    /// What a job is before it is altered.
    pub fn of(job: &Job) -> Draft {
        Draft {
            spec: (*job.spec).clone(),
            holds: job.life.holds,
            run_count: job.life.run_count,
            comment: job.life.comment.clone(),
            depend: ParsedDependency::default(),
            names: Vec::new(),
            eligible_time: None,
            notes: Vec::new(),
        }
    }
}

/// What a new job has besides its settings.
#[derive(Clone, Debug)]
pub struct SubmitContext {
    /// What to run.
    pub program: JobProgram,
    /// The environment handed on.
    pub environ: Digest,
    /// Where qsub ran.
    pub workdir: Text,
    /// The host where qsub ran.
    pub submit_host: String,
    /// The command line's arguments.
    pub arguments: Text,
}

/// What the caller may do, and whether the job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The caller is an operator or a manager.
    pub privileged: bool,
    /// The job runs: few attributes may still change.
    pub running: bool,
}

/// What settings are judged by.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// All resources known.
    pub resources: &'a Resources,
    /// Of the caller.
    pub rights: Rights,
    /// The job's owner: their user name.
    pub owner: &'a str,
    /// The name after the dot of every job id.
    pub server: &'a str,
    /// The queue of jobs that name none.
    pub default_queue: Option<&'a str>,
    /// What owners may say of their jobs, and which qualities of service there are for whom.
    pub policy: &'a Policy,
    /// Whether the owner is a member of a group of this name.
    pub is_member: &'a dyn Fn(&str) -> bool,
}

impl Context<'_> {
    /// Refuses a quality of service that is not for the job.
    fn grant_quality(&self, spec: &Spec) -> Result<(), Refusal> {
        let asker = QosApplicant {
            user: self.owner,
            account: spec.account.as_deref(),
            queue: &spec.queue,
            privileged: self.rights.privileged,
            is_member: self.is_member,
        };
        self.policy.qualities.check(spec.qos.as_deref(), &asker)
    }
}

/// The attribute whose settings name a resource each.
const LIST: &str = "Resource_List";

/// The resources whose limits may change while the job runs.
const RUNNING: [&str; 5] = [
    "walltime",
    "cput",
    "soft_walltime",
    "min_walltime",
    "max_walltime",
];

/// A new job. `queue` names its destination, `queue@server` or `@server` too; whether that queue
/// exists is for the caller to find out.
pub fn submit(
    settings: &[AttributeSetting],
    origin: SubmitContext,
    context: &Context,
) -> Result<Draft, Refusal> {
    let mut draft = blank(origin, context.policy.precedence.own_say.unsaid());
    let (settings, notes) = dialects::translated(with_requests(settings), context.resources)?;
    draft.notes = notes;
    for setting in settings.iter().filter(|setting| setting.attribute != LIST) {
        match setting.attribute.as_str() {
            "queue" => draft.spec.queue = destination(&setting.value.lossy(), context.server)?,
            name => apply(
                &mut draft,
                permitted(name, context)?,
                &setting.value,
                context,
            )?,
        }
    }
    if draft.spec.queue.is_empty() {
        draft.spec.queue = context
            .default_queue
            .ok_or_else(Refusal::no_default_queue)?
            .to_string();
    }
    draft.spec.request = Arc::new(Request::parse(&asked(&settings)?, context.resources)?);
    suits_array(&draft.spec)?;
    suits_geometry(&draft.spec)?;
    context.grant_quality(&draft.spec)?;
    agree(&mut draft.spec);
    Ok(draft)
}

/// Wishes that came as `-l`, as what they are.
fn with_requests(settings: &[AttributeSetting]) -> Vec<AttributeSetting> {
    let mut settings = settings.to_vec();
    for setting in &mut settings {
        let name = setting.resource.as_deref().unwrap_or_default();
        if let Some(attribute) = placement_requirements::by_resource(name) {
            setting.attribute = attribute.into();
            setting.resource = None;
        }
    }
    settings
}

/// A geometry deals out the chunks of a request that has one kind of them.
fn suits_geometry(spec: &Spec) -> Result<(), Refusal> {
    let Some(geometry) = &spec.placement.geometry else {
        return Ok(());
    };
    match &spec.request.select.chunks[..] {
        [chunk] if chunk.count as usize == geometry.tasks() => Ok(()),
        _ => {
            let why = format!(
                "it deals out {} chunks of one kind: ask for so many",
                geometry.tasks()
            );
            Err(Refusal::illegal_placement("geometry", &why))
        }
    }
}

/// Some attributes are for arrays alone, some resources for all but arrays.
fn suits_array(spec: &Spec) -> Result<(), Refusal> {
    let list = &spec.request.list;
    let is_range = list.contains_key("min_walltime") || list.contains_key("max_walltime");
    match spec.array {
        None if spec.max_run_subjobs.is_some() || spec.expand > 0 => Err(Refusal::not_an_array()),
        Some(_) if is_range => Err(Refusal::walltime_range_of_array()),
        _ => Ok(()),
    }
}

/// The job changed: attributes that PBS lets nobody change, or not now, or not the caller, are
/// refused, and with them the whole.
pub fn alter(
    old: &Draft,
    settings: &[AttributeSetting],
    context: &Context,
) -> Result<Draft, Refusal> {
    let mut draft = old.clone();
    let settings = &with_requests(settings);
    for setting in settings.iter().filter(|setting| setting.attribute != LIST) {
        let attribute = permitted(&setting.attribute, context)?;
        if attribute.who == Who::Submitter {
            return Err(Refusal::illegal_value(""));
        }
        if context.rights.running && !attribute.while_running {
            return Err(Refusal::running(attribute.name));
        }
        apply(&mut draft, attribute, &setting.value, context)?;
    }
    let changes = asked(settings)?;
    if !changes.is_empty() {
        draft.spec.request = Arc::new(old.spec.request.alter(&changes, context.resources)?);
        check_running(
            &old.spec.request,
            &draft.spec.request,
            &changes,
            context.rights,
        )?;
    }
    suits_array(&draft.spec)?;
    suits_geometry(&draft.spec)?;
    if (&draft.spec.qos, &draft.spec.account) != (&old.spec.qos, &old.spec.account) {
        context.grant_quality(&draft.spec)?;
    }
    agree(&mut draft.spec);
    Ok(draft)
}

/// Who sat at the terminal of an interactive job is not there for a second run.
fn agree(spec: &mut Spec) {
    spec.rerunnable &= !spec.interactive;
}

/// Whether the attribute exists and the caller may set it: what a command can find out by itself
/// before it asks the server.
pub fn may_set(name: &str, privileged: bool) -> Result<(), Refusal> {
    find(name, privileged).map(|_| ())
}

fn blank(origin: SubmitContext, priority: i32) -> Draft {
    let spec = Spec {
        priority,
        submit_host: origin.submit_host,
        arguments: origin.arguments,
        ..Spec::new(origin.program, origin.environ, origin.workdir)
    };
    Draft {
        spec,
        holds: Holds::NONE,
        run_count: 0,
        comment: None,
        depend: ParsedDependency::default(),
        names: Vec::new(),
        eligible_time: None,
        notes: Vec::new(),
    }
}

/// The queue of a destination; empty when it names only a server.
pub fn destination(text: &str, ours: &str) -> Result<String, Refusal> {
    let (queue, server) = text.split_once('@').unwrap_or((text, ours));
    if same_server(server, ours) {
        Ok(queue.to_string())
    } else {
        Err(Refusal::other_server())
    }
}

/// Names and texts of the settings that ask for resources.
fn asked(settings: &[AttributeSetting]) -> Result<Vec<(String, String)>, Refusal> {
    let asked = settings.iter().filter(|setting| setting.attribute == LIST);
    asked
        .map(|setting| {
            let name = setting.resource.clone().unwrap_or_default();
            let text = String::from_utf8(setting.value.0.clone())
                .map_err(|_| Refusal::illegal_value(&format!("{LIST}.{name}")))?;
            Ok((name, text))
        })
        .collect()
}

fn permitted(name: &str, context: &Context) -> Result<&'static AttributeRule, Refusal> {
    find(name, context.rights.privileged)
}

fn find(name: &str, privileged: bool) -> Result<&'static AttributeRule, Refusal> {
    let attribute = TABLE
        .iter()
        .find(|attribute| attribute.name.eq_ignore_ascii_case(name));
    let Some(attribute) = attribute else {
        let names: Vec<&str> = TABLE.iter().map(|attribute| attribute.name).collect();
        return Err(Refusal::unknown_attribute(name, close(name, &names)));
    };
    match attribute.who {
        Who::Owner | Who::Submitter => Ok(attribute),
        Who::Operator if privileged => Ok(attribute),
        Who::Operator | Who::Server => Err(Refusal::read_only(attribute.name)),
    }
}

fn apply(
    draft: &mut Draft,
    attribute: &AttributeRule,
    value: &Text,
    context: &Context,
) -> Result<(), Refusal> {
    let is_set = match attribute.effect {
        Effect::Bytes(set) => set(&mut draft.spec, value),
        Effect::Never => return Err(Refusal::read_only(attribute.name)),
        _ => {
            let text = std::str::from_utf8(&value.0)
                .map_err(|_| Refusal::illegal_value(attribute.name))?;
            apply_text(draft, attribute, text, context)?
        }
    };
    is_set.ok_or_else(|| Refusal::illegal_value(attribute.name))
}

/// Sets an attribute to a text. Returns None for an illegal value without a reason of its own.
fn apply_text(
    draft: &mut Draft,
    attribute: &AttributeRule,
    text: &str,
    context: &Context,
) -> Result<Option<()>, Refusal> {
    let name = attribute.name;
    match attribute.effect {
        Effect::Spec(set) => Ok(set(&mut draft.spec, text)),
        Effect::Draft(set) => set(draft, text, context).map(Some),
        Effect::Kept(check) if text.is_empty() || check(text) => {
            keep(&mut draft.spec, name, text);
            Ok(Some(()))
        }
        Effect::Boolean => Ok(boolean(text).map(|text| keep(&mut draft.spec, name, text))),
        Effect::Placement => {
            let placement = &mut draft.spec.placement;
            placement
                .set(name, text)
                .and_then(|()| match &placement.requirements {
                    Some(requirement) if name == "requirements" => {
                        operands::check(requirement, context.resources)
                    }
                    _ => Ok(()),
                })
                .map_err(|why| Refusal::illegal_placement(name, &why))?;
            Ok(Some(()))
        }
        Effect::Kept(_) | Effect::Bytes(_) | Effect::Never => Ok(None),
    }
}

/// Stores the text of an attribute that has no effect here; an empty text removes it.
fn keep(spec: &mut Spec, name: &str, text: &str) {
    if text.is_empty() {
        spec.other.remove(name);
    } else {
        spec.other.insert(name.into(), text.into());
    }
}

/// The stored text of a boolean.
fn boolean(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("");
    }
    let is_true = value_syntax::boolean(text)?;
    Some(if is_true { "True" } else { "False" })
}

/// While a job runs only limits on its time may change, and only an operator may raise them.
fn check_running(
    old: &Request,
    new: &Request,
    changes: &[(String, String)],
    rights: Rights,
) -> Result<(), Refusal> {
    if !rights.running {
        return Ok(());
    }
    for (name, _) in changes {
        if !RUNNING.contains(&name.as_str()) {
            return Err(Refusal::running(&format!("{LIST}.{name}")));
        }
        let [old, new] = [old, new].map(|request| {
            let amount = request.list.get(name).and_then(ResourceValue::amount);
            amount.unwrap_or(i64::MAX)
        });
        if new > old && !rights.privileged {
            return Err(Refusal::unauthorized());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
