//! `qstat --accuracy`: predicted run times of past jobs compared with what happened.

use super::{ReportContext, counted};
use crate::cli::client::exit::Failure;
use crate::model::account::accounting::AccountingFilter;
use crate::model::time::Wall;
use crate::sim::run_time_accuracy::{self, RunTimeAccuracy};
use crate::wire::message::Question;
use serde_json::json;
use std::fmt::Write as _;

/// The period of the report, in seconds.
const MONTH: i64 = 30 * 24 * 3600;

/// The accuracy of the predicted run times, as text or JSON.
pub fn report(context: &mut ReportContext, json: bool) -> Result<Vec<u8>, Failure> {
    let filter = AccountingFilter {
        from: Some(Wall(context.now.0 - MONTH)),
        ..AccountingFilter::default()
    };
    let entries = context
        .source
        .ask(&Question::Entries(Box::new(filter), Vec::new()))?;
    let accuracy = run_time_accuracy::of_entries(&entries.entries);
    Ok(if json {
        document(context, &accuracy)
    } else {
        text(&accuracy).into_bytes()
    })
}

fn document(context: &ReportContext, accuracy: &RunTimeAccuracy) -> Vec<u8> {
    let mut document = context.document();
    let value = json!({
        "jobs": accuracy.jobs,
        "predicted": accuracy.predicted,
        "median_error_seconds": accuracy.median_error.rounded_up().as_seconds(),
        "within_p90": accuracy.within_p90,
        "with_walltime": accuracy.with_walltime,
        "median_walltime_error_seconds": accuracy.median_walltime_error.rounded_up().as_seconds(),
    });
    document.add_value("Accuracy", &value);
    document.end()
}

fn text(accuracy: &RunTimeAccuracy) -> String {
    let mut out = format!(
        "Of {} that ended in the last 30 days, the run times of {} can be predicted from jobs that \
         ended before they began.\n",
        counted(accuracy.jobs as u64, "job"),
        accuracy.predicted
    );
    if accuracy.predicted > 0 {
        let _ = writeln!(
            out,
            "Median error of the prediction: {}",
            accuracy.median_error.rounded_up()
        );
        let _ = writeln!(
            out,
            "At most the predicted 90th percentile: {:.0} % of the jobs",
            100.0 * accuracy.within_p90 as f64 / accuracy.predicted as f64
        );
    }
    if accuracy.with_walltime > 0 {
        let _ = writeln!(
            out,
            "Median error of the requested walltime: {} ({})",
            accuracy.median_walltime_error.rounded_up(),
            counted(accuracy.with_walltime as u64, "job")
        );
    }
    out
}
