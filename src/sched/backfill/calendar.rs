//! The planned starts that a job must not delay.
//!
//! Three questions: does a job fit now beside all planned starts, when does it fit first, and does
//! a planned start still hold? The algorithm is independent of the depth: with one planned start it
//! is EASY backfill, with one for every job it is conservative backfill.
//!
//! Two representations, with equal times where both apply: counting ([`FreeTimeline`]) where all
//! nodes are interchangeable, otherwise pinned to nodes ([`Pins`]).

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

/// The maximum number of planned starts, whatever the depth: an array may have a million subjobs.
const MAX_COUNTED: usize = 20_000;

/// The maximum number of pinned planned starts: each is checked against all others on each node.
const MAX_PINNED: usize = 500;

/// The planned starts of a cycle.
#[derive(Clone)]
pub struct Calendar<'s> {
    state: &'s ClusterState,
    now: Time,
    promises: BTreeMap<JobId, CalendarEntry<'s>>,
    by_start: BTreeSet<(Time, JobId)>,
    kind: CalendarKind<'s>,
}

/// The planned start of a job.
#[derive(Clone)]
pub struct CalendarEntry<'s> {
    /// The start time.
    pub at: Time,
    /// How long the job may run.
    pub span: Span,
    /// The request.
    pub shape: &'s Shape,
    /// The nodes, as far as they are known.
    pub nodes: Arc<[String]>,
}

#[derive(Clone)]
enum CalendarKind<'s> {
    /// Not built yet; holds the jobs that this cycle has started.
    Unbuilt(BTreeMap<JobId, (JobAmounts, Time)>),
    /// Counted amounts, and the jobs that this cycle has started, for the forecast of nodes.
    Counted(ResourceMeasure, FreeTimeline, Vec<(Time, JobAmounts)>),
    /// Planned starts on nodes.
    Pinned(Box<Pins<'s>>),
}

impl<'s> Calendar<'s> {
    /// A calendar without planned starts.
    pub fn new(state: &'s ClusterState, now: Time) -> Calendar<'s> {
        let kind = CalendarKind::Unbuilt(BTreeMap::new());
        Calendar {
            state,
            now,
            promises: BTreeMap::new(),
            by_start: BTreeSet::new(),
            kind,
        }
    }

    /// The planned start of a job.
    pub fn promise(&self, job: JobId) -> Option<&CalendarEntry<'s>> {
        self.promises.get(&job)
    }

    /// Whether the maximum number of planned starts is reached.
    pub fn is_full(&self) -> bool {
        let most = if matches!(self.kind, CalendarKind::Pinned(_)) {
            MAX_PINNED
        } else {
            MAX_COUNTED
        };
        self.promises.len() >= most
    }

    /// Whether a job that ends at `until` ends before all planned starts, so that it delays none on
    /// any node.
    pub fn ends_before_bookings(&self, until: Time) -> bool {
        self.by_start.first().is_none_or(|&(at, _)| until <= at)
    }

    /// The planned start, job and time, that a job running until `until` would delay. Call this
    /// only if the job does not fit beside all planned starts.
    pub fn in_the_way(&self, shape: &Shape, until: Time) -> Option<(JobId, Time)> {
        let short = match &self.kind {
            CalendarKind::Counted(measure, tally, _) => {
                tally.shortage(&measure.count(&shape.total), self.now, until)
            }
            _ => None,
        };
        let short = short.or(self.by_start.first().map(|&(at, _)| at))?;
        let mut earlier = self.by_start.range(..=(short, LAST)).rev();
        let holder = earlier
            .find(|(at, job)| self.promises.get(job).is_some_and(|p| *at + p.span > short))
            .or(self.by_start.first());
        holder.map(|&(at, job)| (job, at))
    }

