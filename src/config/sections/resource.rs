//! `[[resource]]`: resources that the site defines.

use super::hook::COMMAND;
use super::node::NODE;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    A_SECOND_OR_MORE, BOOLEAN, Kind, List, OneOf, Optional, Scalar, ScalarType, TEXT, list,
    read_resource_value, scalar, write_resource_value,
};
use crate::model::request::host_list::HostList;
use crate::model::resource::{self, Definition, Resources, Size};
use crate::model::system_resource::{Pool, ResourceMeter};
use crate::model::time::Span;
use toml::Value;
use toml::de::DeValue;

/// A section `[[resource]]`.
pub struct ResourceConfig {
    /// The name.
    pub name: String,
    /// The type and the properties of the resource.
    pub definition: Definition,
    total: Option<i64>,
    per_host: Option<bool>,
    hosts: Option<Vec<String>>,
    command: Option<Vec<String>>,
    interval: Option<Span>,
    timeout: Option<Span>,
}

const NAME: Scalar<String> = scalar(
    "a name: a letter, then letters, digits, `-` and `_`",
    |name| Resources::is_name(name),
);
const TYPES: &[(&str, resource::ResourceType)] = &[
    ("long", resource::ResourceType::Long),
    ("size", resource::ResourceType::Size),
    ("time", resource::ResourceType::Time),
    ("float", resource::ResourceType::Float),
    ("boolean", resource::ResourceType::Boolean),
    ("string", resource::ResourceType::String),
];
const HOSTS: List<Scalar<String>> = list(TEXT, "a list of hosts, such as [\"n1\", \"n2\"]");

/// The kind for a total amount: a value of the resource's type if this is `size` or `float`, else a
/// whole number.
struct Total;

impl Kind for Total {
    type Value = resource::ResourceValue;

    fn wanted(&self) -> String {
        "the total amount, such as 50 or \"10tb\"".to_string()
    }

    fn read(&self, _: &DeValue) -> Option<resource::ResourceValue> {
        None
    }

    fn write(&self, value: &resource::ResourceValue) -> Option<Value> {
        Some(write_resource_value(value))
    }

    fn read_key(
        &self,
        section: &Section,
        key: &str,
        _: &Resources,
    ) -> Result<Option<resource::ResourceValue>, ConfigError> {
        let name = section.read("type", "a type", String::read)?;
        let kind = match name.as_deref() {
            Some("size") => resource::ResourceType::Size,
            Some("float") => resource::ResourceType::Float,
            _ => resource::ResourceType::Long,
        };
        section.read(key, &self.wanted(), |value| {
            read_resource_value(kind, value)
        })
    }
}

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut ResourceConfig) -> &mut K::Value,
) -> Key<ResourceConfig, K> {
    Key::new(name, kind, field)
}

/// `[[resource]]`.
pub static RESOURCE: Table<ResourceConfig> = Table::new(
    "resource",
    &[
        &key("name", NAME, |r| &mut r.name)
            .required()
            .text("The name of the resource: a letter, then letters, digits, \"-\" and \"_\".")
            .example("\"license\""),
        &key("type", OneOf(TYPES), |r| &mut r.definition.kind)
            .required()
            .pbs(&["type"])
            .text("The type: \"long\", \"size\", \"time\", \"float\", \"boolean\" or \"string\".")
            .example("\"long\""),
        &key("consumable", BOOLEAN, |r| &mut r.definition.consumable)
            .text("Whether running jobs take amounts of the resource, as they take ncpus.")
            .example("true"),
        &key("host_level", BOOLEAN, |r| &mut r.definition.host_level)
            .text(
                "Whether nodes have the resource and chunks request it; if not, it is system-wide.",
            )
            .example("false"),
        &Key::<ResourceConfig, _>::computed(
            "total",
            Total,
            |r| {
                Some(match r.definition.kind {
                    resource::ResourceType::Size => {
                        let bytes = r.total?.max(0).unsigned_abs();
                        resource::ResourceValue::Size(Size::exactly(bytes))
                    }
                    kind => resource::ResourceValue::of_amount(kind, r.total?),
                })
            },
            |r, total| r.total = total.amount(),
        )
        .text("The amount that the whole system has of a system-wide consumable, such as licenses.")
        .default("none")
        .example("50"),
        &key("per_host", Optional(BOOLEAN), |r| &mut r.per_host)
            .text("Whether a job takes the amount once for each of its hosts, not once in total.")
            .default("false")
            .example("false"),
        &key("hosts", Optional(HOSTS), |r| &mut r.hosts)
            .text("The only hosts on which the resource can be used, such as [\"n1\", \"n2\"].")
            .default("all")
            .example("[\"hut\", \"porch\"]"),
        &key("command", Optional(COMMAND), |r| &mut r.command)
            .text("The program that prints the total, alone or in a list with its arguments.")
            .default("none")
            .example("[\"/usr/local/sbin/licenses-free\", \"nuke\"]"),
        &key("interval", Optional(A_SECOND_OR_MORE), |r| &mut r.interval)
            .text("The time between an answer of the command and the next run, at least a second.")
            .default("\"30s\"")
            .example("\"30s\""),
        &key("timeout", Optional(A_SECOND_OR_MORE), |r| &mut r.timeout)
            .text("The longest run time of the command, at least a second.")
            .default("\"10s\"")
            .example("\"10s\""),
    ],
)
.finish(finish);

