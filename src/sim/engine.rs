//! A cluster in its own time: jobs are submitted to it, the scheduler starts them, they end.
//!
//! Time goes from one instant to the next at which something happens. All that happens at an
//! instant is done before the scheduler looks: first the ends, then the submissions; then there is
//! one cycle, and what it starts runs from that very instant. (Predictions that expire would come
//! between: jobs are planned with their user's estimate and cut at it, so none does.)

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

/// The cluster, and what is going to happen by itself.
#[derive(Debug)]
pub struct SimulatedCluster {
    state: ClusterState,
    policy: Policy,
    now: Time,
    ends: BinaryHeap<Reverse<(Time, JobId)>>,
    waiting: usize,
    /// When the scheduler wants to look again though nothing happens before.
    look: Option<Time>,
    memory: CycleCache,
}

impl SimulatedCluster {
    /// A cluster that this policy governs, before anything has happened.
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
            look: None,
            memory: CycleCache::default(),
        }
    }

    /// What the scheduler sees.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When something happens next, if nobody submits anything.
    pub fn next(&self) -> Option<Time> {
        let end = self.ends.peek().map(|Reverse((end, _))| *end);
        let look = if self.waiting > 0 { self.look } else { None };
        end.into_iter().chain(look).min()
    }

    /// Lets time pass until `now`, and ends the jobs that are over then.
    pub fn reach(&mut self, now: Time) {
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

    /// A job is submitted. Of equal rank the lower number goes first, and ranks are numbers here.
    pub fn submit(&mut self, job: JobId, class: &ClassKey) {
        self.state.enqueue_as(job, job.number, class, self.now);
        self.waiting += 1;
    }

    /// Has the scheduler decide, and starts what it starts; `run` tells how long a job will run.
    /// None when there is nothing to decide about.
    pub fn decide(&mut self, run: impl Fn(JobId) -> Span) -> Option<Plan> {
        if self.waiting == 0 {
            return None;
        }
        self.state.prioritise(&self.policy, self.now);
        let plan = cycle::run_again(&self.state, &self.policy, self.now, &mut self.memory);
        self.state.take_over(&plan);
        for start in &plan.starts {
            self.charge(start);
            self.state
                .occupy(start.job, &start.shares, start.exclusive, start.until);
            self.ends
                .push(Reverse((self.now + run(start.job), start.job)));
        }
        self.waiting -= plan.starts.len();
        self.look = plan.next.filter(|next| *next > self.now);
        Some(plan)
    }

    /// Charges a job for what it has from now on.
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
