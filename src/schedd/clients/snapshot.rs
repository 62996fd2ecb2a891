//! Snapshots for forecast queries, such as `qstat --start`. A snapshot is a copy of the scheduler's
//! view, shared by all queries until the view changes or the snapshot is too old.
//!
//! The answer to a query includes all changes committed before the query, such as the caller's own.
//! With 100,000 jobs, taking a snapshot blocks the event loop for some ten milliseconds. Therefore
//! snapshots are limited in rate and number. Queries that need a newer snapshot wait for the next
//! one, and then share it. Reader threads compute the answers, one query at a time, and share the
//! computed forecast.

use crate::model::job::Job;
use crate::model::job_id::JobId;
use crate::model::policy::{Policy, PriorityOrder};
use crate::model::queue::counters::uses::Counted;
use crate::model::report::outlook::{Explanation, Overtaker};
use crate::model::resource::Resources;
use crate::model::system_resource::PoolUse;
use crate::model::time::{Span, Time};
use crate::sched::explain::fair_share_status;
use crate::sched::explain::forecast::{self, Budget, Outlook};
use crate::sched::explain::holes;
use crate::sched::explain::limits_in_force::limits_in_force;
use crate::sched::explain::run_times::{RunTimeHistory, RunTimePrediction, RunTimes};
use crate::sched::explain::why;
use crate::sched::priority::queue_order::QueueOrder;
use crate::sched::view::snapshot::ClusterState;
use crate::schedd::clients::{limits, run_times};
use crate::server::caller::Caller;
use crate::server::state::ServerState;
use crate::sys::clock::monotonic;
use crate::sys::user;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock, Weak};

/// Maximum age of a shared snapshot, unless the minimum time between two snapshots is longer
/// ([`INTERVAL_FACTOR`]). Forecasts start at the time of the snapshot, so even an unchanged state
/// needs a newer snapshot after some time.
const MAX_SHARED_TIME: Span = Span::seconds(1);

/// Minimum time between two snapshots.
const MIN_INTERVAL: Span = Span(50);

/// Minimum time between two snapshots, as a multiple of the time for taking one.
const INTERVAL_FACTOR: i64 = 20;

/// Maximum number of snapshots in memory at once.
const MAX_SNAPSHOTS: usize = 4;

/// Number of jobs in one part of an answer.
const PART_SIZE: usize = 500;

/// Maximum number of queries that wait for a newer snapshot.
const MAX_WAITING: usize = 256;
/// Maximum number of queries that wait for a newer snapshot, for each user who is not privileged.
const MAX_WAITING_PER_USER: usize = 16;

/// The state of the cluster at one time.
pub struct Snapshot {
    state: ClusterState,
    policy: Policy,
    now: Time,
    /// The unfinished jobs and their requests.
    jobs: Vec<Arc<Job>>,
    outlook: OnceLock<(RunTimes, Outlook)>,
}

impl Snapshot {
    /// A snapshot of the current state.
    fn of(server: &ServerState) -> Snapshot {
        let (state, policy) = (server.cluster_ahead(), server.setup.policy.clone());
        Snapshot {
            state,
            policy,
            now: server.now,
            jobs: server.jobs().cloned().collect(),
            outlook: OnceLock::new(),
        }
    }

    /// The forecast for all jobs, with the predicted run times. The first query that needs the
    /// forecast computes it.
    fn outlook(&self, history: &RunTimeHistory) -> &(RunTimes, Outlook) {
        self.outlook.get_or_init(|| {
            let run_times = run_times::of_jobs(&self.jobs, history);
            let outlook = forecast::estimate(
                &self.state,
                &self.policy,
                self.now,
                Budget::default(),
                &run_times,
                None,
            );
            (run_times, outlook)
        })
    }

    fn order(&self) -> QueueOrder<'_> {
        QueueOrder::of(&self.state, &self.policy, self.now)
    }
}

/// The latest snapshot, and references to all snapshots still in use.
#[derive(Default)]
pub struct Snapshots {
    latest: Option<Latest>,
    all: Vec<Weak<Snapshot>>,
}

