//! The sections of `lanai.toml`, with a table of keys for each, and the reader of the whole file.

mod account;
mod backfill;
mod components;
mod cycle;
mod fairshare;
mod hook;
mod idle;
mod launch;
mod limit;
mod node;
mod order;
mod placement;
mod preemption;
mod qos;
mod queue;
mod reservation;
mod resource;
mod server;
mod starvation;
mod usage;

pub use account::ACCOUNT;
pub use hook::HOOK;
pub use limit::{LIMIT, LimitConfig};
pub use node::NODE;
pub use qos::QOS;
pub use queue::{QUEUE, QueueConfig};
pub use reservation::{DEDICATED, PRIME_TIME, RESERVATION, ReservationRow};
pub use resource::{RESOURCE, ResourceConfig};

use super::document::{ConfigError, Section};
use super::key::{Entry, Table};
use super::kinds::{Kind, OneOf};
use super::{Config, DedicatedConfig, NodeConfig};
use crate::model::hook::Hook;
use crate::model::policy::Preset;
use crate::model::queue::Queue;
use crate::model::resource::Resources;
use chrono::NaiveDateTime;
use toml::de::DeTable;

/// The sections that may occur only once, except `[primetime]`, in the order of `schedd --check`.
pub static ONCE: [&Table<Config>; 10] = [
    &server::SERVER,
    &launch::LAUNCH,
    &cycle::CYCLE,
    &idle::IDLE,
    &order::ORDER,
    &fairshare::FAIR_SHARE,
    &usage::USAGE,
    &backfill::BACKFILL,
    &placement::PLACEMENT,
    &preemption::PREEMPTION,
];

/// A section and its keys, for the manual and the example file.
pub struct Listed {
    /// The name, such as `order.weights`.
    pub name: &'static str,
    /// Whether the section may occur several times, such as `[[queue]]`.
    pub is_many: bool,
    /// The keys, in order.
    pub keys: Vec<&'static Entry>,
}

impl Listed {
    /// The title, such as `[server]` or `[[queue]]`.
    pub fn title(&self) -> String {
        if self.is_many {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }

    /// The names of all keys, aliases included.
    pub fn names(&self) -> Vec<&'static str> {
        let names = self.keys.iter().map(|key| [Some(key.name), key.alias]);
        names.flatten().flatten().collect()
    }
}

/// All sections, in the order of the manual.
pub fn listed() -> Vec<Listed> {
    let mut all = Vec::new();
    for table in [&server::SERVER, &launch::LAUNCH, &cycle::CYCLE] {
        add_section(table, false, &mut all);
    }
    add_section(&idle::IDLE, false, &mut all);
    for table in [&order::ORDER, &backfill::BACKFILL, &placement::PLACEMENT] {
        add_section(table, false, &mut all);
    }
    add_section(&preemption::PREEMPTION, false, &mut all);
    add_section(&fairshare::FAIR_SHARE, false, &mut all);
    add_section(&ACCOUNT, true, &mut all);
    add_section(&QOS, true, &mut all);
    add_section(&usage::USAGE, false, &mut all);
    add_section(&QUEUE, true, &mut all);
    add_section(&LIMIT, true, &mut all);
    add_section(&RESOURCE, true, &mut all);
    add_section(&NODE, true, &mut all);
    add_section(&RESERVATION, true, &mut all);
    add_section(&HOOK, true, &mut all);
    add_section(&DEDICATED, true, &mut all);
    add_section(&PRIME_TIME, false, &mut all);
    all
}

/// Adds a section and its nested tables to `all`.
fn add_section<T>(table: &'static Table<T>, is_many: bool, all: &mut Vec<Listed>) {
    all.push(Listed {
        name: table.name,
        is_many,
        keys: table.keys.iter().map(|row| row.entry()).collect(),
    });
    for nested in table.keys.iter().filter_map(|row| row.nested()) {
        add_section(nested, false, all);
        if nested.name == "order.components.target" {
            add_section(&components::GOAL, false, all);
        }
    }
}

