//! What there may be many of: `[[resource]]`, `[[queue]]`, `[[node]]` and so on, each with the keys
//! that say something.

use super::{Known, amounts, hooks, nodes, people, span, table, windows};
use crate::config::Config;
use crate::config::overrides::{Existence, QmgrObject, QmgrOverrides};
use crate::model::limit::{Limit, Quantity, Selector, Stage};
use crate::model::queue::Queue;
use crate::model::resource::{Definition, Kind, Resources, Size};
use crate::model::system_resource::{Meter, Pool};
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// A section of which there may be many.
pub(super) struct Object {
    /// `queue`.
    pub section: &'static str,
    /// By which it is told from others.
    pub name: String,
    /// What it says.
    pub keys: Vec<Said>,
    /// Where it stands in the file.
    pub table: Option<usize>,
}

/// A key with its value.
pub(super) struct Said {
    /// `priority`; of nodes also the name of a resource.
    pub key: Cow<'static, str>,
    /// As the file may hold it.
    pub value: Value,
    /// Whether `qmgr` has said it.
    pub by_qmgr: bool,
}

/// All of them.
pub(super) fn objects(
    config: &Config,
    root: Option<&DeTable>,
    amendments: &QmgrOverrides,
) -> Vec<Object> {
    let resources = config.resources.iter().map(|(name, definition)| {
        let pool = config
            .pools
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, pool)| pool);
        let meter = config
            .meters
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, meter)| meter);
        named(
            "resource",
            name,
            resource(name, definition, pool, meter),
            root,
            |key| {
                said(amendments, &QmgrObject::Resource(name.clone()), key)
                    || (key == "total"
                        && amendments.says_of(&QmgrObject::Server, "resources_available"))
            },
        )
    });
    let queues = config.stated_queues().into_iter().map(|queue| {
        let factor = config.precedence.queues.get(&queue.name).copied();
        named("queue", &queue.name, keys(&queue, factor), root, |key| {
            said(amendments, &QmgrObject::Queue(queue.name.clone()), key)
        })
    });
    let hooks = config
        .hooks
        .iter()
        .filter(|hook| !hook.command.is_empty() && !hook.occasions.is_empty());
    let hooks = hooks.map(|hook| {
        named("hook", &hook.name, hooks::hook(hook), root, |key| {
            said(amendments, &QmgrObject::Hook(hook.name.clone()), key)
        })
    });
    let of_file = of_file(config, root);
    let all = resources
        .chain(queues)
        .chain(limits(config, root))
        .chain(nodes::nodes(config, root, amendments));
    all.chain(of_file).chain(hooks).collect()
}

/// Those of which `qmgr` says nothing.
fn of_file(config: &Config, root: Option<&DeTable>) -> Vec<Object> {
    let one = |section, name: &str, keys| named(section, name, keys, root, |_| false);
    let qualities = config
        .qualities
        .all
        .iter()
        .map(|quality| one("qos", &quality.name, people::quality(quality)));
    let accounts = config.fair_share.accounts.iter();
    let accounts = accounts.map(|account| one("account", &account.name, people::account(account)));
    let reservations = config.reservations.iter();
    let reservations =
        reservations.map(|window| one("reservation", &window.name, windows::reservation(window)));
    let dedicated = config
        .dedicated
        .iter()
        .enumerate()
        .map(|(place, time)| Object {
            section: "dedicated",
            name: (place + 1).to_string(),
            keys: set(windows::dedicated(time), |_| false),
            table: Some(place),
        });
    qualities
        .chain(accounts)
        .chain(reservations)
        .chain(dedicated)
        .collect()
}

/// The keys that are set.
fn set(keys: Vec<Known>, is_said: impl Fn(&str) -> bool) -> Vec<Said> {
    let said = |(key, value): Known| {
        Some(Said {
            key: key.into(),
            value: value?,
            by_qmgr: is_said(key),
        })
    };
    keys.into_iter().filter_map(said).collect()
}

