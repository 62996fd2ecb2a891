//! Refusals of all jobs with the same request.
//!
//! Jobs with the same request have the same shape. Free resources only shrink within a cycle. A
//! request that does not fit will not fit later in the cycle. A job that delays a planned start
//! would also delay this start with a longer walltime. Therefore a refusal for lack of resources
//! holds for all jobs of the shape as soon as none of these jobs can get a planned start. A refusal
//! because of a planned start holds for all jobs of the shape if even the job with the shortest
//! walltime would delay that start.

use super::CycleState;
use crate::model::policy::Filling;
use crate::model::policy::site_time::SiteTime;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::cycle::feasibility;
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::placement::{place, shortage};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::request_groups::Members;
use crate::sched::view::shape::{ClassId, ClassKey, Shape};
use std::sync::Arc;

impl CycleState<'_> {
    /// Whether all jobs with the same request may be refused together for lack of resources. This
    /// is so if the cycle plans no more starts, and only free resources decide whether a job
    /// starts. (Jobs in stopped queues get their own verdict at the end of the cycle:
    /// [`crate::sched::cycle::throttling::add_stopped_queue_verdicts`].)
    pub fn may_refuse_together(&self) -> bool {
        let backfill = self.backfill();
        self.booking_budget.has_none_left()
            && !self.refusals.distinguishes_classes
            && self.state.windows.is_empty()
            && self.state.site_time == SiteTime::default()
            && self.state.has_no_outstanding_answers()
            && backfill.consider == 0
            && backfill.policy != Filling::Preempt
    }

    /// Refuses all jobs with the same request if the request does not fit now. Returns false if
    /// the request fits, or if some of the jobs can be refused for other reasons than resources.
    pub fn refuse_together(&mut self, members: &Members, cache: &mut CycleCache) -> bool {
        let shape = &members.shape;
        if !members.wait_only_for_resources() {
            return false;
        }
        let cached = cache.recall(&self.space, shape);
        let Some(reason) = cached.or_else(|| self.shortage(shape, cache)) else {
            return false;
        };
        self.count_considered();
        self.plan
            .verdicts
            .push((ClassId::of_shape(shape.id), reason));
        true
    }

    /// Why a request does not fit, now or ever; None if it fits.
    fn shortage(&mut self, shape: &Shape, cache: &mut CycleCache) -> Option<Arc<Reason>> {
        let misfit = place::misfit(&self.space, shape)?;
        let feasible = feasibility::check(shape, self);
        let reason = Arc::new(
            feasible
                .err()
                .unwrap_or_else(|| shortage::now(&self.space, shape, misfit)),
        );
        cache.store_reason(&self.space, shape, &reason);
        Some(reason)
    }

    /// Whether this refusal of a job holds for all jobs with the same request.
    pub fn is_for_all(&mut self, candidate: Candidate, reason: &Arc<Reason>) -> bool {
        let shape = &candidate.class.shape;
        // M10: a job that must avoid the hosts of a failed start has a shape that no other job
        // shares (`resolution::elsewhere`).
        let is_elsewhere = shape.failed_hosts.is_some();
        match **reason {
            _ if is_elsewhere => false,
            _ if candidate.class.reservation.is_some() || self.refusals.distinguishes_classes => {
                false
            }
            _ if reason.is_never() => true,
            Reason::Limited(_) => false,
            Reason::WouldDelayBooking { holder, .. } if holder != candidate.job => {
                self.booking_budget.has_none_left() && self.would_all_delay(candidate.class, reason)
            }
            _ => {
                let is_hopeless = self.refusals.unplannable.contains(&shape.id)
                    || self.booking_budget.has_none_left();
                is_hopeless && self.refusals.refused_shapes.contains_key(&shape.id)
            }
        }
    }

    /// Whether even the shortest job of this shape would delay a planned start.
    fn would_all_delay(&mut self, class: &ClassKey, reason: &Arc<Reason>) -> bool {
        if !self.state.windows.is_empty() || self.backfill().policy == Filling::Preempt {
            return false;
        }
        let shortest = self
            .state
            .alike
            .shortest(class, self.policy.default_walltime);
        let mut refused = self.span_of(class);
        if shortest < refused && !self.passes(&class.shape, self.now + shortest) {
            refused = shortest;
        }
        self.refusals
            .delaying
            .insert(class.shape.id, (refused, reason.clone()));
        refused <= shortest
    }

    /// Whether a job of this shape that starts now and ends at `until` would delay no planned
    /// start.
    fn passes(&mut self, shape: &Shape, until: Time) -> bool {
        let calendar = &mut self.calendar;
        calendar.ends_before_bookings(until)
            || calendar
                .fit_without_delay(&self.space, shape, until)
                .is_some()
            || calendar.delayed_booking(shape, until).is_none()
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::sched::fixture::{TestCluster, cluster};
    use std::sync::Arc;

    /// 8 CPUs: 2 are free now, 4 at 100, and 8 at 200. Job 2 has a planned start at 100, and job 3
    /// at 200.
    fn promised() -> TestCluster {
        let mut fixture = cluster("1 x ncpus=8").running(8, "select=1:ncpus=2", "n1", 100);
        fixture.policy.backfill.depth = 2;
        let fixture = fixture.running(9, "select=1:ncpus=4", "n1", 200);
        fixture
            .queued(2, "select=1:ncpus=3 walltime=50")
            .queued(3, "select=1:ncpus=8 walltime=50")
    }

    /// G4: a job that ends after the first planned start may start if it delays no planned start.
    #[test]
    fn a_refused_walltime_blocks_no_job_that_delays_no_booking() {
        assert_eq!(promised().booked(), "2 at 100 on n1; 3 at 200 on n1");
        let backfilled =
            |id: u64, walltime: u64| (id, format!("select=1:ncpus=1 walltime={walltime}"));
        let with = |backfilled: &[(u64, String)]| {
            backfilled
                .iter()
                .fold(promised(), |fixture, (id, text)| fixture.queued(*id, text))
        };
        let fixture = with(&[backfilled(4, 201), backfilled(5, 200), backfilled(6, 300)]);
        assert_eq!(fixture.starts(), "5 on n1");
        assert_eq!(
            [4, 6].map(|job| fixture.reason(job).unwrap().code().to_string()),
            ["would_delay_booking"; 2]
        );
        assert_eq!(with(&[backfilled(4, 300), backfilled(5, 201)]).starts(), "");
    }

    /// G5: jobs that lack resources are refused together, except those that an earlier stage
    /// refuses for another reason.
    #[test]
    fn jobs_with_an_earlier_reason_are_not_refused_for_resources() {
        let fixture = cluster("1 x ncpus=8").running(1, "select=1:ncpus=8", "n1", 600);
        let fixture = fixture
            .queued(2, "select=1:ncpus=8")
            .queued(3, "select=1:ncpus=2");
        let fixture = fixture.queued(4, "select=1:ncpus=3 not_before=9000");
        let mut fixture = fixture
            .queued(5, "select=1:ncpus=4 array=1-5%2")
            .begun(5, 0, 1);
        let mut inside = fixture.job(6, "select=1:ncpus=5");
        Arc::make_mut(&mut inside.spec).reservation = Some("R1".to_string());
        fixture.state.enqueue(&inside);
        let plan = fixture.plan();
        let code = |job| fixture.state.verdict(&plan, job).unwrap().code();
        assert_eq!(
            [2, 3, 4].map(|job| code(JobId::job(job))),
            ["amount.ncpus", "amount.ncpus", "deferred"]
        );
        assert_eq!(
            [code(JobId::array(5)), code(JobId::job(6))],
            ["array_limit", "not_open"]
        );
    }
}
