//! Nodes as displayed by `pbsnodes`: states, attributes and summaries.

use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::resource::{ResourceList, ResourceValue, Resources};

use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::exec_host;
use crate::wire::message::{NodeRecord, ServerFacts};
use std::collections::{BTreeMap, BTreeSet};

/// The output format. Some attributes differ between formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFormat {
    /// Lines for users.
    Text,
    /// Times are seconds since 1970, and the ids in a list are joined by commas without blanks.
    Dsv,
    /// Times are seconds since 1970, each job is listed once, assigned resources are listed only if
    /// not zero, and the summaries have other keys.
    Json,
}

/// One displayed entry: a single node, or all nodes of a host. In the latter case, the first node
/// is the one with the host's name.
#[derive(Clone, Debug)]
pub struct NodeGroup<'a>(pub Vec<&'a NodeRecord>);

impl<'a> NodeGroup<'a> {
    /// The name of the first node.
    pub fn name(&self) -> &'a str {
        &self.first().node.facts.name
    }

    /// The node that represents the group.
    pub fn first(&self) -> &'a NodeRecord {
        self.0[0]
    }

    /// One group for each node.
    pub fn one_per_node(nodes: &'a [NodeRecord]) -> Vec<NodeGroup<'a>> {
        nodes.iter().map(|node| NodeGroup(vec![node])).collect()
    }

    /// Groups the nodes by host. The nodes of a host stay separate if none of them has the name of
    /// the host.
    pub fn by_host(nodes: &'a [NodeRecord]) -> Vec<NodeGroup<'a>> {
        let natural = nodes.iter().filter(|record| is_natural(record));
        let mut hosts: BTreeMap<&str, NodeGroup> = natural
            .map(|record| (record.node.facts.host.as_str(), NodeGroup(vec![record])))
            .collect();
        for record in nodes.iter().filter(|record| !is_natural(record)) {
            if let Some(group) = hosts.get_mut(record.node.facts.host.as_str()) {
                group.0.push(record);
            }
        }
        let shown =
            nodes
                .iter()
                .filter_map(|record| match hosts.get(record.node.facts.host.as_str()) {
                    Some(group) if is_natural(record) => Some(group.clone()),
                    Some(_) => None,
                    None => Some(NodeGroup(vec![record])),
                });
        shown.collect()
    }

    /// The state of the group; `<various>` if the states of the nodes differ.
    pub fn state(&self) -> String {
        let states: BTreeSet<String> = self.0.iter().map(|record| state(record)).collect();
        match states.len() {
            1 => state(self.first()),
            _ => "<various>".to_string(),
        }
    }

    /// The ids of the jobs on the group, each once.
    pub fn jobs(&self) -> BTreeSet<JobId> {
        self.0
            .iter()
            .flat_map(|record| &record.jobs)
            .map(|(id, _)| *id)
            .collect()
    }

    /// The total amount of a consumable resource, in bytes for a size.
    pub fn available(&self, name: &str) -> i64 {
        self.0
            .iter()
            .map(|record| amount(&record.node.facts.available, name))
            .fold(0, i64::saturating_add)
    }

    /// The number of GPUs that are assigned to no job, but used by processes that belong to no
    /// job.
    fn gpus_outside(&self) -> i64 {
        let mut count = 0;
        for record in &self.0 {
            for gpu in &record.node.facts.gpus_outside {
                let is_held = record
                    .jobs
                    .iter()
                    .any(|(_, share)| share.gpus.contains(gpu));
                count += i64::from(!is_held);
            }
        }
        count
    }

    /// The unassigned amount of a consumable resource. GPUs used by processes that belong to no job
    /// are not free.
    pub fn free(&self, name: &str) -> i64 {
        let outside = if name == "ngpus" {
            self.gpus_outside()
        } else {
            0
        };
        self.available(name)
            .saturating_sub(self.assigned(name))
            .saturating_sub(outside)
            .max(0)
    }

    /// The amount of a consumable resource that is assigned to running jobs.
    pub fn assigned(&self, name: &str) -> i64 {
        self.0
            .iter()
            .map(|record| assigned(record).get(name).copied().unwrap_or(0))
            .fold(0, i64::saturating_add)
    }
}

/// True for the natural node of a host: the node with the host's name.
fn is_natural(record: &NodeRecord) -> bool {
    record.node.facts.name == record.node.facts.host
}

fn amount(list: &ResourceList, name: &str) -> i64 {
    list.get(name).and_then(ResourceValue::amount).unwrap_or(0)
}

/// The amounts assigned to running jobs on a node, by resource.
fn assigned(record: &NodeRecord) -> BTreeMap<&str, i64> {
    let mut sums = BTreeMap::new();
    for (name, value) in record.jobs.iter().flat_map(|(_, share)| &share.taken) {
        let sum: &mut i64 = sums.entry(name.as_str()).or_default();
        *sum = sum.saturating_add(value.amount().unwrap_or(0));
    }
    sums
}

/// A node's PBS states, joined by commas: `free`, `job-busy`, `offline,down`.
pub fn state(record: &NodeRecord) -> String {
    let processors = amount(&record.node.facts.available, "ncpus");
    let busy = processors > 0
        && assigned(record)
            .get("ncpus")
            .is_some_and(|held| *held >= processors);
    let words = [
        (record.exclusive, "job-exclusive"),
        (busy && !record.exclusive, "job-busy"),
        (record.reserved, "resv-exclusive"),
        (record.node.offline, "offline"),
        (!record.node.maintenance.is_empty(), "maintenance"),
        (!record.node.up, "down"),
    ];
    let words: Vec<&str> = words
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, word)| word)
        .collect();
    if words.is_empty() {
        "free".to_string()
    } else {
        words.join(",")
    }
}

