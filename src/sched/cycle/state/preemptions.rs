//! The decisions of a cycle about running jobs: victims, and resources held for preemptors.

use super::CycleState;
use crate::model::job::preemption::PreemptAction;
use crate::model::job_id::JobId;
use crate::model::policy::{self, Policy};
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::cycle::limits::LimitCounters;
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::place::Placement;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::current_bookings::{KEPT, OVERDUE};
use crate::sched::view::plan::{Booking, Preemption, Start};
use crate::sched::view::shape::ClassKey;
use crate::sched::view::starvation::Starving;
use std::collections::BTreeSet;

impl<'s> CycleState<'s> {
    /// The policy of the cycle.
    pub fn policy(&self) -> &'s Policy {
        self.policy
    }

    /// The preemption policy.
    pub fn preemption(&self) -> &'s policy::PreemptionPolicy {
        &self.policy.preemption
    }

    /// The counters of the limits on running jobs; None without limits.
    pub fn limit_counters(&self) -> Option<&LimitCounters<'s>> {
        self.limits.as_ref()
    }

    /// The verdict of a class: why the jobs of the class do not start. None if the cycle has not
    /// refused them.
    pub fn verdict(&self, class: &ClassKey) -> Option<&Reason> {
        self.plan.verdict(class)
    }

    /// The planned starts so far.
    pub fn bookings(&self) -> &[Booking] {
        &self.plan.bookings
    }

    /// Removes from `space` the resources that reservations deny to a job of this class that starts
    /// now. `space` is a map without the running jobs `gone`.
    pub fn exclude_reserved(
        &self,
        space: &mut AvailabilityMap<'s>,
        class: &ClassKey,
        gone: &BTreeSet<JobId>,
    ) {
        self.windows
            .narrow_without(gone, space, class, (self.now, self.end_of(class)));
    }

    /// Whether jobs may be preempted for this waiting job. If the site has hooks, they must have
    /// accepted the start of the waiting job first.
    pub fn may_preempt_for(&self, job: JobId) -> bool {
        self.state
            .permits
            .as_ref()
            .is_none_or(|permits| permits.contains(&job))
    }

    /// Requests a decision of the site's hooks about a job's start, before other jobs are preempted
    /// for this job.
    pub fn request_hook_decision(&mut self, job: JobId, placement: &Placement) {
        let picks = placement.picks.iter();
        let nodes: BTreeSet<String> = picks
            .map(|&(ix, _)| self.state.cluster.node(ix).name.clone())
            .collect();
        self.plan.asks.push((job, nodes.into_iter().collect()));
    }

    /// Preempts backfilled jobs for the due planned start of `job`. If the site's hooks have not
    /// accepted this start, requests their decision instead.
    pub(super) fn reclaim_for_booking(&mut self, job: JobId, preemptions: Vec<Preemption>) {
        if preemptions.is_empty() {
            return;
        }
        if self.may_preempt_for(job) {
            self.hold_reclaimed_resources(job, &preemptions);
            self.plan.preempts.extend(preemptions);
        } else {
            let booking = self
                .plan
                .bookings
                .iter()
                .rev()
                .find(|booking| booking.job == job);
            let nodes: BTreeSet<&String> = booking
                .into_iter()
                .flat_map(|booking| booking.nodes.iter())
                .collect();
            self.plan
                .asks
                .push((job, nodes.into_iter().cloned().collect()));
        }
    }

    /// Holds the resources of preempted backfilled jobs for the planned start.
    fn hold_reclaimed_resources(&mut self, job: JobId, preemptions: &[Preemption]) {
        let mut bookings = self.plan.bookings.iter_mut().rev();
        if let Some(booking) = bookings.find(|booking| booking.job == job)
            && !preemptions.is_empty()
        {
            booking.held_until = Some(self.now + KEPT);
        }
    }

    /// The jobs preempted in this cycle, each with the action that preempts it.
    pub fn preempted(&self) -> impl Iterator<Item = (JobId, PreemptAction)> + '_ {
        self.plan
            .preempts
            .iter()
            .map(|preemption| (preemption.job, preemption.action))
    }

    /// Adds preemptions to the plan.
    pub fn preempt(&mut self, preemptions: impl IntoIterator<Item = Preemption>) {
        self.plan.preempts.extend(preemptions);
    }

    /// Holds the victims' resources for the preemptor, ahead of all other planned starts. The
    /// preemptor starts as soon as these resources are free.
    pub fn hold_for_preemptor(
        &mut self,
        candidate: Candidate<'s>,
        placement: &Placement,
        gone: &[(JobId, PreemptAction)],
    ) {
        let Candidate { job, class, .. } = candidate;
        let picks = placement.picks.iter();
        let nodes = picks.map(|&(ix, _)| self.state.cluster.node(ix).name.clone());
        let booked = self
            .plan
            .bookings
            .iter()
            .find(|booking| booking.job == job)
            .map(|booking| booking.at);
        let freed = self.latest_end(gone);
        let at = booked
            .map_or(freed, |booked| booked.min(freed))
            .max(self.now + OVERDUE);
        self.plan.bookings.retain(|booking| booking.job != job);
        self.plan.bookings.push(Booking {
            job,
            class: class.id,
            at,
            until: at + self.span_of(class),
            nodes: nodes.collect(),
            was: None,
            cause: None,
            held_until: Some(self.now + KEPT),
        });
    }

    /// The latest known end of the victims that are allowed to finish; `now` if there is none,
    /// because all other actions take effect immediately.
    fn latest_end(&self, gone: &[(JobId, PreemptAction)]) -> Time {
        let finishing = gone.iter().filter(|(_, action)| action.waits_for_end());
        let ends = finishing
            .filter_map(|(job, _)| self.state.running.get(job))
            .map(|running| running.until);
        ends.filter(|until| *until != Time::NEVER)
            .max()
            .unwrap_or(self.now)
    }

    /// Schedules a cycle for the time at which the first resources held for a preemptor are
    /// released. If resources are held for a preemptor that this cycle neither starts nor books,
    /// the cycle is scheduled 1 ms from now, because these resources are free again.
    pub fn schedule_end_of_held_resources(&mut self) {
        let forfeited = self.state.bookings.promises().any(|booking| {
            booking.held_until.is_some()
                && !self.is_planned(booking.job)
                && self.state.held_until(booking.job, self.now).is_some()
        });
        let kept = self.plan.bookings.iter();
        let next = kept.filter_map(|booking| booking.held_until).min();
        let next = if forfeited {
            next.into_iter().chain([self.now + Span(1)]).min()
        } else {
            next
        };
        if let Some(time) = next {
            self.plan.request_cycle(time);
        }
    }

    /// Whether this cycle starts or books a job.
    fn is_planned(&self, job: JobId) -> bool {
        let plan = &self.plan;
        plan.bookings.iter().any(|booking| booking.job == job)
            || plan.starts.iter().any(|start| start.job == job)
    }

    /// Requests another cycle at `time`, but not before 1 ms from now.
    pub fn schedule_cycle_at(&mut self, time: Time) {
        self.plan.request_cycle(time.max(self.now + Span(1)));
    }

    /// The jobs preempted for a job (or for subjobs of this array), in this cycle or before.
    pub fn victims_for(&self, job: JobId) -> Vec<JobId> {
        let is_meant = |by: JobId| by == job || (job.is_array() && by.parent() == Some(job));
        let now = self
            .plan
            .preempts
            .iter()
            .filter(|preemption| preemption.by.is_some_and(is_meant))
            .map(|preemption| preemption.job);
        self.state
            .bookings
            .preempted_for(is_meant)
            .chain(now)
            .collect()
    }

    /// Whether this cycle preempts a job.
    pub fn is_preempted(&self, job: JobId) -> bool {
        self.plan
            .preempts
            .iter()
            .any(|preemption| preemption.job == job)
    }

    /// The starts so far.
    pub fn starts(&self) -> impl Iterator<Item = &Start> {
        self.plan.starts.iter()
    }

    /// The jobs preempted in this cycle.
    pub fn preempted_jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.plan.preempts.iter().map(|preemption| preemption.job)
    }

    /// The operations and pools below their fair share, and since when.
    pub fn starving(&self) -> &Starving {
        self.plan
            .starving
            .as_ref()
            .unwrap_or(&self.state.starvation)
    }

    /// Records the operations and pools below their fair share, and since when.
    pub fn set_starving(&mut self, starving: Starving) {
        self.plan.starving = Some(starving);
    }

    /// Keeps starving operations from preempting more jobs on a node before the time `until`.
    pub fn exempt_from_preemption(&mut self, ix: NodeIx, until: Time) {
        let name = self.state.cluster.node(ix).name.clone();
        if let Some(starving) = &mut self.plan.starving {
            starving.backoff.insert(name, until);
        }
    }
}