impl Config {
    /// Reads the text of a `lanai.toml`. An empty text gives the defaults.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        read(text)
    }
}

/// Reads the whole file.
fn read(text: &str) -> Result<Config, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| ConfigError::syntax(text, &error))?;
    let root = Section::root(text, table.get_ref());
    let sections = listed().into_iter().map(|section| section.name);
    let top = sections.filter(|name| !name.contains('.'));
    root.refuse_unknown(&top.chain(["preset"]).collect::<Vec<_>>())?;
    let presets = OneOf(Preset::ALL);
    let preset = root.read("preset", &presets.wanted(), |value| presets.read(value))?;
    let mut config = Config::with_preset(preset.unwrap_or_default());
    read_resources(&mut config, &root)?;
    let resources = config.resources();
    read_objects(&mut config, &root, &resources)?;
    for table in ONCE {
        if let Some(section) = root.section(table.name)? {
            table.read(&mut config, &section, &resources)?;
        }
    }
    fairshare::check_default_account(&root, &config)?;
    starvation::check_accounts(
        &root,
        &config.policy.starvation,
        &config.policy.fair_share.accounts,
    )?;
    queue::check_routes(&root, &config.queues())?;
    for quality in config
        .policy
        .qualities
        .all
        .iter()
        .filter(|quality| quality.priority != 0)
    {
        let priorities = &mut config.policy.precedence.components.priorities.qos;
        let priority = quality.priority as f64;
        priorities.entry(quality.name.clone()).or_insert(priority);
    }
    Ok(config)
}

/// Reads the `[[resource]]` sections. They are read first, because other sections may use the
/// resources that they define.
fn read_resources(config: &mut Config, root: &Section) -> Result<(), ConfigError> {
    for row in RESOURCE.read_each(root, &Resources::builtin(), resource::blank)? {
        config.pools.extend(row.pool());
        config.meters.extend(row.meter());
        config.resources.push((row.name, row.definition));
    }
    Ok(())
}

/// Reads `[primetime]` and the sections that may occur several times, except `[[resource]]`.
fn read_objects(
    config: &mut Config,
    root: &Section,
    resources: &Resources,
) -> Result<(), ConfigError> {
    config.policy.fair_share.accounts = account::read_accounts(root, resources)?;
    config.hooks = HOOK.read_each(root, resources, Hook::blank)?;
    let windows = RESERVATION.read_each(root, resources, |_| ReservationRow::default())?;
    config.reservations = windows.into_iter().map(ReservationRow::window).collect();
    for section in root.sections("dedicated")? {
        let mut time = DedicatedConfig {
            from: NaiveDateTime::default(),
            to: NaiveDateTime::default(),
        };
        DEDICATED.read(&mut time, &section, resources)?;
        config.dedicated.push(time);
    }
    if let Some(section) = root.section("primetime")? {
        let mut hours = reservation::prime_hours();
        PRIME_TIME.read(&mut hours, &section, resources)?;
        config.primetime = Some(hours);
    }
    config.policy.qualities =
        qos::read_qualities(root, config.policy.qualities.clone(), resources)?;
    config.policy.precedence.qos = config.policy.qualities.factors();
    let blank = |name: &str| QueueConfig {
        queue: Queue::named(name),
        factor: None,
    };
    for row in QUEUE.read_each(root, resources, blank)? {
        let factor = row.factor.map(|factor| (row.queue.name.clone(), factor));
        config.policy.precedence.queues.extend(factor);
        config.queues.push(row.queue);
    }
    config.policy.limits = limit::read_limits(root, resources)?;
    config.limits_of_file = config.policy.limits.all.clone().into();
    config.nodes = NODE.read_each(root, resources, NodeConfig::unlisted)?;
    Ok(())
}
