//! Planned starts: the first blocked jobs in queue order get one each, up to the reservation depth.
//!
//! Example: 16 CPUs, 8 of them in use until 1:00. Job 2 requests 16; its planned start is 1:00 (the
//! *shadow time*). Job 3 requests 8 for 30 minutes: it ends before 1:00 and starts. Job 4 requests
//! 8 for two hours and would still run at 1:00: it waits, though it fits now. With a 17th CPU, a
//! job of one CPU could start beside the planned start, however long it is. (Lifka 1995, The
//! ANL/IBM SP scheduling system.)
//!
//! That is a depth of one. With a depth of two, job 4 gets a planned start as well, and later jobs
//! start only if they delay neither (M31). QOS groups (M33) and queues (I18) may have a depth of
//! their own.

use super::calendar::{Calendar, CalendarEntry};
use super::reservation_access::Windows;
use crate::model::job_id::JobId;
use crate::model::policy::{Backfill, BookingRetention, Filling};
use crate::model::time::{Span, Time};
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::resolution::Resolved;
use crate::sched::view::current_bookings::OVERDUE;
use crate::sched::view::plan::{Booking, Plan, SlipCause};
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

impl Backfill {
    /// Whether the policy plans starts at all (M32, X3).
    pub(in crate::sched) fn promises(&self) -> bool {
        !matches!(self.policy, Filling::None | Filling::Skip)
            && self.keep != BookingRetention::Never
    }

    /// Whether a planned start outlives its cycle (M32).
    fn keeps(&self) -> bool {
        self.promises() && (self.depth == Backfill::ALL || self.keep == BookingRetention::Highest)
    }
}

/// The planned starts that a cycle may still give.
pub struct BookingBudget<'s> {
    policy: &'s Backfill,
    state: &'s ClusterState,
    /// The remaining number in each pool: QOS groups, queues, and last the default pool.
    left: Vec<u32>,
    /// The queues with a pool of their own.
    queues: Vec<&'s str>,
    /// The first blocked job.
    pub blocked: Option<JobId>,
    /// Planned starts of earlier cycles, by class, until their jobs are considered.
    unvisited: BTreeMap<ClassId, BTreeSet<JobId>>,
    /// Whether resources have become free unexpectedly: jobs may start before their planned start.
    has_freed_resources: bool,
    now: Time,
}

