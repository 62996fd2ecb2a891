//! The nodes that a job could use if they accepted jobs: which are offline, by which operator and
//! why, and which do not respond. Cycles do not use the comments of nodes, so these come from the
//! records of the nodes.

use super::super::ReportContext;
use super::JobView;
use crate::cli::client::exit::Failure;
use crate::cli::output::full;
use crate::model::node::Node;
use crate::model::report::outlook::Explanation;
use crate::wire::message::Question;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The code of the nodes that are down, offline or under maintenance.
const CODE: &str = "node_state";

/// Maximum number of nodes in a remedy.
const NAMED: usize = 3;

/// The nodes that the explanation names as down, offline or under maintenance. Queries the nodes
/// only if there are such nodes.
pub fn ask(
    context: &mut ReportContext,
    explanation: Option<&Explanation>,
) -> Result<Vec<Node>, Failure> {
    let survey = explanation.and_then(|explanation| explanation.survey.as_ref());
    let rejections = survey.iter().flat_map(|survey| &survey.rejections);
    let named: BTreeSet<String> = rejections
        .filter(|rejection| rejection.code == CODE)
        .flat_map(|rejection| rejection.named.iter().cloned())
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let records = context.source.ask(&Question::Nodes)?.nodes;
    let nodes = records.into_iter().map(|record| record.node);
    Ok(nodes
        .filter(|node| named.contains(&node.facts.name) && !node.is_usable())
        .collect())
}

impl JobView<'_> {
    /// The remedies that make these nodes accept jobs.
    pub fn reopening(&self) -> Vec<String> {
        let names = |is_meant: fn(&Node) -> bool| -> Vec<&str> {
            let nodes = self.found.closed.iter().filter(|node| is_meant(node));
            nodes.map(|node| node.facts.name.as_str()).collect()
        };
        let offline = names(|node| node.offline);
        let down = names(|node| !node.offline && !node.up);
        let mut remedies = Vec::new();
        if !offline.is_empty() {
            let some = offline[..offline.len().min(NAMED)].join(" ");
            remedies.push(format!(
                "an operator sets {} online again: pbsnodes -r {some}",
                counted_nodes(&offline)
            ));
        }
        if !down.is_empty() {
            remedies.push(format!("{} responds again", counted_nodes(&down)));
        }
        remedies
    }

    /// Writes a line for each of these nodes.
    pub fn write_closed_nodes(&self, out: &mut String) {
        for node in &self.found.closed {
            let _ = writeln!(out, "      {}", self.closed_node(node));
        }
    }

    /// Why a node accepts no jobs, such as `n2 has been offline since Tue Nov 24 03:10:00 2026, set
    /// by ann@head: new fans`.
    fn closed_node(&self, node: &Node) -> String {
        let (name, since) = (&node.facts.name, self.moment(node.changed));
        if !node.offline && node.up {
            return format!("{name} is under maintenance");
        }
        let state = if node.offline { "offline" } else { "down" };
        let by = node.offline_by.as_ref().filter(|_| node.offline);
        let by = by.map(|by| format!(", set by {by}")).unwrap_or_default();
        let comment = full::printable(node.comment.as_deref().unwrap_or_default());
        let colon = if comment.is_empty() { "" } else { ": " };
        format!("{name} has been {state} since {since}{by}{colon}{comment}")
    }

    /// These nodes as JSON.
    pub fn closed_nodes_data(&self) -> Value {
        let nodes = self.found.closed.iter().map(|node| {
            json!({
                "node": node.facts.name,
                "offline": node.offline,
                "up": node.up,
                "since": self.wall(node.changed).0,
                "by": node.offline_by,
                "comment": node.comment,
            })
        });
        nodes.collect()
    }
}

/// `node n1`, `node n1 or n2`, or `one of 5 nodes`.
fn counted_nodes(names: &[&str]) -> String {
    if names.len() > NAMED {
        return format!("one of {} nodes", names.len());
    }
    format!("node {}", names.join(" or "))
}
