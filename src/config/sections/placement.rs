//! `[placement]`: which nodes a job is allocated.

use super::launch::is_program;
use crate::config::Config;
use crate::config::key::{Table, computed, key};
use crate::config::kinds::{
    A_SECOND_OR_MORE, Custom, Formula, Kind, OneOf, Optional, Scalar, ScalarType, TEXT, custom,
    list, scalar, table, table_by_name,
};
use crate::model::policy::{Availability, NodeSets, SetChoice};
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use crate::model::time::Span;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Value;
use toml::de::DeValue;

/// The rule for all resources, and the rules for individual resources by name.
type Availabilities = (Availability, BTreeMap<String, Availability>);

const AVAILABILITY: Custom<Availabilities> = custom(
    || {
        "\"dedicated\", \"utilized\" or \"combined\", or a table of these by resource, \
         with \"default\" for the others, such as { default = \"dedicated\", mem = \"combined\" }"
            .to_string()
    },
    read_availability,
    write_availability,
);
const PROGRAM: Scalar<PathBuf> = scalar(
    "the absolute path of a program, or the name of a program in PATH",
    |path| is_program(path),
);
const SETS: Custom<NodeSets> = custom(
    || {
        "a table, such as { choice = \"oneof\", by = \"switch\", values = [\"a\", \"b\"], \
         delay = \"10m\" }"
            .to_string()
    },
    read_sets,
    write_sets,
);

/// `[placement]`.
pub static PLACEMENT: Table<Config> = Table::new(
    "placement",
    &[
        &computed(
            "availability",
            AVAILABILITY,
            |c| {
                Some((
                    c.policy.placement.availability,
                    c.policy.placement.availabilities.clone(),
                ))
            },
            |c, (all, each)| {
                (
                    c.policy.placement.availability,
                    c.policy.placement.availabilities,
                ) = (all, each)
            },
        )
        .text("What counts as used on a node, for all resources or as a table by resource."),
        &key("allocation", OneOf(NodeAllocation::ALL), |c| {
            &mut c.policy.placement.allocation
        })
        .text("Which of the suitable nodes a job gets."),
        &key(
            "rank",
            Formula("an expression over attributes of a node"),
            |c| &mut c.policy.placement.rank,
        )
        .text("With allocation = \"priority\", the expression that ranks nodes, the highest first.")
        .default("none")
        .example("\"SPEED - 10 * JOBCOUNT\""),
        &key("program", Optional(PROGRAM), |c| {
            &mut c.policy.placement.program
        })
        .text(
            "With allocation = \"local\", the program that selects nodes: an absolute path, or a \
             name in PATH.",
        )
        .default("none")
        .example("\"/usr/local/lib/lanai/choose-nodes\""),
        &key("program_timeout", Optional(A_SECOND_OR_MORE), |c| {
            &mut c.policy.placement.program_timeout
        })
        .text("The longest run time of the program that selects nodes, at least a second.")
        .default("\"5s\"")
        .example("\"5s\""),
        &key("distribution", OneOf(Distribution::ALL), |c| {
            &mut c.policy.placement.distribution
        })
        .text("How chunks and tasks are distributed over the nodes."),
        &key("access", OneOf(NodeAccess::ALL), |c| {
            &mut c.policy.placement.access
        })
        .text("Which jobs may share a node with a job that was submitted without -W naccess."),
        &key("sets", Optional(SETS), |c| &mut c.policy.placement.sets)
            .text(
                "The sets of nodes; a job runs within one of them, unless it has waited for \
                 the time in the key delay.",
            )
            .default("none")
            .example(
                "{ choice = \"oneof\", by = \"switch\", values = [\"a\", \"b\"], delay = \"10m\" }",
            ),
        &key(
            "veto",
            Formula("an expression over attributes of a node and a job"),
            |c| &mut c.policy.placement.veto,
        )
        .text(
            "An expression over host.* and job.*; if it is true, the job gets nothing on the \
             node.",
        )
        .default("none")
        .example("\"job.user == 'guest' && host.name == 'n1'\""),
    ],
);

fn read_availability(value: &DeValue) -> Option<Availabilities> {
    let Some(table) = value.as_table() else {
        return Some((Availability::named(value.as_str()?)?, BTreeMap::new()));
    };
    let mut each = BTreeMap::new();
    for (name, value) in table {
        let one = Availability::named(value.get_ref().as_str()?)?;
        each.insert(name.get_ref().to_string(), one);
    }
    Some((each.remove("default").unwrap_or_default(), each))
}

fn write_availability((all, each): &Availabilities) -> Option<Value> {
    if each.is_empty() {
        return Some(all.name().into());
    }
    let mut each = each.clone();
    each.insert("default".to_string(), *all);
    Some(table_by_name(&each, |one| one.name().into()))
}

fn read_sets(value: &DeValue) -> Option<NodeSets> {
    let table = value.as_table()?;
    let is_known = |key: &str| ["choice", "by", "values", "delay"].contains(&key);
    if !table.keys().all(|key| is_known(key.get_ref())) {
        return None;
    }
    let values = match table.get("values") {
        Some(values) => list(TEXT, "").read(values.get_ref())?,
        None => Vec::new(),
    };
    let delay = match table.get("delay") {
        Some(delay) => Some(Span::read(delay.get_ref())?),
        None => None,
    };
    Some(NodeSets {
        choice: SetChoice::named(table.get("choice")?.get_ref().as_str()?)?,
        by: String::read(table.get("by")?.get_ref())?,
        values,
        delay,
    })
}

fn write_sets(sets: &NodeSets) -> Option<Value> {
    let delay = sets.delay.map(|delay| ("delay", delay.write()));
    let known = [
        ("choice", sets.choice.name().into()),
        ("by", sets.by.clone().into()),
        ("values", sets.values.clone().into()),
    ];
    Some(table(known.into_iter().chain(delay)))
}
