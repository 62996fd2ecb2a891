//! The smallest set of victims with which a job fits.
//!
//! The trial starts from a map without the jobs being preempted, with the resources of their
//! preemptors claimed. It removes candidates in order until the job fits, then puts back those that
//! are not needed (Y12). No job is preempted unless that lets another start.

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

/// The maximum number of trial removals in a cycle; the next cycle continues.
const MAX_REMOVALS: usize = 50_000;

/// Above this number of victims, those on nodes that the job would not use are put back together.
const MANY_VICTIMS: usize = 100;

/// The free resources once all preempted jobs have ended.
pub struct Stage<'s> {
    state: &'s ClusterState,
    /// The resources that suspended jobs release.
    releases: &'s [String],
    trial: AvailabilityMap<'s>,
    /// The jobs removed from the trial.
    gone: BTreeSet<JobId>,
    /// The counters of the limits on running jobs, with the preemptors counted.
    counters: Option<LimitCounters<'s>>,
    /// The preemptors.
    awaiting: BTreeSet<JobId>,
    /// The number of trial removals left.
    left: usize,
}

/// The state of the resources that a preemptor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Jobs are preempted for the preemptor.
    Made,
    /// The site's hooks decide about the start first. No other job gets the resources in this
    /// cycle.
    Asked,
}

/// The victims, and the placement of the preemptor.
struct Eviction {
    gone: Vec<(JobId, PreemptAction)>,
    placement: Placement,
    claim: JobAmounts,
}

impl<'s> Stage<'s> {
    /// The stage with the preemptions of earlier cycles and of this one.
    pub fn open(cycle: &CycleState<'s>) -> Stage<'s> {
        let (state, trial) = (cycle.state, cycle.space.clone());
        let releases = cycle.preemption().releases.as_slice();
        let counters = cycle.limit_counters().cloned();
        let (gone, awaiting) = (BTreeSet::new(), BTreeSet::new());
        let mut stage = Stage {
            state,
            releases,
            trial,
            gone,
            counters,
            awaiting,
            left: MAX_REMOVALS,
        };
        for (job, action) in state.bookings.preempted().chain(cycle.preempted()) {
            stage.leaves(job, action);
        }
        let due = cycle
            .bookings()
            .iter()
            .filter(|booking| booking.held_until.is_some());
        for booking in due {
            stage.claim_for_preemptor(booking);
        }
        stage
    }

    fn view(&self) -> View<'s> {
        (self.state, self.releases)
    }

    /// Whether jobs are already being preempted for a job.
    pub fn has_victims(&self, job: JobId) -> bool {
        self.awaiting.contains(&job)
    }

    /// Whether a job fits once all preempted jobs have ended.
    pub fn has_room(&self, job: Candidate<'s>, cycle: &CycleState<'s>) -> bool {
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

    /// Preempts running jobs so that a job can start; false if no set of victims lets it start.
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
        victim_selection.forget(&victims);
        true
    }

    /// Preempts some of these candidates, in their order, so that a job can start. None if the job
    /// fits without that, exceeds a limit, or does not fit even without all of them.
    pub fn evict_from(
        &mut self,
        job: Candidate<'s>,
        candidates: &[(JobId, PreemptAction)],
        cause: PreemptCause,
        cycle: &mut CycleState<'s>,
    ) -> Option<Room> {
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

    /// Preempts the victims, and holds their resources for the preemptor.
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
    ) -> Room {
        for &(job, action) in &gone {
            self.leaves(job, action);
        }
        self.trial.claim(&claim);
        self.awaiting.insert(job.job);
        if let Some(counters) = &mut self.counters {
            counters.enter(job.class, job.job);
        }
        if !cycle.may_preempt_for(job.job) {
            cycle.ask(job.job, &placement);
            return Room::Asked;
        }
        let by = Some(job.job);
        cycle.hold_for_preemptor(job, &placement, &gone);
        cycle.preempt(gone.into_iter().map(|(job, action)| Preemption {
            job,
            by,
            cause,
            action,
        }));
        Room::Made
    }

    /// Whether a node could fit a chunk of a job if all candidates ended. A trial would be useless
    /// otherwise.
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

    /// The resources that are still overcommitted on a node; None if none are.
    pub fn missing(&self, ix: NodeIx) -> Option<Vec<usize>> {
        let free = &self.trial.room(ix).free;
        let missing: Vec<usize> = (0..free.len()).filter(|&index| free[index] < 0).collect();
        (!missing.is_empty()).then_some(missing)
    }

