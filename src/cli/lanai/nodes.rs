//! `lanai nodes`: the nodes, their free resources and their jobs.

use super::document;
use super::drain::{self, DrainArgs, ResumeArgs};
use super::session::{OutputOptions, Session};
use super::table::{self, Heading, Text};
use crate::cli::client::exit::{self, Failure};
use crate::cli::output::nodes::{self, NodeGroup};
use crate::wire::message::{NodeRecord, Question, ServerFacts};
use clap::{Args, Subcommand};
use comfy_table::Color;
use serde_json::{Value, json};

/// Options of `lanai nodes`.
#[derive(Args, Clone, Debug, Default)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NodesArgs {
    #[command(subcommand)]
    task: Option<NodesTask>,
    /// Nodes to show; all nodes by default
    #[arg(value_name = "NODE")]
    pub nodes: Vec<String>,
}

/// Changes of nodes.
#[derive(Clone, Debug, Subcommand)]
enum NodesTask {
    /// Set nodes offline, so that no further job starts on them
    Drain(DrainArgs),
    /// Set drained nodes online
    Resume(ResumeArgs),
}

impl NodesArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        match &self.task {
            Some(NodesTask::Drain(args)) => drain::drain(args),
            Some(NodesTask::Resume(args)) => drain::resume(args),
            None => self.list(output),
        }
    }

    fn list(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let answers = session.ask(&Question::Nodes)?;
        let mut shown: Vec<&NodeRecord> = Vec::new();
        for name in &self.nodes {
            let named = answers
                .nodes
                .iter()
                .find(|record| record.node.facts.name == *name);
            shown.push(named.ok_or_else(|| unknown_node(name, &answers.nodes))?);
        }
        if self.nodes.is_empty() {
            shown = answers.nodes.iter().collect();
        }
        if output.json {
            let nodes: Vec<Value> = shown
                .iter()
                .map(|record| data(record, &answers.server))
                .collect();
            let content = json!({ "nodes": nodes });
            exit::print(document::document(
                "nodes",
                &answers.server,
                session.now,
                content,
            ))?;
        } else {
            exit::print(text(&shown, output.width(), output.has_color()))?;
        }
        Ok(0)
    }
}

fn unknown_node(name: &str, known: &[NodeRecord]) -> Failure {
    let names: Vec<&str> = known
        .iter()
        .map(|record| record.node.facts.name.as_str())
        .take(20)
        .collect();
    Failure::new(
        1,
        format!("unknown node '{name}'\nThe nodes are {}.", names.join(", ")),
    )
}

/// A table of nodes.
pub fn text(records: &[&NodeRecord], width: Option<u16>, has_color: bool) -> String {
    let right = |text| Heading {
        text,
        is_right: true,
        is_flexible: false,
    };
    let headings = [
        Heading {
            text: "NODE",
            is_right: false,
            is_flexible: false,
        },
        Heading {
            text: "STATE",
            is_right: false,
            is_flexible: false,
        },
        right("CPUS FREE"),
        right("MEM FREE"),
        right("GPUS FREE"),
        right("JOBS"),
        Heading {
            text: "COMMENT",
            is_right: false,
            is_flexible: true,
        },
    ];
    let rows = records.iter().map(|record| row(record)).collect();
    table::render(&headings, rows, width, has_color)
}

/// The cells of a node: name, state, free processors, memory and GPUs, number of jobs, comment.
pub fn row(record: &NodeRecord) -> Vec<Text> {
    let group = NodeGroup(vec![record]);
    let state = nodes::state(record);
    let share = |name: &str| format!("{}/{}", group.free(name), group.available(name));
    let memory = format!(
        "{}/{} GiB",
        gibibytes(group.free("mem")),
        gibibytes(group.available("mem"))
    );
    let color = match (record.node.is_usable(), group.free("ncpus")) {
        (false, _) => Some(Color::Red),
        (true, 0) => Some(Color::Yellow),
        (true, _) => Some(Color::Green),
    };
    let gpus = match group.available("ngpus") {
        0 => "-".to_string(),
        _ => share("ngpus"),
    };
    vec![
        record.node.facts.name.clone().into(),
        Text { text: state, color },
        share("ncpus").into(),
        memory.into(),
        gpus.into(),
        group.jobs().len().to_string().into(),
        record.node.comment.clone().unwrap_or_default().into(),
    ]
}

/// Bytes in gibibytes, with one decimal below 10.
fn gibibytes(bytes: i64) -> String {
    let gibibytes = bytes as f64 / (1u64 << 30) as f64;
    if gibibytes < 10.0 {
        format!("{gibibytes:.1}")
    } else {
        format!("{gibibytes:.0}")
    }
}

/// A node as a JSON object.
pub fn data(record: &NodeRecord, server: &ServerFacts) -> Value {
    let group = NodeGroup(vec![record]);
    let facts = &record.node.facts;
    let jobs: Vec<String> = group
        .jobs()
        .iter()
        .map(|id| id.full(&server.name))
        .collect();
    let amounts = |name: &str| {
        json!({
            "total": group.available(name),
            "assigned": group.assigned(name),
            "free": group.free(name),
        })
    };
    json!({
        "name": facts.name,
        "host": facts.host,
        "state": nodes::state(record),
        "usable": record.node.is_usable(),
        "offline": record.node.offline,
        "comment": record.node.comment,
        "changed": document::time(server.clock.wall(record.node.changed)),
        "cpus": amounts("ncpus"),
        "mem_bytes": amounts("mem"),
        "gpus": amounts("ngpus"),
        "load": f64::from(facts.load) / 1000.0,
        "jobs": jobs,
        "reservations": record.reservations,
    })
}
