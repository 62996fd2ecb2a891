//! Checkpoints by the site: a command of the site saves the state of a running job. The job then
//! ends, and its next attempt resumes from the checkpoint (M45; PBS MoM's
//! `$action checkpoint_abort`).
//!
//! schedd orders the node to write a checkpoint, and repeats the order until the checkpoint is
//! written. If the command fails, the job continues and the request is dropped. If a preemption
//! made the request, schedd then tries the next preemption action.

use super::Job;
use super::attempt::{Attempt, AttemptOutcome, CheckpointProgress, How, Want};
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Checkpoint command of the site and its settings, `[launch] checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCommand {
    /// Program that writes a checkpoint; None if the site has no such program.
    pub program: Option<PathBuf>,
    /// Time limit of the program.
    pub timeout: Span,
    /// Parent of the jobs' checkpoint directories: absolute, or relative to the node's state
    /// directory.
    pub folders: PathBuf,
}

impl CheckpointCommand {
    /// Default of `folders`.
    pub const FOLDERS: &str = "checkpoints";
}

impl Default for CheckpointCommand {
    fn default() -> CheckpointCommand {
        CheckpointCommand {
            program: None,
            timeout: Span::seconds(60),
            folders: Self::FOLDERS.into(),
        }
    }
}

/// Returns the checkpoint directory of the job `full_id`. `state` is the state directory of the
/// node, `folders` is [`CheckpointCommand::folders`].
pub fn folder(state: &Path, folders: &Path, full_id: &str) -> PathBuf {
    state.join(folders).join(format!("{full_id}.CK"))
}

impl Job {
    /// Tests whether the job may be checkpointed: the job is rerunnable, and the owner has not
    /// forbidden checkpoints (`qsub -c n`).
    pub fn allows_checkpoints(&self) -> bool {
        self.spec.rerunnable
            && self
                .spec
                .other
                .get("Checkpoint")
                .is_none_or(|text| text != "n")
    }

    /// Tests whether the site's command, if there is one, can checkpoint the job. The node must
    /// have reported the start of the script, and the script must not have ended. The job must
    /// allow checkpoints, and neither its end nor an earlier checkpoint of this attempt may have
    /// been requested. The site's command never checkpoints a job that has an `interrupt` signal,
    /// because such a job writes checkpoints itself.
    pub fn is_checkpointed_by_site(&self) -> bool {
        let begun = self
            .life
            .open_run()
            .filter(|run| run.has_script() && run.session.is_some());
        let is_untried = begun.is_some_and(|run| run.checkpoint == CheckpointProgress::Unasked);
        is_untried
            && self.life.want == Want::Run
            && self.allows_checkpoints()
            && self.interruption().is_none()
    }

    /// Tests whether the job is to end as soon as the site's command has written a checkpoint.
    pub fn awaits_checkpoint(&self) -> bool {
        let begun = self
            .life
            .open_run()
            .filter(|run| run.has_script() && run.session.is_some());
        let is_wanted = begun.is_some_and(|run| run.checkpoint == CheckpointProgress::Wanted);
        is_wanted && matches!(self.life.want, Want::Requeue(_)) && self.interruption().is_none()
    }

    /// Requests to write a checkpoint and then to queue the job again.
    pub(super) fn want_checkpoint(&mut self, attempt: Attempt, by: &str) {
        let Some(run) = self.open_attempt(attempt) else {
            return;
        };
        run.checkpoint = CheckpointProgress::Wanted;
        self.life.want = Want::Requeue(by.to_string());
    }

    /// Cancels a pending checkpoint, so that the job is requeued without a checkpoint. Returns
    /// whether a checkpoint was pending.
    pub(super) fn cancel_checkpoint(&mut self) -> bool {
        if let Want::Requeue(_) = self.life.want
            && let Some(run) = &mut self.life.run
            && run.open
            && run.checkpoint == CheckpointProgress::Wanted
        {
            run.checkpoint = CheckpointProgress::Failed;
            return true;
        }
        false
    }

    /// Tests whether the script ended by itself or at a limit, while a checkpoint by the site's
    /// command was requested.
    pub(super) fn ended_before_checkpoint(&self, outcome: &AttemptOutcome) -> bool {
        let is_own = match outcome.how {
            How::Overran { .. } | How::Exceeded { .. } => true,
            How::Exited(_) | How::Signaled(_) => outcome.sent.is_none(),
            _ => false,
        };
        let is_wanted = self
            .life
            .run
            .as_ref()
            .is_some_and(|run| run.checkpoint == CheckpointProgress::Wanted);
        is_own && is_wanted && self.interruption().is_none()
    }

    /// Continues the job after a failed checkpoint. If a preemption of this attempt requested the
    /// checkpoint, the preemption is undone.
    pub(super) fn continue_without_checkpoint(&mut self, attempt: Attempt) {
        if !matches!(self.life.want, Want::Requeue(_)) {
            return;
        }
        let Some(run) = self
            .open_attempt(attempt)
            .filter(|run| run.checkpoint == CheckpointProgress::Wanted)
        else {
            return;
        };
        run.checkpoint = CheckpointProgress::Failed;
        self.life.want = Want::Run;
        let preemption = self
            .life
            .preemption
            .as_deref()
            .filter(|preemption| preemption.action.checkpoints());
        if self
            .life
            .open_run()
            .zip(preemption)
            .is_some_and(|(run, preemption)| preemption.concerns(run.attempt, run.started))
        {
            self.life.preemption = None;
            self.life.preempted = self.life.preempted.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::Spec;
    use crate::model::job::event::Event;
    use crate::model::job::preemption::{PreemptAction, PreemptCause};
    use crate::model::job::state::{Holds, JobState};
    use crate::model::job_id::JobId;
    use crate::sched::fixture::{cluster, moment};
    use std::sync::Arc;

    fn happen(job: &mut Job, event: Event) {
        job.apply(&event, moment(0));
    }

    fn with(job: &mut Job, change: impl FnOnce(&mut Spec)) {
        change(Arc::make_mut(&mut job.spec));
    }

    fn running() -> Job {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        with(&mut job, |spec| spec.rerunnable = true);
        happen(&mut job, Event::Submitted);
        happen(
            &mut job,
            Event::Started {
                attempt: 1,
                shares: vec![],
                score: None,
                extra: false,
            },
        );
        happen(
            &mut job,
            Event::Launched {
                attempt: 1,
                session: 7,
                boot: "b".into(),
            },
        );
        job
    }

    fn preempted(action: PreemptAction) -> Event {
        Event::Preempted {
            attempt: 1,
            to: Some(JobId::job(9)),
            cause: PreemptCause::Level,
            action,
            by: "s@h".into(),
        }
    }

    fn ended(how: How, sent: Option<i32>) -> Event {
        let outcome = AttemptOutcome {
            how,
            sent,
            used: Default::default(),
            notes: vec![],
            unfit: None,
            on_its_own: false,
        };
        Event::Ended {
            attempt: 1,
            outcome,
        }
    }

    /// The job is not requeued, because its next attempt would have no checkpoint to resume from.
    #[test]
    fn a_job_that_ends_before_its_checkpoint_is_finished() {
        let late = How::Overran {
            used: Span::seconds(9),
            limit: Span::seconds(8),
        };
        for (how, sent) in [
            (How::Exited(3), None),
            (How::Signaled(11), None),
            (late, Some(15)),
        ] {
            let mut job = running();
            happen(&mut job, preempted(PreemptAction::Checkpoint));
            happen(&mut job, ended(how.clone(), sent));
            assert_eq!(job.life.state, JobState::Finished, "{how:?}");
        }
        let mut job = running();
        happen(&mut job, preempted(PreemptAction::Checkpoint));
        happen(&mut job, ended(How::Exited(143), Some(15)));
        assert_eq!(
            job.life.state,
            JobState::Queued,
            "a signal from Lanai ended the job"
        );
    }

    #[test]
    fn a_requeue_cancels_a_pending_checkpoint() {
        let mut job = running();
        happen(
            &mut job,
            Event::CheckpointWanted {
                attempt: 1,
                by: "u@h".into(),
            },
        );
        happen(&mut job, Event::RerunWanted { by: "m@h".into() });
        assert!(!job.awaits_checkpoint());
        happen(
            &mut job,
            Event::CheckpointFailed {
                attempt: 1,
                why: "late".into(),
            },
        );
        assert_eq!(job.life.want, Want::Requeue("m@h".into()));
    }

    /// A job has no state to save until its node reports the start.
    #[test]
    fn a_job_that_has_not_started_is_not_checkpointed() {
        let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
        with(&mut job, |spec| spec.rerunnable = true);
        happen(&mut job, Event::Submitted);
        happen(
            &mut job,
            Event::Started {
                attempt: 1,
                shares: vec![],
                score: None,
                extra: false,
            },
        );
        assert!(!job.is_checkpointed_by_site());
        happen(
            &mut job,
            Event::CheckpointWanted {
                attempt: 1,
                by: "u@h".into(),
            },
        );
        assert!(!job.awaits_checkpoint());
    }

    #[test]
    fn only_a_pending_checkpoint_can_be_cancelled() {
        let mut job = running();
        assert!(!job.cancel_checkpoint());
        happen(&mut job, Event::RerunWanted { by: "m@h".into() });
        assert!(
            !job.cancel_checkpoint(),
            "the requeue requested no checkpoint"
        );
        let mut deleted = running();
        happen(
            &mut deleted,
            Event::CheckpointWanted {
                attempt: 1,
                by: "u@h".into(),
            },
        );
        happen(
            &mut deleted,
            Event::DeleteWanted {
                by: "u@h".into(),
                force: false,
            },
        );
        assert!(
            !deleted.cancel_checkpoint(),
            "a deletion replaces the checkpoint"
        );
    }

    /// The failed checkpoint of attempt 2 does not undo the preemption of attempt 1.
    #[test]
    fn a_failed_checkpoint_keeps_earlier_preemptions() {
        let mut job = running();
        happen(&mut job, preempted(PreemptAction::Checkpoint));
        happen(&mut job, ended(How::Signaled(9), Some(9)));
        let later = |job: &mut Job, event: Event| job.apply(&event, moment(9));
        later(
            &mut job,
            Event::Started {
                attempt: 2,
                shares: vec![],
                score: None,
                extra: false,
            },
        );
        later(
            &mut job,
            Event::Launched {
                attempt: 2,
                session: 8,
                boot: "b".into(),
            },
        );
        later(
            &mut job,
            Event::CheckpointWanted {
                attempt: 2,
                by: "u@h".into(),
            },
        );
        later(
            &mut job,
            Event::CheckpointFailed {
                attempt: 2,
                why: "late".into(),
            },
        );
        assert_eq!((&job.life.want, job.life.preempted), (&Want::Run, 1));
        assert!(job.life.preemption.is_some());
    }

    #[test]
    fn a_checkpointed_job_is_requeued_after_its_end() {
        let mut job = running();
        assert!(job.is_checkpointed_by_site());
        happen(&mut job, preempted(PreemptAction::Checkpoint));
        assert!(job.awaits_checkpoint() && !job.is_checkpointed_by_site());
        happen(&mut job, ended(How::Signaled(9), Some(9)));
        assert_eq!((job.life.state, job.life.preempted), (JobState::Queued, 1));
    }

    #[test]
    fn a_successful_end_before_the_checkpoint_finishes_the_job() {
        let mut job = running();
        happen(&mut job, preempted(PreemptAction::Checkpoint));
        happen(&mut job, ended(How::Exited(0), None));
        assert_eq!(job.life.state, JobState::Finished);
    }

    #[test]
    fn a_job_continues_after_a_failed_checkpoint_and_is_not_checkpointed_again() {
        let mut job = running();
        happen(&mut job, preempted(PreemptAction::Checkpoint));
        let failed = Event::CheckpointFailed {
            attempt: 1,
            why: "no disk".into(),
        };
        happen(&mut job, failed.clone());
        assert_eq!(
            (job.life.state, &job.life.want, job.life.preempted),
            (JobState::Running, &Want::Run, 0)
        );
        assert!(
            job.life.preemption.is_none()
                && !job.is_checkpointed_by_site()
                && !job.awaits_checkpoint()
        );
        happen(&mut job, preempted(PreemptAction::Requeue));
        happen(&mut job, failed);
        assert!(
            matches!(job.life.want, Want::Requeue(_)),
            "a repeated CheckpointFailed does not cancel the requeue"
        );
    }

    #[test]
    fn a_held_job_stays_held_after_its_checkpoint() {
        let mut job = running();
        happen(
            &mut job,
            Event::Held {
                holds: Holds::USER,
                by: "u@h".into(),
            },
        );
        happen(
            &mut job,
            Event::CheckpointWanted {
                attempt: 1,
                by: "u@h".into(),
            },
        );
        assert!(job.awaits_checkpoint());
        happen(&mut job, ended(How::Signaled(9), Some(9)));
        assert_eq!((job.life.state, job.life.preempted), (JobState::Held, 0));
    }

    #[test]
    fn the_site_does_not_checkpoint_jobs_without_permission_or_with_a_signal() {
        let mut job = running();
        with(&mut job, |spec| {
            drop(spec.other.insert("Checkpoint".into(), "n".into()))
        });
        assert!(!job.is_checkpointed_by_site() && !job.can_checkpoint());
        with(&mut job, |spec| {
            drop(spec.other.insert("Checkpoint".into(), "u".into()))
        });
        assert!(job.is_checkpointed_by_site());
        with(&mut job, |spec| {
            drop(spec.other.insert("interrupt".into(), "USR1".into()))
        });
        assert!(!job.is_checkpointed_by_site() && job.can_checkpoint());
        with(&mut job, |spec| spec.rerunnable = false);
        assert!(!job.can_checkpoint());
    }

    #[test]
    fn checkpoint_directories_follow_the_configuration() {
        let state = Path::new("/var/node");
        assert_eq!(
            folder(state, Path::new("checkpoints"), "1.h"),
            Path::new("/var/node/checkpoints/1.h.CK")
        );
        assert_eq!(
            folder(state, Path::new("/shared/ck"), "2[3].h"),
            Path::new("/shared/ck/2[3].h.CK")
        );
    }
}
