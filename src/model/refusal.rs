//! Why a request was refused: PBS's numbers and texts, which clients match on (`spec` table 0.1).

use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A refused request: the PBS error number and the text that follows the command's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// `PBSE_*`, 15001 and up.
    pub code: u16,
    /// What is said, without the command's name and without the job's id.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Refusal {
    /// The job is in another instance now.
    pub fn moved(to: &str) -> Refusal {
        Refusal::new(
            Refusal::finished().code,
            format!("Job was moved to {to}: use its id in that instance"),
        )
    }

    /// The queue hands no jobs to nested instances.
    pub fn not_nested(queue: &str) -> Refusal {
        let why = format!(
            "queue {queue} is not for nested instances: set queue {queue} nested = True (qmgr)"
        );
        Refusal::new(Refusal::invalid_request().code, why)
    }

    /// Whether the same request may be granted later, although nothing else changes.
    pub fn is_temporary(&self) -> bool {
        [Refusal::spool("").code, Refusal::shutting_down().code].contains(&self.code)
    }

    /// Whether the job is over, or unknown.
    pub fn is_of_past_job(&self) -> bool {
        [Refusal::finished().code, Refusal::unknown_job().code].contains(&self.code)
    }

    /// The shell's view of the number: mod 256.
    pub fn exit_code(&self) -> u8 {
        (self.code % 256) as u8
    }

    fn new(code: u16, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
        }
    }
}

/// Constant texts, one constructor each.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Refusal {
            $($(#[$doc])* pub fn $name() -> Refusal { Refusal::new($code, $text) })*
        }
    };
}

refusals! {
    /// No such job, or none the caller may know of.
    unknown_job = 15001, "Unknown Job Id";
    /// Malformed, or not understood by this daemon.
    invalid_request = 15004, "Invalid request";
    /// The caller may not do this. PBS's text ends in a blank.
    unauthorized = 15007, "Unauthorized Request ";
    /// The job's state does not allow it.
    bad_state = 15016, "Request invalid for state of job";
    /// Suspended in another way than it is to be resumed.
    wrong_resume = 15177, "Job can not be resumed with the requested resume signal";
    /// No such queue.
    unknown_queue = 15018, "Unknown queue";
    /// A queue of this name is there already.
    queue_exists = 15025, "Queue already exists";
    /// Jobs need it, or the server does.
    busy = 15027, "Cannot delete busy object";
    /// What can be no name of a queue; PBS says nothing but the number.
    bad_name = 15028, "";
    /// A resource of this name is there already. PBS's text ends in a blank.
    duplicate = 15055, "Duplicate entry in list ";
    /// A node of this name is there already.
    node_exists = 15066, "Node name already exists";
    /// `enabled` before `queue_type`.
    no_queue_type = 15137, "Queue type must be set";
    /// `max_run` beside `max_running`.
    mixed_limits = 15141, "Cannot mix old and new style queue/run limit enforcement types";
    /// An attribute that `qmgr` does not know. PBS's text ends in a blank.
    undefined_attribute = 15002, "Undefined attribute ";
    /// No such resource.
    no_resource = 15035, "Unknown resource";
    /// No such reservation.
    unknown_reservation = 15084, "Unknown Reservation Id";
    /// Times that are none, or do not agree.
    bad_times = 15086, "Bad time specification(s)";
    /// The queue is that of a reservation for others.
    queue_denied = 15022, "Access to queue is denied";
    /// The queue accepts no jobs.
    queue_disabled = 15021, "Queue is not enabled";
    /// The owner has no account here, or may not run jobs.
    bad_uid = 15023, "Bad UID for job execution";
    /// The owner is not a member of the group asked for.
    bad_gid = 15045, "Bad GID for job execution";
    /// No `-q` and no default queue.
    no_default_queue = 15037, "No default queue specified";
    /// `-r n` forbids it.
    not_rerunnable = 15038, "job is not rerunnable";
    /// No such signal.
    unknown_signal = 15013, "Unknown/illegal signal name";
    /// schedd is leaving.
    shutting_down = 15060, "Request not allowed: Server shutting down";
    /// No such node. PBS's text ends in a blank.
    unknown_node = 15062, "Unknown node ";
    /// The job is over.
    finished = 15139, "Job has finished";
    /// Larger than `jobscript_max_size`.
    script_too_large = 15175, "jobscript size exceeded the jobscript_max_size";
    /// `-l place` alone.
    place_without_select = 15111, "Cannot have \"place\" without \"select\"";
    /// `-l nodes` beside `-l select`.
    nodes_with_select = 15110, "Cannot be used with select or place: nodes";
    /// `-l max_walltime` alone.
    max_without_min_walltime = 15162, "Cannot have \"max_walltime\" without \"min_walltime\"";
    /// `-l min_walltime` above `-l max_walltime`.
    min_above_max_walltime = 15163, "\"min_walltime\" can not be greater than \"max_walltime\"";
    /// An attribute of array jobs, set on another.
    not_an_array = 15231, "Attribute has to be set on an array job";
    /// More elements than `max_array_size`.
    array_too_large = 15107, "Array job exceeds server or queue size limit";
    /// An element that is over, of an array that is not.
    finished_element = 15159, "Request invalid for finished array subjob";
    /// `-l min_walltime` of an array.
    walltime_range_of_array = 15165,
        "\"min_walltime\" and \"max_walltime\" are not valid resources for a job array";
    /// `queue@server` names a server that is not this one.
    other_server = 15008, "Access from host not allowed, or unknown host";
    /// History is off: `[server] history` is zero.
    no_history = 15140, "PBS is not configured to maintain job history";
    /// The host is kept out of the queue.
    host_denied = 15008, "Access from host not allowed, or unknown host";
    /// Routing queues that lead to one another, and nowhere.
    too_many_hops = 15024, "Job routing over too many hops";
    /// No queue that a routing queue leads to could ever take the job.
    no_destination = 15039, "Job rejected by all possible destinations";
    /// A malformed `-l nodes=`.
    bad_nodes = 15089, "node(s) specification error";
}

