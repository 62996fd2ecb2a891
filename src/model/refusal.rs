//! Refusals of requests: PBS error numbers and texts. Scripts of users compare these numbers and
//! texts, so they must not change.

use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Answer to a refused request: PBS error number, and the text that a command prints.
///
/// Two refusals are equal if their numbers and texts are equal.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// PBS error number (`PBSE_*`), 15001 and up.
    pub code: u16,
    /// Message text, without the command's name and the job id.
    pub text: String,
    /// The refused setting: an attribute such as `queue`, a resource such as
    /// `Resource_List.walltime`, or a resource of a chunk such as `select.ncpus`. Empty if the
    /// refusal concerns no single setting.
    pub setting: String,
    /// What the user can do about the refusal. A command prints this text, which PBS does not have,
    /// on a line of its own. Empty if there is nothing to add.
    pub remedy: String,
}

impl PartialEq for Refusal {
    fn eq(&self, other: &Refusal) -> bool {
        (self.code, &self.text) == (other.code, &other.text)
    }
}

impl Eq for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Refusal {
    /// The job was moved to another installation; `to` is its full id there.
    pub fn moved(to: &str) -> Refusal {
        Refusal::new(
            Refusal::finished().code,
            format!("Job was moved to {to} in another installation: use this id there"),
        )
    }

    /// The queue passes no jobs to nested installations.
    pub fn not_nested(queue: &str) -> Refusal {
        let why = format!(
            "queue {queue} passes no jobs to nested installations: set queue {queue} nested = True \
             (qmgr)"
        );
        Refusal::new(Refusal::invalid_request().code, why)
    }

    /// Tests whether the cause is a temporary condition of the server. The identical request can
    /// succeed later. Must not be used for refusals of pbs_release_nodes, because some of them have
    /// the number of a spool error, too.
    pub fn is_temporary(&self) -> bool {
        [Refusal::spool("").code, Refusal::shutting_down().code].contains(&self.code)
    }

    /// Tests whether the job is finished or unknown.
    pub fn is_of_past_job(&self) -> bool {
        [Refusal::finished().code, Refusal::unknown_job().code].contains(&self.code)
    }

    /// Returns the exit status of the command: the error number modulo 256.
    pub fn exit_code(&self) -> u8 {
        (self.code % 256) as u8
    }

    fn new(code: u16, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
            setting: String::new(),
            remedy: String::new(),
        }
    }

    /// Sets the refused setting.
    pub fn of_setting(self, name: impl Into<String>) -> Refusal {
        Refusal {
            setting: name.into(),
            ..self
        }
    }

    /// Sets the remedy.
    pub fn with_remedy(self, remedy: impl Into<String>) -> Refusal {
        Refusal {
            remedy: remedy.into(),
            ..self
        }
    }
}

/// Defines a constructor for each refusal with a constant text.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Refusal {
            $($(#[$doc])* pub fn $name() -> Refusal { Refusal::new($code, $text) })*
        }
    };
}

