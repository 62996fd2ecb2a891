//! The facts about a running job that preemption uses: start time, priority, possible actions, and
//! whether the job is being preempted.

use crate::model::job::attempt::CheckpointProgress;
use crate::model::job::held::Held;
use crate::model::job::preemption::{JobPreemption, PreemptAction};
use crate::model::job::{Job, Run};
use crate::model::policy::PreemptionPolicy;
use crate::model::request::cluster_path::ClusterPath;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// A running job that may be preempted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PreemptionCandidate {
    /// The start time of the job.
    pub started: Time,
    /// The priority of the job when it started (F9); None for a forced start.
    pub score: Option<f64>,
    /// The cluster label of the job, such as `/film/shot3`.
    pub cluster: ClusterPath,
    /// Whether the owner exempts the job from preemption (Q9).
    pub protected: bool,
    /// Whether the job is rerunnable.
    pub rerunnable: bool,
    /// Whether the job checkpoints itself on request.
    pub checkpoints: bool,
    /// Whether a checkpoint may be made from outside the job.
    #[serde(default)]
    pub may_be_checkpointed: bool,
    /// The eligible time of the job when it started.
    pub waited: Span,
    /// The walltime; None if the job requests none.
    pub walltime: Option<Span>,
    /// The requested resources of type text or Boolean, without `preempt_targets`.
    #[serde(default)]
    pub asked: Vec<(String, ResourceValue)>,
    /// The number of CPUs that the job uses.
    pub processors: u32,
    /// How often the job was preempted before.
    #[serde(default)]
    pub preempted: u32,
    /// The preemption in progress in this attempt (start of the job), if any.
    pub told: Option<JobPreemption>,
    /// Whether the job is suspended or being suspended.
    pub suspended: bool,
    /// Whether the job can be suspended.
    pub can_stop: bool,
}

/// The progress of a running job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunProgress {
    /// The time since the job started.
    pub ran: Span,
    /// The walltime; None if the job requests none.
    pub walltime: Option<Span>,
    /// The number of CPUs that the job uses.
    pub processors: u32,
}

impl PreemptionCandidate {
    /// The candidate of a running or suspended job; None for any other job.
    pub fn of(job: &Job) -> Option<PreemptionCandidate> {
        let run = job.life.open_run()?;
        Some(PreemptionCandidate {
            started: run.started,
            score: run.score,
            cluster: job.spec.placement.cluster.clone().unwrap_or_default(),
            protected: job.is_protected(),
            rerunnable: job.spec.rerunnable,
            checkpoints: job.can_checkpoint(),
            may_be_checkpointed: job.allows_checkpoints()
                && run.checkpoint != CheckpointProgress::Failed,
            waited: job.life.eligibility.at(run.started),
            walltime: job.spec.walltime(),
            asked: uncounted(job),
            processors: Held::of(&run.shares).cores,
            preempted: job.life.preempted,
            told: job
                .life
                .preemption
                .as_deref()
                .cloned()
                .filter(|preemption| {
                    preemption.concerns(run.attempt, run.started) && is_in_progress(preemption, run)
                }),
            suspended: run.suspension.is_some(),
            can_stop: job.can_be_suspended(),
        })
    }

    /// The progress of the job at `now`.
    pub fn progress(&self, now: Time) -> RunProgress {
        RunProgress {
            ran: Span(now.since(self.started).0.max(0)),
            walltime: self.walltime,
            processors: self.processors,
        }
    }

    /// The percentage of the walltime that remains; None if the walltime is 0 or not requested.
    pub fn left(&self, now: Time) -> Option<f64> {
        let walltime = self.walltime.filter(|walltime| walltime.0 > 0)?;
        let ran = now.since(self.started).0.clamp(0, walltime.0);
        Some(100.0 * (walltime.0 - ran) as f64 / walltime.0 as f64)
    }

