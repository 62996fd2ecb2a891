//! Table of job attributes: who may set them, whether they may change while the job runs, and
//! what setting them changes.

use super::{Context, Draft};
use crate::model::indices::list::IndexList;
use crate::model::job::dependency::is_label;
use crate::model::job::dependency::{DependencyFault, ParsedDependency};
use crate::model::job::environment::JobEnvironment;
use crate::model::job::growth::Growth;
use crate::model::job::run_limits::Warning;
use crate::model::job::state::Holds;
use crate::model::job::{DEFAULT_PROJECT, Spec, tags, value_syntax};
use crate::model::refusal::Refusal;
use crate::model::text::Text;
use crate::model::time::{Span, Wall};

/// Permission to set an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Owner of the job, operators and managers.
    Owner,
    /// Owner of the job, but only at submission.
    Submitter,
    /// Operators and managers.
    Operator,
    /// Server only.
    Server,
}

/// Effect of setting an attribute. The functions in `Spec` and `Bytes` return None for an invalid
/// value.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// Changes the options of the job.
    Spec(fn(&mut Spec, &str) -> Option<()>),
    /// Changes the options of the job; the value need not be UTF-8.
    Bytes(fn(&mut Spec, &Text) -> Option<()>),
    /// Changes the draft, or returns a refusal of its own.
    Draft(fn(&mut Draft, &str, &Context) -> Result<(), Refusal>),
    /// Stores a text unchanged if the function accepts it. An empty text removes the attribute.
    Kept(fn(&str) -> bool),
    /// Stores a boolean as `True` or `False`. An empty text removes the attribute.
    Boolean,
    /// Sets a placement requirement.
    Placement,
    /// Cannot be set.
    Never,
}

/// Row of the table.
pub(super) struct AttributeRule {
    /// PBS name.
    pub(super) name: &'static str,
    pub(super) who: Who,
    /// True if the attribute may change while the job runs.
    pub(super) while_running: bool,
    pub(super) effect: Effect,
}

const fn row(name: &'static str, who: Who, while_running: bool, effect: Effect) -> AttributeRule {
    AttributeRule {
        name,
        who,
        while_running,
        effect,
    }
}

const fn server(name: &'static str) -> AttributeRule {
    row(name, Who::Server, false, Effect::Never)
}

