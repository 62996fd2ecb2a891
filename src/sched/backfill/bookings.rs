//! Planned starts: each of the first blocked jobs in queue order gets a planned start. The key
//! `depth` of `[backfill]` is the maximum number of planned starts.
//!
//! Example with a depth of one: at 0:00, 8 of 16 CPUs are in use until 1:00. Job 2 requests 16 CPUs
//! and gets a planned start at 1:00 (the *shadow time*). Job 3 requests 4 CPUs for 30 minutes and
//! starts, because it ends before 1:00. Job 4 requests 4 CPUs for two hours. It waits although 4
//! CPUs are free now, because it would still run at 1:00. With a 17th CPU, a job of one CPU and any
//! walltime could start without delaying job 2. (Lifka 1995, The ANL/IBM SP scheduling system.)
//!
//! With a depth of two, job 4 gets a planned start as well, and later jobs start only if they delay
//! neither job 2 nor job 4 (M31). QOS groups (M33) and queues (I18) may have their own depth.

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
    pub(in crate::sched) fn plans_starts(&self) -> bool {
        !matches!(self.policy, Filling::None | Filling::Skip)
            && self.keep != BookingRetention::Never
    }

    /// Whether planned starts are kept for later cycles (M32).
    fn keeps_bookings(&self) -> bool {
        self.plans_starts()
            && (self.depth == Backfill::ALL || self.keep == BookingRetention::Highest)
    }
}

/// The number of starts that the cycle may still plan, and the planned starts of earlier cycles.
pub struct BookingBudget<'s> {
    policy: &'s Backfill,
    state: &'s ClusterState,
    /// The number of starts that may still be planned in each pool: first the QOS groups, then the
    /// queues with their own depth, and last the default pool.
    left: Vec<u32>,
    /// The names of the queues with their own depth, sorted.
    queues: Vec<&'s str>,
    /// The first blocked job of the cycle.
    pub blocked: Option<JobId>,
    /// The jobs that have a renewed planned start and that this cycle has not considered yet, by
    /// class.
    unvisited: BTreeMap<ClassId, BTreeSet<JobId>>,
    /// Whether resources have become free unexpectedly, or a planned start was not renewed, so that
    /// jobs may start before their planned start.
    has_freed_resources: bool,
    now: Time,
}

impl<'s> BookingBudget<'s> {
    /// The budget at the beginning of a cycle. Renews a planned start of an earlier cycle if the
    /// policy keeps it, or if resources of preempted jobs are held for its job. Does not renew it
    /// if the job no longer waits or has another class, if `may_run` is false for the class, or if
    /// the start is no longer possible at that time.
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
            .map(|depth| if policy.plans_starts() { depth } else { 0 })
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
        if policy.keeps_bookings()
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
            .filter(|booking| {
                self.policy.keeps_bookings() || state.held_until(booking.job, now).is_some()
            })
            .collect();
        kept.sort_by_key(|booking| (booking.at, booking.job));
        for booking in kept {
            // A job over a limit could not start at its planned start.
            let class = state
                .waiting_class(booking.job)
                .filter(|class| class.id == booking.class && may_run(class));
            let is_renewed = class.is_some_and(|class| {
                let class = resolved.of(class);
                // Preempted jobs end in the next cycle at the earliest, so their resources are not
                // free now.
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
            // A dropped planned start frees its resources, so other jobs may start earlier.
            self.has_freed_resources |= !is_renewed;
        }
    }

    /// Whether a job must wait for its planned start `at`. A job may start earlier if resources
    /// have become free unexpectedly (compression). A job need not wait for a planned start that is
    /// at most `OVERDUE` from now: each cycle tries to start the job, because it waits only for
    /// overdue or preempted jobs to end.
    pub fn must_wait(&self, at: Time, now: Time) -> bool {
        at > now + OVERDUE && !self.has_freed_resources
    }

    /// Notes that the cycle has considered a job, which may have a renewed planned start.
    pub fn note_considered(&mut self, job: JobId, class: &ClassKey) {
        if let Some(jobs) = self.unvisited.get_mut(&class.id) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.unvisited.remove(&class.id);
            }
        }
    }

    /// Whether a job of the class has a renewed planned start and has not been considered yet. Then
    /// the refusal of another job of the class does not hold for the whole class.
    pub fn has_unconsidered_booking(&self, class: &ClassKey) -> bool {
        self.unvisited.contains_key(&class.id)
    }

    /// Whether more jobs of a class are considered after a job of this class got a planned start.
    pub fn considers_more(&self, class: &ClassKey) -> bool {
        self.left[self.pool(class)] > 0 || !self.unvisited.is_empty()
    }

    /// Takes a planned start from the pool of a class; false if none is left.
    pub fn take_booking(&mut self, class: &ClassKey) -> bool {
        let pool = self.pool(class);
        let is_left = self.left[pool] > 0;
        self.left[pool] -= u32::from(is_left);
        is_left
    }

    /// Returns a planned start to the pool of a class, because no start could be computed.
    pub fn return_booking(&mut self, class: &ClassKey) {
        let pool = self.pool(class);
        self.left[pool] = self.left[pool].saturating_add(1);
    }

    /// Whether the policy keeps the planned start that an earlier cycle gave a job, or resources of
    /// preempted jobs are held for the job.
    pub fn has_kept_booking(&self, job: JobId) -> bool {
        let is_kept = self.policy.keeps_bookings() && self.state.bookings.promise(job).is_some();
        is_kept || self.is_preemptor(job)
    }

    /// Whether resources of preempted jobs are held for any waiting job.
    pub fn has_preemptors(&self) -> bool {
        let mut promised = self
            .state
            .bookings
            .promises()
            .filter(|booking| booking.held_until.is_some());
        promised.any(|booking| self.is_preemptor(booking.job))
    }

    /// Whether resources of preempted jobs are held for this job. Such a job starts as soon as it
    /// fits.
    pub fn is_preemptor(&self, job: JobId) -> bool {
        self.state.held_until(job, self.now).is_some()
    }

    /// Whether no more starts may be planned in any pool, and all jobs with a renewed planned start
    /// have been considered.
    pub fn has_none_left(&self) -> bool {
        self.unvisited.is_empty() && self.left.iter().all(|&left| left == 0)
    }

    /// Whether a job is blocked and the default pool allows no more planned starts.
    pub fn is_spent(&self) -> bool {
        self.blocked.is_some() && self.left.last() == Some(&0)
    }

    /// The index in `left` of the pool of a class: the pool of its QOS (M33), else the pool of its
    /// queue (I18), else the default pool.
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

/// The booking of a job. If its planned start has moved, the booking contains the old time. If the
/// planned start has become later, the booking also contains the cause, if one is known.
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

/// Why a planned start became later. None if it became later only because its job is a preemptor
/// and waits for victims to end: then the planned start moves with the clock.
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
    if let Some(window) =
        windows.excluding_reservation(class, &before.nodes, before.at, before.until)
    {
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
