//! Random dependency graphs end as a simple evaluator predicts.

use super::{await_all_ended, head, quick};
use crate::support::sandbox::Sandbox;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

/// Suffixes of `after`, `afterok`, `afternotok` and `afterany`.
const KINDS: [&str; 4] = ["", "ok", "notok", "any"];

/// A generated job.
#[derive(Clone, Debug)]
struct GeneratedJob {
    status: u32,
    /// True if the job is deleted before any job starts.
    deleted: bool,
    /// Dependency types and parents. Parents are earlier positions in the graph.
    conditions: Vec<(usize, usize)>,
    /// Jobs are submitted in ascending order of this number.
    submit_key: u32,
}

/// Result of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Ran(u32),
    NeverRan,
}

fn generated_job() -> impl Strategy<Value = GeneratedJob> {
    let condition = (0..KINDS.len(), any::<prop::sample::Index>());
    let conditions = prop::collection::vec(condition, 0..4);
    let status = prop_oneof![2 => Just(0), 1 => Just(3)];
    (status, prop::bool::weighted(0.15), conditions, any::<u32>()).prop_map(
        |(status, deleted, conditions, submit_key)| {
            let conditions = conditions
                .into_iter()
                .map(|(kind, index)| (kind, index.index(1 << 20)))
                .collect();
            GeneratedJob {
                status,
                deleted,
                conditions,
                submit_key,
            }
        },
    )
}

fn graph() -> impl Strategy<Value = Vec<GeneratedJob>> {
    prop::collection::vec(generated_job(), 1..40).prop_map(|mut jobs| {
        for (index, job) in jobs.iter_mut().enumerate() {
            job.conditions.retain(|_| index > 0);
            job.conditions
                .iter_mut()
                .for_each(|condition| condition.1 %= index.max(1));
            job.conditions.sort_unstable();
            job.conditions.dedup();
        }
        jobs
    })
}

/// Predicted results: the complete rule, without a scheduler.
fn expected_outcomes(jobs: &[GeneratedJob]) -> Vec<Outcome> {
    let mut expected_outcomes: Vec<Outcome> = Vec::new();
    for job in jobs {
        let met = |&(kind, other): &(usize, usize)| match (KINDS[kind], expected_outcomes[other]) {
            ("", outcome) => outcome != Outcome::NeverRan,
            ("ok", outcome) => outcome == Outcome::Ran(0),
            ("notok", outcome) => outcome != Outcome::Ran(0),
            _ => true,
        };
        let runs = !job.deleted && job.conditions.iter().all(met);
        expected_outcomes.push(if runs {
            Outcome::Ran(job.status)
        } else {
            Outcome::NeverRan
        });
    }
    expected_outcomes
}

/// Submits the jobs in the order of their keys. If a parent is submitted first, its dependent names
/// it with `after*`; otherwise the parent names the dependent with `before*`. No job starts before
/// the job `blocker` is released.
fn submit(sandbox: &Sandbox, jobs: &[GeneratedJob], blocker: &str) -> Vec<String> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&index| (jobs[index].submit_key, index));
    let position: Vec<usize> = (0..jobs.len())
        .map(|job| order.iter().position(|&index| index == job).unwrap())
        .collect();
    let mut ids = vec![String::new(); jobs.len()];
    for &index in &order {
        let job = &jobs[index];
        let later = job
            .conditions
            .iter()
            .filter(|condition| position[condition.1] > position[index])
            .count();
        let mut clauses = vec![format!("afterany:{blocker}")];
        clauses.extend((later > 0).then(|| format!("on:{later}")));
        let earlier = job
            .conditions
            .iter()
            .filter(|condition| position[condition.1] < position[index]);
        clauses
            .extend(earlier.map(|&(kind, other)| format!("after{}:{}", KINDS[kind], ids[other])));
        for (waiting, other) in jobs
            .iter()
            .enumerate()
            .filter(|&(waiting, _)| position[waiting] < position[index])
        {
            let named = other
                .conditions
                .iter()
                .filter(|condition| condition.1 == index);
            clauses
                .extend(named.map(|&(kind, _)| format!("before{}:{}", KINDS[kind], ids[waiting])));
        }
        ids[index] = quick(
            sandbox,
            &["-W", &format!("depend={}", clauses.join(","))],
            job.status,
        );
    }
    ids
}

fn outcome(job: &Value) -> Outcome {
    if job["run_count"].is_null() {
        Outcome::NeverRan
    } else {
        Outcome::Ran(job["Exit_status"].as_u64().unwrap_or(u64::MAX) as u32)
    }
}

#[test]
fn random_graphs_end_as_predicted_even_if_schedd_is_killed() {
    let sandbox = head();
    let mut runner = TestRunner::new(Config {
        cases: 12,
        max_shrink_iters: 30,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&(graph(), any::<bool>()), |(jobs, is_killed)| {
        let blocker = quick(&sandbox, &["-h"], 0);
        let ids = submit(&sandbox, &jobs, &blocker);
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
        sandbox.run("qrls", &[&blocker]).ok();
        if is_killed {
            sandbox.kill("schedd");
            sandbox.run("schedd", &[]).ok();
        }
        let ended = await_all_ended(&sandbox);
        let found: Vec<Outcome> = ids.iter().map(|id| outcome(&ended[id])).collect();
        prop_assert_eq!(found, expected_outcomes(&jobs), "{:?}", ids);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
