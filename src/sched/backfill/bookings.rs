//! Who is promised a start: the first blocked jobs in the order, as many as the policy says.
//!
//! Example: 16 processors, 8 of them busy until 1:00. Job 2 wants 16 and is promised 1:00 (the
//! *shadow time*). Job 3 wants 8 for 30 minutes: it is over by then and starts. Job 4 wants 8 for
//! two hours and would still hold them at 1:00: it waits, though it fits now. Were there a 17th
//! processor, a job of one processor could start beside the promise, however long it is.
//! (Lifka 1995, The ANL/IBM SP scheduling system.)
//!
//! That is a depth of one. With a depth of two job 4 is promised a start as well, and what comes
//! behind it passes only where it delays neither (M31). Qualities of service (M33) and queues (I18)
//! may have a depth of their own.

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
    /// Whether anybody is promised anything (M32, X3).
    pub(in crate::sched) fn promises(&self) -> bool {
        !matches!(self.policy, Filling::None | Filling::Skip)
            && self.keep != BookingRetention::Never
    }

    /// Whether a promise outlives the cycle that gave it (M32).
    fn keeps(&self) -> bool {
        self.promises() && (self.depth == Backfill::ALL || self.keep == BookingRetention::Highest)
    }
}

/// What is left to promise.
pub struct BookingBudget<'s> {
    policy: &'s Backfill,
    state: &'s ClusterState,
    /// How many, by pool of promises; the last are everybody else's.
    left: Vec<u32>,
    /// The queues that have a pool of their own.
    queues: Vec<&'s str>,
    /// The first job that is blocked.
    pub blocked: Option<JobId>,
    /// Promises of earlier cycles whose jobs have not had their turn yet, by class.
    unvisited: BTreeMap<ClassId, BTreeSet<JobId>>,
    /// Whether jobs may start earlier than they were promised.
    is_loose: bool,
    now: Time,
}

impl<'s> BookingBudget<'s> {
    /// Enters the promises of earlier cycles that are kept.
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
        let is_loose = state.bookings.is_loose(now);
        let mut promises = BookingBudget {
            policy,
            state,
            left,
            queues,
            blocked: None,
            unvisited: BTreeMap::new(),
            is_loose,
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
            // A class at a limit now would not start when it is due.
            let class = state
                .waiting_class(booking.job)
                .filter(|class| class.id == booking.class && may_run(class));
            let is_good = class.is_some_and(|class| {
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
            if is_good {
                self.unvisited
                    .entry(booking.class)
                    .or_default()
                    .insert(booking.job);
            }
            // What it stood for is free: others may come earlier.
            self.is_loose |= !is_good;
        }
    }

    /// Whether a job that is promised a later start is not to be tried before: nothing has become
    /// free that was not expected (compression). The next moment is that of what is overdue: it may
    /// be over by now.
    pub fn stands(&self, at: Time, now: Time) -> bool {
        at > now + OVERDUE && !self.is_loose
    }

    /// A job has its turn, which may have had a promise.
    pub fn visit(&mut self, job: JobId, class: &ClassKey) {
        if let Some(jobs) = self.unvisited.get_mut(&class.id) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.unvisited.remove(&class.id);
            }
        }
    }

    /// Whether a job of a class that had a promise has not had its turn yet: others of the class
    /// that were refused do not stand for it.
    pub fn awaits(&self, class: &ClassKey) -> bool {
        self.unvisited.contains_key(&class.id)
    }

    /// Whether more jobs of a class are to be considered though one of it was refused.
    pub fn goes_on(&self, class: &ClassKey) -> bool {
        self.left[self.pool(class)] > 0 || !self.unvisited.is_empty()
    }

    /// Takes a promise from those that are left; false when none is.
    pub fn take(&mut self, class: &ClassKey) -> bool {
        let pool = self.pool(class);
        let is_left = self.left[pool] > 0;
        self.left[pool] -= u32::from(is_left);
        is_left
    }

    /// Gives it back: no start could be told.
    pub fn give_back(&mut self, class: &ClassKey) {
        let pool = self.pool(class);
        self.left[pool] = self.left[pool].saturating_add(1);
    }

    /// Whether a job has been promised a start that is to be kept.
    pub fn had(&self, job: JobId) -> bool {
        let is_kept = self.policy.keeps() && self.state.bookings.promise(job).is_some();
        is_kept || self.is_preemptor(job)
    }

    /// Whether others make way for anybody.
    pub fn has_preemptors(&self) -> bool {
        let mut promised = self
            .state
            .bookings
            .promises()
            .filter(|booking| booking.held_until.is_some());
        promised.any(|booking| self.is_preemptor(booking.job))
    }

    /// Whether others make way for a job: it starts as soon as there is room.
    pub fn is_preemptor(&self, job: JobId) -> bool {
        self.state.held_until(job, self.now).is_some()
    }

    /// Whether nobody is left that could be promised anything, or has a promise to be looked at.
    pub fn are_given(&self) -> bool {
        self.unvisited.is_empty() && self.left.iter().all(|&left| left == 0)
    }

    /// Whether all promises are given that are not for some only.
    pub fn is_spent(&self) -> bool {
        self.blocked.is_some() && self.left.last() == Some(&0)
    }

    /// From where a job's promise is taken: the pool of its quality of service (M33), else of its
    /// queue (I18), else that of all others.
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

/// A promise as the plan has it, with what became of an earlier one.
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

/// Why a promise became later. None for a job that starts as soon as preempted jobs have ended:
/// until then its promise moves with the clock, though nothing has changed.
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