refusals! {
    /// The job does not exist, or the caller may not see it.
    unknown_job = 15001, "Unknown Job Id";
    /// Malformed request, or one that this daemon does not support.
    invalid_request = 15004, "Invalid request";
    /// The caller lacks permission. PBS's text ends in a blank.
    unauthorized = 15007, "Unauthorized Request ";
    /// The job's state does not allow the request.
    bad_state = 15016, "Request invalid for state of job";
    /// The requested kind of resume does not match the suspension.
    wrong_resume = 15177, "Job can not be resumed with the requested resume signal";
    /// The queue does not exist.
    unknown_queue = 15018, "Unknown queue";
    /// A queue of this name exists.
    queue_exists = 15025, "Queue already exists";
    /// The object cannot be deleted, because it is in use, or because it would return, like a node
    /// with a connected noded.
    busy = 15027, "Cannot delete busy object";
    /// Invalid queue name. PBS returns the number without a text.
    bad_name = 15028, "";
    /// A resource of this name exists. PBS's text ends in a blank.
    duplicate = 15055, "Duplicate entry in list ";
    /// A node of this name exists.
    node_exists = 15066, "Node name already exists";
    /// `enabled` was set on a queue without `queue_type`.
    no_queue_type = 15137, "Queue type must be set";
    /// `max_run` and `max_running` were both set.
    mixed_limits = 15141, "Cannot mix old and new style queue/run limit enforcement types";
    /// Attribute unknown to `qmgr`. PBS's text ends in a blank.
    undefined_attribute = 15002, "Undefined attribute ";
    /// The resource does not exist.
    no_resource = 15035, "Unknown resource";
    /// The reservation does not exist.
    unknown_reservation = 15084, "Unknown Reservation Id";
    /// The times of a reservation are invalid or contradict each other.
    bad_times = 15086, "Bad time specification(s)";
    /// The queue belongs to a reservation that the user may not use, or accepts jobs only from
    /// routing queues.
    queue_denied = 15022, "Access to queue is denied";
    /// The queue accepts no jobs.
    queue_disabled = 15021, "Queue is not enabled";
    /// The user may not own jobs, like root on a shared installation, or `-u` names another user.
    bad_uid = 15023, "Bad UID for job execution";
    /// The owner is not a member of the requested group, or noded cannot change to the group.
    bad_gid = 15045, "Bad GID for job execution";
    /// The job names no queue, and there is no default queue.
    no_default_queue = 15037, "No default queue specified";
    /// The job was submitted with `-r n`.
    not_rerunnable = 15038, "job is not rerunnable";
    /// The signal does not exist.
    unknown_signal = 15013, "Unknown/illegal signal name";
    /// schedd is shutting down.
    shutting_down = 15060, "Request not allowed: Server shutting down";
    /// The node does not exist. PBS's text ends in a blank.
    unknown_node = 15062, "Unknown node ";
    /// The job has finished.
    finished = 15139, "Job has finished";
    /// The script is larger than `jobscript_max_size`.
    script_too_large = 15175, "jobscript size exceeded the jobscript_max_size";
    /// `-l place` was given without `-l select`.
    place_without_select = 15111, "Cannot have \"place\" without \"select\"";
    /// `-l nodes` was given together with `-l select` or `-l place`.
    nodes_with_select = 15110, "Cannot be used with select or place: nodes";
    /// `-l max_walltime` was given without `-l min_walltime`.
    max_without_min_walltime = 15162, "Cannot have \"max_walltime\" without \"min_walltime\"";
    /// `-l min_walltime` is greater than `-l max_walltime`.
    min_above_max_walltime = 15163, "\"min_walltime\" can not be greater than \"max_walltime\"";
    /// The job is not an array, but the request sets an array attribute or reruns failed
    /// subjobs.
    not_an_array = 15231, "Attribute has to be set on an array job";
    /// The array has more subjobs than `max_array_size`.
    array_too_large = 15107, "Array job exceeds server or queue size limit";
    /// The subjob has finished, but the array still has unfinished subjobs.
    finished_element = 15159, "Request invalid for finished array subjob";
    /// `-l min_walltime` or `-l max_walltime` was given for an array.
    walltime_range_of_array = 15165,
        "\"min_walltime\" and \"max_walltime\" are not valid resources for a job array";
    /// `queue@server` names another server.
    other_server = 15008, "Access from host not allowed, or unknown host";
    /// Job history is off, because `[server] history` is 0.
    no_history = 15140, "PBS is not configured to maintain job history";
    /// The queue's access list excludes the host.
    host_denied = 15008, "Access from host not allowed, or unknown host";
    /// Routing queues pass the job on in a circle.
    too_many_hops = 15024, "Job routing over too many hops";
    /// No destination of the routing queue can ever accept the job.
    no_destination = 15039, "Job rejected by all possible destinations";
    /// The user has made no change that can be reverted.
    nothing_to_undo = 15016, "There is nothing to undo: no hold, release, alteration or \
        cancellation of yours in the last day";
    /// Hooks of the site check alterations.
    undo_with_hooks = 15004, "Hooks of this site check alterations: revert yours with qalter";
    /// Hooks of the site check alterations.
    retry_with_hooks = 15004, "Hooks of this site check alterations: retry the job without new \
        resources, then use qalter";
    /// An unfinished array cannot be retried with other resources.
    retry_unfinished_with = 15016, "The array has unfinished subjobs, to which the new resources \
        would also apply: retry it without new resources, or when it has finished";
    /// The value of `-l nodes=` is malformed.
    bad_nodes = 15089, "node(s) specification error";
}

