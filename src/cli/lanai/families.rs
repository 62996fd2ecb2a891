//! The metrics of `lanai metrics`. lanai-metrics(7) has the same table. The number of samples is
//! bounded: by the numbers of queues, resources and reason codes, and for users by an option.

use super::job_summary::{Amounts, JobSummary, JobTotals, SummaryState};
use super::openmetrics::{MetricFamily, MetricType, OpenMetrics};
use crate::cli::output::nodes::NodeGroup;
use crate::model::time::Wall;
use crate::model::trigger::CycleRecord;
use crate::wire::message::{NodeRecord, ScheddStatus, ServerFacts};

/// The data from which the metrics are computed.
pub struct MetricsInput<'a> {
    /// The server, with its clock.
    pub server: &'a ServerFacts,
    /// The current time.
    pub now: Wall,
    /// The status of schedd; None if no schedd responds.
    pub status: Option<&'a ScheddStatus>,
    /// The unfinished jobs.
    pub jobs: &'a JobSummary,
    /// Maximum number of users with metrics of their own.
    pub users: usize,
    /// All nodes.
    pub nodes: &'a [NodeRecord],
    /// The last scheduling cycles, oldest first; empty if the user may not see them.
    pub cycles: &'a [CycleRecord],
    /// Size of the spool in bytes; None if the user may not read it.
    pub spool: Option<u64>,
}

/// The label of the jobs of all users without metrics of their own.
const OTHERS: &str = "_others";

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily {
        name,
        kind: MetricType::Gauge,
        unit,
        help,
    }
}

const fn counter(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily {
        name,
        kind: MetricType::Counter,
        unit: "",
        help,
    }
}

const BUILD: MetricFamily = gauge("lanai_build_info", "", "Version of the client, always 1.");
const UP: MetricFamily = gauge("lanai_up", "", "Whether schedd responds: 1 or 0.");
const START_TIME: MetricFamily = gauge(
    "lanai_start_time_seconds",
    "seconds",
    "Start of schedd, in seconds since 1970.",
);
const STARTS: MetricFamily = counter(
    "lanai_job_starts",
    "Starts of jobs and subjobs since the start of schedd.",
);
const ENDS: MetricFamily = counter(
    "lanai_job_ends",
    "Ends of started jobs and subjobs since the start of schedd, requeued ones included.",
);
const JOBS: MetricFamily = gauge("lanai_jobs", "", "Unfinished jobs and subjobs.");
const QUEUE_JOBS: MetricFamily = gauge(
    "lanai_queue_jobs",
    "",
    "Unfinished jobs and subjobs of a queue.",
);
const USER_JOBS: MetricFamily = gauge(
    "lanai_user_jobs",
    "",
    "Queued and running jobs and subjobs of a user.",
);
const USER_PROCESSORS: MetricFamily = gauge(
    "lanai_user_processors",
    "",
    "Processors that a user's queued jobs request and running jobs hold.",
);
const BLOCKED_JOBS: MetricFamily = gauge(
    "lanai_blocked_jobs",
    "",
    "Queued jobs and subjobs by the reason that blocks them.",
);
const PROCESSORS: MetricFamily = gauge(
    "lanai_job_processors",
    "",
    "Processors that queued jobs request and running jobs hold.",
);
const MEMORY: MetricFamily = gauge(
    "lanai_job_memory_bytes",
    "bytes",
    "Memory that queued jobs request and running jobs hold.",
);
const GPUS: MetricFamily = gauge(
    "lanai_job_gpus",
    "",
    "GPUs that queued jobs request and running jobs hold.",
);
const OLDEST: MetricFamily = gauge(
    "lanai_oldest_queued_age_seconds",
    "seconds",
    "Time since the oldest queued job became eligible to start, 0 without queued jobs.",
);
const NODES: MetricFamily = gauge("lanai_nodes", "", "Nodes by state.");
const NODE_PROCESSORS: MetricFamily = gauge(
    "lanai_node_processors",
    "",
    "Processors of all nodes, of the nodes that accept jobs, and assigned to jobs.",
);
const NODE_MEMORY: MetricFamily = gauge(
    "lanai_node_memory_bytes",
    "bytes",
    "Memory of all nodes, of the nodes that accept jobs, and assigned to jobs.",
);
const NODE_GPUS: MetricFamily = gauge(
    "lanai_node_gpus",
    "",
    "GPUs of all nodes, of the nodes that accept jobs, and assigned to jobs.",
);
const CYCLES: MetricFamily = counter(
    "lanai_scheduler_cycles",
    "Scheduling cycles since the installation was created.",
);
const LAST_CYCLE: MetricFamily = gauge(
    "lanai_scheduler_last_cycle_timestamp_seconds",
    "seconds",
    "Start of the last scheduling cycle, in seconds since 1970.",
);
const CYCLE_DURATION: MetricFamily = gauge(
    "lanai_scheduler_cycle_duration_seconds",
    "seconds",
    "Duration of the last cycle, and mean and maximum over the last 1000 cycles.",
);
const SPOOL: MetricFamily = gauge(
    "lanai_spool_size_bytes",
    "bytes",
    "Size of the spool's database and of its write-ahead log.",
);

