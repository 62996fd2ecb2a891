//! A queue's attributes.

use super::texts::{boolean, joined, put, truth};
use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, at};
use crate::model::queue::{Queue, Route};
use crate::model::resource::ResourceType;

pub(super) const QUEUE_HEAD: &[QmgrAttribute] = &[
    at(
        "queue_type",
        AttributeForm::Queue(|queue| Some(kind(queue).to_string()), set_kind),
    ),
    at("Priority", AttributeForm::Key),
    at("total_jobs", AttributeForm::ReadOnly),
    at("state_count", AttributeForm::ReadOnly),
];

pub(super) const QUEUE: &[QmgrAttribute] = &[
    at("from_route_only", AttributeForm::Key),
    at("nested", AttributeForm::Key),
    at(
        "acl_host_enable",
        AttributeForm::Queue(
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
        AttributeForm::Queue(
            |queue| joined(&queue.access.hosts),
            |queue, text| put(&mut queue.access.hosts, text),
        ),
    ),
    at(
        "acl_user_enable",
        AttributeForm::Queue(
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
        AttributeForm::Queue(
            |queue| joined(&queue.access.users),
            |queue, text| put(&mut queue.access.users, text),
        ),
    ),
    at("resources_max", AttributeForm::Amounts),
    at("resources_min", AttributeForm::Amounts),
    at("resources_default", AttributeForm::Amounts),
    at(
        "acl_group_enable",
        AttributeForm::Queue(
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
        AttributeForm::Queue(
            |queue| joined(&queue.access.groups),
            |queue, text| put(&mut queue.access.groups, text),
        ),
    ),
    at("default_chunk", AttributeForm::Amounts),
    at("checkpoint_min", AttributeForm::Kept(ResourceType::Long)),
    at("kill_delay", AttributeForm::Missing),
    at("resources_available", AttributeForm::Missing),
    at("resources_assigned", AttributeForm::ReadOnly),
    at("max_array_size", AttributeForm::Key),
    at("backfill_depth", AttributeForm::Key),
    at(
        "route_destinations",
        AttributeForm::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .and_then(|route| joined(&route.destinations))
            },
            |queue, text| put(&mut route(queue).destinations, text),
        ),
    ),
    at("route_held_jobs", AttributeForm::Key),
    at("route_waiting_jobs", AttributeForm::Key),
    at("route_retry_time", AttributeForm::Key),
    at("route_lifetime", AttributeForm::Key),
    at("node_group_key", AttributeForm::Missing),
    at("partition", AttributeForm::Missing),
    at("alt_router", AttributeForm::Missing),
    at("hasnodes", AttributeForm::ReadOnly),
    at("comment", AttributeForm::Key),
    at("enabled", AttributeForm::Key),
    at("started", AttributeForm::Key),
];

fn kind(queue: &Queue) -> &'static str {
    if queue.route.is_some() {
        "Route"
    } else {
        "Execution"
    }
}

/// Sets the queue type. As in PBS, any prefix of its name is valid.
fn set_kind(queue: &mut Queue, text: Option<&str>) -> bool {
    let text = text.unwrap_or("Execution").to_ascii_lowercase();
    if text.is_empty() {
        return false;
    }
    if "execution".starts_with(&text) {
        queue.route = None;
        return true;
    }
    if "route".starts_with(&text) {
        route(queue);
        return true;
    }
    false
}

fn route(queue: &mut Queue) -> &mut Route {
    queue.route.get_or_insert_default()
}

/// Whether an access list is in effect; None if there is no list.
fn enabled(counts: bool, list: &[String]) -> Option<String> {
    if counts || !list.is_empty() {
        boolean(counts)
    } else {
        None
    }
}
