//! What a job does that nobody can read off its request, and how it ends by that.

use crate::model::job::How;
use crate::model::job::attempt::RunLimit;
use crate::model::job::response::Responses;
use crate::model::time::Span;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How long each attempt would run if nobody ended it.
    pub runs: Span,
    /// Its exit code.
    pub code: i32,
    /// So many of its starts fail by a fault of the node.
    pub failures: u32,
    /// It goes over a limit.
    pub excess: Option<OverLimitPeriod>,
    /// How long it takes to end once it was told to.
    pub stops: Span,
}

/// A while in which a job is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimitPeriod {
    /// Which.
    pub bound: RunLimit,
    /// From when on, after the start of each attempt.
    pub from: Span,
    /// Until when; None for the rest of it.
    pub to: Option<Span>,
}

impl Fate {
    /// After how long an attempt ends, and how: of its own accord, at its walltime (M50) or because
    /// it was over another limit for too long (M51).
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
            .and_then(|excess| excess.ends(self.runs, limits));
        let cut = overran.into_iter().chain(excess).min_by_key(|(at, _)| *at);
        cut.filter(|(at, _)| *at < self.runs)
            .unwrap_or((self.runs, How::Exited(self.code)))
    }
}

impl OverLimitPeriod {
    /// When the job is ended for it, if that ever comes.
    fn ends(&self, runs: Span, limits: &Responses) -> Option<(Span, How)> {
        let at = self.from + limits.of(self.bound).after;
        // How far it is over the limit is not told, and nothing depends on it.
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

    /// After how many seconds a job ends that would run for 1000, is over its memory then, and has
    /// a minute's patience.
    fn ends(from: i64, to: Option<i64>, walltime: i64) -> i64 {
        let excess = OverLimitPeriod {
            bound: RunLimit::Mem,
            from: Span::seconds(from),
            to: to.map(Span::seconds),
        };
        let fate = Fate {
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
        fate.end(Some(Span::seconds(walltime)), Span(0), &limits)
            .0
            .as_seconds()
    }

    #[test]
    fn m51_a_job_ends_when_it_was_over_a_limit_without_a_break_for_as_long_as_that_is_borne() {
        assert_eq!(
            [
                ends(100, None, 2000),
                ends(100, Some(200), 2000),
                ends(100, Some(150), 2000)
            ],
            [160, 160, 1000]
        );
        assert_eq!(
            [
                ends(950, None, 2000),
                ends(100, None, 130),
                ends(500, None, 130)
            ],
            [1000, 130, 130]
        );
    }
}
