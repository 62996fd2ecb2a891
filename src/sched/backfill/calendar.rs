//! The calendar contains the planned starts, which other jobs must not delay.
//!
//! It finds out whether a job can start now without delaying a planned start, when a job can start
//! at the earliest, and whether a planned start is still possible. The algorithm is the same for
//! any number of planned starts: with one planned start it is EASY backfill, with one for every job
//! it is conservative backfill.
//!
//! There are two representations. If all nodes are interchangeable, the calendar only counts
//! amounts ([`FreeTimeline`]); otherwise it assigns planned starts to nodes ([`Pins`]). If
//! both representations are possible, they give the same times.

use super::measure::ResourceMeasure;
use super::pins::{Pins, SearchTerms, Slot};
use super::reservation_access::Windows;
use super::tally::FreeTimeline;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::placement::allocation;
use crate::sched::placement::availability_map::{AvailabilityMap, JobAmounts};
use crate::sched::placement::guide::Rank;
use crate::sched::placement::place::{self, Placement};
use crate::sched::view::cluster::{Cluster, NodeIx};
use crate::sched::view::current_bookings::OVERDUE;
use crate::sched::view::shape::{ClassKey, Shape};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The greatest job id.
const LAST: JobId = JobId::element(u64::MAX, u32::MAX);

/// The maximum number of planned starts if amounts are counted. It is needed because the key
/// `depth` of `[backfill]` may be higher, and an array may have a million subjobs.
const MAX_COUNTED: usize = 20_000;

/// The maximum number of planned starts if they are assigned to nodes. The number is low, because
/// each planned start is checked against all others on its nodes.
const MAX_PINNED: usize = 500;

/// The planned starts of a cycle.
#[derive(Clone)]
pub struct Calendar<'s> {
    state: &'s ClusterState,
    now: Time,
    entries: BTreeMap<JobId, CalendarEntry<'s>>,
    by_start: BTreeSet<(Time, JobId)>,
    kind: CalendarKind<'s>,
}

/// The planned start of a job.
#[derive(Clone)]
pub struct CalendarEntry<'s> {
    /// The start time.
    pub at: Time,
    /// The duration for which the resources are planned.
    pub span: Span,
    /// The request.
    pub shape: &'s Shape,
    /// The nodes, as far as they are known.
    pub nodes: Arc<[String]>,
}

#[derive(Clone)]
enum CalendarKind<'s> {
    /// The representation is not chosen yet. Contains the jobs that this cycle has started.
    Unbuilt(BTreeMap<JobId, (JobAmounts, Time)>),
    /// Counted amounts over time. Also contains the jobs that this cycle has started. The calendar
    /// uses them to forecast the nodes of planned starts.
    Counted(ResourceMeasure, FreeTimeline, Vec<(Time, JobAmounts)>),
    /// Planned starts that are assigned to nodes.
    Pinned(Box<Pins<'s>>),
}

impl<'s> Calendar<'s> {
    /// A calendar without planned starts.
    pub fn new(state: &'s ClusterState, now: Time) -> Calendar<'s> {
        let kind = CalendarKind::Unbuilt(BTreeMap::new());
        Calendar {
            state,
            now,
            entries: BTreeMap::new(),
            by_start: BTreeSet::new(),
            kind,
        }
    }

    /// The planned start of a job; None if the job has none.
    pub fn entry(&self, job: JobId) -> Option<&CalendarEntry<'s>> {
        self.entries.get(&job)
    }

    /// Whether the maximum number of planned starts is reached.
    pub fn is_full(&self) -> bool {
        let most = if matches!(self.kind, CalendarKind::Pinned(_)) {
            MAX_PINNED
        } else {
            MAX_COUNTED
        };
        self.entries.len() >= most
    }

    /// Whether a job that ends at `until` delays no planned start because it ends when the first
    /// one begins, or earlier. True if there are no planned starts.
    pub fn ends_before_bookings(&self, until: Time) -> bool {
        self.by_start.first().is_none_or(|&(at, _)| until <= at)
    }

