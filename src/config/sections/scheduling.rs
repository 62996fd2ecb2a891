//! `[backfill]` and `[placement]`: how the scheduler decides. What a section does not say, its
//! preset does.

use super::{
    A_SECOND_OR_MORE, by_name, from_one, keys, list, one_of, program, span_from_a_second, text,
    whole,
};
use crate::config::ConfigError;
use crate::config::document::{Section, entry};
use crate::model::expression::Expression;
use crate::model::policy::{
    Availability, Backfill, Chunk, FillOrder, Filling, Group, Keep, Metric, NodeSets, Placement,
    SetChoice,
};
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use std::collections::BTreeMap;
use toml::de::DeValue;

/// `[backfill]`.
pub fn backfill(section: &Section, preset: &Backfill) -> Result<Backfill, ConfigError> {
    section.only(keys("backfill"))?;
    let preset = preset.clone();
    Ok(Backfill {
        policy: named(section, "policy", Filling::ALL, Filling::named)?.unwrap_or(preset.policy),
        order: named(section, "order", FillOrder::ALL, FillOrder::named)?.unwrap_or(preset.order),
        metric: named(section, "metric", Metric::ALL, Metric::named)?.unwrap_or(preset.metric),
        depth: section.read("depth", DEPTH, depth)?.unwrap_or(preset.depth),
        keep: named(section, "keep", Keep::ALL, Keep::named)?.unwrap_or(preset.keep),
        consider: section
            .read("consider", "a whole number, 0 for all", whole)?
            .unwrap_or(preset.consider),
        chunk: chunk(section)?.or(preset.chunk),
        groups: section
            .read("groups", GROUPS, list(group))?
            .unwrap_or(preset.groups),
    })
}

/// `[placement]`.
pub fn placement(section: &Section, preset: &Placement) -> Result<Placement, ConfigError> {
    section.only(keys("placement"))?;
    let preset = preset.clone();
    let availability = section.read("availability", AVAILABILITY, availability)?;
    let (whole, each) = availability.unwrap_or((preset.availability, preset.availabilities));
    Ok(Placement {
        availability: whole,
        availabilities: each,
        allocation: named(
            section,
            "allocation",
            NodeAllocation::ALL,
            NodeAllocation::named,
        )?
        .unwrap_or(preset.allocation),
        rank: expression(
            section,
            "rank",
            "an expression over what is known of a node",
        )?
        .or(preset.rank),
        program: section
            .read("program", "the absolute path of a program", program)?
            .or(preset.program),
        program_timeout: section
            .read("program_timeout", A_SECOND_OR_MORE, span_from_a_second)?
            .or(preset.program_timeout),
        distribution: named(
            section,
            "distribution",
            Distribution::ALL,
            Distribution::named,
        )?
        .unwrap_or(preset.distribution),
        access: named(section, "access", NodeAccess::ALL, NodeAccess::named)?
            .unwrap_or(preset.access),
        sets: section.read("sets", SETS, sets)?.or(preset.sets),
        veto: expression(section, "veto", "an expression over a node and a job")?.or(preset.veto),
    })
}

/// An expression.
pub(super) fn expression(
    section: &Section,
    key: &str,
    wanted: &str,
) -> Result<Option<Expression>, ConfigError> {
    let Some(text) = section.read(key, wanted, text)? else {
        return Ok(None);
    };
    let read = Expression::parse(&text);
    read.map(Some)
        .map_err(|fault| section.wrong_at(key, format!("`{key}` cannot be read: {fault}")))
}

/// How [`depth`] is written.
pub(super) const DEPTH: &str = "a whole number from 0 on, or \"all\"";
const GROUPS: &str = "a list of groups, as [{ qos = [\"high\"], depth = 1 }]";
const SETS: &str =
    "a table, as { choice = \"oneof\", by = \"switch\", values = [\"a\", \"b\"], delay = \"10m\" }";
const AVAILABILITY: &str = "\"dedicated\", \"utilized\" or \"combined\", or a table of these by resource, with \
                            \"default\" for the others, as { default = \"dedicated\", mem = \"combined\" }";

pub(super) fn named<T: Copy>(
    section: &Section,
    key: &str,
    all: &[(&str, T)],
    named: fn(&str) -> Option<T>,
) -> Result<Option<T>, ConfigError> {
    section.read(key, &one_of(all), by_name(named))
}

pub(super) fn depth(value: &DeValue) -> Option<u32> {
    match value.as_str() {
        Some("all") => Some(Backfill::ALL),
        Some(_) => None,
        None => whole(value),
    }
}

