//! The nodes that noded presents to schedd: the detected hardware, except where the command line
//! sets other amounts.

use super::args::NodedArgs;
use crate::model::node::NodeFacts;
use crate::model::resource::{ResourceList, ResourceValue, Size};
use crate::sys::sensors;

/// The detected hardware of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The host's short name.
    pub host: String,
    /// The numbers of the processors that this process may use.
    pub processors: Vec<u16>,
    /// The CPU quota in processors; None if there is no quota.
    pub quota: Option<u32>,
    /// The number of processors of the whole host.
    pub host_processors: u32,
    /// The memory that this process may use, in kilobytes.
    pub memory_kb: u64,
    /// The numbers of the GPUs.
    pub gpus: Vec<u16>,
}

impl Hardware {
    /// Detects the hardware of this host.
    pub fn detect() -> Hardware {
        Hardware {
            host: sensors::short_host_name(),
            processors: sensors::processors(),
            quota: sensors::quota(),
            host_processors: sensors::host_processors(),
            memory_kb: sensors::memory_kb(),
            gpus: sensors::gpus(),
        }
    }

    /// Number of processors that jobs can use.
    fn usable(&self) -> u32 {
        let allowed = self.processors.len().max(1) as u32;
        self.quota.map_or(allowed, |quota| quota.min(allowed))
    }
}

/// The nodes to present.
pub fn nodes(args: &NodedArgs, hardware: &Hardware) -> Vec<NodeFacts> {
    let base = args.name.as_ref().unwrap_or(&hardware.host);
    if args.nodes == 1 {
        return vec![node(base.clone(), args, hardware)];
    }
    (1..=args.nodes)
        .map(|number| node(format!("{base}{number}"), args, hardware))
        .collect()
}

fn node(name: String, args: &NodedArgs, hardware: &Hardware) -> NodeFacts {
    let alone = args.nodes == 1;
    let ncpus = args
        .ncpus
        .unwrap_or((hardware.usable() / args.nodes).max(1));
    let memory = args
        .mem
        .unwrap_or(Size::kilobytes(hardware.memory_kb / u64::from(args.nodes)));
    let gpus: Vec<u16> = match args.ngpus {
        // Existing GPUs come first. Simulated GPUs follow if `count` is larger.
        Some(count) => hardware
            .gpus
            .iter()
            .copied()
            .chain(0..)
            .take(usize::from(count))
            .collect(),
        None if alone => hardware.gpus.clone(),
        None => Vec::new(),
    };
    // Processors are assigned to jobs by number only if they exist, belong to this node alone, and
    // no CPU quota applies.
    let assigns_numbers =
        alone && hardware.quota.is_none() && ncpus as usize <= hardware.processors.len();
    let cpus = if assigns_numbers {
        hardware.processors[..ncpus as usize].to_vec()
    } else {
        Vec::new()
    };
    NodeFacts {
        host: name.clone(),
        available: available(&name, ncpus, memory, gpus.len()),
        pcpus: if alone {
            hardware.host_processors
        } else {
            ncpus
        },
        name,
        cpus,
        gpus,
        ..NodeFacts::default()
    }
}

fn available(name: &str, ncpus: u32, memory: Size, gpus: usize) -> ResourceList {
    let mut available = ResourceList::from([
        ("arch".into(), ResourceValue::String("linux".to_string())),
        ("host".into(), ResourceValue::String(name.to_string())),
        ("mem".into(), ResourceValue::Size(memory)),
        ("ncpus".into(), ResourceValue::Long(i64::from(ncpus))),
        ("vnode".into(), ResourceValue::String(name.to_string())),
    ]);
    if gpus > 0 {
        available.insert("ngpus".into(), ResourceValue::Long(gpus as i64));
    }
    available
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn presented(options: &[&str], quota: Option<u32>) -> Vec<NodeFacts> {
        let hardware = Hardware {
            host: "porch".into(),
            processors: vec![0, 1, 4, 5],
            quota,
            host_processors: 8,
            memory_kb: 4000,
            gpus: vec![0, 1],
        };
        nodes(
            &NodedArgs::try_parse_from([&["noded"], options].concat()).unwrap(),
            &hardware,
        )
    }

    #[test]
    fn a_single_node_has_all_detected_hardware() {
        let nodes = presented(&[], None);
        assert_eq!(nodes.len(), 1);
        assert_eq!((nodes[0].name.as_str(), nodes[0].pcpus), ("porch", 8));
        assert_eq!(nodes[0].cpus, [0, 1, 4, 5]);
        assert_eq!(nodes[0].available["ngpus"], ResourceValue::Long(2));
        assert_eq!(nodes[0].available["mem"].to_string(), "4000kb");
    }

    #[test]
    fn with_a_quota_processors_are_not_assigned_by_number() {
        let nodes = presented(&[], Some(2));
        assert_eq!(nodes[0].available["ncpus"], ResourceValue::Long(2));
        assert!(nodes[0].cpus.is_empty());
    }

    #[test]
    fn each_of_several_nodes_is_a_separate_host() {
        let nodes = presented(
            &[
                "--nodes", "3", "--ncpus", "8", "--mem", "1gb", "--name", "n",
            ],
            None,
        );
        let hosts: Vec<&str> = nodes.iter().map(|node| node.host.as_str()).collect();
        assert_eq!(hosts, ["n1", "n2", "n3"]);
        assert_eq!(
            nodes[2].available["host"],
            ResourceValue::String("n3".into())
        );
        assert_eq!(nodes[2].available["mem"].to_string(), "1gb");
        assert!(nodes[0].cpus.is_empty() && nodes[0].gpus.is_empty());
    }
}