impl Refusal {
    /// An attribute that does not exist, and one that may be meant.
    pub fn unknown_attribute(name: &str, near: Option<&str>) -> Refusal {
        let remedy = near
            .map(|near| format!("; the nearest known one is `{near}`"))
            .unwrap_or_default();
        Refusal::new(15002, format!("Undefined attribute  {name}{remedy}"))
    }

    /// An attribute the caller may not set.
    pub fn read_only(name: &str) -> Refusal {
        let text = "Cannot set attribute, read only or insufficient permission";
        Refusal::new(15003, format!("{text}  {name}"))
    }

    /// An attribute that stays as it is once the job runs.
    pub fn running(name: &str) -> Refusal {
        Refusal::new(
            15015,
            format!("Cannot modify attribute while job running  {name}"),
        )
    }

    /// A value of the wrong type or form; `name` as PBS shows it, `Resource_List.ncpus`; may be
    /// empty.
    pub fn illegal_value(name: &str) -> Refusal {
        let text = format!("Illegal attribute or resource value {name}");
        Refusal::new(15014, text.trim_end())
    }

    /// A question about more jobs than one may name.
    pub fn too_many_jobs(most: usize) -> Refusal {
        Refusal::new(
            15004,
            format!("Invalid request: more than {most} jobs at once; name none to be told of all"),
        )
    }

    /// A user would have more reservations than allowed.
    pub fn too_many_reservations(most: usize, has: usize, more: usize) -> Refusal {
        let each = "each occurrence of a standing reservation counts";
        let text = format!(
            "Maximum number of reservations of a user: {most}; {has} exist, {more} requested ({each})"
        );
        Refusal::new(15046, text)
    }

    /// A reservation that lasts longer than users may reserve.
    pub fn reservation_too_long(most: Span, asked: Span) -> Refusal {
        Refusal::new(
            15046,
            format!(
                "Maximum duration of a reservation (resv_max_duration): {most}; {asked} requested"
            ),
        )
    }

    /// The reservations of a user would have more processors at a time than allowed.
    pub fn reservation_too_large(most: u64, has: u64, more: u64) -> Refusal {
        let text = format!(
            "Maximum of processors in a user's reservations at a time (resv_max_share): {most}; {has} reserved, \
             {more} requested"
        );
        Refusal::new(15046, text)
    }

    /// Nobody knows yet how many processors there are.
    pub fn no_processors_yet() -> Refusal {
        Refusal::new(
            15046,
            "no node is known yet, so that a reservation cannot be compared with resv_max_share: try again",
        )
    }

