//! Finds the victims that a waiting job needs, and preempts them.
//!
//! The search starts from the resources that will be free when all preempted jobs have ended, minus
//! the resources that their preemptors need. It removes candidates (running jobs that may be
//! preempted) in order until the waiting job fits. Then it puts back every candidate that is not
//! needed (Y12). If the job does not fit even when all candidates are removed, no job is preempted.

use super::candidates::VictimSelection;
use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job_id::JobId;
use crate::sched::amounts::{Amounts, add};
use crate::sched::cycle::limits::LimitCounters;
use crate::sched::cycle::state::CycleState;
use crate::sched::placement::allocation;
use crate::sched::placement::availability_map::{AvailabilityMap, JobAmounts};
use crate::sched::placement::place::{self, Placement};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::{Hold, NodeIx};
use crate::sched::view::plan::{Booking, Preemption};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of candidates that all searches of a cycle together may remove. Later
/// searches find no victims; the next cycle tries again.
const MAX_REMOVALS: usize = 50_000;

/// Above this number of removed candidates, all candidates on nodes that the job would not use are
/// put back in one step instead of one by one.
const MANY_VICTIMS: usize = 100;

/// The free resources once all preempted jobs have ended, minus those that their preemptors need.
pub struct FreedResources<'s> {
    state: &'s ClusterState,
    /// The names of the resources that a job releases when it is suspended.
    releases: &'s [String],
    /// The free resources.
    trial: AvailabilityMap<'s>,
    /// The preempted jobs, which are removed from `trial`.
    gone: BTreeSet<JobId>,
    /// The counters of the limits on running jobs. The preemptors count as running.
    counters: Option<LimitCounters<'s>>,
    /// The preemptors.
    preemptors: BTreeSet<JobId>,
    /// The number of candidates that may still be removed in this cycle.
    removals_left: usize,
}

/// The result of a successful search for victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The victims are preempted.
    Preempted,
    /// The site's hooks must accept the preemptor's start first. No other job gets the victims'
    /// resources in this cycle.
    HooksAsked,
}

/// The victims, and the placement of the preemptor.
struct Eviction {
    gone: Vec<(JobId, PreemptAction)>,
    placement: Placement,
    claim: JobAmounts,
}

impl<'s> FreedResources<'s> {
    /// The free resources after the preemptions of earlier cycles and of this cycle.
    pub fn open(cycle: &CycleState<'s>) -> FreedResources<'s> {
        let (state, trial) = (cycle.state, cycle.space.clone());
        let releases = cycle.preemption().releases.as_slice();
        let counters = cycle.limit_counters().cloned();
        let (gone, preemptors) = (BTreeSet::new(), BTreeSet::new());
        let mut freed = FreedResources {
            state,
            releases,
            trial,
            gone,
            counters,
            preemptors,
            removals_left: MAX_REMOVALS,
        };
        for (job, action) in state.bookings.preempted().chain(cycle.preempted()) {
            freed.remove(job, action);
        }
        let due = cycle
            .bookings()
            .iter()
            .filter(|booking| booking.held_until.is_some());
        for booking in due {
            freed.claim_for_preemptor(booking);
        }
        freed
    }

    fn view(&self) -> View<'s> {
        (self.state, self.releases)
    }

    /// Whether jobs are already being preempted for a job.
    pub fn has_victims(&self, job: JobId) -> bool {
        self.preemptors.contains(&job)
    }

    /// Whether a job fits once all preempted jobs have ended.
    pub fn fits_without_victims(&self, job: Candidate<'s>, cycle: &CycleState<'s>) -> bool {
        self.trial(job, &[], cycle).fits()
    }

