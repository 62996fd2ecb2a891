//! The attributes of queues.

use super::texts::{boolean, join_names, parse_boolean, set_names};
use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, attribute};
use crate::model::queue::{Queue, Route};
use crate::model::resource::ResourceType;

pub(super) const QUEUE_HEAD: &[QmgrAttribute] = &[
    attribute(
        "queue_type",
        AttributeForm::Queue(|queue| Some(kind(queue).to_string()), set_kind),
    ),
    attribute("Priority", AttributeForm::Key),
    attribute("total_jobs", AttributeForm::ReadOnly),
    attribute("state_count", AttributeForm::ReadOnly),
];

pub(super) const QUEUE: &[QmgrAttribute] = &[
    attribute("from_route_only", AttributeForm::Key),
    attribute("nested", AttributeForm::Key),
    attribute(
        "acl_host_enable",
        AttributeForm::Queue(
            |queue| enabled(queue.access.by_host, &queue.access.hosts),
            |queue, text| {
                parse_boolean(text, false)
                    .map(|is_enabled| queue.access.by_host = is_enabled)
                    .is_some()
            },
        ),
    ),
    attribute(
        "acl_hosts",
        AttributeForm::Queue(
            |queue| join_names(&queue.access.hosts),
            |queue, text| set_names(&mut queue.access.hosts, text),
        ),
    ),
    attribute(
        "acl_user_enable",
        AttributeForm::Queue(
            |queue| enabled(queue.access.by_user, &queue.access.users),
            |queue, text| {
                parse_boolean(text, false)
                    .map(|is_enabled| queue.access.by_user = is_enabled)
                    .is_some()
            },
        ),
    ),
    attribute(
        "acl_users",
        AttributeForm::Queue(
            |queue| join_names(&queue.access.users),
            |queue, text| set_names(&mut queue.access.users, text),
        ),
    ),
    attribute("resources_max", AttributeForm::Amounts),
    attribute("resources_min", AttributeForm::Amounts),
    attribute("resources_default", AttributeForm::Amounts),
    attribute(
        "acl_group_enable",
        AttributeForm::Queue(
            |queue| enabled(queue.access.by_group, &queue.access.groups),
            |queue, text| {
                parse_boolean(text, false)
                    .map(|is_enabled| queue.access.by_group = is_enabled)
                    .is_some()
            },
        ),
    ),
    attribute(
        "acl_groups",
        AttributeForm::Queue(
            |queue| join_names(&queue.access.groups),
            |queue, text| set_names(&mut queue.access.groups, text),
        ),
    ),
    attribute("default_chunk", AttributeForm::Amounts),
    attribute("checkpoint_min", AttributeForm::Kept(ResourceType::Long)),
    attribute("kill_delay", AttributeForm::Missing),
    attribute("resources_available", AttributeForm::Missing),
    attribute("resources_assigned", AttributeForm::ReadOnly),
    attribute("max_array_size", AttributeForm::Key),
    attribute("backfill_depth", AttributeForm::Key),
    attribute(
        "route_destinations",
        AttributeForm::Queue(
            |queue| {
                queue
                    .route
                    .as_ref()
                    .and_then(|route| join_names(&route.destinations))
            },
            |queue, text| set_names(&mut route(queue).destinations, text),
        ),
    ),
    attribute("route_held_jobs", AttributeForm::Key),
    attribute("route_waiting_jobs", AttributeForm::Key),
    attribute("route_retry_time", AttributeForm::Key),
    attribute("route_lifetime", AttributeForm::Key),
    attribute("node_group_key", AttributeForm::Missing),
    attribute("partition", AttributeForm::Missing),
    attribute("alt_router", AttributeForm::Missing),
    attribute("hasnodes", AttributeForm::ReadOnly),
    attribute("comment", AttributeForm::Key),
    attribute("enabled", AttributeForm::Key),
    attribute("started", AttributeForm::Key),
];

fn kind(queue: &Queue) -> &'static str {
    if queue.route.is_some() {
        "Route"
    } else {
        "Execution"
    }
}

/// Sets the queue type; `Execution` if `text` is None. As in PBS, a prefix of the type's name is
/// enough. Returns false for any other text.
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

/// `True` if an access list is in effect, else `False`; None if the list is empty and not in
/// effect.
fn enabled(is_in_effect: bool, list: &[String]) -> Option<String> {
    if is_in_effect || !list.is_empty() {
        boolean(is_in_effect)
    } else {
        None
    }
}
