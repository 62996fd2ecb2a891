//! Sums of accounting entries: one line for each user, account, queue, month or other key.

use super::{AccountFormat, By};
use crate::cli::output::field::{self, Cell, Field};
use crate::cli::output::json::{Document, Preamble};
use crate::cli::output::table;
use crate::model::account::accounting::{RequestTotals, UsageTotals};
use crate::model::time::{Span, Wall};
use crate::shown::timestamp;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Start (inclusive) and end (exclusive) of the period, if given.
pub type TimeSpan = (Option<Wall>, Option<Wall>);

/// The headings of the columns with numbers.
const HEADS: [&str; 8] = [
    "Jobs",
    "Failed",
    "CPU h",
    "Core h",
    "Charged h",
    "CPU",
    "Memory",
    "Wait",
];

/// The sums of entries by the requested keys.
pub struct UsageSummary {
    by: Vec<By>,
    rows: BTreeMap<Vec<String>, UsageTotals>,
}

impl UsageSummary {
    /// A summary without entries.
    pub fn new(by: Vec<By>) -> UsageSummary {
        UsageSummary {
            by,
            rows: BTreeMap::new(),
        }
    }

    /// Adds sums from the server.
    pub fn add(&mut self, tallies: Vec<RequestTotals>) {
        for RequestTotals { of, sums } in tallies {
            let of = self
                .by
                .iter()
                .zip(of)
                .map(|(by, name)| key_text(*by, name))
                .collect();
            let row = self.rows.entry(of).or_default();
            *row = row.and(sums);
        }
    }

    /// Writes the summary, row by row.
    pub fn write(
        &self,
        format: AccountFormat,
        preamble: &Preamble,
        period: TimeSpan,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match format {
            AccountFormat::Text => self.table(period, out),
            AccountFormat::Csv => self.csv(out),
            AccountFormat::Json => self.document(preamble, period, out),
        }
    }

    fn total(&self) -> UsageTotals {
        self.rows
            .values()
            .fold(UsageTotals::default(), |total, sums| total.and(*sums))
    }

    fn fields(&self, of: &[String], sums: &UsageTotals) -> Vec<Field> {
        let names = self
            .by
            .iter()
            .zip(of)
            .map(|(by, name)| (by.name(), Cell::Text(name.clone())));
        names.chain(fields(sums)).collect()
    }

    fn table(&self, period: TimeSpan, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return writeln!(out, "No accounting records{}.", span(period));
        }
        writeln!(out, "Jobs that ended{}:\n", span(period))?;
        let total = self.total();
        let decimals = decimals(&total);
        let heads = self.by.iter().map(|by| head(*by)).chain(HEADS);
        let heads: Vec<String> = heads.map(String::from).collect();
        let mut last = None;
        if self.rows.len() > 1 {
            let mut names = vec![String::new(); self.by.len()];
            names[0] = "Total".to_string();
            names.extend(figures(&total, decimals));
            last = Some(names);
        }
        table::write(
            || {
                let rows = self.rows.iter().map(|(names, sums)| {
                    let names = names.iter().map(|name| Cell::Text(name.clone()).shown());
                    names.chain(figures(sums, decimals)).collect()
                });
                std::iter::once(heads.clone())
                    .chain(rows)
                    .chain(last.clone())
            },
            self.by.len(),
            out,
        )
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let no_keys = vec![String::new(); self.by.len()];
        out.write_all(field::csv_head(&self.fields(&no_keys, &UsageTotals::default())).as_bytes())?;
        let mut lines = self
            .rows
            .iter()
            .map(|(of, sums)| field::csv_line(&self.fields(of, sums)));
        lines.try_for_each(|line| out.write_all(line.as_bytes()))
    }

    fn document(
        &self,
        preamble: &Preamble,
        (from, to): TimeSpan,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut document = Document::begin(preamble);
        document.add_value("from", &from.map(|wall| wall.0).into());
        document.add_value("to", &to.map(|wall| wall.0).into());
        document.add_value(
            "by",
            &self
                .by
                .iter()
                .map(|by| by.name())
                .collect::<Vec<_>>()
                .into(),
        );
        document.list(
            "Accounts",
            self.rows
                .iter()
                .map(|(of, sums)| field::object(&self.fields(of, sums))),
            out,
        )?;
        document.add_value("Total", &field::object(&fields(&self.total())));
        out.write_all(&document.end())
    }
}

