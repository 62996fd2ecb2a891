//! The only transition table: the effect of each event on a job.
//!
//! [`Job::apply`] accepts every event in every state and does no I/O. The caller has already
//! checked whether a request is allowed. schedd derives the resulting actions (orders to nodes,
//! answers to clients) from the new state and can repeat them. After a restart it therefore loads
//! the state, derives the actions and continues.

use super::attempt::{Attempt, AttemptOutcome, CheckpointProgress, Exit, How, NodeShare, Want};
use super::attempt::{DELETED, FORCED, LOST, exit_status};
use super::dependency::UnmetDependencies;
use super::event::Event;
use super::growth::Growth;
use super::preemption::{JobPreemption, PreemptAction, PreemptCause};
use super::release::Division;
use super::response::FailureRules;
use super::retry::Again;
use super::state::{Holds, JobState};
use super::undo::UndoKind;
use super::{Job, Life, Run};
use crate::model::job::eligible_time::Accrual;
use crate::model::job_id::JobId;
use crate::model::time::{Time, Wall};

/// Time of an event, and the settings on which its effect depends.
#[derive(Clone, Copy, Debug)]
pub struct EventContext {
    /// Time on schedd's clock.
    pub now: Time,
    /// Wall-clock time, for `-a`.
    pub wall: Wall,
    /// Rules for failed starts and for jobs that exceed limits.
    pub rules: FailureRules,
    /// Kinds of waiting that count as eligible time.
    pub accrual: Accrual,
    /// Number of hosts in the cluster.
    pub hosts: usize,
    /// The request of the job can grow after the exceeded limit that this event reports.
    pub grows: bool,
}

impl Life {
    /// Creates the state of a new job.
    pub fn new(holds: Holds, run_count: u32, now: Time) -> Life {
        Life {
            state: JobState::Held,
            holds,
            run_count,
            attempt: 0,
            failed_starts: 0,
            retries: 0,
            run: None,
            want: Want::Run,
            used: Default::default(),
            exit: None,
            comment: None,
            ctime: now,
            mtime: now,
            qtime: now,
            etime: None,
            not_before: None,
            failed_hosts: Default::default(),
            hosts_to_try: 0,
            obittime: None,
            bars: Default::default(),
            awaits: Vec::new(),
            ending: None,
            rank: None,
            began: None,
            highest: 0,
            eligibility: Default::default(),
            preempted: 0,
            boosted: false,
            moved_to: None,
            preemption: None,
            deferral: None,
        }
    }

    /// Returns the displayed holds. An unmet dependency appears as a system hold.
    pub fn shown_holds(&self) -> Holds {
        if self.bars.are_open() {
            self.holds
        } else {
            self.holds.with(Holds::SYSTEM)
        }
    }

    /// Returns the latest attempt if it has not ended.
    pub fn open_run(&self) -> Option<&Run> {
        self.run.as_ref().filter(|run| run.open)
    }
}

impl Run {
    /// Creates an attempt that the scheduler has just decided to start. The node of the attempt has
    /// reported nothing yet.
    pub fn new(attempt: Attempt, shares: Vec<NodeShare>, started: Time) -> Run {
        Run {
            attempt,
            shares,
            started,
            score: None,
            session: None,
            boot: None,
            open: true,
            silent: false,
            tasks: None,
            released: Vec::new(),
            extra: false,
            suspension: None,
            pauses: None,
            checkpoint: CheckpointProgress::Unasked,
            directory: None,
            idle_since: None,
        }
    }
}

