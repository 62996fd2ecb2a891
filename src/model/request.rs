//! Parsing of `-l` options into a [`Request`]: a typed list, chunks and a place.
//!
//! A job requests chunks in one of three ways that cannot be mixed. `select` (with `place`) lists
//! the chunks. `nodes`, the older form, is rewritten as a select. Without `select` and `nodes`, the
//! requested host-level resources form one chunk. Every parsed [`Request`] has chunks, a place, and
//! a list that includes the totals over the chunks.

pub mod cluster_path;
pub mod geometry;
pub mod growth;
pub mod host_list;
pub mod operands;
pub mod placement_policy;
pub mod placement_requirements;
pub mod preempt_targets;
pub mod select;

use crate::model::refusal::Refusal;
use crate::model::request::preempt_targets::PreemptTarget;
use crate::model::resource::{Definition, ResourceList, ResourceType, ResourceValue, Resources};
pub use defaults::Defaults;
use select::{Chunk, Request, Select};

mod chunk;

mod defaults;

mod place;

mod nodes;

/// Largest request for one resource, in total over all chunks. The bound is so small that sums
/// over many jobs fit into 64 bits.
const MAX_AMOUNT: i64 = 1 << 53;

/// Maximum number of resources in the options of a request, including repeated names.
const MAX_NAMES: usize = 1000;

/// Pairs of resource name and text of the value.
type NamedTexts = Vec<(String, String)>;

impl Request {
    /// Parses `-l` options, given as (name, text) in order, without the defaults of a queue. The
    /// last value of a repeated name counts. Errors have the numbers and texts of PBS.
    pub fn parse(asked: &[(String, String)], resources: &Resources) -> Result<Request, Refusal> {
        Request::parse_with(asked, &Defaults::default(), resources)
    }

    /// Parses `-l` options and adds defaults. [`Request::asked`] contains the options without
    /// defaults.
    fn parse_with(
        asked: &[(String, String)],
        defaults: &Defaults,
        resources: &Resources,
    ) -> Result<Request, Refusal> {
        let asked = split_joined(asked, resources);
        if asked.len() > MAX_NAMES {
            return Err(Refusal::illegal_value("Resource_List"));
        }
        let asked = merge(&asked, resources);
        let meant = defaults.completed(&asked, resources);
        let mut values = typed_values(&meant, resources)?;
        check_walltimes(&values)?;
        defaults.fill(&mut values, &meant, resources);
        let mut request = build(&meant, values, defaults.chunk(), resources)?;
        add_totals(&mut request, resources)?;
        request.asked = asked;
        Ok(request)
    }

    /// Parses the original options again, with other defaults.
    pub fn with(&self, defaults: &Defaults, resources: &Resources) -> Result<Request, Refusal> {
        Request::parse_with(&self.asked, defaults, resources)
    }

    /// Returns the request with changed `-l` options and without the defaults of a queue. A new
    /// `select` or `nodes` replaces all options that defined the chunks before. A new `select`
    /// keeps the place unless the changes contain one, and a new `place` alone keeps the chunks.
    pub fn alter(
        &self,
        changes: &[(String, String)],
        resources: &Resources,
    ) -> Result<Request, Refusal> {
        let [select, nodes, place] = ["select", "nodes", "place"]
            .map(|name| changes.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)));
        let mut asked = self.asked.clone();
        let was_selected = asked.iter().any(|(name, _)| name == "select");
        if select || nodes || (place && !was_selected) {
            asked.retain(|(name, _)| !shapes_chunks(name, resources));
        }
        if select && !place {
            asked.push(("place".into(), self.place.text.clone()));
        }
        if place && !was_selected && !select && !nodes {
            asked.push(("select".into(), chunk::spell(&self.select.chunks)));
        }
        asked.extend_from_slice(changes);
        Request::parse(&asked, resources)
    }
}

/// Returns the text of a select with these chunks.
pub fn spelled(chunks: &[Chunk]) -> String {
    chunk::spell(chunks)
}

/// Tests whether `-l name=` defines chunks.
fn shapes_chunks(name: &str, resources: &Resources) -> bool {
    ["select", "place", "nodes"].contains(&name)
        || resources.get(name).is_some_and(|d| d.host_level)
}

/// Returns the definition of `name` with its canonical spelling. Upper and lower case are not
/// distinguished.
fn find<'a>(name: &str, resources: &'a Resources) -> Option<(&'a str, &'a Definition)> {
    let exact = resources.iter().find(|(known, _)| *known == name);
    exact.or_else(|| {
        resources
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
    })
}

