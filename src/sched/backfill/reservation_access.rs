//! Who may use what reservations set aside (M37 to M42)?
//!
//! A job that a window admits sees the cluster as it is. One that is kept out sees less: of each
//! node of the window what is left at the tightest moment until the job would end, when running
//! jobs have ended and windows opened. One that asks for a reservation sees that reservation and
//! nothing else.
//!
//! Jobs that the same windows keep out see the same: each such view is made once in a cycle and
//! kept in line with what starts.

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

/// What a place is sought beside: windows, from when on, and without which of the jobs that run.
type Beside<'b> = (&'b [&'b Window], Time, &'b BTreeSet<JobId>);

/// Where all that run are there.
static NOBODY: BTreeSet<JobId> = BTreeSet::new();

/// The windows, and what jobs inside have of them.
pub struct Windows<'s> {
    state: &'s ClusterState,
    now: Time,
    /// By reservation and node: until when, and what.
    inside: BTreeMap<(String, NodeIx), Vec<(Time, Amounts)>>,
    /// What is left beside windows, by their ids.
    beside: BTreeMap<Vec<&'s str>, AvailabilityMap<'s>>,
}

/// What windows leave to a class of jobs.
pub struct Leave {
    /// Where a job fits, or how it does not.
    pub placement: Result<Placement, Reason>,
    /// Whether it is inside a reservation it asked for: promises to others do not reach in there.
    pub is_inside: bool,
}

impl<'s> Windows<'s> {
    /// The windows there are.
    pub fn open(state: &'s ClusterState, now: Time) -> Windows<'s> {
        let mut windows = Windows {
            state,
            now,
            inside: BTreeMap::new(),
            beside: BTreeMap::new(),
        };
        for (job, name) in &state.insiders {
            let Some(running) = state.running.get(job) else {
                continue;
            };
            for &ix in &running.nodes {
                if let Some(hold) = state.cluster.node(ix).tenants.get(job) {
                    windows.note(name, ix, running.until, &hold.taken);
                }
            }
        }
        windows
    }

    fn note(&mut self, name: &str, ix: NodeIx, until: Time, taken: &Amounts) {
        self.inside
            .entry((name.to_string(), ix))
            .or_default()
            .push((until, taken.clone()));
    }

    /// A job has started, and `space` is what that leaves: what it took in a reservation is used
    /// there, and gone for who is kept out.
    pub fn start(
        &mut self,
        class: &ClassKey,
        claim: &JobAmounts,
        until: Time,
        space: &AvailabilityMap<'s>,
    ) {
        if let Some(name) = class.asks_for.as_deref() {
            let called = self
                .state
                .windows
                .values()
                .filter(|window| window.is_called(name) && window.is_open(self.now));
            let names: BTreeSet<String> = called.map(|window| window.name().to_string()).collect();
            for (&ix, taken) in &claim.holds {
                for name in &names {
                    self.note(name, ix, until, taken);
                }
            }
        }
        let mut beside = std::mem::take(&mut self.beside);
        for (ids, left) in &mut beside {
            let windows: Vec<&Window> = ids
                .iter()
                .filter_map(|id| self.state.windows.get(*id))
                .collect();
            for &ix in claim.holds.keys() {
                self.settle(left, space, ix, (&windows, self.now, &NOBODY));
            }
        }
        self.beside = beside;
    }

    /// When a job that would end then is over at the latest: some reservations end their jobs.
    pub fn end_of(&self, class: &ClassKey, end: Time) -> Time {
        let Some(name) = class.asks_for.as_deref() else {
            return end;
        };
        let mine = self
            .state
            .windows
            .values()
            .filter(|window| window.is_called(name) && window.is_open(self.now));
        mine.filter(|window| window.ends_jobs())
            .map(|window| window.to)
            .fold(end, Time::min)
    }

    /// When a window opens or closes next.
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

    /// Where windows leave room for a job of a class that ends then; None if windows do not concern
    /// it, else why it may not run at all.
    pub fn fit(
        &mut self,
        space: &AvailabilityMap<'s>,
        class: &ClassKey,
        until: Time,
    ) -> Result<Option<Leave>, Reason> {
        let length = class.walltime.unwrap_or(until.since(self.now));
        if let Some(asked) = class.asks_for.as_deref() {
            let within = self.within(space, class, (asked, length), until)?;
            let placement = place::fit(&within, &class.shape);
            let placement =
                placement.map_err(|misfit| shortage::now(&within, &class.shape, misfit));
            return Ok(Some(Leave {
                placement,
                is_inside: true,
            }));
        }
        let kept_out = self.barring(class, None, length, (self.now, until));
        let Some(first) = kept_out.iter().min_by_key(|window| window.from) else {
            return Ok(None);
        };
        let reason = Reason::Reserved {
            window: first.id.clone(),
            from: first.from,
        };
        let ids: Vec<&str> = kept_out.iter().map(|window| window.id.as_str()).collect();
        if !self.beside.contains_key(&ids) {
            let left = self.left_beside(space, (&kept_out, self.now, &NOBODY));
            self.beside.insert(ids.clone(), left);
        }
        let placement = self
            .beside
            .get(&ids)
            .map(|left| place::fit(left, &class.shape));
        let placement = placement.and_then(Result::ok).ok_or(reason);
        Ok(Some(Leave {
            placement,
            is_inside: false,
        }))
    }

    /// What windows leave now to a job of a class that ends then, as it was when a place was last
    /// sought for such a job.
    pub fn left(&self, class: &ClassKey, until: Time) -> Option<&AvailabilityMap<'s>> {
        let kept_out = self.barring(
            class,
            None,
            class.walltime.unwrap_or(until.since(self.now)),
            (self.now, until),
        );
        let ids: Vec<&str> = kept_out.iter().map(|window| window.id.as_str()).collect();
        self.beside.get(&ids)
    }

