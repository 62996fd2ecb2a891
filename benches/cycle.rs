//! The duration of a scheduling cycle, and how it grows with jobs and nodes.
//!
//! `cargo bench --bench cycle`. The cluster resembles a real one: twenty kinds of nodes, 70 % busy;
//! a few frequent and many rare requests; nearly all jobs differ in walltime or owner, and owners
//! are distributed by Zipf's law. A full cycle has an empty cache. Cycles without changes, or with
//! one freed slot, use the cache of the previous one, as in schedd; `not due` is only the check
//! whether a cycle is due. Each figure is the best of several runs, in milliseconds and as a ratio
//! to the calibration (a walk through a map of a million entries), which measures the machine's
//! current speed.
//!
//! `cargo bench --bench cycle -- starvation` measures only the cost of starvation.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

// The fixture is not part of the library; its paths begin at the root of this crate.
#[allow(dead_code, reason = "the benchmarks use a part of it")]
#[path = "../src/sched/fixture.rs"]
mod fixture;

use fixture::{TestCluster, cluster};
use lanai::model::account::charge::{Charge, UsageRules};
use lanai::model::account::member::Member;
use lanai::model::account::{Account, Shares};
use lanai::model::job::NodeShare;
use lanai::model::job::held::Held;
use lanai::model::job_id::JobId;
use lanai::model::policy::{Factor, Factors, Precedence, Preset, PriorityOrder};
use lanai::model::request::placement_policy::NodeAccess;
use lanai::model::resource::ResourceValue;
use lanai::model::time::{Span, Time};
use lanai::sched::cycle;
use lanai::sched::placement::cycle_cache::CycleCache;
use lanai::sched::share_tree::usage::UsageTable;
use lanai::sched::view::change::Change;
use lanai::sched::view::holdings::RunningOwner;
use lanai::sched::view::preemption_candidate::PreemptionCandidate;
use lanai::sched::view::snapshot::JobOwner;
use lanai::{model, sched};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const RUNS: usize = 5;
const SHAPES: usize = 5_000;
const USERS: u64 = 500;

/// Numbers of jobs and nodes of each measurement.
const SCALES: [(u64, usize); 5] = [
    (100_000, 10_000),
    (10_000, 10_000),
    (1_000_000, 10_000),
    (100_000, 1_000),
    (100_000, 100_000),
];

fn main() {
    // Cargo passes this flag for benchmarks, not for tests.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let unit = milliseconds(best(calibrate));
    println!("calibration: {unit:.1} ms; {SHAPES} requests, {USERS} users");
    if std::env::args().any(|argument| argument == "starvation") {
        return measure_starvation(unit);
    }
    println!(
        "{:>9} {:>8} {:>8} | {:>20} {:>20} {:>20} {:>20} {:>20}",
        "jobs", "nodes", "starts", "full", "not due", "unchanged", "one slot free", "no jobs"
    );
    let measured: Vec<Figures> = SCALES
        .iter()
        .map(|&(jobs, nodes)| measure(jobs, nodes, unit))
        .collect();
    println!("growth (cost of ten times as many, as a factor):");
    let growth = |name: &str, small: usize, large: usize| {
        let times = |of: fn(&Figures) -> f64| of(&measured[large]) / of(&measured[small]);
        println!(
            "{name:>9} x10 | full {:.1}, unchanged {:.1}, one slot free {:.1}",
            times(|f| f.full),
            times(|f| f.same),
            times(|f| f.slot)
        );
    };
    growth("jobs", 1, 0);
    growth("jobs", 0, 2);
    growth("nodes", 3, 0);
    growth("nodes", 0, 4);
    measure_order(unit);
    measure_starvation(unit);
}

