//! What holds in the end: every key with its value, and where that comes from. Written
//! down it is a `lanai.toml` again, which means the same whatever the presets are.

mod components;

mod hooks;

mod launch;

mod nodes;

mod objects;

mod people;

mod preempting;

mod server;

mod starvation;

mod windows;

use super::Config;
use crate::config::overrides::{QmgrObject, QmgrOverrides};
use crate::model::account::charge::UsageRules;
use crate::model::account::decay::Decay;
use crate::model::expression::Expression;
use crate::model::policy::components::Kind;
use crate::model::policy::{Backfill, FACTORS, FairShare, Placement};
use crate::model::resource::{self, ResourceList};
use crate::model::time::Span;
use chrono::Weekday;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The file does not say: the preset does, or what all presets have in common.
    Preset,
    /// This line of the file, from 1.
    Line(usize),
    /// `qmgr`, which stands above the file.
    Qmgr,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// `order.weights`; empty for what stands before the first section.
    pub section: &'static str,
    /// Of sections of which there may be many: which; of limits the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `wait_time`.
    pub key: Cow<'static, str>,
    /// As the file may hold it; None for what is not set and has no other value.
    pub value: Option<Value>,
    /// Where it comes from.
    pub origin: Origin,
}

impl Setting {
    /// `[order] by`, `[[queue]] gpu enabled`.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("[[{}]] {name} {}", self.section, self.key),
            None => format!("[{}] {}", self.section, self.key),
        }
    }
}

/// The sections told of that stand once, in this order.
pub const SECTIONS: [&str; 19] = [
    "server",
    "launch",
    "cycle",
    "order",
    "order.weights",
    "order.components",
    "order.components.credential",
    "order.components.fair_share",
    "order.components.resource",
    "order.components.service",
    "order.components.target",
    "order.components.usage",
    "fairshare",
    "usage",
    "backfill",
    "placement",
    "preemption",
    "preemption.starvation",
    "primetime",
];

/// All settings of a configuration that was read from `text`, and then was amended.
pub fn resolved(config: &Config, text: &str, amendments: &QmgrOverrides) -> Vec<Setting> {
    let table = DeTable::parse(text).ok();
    let table = table.as_ref().map(|table| table.get_ref());
    let preset = ("preset", Some(config.preset.name().into()));
    let mut all = vec![setting("", preset, table, text)];
    for section in SECTIONS {
        all.extend(
            values(config, section)
                .into_iter()
                .map(|known| setting(section, known, table, text)),
        );
    }
    for setting in all
        .iter_mut()
        .filter(|setting| is_said(amendments, setting.section, &setting.key))
    {
        setting.origin = Origin::Qmgr;
    }
    for object in objects::objects(config, table, amendments) {
        let own = object
            .table
            .and_then(|place| objects::tables(table, object.section).get(place).copied());
        all.extend(object.keys.into_iter().map(|said| {
            let names = [&*said.key, nodes::attribute(&said.key)];
            let line = || {
                names
                    .into_iter()
                    .find_map(|name| line(own?, "", name, text))
            };
            let origin = if said.by_qmgr {
                Origin::Qmgr
            } else {
                line().map_or(Origin::Preset, Origin::Line)
            };
            let (name, value) = (Some(object.name.clone()), Some(said.value));
            Setting {
                section: object.section,
                name,
                key: said.key,
                value,
                origin,
            }
        }));
    }
    all
}

