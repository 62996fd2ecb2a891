//! Job attributes that users may set, and their effects.
//!
//! `qsub` and `qalter` send settings: pairs of attribute and value. [`submit`] creates the
//! [`Draft`] of a new job from the settings. [`alter`] applies settings to an existing draft,
//! either all of them or none.

use super::job::dependency::ParsedDependency;
use super::job::growth::Growth;
use super::job::state::Holds;
use super::job::{Digest, Job, JobProgram, Spec, value_syntax};
use crate::model::policy::Policy;
use crate::model::policy::quality::QosRequester;
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

pub mod remedy;

mod resource_remedy;

mod table;

use table::{AttributeRule, Effect, TABLE, Who};

/// Setting of one attribute. A setting of `Resource_List` also has a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeSetting {
    /// PBS name: `Job_Name`, `Priority`, `Resource_List`.
    pub attribute: String,
    /// Resource of a `Resource_List` setting; None for other attributes.
    pub resource: Option<String>,
    /// Text of the value.
    pub value: Text,
}

impl AttributeSetting {
    /// Creates the setting of `attribute` to `value`.
    pub fn new(attribute: &str, value: impl Into<Text>) -> AttributeSetting {
        AttributeSetting {
            attribute: attribute.into(),
            resource: None,
            value: value.into(),
        }
    }

    /// Creates the setting of `Resource_List` that requests `value` of `resource`.
    pub fn resource(resource: &str, value: impl Into<Text>) -> AttributeSetting {
        AttributeSetting {
            attribute: LIST.into(),
            resource: Some(resource.into()),
            value: value.into(),
        }
    }
}

/// Job properties that settings determine.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Options and requests.
    pub spec: Spec,
    /// Holds that prevent a start.
    pub holds: Holds,
    /// Number of starts.
    pub run_count: u32,
    /// Comment of the job.
    pub comment: Option<String>,
    /// Dependencies to add to the job's existing dependencies.
    pub depend: ParsedDependency,
    /// Names of jobs to wait for, and patterns of such names.
    pub names: Vec<String>,
    /// Eligible time set by an operator.
    pub eligible_time: Option<Span>,
    /// Warnings for the user about settings that were changed or have no effect.
    pub notes: Vec<String>,
}

impl Draft {
    /// Creates the draft of an existing job, without changes.
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

/// Properties of a new job besides its settings.
#[derive(Clone, Debug)]
pub struct SubmitContext {
    /// Script or command.
    pub program: JobProgram,
    /// Environment of the job.
    pub environ: Digest,
    /// Working directory of qsub.
    pub workdir: Text,
    /// Host on which qsub ran.
    pub submit_host: String,
    /// Arguments of the command line.
    pub arguments: Text,
}

/// Permissions of the user who sets attributes, and state of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The user is an operator or a manager.
    pub privileged: bool,
    /// The job runs. Only a few attributes of a running job may change.
    pub running: bool,
}

/// Context for the check of settings.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// All resources.
    pub resources: &'a Resources,
    /// Permissions of the user, and state of the job.
    pub rights: Rights,
    /// User name of the job's owner.
    pub owner: &'a str,
    /// Server name after the dot of job ids.
    pub server: &'a str,
    /// Queue of jobs submitted without a queue; if None, such a job is refused.
    pub default_queue: Option<&'a str>,
    /// Policy: priorities that owners may set, and qualities of service.
    pub policy: &'a Policy,
    /// Tests whether the owner is a member of the named group.
    pub is_member: &'a dyn Fn(&str) -> bool,
}

impl Context<'_> {
    /// Checks that the job may have its quality of service.
    fn check_quality(&self, spec: &Spec) -> Result<(), Refusal> {
        let applicant = QosRequester {
            user: self.owner,
            account: spec.account.as_deref(),
            queue: &spec.queue,
            privileged: self.rights.privileged,
            is_member: self.is_member,
        };
        self.policy.qualities.check(spec.qos.as_deref(), &applicant)
    }
}

/// The only attribute with resources in its settings.
const LIST: &str = "Resource_List";

/// Names of the resources that may be changed in the request of a running job.
const CHANGEABLE_WHILE_RUNNING: [&str; 5] = [
    "walltime",
    "cput",
    "soft_walltime",
    "min_walltime",
    "max_walltime",
];

/// Creates the draft of a new job. The setting `queue` has the form `queue`, `queue@server` or
/// `@server`. The caller checks that the queue exists.
pub fn submit(
    settings: &[AttributeSetting],
    origin: SubmitContext,
    context: &Context,
) -> Result<Draft, Refusal> {
    submitted(settings, origin, context)
        .map_err(|refusal| remedy::add(refusal, settings, context.resources))
}

fn submitted(
    settings: &[AttributeSetting],
    origin: SubmitContext,
    context: &Context,
) -> Result<Draft, Refusal> {
    let mut draft = blank(origin, context.policy.precedence.own_say.default_priority());
    let (settings, notes) =
        dialects::translated(placement_as_attributes(settings), context.resources)?;
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
    draft.spec.request = Arc::new(Request::parse(
        &resource_requests(&settings)?,
        context.resources,
    )?);
    check_array_options(&draft.spec)?;
    check_geometry(&draft.spec)?;
    context.check_quality(&draft.spec)?;
    forbid_rerun_if_interactive(&mut draft.spec);
    note_unused_factor(&mut draft);
    Ok(draft)
}

