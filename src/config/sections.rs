//! The sections of `lanai.toml`, one reader each, and the kinds of values they hold.

mod charging;

mod components;

mod launch;

mod preempting;

mod hooks;

mod limits;

mod eligibility;
mod precedence;

pub(super) mod quality;

mod queue;

mod reserving;

mod scheduling;

mod sharing;

mod starvation;
mod suspending;

mod terms;

mod tiers;

pub(super) use precedence::unknown_name;

use super::document::Section;
use super::{
    Config, ConfigError, CycleConfig, HEAD, KEYS, LARGEST_SCRIPT_MB, NodeConfig, Person,
    ServerConfig, Workdir,
};
use crate::model::job::value_syntax;
use crate::model::limit::Limits;
use crate::model::policy::{Policy, Preset};
use crate::model::queue::Queue;
use crate::model::resource::{Definition, Kind, ResourceList, Resources, Size, Value, is_plain};
use crate::model::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// Reads the whole file.
pub(super) fn read(text: &str) -> Result<Config, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| ConfigError::syntax(text, &error))?;
    let root = Section::root(text, table.get_ref());
    root.only(
        &KEYS
            .iter()
            .map(|(section, _)| *section)
            .filter(|name| !name.contains('.'))
            .chain(HEAD.iter().copied())
            .collect::<Vec<_>>(),
    )?;
    let preset = root
        .read("preset", &one_of(Preset::ALL), by_name(Preset::named))?
        .unwrap_or_default();
    let Policy {
        backfill,
        placement,
        precedence,
        qualities,
        fair_share,
        usage,
        accrual,
        preemption,
        starvation,
        ..
    } = preset.policy();
    let mut config = Config {
        server: ServerConfig::default(),
        launch: match root.section("launch")? {
            Some(section) => launch::launch(&section, launch::preset(preset))?,
            None => launch::preset(preset),
        },
        cycle: cycle(root.section("cycle")?.as_ref(), preset)?,
        preset,
        accrual: root
            .section("order")?
            .map(|s| eligibility::accrual(&s))
            .transpose()?
            .flatten()
            .unwrap_or(accrual),
        backfill: root
            .section("backfill")?
            .map(|s| scheduling::backfill(&s, &backfill))
            .transpose()?
            .unwrap_or(backfill),
        placement: root
            .section("placement")?
            .map(|s| scheduling::placement(&s, &placement))
            .transpose()?
            .unwrap_or(placement),
        preemption: root
            .section("preemption")?
            .map(|s| preempting::preemption(&s, &preemption))
            .transpose()?
            .unwrap_or(preemption),
        fair_share: sharing::fair_share(&root, fair_share)?,
        usage,
        queues: Vec::new(),
        starvation,
        limits: Limits::default(),
        limits_of_file: Arc::default(),
        resources: each(&root, "resource", resource)?,
        pools: each(&root, "resource", terms::of_resource)?
            .into_iter()
            .flatten()
            .collect(),
        meters: each(&root, "resource", terms::meter_of_resource)?
            .into_iter()
            .flatten()
            .collect(),
        hooks: each(&root, "hook", hooks::hook)?,
        reservations: each(&root, "reservation", reserving::reservation)?,
        dedicated: root
            .sections("dedicated")?
            .iter()
            .map(reserving::dedicated)
            .collect::<Result<_, _>>()?,
        primetime: root
            .section("primetime")?
            .map(|s| reserving::primetime(&s))
            .transpose()?,
        releases: Default::default(),
        nodes: Vec::new(),
        precedence,
        qualities: quality::qualities(&root, qualities)?,
        kept: BTreeMap::new(),
    };
    read_with_resources(&mut config, &root)?;
    Ok(config)
}

/// What speaks of resources, once all are known.
fn read_with_resources(config: &mut Config, root: &Section) -> Result<(), ConfigError> {
    let resources = config.resources();
    config.server = root
        .section("server")?
        .map(|section| server(&section, &resources))
        .transpose()?
        .unwrap_or_default();
    config.queues = each(root, "queue", |section| queue::queue(section, &resources))?;
    queue::check_routes(root, &config.queues())?;
    starvation::amounts(root, &mut config.fair_share.accounts, &resources)?;
    config.starvation = starvation::starvation(root, &config.starvation, &resources)?;
    starvation::check_pools(root, &config.starvation, &config.fair_share.accounts)?;
    config.limits = limits::limits(root, &resources)?;
    config.limits_of_file = config.limits.all.clone().into();
    config.precedence.qos = config.qualities.factors();
    config.precedence.queues = root
        .sections("queue")?
        .iter()
        .filter_map(|s| precedence::factor(s).transpose())
        .collect::<Result<_, _>>()?;
    if let Some(section) = root.section("usage")? {
        config.usage = charging::usage(&section, config.usage.clone(), &resources)?;
    }
    if let Some(section) = root.section("order")? {
        config.precedence = precedence::precedence(&section, &config.precedence, &resources)?;
    }
    for quality in config
        .qualities
        .all
        .iter()
        .filter(|quality| quality.priority != 0)
    {
        let priorities = &mut config.precedence.components.priorities.qos;
        priorities
            .entry(quality.name.clone())
            .or_insert(quality.priority as f64);
    }
    config.nodes = each(root, "node", |section| node(section, &resources))?;
    if let Some(section) = root.section("preemption")? {
        config.releases = suspending::releases(&section, &resources)?;
    }
    Ok(())
}