/// Whether `qmgr` has said a key of a section that stands once.
fn is_said(amendments: &QmgrOverrides, section: &str, key: &str) -> bool {
    let attribute = match (section, key) {
        ("server", "history") => {
            let duration = amendments.says_of(&QmgrObject::Server, "job_history_duration");
            return duration || amendments.says_of(&QmgrObject::Server, "job_history_enable");
        }
        ("server", key) => key,
        ("cycle", "scheduling") => "scheduling",
        ("cycle", "poll_interval") => "scheduler_iteration",
        ("backfill", "depth") => "backfill_depth",
        ("order", "by" | "formula") => "job_sort_formula",
        ("order", "formula_threshold") => "job_sort_formula_threshold",
        ("preemption", "releases") => "restrict_res_to_release_on_suspend",
        ("preemption", "express") => {
            return amendments.says_of(&QmgrObject::Sched, "preempt_queue_prio");
        }
        ("preemption", "levels") => return amendments.says_of(&QmgrObject::Sched, "preempt_prio"),
        ("preemption", "action") => return amendments.says_of(&QmgrObject::Sched, "preempt_order"),
        ("preemption", "victims") => return amendments.says_of(&QmgrObject::Sched, "preempt_sort"),
        _ => return false,
    };
    amendments.says_of(&QmgrObject::Server, attribute)
}

