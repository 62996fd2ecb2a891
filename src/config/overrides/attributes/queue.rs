//! A queue's attributes.

use super::texts::{joined, put, told, truth};
use super::{Attribute, Form, at};
use crate::model::queue::{Queue, Route};
use crate::model::resource::Kind;

pub(super) const QUEUE_HEAD: &[Attribute] = &[
    at(
        "queue_type",
        Form::Queue(|queue| Some(kind(queue).to_string()), set_kind),
    ),
    at("Priority", Form::Key),
    at("total_jobs", Form::ReadOnly),
    at("state_count", Form::ReadOnly),
];

pub(super) const QUEUE: &[Attribute] = &[
    at("from_route_only", Form::Key),
    at("nested", Form::Key),
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
    at("resources_max", Form::Amounts),
    at("resources_min", Form::Amounts),
    at("resources_default", Form::Amounts),
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
    at("default_chunk", Form::Amounts),
    at("checkpoint_min", Form::Kept(Kind::Long)),
    at("kill_delay", Form::Missing),
    at("resources_available", Form::Missing),
    at("resources_assigned", Form::ReadOnly),
    at("max_array_size", Form::Key),
    at("backfill_depth", Form::Key),
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
    at("route_held_jobs", Form::Key),
    at("route_waiting_jobs", Form::Key),
    at("route_retry_time", Form::Key),
    at("route_lifetime", Form::Key),
    at("node_group_key", Form::Missing),
    at("partition", Form::Missing),
    at("alt_router", Form::Missing),
    at("hasnodes", Form::ReadOnly),
    at("comment", Form::Key),
    at("enabled", Form::Key),
    at("started", Form::Key),
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
