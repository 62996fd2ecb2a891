//! The settings of sections that may occur several times: `[[resource]]`, `[[queue]]` and so on.

use super::{KeySetting, SettingOrigin, Source};
use crate::config::Config;
use crate::config::key::{Entry, Table};
use crate::config::kinds::write_resource_value;
use crate::config::overrides::{AttributeKey, Existence, QmgrObject};
use crate::config::sections::{
    ACCOUNT, DEDICATED, HOOK, LIMIT, LimitConfig, NODE, QOS, QUEUE, QueueConfig, RESERVATION,
    RESOURCE, ReservationRow, ResourceConfig,
};
use crate::model::limit::{Limit, LimitStage};
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Value;
use toml::de::DeTable;

/// The settings of all objects. Leaves out the hooks that still lack a command or an event, because
/// qmgr sets these one by one.
pub(super) fn settings(config: &Config, source: &Source) -> Vec<KeySetting> {
    let mut all = Vec::new();
    resources(config, source, &mut all);
    for queue in config.configured_queues() {
        let factor = config.policy.precedence.queues.get(&queue.name).copied();
        let object = source.named("queue", &queue.name);
        let target = QmgrObject::Queue(queue.name.clone());
        let mut row = QueueConfig { queue, factor };
        object.rows(
            &QUEUE,
            &mut row,
            |key| is_overridden(source, &target, key),
            &mut all,
        );
    }
    limits(config, source, &mut all);
    nodes(config, source, &mut all);
    collect_unchangeable(config, source, &mut all);
    for hook in &config.hooks {
        if hook.command.is_empty() || hook.occasions.is_empty() {
            continue;
        }
        let object = source.named("hook", &hook.name);
        let target = QmgrObject::Hook(hook.name.clone());
        object.rows(
            &HOOK,
            &mut hook.clone(),
            |key| is_overridden(source, &target, key),
            &mut all,
        );
    }
    all
}

/// An object, such as a queue, and its section in the file.
struct Object<'s> {
    section: &'static str,
    name: String,
    table: Option<&'s DeTable<'s>>,
    source: &'s Source<'s>,
}

impl<'s> Source<'s> {
    /// The object with this name. Its table is None if the file does not define the object.
    fn named(&'s self, section: &'static str, name: &str) -> Object<'s> {
        let mut tables = self.tables(section).into_iter();
        Object {
            section,
            name: name.to_string(),
            table: tables.find(|table| {
                let known = table.get("name").and_then(|known| known.get_ref().as_str());
                known == Some(name)
            }),
            source: self,
        }
    }

    /// An object without a name, displayed with `number`. `place` is the position of its section
    /// among the sections of this kind in the file; None if the file does not define the object.
    fn numbered(
        &'s self,
        section: &'static str,
        number: usize,
        place: Option<usize>,
    ) -> Object<'s> {
        Object {
            section,
            name: number.to_string(),
            table: place.and_then(|place| self.tables(section).get(place).copied()),
            source: self,
        }
    }
}

impl Object<'_> {
    /// Adds the keys that have values to `all`. `by_qmgr` returns whether qmgr set a key.
    fn rows<T>(
        &self,
        table: &'static Table<T>,
        object: &mut T,
        by_qmgr: impl Fn(&Entry) -> bool,
        all: &mut Vec<KeySetting>,
    ) {
        for row in table.keys {
            let entry = row.entry();
            if let Some(value) = row.value(object) {
                let names = [Some(entry.name), entry.alias];
                all.push(self.setting(entry.name.into(), value, &names, by_qmgr(entry)));
            }
        }
    }

    /// The setting of a key, which the file may set under any of these names.
    fn setting(
        &self,
        key: Cow<'static, str>,
        value: Value,
        names: &[Option<&str>],
        by_qmgr: bool,
    ) -> KeySetting {
        let names = names.iter().flatten();
        let mut lines = names.filter_map(|name| self.source.line(self.table?, "", name));
        let origin = if by_qmgr {
            SettingOrigin::Qmgr
        } else {
            lines
                .next()
                .map_or(SettingOrigin::Preset, SettingOrigin::Line)
        };
        KeySetting {
            section: self.section,
            name: Some(self.name.clone()),
            key,
            value: Some(value),
            origin,
        }
    }
}