/// Measures preemption for a starving account: 1,000 arrays with ten subjobs each fill 1,000 nodes,
/// and one more array starves. Measures a cycle with a preemption, a cycle in which all running
/// jobs are exempt from preemption, and the check whether a cycle is due without any change (no).
fn measure_starvation(unit: f64) {
    let mut fixture = crowded(1_000);
    let waiting = fixture.job(0, "select=1:ncpus=1 walltime=60");
    fixture.state.enqueue(&waiting);
    fixture.state.prioritise(&fixture.policy, fixture.now);
    let plan = cycle::run(&fixture.state, &fixture.policy, fixture.now);
    fixture.state.take_over(&plan);
    fixture.now = Time(31_000);
    let tick = |mut fixture: TestCluster| {
        fixture.state.prioritise(&fixture.policy, fixture.now);
        cycle::run_again(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            &mut CycleCache::default(),
        )
        .preempts
        .len()
    };
    let preempted = tick(fixture.clone());
    let with_preemption = milliseconds(best_with(|| fixture.clone(), tick));
    fixture.policy.preemption.exempt = Span::seconds(3600);
    let all_exempt = milliseconds(best_with(|| fixture.clone(), tick));
    let mut cache = CycleCache::default();
    fixture.state.prioritise(&fixture.policy, fixture.now);
    run_if_due(&fixture, &mut cache);
    let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
    fixture.state.take_over(&plan);
    let due = || {
        usize::from(cycle::is_due(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            &cache,
        ))
    };
    let idle = milliseconds(best(due));
    let shown = |time: f64| format!("{time:.4} ms ({:.5})", time / unit);
    println!(
        "starvation: 10000 allocations of 1000 operations on 1000 nodes, one operation starves"
    );
    println!(
        "{preempted} preempted {}; all exempt {}; unchanged {}, a cycle is {}",
        shown(with_preemption),
        shown(all_exempt),
        shown(idle),
        if due() == 0 { "not due" } else { "due" }
    );
}

/// A full cluster: this many arrays with ten one-processor subjobs each, on as many nodes of ten
/// processors.
fn crowded(arrays: u64) -> TestCluster {
    let mut fixture = cluster(&format!("{arrays} x ncpus=10"));
    fixture.policy = Preset::Ytsaurus.policy();
    for number in 1..=arrays {
        let job = fixture.job(number, "select=1:ncpus=1 walltime=86400 array=1-10");
        for element in 1..=10 {
            // Spreads the subjobs of each array over ten nodes.
            let node = format!("n{}", (number * 10 + u64::from(element) * 37) % arrays + 1);
            let id = JobId::element(number, element);
            fixture.state.occupy(
                id,
                &[share(&node)],
                JobOwner::of(&job, NodeAccess::Shared),
                Time(86_400_000),
            );
            fixture.state.belongs_to(id, &RunningOwner::of(&job));
            let (started, rerunnable) = (Time(-i64::from(element)), true);
            fixture.state.set_candidate(
                id,
                PreemptionCandidate {
                    started,
                    rerunnable,
                    processors: 1,
                    ..PreemptionCandidate::default()
                },
            );
        }
    }
    fixture
}

fn share(node: &str) -> NodeShare {
    NodeShare {
        node: node.into(),
        host: node.into(),
        taken: vec![("ncpus".into(), ResourceValue::Long(1))],
        cpus: vec![],
        gpus: vec![],
        mpiprocs: 1,
        pooled: vec![],
        ranks: vec![],
    }
}

/// Measures the ordering of jobs: 100,000 jobs of 500 users in 50 accounts, all with usage, under
/// the weighted sum of all factors.
fn measure_order(unit: f64) {
    let mut fixture = busy_cluster(10_000);
    fixture.policy.precedence = Precedence {
        order: PriorityOrder::Multifactor,
        weights: Factors::HYBRID.with(Factor::Slowdown, 1000.0),
        ..Precedence::default()
    };
    fixture.policy.fair_share.accounts = accounts();
    fixture
        .state
        .make(&Change::Usage(Cow::Owned(used_by_all())));
    enqueue(&mut fixture, 100_000);
    let (policy, mut now) = (fixture.policy.clone(), Time(0));
    let mut rate = |fixture: &mut TestCluster| {
        now = now + Span::seconds(60);
        fixture.state.prioritise(&policy, now);
        usize::from(fixture.state.is_idle())
    };
    rate(&mut fixture);
    let all = milliseconds(best(|| rate(&mut fixture)));
    fixture.policy.precedence.update_period = Span::seconds(1_000_000);
    saturate(&mut fixture);
    let mut cache = CycleCache::default();
    fixture.state.prioritise(&fixture.policy, fixture.now);
    run_if_due(&fixture, &mut cache);
    let idle = milliseconds(best(|| run_if_due(&fixture, &mut cache)));
    fixture.state.vacate(JobId::job(FIRST_RUNNING + 1));
    let slot = milliseconds(best_with(
        || cache.clone(),
        |mut cache| run_if_due(&fixture, &mut cache),
    ));
    let shown = |time: f64| format!("{time:.1} ms ({:.3})", time / unit);
    println!("priority: 100000 jobs, 500 users, 50 accounts, all factors");
    println!(
        "all jobs rated again {}; a cycle: not due {}, one slot free {}",
        shown(all),
        shown(idle),
        shown(slot)
    );
}

