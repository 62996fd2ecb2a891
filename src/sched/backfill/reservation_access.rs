//! Determines which jobs may use reserved resources (M37 to M42). A [`Window`] is one occurrence of
//! a reservation.
//!
//! A reservation restricts neither the jobs with access to it nor the jobs that end by the time it
//! begins. On the nodes of the reservation, all other jobs may use only resources that stay
//! unreserved until the job ends. The ends of running jobs and the beginnings of reservations until
//! then are taken into account. If nodes are reserved as a whole, the restricted jobs may not use
//! them at all. A job that requests a reservation may use only the resources of this reservation.
//!
//! Jobs that are excluded by the same reservations may use the same resources. The map of these
//! resources is computed once in a cycle and updated at each start.

use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::reservation::window::{Admission, Window};
use crate::model::time::{Span, Time};
use crate::sched::amounts::{Amounts, add, subtract};
use crate::sched::placement::availability_map::{AvailabilityMap, JobAmounts};
use crate::sched::placement::place::{self, Placement};
use crate::sched::placement::shortage;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::free_resources::FreeResources;
use crate::sched::view::node_access::JobOwner;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

/// The reservations that exclude a job, the job's start time, and the running jobs that are already
/// removed from the map of free resources.
type Exclusion<'b> = (&'b [&'b Window], Time, &'b BTreeSet<JobId>);

/// An empty set, for maps from which no running job is removed.
static NO_JOBS: BTreeSet<JobId> = BTreeSet::new();

/// The reservations, and the reserved resources that jobs inside the reservations use.
pub struct Windows<'s> {
    state: &'s ClusterState,
    now: Time,
    /// For each reservation and node: the end and the amounts of each job inside.
    inside: BTreeMap<(String, NodeIx), Vec<(Time, Amounts)>>,
    /// The resources that jobs without access to certain reservations may use. The key is the ids
    /// of these reservations.
    left_maps: BTreeMap<Vec<&'s str>, AvailabilityMap<'s>>,
}

/// The placement of a job inside the reservation that it requests, or on resources that
/// reservations leave.
pub struct ReservationFit {
    /// The nodes on which the job fits. The error is the reason why the job does not fit.
    pub placement: Result<Placement, Reason>,
    /// Whether the job is inside its reservation. If so, it need not respect planned starts.
    pub is_inside: bool,
}

