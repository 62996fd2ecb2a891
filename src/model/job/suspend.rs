//! Suspending and resuming running jobs (`qsig -s suspend`, preemption).

use super::attempt::{Attempt, NodeShare, TaskNumber, Want};
use super::event::Event;
use super::state::JobState;
use super::suspension::{Pauses, SuspendMode, Suspension};
use super::{Job, Run};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use std::collections::BTreeSet;

/// Pauses of an attempt that was never suspended.
static NONE: Pauses = Pauses {
    count: 0,
    total: Span(0),
    resumed: None,
    waking: BTreeSet::new(),
};

impl Run {
    /// Returns the earlier suspensions.
    pub fn pauses(&self) -> &Pauses {
        self.pauses.as_deref().unwrap_or(&NONE)
    }

    /// Returns the start of the current period without suspension: the start of the attempt, or the
    /// end of its last suspension.
    pub fn running_since(&self) -> Time {
        self.pauses().resumed.unwrap_or(self.started)
    }

    /// Returns the time at which `walltime` ends if the job runs without suspension from `now` on.
    pub fn until(&self, walltime: Span, now: Time) -> Time {
        self.started + walltime + self.suspended_time(now)
    }

    /// Tests whether all processes of a suspended job are stopped. Only then may other jobs use the
    /// released resources.
    pub fn is_stopped(&self) -> bool {
        self.stopped_suspension().is_some()
    }

    /// Returns the total duration of suspensions until `now`.
    pub fn suspended_time(&self, now: Time) -> Span {
        let total = self.pauses().total;
        match self.stopped_suspension().and_then(|s| s.still) {
            Some(still) => total + now.since(still).max(Span(0)),
            None => total,
        }
    }

    /// Returns the run time until `now`, without suspensions.
    pub fn ran(&self, now: Time) -> Span {
        now.since(self.started + self.suspended_time(now))
    }

    /// Returns the names of the resources that other jobs may use until the job resumes; empty
    /// unless all processes are stopped.
    pub fn releases(&self) -> &[String] {
        self.stopped_suspension()
            .map_or(&[], |suspension| suspension.manner.releases())
    }

    /// Returns the suspension if all processes are stopped.
    fn stopped_suspension(&self) -> Option<&Suspension> {
        self.suspension
            .as_deref()
            .filter(|suspension| suspension.still.is_some())
    }

    /// Returns the part of a share that the suspended job has released.
    pub fn given_up(&self, share: &NodeShare) -> NodeShare {
        share.part(|name| self.has_released(name))
    }

    /// Returns the part of a share that the job keeps.
    pub fn kept(&self, share: &NodeShare) -> NodeShare {
        share.part(|name| !self.has_released(name))
    }

    /// Tests whether the job has released no resources and can therefore resume at once.
    pub fn has_all_resources(&self) -> bool {
        self.shares
            .iter()
            .flat_map(|share| share.taken.iter().chain(&share.pooled))
            .all(|(name, _)| !self.has_released(name))
    }

    fn has_released(&self, name: &str) -> bool {
        self.releases().iter().any(|released| released == name)
    }

    /// Tests whether the script and all open tasks are stopped.
    fn is_all_stopped(&self) -> bool {
        let Some(suspension) = &self.suspension else {
            return false;
        };
        let mut tasks = self.tasks().open().map(|(number, _)| number);
        suspension.stopped.contains(&0) && tasks.all(|number| suspension.stopped.contains(&number))
    }

    /// Ends the suspension.
    fn end_pause(&mut self, now: Time) {
        let total = self.suspended_time(now);
        let Some(suspension) = self.suspension.take() else {
            return;
        };
        // The script and all open tasks get the order to continue, even those not reported as
        // stopped, because they can have received the order to stop.
        let tasks = self.tasks().open().map(|(number, _)| number);
        let waking = tasks.chain([0]).collect();
        let pauses = self.pauses.get_or_insert_default();
        pauses.waking = waking;
        if let Some(still) = suspension.still {
            (pauses.total, pauses.resumed) = (total, Some(now.max(still)));
            pauses.count = pauses.count.saturating_add(1);
        }
    }
}

impl NodeShare {
    /// Returns the part of a share that consists of the selected resources. The list `cpus` belongs
    /// to `ncpus`, the list `gpus` to `ngpus`.
    pub fn part(&self, is_selected: impl Fn(&str) -> bool) -> NodeShare {
        let mut part = self.clone();
        part.taken.retain(|(name, _)| is_selected(name));
        part.pooled.retain(|(name, _)| is_selected(name));
        if !is_selected("ncpus") {
            part.cpus.clear();
        }
        if !is_selected("ngpus") {
            part.gpus.clear();
        }
        part
    }
}

/// Request of `qsig` other than a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendRequest {
    /// `suspend`.
    Suspend,
    /// `resume`.
    Resume,
    /// `admin-suspend`.
    AdminSuspend,
    /// `admin-resume`.
    AdminResume,
}

impl SuspendRequest {
    /// Returns the request with this name.
    pub fn named(name: &str) -> Option<SuspendRequest> {
        match name {
            "suspend" => Some(SuspendRequest::Suspend),
            "resume" => Some(SuspendRequest::Resume),
            "admin-suspend" => Some(SuspendRequest::AdminSuspend),
            "admin-resume" => Some(SuspendRequest::AdminResume),
            _ => None,
        }
    }