/// The key in the output: for a quarter of an hour, the day or month; other keys are unchanged.
fn key_text(by: By, name: String) -> String {
    let format = match by {
        By::Month => "%Y-%m",
        By::Day => "%Y-%m-%d",
        _ => return name,
    };
    let at = name
        .parse()
        .ok()
        .and_then(|seconds| timestamp::local(Wall(seconds)));
    at.map_or(name, |at| at.format(format).to_string())
}

fn head(by: By) -> &'static str {
    match by {
        By::User => "User",
        By::Account => "Account",
        By::Project => "Project",
        By::Queue => "Queue",
        By::Qos => "QoS",
        By::Month => "Month",
        By::Day => "Day",
    }
}

/// The period as text, to be appended to a sentence.
fn span((from, to): TimeSpan) -> String {
    match (from.map(minute), to.map(minute)) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" from {from}"),
        (None, Some(to)) => format!(" before {to}"),
        (Some(from), Some(to)) => format!(" from {from} until {to}"),
    }
}

/// The time as `2026-11-20 10:22`, local time.
fn minute(wall: Wall) -> String {
    timestamp::local(wall).map_or(wall.0.to_string(), |at| {
        at.format("%Y-%m-%d %H:%M").to_string()
    })
}

fn hours(ms: f64, decimals: usize) -> String {
    format!("{:.decimals$}", ms / 3_600_000.0)
}

/// The number of decimals of hours: 4 if the total is less than 10 core hours, otherwise 2.
fn decimals(total: &UsageTotals) -> usize {
    if total.core_ms < 10 * 3_600_000 { 4 } else { 2 }
}

fn figures(sums: &UsageTotals, decimals: usize) -> [String; 8] {
    [
        sums.jobs.to_string(),
        sums.failed.to_string(),
        hours(sums.cput_ms as f64, decimals),
        hours(sums.core_ms as f64, decimals),
        hours(sums.charged_ms, decimals),
        Cell::or_nothing(sums.cpu_efficiency(), Cell::Part).shown(),
        Cell::or_nothing(sums.mem_efficiency(), Cell::Part).shown(),
        sums.mean_wait().map_or("--".to_string(), |wait| {
            Span((1000.0 * wait) as i64).to_string()
        }),
    ]
}

