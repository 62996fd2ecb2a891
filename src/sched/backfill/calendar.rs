//! What stands between a job and the nodes: the promises made to others.
//!
//! Three questions: does it fit now beside all promises, when does it fit first, and is a promise
//! still good? The walk of a cycle asks them whatever the number of promises: with one it is EASY
//! backfill, with one for every job it is conservative backfill.
//!
//! Kept in one of two ways, which give the same moments where both apply: by counting
//! ([`FreeTimeline`]) where any free place is as good as any other, else pinned to nodes
//! ([`Pins`]).

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

/// The last of all names of jobs.
const LAST: JobId = JobId::element(u64::MAX, u32::MAX);

/// Never more promises than this, whatever the depth: an array of a million elements is one job to
/// its user.
const MOST_COUNTED: usize = 20_000;

/// Nor than this where they are pinned: each is held against all others, node by node.
const MOST_PINNED: usize = 500;

/// The promises of a cycle.
#[derive(Clone)]
pub struct Calendar<'s> {
    state: &'s ClusterState,
    now: Time,
    promises: BTreeMap<JobId, CalendarEntry<'s>>,
    by_start: BTreeSet<(Time, JobId)>,
    kind: CalendarKind<'s>,
}

/// A start promised to a job.
#[derive(Clone)]
pub struct CalendarEntry<'s> {
    /// When.
    pub at: Time,
    /// How long it may run.
    pub span: Span,
    /// What it asks.
    pub shape: &'s Shape,
    /// Where, as far as can be told.
    pub nodes: Arc<[String]>,
}

#[derive(Clone)]
enum CalendarKind<'s> {
    /// Nobody asked yet: what this cycle has started.
    Shut(BTreeMap<JobId, (JobAmounts, Time)>),
    /// With what this cycle has started, of which only the forecast of nodes needs to know.
    Counted(ResourceMeasure, FreeTimeline, Vec<(Time, JobAmounts)>),
    Pinned(Box<Pins<'s>>),
}

impl<'s> Calendar<'s> {
    /// No promises.
    pub fn new(state: &'s ClusterState, now: Time) -> Calendar<'s> {
        let kind = CalendarKind::Shut(BTreeMap::new());
        Calendar {
            state,
            now,
            promises: BTreeMap::new(),
            by_start: BTreeSet::new(),
            kind,
        }
    }

    /// What a job is promised.
    pub fn promise(&self, job: JobId) -> Option<&CalendarEntry<'s>> {
        self.promises.get(&job)
    }

    /// Whether it takes no more promises.
    pub fn is_full(&self) -> bool {
        let most = if matches!(self.kind, CalendarKind::Pinned(_)) {
            MOST_PINNED
        } else {
            MOST_COUNTED
        };
        self.promises.len() >= most
    }

    /// Whether a job that is over by then is in nobody's way wherever it goes now.
    pub fn lets_pass(&self, until: Time) -> bool {
        self.by_start.first().is_none_or(|&(at, _)| until <= at)
    }

    /// The promise that a job would break that runs until then, which fits nowhere beside them all.
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

