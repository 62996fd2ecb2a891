//! `lanai` without a subcommand: the caller's jobs, the nodes, and what to type next.

use super::columns;
use super::document;
use super::expected_starts::{self, ExpectedStart};
use super::filter::JobFilter;
use super::job_view::JobView;
use super::list::{OWN_COLUMNS, summary};
use super::nodes;
use super::session::{FoundJobs, OutputOptions, Session};
use super::status::JobStatus;
use crate::cli::client::exit::{self, Failure};
use crate::sys::terminal;
use crate::wire::message::{Arrays, NodeRecord, Question};
use serde_json::json;
use std::io::stdout;

/// The period in which failed jobs are recent.
const RECENT: &str = "1d";

/// The lines of the overview besides the rows of the tables.
const OTHER_LINES: usize = 16;

/// The maximum number of nodes in the overview.
const MOST_NODES: usize = 8;

/// Prints the overview.
pub fn run(output: &OutputOptions) -> Result<u8, Failure> {
    let mut session = Session::open()?;
    let context = session.filter_context();
    let mut filter = JobFilter::parse(&["state=unfinished,failed", "user=me"], &context)?;
    filter.require("since", RECENT, &context)?;
    let found = session.jobs(&filter, Arrays::Folded)?;
    let nodes = session.ask(&Question::Nodes)?.nodes;
    let starts = expected_starts::find(&found);
    if output.json {
        let jobs: Vec<_> = found.views().map(|job| document::job(&job)).collect();
        let nodes: Vec<_> = nodes
            .iter()
            .map(|record| nodes::data(record, &found.server))
            .collect();
        let starts: Vec<_> = starts
            .iter()
            .filter_map(|start| start.data(&found.server))
            .collect();
        let content = json!({ "jobs": jobs, "nodes": nodes, "expected_starts": starts });
        exit::print(document::document(
            "overview",
            &found.server,
            session.now,
            content,
        ))?;
    } else {
        exit::print(text(&found, &nodes, &starts, output)?)?;
    }
    Ok(0)
}

fn text(
    found: &FoundJobs,
    nodes: &[NodeRecord],
    starts: &[ExpectedStart],
    output: &OutputOptions,
) -> Result<String, Failure> {
    let (width, has_color) = (output.width(), output.has_color());
    let mut jobs: Vec<JobView> = found.views().collect();
    jobs.sort_by_key(|job| (order(job.status()), job.record.job.id));
    let shown_nodes: Vec<&NodeRecord> = nodes.iter().take(MOST_NODES).collect();
    let other_lines = OTHER_LINES + shown_nodes.len() + starts.len();
    let rows = rows_of_terminal().saturating_sub(other_lines);
    let mut text = String::new();
    if jobs.is_empty() {
        text.push_str("You have no unfinished jobs, and none failed in the last day.\n");
    } else {
        let shown = &jobs[..jobs.len().min(rows.max(3))];
        text.push_str(&columns::table(
            shown,
            &columns::parse(OWN_COLUMNS)?,
            width,
            has_color,
        ));
        if shown.len() < jobs.len() {
            text.push_str(&format!("... and {} more\n", jobs.len() - shown.len()));
        }
        text.push_str(&format!("{}\n", summary(&jobs)));
    }
    text.push('\n');
    if !starts.is_empty() {
        text.push_str("Next expected starts:\n");
        for start in starts {
            text.push_str(&format!("  {}\n", start.text(&found.server)));
        }
        text.push('\n');
    }
    text.push_str(&nodes::text(&shown_nodes, width, has_color));
    if shown_nodes.len() < nodes.len() {
        text.push_str(&format!(
            "... and {} more\n",
            nodes.len() - shown_nodes.len()
        ));
    }
    text.push('\n');
    for (command, purpose) in suggestions(&jobs) {
        text.push_str(&format!("  {command:<28} {purpose}\n"));
    }
    Ok(text)
}

/// Running jobs first, then failed jobs, then waiting jobs.
fn order(status: JobStatus) -> u8 {
    match status {
        JobStatus::Running | JobStatus::Suspended => 0,
        JobStatus::Failed => 1,
        _ => 2,
    }
}

fn rows_of_terminal() -> usize {
    terminal::window(stdout()).map_or(24, |size| usize::from(size.rows))
}

/// Commands that help with the listed jobs, each with its purpose.
fn suggestions(jobs: &[JobView]) -> Vec<(String, &'static str)> {
    let first = |wanted: fn(JobStatus) -> bool| {
        jobs.iter()
            .find(|job| wanted(job.status()))
            .map(|job| job.record.job.id)
    };
    let mut lines = Vec::new();
    if jobs.is_empty() {
        lines.push((
            "lanai run COMMAND".to_string(),
            "run a command and show its output",
        ));
        lines.push(("lanai submit COMMAND".to_string(), "submit a command"));
    }
    if let Some(id) = first(|status| status == JobStatus::Running) {
        lines.push((format!("lanai log -f {id}"), "follow the output of the job"));
    }
    if let Some(id) = first(JobStatus::is_pending) {
        lines.push((
            format!("lanai why {id}"),
            "why the job waits, and when it starts",
        ));
    }
    if let Some(id) = first(|status| status == JobStatus::Failed) {
        lines.push((format!("lanai log {id}"), "the output of the failed job"));
        lines.push((
            "lanai retry --failed".to_string(),
            "run the failed jobs again",
        ));
    }
    lines.push(("lanai top".to_string(), "watch jobs and nodes"));
    lines.push(("lanai --help".to_string(), "all subcommands"));
    lines
}
