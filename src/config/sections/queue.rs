//! `[[queue]]`: access, limits and routes of a queue.

use super::backfill::DEPTH;
use super::qos::CHARGE;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    A_SECOND_OR_MORE, ARRAY_SIZE, AmountTable, BOOLEAN, FROM_0_TO_1, Kind, List, Optional, Scalar,
    TEXT, WholeNumber, list, scalar, whole,
};
use crate::model::admission;
use crate::model::queue::{Queue, Route};
use crate::model::resource::Resources;
use crate::model::time::Span;
use toml::Value;
use toml::de::DeValue;

/// A section `[[queue]]`. The factor is separate from the queue, because the policy stores it.
#[derive(Clone)]
pub struct QueueConfig {
    /// The queue.
    pub queue: Queue,
    /// The queue's priority factor (F5).
    pub factor: Option<f64>,
}

const NAME: Scalar<String> = scalar(
    "a queue name: at most 15 letters, digits, `-`, `_` and `.`, with a letter or digit first",
    |name| Queue::is_name(name),
);
const PRIORITY: WholeNumber<i32> = whole("a whole number from -1024 to 1023", |number| {
    (-1024..=1023).contains(number)
});
const DESTINATIONS: List<Scalar<String>> = list(NAME, "a list of queues");
const NAMES: List<Scalar<String>> = list(
    TEXT,
    "a list of names: \"ann\" includes ann, \"-ann\" excludes ann, \"+\" includes all",
);

/// The kind for an optional duration. In qmgr's text, less than a second means no duration.
struct OptionalTime;

impl Kind for OptionalTime {
    type Value = Option<Span>;

    fn wanted(&self) -> String {
        A_SECOND_OR_MORE.wanted()
    }

    fn read(&self, value: &DeValue) -> Option<Option<Span>> {
        A_SECOND_OR_MORE.read(value).map(Some)
    }

    fn write(&self, value: &Option<Span>) -> Option<Value> {
        A_SECOND_OR_MORE.write(value.as_ref()?)
    }

    fn parse(&self, text: &str) -> Option<Option<Span>> {
        let time = Span::parse(text)?;
        Some(Some(time).filter(|time| *time >= Span::seconds(1)))
    }

    fn show(&self, value: &Option<Span>) -> Option<String> {
        A_SECOND_OR_MORE.show(value.as_ref()?)
    }

    fn empty(&self) -> Option<Option<Span>> {
        Some(None)
    }
}

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut QueueConfig) -> &mut K::Value,
) -> Key<QueueConfig, K> {
    Key::new(name, kind, field)
}

const fn computed<K: Kind>(
    name: &'static str,
    kind: K,
    get: fn(&QueueConfig) -> Option<K::Value>,
    set: fn(&mut QueueConfig, K::Value),
) -> Key<QueueConfig, K> {
    Key::computed(name, kind, get, set)
}

