//! Aggregates accounting entries, current jobs and nodes. Entries are added one by one and not
//! kept, so the memory does not depend on their number.

use super::counts::BoundedMap;
use super::gantt::{Gantt, HostRun, MOST_RUNS, Outcome, RunCollector};
use super::period::Period;
use super::series::TimeSeries;
use super::usage::{EfficiencyHistogram, UsageGroup, outcome};
use crate::cli::lanai::job_view::JobView;
use crate::cli::lanai::status::{self, JobStatus};
use crate::cli::output::nodes::NodeGroup;
use crate::model::account::accounting::{AccountingEntry, part};
use crate::model::job_id::JobId;
use crate::model::time::Wall;
use crate::shown::exec_host;
use crate::wire::message::{JobRecord, NodeRecord, ServerFacts};
use std::collections::BTreeMap;

/// The maximum number of users, queues and job names that are counted separately.
const MOST_NAMES: usize = 5_000;

/// The maximum number of requeued jobs whose latest requeue is known.
const MOST_REQUEUED: usize = 10_000;

/// The present processors and nodes. Earlier values are not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of nodes that can run jobs.
    pub usable_nodes: usize,
    /// Number of processors of all nodes.
    pub processors: i64,
    /// Number of processors of each host.
    pub hosts: BTreeMap<String, u32>,
}

impl Capacity {
    /// The capacity of these nodes.
    pub fn of(records: &[NodeRecord]) -> Capacity {
        let mut capacity = Capacity {
            nodes: records.len(),
            ..Capacity::default()
        };
        for record in records {
            let processors = NodeGroup(vec![record]).available("ncpus");
            let host = record.node.facts.host.clone();
            let sum = capacity.hosts.entry(host).or_default();
            *sum = sum.saturating_add(u32::try_from(processors).unwrap_or(0));
            capacity.processors += processors;
            capacity.usable_nodes += usize::from(record.node.is_usable());
        }
        capacity
    }
}

/// A bin of the time axis, with mean values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The start in milliseconds.
    pub from: i64,
    /// The end in milliseconds.
    pub to: i64,
    /// Allocated processors.
    pub allocated: f64,
    /// Busy processors: processor time per time.
    pub busy: f64,
    /// Eligible jobs and subjobs that waited.
    pub waiting: f64,
}

/// Number of jobs with the same name that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// All jobs.
    pub jobs: u64,
    /// Jobs with an exit status other than 0, without deleted jobs.
    pub failed: u64,
}

/// All figures of a report.
#[derive(Clone, Debug)]
pub struct Report {
    /// The user whose jobs are reported; None for all users.
    pub user: Option<String>,
    /// The period.
    pub period: Period,
    /// The present nodes.
    pub capacity: Capacity,
    /// Number of jobs and subjobs that run now.
    pub running_now: u64,
    /// Number of jobs and subjobs that are eligible and wait now.
    pub waiting_now: u64,
    /// The time axis.
    pub bins: Vec<Bin>,
    /// All jobs.
    pub total: UsageGroup,
    /// Usage by user, the largest first.
    pub users: Vec<(String, UsageGroup)>,
    /// Usage by queue, the largest first.
    pub queues: Vec<(String, UsageGroup)>,
    /// Attempts by efficiency: processor time, memory, walltime.
    pub efficiency: [EfficiencyHistogram; 3],
    /// Number of failed and deleted jobs by the text of their exit status, the largest first.
    pub exits: Vec<(String, u64)>,
    /// Names of failed jobs, the one with the most failures first.
    pub names: Vec<(String, NameCounts)>,
    /// The Gantt chart.
    pub gantt: Gantt,
}

impl Report {
    /// Tests whether no job ran, waited or ended in the period.
    pub fn is_empty(&self) -> bool {
        let is_idle = |bin: &Bin| bin.allocated == 0.0 && bin.waiting == 0.0;
        let sums = &self.total.sums;
        sums.jobs == 0 && sums.attempts == 0 && self.bins.iter().all(is_idle)
    }

    /// The mean over the period of a value of the bins.
    pub fn mean(&self, value: impl Fn(&Bin) -> f64) -> f64 {
        let weighted = |bin: &Bin| value(bin) * (bin.to - bin.from) as f64;
        self.bins.iter().map(weighted).sum::<f64>() / self.period.length() as f64
    }