    fn trial<'t>(
        &self,
        job: Candidate<'s>,
        candidates: &'t [(JobId, PreemptAction)],
        cycle: &'t CycleState<'s>,
    ) -> Trial<'t, 's> {
        let (space, gone) = (self.trial.clone(), self.gone.clone());
        Trial {
            state: self.state,
            releases: self.releases,
            space,
            gone,
            out: 0,
            candidates,
            job,
            cycle,
        }
    }

    /// Preempts running jobs so that a waiting job can start, or requests the decision of the
    /// site's hooks about this start. Returns false if the job exceeds a limit, or if `search`
    /// finds no victims.
    pub fn evict(
        &mut self,
        job: Candidate<'s>,
        victim_selection: &mut VictimSelection<'s>,
        cycle: &mut CycleState<'s>,
    ) -> bool {
        if self
            .counters
            .as_mut()
            .is_some_and(|counters| counters.exceeded_limit(job.class).is_some())
        {
            return false;
        }
        let possible_victims = victim_selection.victims_of(job);
        let steps = possible_victims
            .iter()
            .map(|(_, actions)| actions.len())
            .max()
            .unwrap_or(0);
        let found = (0..steps).find_map(|step| {
            let candidates: Vec<(JobId, PreemptAction)> = possible_victims
                .iter()
                .filter_map(|(victim, actions)| {
                    Some((victim.job, *actions.get(step).or(actions.last())?))
                })
                .collect();
            self.search(job, &candidates, cycle)
        });
        let Some(found) = found else { return false };
        let victims: Vec<JobId> = found.gone.iter().map(|(victim, _)| *victim).collect();
        self.carry_out(job, found, victim_selection.cause(), cycle);
        victim_selection.remove_preempted(&victims);
        true
    }

    /// Preempts some of the candidates, in the given order, so that a waiting job can start. None
    /// if the job exceeds a limit, or if `search` finds no victims.
    pub fn evict_from(
        &mut self,
        job: Candidate<'s>,
        candidates: &[(JobId, PreemptAction)],
        cause: PreemptCause,
        cycle: &mut CycleState<'s>,
    ) -> Option<EvictionOutcome> {
        let exceeds_limit = self
            .counters
            .as_mut()
            .is_some_and(|counters| counters.exceeded_limit(job.class).is_some());
        let found = if exceeds_limit {
            None
        } else {
            self.search(job, candidates, cycle)
        };
        found.map(|found| self.carry_out(job, found, cause, cycle))
    }

    /// Preempts the victims and holds their resources for the preemptor. If the site's hooks have
    /// not accepted the preemptor's start, requests their decision instead.
    fn carry_out(
        &mut self,
        job: Candidate<'s>,
        Eviction {
            gone,
            placement,
            claim,
        }: Eviction,
        cause: PreemptCause,
        cycle: &mut CycleState<'s>,
    ) -> EvictionOutcome {
        for &(job, action) in &gone {
            self.remove(job, action);
        }
        self.trial.claim(&claim);
        self.preemptors.insert(job.job);
        if let Some(counters) = &mut self.counters {
            counters.enter(job.class, job.job);
        }
        if !cycle.may_preempt_for(job.job) {
            cycle.request_hook_decision(job.job, &placement);
            return EvictionOutcome::HooksAsked;
        }
        let by = Some(job.job);
        cycle.hold_for_preemptor(job, &placement, &gone);
        cycle.preempt(gone.into_iter().map(|(job, action)| Preemption {
            job,
            by,
            cause,
            action,
        }));
        EvictionOutcome::Preempted
    }

    /// Whether a chunk of a job could fit on a node if all candidates ended. If not, a search for
    /// victims on this node would be useless.
    pub fn could_hold(
        &self,
        ix: NodeIx,
        candidates: &[(JobId, PreemptAction)],
        job: Candidate,
    ) -> bool {
        let mut free = self.trial.room(ix).free.clone();
        let node = self.state.cluster.node(ix);
        for hold in candidates
            .iter()
            .filter_map(|(job, _)| node.tenants.get(job))
        {
            add(&mut free, &hold.taken);
        }
        job.class.shape.chunks.iter().any(|chunk| {
            chunk
                .asked
                .iter()
                .all(|&(index, amount)| free.get(index).is_none_or(|free| *free >= amount))
        })
    }

    /// The indices of the resources that are still overcommitted on a node; None if there are none.
    pub fn missing(&self, ix: NodeIx) -> Option<Vec<usize>> {
        let free = &self.trial.room(ix).free;
        let missing: Vec<usize> = (0..free.len()).filter(|&index| free[index] < 0).collect();
        (!missing.is_empty()).then_some(missing)
    }

    /// Removes a preempted job from the map of free resources.
    pub fn remove(&mut self, job: JobId, action: PreemptAction) {
        take_out(self.view(), &mut self.trial, (job, action), &self.gone);
        self.gone.insert(job);
    }

    /// Claims the resources of a preemptor: on the nodes of its planned start if they have enough
    /// free resources, otherwise on any nodes on which the preemptor fits.
    fn claim_for_preemptor(&mut self, booking: &Booking) {
        self.preemptors.insert(booking.job);
        let Some(class) = self.state.waiting_class(booking.job) else {
            return;
        };
        let shape = &class.shape;
        let promised = Placement::on(&self.trial, shape, &booking.nodes)
            .map(|placement| allocation::claim(self.trial.cluster, shape, &placement))
            .filter(|claim| self.trial.has_room_for(claim));
        let claim = promised.or_else(|| {
            let placement = place::fit(&self.trial, shape).ok()?;
            Some(allocation::claim(self.trial.cluster, shape, &placement))
        });
        if let Some(claim) = claim {
            self.trial.claim(&claim);
        }
        if let Some(counters) = &mut self.counters {
            counters.enter(class, booking.job);
        }
    }

    /// Finds victims without which a waiting job fits and does not delay the planned start of a job
    /// ahead of it. None if the job fits without victims, if it does not fit even when all
    /// candidates are removed, or if the searches of this cycle have removed too many candidates.
    fn search(
        &mut self,
        job: Candidate<'s>,
        candidates: &[(JobId, PreemptAction)],
        cycle: &CycleState<'s>,
    ) -> Option<Eviction> {
        let found = self.search_outside(job, candidates, &BTreeSet::new(), cycle)?;
        let booked = self.booked_ahead(job, cycle);
        if booked.is_empty() || self.is_covered(job, &found, cycle) {
            return Some(found);
        }
        if !found.claim.holds.keys().any(|ix| booked.contains(ix)) {
            Some(found)
        } else {
            self.search_outside(job, candidates, &booked, cycle)
        }
    }

    /// Finds victims without which a waiting job fits on nodes other than `closed`. None in the
    /// same cases as [`FreedResources::search`].
    fn search_outside(
        &mut self,
        job: Candidate<'s>,
        candidates: &[(JobId, PreemptAction)],
        closed: &BTreeSet<NodeIx>,
        cycle: &CycleState<'s>,
    ) -> Option<Eviction> {
        let mut trial = self.trial(job, candidates, cycle);
        for &ix in closed {
            trial.space.close(ix);
        }
        if self.removals_left < candidates.len() || trial.fits() {
            return None;
        }
        self.removals_left -= candidates.len();
        trial.remove_first(candidates.len());
        if !trial.fits() {
            return None;
        }
        let count = trial.shortest();
        let gone = trial.pruned(count);
        let placement = trial.place()?;
        let claim = allocation::claim(trial.space.cluster, &job.class.shape, &placement);
        Some(Eviction {
            gone,
            placement,
            claim,
        })
    }

    /// The nodes of planned starts that begin before the job would end. Only planned starts that
    /// precede the job's own in the plan count; all count if the job has none. Those of preemptors
    /// do not count, because their resources are already claimed.
    fn booked_ahead(&self, job: Candidate, cycle: &CycleState) -> BTreeSet<NodeIx> {
        let until = cycle.end_of(job.class);
        let ahead = cycle
            .bookings()
            .iter()
            .take_while(|booking| booking.job != job.job);
        let ahead = ahead.filter(|booking| booking.held_until.is_none() && booking.at < until);
        ahead
            .flat_map(|booking| &*booking.nodes)
            .filter_map(|name| self.state.cluster.find(name))
            .collect()
    }

    /// Whether a waiting job needs only resources of victims that would have run at least as long
    /// as the job. Then the job delays no planned start.
    fn is_covered(&self, job: Candidate, found: &Eviction, cycle: &CycleState) -> bool {
        let until = cycle.end_of(job.class);
        let mut given: BTreeMap<NodeIx, Amounts> = BTreeMap::new();
        let mut gone = self.gone.clone();
        for &(victim, _) in &found.gone {
            if self
                .state
                .running
                .get(&victim)
                .is_some_and(|running| running.until >= until)
            {
                each_hold(self.state, victim, |ix, hold| {
                    let nothing = || self.state.cluster.catalog.nothing();
                    let back = self.state.released_by((victim, ix), hold, &gone);
                    add(given.entry(ix).or_insert_with(nothing), &back);
                });
            }
            gone.insert(victim);
        }
        found.claim.holds.iter().all(|(ix, taken)| {
            given.get(ix).is_some_and(|given| {
                taken
                    .iter()
                    .zip(&**given)
                    .all(|(taken, given)| taken <= given)
            })
        })
    }
}

