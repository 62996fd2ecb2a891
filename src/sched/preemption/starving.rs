//! Those that starve have others make way (Y7 to Y11, Y27): once all have started that find room, first with what
//! is preemptible, then, for who starves aggressively, with what is so only for them.
//!
//! Each time one job is made room for, on one node with what is free there, and then nobody else makes way on
//! that node for a while. So others lose no more than is needed until the starving have enough.

use super::eviction::Stage;
use super::waits_for_room;
use crate::model::job::JobId;
use crate::model::policy::Policy;
use crate::model::preemption::{Action, Cause};
use crate::model::time::{Span, Time};
use crate::sched::amounts::subtract;
use crate::sched::cluster::NodeIx;
use crate::sched::ledger::Ledger;
use crate::sched::priority::{self, Candidate};
use crate::sched::resolution::Resolved;
use crate::sched::snapshot::{Running, State};
use crate::sched::starvation::groups::{Group, Thresholds, divide};
use crate::sched::starvation::{
    Age, Ahead, Exposure, FairShares, Hunger, Operation, Party, Shield, Starving, Subject, amounts_of, operation_of,
};
use std::collections::{BTreeMap, BTreeSet};

/// In a cycle at most so many jobs are tried at each stage: most that come after them want the same places.
const MOST: usize = 32;

/// A stage of a node's turn (Y9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// For all that starve.
    Preemptive,
    /// For those that do so aggressively.
    Aggressive,
}

impl Level {
    fn needs(self) -> Hunger {
        match self {
            Level::Preemptive => Hunger::Starving,
            Level::Aggressive => Hunger::Aggressive,
        }
    }

    /// The last group that loses anything.
    fn takes(self) -> Group {
        match self {
            Level::Preemptive => Group::Preemptible,
            Level::Aggressive => Group::Aggressively,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Level::Preemptive => Cause::Starvation,
            Level::Aggressive => Cause::AggressiveStarvation,
        }
    }
}

/// Who is below its fair share now, and since when.
pub fn watch(ledger: &mut Ledger) -> FairShares {
    let shares = shares(ledger);
    let (before, now) = (&ledger.state.starvation, ledger.now);
    let fasting = before.fasting.renewed(shares.below(), now);
    let backoff: BTreeMap<String, Time> =
        before.backoff.iter().filter(|(_, until)| **until > now).map(|(node, until)| (node.clone(), *until)).collect();
    let next = fasting.all().filter_map(|(subject, since)| Hunger::next(since, &shares.patience_of(subject), now));
    next.min().into_iter().for_each(|moment| ledger.look_again_at(moment));
    ledger.starve(Starving { fasting, held: Some(shares.held.clone()), backoff });
    shares
}

/// What everybody is owed, and has with what this cycle has decided.
fn shares(ledger: &Ledger) -> FairShares {
    let awaited = ledger.bookings().iter().filter(|booking| booking.earmark.is_some()).map(|booking| booking.job);
    let coming = ledger.starts().map(|start| start.job).chain(awaited).collect();
    // Who starts has been awaited, perhaps.
    let ahead = Ahead { coming, leaving: leaving(ledger) };
    FairShares::after(ledger.starving().held.as_ref(), ledger.state, ledger.policy(), &ahead, ledger.now)
}

/// Has others make way for those that starve.
pub fn run<'s>(watched: FairShares, resolved: &'s Resolved, stage: &mut Stage<'s>, ledger: &mut Ledger<'s>) {
    // Others may have been told to make way since.
    let shares = if ledger.leaving().next().is_none() { watched } else { shares(ledger) };
    let mut relief = Relief { shares, resolved, visited: BTreeSet::new(), later: None };
    if !relief.is_anybody_starving(ledger) {
        return;
    }
    for level in [Level::Preemptive, Level::Aggressive] {
        relief.run(level, stage, ledger);
    }
    relief.wait(ledger);
}

/// A cycle's relief of those that starve.
struct Relief<'s> {
    shares: FairShares,
    resolved: &'s Resolved,
    /// The nodes on which somebody has made way in this cycle.
    visited: BTreeSet<NodeIx>,
    /// When somebody can be told to make way who has not run for long enough, or starves who does not yet.
    later: Option<Time>,
}