    /// The largest value of a bin.
    pub fn peak(&self, value: impl Fn(&Bin) -> f64) -> f64 {
        self.bins.iter().map(value).fold(0.0, f64::max)
    }

    /// A number of processors as a fraction of all processors; None without nodes.
    pub fn fraction(&self, processors: f64) -> Option<f64> {
        part(processors, self.capacity.processors as f64)
    }

    /// The share of a group in the allocated processor time; None if no job ran.
    pub fn share(&self, group: &UsageGroup) -> Option<f64> {
        part(group.core_ms_in_period, self.total.core_ms_in_period)
    }
}

/// Collects the figures of a report.
#[derive(Clone, Debug)]
pub struct ReportBuilder {
    user: Option<String>,
    period: Period,
    allocated: TimeSeries,
    busy: TimeSeries,
    waiting: TimeSeries,
    running_now: u64,
    waiting_now: u64,
    total: UsageGroup,
    users: BoundedMap<UsageGroup>,
    queues: BoundedMap<UsageGroup>,
    efficiency: [EfficiencyHistogram; 3],
    exits: BoundedMap<u64>,
    names: BoundedMap<NameCounts>,
    runs: RunCollector,
    /// When the latest attempt of a job ended with a requeue. The next attempt waits since then.
    requeued: BTreeMap<JobId, i64>,
}

impl ReportBuilder {
    /// A builder without figures.
    pub fn new(user: Option<String>, period: Period) -> ReportBuilder {
        let series = TimeSeries::new(period.edges());
        ReportBuilder {
            user,
            period,
            allocated: series.clone(),
            busy: series.clone(),
            waiting: series,
            running_now: 0,
            waiting_now: 0,
            total: UsageGroup::default(),
            users: BoundedMap::new(MOST_NAMES),
            queues: BoundedMap::new(MOST_NAMES),
            efficiency: Default::default(),
            exits: BoundedMap::new(MOST_NAMES),
            names: BoundedMap::new(MOST_NAMES),
            runs: RunCollector::new(period, MOST_RUNS),
            requeued: BTreeMap::new(),
        }
    }

    /// Adds an accounting entry. The entries of a job must be added in the order of its attempts.
    pub fn add_entry(&mut self, entry: &AccountingEntry) {
        let stamps = &entry.stamps;
        let requeued = self.requeued.remove(&entry.job);
        if entry.end.is_none() && self.requeued.len() < MOST_REQUEUED {
            self.requeued.insert(entry.job, stamps.ended);
        }
        if let Some(since) = requeued.or(stamps.eligible) {
            let until = stamps.began.unwrap_or(stamps.ended);
            self.waiting.add(since, until, 1.0);
        }
        if let Some(began) = stamps.began {
            let names = (&*entry.of.user, &*entry.of.queue);
            let times = (entry.core_ms as f64, entry.used.cput.0 as f64);
            self.add_run(names, (began, stamps.ended), times);
            self.add_host_runs(entry, began);
        }
        if self.period.contains(stamps.ended) {
            self.add_end(entry);
        }
    }

    /// Adds the processor time of an attempt, `(allocated, used)` in milliseconds, spread evenly
    /// over its run time. So a processor that was released early counts in part for the whole time.
    fn add_run(
        &mut self,
        (user, queue): (&str, &str),
        (start, end): (i64, i64),
        (allocated, used): (f64, f64),
    ) {
        let Some((first, last)) = self.period.clip(start, end) else {
            return;
        };
        let elapsed = (end - start) as f64;
        self.allocated.add(start, end, allocated / elapsed);
        self.busy.add(start, end, used / elapsed);
        let inside = allocated * (last - first) as f64 / elapsed;
        self.total.core_ms_in_period += inside;
        self.users.entry(user).core_ms_in_period += inside;
        self.queues.entry(queue).core_ms_in_period += inside;
    }

    fn add_host_runs(&mut self, entry: &AccountingEntry, began: i64) {
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        for (host, processors) in &entry.places {
            *hosts.entry(host).or_default() += processors;
        }
        for (host, processors) in hosts {
            self.runs.add(HostRun {
                end: entry.stamps.ended,
                start: began,
                job: entry.job,
                host: host.to_string(),
                processors,
                name: entry.name.clone(),
                user: entry.of.user.clone(),
                outcome: outcome(entry),
                exit_status: entry.end.map(|end| end.status),
            });
        }
    }

