//! The calendar's representation if nodes differ: each planned start is assigned (*pinned*) to
//! nodes.
//!
//! The *least free* resources of a node in a period are, for each resource, the minimum of the free
//! amount during that period. A job that starts now and ends at `until` must fit into the resources
//! that are free now; on nodes with planned starts, only the least free resources until `until`
//! count. For a planned start, the same rule applies to the resources that will be free at its
//! time.
//!
//! If a planned start can use either resources that are free now or resources that are in use now,
//! it uses those in use, so that as many free resources as possible are left for backfill.

use super::reservation_access::Windows;
use super::timeline::{LaterResources, Timeline};
use crate::model::job_id::JobId;
use crate::model::request::select::Arrangement;
use crate::model::time::{Span, Time};
use crate::sched::amounts::{Amounts, add};
use crate::sched::placement::availability_map::{AvailabilityMap, JobAmounts};
use crate::sched::placement::place::{self, Placement, TentativePlacement};
use crate::sched::placement::{allocation, filter};
use crate::sched::view::cluster::{FreeResources, NodeIx};
use crate::sched::view::shape::{ChunkShape, ClassKey, JobOwner, Shape};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

/// The planned starts on each node, and the ends of running jobs and of jobs that this cycle has
/// started.
#[derive(Clone)]
pub struct Pins<'s> {
    state: &'s ClusterState,
    now: Time,
    timeline: Timeline<'s>,
    pins: BTreeMap<(Time, JobId), Pin>,
    /// The planned starts on each node.
    by_node: BTreeMap<NodeIx, BTreeSet<(Time, JobId)>>,
    /// For each node, the ends of the jobs that this cycle has started there.
    started_here: BTreeMap<NodeIx, Vec<NodeEvent>>,
    /// Each entry contains a time and the map of the resources that are free from now until this
    /// time. The key is the number of planned starts that begin before this time.
    free_until: BTreeMap<usize, (Time, AvailabilityMap<'s>)>,
    /// The free resources after all jobs with a known end have ended; set when a request does not
    /// fit at any time.
    after_all_ends: Option<Box<AvailabilityMap<'s>>>,
}

/// The planned end and the resources of a job with a planned start.
#[derive(Clone)]
struct Pin {
    until: Time,
    claim: JobAmounts,
}

/// The start or end of a job on a node.
#[derive(Clone)]
struct NodeEvent {
    at: Time,
    begins: bool,
    taken: Amounts,
    owner: JobOwner,
}

/// The reservations and the job class that a search for a planned start considers.
pub struct SearchTerms<'a, 's> {
    /// The reservations.
    pub windows: &'a Windows<'s>,
    /// The class of the job.
    pub class: &'s ClassKey,
}

/// A possible planned start.
pub struct Slot {
    /// The start time.
    pub at: Time,
    /// The nodes of the chunks.
    pub placement: Placement,
}

