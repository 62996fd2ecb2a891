//! Tests of ends of jobs, failed starts and orders that come too late.

use super::*;
use crate::sched::fixture::{self, cluster};
use std::collections::BTreeSet;

/// A job that has been started for the `attempt`th time, at that many hours.
fn started(job: &mut Job, attempt: Attempt) -> Moment {
    let moment = fixture::moment(3600 * i64::from(attempt));
    job.apply(&Event::Started { attempt, shares: Vec::new(), score: None, extra: false }, moment);
    moment
}

fn ended(job: &mut Job, attempt: Attempt, how: How, sent: Option<i32>, moment: Moment) {
    let outcome = Outcome { how, sent, used: Default::default(), notes: Vec::new(), unfit: None, on_its_own: false };
    job.apply(&Event::Ended { attempt, outcome }, moment);
}

fn queued() -> Job {
    let mut job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
    job.spec = std::sync::Arc::new(crate::model::job::Spec { rerunnable: true, ..(*job.spec).clone() });
    job.apply(&Event::Submitted, fixture::moment(0));
    job
}

#[test]
fn a_start_that_fails_is_put_off_and_the_twentieth_in_a_row_holds_the_job() {
    // M10.
    let mut job = queued();
    for attempt in 1..=20 {
        let moment = started(&mut job, attempt);
        ended(&mut job, attempt, How::NodeFault("full".into()), None, moment);
        let wait = job.life.not_before.filter(|_| attempt < 20).map_or(0, |until| until.since(moment.now).0 / 1000);
        let least = [60, 120, 240, 480, 960, 1920, 3600].get(attempt as usize - 1).copied().unwrap_or(3600);
        let state = if attempt < 20 { State::Queued } else { State::Held };
        assert_eq!(job.life.state, state, "attempt {attempt}");
        assert!(attempt == 20 || (least..=least + least / 64).contains(&wait), "{attempt}: {wait}");
    }
    assert!(job.life.holds.contains(Holds::SYSTEM));
    assert_eq!(job.life.failed_starts, 0, "released, it has all its tries again");
}

#[test]
fn a_start_that_a_hook_refuses_is_put_off_as_often_as_it_is_and_never_holds_the_job() {
    let mut job = queued();
    for round in 1..=30 {
        let moment = fixture::moment(round * 1000);
        job.apply(&Event::StartRefused { hook: "h".into(), why: "no".into() }, moment);
        let wait = job.life.not_before.map_or(0, |until| until.since(moment.now).0 / 1000);
        assert!((60..=61).contains(&wait), "{round}: {wait}");
        assert_eq!((job.life.state, job.life.failed_starts), (State::Queued, 0));
    }
    started(&mut job, 1);
    assert_eq!((job.life.state, job.life.not_before), (State::Running, None));
}

#[test]
fn a_job_lost_with_its_node_is_run_again_at_once_but_only_the_first_time() {
    let mut job = queued();
    let moment = started(&mut job, 1);
    ended(&mut job, 1, How::ShepherdLost, None, moment);
    assert_eq!((job.life.state, job.life.not_before), (State::Queued, None));
    let moment = started(&mut job, 2);
    job.apply(&Event::Vanished { attempt: 2, why: String::new() }, moment);
    assert!(job.life.not_before.is_some_and(|until| until.since(moment.now) >= Span::seconds(60)));
}

#[test]
fn a_start_in_limbo_is_made_anew_only_by_its_nodes_word() {
    let limbo = || {
        let mut job = queued();
        let moment = started(&mut job, 1);
        job.apply(&Event::StartTimedOut { attempt: 1, after: Span(1) }, moment);
        assert_eq!((job.life.state, job.life.want.clone()), (State::Running, Want::Anew));
        (job, moment)
    };
    for (how, sent, state) in [
        (How::Cancelled, None, State::Queued),
        (How::Signaled(15), Some(15), State::Queued),
        (How::Exited(0), None, State::Finished),
    ] {
        let (mut job, moment) = limbo();
        ended(&mut job, 1, how.clone(), sent, moment);
        assert_eq!(job.life.state, state, "{how:?}");
    }
    let (mut job, moment) = limbo();
    job.spec = std::sync::Arc::new(crate::model::job::Spec { rerunnable: false, ..(*job.spec).clone() });
    ended(&mut job, 1, How::Signaled(15), Some(15), moment);
    assert_eq!(job.life.exit.map(|exit| exit.status), Some(LOST), "it may have begun");
}

#[test]
fn an_end_before_the_order_to_end_is_kept() {
    let orders =
        [Event::DeleteWanted { by: "ann@head".into(), force: false }, Event::RerunWanted { by: "ann@head".into() }];
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
        let outcome = Outcome { how, sent, used, notes: Vec::new(), unfit: None, on_its_own };
        job.apply(&Event::Ended { attempt: 1, outcome: outcome.clone() }, moment);
        let found = job.life.exit.map(|exit| (exit.status, exit.deleted));
        assert_eq!(found, exit, "{order:?} {outcome:?}");
    }
}

#[test]
fn a_start_that_is_confirmed_in_time_is_not_given_up() {
    let mut job = queued();
    let moment = started(&mut job, 1);
    job.apply(&Event::Launched { attempt: 1, session: 7, boot: String::new() }, moment);
    job.apply(&Event::StartTimedOut { attempt: 1, after: Span(1) }, moment);
    assert_eq!(job.life.want, Want::Run);
}

#[test]
fn jobs_that_are_put_off_one_after_another_are_few_classes() {
    let job = cluster("1 x ncpus=1").job(1, "select=1:ncpus=1");
    let put_off = |now: i64, wait: Span| {
        let mut job = job.clone();
        job.put_off(wait, Moment { now: Time(now), ..fixture::moment(0) });
        let until = job.life.not_before.unwrap();
        assert!(until >= Time(now) + wait && until.0 <= now + wait.0 + wait.0 / 64, "{until:?}");
        until
    };
    let hour = Span::seconds(3600);
    let moments: BTreeSet<Time> = (0..100_000).map(|n| put_off(1_700_000_000_000 + 36 * n, hour)).collect();
    assert!(moments.len() <= 66, "{}", moments.len());
    assert_eq!(put_off(1_700_000_000_001, Span(50)), Time(1_700_000_000_051));
}