impl<'s> Windows<'s> {
    /// The reservations of the snapshot.
    pub fn open(state: &'s ClusterState, now: Time) -> Windows<'s> {
        let mut windows = Windows {
            state,
            now,
            inside: BTreeMap::new(),
            left_maps: BTreeMap::new(),
        };
        for (job, name) in &state.jobs_in_reservations {
            let Some(running) = state.running.get(job) else {
                continue;
            };
            for &ix in &running.nodes {
                if let Some(hold) = state.cluster.node(ix).tenants.get(job) {
                    windows.note_job_inside(name, ix, running.until, &hold.taken);
                }
            }
        }
        windows
    }

    fn note_job_inside(&mut self, name: &str, ix: NodeIx, until: Time, taken: &Amounts) {
        self.inside
            .entry((name.to_string(), ix))
            .or_default()
            .push((until, taken.clone()));
    }

    /// Adds a started job. `space` is the map of free resources after the start.
    pub fn start(
        &mut self,
        class: &ClassKey,
        claim: &JobAmounts,
        until: Time,
        space: &AvailabilityMap<'s>,
    ) {
        if let Some(name) = class.reservation.as_deref() {
            let requested = self
                .state
                .windows
                .values()
                .filter(|window| window.has_name(name) && window.is_open(self.now));
            let names: BTreeSet<String> =
                requested.map(|window| window.name().to_string()).collect();
            for (&ix, taken) in &claim.holds {
                for name in &names {
                    self.note_job_inside(name, ix, until, taken);
                }
            }
        }
        let mut left_maps = std::mem::take(&mut self.left_maps);
        for (ids, left) in &mut left_maps {
            let windows: Vec<&Window> = ids
                .iter()
                .filter_map(|id| self.state.windows.get(*id))
                .collect();
            for &ix in claim.holds.keys() {
                self.update_node(left, space, ix, (&windows, self.now, &NO_JOBS));
            }
        }
        self.left_maps = left_maps;
    }

    /// The end of a job that starts now and would end at `end` without reservations. The result is
    /// earlier than `end` if the job requests an open reservation that ends earlier, and that ends
    /// its jobs at its own end ([`Window::ends_jobs`]).
    pub fn end_of(&self, class: &ClassKey, end: Time) -> Time {
        let Some(name) = class.reservation.as_deref() else {
            return end;
        };
        let own = self
            .state
            .windows
            .values()
            .filter(|window| window.has_name(name) && window.is_open(self.now));
        own.filter(|window| window.ends_jobs())
            .map(|window| window.to)
            .fold(end, Time::min)
    }

    /// The next time at which a reservation begins or ends.
    pub fn next_change(&self) -> Option<Time> {
        let changes = self
            .state
            .windows
            .values()
            .flat_map(|window| [window.from, window.to]);
        changes
            .filter(|change| *change > self.now && *change != Time::NEVER)
            .min()
    }

    /// The nodes on which reservations allow a job to run from now until `until`; None if no
    /// reservation restricts the job. The error is the reason why the job may not use the
    /// reservation that it requests.
    pub fn fit(
        &mut self,
        space: &AvailabilityMap<'s>,
        class: &ClassKey,
        until: Time,
    ) -> Result<Option<ReservationFit>, Reason> {
        let length = class.walltime.unwrap_or(until.since(self.now));
        if let Some(requested) = class.reservation.as_deref() {
            let within = self.within(space, class, (requested, length), until)?;
            let placement = place::fit(&within, &class.shape);
            let placement =
                placement.map_err(|misfit| shortage::now(&within, &class.shape, misfit));
            return Ok(Some(ReservationFit {
                placement,
                is_inside: true,
            }));
        }
        let excluding = self.excluding(class, None, length, (self.now, until));
        let Some(first) = excluding.iter().min_by_key(|window| window.from) else {
            return Ok(None);
        };
        let reason = Reason::Reserved {
            window: first.id.clone(),
            from: first.from,
        };
        let ids: Vec<&str> = excluding.iter().map(|window| window.id.as_str()).collect();
        if !self.left_maps.contains_key(&ids) {
            let left = self.left_by(space, (&excluding, self.now, &NO_JOBS));
            self.left_maps.insert(ids.clone(), left);
        }
        let placement = self
            .left_maps
            .get(&ids)
            .map(|left| place::fit(left, &class.shape));
        let placement = placement.and_then(Result::ok).ok_or(reason);
        Ok(Some(ReservationFit {
            placement,
            is_inside: false,
        }))
    }

    /// The resources that reservations leave to a job that starts now and ends at `until`, as
    /// computed by [`fit`](Self::fit). None if no reservation excludes the job, or if `fit` was not
    /// called for a job that the same reservations exclude.
    pub fn left(&self, class: &ClassKey, until: Time) -> Option<&AvailabilityMap<'s>> {
        let excluding = self.excluding(
            class,
            None,
            class.walltime.unwrap_or(until.since(self.now)),
            (self.now, until),
        );
        let ids: Vec<&str> = excluding.iter().map(|window| window.id.as_str()).collect();
        self.left_maps.get(&ids)
    }