impl<'s> Pins<'s> {
    /// A calendar without planned starts. `started` are the jobs that this cycle has started.
    pub fn new(
        state: &'s ClusterState,
        started: BTreeMap<JobId, (JobAmounts, Time)>,
        now: Time,
    ) -> Pins<'s> {
        let mut pins = Pins {
            state,
            now,
            timeline: Timeline::new(state, BTreeMap::new(), now),
            pins: BTreeMap::new(),
            by_node: BTreeMap::new(),
            started_here: BTreeMap::new(),
            free_until: BTreeMap::new(),
            after_all_ends: None,
        };
        for (claim, until) in started.values() {
            pins.note_ends(claim, *until);
        }
        pins.timeline = Timeline::new(state, started, now);
        pins
    }

    /// Records the end of a started job on each of its nodes.
    fn note_ends(&mut self, claim: &JobAmounts, until: Time) {
        for (&ix, taken) in &claim.holds {
            let change = NodeEvent {
                at: until,
                begins: false,
                taken: taken.clone(),
                owner: claim.owner,
            };
            self.started_here.entry(ix).or_default().push(change);
        }
    }

    /// Adds a started job. `space` is the map of free resources after the start.
    pub fn start(
        &mut self,
        job: JobId,
        claim: JobAmounts,
        until: Time,
        space: &AvailabilityMap<'s>,
    ) {
        self.note_ends(&claim, until);
        let mut free_until = std::mem::take(&mut self.free_until);
        for (end, beside) in free_until.values_mut() {
            for &ix in claim.holds.keys() {
                beside.refile(ix, self.least_free(space, ix, self.now, *end));
            }
            for taken in claim.holds.values() {
                beside.take_pools(taken);
            }
            beside.join(space.joined().clone());
        }
        self.free_until = free_until;
        self.after_all_ends = None;
        self.timeline.add_started(job, claim, until);
    }

    /// The nodes on which a job that ends at `until` can start now without delaying any planned
    /// start; None if it cannot.
    pub fn fit_without_delay(
        &mut self,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
        until: Time,
    ) -> Option<Placement> {
        let before = self.pins.range(..(until, JobId::job(0))).count();
        if !self.free_until.contains_key(&before) {
            let mut beside = space.clone();
            self.narrow(&mut beside, space, self.now, until);
            self.free_until.insert(before, (until, beside));
        }
        let (_, beside) = self.free_until.get(&before)?;
        place::fit(beside, shape).ok()
    }

    /// Like [`fit_without_delay`](Self::fit_without_delay), but only on `left`, the resources that
    /// reservations leave to the job. Does not consider the system-wide resources of planned
    /// starts.
    pub fn fit_within(
        &self,
        left: &AvailabilityMap<'s>,
        space: &AvailabilityMap<'s>,
        shape: &Shape,
        until: Time,
    ) -> Option<Placement> {
        let mut within = left.clone();
        for &ix in self.by_node.keys() {
            let mut room = self.least_free(space, ix, self.now, until);
            room.narrow(left.room(ix));
            within.refile(ix, room);
        }
        place::fit(&within, shape).ok()
    }

    /// In `space`, reduces nodes with planned starts to their least free resources from `from`
    /// until `until`, and system-wide resources by the amounts that planned starts use in this
    /// period. `now` is the map of resources that are free now.
    fn narrow(
        &self,
        space: &mut AvailabilityMap<'s>,
        now: &AvailabilityMap<'s>,
        from: Time,
        until: Time,
    ) {
        self.hold_pools(space, from, until);
        for future in self.futures(now).iter() {
            future.narrow(space, from, until);
        }
    }

    /// Reduces the free system-wide resources by the amounts of all planned starts that overlap a
    /// period.
    fn hold_pools(&self, space: &mut AvailabilityMap<'s>, from: Time, until: Time) {
        if self.state.cluster.catalog.pooled().is_empty() {
            return;
        }
        let mut promised = self.state.cluster.catalog.nothing();
        for (_, pin) in self
            .pins
            .range(..(until, JobId::job(0)))
            .filter(|(_, pin)| pin.until > from)
        {
            for taken in pin.claim.holds.values() {
                add(&mut promised, taken);
            }
        }
        space.hold_back(promised);
    }

    /// The free resources over time of all nodes with planned starts.
    fn futures(&self, now: &AvailabilityMap<'s>) -> Vec<Future> {
        self.by_node
            .keys()
            .map(|&ix| self.future(now, ix))
            .collect()
    }

    /// The free resources of a node over time.
    fn future(&self, now: &AvailabilityMap, ix: NodeIx) -> Future {
        let mut room = now.room(ix).clone();
        let mut changes = self.changes(ix);
        changes.sort_by_key(|change| (change.at, change.begins));
        let mut steps = vec![(self.now, room.clone())];
        for together in changes.chunk_by(|a, b| a.at == b.at) {
            for change in together {
                change.apply(&mut room);
            }
            steps.push((together[0].at, room.clone()));
        }
        Future { ix, steps }
    }

    /// The least free resources of a node from `from` until `until`.
    fn least_free(
        &self,
        now: &AvailabilityMap,
        ix: NodeIx,
        from: Time,
        until: Time,
    ) -> FreeResources {
        if !self.by_node.contains_key(&ix) && from <= self.now {
            return now.room(ix).clone();
        }
        self.future(now, ix).least(from, until)
    }

    /// Whether the amounts that a suspended job needs to resume are free from now until `until`.
    /// Exclusive access is not checked, because the job already has its nodes. System-wide
    /// resources are not checked, either.
    pub fn stays_free(&self, now: &AvailabilityMap<'s>, claim: &JobAmounts, until: Time) -> bool {
        claim
            .holds
            .iter()
            .all(|(&ix, taken)| fits_in(&self.least_free(now, ix, self.now, until), taken))
    }

    /// The earliest time from which the amounts of a claim are free for `length`; None if there is
    /// no such time. Checks the same resources as [`stays_free`](Self::stays_free).
    pub fn earliest_resumption(
        &self,
        now: &AvailabilityMap<'s>,
        claim: &JobAmounts,
        length: Span,
    ) -> Option<Time> {
        let futures: Vec<(Future, &Amounts)> = claim
            .holds
            .iter()
            .map(|(&ix, taken)| (self.future(now, ix), taken))
            .collect();
        let mut step_times: Vec<Time> = futures
            .iter()
            .flat_map(|(future, _)| future.steps.iter().map(|(begin, _)| *begin))
            .collect();
        step_times.sort_unstable();
        step_times.dedup();
        step_times.into_iter().find(|&at| {
            let mut holds = futures.iter();
            holds.all(|(future, taken)| fits_in(&future.least(at, at + length), taken))
        })
    }

    /// The known ends of running jobs and of jobs started in this cycle on a node, and the starts
    /// and ends of planned jobs.
    fn changes(&self, ix: NodeIx) -> Vec<NodeEvent> {
        let tenants = self
            .state
            .cluster
            .node(ix)
            .tenants
            .iter()
            .filter_map(|(job, hold)| {
                let at = self
                    .state
                    .planned_end(*job, self.state.running.get(job)?.until, self.now);
                Some(NodeEvent {
                    at,
                    begins: false,
                    taken: hold.taken.clone(),
                    owner: hold.owner,
                })
            });
        let started_here = self.started_here.get(&ix).into_iter().flatten().cloned();
        let mut changes: Vec<NodeEvent> = tenants
            .chain(started_here)
            .filter(|change| change.at != Time::NEVER)
            .collect();
        for key in self.by_node.get(&ix).into_iter().flatten() {
            let Some(pin) = self.pins.get(key) else {
                continue;
            };
            let Some(taken) = pin.claim.holds.get(&ix) else {
                continue;
            };
            changes.extend(
                [(key.0, true), (pin.until, false)].map(|(at, begins)| NodeEvent {
                    at,
                    begins,
                    taken: taken.clone(),
                    owner: pin.claim.owner,
                }),
            );
        }
        changes
    }

    /// The earliest start, now or later, of a job that runs for `span`, delays no planned start and
    /// uses no resources that reservations deny it. None if no such start can be computed.
    pub fn earliest(
        &mut self,
        now: &AvailabilityMap<'s>,
        terms: &SearchTerms<'_, 's>,
        span: Span,
    ) -> Option<Slot> {
        let shape = &*terms.class.shape;
        self.timeline.sort_ends();
        if self
            .after_all_ends
            .as_ref()
            .is_some_and(|space| !place::fits(space, shape))
        {
            return None;
        }
        let mut later = match self.timeline.earliest(now, shape) {
            Ok(later) => later,
            Err(after_all_ends) => {
                self.after_all_ends = Some(after_all_ends);
                return None;
            }
        };
        let futures = self.futures(now);
        for at in self.end_times(later.at, terms.windows) {
            self.timeline.advance(&mut later, at);
            for future in &futures {
                future.narrow(&mut later.space, at, at + span);
            }
            self.hold_pools(&mut later.space, at, at + span);
            if !place::fits(&later.space, shape) {
                continue;
            }
            if let Some(placement) = self.admitted(now, &later, terms, span) {
                return Some(Slot { at, placement });
            }
        }
        None
    }

    /// The nodes on which a job that runs for `span` fits at the time of `then`, on resources that
    /// reservations leave. `then` contains the resources that planned starts leave.
    fn admitted(
        &self,
        now: &AvailabilityMap<'s>,
        then: &LaterResources<'s>,
        terms: &SearchTerms<'_, 's>,
        span: Span,
    ) -> Option<Placement> {
        if self.state.windows.is_empty() {
            return self.place_later(now, then, &terms.class.shape);
        }
        let mut left = then.clone();
        terms
            .windows
            .narrow(&mut left.space, terms.class, then.at, then.at + span);
        self.place_later(now, &left, &terms.class.shape)
    }

    /// The start at `at` of a job that runs for `span`, delays no planned start and uses no
    /// resources that reservations deny it; None if the job does not fit.
    pub fn fits_at(
        &mut self,
        now: &AvailabilityMap<'s>,
        terms: &SearchTerms<'_, 's>,
        at: Time,
        span: Span,
    ) -> Option<Slot> {
        let left = self.left_at(now, terms, at, span);
        let placement = self.place_later(now, &left, &terms.class.shape)?;
        Some(Slot { at, placement })
    }

    /// The resources that planned starts and reservations leave to a job that starts at `at` and
    /// runs for `span`.
    fn left_at(
        &mut self,
        now: &AvailabilityMap<'s>,
        terms: &SearchTerms<'_, 's>,
        at: Time,
        span: Span,
    ) -> LaterResources<'s> {
        self.timeline.sort_ends();
        let mut later = self.timeline.at_present(now);
        self.timeline.advance(&mut later, at);
        self.narrow(&mut later.space, now, at, at + span);
        if !self.state.windows.is_empty() {
            terms
                .windows
                .narrow(&mut later.space, terms.class, at, at + span);
        }
        later
    }

    /// A start at `at` on `nodes`, which an earlier cycle planned for the job. None if the nodes no
    /// longer meet the conditions that [`Self::suits`] checks, or their resources are not free for
    /// `span`.
    pub fn slot_on(
        &mut self,
        now: &AvailabilityMap<'s>,
        terms: &SearchTerms<'_, 's>,
        nodes: &[String],
        (at, span): (Time, Span),
    ) -> Option<Slot> {
        let shape = &*terms.class.shape;
        let placement = Placement::on(now, shape, nodes)
            .filter(|placement| self.suits(now, shape, placement))?;
        let claim = allocation::claim(now.cluster, shape, &placement);
        let of_nodes_alone = shape.pooled.is_empty()
            && terms
                .windows
                .excluding_reservation(terms.class, nodes, at, at + span)
                .is_none();
        let is_free = if of_nodes_alone {
            self.is_free(now, &claim, at, span)
        } else {
            self.left_at(now, terms, at, span)
                .space
                .has_room_for(&claim)
        };
        is_free.then_some(Slot { at, placement })
    }

    /// Whether the nodes of a placement still meet the conditions of the request for single nodes,
    /// and the condition on groups of nodes. The arrangement of chunks is not checked again.
    fn suits(&self, now: &AvailabilityMap<'s>, shape: &Shape, placement: &Placement) -> bool {
        let (cluster, picks) = (&self.state.cluster, &placement.picks);
        let is_of_one_group = shape.group.as_ref().is_none_or(|resource| {
            let mut values = picks
                .iter()
                .map(|&(ix, _)| cluster.value(cluster.node(ix), resource));
            let first = values.next().flatten();
            first.is_some() && values.all(|value| value == first)
        });
        is_of_one_group
            && picks.iter().all(|&(ix, chunk)| {
                cluster.node_meets(ix, &shape.chunks[chunk].needs) && filter::suits(now, shape, ix)
            })
    }

    /// Whether the resources of a claim are free from `at` on for `span`, on nodes that take jobs.
    fn is_free(&self, now: &AvailabilityMap<'s>, claim: &JobAmounts, at: Time, span: Span) -> bool {
        claim.holds.iter().all(|(&ix, taken)| {
            let room = self.least_free(now, ix, at, at + span);
            let enough = taken
                .iter()
                .zip(&room.free)
                .all(|(taken, free)| *taken == 0 || taken <= free);
            now.is_open(ix) && enough && room.admits(claim.owner)
        })
    }

    /// The time `first`, and then each later time at which a running job, a planned job or a
    /// reservation ends.
    fn end_times(
        &self,
        first: Time,
        windows: &Windows,
    ) -> impl Iterator<Item = Time> + use<'_, 's> {
        let promised = self
            .pins
            .values()
            .map(|pin| pin.until)
            .filter(|&end| end > first && end != Time::NEVER);
        let mut others: Vec<Time> = promised.chain(windows.ends_after(first)).collect();
        others.sort_unstable();
        std::iter::successors(Some(first), move |&time| {
            let other = others
                .get(others.partition_point(|&end| end <= time))
                .copied();
            self.timeline.next_end(time).into_iter().chain(other).min()
        })
    }

    /// Chooses the nodes of a planned start; None if the request does not fit. Most requests with
    /// one kind of chunk first use resources that are not free now; other requests are placed as
    /// for a start now.
    fn place_later(
        &self,
        now: &AvailabilityMap<'s>,
        then: &LaterResources<'s>,
        shape: &Shape,
    ) -> Option<Placement> {
        let [chunk] = &shape.chunks[..] else {
            return place::fit(&then.space, shape).ok();
        };
        let is_plain = shape.arrangement != Arrangement::Pack
            && shape.group.is_none()
            && !then.space.guide().restricts_combination(shape);
        if !is_plain || !place::fits(&then.space, shape) {
            return place::fit(&then.space, shape).ok();
        }
        let mut picks = self.released_places(now, then, shape, chunk);
        if (picks.len() as u64) < chunk.count {
            picks = self.complete(&then.space, shape, picks)?;
        }
        Some(Placement { picks })
    }

    /// The nodes of chunks that fit at the time of `then`, but not now. Returns no more chunks than
    /// requested.
    fn released_places(
        &self,
        now: &AvailabilityMap<'s>,
        then: &LaterResources<'s>,
        shape: &Shape,
        chunk: &ChunkShape,
    ) -> Vec<(NodeIx, usize)> {
        let (before, after) = (
            TentativePlacement::new(now, shape),
            TentativePlacement::new(&then.space, shape),
        );
        let mut picks = Vec::new();
        let mut hosts = BTreeSet::new();
        for ix in self.timeline.released(then) {
            let suits = then.space.is_open(ix)
                && self.state.cluster.node_meets(ix, &chunk.needs)
                && filter::suits(&then.space, shape, ix);
            let host = &self.state.cluster.node(ix).host;
            if !suits || (shape.arrangement == Arrangement::Scatter && !hosts.insert(host)) {
                continue;
            }
            let more = after.times(ix, 0).saturating_sub(before.times(ix, 0));
            let take = more.min(chunk.count - picks.len() as u64);
            picks.extend((0..take).map(|_| (ix, 0)));
        }
        picks
    }

    /// Adds nodes for the remaining chunks to the picks. If the remaining chunks do not fit, places
    /// all chunks again.
    fn complete(
        &self,
        then: &AvailabilityMap<'s>,
        shape: &Shape,
        picks: Vec<(NodeIx, usize)>,
    ) -> Option<Vec<(NodeIx, usize)>> {
        let mut rest = shape.clone();
        rest.chunks[0].count -= picks.len() as u64;
        rest.instances = rest.chunks[0].count;
        rest.total = rest.chunks[0].amounts(rest.instances, &self.state.cluster.catalog);
        let mut left = then.clone();
        let mut per_node: BTreeMap<NodeIx, u64> = BTreeMap::new();
        for (ix, _) in &picks {
            *per_node.entry(*ix).or_default() += 1;
        }
        for (&ix, &count) in &per_node {
            let cluster = &self.state.cluster;
            match (shape.arrangement, shape.access) {
                (Arrangement::Scatter, _) => {
                    for neighbour in cluster.nodes_of_host(&cluster.node(ix).host) {
                        left.close(neighbour);
                    }
                }
                (Arrangement::Free, access) if !access.is_exclusive() => {
                    left.admit(
                        ix,
                        &shape.chunks[0].amounts(count, &cluster.catalog),
                        shape.owner(),
                    );
                }
                _ => left.close(ix),
            }
        }
        if let Ok(found) = place::fit(&left, &rest) {
            return Some(picks.into_iter().chain(found.picks).collect());
        }
        Some(place::fit(then, shape).ok()?.picks)
    }

    /// Adds a planned start on the nodes of its claim.
    pub fn book(&mut self, job: JobId, at: Time, until: Time, claim: JobAmounts) {
        for &ix in claim.holds.keys() {
            self.by_node.entry(ix).or_default().insert((at, job));
        }
        self.pins.insert((at, job), Pin { until, claim });
        self.free_until.clear();
    }

    /// Removes a planned start.
    pub fn unbook(&mut self, job: JobId, at: Time) {
        let Some(pin) = self.pins.remove(&(at, job)) else {
            return;
        };
        for ix in pin.claim.holds.keys() {
            if let Some(promises) = self.by_node.get_mut(ix) {
                promises.remove(&(at, job));
                if promises.is_empty() {
                    self.by_node.remove(ix);
                }
            }
        }
        self.free_until.clear();
    }
}

