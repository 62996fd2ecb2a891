//! Tests of the aggregation, with a small example that was computed by hand.

use super::*;
use crate::cli::example;
use crate::model::account::accounting::{
    AttemptCredentials, AttemptTimes, JobEnd, RequestedResources,
};
use crate::model::job::Usage;
use crate::model::job::held::Held;
use crate::model::time::Span;

const MINUTE: i64 = 60_000;

/// A period of two hours.
fn period() -> Period {
    Period {
        from: 1_700_000_400_000,
        to: 1_700_000_400_000 + 120 * MINUTE,
    }
}

/// An attempt on two processors of host n1 with these times in minutes from the start of the
/// period: eligibility, start, end. One processor was busy, and half of the walltime and a quarter
/// of the memory was used.
fn entry(job: u64, user: &str, times: [i64; 3], end: Option<(i32, bool)>) -> AccountingEntry {
    let at = |minutes| period().from + minutes * MINUTE;
    let [eligible, began, ended] = times;
    let elapsed = (ended - began) * MINUTE;
    AccountingEntry {
        job: JobId::job(job),
        attempt: 1,
        name: format!("{user}.sh"),
        of: AttemptCredentials {
            user: user.into(),
            queue: "workq".into(),
            ..AttemptCredentials::default()
        },
        stamps: AttemptTimes {
            submitted: at(eligible),
            eligible: Some(at(eligible)),
            began: Some(at(began)),
            ended: at(ended),
        },
        end: end.map(|(status, deleted)| JobEnd { status, deleted }),
        places: vec![("n1".into(), 1), ("n1".into(), 1)],
        asked: RequestedResources {
            cores: 2,
            mem_kb: Some(4000),
            walltime: Some(Span(2 * elapsed)),
            ..RequestedResources::default()
        },
        held: Held {
            cores: 2,
            ..Held::default()
        },
        used: Usage {
            walltime: Span(elapsed),
            cput: Span(elapsed),
            mem_kb: 1000,
            ncpus: 2,
            vmem_kb: 0,
        },
        core_ms: 2 * elapsed,
        factor: 1.0,
        made_way: None,
    }
}

fn report(entries: &[AccountingEntry]) -> Report {
    let mut builder = ReportBuilder::new(None, period());
    entries.iter().for_each(|entry| builder.add_entry(entry));
    builder.finish(Capacity::of(&[example::node("n1", "n1")]))
}

/// The mean of a value, in units of the period: 1 for a value of 1 during the whole period.
fn minutes(report: &Report, value: impl Fn(&Bin) -> f64) -> f64 {
    (report.mean(value) * 120.0 * 1000.0).round() / 1000.0
}

#[test]
fn a_small_example_has_the_computed_figures() {
    let report = report(&[
        // Waited 10 minutes, ran 60.
        entry(1, "ann", [0, 10, 70], Some((0, false))),
        // Waited 5 minutes, ran 10.
        entry(2, "bob", [20, 25, 35], Some((3, false))),
        // Ran 5 minutes, and was deleted.
        entry(3, "bob", [30, 30, 35], Some((271, true))),
    ]);
    assert_eq!(minutes(&report, |bin| bin.allocated), 150.0);
    assert_eq!(minutes(&report, |bin| bin.busy), 75.0);
    assert_eq!(minutes(&report, |bin| bin.waiting), 15.0);
    assert_eq!(report.peak(|bin| bin.allocated), 6.0);
    assert_eq!(report.fraction(1.0), Some(0.25));
    let total = &report.total;
    assert_eq!((total.sums.jobs, total.sums.failed), (3, 2));
    assert_eq!((total.done, total.failed, total.deleted), (1, 1, 1));
    assert_eq!(total.efficiencies(), [Some(0.5), Some(0.25), Some(0.5)]);
    assert_eq!(total.waits.percentile(50), Some(Span::seconds(300)));
    assert_eq!(total.waits.percentile(90), Some(Span::seconds(600)));
    assert_eq!(report.users[0].0, "ann");
    assert_eq!(report.share(&report.users[0].1), Some(0.8));
    assert_eq!(report.share(&report.queues[0].1), Some(1.0));
    let expected = [("deleted", 1), ("exit 3", 1)].map(|(text, jobs)| (text.to_string(), jobs));
    assert_eq!(report.exits, expected);
    let counts = NameCounts { jobs: 2, failed: 1 };
    assert_eq!(report.names, [("bob.sh".to_string(), counts)]);
    assert_eq!(report.gantt.runs.len(), 3);
    assert_eq!(report.gantt.runs[0].processors, 2);
    assert_eq!(report.efficiency[1].bins[2], 3);
    assert!(!report.is_empty());
}

