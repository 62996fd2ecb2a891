//! Who must leave so that a job fits: the fewest that will do, the first in the order first.
//!
//! The trial is a space in which those that leave already are gone, and those for which they leave
//! have their places. From there as many of the candidates are taken out, in their order, as are
//! needed until the job fits, and put back whoever is not needed after all (Y12). Nobody leaves if
//! that helps nobody.

use super::candidates::Rivalry;
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

/// In a cycle at most so many times somebody is taken out on trial: what is left is tried in the
/// next.
const MOST: usize = 50_000;

/// More than so many are not each put back on trial.
const MANY: usize = 100;

/// What will be free once all have made way that were told to.
pub struct Stage<'s> {
    state: &'s ClusterState,
    /// What suspended jobs give up.
    releases: &'s [String],
    trial: AvailabilityMap<'s>,
    /// Those that are gone from it.
    gone: BTreeSet<JobId>,
    /// What limits leave to those for which others make way.
    counters: Option<LimitCounters<'s>>,
    /// Those for which others make way.
    awaiting: BTreeSet<JobId>,
    left: usize,
}

/// What came of a search for a job's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Others are preempted for it.
    Made,
    /// The site's hooks are asked about its start first. Nobody else gets that room in this cycle.
    Asked,
}

/// Those that leave, and where that lets another start.
struct Eviction {
    gone: Vec<(JobId, PreemptAction)>,
    placement: Placement,
    claim: JobAmounts,
}

