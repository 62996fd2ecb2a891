//! Tests: suspending and resuming jobs.

use super::*;
use crate::model::job::{AttemptOutcome, How, Life};
use crate::model::resource::ResourceValue;
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

/// Creates a job that has run since second 0.
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
fn resources_are_released_only_while_all_processes_are_stopped() {
    let mut job = running();
    at(&mut job, 10, wanted(1));
    assert_eq!(
        (
            job.life.state,
            run(&job).has_all_resources(),
            job.held().len()
        ),
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
            run(&job).has_all_resources()
        ),
        (JobState::Running, &[4, 5][..], true)
    );
    assert_eq!(
        (pauses.count, pauses.total, run(&job).running_since()),
        (1, Span::seconds(8), Time(20_000))
    );
    assert_eq!(
        run(&job).until(Span::seconds(100), Time(30_000)),
        Time(108_000)
    );
}

#[test]
fn a_share_is_either_kept_or_released() {
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
fn events_that_do_not_apply_have_no_effect() {
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
        "an end of the job is requested"
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
        "its node has not reported the start"
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
        assert_eq!(run(&job).suspended_time(Time(90_000)), Span::seconds(8));
    }
}

/// All processes must have stopped. When the job resumes, each receives the order to continue.
#[test]
fn a_job_is_stopped_when_its_last_process_has_stopped_or_ended() {
    let mut job = running();
    let tasks = job.life.run.as_mut().unwrap().tasks_mut();
    tasks.make(1, 0, 0);
    tasks.make(2, 0, 0);
    at(&mut job, 1, wanted(1));
    let newly = |job: &mut Job, number| {
        job.note_stopped(number);
        job.is_newly_stopped()
    };
    assert_eq!([0, 2].map(|number| newly(&mut job, number)), [false, false]);
    let mut over = job.clone();
    over.record_task_end(1, 0, Default::default());
    assert!(over.is_newly_stopped() && newly(&mut job, 1));
    at(&mut job, 2, Event::Suspended { attempt: 1 });
    assert!(!job.is_newly_stopped());
    at(
        &mut job,
        3,
        Event::Resumed {
            attempt: 1,
            shares: vec![share()],
        },
    );
    assert_eq!(run(&job).pauses().waking, [0, 1, 2].into());
    job.note_continued(1);
    assert_eq!(run(&job).pauses().waking, [0, 2].into());
}

#[test]
fn qsig_requests_give_events_or_the_errors_of_pbs() {
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
        "the job has released nothing"
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
    assert!(job.waits_to_resume());
    let mut job = running();
    let wanted = turn(SuspendRequest::AdminSuspend, &job).unwrap().remove(0);
    at(&mut job, 1, wanted);
    at(&mut job, 2, Event::Suspended { attempt: 1 });
    assert!(job.is_suspended_for_maintenance() && run(&job).has_all_resources());
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
        "the job has never run"
    );
}
