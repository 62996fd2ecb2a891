//! A report as a JSON document of kind `report`.

use super::aggregate::{NameCounts, Report};
use super::gantt::HostRun;
use super::usage::{EFFICIENCY_BINS, UsageGroup};
use super::waits::{BOUNDS, WaitDistribution};
use crate::cli::lanai::{document, status};
use crate::model::time::{Span, Wall};
use crate::wire::message::ServerFacts;
use serde_json::{Value, json};

/// The content of the document.
pub fn content(report: &Report, server: &ServerFacts) -> Value {
    let (total, capacity) = (&report.total, &report.capacity);
    let allocated = report.mean(|bin| bin.allocated);
    let [cpu, mem, walltime] = total.efficiencies();
    json!({
        "user": report.user,
        "period": {
            "since": time(report.period.from),
            "until": time(report.period.to),
            "seconds": seconds(report.period.length() as f64),
            "bin_seconds": report.period.step(),
        },
        "capacity": {
            "nodes": capacity.nodes,
            "usable_nodes": capacity.usable_nodes,
            "cpus": capacity.processors,
        },
        "jobs": {
            "ended": total.sums.jobs,
            "done": total.done,
            "failed": total.failed,
            "deleted": total.deleted,
            "requeues": total.requeued,
            "attempts": total.sums.attempts,
            "running_now": report.running_now,
            "waiting_now": report.waiting_now,
        },
        "utilization": {
            "mean_allocated_cpus": allocated,
            "mean_busy_cpus": report.mean(|bin| bin.busy),
            "allocated_fraction": report.fraction(allocated),
            "allocated_core_seconds": seconds(total.core_ms_in_period),
        },
        "waiting": {
            "mean_jobs": report.mean(|bin| bin.waiting),
            "largest_bin_jobs": report.peak(|bin| bin.waiting),
        },
        "bins": report.bins.iter().map(|bin| json!({
            "since": time(bin.from),
            "until": time(bin.to),
            "allocated_cpus": bin.allocated,
            "busy_cpus": bin.busy,
            "waiting_jobs": bin.waiting,
        })).collect::<Vec<_>>(),
        "wait": wait(&total.waits),
        "efficiency": {
            "cpu_fraction": cpu,
            "mem_fraction": mem,
            "walltime_fraction": walltime,
            "histogram": efficiency(report),
        },
        "users": groups(report, &report.users),
        "queues": groups(report, &report.queues),
        "failures": {
            "by_reason": report.exits.iter().map(|(reason, jobs)| json!({
                "reason": reason,
                "jobs": jobs,
            })).collect::<Vec<_>>(),
            "by_name": report.names.iter().map(name).collect::<Vec<_>>(),
        },
        "runs": {
            "complete_since": time(report.gantt.since),
            "total": report.gantt.total,
            "list": report.gantt.runs.iter()
                .map(|entry| run(entry, server))
                .collect::<Vec<_>>(),
        },
    })
}

fn time(at: i64) -> Value {
    document::time(Wall(at.div_euclid(1000)))
}

fn seconds(ms: f64) -> Value {
    json!(ms / 1000.0)
}

fn span(span: Option<Span>) -> Option<Value> {
    span.map(document::seconds)
}

fn wait(waits: &WaitDistribution) -> Value {
    let bins = waits.histogram.iter().enumerate().map(|(bin, count)| {
        json!({
            "from_seconds": BOUNDS[bin],
            "to_seconds": BOUNDS.get(bin + 1),
            "attempts": count,
        })
    });
    json!({
        "attempts": waits.count,
        "mean_seconds": span(waits.mean()),
        "p50_seconds": span(waits.percentile(50)),
        "p90_seconds": span(waits.percentile(90)),
        "p99_seconds": span(waits.percentile(99)),
        "longest_seconds": span(waits.longest()),
        "histogram": bins.collect::<Vec<_>>(),
    })
}

fn efficiency(report: &Report) -> Vec<Value> {
    let [cpu, mem, walltime] = &report.efficiency;
    let bins = (0..EFFICIENCY_BINS).map(|bin| {
        let to = (bin + 1 < EFFICIENCY_BINS).then_some((bin + 1) as f64 / 10.0);
        json!({
            "from_fraction": bin as f64 / 10.0,
            "to_fraction": to,
            "cpu_attempts": cpu.bins[bin],
            "mem_attempts": mem.bins[bin],
            "walltime_attempts": walltime.bins[bin],
        })
    });
    bins.collect()
}

fn groups(report: &Report, groups: &[(String, UsageGroup)]) -> Vec<Value> {
    let groups = groups.iter().map(|(name, group)| {
        let [cpu, mem, walltime] = group.efficiencies();
        json!({
            "name": name,
            "jobs": group.sums.jobs,
            "done": group.done,
            "failed": group.failed,
            "deleted": group.deleted,
            "requeues": group.requeued,
            "allocated_core_seconds": seconds(group.core_ms_in_period),
            "allocated_fraction": report.share(group),
            "ended_core_seconds": seconds(group.sums.core_ms as f64),
            "ended_charged_core_seconds": seconds(group.sums.charged_ms),
            "ended_cpu_seconds": seconds(group.sums.cput_ms as f64),
            "cpu_fraction": cpu,
            "mem_fraction": mem,
            "walltime_fraction": walltime,
            "wait_p50_seconds": span(group.waits.percentile(50)),
            "wait_p90_seconds": span(group.waits.percentile(90)),
            "wait_longest_seconds": span(group.waits.longest()),
        })
    });
    groups.collect()
}

fn name((name, counts): &(String, NameCounts)) -> Value {
    json!({ "name": name, "jobs": counts.jobs, "failed": counts.failed })
}

fn run(run: &HostRun, server: &ServerFacts) -> Value {
    json!({
        "id": run.job.full(&server.name),
        "name": run.name,
        "user": run.user,
        "host": run.host,
        "cpus": run.processors,
        "started": time(run.start),
        "ended": time(run.end),
        "outcome": run.outcome.word(),
        "exit_status": run.exit_status,
        "exit_text": run.exit_status.map(status::exit_text),
    })
}