/// The attributes of a node.
pub fn attributes<'a>(
    record: &'a NodeRecord,
    server: &'a ServerFacts,
    format: NodeFormat,
) -> Attributes<'a> {
    let node = &record.node;
    let mut out = Attributes::default();
    out.text("Mom", node.facts.host.as_str());
    out.text("ntype", "PBS");
    out.text("state", state(record));
    out.number("pcpus", node.facts.pcpus);
    let resv = record
        .reservations
        .iter()
        .map(|id| format!("{id}.{}", server.name));
    for (name, ids) in [
        ("jobs", jobs(record, server, format)),
        ("resv", resv.collect()),
    ] {
        if ids.is_empty() {
            continue;
        }
        if format == NodeFormat::Dsv {
            out.text(name, ids.join(","));
        } else {
            out.add(name, AttributeDisplay::List(ids));
        }
    }
    for (name, value) in &node.facts.available {
        out.resource("resources_available", name, value);
    }
    assigned_resources(&mut out, record, server, format);
    load(&mut out, node);
    gpus(&mut out, record, server);
    out.text_if("comment", comment(record));
    out.text("resv_enable", "True");
    out.text("sharing", "default_shared");
    let moments = [
        ("last_state_change_time", Some(node.changed)),
        ("last_used_time", node.used),
    ];
    for (name, time) in moments {
        let Some(time) = time else { continue };
        let wall = server.clock.wall(time);
        if format == NodeFormat::Text {
            out.add(name, AttributeDisplay::Moment(wall));
        } else {
            out.number(name, wall.0);
        }
    }
    out
}

/// Adds the one-minute load average and the measured use of resources, if noded measures them.
fn load<'a>(out: &mut Attributes<'a>, node: &'a Node) {
    if node.facts.utilized.is_empty() {
        return;
    }
    out.add(
        "loadave",
        AttributeDisplay::Real(f64::from(node.facts.load / 10) / 100.0),
    );
    for (name, value) in &node.facts.utilized {
        out.resource("resources_utilized", name, value);
    }
}

/// Adds the numbers of the GPUs, the jobs to which GPUs are assigned, and the GPUs used by
/// processes that belong to no job.
fn gpus(out: &mut Attributes, record: &NodeRecord, server: &ServerFacts) {
    let facts = &record.node.facts;
    if facts.gpus.is_empty() {
        return;
    }
    out.text("gpus", comma_separated(&facts.gpus));
    let held = record
        .jobs
        .iter()
        .flat_map(|(id, share)| share.gpus.iter().map(move |number| (*number, *id)));
    let held: BTreeMap<u16, JobId> = held.collect();
    if !held.is_empty() {
        let pairs = held
            .iter()
            .map(|(number, id)| format!("{number}={}", id.full(&server.name)));
        out.text("gpus_assigned", pairs.collect::<Vec<_>>().join(","));
    }
    if !facts.gpus_outside.is_empty() {
        out.text("gpus_used_outside", comma_separated(&facts.gpus_outside));
    }
}