    /// The planned start (job and time) that a refused job running until `until` would delay. If
    /// planned starts are assigned to nodes, returns the first planned start, even if the job would
    /// delay only a later one. None if there are no planned starts. Use the result only if the job
    /// does not fit without delay.
    pub fn delayed_booking(&self, shape: &Shape, until: Time) -> Option<(JobId, Time)> {
        let short = match &self.kind {
            CalendarKind::Counted(measure, tally, _) => {
                tally.shortage(&measure.count(&shape.total), self.now, until)
            }
            _ => None,
        };
        let short = short.or(self.by_start.first().map(|&(at, _)| at))?;
        let mut earlier = self.by_start.range(..=(short, LAST)).rev();
        let holder = earlier
            .find(|(at, job)| self.entries.get(job).is_some_and(|p| *at + p.span > short))
            .or(self.by_start.first());
        holder.map(|&(at, job)| (job, at))
    }

    /// The nodes on which a job that ends at `until` can start now without delaying any planned
    /// start; None if it cannot.
    pub fn fit_without_delay(
        &mut self,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
        until: Time,
    ) -> Option<Placement> {
        let now = self.now;
        match self.open(space) {
            CalendarKind::Counted(measure, tally, _) => {
                let short = tally.shortage(&measure.count(&shape.total), now, until);
                if short.is_some() {
                    None
                } else {
                    place::fit(space, shape).ok()
                }
            }
            CalendarKind::Pinned(pins) => pins.fit_without_delay(space, shape, until),
            CalendarKind::Unbuilt(_) => None,
        }
    }