/// A section for the resource `name` in which all other keys have their defaults.
pub fn blank(name: &str) -> ResourceConfig {
    ResourceConfig {
        name: name.to_string(),
        definition: Definition {
            kind: resource::ResourceType::String,
            host_level: true,
            consumable: false,
            requestable: true,
        },
        total: None,
        per_host: None,
        hosts: None,
        command: None,
        interval: None,
        timeout: None,
    }
}

impl ResourceConfig {
    /// A section that defines this resource.
    pub fn from_definition(
        name: &str,
        definition: &Definition,
        pool: Option<&Pool>,
        meter: Option<&ResourceMeter>,
    ) -> ResourceConfig {
        let hosts = |pool: &Pool| {
            let (_, names) = pool.scope.shown().find(|(part, _)| *part == "hosts")?;
            Some(names.split(',').map(str::to_string).collect())
        };
        ResourceConfig {
            definition: definition.clone(),
            total: pool.map(|pool| pool.total),
            per_host: pool.map(|pool| pool.per_host),
            hosts: pool.and_then(hosts),
            command: meter.map(|meter| meter.command.clone()),
            interval: meter.map(|meter| meter.interval),
            timeout: meter.map(|meter| meter.timeout),
            ..blank(name)
        }
    }

    /// Whether the section defines a system-wide consumable resource.
    fn is_pooled(&self) -> bool {
        self.definition.consumable && !self.definition.host_level
    }

    /// The name of the resource and its pool; None without a total, or if `hosts` is invalid.
    pub fn pool(&self) -> Option<(String, Pool)> {
        let hosts = self.hosts.clone().unwrap_or_default().join(",");
        let scope = HostList::default().with("hosts", &hosts).ok()?;
        let pool = Pool {
            total: self.total?,
            per_host: self.per_host.unwrap_or(false),
            scope,
            ..Pool::default()
        };
        Some((self.name.clone(), pool))
    }

    /// The name of the resource and the command that prints its total; None without a command.
    pub fn meter(&self) -> Option<(String, ResourceMeter)> {
        let meter = ResourceMeter {
            command: self.command.clone()?,
            interval: self.interval.unwrap_or(ResourceMeter::INTERVAL),
            timeout: self.timeout.unwrap_or(ResourceMeter::TIMEOUT),
        };
        Some((self.name.clone(), meter))
    }
}

fn finish(row: &mut ResourceConfig, section: &Section, _: &Resources) -> Result<(), ConfigError> {
    let name = &row.name;
    let is_known =
        Resources::builtin().get(name).is_some() || NODE.names().contains(&name.as_str());
    if is_known {
        return Err(section.key_error("name", format!("`{name}` is built in: choose another name")));
    }
    let can_be_counted = matches!(
        row.definition.kind,
        resource::ResourceType::Long | resource::ResourceType::Size | resource::ResourceType::Float
    );
    if row.definition.consumable && !can_be_counted {
        let text = format!(
            "consumables have the type `long`, `float` or `size`: set the type of `{name}` to one \
             of these, or consumable = false"
        );
        return Err(section.key_error("consumable", text));
    }
    if row.is_pooled() {
        check_pool(row, section)
    } else {
        check_no_pool(row, section)
    }
}

fn check_pool(row: &ResourceConfig, section: &Section) -> Result<(), ConfigError> {
    if row.total.is_none() {
        let name = &row.name;
        let text =
            format!("`{name}` is a system-wide consumable: set its amount, such as total = 50");
        return Err(section.key_error("host_level", text));
    }
    if row.pool().is_none() {
        let text = format!("`hosts` must be {}", HOSTS.wanted());
        return Err(section.key_error("hosts", text));
    }
    check_command(row, section)
}

fn check_no_pool(row: &ResourceConfig, section: &Section) -> Result<(), ConfigError> {
    let keys = [
        ("total", row.total.is_some()),
        ("per_host", row.per_host == Some(true)),
        ("hosts", row.hosts.is_some()),
        ("command", row.command.is_some()),
    ];
    if let Some((key, _)) = keys.into_iter().find(|(_, is_set)| *is_set) {
        let text = "requires a system-wide resource: consumable = true and host_level = false";
        return Err(section.key_error(key, format!("`{key}` {text}")));
    }
    check_command(row, section)
}

fn check_command(row: &ResourceConfig, section: &Section) -> Result<(), ConfigError> {
    let keys = [
        ("interval", row.interval.is_some()),
        ("timeout", row.timeout.is_some()),
    ];
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) if row.command.is_none() => Err(section.key_error(
            key,
            format!("`{key}` requires `command`: set `command`, or remove `{key}`"),
        )),
        _ => Ok(()),
    }
}