/// A search for the victims of one waiting job.
struct Trial<'t, 's> {
    state: &'s ClusterState,
    releases: &'s [String],
    space: AvailabilityMap<'s>,
    /// The jobs removed from `space`.
    gone: BTreeSet<JobId>,
    /// The number of candidates, from the first on, that [`Trial::remove_first`] has removed.
    out: usize,
    candidates: &'t [(JobId, PreemptAction)],
    job: Candidate<'s>,
    cycle: &'t CycleState<'s>,
}

impl<'s> Trial<'_, 's> {
    fn view(&self) -> View<'s> {
        (self.state, self.releases)
    }

    fn fits(&self) -> bool {
        self.place().is_some()
    }

    /// The placement of the waiting job; None if the job does not fit.
    fn place(&self) -> Option<Placement> {
        let class = self.job.class;
        if self.state.windows.is_empty() {
            return place::fit(&self.space, &class.shape).ok();
        }
        let mut left = self.space.clone();
        self.cycle.exclude_reserved(&mut left, class, &self.gone);
        place::fit(&left, &class.shape).ok()
    }

    /// Removes the first `count` candidates and puts back all other candidates.
    fn remove_first(&mut self, count: usize) {
        while self.out < count {
            self.remove(self.candidates[self.out]);
            self.out += 1;
        }
        while self.out > count {
            self.out -= 1;
            self.restore(self.candidates[self.out]);
        }
    }

    fn remove(&mut self, candidate: (JobId, PreemptAction)) {
        take_out(self.view(), &mut self.space, candidate, &self.gone);
        self.gone.insert(candidate.0);
    }

    fn restore(&mut self, candidate: (JobId, PreemptAction)) {
        self.gone.remove(&candidate.0);
        put_back(self.view(), &mut self.space, candidate, &self.gone);
    }

    /// Removes candidates, from the first on, until the job fits, and returns their number. Before
    /// the call, all candidates must be removed, and the job must fit.
    fn shortest(&mut self) -> usize {
        let (mut too_few, mut enough) = (0, self.candidates.len());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            self.remove_first(middle);
            if self.fits() {
                enough = middle
            } else {
                too_few = middle
            }
        }
        self.remove_first(enough);
        enough
    }

    /// Puts back every candidate that is not needed, from the last candidate on, and returns the
    /// others. The first `count` candidates must be removed.
    fn pruned(&mut self, count: usize) -> Vec<(JobId, PreemptAction)> {
        let mut gone = if count > MANY_VICTIMS {
            self.on_used_nodes(count)
        } else {
            self.candidates[..count].to_vec()
        };
        gone.reverse();
        gone.retain(|candidate| {
            self.restore(*candidate);
            let is_needed = !self.fits();
            if is_needed {
                self.remove(*candidate);
            }
            is_needed
        });
        gone.reverse();
        gone
    }

    /// Of the first `count` candidates, returns the jobs on nodes that the waiting job would use,
    /// and puts back the others together. If the waiting job then no longer fits, removes the
    /// others again and returns all `count` candidates.
    fn on_used_nodes(&mut self, count: usize) -> Vec<(JobId, PreemptAction)> {
        let used = self.place().map(|placement| {
            placement
                .picks
                .iter()
                .map(|&(ix, _)| ix)
                .collect::<BTreeSet<_>>()
        });
        let (gone, others): (Vec<_>, Vec<_>) =
            self.candidates[..count].iter().partition(|(job, _)| {
                let running = self.state.running.get(job);
                used.as_ref().is_none_or(|used| {
                    running.is_some_and(|running| running.nodes.iter().any(|ix| used.contains(ix)))
                })
            });
        for candidate in &others {
            self.restore(*candidate);
        }
        if !self.fits() {
            // The waiting job may need a system-wide resource that a job on another node releases.
            for candidate in &others {
                self.remove(*candidate);
            }
            return self.candidates[..count].to_vec();
        }
        gone
    }
}

