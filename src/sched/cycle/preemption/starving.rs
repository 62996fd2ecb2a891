//! Preemption for starving parties (Y7 to Y11, Y27): once all jobs that fit have started, first
//! takes preemptible allocations, then, for aggressively starving parties, aggressively preemptible
//! ones.
//!
//! Each step frees resources for one job on one node, using what is free there; that node is then
//! exempt for a while. So no more jobs are preempted than needed.

use super::above_fair_share::{AboveFairShare, Assessor};
use super::eviction::{Room, Stage};
use super::waits_for_room;
use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::cycle::state::CycleState;
use crate::sched::fairshare::starvation::groups::AllocationGroup;
use crate::sched::fairshare::starvation::{
    Exposure, FairShares, PendingChanges, PreemptionExemption, StarvationStatus,
};
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{self, Candidate};
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::operations::{Age, operation_of};
use crate::sched::view::starvation::{ShareParty, StarvationSubject, Starving};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of jobs tried in a cycle per stage: most later jobs need the same nodes.
const MOST: usize = 32;

/// A stage of preemption (Y9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// For all starving parties.
    Preemptive,
    /// For aggressively starving parties.
    Aggressive,
}

impl Level {
    fn needs(self) -> StarvationStatus {
        match self {
            Level::Preemptive => StarvationStatus::Starving,
            Level::Aggressive => StarvationStatus::Aggressive,
        }
    }

    /// The last group of allocations that this stage preempts.
    fn takes(self) -> AllocationGroup {
        match self {
            Level::Preemptive => AllocationGroup::Preemptible,
            Level::Aggressive => AllocationGroup::Aggressively,
        }
    }

    fn cause(self) -> PreemptCause {
        match self {
            Level::Preemptive => PreemptCause::Starvation,
            Level::Aggressive => PreemptCause::AggressiveStarvation,
        }
    }
}

/// Updates which parties are below their fair share, and since when.
pub fn watch(cycle: &mut CycleState) -> FairShares {
    let shares = shares(cycle);
    let (before, now) = (&cycle.state.starvation, cycle.now);
    let time_below = before.time_below.renewed(shares.below(), now);
    let backoff: BTreeMap<String, Time> = before
        .backoff
        .iter()
        .filter(|(_, until)| **until > now)
        .map(|(node, until)| (node.clone(), *until))
        .collect();
    let next = time_below.all().filter_map(|(subject, since)| {
        StarvationStatus::next(since, &shares.patience_of(subject), now)
    });
    if let Some(moment) = next.min() {
        cycle.look_again_at(moment);
    }
    cycle.starve(Starving {
        time_below,
        held: Some(shares.held.clone()),
        backoff,
    });
    shares
}

/// The fair share and the usage of all parties, with the decisions of this cycle.
pub fn shares(cycle: &CycleState) -> FairShares {
    let awaited = cycle
        .bookings()
        .iter()
        .filter(|booking| booking.held_until.is_some())
        .map(|booking| booking.job);
    let coming = cycle
        .starts()
        .map(|start| start.job)
        .chain(awaited)
        .collect();
    // A started job may also have been awaited; the set holds it once.
    let ahead = PendingChanges {
        coming,
        preempted: preempted_jobs(cycle),
    };
    FairShares::after(
        cycle.starving().held.as_ref(),
        cycle.state,
        cycle.policy(),
        &ahead,
        cycle.now,
    )
}

/// Preempts running jobs for starving parties.
pub fn run<'s>(
    watched: FairShares,
    resolved: &'s Resolved,
    stage: &mut Stage<'s>,
    cycle: &mut CycleState<'s>,
) {
    // Repair or another trigger may have preempted jobs since.
    let shares = if cycle.preempted_jobs().next().is_none() {
        watched
    } else {
        shares(cycle)
    };
    let mut relief = Relief {
        shares,
        resolved,
        visited: BTreeSet::new(),
        later: None,
    };
    if !relief.is_anybody_starving(cycle) {
        return;
    }
    for level in [Level::Preemptive, Level::Aggressive] {
        relief.run(level, stage, cycle);
    }
    relief.wait(cycle);
}

