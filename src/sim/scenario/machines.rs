//! `config` and `[[node]]` of a scenario. The reader of `lanai.toml` reads both, so they can have
//! the keys of `lanai.toml`, and errors are reported as for `lanai.toml`. `[[node]]` can also have
//! the keys `SCENARIO_KEYS`.

use super::{ScenarioNode, values};
use crate::config::document::{ConfigError, Section};
use crate::config::{Config, NodeConfig};
use crate::model::node::NodeFacts;
use crate::model::resource::ResourceValue;
use crate::sim::world::nodes::number;
use std::collections::{BTreeMap, BTreeSet};
use toml::de::DeValue;
use toml::{Table, Value as Toml};

/// Keys of a `[[node]]` that only scenarios have.
const SCENARIO_KEYS: &[&str] = &["count", "host", "state"];

/// The maximum value of `count`.
const MOST: usize = 100_000;

/// The configuration at the beginning, and the nodes.
pub struct Configured {
    /// The configuration at the beginning, as a table into which the `config` of events is merged.
    base: Table,
    /// The configuration at the beginning.
    pub config: Config,
    /// All nodes.
    pub nodes: Vec<ScenarioNode>,
}

impl Configured {
    pub fn read(root: &Section) -> Result<Configured, ConfigError> {
        let mut base = root.read("config", A_TABLE, table)?.unwrap_or_default();
        let refuse =
            |error: ConfigError| root.key_error("config", format!("in `config`: {}", error.text));
        let plain = parse(&base).map_err(refuse)?;
        let (mut nodes, mut tables) = (Vec::new(), Vec::new());
        for section in root.sections("node")? {
            let (machine, table) = node(&section, &base)?;
            for machine in copies(&section, machine)? {
                tables.push(Toml::Table(with_name(&table, &machine.facts.name)));
                nodes.push(machine);
            }
        }
        refuse_equal_names(root, &nodes)?;
        separate_devices(&mut nodes);
        // The nodes of the scenario replace the nodes in `config`, because only the nodes of the
        // scenario are simulated.
        let config = if nodes.is_empty() {
            plain
        } else {
            base.insert("node".to_string(), Toml::Array(tables));
            parse(&base).map_err(refuse)?
        };
        Ok(Configured {
            base,
            config,
            nodes,
        })
    }

    /// The configuration at the beginning, with the `config` of an event merged into it; None if
    /// the event has no `config`.
    pub fn with_config_of(&self, section: &Section) -> Result<Option<Config>, ConfigError> {
        let Some(over) = section.read("config", A_TABLE, table)? else {
            return Ok(None);
        };
        let mut whole = self.base.clone();
        merge(&mut whole, over);
        let refuse = |error: ConfigError| {
            section.key_error("config", format!("in `config`: {}", error.text))
        };
        parse(&whole).map(Some).map_err(refuse)
    }
}

const A_TABLE: &str = "a table with the contents of a lanai.toml, such as { preset = \"maui\" }";

fn parse(table: &Table) -> Result<Config, ConfigError> {
    Config::parse(&table.to_string())
}

fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Toml::Table(under)), Toml::Table(over)) => merge(under, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Copies a table; None if the value is not a table.
fn table(value: &DeValue) -> Option<Table> {
    match owned(value)? {
        Toml::Table(table) => Some(table),
        _ => None,
    }
}

fn owned(value: &DeValue) -> Option<Toml> {
    Some(match value {
        DeValue::String(text) => Toml::String(text.to_string()),
        DeValue::Integer(_) => Toml::Integer(values::whole(value)?),
        DeValue::Float(number) => Toml::Float(number.as_str().parse().ok()?),
        DeValue::Boolean(flag) => Toml::Boolean(*flag),
        DeValue::Datetime(moment) => Toml::Datetime(*moment),
        DeValue::Array(items) => Toml::Array(
            items
                .iter()
                .map(|item| owned(item.get_ref()))
                .collect::<Option<_>>()?,
        ),
        DeValue::Table(table) => {
            let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<_>)| {
                let key: &std::borrow::Cow<str> = key.get_ref();
                Some((key.to_string(), owned(value.get_ref())?))
            };
            Toml::Table(table.iter().map(entry).collect::<Option<_>>()?)
        }
    })
}