/// Splits options such as `ncpus=2:mem=64mb`, which some clients send for a chunk, into one option
/// for each resource.
fn split_joined(asked: &[(String, String)], resources: &Resources) -> NamedTexts {
    let mut plain = NamedTexts::new();
    for (name, text) in asked {
        let host_level = find(name, resources).is_some_and(|(_, d)| d.host_level);
        let mut parts = text.split(':');
        let first = parts.next().unwrap_or_default();
        let rest: Option<Vec<_>> = parts.map(|part| part.split_once('=')).collect();
        match rest {
            Some(rest) if host_level && !rest.is_empty() => {
                plain.push((name.clone(), first.to_string()));
                plain.extend(
                    rest.iter()
                        .map(|(name, text)| (name.to_string(), text.to_string())),
                );
            }
            _ => plain.push((name.clone(), text.clone())),
        }
    }
    plain
}

/// Merges options with the same name into one, with the canonical spelling, the first position and
/// the last text. Drops an empty `wd`, with which TORQUE scripts select the directory of
/// submission, because jobs start there by default.
fn merge(asked: &NamedTexts, resources: &Resources) -> NamedTexts {
    let mut merged = NamedTexts::new();
    for (name, text) in asked {
        let name = find(name, resources).map_or(name.as_str(), |(known, _)| known);
        if name == "wd" && text.is_empty() && resources.get(name).is_none() {
            continue;
        }
        match merged.iter_mut().find(|(n, _)| n == name) {
            Some(pair) => pair.1.clone_from(text),
            None => merged.push((name.to_string(), text.clone())),
        }
    }
    merged
}

/// Tests whether `text` is a valid value of `preempt_targets`; true for all other names.
fn are_targets(name: &str, text: &str) -> bool {
    name != "preempt_targets"
        || text
            .split(',')
            .all(|word| PreemptTarget::parse(word).is_some())
}

/// Returns the typed values, except `select`, `place` and `nodes`. An empty time or string
/// requests nothing.
fn typed_values(asked: &NamedTexts, resources: &Resources) -> Result<ResourceList, Refusal> {
    let mut values = ResourceList::new();
    for (name, text) in asked {
        if !is_name(name) {
            return Err(Refusal::illegal_value(&format!("Resource_List.{name}")));
        }
        if ["select", "place", "nodes"].contains(&name.as_str()) {
            continue;
        }
        let kind = resources.get(name).map(|d| d.kind);
        if text.is_empty() && matches!(kind, Some(ResourceType::Time | ResourceType::String)) {
            continue;
        }
        let value = resources.parse(name, text)?;
        if !in_range(name, &value) || !are_targets(name, text) {
            return Err(Refusal::illegal_value(&format!("Resource_List.{name}")));
        }
        values.insert(name.clone(), value);
    }
    Ok(values)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Tests whether an integer or a size in bytes is in the range 0 to [`MAX_AMOUNT`]; `nice` can be
/// negative. A floating-point number must not be negative. All other values are in range.
fn in_range(name: &str, value: &ResourceValue) -> bool {
    match value {
        ResourceValue::Long(number) if name == "nice" => {
            (-MAX_AMOUNT..=MAX_AMOUNT).contains(number)
        }
        ResourceValue::Long(number) => (0..=MAX_AMOUNT).contains(number),
        ResourceValue::Size(size) => {
            i64::try_from(size.bytes()).is_ok_and(|bytes| bytes <= MAX_AMOUNT)
        }
        ResourceValue::Float(number) => *number >= 0.0,
        ResourceValue::Time(_) | ResourceValue::Boolean(_) | ResourceValue::String(_) => true,
    }
}

fn check_walltimes(values: &ResourceList) -> Result<(), Refusal> {
    let [min, max] = ["min_walltime", "max_walltime"]
        .map(|name| values.get(name).and_then(ResourceValue::amount));
    match (min, max) {
        (None, Some(_)) => Err(Refusal::max_without_min_walltime()),
        (Some(min), Some(max)) if min > max => Err(Refusal::min_above_max_walltime()),
        _ => Ok(()),
    }
}

/// Builds the request from `select`, `nodes` or the host-level resources. `each` contains the
/// default resources of a chunk.
fn build(
    asked: &NamedTexts,
    values: ResourceList,
    each: &ResourceList,
    resources: &Resources,
) -> Result<Request, Refusal> {
    let [select, nodes, place] = ["select", "nodes", "place"].map(|name| {
        let found = asked.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str())
    });
    match (select, nodes, place) {
        (Some(_), Some(_), _) | (None, Some(_), Some(_)) => Err(Refusal::nodes_with_select()),
        (None, Some(nodes), None) => build_from_nodes(nodes, values, each, resources),
        (Some(select), None, place) => build_from_select((select, place), values, each, resources),
        (None, None, Some(_)) => {
            check_no_chunk_resources(&values, resources)?;
            Err(Refusal::place_without_select())
        }
        (None, None, None) => Ok(build_from_values(values, each, resources)),
    }
}

