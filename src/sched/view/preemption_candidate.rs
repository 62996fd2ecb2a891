//! What of a running job others ask who could have its place: since when it runs, what it was
//! worth, how it could make way, and whether it has been told to.

use crate::model::job::attempt::CheckpointProgress;
use crate::model::job::held::Held;
use crate::model::job::preemption::{JobPreemption, PreemptAction};
use crate::model::job::{Job, Run};
use crate::model::policy::PreemptionPolicy;
use crate::model::request::cluster_path::ClusterPath;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Of a running job, what counts where another could have its place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PreemptionCandidate {
    /// Since when it runs.
    pub started: Time,
    /// What it was worth then (F9); None for one that was started out of turn.
    pub score: Option<f64>,
    /// Where it stands in the tree of clusters.
    pub cluster: ClusterPath,
    /// Whether its owner wants it left alone (Q9).
    pub protected: bool,
    /// Whether it may be run again from the beginning.
    pub rerunnable: bool,
    /// Whether it can write down how far it has come, when told to.
    pub checkpoints: bool,
    /// Whether others may write that down.
    #[serde(default)]
    pub may_be_checkpointed: bool,
    /// Its eligible time.
    pub waited: Span,
    /// How long it may run.
    pub walltime: Option<Span>,
    /// What it asked for that is not counted.
    #[serde(default)]
    pub asked: Vec<(String, ResourceValue)>,
    /// How many processors it has.
    pub processors: u32,
    /// How often it has made way before.
    #[serde(default)]
    pub preempted: u32,
    /// What it was told in this attempt and has not done yet.
    pub told: Option<JobPreemption>,
    /// Whether it is suspended, or to be.
    pub suspended: bool,
    /// Whether it can be.
    pub can_stop: bool,
}

/// How far a running job has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunProgress {
    /// How long it has been running.
    pub ran: Span,
    /// How long it may run; None for a job without an end.
    pub walltime: Option<Span>,
    /// How many processors it has.
    pub processors: u32,
}

impl PreemptionCandidate {
    /// That of a job's attempt that runs; None for a job of which none does.
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
                .filter(|told| told.concerns(run.attempt, run.started) && is_awaited(told, run)),
            suspended: run.suspension.is_some(),
            can_stop: job.can_be_suspended(),
        })
    }

    /// How far it has come.
    pub fn course(&self, now: Time) -> RunProgress {
        RunProgress {
            ran: Span(now.since(self.started).0.max(0)),
            walltime: self.walltime,
            processors: self.processors,
        }
    }

    /// How many percent of its walltime it has left; None for one without an end.
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

/// Words and truths, of which nobody has more or less.
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

/// Whether it has still to be done what a job was told: one that was to be suspended stands still
/// at last, and goes on later.
fn is_awaited(told: &JobPreemption, run: &Run) -> bool {
    !told.action.keeps_memory() || (run.suspension.is_some() && !run.is_still())
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

    /// What a forecast takes for a job's tenure is what that is once the job runs.
    #[test]
    fn of_a_candidate_is_known_what_others_ask_of_it_once_it_runs() {
        let mut fixture = cluster("1 x ncpus=4").at(30);
        let mut job = fixture.job(1, "select=1:ncpus=2 walltime=90");
        Arc::make_mut(&mut job.spec).rerunnable = true;
        fixture.state.enqueue(&job);
        let plan = fixture.plan();
        let to_be = fixture
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
        // What is known only then.
        let known = PreemptionCandidate {
            asked: Vec::new(),
            preempted: 0,
            told: None,
            suspended: false,
            can_stop: false,
            ..once_it_runs
        };
        assert_eq!(to_be, known);
        assert_eq!(
            (to_be.processors, to_be.walltime, to_be.rerunnable),
            (2, Some(Span::seconds(90)), true)
        );
    }

    #[test]
    fn a_job_that_is_told_to_stand_still_has_done_so_once_it_does() {
        let mut job = cluster("").job(1, "select=1:ncpus=1");
        let manner = SuspendMode::For {
            job: JobId::job(2),
            releases: vec!["ncpus".into()],
        };
        let told = |job: &Job| {
            PreemptionCandidate::of(job)
                .unwrap()
                .told
                .map(|told| told.action)
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
        assert_eq!(told(&job), None);
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
        assert_eq!(told(&job), Some(PreemptAction::Suspend));
        job.apply(&Event::Suspended { attempt: 1 }, moment(6));
        assert_eq!(told(&job), None);
    }
}
