//! Tests of failed starts, ends of jobs, and orders that arrive after the end.

use super::*;
use crate::model::time::Span;
use crate::sched::fixture::{self, cluster};

/// Starts a job for the `attempt`th time, at hour `attempt`.
fn started(job: &mut Job, attempt: Attempt) -> EventContext {
    let moment = fixture::moment(3600 * i64::from(attempt));
    job.apply(
        &Event::Started {
            attempt,
            shares: Vec::new(),
            score: None,
            extra: false,
        },
        moment,
    );
    moment
}

fn ended(job: &mut Job, attempt: Attempt, how: How, sent: Option<i32>, moment: EventContext) {
    let outcome = AttemptOutcome {
        how,
        sent,
        used: Default::default(),
        notes: Vec::new(),
        unfit: None,
        on_its_own: false,
    };
    job.apply(&Event::Ended { attempt, outcome }, moment);
}

fn queued() -> Job {
    let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
    job.spec = std::sync::Arc::new(crate::model::job::Spec {
        rerunnable: true,
        ..(*job.spec).clone()
    });
    job.apply(&Event::Submitted, fixture::moment(0));
    job
}

#[test]
fn starts_refused_by_a_hook_are_deferred_and_never_hold_the_job() {
    let mut job = queued();
    for round in 1..=30 {
        let moment = fixture::moment(round * 1000);
        job.apply(
            &Event::StartRefused {
                hook: "h".into(),
                why: "no".into(),
            },
            moment,
        );
        let wait = job
            .life
            .not_before
            .map_or(0, |until| until.since(moment.now).0 / 1000);
        assert!((60..=61).contains(&wait), "{round}: {wait}");
        assert_eq!(
            (job.life.state, job.life.failed_starts),
            (JobState::Queued, 0)
        );
    }
    started(&mut job, 1);
    assert_eq!(
        (job.life.state, job.life.not_before),
        (JobState::Running, None)
    );
}

#[test]
fn a_lost_job_is_requeued_at_once_only_the_first_time() {
    let mut job = queued();
    let moment = started(&mut job, 1);
    ended(&mut job, 1, How::ShepherdLost, None, moment);
    assert_eq!(
        (job.life.state, job.life.not_before),
        (JobState::Queued, None)
    );
    let moment = started(&mut job, 2);
    job.apply(
        &Event::Vanished {
            attempt: 2,
            why: String::new(),
        },
        moment,
    );
    assert!(
        job.life
            .not_before
            .is_some_and(|until| until.since(moment.now) >= Span::seconds(60))
    );
}

#[test]
fn an_unconfirmed_start_is_repeated_only_after_its_node_reports() {
    let launching = || {
        let mut job = queued();
        let moment = started(&mut job, 1);
        job.apply(
            &Event::StartTimedOut {
                attempt: 1,
                after: Span(1),
            },
            moment,
        );
        assert_eq!(
            (job.life.state, job.life.want.clone()),
            (JobState::Running, Want::Anew)
        );
        (job, moment)
    };
    for (how, sent, state) in [
        (How::Cancelled, None, JobState::Queued),
        (How::Signaled(15), Some(15), JobState::Queued),
        (How::Exited(0), None, JobState::Finished),
    ] {
        let (mut job, moment) = launching();
        ended(&mut job, 1, how.clone(), sent, moment);
        assert_eq!(job.life.state, state, "{how:?}");
    }
    let (mut job, moment) = launching();
    job.spec = std::sync::Arc::new(crate::model::job::Spec {
        rerunnable: false,
        ..(*job.spec).clone()
    });
    ended(&mut job, 1, How::Signaled(15), Some(15), moment);
    assert_eq!(
        job.life.exit.map(|exit| exit.status),
        Some(LOST),
        "the script may have done some work"
    );
}

#[test]
fn a_job_that_ends_before_its_deletion_or_requeue_keeps_its_exit_status() {
    let orders = [
        Event::DeleteWanted {
            by: "ann@head".into(),
            force: false,
        },
        Event::RerunWanted {
            by: "ann@head".into(),
        },
    ];
    for (order, on_its_own, how, exit) in [
        (&orders[0], true, How::Exited(0), Some((0, false))),
        (&orders[0], true, How::Exited(3), Some((3, false))),
        (&orders[0], true, How::Signaled(11), Some((139, false))),
        (&orders[0], false, How::Exited(0), Some((DELETED, true))),
        (&orders[1], true, How::Exited(0), Some((0, false))),
        (&orders[1], false, How::Exited(0), None),
    ] {
        let mut job = queued();
        let moment = started(&mut job, 1);
        job.apply(order, moment);
        let (sent, used) = (None, Default::default());
        let outcome = AttemptOutcome {
            how,
            sent,
            used,
            notes: Vec::new(),
            unfit: None,
            on_its_own,
        };
        job.apply(
            &Event::Ended {
                attempt: 1,
                outcome: outcome.clone(),
            },
            moment,
        );
        let found = job.life.exit.map(|exit| (exit.status, exit.deleted));
        assert_eq!(found, exit, "{order:?} {outcome:?}");
    }
}

#[test]
fn a_start_confirmed_in_time_is_not_cancelled() {
    let mut job = queued();
    let moment = started(&mut job, 1);
    job.apply(
        &Event::Launched {
            attempt: 1,
            session: 7,
            boot: String::new(),
        },
        moment,
    );
    job.apply(
        &Event::StartTimedOut {
            attempt: 1,
            after: Span(1),
        },
        moment,
    );
    assert_eq!(job.life.want, Want::Run);
}

/// A retry factor applies to its limit only, up to the number of retries, and replaces the site's
/// action for jobs over a limit.
#[test]
fn a_job_with_a_retry_factor_is_retried_only_if_its_request_grows() {
    let overran = How::Overran {
        used: Span::seconds(2),
        limit: Span::seconds(1),
    };
    let outcome_of = |how: &How, factor: &str, grows: bool| {
        let mut job = queued();
        let mut spec = (*job.spec).clone();
        spec.retry = 1;
        spec.other.insert(factor.into(), "2".into());
        job.spec = std::sync::Arc::new(spec);
        let mut moment = started(&mut job, 1);
        moment.grows = grows;
        moment.rules.walltime = crate::model::job::response::LimitAction::Requeue;
        ended(&mut job, 1, how.clone(), None, moment);
        (job.life.state, job.life.retries)
    };
    let walltime = |grows| outcome_of(&overran, "retry_walltime", grows);
    assert_eq!(walltime(true), (JobState::Queued, 1));
    assert_eq!(walltime(false), (JobState::Finished, 0));
    assert_eq!(
        outcome_of(&overran, "retry_mem", false),
        (JobState::Queued, 0),
        "without a factor for the walltime, the site's action applies"
    );
    assert_eq!(
        outcome_of(&How::Exited(1), "retry_walltime", false),
        (JobState::Queued, 1),
        "other failures are retried with the same request"
    );
}
