//! A queue's attributes.

use super::texts::{count, joined, number, put, seconds, span, told, truth};
use super::{Attribute, Form, at};
use crate::model::queue::{Queue, Route};
use crate::model::resource::Kind;

pub(super) const QUEUE_HEAD: &[Attribute] = &[
    at(
        "queue_type",
        Form::Queue(|queue| Some(kind(queue).to_string()), set_kind),
    ),
    at(
        "Priority",
        Form::Queue(
            |queue| queue.has_priority.then(|| queue.priority.to_string()),
            |queue, text| {
                let priority = number(text, "0").filter(|number| (-1024..=1023).contains(number));
                let Some(priority) = priority else {
                    return false;
                };
                (queue.priority, queue.has_priority) = (priority as i32, text.is_some());
                true
            },
        ),
    ),
    at("total_jobs", Form::ReadOnly),
    at("state_count", Form::ReadOnly),
];

pub(super) const QUEUE: &[Attribute] = &[
    at(
        "from_route_only",
        Form::Queue(
            |queue| told(queue.from_route_only).filter(|_| queue.from_route_only),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.from_route_only = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "nested",
        Form::Queue(
            |queue| told(queue.nested).filter(|_| queue.nested),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.nested = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "acl_host_enable",
        Form::Queue(
            |queue| enabled(queue.access.by_host, &queue.access.hosts),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.access.by_host = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "acl_hosts",
        Form::Queue(
            |queue| joined(&queue.access.hosts),
            |queue, text| put(&mut queue.access.hosts, text),
        ),
    ),
    at(
        "acl_user_enable",
        Form::Queue(
            |queue| enabled(queue.access.by_user, &queue.access.users),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.access.by_user = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "acl_users",
        Form::Queue(
            |queue| joined(&queue.access.users),
            |queue, text| put(&mut queue.access.users, text),
        ),
    ),
    at(
        "resources_max",
        Form::QueueAmounts(|queue| &queue.most, |queue| &mut queue.most),
    ),
    at(
        "resources_min",
        Form::QueueAmounts(|queue| &queue.least, |queue| &mut queue.least),
    ),
    at(
        "resources_default",
        Form::QueueAmounts(|queue| &queue.defaults, |queue| &mut queue.defaults),
    ),
    at(
        "acl_group_enable",
        Form::Queue(
            |queue| enabled(queue.access.by_group, &queue.access.groups),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.access.by_group = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "acl_groups",
        Form::Queue(
            |queue| joined(&queue.access.groups),
            |queue, text| put(&mut queue.access.groups, text),
        ),
    ),
    at(
        "default_chunk",
        Form::QueueAmounts(
            |queue| &queue.chunk_defaults,
            |queue| &mut queue.chunk_defaults,
        ),
    ),
    at("checkpoint_min", Form::Kept(Kind::Long)),
    at("kill_delay", Form::Missing),
    at("resources_available", Form::Missing),
    at("resources_assigned", Form::ReadOnly),
    at(
        "max_array_size",
        Form::Queue(
            |queue| queue.max_array_size.map(|most| most.to_string()),
            |queue, text| {
                count(text)
                    .map(|most| queue.max_array_size = most)
                    .is_some()
            },
        ),
    ),
    at(
        "backfill_depth",
        Form::Queue(
            |queue| queue.backfill_depth.map(|depth| depth.to_string()),
            |queue, text| {
                let depth = text.map(str::parse).transpose().ok();
                depth.map(|depth| queue.backfill_depth = depth).is_some()
            },
        ),
    ),
    at(
        "route_destinations",
        Form::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .and_then(|route| joined(&route.destinations))
            },
            |queue, text| put(&mut route(queue).destinations, text),
        ),
    ),
    at(
        "route_held_jobs",
        Form::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .filter(|route| route.held_jobs)
                    .and_then(|_| told(true))
            },
            |queue, text| {
                truth(text, false)
                    .map(|is_so| route(queue).held_jobs = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "route_waiting_jobs",
        Form::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .filter(|route| route.waiting_jobs)
                    .and_then(|_| told(true))
            },
            |queue, text| {
                truth(text, false)
                    .map(|is_so| route(queue).waiting_jobs = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "route_retry_time",
        Form::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .and_then(|route| seconds(route.retry_time))
            },
            |queue, text| {
                span(text)
                    .map(|span| route(queue).retry_time = span)
                    .is_some()
            },
        ),
    ),
    at(
        "route_lifetime",
        Form::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .and_then(|route| seconds(route.lifetime))
            },
            |queue, text| {
                span(text)
                    .map(|span| route(queue).lifetime = span)
                    .is_some()
            },
        ),
    ),
    at("node_group_key", Form::Missing),
    at("partition", Form::Missing),
    at("alt_router", Form::Missing),
    at("hasnodes", Form::ReadOnly),
    at(
        "comment",
        Form::Queue(
            |queue| queue.comment.clone(),
            |queue, text| {
                queue.comment = text.map(str::to_string);
                true
            },
        ),
    ),
    at(
        "enabled",
        Form::Queue(
            |queue| told(queue.enabled),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.enabled = is_so)
                    .is_some()
            },
        ),
    ),
    at(
        "started",
        Form::Queue(
            |queue| told(queue.started),
            |queue, text| {
                truth(text, false)
                    .map(|is_so| queue.started = is_so)
                    .is_some()
            },
        ),
    ),
];

fn kind(queue: &Queue) -> &'static str {
    if queue.route.is_some() {
        "Route"
    } else {
        "Execution"
    }
}

/// As PBS, by any beginning of its name.
fn set_kind(queue: &mut Queue, text: Option<&str>) -> bool {
    let text = text.unwrap_or("Execution").to_ascii_lowercase();
    let is = |kind: &str| !text.is_empty() && kind.starts_with(&text);
    match (is("execution"), is("route")) {
        (true, _) => queue.route = None,
        (_, true) => drop(route(queue)),
        _ => return false,
    }
    true
}

fn route(queue: &mut Queue) -> &mut Route {
    queue.route.get_or_insert_default()
}

/// Whether a list of access counts; nothing for one that is not there.
fn enabled(counts: bool, list: &[String]) -> Option<String> {
    told(counts).filter(|_| counts || !list.is_empty())
}