impl Job {
    /// Applies an event. An event with an attempt number, except `Started`, changes only `mtime` if
    /// another attempt is the latest or the script of the attempt has ended.
    pub fn apply(&mut self, event: &Event, moment: EventContext) {
        self.life.mtime = moment.now;
        match event {
            Event::Submitted | Event::Due | Event::Altered { .. } => {
                self.update_waiting_state(moment)
            }
            Event::Held { holds, .. } => {
                self.life.holds = self.life.holds.with(*holds);
                self.update_waiting_state(moment);
            }
            Event::Released { holds, .. } => {
                self.life.holds = self.life.holds.without(*holds);
                if holds.contains(Holds::SYSTEM) {
                    self.clear_dependencies();
                }
                self.update_waiting_state(moment);
            }
            Event::Started {
                attempt,
                shares,
                score,
                extra,
            } => {
                self.start(Run {
                    score: *score,
                    extra: *extra,
                    ..Run::new(*attempt, shares.clone(), moment.now)
                });
            }
            Event::StartRefused { .. } => self.defer_start(moment.rules.retries.first, moment),
            Event::Shoved { .. } => self.life.end_start_pause(),
            Event::Launched {
                attempt,
                session,
                boot,
            } => self.record_launch(*attempt, *session, boot),
            Event::StartTimedOut { attempt, .. } => self.cancel_start(*attempt),
            Event::SuspendWanted { .. }
            | Event::Suspended { .. }
            | Event::ResumeWanted { .. }
            | Event::Resumed { .. } => self.apply_suspension_event(event, moment.now),
            Event::NodesReleased {
                attempt, division, ..
            } => self.release_shares(*attempt, division, moment.now),
            Event::ContactLost { .. } => self.record_contact(false),
            Event::ContactRegained => self.record_contact(true),
            Event::Idle { attempt, since, .. } => self.record_idle(*attempt, Some(*since)),
            Event::IdleEnded { attempt } => self.record_idle(*attempt, None),
            Event::Ended { attempt, outcome } => self.end_attempt(*attempt, outcome, moment),
            Event::Vanished { attempt, .. } => self.end_lost_attempt(*attempt, moment),
            Event::DeleteWanted { by, force } => self.delete(by, *force, moment),
            Event::RerunWanted { by } => self.want_requeue(by),
            Event::CheckpointWanted { attempt, by } => self.want_checkpoint(*attempt, by),
            Event::CheckpointFailed { attempt, .. } => self.continue_without_checkpoint(*attempt),
            Event::Preempted {
                attempt,
                to,
                cause,
                action,
                by,
            } => {
                self.record_preemption(*attempt, (*to, *cause, *action), by, moment);
            }
            Event::Bound { .. }
            | Event::Named { .. }
            | Event::DependencyMet { .. }
            | Event::LabelMet { .. }
            | Event::RivalBegan { .. }
            | Event::RivalReturned { .. } => {
                self.update_dependencies(event);
                self.update_waiting_state(moment);
            }
            Event::DependencyBroken { .. } => self.end_unstartable(moment),
            Event::FailedRerun { highest, .. } => self.run_again(Again::Failed, *highest, moment),
            Event::Retried { highest, only, .. } => {
                self.run_again(Again::Unsuccessful(*only), *highest, moment)
            }
            Event::Undone { .. } => self.undo(event, moment),
            Event::Taken { to, .. } => self.move_away(to, moment),
            Event::Moved { .. } => self.life.qtime = moment.now,
            Event::Signalled { .. }
            | Event::ElementsDeleted { .. }
            | Event::Reordered { .. }
            | Event::RunWanted { .. }
            | Event::Slipped { .. }
            | Event::RoomMade { .. }
            | Event::RequestGrown { .. }
            | Event::Messaged { .. } => {}
        }
        self.accrue(moment);
    }

    /// Restores the holds and the waiting state that an action of the user has changed.
    fn undo(&mut self, event: &Event, moment: EventContext) {
        let Event::Undone {
            action,
            hold,
            release,
            subjobs,
            ..
        } = event
        else {
            return;
        };
        self.life.holds = self.life.holds.with(*hold).without(*release);
        if *action == UndoKind::Cancel {
            self.restore_deleted(subjobs);
        }
        self.update_waiting_state(moment);
    }

    fn record_launch(&mut self, attempt: Attempt, session: u32, boot: &str) {
        if let Some(run) = self.open_attempt(attempt) {
            (run.session, run.boot, run.silent) = (Some(session), Some(boot.to_string()), false);
        }
    }

    fn cancel_start(&mut self, attempt: Attempt) {
        if self
            .open_attempt(attempt)
            .is_some_and(|run| run.session.is_none())
            && self.life.want == Want::Run
        {
            self.life.want = Want::Anew;
        }
    }