#[test]
fn attempts_across_the_borders_of_the_period_are_clipped() {
    let report = report(&[
        // Ended in the period: its whole usage counts at its end, 30 of 90 minutes in the chart.
        entry(1, "ann", [-100, -60, 30], Some((0, false))),
        // Ended after the period: in the chart only.
        entry(2, "bob", [100, 110, 500], Some((1, false))),
        // Lasts longer than the period.
        entry(3, "eve", [-9, -5, 130], Some((1, false))),
    ]);
    assert_eq!(minutes(&report, |bin| bin.allocated), 320.0);
    assert_eq!(minutes(&report, |bin| bin.waiting), 10.0);
    assert_eq!(report.total.sums.jobs, 1);
    assert_eq!(report.total.sums.core_ms, 180 * MINUTE);
    let inside = |name: &str| {
        let group = report.users.iter().find(|(user, _)| user == name);
        group.map(|(_, group)| group.core_ms_in_period.round() as i64 / MINUTE)
    };
    assert_eq!(
        ["ann", "bob", "eve"].map(inside),
        [Some(60), Some(20), Some(240)]
    );
    assert!(report.exits.is_empty() && report.names.is_empty());
    let ends: Vec<i64> = report.gantt.runs.iter().map(|run| run.end).collect();
    assert!(ends.iter().all(|end| *end <= period().to));
}

#[test]
fn a_requeued_job_waits_between_its_attempts() {
    let first = entry(1, "ann", [0, 10, 20], None);
    let second = AccountingEntry {
        attempt: 2,
        ..entry(1, "ann", [0, 50, 60], Some((0, false)))
    };
    let report = report(&[first, second]);
    assert_eq!(minutes(&report, |bin| bin.waiting), 40.0);
    assert_eq!(report.total.requeued, 1);
    assert_eq!((report.total.sums.jobs, report.total.sums.attempts), (1, 2));
    assert_eq!(report.gantt.runs[0].outcome, Outcome::Requeued);
}

#[test]
fn a_job_that_never_started_waited_until_its_end() {
    let mut never = entry(1, "ann", [10, 30, 30], Some((271, true)));
    never.attempt = 0;
    never.stamps.began = None;
    let report = report(&[never]);
    assert_eq!(minutes(&report, |bin| bin.waiting), 20.0);
    assert_eq!(minutes(&report, |bin| bin.allocated), 0.0);
    assert_eq!((report.total.deleted, report.total.sums.attempts), (1, 0));
    assert!(report.gantt.runs.is_empty());
}

#[test]
fn current_jobs_count_until_now() {
    let (server, now) = (example::server(), example::SUBMITTED.0 + 300_000);
    let period = Period {
        from: example::SUBMITTED.0 - 300_000,
        to: now,
    };
    let mut builder = ReportBuilder::new(None, period);
    let waits = example::queued(1, "a", "");
    let runs = example::running(example::queued(2, "b", ""), vec![example::share(3, None)]);
    builder.add_job(&waits, &server, now);
    builder.add_job(&runs, &server, now);
    builder.add_job(&example::array(waits, "1-10"), &server, now);
    let report = builder.finish(Capacity::default());
    assert_eq!((report.running_now, report.waiting_now), (1, 11));
    assert_eq!(report.mean(|bin| bin.allocated), 1.5);
    assert_eq!(report.mean(|bin| bin.waiting), 5.5);
    assert_eq!(report.users[0].0, "alice");
    assert_eq!(report.gantt.runs[0].outcome, Outcome::Running);
    assert_eq!(report.fraction(1.0), None);
}

#[test]
fn a_report_without_jobs_is_empty() {
    assert!(report(&[]).is_empty());
    let later = entry(1, "ann", [200, 210, 220], Some((0, false)));
    assert!(report(&[later]).is_empty());
}