/// Whether qmgr set or unset a key of an object, or created the object.
fn is_overridden(source: &Source, target: &QmgrObject, key: &Entry) -> bool {
    let overrides = source.overrides;
    let existence = overrides.of(target).map(|known| known.being);
    existence == Some(Existence::Created)
        || key
            .pbs
            .iter()
            .any(|name| overrides.sets_attribute(target, name))
}

fn resources(config: &Config, source: &Source, all: &mut Vec<KeySetting>) {
    for (name, definition) in &config.resources {
        let pool = config.pools.iter().find(|(known, _)| known == name);
        let meter = config.meters.iter().find(|(known, _)| known == name);
        let (pool, meter) = (pool.map(|(_, pool)| pool), meter.map(|(_, meter)| meter));
        let mut row = ResourceConfig::from_definition(name, definition, pool, meter);
        let target = QmgrObject::Resource(name.clone());
        let server = &QmgrObject::Server;
        let has_totals = source
            .overrides
            .sets_attribute(server, "resources_available");
        source.named("resource", name).rows(
            &RESOURCE,
            &mut row,
            |key| (has_totals && key.name == "total") || is_overridden(source, &target, key),
            all,
        );
    }
}

fn nodes(config: &Config, source: &Source, all: &mut Vec<KeySetting>) {
    for node in &config.nodes {
        let target = QmgrObject::Node(node.name.clone());
        let object = source.named("node", &node.name);
        object.rows(
            &NODE,
            &mut node.clone(),
            |key| match key.name {
                "name" => !node.is_listed,
                _ => is_overridden(source, &target, key),
            },
            all,
        );
        for (name, value) in &node.available {
            let key = AttributeKey {
                attribute: "resources_available".to_string(),
                resource: Some(name.clone()),
            };
            let by_qmgr = source.overrides.sets(&target, &key);
            let value = write_resource_value(value);
            all.push(object.setting(name.clone().into(), value, &[Some(name)], by_qmgr));
        }
    }
}

/// Adds the objects that qmgr cannot change.
fn collect_unchangeable(config: &Config, source: &Source, all: &mut Vec<KeySetting>) {
    for quality in &config.policy.qualities.all {
        let object = source.named("qos", &quality.name);
        object.rows(&QOS, &mut quality.clone(), |_| false, all);
    }
    for account in &config.policy.fair_share.accounts {
        let object = source.named("account", &account.name);
        object.rows(&ACCOUNT, &mut account.clone(), |_| false, all);
    }
    for window in &config.reservations {
        let object = source.named("reservation", &window.name);
        object.rows(
            &RESERVATION,
            &mut ReservationRow::from_reservation(window),
            |_| false,
            all,
        );
    }
    for (place, time) in config.dedicated.iter().enumerate() {
        let object = source.numbered("dedicated", place + 1, Some(place));
        object.rows(&DEDICATED, &mut time.clone(), |_| false, all);
    }
}

/// Adds each limit as an object of its own, even if one section of the file defines several limits.
/// `limits_of_file` contains the limits of all sections, in the order of the sections.
fn limits(config: &Config, source: &Source, all: &mut Vec<KeySetting>) {
    let mut of_file: Vec<(usize, &Limit)> = Vec::new();
    for (place, section) in source.tables("limit").into_iter().enumerate() {
        let others = config.limits_of_file.iter().skip(of_file.len());
        of_file.extend(
            others
                .take(limit_count(section))
                .map(|limit| (place, limit)),
        );
    }
    let resources = config.resources();
    for (number, limit) in config.policy.limits.all.iter().enumerate() {
        let found = of_file.iter().find(|(_, known)| *known == limit);
        let place = found.map(|(place, _)| *place);
        let object = source.numbered("limit", number + 1, place);
        let mut row = LimitConfig::from_limit(limit, &resources);
        object.rows(&LIMIT, &mut row, |_| place.is_none(), all);
    }
}

/// The number of limits that a section defines.
fn limit_count(section: &DeTable) -> usize {
    let mut count = 0;
    for (stage, _) in LimitStage::ALL {
        let hard = keys_of_table(section, stage);
        let soft = keys_of_table(section, &format!("{stage}_soft"));
        count += hard.union(&soft).count();
    }
    count
}

/// The keys of the table `key` in a section; empty if the section has no such table.
fn keys_of_table<'s>(section: &'s DeTable, key: &str) -> BTreeSet<&'s str> {
    let table = section
        .get(key)
        .and_then(|value| value.get_ref().as_table());
    let names = table.into_iter().flat_map(|table| table.keys());
    names.map(|name| name.get_ref().as_ref()).collect()
}
