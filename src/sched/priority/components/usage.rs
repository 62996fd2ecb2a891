//! What a running job has used of what it asked for (M20). It says which job is to make way for
//! another: the one worth least.

use super::of_component;
use crate::model::job::Job;
use crate::model::job::held::Held;
use crate::model::policy::Components;
use crate::model::policy::components::ComponentKind;
use crate::model::report::priority_score::{PriorityScore, ScorePart};
use crate::model::time::{Span, Time};
use crate::sched::view::preemption_candidate::{PreemptionCandidate, RunProgress};

impl RunProgress {
    /// That of a job's attempt that runs; None for a job of which none does.
    pub fn of(job: &Job, now: Time) -> Option<RunProgress> {
        let run = job.life.open_run()?;
        Some(RunProgress {
            ran: run.ran(now).max(Span(0)),
            walltime: job.spec.walltime(),
            processors: Held::of(&run.shares).cores,
        })
    }

    /// What it counts for while it runs.
    pub fn score(&self, rule: &Components) -> f64 {
        rule.value(ComponentKind::Usage, &self.values())
    }

    /// What that is made of.
    pub fn parts(&self, rule: &Components) -> Vec<ScorePart> {
        of_component(rule, ComponentKind::Usage, &self.values())
    }

    /// Processor-seconds had and to come, percent of the walltime, minutes. Of a job without an end
    /// nothing is known to come.
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
    /// The priority of the job among running jobs: its priority at its start, and what it has used
    /// since (M20).
    pub fn priority(&self, rule: &Components, now: Time) -> f64 {
        self.score.unwrap_or(f64::MAX) + self.course(now).score(rule)
    }
}

/// What a running job is worth beside others that run, and why (M20); None for one that does not
/// run.
pub fn priority(rule: &Components, job: &Job, now: Time) -> Option<PriorityScore> {
    let course = RunProgress::of(job, now)?;
    Some(PriorityScore {
        job: job.id,
        tier: 0,
        score: course.score(rule),
        parts: course.parts(rule),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::state::JobState;
    use crate::model::job::{NodeShare, Run};
    use crate::model::policy::components::WeightAndCap;
    use crate::model::resource::ResourceValue;
    use crate::sched::fixture::cluster;

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

    /// M20: the victim is the one of which 10 percent are done.
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

    /// M20.
    #[test]
    fn the_usage_component_counts_running_jobs_only() {
        let fixture = cluster("2 x ncpus=4");
        let mut job = fixture.job(1, "select=2:ncpus=3 walltime=1000");
        assert_eq!(priority(&counting(0), &job, Time(0)), None);
        let share = |node: &str| NodeShare {
            node: node.to_string(),
            host: node.to_string(),
            taken: vec![("ncpus".to_string(), ResourceValue::Long(3))],
            cpus: Vec::new(),
            gpus: Vec::new(),
            mpiprocs: 1,
            pooled: Vec::new(),
            ranks: Vec::new(),
        };
        job.life.state = JobState::Running;
        job.life.run = Some(Run::new(1, vec![share("n1"), share("n2")], Time(50_000)));
        let of = |part, second: i64| {
            priority(&counting(part), &job, Time(second * 1000))
                .unwrap()
                .score
        };
        assert_eq!(
            [of(0, 150), of(1, 150), of(2, 150), of(3, 170)],
            [1200.0, 10_800.0, 20.0, 4.0]
        );
        assert_eq!(of(0, 10), 0.0, "seen from before its start");
    }

    /// M20.
    #[test]
    fn its_parts_say_what_it_is_made_of() {
        let parts = course(360).parts(&counting(2));
        assert_eq!(
            parts,
            [ScorePart::weighed(
                "usage.percent",
                "10".to_string(),
                10.0,
                2.0
            )]
        );
    }
}