    /// What the reservation that a class asks for leaves to a job of it that ends then; None
    /// without one that is open to it.
    pub fn inside(
        &self,
        space: &AvailabilityMap<'s>,
        class: &ClassKey,
        until: Time,
    ) -> Option<AvailabilityMap<'s>> {
        let length = class.walltime.unwrap_or(until.since(self.now));
        self.within(space, class, (class.asks_for.as_deref()?, length), until)
            .ok()
    }

    /// Whether a node is one of the reservation that a class asks for.
    pub fn encloses(&self, class: &ClassKey, node: &str) -> bool {
        let asked = class.asks_for.as_deref();
        asked.is_none_or(|asked| {
            self.state
                .windows
                .values()
                .any(|window| window.is_called(asked) && window.covers(node))
        })
    }

    /// Cuts down what will be free at `from` to what windows leave of it to a job of a class that
    /// asks for no reservation and ends then.
    pub fn narrow(
        &self,
        space: &mut AvailabilityMap<'s>,
        class: &ClassKey,
        from: Time,
        until: Time,
    ) {
        self.narrow_without(&NOBODY, space, class, (from, until));
    }

    /// The same where some of the running jobs are gone already: they give nothing back any more.
    pub fn narrow_without(
        &self,
        gone: &BTreeSet<JobId>,
        space: &mut AvailabilityMap<'s>,
        class: &ClassKey,
        (from, until): (Time, Time),
    ) {
        let kept_out = self.barring(
            class,
            None,
            class.walltime.unwrap_or(until.since(from)),
            (from, until),
        );
        if !kept_out.is_empty() {
            *space = self.left_beside(space, (&kept_out, from, gone));
        }
    }

    /// The first window that keeps a job of a class out of some nodes between two moments.
    pub fn in_the_way(
        &self,
        class: &ClassKey,
        nodes: &[String],
        from: Time,
        until: Time,
    ) -> Option<&'s Window> {
        let barring = self.barring(
            class,
            None,
            class.walltime.unwrap_or(until.since(from)),
            (from, until),
        );
        barring
            .into_iter()
            .find(|window| nodes.iter().any(|node| window.covers(node)))
    }

    /// Whether a window keeps a job of a class that has begun out of some nodes between two
    /// moments; one that it is inside of does not.
    pub fn bar(
        &self,
        class: &ClassKey,
        inside: Option<&String>,
        nodes: &[String],
        span: (Time, Time),
    ) -> bool {
        let length = class.walltime.unwrap_or(span.1.since(span.0));
        let others = self.barring(class, None, length, span).into_iter();
        let mut others = others.filter(|window| inside.is_none_or(|own| window.name() != own));
        others.any(|window| nodes.iter().any(|node| window.covers(node)))
    }

    /// When windows close, later than a moment.
    pub fn ends_after(&self, moment: Time) -> impl Iterator<Item = Time> + use<'_, 's> {
        let ends = self.state.windows.values().map(|window| window.to);
        ends.filter(move |&end| end > moment && end != Time::NEVER)
    }

    /// The windows that do not admit jobs of a class that run from one moment until another.
    fn barring(
        &self,
        class: &ClassKey,
        asked: Option<&str>,
        length: Span,
        (from, until): (Time, Time),
    ) -> Vec<&'s Window> {
        let windows = self.state.windows.values();
        windows
            .filter(|window| {
                window.meets(from, until)
                    && !window
                        .admits(&class.who, asked, length)
                        .permits(window, from, until)
            })
            .collect()
    }

    /// What is left beside windows of what is free at `from`: of each of their nodes, what there is
    /// at the tightest moment.
    fn left_beside(&self, space: &AvailabilityMap<'s>, what: Beside) -> AvailabilityMap<'s> {
        let mut left = space.clone();
        let nodes: BTreeSet<NodeIx> = what
            .0
            .iter()
            .flat_map(|window| self.nodes_of(window))
            .collect();
        for ix in nodes {
            self.settle(&mut left, space, ix, what);
        }
        left
    }

    /// Brings one node of what is left beside windows in line with what is free.
    fn settle(
        &self,
        left: &mut AvailabilityMap<'s>,
        space: &AvailabilityMap<'s>,
        ix: NodeIx,
        (windows, from, gone): Beside,
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
        left.refile(ix, self.tightest(space.room(ix), ix, (&here, from, gone)));
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

    /// What a node has left at the tightest of the moments at which windows are open there. Who
    /// wants it alone finds somebody there.
    fn tightest(
        &self,
        room: &FreeResources,
        ix: NodeIx,
        (windows, from, gone): Beside,
    ) -> FreeResources {
        let mut tightest = room.clone();
        tightest.admit(&self.state.cluster.catalog.nothing(), JobOwner::default());
        for moment in windows.iter().map(|window| window.from.max(from)) {
            let mut free = room.free.clone();
            add(&mut free, &self.released(ix, gone, (from, moment)));
            for window in windows.iter().filter(|window| window.is_open(moment)) {
                subtract(&mut free, &self.unused(window, ix, moment));
            }
            for (least, free) in tightest.free.iter_mut().zip(free) {
                *least = free.min(*least);
            }
        }
        tightest
    }

    /// What the jobs that run on a node and are not gone give back after one moment, by another.
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

    /// What of a node a window has for itself beyond what jobs inside have then.
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

    /// All that a window has of a node: how it is used is not bound to the shape of its tasks
    /// (M38).
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

    /// The reservation that jobs ask for, and nothing else.
    fn within(
        &self,
        space: &AvailabilityMap<'s>,
        class: &ClassKey,
        (asked, length): (&str, Span),
        until: Time,
    ) -> Result<AvailabilityMap<'s>, Reason> {
        let open: Vec<&Window> = self
            .state
            .windows
            .values()
            .filter(|window| window.is_called(asked) && window.is_open(self.now))
            .collect();
        let Some(first) = open.first() else {
            return Err(Reason::NotOpen {
                window: asked.to_string(),
            });
        };
        let reason = Reason::Reserved {
            window: first.id.clone(),
            from: first.from,
        };
        let mine: Vec<&Window> = open
            .into_iter()
            .filter(|window| {
                let admission = window.admits(&class.who, Some(asked), length);
                admission != Admission::KeptOut && admission.permits(window, self.now, until)
            })
            .collect();
        let Some(last) = mine.iter().map(|window| window.to).max() else {
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
        // M39: where others lie on top as a whole, they must admit, too.
        let barring = self.barring(class, Some(asked), length, (self.now, until));
        let closed: BTreeSet<NodeIx> = barring
            .iter()
            .filter(|window| window.whole)
            .flat_map(|window| self.nodes_of(window))
            .collect();
        let mut rooms = self.rooms(space, &mine);
        rooms.retain(|ix, _| !closed.contains(ix));
        Ok(AvailabilityMap::of_rooms(&self.state.cluster, rooms).like(space))
    }

    /// What is free within windows, node by node.
    fn rooms(
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
        let mut rooms = BTreeMap::new();
        for (ix, left) in left {
            let mut room = space.room(ix).clone();
            for (free, left) in room.free.iter_mut().zip(left) {
                *free = left.min(*free);
            }
            rooms.insert(ix, room);
        }
        rooms
    }
}

#[cfg(test)]
mod tests;
