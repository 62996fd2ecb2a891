//! A cluster with simulated time, for replays of traces.
//!
//! Time advances to the next instant with an event. At each instant jobs end first, then jobs are
//! submitted, then one scheduling cycle runs if jobs wait. The jobs that the cycle starts run from
//! that instant on. No job exceeds its walltime, because the walltime is the estimate in the trace,
//! and the run time is at most the estimate.

use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::time::{Span, Time};
use crate::sched::cycle;
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::share_tree::usage::UsageTable;
use crate::sched::view::change::Change;
use crate::sched::view::plan::{Plan, Start};
use crate::sched::view::snapshot::{ClassKey, ClusterState};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The cluster, and the ends of its running jobs.
#[derive(Debug)]
pub struct SimulatedCluster {
    state: ClusterState,
    policy: Policy,
    now: Time,
    ends: BinaryHeap<Reverse<(Time, JobId)>>,
    waiting: usize,
    /// The time of the next cycle that the scheduler requested.
    next_cycle: Option<Time>,
    cache: CycleCache,
}

impl SimulatedCluster {
    /// A cluster under this policy, without jobs.
    pub fn new(mut state: ClusterState, policy: Policy) -> SimulatedCluster {
        state.make(&Change::Usage(Cow::Owned(UsageTable::new(
            policy.usage.clone(),
        ))));
        let ends = BinaryHeap::new();
        SimulatedCluster {
            state,
            policy,
            now: Time(i64::MIN),
            ends,
            waiting: 0,
            next_cycle: None,
            cache: CycleCache::default(),
        }
    }

    /// The state that the scheduler uses.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The number of waiting jobs.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The earlier of two times: the earliest end of a running job and, if jobs wait, the next
    /// cycle that the scheduler requested. None if there is neither.
    pub fn next(&self) -> Option<Time> {
        let end = self.ends.peek().map(|Reverse((end, _))| *end);
        let next_cycle = if self.waiting > 0 {
            self.next_cycle
        } else {
            None
        };
        end.into_iter().chain(next_cycle).min()
    }

    /// Advances time to `now`. Ends and charges the jobs that finish at `now` or earlier.
    pub fn advance_to(&mut self, now: Time) {
        self.now = now;
        while let Some(Reverse((_, job))) = self
            .ends
            .peek()
            .copied()
            .filter(|Reverse((end, _))| *end <= now)
        {
            self.ends.pop();
            self.state.vacate(job);
            if let Some(charge) = self
                .state
                .usage()
                .open(job)
                .map(|open| open.clone().until(now))
            {
                self.state.make(&Change::Charged(job, Cow::Owned(charge)));
            }
        }
    }

    /// Submits a job. Among jobs of equal priority, the job with the lower number comes first.
    pub fn submit(&mut self, job: JobId, class: &ClassKey) {
        self.state.enqueue_as(job, job.number, class, self.now);
        self.waiting += 1;
    }

    /// Runs a scheduling cycle and starts the jobs of its plan. `run` returns the run time of a
    /// job. Returns None, without a cycle, if no job waits.
    pub fn run_cycle(&mut self, run: impl Fn(JobId) -> Span) -> Option<Plan> {
        if self.waiting == 0 {
            return None;
        }
        self.state.prioritise(&self.policy, self.now);
        let plan = cycle::run_again(&self.state, &self.policy, self.now, &mut self.cache);
        self.state.take_over(&plan);
        for start in &plan.starts {
            self.charge(start);
            self.state
                .occupy(start.job, &start.shares, start.exclusive, start.until);
            self.ends
                .push(Reverse((self.now + run(start.job), start.job)));
        }
        self.waiting -= plan.starts.len();
        self.next_cycle = plan.next.filter(|next| *next > self.now);
        Some(plan)
    }

    /// Starts charging a job for its resources.
    fn charge(&mut self, start: &Start) {
        if let Some(charge) = self
            .state
            .charge_for(start, &self.policy.qualities, self.now)
        {
            self.state
                .make(&Change::Charged(start.job, Cow::Owned(charge)));
        }
    }
}