/// All values of the sums, in the order of the output.
pub fn fields(sums: &UsageTotals) -> Vec<Field> {
    vec![
        ("jobs", Cell::Count(sums.jobs)),
        ("failed", Cell::Count(sums.failed)),
        ("attempts", Cell::Count(sums.attempts)),
        ("cpu_seconds", Cell::Length(sums.cput_ms as f64)),
        ("core_seconds", Cell::Length(sums.core_ms as f64)),
        ("charged_core_seconds", Cell::Length(sums.charged_ms)),
        ("gpu_seconds", Cell::Length(sums.gpu_ms as f64)),
        ("walltime_seconds", Cell::Length(sums.walltime_ms as f64)),
        (
            "cpu_efficiency",
            Cell::or_nothing(sums.cpu_efficiency(), Cell::Part),
        ),
        (
            "mem_efficiency",
            Cell::or_nothing(sums.mem_efficiency(), Cell::Part),
        ),
        (
            "mean_wait_seconds",
            Cell::or_nothing(sums.mean_wait(), Cell::Real),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums() -> UsageTotals {
        UsageTotals {
            jobs: 3,
            failed: 1,
            attempts: 4,
            cput_ms: 5_400_000,
            core_ms: 7_200_000,
            charged_ms: 3_600_000.0,
            gpu_ms: 1_000,
            walltime_ms: 3_600_000,
            mem_used: 1.0,
            mem_asked: 4.0,
            wait_ms: 90_000,
            waits: 4,
        }
    }

    fn summary(by: &[By], rows: &[&[&str]]) -> UsageSummary {
        let mut summary = UsageSummary::new(by.to_vec());
        let tally = |of: &&[&str]| RequestTotals {
            of: of.iter().map(ToString::to_string).collect(),
            sums: sums(),
        };
        summary.add(rows.iter().map(tally).collect());
        summary
    }

    fn formatted(summary: &UsageSummary, format: AccountFormat, period: TimeSpan) -> String {
        let (preamble, mut out) = (
            Preamble {
                timestamp: Wall(0),
                version: "1",
                server: "head",
            },
            Vec::new(),
        );
        summary.write(format, &preamble, period, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_the_sums() {
        let rows: [&[&str]; 2] = [&["ann", "workq"], &["bo", ""]];
        let both = formatted(
            &summary(&[By::User, By::Queue], &rows),
            AccountFormat::Text,
            (None, Some(Wall(i64::MAX))),
        );
        let expected = "\
Jobs that ended before 9223372036854775807:

User   Queue  Jobs  Failed   CPU h  Core h  Charged h    CPU  Memory      Wait
ann    workq     3       1  1.5000  2.0000     1.0000  75.0%   25.0%  00:00:22
bo     --        3       1  1.5000  2.0000     1.0000  75.0%   25.0%  00:00:22
Total            6       2  3.0000  4.0000     2.0000  75.0%   25.0%  00:00:22
";
        assert_eq!(both, expected);
        let nothing = formatted(
            &UsageSummary::new(vec![By::User]),
            AccountFormat::Text,
            (None, None),
        );
        assert_eq!(nothing, "No accounting records.\n");
    }

    #[test]
    fn quarters_of_an_hour_become_days_and_months() {
        let quarter = |text: &str| {
            let at = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
            crate::cli::arguments::date::local(at, &chrono::Local)
                .unwrap()
                .to_string()
        };
        let quarters = [
            "2026-11-20 00:00",
            "2026-11-20 23:45",
            "2026-11-21 00:00",
            "2026-12-01 00:00",
        ]
        .map(quarter);
        let rows: Vec<Vec<&str>> = quarters
            .iter()
            .map(|quarter| vec![quarter.as_str()])
            .collect();
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        let jobs = |by| {
            let rows = summary(&[by], &rows).rows.into_iter();
            rows.map(|(of, sums)| format!("{} {}", of[0], sums.jobs))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            jobs(By::Day),
            ["2026-11-20 6", "2026-11-21 3", "2026-12-01 3"]
        );
        assert_eq!(jobs(By::Month), ["2026-11 9", "2026-12 3"]);
    }

    #[test]
    fn csv_and_json_have_the_same_values() {
        let summary = summary(&[By::Account], &[&["a,b"]]);
        let expected = "account,jobs,failed,attempts,cpu_seconds,core_seconds,charged_core_seconds,gpu_seconds,\
                        walltime_seconds,cpu_efficiency,mem_efficiency,mean_wait_seconds\n\
                        \"a,b\",3,1,4,5400.0,7200.0,3600.0,1.0,3600.0,0.75,0.25,22.5\n";
        assert_eq!(
            formatted(&summary, AccountFormat::Csv, (None, None)),
            expected
        );
        let document = formatted(&summary, AccountFormat::Json, (None, Some(Wall(7))));
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(
            (&document["from"], &document["to"]),
            (&serde_json::Value::Null, &7.into())
        );
        let row = &document["Accounts"][0];
        assert_eq!(
            (&row["account"], &row["mean_wait_seconds"]),
            (&"a,b".into(), &22.5.into()),
            "{document}"
        );
        assert_eq!(document["Total"]["charged_core_seconds"], 3600.0);
    }
}