/// Whether a node has the amounts `taken` free.
fn fits_in(room: &FreeResources, taken: &[i64]) -> bool {
    taken
        .iter()
        .zip(&room.free)
        .all(|(taken, free)| *taken == 0 || taken <= free)
}

/// The free resources of a node over time. Each step lasts until the next step begins.
struct Future {
    ix: NodeIx,
    steps: Vec<(Time, FreeResources)>,
}

impl Future {
    /// The least free resources from `from` until `until`.
    fn least(&self, from: Time, until: Time) -> FreeResources {
        let first = self
            .steps
            .partition_point(|(begin, _)| *begin <= from)
            .max(1)
            - 1;
        let mut least = self.steps[first].1.clone();
        let later = self.steps[first + 1..]
            .iter()
            .take_while(|(begin, _)| *begin < until);
        for (_, room) in later {
            least.narrow(room);
        }
        least
    }

    /// Reduces the node in `space` to its least free resources from `from` until `until`.
    fn narrow(&self, space: &mut AvailabilityMap, from: Time, until: Time) {
        let room = self.least(from, until);
        if room != *space.room(self.ix) {
            space.refile(self.ix, room);
        }
    }
}

impl NodeEvent {
    /// Changes the free resources of the node as the event does.
    fn apply(&self, room: &mut FreeResources) {
        if self.begins {
            room.admit(&self.taken, self.owner)
        } else {
            room.dismiss(&self.taken, self.owner)
        }
    }
}

#[cfg(test)]
mod tests;
