//! Advice after a submission: a shorter walltime with which the job would start now.

use super::{ReportContext, estimate};
use crate::cli::client::exit;
use crate::model::job_id::JobId;
use crate::model::report::outlook::{EstimateBasis, Explanation};
use crate::model::time::Span;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use std::io::{IsTerminal, stderr, stdout};

/// The number of past jobs with the same name or script that justify advice.
const ENOUGH_JOBS: u64 = 5;

/// If the user works at a terminal, prints advice about the submitted job. A job whose forecast
/// fails gets no advice, because the submission has succeeded.
pub fn print(program: &str, id: &str) {
    if !stdout().is_terminal() || !stderr().is_terminal() {
        return;
    }
    let Some(text) = find(id) else {
        return;
    };
    exit::print_notes(program, &[text]);
}

fn find(id: &str) -> Option<String> {
    let mut context = ReportContext::open().ok()?;
    let number = id.split('.').next()?;
    let job: JobId = number.parse().ok()?;
    let answers = context.ask(ForecastQuery::Why(job)).ok()?;
    match answers.into_iter().next()? {
        ForecastAnswer::Explained(Some(explanation)) => advice(&explanation, number),
        _ => None,
    }
}

/// The advice about a waiting job; None if no walltime that the past jobs would have kept makes it
/// start now.
fn advice(explanation: &Explanation, number: &str) -> Option<String> {
    let (walltime, run_time) = (explanation.shorter?, explanation.run_time?);
    let (EstimateBasis::Name(jobs) | EstimateBasis::Program(jobs)) = run_time.basis else {
        return None;
    };
    if jobs < ENOUGH_JOBS || walltime <= run_time.longest {
        return None;
    }
    let longest = Span::seconds(run_time.longest.0.saturating_add(999) / 1000);
    Some(format!(
        "{} needed at most {longest}; with a walltime of {walltime} this job would start now: \
         qalter -l walltime={walltime} {number}",
        estimate::basis(run_time.basis)
    ))
}
