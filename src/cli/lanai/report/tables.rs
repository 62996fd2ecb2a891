//! The tables of a report, for the terminal and for the page.

use super::aggregate::{NameCounts, Report};
use super::gantt::Gantt;
use super::period::formatted;
use super::usage::{EFFICIENCY_BINS, UsageGroup};
use super::waits::{BOUNDS, WaitDistribution};
use crate::cli::lanai::relative_time::duration;
use crate::cli::lanai::status;
use crate::model::time::Span;

/// The format of times in tables.
const MINUTE: &str = "%Y-%m-%d %H:%M";

/// The same with seconds.
const SECOND: &str = "%Y-%m-%d %H:%M:%S";

/// A table of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTable {
    /// The headings, each with true if its column is right-justified.
    pub headings: Vec<(&'static str, bool)>,
    /// The rows. Each has a cell for each heading.
    pub rows: Vec<Vec<String>>,
    /// The number of rows that were omitted.
    pub omitted: usize,
}

impl TextTable {
    fn new(headings: &[(&'static str, bool)], rows: Vec<Vec<String>>) -> TextTable {
        TextTable {
            headings: headings.to_vec(),
            rows,
            omitted: 0,
        }
    }

    /// The table without a column.
    pub fn without(mut self, heading: &str) -> TextTable {
        if let Some(at) = self.headings.iter().position(|(text, _)| *text == heading) {
            self.headings.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
        self
    }

    /// The table with at most this number of rows.
    pub fn first(mut self, limit: usize) -> TextTable {
        self.omitted += self.rows.len().saturating_sub(limit);
        self.rows.truncate(limit);
        self
    }
}

/// A fraction as a percentage without decimals; a dash if it is unknown.
pub fn percent(fraction: Option<f64>) -> String {
    fraction.map_or("-".to_string(), |fraction| {
        format!("{:.0}%", 100.0 * fraction)
    })
}

/// A duration in words; a dash if it is unknown.
pub fn span(span: Option<Span>) -> String {
    span.map_or("-".to_string(), duration)
}

/// A number of things: `1 run`, `2 runs`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Milliseconds of processor time in hours.
pub fn core_hours(ms: f64) -> String {
    let hours = ms / 3_600_000.0;
    if hours < 10.0 {
        format!("{hours:.2}")
    } else {
        format!("{hours:.0}")
    }
}

/// A mean number, with one decimal below 100.
pub fn mean(value: f64) -> String {
    if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// The usage of users or queues. `kind` is the heading of the first column.
pub fn usage(report: &Report, kind: &'static str, groups: &[(String, UsageGroup)]) -> TextTable {
    let headings = [
        (kind, false),
        ("Jobs", true),
        ("Failed", true),
        ("Deleted", true),
        ("Core h", true),
        ("Share", true),
        ("CPU", true),
        ("Mem", true),
        ("Time", true),
        ("Wait 50%", true),
        ("Wait 90%", true),
    ];
    let rows = groups.iter().map(|(name, group)| {
        let [cpu, mem, walltime] = group.efficiencies().map(percent);
        vec![
            name.clone(),
            group.sums.jobs.to_string(),
            group.failed.to_string(),
            group.deleted.to_string(),
            core_hours(group.core_ms_in_period),
            percent(report.share(group)),
            cpu,
            mem,
            walltime,
            span(group.waits.percentile(50)),
            span(group.waits.percentile(90)),
        ]
    });
    TextTable::new(&headings, rows.collect())
}

/// The bins of the time axis: processors.
pub fn processors(report: &Report) -> TextTable {
    let headings = [
        ("From", false),
        ("Allocated CPUs", true),
        ("Busy CPUs", true),
        ("Utilization", true),
    ];
    let rows = report.bins.iter().map(|bin| {
        vec![
            formatted(bin.from, time_format(report)),
            mean(bin.allocated),
            mean(bin.busy),
            percent(report.fraction(bin.allocated)),
        ]
    });
    TextTable::new(&headings, rows.collect())
}

/// The bins of the time axis: waiting jobs.
pub fn queue_length(report: &Report) -> TextTable {
    let headings = [("From", false), ("Waiting jobs", true)];
    let rows = report
        .bins
        .iter()
        .map(|bin| vec![formatted(bin.from, time_format(report)), mean(bin.waiting)]);
    TextTable::new(&headings, rows.collect())
}

/// The format of the times of bins: with seconds if bins are shorter than a minute.
pub fn time_format(report: &Report) -> &'static str {
    if report.period.step() < 60 {
        SECOND
    } else {
        MINUTE
    }
}

/// The histogram of waiting times.
pub fn waits(waits: &WaitDistribution) -> TextTable {
    let headings = [("Waiting time", false), ("Attempts", true)];
    let rows = waits
        .histogram
        .iter()
        .enumerate()
        .map(|(bin, count)| vec![wait_range(bin), count.to_string()]);
    TextTable::new(&headings, rows.collect())
}

/// The range of a bin of the histogram of waiting times: `1m to 10m`.
pub fn wait_range(bin: usize) -> String {
    let bound = |bin: usize| duration(Span::seconds(BOUNDS[bin]));
    match bin {
        0 => format!("less than {}", bound(1)),
        _ if bin + 1 == BOUNDS.len() => format!("{} or longer", bound(bin)),
        _ => format!("{} to {}", bound(bin), bound(bin + 1)),
    }
}

/// The histogram of efficiencies.
pub fn efficiency(report: &Report) -> TextTable {
    let headings = [
        ("Used", false),
        ("CPU", true),
        ("Memory", true),
        ("Walltime", true),
    ];
    let rows = (0..EFFICIENCY_BINS).map(|bin| {
        let counts = report
            .efficiency
            .each_ref()
            .map(|histogram| histogram.bins[bin].to_string());
        std::iter::once(efficiency_range(bin))
            .chain(counts)
            .collect()
    });
    TextTable::new(&headings, rows.collect())
}

/// The range of a bin of the histogram of efficiencies: `20% to 30%`.
pub fn efficiency_range(bin: usize) -> String {
    if bin + 1 == EFFICIENCY_BINS {
        return "more than 100%".to_string();
    }
    format!("{}% to {}%", 10 * bin, 10 * bin + 10)
}

/// The reasons of failures.
pub fn exits(exits: &[(String, u64)]) -> TextTable {
    let headings = [("Reason", false), ("Jobs", true)];
    let rows = exits
        .iter()
        .map(|(text, jobs)| vec![text.clone(), jobs.to_string()]);
    TextTable::new(&headings, rows.collect())
}

/// The names of failed jobs.
pub fn names(names: &[(String, NameCounts)]) -> TextTable {
    let headings = [
        ("Job name", false),
        ("Failed", true),
        ("Jobs", true),
        ("Rate", true),
    ];
    let rows = names.iter().map(|(name, counts)| {
        vec![
            name.clone(),
            counts.failed.to_string(),
            counts.jobs.to_string(),
            percent(Some(counts.failed as f64 / counts.jobs.max(1) as f64)),
        ]
    });
    TextTable::new(&headings, rows.collect())
}

/// The runs of the Gantt chart, the latest first.
pub fn runs(gantt: &Gantt) -> TextTable {
    let headings = [
        ("Job", false),
        ("Name", false),
        ("User", false),
        ("Host", false),
        ("CPUs", true),
        ("Start", false),
        ("End", false),
        ("Outcome", false),
    ];
    let rows = gantt.runs.iter().rev().map(|run| {
        vec![
            run.job.to_string(),
            run.name.clone(),
            run.user.clone(),
            run.host.clone(),
            run.processors.to_string(),
            formatted(run.start, SECOND),
            formatted(run.end, SECOND),
            outcome(run),
        ]
    });
    TextTable::new(&headings, rows.collect())
}

/// How a run ended: `failed (exit 3)`.
pub fn outcome(run: &super::gantt::HostRun) -> String {
    let word = run.outcome.word();
    match run.exit_status {
        Some(status) if status != 0 => format!("{word} ({})", status::exit_text(status)),
        _ => word.to_string(),
    }
}

/// The period in words: `2026-11-20 10:22 until 2026-11-21 10:22 (1d)`.
pub fn period(report: &Report) -> String {
    let period = report.period;
    // The end is exclusive, so a period until now ends a millisecond later.
    let length = Span::seconds((period.length() + 500).div_euclid(1000));
    format!(
        "{} until {} ({})",
        formatted(period.from, MINUTE),
        formatted(period.to, MINUTE),
        duration(length)
    )
}

/// Whose jobs the report covers.
pub fn scope(report: &Report) -> String {
    match &report.user {
        Some(user) => format!("jobs of {user}"),
        None => "jobs of all users".to_string(),
    }
}

/// The present nodes in words: `16 CPUs on 4 nodes, 1 of them unusable`.
pub fn capacity(report: &Report) -> String {
    let capacity = &report.capacity;
    let text = format!(
        "{} on {}",
        count(capacity.processors.unsigned_abs(), "CPU"),
        count(capacity.nodes as u64, "node")
    );
    match capacity.nodes - capacity.usable_nodes {
        0 => text,
        unusable => format!("{text}, {unusable} of them unusable now"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_histograms_have_units() {
        assert_eq!(wait_range(0), "less than 1s");
        assert_eq!(wait_range(3), "1m to 10m");
        assert_eq!(wait_range(7), "1d or longer");
        assert_eq!(efficiency_range(9), "90% to 100%");
        assert_eq!(efficiency_range(10), "more than 100%");
    }

    #[test]
    fn figures_have_few_digits() {
        assert_eq!([percent(Some(0.714)), percent(None)], ["71%", "-"]);
        assert_eq!([mean(1.25), mean(123.4)], ["1.2", "123"]);
        assert_eq!([core_hours(1.8e6), core_hours(1e9)], ["0.50", "278"]);
    }

    #[test]
    fn omitted_rows_are_counted() {
        let rows = (0..5).map(|row| (row.to_string(), 1)).collect::<Vec<_>>();
        let table = exits(&rows).first(2);
        assert_eq!((table.rows.len(), table.omitted), (2, 3));
    }
}
