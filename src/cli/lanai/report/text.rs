//! A report as text for the terminal.

use super::aggregate::{Bin, Report};
use super::tables::{self, TextTable, mean, percent, span};
use crate::cli::lanai::relative_time::duration;
use crate::cli::lanai::table::{self, Heading, Text, printable};
use crate::model::time::Span;

/// The maximum number of rows of each table.
const MOST_ROWS: usize = 10;

/// The maximum number of columns of a graph.
const GRAPH: usize = 60;

/// The width of the column with the names of the figures.
const INDENT: usize = 13;

/// The heights of a graph's columns.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The report. `width` is the width of the terminal; None for no limit.
pub fn text(report: &Report, width: Option<u16>) -> String {
    let period = tables::period(report);
    let scope = tables::scope(report);
    if report.is_empty() {
        return format!("No job ran, waited or ended: {scope}, {period}\n");
    }
    let mut text = format!("Report on {scope}\n{period}\n\n");
    figures(&mut text, report, width);
    // Without the deleted jobs, the table of usage fits a terminal of 80 columns.
    let limited = |table: TextTable| rendered(&table.without("Deleted").first(MOST_ROWS), width);
    if report.user.is_none() {
        text.push_str(&limited(tables::usage(report, "User", &report.users)));
    }
    text.push_str(&limited(tables::usage(report, "Queue", &report.queues)));
    if !report.exits.is_empty() {
        text.push_str(&limited(tables::exits(&report.exits)));
    }
    if !report.names.is_empty() {
        text.push_str(&limited(tables::names(&report.names)));
    }
    text.push_str("\nFor charts: lanai report --html FILE\n");
    text
}

fn figures(text: &mut String, report: &Report, width: Option<u16>) {
    let (total, waits) = (&report.total, &report.total.waits);
    let columns = width.map_or(GRAPH, |width| {
        usize::from(width).saturating_sub(INDENT).clamp(10, GRAPH)
    });
    let mut line = |name: &str, value: String| {
        text.push_str(&format!("{name:INDENT$}{value}\n"));
    };
    let mut jobs = format!(
        "{} ended: {} done, {} failed, {} deleted",
        total.sums.jobs, total.done, total.failed, total.deleted
    );
    if total.requeued > 0 {
        jobs.push_str(&format!("; {}", tables::count(total.requeued, "requeue")));
    }
    line("Jobs", jobs);
    line(
        "Now",
        format!(
            "{} running, {} waiting",
            report.running_now, report.waiting_now
        ),
    );
    let allocated = report.mean(|bin| bin.allocated);
    line(
        "Utilization",
        format!(
            "{} of {}; busiest {}: {}",
            percent(report.fraction(allocated)),
            tables::capacity(report),
            duration(Span::seconds(report.period.step())),
            percent(report.fraction(report.peak(|bin| bin.allocated))),
        ),
    );
    let top = report.capacity.processors as f64;
    line("", graph(report, |bin| bin.allocated, top, columns));
    line(
        "Queue",
        format!(
            "{} jobs waited on average; largest mean: {}",
            mean(report.mean(|bin| bin.waiting)),
            mean(report.peak(|bin| bin.waiting))
        ),
    );
    line("", graph(report, |bin| bin.waiting, 1.0, columns));
    line(
        "Waiting",
        format!(
            "median {}, 90% at most {}, longest {}",
            span(waits.percentile(50)),
            span(waits.percentile(90)),
            span(waits.longest())
        ),
    );
    let [cpu, mem, walltime] = total.efficiencies().map(percent);
    line(
        "Efficiency",
        format!("CPU {cpu}, memory {mem}, walltime {walltime} of the request used"),
    );
}

/// A graph of one line. A column of full height is `top`, or the largest value if that is larger.
fn graph(report: &Report, value: fn(&Bin) -> f64, top: f64, columns: usize) -> String {
    let values: Vec<f64> = report.bins.iter().map(value).collect();
    let columns = columns.min(values.len());
    let top = report.peak(value).max(top);
    let column = |at: usize| {
        let part = &values[at * values.len() / columns..(at + 1) * values.len() / columns];
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        if mean <= 0.0 {
            return ' ';
        }
        let height = (mean / top * BLOCKS.len() as f64).ceil() as usize;
        BLOCKS[height.clamp(1, BLOCKS.len()) - 1]
    };
    let text: String = (0..columns).map(column).collect();
    text.trim_end().to_string()
}

/// A table for the terminal, after an empty line.
fn rendered(content: &TextTable, width: Option<u16>) -> String {
    let headings: Vec<String> = content
        .headings
        .iter()
        .map(|(text, _)| text.to_uppercase())
        .collect();
    let columns: Vec<Heading> = content
        .headings
        .iter()
        .enumerate()
        .map(|(at, (_, is_right))| Heading {
            text: "",
            is_right: *is_right,
            is_flexible: at == 0,
        })
        .collect();
    let rows = std::iter::once(headings).chain(content.rows.iter().cloned());
    let rows = rows
        .map(|row| row.into_iter().map(Text::from).collect())
        .collect();
    // The headings of the table are the first row, because they are no constants.
    let table = table::render(&columns, rows, width, false);
    let table = table.split_once('\n').map_or("", |(_, rest)| rest);
    let mut text = format!("\n{table}");
    if content.omitted > 0 {
        text.push_str(&format!("... and {} more\n", content.omitted));
    }
    text
}

/// The name of a file for a message.
pub fn written(file: &std::path::Path, bytes: usize) -> String {
    let name = printable(&file.display().to_string());
    format!("Wrote {name} ({} kB)\n", bytes.div_ceil(1000))
}
