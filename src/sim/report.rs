//! Reports of a replay: a summary as text or JSON, and a list of starts.

use super::accuracy::Accuracy;
use super::machine::NodeBatch;
use super::metrics::{Metrics, Spread, Users};
use super::replay::{Outcome, Via};
use super::trace::TraceSummary;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// The results of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The name of the trace file.
    pub trace: String,
    /// The name of the policy.
    pub policy: String,
    /// The simulated machine.
    pub machine: NodeBatch,
    /// The number of records that each rule changed or dropped.
    pub records: TraceSummary,
    /// The metrics of the schedule.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// The accuracy of predicted starts, if it was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
}

/// The text form: one metric per line, with units.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Summary {
            metrics: m,
            machine,
            ..
        } = self;
        line(f, "trace", &self.trace)?;
        line(f, "policy", &self.policy)?;
        line(
            f,
            "machine",
            &format!("{} processors ({machine})", machine.processors()),
        )?;
        line(f, "records", &records(&self.records))?;
        line(
            f,
            "jobs",
            &format!("{}, {} of them backfilled", m.jobs, m.backfilled),
        )?;
        line(f, "wait", &spread(&m.wait, " s"))?;
        line(f, "bounded slowdown", &spread(&m.bounded_slowdown, ""))?;
        line(
            f,
            "area-weighted wait",
            &format!("{:.1} s", m.area_weighted_wait),
        )?;
        line(
            f,
            "utilization",
            &format!(
                "{:.2} %, from first to last submission",
                100.0 * m.utilization
            ),
        )?;
        line(f, "makespan", &format!("{} s", m.makespan))?;
        line(f, "users' wait", &users(&m.user_wait, " s"))?;
        line(f, "users' slowdown", &users(&m.user_bounded_slowdown, ""))?;
        match &self.accuracy {
            Some(accuracy) => write_accuracy(f, accuracy),
            None => Ok(()),
        }
    }
}

fn write_accuracy(f: &mut fmt::Formatter, accuracy: &Accuracy) -> fmt::Result {
    let Accuracy {
        predictions,
        within_range,
        median_wait_s,
        median_range_s,
        median_start_error_s,
        median_start_error_by_walltimes_s,
        run_times,
        median_run_time_error_s,
        median_run_time_error_by_walltimes_s,
    } = accuracy;
    line(
        f,
        "predicted starts",
        &format!(
            "{predictions}: {:.1} % within the range, median width {median_range_s:.0} s, median \
             error {median_start_error_s:.0} s (walltimes only: \
             {median_start_error_by_walltimes_s:.0} s), median wait {median_wait_s:.0} s",
            100.0 * within_range
        ),
    )?;
    line(
        f,
        "predicted run times",
        &format!(
            "{run_times}: median error {median_run_time_error_s:.0} s (walltimes: \
             {median_run_time_error_by_walltimes_s:.0} s)"
        ),
    )
}

fn line(f: &mut fmt::Formatter, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "{name:<19} {value}")
}

fn spread(spread: &Spread, unit: &str) -> String {
    let Spread {
        mean,
        median,
        p99,
        max,
    } = spread;
    format!(
        "mean {mean:.2}{unit}, median {median:.2}{unit}, p99 {p99:.2}{unit}, max {max:.2}{unit}"
    )
}

fn users(means: &Users, unit: &str) -> String {
    let Users {
        users,
        mean,
        p90,
        max,
        gini,
    } = means;
    format!(
        "{users} users: mean {mean:.2}{unit}, p90 {p90:.2}{unit}, max {max:.2}{unit}, Gini {gini:.3}"
    )
}

/// The number of records, and the number that each rule changed or dropped.
fn records(summary: &TraceSummary) -> String {
    let touched = [
        (
            summary.fractions_cut,
            "with fractional numbers, cut to whole numbers",
        ),
        (
            summary.processors_as_allocated,
            "with allocated instead of requested processors",
        ),
        (summary.without_estimate, "without estimate"),
        (summary.cut_to_estimate, "with run time cut to the estimate"),
        (summary.out_of_order, "out of order"),
        (summary.without_processors, "dropped: no processors"),
        (
            summary.larger_than_machine,
            "dropped: larger than the machine",
        ),
        (summary.without_run_time, "dropped: no run time"),
        (
            summary.submitted_before_zero,
            "dropped: negative submission time",
        ),
    ];
    let touched = touched
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"));
    std::iter::once(summary.records.to_string())
        .chain(touched)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Writes the starts as CSV, in the order of submission: `job,submit,start,end,procs,nodes,via`.
pub fn write_starts(outcomes: &[Outcome], mut out: impl Write) -> io::Result<()> {
    writeln!(out, "job,submit,start,end,procs,nodes,via")?;
    for outcome in outcomes {
        let (job, via) = (
            &outcome.job,
            if outcome.via == Via::Backfill {
                "backfill"
            } else {
                "priority"
            },
        );
        let (start, end, nodes) = (outcome.start, outcome.end(), &outcome.nodes);
        writeln!(
            out,
            "{},{},{start},{end},{},{nodes},{via}",
            job.id, job.submit, job.processors
        )?;
    }
    out.flush()
}