struct Latest {
    snapshot: Arc<Snapshot>,
    /// The revision of the state in the snapshot.
    revision: u64,
    /// The earliest time to replace the snapshot.
    replaceable_at: Span,
    /// The latest time to share the snapshot.
    valid_until: Span,
}

impl Snapshots {
    /// The snapshot of this revision of the state. If the limits on snapshots allow no new one yet,
    /// the error is the time to try again. Times are monotonic.
    pub fn of_revision(
        &mut self,
        revision: u64,
        server: &ServerState,
        now: Span,
    ) -> Result<Arc<Snapshot>, Span> {
        if let Some(latest) = &self.latest {
            if latest.revision == revision && now < latest.valid_until {
                return Ok(latest.snapshot.clone());
            }
            if now < latest.replaceable_at {
                return Err(latest.replaceable_at);
            }
        }
        self.latest = None;
        self.all.retain(|snapshot| snapshot.strong_count() > 0);
        if self.all.len() >= MAX_SNAPSHOTS {
            return Err(now + MIN_INTERVAL);
        }
        let snapshot = Arc::new(Snapshot::of(server));
        let pause = Span((monotonic().0 - now.0) * INTERVAL_FACTOR);
        let (replaceable_at, valid_until) = (
            now + MIN_INTERVAL.max(pause),
            now + MAX_SHARED_TIME.max(pause),
        );
        self.all.push(Arc::downgrade(&snapshot));
        self.latest = Some(Latest {
            snapshot: snapshot.clone(),
            revision,
            replaceable_at,
            valid_until,
        });
        Ok(snapshot)
    }

    /// Drops the latest snapshot after a change of the configuration.
    pub fn forget(&mut self) {
        self.latest = None;
    }

    /// Drops the latest snapshot if it is too old.
    pub fn expire(&mut self, now: Span) {
        self.latest.take_if(|latest| now >= latest.valid_until);
    }
}

/// Queries that wait for a newer snapshot.
#[derive(Default)]
pub struct WaitingForecasts {
    /// The queries with their connections.
    pub questions: Vec<(UnixStream, Caller, ForecastQuery)>,
    /// When to try again to take a snapshot.
    pub due: Option<Span>,
}

impl WaitingForecasts {
    /// Whether too many queries wait, so that a query of this caller must be refused.
    pub fn is_full_for(&self, caller: &Caller) -> bool {
        let own = self
            .questions
            .iter()
            .filter(|(_, other, _)| other.owner.uid == caller.owner.uid);
        self.questions.len() >= MAX_WAITING
            || (own.count() >= MAX_WAITING_PER_USER && !caller.privileged)
    }
}

/// A query with its snapshot, to be answered by a reader thread.
pub struct ForecastTask {
    /// The snapshot from which the query is answered.
    pub snapshot: Arc<Snapshot>,
    /// The query.
    pub task: SnapshotQuery,
}

/// A query about the state of the cluster.
pub enum SnapshotQuery {
    /// When these jobs will start; if the set is empty, when all waiting jobs will start.
    Starts(BTreeSet<JobId>),
    /// The times and places with free resources for this job.
    Windows(Box<Job>),
    /// Why a job waits. The list contains running and suspended jobs that are behind this job in
    /// the queue and started after it became eligible.
    Why(JobId, Vec<Overtaker>),
    /// The forecast for this held job, as if it had no holds.
    Released(Box<Job>),
    /// The forecast for this new job. The flag is true if the job would be held.
    Trial(Box<Job>, bool),
    /// The recorded usage by user and account.
    Usage,
    /// The queue positions of these jobs.
    Places(Vec<JobId>),
    /// The first N jobs of the queue; all jobs if there is no N.
    Queue(Option<u64>),
    /// The computed priorities of these jobs; of all waiting jobs if the list is empty.
    Scores(Vec<JobId>),
    /// The fair-share tree.
    Shares,
    /// The usage of all limits. The first value is the usage in the server's job counters.
    Limits(Vec<Counted>, Arc<Resources>),
    /// The usage of system-wide resources by jobs.
    Resources(Vec<PoolUse>),
}