    /// The free resources of the reservation that a class requests, for a job that ends at `until`.
    /// None if the class requests no reservation, the reservation is not open, or the job may not
    /// use it.
    pub fn inside(
        &self,
        space: &AvailabilityMap<'s>,
        class: &ClassKey,
        until: Time,
    ) -> Option<AvailabilityMap<'s>> {
        let length = class.walltime.unwrap_or(until.since(self.now));
        self.within(space, class, (class.reservation.as_deref()?, length), until)
            .ok()
    }

    /// Whether a node belongs to the reservation that a class requests; true if the class requests
    /// no reservation.
    pub fn encloses(&self, class: &ClassKey, node: &str) -> bool {
        let requested = class.reservation.as_deref();
        requested.is_none_or(|requested| {
            self.state
                .windows
                .values()
                .any(|window| window.has_name(requested) && window.covers(node))
        })
    }

    /// Removes from `space` the resources that reservations deny to a job that starts at `from` and
    /// ends at `until`. `space` contains the resources that are free at `from`. The job requests no
    /// reservation.
    pub fn narrow(
        &self,
        space: &mut AvailabilityMap<'s>,
        class: &ClassKey,
        from: Time,
        until: Time,
    ) {
        self.narrow_without(&NO_JOBS, space, class, (from, until));
    }

    /// Like [`narrow`](Self::narrow), for a map from which the running jobs `gone` are already
    /// removed.
    pub fn narrow_without(
        &self,
        gone: &BTreeSet<JobId>,
        space: &mut AvailabilityMap<'s>,
        class: &ClassKey,
        (from, until): (Time, Time),
    ) {
        let excluding = self.excluding(
            class,
            None,
            class.walltime.unwrap_or(until.since(from)),
            (from, until),
        );
        if !excluding.is_empty() {
            *space = self.left_by(space, (&excluding, from, gone));
        }
    }

    /// A reservation that excludes a job of a class from some of these nodes between two times;
    /// None if there is none.
    pub fn excluding_reservation(
        &self,
        class: &ClassKey,
        nodes: &[String],
        from: Time,
        until: Time,
    ) -> Option<&'s Window> {
        let excluding = self.excluding(
            class,
            None,
            class.walltime.unwrap_or(until.since(from)),
            (from, until),
        );
        excluding
            .into_iter()
            .find(|window| nodes.iter().any(|node| window.covers(node)))
    }

    /// Whether a reservation other than the job's own (`inside`) excludes a started job from some
    /// of these nodes between two times.
    pub fn excludes(
        &self,
        class: &ClassKey,
        inside: Option<&String>,
        nodes: &[String],
        span: (Time, Time),
    ) -> bool {
        let length = class.walltime.unwrap_or(span.1.since(span.0));
        let others = self.excluding(class, None, length, span).into_iter();
        let mut others = others.filter(|window| inside.is_none_or(|own| window.name() != own));
        others.any(|window| nodes.iter().any(|node| window.covers(node)))
    }

    /// The ends of reservations after a time, in no particular order.
    pub fn ends_after(&self, time: Time) -> impl Iterator<Item = Time> + use<'_, 's> {
        let ends = self.state.windows.values().map(|window| window.to);
        ends.filter(move |&end| end > time && end != Time::NEVER)
    }

    /// The reservations that exclude jobs of a class that run from `from` until `until`. The jobs
    /// have the walltime `length` and request the reservation `requested`.
    fn excluding(
        &self,
        class: &ClassKey,
        requested: Option<&str>,
        length: Span,
        (from, until): (Time, Time),
    ) -> Vec<&'s Window> {
        let windows = self.state.windows.values();
        windows
            .filter(|window| {
                window.meets(from, until)
                    && !window
                        .admits(&class.who, requested, length)
                        .permits(window, from, until)
            })
            .collect()
    }

    /// The resources of `space` that the reservations leave. On each node of the reservations, this
    /// is the minimum of the free amounts over time. Nodes that are reserved as a whole are closed.
    fn left_by(&self, space: &AvailabilityMap<'s>, terms: Exclusion) -> AvailabilityMap<'s> {
        let mut left = space.clone();
        let nodes: BTreeSet<NodeIx> = terms
            .0
            .iter()
            .flat_map(|window| self.nodes_of(window))
            .collect();
        for ix in nodes {
            self.update_node(&mut left, space, ix, terms);
        }
        left
    }

    /// Updates one node in `left`, the map of the resources that the reservations leave.
    fn update_node(
        &self,
        left: &mut AvailabilityMap<'s>,
        space: &AvailabilityMap<'s>,
        ix: NodeIx,
        (windows, from, gone): Exclusion,
    ) {
        let name = &self.state.cluster.node(ix).name;
        let here: Vec<&Window> = windows
            .iter()
            .copied()
            .filter(|window| window.covers(name))
            .collect();
        if here.is_empty() {
            return left.refile(ix, space.room(ix).clone());
        }
        left.refile(ix, self.least(space.room(ix), ix, (&here, from, gone)));
        if here.iter().any(|window| window.whole) {
            left.close(ix);
        }
    }

    fn nodes_of<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = NodeIx> + 'a {
        window
            .shares
            .iter()
            .filter_map(|share| self.state.cluster.find(&share.node))
    }

    /// For each resource of a node, the minimum of the amounts that are free and not reserved, at
    /// `from` and at each later beginning of a reservation. The node counts as in use, so that no
    /// exclusive job starts on it.
    fn least(
        &self,
        room: &FreeResources,
        ix: NodeIx,
        (windows, from, gone): Exclusion,
    ) -> FreeResources {
        let mut least = room.clone();
        least.admit(&self.state.cluster.catalog.nothing(), JobOwner::default());
        for time in windows.iter().map(|window| window.from.max(from)) {
            let mut free = room.free.clone();
            add(&mut free, &self.released(ix, gone, (from, time)));
            for window in windows.iter().filter(|window| window.is_open(time)) {
                subtract(&mut free, &self.unused(window, ix, time));
            }
            for (least, free) in least.free.iter_mut().zip(free) {
                *least = free.min(*least);
            }
        }
        least
    }

    /// The amounts that the running jobs on a node, except those in `gone`, release between two
    /// times.
    fn released(&self, ix: NodeIx, gone: &BTreeSet<JobId>, (from, by): (Time, Time)) -> Amounts {
        let mut released = self.state.cluster.catalog.nothing();
        for (job, hold) in &self.state.cluster.node(ix).tenants {
            let until = self
                .state
                .running
                .get(job)
                .map_or(Time::NEVER, |running| running.until);
            let end = self.state.planned_end(*job, until, self.now);
            if from < end && end <= by && !gone.contains(job) {
                add(&mut released, &hold.taken);
            }
        }
        released
    }

    /// The resources on a node that belong to a reservation and that jobs inside the reservation do
    /// not use at the time `at`.
    fn unused(&self, window: &Window, ix: NodeIx, at: Time) -> Amounts {
        let mut unused = self.share(window, ix);
        let inside = self
            .inside
            .get(&(window.name().to_string(), ix))
            .into_iter()
            .flatten();
        for (_, taken) in inside.filter(|(until, _)| *until > at || at <= self.now) {
            subtract(&mut unused, taken);
        }
        for amount in &mut unused {
            *amount = (*amount).max(0);
        }
        unused
    }

    /// The sum of the resources of a reservation on a node. Only the sum counts, because the chunks
    /// of jobs inside need not match those of the reservation (M38).
    fn share(&self, window: &Window, ix: NodeIx) -> Amounts {
        let node = self.state.cluster.node(ix);
        let here: Vec<NodeShare> = window
            .shares
            .iter()
            .filter(|share| share.node == node.name)
            .cloned()
            .collect();
        let holds = self
            .state
            .cluster
            .holds(&here, JobOwner::default())
            .unwrap_or_default();
        holds
            .into_values()
            .next()
            .map_or_else(|| self.state.cluster.catalog.nothing(), |hold| hold.taken)
    }

    /// The free resources inside the requested reservation, for a job that ends at `until`. The
    /// error is the reason why the job may not use the reservation.
    fn within(
        &self,
        space: &AvailabilityMap<'s>,
        class: &ClassKey,
        (requested, length): (&str, Span),
        until: Time,
    ) -> Result<AvailabilityMap<'s>, Reason> {
        let open: Vec<&Window> = self
            .state
            .windows
            .values()
            .filter(|window| window.has_name(requested) && window.is_open(self.now))
            .collect();
        let Some(first) = open.first() else {
            return Err(Reason::NotOpen {
                window: requested.to_string(),
            });
        };
        let reason = Reason::Reserved {
            window: first.id.clone(),
            from: first.from,
        };
        let own: Vec<&Window> = open
            .into_iter()
            .filter(|window| {
                let admission = window.admits(&class.who, Some(requested), length);
                admission != Admission::KeptOut && admission.permits(window, self.now, until)
            })
            .collect();
        let Some(last) = own.iter().map(|window| window.to).max() else {
            return Err(reason);
        };
        if until > last
            || class
                .walltime
                .is_some_and(|walltime| self.now + walltime > last)
        {
            let requested = class.walltime.unwrap_or(until.since(self.now)).to_string();
            return Err(Reason::OutlastsWindow {
                requested,
                left: last.since(self.now).to_string(),
            });
        }
        // M39: if another reservation reserves a node as a whole, the job must also have access to
        // that reservation to use the node.
        let excluding = self.excluding(class, Some(requested), length, (self.now, until));
        let closed: BTreeSet<NodeIx> = excluding
            .iter()
            .filter(|window| window.whole)
            .flat_map(|window| self.nodes_of(window))
            .collect();
        let mut free_inside = self.free_inside(space, &own);
        free_inside.retain(|ix, _| !closed.contains(ix));
        Ok(AvailabilityMap::of_rooms(&self.state.cluster, free_inside).like(space))
    }

    /// The free resources inside these reservations, by node.
    fn free_inside(
        &self,
        space: &AvailabilityMap<'s>,
        windows: &[&Window],
    ) -> BTreeMap<NodeIx, FreeResources> {
        let mut left: BTreeMap<NodeIx, Amounts> = BTreeMap::new();
        for window in windows {
            let nodes: BTreeSet<NodeIx> = self
                .nodes_of(window)
                .filter(|&ix| space.is_open(ix))
                .collect();
            for ix in nodes {
                let more = if window.whole {
                    space.room(ix).free.clone()
                } else {
                    self.unused(window, ix, self.now)
                };
                add(
                    left.entry(ix)
                        .or_insert_with(|| self.state.cluster.catalog.nothing()),
                    &more,
                );
            }
        }
        let mut free_inside = BTreeMap::new();
        for (ix, left) in left {
            let mut room = space.room(ix).clone();
            for (free, left) in room.free.iter_mut().zip(left) {
                *free = left.min(*free);
            }
            free_inside.insert(ix, room);
        }
        free_inside
    }
}

#[cfg(test)]
mod tests;