    /// Whether the job can be preempted by this action.
    pub fn can(&self, action: PreemptAction, rule: &PreemptionPolicy) -> bool {
        let may_checkpoint = self.checkpoints || (self.may_be_checkpointed && rule.checkpoints);
        (self.can_stop || !action.keeps_memory())
            && (may_checkpoint || !action.checkpoints())
            && (self.rerunnable || !action.restarts())
    }
}

/// The requested resources of type text or Boolean, without `preempt_targets`.
fn uncounted(job: &Job) -> Vec<(String, ResourceValue)> {
    let list = job
        .spec
        .request
        .list
        .iter()
        .filter(|(name, _)| *name != "preempt_targets");
    let words = list
        .filter(|(_, value)| matches!(value, ResourceValue::String(_) | ResourceValue::Boolean(_)));
    words
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether a preemption is still in progress. A preemption by suspension is complete once the job
/// is suspended.
fn is_in_progress(preemption: &JobPreemption, run: &Run) -> bool {
    !preemption.action.keeps_memory() || (run.suspension.is_some() && !run.is_stopped())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::event::Event;
    use crate::model::job::preemption::PreemptCause;
    use crate::model::job::suspension::SuspendMode;
    use crate::model::job_id::JobId;
    use crate::sched::fixture::{cluster, moment};
    use std::sync::Arc;

    #[test]
    fn predicted_facts_of_a_job_equal_the_facts_once_the_job_runs() {
        let mut fixture = cluster("1 x ncpus=4").at(30);
        let mut job = fixture.job(1, "select=1:ncpus=2 walltime=90");
        Arc::make_mut(&mut job.spec).rerunnable = true;
        fixture.state.enqueue(&job);
        let plan = fixture.plan();
        let predicted = fixture
            .state
            .future_candidate(&fixture.policy, &plan.starts[0], fixture.now)
            .unwrap();
        let score = fixture.state.score(&fixture.policy, job.id);
        job.apply(
            &Event::Started {
                attempt: 1,
                shares: plan.starts[0].shares.clone(),
                score,
                extra: false,
            },
            moment(30),
        );
        let once_it_runs = PreemptionCandidate::of(&job).unwrap();
        // In the prediction, these fields have their default values.
        let known = PreemptionCandidate {
            asked: Vec::new(),
            preempted: 0,
            told: None,
            suspended: false,
            can_stop: false,
            ..once_it_runs
        };
        assert_eq!(predicted, known);
        assert_eq!(
            (
                predicted.processors,
                predicted.walltime,
                predicted.rerunnable
            ),
            (2, Some(Span::seconds(90)), true)
        );
    }

    #[test]
    fn a_suspension_is_in_progress_until_the_job_is_suspended() {
        let mut job = cluster("").job(1, "select=1:ncpus=1");
        let manner = SuspendMode::For {
            job: JobId::job(2),
            releases: vec!["ncpus".into()],
        };
        let action_of = |job: &Job| {
            PreemptionCandidate::of(job)
                .unwrap()
                .told
                .map(|preemption| preemption.action)
        };
        let (to, by) = (Some(JobId::job(2)), "s@h".to_string());
        job.apply(
            &Event::Started {
                attempt: 1,
                shares: vec![],
                score: None,
                extra: false,
            },
            moment(0),
        );
        job.apply(
            &Event::Launched {
                attempt: 1,
                session: 4,
                boot: "b".into(),
            },
            moment(0),
        );
        assert_eq!(action_of(&job), None);
        let action = PreemptAction::Suspend;
        job.apply(
            &Event::Preempted {
                attempt: 1,
                to,
                cause: PreemptCause::Level,
                action,
                by: by.clone(),
            },
            moment(5),
        );
        job.apply(
            &Event::SuspendWanted {
                by,
                attempt: 1,
                manner,
            },
            moment(5),
        );
        assert_eq!(action_of(&job), Some(PreemptAction::Suspend));
        job.apply(&Event::Suspended { attempt: 1 }, moment(6));
        assert_eq!(action_of(&job), None);
    }
}