/// A key of the file's, and its value.
type Known = (&'static str, Option<Value>);

fn setting(
    section: &'static str,
    (key, value): Known,
    table: Option<&DeTable>,
    text: &str,
) -> Setting {
    let origin = table
        .and_then(|table| line(table, section, key, text))
        .map_or(Origin::Preset, Origin::Line);
    Setting {
        section,
        name: None,
        key: key.into(),
        value,
        origin,
    }
}

/// The line that sets a key.
fn line(table: &DeTable, section: &str, key: &str, text: &str) -> Option<usize> {
    let mut table = table;
    for name in section.split('.').filter(|name| !name.is_empty()) {
        table = match table.get(name)?.get_ref() {
            DeValue::Table(below) => below,
            _ => return None,
        };
    }
    let (key, _) = table.get_key_value(key)?;
    Some(
        1 + text
            .as_bytes()
            .iter()
            .take(key.span().start)
            .filter(|byte| **byte == b'\n')
            .count(),
    )
}

fn values(config: &Config, section: &str) -> Vec<Known> {
    let kind = section
        .strip_prefix("order.components.")
        .and_then(Kind::named);
    if let Some(kind) = kind {
        return components::component(&config.precedence.components, kind);
    }
    match section {
        "server" => server::server(&config.server),
        "launch" => launch::launch(&config.launch),
        "primetime" => launch::primetime(config.primetime.as_ref()),
        "cycle" => cycle(config),
        "order" => order(config),
        "order.weights" => weights(config),
        "order.components" => components::whole(&config.precedence.components),
        "fairshare" => fair_share(&config.fair_share),
        "usage" => usage(&config.usage),
        "backfill" => backfill(&config.backfill),
        "preemption" => preempting::preemption(&config.policy().preemption),
        "preemption.starvation" => starvation::starvation(&config.starvation),
        _ => placement(&config.placement),
    }
}

fn cycle(config: &Config) -> Vec<Known> {
    let cycle = &config.cycle;
    let record = cycle
        .record
        .as_ref()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    vec![
        ("scheduling", Some(cycle.scheduling.into())),
        ("poll_interval", Some(span(cycle.poll_interval))),
        ("default_walltime", Some(span(cycle.default_walltime))),
        ("record", Some(record.into())),
        ("record_size", Some(cycle.record_size.to_string().into())),
    ]
}

fn order(config: &Config) -> Vec<Known> {
    let (rule, own_say) = (&config.precedence, &config.precedence.own_say);
    vec![
        ("by", Some(rule.order.name().into())),
        ("formula", rule.formula.as_ref().map(written)),
        ("formula_threshold", rule.threshold.map(Value::from)),
        ("accrual", Some(config.accrual.name().into())),
        ("update_period", Some(span(rule.update_period))),
        ("lexicographic", Some(rule.lexicographic.into())),
        ("turns", Some(rule.tiers.turns.name().into())),
        ("max_starve", rule.tiers.max_starve.map(span)),
        ("user_priority", Some(own_say.user_priority.name().into())),
        (
            "highest_user_priority",
            own_say
                .highest_user_priority
                .map(|most| i64::from(most).into()),
        ),
        ("lowest_is_best", Some(own_say.lowest_is_best.into())),
        (
            "user_factor_ratchet",
            Some(own_say.user_factor_ratchet.into()),
        ),
    ]
}

fn weights(config: &Config) -> Vec<Known> {
    let rule = &config.precedence;
    let weights = FACTORS
        .iter()
        .map(|row| (row.name, Some(rule.weights[row.factor].into())));
    let measures = [
        ("max_wait", Some(span(rule.max_wait))),
        ("favor", Some(rule.favor.name().into())),
        ("slowdown_cap", Some(rule.slowdown_cap.into())),
    ];
    weights.chain(measures).collect()
}

fn fair_share(rule: &FairShare) -> Vec<Known> {
    vec![
        ("method", Some(rule.method.name().into())),
        ("subject", Some(rule.subject.name().into())),
        ("ties", Some(rule.ties.name().into())),
        ("distance", Some(rule.distance.name().into())),
        (
            "default_account",
            rule.default_account.clone().map(Value::from),
        ),
    ]
}

fn usage(rules: &UsageRules) -> Vec<Known> {
    let (name, half_life, windows) = match rules.decay {
        Decay::None => ("none", None, None),
        Decay::Step { half_life } => ("step", Some(half_life), None),
        Decay::Continuous { half_life } => ("continuous", Some(half_life), None),
        Decay::Window {
            length,
            count,
            factor,
        } => ("window", None, Some((length, count, factor))),
    };
    let counts = &rules.weights;
    let weights = [
        ("cores", counts.cores),
        ("gpus", counts.gpus),
        ("mem", counts.mem),
        ("nodes", counts.nodes),
    ];
    let others = counts
        .resources
        .iter()
        .map(|(name, weight)| (name.as_str(), *weight));
    vec![
        ("decay", Some(name.into())),
        ("half_life", half_life.map(span)),
        ("window", windows.map(|(length, ..)| span(length))),
        (
            "windows",
            windows.map(|(_, count, _)| i64::from(count).into()),
        ),
        ("factor", windows.map(|(.., factor)| factor.into())),
        ("reset", Some(rules.reset.map_or("never".into(), span))),
        (
            "weights",
            Some(table(
                weights
                    .into_iter()
                    .chain(others)
                    .map(|(name, weight)| (name, weight.into())),
            )),
        ),
    ]
}

fn backfill(rule: &Backfill) -> Vec<Known> {
    let depth = if rule.depth == Backfill::ALL {
        "all".into()
    } else {
        i64::from(rule.depth).into()
    };
    let group = |group: &crate::model::policy::Group| {
        table([
            ("qos", group.qos.clone().into()),
            ("depth", i64::from(group.depth).into()),
        ])
    };
    vec![
        ("policy", Some(rule.policy.name().into())),
        ("order", Some(rule.order.name().into())),
        ("metric", Some(rule.metric.name().into())),
        ("depth", Some(depth)),
        ("keep", Some(rule.keep.name().into())),
        ("consider", Some(i64::from(rule.consider).into())),
        (
            "chunk_size",
            rule.chunk.map(|chunk| i64::from(chunk.size).into()),
        ),
        (
            "chunk_duration",
            rule.chunk.map(|chunk| span(chunk.duration)),
        ),
        (
            "groups",
            Some(rule.groups.iter().map(group).collect::<Vec<Value>>().into()),
        ),
    ]
}

fn placement(rule: &Placement) -> Vec<Known> {
    let each = rule
        .availabilities
        .iter()
        .map(|(name, one)| (name.as_str(), one.name().into()));
    let availability = match rule.availabilities.is_empty() {
        true => rule.availability.name().into(),
        false => table(each.chain([("default", rule.availability.name().into())])),
    };
    let sets = rule.sets.as_ref().map(|sets| {
        let delay = sets.delay.map(|delay| ("delay", span(delay)));
        let known = [
            ("choice", sets.choice.name().into()),
            ("by", sets.by.clone().into()),
        ];
        table(
            known
                .into_iter()
                .chain([("values", sets.values.clone().into())])
                .chain(delay),
        )
    });
    vec![
        ("availability", Some(availability)),
        ("allocation", Some(rule.allocation.name().into())),
        ("rank", rule.rank.as_ref().map(written)),
        (
            "program",
            rule.program
                .as_ref()
                .map(|path| path.display().to_string().into()),
        ),
        ("program_timeout", rule.program_timeout.map(span)),
        ("distribution", Some(rule.distribution.name().into())),
        ("access", Some(rule.access.name().into())),
        ("sets", sets),
        ("veto", rule.veto.as_ref().map(written)),
    ]
}

fn table<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    Value::Table(
        entries
            .into_iter()
            .map(|(key, value)| (key.to_string(), value))
            .collect::<Table>(),
    )
}

