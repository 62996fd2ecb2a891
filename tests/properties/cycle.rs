//! Properties of the scheduling cycle, for random clusters and queues.

use crate::fixture::{TestCluster, cluster};
use crate::support::cases;
use lanai::model::job_id::JobId;
use lanai::model::policy::{Backfill, BookingRetention, FillOrder, Filling};
use lanai::model::time::Time;
use lanai::sched::view::plan::Plan;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A generated job: request without walltime, walltime in seconds, and actual run time in percent
/// of it.
#[derive(Clone, Debug)]
pub struct GeneratedJob {
    pub request: String,
    pub walltime: i64,
    pub percent: i64,
}

fn chunk() -> impl Strategy<Value = String> {
    (1..4u32, 0..6u32, 0..3u32)
        .prop_map(|(count, ncpus, mem)| format!("{count}:ncpus={ncpus}:mem={mem}gb"))
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

pub fn generated_job() -> impl Strategy<Value = GeneratedJob> {
    let select = prop::collection::vec(chunk(), 1..3).prop_map(|chunks| chunks.join("+"));
    (select, place(), 1..20i64, 1..=100i64).prop_map(|(select, place, tens, percent)| {
        GeneratedJob {
            request: format!("select={select} place={place}"),
            walltime: tens * 10,
            percent,
        }
    })
}

pub fn nodes() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((1..9u32, 1..5u32), 1..5)
}

pub fn snapshot(nodes: &[(u32, u32)], composite: bool) -> TestCluster {
    let text: Vec<String> = nodes
        .iter()
        .map(|(ncpus, mem)| format!("1 x ncpus={ncpus}:mem={mem}gb"))
        .collect();
    let fixture = cluster(&text.join(", "));
    if composite {
        fixture.on_host("h", "2 x ncpus=3:mem=2gb")
    } else {
        fixture
    }
}

/// Backfill policies of all kinds. With `kept`, bookings are never withdrawn.
pub fn backfill_policy(kept: bool) -> impl Strategy<Value = Backfill> {
    let depth = prop_oneof![3 => 1..=4u32, 1 => Just(Backfill::ALL)];
    let order = prop_oneof![Just(FillOrder::Priority), Just(FillOrder::Shortest)];
    let policy = prop_oneof![3 => Just(Filling::FirstFit), 1 => Just(Filling::BestFit), 1 => Just(Filling::Greedy)];
    (depth, order, policy, any::<bool>()).prop_map(move |(depth, order, policy, highest)| {
        Backfill {
            depth,
            order,
            policy,
            keep: if kept || highest {
                BookingRetention::Highest
            } else {
                BookingRetention::CurrentHighest
            },
            ..Backfill::default()
        }
    })
}

pub fn enqueue(
    fixture: TestCluster,
    jobs: &[GeneratedJob],
    order: impl Iterator<Item = usize>,
) -> TestCluster {
    order.fold(fixture, |fixture, place| {
        let job = &jobs[place];
        fixture.queued(
            place as u64 + 1,
            &format!("{} walltime={}", job.request, job.walltime),
        )
    })
}