/// All attributes except `Resource_List`.
pub(super) const TABLE: &[AttributeRule] = &[
    row("Job_Name", Who::Owner, true, Effect::Spec(name)),
    row("label", Who::Owner, false, Effect::Spec(own_label)),
    row(
        "process_group",
        Who::Owner,
        false,
        Effect::Spec(process_group),
    ),
    row("Account_Name", Who::Owner, false, Effect::Spec(account)),
    row("Checkpoint", Who::Owner, true, Effect::Draft(checkpoint)),
    row("depend", Who::Owner, false, Effect::Draft(depend)),
    row("hold_jid", Who::Owner, false, Effect::Draft(hold_jid)),
    row("Error_Path", Who::Owner, true, Effect::Bytes(error)),
    row("Output_Path", Who::Owner, true, Effect::Bytes(output)),
    row("Execution_Time", Who::Owner, true, Effect::Spec(begin)),
    row(
        "group_list",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::group_list),
    ),
    row("User_List", Who::Owner, false, Effect::Draft(users)),
    row("Hold_Types", Who::Owner, true, Effect::Draft(holds)),
    row(
        "interactive",
        Who::Submitter,
        false,
        Effect::Spec(interactive),
    ),
    row("block", Who::Submitter, false, Effect::Spec(block)),
    row("Join_Path", Who::Owner, false, Effect::Spec(join)),
    row(
        "Keep_Files",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::keep_files),
    ),
    row(
        "Remove_Files",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::remove_files),
    ),
    row(
        "Mail_Points",
        Who::Owner,
        true,
        Effect::Kept(value_syntax::mail_points),
    ),
    row(
        "Mail_Users",
        Who::Owner,
        true,
        Effect::Kept(value_syntax::mail_users),
    ),
    row("Priority", Who::Owner, true, Effect::Draft(priority)),
    row("user_factor", Who::Owner, true, Effect::Draft(user_factor)),
    row("Rerunable", Who::Owner, true, Effect::Spec(rerunnable)),
    row("Shell_Path_List", Who::Owner, true, Effect::Bytes(shell)),
    row(
        "sandbox",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::sandbox),
    ),
    row(
        "stagein",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::staging),
    ),
    row(
        "stageout",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::staging),
    ),
    row(
        "notify",
        Who::Owner,
        false,
        Effect::Kept(value_syntax::program),
    ),
    row("umask", Who::Owner, false, Effect::Spec(umask)),
    row("project", Who::Owner, false, Effect::Spec(project)),
    row("qos", Who::Owner, false, Effect::Spec(qos)),
    row("comment", Who::Operator, true, Effect::Draft(comment)),
    row(
        "eligible_time",
        Who::Operator,
        true,
        Effect::Draft(eligible_time),
    ),
    row("run_count", Who::Owner, true, Effect::Draft(run_count)),
    row(
        "array_indices_submitted",
        Who::Submitter,
        false,
        Effect::Draft(array),
    ),
    row(
        "init_work_dir",
        Who::Submitter,
        false,
        Effect::Bytes(init_workdir),
    ),
    row(
        "job_arguments",
        Who::Submitter,
        false,
        Effect::Bytes(job_arguments),
    ),
    row(
        "max_run_subjobs",
        Who::Owner,
        true,
        Effect::Spec(max_run_subjobs),
    ),
    row("expand", Who::Owner, true, Effect::Spec(expand)),
    row("retry", Who::Owner, true, Effect::Spec(retry)),
    row("retry_delay", Who::Owner, true, Effect::Spec(retry_delay)),
    row(
        JobEnvironment::ATTRIBUTE,
        Who::Submitter,
        false,
        Effect::Draft(environment),
    ),
    row(
        Growth::MEMORY,
        Who::Owner,
        true,
        Effect::Draft(|draft, text, _| retry_factor(draft, Growth::MEMORY, text)),
    ),
    row(
        Growth::WALLTIME,
        Who::Owner,
        true,
        Effect::Draft(|draft, text, _| retry_factor(draft, Growth::WALLTIME, text)),
    ),
    row(
        "system_priority",
        Who::Operator,
        true,
        Effect::Spec(system_priority),
    ),
    row("topjob_ineligible", Who::Operator, true, Effect::Boolean),
    row("no_preempt", Who::Owner, true, Effect::Boolean),
    row(
        "interrupt",
        Who::Owner,
        true,
        Effect::Kept(value_syntax::interruption),
    ),
    row(
        "release_nodes_on_stageout",
        Who::Owner,
        true,
        Effect::Boolean,
    ),
    row(
        "tolerate_node_failures",
        Who::Owner,
        true,
        Effect::Kept(value_syntax::tolerance),
    ),
    row(
        Warning::ATTRIBUTE,
        Who::Owner,
        true,
        Effect::Kept(|text| Warning::parse(text).is_some()),
    ),
    row("tag", Who::Owner, true, Effect::Kept(tags::are_valid)),
    row("resv", Who::Owner, false, Effect::Spec(resv)),
    row("create_resv_from_job", Who::Owner, false, Effect::Boolean),
    row("nalloc", Who::Owner, false, Effect::Placement),
    row("naccess", Who::Owner, false, Effect::Placement),
    row("distribution", Who::Owner, false, Effect::Placement),
    row("geometry", Who::Owner, false, Effect::Placement),
    row("requirements", Who::Owner, false, Effect::Placement),
    row("restrictions", Who::Owner, false, Effect::Placement),
    row("cluster", Who::Owner, false, Effect::Placement),
    row("hosts", Who::Owner, false, Effect::Placement),
    row("groups", Who::Owner, false, Effect::Placement),
    row("omit_hosts", Who::Owner, false, Effect::Placement),
    row("omit_groups", Who::Owner, false, Effect::Placement),
    server("Job_Owner"),
    server("resources_used"),
    server("job_state"),
    server("queue"),
    server("server"),
    server("ctime"),
    server("mtime"),
    server("qtime"),
    server("etime"),
    server("stime"),
    server("obittime"),
    server("exec_host"),
    server("exec_vnode"),
    server("schedselect"),
    server("session_id"),
    server("jobdir"),
    server("substate"),
    server("Variable_List"),
    server("accounting_id"),
    server("alt_id"),
    server("accrue_type"),
    server("Stageout_status"),
    server("Exit_status"),
    server("Submit_arguments"),
    server("executable"),
    server("argument_list"),
    server("array"),
    server("array_id"),
    server("array_index"),
    server("array_state_count"),
    server("array_indices_remaining"),
    server("array_indices_failed"),
    server("estimated"),
    server("history_timestamp"),
    server("reserve_ID"),
    server("Submit_Host"),
    server("euser"),
    server("egroup"),
    server("hashname"),
    server("queue_rank"),
    server("queue_type"),
    server("run_version"),
];