/// A running job that may be told to make way.
#[derive(Clone)]
struct Exposed {
    group: Group,
    age: Age,
    party: Party,
    to: Exposure,
    action: Action,
}

impl<'s> Relief<'s> {
    fn is_anybody_starving(&self, ledger: &Ledger) -> bool {
        let fasting = &ledger.starving().fasting;
        let starves = |subject: &Subject| self.shares.hunger(subject, fasting, ledger.now) != Hunger::None;
        fasting.all().any(|(subject, _)| matches!(subject, Subject::Party(_)) && starves(subject))
    }

    /// The neediest first, until nobody can be helped any more.
    fn run(&mut self, level: Level, stage: &mut Stage<'s>, ledger: &mut Ledger<'s>) {
        let (mut hopeless, mut left) = (BTreeSet::new(), MOST);
        while left > 0 {
            let line = self.line(level, &hopeless, stage, ledger);
            let exposed = if line.is_empty() { BTreeMap::new() } else { self.exposed(level, ledger) };
            if exposed.is_empty() {
                return;
            }
            let mut is_helped = false;
            for (job, party) in line.into_iter().take(left) {
                left -= 1;
                is_helped = self.make_room((job, party), level, &exposed, stage, ledger);
                if is_helped {
                    self.shares = shares(ledger);
                    break;
                }
                hopeless.insert(party);
            }
            if !is_helped {
                return;
            }
        }
    }