/// All families, in the order of output.
pub const ALL: &[&MetricFamily] = &[
    &BUILD,
    &UP,
    &START_TIME,
    &STARTS,
    &ENDS,
    &JOBS,
    &QUEUE_JOBS,
    &USER_JOBS,
    &USER_PROCESSORS,
    &BLOCKED_JOBS,
    &PROCESSORS,
    &MEMORY,
    &GPUS,
    &OLDEST,
    &NODES,
    &NODE_PROCESSORS,
    &NODE_MEMORY,
    &NODE_GPUS,
    &CYCLES,
    &LAST_CYCLE,
    &CYCLE_DURATION,
    &SPOOL,
];

/// The labels of a sample and its value.
type Sample = (Vec<(&'static str, String)>, f64);

fn plain(value: f64) -> Sample {
    (Vec::new(), value)
}

fn labeled(label: &'static str, text: &str, value: u64) -> Sample {
    (vec![(label, text.to_string())], value as f64)
}

/// Adds all metrics.
pub fn add_all(input: &MetricsInput, out: &mut OpenMetrics) {
    add_schedd(input, out);
    add_jobs(input, out);
    add_amounts(&input.jobs.total, out);
    let age = input.jobs.oldest.map_or(0, |since| {
        (input.now.0 - input.server.clock.wall(since).0).max(0)
    });
    out.add(&OLDEST, [plain(age as f64)]);
    add_nodes(input.nodes, out);
    add_cycles(input, out);
    out.add(&SPOOL, input.spool.map(|bytes| plain(bytes as f64)));
}

fn add_schedd(input: &MetricsInput, out: &mut OpenMetrics) {
    let version = env!("CARGO_PKG_VERSION");
    out.add(&BUILD, [labeled("version", version, 1)]);
    out.add(&UP, [plain(f64::from(u8::from(input.status.is_some())))]);
    let Some(status) = input.status else { return };
    let started = input.now.0 - status.uptime.as_seconds();
    out.add(&START_TIME, [plain(started as f64)]);
    out.add(&STARTS, [plain(status.attempts.started as f64)]);
    out.add(&ENDS, [plain(status.attempts.ended as f64)]);
}

fn add_jobs(input: &MetricsInput, out: &mut OpenMetrics) {
    let jobs = input.jobs;
    let by_state = |totals: &JobTotals| {
        let totals = totals.clone();
        SummaryState::ALL.map(move |(name, state)| (name, totals.count(state)))
    };
    let all = by_state(&jobs.total).map(|(state, count)| labeled("state", state, count));
    out.add(&JOBS, all);
    let mut of_queues: Vec<Sample> = Vec::new();
    for (queue, totals) in &jobs.queues {
        for (state, count) in by_state(totals) {
            of_queues.push(with_state("queue", queue, state, count));
        }
    }
    out.add(&QUEUE_JOBS, of_queues);
    let (users, others) = jobs.largest_users(input.users);
    let others = others.iter().map(|totals| (OTHERS, totals));
    let users: Vec<(&str, &JobTotals)> = users.into_iter().chain(others).collect();
    let of_users = users.iter().flat_map(|(user, totals)| {
        let queued = totals.count(SummaryState::Queued);
        let running = totals.count(SummaryState::Running);
        queued_and_running("user", user, queued, running)
    });
    out.add(&USER_JOBS, of_users.collect::<Vec<_>>());
    let of_users = users.iter().flat_map(|(user, totals)| {
        let (queued, running) = (totals.waiting.processors, totals.running.processors);
        queued_and_running("user", user, queued, running)
    });
    out.add(&USER_PROCESSORS, of_users.collect::<Vec<_>>());
    let reasons = jobs.reasons.iter().map(|(code, count)| {
        let code = if code.is_empty() {
            "not_considered"
        } else {
            code.as_str()
        };
        labeled("reason", code, *count)
    });
    out.add(&BLOCKED_JOBS, reasons);
}

fn with_state(label: &'static str, text: &str, state: &str, value: u64) -> Sample {
    let labels = vec![(label, text.to_string()), ("state", state.to_string())];
    (labels, value as f64)
}

fn queued_and_running(label: &'static str, text: &str, queued: u64, running: u64) -> [Sample; 2] {
    [
        with_state(label, text, "queued", queued),
        with_state(label, text, "running", running),
    ]
}

/// Adds the amounts of queued and running jobs.
fn add_amounts(totals: &JobTotals, out: &mut OpenMetrics) {
    let (queued, running): (&Amounts, &Amounts) = (&totals.waiting, &totals.running);
    for (family, queued, running) in [
        (&PROCESSORS, queued.processors, running.processors),
        (&MEMORY, queued.memory, running.memory),
        (&GPUS, queued.gpus, running.gpus),
    ] {
        let samples = [
            labeled("state", "queued", queued),
            labeled("state", "running", running),
        ];
        out.add(family, samples);
    }
}

/// The states of nodes. A node has the first state that applies.
const NODE_STATES: [&str; 5] = ["down", "offline", "maintenance", "busy", "free"];

fn node_state(record: &NodeRecord) -> &'static str {
    let node = &record.node;
    let group = NodeGroup(vec![record]);
    if !node.up {
        "down"
    } else if node.offline {
        "offline"
    } else if !node.maintenance.is_empty() {
        "maintenance"
    } else if record.exclusive || group.assigned("ncpus") >= group.available("ncpus").max(1) {
        "busy"
    } else {
        "free"
    }
}

fn add_nodes(nodes: &[NodeRecord], out: &mut OpenMetrics) {
    let states = NODE_STATES.map(|state| {
        let count = nodes.iter().filter(|node| node_state(node) == state);
        labeled("state", state, count.count() as u64)
    });
    out.add(&NODES, states);
    let all = NodeGroup(nodes.iter().collect());
    let usable = nodes.iter().filter(|record| record.node.is_usable());
    let usable = NodeGroup(usable.collect());
    for (family, resource) in [
        (&NODE_PROCESSORS, "ncpus"),
        (&NODE_MEMORY, "mem"),
        (&NODE_GPUS, "ngpus"),
    ] {
        let amount = |amount: i64| u64::try_from(amount).unwrap_or(0);
        let samples = [
            labeled("amount", "all", amount(all.available(resource))),
            labeled("amount", "usable", amount(usable.available(resource))),
            labeled("amount", "assigned", amount(all.assigned(resource))),
        ];
        out.add(family, samples);
    }
}

fn add_cycles(input: &MetricsInput, out: &mut OpenMetrics) {
    let Some(last) = input.cycles.last() else {
        return;
    };
    out.add(&CYCLES, [plain(last.number as f64)]);
    let at = input.server.clock.wall(last.at);
    out.add(&LAST_CYCLE, [plain(at.0 as f64)]);
    let seconds = |microseconds: u64| microseconds as f64 / 1e6;
    let durations = input.cycles.iter().map(|cycle| cycle.took);
    let mean = durations.clone().sum::<u64>() / input.cycles.len() as u64;
    let samples = [
        ("last", last.took),
        ("mean", mean),
        ("max", durations.max().unwrap_or(0)),
    ];
    let samples = samples.map(|(name, took)| (vec![("of", name.to_string())], seconds(took)));
    out.add(&CYCLE_DURATION, samples);
}

#[cfg(test)]
mod tests {
    use super::super::openmetrics::grammar;
    use super::*;
    use crate::cli::example::{self, queued};
    use crate::model::job_id::JobId;
    use crate::model::reason::Reason;
    use crate::model::time::Span;
    use crate::model::trigger::Triggers;
    use crate::wire::message::AttemptCounts;

    /// The samples of an installation with a queued job, three nodes and two cycles.
    fn samples(users: usize, status: Option<&ScheddStatus>) -> Vec<(String, f64)> {
        let mut blocked = queued(1, "a", "ncpus=4 mem=1gb");
        blocked.reason = Some(Reason::QueueStopped);
        let mut other = queued(2, "b", "ncpus=1");
        other.job.owner.user = "we\"ird".into();
        let mut nodes = ["n1", "n2", "n3"].map(|name| example::node(name, name));
        nodes[0].jobs = vec![(JobId::job(7), example::share(4, Some("2gb")))];
        nodes[1].node.offline = true;
        nodes[2].node.up = false;
        let cycle = |number, took| CycleRecord {
            number,
            at: example::SUBMITTED,
            triggers: Triggers::default(),
            considered: 1,
            started: 0,
            preempted: 0,
            took,
        };
        let input = MetricsInput {
            server: &example::server(),
            now: example::NOW,
            status,
            jobs: &JobSummary::of(&[blocked, other], &nodes),
            users,
            nodes: &nodes,
            cycles: &[cycle(41, 1000), cycle(42, 3000)],
            spool: Some(4096),
        };
        let mut out = OpenMetrics::default();
        add_all(&input, &mut out);
        let text = out.end();
        grammar::check(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    #[test]
    fn the_metrics_are_valid_and_complete() {
        let status = ScheddStatus {
            pid: 1,
            version: String::new(),
            spool: "/spool".to_string().into(),
            jobs: vec![],
            nodes: vec![],
            uptime: Span::seconds(100),
            stuck: None,
            attempts: AttemptCounts {
                started: 5,
                ended: 4,
            },
        };
        let samples = samples(1, Some(&status));
        let value = |series: &str| {
            let mut samples = samples.iter();
            let found = samples.find(|(known, _)| known == series);
            found.unwrap_or_else(|| panic!("{series}: {samples:?}")).1
        };
        for (series, expected) in [
            ("lanai_up", 1.0),
            ("lanai_start_time_seconds", (example::NOW.0 - 100) as f64),
            ("lanai_job_starts_total", 5.0),
            ("lanai_job_ends_total", 4.0),
            ("lanai_jobs{state=\"queued\"}", 2.0),
            ("lanai_jobs{state=\"held\"}", 0.0),
            ("lanai_queue_jobs{queue=\"workq\",state=\"queued\"}", 2.0),
            ("lanai_user_jobs{user=\"alice\",state=\"queued\"}", 1.0),
            ("lanai_user_jobs{user=\"_others\",state=\"queued\"}", 1.0),
            (
                "lanai_user_processors{user=\"alice\",state=\"queued\"}",
                4.0,
            ),
            ("lanai_blocked_jobs{reason=\"not_considered\"}", 1.0),
            ("lanai_blocked_jobs{reason=\"queue_stopped\"}", 1.0),
            (
                "lanai_job_memory_bytes{state=\"queued\"}",
                (1u64 << 30) as f64,
            ),
            ("lanai_oldest_queued_age_seconds", 300.0),
            ("lanai_nodes{state=\"busy\"}", 1.0),
            ("lanai_nodes{state=\"offline\"}", 1.0),
            ("lanai_nodes{state=\"down\"}", 1.0),
            ("lanai_nodes{state=\"free\"}", 0.0),
            ("lanai_node_processors{amount=\"all\"}", 12.0),
            ("lanai_node_processors{amount=\"usable\"}", 4.0),
            ("lanai_node_processors{amount=\"assigned\"}", 4.0),
            ("lanai_scheduler_cycles_total", 42.0),
            ("lanai_scheduler_cycle_duration_seconds{of=\"last\"}", 0.003),
            ("lanai_scheduler_cycle_duration_seconds{of=\"mean\"}", 0.002),
            ("lanai_spool_size_bytes", 4096.0),
        ] {
            assert_eq!(value(series), expected, "{series}");
        }
        for family in ALL {
            let has_samples = samples
                .iter()
                .any(|(series, _)| series.starts_with(family.name));
            assert!(has_samples, "{}", family.name);
        }
    }

    #[test]
    fn without_schedd_its_counters_are_missing() {
        let samples = samples(9, None);
        assert!(samples.contains(&("lanai_up".to_string(), 0.0)));
        assert!(!samples.iter().any(|(series, _)| series.contains("_starts")));
        let weird = "lanai_user_jobs{user=\"we\\\"ird\",state=\"queued\"}";
        assert!(samples.contains(&(weird.to_string(), 1.0)), "{samples:?}");
    }
}