    /// Where a request fits now, beside all promises, for a job that runs until then.
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
            CalendarKind::Shut(_) => None,
        }
    }

    /// Where a request fits now in what windows leave, beside all promises, for a job that runs
    /// until then.
    pub fn within(
        &mut self,
        left: &AvailabilityMap<'s>,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
        until: Time,
    ) -> Option<Placement> {
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.within(left, space, shape, until),
            // Where there are windows, places matter.
            CalendarKind::Counted(..) | CalendarKind::Shut(_) => None,
        }
    }

    /// Promises a job its earliest start that delays no other promise, later than now; None when no
    /// such moment can be told.
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
                // Where it was before, as long as nothing has ended: so a second look finds what
                // the first one found. After an end it is placed anew, to leave the fillers the
                // most.
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
            CalendarKind::Shut(_) => return None,
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

    /// Renews a promise as it was given, on other nodes if need be; false when it cannot be kept.
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
            CalendarKind::Shut(_) => return false,
        };
        self.enter(job, CalendarEntry { nodes, ..promise });
        true
    }

    fn enter(&mut self, job: JobId, promise: CalendarEntry<'s>) {
        self.by_start.insert((promise.at, job));
        self.promises.insert(job, promise);
    }

    /// Takes a promise back.
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
            CalendarKind::Shut(_) => (),
        }
        Some(promise)
    }

    /// A job has started; `space` is what that leaves.
    pub fn start(
        &mut self,
        job: JobId,
        claim: JobAmounts,
        until: Time,
        space: &AvailabilityMap<'s>,
    ) {
        match &mut self.kind {
            CalendarKind::Shut(started) => drop(started.insert(job, (claim, until))),
            CalendarKind::Counted(measure, tally, begun) => {
                for taken in claim.holds.values() {
                    tally.take(&measure.count(taken), self.now, until);
                }
                begun.push((until, claim));
            }
            CalendarKind::Pinned(pins) => pins.start(job, claim, until, space),
        }
    }

    /// Whether a claim on nodes where its job is already delays no promise if it stays until then.
    pub fn leaves_promises(
        &mut self,
        space: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        until: Time,
    ) -> bool {
        if self.lets_pass(until) {
            return true;
        }
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.has_room(space, claim, until),
            CalendarKind::Counted(..) | CalendarKind::Shut(_) => false,
        }
    }

    /// When such a claim can be had first for so long, beside all promises; None if nobody can
    /// tell.
    pub fn earliest_again(
        &mut self,
        space: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        length: Span,
    ) -> Option<Time> {
        match self.open(space) {
            CalendarKind::Pinned(pins) => pins.earliest_again(space, claim, length),
            CalendarKind::Counted(..) | CalendarKind::Shut(_) => None,
        }
    }

    /// Keeps a part of such a claim from now on, and the whole from that moment on; `space` is what
    /// that leaves.
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
        if let CalendarKind::Shut(started) = &mut self.kind {
            let started = std::mem::take(started);
            // A job that stands still goes on where it is: places matter.
            let is_counted = self.state.windows.is_empty() && self.state.suspended.is_empty();
            let measure = if is_counted {
                ResourceMeasure::of(self.state, space)
            } else {
                None
            };
            self.kind = match measure {
                Some((measure, free)) => {
                    let tally = self.count(&measure, free, &started);
                    let begun = started
                        .into_values()
                        .map(|(claim, until)| (until, claim))
                        .collect();
                    CalendarKind::Counted(measure, tally, begun)
                }
                None => CalendarKind::Pinned(Box::new(Pins::new(self.state, started, self.now))),
            };
        }
        &mut self.kind
    }

    /// What is free from now on, if nothing is promised.
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
        let making_way = self
            .state
            .making_way()
            .filter_map(|job| self.state.running.get(&job));
        // Who is past its walltime ends by itself no later.
        for running in making_way.filter(|running| running.until > soonest) {
            tally.give(&measure.count(&running.taken), soonest, running.until);
        }
        for (claim, until) in started.values().filter(|(_, until)| *until != Time::NEVER) {
            for taken in claim.holds.values() {
                tally.give(&measure.count(taken), *until, Time::NEVER);
            }
        }
        tally
    }

    /// Nodes on which a job could start then, where its promise is a mere count: those of the jobs
    /// that end by then or make way, and those that are free.
    fn forecast(&self, space: &AvailabilityMap<'s>, shape: &Shape, at: Time) -> Arc<[String]> {
        let mut forecast = Forecast {
            cluster: space.cluster,
            shape,
            nodes: Vec::new(),
        };
        let over = at.max(self.now);
        let ends = self.state.ends.range(..=(over, LAST)).map(|&(_, job)| job);
        let running = &self.state.running;
        let give_way = self
            .state
            .making_way()
            .filter(|job| running.get(job).is_some_and(|running| running.until > over));
        for (job, running) in ends
            .chain(give_way)
            .filter_map(|job| Some((job, running.get(&job)?)))
        {
            for &ix in &running.nodes {
                if let Some(hold) = space.cluster.node(ix).tenants.get(&job) {
                    forecast.put(ix, &hold.taken);
                }
            }
        }
        if let CalendarKind::Counted(_, _, begun) = &self.kind {
            for (_, claim) in begun.iter().filter(|(until, _)| *until <= at) {
                for (&ix, taken) in &claim.holds {
                    forecast.put(ix, taken);
                }
            }
        }
        let asked = shape.chunks.first().map_or(&[][..], |chunk| &chunk.asked);
        let free = space.merged(
            space
                .with_free(asked)
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

/// Nodes for pieces of one size, or for whatever fits on the only node.
struct Forecast<'a> {
    cluster: &'a Cluster,
    shape: &'a Shape,
    nodes: Vec<String>,
}

impl Forecast<'_> {
    fn missing(&self) -> u64 {
        self.shape.instances - self.nodes.len() as u64
    }

    /// As many chunks as go into what is free of a node.
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