    /// A rule of a standing reservation that is none.
    pub fn bad_rule(why: &str) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value reserve_rrule: {why}"),
        )
    }

    /// A time zone in which this server cannot count.
    pub fn other_zone(named: &str, own: &str) -> Refusal {
        let remedy = format!("this server counts in {own}: set PBS_TZID={own} or PBS_TZID=UTC");
        Refusal::new(
            15014,
            format!(
                "Illegal attribute or resource value PBS_TZID: {named} is another time zone; {remedy}"
            ),
        )
    }

    /// A resource nobody has defined, given by `-l name=`.
    pub fn unknown_resource(name: &str) -> Refusal {
        Refusal::new(15035, format!("Unknown resource Resource_List.{name}"))
    }

    /// A resource nobody has defined, as `qmgr` names it: `resources_max.name`.
    pub fn unknown_resource_of(attribute: &str, name: &str) -> Refusal {
        Refusal::new(15035, format!("Unknown resource {attribute}.{name}"))
    }

    /// A resource nobody has defined, inside a select.
    pub fn unknown_in_select(name: &str) -> Refusal {
        Refusal::new(15035, format!("Unknown resource: {name}"))
    }

    /// A job-wide resource inside a select.
    pub fn invalid_in_select(name: &str) -> Refusal {
        Refusal::new(
            15108,
            format!("Resource invalid in \"select\" specification: {name}"),
        )
    }

    /// A host-level resource beside a select.
    pub fn beside_select(name: &str) -> Refusal {
        let text = "\"-lresource=\" cannot be used with \"select\" or \"place\", resource is:";
        Refusal::new(15109, format!("{text} {name}"))
    }

    /// A resource named twice in one chunk.
    pub fn duplicate_in_chunk(name: &str) -> Refusal {
        let text = "duplicated resource within a section of a select specification, resource is:";
        Refusal::new(15116, format!("{text} {name}"))
    }

    /// Nodes to be released that are none of the job's, by their names.
    pub fn not_of_the_job(nodes: &str) -> Refusal {
        Refusal::new(
            15010,
            format!("node(s) requested to be released not part of the job: {nodes}"),
        )
    }

    /// A node to be released on which the job's script runs.
    pub fn of_the_script(node: &str) -> Refusal {
        Refusal::new(
            15010,
            format!("Can't free '{node}' since it's on a primary execution host"),
        )
    }

    /// A chunk to be kept that the job has not, or not so often.
    pub fn too_much_to_keep(resources: &str) -> Refusal {
        Refusal::new(
            15010,
            format!("could not satisfy select chunk ({resources})"),
        )
    }

    /// An array or several elements, where one job is needed.
    pub fn not_for_arrays() -> Refusal {
        Refusal::new(15029, "not supported for Array Jobs or multiple sub-jobs")
    }

    /// What PBS offers and this version does not.
    pub fn unsupported(what: &str) -> Refusal {
        Refusal::new(15029, format!("No support for requested service: {what}"))
    }

    /// No such job, where a request names several; its full id.
    pub fn no_such_job(id: &str) -> Refusal {
        Refusal::new(15001, format!("Unknown Job Id {id}"))
    }

    /// A dependency that cannot be set up, and why.
    pub fn dependency(why: &str) -> Refusal {
        Refusal::new(15054, format!("Invalid Job Dependency: {why}"))
    }

    /// A dependency on a job that is over and can never meet it; which, and how that job ended.
    pub fn unmet_dependency(which: &str) -> Refusal {
        Refusal::new(
            15229,
            format!("Finished job did not satisfy dependency: {which}"),
        )
    }

    /// Files to be copied from or to a host that is not of this cluster.
    pub fn other_host(attribute: &str, host: &str) -> Refusal {
        let why =
            format!("{host} is no host of this cluster, and files are copied within a host only");
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value {attribute}: {why}"),
        )
    }

    /// A wish on where to run that makes no sense; which, and why.
    pub fn illegal_placement(name: &str, why: &str) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value {name}: {why}"),
        )
    }

    /// A quality of service that is not for who asks; for whom it is, and which ones are open to
    /// who asks.
    pub fn quality_denied(name: &str, whose: &str, open: &str) -> Refusal {
        let text = format!(
            "qos_denied: quality of service `{name}` is for {whose}; ask for one of {open}"
        );
        Refusal::new(
            Refusal::unauthorized().code,
            format!("{}{text}", Refusal::unauthorized().text),
        )
    }

    /// A quality of service that there is not, and which there are.
    pub fn unknown_quality(name: &str, open: &str) -> Refusal {
        Refusal::illegal_placement(
            "qos",
            &format!("there is no quality of service `{name}`; ask for one of {open}"),
        )
    }

    /// A job that asks for less or more than its queue takes, or than there is; which, and what to
    /// do.
    pub fn out_of_bounds(why: &str) -> Refusal {
        Refusal::new(
            15036,
            format!("Job violates queue and/or server resource limits: {why}"),
        )
    }

    /// Somebody has as many jobs as they may have; in PBS's words, and how many.
    pub fn too_many(text: String) -> Refusal {
        Refusal::new(15142, text)
    }

    /// Somebody's jobs ask for as much of a resource as they may; in PBS's words, and how much.
    pub fn too_much(text: String) -> Refusal {
        Refusal::new(15143, text)
    }

    /// The same with a detail behind PBS's words.
    pub fn because(self, why: &str) -> Refusal {
        Refusal {
            text: format!("{}: {why}", self.text.trim_end()),
            ..self
        }
    }

    /// Whether the same request may be granted later, though nothing of it is changed: a queue may
    /// be opened, others' jobs may end.
    pub fn may_pass(&self) -> bool {
        [15021, 15142, 15143].contains(&self.code)
    }

    /// The attribute of `-p`.
    pub const PRIORITY: &str = "Priority";

    /// Larger than a job may be; `what` and its bound in bytes.
    pub fn too_large(what: &str, most: usize) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value: {what} of more than {most} bytes"),
        )
    }

    /// There would be more of something than there may be.
    pub fn more_than(most: usize, what: &str) -> Refusal {
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value: more than {most} {what}"),
        )
    }

    /// The terminal of a running job cannot be reached now.
    pub fn no_terminal(why: &str) -> Refusal {
        Refusal::by_node(why)
    }

    /// What is asked for would have to be told to a node that does not answer now.
    pub fn node_away() -> Refusal {
        Refusal::by_node("its node does not answer")
    }

    /// A host that cannot be declared gone now.
    pub fn not_gone(why: &str) -> Refusal {
        Refusal::by_node(why)
    }

    fn by_node(why: &str) -> Refusal {
        Refusal::new(15041, format!("Execution server rejected request: {why}"))
    }

    /// The job cannot start now. `reason` is the text of its comment.
    pub fn cannot_start(reason: &str) -> Refusal {
        Refusal::new(15044, reason)
    }

    /// No node of this name.
    pub fn no_such_node(name: &str) -> Refusal {
        let Refusal { code, text } = Refusal::unknown_node();
        Refusal::new(code, format!("{text} {name}"))
    }

    /// A range with a step names more elements than can be deleted at once.
    pub fn too_scattered(most: u32) -> Refusal {
        let text = "elements that lie apart; name fewer at once, or a range without a step";
        Refusal::new(
            15014,
            format!("Illegal attribute or resource value: more than {most} {text}"),
        )
    }

    /// Refused by a hook of the site, in its words or for its failure.
    pub fn hook(why: impl Into<String>) -> Refusal {
        Refusal::new(15136, why)
    }

    /// No hook of this name, in PBS's words.
    pub fn no_hook(name: &str) -> Refusal {
        Refusal::hook(format!("{name} does not exist!"))
    }

    /// A hook of this name is there already.
    pub fn hook_exists(name: &str) -> Refusal {
        Refusal::hook(format!(
            "hook name \"{name}\" already exists, try a different name"
        ))
    }

    /// Hooks are no matter of this person's; `who` as `user@host`.
    pub fn not_for_hooks(who: &str, server: &str) -> Refusal {
        Refusal::hook(format!(
            "{who} is unauthorized to access hooks data from server {server}"
        ))
    }

    /// Whether a hook of the site, or its failure, is why.
    pub fn is_of_hook(&self) -> bool {
        self.code == Refusal::hook("").code
    }

    /// The spool cannot take it now: nothing of the request was kept.
    pub fn spool(why: impl fmt::Display) -> Refusal {
        Refusal::new(15010, format!("System error: {why}"))
    }
}