    /// The next job of each that starves, who has least of its fair share first.
    fn line(
        &mut self,
        level: Level,
        hopeless: &BTreeSet<Party>,
        stage: &Stage<'s>,
        ledger: &Ledger<'s>,
    ) -> Vec<(Candidate<'s>, Party)> {
        let mut ranking = priority::rank(ledger.state, self.resolved);
        let mut line: Vec<(f64, Candidate<'s>, Party)> = Vec::new();
        while line.len() < MOST
            && let Some(job) = ranking.next()
        {
            if ledger.has_started(job.job) || stage.awaits_room(job.job) {
                ranking.follow(job);
                continue;
            }
            let party = self.shares.party(job.job, Some(job.class.id)).filter(|party| !hopeless.contains(party));
            if let Some(party) = party
                && self.starves(party, job, level, ledger)
                && waits_for_room(job, ledger)
            {
                let satisfaction = self.shares.entitled(party).map_or(0.0, |entitled| entitled.satisfaction());
                line.push((satisfaction, job, party));
            }
            ranking.pass(job);
        }
        // Of equals who goes first in the order.
        line.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        line.into_iter().map(|(_, job, party)| (job, party)).collect()
    }

    /// Whether having less has made a waiting job starve; if not, it may do so in a while.
    fn starves(&mut self, party: Party, job: Candidate, level: Level, ledger: &Ledger) -> bool {
        let (since, patience) = (self.hungry_since(party, job, ledger), self.shares.patience(party));
        let starves = Hunger::of(since, &patience, ledger.now) >= level.needs();
        // Of jobs alike each has a moment of its own.
        let next = since.filter(|_| !starves && is_alike(party));
        let next = next.and_then(|since| Hunger::next(since, &patience, ledger.now));
        self.later = self.later.into_iter().chain(next).min();
        starves
    }

    /// Since when a waiting job has less than it should; of jobs alike each has waited since it came.
    fn hungry_since(&self, party: Party, job: Candidate, ledger: &Ledger) -> Option<Time> {
        let since = ledger.starving().fasting.since(&Subject::Party(party));
        let came = ledger.state.waiting(job.job).map(|waiting| waiting.wait.since).filter(|_| is_alike(party));
        let since = since.map(|since| came.map_or(since, |came| since.max(came)));
        // Who has enough by what this cycle has decided starves no more.
        let tolerance = self.shares.patience(party).tolerance;
        let is_below = self.shares.entitled(party).is_some_and(|entitled| entitled.is_below(tolerance));
        since.filter(|_| is_below)
    }

    /// The running jobs that may be told to make way, by node; of each node the first to go first.
    fn exposed(&mut self, level: Level, ledger: &Ledger) -> BTreeMap<NodeIx, Vec<Exposed>> {
        let (state, policy) = (ledger.state, ledger.policy());
        let threshold = match level {
            Level::Preemptive => policy.starvation.preemption_threshold,
            Level::Aggressive => policy.starvation.aggressive_threshold,
        };
        let starving = ledger.starving();
        let shield = Shield { shares: &self.shares, fasting: &starving.fasting, threshold, now: ledger.now };
        let (leaving, spared) = (leaving(ledger), spared(policy, state));
        let mut by_node: BTreeMap<NodeIx, Vec<Exposed>> = BTreeMap::new();
        for (id, operation) in state.operations.all() {
            let party = Party::Operation(id);
            let to = shield.of(party);
            if to == Exposure::None {
                continue;
            }
            let thresholds = thresholds(policy, &self.shares, party, &spared);
            for (group, age) in groups(state, operation, &self.shares, &thresholds, level.takes(), &leaving) {
                let Some(action) = action(state, policy, age.1, ledger.now) else { continue };
                let settled = settled(policy, &state.running[&age.1], self.shares.patience(party).timeout);
                if settled > ledger.now {
                    self.later = Some(self.later.map_or(settled, |later| later.min(settled)));
                    continue;
                }
                for &ix in &state.running[&age.1].nodes {
                    let one = Exposed { group, age, party, to: to.clone(), action };
                    by_node.entry(ix).or_default().push(one);
                }
            }
        }
        by_node.retain(|ix, _| self.is_open(*ix, ledger));
        by_node.values_mut().for_each(|all| all.sort_by_key(|one| (one.group, std::cmp::Reverse(one.age))));
        by_node
    }

    /// Whether others may make way on a node (Y11).
    fn is_open(&self, ix: NodeIx, ledger: &Ledger) -> bool {
        let node = ledger.state.cluster.node(ix);
        node.usable && !self.visited.contains(&ix) && !ledger.starving().backoff.contains_key(&node.name)
    }

    /// Has those leave that must so that a job can start, all of one node; false if there is no such node.
    fn make_room(
        &mut self,
        (job, party): (Candidate<'s>, Party),
        level: Level,
        exposed: &BTreeMap<NodeIx, Vec<Exposed>>,
        stage: &mut Stage<'s>,
        ledger: &mut Ledger<'s>,
    ) -> bool {
        let line = self.shares.line(party);
        for (&ix, all) in exposed {
            let few = all
                .iter()
                .filter(|one| one.party != party && one.to.is_to(line) && is_free_to_leave(one.age.1, job.job, ledger));
            let ways: Vec<(JobId, Action)> = few.map(|one| (one.age.1, one.action)).collect();
            if ways.is_empty() || !stage.could_hold(ix, &ways, job) {
                continue;
            }
            if stage.evict_from(job, &ways, level.cause(), ledger) {
                self.visited.insert(ix);
                let until = ledger.now + ledger.policy().starvation.backoff;
                ledger.back_off(ix, until);
                return true;
            }
        }
        false
    }

    /// Looks again when somebody may make way on a node where nobody may now, if anybody needs that.
    fn wait(&self, ledger: &mut Ledger) {
        let next = ledger.starving().backoff.values().copied().filter(|until| *until > ledger.now).min();
        if self.is_anybody_starving(ledger) {
            next.into_iter().chain(self.later).for_each(|moment| ledger.look_again_at(moment));
        }
    }
}

/// G9: who made way for a job that runs now does not drive it out at once.
fn is_free_to_leave(victim: JobId, newcomer: JobId, ledger: &Ledger) -> bool {
    let way = ledger.state.standing.made_way(newcomer);
    way.is_none_or(|(to, at)| to != victim || ledger.now >= at + ledger.preemption().exempt)
}

fn is_alike(party: Party) -> bool {
    matches!(party, Party::Alike(_))
}

/// Those that have been told to make way.
fn leaving(ledger: &Ledger) -> BTreeSet<JobId> {
    let told = ledger.state.standing.leaving().map(|(job, _)| job);
    told.chain(ledger.leaving()).collect()
}

/// What an operation has first is left to it up to so much, by resource (Y16).
fn spared(policy: &Policy, state: &State) -> Vec<(usize, i64)> {
    let amounts = amounts_of(&policy.starvation.non_preemptible_threshold, &state.cluster.catalog);
    amounts.iter().copied().enumerate().filter(|(_, amount)| *amount > 0).collect()
}

/// What divides the allocations of an operation.
fn thresholds(policy: &Policy, shares: &FairShares, party: Party, spared: &[(usize, i64)]) -> Thresholds {
    let rule = &policy.starvation;
    let fair = shares.entitled(party).map_or(0.0, |entitled| entitled.fair);
    Thresholds {
        aggressive: fair * rule.aggressive_threshold,
        preemption: fair * rule.preemption_threshold,
        boundary: rule.boundary,
        spared: spared.to_vec(),
        allow_aggressive: shares.patience(party).allow_aggressive,
    }
}

/// The allocations of an operation that are of no later group than this, newest first; those that leave already
/// are as good as gone.
fn groups(
    state: &State,
    operation: &Operation,
    shares: &FairShares,
    thresholds: &Thresholds,
    last: Group,
    leaving: &BTreeSet<JobId>,
) -> Vec<(Group, Age)> {
    let taken = |job: JobId| state.running.get(&job).map(|running| &running.taken);
    let stays = |age: &&Age| !leaving.contains(&age.1);
    let mut together = operation.taken.clone();
    if !leaving.is_empty() {
        let gone = operation.allocations.iter().filter(|age| !stays(age)).filter_map(|age| taken(age.1));
        gone.for_each(|taken| subtract(&mut together, taken));
    }
    let newest_first = operation.allocations.iter().rev().filter(stays);
    let newest_first = newest_first.filter_map(|age| Some((*age, taken(age.1)?)));
    divide(newest_first, &together, &shares.whole, thresholds, last)
}

/// From when on a job may be told to make way. One that has made way before is left alone for longer each time:
/// so however often others starve, it is done in the end.
fn settled(policy: &Policy, running: &Running, timeout: Span) -> Time {
    let Some(tenure) = running.tenure.as_deref() else { return Time::NEVER };
    let again = match tenure.preempted {
        0 => Span(0),
        times => Span(timeout.0.max(1000).saturating_mul(1 << times.min(30))),
    };
    tenure.started + again.max(policy.preemption.exempt)
}

/// How a job makes way, if it may be asked at all: not if its owner wants it left alone, or it has what a
/// reservation set aside.
fn action(state: &State, policy: &Policy, job: JobId, now: Time) -> Option<Action> {
    let tenure = state.running.get(&job)?.tenure.as_deref()?;
    if tenure.protected || state.insiders.contains_key(&job) {
        return None;
    }
    let actions = policy.preemption.actions.of(tenure.left(now));
    actions.iter().copied().find(|action| tenure.can(*action))
}

/// Of some running jobs who loses what it has first: where a node or a pool has too much, those beyond the fair
/// shares of their operations give it back before others, and of these the newest (Y8).
pub fn first_to_go(ledger: &Ledger, is_meant: impl Fn(JobId) -> bool) -> Vec<JobId> {
    let (state, policy) = (ledger.state, ledger.policy());
    let (shares, spared, leaving) = (shares(ledger), spared(policy, state), leaving(ledger));
    let meant = state.running.keys().copied().filter(|job| is_meant(*job));
    let operations: BTreeSet<JobId> = meant.map(operation_of).collect();
    let mut all: Vec<(Group, Age)> = Vec::new();
    for (id, operation) in operations.into_iter().filter_map(|id| Some((id, state.operations.get(id)?))) {
        let thresholds = thresholds(policy, &shares, Party::Operation(id), &spared);
        let divided = groups(state, operation, &shares, &thresholds, Group::Kept, &leaving);
        all.extend(divided.into_iter().filter(|(_, age)| is_meant(age.1)));
    }
    all.sort_by_key(|&(group, age)| (group, std::cmp::Reverse(age)));
    all.into_iter().map(|(_, (_, job))| job).collect()
}