impl Refusal {
    /// The attribute `name` does not exist. `near` is the existing attribute with the most similar
    /// name; None if no name is similar.
    pub fn unknown_attribute(name: &str, near: Option<&str>) -> Refusal {
        let remedy = near
            .map(|near| format!("; the nearest known name is `{near}`"))
            .unwrap_or_default();
        Refusal::new(15002, format!("Undefined attribute  {name}{remedy}")).of_setting(name)
    }

    /// The caller may not set the attribute.
    pub fn read_only(name: &str) -> Refusal {
        let text = "Cannot set attribute, read only or insufficient permission";
        Refusal::new(15003, format!("{text}  {name}")).of_setting(name)
    }

    /// The attribute cannot change while the job runs.
    pub fn running(name: &str) -> Refusal {
        Refusal::new(
            15015,
            format!("Cannot modify attribute while job running  {name}"),
        )
    }

    /// The value of an attribute or resource has the wrong type or form. `name` is PBS's name of
    /// the attribute, such as `Resource_List.ncpus`, or empty.
    pub fn illegal_value(name: &str) -> Refusal {
        let text = format!("Illegal attribute or resource value {name}");
        Refusal::new(15014, text.trim_end()).of_setting(name)
    }

    /// The client queries more than `most` jobs in one request.
    pub fn too_many_jobs(most: usize) -> Refusal {
        Refusal::new(
            15004,
            format!(
                "Invalid request: more than {most} jobs in one request; omit the ids to list all \
                 jobs"
            ),
        )
    }

    /// The user has `has` reservations, requests `more`, and may have `most`.
    pub fn too_many_reservations(most: usize, has: usize, more: usize) -> Refusal {
        let each = "each occurrence of a standing reservation counts";
        let text = format!(
            "Maximum number of reservations per user: {most}; {has} exist, {more} requested \
             ({each})"
        );
        Refusal::new(15046, text)
    }

    /// The requested duration of the reservation exceeds the maximum.
    pub fn reservation_too_long(most: Span, requested: Span) -> Refusal {
        Refusal::new(
            15046,
            format!(
                "Maximum duration of a reservation (resv_max_duration): {most}; {requested} \
                 requested"
            ),
        )
    }

    /// A reservation requests `more` processors. The user's other reservations that overlap it have
    /// `has` processors in all. Together they may have `most`.
    pub fn reservation_too_large(most: u64, has: u64, more: u64) -> Refusal {
        let text = format!(
            "Maximum number of processors in overlapping reservations of a user (resv_max_share): \
             {most}; {has} reserved, {more} requested"
        );
        Refusal::new(15046, text)
    }

    /// The number of processors is unknown, because no node has registered yet.
    pub fn no_processors_yet() -> Refusal {
        Refusal::new(
            15046,
            "no node has registered yet, so resv_max_share cannot be checked: try again later",
        )
    }

