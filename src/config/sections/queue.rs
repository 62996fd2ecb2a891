//! `[[queue]]`: who may submit what to it, and what becomes of that.

use super::scheduling::{DEPTH, depth};
use super::{
    A_SECOND_OR_MORE, BOOLEAN, NAME_OF_QUEUE, boolean, from_one, keys, list, queue_name,
    resource_value, span_from_a_second, text, wanted, whole,
};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::admission;
use crate::model::queue::{AccessList, Queue, Route};
use crate::model::resource::{Definition, ResourceList, Resources};
use toml::de::DeValue;

pub(super) const CHARGE: &str = "true, false or a number from 0 on";
const NAMES: &str =
    "a list of names, each as \"ann\", \"-ann\" to keep out, or \"+\" for everybody";

/// `[[queue]]`.
pub fn queue(section: &Section, resources: &Resources) -> Result<Queue, ConfigError> {
    section.only(keys("queue"))?;
    let priority = |v: &DeValue| whole(v).filter(|n| (-1024..=1023).contains(n));
    let amounts = |key| amounts(section, key, resources);
    let default = Queue::named("");
    let stated = section.read("priority", "a whole number from -1024 to 1023", priority)?;
    Ok(Queue {
        name: section.require("name", NAME_OF_QUEUE, queue_name)?,
        priority: stated.unwrap_or(0),
        has_priority: stated.is_some(),
        enabled: section.read("enabled", BOOLEAN, boolean)?.unwrap_or(true),
        started: section.read("started", BOOLEAN, boolean)?.unwrap_or(true),
        backfill_depth: section.read("backfill_depth", DEPTH, depth)?,
        charge: section
            .read("charge", CHARGE, charge)?
            .unwrap_or(default.charge),
        route: route(section)?,
        from_route_only: section
            .read("from_route_only", BOOLEAN, boolean)?
            .unwrap_or(false),
        nested: section.read("nested", BOOLEAN, boolean)?.unwrap_or(false),
        access: access(section)?,
        least: amounts("resources_min")?,
        most: amounts("resources_max")?,
        defaults: amounts("resources_default")?,
        chunk_defaults: amounts("default_chunk")?,
        max_array_size: section.read(
            "max_array_size",
            "a number of elements from 1 on",
            from_one,
        )?,
        comment: section.read("comment", "a text", text)?,
    })
}

/// Whether it is charged, or how much of it (X24).
pub(super) fn charge(value: &DeValue) -> Option<f64> {
    let number = || super::precedence::number(value).filter(|factor| *factor >= 0.0);
    boolean(value).map(f64::from).or_else(number)
}

/// A queue with destinations is a routing queue.
fn route(section: &Section) -> Result<Option<Route>, ConfigError> {
    let Some(destinations) =
        section.read("route_destinations", "a list of queues", list(queue_name))?
    else {
        return Ok(None);
    };
    Ok(Some(Route {
        destinations,
        held_jobs: section
            .read("route_held_jobs", BOOLEAN, boolean)?
            .unwrap_or(false),
        waiting_jobs: section
            .read("route_waiting_jobs", BOOLEAN, boolean)?
            .unwrap_or(false),
        lifetime: section.read("route_lifetime", A_SECOND_OR_MORE, span_from_a_second)?,
        retry_time: section.read("route_retry_time", A_SECOND_OR_MORE, span_from_a_second)?,
    }))
}

/// Refuses routing queues that lead nowhere, at the line that says so.
pub fn check_routes(root: &Section, queues: &[Queue]) -> Result<(), ConfigError> {
    let Err((place, fault)) = admission::check(queues) else {
        return Ok(());
    };
    let sections = root.sections("queue")?;
    Err(sections
        .get(place)
        .unwrap_or(root)
        .wrong_at("route_destinations", fault.to_string()))
}

/// A list that is there counts.
fn access(section: &Section) -> Result<AccessList, ConfigError> {
    let names = |key| section.read(key, NAMES, list(text));
    let (users, groups, hosts) = (
        names("acl_users")?,
        names("acl_groups")?,
        names("acl_hosts")?,
    );
    let [by_user, by_group, by_host] = [&users, &groups, &hosts].map(Option::is_some);
    let [users, groups, hosts] = [users, groups, hosts].map(Option::unwrap_or_default);
    Ok(AccessList {
        users,
        by_user,
        groups,
        by_group,
        hosts,
        by_host,
    })
}

/// A table of resources, as `{ ncpus = 4, walltime = "1:00:00" }`.
pub(super) fn amounts(
    section: &Section,
    key: &str,
    resources: &Resources,
) -> Result<ResourceList, ConfigError> {
    let Some(table) = section.section(key)? else {
        return Ok(ResourceList::new());
    };
    let names: Vec<&str> = resources.iter().map(|(name, _)| name).collect();
    let mut amounts = ResourceList::new();
    for (name, value) in table.rest(&[]) {
        let definition: &Definition = resources
            .get(name)
            .ok_or_else(|| table.unknown(name, &names))?;
        let amount = resource_value(definition.kind, value.get_ref());
        let amount = amount.ok_or_else(|| table.refuse(name, value, wanted(definition.kind)))?;
        amounts.insert(name.to_string(), amount);
    }
    Ok(amounts)
}
