//! What a cycle has decided so far and what that leaves.

use super::backfill::Fence;
use super::launch::Numbers;
use super::matching::{self, Placement};
use super::plan::{Booking, Plan, Start};
use super::preference::Guide;
use super::priority::Candidate;
use super::resolution::Resolution;
use super::shape::{ClassId, ClassKey, Shape, ShapeId};
use super::snapshot::State;
use super::space::{Claim, Space};
use super::timeline::Timeline;
use super::{availability, shortage};
use crate::model::job::JobId;
use crate::model::policy::{Filling, Policy};
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The books of one cycle.
pub struct Ledger<'s> {
    /// What the cycle sees.
    pub state: &'s State,
    /// When it is.
    pub now: Time,
    /// What is free now, less what was started.
    pub space: Space<'s>,
    /// What would be free with every node up and nobody there.
    pub vacant: Space<'s>,
    /// The numbers of processors and GPUs that are free.
    pub numbers: Numbers,
    policy: &'s Policy,
    resolution: Resolution,
    started: BTreeMap<JobId, (Claim, Time)>,
    /// Starts of classes that limit themselves.
    counted: BTreeMap<ClassId, u32>,
    fence: Option<Fence<'s>>,
    /// What is free when all has ended, once a request was found to fit at no time.
    at_last: Option<Box<Space<'s>>>,
    /// Whether a shape could ever run.
    possible: BTreeMap<ShapeId, bool>,
    /// Shapes that do not fit now. Room only shrinks within a cycle, so they will not.
    waiting: BTreeMap<ShapeId, Reason>,
    /// Shapes that do not fit beside the promise.
    fenced: BTreeSet<ShapeId>,
    plan: Plan,
}