/// Reads every `[[kind]]`; no two may have the same name.
fn each<T>(
    root: &Section,
    kind: &str,
    read: impl Fn(&Section) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for section in root.sections(kind)? {
        all.push(read(&section)?);
        let name = section.require("name", "a name", text)?;
        if !names.insert(name.clone()) {
            let said = format!("there are two [[{kind}]] named `{name}`: remove one or rename it");
            return Err(section.wrong_at("name", said));
        }
    }
    Ok(all)
}

pub(super) fn keys(section: &str) -> &'static [&'static str] {
    KEYS.iter()
        .find(|(name, _)| *name == section)
        .map_or(&[], |(_, keys)| keys)
}

fn server(section: &Section, resources: &Resources) -> Result<ServerConfig, ConfigError> {
    section.only(keys("server"))?;
    let default = ServerConfig::default();
    let people = |key| {
        section.read(
            key,
            "a list of \"user\", \"user@host\" or \"*\"",
            list(person),
        )
    };
    let queue = section.read("default_queue", NAME_OF_QUEUE, queue_name)?;
    let history = section.read("history", "a time, as \"90d\"", span)?;
    let accounting = section.read("accounting", "a time, as \"400d\"", span)?;
    let history = history.unwrap_or(default.history);
    let workdir = section.read("workdir", "\"submit\" or \"home\"", workdir)?;
    let script = section.read(
        "jobscript_max_size",
        "a size, as \"1mb\", of at most 16mb",
        script_size,
    )?;
    Ok(ServerConfig {
        name: section.read(
            "name",
            "a host name: letters, digits, `-`, `_` and `.`",
            host_name,
        )?,
        default_queue: queue.unwrap_or(default.default_queue),
        query_other_jobs: section
            .read("query_other_jobs", BOOLEAN, boolean)?
            .unwrap_or(default.query_other_jobs),
        default_qsub_arguments: section
            .read("default_qsub_arguments", A_LINE, one_line)?
            .unwrap_or_default(),
        operators: people("operators")?.unwrap_or_default(),
        managers: people("managers")?.unwrap_or_default(),
        history,
        accounting: accounting.unwrap_or(default.accounting).max(history),
        workdir: workdir.unwrap_or(default.workdir),
        jobscript_max_size: script.unwrap_or(default.jobscript_max_size),
        max_array_size: section.read(
            "max_array_size",
            "a number of elements from 1 on",
            from_one,
        )?,
        reserving: reserving::bounds(section)?,
        refuse_impossible: section
            .read("refuse_impossible", BOOLEAN, boolean)?
            .unwrap_or(default.refuse_impossible),
        defaults: queue::amounts(section, "resources_default", resources)?,
        chunk_defaults: queue::amounts(section, "default_chunk", resources)?,
        most: queue::amounts(section, "resources_max", resources)?,
        shared: section
            .read("shared", BOOLEAN, boolean)?
            .unwrap_or(default.shared),
        idle: section
            .read("idle", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(default.idle),
        min_uid: section
            .read("min_uid", "a user number from 0 on", whole)?
            .unwrap_or(default.min_uid),
        mailer: section.read(
            "mailer",
            "the absolute path of a program, or \"\" for no mail",
            absolute_or_none,
        )?,
        mail_from: section.read(
            "mail_from",
            "a name without blanks, as \"lanai\" or \"lanai@head\"",
            sender,
        )?,
        notify: section.read("notify", AN_ABSOLUTE_PROGRAM, absolute)?,
    })
}

fn cycle(section: Option<&Section>, preset: Preset) -> Result<CycleConfig, ConfigError> {
    let default = CycleConfig {
        poll_interval: preset.poll_interval(),
        ..CycleConfig::default()
    };
    let Some(section) = section else {
        return Ok(default);
    };
    section.only(keys("cycle"))?;
    let interval = section.read("poll_interval", A_SECOND_OR_MORE, span_from_a_second)?;
    let walltime = section.read("default_walltime", A_SECOND_OR_MORE, span_from_a_second)?;
    Ok(CycleConfig {
        scheduling: section
            .read("scheduling", BOOLEAN, boolean)?
            .unwrap_or(default.scheduling),
        poll_interval: interval.unwrap_or(default.poll_interval),
        default_walltime: walltime.unwrap_or(default.default_walltime),
        record: section
            .read(
                "record",
                "the absolute path of a file, or \"\" for none",
                absolute_or_none,
            )?
            .filter(|path| path.is_absolute()),
        record_size: section
            .read("record_size", "a size, as \"64mb\"", size)?
            .unwrap_or(default.record_size),
    })
}

fn resource(section: &Section) -> Result<(String, Definition), ConfigError> {
    section.only(keys("resource"))?;
    let wanted = "a letter, then letters, digits, `-` and `_`";
    let name = section.require("name", wanted, resource_name)?;
    if Resources::builtin().get(&name).is_some() || keys("node").contains(&name.as_str()) {
        return Err(section.wrong_at("name", format!("`{name}` is built in: choose another name")));
    }
    let kind = section.require(
        "type",
        "\"long\", \"size\", \"time\", \"float\", \"boolean\" or \"string\"",
        kind,
    )?;
    let consumable = section
        .read("consumable", BOOLEAN, boolean)?
        .unwrap_or(false);
    let host_level = section
        .read("host_level", BOOLEAN, boolean)?
        .unwrap_or(true);
    if consumable && !matches!(kind, Kind::Long | Kind::Size | Kind::Float) {
        let said = format!(
            "only `long`, `float` and `size` can be counted: give `{name}` one of them, or consumable = false"
        );
        return Err(section.wrong_at("consumable", said));
    }
    Ok((
        name,
        Definition {
            kind,
            host_level,
            consumable,
            requestable: true,
        },
    ))
}

fn node(section: &Section, resources: &Resources) -> Result<NodeConfig, ConfigError> {
    let wanted = "the absolute path of a socket";
    Ok(NodeConfig {
        name: section.require(
            "name",
            "a node name: letters, digits, `-`, `_` and `.`",
            host_name,
        )?,
        socket: section.read("socket", wanted, absolute)?,
        available: available(section, resources)?,
        terms: terms::of_node(section)?,
        gpus: section.read("gpus", NUMBERS, numbers)?,
        exclude_gpus: section
            .read("exclude_gpus", NUMBERS, numbers)?
            .unwrap_or_default(),
        is_listed: true,
    })
}

/// The resources among the keys of a `[[node]]`.
fn available(section: &Section, resources: &Resources) -> Result<ResourceList, ConfigError> {
    let own = keys("node");
    let settable = |(name, d): &(&str, &Definition)| {
        d.host_level && d.requestable && !["host", "vnode"].contains(name)
    };
    let names: Vec<&str> = resources
        .iter()
        .filter(settable)
        .map(|(name, _)| name)
        .collect();
    let mut available = ResourceList::new();
    for (key, value) in section.rest(own) {
        let definition = names.contains(&key).then(|| resources.get(key)).flatten();
        let definition =
            definition.ok_or_else(|| section.unknown(key, &[own, names.as_slice()].concat()))?;
        let amount = resource_value(definition.kind, value.get_ref());
        available.insert(
            key.to_string(),
            amount.ok_or_else(|| section.refuse(key, value, wanted(definition.kind)))?,
        );
    }
    Ok(available)
}

// ---------------------------------------------------------------- kinds of values

pub(super) const BOOLEAN: &str = "true or false";
pub(super) const A_SECOND_OR_MORE: &str = "a time of a second or more, as \"10m\" or \"1:00:00\"";
pub(super) const A_PROGRAM: &str =
    "the absolute path of a program, the name of one in PATH, or \"none\"";
pub(super) const AN_ABSOLUTE_PROGRAM: &str = "the absolute path of a program";
const NUMBERS: &str = "a list of numbers from 0 on, each once, as [0, 1]";
const NAME_OF_QUEUE: &str =
    "the name of a queue: a letter or digit, then letters, digits, `-`, `_` and `.`, at most 15";

fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Time => "a time, as \"1:00:00\"",
        Kind::Size => "a size, as \"8gb\"",
        Kind::Long => "a whole number from 0 on",
        Kind::Float => "a number from 0 on",
        Kind::Boolean => BOOLEAN,
        Kind::String => "a text",
    }
}