/// Fifty accounts in five groups, with ten users each.
fn accounts() -> Vec<Account> {
    let group = |group: u64| Account {
        name: format!("g{group}"),
        shares: Shares::Of(1.0 + group as f64),
        ..Account::default()
    };
    let users = |account: u64| {
        (0..10)
            .map(move |user| (format!("user{}", account * 10 + user), Shares::default()))
            .collect()
    };
    let account = |account: u64| Account {
        name: format!("a{account}"),
        parent: Some(format!("g{}", account % 5)),
        users: Some(users(account)),
        ..Account::default()
    };
    (0..5).map(group).chain((0..50).map(account)).collect()
}

/// A charge of an hour for each user; the first users' charges are largest.
fn used_by_all() -> UsageTable {
    let charge = |user: u64| Charge {
        member: Member::new(&format!("a{}", user / 10), &format!("user{user}")),
        from: Time(0),
        to: Some(Time(3_600_000)),
        held: Held {
            cores: (USERS / (1 + user)) as u32 + 1,
            nodes: 1,
            ..Held::default()
        },
        amounts: Default::default(),
        factor: 1.0,
    };
    let charges: Vec<Charge> = (0..USERS).map(charge).collect();
    UsageTable::of(UsageRules::default(), &charges)
}

/// Durations in milliseconds.
struct Figures {
    full: f64,
    same: f64,
    slot: f64,
}

fn measure(jobs: u64, nodes: usize, unit: f64) -> Figures {
    let mut fixture = busy_cluster(nodes);
    fixture.state.prioritise(&fixture.policy, fixture.now);
    let empty = milliseconds(best(|| run(&fixture)));
    enqueue(&mut fixture, jobs);
    fixture.state.prioritise(&fixture.policy, fixture.now);
    let full = milliseconds(best(|| run(&fixture)));
    let starts = cycle::run(&fixture.state, &fixture.policy, fixture.now)
        .starts
        .len();
    saturate(&mut fixture);
    let mut cache = CycleCache::default();
    run_if_due(&fixture, &mut cache);
    let idle = milliseconds(best(|| run_if_due(&fixture, &mut cache)));
    let same = milliseconds(best(|| run_with_cache(&fixture, &mut cache)));
    fixture.state.vacate(JobId::job(FIRST_RUNNING + 1));
    let slot = milliseconds(best_with(
        || cache.clone(),
        |mut cache| run_if_due(&fixture, &mut cache),
    ));
    let shown = |time: f64| format!("{time:.2} ms ({:.3})", time / unit);
    println!(
        "{jobs:>9} {nodes:>8} {starts:>8} | {:>20} {:>20} {:>20} {:>20} {:>20}",
        shown(full),
        shown(idle),
        shown(same),
        shown(slot),
        shown(empty)
    );
    Figures { full, same, slot }
}

/// A cycle with the cache of the previous one, if one is due, as in schedd.
fn run_if_due(fixture: &TestCluster, cache: &mut CycleCache) -> usize {
    if cycle::is_due(&fixture.state, &fixture.policy, fixture.now, cache) {
        run_with_cache(fixture, cache)
    } else {
        0
    }
}

/// A cycle with the cache of the previous one, due or not.
fn run_with_cache(fixture: &TestCluster, cache: &mut CycleCache) -> usize {
    cycle::run_again(&fixture.state, &fixture.policy, fixture.now, cache)
        .verdicts
        .len()
}

/// A cycle with an empty cache.
fn run(fixture: &TestCluster) -> usize {
    cycle::run(&fixture.state, &fixture.policy, fixture.now)
        .verdicts
        .len()
}