/// Simulates until no job runs, with a cycle at each end and each planned start. Returns the start
/// of each job; `on_plan` receives each plan.
pub fn simulate(
    mut fixture: TestCluster,
    jobs: &[GeneratedJob],
    percent: impl Fn(&GeneratedJob) -> i64,
    mut on_plan: impl FnMut(&Plan),
) -> Vec<Option<Time>> {
    let mut started = vec![None; jobs.len()];
    let mut ends: BTreeMap<(Time, JobId), ()> = BTreeMap::new();
    loop {
        let plan = fixture.plan();
        on_plan(&plan);
        fixture.apply(&plan);
        for start in &plan.starts {
            let job = &jobs[start.job.number as usize - 1];
            started[start.job.number as usize - 1] = Some(fixture.now);
            ends.insert(
                (
                    Time(fixture.now.0 + job.walltime * 10 * percent(job)),
                    start.job,
                ),
                (),
            );
        }
        let Some(((end, _), ())) = ends.first_key_value() else {
            return started;
        };
        fixture.now = plan.next.map_or(*end, |next| next.min(*end));
        while let Some(entry) = ends
            .first_entry()
            .filter(|entry| entry.key().0 <= fixture.now)
        {
            fixture.state.vacate(entry.remove_entry().0.1);
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    // `TestCluster::plan` audits every plan: no overcommitted node, no job beside an exclusive one.

    #[test]
    fn backfill_delays_no_planned_start(nodes in nodes(), composite: bool, jobs in prop::collection::vec(generated_job(), 1..14), early: bool) {
        let fixture = enqueue(snapshot(&nodes, composite), &jobs, 0..jobs.len());
        let mut promised: BTreeMap<JobId, Time> = BTreeMap::new();
        let percent = |job: &GeneratedJob| if early { job.percent } else { 100 };
        let mut late = Vec::new();
        let started = simulate(fixture, &jobs, percent, |plan| {
            for booking in &plan.bookings {
                let before = promised.entry(booking.job).or_insert(booking.at);
                if booking.at > *before {
                    late.push(booking.clone());
                }
                *before = booking.at.min(*before);
            }
        });
        prop_assert!(late.is_empty(), "delayed: {late:?}");
        for (job, at) in promised {
            let start = started[job.number as usize - 1];
            prop_assert!(start.is_some_and(|start| start <= at), "{job}: planned start {at:?}, actual start {start:?}");
        }
    }

    #[test]
    fn a_kept_planned_start_never_slips(nodes in nodes(), composite: bool, jobs in prop::collection::vec(generated_job(), 1..14), backfill in backfill_policy(true), early: bool) {
        let mut fixture = enqueue(snapshot(&nodes, composite), &jobs, 0..jobs.len());
        fixture.policy.backfill = backfill;
        let mut promised: BTreeMap<JobId, Time> = BTreeMap::new();
        let mut late = Vec::new();
        let started = simulate(fixture, &jobs, |job| if early { job.percent } else { 100 }, |plan| {
            late.extend(plan.bookings.iter().filter(|booking| booking.cause.is_some()).cloned());
            promised.extend(plan.bookings.iter().map(|booking| (booking.job, booking.at)));
        });
        prop_assert!(late.is_empty(), "delayed: {late:?}");
        for (job, at) in promised {
            let start = started[job.number as usize - 1];
            prop_assert!(start.is_some_and(|start| start <= at), "{job}: planned start {at:?}, actual start {start:?}");
        }
    }

    #[test]
    fn every_job_that_can_run_starts(nodes in nodes(), composite: bool, jobs in prop::collection::vec(generated_job(), 1..14), backfill in backfill_policy(false)) {
        let mut fixture = enqueue(snapshot(&nodes, composite), &jobs, 0..jobs.len());
        fixture.policy.backfill = backfill;
        let started = simulate(fixture.clone(), &jobs, |job| job.percent, |_| ());
        for (place, job) in jobs.iter().enumerate() {
            let alone = enqueue(self::snapshot(&nodes, composite), &jobs, place..place + 1);
            prop_assert_eq!(started[place].is_some(), !alone.starts().is_empty(), "{:?}", job);
        }
    }

    #[test]
    fn a_second_cycle_starts_no_job(nodes in nodes(), composite: bool, jobs in prop::collection::vec(generated_job(), 1..20), backfill in backfill_policy(false), strictly: bool) {
        let mut fixture = enqueue(snapshot(&nodes, composite), &jobs, 0..jobs.len());
        fixture.policy.backfill = backfill;
        if strictly {
            fixture = fixture.strictly();
        }
        let plan = fixture.plan();
        fixture.apply(&plan);
        let second = fixture.plan();
        prop_assert!(second.starts.is_empty(), "first\n{plan}second\n{second}");
        // With counted bookings the nodes are only a forecast, so job and time are compared.
        let promises = |plan: &Plan| plan.bookings.iter().map(|b| (b.job, b.at)).collect::<Vec<_>>();
        prop_assert_eq!(promises(&plan), promises(&second));
    }

    #[test]
    fn the_order_of_queueing_does_not_change_the_plan(nodes in nodes(), jobs in prop::collection::vec(generated_job(), 1..20), backfill in backfill_policy(false)) {
        let mut empty = snapshot(&nodes, true);
        empty.policy.backfill = backfill;
        let forwards = enqueue(empty.clone(), &jobs, 0..jobs.len()).plan();
        let backwards = enqueue(empty, &jobs, (0..jobs.len()).rev()).plan();
        prop_assert_eq!(forwards.to_string(), backwards.to_string());
        prop_assert_eq!(forwards, backwards);
    }

    #[test]
    fn a_shared_refusal_hides_no_startable_job(nodes in nodes(), composite: bool, jobs in prop::collection::vec((similar_job(), obstacle()), 1..25), backfill in backfill_except_greedy()) {
        let shared = queued_with_obstacles(snapshot(&nodes, composite), &jobs, |_| String::new());
        // A chunk with count 0 makes every request unique, so that no two jobs share a refusal.
        let alone = queued_with_obstacles(snapshot(&nodes, composite), &jobs, |id| format!("+0:ncpus={id}"));
        let (mut shared, mut alone) = (shared, alone);
        for fixture in [&mut shared, &mut alone] {
            fixture.policy.backfill = backfill.clone();
            let plan = fixture.plan();
            fixture.apply(&plan);
            fixture.now = Time(50_000);
            plan.starts.iter().step_by(2).for_each(|start| fixture.state.vacate(start.job));
        }
        let decisions = |plan: Plan| {
            let starts: Vec<_> = plan.starts.into_iter().map(|start| (start.job, start.shares, start.preemptible)).collect();
            let promises: Vec<_> = plan.bookings.into_iter().map(|promise| (promise.job, promise.at, promise.nodes)).collect();
            (starts, promises, plan.preempts)
        };
        prop_assert_eq!(decisions(shared.plan()), decisions(alone.plan()));
    }

    #[test]
    fn counting_and_pinning_plan_the_same_start(ncpus in 2..9u32, jobs in one_chunk_jobs(14), backfill in backfill_policy(false), early: bool) {
        let (wide, jobs) = jobs;
        let mut counted = submitted(cluster(&format!("1 x ncpus={ncpus}")), &wide, &jobs, |ncpus| format!("1:ncpus={ncpus}"));
        counted.policy.backfill = backfill;
        let percent = |job: &GeneratedJob| if early { job.percent } else { 100 };
        let (mut by_count, mut by_pin) = (Vec::new(), Vec::new());
        let promises = |plan: &Plan| plan.bookings.iter().map(|b| (plan.now, b.job, b.at)).collect::<Vec<_>>();
        let first = simulate(counted.clone(), &jobs, percent, |plan| by_count.extend(promises(plan)));
        let second = simulate(pinned(counted), &jobs, percent, |plan| by_pin.extend(promises(plan)));
        prop_assert_eq!(first, second);
        prop_assert_eq!(by_count, by_pin);
    }

    #[test]
    fn counting_and_pinning_plan_the_same_start_beside_running_jobs(nodes in prop::collection::vec(1..6u32, 1..4), running in prop::collection::vec(running_job(), 0..5), piece in 1..4u32, jobs in prop::collection::vec((1..4u32, 1..20i64), 1..4)) {
        let text: Vec<String> = nodes.iter().map(|ncpus| format!("1 x ncpus={ncpus}")).collect();
        let mut fixture = cluster(&text.join(", "));
        let mut free = nodes.clone();
        for ((node, ncpus, tens, access), id) in running.into_iter().zip(100..) {
            let node = node % nodes.len();
            if free[node] >= ncpus && free[node] == nodes[node] || access.is_empty() && free[node] > ncpus {
                free[node] -= ncpus;
                fixture = fixture.running(id, &format!("select=1:ncpus={ncpus}{access}"), &format!("n{}", node + 1), tens * 10);
            }
        }
        fixture = fixture.owned("bob");
        for ((count, tens), id) in jobs.into_iter().zip(1..) {
            fixture = fixture.queued(id, &format!("select={count}:ncpus={piece} walltime={}", tens * 10));
        }
        let decisions = |plan: Plan| {
            let starts: Vec<_> = plan.starts.iter().map(|start| start.job).collect();
            (starts, plan.bookings.iter().map(|promise| (promise.job, promise.at)).collect::<Vec<_>>())
        };
        prop_assert_eq!(decisions(fixture.plan()), decisions(pinned(fixture).plan()));
    }

    #[test]
    fn starts_are_equal_on_one_node_many_nodes_and_mixed_nodes(jobs in one_chunk_jobs(14), backfill in backfill_policy(false), early: bool) {
        let (wide, jobs) = jobs;
        let percent = |job: &GeneratedJob| if early { job.percent } else { 100 };
        let run = |nodes: &str, select: fn(u32) -> String, is_pinned: bool| {
            let mut fixture = submitted(cluster(nodes), &wide, &jobs, select);
            fixture.policy.backfill = backfill.clone();
            simulate(if is_pinned { pinned(fixture) } else { fixture }, &jobs, percent, |_| ())
        };
        let one = run("1 x ncpus=8", |ncpus| format!("1:ncpus={ncpus}"), false);
        let pieces = |ncpus| format!("{ncpus}:ncpus=1");
        prop_assert_eq!(&one, &run("8 x ncpus=1", pieces, false));
        prop_assert_eq!(&one, &run("1 x ncpus=3, 2 x ncpus=2, 1 x ncpus=1", pieces, false));
        // A single booking first takes resources that are not free now, so pinned and counted
        // bookings leave the same amount.
        if backfill.depth == 1 && backfill.keep == BookingRetention::CurrentHighest {
            prop_assert_eq!(&one, &run("8 x ncpus=1", pieces, true));
            prop_assert_eq!(&one, &run("1 x ncpus=3, 2 x ncpus=2, 1 x ncpus=1", pieces, true));
        }
    }

    #[test]
    fn starts_equal_those_of_a_simple_model(ncpus in 2..9u32, jobs in one_chunk_jobs(12), conservative: bool, shortest: bool, early: bool) {
        let (wide, jobs) = jobs;
        let mut fixture = submitted(cluster(&format!("1 x ncpus={ncpus}")), &wide, &jobs, |ncpus| format!("1:ncpus={ncpus}"));
        fixture.policy.backfill.depth = if conservative { Backfill::ALL } else { 1 };
        fixture.policy.backfill.order = if shortest && !conservative { FillOrder::Shortest } else { FillOrder::Priority };
        let percent = |job: &GeneratedJob| if early { job.percent } else { 100 };
        let started = simulate(fixture, &jobs, percent, |_| ());
        let model: Vec<Waiting> = wide.iter().zip(&jobs).map(|(&width, job)| Waiting {
            width: i64::from(width),
            estimate: job.walltime * 1000,
            run: job.walltime * 10 * percent(job),
        }).collect();
        let expected = if conservative { conservative_backfill(i64::from(ncpus), &model) } else { easy_backfill(i64::from(ncpus), &model, shortest) };
        let started: Vec<Option<i64>> = started.iter().map(|start| start.map(|start| start.0)).collect();
        prop_assert_eq!(started, expected);
    }

    #[test]
    fn free_chunks_fit_exactly_where_an_exhaustive_search_finds_a_placement(nodes in nodes(), chunks in prop::collection::vec((1..4u32, 0..6u32, 0..3u32), 1..4)) {
        let text: Vec<String> = chunks.iter().map(|(count, ncpus, mem)| format!("{count}:ncpus={ncpus}:mem={mem}gb")).collect();
        let starts = snapshot(&nodes, false).queued(1, &format!("select={}", text.join("+"))).starts();
        let single: Vec<(u32, u32)> = chunks.iter().flat_map(|&(count, ncpus, mem)| (0..count).map(move |_| (ncpus, mem))).collect();
        prop_assert_eq!(!starts.is_empty(), some_placement(&mut nodes.clone(), &single));
    }
}

/// A job with one of a few requests, so that many jobs differ in walltime only.
fn similar_job() -> impl Strategy<Value = GeneratedJob> {
    let request = prop_oneof![
        3 => Just("select=1:ncpus=2"),
        2 => Just("select=2:ncpus=3:mem=1gb"),
        1 => Just("select=2:ncpus=1 place=scatter"),
        1 => Just("select=1:ncpus=1 place=free:excl"),
        1 => Just("select=4:ncpus=2"),
    ];
    (request, 1..20i64, 1..=100i64).prop_map(|(request, tens, percent)| GeneratedJob {
        request: request.to_string(),
        walltime: tens * 10,
        percent,
    })
}

/// A running job: node, processors, end in tens of seconds, and sharing.
fn running_job() -> impl Strategy<Value = (usize, u32, i64, &'static str)> {
    let access =
        prop_oneof![4 => Just(""), 1 => Just(" naccess=singleuser"), 1 => Just(" place=excl")];
    (0..3usize, 1..5u32, 1..20i64, access)
}

/// Further properties that may block a job and separate it from equal requests.
fn obstacle() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(""), 1 => Just(" queue=stopped"), 1 => Just(" not_before=60"), 1 => Just(" qos=high")]
}

