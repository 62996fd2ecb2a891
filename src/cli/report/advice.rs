//! Advice after a submission: a shorter walltime with which the job would start now.

use super::{ReportContext, estimate};
use crate::cli::client::exit;
use crate::model::job_id::JobId;
use crate::model::report::outlook::{EstimateBasis, Explanation};
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use std::io::{IsTerminal, stderr, stdout};

/// The number of past jobs with the same name or script that justify advice.
const ENOUGH_JOBS: u64 = 5;

/// If the user works at a terminal, prints advice about the submitted job. A failed
/// forecast is not reported, because the submission has succeeded.
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
    let longest = run_time.longest.rounded_up();
    Some(format!(
        "{} needed at most {longest}; with a walltime of {walltime} this job would start now: \
         qalter -l walltime={walltime} {number}",
        estimate::basis(run_time.basis)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::report::why;
    use crate::model::report::outlook::RunTimeEstimate;
    use crate::model::time::Span;

    /// The advice about job 1, which could start now with this walltime in seconds, from past jobs
    /// with a longest run time of 130 seconds.
    fn advice_about(shorter: Option<i64>, basis: EstimateBasis) -> Option<String> {
        let estimate = RunTimeEstimate {
            basis,
            median: Span::seconds(120),
            long: Span::seconds(125),
            longest: Span(129_500),
        };
        let explanation = Explanation {
            shorter: shorter.map(Span::seconds),
            run_time: Some(estimate),
            ..why::tests::explanation(vec![])
        };
        advice(&explanation, "1")
    }

    #[test]
    fn advice_names_a_walltime_that_past_jobs_would_have_kept() {
        assert_eq!(
            advice_about(Some(180), EstimateBasis::Name(40)).unwrap(),
            "the last 40 jobs with this name needed at most 00:02:10; with a walltime of \
             00:03:00 this job would start now: qalter -l walltime=00:03:00 1"
        );
        assert_eq!(advice_about(Some(120), EstimateBasis::Name(40)), None);
        assert_eq!(advice_about(Some(180), EstimateBasis::Name(4)), None);
        assert_eq!(advice_about(Some(180), EstimateBasis::Size(40)), None);
        assert_eq!(advice_about(None, EstimateBasis::Name(40)), None);
    }
}