/// The preemptions for starving parties in one cycle.
struct Relief<'s> {
    shares: FairShares,
    resolved: &'s Resolved,
    /// The nodes on which a job was preempted in this cycle.
    visited: BTreeSet<NodeIx>,
    /// The earliest time at which another job may be preempted, or another party starves.
    later: Option<Time>,
}

impl<'s> Relief<'s> {
    fn is_anybody_starving(&self, cycle: &CycleState) -> bool {
        let time_below = &cycle.starving().time_below;
        time_below.all().any(|(subject, _)| {
            matches!(subject, StarvationSubject::Party(_))
                && self.shares.starvation(subject, time_below, cycle.now) != StarvationStatus::None
        })
    }

    /// Serves the neediest first, until no more jobs can be helped.
    fn run(&mut self, level: Level, stage: &mut Stage<'s>, cycle: &mut CycleState<'s>) {
        let (mut hopeless, mut left) = (BTreeSet::new(), MOST);
        while left > 0 {
            let line = self.line(level, &hopeless, stage, cycle);
            if line.is_empty() {
                return;
            }
            let above_share = self.above_fair_share(level, cycle);
            if above_share.is_empty() {
                return;
            }
            let mut is_helped = false;
            for (job, party) in line.into_iter().take(left) {
                left -= 1;
                is_helped = self.make_room((job, party), level, &above_share, stage, cycle);
                if is_helped {
                    self.shares = shares(cycle);
                    break;
                }
                hopeless.insert(party);
            }
            if !is_helped {
                return;
            }
        }
    }