    /// Adds an attempt that ended in the period.
    fn add_end(&mut self, entry: &AccountingEntry) {
        self.total.add(entry);
        self.users.entry(&entry.of.user).add(entry);
        self.queues.entry(&entry.of.queue).add(entry);
        self.efficiency[0].add(entry.cpu_efficiency());
        self.efficiency[1].add(entry.mem_efficiency());
        self.efficiency[2].add(entry.time_efficiency());
        let Some(end) = entry.end else {
            return;
        };
        let outcome = outcome(entry);
        let counts = self.names.entry(&entry.name);
        counts.jobs += 1;
        counts.failed += u64::from(outcome == Outcome::Failed);
        match outcome {
            Outcome::Failed => *self.exits.entry(&status::exit_text(end.status)) += 1,
            Outcome::Deleted => *self.exits.entry("deleted") += 1,
            Outcome::Done | Outcome::Requeued | Outcome::Running => {}
        }
    }

    /// Adds an unfinished job, array or subjob. The subjobs of an array that wait are counted with
    /// the array. `now` is the present time in milliseconds.
    pub fn add_job(&mut self, record: &JobRecord, server: &ServerFacts, now: i64) {
        let job = &record.job;
        let view = JobView {
            record,
            server,
            now: Wall(now.div_euclid(1000)),
        };
        let status = view.status();
        let waiting = match view.counts() {
            Some(counts) => u64::from(counts.waiting),
            None => u64::from(status == JobStatus::Queued),
        };
        let requeued = self.requeued.get(&job.id).copied();
        let eligible = job.life.etime.map(|at| server.clock.wall_ms(at));
        let since = requeued.or(eligible);
        if let Some(since) = since {
            self.waiting_now += waiting;
            self.waiting.add(since, now, waiting as f64);
        }
        if let Some(run) = &job.life.run
            && matches!(status, JobStatus::Running | JobStatus::Suspended)
            && view.counts().is_none()
        {
            let started = server.clock.wall_ms(run.started);
            if let Some(since) = since {
                self.waiting.add(since, started, 1.0);
            }
            self.running_now += 1;
            self.add_current_run(record, started, now);
        }
    }

    fn add_current_run(&mut self, record: &JobRecord, started: i64, now: i64) {
        let job = &record.job;
        let shares = job.life.run.as_ref().map_or(&[][..], |run| &run.shares);
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        for share in shares {
            let processors = u32::try_from(exec_host::processors(share)).unwrap_or(0);
            *hosts.entry(&share.host).or_default() += processors;
        }
        let processors: u32 = hosts.values().sum();
        let elapsed = (now - started).max(0);
        // A suspended job has released its processors for a part of the time.
        let allocated = if JobStatus::of(job) == JobStatus::Suspended {
            elapsed.min(job.life.used.walltime.0)
        } else {
            elapsed
        };
        let names = (&*job.owner.user, &*job.spec.queue);
        let times = (
            f64::from(processors) * allocated as f64,
            job.life.used.cput.0 as f64,
        );
        self.add_run(names, (started, now), times);
        for (host, processors) in hosts {
            self.runs.add(HostRun {
                end: now,
                start: started,
                job: job.id,
                host: host.to_string(),
                processors,
                name: job.spec.name.clone(),
                user: job.owner.user.clone(),
                outcome: Outcome::Running,
                exit_status: None,
            });
        }
    }

    /// The report.
    pub fn finish(self, capacity: Capacity) -> Report {
        let edges = self.period.edges();
        let (allocated, busy) = (self.allocated.means(), self.busy.means());
        let waiting = self.waiting.means();
        let bins = edges.windows(2).enumerate().map(|(at, edges)| Bin {
            from: edges[0],
            to: edges[1],
            allocated: allocated[at],
            busy: busy[at],
            waiting: waiting[at],
        });
        let mut names = self.names.sorted_by(|counts| counts.failed);
        names.retain(|(_, counts)| counts.failed > 0);
        let size = |group: &UsageGroup| (group.core_ms_in_period, group.sums.jobs);
        Report {
            user: self.user,
            period: self.period,
            bins: bins.collect(),
            running_now: self.running_now,
            waiting_now: self.waiting_now,
            total: self.total,
            users: self.users.sorted_by(size),
            queues: self.queues.sorted_by(size),
            efficiency: self.efficiency,
            exits: self.exits.sorted_by(|count| *count),
            names,
            gantt: self.runs.finish(&capacity.hosts),
            capacity,
        }
    }
}

#[cfg(test)]
mod tests;