    /// Removes a preempted job from the trial.
    pub fn leaves(&mut self, job: JobId, action: PreemptAction) {
        take_out(self.view(), &mut self.trial, (job, action), &self.gone);
        self.gone.insert(job);
    }

    /// Claims the resources of a preemptor: on the nodes of its planned start, or else wherever it
    /// fits.
    fn claim_for_preemptor(&mut self, booking: &Booking) {
        self.awaiting.insert(booking.job);
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

    /// The smallest set of victims with which a job fits without delaying a planned start ahead of
    /// it; None if it fits without victims, or does not fit without all candidates.
    fn search(
        &mut self,
        job: Candidate<'s>,
        candidates: &[(JobId, PreemptAction)],
        cycle: &CycleState<'s>,
    ) -> Option<Eviction> {
        let found = self.fewest(job, candidates, &BTreeSet::new(), cycle)?;
        let booked = self.booked_ahead(job, cycle);
        if booked.is_empty() || self.is_covered(job, &found, cycle) {
            return Some(found);
        }
        if !found.claim.holds.keys().any(|ix| booked.contains(ix)) {
            Some(found)
        } else {
            self.fewest(job, candidates, &booked, cycle)
        }
    }

    /// The smallest set of victims with which a job fits without using the `closed` nodes.
    fn fewest(
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
        if self.left < candidates.len() || trial.fits() {
            return None;
        }
        self.left -= candidates.len();
        trial.take_out(candidates.len());
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

    /// The nodes of planned starts ahead of a job's own that begin before the job would end.
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

    /// Whether a job uses only the victims' resources, and ends no later than the victims would
    /// have. Then it delays no planned start.
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
                    let back = self.state.gives_back((victim, ix), hold, &gone);
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

/// A map with the first `out` candidates removed, to try whether a job fits.
struct Trial<'t, 's> {
    state: &'s ClusterState,
    releases: &'s [String],
    space: AvailabilityMap<'s>,
    /// The jobs removed from the map.
    gone: BTreeSet<JobId>,
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

    /// The placement of the job; None if it does not fit.
    fn place(&self) -> Option<Placement> {
        let class = self.job.class;
        if self.state.windows.is_empty() {
            return place::fit(&self.space, &class.shape).ok();
        }
        let mut left = self.space.clone();
        self.cycle.narrow(&mut left, class, &self.gone);
        place::fit(&left, &class.shape).ok()
    }

    /// Removes the first `count` candidates and puts back all others.
    fn take_out(&mut self, count: usize) {
        while self.out < count {
            self.leaves(self.candidates[self.out]);
            self.out += 1;
        }
        while self.out > count {
            self.out -= 1;
            self.restore(self.candidates[self.out]);
        }
    }

    fn leaves(&mut self, candidate: (JobId, PreemptAction)) {
        take_out(self.view(), &mut self.space, candidate, &self.gone);
        self.gone.insert(candidate.0);
    }

    fn restore(&mut self, candidate: (JobId, PreemptAction)) {
        self.gone.remove(&candidate.0);
        put_back(self.view(), &mut self.space, candidate, &self.gone);
    }

    /// How many candidates, from the first on, must be removed so that the job fits. It must fit
    /// without all of them.
    fn shortest(&mut self) -> usize {
        let (mut too_few, mut enough) = (0, self.candidates.len());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            self.take_out(middle);
            if self.fits() {
                enough = middle
            } else {
                too_few = middle
            }
        }
        self.take_out(enough);
        enough
    }

    /// Of the first `count` candidates, the minimal subset. The last one is always needed; later
    /// candidates are dropped first.
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
                self.leaves(*candidate);
            }
            is_needed
        });
        gone.reverse();
        gone
    }

    /// Of the first `count` candidates, those on nodes that the job would use; the others are put
    /// back without a trial.
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
            // System-wide resources are released by jobs on any node.
            for candidate in &others {
                self.leaves(*candidate);
            }
            return self.candidates[..count].to_vec();
        }
        gone
    }
}

/// The state, and the resources that suspended jobs release.
type View<'v> = (&'v ClusterState, &'v [String]);

/// Removes a preempted job. A suspended job releases only some resources, and keeps its exclusive
/// nodes.
fn take_out(
    view: View,
    space: &mut AvailabilityMap,
    (job, action): (JobId, PreemptAction),
    gone: &BTreeSet<JobId>,
) {
    let (state, releases) = view;
    each_hold(state, job, |ix, hold| {
        let given = state.gives_back((job, ix), hold, gone);
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
        let given = state.gives_back((job, ix), hold, gone);
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

/// The resources that a suspended job keeps (M45).
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
