//! A report as a page of HTML: self-contained, without scripts. The browser's scheme decides
//! whether it is light or dark.

use super::aggregate::Report;
use super::chart::{self, Histogram};
use super::gantt::Outcome;
use super::gantt_chart::{self, MOST_HOSTS};
use super::markup::{element, escape, unit};
use super::period::formatted;
use super::tables::{self, TextTable, mean, percent, span};
use super::usage::{EFFICIENCY_BINS, UsageGroup};
use super::waits::BOUNDS;
use crate::cli::lanai::relative_time::duration;
use crate::model::account::accounting::part;
use crate::model::time::{Span, Wall};
use crate::wire::message::ServerFacts;

/// The style. The colors of charts are those of Okabe and Ito, which color-blind people can
/// distinguish; they are lighter in the dark scheme.
const STYLE: &str = include_str!("page.css");

/// The maximum number of rows of a table of users, queues, reasons or names.
const MOST_ROWS: usize = 200;

/// The maximum number of bars in a list of bars.
const MOST_BARS: usize = 12;

/// The names and classes of the three efficiencies.
const EFFICIENCIES: [(&str, &str); 3] = [("c1", "CPU"), ("c2", "Memory"), ("c3", "Walltime")];

/// The page.
pub fn page(report: &Report, server: &ServerFacts, now: Wall) -> String {
    let title = format!("Report on {}", tables::scope(report));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{} - {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n{}\n{}\n\
         </header>\n<main>\n",
        escape(&title),
        escape(&server.name),
        element("h1", &title),
        element("p", &tables::period(report)),
    );
    if report.is_empty() {
        page.push_str(&section(
            "full",
            "No jobs",
            &element("p", "No job ran, waited or ended in this period."),
        ));
    } else {
        page.push_str(&sections(report));
    }
    page.push_str(&format!(
        "</main>\n<footer>Server {}, Lanai {}, written {}. Jobs, usage and efficiencies count the \
         attempts that ended in the period, as in qacct. Core hours, utilization and queue length \
         count only the part inside the period.</footer>\n</body>\n</html>\n",
        escape(&server.name),
        env!("CARGO_PKG_VERSION"),
        formatted(now.0.saturating_mul(1000), "%Y-%m-%d %H:%M:%S %:z"),
    ));
    page
}

fn sections(report: &Report) -> String {
    let mut page = section("full", "Summary", &summary(report));
    page.push_str(&section("", "Utilization", &utilization(report)));
    page.push_str(&section("", "Queue length", &queue_length(report)));
    page.push_str(&section("", "Waiting times", &waits(report)));
    page.push_str(&section("", "Efficiency", &efficiency(report)));
    if report.user.is_none() {
        page.push_str(&section("", "Users", &usage(report, "User", &report.users)));
    }
    page.push_str(&section(
        "",
        "Queues",
        &usage(report, "Queue", &report.queues),
    ));
    // With users and queues in one row, failures have a row of their own.
    let class = if report.user.is_none() { "full" } else { "" };
    page.push_str(&section(class, "Failures", &failures(report)));
    page.push_str(&section("full", "Runs", &runs(report)));
    page
}

fn section(class: &str, title: &str, content: &str) -> String {
    format!(
        "<section class=\"{class}\">\n{}\n{content}</section>\n",
        element("h2", title)
    )
}

fn summary(report: &Report) -> String {
    let (total, waits) = (&report.total, &report.total.waits);
    let allocated = report.mean(|bin| bin.allocated);
    let [cpu, mem, walltime] = total.efficiencies().map(percent);
    let facts = [
        (
            "Jobs ended",
            total.sums.jobs.to_string(),
            format!("{} done", total.done),
        ),
        (
            "Failed",
            total.failed.to_string(),
            format!(
                "{} deleted, {}",
                total.deleted,
                tables::count(total.requeued, "requeue")
            ),
        ),
        (
            "Utilization",
            percent(report.fraction(allocated)),
            format!("of {}", tables::capacity(report)),
        ),
        (
            "Core hours",
            tables::core_hours(total.core_ms_in_period),
            format!("{} CPUs on average", mean(allocated)),
        ),
        (
            "Median wait",
            span(waits.percentile(50)),
            format!("90% at most {}", span(waits.percentile(90))),
        ),
        (
            "CPU efficiency",
            cpu,
            format!("memory {mem}, walltime {walltime}"),
        ),
        (
            "Now",
            format!("{} running", report.running_now),
            format!("{} waiting", report.waiting_now),
        ),
    ];
    let facts = facts.iter().map(|(name, value, more)| {
        let small = element("small", more);
        format!(
            "<div>{}<dd>{}{small}</dd></div>\n",
            element("dt", name),
            escape(value)
        )
    });
    format!("<dl>\n{}</dl>\n", facts.collect::<String>())
}