/// `[[queue]]`.
pub static QUEUE: Table<QueueConfig> = Table::new(
    "queue",
    &[
        &key("name", NAME, |q| &mut q.queue.name)
            .required()
            .text("The name of the queue: at most 15 letters, digits, \"-\", \"_\" and \".\".")
            .example("\"workq\""),
        &computed(
            "priority",
            Optional(PRIORITY),
            |q| Some(q.queue.has_priority.then_some(q.queue.priority)),
            |q, priority| {
                q.queue.has_priority = priority.is_some();
                q.queue.priority = priority.unwrap_or(0);
            },
        )
        .pbs(&["Priority"])
        .text("The priority of the queue, -1024 to 1023, the highest first.")
        .default("0")
        .example("0"),
        &key("enabled", BOOLEAN, |q| &mut q.queue.enabled)
            .pbs(&["enabled"])
            .unset("False")
            .text("Whether the queue accepts jobs."),
        &key("started", BOOLEAN, |q| &mut q.queue.started)
            .pbs(&["started"])
            .unset("False")
            .text("Whether the queue's jobs may start."),
        &key("backfill_depth", Optional(DEPTH), |q| {
            &mut q.queue.backfill_depth
        })
        .pbs(&["backfill_depth"])
        .text(
            "The number of the queue's jobs that may have a planned start, or \"all\"; with \
             \"none\", they count toward depth of [backfill].",
        )
        .default("none")
        .example("1"),
        &key("charge", CHARGE, |q| &mut q.queue.charge).text(
            "The factor applied to usage charged to job owners: a number, true (1) or false (0).",
        ),
        &key("factor", Optional(FROM_0_TO_1), |q| &mut q.factor)
            .text(
                "The value of the factor \"queue\" for the queue's jobs, from 0 to 1; see \
                 [order.weights].",
            )
            .default("the queue's priority divided by 1024")
            .example("0"),
        &computed(
            "route_destinations",
            DESTINATIONS,
            |q| Some(q.queue.route.as_ref()?.destinations.clone()),
            |q, queues| route(q).destinations = queues,
        )
        .pbs(&["route_destinations"])
        .text("The destinations of a routing queue, in the order in which they are tried.")
        .default("none")
        .example("[\"workq\"]"),
        &computed(
            "route_held_jobs",
            BOOLEAN,
            |q| Some(q.queue.route.as_ref()?.held_jobs),
            |q, flag| route(q).held_jobs = flag,
        )
        .pbs(&["route_held_jobs"])
        .unset("False")
        .hidden_by_default()
        .text("Whether the queue also routes held jobs.")
        .default("false")
        .example("false"),
        &computed(
            "route_waiting_jobs",
            BOOLEAN,
            |q| Some(q.queue.route.as_ref()?.waiting_jobs),
            |q, flag| route(q).waiting_jobs = flag,
        )
        .pbs(&["route_waiting_jobs"])
        .unset("False")
        .hidden_by_default()
        .text("Whether the queue also routes jobs with a start time in the future (qsub -a).")
        .default("false")
        .example("false"),
        &computed(
            "route_lifetime",
            OptionalTime,
            |q| Some(q.queue.route.as_ref()?.lifetime),
            |q, time| route(q).lifetime = time,
        )
        .pbs(&["route_lifetime"])
        .text("How long a job may wait in a routing queue before it is deleted, such as \"2h\".")
        .default("no limit")
        .example("\"2h\""),
        &computed(
            "route_retry_time",
            OptionalTime,
            |q| Some(q.queue.route.as_ref()?.retry_time),
            |q, time| route(q).retry_time = time,
        )
        .pbs(&["route_retry_time"])
        .text("If no destination has accepted a job, the time after which the job is tried again.")
        .default("\"30s\"")
        .example("\"30s\""),
        &key("from_route_only", BOOLEAN, |q| &mut q.queue.from_route_only)
            .pbs(&["from_route_only"])
            .unset("False")
            .hidden_by_default()
            .text("Whether the queue accepts only jobs from routing queues."),
        &key("nested", BOOLEAN, |q| &mut q.queue.nested)
            .pbs(&["nested"])
            .unset("False")
            .hidden_by_default()
            .text("Whether the queue's jobs run in nested installations."),
        &computed(
            "acl_users",
            NAMES,
            |q| q.queue.access.by_user.then(|| q.queue.access.users.clone()),
            |q, users| (q.queue.access.users, q.queue.access.by_user) = (users, true),
        )
        .pbs(&["acl_users", "acl_user_enable"])
        .text("The users who may submit to the queue, such as [\"-eve\", \"ann\", \"bob@head\"].")
        .default("all")
        .example("[\"-eve\", \"+\"]"),
        &computed(
            "acl_groups",
            NAMES,
            |q| {
                q.queue
                    .access
                    .by_group
                    .then(|| q.queue.access.groups.clone())
            },
            |q, groups| (q.queue.access.groups, q.queue.access.by_group) = (groups, true),
        )
        .pbs(&["acl_groups", "acl_group_enable"])
        .text("The primary groups that may submit to the queue.")
        .default("all")
        .example("[\"staff\"]"),
        &computed(
            "acl_hosts",
            NAMES,
            |q| q.queue.access.by_host.then(|| q.queue.access.hosts.clone()),
            |q, hosts| (q.queue.access.hosts, q.queue.access.by_host) = (hosts, true),
        )
        .pbs(&["acl_hosts", "acl_host_enable"])
        .text("The hosts that may submit; \"*.example.org\" for all hosts of a domain.")
        .default("all")
        .example("[\"*.example.org\", \"head\"]"),
        &key("resources_min", AmountTable, |q| &mut q.queue.least)
            .pbs(&["resources_min"])
            .text("The smallest amounts that a job must request, such as { ncpus = 2 }.")
            .default("none")
            .example("{ ncpus = 1 }"),
        &key("resources_max", AmountTable, |q| &mut q.queue.most)
            .pbs(&["resources_max"])
            .text("The largest amounts that a job may request, such as { mem = \"8gb\" }.")
            .default("none")
            .example("{ ncpus = 64, walltime = \"24:00:00\" }"),
        &key("resources_default", AmountTable, |q| &mut q.queue.defaults)
            .pbs(&["resources_default"])
            .text("The defaults of resources that a job does not request, such as { ncpus = 1 }.")
            .default("the values of [server]")
            .example("{ walltime = \"1:00:00\" }"),
        &key("default_chunk", AmountTable, |q| {
            &mut q.queue.chunk_defaults
        })
        .pbs(&["default_chunk"])
        .text("The defaults of resources that a chunk does not request, such as { mem = \"1gb\" }.")
        .default("the value of [server]")
        .example("{ mem = \"1gb\" }"),
        &key("max_array_size", Optional(ARRAY_SIZE), |q| {
            &mut q.queue.max_array_size
        })
        .pbs(&["max_array_size"])
        .text("The largest number of subjobs of an array.")
        .default("the value of [server]")
        .example("1000"),
        &key("comment", Optional(TEXT), |q| &mut q.queue.comment)
            .pbs(&["comment"])
            .text("A comment for users.")
            .default("none")
            .example("\"for all users except eve\""),
    ],
)
.finish(finish);

/// Removes the routing settings of a queue without `route_destinations`.
fn finish(row: &mut QueueConfig, section: &Section, _: &Resources) -> Result<(), ConfigError> {
    if !section.has("route_destinations") {
        row.queue.route = None;
    }
    Ok(())
}

fn route(row: &mut QueueConfig) -> &mut Route {
    row.queue.route.get_or_insert_default()
}

/// Returns an error if a destination is not a queue, or if the routes form a cycle.
pub fn check_routes(root: &Section, queues: &[Queue]) -> Result<(), ConfigError> {
    let Err((place, fault)) = admission::check(queues) else {
        return Ok(());
    };
    let sections = root.sections("queue")?;
    let section = sections.get(place).unwrap_or(root);
    Err(section.key_error("route_destinations", fault.to_string()))
}