/// All backfill policies except `greedy`, which evaluates several classes together.
fn backfill_except_greedy() -> impl Strategy<Value = Backfill> {
    let policy = [
        Filling::None,
        Filling::Skip,
        Filling::FirstFit,
        Filling::BestFit,
        Filling::Preempt,
    ];
    (
        backfill_policy(false),
        prop::sample::select(policy.to_vec()),
        prop_oneof![3 => Just(0), 1 => 1..6u32],
    )
        .prop_map(|(backfill, policy, consider)| Backfill {
            policy,
            consider,
            ..backfill
        })
}

/// Queues the jobs, each with its blocking property and `more` appended to its select.
fn queued_with_obstacles(
    fixture: TestCluster,
    jobs: &[(GeneratedJob, &str)],
    more: impl Fn(usize) -> String,
) -> TestCluster {
    jobs.iter()
        .enumerate()
        .fold(fixture, |fixture, (place, (job, bar))| {
            let (select, rest) = job.request.split_once(' ').unwrap_or((&job.request, ""));
            let rest = if rest.is_empty() {
                String::new()
            } else {
                format!(" {rest}")
            };
            let walltime = job.walltime;
            fixture.queued(
                place as u64 + 1,
                &format!("{select}{}{rest} walltime={walltime}{bar}", more(place + 1)),
            )
        })
}