/// Converts `-l` requests that are placement requirements to settings of attributes.
fn placement_as_attributes(settings: &[AttributeSetting]) -> Vec<AttributeSetting> {
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

/// Checks that a job with a geometry requests one kind of chunk, and as many chunks as the geometry
/// has tasks.
fn check_geometry(spec: &Spec) -> Result<(), Refusal> {
    let Some(geometry) = &spec.placement.geometry else {
        return Ok(());
    };
    match &spec.request.select.chunks[..] {
        [chunk] if chunk.count as usize == geometry.tasks() => Ok(()),
        _ => {
            let why = format!(
                "the geometry has {0} tasks: request {0} chunks of one kind",
                geometry.tasks()
            );
            Err(Refusal::illegal_placement("geometry", &why))
        }
    }
}

/// Checks that only arrays have `max_run_subjobs` and `expand`, and that no array requests
/// `min_walltime` or `max_walltime`.
fn check_array_options(spec: &Spec) -> Result<(), Refusal> {
    let list = &spec.request.list;
    let is_range = list.contains_key("min_walltime") || list.contains_key("max_walltime");
    match spec.array {
        None if spec.max_run_subjobs.is_some() || spec.expand > 0 => Err(Refusal::not_an_array()),
        Some(_) if is_range => Err(Refusal::walltime_range_of_array()),
        _ => Ok(()),
    }
}

/// Creates the changed draft of a job. The whole request is refused if a value is invalid or an
/// attribute cannot be altered. Some attributes can never be altered, some only by operators, and
/// some not while the job runs.
pub fn alter(
    old: &Draft,
    settings: &[AttributeSetting],
    context: &Context,
) -> Result<Draft, Refusal> {
    altered(old, settings, context)
        .map_err(|refusal| remedy::add(refusal, settings, context.resources))
}

fn altered(
    old: &Draft,
    settings: &[AttributeSetting],
    context: &Context,
) -> Result<Draft, Refusal> {
    let mut draft = old.clone();
    let settings = &placement_as_attributes(settings);
    for setting in settings.iter().filter(|setting| setting.attribute != LIST) {
        let attribute = permitted(&setting.attribute, context)?;
        if attribute.who == Who::Submitter {
            let remedy = format!(
                "{} can only be set at submission: delete the job and submit it again",
                attribute.name
            );
            return Err(Refusal::illegal_value("").with_remedy(remedy));
        }
        if context.rights.running && !attribute.while_running {
            return Err(Refusal::running(attribute.name));
        }
        apply(&mut draft, attribute, &setting.value, context)?;
    }
    let changes = resource_requests(settings)?;
    if !changes.is_empty() {
        draft.spec.request = Arc::new(old.spec.request.alter(&changes, context.resources)?);
        check_running(
            &old.spec.request,
            &draft.spec.request,
            &changes,
            context.rights,
        )?;
    }
    check_array_options(&draft.spec)?;
    check_geometry(&draft.spec)?;
    if (&draft.spec.qos, &draft.spec.account) != (&old.spec.qos, &old.spec.account) {
        context.check_quality(&draft.spec)?;
    }
    forbid_rerun_if_interactive(&mut draft.spec);
    note_unused_factor(&mut draft);
    Ok(draft)
}

/// Adds a warning about a retry factor of a job without retries.
fn note_unused_factor(draft: &mut Draft) {
    let unused = Growth::without_retry(&draft.spec);
    draft.notes.extend(
        unused.map(|name| format!("{name} has no effect without retries: also set -W retry=N")),
    );
}

/// Makes an interactive job not rerunnable, because its terminal is gone after the first attempt.
fn forbid_rerun_if_interactive(spec: &mut Spec) {
    spec.rerunnable &= !spec.interactive;
}

/// Checks that the attribute exists and that the user may set it. Commands call this before they
/// contact the server.
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

/// Returns the queue of a destination `queue`, `queue@server` or `@server`; empty for `@server`.
/// `ours` is the name of this server; any other server is an error.
pub fn destination(text: &str, ours: &str) -> Result<String, Refusal> {
    let (queue, server) = text.split_once('@').unwrap_or((text, ours));
    if same_server(server, ours) {
        Ok(queue.to_string())
    } else {
        Err(Refusal::other_server())
    }
}

/// Returns names and texts of the resource requests among the settings.
fn resource_requests(settings: &[AttributeSetting]) -> Result<Vec<(String, String)>, Refusal> {
    let requests = settings.iter().filter(|setting| setting.attribute == LIST);
    requests
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

/// Returns the names of the attributes that owners of jobs may set.
pub fn settable() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(|attribute| matches!(attribute.who, Who::Owner | Who::Submitter))
        .map(|attribute| attribute.name)
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

/// Sets an attribute to a text. Returns None for an illegal value that needs no explanation.
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

/// Stores the text of an attribute in [`Spec::other`]; an empty text removes the attribute.
fn keep(spec: &mut Spec, name: &str, text: &str) {
    if text.is_empty() {
        spec.other.remove(name);
    } else {
        spec.other.insert(name.into(), text.into());
    }
}

/// Returns the text in which a boolean is stored; an empty text stays empty. None if `text` is not
/// a boolean.
fn boolean(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("");
    }
    let is_true = value_syntax::boolean(text)?;
    Some(if is_true { "True" } else { "False" })
}

/// Checks, for a running job, that only time limits change, and that only operators raise them.
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
        if !CHANGEABLE_WHILE_RUNNING.contains(&name.as_str()) {
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
