//! The free resources over time, without planned starts. Finds the earliest time at which a request
//! fits.
//!
//! A running job is expected to release its resources at the end of its walltime. Overdue jobs,
//! preemptible backfilled jobs, and preempted jobs that may not run to their end are expected to
//! release their resources almost immediately (after `OVERDUE`).
//!
//! The search does not try the end of every job. It doubles the number of ended jobs until the
//! request fits, and then bisects.

use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::amounts::Amounts;
use crate::sched::placement::availability_map::{AvailabilityMap, JobAmounts};
use crate::sched::placement::place;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::current_bookings::OVERDUE;
use crate::sched::view::node_access::JobOwner;
use crate::sched::view::shape::Shape;
use crate::sched::view::shared_hosts::{self, SharedPlace};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

/// The free resources at one time. [`Timeline`] does not subtract the resources of planned starts.
#[derive(Clone)]
pub struct LaterResources<'s> {
    /// The time.
    pub at: Time,
    /// The resources that are free at that time.
    pub space: AvailabilityMap<'s>,
    /// The number of jobs that have ended by that time.
    ended: usize,
}

/// The known ends of running jobs and of jobs started in this cycle.
#[derive(Clone)]
pub struct Timeline<'s> {
    state: &'s ClusterState,
    now: Time,
    /// The jobs started in this cycle, with their ends.
    started: BTreeMap<JobId, (JobAmounts, Time)>,
    /// The known ends, soonest first.
    ends: Vec<(Time, JobId)>,
    /// The ends of jobs started in this cycle that are not in `ends` yet.
    unsorted_ends: Vec<(Time, JobId)>,
    /// For each resource that subjobs share on a host: the end of the subjob that uses the resource
    /// last, and this subjob. Contains only subjobs that this cycle has started.
    last_users: BTreeMap<SharedPlace, (Time, JobId)>,
    /// The amounts that a job releases on a node at its end, if they differ from the amounts that
    /// it uses. They differ because of resources that subjobs share.
    inherited: BTreeMap<(JobId, NodeIx), Amounts>,
}