fn name(spec: &mut Spec, text: &str) -> Option<()> {
    value_syntax::job_name(text).ok()?;
    spec.name = text.into();
    Some(())
}

/// Sets the label (Q29); an empty text clears the label.
fn own_label(spec: &mut Spec, text: &str) -> Option<()> {
    spec.label = some_label(text)?;
    Some(())
}

fn process_group(spec: &mut Spec, text: &str) -> Option<()> {
    spec.process_group = some_label(text)?;
    Some(())
}

fn some_label(text: &str) -> Option<Option<String>> {
    match text {
        "" => Some(None),
        label => is_label(label).then(|| Some(label.to_string())),
    }
}

fn account(spec: &mut Spec, text: &str) -> Option<()> {
    spec.account = Some(text.to_string()).filter(|text| !text.is_empty());
    Some(())
}

fn project(spec: &mut Spec, text: &str) -> Option<()> {
    let given = if text.is_empty() {
        DEFAULT_PROJECT
    } else {
        text
    };
    value_syntax::project(text).then(|| spec.project = given.into())
}

/// Sets the quality of service. A name has the characters of a project name, without blanks,
/// because names occur in lists.
fn qos(spec: &mut Spec, text: &str) -> Option<()> {
    let is_name = value_syntax::project(text) && !text.contains(char::is_whitespace);
    is_name.then(|| spec.qos = Some(text.to_string()).filter(|text| !text.is_empty()))
}

fn checkpoint(draft: &mut Draft, text: &str, _: &Context) -> Result<(), Refusal> {
    if !value_syntax::checkpoint(text) || value_syntax::checkpoint_never(text) {
        return Err(Refusal::illegal_value("").of_setting("Checkpoint"));
    }
    draft.spec.other.insert("Checkpoint".into(), text.into());
    Ok(())
}

/// Adds dependencies; existing dependencies cannot be removed.
fn depend(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    let dependency =
        ParsedDependency::parse(text, Some(context.server)).map_err(|fault| match fault {
            DependencyFault::Elsewhere(id) => Refusal::no_such_job(&id),
            DependencyFault::Malformed | DependencyFault::Illegal => {
                Refusal::illegal_value("depend")
            }
        })?;
    draft.depend = std::mem::take(&mut draft.depend).with(dependency);
    Ok(())
}

/// Adds an `afterany` dependency on each job in a Grid Engine list (`-hold_jid`). An entry that is
/// not a job id is a name or a pattern of names; the server finds the matching jobs of the owner.
fn hold_jid(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    for part in text.split(',').map(str::trim) {
        let is_id = part.starts_with(|c: char| c.is_ascii_digit());
        match ParsedDependency::parse(&format!("afterany:{part}"), Some(context.server)) {
            _ if part.is_empty() => return Err(Refusal::illegal_value("hold_jid")),
            Ok(dependency) if is_id => {
                draft.depend = std::mem::take(&mut draft.depend).with(dependency)
            }
            _ => draft.names.push(part.to_string()),
        }
    }
    Ok(())
}

/// Sets the output file, in the form `host:path`.
fn output(spec: &mut Spec, path: &Text) -> Option<()> {
    value_syntax::hosted_path(&path.0).then(|| spec.output = Some(path.clone()))
}

fn error(spec: &mut Spec, path: &Text) -> Option<()> {
    value_syntax::hosted_path(&path.0).then(|| spec.error = Some(path.clone()))
}

/// Sets the earliest start, in seconds since the Unix epoch; 0 or less clears the start time.
fn begin(spec: &mut Spec, text: &str) -> Option<()> {
    let seconds: i64 = text.parse().ok()?;
    spec.begin = (seconds > 0).then_some(Wall(seconds));
    Some(())
}

/// Stores the list of users. It may name only the owner, because a job runs as its owner.
fn users(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    if !value_syntax::user_list(text) {
        return Err(Refusal::illegal_value("User_List"));
    }
    for entry in text.split(',') {
        if entry.split('@').next() != Some(context.owner) {
            return Err(Refusal::bad_uid()
                .of_setting("User_List")
                .with_remedy(format!(
                    "-u {entry}: a job runs as its owner, {}: omit -u",
                    context.owner
                )));
        }
    }
    draft.spec.other.insert("User_List".into(), text.into());
    Ok(())
}