fn check_no_chunk_resources(values: &ResourceList, resources: &Resources) -> Result<(), Refusal> {
    match values.keys().find(|name| shapes_chunks(name, resources)) {
        Some(name) => Err(Refusal::beside_select(name)),
        None => Ok(()),
    }
}

fn build_from_select(
    (select, place): (&str, Option<&str>),
    values: ResourceList,
    each: &ResourceList,
    resources: &Resources,
) -> Result<Request, Refusal> {
    check_no_chunk_resources(&values, resources)?;
    let select = chunk::parse(select, each, resources)?;
    let place = place::parse(place.unwrap_or("free"), resources)?;
    Ok(Request {
        list: values,
        select,
        place,
        asked: NamedTexts::new(),
    })
}

fn build_from_nodes(
    text: &str,
    mut values: ResourceList,
    each: &ResourceList,
    resources: &Resources,
) -> Result<Request, Refusal> {
    let (select, place) = nodes::as_select(text, &values, resources)?;
    let select = chunk::parse(&select, each, resources)?;
    values.insert("nodes".into(), ResourceValue::String(text.to_string()));
    Ok(Request {
        list: values,
        select,
        place: place::parse(place, resources)?,
        asked: NamedTexts::new(),
    })
}

/// Builds a request of one chunk with the requested and default host-level resources, in
/// alphabetical order. `ncpus` is 1 by default.
fn build_from_values(
    mut values: ResourceList,
    each: &ResourceList,
    resources: &Resources,
) -> Request {
    for (name, value) in each {
        values.entry(name.clone()).or_insert_with(|| value.clone());
    }
    values
        .entry("ncpus".into())
        .or_insert(ResourceValue::Long(1));
    let mut chunk = Chunk {
        count: 1,
        resources: Vec::new(),
        growing: Vec::new(),
    };
    let mut text = "1".to_string();
    for (name, value) in &values {
        if resources.get(name).is_some_and(|d| d.host_level) {
            chunk.resources.push((name.clone(), value.clone()));
            text.push_str(&format!(":{name}={value}"));
        }
    }
    Request {
        list: values,
        select: Select {
            chunks: vec![chunk],
            text,
        },
        place: place::pack(),
        asked: NamedTexts::new(),
    }
}

/// Adds the totals over the chunks, the number of chunks, and the texts of select and place to the
/// list.
fn add_totals(request: &mut Request, resources: &Resources) -> Result<(), Refusal> {
    let mut totals = ResourceList::new();
    for chunk in &request.select.chunks {
        for (name, value) in &chunk.resources {
            if name != "mpiprocs" && resources.get(name).is_none_or(|d| !d.consumable) {
                continue;
            }
            let sum = times(value, chunk.count)
                .and_then(|value| match totals.get(name) {
                    Some(sum) => plus(sum, &value),
                    None => Some(value),
                })
                .filter(|sum| in_range(name, sum))
                .ok_or_else(|| Refusal::illegal_value("Resource_List.select"))?;
            totals.insert(name.clone(), sum);
        }
    }
    let nodect = request
        .select
        .chunks
        .iter()
        .map(|chunk| i64::from(chunk.count))
        .sum();
    request.list.extend(totals);
    request
        .list
        .insert("nodect".into(), ResourceValue::Long(nodect));
    request.list.insert(
        "select".into(),
        ResourceValue::String(request.select.text.clone()),
    );
    request.list.insert(
        "place".into(),
        ResourceValue::String(request.place.text.clone()),
    );
    Ok(())
}

fn times(value: &ResourceValue, count: u32) -> Option<ResourceValue> {
    Some(match value {
        ResourceValue::Long(number) => ResourceValue::Long(number.checked_mul(count.into())?),
        ResourceValue::Size(size) => ResourceValue::Size(size.times(count.into())?),
        ResourceValue::Float(number) => ResourceValue::Float(number * f64::from(count)),
        other => other.clone(),
    })
}

fn plus(a: &ResourceValue, b: &ResourceValue) -> Option<ResourceValue> {
    Some(match (a, b) {
        (ResourceValue::Long(a), ResourceValue::Long(b)) => ResourceValue::Long(a.checked_add(*b)?),
        (ResourceValue::Size(a), ResourceValue::Size(b)) => ResourceValue::Size(a.plus(*b)?),
        (ResourceValue::Float(a), ResourceValue::Float(b)) => ResourceValue::Float(a + b),
        _ => b.clone(),
    })
}

#[cfg(test)]
mod tests;