impl<'s> BookingBudget<'s> {
    /// The budget of the policy, with the kept planned starts of earlier cycles renewed. Those of
    /// classes for which `may_run` is false are dropped.
    pub fn open(
        policy: &'s Backfill,
        (state, resolved): (&'s ClusterState, &'s Resolved),
        calendar: &mut Calendar<'s>,
        (space, windows): (&AvailabilityMap<'s>, &Windows<'s>),
        now: Time,
        may_run: impl FnMut(&ClassKey) -> bool,
    ) -> BookingBudget<'s> {
        let with_depth = state
            .queues
            .values()
            .filter_map(|queue| Some((queue.name.as_str(), queue.backfill_depth?)));
        let (queues, of_queues): (Vec<&str>, Vec<u32>) = with_depth.unzip();
        let groups = policy.groups.iter().map(|group| group.depth);
        let left = groups.chain(of_queues).chain([policy.depth]);
        let left = left
            .map(|depth| if policy.promises() { depth } else { 0 })
            .collect();
        let has_freed_resources = state.bookings.has_freed_resources(now);
        let mut promises = BookingBudget {
            policy,
            state,
            left,
            queues,
            blocked: None,
            unvisited: BTreeMap::new(),
            has_freed_resources,
            now,
        };
        if policy.keeps()
            || state
                .bookings
                .promises()
                .any(|booking| booking.held_until.is_some())
        {
            promises.renew(calendar, resolved, (space, windows), now, may_run);
        }
        promises
    }

    fn renew(
        &mut self,
        calendar: &mut Calendar<'s>,
        resolved: &'s Resolved,
        (space, windows): (&AvailabilityMap<'s>, &Windows<'s>),
        now: Time,
        mut may_run: impl FnMut(&ClassKey) -> bool,
    ) {
        let state = self.state;
        let mut kept: Vec<&Booking> = state
            .bookings
            .promises()
            .filter(|booking| self.policy.keeps() || state.held_until(booking.job, now).is_some())
            .collect();
        kept.sort_by_key(|booking| (booking.at, booking.job));
        for booking in kept {
            // A class at a limit now would not start at its planned start.
            let class = state
                .waiting_class(booking.job)
                .filter(|class| class.id == booking.class && may_run(class));
            let is_renewed = class.is_some_and(|class| {
                let class = resolved.of(class);
                // Preempted jobs end in the next cycle at the earliest.
                let soonest = if booking.held_until.is_some() {
                    now + OVERDUE
                } else {
                    now
                };
                let promise = CalendarEntry {
                    at: booking.at.max(soonest),
                    span: Span(booking.until.0.saturating_sub(booking.at.0)),
                    shape: &class.shape,
                    nodes: booking.nodes.clone(),
                };
                calendar.renew(space, windows, booking.job, (class, promise))
            });
            if is_renewed {
                self.unvisited
                    .entry(booking.class)
                    .or_default()
                    .insert(booking.job);
            }
            // Its resources are free: other jobs may start earlier.
            self.has_freed_resources |= !is_renewed;
        }
    }

    /// Whether a job must wait for its planned start `at`, because no resources have become free
    /// unexpectedly (compression). Overdue jobs are assumed to end at the next moment, so a start
    /// planned for then is tried now.
    pub fn must_wait(&self, at: Time, now: Time) -> bool {
        at > now + OVERDUE && !self.has_freed_resources
    }

    /// Notes that a job is considered, which may have had a planned start.
    pub fn visit(&mut self, job: JobId, class: &ClassKey) {
        if let Some(jobs) = self.unvisited.get_mut(&class.id) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.unvisited.remove(&class.id);
            }
        }
    }

    /// Whether a class has a planned start for a job that is not considered yet: then a refusal of
    /// another of its jobs does not hold for the class.
    pub fn has_unconsidered(&self, class: &ClassKey) -> bool {
        self.unvisited.contains_key(&class.id)
    }

    /// Whether more jobs of a class are considered after one has got a planned start.
    pub fn considers_more(&self, class: &ClassKey) -> bool {
        self.left[self.pool(class)] > 0 || !self.unvisited.is_empty()
    }

    /// Takes a planned start from the pool of a class; false if none is left.
    pub fn take(&mut self, class: &ClassKey) -> bool {
        let pool = self.pool(class);
        let is_left = self.left[pool] > 0;
        self.left[pool] -= u32::from(is_left);
        is_left
    }

    /// Returns a planned start to its pool: no start could be computed.
    pub fn give_back(&mut self, class: &ClassKey) {
        let pool = self.pool(class);
        self.left[pool] = self.left[pool].saturating_add(1);
    }

    /// Whether a job has a planned start of an earlier cycle that is kept.
    pub fn has_kept_booking(&self, job: JobId) -> bool {
        let is_kept = self.policy.keeps() && self.state.bookings.promise(job).is_some();
        is_kept || self.is_preemptor(job)
    }

    /// Whether jobs are being preempted for any job.
    pub fn has_preemptors(&self) -> bool {
        let mut promised = self
            .state
            .bookings
            .promises()
            .filter(|booking| booking.held_until.is_some());
        promised.any(|booking| self.is_preemptor(booking.job))
    }

    /// Whether jobs are being preempted for a job: it starts as soon as it fits.
    pub fn is_preemptor(&self, job: JobId) -> bool {
        self.state.held_until(job, self.now).is_some()
    }

    /// Whether no planned start is left to give or to renew.
    pub fn any_given(&self) -> bool {
        self.unvisited.is_empty() && self.left.iter().all(|&left| left == 0)
    }

    /// Whether a job is blocked and the default pool is spent.
    pub fn is_spent(&self) -> bool {
        self.blocked.is_some() && self.left.last() == Some(&0)
    }

    /// The pool of a class: by its QOS (M33), else by its queue (I18), else the default.
    fn pool(&self, class: &ClassKey) -> usize {
        let groups = &self.policy.groups;
        let qos = class.who.qos.as_ref();
        if let Some(group) =
            qos.and_then(|qos| groups.iter().position(|group| group.qos.contains(qos)))
        {
            return group;
        }
        match self.queues.binary_search(&class.who.queue.as_str()) {
            Ok(queue) => groups.len() + queue,
            Err(_) => self.left.len() - 1,
        }
    }
}

/// The booking of a job, with the change from its earlier planned start.
pub fn booking(
    plan: &Plan,
    windows: &Windows,
    (job, class): (JobId, &ClassKey),
    promise: &CalendarEntry,
    state: &ClusterState,
) -> Booking {
    let had = state.bookings.promise(job);
    let before = had.filter(|before| before.at != promise.at);
    Booking {
        job,
        class: class.id,
        at: promise.at,
        until: promise.at + promise.span,
        nodes: promise.nodes.clone(),
        was: before.map(|before| before.at),
        cause: before
            .filter(|before| promise.at > before.at)
            .and_then(|before| cause(state, plan, windows, (job, class), before)),
        held_until: state.held_until(job, plan.now),
    }
}

/// Why a planned start became later. None for a preemptor: its start moves with the clock until its
/// victims have ended.
fn cause(
    state: &ClusterState,
    plan: &Plan,
    windows: &Windows,
    (job, class): (JobId, &ClassKey),
    before: &Booking,
) -> Option<SlipCause> {
    let cluster = &state.cluster;
    let mut nodes = before.nodes.iter();
    let lost = nodes.find(|node| cluster.find(node).is_none_or(|ix| !cluster.node(ix).usable));
    if let Some(node) = lost {
        return Some(SlipCause::NodeLost { node: node.clone() });
    }
    if let Some(window) = windows.in_the_way(class, &before.nodes, before.at, before.until) {
        return Some(SlipCause::Window {
            id: window.id.clone(),
        });
    }
    if let Some(&(_, job)) = state.ends.first().filter(|&&(until, _)| until <= plan.now) {
        return Some(SlipCause::Overdue { job });
    }
    if before.at <= plan.now + OVERDUE && state.held_until(job, plan.now).is_some() {
        return None;
    }
    let started = plan.starts.iter().map(|start| start.job);
    let mut ahead = started.chain(plan.bookings.iter().map(|booking| booking.job));
    let overtaking = ahead.find(|job| state.bookings.promise(*job).is_none());
    Some(overtaking.map_or(SlipCause::Changed, |by| SlipCause::Overtaken { by }))
}

#[cfg(test)]
mod tests;
