//! The simulated behavior of a job, and the resulting end of an attempt.

use crate::model::job::How;
use crate::model::job::attempt::RunLimit;
use crate::model::job::response::Responses;
use crate::model::time::Span;

/// The behavior of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobBehavior {
    /// The run time of each attempt that is not ended earlier.
    pub runs: Span,
    /// The exit code of an attempt that ends by itself.
    pub code: i32,
    /// The number of further starts that fail because of a fault of the node.
    pub failures: u32,
    /// A period in which the job exceeds a limit.
    pub excess: Option<OverLimitPeriod>,
    /// The time that the job takes to end after the first signal of a preemption.
    pub stops: Span,
}

/// A period in which a job exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimitPeriod {
    /// The limit.
    pub bound: RunLimit,
    /// The beginning, from the start of each attempt.
    pub from: Span,
    /// The end; None for the rest of the attempt.
    pub to: Option<Span>,
}

impl JobBehavior {
    /// How long an attempt runs, and how it ends: by itself, after exceeding its walltime by
    /// `overrun` (M50), or after exceeding another limit for too long (M51).
    pub fn end(&self, walltime: Option<Span>, overrun: Span, limits: &Responses) -> (Span, How) {
        let overran = walltime.map(|limit| {
            (
                limit + overrun,
                How::Overran {
                    used: limit + overrun,
                    limit,
                },
            )
        });
        let excess = self
            .excess
            .and_then(|excess| excess.forced_end(self.runs, limits));
        let cut = overran.into_iter().chain(excess).min_by_key(|(at, _)| *at);
        cut.filter(|(at, _)| *at < self.runs)
            .unwrap_or((self.runs, How::Exited(self.code)))
    }
}

impl OverLimitPeriod {
    /// When and how the job is ended because of this period; None if the period is not longer than
    /// the tolerated time. A period without an end lasts until the end of the attempt.
    fn forced_end(&self, runs: Span, limits: &Responses) -> Option<(Span, How)> {
        let at = self.from + limits.of(self.bound).after;
        // The simulation does not know the amounts, which have no effect on the job's end.
        (at < self.to.unwrap_or(runs)).then_some((
            at,
            How::Exceeded {
                bound: self.bound,
                used: 1,
                limit: 0,
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::response::{LimitAction, Response};

    /// The end, in seconds, of a job with a run time of 1000 s that exceeds its memory limit from
    /// `from` to `to`. Jobs are ended after they have exceeded the limit for one minute.
    fn end_seconds(from: i64, to: Option<i64>, walltime: i64) -> i64 {
        let excess = OverLimitPeriod {
            bound: RunLimit::Mem,
            from: Span::seconds(from),
            to: to.map(Span::seconds),
        };
        let behavior = JobBehavior {
            runs: Span::seconds(1000),
            code: 0,
            failures: 0,
            excess: Some(excess),
            stops: Span(0),
        };
        let mem = Response {
            action: LimitAction::Cancel,
            after: Span::seconds(60),
        };
        let limits = Responses {
            mem,
            ..Responses::default()
        };
        behavior
            .end(Some(Span::seconds(walltime)), Span(0), &limits)
            .0
            .as_seconds()
    }

    #[test]
    fn m51_a_job_ends_after_exceeding_a_limit_without_interruption_for_the_tolerated_time() {
        assert_eq!(
            [
                end_seconds(100, None, 2000),
                end_seconds(100, Some(200), 2000),
                end_seconds(100, Some(150), 2000)
            ],
            [160, 160, 1000]
        );
        assert_eq!(
            [
                end_seconds(950, None, 2000),
                end_seconds(100, None, 130),
                end_seconds(500, None, 130)
            ],
            [1000, 130, 130]
        );
    }
}
