//! Standing still in the middle of a run (`qsig -s suspend`, preemption), and going on.
//!
//! What is wanted comes first: from then on the job is shown suspended, and its nodes are told
//! until they have said that all its processes are stopped. Only then is anything given up. It goes
//! on by one event, which gives everything back to it; that its processes run again its nodes are
//! told until they say so.

use super::event::Event;
use super::state::JobState;
use super::{Attempt, Job, NodeShare, Run, TaskNumber, Want};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// For how long a job is to stand still, and what becomes of what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspendMode {
    /// Until somebody says that it may go on; others may have these resources of it meanwhile.
    UntilTold {
        /// The names of the resources.
        releases: Vec<String>,
    },
    /// For this job, until there is room again; likewise.
    For {
        /// The other job.
        job: JobId,
        /// The names of the resources.
        releases: Vec<String>,
    },
    /// While its nodes are maintained: it keeps everything, and no job starts there.
    Maintenance,
}

impl SuspendMode {
    /// The resources that it gives up.
    pub fn releases(&self) -> &[String] {
        match self {
            SuspendMode::UntilTold { releases } | SuspendMode::For { releases, .. } => releases,
            SuspendMode::Maintenance => &[],
        }
    }

    /// The job that it stands still for.
    pub fn for_job(&self) -> Option<JobId> {
        match self {
            SuspendMode::For { job, .. } => Some(*job),
            SuspendMode::UntilTold { .. } | SuspendMode::Maintenance => None,
        }
    }
}

/// How an attempt stands that was told to stand still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// By whom: `user@host`, or the scheduler.
    pub by: String,
    /// Since when that is wanted.
    pub since: Time,
    /// For how long, and what becomes of what it holds.
    pub manner: SuspendMode,
    /// When all its processes were known to be stopped; None until then.
    pub still: Option<Time>,
    /// Which of them are: 0 is the script, others are tasks.
    pub stopped: BTreeSet<TaskNumber>,
    /// Whether it is to go on as soon as there is room.
    pub waits: bool,
}

/// How often and for how long an attempt has stood still, and since when it runs again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// How often its processes were stopped.
    pub count: u32,
    /// For how long in all; that of now is not among it.
    pub total: Span,
    /// Since when it runs again; None for one that was never stopped.
    pub resumed: Option<Time>,
    /// What of it was stopped and has not said yet that it goes on: 0 is the script, others are
    /// tasks.
    #[serde(default)]
    pub waking: BTreeSet<TaskNumber>,
}

/// Of an attempt that was never stopped.
static NONE: Pauses = Pauses {
    count: 0,
    total: Span(0),
    resumed: None,
    waking: BTreeSet::new(),
};

impl Run {
    /// How often and for how long it has stood still before.
    pub fn pauses(&self) -> &Pauses {
        self.pauses.as_deref().unwrap_or(&NONE)
    }

    /// Since when it has been charged for: its start, or the end of its last pause.
    pub fn counts_from(&self) -> Time {
        self.pauses().resumed.unwrap_or(self.started)
    }

    /// When its walltime is over, if it does not stand still again.
    pub fn until(&self, walltime: Span, now: Time) -> Time {
        self.started + walltime + self.stood_still(now)
    }

    /// Whether its processes are stopped, and what it gives up others may have.
    pub fn is_still(&self) -> bool {
        self.suspension
            .as_ref()
            .is_some_and(|suspension| suspension.still.is_some())
    }

    /// How long it has stood still in all until `now`.
    pub fn stood_still(&self, now: Time) -> Span {
        let still = self
            .suspension
            .as_ref()
            .and_then(|suspension| suspension.still);
        self.pauses().total + still.map_or(Span(0), |still| now.since(still).max(Span(0)))
    }

    /// The names of the resources that others may have of it until it goes on; none unless it
    /// stands still.
    pub fn releases(&self) -> &[String] {
        let suspension = self
            .suspension
            .as_ref()
            .filter(|suspension| suspension.still.is_some());
        suspension.map_or(&[][..], |suspension| suspension.manner.releases())
    }

    /// What of a share it has given up.
    pub fn given_up(&self, share: &NodeShare) -> NodeShare {
        share.part(|name| self.gives_up(name))
    }

    /// What of a share it keeps.
    pub fn kept(&self, share: &NodeShare) -> NodeShare {
        share.part(|name| !self.gives_up(name))
    }