pub(super) fn text(value: &DeValue) -> Option<String> {
    value.as_str().map(str::to_string)
}

pub(super) fn boolean(value: &DeValue) -> Option<bool> {
    value.as_bool()
}

pub(super) fn whole<N: TryFrom<i64>>(value: &DeValue) -> Option<N> {
    let number = value.as_integer()?;
    N::try_from(i64::from_str_radix(number.as_str(), number.radix()).ok()?).ok()
}

pub(super) fn from_one(value: &DeValue) -> Option<u32> {
    whole(value).filter(|&number| number > 0)
}

/// What `humantime` reads (`90d`, `1h 30m`), or `HH:MM:SS`.
pub(super) fn span(value: &DeValue) -> Option<Span> {
    let text = value.as_str()?;
    if text.contains(':') {
        return Span::parse(text);
    }
    let length = humantime::parse_duration(text).ok()?;
    i64::try_from(length.as_millis()).ok().map(Span)
}

pub(super) fn span_from_a_second(value: &DeValue) -> Option<Span> {
    span(value).filter(|length| *length >= Span::seconds(1))
}

pub(super) fn span_above_zero(value: &DeValue) -> Option<Span> {
    span(value).filter(|length| *length > Span(0))
}

fn size(value: &DeValue) -> Option<Size> {
    Size::parse(value.as_str()?)
}