/// A node, and its `[[node]]` table for the configuration.
fn node(section: &Section, base: &Table) -> Result<(ScenarioNode, Table), ConfigError> {
    let mut settings = Table::new();
    for (key, value) in section.keys_except(SCENARIO_KEYS) {
        let value = owned(value.get_ref())
            .ok_or_else(|| section.refuse(key, value, "a value that is valid in lanai.toml"))?;
        settings.insert(key.to_string(), value);
    }
    let mut whole = base.clone();
    whole.insert(
        "node".to_string(),
        Toml::Array(vec![Toml::Table(settings.clone())]),
    );
    let config = parse(&whole).map_err(|error| section.section_error(error.text))?;
    let node = config
        .nodes
        .first()
        .ok_or_else(|| section.section_error("the section defines no node".to_string()))?;
    let host = section
        .read("host", "the name of a host", values::nonempty_text)?
        .unwrap_or_else(|| node.name.clone());
    let state = section
        .read("state", "\"free\", \"down\" or \"offline\"", state)?
        .unwrap_or((true, false));
    Ok((
        ScenarioNode {
            facts: facts(node, host),
            up: state.0,
            offline: state.1,
        },
        settings,
    ))
}

fn state(value: &DeValue) -> Option<(bool, bool)> {
    match value.as_str()? {
        "free" => Some((true, false)),
        "down" => Some((false, false)),
        "offline" => Some((true, true)),
        _ => None,
    }
}

fn facts(node: &NodeConfig, host: String) -> NodeFacts {
    let mut facts = NodeFacts {
        name: node.name.clone(),
        host,
        available: node.available.clone(),
        terms: node.terms.clone(),
        ..NodeFacts::default()
    };
    set_own_names(&mut facts);
    number(&mut facts, 0);
    facts.gpus = node.gpus(&facts.gpus);
    facts
}

/// Sets the resources `host` and `vnode` of a node.
fn set_own_names(facts: &mut NodeFacts) {
    facts.available.insert(
        "host".to_string(),
        ResourceValue::String(facts.host.clone()),
    );
    facts.available.insert(
        "vnode".to_string(),
        ResourceValue::String(facts.name.clone()),
    );
}

/// The nodes of a section. With the key `count`, the section stands for several equal nodes: their
/// names end with numbers from 1 on.
fn copies(section: &Section, machine: ScenarioNode) -> Result<Vec<ScenarioNode>, ConfigError> {
    let count = |value: &DeValue| values::whole(value).filter(|count| (1..=MOST).contains(count));
    let Some(count) = section.read("count", "a number of equal nodes, 1 to 100000", count)? else {
        return Ok(vec![machine]);
    };
    let own_host = machine.facts.host == machine.facts.name;
    let copy = |n: usize| {
        let mut copy = machine.clone();
        copy.facts.name = format!("{}{n}", machine.facts.name);
        copy.facts.host = if own_host {
            copy.facts.name.clone()
        } else {
            machine.facts.host.clone()
        };
        set_own_names(&mut copy.facts);
        copy
    };
    Ok((1..=count).map(copy).collect())
}

fn with_name(table: &Table, name: &str) -> Table {
    let mut table = table.clone();
    table.insert("name".to_string(), Toml::String(name.to_string()));
    table
}

fn refuse_equal_names(root: &Section, nodes: &[ScenarioNode]) -> Result<(), ConfigError> {
    let mut names = BTreeSet::new();
    match nodes
        .iter()
        .find(|machine| !names.insert(&machine.facts.name))
    {
        Some(twice) => Err(root.key_error(
            "node",
            format!(
                "two nodes are named `{}`: rename one of the nodes",
                twice.facts.name
            ),
        )),
        None => Ok(()),
    }
}

/// Renumbers processors and GPUs so that nodes on the same host have none in common.
fn separate_devices(nodes: &mut [ScenarioNode]) {
    let mut taken: BTreeMap<String, (u16, u16)> = BTreeMap::new();
    for machine in nodes {
        let (cpus, gpus) = taken.entry(machine.facts.host.clone()).or_default();
        machine
            .facts
            .cpus
            .iter_mut()
            .for_each(|cpu| *cpu = cpu.saturating_add(*cpus));
        machine
            .facts
            .gpus
            .iter_mut()
            .for_each(|gpu| *gpu = gpu.saturating_add(*gpus));
        *cpus = cpus.saturating_add(machine.facts.cpus.len() as u16);
        *gpus = gpus.saturating_add(machine.facts.gpus.len() as u16);
    }
}