/// Sets holds. Owners may set and clear only the user hold; operators may set and clear all holds.
fn holds(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    let requested =
        value_syntax::holds(text).ok_or_else(|| Refusal::illegal_value("Hold_Types"))?;
    if context.rights.privileged {
        draft.holds = requested;
    } else if Holds::USER.contains(requested) {
        draft.holds = draft.holds.without(Holds::USER).with(requested);
    } else {
        return Err(Refusal::unauthorized());
    }
    Ok(())
}

fn interactive(spec: &mut Spec, text: &str) -> Option<()> {
    spec.interactive = value_syntax::boolean(text)?;
    Some(())
}

/// Sets the reservation in which the job runs; an empty text clears the reservation.
fn resv(spec: &mut Spec, text: &str) -> Option<()> {
    spec.reservation = Some(text.to_string()).filter(|text| !text.is_empty());
    (text.len() <= 80).then_some(())
}

fn block(spec: &mut Spec, text: &str) -> Option<()> {
    spec.block = value_syntax::boolean(text)?;
    Some(())
}

fn join(spec: &mut Spec, text: &str) -> Option<()> {
    spec.join = value_syntax::join(text)?;
    Some(())
}

/// Sets the priority. For users who are not operators, limits the priority to what the site allows
/// (X22). Adds a warning if the priority is limited, and another if the resulting priority is not
/// the default and job priorities have no effect.
fn priority(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    let rule = context.policy.precedence.own_say;
    let requested =
        value_syntax::priority(text).filter(|requested| rule.range().contains(requested));
    let requested = requested.ok_or_else(|| Refusal::illegal_value(Refusal::PRIORITY))?;
    let has = draft.spec.priority;
    draft.spec.priority = if context.rights.privileged {
        requested
    } else {
        rule.granted(requested, has)
    };
    if draft.spec.priority != requested {
        let (given, why) = (draft.spec.priority, rule.bounded_by());
        draft.notes.push(format!(
            "warning: only operators may set priority {requested}: the priority is {given} because of {why}"
        ));
    }
    let precedence = &context.policy.precedence;
    if draft.spec.priority != rule.default_priority() && !precedence.uses_job_priority() {
        let order = precedence.order.name();
        draft.notes.push(format!(
            "warning: priority {requested} has no effect: [order] by = \"{order}\" does not use it"
        ));
    }
    Ok(())
}

/// Sets the user factor. With `user_factor_ratchet`, only operators may raise it (F7).
fn user_factor(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    let Some(requested) = value_syntax::fraction(text) else {
        let remedy = "the factor lowers the priority: give a number from 0 to 1 (1: no effect)";
        return Err(Refusal::illegal_placement("user_factor", remedy));
    };
    let is_ratchet =
        context.policy.precedence.own_say.user_factor_ratchet && !context.rights.privileged;
    if is_ratchet && requested > draft.spec.user_factor {
        let why = format!(
            "[order] user_factor_ratchet only allows lowering the factor, which is {}",
            draft.spec.user_factor
        );
        return Err(Refusal::illegal_placement("user_factor", &why));
    }
    draft.spec.user_factor = requested;
    Ok(())
}

fn eligible_time(draft: &mut Draft, text: &str, _: &Context) -> Result<(), Refusal> {
    let given = Span::parse(text).filter(|time| *time <= LONGEST_WAIT);
    draft.eligible_time = Some(given.ok_or_else(|| Refusal::illegal_value("eligible_time"))?);
    Ok(())
}

/// One century, the upper bound of eligible times.
const LONGEST_WAIT: Span = Span(100 * 366 * 24 * 3600 * 1000);

/// Sets the system priority (M11); an empty text clears the system priority.
fn system_priority(spec: &mut Spec, text: &str) -> Option<()> {
    spec.system_priority = if text.is_empty() {
        None
    } else {
        Some(value_syntax::system_priority(text)?)
    };
    Some(())
}

fn rerunnable(spec: &mut Spec, text: &str) -> Option<()> {
    spec.rerunnable = value_syntax::boolean(text)?;
    Some(())
}