/// The state, and the names of the resources that a job releases when it is suspended.
type View<'v> = (&'v ClusterState, &'v [String]);

/// Removes a preempted job from a map of free resources. A job that is being suspended releases
/// only some resources, and keeps its exclusive nodes.
fn take_out(
    view: View,
    space: &mut AvailabilityMap,
    (job, action): (JobId, PreemptAction),
    gone: &BTreeSet<JobId>,
) {
    let (state, releases) = view;
    each_hold(state, job, |ix, hold| {
        let given = state.released_by((job, ix), hold, gone);
        space.dismiss(ix, &given, hold.owner);
        if action.keeps_memory() {
            space.admit(ix, &suspended(state, releases, &given), hold.owner);
        }
    });
}

/// Reverts [`take_out`].
fn put_back(
    view: View,
    space: &mut AvailabilityMap,
    (job, action): (JobId, PreemptAction),
    gone: &BTreeSet<JobId>,
) {
    let (state, releases) = view;
    each_hold(state, job, |ix, hold| {
        let given = state.released_by((job, ix), hold, gone);
        if action.keeps_memory() {
            space.dismiss(ix, &suspended(state, releases, &given), hold.owner);
        }
        space.admit(ix, &given, hold.owner);
    });
}

fn each_hold(state: &ClusterState, job: JobId, mut each: impl FnMut(NodeIx, &Hold)) {
    for &ix in state
        .running
        .get(&job)
        .into_iter()
        .flat_map(|running| &running.nodes)
    {
        if let Some(hold) = state.cluster.node(ix).tenants.get(&job) {
            each(ix, hold);
        }
    }
}

/// The part of the resources `taken` that a job keeps when it is suspended (M45).
fn suspended(state: &ClusterState, releases: &[String], taken: &Amounts) -> Amounts {
    let mut kept = taken.clone();
    let given_up = releases
        .iter()
        .filter_map(|name| state.cluster.catalog.index(name));
    for index in given_up {
        kept[index] = 0;
    }
    kept
}