impl ForecastTask {
    /// Whether the answer depends on the run times of past jobs.
    pub fn uses_past_jobs(&self) -> bool {
        matches!(
            self.task,
            SnapshotQuery::Starts(_)
                | SnapshotQuery::Why(..)
                | SnapshotQuery::Released(_)
                | SnapshotQuery::Trial(..)
        )
    }

    /// Sends the answer in parts. `history` contains the past jobs if the answer depends on them.
    pub fn answer<E>(
        &self,
        history: &RunTimeHistory,
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let snapshot = &*self.snapshot;
        match &self.task {
            SnapshotQuery::Starts(jobs) => self.starts(jobs, history, each),
            SnapshotQuery::Windows(job) => each(ForecastAnswer::Windows(holes::windows(
                &snapshot.state,
                &snapshot.policy,
                snapshot.now,
                job,
            ))),
            SnapshotQuery::Why(job, overtakers) => {
                let (run_times, outlook) = snapshot.outlook(history);
                let why = explain(snapshot, &snapshot.state, *job, outlook);
                let why = why.map(|why| {
                    Box::new(Explanation {
                        overtakers: overtakers.clone(),
                        run_time: run_times.of(*job).and_then(RunTimePrediction::estimate),
                        ..why
                    })
                });
                each(ForecastAnswer::Explained(why))
            }
            SnapshotQuery::Released(job) => each(ForecastAnswer::Explained(
                self.trial(job, history).map(Box::new),
            )),
            SnapshotQuery::Trial(job, held) => match self.trial(job, history) {
                Some(explanation) => each(ForecastAnswer::Tried {
                    explanation: Box::new(explanation),
                    held: *held,
                }),
                None => each(ForecastAnswer::Explained(None)),
            },
            SnapshotQuery::Usage => self.usage(each),
            SnapshotQuery::Places(jobs) => self.places(jobs, each),
            SnapshotQuery::Queue(most) => self.queue(*most, each),
            SnapshotQuery::Scores(jobs) => self.scores(jobs, each),
            SnapshotQuery::Shares => self.shares(each),
            SnapshotQuery::Limits(counted, resources) => self.limits(counted, resources, each),
            SnapshotQuery::Resources(pools) => self.resources(pools, each),
        }
    }

    fn starts<E>(
        &self,
        jobs: &BTreeSet<JobId>,
        history: &RunTimeHistory,
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let (_, outlook) = self.snapshot.outlook(history);
        each(ForecastAnswer::Horizon(outlook.horizon))?;
        let mut part = Vec::new();
        for foreseen in outlook.starts.iter().chain(&outlook.rest) {
            let job = foreseen.job;
            let is_requested = jobs.is_empty()
                || jobs.contains(&job)
                || job.parent().is_some_and(|of| jobs.contains(&of));
            if is_requested {
                part.push(foreseen.clone());
            }
            if part.len() == PART_SIZE {
                each(ForecastAnswer::JobForecast(std::mem::take(&mut part)))?;
            }
        }
        // A subjob without a forecast of its own gets the forecast of its array.
        for job in jobs.iter().filter(|job| job.index().is_some()) {
            if let Some(foreseen) = outlook.of(*job)
                && foreseen.job != *job
            {
                part.push(foreseen.clone());
            }
        }
        each(ForecastAnswer::JobForecast(part))
    }

    fn usage<E>(&self, each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>) -> Result<(), E> {
        let all = self.snapshot.state.usage().all(self.snapshot.now);
        all.chunks(PART_SIZE).try_for_each(|used| {
            each(ForecastAnswer::Usage {
                at: self.snapshot.now,
                used: used.to_vec(),
            })
        })
    }

    fn places<E>(
        &self,
        jobs: &[JobId],
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let order = self.snapshot.order();
        let (all, at, places) = (order.len() as u64, self.snapshot.now, order.places_of(jobs));
        let formula = self.formula();
        places.chunks(PART_SIZE).try_for_each(|places| {
            each(ForecastAnswer::Placed {
                all,
                at,
                formula: formula.clone(),
                places: places.to_vec(),
            })
        })
    }