fn shell(spec: &mut Spec, path: &Text) -> Option<()> {
    value_syntax::shell_list(&path.lossy()).then(|| spec.shell = Some(path.clone()))
}

fn umask(spec: &mut Spec, text: &str) -> Option<()> {
    spec.umask = Some(value_syntax::umask(text)?);
    Some(())
}

/// Sets the indices from `X-Y[:Z]`, or from several ranges and indices separated by commas. A `%M`
/// after the indices sets the maximum number of running subjobs. An index that is too large gives
/// the error for an array that is too large.
fn array(draft: &mut Draft, text: &str, _: &Context) -> Result<(), Refusal> {
    let (indices, most) = match text.split_once('%') {
        Some((indices, most)) => (indices, Some(most)),
        None => (text, None),
    };
    if !value_syntax::array_list(indices) || !indices.contains(['-', ',']) {
        return Err(Refusal::illegal_value("array_indices_submitted"));
    }
    let list: IndexList = indices.parse().map_err(|_| Refusal::array_too_large())?;
    draft.spec.array = Some(list.single().unwrap_or_else(|| list.enclosing()));
    draft.spec.array_list = Some(list).filter(|list| list.single().is_none());
    if let Some(most) = most {
        max_run_subjobs(&mut draft.spec, most)
            .ok_or_else(|| Refusal::illegal_value("max_run_subjobs"))?;
    }
    Ok(())
}

/// Sets the working directory, which must be an absolute path.
fn init_workdir(spec: &mut Spec, path: &Text) -> Option<()> {
    let is_place = path.0.starts_with(b"/") && !path.0.contains(&0) && path.0.len() <= LONGEST_PATH;
    is_place.then(|| spec.init_workdir = Some(path.clone()))
}

/// Maximum length of a path in bytes.
const LONGEST_PATH: usize = 4096;

/// Sets the arguments of the script; each argument ends with a zero byte.
fn job_arguments(spec: &mut Spec, words: &Text) -> Option<()> {
    let are_ended = words.0.last().is_none_or(|&last| last == 0);
    are_ended.then(|| spec.job_arguments = words.clone())
}

fn max_run_subjobs(spec: &mut Spec, text: &str) -> Option<()> {
    spec.max_run_subjobs = Some(value_syntax::run_count(text)?);
    Some(())
}

/// Sets the limit on running subjobs while resources are idle (Q15).
fn expand(spec: &mut Spec, text: &str) -> Option<()> {
    spec.expand = value_syntax::expand(text)?;
    Some(())
}

fn retry(spec: &mut Spec, text: &str) -> Option<()> {
    spec.retry = value_syntax::run_count(text)?;
    Some(())
}

fn retry_delay(spec: &mut Spec, text: &str) -> Option<()> {
    spec.retry_delay = Span::parse(text)?;
    Some(())
}

/// Sets the environment in which the job starts.
fn environment(draft: &mut Draft, text: &str, _: &Context) -> Result<(), Refusal> {
    if JobEnvironment::named(text).is_none() {
        let why = format!("`{text}` is no environment; write login or submission");
        return Err(Refusal::illegal_placement(JobEnvironment::ATTRIBUTE, &why));
    }
    super::keep(&mut draft.spec, JobEnvironment::ATTRIBUTE, text);
    Ok(())
}

/// Sets the factor by which a request grows for a retry; an empty text removes the factor.
fn retry_factor(draft: &mut Draft, name: &str, text: &str) -> Result<(), Refusal> {
    if !text.is_empty() && Growth::factor(text).is_none() {
        let why = format!("`{text}` is no factor; write a number from 1 to 1000, such as 1.5");
        return Err(Refusal::illegal_placement(name, &why));
    }
    super::keep(&mut draft.spec, name, text);
    Ok(())
}

fn comment(draft: &mut Draft, text: &str, _: &Context) -> Result<(), Refusal> {
    draft.comment = Some(text.to_string()).filter(|text| !text.is_empty());
    Ok(())
}

/// Sets the number of starts. Only operators may lower it, as in PBS.
fn run_count(draft: &mut Draft, text: &str, context: &Context) -> Result<(), Refusal> {
    let count = value_syntax::run_count(text).ok_or_else(|| Refusal::illegal_value("run_count"))?;
    if count < draft.run_count && !context.rights.privileged {
        return Err(Refusal::unauthorized());
    }
    draft.run_count = count;
    Ok(())
}
