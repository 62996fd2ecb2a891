//! Tests of eligible time.

use super::*;
use crate::model::job::event::Event;
use crate::model::job::{AttemptOutcome, How, Spec};
use crate::model::job_id::JobId;
use crate::model::limit::excess::LimitExcess;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time, Wall};
use crate::sched::fixture::{cluster, moment};
use std::sync::Arc;

/// Returns the context of an event at a time in seconds, under a policy for eligible time.
fn at(seconds: i64, accrual: Accrual) -> EventContext {
    EventContext {
        accrual,
        ..moment(seconds)
    }
}

fn by() -> String {
    "ann@head".to_string()
}

fn held(letters: &str) -> Event {
    Event::Held {
        holds: Holds::parse(letters).unwrap(),
        by: by(),
    }
}

fn released(letters: &str) -> Event {
    Event::Released {
        holds: Holds::parse(letters).unwrap(),
        by: by(),
    }
}

fn submitted(text: &str, begin: Option<i64>, moment: EventContext) -> Job {
    let mut job = cluster("").job(1, text);
    job.spec = Arc::new(Spec {
        rerunnable: true,
        begin: begin.map(Wall),
        ..(*job.spec).clone()
    });
    job.life.eligibility = Eligibility::default();
    job.apply(&Event::Submitted, moment);
    job
}

fn eligible(job: &Job, seconds: i64) -> i64 {
    job.life
        .eligibility
        .at(Time(0) + Span::seconds(seconds))
        .as_seconds()
}

/// Returns the eligible time at second 600 of a job that is submitted at second 0, under the
/// policies `pbs`, `always`, `queue_policy` and `full_policy`. `obstruct` is applied at second 0,
/// and may prevent the start. `begin` is the job's start time (`-a`).
fn eligible_under_each_policy(
    obstruct: impl Fn(&mut Job, EventContext),
    begin: Option<i64>,
) -> [i64; 4] {
    [
        Accrual::Pbs,
        Accrual::Always,
        Accrual::QueuePolicy,
        Accrual::FullPolicy,
    ]
    .map(|accrual| {
        let mut job = submitted("select=1:ncpus=1", begin, at(0, accrual));
        obstruct(&mut job, at(0, accrual));
        eligible(&job, 600)
    })
}

/// I6: the job is eligible from 100 to 500, held from 500 to 900, and eligible from 900 to 1000.
/// These are 500 seconds of eligible time.
#[test]
fn time_under_the_owners_hold_does_not_count() {
    let mut job = submitted("select=1:ncpus=1", None, at(100, Accrual::Pbs));
    job.apply(&held("u"), at(500, Accrual::Pbs));
    assert_eq!((eligible(&job, 500), eligible(&job, 900)), (400, 400));
    job.apply(&released("u"), at(900, Accrual::Pbs));
    assert_eq!(
        (eligible(&job, 1000), job.life.eligibility.accrues.number()),
        (500, 2)
    );
}

/// G12.
#[test]
fn eligible_time_never_falls_below_a_set_value() {
    let mut job = submitted("select=1:ncpus=1", None, at(100, Accrual::Pbs));
    job.life
        .eligibility
        .set(Span::seconds(300), at(400, Accrual::Pbs).now);
    assert_eq!(
        (eligible(&job, 90), eligible(&job, 399), eligible(&job, 401)),
        (300, 300, 301)
    );
}

/// I13, M17.
#[test]
fn policies_count_different_causes_of_waiting() {
    let apply = |event: Event| move |job: &mut Job, moment: EventContext| job.apply(&event, moment);
    assert_eq!(
        eligible_under_each_policy(|_, _| (), None),
        [600; 4],
        "no free resources"
    );
    for (letters, expected) in [
        ("u", [0, 600, 0, 0]),
        ("p", [0, 600, 0, 0]),
        ("o", [600, 600, 0, 0]),
        ("s", [600, 600, 0, 0]),
        ("uo", [0, 600, 0, 0]),
    ] {
        assert_eq!(
            eligible_under_each_policy(apply(held(letters)), None),
            expected,
            "hold {letters}"
        );
    }
    assert_eq!(
        eligible_under_each_policy(|_, _| (), Some(900)),
        [0, 600, 0, 0],
        "-a"
    );
    let bound = Event::Bound {
        unmet: 1,
        on: 0,
        rival: None,
        labels: Vec::new(),
    };
    assert_eq!(
        eligible_under_each_policy(apply(bound), None),
        [0, 600, 0, 0],
        "a dependency"
    );
    let limited = |limit| {
        move |job: &mut Job, moment: EventContext| {
            job.judged(Some(limit), moment)
                .into_iter()
                .for_each(|eligibility| job.life.eligibility = eligibility);
        }
    };
    assert_eq!(
        eligible_under_each_policy(limited(OwnLimit::Running), None),
        [0, 600, 600, 0]
    );
    assert_eq!(
        eligible_under_each_policy(limited(OwnLimit::Waiting), None),
        [0, 600, 0, 0]
    );
}

/// M17: a limit allows two waiting jobs of a user, who submits five jobs at second 0. At second 600
/// under policy `queue_policy`, two jobs have 10 minutes of eligible time, the other three none.
/// Under policy `always`, all five have 10 minutes.
#[test]
fn jobs_above_the_limit_on_waiting_jobs_accrue_no_eligible_time() {
    let accrued = |accrual: Accrual| {
        [1, 2, 3, 4, 5].map(|number| {
            let mut job = submitted("select=1:ncpus=1", None, at(0, accrual));
            let limit = (number > 2).then_some(OwnLimit::Waiting);
            job.judged(limit, at(0, accrual))
                .into_iter()
                .for_each(|judged| job.life.eligibility = judged);
            eligible(&job, 600)
        })
    };
    assert_eq!(accrued(Accrual::QueuePolicy), [600, 600, 0, 0, 0]);
    assert_eq!(accrued(Accrual::Always), [600; 5]);
}