impl<'s> Stage<'s> {
    /// What earlier cycles have told them.
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
            left: MOST,
        };
        for (job, action) in state.bookings.preempted().chain(cycle.preempted()) {
            stage.leaves(job, action);
        }
        let due = cycle
            .bookings()
            .iter()
            .filter(|booking| booking.held_until.is_some());
        for booking in due {
            stage.keep_place(booking);
        }
        stage
    }

    fn view(&self) -> View<'s> {
        (self.state, self.releases)
    }

    /// Whether others make way for a job already.
    pub fn awaits_room(&self, job: JobId) -> bool {
        self.awaiting.contains(&job)
    }

    /// Whether a job fits once all have left that were told to.
    pub fn has_room(&self, job: Candidate<'s>, cycle: &CycleState<'s>) -> bool {
        self.trial(job, &[], cycle).fits()
    }

    fn trial<'t>(
        &self,
        job: Candidate<'s>,
        ways: &'t [(JobId, PreemptAction)],
        cycle: &'t CycleState<'s>,
    ) -> Trial<'t, 's> {
        let (space, gone) = (self.trial.clone(), self.gone.clone());
        Trial {
            state: self.state,
            releases: self.releases,
            space,
            gone,
            out: 0,
            ways,
            job,
            cycle,
        }
    }

    /// Has those leave that must so that a job can start; false if none do.
    pub fn evict(
        &mut self,
        job: Candidate<'s>,
        rivalry: &mut Rivalry<'s>,
        cycle: &mut CycleState<'s>,
    ) -> bool {
        if self
            .counters
            .as_mut()
            .is_some_and(|counters| counters.bar(job.class).is_some())
        {
            return false;
        }
        let candidates = rivalry.victims_of(job);
        let steps = candidates
            .iter()
            .map(|(_, actions)| actions.len())
            .max()
            .unwrap_or(0);
        let found = (0..steps).find_map(|step| {
            let ways: Vec<(JobId, PreemptAction)> = candidates
                .iter()
                .filter_map(|(one, actions)| {
                    Some((one.job, *actions.get(step).or(actions.last())?))
                })
                .collect();
            self.search(job, &ways, cycle)
        });
        let Some(found) = found else { return false };
        let victims: Vec<JobId> = found.gone.iter().map(|(victim, _)| *victim).collect();
        self.carry_out(job, found, rivalry.cause(), cycle);
        rivalry.forget(&victims);
        true
    }

    /// The same of these alone, in their order.
    pub fn evict_from(
        &mut self,
        job: Candidate<'s>,
        ways: &[(JobId, PreemptAction)],
        cause: PreemptCause,
        cycle: &mut CycleState<'s>,
    ) -> Option<Room> {
        let is_barred = self
            .counters
            .as_mut()
            .is_some_and(|counters| counters.bar(job.class).is_some());
        let found = if is_barred {
            None
        } else {
            self.search(job, ways, cycle)
        };
        found.map(|found| self.carry_out(job, found, cause, cycle))
    }

    /// Tells those that leave, and keeps their room for the other.
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
        if !cycle.may_displace(job.job) {
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

    /// Whether a node could have room for a chunk of a job if all these made way; a node that could
    /// not is not worth a trial.
    pub fn could_hold(&self, ix: NodeIx, ways: &[(JobId, PreemptAction)], job: Candidate) -> bool {
        let mut free = self.trial.room(ix).free.clone();
        let node = self.state.cluster.node(ix);
        for hold in ways.iter().filter_map(|(job, _)| node.tenants.get(job)) {
            add(&mut free, &hold.taken);
        }
        job.class.shape.chunks.iter().any(|chunk| {
            chunk
                .asked
                .iter()
                .all(|&(index, amount)| free.get(index).is_none_or(|free| *free >= amount))
        })
    }

    /// The resources of which a node would have too little still.
    pub fn missing(&self, ix: NodeIx) -> Option<Vec<usize>> {
        let free = &self.trial.room(ix).free;
        let missing: Vec<usize> = (0..free.len()).filter(|&index| free[index] < 0).collect();
        (!missing.is_empty()).then_some(missing)
    }

    /// A job makes way.
    pub fn leaves(&mut self, job: JobId, action: PreemptAction) {
        take_out(self.view(), &mut self.trial, (job, action), &self.gone);
        self.gone.insert(job);
    }

    /// What others make for a job is not there for the next: where it was promised that, else
    /// wherever it fits.
    fn keep_place(&mut self, booking: &Booking) {
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

    /// The fewest of these without which a job fits, so that nobody who was promised a start ahead
    /// of it starts later; None if it fits as it is, or does not fit though all leave.
    fn search(
        &mut self,
        job: Candidate<'s>,
        ways: &[(JobId, PreemptAction)],
        cycle: &CycleState<'s>,
    ) -> Option<Eviction> {
        let found = self.fewest(job, ways, &BTreeSet::new(), cycle)?;
        let booked = self.booked_ahead(job, cycle);
        if booked.is_empty() || self.is_covered(job, &found, cycle) {
            return Some(found);
        }
        if !found.claim.holds.keys().any(|ix| booked.contains(ix)) {
            Some(found)
        } else {
            self.fewest(job, ways, &booked, cycle)
        }
    }

    /// The fewest of these without which a job fits on other nodes than those closed.
    fn fewest(
        &mut self,
        job: Candidate<'s>,
        ways: &[(JobId, PreemptAction)],
        closed: &BTreeSet<NodeIx>,
        cycle: &CycleState<'s>,
    ) -> Option<Eviction> {
        let mut trial = self.trial(job, ways, cycle);
        for &ix in closed {
            trial.space.close(ix);
        }
        if self.left < ways.len() || trial.fits() {
            return None;
        }
        self.left -= ways.len();
        trial.take_out(ways.len());
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

    /// The nodes that those ahead of a job are promised before it would be over.
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

    /// Whether a job takes nothing but what those had that leave, and for no longer than they would
    /// have had it: then it is in nobody's way.
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

/// Some of the candidates are out, the first of them.
struct Trial<'t, 's> {
    state: &'s ClusterState,
    releases: &'s [String],
    space: AvailabilityMap<'s>,
    /// Those that are gone from it.
    gone: BTreeSet<JobId>,
    out: usize,
    ways: &'t [(JobId, PreemptAction)],
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

    /// Where the job fits now.
    fn place(&self) -> Option<Placement> {
        let class = self.job.class;
        if self.state.windows.is_empty() {
            return place::fit(&self.space, &class.shape).ok();
        }
        let mut left = self.space.clone();
        self.cycle.narrow(&mut left, class, &self.gone);
        place::fit(&left, &class.shape).ok()
    }

    /// The first so many are out, and no others.
    fn take_out(&mut self, count: usize) {
        while self.out < count {
            self.leaves(self.ways[self.out]);
            self.out += 1;
        }
        while self.out > count {
            self.out -= 1;
            self.stays(self.ways[self.out]);
        }
    }

    fn leaves(&mut self, way: (JobId, PreemptAction)) {
        take_out(self.view(), &mut self.space, way, &self.gone);
        self.gone.insert(way.0);
    }

    fn stays(&mut self, way: (JobId, PreemptAction)) {
        self.gone.remove(&way.0);
        put_back(self.view(), &mut self.space, way, &self.gone);
    }

    /// How many of the first must be out so that the job fits, which it does without them all.
    fn shortest(&mut self) -> usize {
        let (mut too_few, mut enough) = (0, self.ways.len());
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

    /// Of the first so many those that are needed; the last of them is. Who is asked last is spared
    /// first.
    fn pruned(&mut self, count: usize) -> Vec<(JobId, PreemptAction)> {
        let mut gone = if count > MANY {
            self.of_use(count)
        } else {
            self.ways[..count].to_vec()
        };
        gone.reverse();
        gone.retain(|way| {
            self.stays(*way);
            let is_needed = !self.fits();
            if is_needed {
                self.leaves(*way);
            }
            is_needed
        });
        gone.reverse();
        gone
    }

    /// Of the first so many those that are where the job could go: the others are put back without
    /// a trial.
    fn of_use(&mut self, count: usize) -> Vec<(JobId, PreemptAction)> {
        let used = self.place().map(|placement| {
            placement
                .picks
                .iter()
                .map(|&(ix, _)| ix)
                .collect::<BTreeSet<_>>()
        });
        let (gone, others): (Vec<_>, Vec<_>) = self.ways[..count].iter().partition(|(job, _)| {
            let running = self.state.running.get(job);
            used.as_ref().is_none_or(|used| {
                running.is_some_and(|running| running.nodes.iter().any(|ix| used.contains(ix)))
            })
        });
        for way in &others {
            self.stays(*way);
        }
        if !self.fits() {
            // What the whole system has is given by anybody.
            for way in &others {
                self.leaves(*way);
            }
            return self.ways[..count].to_vec();
        }
        gone
    }
}

/// The state, and what suspended jobs give up.
type View<'v> = (&'v ClusterState, &'v [String]);

/// A running job makes way like this: one that is only stopped gives back its processors alone, and
/// nobody else's are nodes that it has to itself.
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

/// It does not after all.
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

/// What a suspended job keeps of what it has (M45).
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
