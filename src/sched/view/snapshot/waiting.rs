//! How long candidates have waited, and how often jobs behind them in the queue order have started
//! before them.

use super::ClusterState;
use crate::model::job::Job;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::view::plan::Plan;
use crate::sched::view::shape::{ClassKey, Shape, ShapeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl ClusterState {
    /// Since when a candidate has waited; for a subjob, since when its array has waited.
    pub fn waits_since(&self, id: JobId) -> Option<Time> {
        self.wait(id).map(|wait| wait.since)
    }

    /// The eligible time of a candidate (I6); for a subjob, the eligible time of its array.
    pub fn eligible_time(&self, id: JobId, now: Time) -> Option<Span> {
        self.wait(id).map(|wait| wait.eligibility.at(now))
    }

    /// How often jobs behind a candidate in the queue order have started before it (M18), as far as
    /// `count_bypasses` counts them. For a subjob, how often they have started before its array. 0
    /// for any other job.
    pub fn bypassed(&self, id: JobId) -> u32 {
        self.wait(id).map_or(0, |wait| wait.bypassed)
    }

    /// Adds to the count of each waiting job the starts that pass the job in this plan (M18).
    ///
    /// Only the first blocked job and the jobs with a planned start are updated. Updating all
    /// blocked jobs would make the time of each start proportional to the length of the queue.
    pub(in crate::sched::view) fn count_bypasses(&mut self, plan: &Plan) {
        for (id, passed) in passed(plan) {
            let Some(&(class, rank)) = self.jobs.get(&id) else {
                continue;
            };
            let class = self.classes.get_mut(&class).map(Arc::make_mut);
            if let Some(waiting) = class.and_then(|class| class.get_mut((rank, id))) {
                waiting.wait.bypassed = waiting.wait.bypassed.saturating_add(passed);
            }
        }
    }

    /// The class key of a job. Waiting jobs with the same request share one [`Shape`], unless it
    /// contains properties of a single job.
    pub fn class_key(&self, job: &Job) -> ClassKey {
        let shape = self
            .alike
            .shape(ShapeId::of(job))
            .filter(|shape| shape.is_common())
            .cloned();
        ClassKey::with(
            job,
            shape.unwrap_or_else(|| Arc::new(Shape::new(job, &self.cluster.catalog))),
        )
    }
}

/// For each job, the number of starts that pass it in this plan. For an array, these are the starts
/// that pass the first of its subjobs with a planned start.
fn passed(plan: &Plan) -> BTreeMap<JobId, u32> {
    let mut passed: BTreeMap<JobId, u32> = BTreeMap::new();
    for (place, booking) in plan.bookings.iter().enumerate() {
        // Starts are in the order in which they were decided.
        let earlier = plan.starts.partition_point(|start| start.behind <= place);
        passed
            .entry(array_or_job(booking.job))
            .or_insert((plan.starts.len() - earlier) as u32);
    }
    let promised: BTreeSet<JobId> = passed.keys().copied().collect();
    for first in plan.starts.iter().filter_map(|start| start.passed) {
        let first = array_or_job(first);
        if !promised.contains(&first) {
            *passed.entry(first).or_default() += 1;
        }
    }
    passed
}

/// The array of a subjob; any other job itself.
fn array_or_job(id: JobId) -> JobId {
    id.parent().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::cluster;

    #[test]
    fn a_job_waits_since_its_etime_or_its_qtime() {
        let mut fixture = cluster("1 x ncpus=1").queued(1, "select=1:ncpus=1");
        let mut job = fixture.job(2, "select=1:ncpus=1");
        (job.life.qtime, job.life.etime) = (Time(3_000), Some(Time(7_000)));
        fixture.state.enqueue(&job);
        job.life.etime = None;
        job.id = JobId::job(3);
        fixture.state.enqueue(&job);
        let since = [1, 2, 3, 4].map(|id| {
            fixture
                .state
                .waits_since(JobId::job(id))
                .map(|since| since.0)
        });
        assert_eq!(since, [Some(0), Some(7_000), Some(3_000), None]);
    }
}