fn utilization(report: &Report) -> String {
    let step = duration(Span::seconds(report.period.step()));
    let text = format!(
        "Mean of each {step}. The dashed line is the present number of CPUs ({}); earlier numbers \
         are not recorded.",
        tables::capacity(report)
    );
    let keys = [
        ("c1", "allocated to jobs"),
        ("c2", "busy (CPU time per time)"),
        ("dash", "all CPUs"),
    ];
    figure(
        &keys,
        &chart::processors(report),
        &text,
        &tables::processors(report),
    )
}

fn queue_length(report: &Report) -> String {
    let text = "Jobs and subjobs that could start, but waited. Held jobs are not counted.";
    figure(
        &[],
        &chart::queue_length(report),
        text,
        &tables::queue_length(report),
    )
}

fn waits(report: &Report) -> String {
    let waits = &report.total.waits;
    let borders = BOUNDS.map(|bound| duration(Span::seconds(bound)));
    let picture = chart::histogram(&Histogram {
        label: "Histogram of waiting times",
        titles: ("Time from eligibility to start", "Attempts"),
        borders: borders.to_vec(),
        series: vec![("c1", "Attempts", waits.histogram.to_vec())],
        range: tables::wait_range,
    });
    let text = format!(
        "Mean {}, 50% at most {}, 90% {}, 99% {}, longest {}.",
        span(waits.mean()),
        span(waits.percentile(50)),
        span(waits.percentile(90)),
        span(waits.percentile(99)),
        span(waits.longest())
    );
    figure(&[], &picture, &text, &tables::waits(waits))
}

fn efficiency(report: &Report) -> String {
    let borders = (0..EFFICIENCY_BINS)
        .map(|bin| format!("{}%", 10 * bin))
        .collect();
    let series = EFFICIENCIES
        .iter()
        .zip(&report.efficiency)
        .map(|((class, name), histogram)| (*class, *name, histogram.bins.to_vec()));
    let picture = chart::histogram(&Histogram {
        label: "Histogram of efficiencies",
        titles: ("Used part of the request", "Attempts"),
        borders,
        series: series.collect(),
        range: tables::efficiency_range,
    });
    let [cpu, mem, walltime] = report.total.efficiencies().map(percent);
    let text = format!(
        "All attempts together: CPU time {cpu} of the allocated time, memory {mem} and walltime \
         {walltime} of the request. Memory and walltime count only if requested."
    );
    figure(&EFFICIENCIES, &picture, &text, &tables::efficiency(report))
}

fn usage(report: &Report, kind: &'static str, groups: &[(String, UsageGroup)]) -> String {
    let largest = groups
        .iter()
        .map(|(_, group)| group.core_ms_in_period)
        .fold(0.0, f64::max);
    let rows: Vec<_> = groups
        .iter()
        .take(MOST_BARS)
        .map(|(name, group)| {
            let text = format!(
                "{} ({} h)",
                percent(report.share(group)),
                tables::core_hours(group.core_ms_in_period)
            );
            (
                name.as_str(),
                part(group.core_ms_in_period, largest).unwrap_or(0.0),
                text,
            )
        })
        .collect();
    let mut content = bars("c1", &rows);
    content.push_str("<p class=\"dim\">Share of the allocated core hours.</p>\n");
    content.push_str(&details(&tables::usage(report, kind, groups)));
    content
}