    /// Whether it gives up nothing that it would have to be given again.
    pub fn has_all(&self) -> bool {
        let is_kept = |(name, _): &(String, ResourceValue)| !self.gives_up(name);
        self.shares
            .iter()
            .all(|share| share.taken.iter().chain(&share.pooled).all(is_kept))
    }

    fn gives_up(&self, name: &str) -> bool {
        self.releases().iter().any(|released| released == name)
    }

    /// Whether all of it that is not over is stopped: its script and each of its tasks.
    fn is_all_stopped(&self) -> bool {
        let Some(suspension) = &self.suspension else {
            return false;
        };
        let mut tasks = self.tasks().open().map(|(number, _)| number);
        suspension.stopped.contains(&0) && tasks.all(|number| suspension.stopped.contains(&number))
    }

    /// Its pause is over, whatever comes now.
    fn end_pause(&mut self, now: Time) {
        let total = self.stood_still(now);
        let Some(suspension) = self.suspension.take() else {
            return;
        };
        // Those that have not said that they are stopped may have been told to be.
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
    /// The resources of it of which that is true, with the numbers of processors and GPUs.
    pub fn part(&self, is_meant: impl Fn(&str) -> bool) -> NodeShare {
        let of = |amounts: &[(String, ResourceValue)]| {
            amounts
                .iter()
                .filter(|(name, _)| is_meant(name))
                .cloned()
                .collect()
        };
        let numbers = |name: &str, all: &[u16]| {
            if is_meant(name) {
                all.to_vec()
            } else {
                Vec::new()
            }
        };
        let (cpus, gpus) = (numbers("ncpus", &self.cpus), numbers("ngpus", &self.gpus));
        NodeShare {
            taken: of(&self.taken),
            pooled: of(&self.pooled),
            cpus,
            gpus,
            ..self.clone()
        }
    }
}

/// What `qsig` asks for by a name that is no signal's.
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
    /// Its name as a signal of `qsig`.
    pub fn name(self) -> &'static str {
        match self {
            SuspendRequest::Suspend => "suspend",
            SuspendRequest::Resume => "resume",
            SuspendRequest::AdminSuspend => "admin-suspend",
            SuspendRequest::AdminResume => "admin-resume",
        }
    }

    /// The turn of this name.
    pub fn named(name: &str) -> Option<SuspendRequest> {
        match name {
            "suspend" => Some(SuspendRequest::Suspend),
            "resume" => Some(SuspendRequest::Resume),
            "admin-suspend" => Some(SuspendRequest::AdminSuspend),
            "admin-resume" => Some(SuspendRequest::AdminResume),
            _ => None,
        }
    }

    /// What follows for a job of which somebody asks that; what it gives up is `releases`.
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
                let at_once = run.has_all().then(|| Event::Resumed {
                    attempt,
                    shares: run.shares.clone(),
                });
                return Ok([Event::ResumeWanted { by }]
                    .into_iter()
                    .chain(at_once)
                    .collect());
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

    /// Whether a job is suspended in the way that it is to be resumed.
    fn suits(self, job: &Job) -> Result<(), Refusal> {
        let suspension = job
            .suspension()
            .filter(|_| job.life.want == Want::Run)
            .ok_or_else(Refusal::bad_state)?;
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
    /// The suspension of the open attempt.
    pub fn suspension(&self) -> Option<&Suspension> {
        self.life.open_run()?.suspension.as_deref()
    }

    /// Whether it is suspended so that its nodes can be maintained.
    pub fn is_maintained_under(&self) -> bool {
        self.suspension()
            .is_some_and(|suspension| suspension.manner == SuspendMode::Maintenance)
    }

    /// Whether it stands still, and only the scheduler has to make room for it to go on.
    pub fn waits_to_go_on(&self) -> bool {
        self.life.state == JobState::Suspended
            && self.suspension().is_some_and(|suspension| suspension.waits)
    }

    /// Whether it can be told to stand still: it runs, its node has said so, and nobody wants it
    /// ended.
    pub fn can_be_suspended(&self) -> bool {
        let has_begun = |run: &Run| run.has_script() && run.session.is_some();
        self.life.state == JobState::Running
            && self.life.want == Want::Run
            && self.life.open_run().is_some_and(has_begun)
    }

    /// Takes note of an event about standing still or going on; any other changes nothing.
    pub(super) fn pause(&mut self, event: &Event, now: Time) {
        match event {
            Event::SuspendWanted {
                by,
                attempt,
                manner,
            } => self.suspend(by, *attempt, manner, now),
            Event::Suspended { attempt } => self.stand_still(*attempt, now),
            Event::ResumeWanted { .. } => self.wait_for_room(),
            Event::Resumed { attempt, shares } => self.resume(*attempt, shares, now),
            _ => {}
        }
    }

    fn suspend(&mut self, by: &str, attempt: Attempt, manner: &SuspendMode, now: Time) {
        if !self.can_be_suspended() {
            return;
        }
        let waits = matches!(manner, SuspendMode::For { .. });
        let (by, manner, stopped) = (by.to_string(), manner.clone(), BTreeSet::new());
        if let Some(run) = self.run(attempt) {
            run.suspension = Some(Box::new(Suspension {
                by,
                since: now,
                manner,
                still: None,
                stopped,
                waits,
            }));
            self.life.state = JobState::Suspended;
        }
    }

    fn stand_still(&mut self, attempt: Attempt, now: Time) {
        let suspension = self.run(attempt).and_then(|run| run.suspension.as_mut());
        suspension
            .into_iter()
            .for_each(|suspension| suspension.still = suspension.still.or(Some(now)));
    }

    fn wait_for_room(&mut self) {
        let suspension = self
            .life
            .run
            .as_mut()
            .and_then(|run| run.suspension.as_mut());
        suspension
            .into_iter()
            .for_each(|suspension| suspension.waits = true);
    }

    fn resume(&mut self, attempt: Attempt, shares: &[NodeShare], now: Time) {
        if self.life.state != JobState::Suspended || self.life.want != Want::Run {
            return;
        }
        if let Some(run) = self.run(attempt) {
            run.end_pause(now);
            run.shares = shares.to_vec();
            self.life.state = JobState::Running;
        }
    }

    pub(super) fn end_suspension(&mut self, now: Time) {
        self.life.run.iter_mut().for_each(|run| run.end_pause(now));
    }

    /// Takes note that a node has stopped the script (0) or a task of the open attempt.
    pub fn note_stopped(&mut self, number: TaskNumber) {
        let run = self.life.run.as_mut().filter(|run| run.open);
        let suspension = run.and_then(|run| run.suspension.as_mut());
        suspension.into_iter().for_each(|suspension| {
            suspension.stopped.insert(number);
        });
    }

    /// Takes note that a node says of the script (0) or a task that it goes on.
    pub fn note_going_on(&mut self, number: TaskNumber) {
        let pauses = self.life.run.as_mut().and_then(|run| run.pauses.as_mut());
        pauses.into_iter().for_each(|pauses| {
            pauses.waking.remove(&number);
        });
    }

    /// Whether the last of it that was not stopped is over, and that has not been said.
    pub fn is_newly_still(&self) -> bool {
        let run = self
            .life
            .open_run()
            .filter(|_| self.life.state == JobState::Suspended);
        run.is_some_and(|run| !run.is_still() && run.is_all_stopped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::{AttemptOutcome, How, Life};
    use crate::sched::fixture::{self, cluster};

    fn at(job: &mut Job, seconds: i64, event: Event) {
        job.apply(&event, fixture::moment(seconds));
    }

    fn share() -> NodeShare {
        let amount = |name: &str, amount| (name.to_string(), ResourceValue::Long(amount));
        NodeShare {
            taken: vec![amount("ncpus", 2), amount("ngpus", 1)],
            pooled: vec![amount("site_lic", 3)],
            cpus: vec![0, 1],
            gpus: vec![7],
            ..fixture::share("n1")
        }
    }

    /// A job that runs since second 0.
    fn running() -> Job {
        let mut job = cluster("").job(1, "select=1:ncpus=2");
        at(
            &mut job,
            0,
            Event::Started {
                attempt: 1,
                shares: vec![share()],
                score: Some(3.0),
                extra: false,
            },
        );
        at(
            &mut job,
            0,
            Event::Launched {
                attempt: 1,
                session: 4,
                boot: "b".into(),
            },
        );
        job
    }

    fn releases() -> Vec<String> {
        vec!["ncpus".into(), "site_lic".into()]
    }

    fn wanted(attempt: Attempt) -> Event {
        Event::SuspendWanted {
            by: "op@head".into(),
            attempt,
            manner: SuspendMode::UntilTold {
                releases: releases(),
            },
        }
    }

    fn run(job: &Job) -> &Run {
        job.life.run.as_ref().unwrap()
    }

    #[test]
    fn it_gives_up_nothing_before_it_stands_still_and_has_all_again_when_it_goes_on() {
        let mut job = running();
        at(&mut job, 10, wanted(1));
        assert_eq!(
            (job.life.state, run(&job).has_all(), job.held().len()),
            (JobState::Suspended, true, 1)
        );
        at(&mut job, 12, Event::Suspended { attempt: 1 });
        let (kept, given_up) = (run(&job).kept(&share()), run(&job).given_up(&share()));
        assert_eq!(
            (
                kept.taken.len(),
                kept.pooled.len(),
                kept.cpus.len(),
                kept.gpus
            ),
            (1, 0, 0, vec![7])
        );
        assert_eq!(
            (given_up.taken, given_up.cpus, given_up.gpus),
            (share().taken[..1].to_vec(), vec![0, 1], vec![])
        );
        assert_eq!(given_up.pooled, share().pooled);
        at(
            &mut job,
            20,
            Event::Resumed {
                attempt: 1,
                shares: vec![NodeShare {
                    cpus: vec![4, 5],
                    ..share()
                }],
            },
        );
        let (pauses, shares) = (run(&job).pauses(), &run(&job).shares);
        assert_eq!(
            (
                job.life.state,
                shares[0].cpus.as_slice(),
                run(&job).has_all()
            ),
            (JobState::Running, &[4, 5][..], true)
        );
        assert_eq!(
            (pauses.count, pauses.total, run(&job).counts_from()),
            (1, Span::seconds(8), Time(20_000))
        );
        assert_eq!(
            run(&job).until(Span::seconds(100), Time(30_000)),
            Time(108_000)
        );
    }

    #[test]
    fn what_it_does_not_give_up_it_keeps() {
        let mut job = running();
        let releases = vec!["ngpus".to_string(), "site_lic".to_string()];
        at(
            &mut job,
            10,
            Event::SuspendWanted {
                by: "op@head".into(),
                attempt: 1,
                manner: SuspendMode::UntilTold { releases },
            },
        );
        at(&mut job, 12, Event::Suspended { attempt: 1 });
        let other = ("other_lic".to_string(), ResourceValue::Long(1));
        let share = NodeShare {
            pooled: vec![other.clone(), share().pooled[0].clone()],
            ..share()
        };
        let (kept, given_up) = (run(&job).kept(&share), run(&job).given_up(&share));
        assert_eq!(
            (kept.cpus, kept.gpus, kept.pooled),
            (vec![0, 1], vec![], vec![other])
        );
        assert_eq!(
            (given_up.cpus, given_up.gpus, given_up.pooled),
            (vec![], vec![7], share.pooled[1..].to_vec())
        );
    }

    #[test]
    fn what_does_not_fit_how_it_stands_changes_nothing() {
        let mut job = running();
        let others = |job: &mut Job| {
            at(job, 1, wanted(2));
            at(job, 1, Event::Suspended { attempt: 1 });
            at(
                job,
                1,
                Event::ResumeWanted {
                    by: "op@head".into(),
                },
            );
            at(
                job,
                1,
                Event::Resumed {
                    attempt: 1,
                    shares: vec![],
                },
            );
        };
        let before = job.life.clone();
        others(&mut job);
        assert_eq!(
            Life {
                mtime: before.mtime,
                ..job.life.clone()
            },
            before
        );
        at(&mut job, 2, wanted(1));
        at(&mut job, 3, wanted(1));
        assert_eq!(
            job.suspension().map(|suspension| suspension.since),
            Some(Time(2000))
        );
        at(
            &mut job,
            4,
            Event::DeleteWanted {
                by: "ann@head".into(),
                force: false,
            },
        );
        at(
            &mut job,
            5,
            Event::Resumed {
                attempt: 1,
                shares: vec![],
            },
        );
        assert_eq!(
            (job.life.state, job.held().len()),
            (JobState::Suspended, 1),
            "it is being ended"
        );
        let mut early = cluster("").job(1, "select=1");
        at(
            &mut early,
            0,
            Event::Started {
                attempt: 1,
                shares: vec![share()],
                score: None,
                extra: false,
            },
        );
        at(&mut early, 1, wanted(1));
        assert_eq!(
            early.life.state,
            JobState::Running,
            "nobody knows that it has begun"
        );
    }

    #[test]
    fn a_suspended_job_that_ends_or_is_lost_leaves_no_suspension_behind() {
        let outcome = AttemptOutcome {
            how: How::Exited(3),
            sent: None,
            used: Default::default(),
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        let ends = [
            (
                Event::Ended {
                    attempt: 1,
                    outcome,
                },
                JobState::Finished,
            ),
            (
                Event::Vanished {
                    attempt: 1,
                    why: "rebooted".into(),
                },
                JobState::Queued,
            ),
        ];
        for (end, state) in ends {
            let mut job = running();
            at(&mut job, 10, wanted(1));
            at(&mut job, 12, Event::Suspended { attempt: 1 });
            at(&mut job, 20, end);
            assert_eq!(
                (job.life.state, run(&job).suspension.is_some()),
                (state, false)
            );
            assert_eq!(run(&job).stood_still(Time(90_000)), Span::seconds(8));
        }
    }

    /// Script and tasks: all must have stopped, and each is told to go on.
    #[test]
    fn it_stands_still_when_the_last_of_its_parts_has_stopped_or_is_over() {
        let mut job = running();
        let tasks = job.life.run.as_mut().unwrap().tasks_mut();
        tasks.make(1, 0, 0);
        tasks.make(2, 0, 0);
        at(&mut job, 1, wanted(1));
        let newly = |job: &mut Job, number| {
            job.note_stopped(number);
            job.is_newly_still()
        };
        assert_eq!([0, 2].map(|number| newly(&mut job, number)), [false, false]);
        let mut over = job.clone();
        over.task_over(1, 0, Default::default());
        assert!(over.is_newly_still() && newly(&mut job, 1));
        at(&mut job, 2, Event::Suspended { attempt: 1 });
        assert!(!job.is_newly_still());
        at(
            &mut job,
            3,
            Event::Resumed {
                attempt: 1,
                shares: vec![share()],
            },
        );
        assert_eq!(run(&job).pauses().waking, [0, 1, 2].into());
        job.note_going_on(1);
        assert_eq!(run(&job).pauses().waking, [0, 2].into());
    }

    #[test]
    fn what_qsig_asks_for_comes_to_events_or_to_pbss_refusals() {
        let turn = |turn: SuspendRequest, job: &Job| turn.of(job, "op@head", &releases());
        let (bad, wrong) = (Err(Refusal::bad_state()), Err(Refusal::wrong_resume()));
        let mut job = running();
        assert_eq!(
            [
                turn(SuspendRequest::Resume, &job),
                turn(SuspendRequest::AdminResume, &job)
            ],
            [bad.clone(), bad.clone()]
        );
        let wanted = turn(SuspendRequest::Suspend, &job).unwrap().remove(0);
        at(&mut job, 1, wanted);
        assert_eq!(
            [SuspendRequest::Suspend, SuspendRequest::AdminSuspend].map(|it| turn(it, &job)),
            [bad.clone(), bad.clone()]
        );
        assert_eq!(turn(SuspendRequest::AdminResume, &job), wrong);
        let resumed = turn(SuspendRequest::Resume, &job).unwrap();
        assert!(
            matches!(
                resumed[..],
                [Event::ResumeWanted { .. }, Event::Resumed { .. }]
            ),
            "it has given up nothing"
        );
        at(&mut job, 2, Event::Suspended { attempt: 1 });
        assert!(matches!(
            turn(SuspendRequest::Resume, &job).unwrap()[..],
            [Event::ResumeWanted { .. }]
        ));
        at(
            &mut job,
            3,
            Event::ResumeWanted {
                by: "op@head".into(),
            },
        );
        assert!(job.waits_to_go_on());
        let mut job = running();
        let wanted = turn(SuspendRequest::AdminSuspend, &job).unwrap().remove(0);
        at(&mut job, 1, wanted);
        at(&mut job, 2, Event::Suspended { attempt: 1 });
        assert!(job.is_maintained_under() && run(&job).has_all());
        assert_eq!(
            (
                turn(SuspendRequest::Resume, &job),
                turn(SuspendRequest::AdminResume, &job).unwrap().len()
            ),
            (wrong, 2)
        );
        assert_eq!(
            turn(SuspendRequest::Suspend, &cluster("").job(1, "select=1")),
            bad,
            "it has never run"
        );
    }
}
