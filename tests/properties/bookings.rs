//! Bookings pinned to nodes are consistent: if all jobs use their full walltime, every booking has
//! its resources at its time and place, whatever jobs are backfilled.

use crate::fixture::TestCluster;
use crate::properties::cycle::{
    GeneratedJob, backfill_policy, enqueue, generated_job, nodes, simulate, snapshot,
};
use crate::support::cases;
use lanai::model::job_id::JobId;
use lanai::model::resource::ResourceValue;
use lanai::sched::view::plan::Plan;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A job on its nodes from start to end.
#[derive(Clone, Debug)]
struct Stay {
    job: JobId,
    from: i64,
    until: i64,
    /// Node, processors and bytes of each chunk.
    chunks: Vec<(String, i64, i64)>,
    is_alone: bool,
    has_host: bool,
}

/// Generated nodes: processors, bytes, host.
type Capacity = BTreeMap<String, (i64, i64, String)>;

const GB: i64 = 1 << 30;

fn capacity(nodes: &[(u32, u32)], composite: bool) -> Capacity {
    let own = nodes
        .iter()
        .map(|&(ncpus, mem)| (i64::from(ncpus), i64::from(mem) * GB));
    let more = if composite {
        vec![(3, 2 * GB); 2]
    } else {
        vec![]
    };
    let all = own.chain(more).zip(1..);
    let host = |place: usize| {
        if place > nodes.len() {
            "h".to_string()
        } else {
            format!("n{place}")
        }
    };
    all.map(|((ncpus, mem), place)| (format!("n{place}"), (ncpus, mem, host(place))))
        .collect()
}

fn stay(
    fixture: &TestCluster,
    jobs: &[GeneratedJob],
    job: JobId,
    nodes: &[String],
    from: i64,
) -> Stay {
    let generated = &jobs[job.number as usize - 1];
    let request = fixture.job(1, &generated.request).spec.request.clone();
    let amount = |value: Option<&ResourceValue>| value.and_then(ResourceValue::amount).unwrap_or(0);
    let chunks = request
        .select
        .chunks
        .iter()
        .flat_map(|chunk| (0..chunk.count).map(move |_| chunk));
    let amounts = chunks.map(|chunk| (amount(chunk.get("ncpus")), amount(chunk.get("mem"))));
    let chunks: Vec<_> = nodes
        .iter()
        .zip(amounts)
        .map(|(node, (ncpus, mem))| (node.clone(), ncpus, mem))
        .collect();
    assert_eq!(chunks.len(), nodes.len());
    Stay {
        job,
        from,
        until: from + generated.walltime * 1000,
        chunks,
        is_alone: generated.request.contains("excl"),
        has_host: generated.request.contains("exclhost"),
    }
}

/// Describes the first conflict; None if there is none.
fn conflict(capacity: &Capacity, stays: &[Stay]) -> Option<String> {
    stays.iter().find_map(|newcomer| {
        let present: Vec<&Stay> = stays
            .iter()
            .filter(|stay| stay.from <= newcomer.from && newcomer.from < stay.until)
            .collect();
        let full = capacity.iter().find(|(name, (ncpus, mem, _))| {
            let here = || {
                present
                    .iter()
                    .flat_map(|stay| &stay.chunks)
                    .filter(|(node, ..)| node == *name)
            };
            here().map(|chunk| chunk.1).sum::<i64>() > *ncpus
                || here().map(|chunk| chunk.2).sum::<i64>() > *mem
        });
        let full = full
            .map(|(name, _)| format!("{name} is overcommitted at {}: {present:?}", newcomer.from));
        full.or_else(|| {
            let disturbed =
                |stay: &&&Stay| present.iter().any(|other| disturbs(capacity, stay, other));
            present
                .iter()
                .find(disturbed)
                .map(|stay| format!("{} shares its exclusive nodes: {present:?}", stay.job))
        })
    })
}

/// True if a job with exclusive nodes or hosts shares one with another job.
fn disturbs(capacity: &Capacity, stay: &Stay, other: &Stay) -> bool {
    let host = |node: &String| &capacity[node].2;
    let meets = |mine: &String, theirs: &String| {
        mine == theirs || stay.has_host && host(mine) == host(theirs)
    };
    let both = stay
        .chunks
        .iter()
        .flat_map(|mine| other.chunks.iter().map(move |theirs| (&mine.0, &theirs.0)));
    stay.is_alone
        && stay.job != other.job
        && both.into_iter().any(|(mine, theirs)| meets(mine, theirs))
}

proptest! {
    #![proptest_config(cases(400))]

    /// I8, G4: every booking is free of conflicts with running jobs and other bookings.
    #[test]
    fn every_planned_start_has_its_resources_at_its_time(
        nodes in nodes(), composite: bool, jobs in prop::collection::vec(generated_job(), 1..14), backfill in backfill_policy(false), early: bool,
    ) {
        let mut fixture = enqueue(snapshot(&nodes, composite), &jobs, 0..jobs.len());
        // Forces bookings to be pinned to nodes, even where counting would suffice.
        fixture = fixture.queued(1_000_000, "select=1:ncpus=1 place=excl queue=stopped");
        fixture.policy.backfill = backfill;
        let (capacity, original) = (capacity(&nodes, composite), fixture.clone());
        let percent = |job: &GeneratedJob| if early { job.percent } else { 100 };
        let (mut running, mut conflicts) = (Vec::<Stay>::new(), Vec::new());
        simulate(fixture, &jobs, percent, |plan: &Plan| {
            let actual_end = |stay: &Stay| {
                let job = &jobs[stay.job.number as usize - 1];
                stay.from + job.walltime * 10 * percent(job)
            };
            running.retain(|stay| actual_end(stay) > plan.now.0);
            let of_share = |share: &lanai::model::job::NodeShare| share.node.clone();
            running.extend(plan.starts.iter().map(|start| {
                stay(&original, &jobs, start.job, &start.shares.iter().map(of_share).collect::<Vec<_>>(), plan.now.0)
            }));
            let promised = plan.bookings.iter().map(|b| stay(&original, &jobs, b.job, &b.nodes, b.at.0));
            let all: Vec<Stay> = running.iter().cloned().chain(promised).collect();
            conflicts.extend(conflict(&capacity, &all));
        });
        prop_assert!(conflicts.is_empty(), "{}", conflicts[0]);
    }
}