impl<'s> Ledger<'s> {
    /// Nothing decided yet.
    pub fn open(state: &'s State, policy: &'s Policy, now: Time) -> Ledger<'s> {
        let placement = &policy.placement;
        let guide = Arc::new(Guide::new(placement, &state.cluster));
        let mut space = Space::now(&state.cluster).guided(guide.clone());
        availability::observe(&mut space, placement);
        let by_use = availability::by_use(&state.cluster, placement);
        Ledger {
            state,
            policy,
            now,
            space,
            vacant: Space::vacant(&state.cluster).guided(guide),
            resolution: Resolution::new(placement, &state.cluster),
            numbers: Numbers::default(),
            started: BTreeMap::new(),
            counted: BTreeMap::new(),
            fence: None,
            at_last: None,
            possible: BTreeMap::new(),
            waiting: BTreeMap::new(),
            fenced: BTreeSet::new(),
            plan: Plan { by_use, ..Plan::new(now) },
        }
    }

    /// When a job of this class would end if it started now.
    pub fn end_of(&self, class: &ClassKey) -> Time {
        self.now + class.walltime.unwrap_or(self.policy.default_walltime)
    }

    /// What a job asks for, with what the policy adds to it.
    pub fn shape_of(&mut self, job: &Candidate) -> Arc<Shape> {
        let since = self.state.waits_since(job.job);
        let end = self.end_of(job.class);
        let shape = self.resolution.shape(job.class, since, self.now, end);
        if let Some(from) = self.resolution.spans_from(since).filter(|from| *from > self.now) {
            self.plan.look_again(from);
        }
        shape
    }

    /// Whether the request could run on the nodes as configured, with nobody there.
    pub fn is_possible(&mut self, shape: &Shape) -> bool {
        // A cluster without nodes tells nothing about any request.
        let is_possible = |vacant: &Space| vacant.is_void() || matching::fits(vacant, shape);
        *self.possible.entry(shape.id).or_insert_with(|| is_possible(&self.vacant))
    }

    /// Where the job fits now without delaying a promise, or why it does not.
    pub fn place(&mut self, class: &ClassKey, shape: &Shape) -> Result<Placement, Reason> {
        if let Some(reason) = self.waiting.get(&shape.id) {
            return Err(reason.clone());
        }
        match &self.fence {
            Some(fence) if !fence.lets_pass(self.end_of(class)) && self.fenced.contains(&shape.id) => {
                Err(Reason::WouldDelayBooking { holder: fence.holder, at: fence.at })
            }
            Some(fence) if !fence.lets_pass(self.end_of(class)) => {
                let beside = fence.beside(shape);
                if beside.is_err() {
                    self.place_now(shape)?;
                    self.fenced.insert(shape.id);
                }
                beside
            }
            _ => self.place_now(shape),
        }
    }

    fn place_now(&mut self, shape: &Shape) -> Result<Placement, Reason> {
        matching::fit(&self.space, shape).map_err(|misfit| {
            let reason = shortage::now(&self.space, shape, misfit);
            self.waiting.insert(shape.id, reason.clone());
            reason
        })
    }

    /// How many jobs of a class that limits itself this cycle starts.
    pub fn started_in(&self, class: ClassId) -> u32 {
        self.counted.get(&class).copied().unwrap_or(0)
    }

    /// Enters a job that was considered.
    pub fn consider(&mut self) {
        self.plan.considered += 1;
    }

    /// Enters a start.
    pub fn start(&mut self, job: Candidate, start: Start, claim: Claim) {
        if job.class.at_once.is_some() {
            *self.counted.entry(job.class.id).or_default() += 1;
        }
        self.space.claim(&claim);
        if let Some(fence) = &mut self.fence {
            fence.account(&claim, start.until, &self.space);
        }
        self.started.insert(start.job, (claim, start.until));
        self.plan.starts.push(start);
    }

    /// Enters a refusal, for the whole class, and promises the first blocked job its start.
    pub fn wait(&mut self, candidate: Candidate<'s>, mut reason: Reason) {
        let is_blocked = matches!(
            reason,
            Reason::Busy { .. }
                | Reason::Scattered { .. }
                | Reason::UsedOutside { .. }
                | Reason::NoNodes
                | Reason::Unsuitable { never: false, .. }
        );
        if is_blocked && self.fence.is_none() {
            self.book(candidate, &mut reason);
        }
        if let Reason::Deferred { until } = reason {
            self.plan.look_again(until);
        }
        self.plan.verdicts.push((candidate.class.id, reason));
    }

    fn book(&mut self, candidate: Candidate<'s>, reason: &mut Reason) {
        let shape = self.shape_of(&candidate);
        let at = self.promise(candidate.job, &shape);
        match (at, self.policy.backfill.policy) {
            (None, Filling::None) => self.fence = Some(Fence::closed(candidate.job, Time::NEVER)),
            (Some(at), Filling::None) => self.fence = Some(Fence::closed(candidate.job, at)),
            _ => (),
        }
        if let Reason::Busy { until, .. } = reason {
            *until = at;
        }
    }

    /// Books the earliest start; None when it fits at no time that can be told.
    fn promise(&mut self, job: JobId, shape: &Shape) -> Option<Time> {
        if self.at_last.as_ref().is_some_and(|space| !matching::fits(space, shape)) {
            return None;
        }
        let timeline = Timeline::new(self.state, &self.started, self.now);
        let opening = match timeline.earliest(&self.space, shape) {
            Ok(opening) => opening,
            Err(at_last) => {
                self.at_last = Some(at_last);
                return None;
            }
        };
        let at = opening.at;
        let nodes: BTreeSet<_> = opening.placement.picks.iter().map(|&(ix, _)| ix).collect();
        nodes.iter().for_each(|&ix| self.space.promise(ix, at));
        let nodes = nodes.into_iter().map(|ix| self.state.cluster.node(ix).name.clone()).collect();
        self.plan.bookings.push(Booking { job, at, nodes });
        // A job that is overdue ends when it ends: to look again at once would help nobody.
        if at > self.now + Span(1) {
            self.plan.look_again(at);
        }
        self.fence = Some(Fence::around(job, opening, shape, &self.space));
        Some(at)
    }

    /// The plan.
    pub fn close(self) -> Plan {
        debug_assert_eq!(self.plan.audit(self.state), Ok(()));
        self.plan
    }
}