    /// Returns the events that carry out the request. `releases` contains the names of the
    /// resources that a suspended job releases.
    pub fn of(self, job: &Job, by: &str, releases: &[String]) -> Result<Vec<Event>, Refusal> {
        let run = job.life.open_run().ok_or_else(Refusal::bad_state)?;
        let (by, attempt) = (by.to_string(), run.attempt);
        let manner = match self {
            SuspendRequest::Suspend => SuspendMode::UntilTold {
                releases: releases.to_vec(),
            },
            SuspendRequest::AdminSuspend => SuspendMode::Maintenance,
            SuspendRequest::Resume | SuspendRequest::AdminResume => {
                self.suits(job)?;
                let mut events = vec![Event::ResumeWanted { by }];
                if run.has_all_resources() {
                    events.push(Event::Resumed {
                        attempt,
                        shares: run.shares.clone(),
                    });
                }
                return Ok(events);
            }
        };
        if job.can_be_suspended() {
            Ok(vec![Event::SuspendWanted {
                by,
                attempt,
                manner,
            }])
        } else {
            Err(Refusal::bad_state())
        }
    }

    /// Checks that this request to resume matches the suspension of the job.
    fn suits(self, job: &Job) -> Result<(), Refusal> {
        if job.life.want != Want::Run {
            return Err(Refusal::bad_state());
        }
        let suspension = job.suspension().ok_or_else(Refusal::bad_state)?;
        match (self, &suspension.manner) {
            (SuspendRequest::AdminResume, SuspendMode::Maintenance) => Ok(()),
            (SuspendRequest::Resume, SuspendMode::UntilTold { .. } | SuspendMode::For { .. }) => {
                Ok(())
            }
            _ => Err(Refusal::wrong_resume()),
        }
    }
}

impl Job {
    /// Returns the suspension of the open attempt; None if the job is not suspended.
    pub fn suspension(&self) -> Option<&Suspension> {
        self.life.open_run()?.suspension.as_deref()
    }

    /// Tests whether the job is suspended for maintenance of its nodes.
    pub fn is_suspended_for_maintenance(&self) -> bool {
        self.suspension()
            .is_some_and(|suspension| suspension.manner == SuspendMode::Maintenance)
    }

    /// Tests whether the job is suspended and waits for free resources to resume.
    pub fn waits_to_resume(&self) -> bool {
        self.life.state == JobState::Suspended
            && self.suspension().is_some_and(|suspension| suspension.waits)
    }

    /// Tests whether the job can be suspended: the job runs, its node has reported the start, and
    /// no end of the job is requested.
    pub fn can_be_suspended(&self) -> bool {
        self.life.state == JobState::Running
            && self.life.want == Want::Run
            && self
                .life
                .open_run()
                .is_some_and(|run| run.has_script() && run.session.is_some())
    }

    /// Applies an event that suspends or resumes the job. Other events have no effect.
    pub(super) fn apply_suspension_event(&mut self, event: &Event, now: Time) {
        match event {
            Event::SuspendWanted {
                by,
                attempt,
                manner,
            } => self.suspend(by, *attempt, manner, now),
            Event::Suspended { attempt } => self.note_all_stopped(*attempt, now),
            Event::ResumeWanted { .. } => self.wait_for_resources(),
            Event::Resumed { attempt, shares } => self.resume(*attempt, shares, now),
            _ => {}
        }
    }

    fn suspend(&mut self, by: &str, attempt: Attempt, manner: &SuspendMode, now: Time) {
        if !self.can_be_suspended() {
            return;
        }
        if let Some(run) = self.open_attempt(attempt) {
            run.suspension = Some(Box::new(Suspension {
                by: by.to_string(),
                since: now,
                manner: manner.clone(),
                still: None,
                stopped: BTreeSet::new(),
                waits: matches!(manner, SuspendMode::For { .. }),
            }));
            self.life.state = JobState::Suspended;
        }
    }

    fn note_all_stopped(&mut self, attempt: Attempt, now: Time) {
        let suspension = self
            .open_attempt(attempt)
            .and_then(|run| run.suspension.as_mut());
        if let Some(suspension) = suspension {
            suspension.still.get_or_insert(now);
        }
    }

    fn wait_for_resources(&mut self) {
        let run = self.life.run.as_mut();
        if let Some(suspension) = run.and_then(|run| run.suspension.as_mut()) {
            suspension.waits = true;
        }
    }

    fn resume(&mut self, attempt: Attempt, shares: &[NodeShare], now: Time) {
        if self.life.state != JobState::Suspended || self.life.want != Want::Run {
            return;
        }
        if let Some(run) = self.open_attempt(attempt) {
            run.end_pause(now);
            run.shares = shares.to_vec();
            self.life.state = JobState::Running;
        }
    }

    pub(super) fn end_suspension(&mut self, now: Time) {
        if let Some(run) = &mut self.life.run {
            run.end_pause(now);
        }
    }

    /// Records that a node has stopped a task; task 0 is the script.
    pub fn note_stopped(&mut self, number: TaskNumber) {
        let run = self.life.run.as_mut().filter(|run| run.open);
        if let Some(suspension) = run.and_then(|run| run.suspension.as_mut()) {
            suspension.stopped.insert(number);
        }
    }

    /// Records that a node has continued a task; task 0 is the script.
    pub fn note_continued(&mut self, number: TaskNumber) {
        let run = self.life.run.as_mut();
        if let Some(pauses) = run.and_then(|run| run.pauses.as_mut()) {
            pauses.waking.remove(&number);
        }
    }

    /// Tests whether all processes of the suspended job are stopped, but event [`Event::Suspended`]
    /// has not been applied yet.
    pub fn is_newly_stopped(&self) -> bool {
        self.life.state == JobState::Suspended
            && self
                .life
                .open_run()
                .is_some_and(|run| !run.is_stopped() && run.is_all_stopped())
    }
}

#[cfg(test)]
mod tests;
