//! The schedule of a scenario as a table: one line per attempt, and one per job without attempts.
//! Arrays, and subjobs that have never started, have no line.

use super::expectation::comparison::seconds;
use super::world::{PastAttempt, World};
use crate::model::job::{Job, NodeShare};
use crate::model::time::Time;

/// The maximum number of lines for attempts and jobs.
const MOST: usize = 60;

const HEAD: [&str; 7] = ["job", "user", "queued", "start", "end", "via", "nodes"];

/// The table. Each line begins with two spaces.
pub fn table(world: &World, zero: Time) -> String {
    let jobs = world.jobs().filter(|job| !job.id.is_array());
    let mut rows: Vec<[String; 7]> = Vec::new();
    for job in jobs {
        let past: Vec<&PastAttempt> = world
            .past()
            .iter()
            .filter(|past| past.job == job.id)
            .collect();
        rows.extend(past.iter().map(|past| attempt_row(job, past, zero)));
        if past.is_empty() {
            rows.push(waiting_row(world, job, zero));
        }
    }
    let more = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    rows.insert(0, HEAD.map(str::to_string));
    let mut text = aligned(&rows);
    if more > 0 {
        text += &format!("  ... {more} more\n");
    }
    text
}

/// A time as seconds from the beginning of the scenario.
fn shown(time: Time, zero: Time) -> String {
    seconds(time.since(zero))
}

fn attempt_row(job: &Job, past: &PastAttempt, zero: Time) -> [String; 7] {
    [
        job.id.to_string(),
        job.owner.user.clone(),
        shown(job.life.ctime, zero),
        shown(past.start, zero),
        past.end
            .map_or_else(|| "-".to_string(), |end| shown(end, zero)),
        if past.is_backfilled {
            "backfill"
        } else {
            "priority"
        }
        .to_string(),
        nodes_with_chunks(&past.shares),
    ]
}

/// The row of a job that has not run. Instead of the nodes, the last column has the reason why the
/// job waits or, if there is none, the job state.
fn waiting_row(world: &World, job: &Job, zero: Time) -> [String; 7] {
    let none = || "-".to_string();
    let state = format!("({})", job.life.state.letter());
    let why = world.reason(job.id).map_or(state, ToString::to_string);
    [
        job.id.to_string(),
        job.owner.user.clone(),
        shown(job.life.ctime, zero),
        none(),
        none(),
        none(),
        why,
    ]
}

/// The nodes with their numbers of chunks: `n1*2,n2`.
fn nodes_with_chunks(shares: &[NodeShare]) -> String {
    let runs = shares
        .chunk_by(|a, b| a.node == b.node)
        .map(|run| match run {
            [one] => one.node.clone(),
            many => format!("{}*{}", many[0].node, many.len()),
        });
    runs.collect::<Vec<_>>().join(",")
}

fn aligned(rows: &[[String; 7]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"));
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