    /// Like [`fit_without_delay`](Self::fit_without_delay), but only on `left`, the resources that
    /// reservations leave to the job.
    pub fn fit_within(
        &mut self,
        left: &AvailabilityMap<'s>,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
        until: Time,
    ) -> Option<Placement> {
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.fit_within(left, space, shape, until),
            // With reservations, nodes are not interchangeable.
            CalendarKind::Counted(..) | CalendarKind::Unbuilt(_) => None,
        }
    }

    /// Plans the earliest start of a job, later than now, that delays no other planned start. None
    /// if no such start can be computed.
    pub fn book(
        &mut self,
        space: &AvailabilityMap<'s>,
        windows: &Windows<'s>,
        job: JobId,
        (class, span): (&'s ClassKey, Span),
    ) -> Option<&CalendarEntry<'s>> {
        let (state, now, shape) = (self.state, self.now, &*class.shape);
        let (at, nodes) = match self.open(space) {
            CalendarKind::Counted(measure, tally, _) => {
                let wanted = measure.count(&shape.total);
                let at = tally.earliest(&wanted, span, now)?.max(now + OVERDUE);
                tally.take(&wanted, at, at + span);
                (at, None)
            }
            CalendarKind::Pinned(pins) => {
                let terms = SearchTerms { windows, class };
                let slot = pins.earliest(space, &terms, span)?;
                let at = slot.at.max(now + OVERDUE);
                // As long as no job has ended unexpectedly, the job keeps the nodes that an earlier
                // cycle planned for it, so that a second cycle gives the same result. Otherwise the
                // job is placed again, so that as many resources as possible are left for backfill.
                let before = state.bookings.promise(job).filter(|before| {
                    state.bookings.is_as_planned()
                        && before.class == class.id
                        && now < before.at
                        && before.at <= at
                });
                let again = before.and_then(|before| {
                    pins.slot_on(space, &terms, &before.nodes, (before.at, span))
                });
                let Slot { at, placement } = again.unwrap_or(Slot { at, ..slot });
                pins.book(
                    job,
                    at,
                    at + span,
                    allocation::claim(space.cluster, shape, &placement),
                );
                (at, Some(placement))
            }
            CalendarKind::Unbuilt(_) => return None,
        };
        let nodes = nodes.map_or_else(
            || self.forecast(space, shape, at),
            |placement| names(self.state, &placement),
        );
        self.add(
            job,
            CalendarEntry {
                at,
                span,
                shape,
                nodes,
            },
        );
        self.entries.get(&job)
    }

    /// Renews a planned start of an earlier cycle, on other nodes if necessary. Returns false if
    /// the job can no longer start at that time.
    pub fn renew(
        &mut self,
        space: &AvailabilityMap<'s>,
        windows: &Windows<'s>,
        job: JobId,
        (class, promise): (&'s ClassKey, CalendarEntry<'s>),
    ) -> bool {
        let CalendarEntry {
            at, span, shape, ..
        } = promise;
        let nodes = match self.open(space) {
            CalendarKind::Counted(measure, tally, _) => {
                let wanted = measure.count(&shape.total);
                if tally.shortage(&wanted, at, at + span).is_some() {
                    return false;
                }
                tally.take(&wanted, at, at + span);
                promise.nodes.clone()
            }
            CalendarKind::Pinned(pins) => {
                let terms = SearchTerms { windows, class };
                let again = pins.slot_on(space, &terms, &promise.nodes, (at, span));
                let Some(slot) = again.or_else(|| pins.fits_at(space, &terms, at, span)) else {
                    return false;
                };
                pins.book(
                    job,
                    at,
                    at + span,
                    allocation::claim(space.cluster, shape, &slot.placement),
                );
                names(self.state, &slot.placement)
            }
            CalendarKind::Unbuilt(_) => return false,
        };
        self.add(job, CalendarEntry { nodes, ..promise });
        true
    }

    fn add(&mut self, job: JobId, promise: CalendarEntry<'s>) {
        self.by_start.insert((promise.at, job));
        self.entries.insert(job, promise);
    }

    /// Removes the planned start of a job and returns it; None if the job has none.
    pub fn cancel(&mut self, job: JobId) -> Option<CalendarEntry<'s>> {
        let promise = self.entries.remove(&job)?;
        self.by_start.remove(&(promise.at, job));
        match &mut self.kind {
            CalendarKind::Counted(measure, tally, _) => {
                tally.give(
                    &measure.count(&promise.shape.total),
                    promise.at,
                    promise.at + promise.span,
                );
            }
            CalendarKind::Pinned(pins) => pins.unbook(job, promise.at),
            CalendarKind::Unbuilt(_) => (),
        }
        Some(promise)
    }

    /// Adds a started job; `space` is the map of free resources after the start.
    pub fn start(
        &mut self,
        job: JobId,
        claim: JobAmounts,
        until: Time,
        space: &AvailabilityMap<'s>,
    ) {
        match &mut self.kind {
            CalendarKind::Unbuilt(started) => drop(started.insert(job, (claim, until))),
            CalendarKind::Counted(measure, tally, started_jobs) => {
                for taken in claim.holds.values() {
                    tally.take(&measure.count(taken), self.now, until);
                }
                started_jobs.push((until, claim));
            }
            CalendarKind::Pinned(pins) => pins.start(job, claim, until, space),
        }
    }

    /// Whether a suspended job that resumes now with the resources `claim` and ends at `until`
    /// delays no planned start.
    pub fn delays_no_booking(
        &mut self,
        space: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        until: Time,
    ) -> bool {
        if self.ends_before_bookings(until) {
            return true;
        }
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.stays_free(space, claim, until),
            CalendarKind::Counted(..) | CalendarKind::Unbuilt(_) => false,
        }
    }

    /// The earliest time at which a suspended job can resume for `length` with the resources
    /// `claim` without delaying any planned start; None if unknown.
    pub fn earliest_resumption(
        &mut self,
        space: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        length: Span,
    ) -> Option<Time> {
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.earliest_resumption(space, claim, length),
            CalendarKind::Counted(..) | CalendarKind::Unbuilt(_) => None,
        }
    }

    /// Holds resources for a suspended job: `kept` from now until `at`, and from `at` on all the
    /// resources that the job needs, for its remaining time (`whole`). If `at` is None, holds only
    /// `kept`, without an end. `space` is the map of free resources without `kept`. Has no effect
    /// if amounts are counted.
    pub fn hold_for_suspended(
        &mut self,
        job: JobId,
        kept: JobAmounts,
        at: Option<Time>,
        whole: (JobAmounts, Span),
        space: &AvailabilityMap<'s>,
    ) {
        if let CalendarKind::Pinned(pins) = self.open(space) {
            pins.start(job, kept, at.unwrap_or(Time::NEVER), space);
            let (claim, length) = whole;
            if let Some(at) = at {
                pins.book(job, at, at + length, claim.clone());
            }
        }
    }

    /// Chooses the representation if that has not happened yet, and returns the calendar's
    /// contents.
    fn open(&mut self, space: &AvailabilityMap<'s>) -> &mut CalendarKind<'s> {
        if let CalendarKind::Unbuilt(started) = &mut self.kind {
            let started = std::mem::take(started);
            // A suspended job resumes on its own nodes, so nodes are not interchangeable.
            let is_counted = self.state.windows.is_empty() && self.state.suspended.is_empty();
            let measure = if is_counted {
                ResourceMeasure::of(self.state, space)
            } else {
                None
            };
            self.kind = match measure {
                Some((measure, free)) => {
                    let tally = self.count(&measure, free, &started);
                    let started_jobs = started
                        .into_values()
                        .map(|(claim, until)| (until, claim))
                        .collect();
                    CalendarKind::Counted(measure, tally, started_jobs)
                }
                None => CalendarKind::Pinned(Box::new(Pins::new(self.state, started, self.now))),
            };
        }
        &mut self.kind
    }

    /// The free amounts over time if there were no planned starts.
    fn count(
        &self,
        measure: &ResourceMeasure,
        free: Vec<i64>,
        started: &BTreeMap<JobId, (JobAmounts, Time)>,
    ) -> FreeTimeline {
        let mut tally = FreeTimeline::new(self.now, free);
        for (&until, amounts) in &self.state.releases {
            tally.release(until.max(self.now + OVERDUE), measure.counts(amounts));
        }
        let soonest = self.now + OVERDUE;
        let preempted = self
            .state
            .jobs_counted_as_ending()
            .filter_map(|job| self.state.running.get(&job));
        // The end of a job past its walltime is already in `releases`.
        for running in preempted.filter(|running| running.until > soonest) {
            tally.give(&measure.count(&running.taken), soonest, running.until);
        }
        for (claim, until) in started.values().filter(|(_, until)| *until != Time::NEVER) {
            for taken in claim.holds.values() {
                tally.give(&measure.count(taken), *until, Time::NEVER);
            }
        }
        tally
    }

    /// The nodes on which a job could start at `at` if amounts are counted: nodes of jobs that end
    /// by that time or are being preempted, and free nodes.
    fn forecast(&self, space: &AvailabilityMap<'s>, shape: &Shape, at: Time) -> Arc<[String]> {
        let mut forecast = Forecast {
            cluster: space.cluster,
            shape,
            nodes: Vec::new(),
        };
        let end = at.max(self.now);
        let ends = self.state.ends.range(..=(end, LAST)).map(|&(_, job)| job);
        let running = &self.state.running;
        let preempted = self
            .state
            .jobs_counted_as_ending()
            .filter(|job| running.get(job).is_some_and(|running| running.until > end));
        for (job, running) in ends
            .chain(preempted)
            .filter_map(|job| Some((job, running.get(&job)?)))
        {
            for &ix in &running.nodes {
                if let Some(hold) = space.cluster.node(ix).tenants.get(&job) {
                    forecast.put(ix, &hold.taken);
                }
            }
        }
        if let CalendarKind::Counted(_, _, started_jobs) = &self.kind {
            for (_, claim) in started_jobs.iter().filter(|(until, _)| *until <= at) {
                for (&ix, taken) in &claim.holds {
                    forecast.put(ix, taken);
                }
            }
        }
        let amounts = shape.chunks.first().map_or(&[][..], |chunk| &chunk.asked);
        let free = space.merged(
            space
                .with_free(amounts)
                .map(|place| (Rank::default(), place, 0)),
        );
        for (ix, _) in free {
            if forecast.missing() == 0 {
                break;
            }
            forecast.put(ix, &space.room(ix).free);
        }
        forecast.nodes.into()
    }
}

/// Collects nodes for a request with equal chunks, or for any request if the cluster has only one
/// node.
struct Forecast<'a> {
    cluster: &'a Cluster,
    shape: &'a Shape,
    nodes: Vec<String>,
}

impl Forecast<'_> {
    fn missing(&self) -> u64 {
        self.shape.instances - self.nodes.len() as u64
    }

    /// Adds a node once for each missing chunk that fits into the amounts `free`. The only node of
    /// a cluster is added for all missing chunks.
    fn put(&mut self, ix: NodeIx, free: &[i64]) {
        let is_only = self.cluster.slots() == 1;
        let times = if is_only {
            u64::MAX
        } else {
            self.shape
                .chunks
                .first()
                .map_or(0, |chunk| chunk.times_in(free))
        };
        let name = &self.cluster.node(ix).name;
        self.nodes
            .extend((0..times.min(self.missing())).map(|_| name.clone()));
    }
}

/// The names of the nodes of a placement, one for each chunk.
fn names(state: &ClusterState, placement: &Placement) -> Arc<[String]> {
    placement
        .picks
        .iter()
        .map(|&(ix, _)| state.cluster.node(ix).name.clone())
        .collect()
}

#[cfg(test)]
mod tests;
