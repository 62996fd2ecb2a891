//! Texts about estimates: forecasts that use the run times of past jobs. Each text says that the
//! value is estimated, and from which jobs.

use super::counted;
use crate::model::report::outlook::{EstimateBasis, RunTimeEstimate, StartRange};
use crate::model::time::Wall;
use crate::shown::timestamp;
use crate::wire::message::ServerFacts;

/// The range of an estimated start; `estimated` if its bounds are in the same minute.
pub fn range(range: StartRange, server: &ServerFacts, now: Wall) -> String {
    let [earliest, latest] = [range.earliest, range.latest]
        .map(|time| timestamp::day_and_time(server.clock.wall(time), now));
    if earliest == latest {
        "(estimated)".to_string()
    } else {
        format!("(estimated: between {earliest} and {latest})")
    }
}

/// The predicted run time of a job.
pub fn run_time(estimate: &RunTimeEstimate) -> String {
    format!(
        "estimated {}, in nine of ten cases at most {} (from {})",
        estimate.median.rounded_up(),
        estimate.long.rounded_up(),
        basis(estimate.basis)
    )
}

/// The past jobs from which a run time is predicted.
pub fn basis(basis: EstimateBasis) -> String {
    match basis {
        EstimateBasis::Name(jobs) => format!("the last {} with this name", counted(jobs, "job")),
        EstimateBasis::Program(jobs) => {
            format!("the last {} with this script", counted(jobs, "job"))
        }
        EstimateBasis::Size(jobs) => format!(
            "the user's last {} with as many processors",
            counted(jobs, "job")
        ),
        EstimateBasis::Walltimes(jobs) => format!(
            "the use of their walltimes by the last {} of all users",
            counted(jobs, "job")
        ),
    }
}

/// Why a start cannot be estimated: nothing is known about the run time of a job.
pub fn unknown(job: &str) -> String {
    format!(
        "start unknown: job {job} has no walltime, and no finished job like it shows how long it \
         runs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::model::time::{Span, Time};

    #[test]
    fn a_range_within_a_minute_is_one_estimate() {
        let server = example::server();
        let now = server.clock.wall(Time(0));
        let text = |earliest, latest| {
            let bounds = StartRange {
                earliest: Time(earliest),
                latest: Time(latest),
            };
            range(bounds, &server, now)
        };
        assert_eq!(text(0, 10), "(estimated)");
        assert!(text(0, 600_000).starts_with("(estimated: between Today "));
    }

    #[test]
    fn a_run_time_names_the_jobs_it_comes_from() {
        let estimate = RunTimeEstimate {
            basis: EstimateBasis::Name(40),
            median: Span(59_500),
            long: Span::seconds(130),
            longest: Span::seconds(140),
        };
        assert_eq!(
            run_time(&estimate),
            "estimated 00:01:00, in nine of ten cases at most 00:02:10 (from the last 40 jobs with \
             this name)"
        );
    }
}