#[test]
fn a_running_job_accrues_no_eligible_time_and_keeps_earlier_time() {
    let mut job = submitted("select=1:ncpus=1", None, at(0, Accrual::Pbs));
    job.apply(
        &Event::Started {
            attempt: 1,
            shares: Vec::new(),
            score: None,
            extra: false,
        },
        at(100, Accrual::Pbs),
    );
    assert_eq!(
        (eligible(&job, 500), job.life.eligibility.accrues.number()),
        (100, 3)
    );
    let outcome = AttemptOutcome {
        how: How::ShepherdLost,
        sent: None,
        used: Default::default(),
        notes: Vec::new(),
        unfit: None,
        on_its_own: false,
    };
    job.apply(
        &Event::Ended {
            attempt: 1,
            outcome,
        },
        at(500, Accrual::Pbs),
    );
    assert_eq!(
        (eligible(&job, 700), job.life.eligibility.accrues),
        (300, Accrues::Eligible)
    );
    job.apply(
        &Event::DeleteWanted {
            by: by(),
            force: false,
        },
        at(800, Accrual::Pbs),
    );
    assert_eq!(
        (eligible(&job, 9000), job.life.eligibility.accrues.number()),
        (400, 4)
    );
}

#[test]
fn the_limit_found_by_a_cycle_is_cleared_when_the_job_is_held() {
    let mut job = submitted("select=1:ncpus=1", None, at(0, Accrual::Pbs));
    job.life.eligibility = job
        .judged(Some(OwnLimit::Running), at(0, Accrual::Pbs))
        .unwrap();
    assert_eq!(
        job.judged(Some(OwnLimit::Running), at(10, Accrual::Pbs)),
        None,
        "the limit is unchanged"
    );
    job.apply(
        &Event::Altered {
            by: by(),
            attributes: Vec::new(),
        },
        at(50, Accrual::Pbs),
    );
    assert_eq!(
        eligible(&job, 100),
        0,
        "a change of the job keeps the limit"
    );
    job.apply(&held("u"), at(100, Accrual::Pbs));
    assert_eq!(
        job.judged(Some(OwnLimit::Running), at(110, Accrual::Pbs)),
        None,
        "a held job has no limit"
    );
    job.apply(&released("u"), at(200, Accrual::Pbs));
    assert_eq!(eligible(&job, 300), 100);
}

/// I13: an array without waiting subjobs accrues no eligible time, nor does a deleted subjob.
#[test]
fn an_array_accrues_while_subjobs_wait() {
    let pbs = |seconds| at(seconds, Accrual::Pbs);
    let mut array = submitted("select=1:ncpus=1 array=0-2", None, pbs(0));
    assert_eq!(array.id, JobId::array(1));
    array.end_waiting(2, 2, pbs(50));
    array.set_subjob_state(0, crate::model::job::array::SubjobState::Begun, pbs(100));
    assert_eq!(
        (
            eligible(&array, 200),
            eligible(&array.subjob_without_record(1).unwrap(), 200)
        ),
        (200, 200)
    );
    array.set_subjob_state(1, crate::model::job::array::SubjobState::Begun, pbs(300));
    assert_eq!(
        (eligible(&array, 900), array.life.eligibility.accrues),
        (300, Accrues::Ineligible)
    );
    let deleted = array.subjob_without_record(2).unwrap();
    assert_eq!(
        (eligible(&deleted, 900), deleted.life.eligibility.accrues),
        (300, Accrues::Exiting)
    );
}

#[test]
fn a_job_stored_without_eligibility_starts_to_accrue_at_the_next_event() {
    let mut job = cluster("").job(1, "select=1:ncpus=1");
    job.life.eligibility = Eligibility::default();
    assert_eq!(
        (eligible(&job, 900), job.life.eligibility.accrues.number()),
        (0, 0)
    );
    job.accrue(at(1000, Accrual::Pbs));
    assert_eq!(eligible(&job, 1600), 600);
}

/// I13: a limit on the running jobs of all users together, or of all users of a queue, is outside
/// the owner's control. Every limit on waiting jobs is within the owner's control (M24).
#[test]
fn own_limits_stop_accrual_and_general_limits_do_not() {
    use crate::model::limit::excess::tests::of_user;
    use crate::model::limit::{LimitScope, LimitStage, Selector};
    let of = |scope, stage| {
        OwnLimit::of(&Reason::Limited(Box::new(LimitExcess {
            scope,
            stage,
            ..of_user()
        })))
    };
    let each = || Selector::Each;
    let (queue, all) = (
        LimitScope {
            queue: each(),
            ..LimitScope::default()
        },
        LimitScope::default(),
    );
    assert_eq!(
        (
            of(all.clone(), LimitStage::Running),
            of(queue, LimitStage::Running)
        ),
        (None, None)
    );
    let own = [
        LimitScope {
            user: each(),
            ..all.clone()
        },
        LimitScope {
            group: each(),
            ..all.clone()
        },
        LimitScope {
            project: each(),
            ..all.clone()
        },
        LimitScope {
            account: each(),
            ..all.clone()
        },
        LimitScope {
            qos: each(),
            ..all.clone()
        },
    ];
    assert_eq!(
        own.map(|scope| of(scope, LimitStage::Running)),
        [Some(OwnLimit::Running); 5]
    );
    assert_eq!(of(all, LimitStage::Idle), Some(OwnLimit::Waiting));
}