    fn want_requeue(&mut self, by: &str) {
        let is_checkpoint_cancelled = self.cancel_checkpoint();
        if self.life.open_run().is_some_and(Run::has_script)
            && (self.life.want == Want::Run || is_checkpoint_cancelled)
        {
            self.life.want = Want::Requeue(by.to_string());
        }
    }

    fn release_shares(&mut self, attempt: Attempt, division: &Division, now: Time) {
        if let Some(run) = self.open_attempt(attempt) {
            run.release_shares(division, now);
        }
    }

    fn record_idle(&mut self, attempt: Attempt, since: Option<Time>) {
        if let Some(run) = self.open_attempt(attempt) {
            run.idle_since = since;
        }
    }

    fn record_contact(&mut self, responds: bool) {
        if let Some(run) = self.life.run.as_mut().filter(|run| run.open) {
            run.silent = !responds;
        }
    }

    /// Returns the open attempt, if its number is `attempt` and its script has not ended.
    pub(super) fn open_attempt(&mut self, attempt: Attempt) -> Option<&mut Run> {
        self.life
            .run
            .as_mut()
            .filter(|run| run.has_script() && run.attempt == attempt)
    }

    /// Records a preemption and requests its action. Does nothing if the script has ended or if the
    /// end of the attempt has already been requested.
    fn record_preemption(
        &mut self,
        attempt: Attempt,
        (to, cause, action): (Option<JobId>, PreemptCause, PreemptAction),
        by: &str,
        moment: EventContext,
    ) {
        if self.open_attempt(attempt).is_none() || self.life.want != Want::Run {
            return;
        }
        self.life.preempted = self.life.preempted.saturating_add(1);
        match action {
            PreemptAction::Suspend | PreemptAction::Finish => {}
            PreemptAction::Checkpoint => self.want_checkpoint(attempt, by),
            PreemptAction::Requeue => self.life.want = Want::Requeue(by.to_string()),
            PreemptAction::Delete => self.delete(by, false, moment),
        }
        let preemption = JobPreemption {
            attempt: Some(attempt),
            to,
            cause,
            action,
            at: moment.now,
        };
        self.life.preemption = Some(Box::new(preemption));
    }

    /// Removes all dependencies.
    pub(super) fn clear_dependencies(&mut self) {
        self.life.bars = UnmetDependencies::default();
        self.life.awaits.clear();
    }

    fn update_dependencies(&mut self, event: &Event) {
        let bars = &mut self.life.bars;
        match event {
            Event::Bound {
                unmet,
                on,
                rival,
                labels,
            } => {
                self.life.awaits.extend(labels.iter().cloned());
                bars.unmet = bars.unmet.saturating_add(*unmet);
                bars.on = bars.on.saturating_add(*on);
                bars.rival = rival.or(bars.rival);
            }
            Event::Named { .. } => {
                bars.on = bars.on.saturating_sub(1);
                bars.unmet = bars.unmet.saturating_add(1);
            }
            Event::DependencyMet { .. } => bars.unmet = bars.unmet.saturating_sub(1),
            Event::LabelMet {
                condition, label, ..
            } => {
                let before = self.life.awaits.len();
                self.life
                    .awaits
                    .retain(|awaited| awaited.condition != *condition || awaited.label != *label);
                let met = before - self.life.awaits.len();
                bars.unmet = bars.unmet.saturating_sub(met as u32);
            }
            Event::RivalBegan { job } => bars.rival = Some(*job),
            Event::RivalReturned { job } if bars.rival == Some(*job) => bars.rival = None,
            _ => {}
        }
    }

    /// Ends a job, or the waiting subjobs of an array, because the job can never start. Running and
    /// suspended jobs continue, because their dependencies no longer matter.
    fn end_unstartable(&mut self, moment: EventContext) {
        if self.life.state.is_under_way() || self.life.state == JobState::Finished {
            return;
        }
        self.life.bars.broken = true;
        if self.id.is_array() {
            self.end_waiting(0, u32::MAX, moment)
        } else {
            self.finish(DELETED, true, moment)
        }
    }