fn comma_separated(numbers: &[u16]) -> String {
    numbers
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// The reason why schedd refuses the node's noded, else the administrator's comment, else a text
/// about the GPUs in use by processes that belong to no job. None if none of these exists.
fn comment(record: &NodeRecord) -> Option<String> {
    let node = &record.node;
    let comment = node.comment.as_ref().filter(|comment| !comment.is_empty());
    if let Some(text) = node.refused.as_ref().or(comment) {
        return Some(text.clone());
    }
    let outside = &node.facts.gpus_outside;
    let (gpus, are) = match outside.len() {
        0 => return None,
        1 => ("GPU", "is"),
        _ => ("GPUs", "are"),
    };
    Some(format!(
        "{gpus} {} {are} in use by processes that belong to no job",
        comma_separated(outside)
    ))
}

/// The jobs on a node. JSON lists each job once; the other formats list a job once for each of its
/// processors, with a slot number.
fn jobs(record: &NodeRecord, server: &ServerFacts, format: NodeFormat) -> Vec<String> {
    if format == NodeFormat::Json {
        let ids: BTreeSet<_> = record.jobs.iter().map(|(id, _)| *id).collect();
        return ids.into_iter().map(|id| id.full(&server.name)).collect();
    }
    let slots = record.jobs.iter().flat_map(|(id, share)| {
        let count = usize::try_from(exec_host::processors(share))
            .unwrap_or(0)
            .clamp(1, SLOTS_SHOWN);
        std::iter::repeat_n(id, count)
    });
    slots
        .enumerate()
        .map(|(slot, id)| format!("{}/{slot}", id.full(&server.name)))
        .collect()
}

/// Maximum number of slots displayed for one job. Real nodes have fewer processors.
const SLOTS_SHOWN: usize = 1 << 16;

/// Adds the assigned amounts of consumable node resources.
fn assigned_resources<'a>(
    out: &mut Attributes<'a>,
    record: &NodeRecord,
    server: &'a ServerFacts,
    format: NodeFormat,
) {
    let sums = assigned(record);
    for (name, definition) in server
        .resources
        .iter()
        .filter(|(_, d)| d.consumable && d.host_level)
    {
        let sum = sums.get(name).copied().unwrap_or(0);
        // As in PBS, text and DSV also list amounts of 0: on every node for a built-in resource
        // other than ngpus; for any other resource, on the nodes that have the resource.
        let expected = Resources::builtin().get(name).is_some() && name != "ngpus";
        let listed = expected || record.node.facts.available.contains_key(name);
        if sum != 0 || (listed && format != NodeFormat::Json) {
            out.resource(
                "resources_assigned",
                name,
                &ResourceValue::of_amount(definition.kind, sum),
            );
        }
    }
}

/// The summary of a group (`pbsnodes -S`), in column order.
pub fn summary<'a>(group: &NodeGroup<'a>, format: NodeFormat) -> Attributes<'a> {
    let facts = &group.first().node.facts;
    let mut out = Attributes::default();
    out.text(
        if format == NodeFormat::Json {
            "State"
        } else {
            "state"
        },
        group.state(),
    );
    out.text("OS", "--");
    out.text("hardware", "--");
    out.text("host", facts.host.as_str());
    out.text("queue", "--");
    out.text(
        if format == NodeFormat::Json {
            "Memory"
        } else {
            "mem"
        },
        rounded(group.available("mem")),
    );
    out.number("ncpus", group.available("ncpus"));
    out.number("nmics", group.available("nmics"));
    out.number("ngpus", group.available("ngpus"));
    out.text(
        "comment",
        comment(group.first()).unwrap_or_else(|| "--".to_string()),
    );
    out
}

/// The summary of the jobs of a group (`pbsnodes -Sj`), in column order.
pub fn job_summary<'a>(
    group: &NodeGroup<'a>,
    server: &ServerFacts,
    format: NodeFormat,
) -> Attributes<'a> {
    let mut out = Attributes::default();
    let jobs = group.jobs();
    let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    // PBS capitalizes the key in JSON, but some clients read the lowercase key: both are written.
    if format == NodeFormat::Json {
        out.text("State", group.state());
    }
    out.text("state", group.state());
    let [total, running, suspended] = match format {
        NodeFormat::Json => ["Total Jobs", "Running Jobs", "Suspended Jobs"],
        NodeFormat::Text | NodeFormat::Dsv => ["njobs", "run", "susp"],
    };
    out.number(total, count);
    out.number(running, count);
    out.number(suspended, 0);
    let (free, all) = (group.free("mem"), group.available("mem"));
    out.text("mem f/t", format!("{}/{}", rounded(free), rounded(all)));
    for (key, name) in [
        ("ncpus f/t", "ncpus"),
        ("nmics f/t", "nmics"),
        ("ngpus f/t", "ngpus"),
    ] {
        out.text(
            key,
            format!("{}/{}", group.free(name), group.available(name)),
        );
    }
    match format {
        NodeFormat::Json => {
            let ids = jobs
                .iter()
                .map(|id| format!("{id}.{}", server.name))
                .collect();
            out.add("jobs", AttributeDisplay::List(ids));
        }
        NodeFormat::Text | NodeFormat::Dsv if jobs.is_empty() => out.text("jobs", "--"),
        NodeFormat::Text | NodeFormat::Dsv => {
            out.text(
                "jobs",
                jobs.iter()
                    .map(JobId::to_string)
                    .collect::<Vec<_>>()
                    .join(","),
            );
        }
    }
    out
}

/// Bytes in kb (rounded down), or from 1 MB on in mb and from 1 GB on in gb (both rounded to the
/// nearest integer), as in PBS.
fn rounded(bytes: i64) -> String {
    let kilobytes = u64::try_from(bytes).unwrap_or(0) / 1024;
    match kilobytes {
        0..0x400 => format!("{kilobytes}kb"),
        0x400..0x10_0000 => format!("{}mb", (kilobytes + 0x200) >> 10),
        _ => format!("{}gb", (kilobytes + 0x8_0000) >> 20),
    }
}