fn chunk(section: &Section) -> Result<Option<Chunk>, ConfigError> {
    let size = section.read("chunk_size", "a number of processors from 1 on", from_one)?;
    let duration = section.read("chunk_duration", A_SECOND_OR_MORE, span_from_a_second)?;
    match (size, duration) {
        (Some(size), Some(duration)) => Ok(Some(Chunk { size, duration })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(section.wrong_at(
            "chunk_size",
            "`chunk_size` needs a `chunk_duration`".to_string(),
        )),
        (None, Some(_)) => Err(section.wrong_at(
            "chunk_duration",
            "`chunk_duration` needs a `chunk_size`".to_string(),
        )),
    }
}

fn group(value: &DeValue) -> Option<Group> {
    let table = value.as_table().filter(|table| table.len() == 2)?;
    Some(Group {
        qos: list(text)(entry(table, "qos")?)?,
        depth: whole(entry(table, "depth")?)?,
    })
}

fn availability(value: &DeValue) -> Option<(Availability, BTreeMap<String, Availability>)> {
    let one = by_name(Availability::named);
    let Some(table) = value.as_table() else {
        return Some((one(value)?, BTreeMap::new()));
    };
    let mut each = BTreeMap::new();
    for (name, value) in table {
        each.insert(name.get_ref().to_string(), one(value.get_ref())?);
    }
    Some((each.remove("default").unwrap_or_default(), each))
}

fn sets(value: &DeValue) -> Option<NodeSets> {
    let table = value.as_table()?;
    let known = ["choice", "by", "values", "delay"];
    let has_only_known = table
        .keys()
        .all(|key| known.contains(&key.get_ref().as_ref()));
    let delay = match entry(table, "delay") {
        Some(value) => Some(super::span(value)?),
        None => None,
    };
    has_only_known.then_some(NodeSets {
        choice: SetChoice::named(entry(table, "choice")?.as_str()?)?,
        by: text(entry(table, "by")?)?,
        values: entry(table, "values").map_or(Some(Vec::new()), list(text))?,
        delay,
    })
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::expression::Expression;
    use crate::model::policy::*;
    use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
    use crate::model::time::Span;

    #[test]
    fn backfill_and_placement_are_read() {
        let config = Config::parse(
            r#"
            preset = "maui"
            [backfill]
            policy = "bestfit"
            order = "shortest"
            metric = "pe"
            depth = "all"
            keep = "highest"
            consider = 5
            chunk_size = 4
            chunk_duration = "5m"
            groups = [{ qos = ["high"], depth = 2 }]
            [placement]
            availability = { default = "combined", mem = "dedicated" }
            allocation = "priority"
            rank = "SPEED"
            distribution = "balanced"
            access = "singleuser"
            sets = { choice = "oneof", by = "switch", values = ["a"], delay = "0s" }
            "#,
        )
        .unwrap();
        let backfill = config.policy().backfill;
        assert_eq!(
            (backfill.policy, backfill.order, backfill.metric),
            (Filling::BestFit, FillOrder::Shortest, Metric::Pe)
        );
        assert_eq!(
            (backfill.depth, backfill.keep, backfill.consider),
            (Backfill::ALL, Keep::Highest, 5)
        );
        assert_eq!(
            backfill.chunk,
            Some(Chunk {
                size: 4,
                duration: Span::seconds(300)
            })
        );
        assert_eq!(
            backfill.groups,
            [Group {
                qos: vec!["high".to_string()],
                depth: 2
            }]
        );
        let placement = config.policy().placement;
        assert_eq!(placement.availability, Availability::Combined);
        assert_eq!(placement.availabilities["mem"], Availability::Dedicated);
        assert_eq!(
            (placement.allocation, placement.rank),
            (NodeAllocation::Priority, Expression::parse("SPEED").ok())
        );
        assert_eq!(
            (placement.distribution, placement.access),
            (Distribution::Balanced, NodeAccess::SingleUser)
        );
        let sets = placement.sets.unwrap();
        assert_eq!(
            (sets.choice, sets.by.as_str(), sets.delay),
            (SetChoice::OneOf, "switch", Some(Span(0)))
        );
    }

    #[test]
    fn a_preset_holds_where_nothing_is_said() {
        let policy = |text: &str| Config::parse(text).unwrap().policy();
        assert_eq!(policy("preset = \"qube\"").backfill.policy, Filling::Skip);
        assert_eq!(
            policy("preset = \"qube\"\n[backfill]\npolicy = \"firstfit\"")
                .backfill
                .depth,
            0
        );
        assert_eq!(
            policy("preset = \"maui\"\n[backfill]\ndepth = 3")
                .placement
                .allocation,
            NodeAllocation::LastAvailable
        );
        assert_eq!(policy("preset = \"hybrid\""), Policy::default());
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let refusal = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert_eq!(
            refusal("[backfill]\npolicy = \"best\""),
            "line 2: `policy` in [backfill] must be \"none\", \"skip\", \"firstfit\", \"bestfit\", \"greedy\" or \
             \"preempt\", not \"best\""
        );
        assert_eq!(
            refusal("[backfill]\nchunk_size = 4"),
            "line 2: `chunk_size` needs a `chunk_duration`"
        );
        assert!(
            refusal("preset = \"slurm\"")
                .starts_with("line 1: `preset` in the file must be \"hybrid\"")
        );
    }
}