    /// Sets the state and `etime` of an unfinished job without an allocation. The new state is the
    /// first that applies: held, waiting for the start time, begun (an array with a started
    /// subjob), or queued.
    pub(super) fn update_waiting_state(&mut self, moment: EventContext) {
        if self.life.state.is_under_way() || self.life.state == JobState::Finished {
            return;
        }
        self.life.state = match self.spec.begin {
            _ if !self.life.holds.is_none() || !self.life.bars.are_open() => JobState::Held,
            Some(begin) if begin > moment.wall => JobState::Waiting,
            _ if self.life.began.is_some() => JobState::Begun,
            _ => JobState::Queued,
        };
        self.life.etime = match self.life.state {
            JobState::Queued | JobState::Begun => self.life.etime.or(Some(moment.now)),
            _ => None,
        };
    }

    fn start(&mut self, run: Run) {
        self.life.state = JobState::Running;
        self.life.attempt = run.attempt;
        self.life.run_count = self.life.run_count.saturating_add(1);
        self.life.want = Want::Run;
        self.life.used = Default::default();
        self.life.ending = None;
        self.life.not_before = None;
        self.life.boosted = false;
        self.life.run = Some(run);
    }

    fn end_attempt(&mut self, attempt: Attempt, outcome: &AttemptOutcome, moment: EventContext) {
        if self.open_attempt(attempt).is_none() {
            return;
        }
        self.end_suspension(moment.now);
        if self.life.state == JobState::Finished {
            return self.close_run(None);
        }
        self.close_run(Some(outcome.used));
        self.life.ending = outcome.remark();
        match (&outcome.how, self.life.want.clone()) {
            // The order to end the job arrived after the end of the script.
            (_, Want::Gone(_)) if outcome.on_its_own => self.ended_before_deletion(outcome, moment),
            (how, Want::Requeue(_)) if outcome.on_its_own => {
                self.ended_without_request(how, outcome, moment)
            }
            (_, Want::Gone(_)) => self.finish(DELETED, true, moment),
            (How::NodeFault(_), _) => self.failed_on_its_host(moment),
            (How::AwaitsFiles(_), _) => self.requeue_until_files_exist(moment),
            (How::ShepherdLost, _) if !self.spec.rerunnable => self.finish(LOST, false, moment),
            // Y17: a job that exits with status 0 during its checkpoint is complete.
            (How::Exited(0), Want::Requeue(_)) if self.was_interrupted() => {
                self.finish(0, false, moment)
            }
            // The script ended before the site's command wrote the checkpoint.
            (how, Want::Requeue(_)) if self.ended_before_checkpoint(outcome) => {
                self.ended_without_request(how, outcome, moment)
            }
            (_, Want::Requeue(_)) => {
                self.life.forget_failed_starts();
                self.requeue(moment);
            }
            (How::ShepherdLost, _) => self.requeue_lost(moment),
            (How::Cancelled, _) => self.requeue_after_failed_start(moment),
            // The cancellation of the start ended the script. Only a rerunnable job is requeued,
            // because the script can already have done some work.
            (How::Signaled(_), Want::Anew) if self.spec.rerunnable => {
                self.requeue_after_failed_start(moment)
            }
            (How::Signaled(_), Want::Anew) => self.finish(LOST, false, moment),
            (how, Want::Run | Want::Anew) => self.ended_without_request(how, outcome, moment),
        }
    }

    /// Handles the end of an attempt that was not ended by a request. A retry with a larger request
    /// replaces the site's action for the exceeded limit, because the job would exceed the limit
    /// again with the same request.
    fn ended_without_request(&mut self, how: &How, outcome: &AttemptOutcome, moment: EventContext) {
        if Growth::after(&self.spec, how).is_some() {
            if moment.grows {
                self.retry(moment);
            } else {
                self.finish(exit_status(outcome).unwrap_or(LOST), false, moment);
            }
        } else if self.spec.rerunnable && moment.rules.requeues(how) {
            self.requeue_over_limit(moment)
        } else {
            self.retry_or_finish(exit_status(outcome).unwrap_or(LOST), moment)
        }
    }

    /// Finishes a job that was deleted after the end of its script. The job keeps the exit status
    /// of the script and is not rerun.
    fn ended_before_deletion(&mut self, outcome: &AttemptOutcome, moment: EventContext) {
        self.life.want = Want::Run;
        self.finish(exit_status(outcome).unwrap_or(LOST), false, moment);
    }