/// Exhaustive search: true if the chunks fit on the nodes.
fn some_placement(free: &mut [(u32, u32)], chunks: &[(u32, u32)]) -> bool {
    let Some((&(ncpus, mem), rest)) = chunks.split_first() else {
        return true;
    };
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

/// Fewer than `most` jobs with their processors, all submitted at once.
fn one_chunk_jobs(most: usize) -> impl Strategy<Value = (Vec<u32>, Vec<GeneratedJob>)> {
    prop::collection::vec((1..9u32, generated_job()), 1..most)
        .prop_map(|jobs| jobs.into_iter().unzip())
}

fn submitted(
    fixture: TestCluster,
    wide: &[u32],
    jobs: &[GeneratedJob],
    select: impl Fn(u32) -> String,
) -> TestCluster {
    wide.iter()
        .zip(jobs)
        .zip(1..)
        .fold(fixture, |fixture, ((&ncpus, job), id)| {
            fixture.queued(
                id,
                &format!("select={} walltime={}", select(ncpus), job.walltime),
            )
        })
}

/// Adds a queued job in a stopped queue that depends on the choice of nodes, so that bookings are
/// pinned to nodes.
fn pinned(fixture: TestCluster) -> TestCluster {
    fixture.queued(1_000_000, "select=1:ncpus=1 place=excl queue=stopped")
}

/// A job of the simple model.
struct Waiting {
    width: i64,
    estimate: i64,
    run: i64,
}

/// A machine of the simple model: planned end, actual end and width of each running job.
struct Machine {
    width: i64,
    running: Vec<(i64, i64, i64)>,
}

impl Machine {
    /// Free processors at a time, if all jobs run until their planned ends.
    fn free(&self, at: i64) -> i64 {
        self.width
            - self
                .running
                .iter()
                .filter(|(planned, ..)| *planned > at)
                .map(|(_, _, width)| width)
                .sum::<i64>()
    }

    /// Advances to the next end, or to `limit` if that is earlier, and removes ended jobs. Returns
    /// the time and true if a job ended early. None if no job runs.
    fn advance(&mut self, limit: Option<i64>) -> Option<(i64, bool)> {
        let end = self.running.iter().map(|(_, end, _)| *end).min()?;
        let now = limit.map_or(end, |limit| limit.min(end));
        let early = self
            .running
            .iter()
            .any(|(planned, end, _)| *end == now && planned > end);
        self.running.retain(|(_, end, _)| *end > now);
        Some((now, early))
    }

    fn start(&mut self, now: i64, job: &Waiting) {
        self.running
            .push((now + job.estimate, now + job.run, job.width));
    }
}

/// EASY backfill as in the literature: shadow time and extra processors.
fn easy_backfill(width: i64, jobs: &[Waiting], shortest: bool) -> Vec<Option<i64>> {
    let mut machine = Machine {
        width,
        running: Vec::new(),
    };
    let mut queue: Vec<usize> = (0..jobs.len())
        .filter(|&job| jobs[job].width <= width)
        .collect();
    let mut starts = vec![None; jobs.len()];
    let mut now = 0;
    loop {
        while let Some(&head) = queue
            .first()
            .filter(|&&head| jobs[head].width <= machine.free(now))
        {
            machine.start(now, &jobs[head]);
            starts[head] = Some(now);
            queue.remove(0);
        }
        if let Some(&head) = queue.first() {
            let ends: Vec<i64> = machine
                .running
                .iter()
                .map(|(planned, ..)| *planned)
                .collect();
            let shadow = ends
                .into_iter()
                .filter(|&end| machine.free(end) >= jobs[head].width)
                .min()
                .unwrap();
            let mut extra = machine.free(shadow) - jobs[head].width;
            let mut fillers = queue[1..].to_vec();
            if shortest {
                fillers.sort_by_key(|&job| (jobs[job].estimate, job));
            }
            for filler in fillers {
                let job = &jobs[filler];
                let in_time = now + job.estimate <= shadow;
                if job.width <= machine.free(now) && (in_time || job.width <= extra) {
                    extra -= if in_time { 0 } else { job.width };
                    machine.start(now, job);
                    starts[filler] = Some(now);
                    queue.retain(|&other| other != filler);
                }
            }
        }
        match machine.advance(None) {
            Some((next, _)) => now = next,
            None => return starts,
        }
    }
}

/// Conservative backfill by definition, with compression after an early end.
fn conservative_backfill(width: i64, jobs: &[Waiting]) -> Vec<Option<i64>> {
    let mut machine = Machine {
        width,
        running: Vec::new(),
    };
    let mut booked: BTreeMap<usize, i64> = BTreeMap::new();
    let mut starts = vec![None; jobs.len()];
    let (mut now, mut loose) = (0, true);
    loop {
        for job in (0..jobs.len())
            .filter(|&job| jobs[job].width <= width && starts[job].is_none())
            .collect::<Vec<_>>()
        {
            if loose {
                booked.remove(&job);
                let at = earliest(&machine, &booked, jobs, job, now);
                booked.insert(job, at);
            }
            if booked[&job] == now {
                booked.remove(&job);
                machine.start(now, &jobs[job]);
                starts[job] = Some(now);
            }
        }
        match machine.advance(booked.values().min().copied()) {
            Some(next) => (now, loose) = next,
            None => return starts,
        }
    }
}

/// Earliest time at which a job fits for its whole estimate. Checks every time at which something
/// changes.
fn earliest(
    machine: &Machine,
    booked: &BTreeMap<usize, i64>,
    jobs: &[Waiting],
    job: usize,
    now: i64,
) -> i64 {
    let free = |at: i64| {
        let taken = booked
            .iter()
            .filter(|&(&other, &from)| from <= at && at < from + jobs[other].estimate);
        machine.free(at) - taken.map(|(&other, _)| jobs[other].width).sum::<i64>()
    };
    let ends = machine.running.iter().map(|(planned, ..)| *planned);
    let ends = ends.chain(
        booked
            .iter()
            .flat_map(|(&other, &from)| [from, from + jobs[other].estimate]),
    );
    let mut times: Vec<i64> = ends.chain([now]).filter(|&at| at >= now).collect();
    times.sort_unstable();
    let fits = |&&at: &&i64| {
        let during = times
            .iter()
            .filter(|&&time| at <= time && time < at + jobs[job].estimate);
        during.copied().all(|time| free(time) >= jobs[job].width)
    };
    *times.iter().find(fits).unwrap()
}
