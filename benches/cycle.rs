//! How long a scheduling cycle takes: with many jobs to start, with none, and for one freed slot.
//!
//! `cargo bench --bench cycle`. Each figure is the best of several runs; the calibration line
//! (a walk through a map of a million entries) tells how fast the machine was meanwhile.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use lanai::model::job::JobId;
use lanai::sched::cycle;
use lanai::sched::fixture::{Scene, cluster};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const RUNS: usize = 5;

fn main() {
    // Cargo runs benches without this flag only when it means to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("calibration: {:.1} ms", milliseconds(best(calibrate)));
    println!(
        "{:>8} {:>7} {:>7} | {:>8} {:>9} {:>9} {:>9} {:>9}",
        "jobs", "shapes", "nodes", "starts", "full", "idle", "one slot", "empty"
    );
    for (jobs, shapes, nodes) in
        [(10_000, 5_000, 10_000), (100_000, 5_000, 1_000), (100_000, 5_000, 10_000), (1_000_000, 5_000, 10_000)]
    {
        measure(jobs, shapes, nodes);
    }
}

fn measure(jobs: u64, shapes: usize, nodes: usize) {
    let mut scene = busy_cluster(nodes);
    let empty = best(|| run(&scene));
    enqueue(&mut scene, jobs, shapes);
    let full = best(|| run(&scene));
    let starts = cycle::run(&scene.state, &scene.policy, scene.now).starts.len();
    saturate(&mut scene);
    let idle = best(|| run(&scene));
    scene.state.vacate(JobId::job(FIRST_RUNNING + 1));
    let slot = best(|| run(&scene));
    let [full, idle, slot, empty] = [full, idle, slot, empty].map(milliseconds);
    println!(
        "{jobs:>8} {shapes:>7} {nodes:>7} | {starts:>8} {full:>6.1} ms {idle:>6.1} ms {slot:>6.1} ms {empty:>6.1} ms"
    );
}

fn run(scene: &Scene) -> usize {
    cycle::run(&scene.state, &scene.policy, scene.now).verdicts.len()
}

/// Carries out plans until nothing more starts.
fn saturate(scene: &mut Scene) {
    loop {
        let plan = cycle::run(&scene.state, &scene.policy, scene.now);
        if plan.starts.is_empty() {
            return;
        }
        scene.apply(&plan);
    }
}

const FIRST_RUNNING: u64 = 10_000_000;

/// Nodes of 20 kinds, seven of ten full or nearly so, with ends spread over a day.
fn busy_cluster(nodes: usize) -> Scene {
    let mut dice = Dice(1);
    let kinds: Vec<(u64, u64)> =
        [16, 32, 64, 128].into_iter().flat_map(|ncpus| [2, 4, 8, 12, 16].map(|per| (ncpus, ncpus * per))).collect();
    let each = nodes / kinds.len();
    let text: Vec<String> =
        kinds.iter().map(|(ncpus, mem)| format!("{each} x ncpus={ncpus}:mem={mem}gb:ngpus={}", ncpus / 32)).collect();
    let mut scene = cluster(&text.join(", "));
    let mut id = FIRST_RUNNING;
    for node in 0..nodes {
        let (mut ncpus, mem) = kinds[node / each];
        while ncpus > 0 && node % 10 < 7 {
            let (take, hours) = (ncpus.min(dice.roll(32) + 1), dice.roll(86_400) as i64);
            let share = mem * take / kinds[node / each].0;
            id += 1;
            scene =
                scene.running(id, &format!("select=1:ncpus={take}:mem={share}gb"), &format!("n{}", node + 1), hours);
            ncpus -= if dice.roll(8) == 0 { ncpus } else { take };
        }
    }
    scene
}

/// Jobs of so many shapes: a few shapes have most of the jobs.
fn enqueue(scene: &mut Scene, jobs: u64, shapes: usize) {
    let mut dice = Dice(2);
    let mut distinct = BTreeSet::new();
    while distinct.len() < shapes {
        let (count, ncpus) = (1 + dice.roll(4) * dice.roll(3), 1 + dice.roll(64));
        let (mem, walltime) = (1 + dice.roll(128), 600 * (1 + dice.roll(144)));
        let place = ["free", "scatter", "pack", "scatter:excl"][dice.roll(30).saturating_sub(26) as usize];
        distinct.insert(format!("select={count}:ncpus={ncpus}:mem={mem}gb place={place} walltime={walltime}"));
    }
    let distinct: Vec<String> = distinct.into_iter().collect();
    for id in 1..=jobs {
        let skewed = dice.roll(shapes as u64) * dice.roll(1000) / 1000;
        let job = scene.job(id, &distinct[skewed as usize]);
        scene.state.enqueue(&job);
    }
}

/// Numbers that look random and are the same in every run (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn calibrate() -> usize {
    let map: BTreeMap<u64, u64> = (0..1_000_000).map(|key| (key, key)).collect();
    map.values().sum::<u64>() as usize
}

fn best(mut work: impl FnMut() -> usize) -> Duration {
    let timed = |_| {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed()
    };
    (0..RUNS).map(timed).min().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