fn script_size(value: &DeValue) -> Option<Size> {
    Size::parse(value.as_str()?)
        .filter(|size| size.bytes() <= Size::megabytes(LARGEST_SCRIPT_MB).bytes())
}

fn workdir(value: &DeValue) -> Option<Workdir> {
    match value.as_str()? {
        "submit" => Some(Workdir::Submit),
        "home" => Some(Workdir::Home),
        _ => None,
    }
}

/// A policy by its name.
pub(super) fn by_name<T>(named: fn(&str) -> Option<T>) -> impl Fn(&DeValue) -> Option<T> {
    move |value| named(value.as_str()?)
}

/// The names a policy may have, for a refusal.
pub(super) fn one_of<T>(all: &[(&str, T)]) -> String {
    let names: Vec<String> = all.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn kind(value: &DeValue) -> Option<Kind> {
    let name = value.as_str()?;
    let kinds = [
        ("time", Kind::Time),
        ("size", Kind::Size),
        ("long", Kind::Long),
        ("float", Kind::Float),
        ("boolean", Kind::Boolean),
        ("string", Kind::String),
    ];
    kinds
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, kind)| kind)
}

pub(super) fn list<T>(read: fn(&DeValue) -> Option<T>) -> impl Fn(&DeValue) -> Option<Vec<T>> {
    move |value| {
        value
            .as_array()?
            .iter()
            .map(|item| read(item.get_ref()))
            .collect()
    }
}

pub(super) fn person(value: &DeValue) -> Option<Person> {
    Person::parse(value.as_str()?)
}

fn host_name(value: &DeValue) -> Option<String> {
    text(value).filter(|name| !name.is_empty() && name.len() <= 255 && name.chars().all(is_plain))
}

fn queue_name(value: &DeValue) -> Option<String> {
    text(value).filter(|name| Queue::is_name(name))
}

fn resource_name(value: &DeValue) -> Option<String> {
    text(value).filter(|name| Resources::is_name(name))
}

/// An absolute path, or nothing.
fn absolute_or_none(value: &DeValue) -> Option<PathBuf> {
    text(value)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() || path.as_os_str().is_empty())
}

const A_LINE: &str = "options on one line, as \"-r n -m n\"";

fn one_line(value: &DeValue) -> Option<String> {
    text(value).filter(|text| value_syntax::is_line(text))
}

fn sender(value: &DeValue) -> Option<String> {
    let plain = |name: &String| {
        !name.starts_with('-') && !name.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    text(value).filter(|name| !name.is_empty() && plain(name))
}

/// Numbers of devices, each once.
fn numbers(value: &DeValue) -> Option<Vec<u16>> {
    let numbers: Vec<u16> = list(whole)(value)?;
    let distinct: BTreeSet<u16> = numbers.iter().copied().collect();
    (distinct.len() == numbers.len()).then_some(numbers)
}

pub(super) fn program(value: &DeValue) -> Option<PathBuf> {
    let is_name = |path: &PathBuf| !path.as_os_str().is_empty() && path.components().count() == 1;
    text(value)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() || is_name(path))
}

pub(super) fn absolute(value: &DeValue) -> Option<PathBuf> {
    text(value)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// A resource's value, written as TOML's own kind or as PBS's text; nothing below zero.
fn resource_value(kind: Kind, value: &DeValue) -> Option<Value> {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(_) => whole::<i64>(value)?.to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => return None,
    };
    Value::parse(kind, &text).filter(|value| match value {
        Value::Long(number) => *number >= 0,
        Value::Float(number) => *number >= 0.0,
        _ => true,
    })
}
