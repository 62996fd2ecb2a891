//! Properties of the cycle, over clusters and queues made up at random.

use lanai::model::job::JobId;
use lanai::model::time::Time;
use lanai::sched::fixture::{Scene, cluster};
use lanai::sched::plan::Plan;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A job as made up: its request without walltime, its walltime, and how much of that it really
/// runs, in percent.
#[derive(Clone, Debug)]
struct Made {
    request: String,
    walltime: i64,
    percent: i64,
}

fn chunk() -> impl Strategy<Value = String> {
    (1..4u32, 0..6u32, 0..3u32).prop_map(|(count, ncpus, mem)| format!("{count}:ncpus={ncpus}:mem={mem}gb"))
}

fn place() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        5 => Just("free"),
        2 => Just("pack"),
        2 => Just("scatter"),
        1 => Just("vscatter"),
        1 => Just("free:excl"),
        1 => Just("scatter:exclhost"),
    ]
}

fn made() -> impl Strategy<Value = Made> {
    let select = prop::collection::vec(chunk(), 1..3).prop_map(|chunks| chunks.join("+"));
    (select, place(), 1..20i64, 1..=100i64).prop_map(|(select, place, tens, percent)| Made {
        request: format!("select={select} place={place}"),
        walltime: tens * 10,
        percent,
    })
}

fn nodes() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((1..9u32, 1..5u32), 1..5)
}

fn scene(nodes: &[(u32, u32)], composite: bool) -> Scene {
    let text: Vec<String> = nodes.iter().map(|(ncpus, mem)| format!("1 x ncpus={ncpus}:mem={mem}gb")).collect();
    let scene = cluster(&text.join(", "));
    if composite { scene.on_host("h", "2 x ncpus=3:mem=2gb") } else { scene }
}

fn enqueue(scene: Scene, jobs: &[Made], order: impl Iterator<Item = usize>) -> Scene {
    order.fold(scene, |scene, place| {
        let job = &jobs[place];
        scene.queued(place as u64 + 1, &format!("{} walltime={}", job.request, job.walltime))
    })
}

/// Lets time pass until nothing runs: at each end or promised start another cycle. Returns when
/// each job started; `seen` gets each plan.
fn simulate(
    mut scene: Scene,
    jobs: &[Made],
    percent: impl Fn(&Made) -> i64,
    mut seen: impl FnMut(&Plan),
) -> Vec<Option<Time>> {
    let mut started = vec![None; jobs.len()];
    let mut ends: BTreeMap<(Time, JobId), ()> = BTreeMap::new();
    loop {
        let plan = scene.plan();
        seen(&plan);
        scene.apply(&plan);
        for start in &plan.starts {
            let job = &jobs[start.job.number as usize - 1];
            started[start.job.number as usize - 1] = Some(scene.now);
            ends.insert((Time(scene.now.0 + job.walltime * 10 * percent(job)), start.job), ());
        }
        let Some(((end, _), ())) = ends.first_key_value() else { return started };
        scene.now = *end;
        while let Some(entry) = ends.first_entry().filter(|entry| entry.key().0 <= scene.now) {
            scene.state.vacate(entry.remove_entry().0.1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // `Scene::plan` audits every plan: no node over-committed, nobody beside an exclusive job.

    #[test]
    fn no_filler_delays_a_booked_start(nodes in nodes(), composite: bool, jobs in prop::collection::vec(made(), 1..14), early: bool) {
        let scene = enqueue(scene(&nodes, composite), &jobs, 0..jobs.len());
        let mut promised: BTreeMap<JobId, Time> = BTreeMap::new();
        let percent = |job: &Made| if early { job.percent } else { 100 };
        let mut late = Vec::new();
        let started = simulate(scene, &jobs, percent, |plan| {
            for booking in &plan.bookings {
                let before = promised.entry(booking.job).or_insert(booking.at);
                if booking.at > *before {
                    late.push(booking.clone());
                }
                *before = booking.at.min(*before);
            }
        });
        prop_assert!(late.is_empty(), "put off: {late:?}");
        for (job, at) in promised {
            let start = started[job.number as usize - 1];
            prop_assert!(start.is_some_and(|start| start <= at), "{job} was promised {at:?}, started {start:?}");
        }
    }

    #[test]
    fn every_job_that_can_run_does(nodes in nodes(), composite: bool, jobs in prop::collection::vec(made(), 1..14)) {
        let scene = enqueue(scene(&nodes, composite), &jobs, 0..jobs.len());
        let started = simulate(scene.clone(), &jobs, |job| job.percent, |_| ());
        for (place, job) in jobs.iter().enumerate() {
            let alone = enqueue(self::scene(&nodes, composite), &jobs, place..place + 1);
            prop_assert_eq!(started[place].is_some(), !alone.starts().is_empty(), "{:?}", job);
        }
    }

    #[test]
    fn a_second_cycle_decides_nothing(nodes in nodes(), composite: bool, jobs in prop::collection::vec(made(), 1..20), strictly: bool) {
        let mut scene = enqueue(scene(&nodes, composite), &jobs, 0..jobs.len());
        if strictly {
            scene = scene.strictly();
        }
        let plan = scene.plan();
        scene.apply(&plan);
        let second = scene.plan();
        prop_assert!(second.starts.is_empty(), "first\n{plan}second\n{second}");
        // The nodes of a promise are a forecast, its job and time are the promise.
        let promises = |plan: &Plan| plan.bookings.iter().map(|b| (b.job, b.at)).collect::<Vec<_>>();
        prop_assert_eq!(promises(&plan), promises(&second));
    }

    #[test]
    fn the_order_of_arrival_at_the_state_does_not_matter(nodes in nodes(), jobs in prop::collection::vec(made(), 1..20)) {
        let forwards = enqueue(scene(&nodes, true), &jobs, 0..jobs.len()).plan();
        let backwards = enqueue(scene(&nodes, true), &jobs, (0..jobs.len()).rev()).plan();
        prop_assert_eq!(forwards.to_string(), backwards.to_string());
        prop_assert_eq!(forwards, backwards);
    }

    #[test]
    fn free_chunks_fit_where_a_search_of_all_placements_says_so(nodes in nodes(), chunks in prop::collection::vec((1..4u32, 0..6u32, 0..3u32), 1..4)) {
        let text: Vec<String> = chunks.iter().map(|(count, ncpus, mem)| format!("{count}:ncpus={ncpus}:mem={mem}gb")).collect();
        let starts = scene(&nodes, false).queued(1, &format!("select={}", text.join("+"))).starts();
        let single: Vec<(u32, u32)> = chunks.iter().flat_map(|&(count, ncpus, mem)| (0..count).map(move |_| (ncpus, mem))).collect();
        prop_assert_eq!(!starts.is_empty(), some_placement(&mut nodes.clone(), &single));
    }
}

/// Whether the chunks fit, each tried on each node.
fn some_placement(free: &mut [(u32, u32)], chunks: &[(u32, u32)]) -> bool {
    let Some((&(ncpus, mem), rest)) = chunks.split_first() else { return true };
    (0..free.len()).any(|node| {
        let before = free[node];
        if before.0 < ncpus || before.1 < mem {
            return false;
        }
        free[node] = (before.0 - ncpus, before.1 - mem);
        let fits = some_placement(free, rest);
        free[node] = before;
        fits
    })
}