    /// The nodes on which a request fits now beside all planned starts, for a job that ends at
    /// `until`.
    pub fn beside(
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
            CalendarKind::Pinned(pins) => pins.beside(space, shape, until),
            CalendarKind::Unbuilt(_) => None,
        }
    }

    /// Like [`beside`](Self::beside), on the resources that reservations leave.
    pub fn within(
        &mut self,
        left: &AvailabilityMap<'s>,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
        until: Time,
    ) -> Option<Placement> {
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.within(left, space, shape, until),
            // With reservations, nodes are not interchangeable.
            CalendarKind::Counted(..) | CalendarKind::Unbuilt(_) => None,
        }
    }

    /// Plans the earliest start, later than now, that delays no other planned start; None if none
    /// can be computed.
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
                // The job keeps its former nodes while no job has ended, so that a second cycle
                // gives the same result. After an end it is placed again, to leave the most for
                // backfill.
                let before = state.bookings.promise(job).filter(|before| {
                    state.bookings.is_as_planned()
                        && before.class == class.id
                        && now < before.at
                        && before.at <= at
                });
                let again = before
                    .and_then(|before| pins.again(space, &terms, &before.nodes, (before.at, span)));
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
        self.enter(
            job,
            CalendarEntry {
                at,
                span,
                shape,
                nodes,
            },
        );
        self.promises.get(&job)
    }

    /// Renews a planned start, on other nodes if need be; false if it cannot be kept.
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
                let again = pins.again(space, &terms, &promise.nodes, (at, span));
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
        self.enter(job, CalendarEntry { nodes, ..promise });
        true
    }

    fn enter(&mut self, job: JobId, promise: CalendarEntry<'s>) {
        self.by_start.insert((promise.at, job));
        self.promises.insert(job, promise);
    }

    /// Removes a planned start.
    pub fn cancel(&mut self, job: JobId) -> Option<CalendarEntry<'s>> {
        let promise = self.promises.remove(&job)?;
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

    /// Enters a started job; `space` is the map after its start.
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

    /// Whether a claim delays no planned start if it lasts until `until`, for a suspended job on
    /// its own nodes.
    pub fn leaves_promises(
        &mut self,
        space: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        until: Time,
    ) -> bool {
        if self.ends_before_bookings(until) {
            return true;
        }
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.has_room(space, claim, until),
            CalendarKind::Counted(..) | CalendarKind::Unbuilt(_) => false,
        }
    }

    /// The first time from which a suspended job's claim is free for `length` beside all planned
    /// starts; None if unknown.
    pub fn earliest_again(
        &mut self,
        space: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        length: Span,
    ) -> Option<Time> {
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.earliest_again(space, claim, length),
            CalendarKind::Counted(..) | CalendarKind::Unbuilt(_) => None,
        }
    }

    /// Holds the part `kept` of a suspended job's claim from now on, and the whole claim from `at`
    /// on. `space` is the map without the part.
    pub fn keep(
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

    fn open(&mut self, space: &AvailabilityMap<'s>) -> &mut CalendarKind<'s> {
        if let CalendarKind::Unbuilt(started) = &mut self.kind {
            let started = std::mem::take(started);
            // A suspended job resumes on its own nodes: nodes are not interchangeable.
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

    /// The free amounts over time without planned starts.
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
        // A job past its walltime is already among the ends.
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

    /// Nodes on which a job with a counted planned start could start at `at`: nodes of jobs that
    /// end by then or are preempted, and free nodes.
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

/// Collects nodes for chunks of one size, or for any request on a cluster of one node.
struct Forecast<'a> {
    cluster: &'a Cluster,
    shape: &'a Shape,
    nodes: Vec<String>,
}

impl Forecast<'_> {
    fn missing(&self) -> u64 {
        self.shape.instances - self.nodes.len() as u64
    }

    /// Adds a node once for each chunk that fits into the amounts `free`.
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

/// The nodes of a placement, chunk by chunk.
fn names(state: &ClusterState, placement: &Placement) -> Arc<[String]> {
    placement
        .picks
        .iter()
        .map(|&(ix, _)| state.cluster.node(ix).name.clone())
        .collect()
}

#[cfg(test)]
mod tests;