impl<'s> Timeline<'s> {
    /// A timeline with all running jobs and the jobs that this cycle has started.
    pub fn new(
        state: &'s ClusterState,
        started: BTreeMap<JobId, (JobAmounts, Time)>,
        now: Time,
    ) -> Timeline<'s> {
        let new = started
            .iter()
            .map(|(&job, &(_, until))| (until, job))
            .filter(|&(until, _)| until != Time::NEVER);
        let endless = state.jobs_counted_as_ending().filter(|job| {
            let running = state.running.get(job);
            running.is_some_and(|running| running.is_endless())
        });
        let mut ends = Vec::with_capacity(state.ends.len() + started.len());
        ends.extend(&state.ends);
        ends.extend(new.chain(endless.map(|job| (now, job))));
        for (until, job) in &mut ends {
            *until = state.planned_end(*job, *until, now);
        }
        ends.sort_unstable();
        let jobs: Vec<JobId> = started.keys().copied().collect();
        let (unsorted_ends, last_users, inherited) = Default::default();
        let mut timeline = Timeline {
            state,
            now,
            started,
            ends,
            unsorted_ends,
            last_users,
            inherited,
        };
        for job in jobs {
            timeline.inherit(job);
        }
        timeline
    }

    /// Adds a started job.
    pub fn add_started(&mut self, job: JobId, claim: JobAmounts, until: Time) {
        self.started.insert(job, (claim, until));
        self.inherit(job);
        if until != Time::NEVER {
            self.unsorted_ends
                .push((until.max(self.now + OVERDUE), job));
        }
    }

    /// If a started job ends later than all subjobs with which it shares a resource, the started
    /// job releases this resource at its end.
    fn inherit(&mut self, job: JobId) {
        let Some((claim, until)) = self.started.get(&job) else {
            return;
        };
        let (joins, until) = (claim.joins.clone(), *until);
        for (place, ix) in joins {
            let shared = &self.state.cluster.shared;
            let last_user = match self.last_users.get(&place) {
                Some(last_user) => Some(*last_user),
                None => shared.get(&place).and_then(shared_hosts::last),
            };
            if last_user.is_some_and(|(end, _)| end >= until) {
                continue;
            }
            if let Some((_, before)) = last_user {
                self.transfer(before, (job, ix), &place);
            }
            self.last_users.insert(place, (until, job));
        }
    }

    /// Transfers a shared resource from the last user `before` to the started job on node `ix`.
    fn transfer(
        &mut self,
        before: JobId,
        (job, ix): (JobId, NodeIx),
        (_, host, index): &SharedPlace,
    ) {
        let (mut passed, mut own) = (BTreeMap::new(), None);
        self.holds_of(before, |at, taken, _| {
            drop(passed.insert((before, at), Amounts::from(taken)))
        });
        self.holds_of(job, |at, taken, _| {
            own = own
                .take()
                .or_else(|| (at == ix).then(|| Amounts::from(taken)))
        });
        let Some(mut own) = own else { return };
        passed.retain(|&(_, at), _| self.state.cluster.node(at).host == *host);
        for taken in passed.values_mut() {
            own[*index] += std::mem::take(&mut taken[*index]);
        }
        self.inherited.extend(passed);
        self.inherited.insert((job, ix), own);
    }

    /// Sorts the ends of started jobs into the known ends. Must be called before any query.
    pub fn sort_ends(&mut self) {
        if !self.unsorted_ends.is_empty() {
            self.ends.append(&mut self.unsorted_ends);
            // Both parts are (nearly) sorted, so the stable sort merges them quickly.
            self.ends.sort();
        }
    }

    /// The state at the present time. `space` is the map of the resources that are free now.
    pub fn at_present(&self, space: &AvailabilityMap<'s>) -> LaterResources<'s> {
        LaterResources {
            at: self.now,
            space: space.clone(),
            ended: 0,
        }
    }

    /// Advances `later` to the time `at`, which is not earlier.
    pub fn advance(&self, later: &mut LaterResources<'s>, at: Time) {
        let ended = self.ends.partition_point(|&(end, _)| end <= at);
        self.shift(&mut later.space, later.ended, ended);
        (later.at, later.ended) = (at, ended);
    }

    /// The next known end after a time; None if there is none.
    pub fn next_end(&self, time: Time) -> Option<Time> {
        self.ends
            .get(self.ends.partition_point(|&(end, _)| end <= time))
            .map(|&(end, _)| end)
    }

    /// The nodes of the jobs that have ended by the time of `later`, in node order.
    pub fn released(&self, later: &LaterResources) -> BTreeSet<NodeIx> {
        let mut nodes = BTreeSet::new();
        for &(_, job) in &self.ends[..later.ended] {
            self.holds_of(job, |ix, _, _| nodes.extend([ix]));
        }
        nodes
    }

    /// The resources at the earliest time, now or later, at which a request fits without regard to
    /// planned starts. If it never fits, the error is the map of resources after all known ends.
    pub fn earliest(
        &self,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
    ) -> Result<LaterResources<'s>, Box<AvailabilityMap<'s>>> {
        let mut later = self.at_present(space);
        if place::fits(space, shape) {
            return Ok(later);
        }
        let (mut ended, mut step) = (0, 1);
        loop {
            let further = self.include_simultaneous_ends(ended + step);
            self.shift(&mut later.space, ended, further);
            if place::fits(&later.space, shape) {
                return Ok(self.bisect(later.space, ended, further, shape));
            }
            if further == self.ends.len() {
                return Err(Box::new(later.space));
            }
            (ended, step) = (further, step * 2);
        }
    }

    /// Finds the smallest number of ends after which a request fits, between `too_few` and
    /// `enough`. `space` is the map after `enough` ends.
    fn bisect(
        &self,
        mut space: AvailabilityMap<'s>,
        mut too_few: usize,
        mut enough: usize,
        shape: &Shape,
    ) -> LaterResources<'s> {
        let mut ended = enough;
        loop {
            let middle = self.include_simultaneous_ends(too_few + ((enough - too_few) / 2).max(1));
            let middle = if middle < enough {
                middle
            } else {
                self.include_simultaneous_ends(too_few + 1)
            };
            if middle >= enough {
                self.shift(&mut space, ended, enough);
                return LaterResources {
                    at: self.ends[enough - 1].0,
                    space,
                    ended: enough,
                };
            }
            self.shift(&mut space, ended, middle);
            ended = middle;
            if place::fits(&space, shape) {
                enough = middle
            } else {
                too_few = middle
            }
        }
    }

    /// The number of ends up to the time of the `count`th end, including all ends at that time.
    fn include_simultaneous_ends(&self, count: usize) -> usize {
        match self.ends.get(count.max(1) - 1) {
            Some(&(time, _)) => self.ends.partition_point(|&(end, _)| end <= time),
            None => self.ends.len(),
        }
    }

    /// Changes a map from the state after `from` ends to the state after `to` ends.
    fn shift(&self, space: &mut AvailabilityMap, from: usize, to: usize) {
        for &(_, job) in self.ends.get(from..to).unwrap_or(&[]) {
            self.holds_of(job, |ix, taken, owner| space.dismiss(ix, taken, owner));
        }
        for &(_, job) in self.ends.get(to..from).unwrap_or(&[]) {
            self.holds_of(job, |ix, taken, owner| space.admit(ix, taken, owner));
        }
    }

    /// Calls `each` with each node of a running or started job, the amounts that the job releases
    /// on the node, and the owner.
    fn holds_of(&self, job: JobId, mut each: impl FnMut(NodeIx, &[i64], JobOwner)) {
        let mut each = |ix: NodeIx, taken: &[i64], owner| {
            let inherited = self.inherited.get(&(job, ix));
            each(ix, inherited.map_or(taken, |taken| taken), owner);
        };
        if let Some((claim, _)) = self.started.get(&job) {
            for (&ix, taken) in &claim.holds {
                each(ix, taken, claim.owner);
            }
        } else if let Some(running) = self.state.running.get(&job) {
            for &ix in &running.nodes {
                if let Some(hold) = self.state.cluster.node(ix).tenants.get(&job) {
                    each(ix, &hold.taken, hold.owner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::time::Time;
    use crate::sched::fixture::cluster;

    #[test]
    fn a_start_is_planned_for_the_first_end_that_frees_enough() {
        for wanted in 1..=9 {
            let mut fixture = cluster("9 x ncpus=1");
            for job in 1..=9 {
                fixture = fixture.running(
                    job,
                    "select=1:ncpus=1",
                    &format!("n{job}"),
                    100 * job as i64,
                );
            }
            let fixture = fixture.queued(10, &format!("select={wanted}:ncpus=1"));
            assert_eq!(fixture.plan().bookings[0].at, Time(wanted * 100_000));
        }
    }

    #[test]
    fn all_jobs_that_end_at_the_same_time_count() {
        let fixture = cluster("3 x ncpus=1")
            .running(1, "select=1:ncpus=1", "n1", 50)
            .running(2, "select=1:ncpus=1", "n2", 50)
            .running(3, "select=1:ncpus=1", "n3", 60);
        assert_eq!(
            fixture.queued(4, "select=2:ncpus=1").booked(),
            "4 at 50 on n1,n2"
        );
    }

    #[test]
    fn no_start_is_planned_for_the_end_of_an_endless_job() {
        let fixture = cluster("1 x ncpus=1").running(1, "select=1:ncpus=1", "n1", i64::MAX);
        let fixture = fixture.queued(2, "select=1:ncpus=1");
        assert_eq!(fixture.booked(), "");
        assert_eq!(fixture.reason(2).unwrap().code(), "amount.ncpus");
    }

    #[test]
    fn a_start_is_planned_for_the_end_of_a_job_started_in_this_cycle() {
        let fixture = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=4 walltime=60")
            .queued(2, "select=1:ncpus=4");
        assert_eq!(
            (fixture.starts().as_str(), fixture.booked().as_str()),
            ("1 on n1", "2 at 60 on n1")
        );
    }
}
