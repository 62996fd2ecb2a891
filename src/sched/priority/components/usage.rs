//! The usage component of the priority of a running job: how long the job has run, and how much of
//! its walltime is left (M20). Running jobs of the lowest priority are preempted first.

use crate::model::policy::Components;
use crate::model::policy::components::ComponentKind;
use crate::model::time::{Span, Time};
use crate::sched::view::preemption_candidate::{PreemptionCandidate, RunProgress};

impl RunProgress {
    /// The usage component of the priority.
    pub fn score(&self, rule: &Components) -> f64 {
        rule.value(ComponentKind::Usage, &self.values())
    }

    /// The parts of the component: CPU seconds so far (CPUs times run time), CPU seconds until the
    /// end of the walltime, percent of the walltime used, and minutes run. Without a walltime, the
    /// second and third part are 0.
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
    /// The priority of the job among running jobs: its priority when it started plus the usage
    /// component (M20). A job with a forced start has the maximum priority.
    pub fn priority(&self, rule: &Components, now: Time) -> f64 {
        self.score.unwrap_or(f64::MAX) + self.progress(now).score(rule)
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

    fn progress(ran: i64) -> RunProgress {
        RunProgress {
            ran: Span::seconds(ran),
            walltime: Some(Span::seconds(3600)),
            processors: 4,
        }
    }

    /// M20: the first job has used 10 percent of its walltime, the second 90 percent. The first job
    /// has the lower priority and is preempted first.
    #[test]
    fn a_job_that_has_used_more_of_its_walltime_has_a_higher_priority() {
        let [early, late] = [360, 3240].map(|ran| progress(ran).score(&counting(2)));
        assert_eq!((early, late), (20.0, 180.0));
    }

    /// M20.
    #[test]
    fn used_and_remaining_cpu_seconds_and_minutes_count() {
        let values = |progress: RunProgress| [0, 1, 3].map(|part| progress.score(&counting(part)));
        assert_eq!(values(progress(600)), [4800.0, 24_000.0, 20.0]);
        assert_eq!(
            values(progress(7200)),
            [57_600.0, 0.0, 240.0],
            "no CPU seconds remain after the end of the walltime"
        );
        assert_eq!(
            values(RunProgress {
                walltime: None,
                ..progress(600)
            }),
            [4800.0, 0.0, 20.0]
        );
        assert_eq!(progress(600).score(&Components::default()), 0.0);
        assert_eq!(
            RunProgress {
                walltime: Some(Span(0)),
                ..progress(600)
            }
            .score(&counting(2)),
            0.0,
            "with a walltime of 0, the percentage counts as 0"
        );
    }
}
