//! The part of its request that a running job has used (M20). It decides which job is preempted:
//! the one of the lowest priority.

use crate::model::policy::Components;
use crate::model::policy::components::ComponentKind;
use crate::model::time::{Span, Time};
use crate::sched::view::preemption_candidate::{PreemptionCandidate, RunProgress};

impl RunProgress {
    /// The priority component of a running job.
    pub fn score(&self, rule: &Components) -> f64 {
        rule.value(ComponentKind::Usage, &self.values())
    }

    /// CPU seconds used and remaining, percent of the walltime, minutes. A job without a walltime
    /// has none remaining.
    fn values(&self) -> [f64; 4] {
        let seconds = |span: Span| span.0 as f64 / 1000.0;
        let processors = f64::from(self.processors);
        let left = self
            .walltime
            .map_or(Span(0), |walltime| Span((walltime.0 - self.ran.0).max(0)));
        let part = self
            .walltime
            .filter(|walltime| walltime.0 > 0)
            .map(|walltime| seconds(self.ran) / seconds(walltime));
        [
            processors * seconds(self.ran),
            processors * seconds(left),
            100.0 * part.unwrap_or(0.0),
            seconds(self.ran) / 60.0,
        ]
    }
}

impl PreemptionCandidate {
    /// The priority of the job among running jobs: its priority at its start plus its usage since
    /// then (M20).
    pub fn priority(&self, rule: &Components, now: Time) -> f64 {
        self.score.unwrap_or(f64::MAX) + self.course(now).score(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::components::WeightAndCap;

    fn counting(part: usize) -> Components {
        let mut rule = Components::default();
        rule.all.get_mut(&ComponentKind::Usage).unwrap().parts[part] = WeightAndCap::of(2.0);
        rule
    }

    fn course(ran: i64) -> RunProgress {
        RunProgress {
            ran: Span::seconds(ran),
            walltime: Some(Span::seconds(3600)),
            processors: 4,
        }
    }

    /// M20: the victim is the job that is 10 percent done.
    #[test]
    fn a_longer_run_raises_the_priority() {
        let [early, late] = [360, 3240].map(|ran| course(ran).score(&counting(2)));
        assert_eq!((early, late), (20.0, 180.0));
    }

    /// M20.
    #[test]
    fn what_was_used_what_is_to_come_and_the_time_count() {
        let values = |course: RunProgress| [0, 1, 3].map(|part| course.score(&counting(part)));
        assert_eq!(values(course(600)), [4800.0, 24_000.0, 20.0]);
        assert_eq!(
            values(course(7200)),
            [57_600.0, 0.0, 240.0],
            "past its walltime nothing is to come"
        );
        assert_eq!(
            values(RunProgress {
                walltime: None,
                ..course(600)
            }),
            [4800.0, 0.0, 20.0]
        );
        assert_eq!(course(600).score(&Components::default()), 0.0);
        assert_eq!(
            RunProgress {
                walltime: Some(Span(0)),
                ..course(600)
            }
            .score(&counting(2)),
            0.0,
            "no part of nothing"
        );
    }
}
