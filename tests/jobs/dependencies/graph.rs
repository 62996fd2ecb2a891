//! Random dependency graphs end as a simple evaluator predicts.

use super::{all_over, head, quick};
use crate::support::sandbox::Sandbox;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

/// Suffixes of `after`, `afterok`, `afternotok` and `afterany`.
const KINDS: [&str; 4] = ["", "ok", "notok", "any"];

/// A generated job.
#[derive(Clone, Debug)]
struct Made {
    status: u32,
    /// True if the job is deleted before any job starts.
    deleted: bool,
    /// Dependency types and parents. Parents are earlier positions in the graph.
    conditions: Vec<(usize, usize)>,
    /// Order of submission among the jobs.
    turn: u32,
}

/// Result of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Ran(u32),
    NeverRan,
}

fn made() -> impl Strategy<Value = Made> {
    let condition = (0..KINDS.len(), any::<prop::sample::Index>());
    let conditions = prop::collection::vec(condition, 0..4);
    let status = prop_oneof![2 => Just(0), 1 => Just(3)];
    (status, prop::bool::weighted(0.15), conditions, any::<u32>()).prop_map(
        |(status, deleted, conditions, turn)| {
            let conditions = conditions
                .into_iter()
                .map(|(kind, index)| (kind, index.index(1 << 20)))
                .collect();
            Made {
                status,
                deleted,
                conditions,
                turn,
            }
        },
    )
}

fn graph() -> impl Strategy<Value = Vec<Made>> {
    prop::collection::vec(made(), 1..40).prop_map(|mut jobs| {
        for (place, job) in jobs.iter_mut().enumerate() {
            job.conditions.retain(|_| place > 0);
            job.conditions
                .iter_mut()
                .for_each(|condition| condition.1 %= place.max(1));
            job.conditions.sort_unstable();
            job.conditions.dedup();
        }
        jobs
    })
}

/// Predicted results: the complete rule, without a scheduler.
fn fates(jobs: &[Made]) -> Vec<Fate> {
    let mut fates: Vec<Fate> = Vec::new();
    for job in jobs {
        let met = |&(kind, other): &(usize, usize)| match (KINDS[kind], fates[other]) {
            ("", fate) => fate != Fate::NeverRan,
            ("ok", fate) => fate == Fate::Ran(0),
            ("notok", fate) => fate != Fate::Ran(0),
            _ => true,
        };
        let runs = !job.deleted && job.conditions.iter().all(met);
        fates.push(if runs {
            Fate::Ran(job.status)
        } else {
            Fate::NeverRan
        });
    }
    fates
}

/// Submits the jobs in their order. A job names its earlier submitted parents with `after*`, and
/// its earlier submitted dependents with `before*`. No job starts before the job `gate` is
/// released.
fn submit(sandbox: &Sandbox, jobs: &[Made], gate: &str) -> Vec<String> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&place| (jobs[place].turn, place));
    let turn: Vec<usize> = (0..jobs.len())
        .map(|job| order.iter().position(|&place| place == job).unwrap())
        .collect();
    let mut ids = vec![String::new(); jobs.len()];
    for &place in &order {
        let job = &jobs[place];
        let later = job
            .conditions
            .iter()
            .filter(|condition| turn[condition.1] > turn[place])
            .count();
        let mut clauses = vec![format!("afterany:{gate}")];
        clauses.extend((later > 0).then(|| format!("on:{later}")));
        let earlier = job
            .conditions
            .iter()
            .filter(|condition| turn[condition.1] < turn[place]);
        clauses
            .extend(earlier.map(|&(kind, other)| format!("after{}:{}", KINDS[kind], ids[other])));
        for (waiting, other) in jobs
            .iter()
            .enumerate()
            .filter(|&(waiting, _)| turn[waiting] < turn[place])
        {
            let named = other
                .conditions
                .iter()
                .filter(|condition| condition.1 == place);
            clauses
                .extend(named.map(|&(kind, _)| format!("before{}:{}", KINDS[kind], ids[waiting])));
        }
        ids[place] = quick(
            sandbox,
            &["-W", &format!("depend={}", clauses.join(","))],
            job.status,
        );
    }
    ids
}

fn fate(job: &Value) -> Fate {
    if job["run_count"].is_null() {
        Fate::NeverRan
    } else {
        Fate::Ran(job["Exit_status"].as_u64().unwrap_or(u64::MAX) as u32)
    }
}

#[test]
fn random_graphs_end_by_the_rules_whether_schedd_dies_or_not() {
    let sandbox = head();
    let mut runner = TestRunner::new(Config {
        cases: 12,
        max_shrink_iters: 30,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&(graph(), any::<bool>()), |(jobs, dies)| {
        let gate = quick(&sandbox, &["-h"], 0);
        let ids = submit(&sandbox, &jobs, &gate);
        let deleted: Vec<&str> = ids
            .iter()
            .zip(&jobs)
            .filter(|(_, job)| job.deleted)
            .map(|(id, _)| id.as_str())
            .collect();
        for id in deleted {
            // The job may already have been deleted together with another one.
            sandbox.run("qdel", &[id]);
        }
        sandbox.run("qrls", &[&gate]).ok();
        if dies {
            sandbox.kill("schedd");
            sandbox.run("schedd", &[]).ok();
        }
        let over = all_over(&sandbox);
        let found: Vec<Fate> = ids.iter().map(|id| fate(&over[id])).collect();
        prop_assert_eq!(found, fates(&jobs), "{:?}", ids);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