    /// The next job of each starving party, lowest satisfaction of its fair share first.
    fn line(
        &mut self,
        level: Level,
        hopeless: &BTreeSet<ShareParty>,
        stage: &Stage<'s>,
        cycle: &CycleState<'s>,
    ) -> Vec<(Candidate<'s>, ShareParty)> {
        let mut ranking = ranking::rank(cycle.state, self.resolved);
        let mut line: Vec<(f64, Candidate<'s>, ShareParty)> = Vec::new();
        while line.len() < MOST
            && let Some(job) = ranking.next()
        {
            if cycle.has_started(job.job) || stage.awaits_room(job.job) {
                ranking.follow(job);
                continue;
            }
            let party = self
                .shares
                .party(job.job, Some(job.class.id))
                .filter(|party| !hopeless.contains(party));
            if let Some(party) = party
                && self.starves(party, job, level, cycle)
                && waits_for_room(job, cycle)
            {
                let satisfaction = self
                    .shares
                    .entitled(party)
                    .map_or(0.0, |entitled| entitled.satisfaction());
                line.push((satisfaction, job, party));
            }
            ranking.pass(job);
        }
        // The sort keeps the queue order of equals.
        line.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        line.into_iter()
            .map(|(_, job, party)| (job, party))
            .collect()
    }

    /// Whether the party of a waiting job starves. If not, notes when it may.
    fn starves(
        &mut self,
        party: ShareParty,
        job: Candidate,
        level: Level,
        cycle: &CycleState,
    ) -> bool {
        let since = self.hungry_since(party, job, cycle);
        let patience = self.shares.patience(party);
        let starves = StarvationStatus::of(since, &patience, cycle.now) >= level.needs();
        // Each of several similar jobs starves at its own time.
        if let Some(since) = since
            && !starves
            && is_alike(party)
        {
            let next = StarvationStatus::next(since, &patience, cycle.now);
            self.later = self.later.into_iter().chain(next).min();
        }
        starves
    }

    /// Since when the party of a waiting job is below its fair share; for similar jobs, at the
    /// earliest since the job was submitted.
    fn hungry_since(&self, party: ShareParty, job: Candidate, cycle: &CycleState) -> Option<Time> {
        // A party with enough resources after the decisions of this cycle starves no more.
        let tolerance = self.shares.patience(party).tolerance;
        if !self.shares.entitled(party)?.is_below(tolerance) {
            return None;
        }
        let since = cycle
            .starving()
            .time_below
            .since(&StarvationSubject::Party(party))?;
        if is_alike(party)
            && let Some(waiting) = cycle.state.waiting(job.job)
        {
            Some(since.max(waiting.wait.since))
        } else {
            Some(since)
        }
    }

    /// The running jobs that may be preempted.
    fn above_fair_share(&mut self, level: Level, cycle: &CycleState) -> AboveFairShare {
        let (policy, starving, preempted) =
            (cycle.policy(), cycle.starving(), preempted_jobs(cycle));
        let last = level.takes();
        let exemption = PreemptionExemption {
            shares: &self.shares,
            time_below: &starving.time_below,
            last,
            now: cycle.now,
        };
        let assessor = Assessor::new((cycle.state, policy), &self.shares, &preempted, cycle.now);
        let backing_off = starving
            .backoff
            .keys()
            .filter_map(|name| cycle.state.cluster.find(name));
        let closed: BTreeSet<NodeIx> = backing_off.chain(self.visited.iter().copied()).collect();
        let above_share = AboveFairShare::of(&assessor, &exemption, last, |ix| {
            cycle.state.cluster.node(ix).usable && !closed.contains(&ix)
        });
        self.later = self.later.into_iter().chain(above_share.later).min();
        above_share
    }

    /// Preempts the jobs on one node that must end so that a job can start; false if there is no
    /// such node.
    fn make_room(
        &mut self,
        (job, party): (Candidate<'s>, ShareParty),
        level: Level,
        above_share: &AboveFairShare,
        stage: &mut Stage<'s>,
        cycle: &mut CycleState<'s>,
    ) -> bool {
        let line = self.shares.line(party);
        let is_to: Vec<bool> = above_share
            .to
            .iter()
            .map(|to: &Exposure| to.is_to(line))
            .collect();
        for (ix, spares) in above_share.by_node() {
            let ways: Vec<(JobId, PreemptAction)> = spares
                .iter()
                .filter(|spare| spare.party != party && is_to[spare.line])
                .map(|spare| (spare.job, spare.action))
                .collect();
            if ways.is_empty() || !stage.could_hold(ix, &ways, job) {
                continue;
            }
            let Some(room) = stage.evict_from(job, &ways, level.cause(), cycle) else {
                continue;
            };
            self.visited.insert(ix);
            if room == Room::Made {
                let until = cycle.now + cycle.policy().starvation.backoff;
                cycle.back_off(ix, until);
            }
            return true;
        }
        false
    }

    /// Requests a cycle for when more nodes or jobs become preemptible, if a party starves.
    fn wait(&self, cycle: &mut CycleState) {
        let next = cycle
            .starving()
            .backoff
            .values()
            .copied()
            .filter(|until| *until > cycle.now)
            .min();
        if self.is_anybody_starving(cycle) {
            for moment in next.into_iter().chain(self.later) {
                cycle.look_again_at(moment);
            }
        }
    }
}

fn is_alike(party: ShareParty) -> bool {
    matches!(party, ShareParty::Alike(_))
}

/// The jobs that are being preempted.
fn preempted_jobs(cycle: &CycleState) -> BTreeSet<JobId> {
    let told = cycle.state.bookings.preempted().map(|(job, _)| job);
    told.chain(cycle.preempted_jobs()).collect()
}

/// The order in which some running jobs are preempted when a node or a pool is over its limit:
/// those beyond the fair shares of their operations first, and of these the newest (Y8).
pub fn first_to_go(cycle: &CycleState, is_meant: impl Fn(JobId) -> bool) -> Vec<JobId> {
    let state = cycle.state;
    let (shares, preempted) = (shares(cycle), preempted_jobs(cycle));
    let assessor = Assessor::new((state, cycle.policy()), &shares, &preempted, cycle.now);
    let meant = state.running.keys().copied().filter(|job| is_meant(*job));
    let operations: BTreeSet<JobId> = meant.map(operation_of).collect();
    let mut all: Vec<(AllocationGroup, Age)> = Vec::new();
    for id in operations {
        let known = state
            .operations
            .get(id)
            .zip(shares.row(ShareParty::Operation(id)));
        let lost = known
            .map(|(operation, row)| assessor.lost(operation, row, AllocationGroup::Kept))
            .unwrap_or_default();
        all.extend(
            lost.into_iter()
                .map(|(group, (age, _))| (group, age))
                .filter(|(_, age)| is_meant(age.1)),
        );
    }
    all.sort_by_key(|&(group, age)| (group, std::cmp::Reverse(age)));
    all.into_iter().map(|(_, (_, job))| job).collect()
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::model::policy::preemption::{PreemptTrigger, PreemptionPolicy};
    use crate::model::time::{Span, Time};
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::view::holdings::RunningOwner;
    use std::collections::BTreeSet;

    /// Six subjobs of array 1 run on one of ten CPUs each, and protected job 9 on four.
    fn full() -> TestCluster {
        let mut fixture = cluster("1 x ncpus=10").running(9, "select=1:ncpus=4", "n1", 10_000);
        fixture = fixture.candidate(JobId::job(9), 0, 0.0, |candidate| {
            candidate.protected = true
        });
        let (array, one) = (
            fixture.job(1, "array=1-6"),
            cluster("1 x ncpus=1").queued(1, "select=1:ncpus=1").plan(),
        );
        for index in 1..=6 {
            let element = JobId::element(1, index);
            fixture
                .state
                .occupy(element, &one.starts[0].shares, false, Time(10_000_000));
            fixture.state.belongs_to(element, &RunningOwner::of(&array));
            fixture = fixture.candidate(element, i64::from(index), 0.0, |_| ());
        }
        fixture.policy.preemption = PreemptionPolicy::by(PreemptTrigger::Starvation);
        fixture.policy.starvation.patience.timeout = Span::seconds(30);
        fixture.policy.starvation.backoff = Span(0);
        fixture
    }

    /// Applies the decisions of a cycle, with the preempted jobs still running.
    fn decide(fixture: &mut TestCluster, seconds: i64) -> String {
        fixture.now = Time(seconds * 1000);
        let plan = fixture.plan();
        fixture.apply(&plan);
        let told = plan
            .preempts
            .iter()
            .map(|way| format!("{} for {}", way.job, way.by.unwrap()));
        told.collect::<Vec<_>>().join("; ")
    }

    /// Y17: of six CPUs the array releases one, which leaves five. Its fair share is 3 if job 3
    /// requests 3, and 3.5 if it requests 2: so the array may lose two more in either case. The
    /// released CPU does not count again.
    #[test]
    fn who_leaves_counts_as_gone_and_is_not_told_again() {
        for (wants, expected) in [(3, ""), (2, "1[5] for 3; 1[4] for 3")] {
            let fixture = full().queued(2, "select=1:ncpus=1");
            let mut fixture = fixture.queued(3, &format!("select=1:ncpus={wants}"));
            assert_eq!(decide(&mut fixture, 7), "");
            assert_eq!(
                decide(&mut fixture, 37),
                "1[6] for 2",
                "one at a time on a node"
            );
            assert_eq!(decide(&mut fixture, 38), expected, "{wants}");
        }
    }

    /// No job is preempted yet, so the node is not exempt.
    #[test]
    fn hooks_are_asked_before_a_job_is_preempted_for_one_that_starves() {
        let mut fixture = full().queued(2, "select=1:ncpus=1");
        fixture.policy.starvation.backoff = Span::seconds(5);
        decide(&mut fixture, 7);
        fixture.state.set_permits(Some(BTreeSet::new()));
        fixture.now = Time(37_000);
        let plan = fixture.plan();
        assert_eq!(plan.asks, [(JobId::job(2), vec!["n1".to_string()])]);
        assert!(
            plan.preempts.is_empty()
                && plan
                    .starving
                    .is_some_and(|starving| starving.backoff.is_empty())
        );
        fixture.state.set_permits(Some([JobId::job(2)].into()));
        assert_eq!(decide(&mut fixture, 38), "1[6] for 2");
    }
}