    /// The recurrence rule of a standing reservation is invalid.
    pub fn bad_rule(why: &str) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value reserve_rrule: {why}"),
        )
    }

    /// The time zone `named` in the request is neither UTC nor the server's time zone `own`.
    /// `named` is `(not set)` if the request has no time zone.
    pub fn other_zone(named: &str, own: &str) -> Refusal {
        let remedy = format!("set PBS_TZID={own} or PBS_TZID=UTC");
        Refusal::new(
            15014,
            format!(
                "Illegal attribute or resource value PBS_TZID: {named} is not the server's time \
                 zone; {remedy}"
            ),
        )
    }

    /// `-l name=` requests an undefined resource.
    pub fn unknown_resource(name: &str) -> Refusal {
        let setting = format!("Resource_List.{name}");
        Refusal::new(15035, format!("Unknown resource {setting}")).of_setting(setting)
    }

    /// A `qmgr` attribute, such as `resources_max.name`, refers to an undefined resource.
    pub fn unknown_resource_of(attribute: &str, name: &str) -> Refusal {
        Refusal::new(15035, format!("Unknown resource {attribute}.{name}"))
    }

    /// A select requests an undefined resource.
    pub fn unknown_in_select(name: &str) -> Refusal {
        Refusal::new(15035, format!("Unknown resource: {name}"))
            .of_setting(format!("select.{name}"))
    }

    /// A select requests a resource that belongs to the job as a whole.
    pub fn invalid_in_select(name: &str) -> Refusal {
        Refusal::new(
            15108,
            format!("Resource invalid in \"select\" specification: {name}"),
        )
        .of_setting(format!("select.{name}"))
    }

    /// A host-level resource is requested by `-l name=` together with a select or place.
    pub fn beside_select(name: &str) -> Refusal {
        let text = "\"-lresource=\" cannot be used with \"select\" or \"place\", resource is:";
        Refusal::new(15109, format!("{text} {name}")).of_setting(format!("Resource_List.{name}"))
    }

    /// A chunk requests a resource twice.
    pub fn duplicate_in_chunk(name: &str) -> Refusal {
        let text = "duplicated resource within a section of a select specification, resource is:";
        Refusal::new(15116, format!("{text} {name}"))
    }

    /// Nodes that the user wants to release do not belong to the job. `nodes` is empty if the
    /// request would release no node.
    pub fn not_of_the_job(nodes: &str) -> Refusal {
        Refusal::new(
            15010,
            format!("node(s) requested to be released not part of the job: {nodes}"),
        )
    }

    /// A node cannot be released, because the job's script runs there.
    pub fn of_the_script(node: &str) -> Refusal {
        Refusal::new(
            15010,
            format!("Can't free '{node}' since it's on a primary execution host"),
        )
    }

    /// The nodes of the job do not satisfy the chunks that the user wants to keep.
    pub fn too_much_to_keep(resources: &str) -> Refusal {
        Refusal::new(
            15010,
            format!("could not satisfy select chunk ({resources})"),
        )
    }

    /// The request is for an array, but allows only single jobs.
    pub fn not_for_arrays() -> Refusal {
        Refusal::new(15029, "not supported for Array Jobs or multiple sub-jobs")
    }

    /// Lanai does not support this feature of PBS.
    pub fn unsupported(what: &str) -> Refusal {
        Refusal::new(15029, format!("No support for requested service: {what}"))
    }

    /// One of several jobs in a request does not exist; `id` is its full id.
    pub fn no_such_job(id: &str) -> Refusal {
        Refusal::new(15001, format!("Unknown Job Id {id}"))
    }

    /// The dependency is invalid for the reason `why`.
    pub fn dependency(why: &str) -> Refusal {
        Refusal::new(15054, format!("Invalid Job Dependency: {why}"))
    }

    /// The dependency can never be satisfied, because the other job has finished. `which` describes
    /// the dependency and how the other job ended.
    pub fn unmet_dependency(which: &str) -> Refusal {
        Refusal::new(
            15229,
            format!("Finished job did not satisfy dependency: {which}"),
        )
    }

    /// Files would be staged from or to a host outside this cluster.
    pub fn other_host(attribute: &str, host: &str) -> Refusal {
        let why = format!(
            "{host} is not a host of this cluster: use the host on which the job runs, or localhost"
        );
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value {attribute}: {why}"),
        )
    }

    /// The value of the placement requirement `name` is invalid for the reason `why`.
    pub fn illegal_placement(name: &str, why: &str) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value {name}: {why}"),
        )
    }

    /// The user may not use the quality of service `name`. `permitted` lists the users who may use
    /// it, `open` the qualities that this user may request.
    pub fn quality_denied(name: &str, permitted: &str, open: &str) -> Refusal {
        let text = format!(
            "qos_denied: quality of service `{name}` is for {permitted}; available to you: {open}"
        );
        Refusal::new(
            Refusal::unauthorized().code,
            format!("{}{text}", Refusal::unauthorized().text),
        )
    }

    /// The quality of service `name` does not exist. `open` lists the qualities that the user may
    /// request.
    pub fn unknown_quality(name: &str, open: &str) -> Refusal {
        Refusal::illegal_placement(
            "qos",
            &format!("there is no quality of service `{name}`; available to you: {open}"),
        )
    }

    /// The request exceeds a bound of the queue or of the cluster. `why` names the bound and the
    /// remedy.
    pub fn out_of_bounds(why: &str) -> Refusal {
        Refusal::new(
            15036,
            format!("Job violates queue and/or server resource limits: {why}"),
        )
    }

    /// The limit on the number of jobs is reached. `text` is PBS's text with the limit.
    pub fn too_many(text: String) -> Refusal {
        Refusal::new(15142, text)
    }

    /// The limit on the requested amount of a resource is reached. `text` is PBS's text with the
    /// limit.
    pub fn too_much(text: String) -> Refusal {
        Refusal::new(15143, text)
    }

    /// Appends a detail to PBS's text.
    pub fn because(self, why: &str) -> Refusal {
        Refusal {
            text: format!("{}: {why}", self.text.trim_end()),
            ..self
        }
    }

    /// Tests whether the cause is a disabled queue, or a limit on queued jobs or their resources.
    /// The identical request can succeed after the queue is enabled or other jobs end.
    pub fn may_pass(&self) -> bool {
        [15021, 15142, 15143].contains(&self.code)
    }

    /// PBS name of the attribute set by `-p`.
    pub const PRIORITY: &str = "Priority";

    /// An object, described by `what`, is larger than the maximum of `most` bytes.
    pub fn too_large(what: &str, most: usize) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value: {what} of more than {most} bytes"),
        )
    }

    /// There would be more than `most` objects of the kind `what`.
    pub fn more_than(most: usize, what: &str) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value: more than {most} {what}"),
        )
    }

    /// The terminal of the running job cannot be reached now.
    pub fn no_terminal(why: &str) -> Refusal {
        Refusal::by_node(why)
    }

    /// The request must be sent to a node that does not respond now.
    pub fn node_not_responding() -> Refusal {
        Refusal::by_node("the job's node does not respond")
    }

    /// The host cannot be declared gone now.
    pub fn not_gone(why: &str) -> Refusal {
        Refusal::by_node(why)
    }

    fn by_node(why: &str) -> Refusal {
        Refusal::new(15041, format!("Execution server rejected request: {why}"))
    }

    /// The job cannot start now. `reason` is the text of the job's comment.
    pub fn cannot_start(reason: &str) -> Refusal {
        Refusal::new(15044, reason)
    }

    /// The node `name` does not exist.
    pub fn no_such_node(name: &str) -> Refusal {
        let Refusal { code, text, .. } = Refusal::unknown_node();
        Refusal::new(code, format!("{text} {name}"))
    }

    /// The request names more than `most` subjobs that are not adjacent, or would divide the array
    /// into too many ranges.
    pub fn too_scattered(most: u32) -> Refusal {
        let text = "subjobs that are not adjacent; give fewer subjobs, or a range without a step";
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value: more than {most} {text}"),
        )
    }

    /// A site hook rejected the request, or the hook failed. `why` is the hook's message or the
    /// error.
    pub fn hook(why: impl Into<String>) -> Refusal {
        Refusal::new(15136, why)
    }

    /// The hook `name` does not exist. The text is PBS's.
    pub fn no_hook(name: &str) -> Refusal {
        Refusal::hook(format!("{name} does not exist!"))
    }

    /// A hook `name` exists already.
    pub fn hook_exists(name: &str) -> Refusal {
        Refusal::hook(format!(
            "hook name \"{name}\" already exists, try a different name"
        ))
    }

    /// The user may not manage hooks; `who` is `user@host`.
    pub fn not_for_hooks(who: &str, server: &str) -> Refusal {
        Refusal::hook(format!(
            "{who} is unauthorized to access hooks data from server {server}"
        ))
    }

    /// Tests whether a site hook rejected the request or failed.
    pub fn is_of_hook(&self) -> bool {
        self.code == Refusal::hook("").code
    }

    /// The spool cannot store the changes; no part of the request was executed.
    pub fn spool(why: impl fmt::Display) -> Refusal {
        Refusal::new(15010, format!("System error: {why}"))
    }
}