/// Applies plans until no more job starts.
fn saturate(fixture: &mut TestCluster) {
    loop {
        let plan = cycle::run(&fixture.state, &fixture.policy, fixture.now);
        if plan.starts.is_empty() {
            return;
        }
        fixture.apply(&plan);
    }
}

const FIRST_RUNNING: u64 = 10_000_000;

/// Nodes of 20 kinds, 70 % of them full or nearly full. The running jobs' ends are spread over a
/// day.
fn busy_cluster(nodes: usize) -> TestCluster {
    let mut dice = Dice(1);
    let kinds: Vec<(u64, u64)> = [16, 32, 64, 128]
        .into_iter()
        .flat_map(|ncpus| [2, 4, 8, 12, 16].map(|per| (ncpus, ncpus * per)))
        .collect();
    let each = nodes / kinds.len();
    let text: Vec<String> = kinds
        .iter()
        .map(|(ncpus, mem)| format!("{each} x ncpus={ncpus}:mem={mem}gb:ngpus={}", ncpus / 32))
        .collect();
    let mut fixture = cluster(&text.join(", "));
    let mut id = FIRST_RUNNING;
    for node in 0..nodes {
        let (mut ncpus, mem) = kinds[node / each];
        while ncpus > 0 && node % 10 < 7 {
            let (take, until) = (ncpus.min(dice.roll(32) + 1), dice.roll(86_400) as i64);
            let share = mem * take / kinds[node / each].0;
            id += 1;
            fixture = fixture.running(
                id,
                &format!("select=1:ncpus={take}:mem={share}gb"),
                &format!("n{}", node + 1),
                until,
            );
            ncpus -= if dice.roll(8) == 0 { ncpus } else { take };
        }
    }
    fixture
}

/// Queues jobs of many shapes: a few shapes have most of the jobs, and so have a few users.
fn enqueue(fixture: &mut TestCluster, jobs: u64) {
    let mut dice = Dice(2);
    let shapes = shapes(&mut dice);
    for id in 1..=jobs {
        let skewed = dice.roll(shapes.len() as u64) * dice.roll(1000) / 1000;
        let walltime = 60 + dice.roll(1440) * 60 + dice.roll(60);
        let mut job = fixture.job(
            id,
            &format!("{} walltime={walltime}", shapes[skewed as usize]),
        );
        job.owner.user = format!("user{}", dice.zipf(USERS));
        fixture.state.enqueue(&job);
    }
}

fn shapes(dice: &mut Dice) -> Vec<String> {
    let mut distinct = BTreeSet::new();
    while distinct.len() < SHAPES {
        let (count, ncpus, mem) = (
            1 + dice.roll(4) * dice.roll(3),
            1 + dice.roll(64),
            1 + dice.roll(128),
        );
        let place =
            ["free", "scatter", "pack", "scatter:excl"][dice.roll(30).saturating_sub(26) as usize];
        distinct.insert(format!(
            "select={count}:ncpus={ncpus}:mem={mem}gb place={place}"
        ));
    }
    let mut shapes: Vec<String> = distinct.into_iter().collect();
    // Shuffled: in sorted order the frequent shapes would be the small ones.
    for place in (1..shapes.len()).rev() {
        shapes.swap(place, dice.roll(place as u64 + 1) as usize);
    }
    shapes
}

/// Pseudo-random numbers, the same in every run (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// Zipf's law, approximated by a logarithm: 1 is twice as frequent as 2, three times as
    /// frequent as 3.
    fn zipf(&mut self, most: u64) -> u64 {
        let exponent = self.roll(1 << 20) as f64 / (1 << 20) as f64;
        (most as f64).powf(exponent) as u64
    }
}

fn calibrate() -> usize {
    let map: BTreeMap<u64, u64> = (0..1_000_000).map(|key| (key, key)).collect();
    map.values().sum::<u64>() as usize
}

fn best(mut work: impl FnMut() -> usize) -> Duration {
    best_with(|| (), |()| work())
}

/// The best time of work that needs a new input for each run.
fn best_with<T>(mut make_input: impl FnMut() -> T, mut work: impl FnMut(T) -> usize) -> Duration {
    let timed = |_| {
        let input = make_input();
        let start = Instant::now();
        std::hint::black_box(work(input));
        start.elapsed()
    };
    (0..RUNS).map(timed).min().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