fn failures(report: &Report) -> String {
    if report.exits.is_empty() {
        return element("p", "No job failed or was deleted.") + "\n";
    }
    let largest = report.exits[0].1.max(1) as f64;
    let reasons: Vec<_> = report
        .exits
        .iter()
        .take(MOST_BARS)
        .map(|(text, jobs)| (text.as_str(), *jobs as f64 / largest, jobs.to_string()))
        .collect();
    let reasons = element("h3", "Jobs by exit reason") + "\n" + &bars("c2", &reasons);
    let mut content = format!(
        "<div>{reasons}{}</div>\n",
        details(&tables::exits(&report.exits))
    );
    if let Some((_, most)) = report.names.first() {
        let names: Vec<_> = report
            .names
            .iter()
            .take(MOST_BARS)
            .map(|(name, counts)| {
                let text = format!("{} of {}", counts.failed, counts.jobs);
                let part = counts.failed as f64 / most.failed.max(1) as f64;
                (name.as_str(), part, text)
            })
            .collect();
        let names = element("h3", "Failed jobs by name") + "\n" + &bars("c2", &names);
        let table = details(&tables::names(&report.names));
        content.push_str(&format!("<div>{names}{table}</div>\n"));
    }
    format!("<div class=\"pair\">\n{content}</div>\n")
}

/// Horizontal bars: name, length from 0 to 1, and text.
fn bars(class: &str, rows: &[(&str, f64, String)]) -> String {
    let rows = rows.iter().map(|(name, part, text)| {
        let name = escape(name);
        let width = unit(100.0 * part.clamp(0.0, 1.0));
        let color = format!("width:{width}%;background:var(--{class})");
        format!(
            "<b title=\"{name}\">{name}</b><span><i style=\"{color}\"></i></span>{}\n",
            element("em", text)
        )
    });
    format!("<div class=\"bars\">\n{}</div>\n", rows.collect::<String>())
}

fn runs(report: &Report) -> String {
    let gantt = &report.gantt;
    if gantt.runs.is_empty() {
        return element("p", "No job ran.") + "\n";
    }
    let hosts = tables::count(gantt.hosts.len() as u64, "host");
    let mut text = format!("{} on {hosts}.", tables::count(gantt.total, "run"));
    if gantt.total > gantt.runs.len() as u64 {
        text = format!(
            "The {} that ended last, of {} in the period, on {hosts}.",
            tables::count(gantt.runs.len() as u64, "run"),
            gantt.total,
        );
    }
    if gantt.hosts.len() > MOST_HOSTS {
        text.push_str(&format!(" The chart shows the first {MOST_HOSTS} hosts."));
    }
    let classes = ["c1", "c2", "grey", "c5", "c3"];
    let keys: Vec<_> = classes
        .into_iter()
        .zip(Outcome::ALL.map(Outcome::word))
        .collect();
    let picture = gantt_chart::picture(gantt, report.period.to);
    let table = tables::runs(gantt);
    let scale = "A bar is as high as the number of its CPUs.";
    figure(&keys, &picture, &format!("{text} {scale}"), &table)
}

/// A chart with a legend, a description and its table.
fn figure(keys: &[(&str, &str)], picture: &str, text: &str, table: &TextTable) -> String {
    let mut legend = String::new();
    for (class, name) in keys {
        let mark = match *class {
            "dash" => "<i class=\"dash\"></i>".to_string(),
            _ => format!("<i style=\"background:var(--{class})\"></i>"),
        };
        legend.push_str(&format!("<li>{mark}{}</li>\n", escape(name)));
    }
    if !legend.is_empty() {
        legend = format!("<ul class=\"key\">\n{legend}</ul>\n");
    }
    format!(
        "<figure>\n{legend}{picture}<figcaption class=\"dim\">{}</figcaption>\n</figure>\n{}",
        escape(text),
        whole(table)
    )
}

/// A table of at most [`MOST_ROWS`] rows that opens on request.
fn details(table: &TextTable) -> String {
    whole(&table.clone().first(MOST_ROWS))
}

/// A table that opens on request.
fn whole(table: &TextTable) -> String {
    let class = |is_right: bool| if is_right { " class=\"n\"" } else { "" };
    let mut text = "<details><summary>Table</summary><div class=\"scroll\" tabindex=\"0\" \
                    role=\"region\" aria-label=\"Table\"><table><thead><tr>"
        .to_string();
    for (heading, is_right) in &table.headings {
        let class = class(*is_right);
        text.push_str(&format!(
            "<th scope=\"col\"{class}>{}</th>",
            escape(heading)
        ));
    }
    text.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (cell, (_, is_right)) in row.iter().zip(&table.headings) {
            text.push_str(&format!("<td{}>{}</td>", class(*is_right), escape(cell)));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>");
    if table.omitted > 0 {
        text.push_str(&format!("<p>{} more rows</p>", table.omitted));
    }
    text.push_str("</details>\n");
    text
}

#[cfg(test)]
mod tests;