pub(super) fn named(
    section: &'static str,
    name: &str,
    keys: Vec<Known>,
    root: Option<&DeTable>,
    is_said: impl Fn(&str) -> bool,
) -> Object {
    let is_it = |table: &DeTable| {
        table
            .get("name")
            .is_some_and(|known| known.get_ref().as_str() == Some(name))
    };
    let table = tables(root, section).iter().position(|table| is_it(table));
    Object {
        section,
        name: name.to_string(),
        keys: set(keys, is_said),
        table,
    }
}

/// The sections of this name in the file.
pub(super) fn tables<'t>(root: Option<&'t DeTable<'t>>, section: &str) -> Vec<&'t DeTable<'t>> {
    let Some(DeValue::Array(array)) = root
        .and_then(|root| root.get(section))
        .map(|value| value.get_ref())
    else {
        return Vec::new();
    };
    let table = |value: &'t toml::Spanned<DeValue<'t>>| match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    };
    array.iter().filter_map(table).collect()
}

/// Whether `qmgr` has said it: of a list of access, also whether it counts.
fn said(amendments: &QmgrOverrides, target: &QmgrObject, key: &str) -> bool {
    let is_created = amendments
        .of(target)
        .is_some_and(|said| said.being == Existence::Created);
    let switch = key
        .strip_suffix('s')
        .map(|key| format!("{key}_enable"))
        .unwrap_or_default();
    is_created || amendments.says_of(target, key) || amendments.says_of(target, &switch)
}

fn resource(
    name: &str,
    definition: &Definition,
    pool: Option<&Pool>,
    meter: Option<&Meter>,
) -> Vec<Known> {
    let kind = match definition.kind {
        Kind::Time => "time",
        Kind::Size => "size",
        Kind::Long => "long",
        Kind::Float => "float",
        Kind::Boolean => "boolean",
        Kind::String => "string",
    };
    let total = |pool: &Pool| match definition.kind {
        Kind::Size => size(pool.total),
        _ => Value::from(pool.total),
    };
    let hosts = |pool: &Pool| {
        let hosts = pool
            .scope
            .shown()
            .find(|(part, _)| *part == "hosts")
            .map(|(_, names)| names)?;
        Some(
            hosts
                .split(',')
                .map(Value::from)
                .collect::<Vec<Value>>()
                .into(),
        )
    };
    vec![
        ("name", Some(name.into())),
        ("type", Some(kind.into())),
        ("consumable", Some(definition.consumable.into())),
        ("host_level", Some(definition.host_level.into())),
        ("total", pool.map(total)),
        ("per_host", pool.map(|pool| pool.per_host.into())),
        ("hosts", pool.and_then(hosts)),
        ("command", meter.map(|meter| meter.command.clone().into())),
        ("interval", meter.map(|meter| span(meter.interval))),
        ("timeout", meter.map(|meter| span(meter.timeout))),
    ]
}

/// A number of bytes as a size.
fn size(bytes: i64) -> Value {
    Size::exactly(bytes.max(0).unsigned_abs())
        .to_string()
        .into()
}

fn keys(queue: &Queue, factor: Option<f64>) -> Vec<Known> {
    let (route, access) = (queue.route.as_ref(), &queue.access);
    let list = |list: &[String], counts: bool| Some(list.to_vec().into()).filter(|_| counts);
    vec![
        ("name", Some(queue.name.clone().into())),
        (
            "priority",
            queue.has_priority.then(|| i64::from(queue.priority).into()),
        ),
        ("enabled", Some(queue.enabled.into())),
        ("started", Some(queue.started.into())),
        (
            "backfill_depth",
            queue.backfill_depth.map(|depth| i64::from(depth).into()),
        ),
        ("charge", Some(queue.charge.into())),
        ("factor", factor.map(Value::from)),
        (
            "route_destinations",
            route.map(|route| route.destinations.clone().into()),
        ),
        ("route_held_jobs", route.map(|route| route.held_jobs.into())),
        (
            "route_waiting_jobs",
            route.map(|route| route.waiting_jobs.into()),
        ),
        (
            "route_lifetime",
            route.and_then(|route| route.lifetime).map(span),
        ),
        (
            "route_retry_time",
            route.and_then(|route| route.retry_time).map(span),
        ),
        ("from_route_only", Some(queue.from_route_only.into())),
        ("nested", Some(queue.nested.into())),
        ("acl_users", list(&access.users, access.by_user)),
        ("acl_groups", list(&access.groups, access.by_group)),
        ("acl_hosts", list(&access.hosts, access.by_host)),
        ("resources_min", amounts(&queue.least)),
        ("resources_max", amounts(&queue.most)),
        ("resources_default", amounts(&queue.defaults)),
        ("default_chunk", amounts(&queue.chunk_defaults)),
        (
            "max_array_size",
            queue.max_array_size.map(|most| i64::from(most).into()),
        ),
        ("comment", queue.comment.clone().map(Value::from)),
    ]
}

