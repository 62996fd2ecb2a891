//! Parsing of `nodes`, the older request syntax: `2:ppn=4:gpus=1+host7:bigmem#excl`, rewritten as
//! a select.

use super::find;
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceList, ResourceType, ResourceValue, Resources};

/// Part of `nodes` between `+` signs. It selects a number of nodes, a host, or a node with a
/// property, and requests resources on each selected node.
struct Item<'a> {
    count: u64,
    host: Option<&'a str>,
    /// `ppn`: number of processes.
    processes: u64,
    /// `ppn=all`: all processors of the host.
    whole: bool,
    /// `cpp` or `ncpus`: processors of each process; 0 if not given.
    processors: u64,
    gpus: u64,
    properties: Vec<&'a str>,
}

/// Returns the select and place equivalent to `nodes=text`. `ncpus` and `mem` in `values` are
/// totals, which are divided among the nodes: `ncpus` must be a multiple of the number of nodes,
/// and the result for `mem` is rounded up to kilobytes. An item with `cpp`, or with a `ppn` other
/// than 1, ignores `ncpus`.
pub(super) fn as_select(
    text: &str,
    values: &ResourceList,
    resources: &Resources,
) -> Result<(String, &'static str), Refusal> {
    let (items, suffix) = text
        .split_once('#')
        .map_or((text, None), |(items, suffix)| (items, Some(suffix)));
    let place = match suffix {
        None => "scatter",
        Some("excl") => "scatter:excl",
        Some("shared") => "free",
        Some(other) => return Err(Refusal::unknown_in_select(other)),
    };
    let items = items
        .split('+')
        .map(|item| read(item, resources))
        .collect::<Result<Vec<_>, _>>()?;
    let nodes = items
        .iter()
        .try_fold(0u64, |sum, item| sum.checked_add(item.count))
        .ok_or_else(Refusal::bad_nodes)?;
    let share = PerNode::of(values, nodes)?;
    let chunks: Option<Vec<String>> = items.iter().map(|item| spell(item, &share)).collect();
    Ok((chunks.ok_or_else(Refusal::bad_nodes)?.join("+"), place))
}

fn read<'a>(text: &'a str, resources: &Resources) -> Result<Item<'a>, Refusal> {
    let mut item = Item {
        count: 1,
        host: None,
        processes: 1,
        whole: false,
        processors: 0,
        gpus: 0,
        properties: Vec::new(),
    };
    let mut words = text.split(':');
    let first = words.next().unwrap_or_default();
    if first.bytes().all(|b| b.is_ascii_digit()) {
        item.count = positive(first)?;
    } else if first.contains('=') || !is_property(first, resources) && !is_host(first) {
        return Err(Refusal::bad_nodes());
    } else if is_property(first, resources) {
        item.properties.push(first);
    } else {
        item.host = Some(first);
    }
    for word in words {
        qualify(&mut item, word, resources)?;
    }
    Ok(item)
}

fn qualify<'a>(item: &mut Item<'a>, word: &'a str, resources: &Resources) -> Result<(), Refusal> {
    match word.split_once('=') {
        Some(("ppn", "all")) => item.whole = true,
        Some(("ppn", number)) => item.processes = positive(number)?,
        Some(("cpp" | "ncpus", number)) => item.processors = positive(number)?,
        Some(("gpus", number)) => item.gpus = positive(number)?,
        Some(_) => return Err(Refusal::bad_nodes()),
        None if is_property(word, resources) => item.properties.push(word),
        None => return Err(Refusal::unknown_in_select(word)),
    }
    Ok(())
}

fn positive(digits: &str) -> Result<u64, Refusal> {
    digits
        .parse()
        .ok()
        .filter(|&number| number > 0)
        .ok_or_else(Refusal::bad_nodes)
}

/// Tests whether a word is a property of nodes: a host-level boolean or string resource.
fn is_property(word: &str, resources: &Resources) -> bool {
    find(word, resources).is_some_and(|(_, d)| {
        d.host_level && matches!(d.kind, ResourceType::Boolean | ResourceType::String)
    })
}

fn is_host(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.[]".contains(c))
}

/// Amounts for each node: the totals given with `nodes`, divided by the number of nodes.
struct PerNode {
    /// Processors; 1 if no total is given.
    processors: u64,
    /// Memory in kilobytes.
    memory: Option<u64>,
}

impl PerNode {
    fn of(values: &ResourceList, nodes: u64) -> Result<PerNode, Refusal> {
        let processors = match values.get("ncpus") {
            Some(ResourceValue::Long(total)) => u64::try_from(*total).unwrap_or(0),
            _ => nodes,
        };
        if processors % nodes != 0 {
            return Err(Refusal::bad_nodes());
        }
        let memory = match values.get("mem") {
            Some(ResourceValue::Size(total)) => Some(total.bytes().div_ceil(1024).div_ceil(nodes)),
            _ => None,
        };
        Ok(PerNode {
            processors: processors / nodes,
            memory,
        })
    }
}

/// Formats an item as a chunk of a select; None if the number of processors overflows.
fn spell(item: &Item, share: &PerNode) -> Option<String> {
    let given = item.processors > 0 || item.processes > 1;
    let processors = if given {
        item.processes.checked_mul(item.processors.max(1))?
    } else {
        share.processors
    };
    let processors = if item.whole {
        "all".to_string()
    } else {
        processors.to_string()
    };
    let mut text = format!("{}:ncpus={processors}", item.count);
    if let Some(kilobytes) = share.memory {
        text.push_str(&format!(":mem={kilobytes}KB"));
    }
    for property in &item.properties {
        text.push_str(&format!(":{property}=True"));
    }
    if let Some(host) = item.host {
        text.push_str(&format!(":host={host}"));
    }
    if item.gpus > 0 {
        text.push_str(&format!(":ngpus={}", item.gpus));
    }
    if item.processes > 1 {
        text.push_str(&format!(":mpiprocs={}", item.processes));
    }
    Some(text)
}