    /// The priority formula, if the policy orders jobs by it.
    fn formula(&self) -> Option<String> {
        let rule = &self.snapshot.policy.precedence;
        if rule.order != PriorityOrder::Formula {
            return None;
        }
        rule.formula.as_ref().map(ToString::to_string)
    }

    fn queue<E>(
        &self,
        most: Option<u64>,
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let order = self.snapshot.order();
        let (all, at) = (order.len() as u64, self.snapshot.now);
        let mut turns = order
            .turns()
            .take(most.map_or(usize::MAX, |most| most as usize))
            .peekable();
        while turns.peek().is_some() {
            each(ForecastAnswer::Queue {
                all,
                at,
                formula: self.formula(),
                turns: turns.by_ref().take(PART_SIZE).collect(),
            })?;
        }
        Ok(())
    }

    fn scores<E>(
        &self,
        jobs: &[JobId],
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let scores = self
            .snapshot
            .state
            .scores(&self.snapshot.policy, self.snapshot.now, jobs);
        scores
            .chunks(PART_SIZE)
            .try_for_each(|scores| each(ForecastAnswer::Scores(scores.to_vec())))
    }

    fn shares<E>(&self, each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>) -> Result<(), E> {
        let (snapshot, policy) = (&*self.snapshot, &self.snapshot.policy.fair_share);
        let shares = snapshot.state.share_rows(policy, snapshot.now);
        // The first part, which is empty, is sent even if there are no shares.
        for shares in std::iter::once(&[][..]).chain(shares.chunks(PART_SIZE)) {
            each(ForecastAnswer::Shares {
                at: snapshot.now,
                method: policy.method,
                subject: policy.subject,
                shares: shares.to_vec(),
            })?;
        }
        let reports = fair_share_status::reports(&snapshot.state, &snapshot.policy, snapshot.now);
        reports
            .chunks(PART_SIZE)
            .try_for_each(|reports| each(ForecastAnswer::FairShareReports(reports.to_vec())))
    }

    fn limits<E>(
        &self,
        counted: &[Counted],
        resources: &Resources,
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let snapshot = &*self.snapshot;
        let considered = limits_in_force(&snapshot.state, &snapshot.policy, snapshot.now);
        let all = limits::with_counted(
            considered,
            counted,
            &snapshot.policy.limits,
            resources,
            user::group_name,
        );
        // The first part, which is empty, is sent even if there are no limits.
        for uses in std::iter::once(&[][..]).chain(all.chunks(PART_SIZE)) {
            each(ForecastAnswer::Limits {
                at: snapshot.now,
                uses: uses.to_vec(),
            })?;
        }
        Ok(())
    }

    fn resources<E>(
        &self,
        pools: &[PoolUse],
        each: &mut dyn FnMut(ForecastAnswer) -> Result<(), E>,
    ) -> Result<(), E> {
        let (at, state) = (self.snapshot.now, &self.snapshot.state);
        let mut all = pools.to_vec();
        for pool in &mut all {
            pool.jobs = state.pool_use(&pool.name).map_or(0, |(_, jobs)| jobs);
        }
        all.chunks(PART_SIZE).try_for_each(|resources| {
            each(ForecastAnswer::Resources {
                at,
                resources: resources.to_vec(),
            })
        })
    }

    fn trial(&self, job: &Job, history: &RunTimeHistory) -> Option<Explanation> {
        let snapshot = &*self.snapshot;
        let mut state = snapshot.state.clone();
        state.enqueue(job);
        let mut run_times = run_times::of_jobs(&snapshot.jobs, history);
        let own = run_times::of_job(job, history);
        let run_time = own.estimate();
        run_times.insert(job.id, own);
        let outlook = forecast::estimate(
            &state,
            &snapshot.policy,
            snapshot.now,
            Budget::default(),
            &run_times,
            Some(job.id),
        );
        let explanation = explain(snapshot, &state, job.id, &outlook)?;
        Some(Explanation {
            run_time,
            ..explanation
        })
    }
}

fn explain(
    snapshot: &Snapshot,
    state: &ClusterState,
    job: JobId,
    outlook: &Outlook,
) -> Option<Explanation> {
    why::explain(state, &snapshot.policy, snapshot.now, job, outlook)
}