/// The names of all keys of a queue.
#[cfg(test)]
pub(super) fn keys_of_queue() -> Vec<&'static str> {
    keys(&Queue::named(""), None)
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

/// Each limit by itself. Those that the file says come from one of its sections, in their order.
fn limits(config: &Config, root: Option<&DeTable>) -> Vec<Object> {
    let sections = tables(root, "limit");
    let mut of_file: Vec<(usize, Limit)> = Vec::new();
    for (place, section) in sections.iter().enumerate() {
        let count = quantities(section);
        let before = of_file.len();
        of_file.extend(
            config
                .limits_of_file
                .iter()
                .skip(before)
                .take(count)
                .map(|limit| (place, limit.clone())),
        );
    }
    let resources = config.resources();
    let object = |(number, limit): (usize, &Limit)| {
        let table = of_file
            .iter()
            .find(|(_, known)| known == limit)
            .map(|(place, _)| *place);
        let keys = set(limit_keys(limit, &resources), |_| table.is_none());
        Object {
            section: "limit",
            name: (number + 1).to_string(),
            keys,
            table,
        }
    };
    config.limits.all.iter().enumerate().map(object).collect()
}

/// How many limits a section makes.
fn quantities(section: &DeTable) -> usize {
    let names = |key: String| match section.get(key.as_str()).map(|value| value.get_ref()) {
        Some(DeValue::Table(table)) => table
            .keys()
            .map(|name| name.get_ref().to_string())
            .collect(),
        _ => BTreeSet::new(),
    };
    let of = |stage: &str| {
        names(stage.to_string())
            .union(&names(format!("{stage}_soft")))
            .count()
    };
    Stage::ALL.iter().map(|(name, _)| of(name)).sum()
}

fn limit_keys(limit: &Limit, resources: &Resources) -> Vec<Known> {
    let scope = &limit.scope;
    let selector = |selector: &Selector| match selector {
        Selector::All => None,
        Selector::Each => Some(Value::from("*")),
        Selector::Named(name) => Some(name.clone().into()),
    };
    let amount = |amount: i64| {
        let name = limit.quantity.name();
        let kind = resources
            .get(name)
            .filter(|_| matches!(limit.quantity, Quantity::Resource(_)));
        let is_size = kind.is_some_and(|definition| definition.kind == Kind::Size);
        table([(
            name,
            if is_size {
                size(amount)
            } else {
                Value::from(amount)
            },
        )])
    };
    let (hard, soft) = match limit.stage {
        Stage::Running => ("running", "running_soft"),
        Stage::Idle => ("idle", "idle"),
        Stage::Queued => ("queued", "queued_soft"),
        Stage::Waiting => ("waiting", "waiting_soft"),
    };
    vec![
        ("queue", selector(&scope.queue)),
        ("user", selector(&scope.user)),
        ("group", selector(&scope.group)),
        ("project", selector(&scope.project)),
        ("account", selector(&scope.account)),
        ("qos", selector(&scope.qos)),
        (hard, limit.hard.map(amount)),
        (soft, limit.soft.map(amount)),
        ("override", Some(true.into()).filter(|_| limit.overrides)),
    ]
}