fn written(expression: &Expression) -> Value {
    expression.text().into()
}

/// A list of names; None for an empty one.
fn list(names: &[String]) -> Option<Value> {
    (!names.is_empty()).then(|| names.to_vec().into())
}

fn days(days: &[Weekday]) -> Value {
    days.iter()
        .map(|day| day.to_string().to_lowercase().into())
        .collect::<Vec<Value>>()
        .into()
}

fn amount(value: &resource::Value) -> Value {
    match value {
        resource::Value::Long(number) => (*number).into(),
        resource::Value::Float(number) => (*number).into(),
        resource::Value::Boolean(flag) => (*flag).into(),
        other => other.to_string().into(),
    }
}

/// A list of resources; None for an empty one.
fn amounts(list: &ResourceList) -> Option<Value> {
    let entries = list
        .iter()
        .map(|(name, value)| (name.as_str(), amount(value)));
    (!list.is_empty()).then(|| table(entries))
}

/// In the largest unit of which there is a whole number.
fn span(span: Span) -> Value {
    let units = [
        ("d", 24 * 3600 * 1000),
        ("h", 3600 * 1000),
        ("m", 60 * 1000),
        ("s", 1000),
    ];
    let whole = units
        .into_iter()
        .find(|(_, length)| span.0 != 0 && span.0 % length == 0);
    match whole {
        Some((unit, length)) => format!("{}{unit}", span.0 / length).into(),
        None if span.0 == 0 => "0s".into(),
        None => format!("{}ms", span.0).into(),
    }
}

/// The settings as a `lanai.toml`, each with a remark on where it comes from.
pub struct Written<'s>(pub &'s [Setting]);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let text = |setting: &Setting| match &setting.value {
            Some(value) => format!("{} = {value}", setting.key),
            None => format!("# {} is not set", setting.key),
        };
        let lines: Vec<String> = self.0.iter().map(text).collect();
        let width = lines
            .iter()
            .map(|line| line.chars().count())
            .filter(|width| *width <= WIDEST)
            .max()
            .unwrap_or(0);
        let (mut section, mut mark) = (("", None), "");
        for (setting, line) in self.0.iter().zip(&lines) {
            if (setting.section, setting.name.as_deref()) != section {
                section = (setting.section, setting.name.as_deref());
                // Who writes down the qualities of service there are anyway says that there are no
                // others.
                mark = if setting.section == "qos" && setting.origin == Origin::Preset {
                    "# "
                } else {
                    ""
                };
                match setting.name {
                    Some(_) => writeln!(f, "\n{mark}[[{}]]", setting.section)?,
                    None => writeln!(f, "\n{mark}[{}]", setting.section)?,
                }
            }
            f.write_str(mark)?;
            match setting.origin {
                Origin::Qmgr => writeln!(f, "{line:<width$}  # qmgr")?,
                Origin::Line(number) => writeln!(f, "{line:<width$}  # line {number}")?,
                Origin::Preset if setting.value.is_none() => writeln!(f, "{line}")?,
                Origin::Preset => writeln!(f, "{line:<width$}  # preset")?,
            }
        }
        Ok(())
    }
}

/// Longer lines do not move the remarks of others.
const WIDEST: usize = 60;

#[cfg(test)]
mod tests;
