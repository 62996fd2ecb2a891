//! The allocation of a job in PBS's format: `exec_host` and `exec_vnode`.

use crate::model::job::NodeShare;
use crate::model::request::select::{Chunk, Select};
use crate::model::resource::{ResourceValue, Resources, Size};
use std::collections::BTreeMap;
use std::fmt::Write;

/// `exec_host`: `node1/0*4+node2/0`. A chunk is displayed as its host, its number on this host
/// (from 0), and its number of processors (`*4`) unless this is 1.
pub fn exec_host(shares: &[NodeShare]) -> String {
    slots(
        shares
            .iter()
            .map(|share| (share.host.as_str(), processors(share))),
    )
}

/// `exec_host` for chunks, given as host and number of processors.
pub fn slots<'a>(chunks: impl Iterator<Item = (&'a str, i64)>) -> String {
    let mut slots: BTreeMap<&str, usize> = BTreeMap::new();
    let mut text = String::new();
    for (host, ncpus) in chunks {
        let slot = slots.entry(host).or_default();
        join(&mut text, &format!("{host}/{slot}"));
        *slot += 1;
        if ncpus != 1 {
            let _ = write!(text, "*{ncpus}");
        }
    }
    text
}

/// `exec_vnode`: `(node1:ncpus=4:mem=8388608kb)+(node2:ncpus=4)`.
pub fn exec_vnode(shares: &[NodeShare]) -> String {
    let mut text = String::new();
    for share in shares {
        join(&mut text, &format!("({}", share.node));
        for (name, value) in &share.taken {
            let _ = write!(text, ":{name}={}", in_kilobytes(value));
        }
        text.push(')');
    }
    text
}

/// `exec_vnode` of a planned start, with one chunk of the request on each node of `nodes`. If the
/// numbers of chunks and nodes differ, only the names of the nodes: `(n1)+(n2)`.
pub fn planned_vnode(select: &Select, nodes: &[String], resources: &Resources) -> String {
    let chunks: Vec<&Chunk> = select
        .chunks
        .iter()
        .flat_map(|chunk| (0..chunk.count).map(move |_| chunk))
        .collect();

    let mut text = String::new();
    for (at, node) in nodes.iter().enumerate() {
        join(&mut text, &format!("({node}"));
        if chunks.len() == nodes.len() {
            for (name, value) in &chunks[at].resources {
                if resources
                    .get(name)
                    .is_some_and(|definition| definition.consumable)
                {
                    let _ = write!(text, ":{name}={}", in_kilobytes(value));
                }
            }
        }
        text.push(')');
    }
    text
}

/// The GPUs of each node, in the order of the shares: `n1:0,1+n2:3`; None without GPUs.
pub fn exec_gpus(shares: &[NodeShare]) -> Option<String> {
    let mut nodes: Vec<(&str, Vec<String>)> = Vec::new();
    for share in shares.iter().filter(|share| !share.gpus.is_empty()) {
        let numbers = share.gpus.iter().map(u16::to_string);
        match nodes.iter_mut().find(|(node, _)| *node == share.node) {
            Some((_, known)) => known.extend(numbers),
            None => nodes.push((&share.node, numbers.collect())),
        }
    }
    let text = nodes
        .iter()
        .map(|(node, numbers)| format!("{node}:{}", numbers.join(",")))
        .collect::<Vec<_>>()
        .join("+");
    Some(text).filter(|text| !text.is_empty())
}

/// The number of processors of a share; 0 if the share has no `ncpus`.
pub fn processors(share: &NodeShare) -> i64 {
    share
        .taken
        .iter()
        .find(|(name, _)| name == "ncpus")
        .and_then(|(_, value)| value.amount())
        .unwrap_or(0)
}

/// Converts a size to kilobytes, as PBS displays allocated resources; other values are unchanged.
pub fn in_kilobytes(value: &ResourceValue) -> ResourceValue {
    match value {
        ResourceValue::Size(size) => {
            ResourceValue::Size(Size::kilobytes(size.bytes().div_ceil(1024)))
        }
        other => other.clone(),
    }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('+');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(node: &str, host: &str, taken: &[(&str, ResourceValue)]) -> NodeShare {
        let taken = taken
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        NodeShare {
            node: node.into(),
            host: host.into(),
            taken,
            cpus: vec![],
            gpus: vec![],
            mpiprocs: 1,
            pooled: vec![],
            ranks: vec![],
        }
    }

    #[test]
    fn gpus_are_listed_by_node() {
        let with = |node: &str, gpus: &[u16]| NodeShare {
            gpus: gpus.to_vec(),
            ..share(node, node, &[])
        };
        assert_eq!(
            exec_gpus(&[with("n1", &[0]), with("n2", &[3]), with("n1", &[2])]).as_deref(),
            Some("n1:0,2+n2:3")
        );
        assert_eq!(exec_gpus(&[with("n1", &[])]), None);
    }

    #[test]
    fn hosts_and_vnodes_have_the_format_of_pbs() {
        let mem = ResourceValue::Size(Size::parse("100mb").unwrap());
        let chunk = |node| {
            share(
                node,
                "head",
                &[("ncpus", ResourceValue::Long(1)), ("mem", mem.clone())],
            )
        };
        let shares = [
            chunk("head"),
            chunk("head[0]"),
            share("n2", "n2", &[("ncpus", ResourceValue::Long(4))]),
        ];
        assert_eq!(exec_host(&shares), "head/0+head/1+n2/0*4");
        assert_eq!(
            exec_vnode(&shares),
            "(head:ncpus=1:mem=102400kb)+(head[0]:ncpus=1:mem=102400kb)+(n2:ncpus=4)"
        );
    }
}