    /// Tests whether the latest attempt was ordered to write a checkpoint, by a request or by a
    /// preemption with an `interrupt` signal.
    fn was_interrupted(&self) -> bool {
        self.life.run.as_ref().is_some_and(|run| {
            run.checkpoint == CheckpointProgress::Wanted
                || self.interruption().is_some() && self.was_preempted(run)
        })
    }

    /// Reruns a job with a positive exit status if it has retries left; finishes all other jobs. A
    /// job that exceeded a limit usually has a negative status, and is then not rerun, because it
    /// would exceed the limit again. [`Growth`] is the exception.
    fn retry_or_finish(&mut self, status: i32, moment: EventContext) {
        if status <= 0 || self.life.retries >= self.spec.retry {
            return self.finish(status, false, moment);
        }
        self.retry(moment);
    }

    /// Requeues a failed job for its next retry.
    fn retry(&mut self, moment: EventContext) {
        self.life.retries += 1;
        self.life.forget_failed_starts();
        self.defer_start(self.spec.retry_delay, moment);
        self.requeue(moment);
    }

    fn end_lost_attempt(&mut self, attempt: Attempt, moment: EventContext) {
        if self.open_attempt(attempt).is_none() {
            return;
        }
        self.end_suspension(moment.now);
        self.close_run(None);
        match self.life.want {
            _ if self.life.state == JobState::Finished => {}
            Want::Gone(_) => self.finish(DELETED, true, moment),
            Want::Requeue(_) => self.requeue(moment),
            Want::Run | Want::Anew if self.spec.rerunnable => self.requeue_lost(moment),
            Want::Run | Want::Anew => self.finish(LOST, false, moment),
        }
    }

    fn delete(&mut self, by: &str, force: bool, moment: EventContext) {
        self.life.want = Want::Gone(by.to_string());
        if self.id.is_array() {
            return self.end_waiting(0, u32::MAX, moment);
        }
        let runs = self.life.open_run().is_some_and(Run::has_script);
        if force || !runs {
            let status = if runs && self.id.index().is_none() {
                FORCED
            } else {
                DELETED
            };
            self.finish(status, true, moment);
        }
    }

    /// Requeues a lost job. After the first failure, the retry is immediate, because the cause can
    /// be accidental.
    fn requeue_lost(&mut self, moment: EventContext) {
        self.requeue_after_failure(1, moment);
    }

    fn requeue_after_failed_start(&mut self, moment: EventContext) {
        self.requeue_after_failure(0, moment);
    }

    /// Requeues a job with missing input files. This does not count as a failed start, and
    /// the number of retries is unlimited (M3).
    fn requeue_until_files_exist(&mut self, moment: EventContext) {
        self.defer_start(moment.rules.stage_in.retry, moment);
        self.requeue(moment);
    }

    /// Requeues a job that exceeded a limit (M50, M51). The delay prevents a tight loop of
    /// restarts.
    fn requeue_over_limit(&mut self, moment: EventContext) {
        self.life.forget_failed_starts();
        self.defer_start(moment.rules.retries.first, moment);
        self.requeue(moment);
    }

    pub(super) fn requeue(&mut self, moment: EventContext) {
        self.life.state = JobState::Queued;
        self.life.want = Want::Run;
        self.life.boosted = moment.rules.boost
            && self
                .life
                .run
                .as_ref()
                .is_some_and(|run| self.was_preempted(run));
        self.update_waiting_state(moment);
    }

    /// Finishes the job in this installation, without an exit status, because it was moved to
    /// another installation under the id `to`.
    fn move_away(&mut self, to: &str, moment: EventContext) {
        self.life.state = JobState::Finished;
        self.life.moved_to = Some(to.to_string());
        self.life.obittime = Some(moment.now);
    }

    pub(super) fn finish(&mut self, status: i32, deleted: bool, moment: EventContext) {
        self.life.state = JobState::Finished;
        self.life.exit = Some(Exit { status, deleted });
        self.life.obittime = Some(moment.now);
    }
}

#[cfg(test)]
mod tests;
