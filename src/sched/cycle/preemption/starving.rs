//! Preemption for starving operations and pools (Y7 to Y11, Y27), once all jobs that fit have
//! started. A *party* is an operation (a job, or an array with its subjobs), or each job of a group
//! of similar waiting jobs. A party starves if it has been below its fair share for too long.
//!
//! The first stage preempts *preemptible* jobs for all starving parties. The second stage also
//! preempts *aggressively preemptible* jobs, for aggressively starving parties.
//!
//! Each step preempts jobs on one node so that one waiting job fits on the freed resources and
//! those that were already free. After the step, no further jobs are preempted on that node for a
//! time (the key `backoff`), so that no more jobs are preempted than needed.

use super::above_fair_share::{AboveFairShare, Assessor};
use super::eviction::{EvictionOutcome, FreedResources};
use super::waits_for_resources;
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

/// The maximum number of waiting jobs that a stage tries in a cycle. Trying more would help little,
/// because most later jobs need the same nodes as the tried jobs.
const MAX_TRIED_JOBS: usize = 32;

/// A stage of preemption (Y9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StarvationStage {
    /// Preempts jobs for all starving parties.
    Preemptive,
    /// Preempts jobs for aggressively starving parties.
    Aggressive,
}

impl StarvationStage {
    fn required_status(self) -> StarvationStatus {
        match self {
            StarvationStage::Preemptive => StarvationStatus::Starving,
            StarvationStage::Aggressive => StarvationStatus::Aggressive,
        }
    }

    /// The last group of allocations that this stage preempts.
    fn last_group(self) -> AllocationGroup {
        match self {
            StarvationStage::Preemptive => AllocationGroup::Preemptible,
            StarvationStage::Aggressive => AllocationGroup::Aggressively,
        }
    }

    fn cause(self) -> PreemptCause {
        match self {
            StarvationStage::Preemptive => PreemptCause::Starvation,
            StarvationStage::Aggressive => PreemptCause::AggressiveStarvation,
        }
    }
}

/// Computes the current fair shares. Records which parties and pools are below their fair share,
/// and since when, and schedules a cycle for the next change of a starvation status.
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
    if let Some(time) = next.min() {
        cycle.schedule_cycle_at(time);
    }
    cycle.set_starving(Starving {
        time_below,
        held: Some(shares.held.clone()),
        backoff,
    });
    shares
}

/// The fair share and the usage of all parties, including the decisions of this cycle.
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
    // Resources may also be held for a job that this cycle starts; the set contains the job once.
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
    freed: &mut FreedResources<'s>,
    cycle: &mut CycleState<'s>,
) {
    // Repair or another trigger may have preempted jobs after `watch`.
    let shares = if cycle.preempted_jobs().next().is_none() {
        watched
    } else {
        shares(cycle)
    };
    let mut starvation_run = StarvationRun {
        shares,
        resolved,
        visited: BTreeSet::new(),
        later: None,
    };
    if !starvation_run.has_starving_party(cycle) {
        return;
    }
    for stage in [StarvationStage::Preemptive, StarvationStage::Aggressive] {
        starvation_run.run(stage, freed, cycle);
    }
    starvation_run.schedule_retry(cycle);
}

/// The preemptions for starving parties in one cycle.
struct StarvationRun<'s> {
    shares: FairShares,
    resolved: &'s Resolved,
    /// The nodes on which this run has preempted jobs or waits for the hooks' decision.
    visited: BTreeSet<NodeIx>,
    /// The earliest time at which a further job may be preempted, or a further party starves.
    later: Option<Time>,
}

impl<'s> StarvationRun<'s> {
    fn has_starving_party(&self, cycle: &CycleState) -> bool {
        let time_below = &cycle.starving().time_below;
        time_below.all().any(|(subject, _)| {
            matches!(subject, StarvationSubject::Party(_))
                && self.shares.starvation(subject, time_below, cycle.now) != StarvationStatus::None
        })
    }

    /// Preempts jobs for one waiting job after another, as long as there are victims. The party
    /// with the lowest satisfaction (usage divided by fair share) comes first.
    fn run(
        &mut self,
        stage: StarvationStage,
        freed: &mut FreedResources<'s>,
        cycle: &mut CycleState<'s>,
    ) {
        let (mut hopeless, mut left) = (BTreeSet::new(), MAX_TRIED_JOBS);
        while left > 0 {
            let jobs = self.next_jobs(stage, &hopeless, freed, cycle);
            if jobs.is_empty() {
                return;
            }
            let above_share = self.above_fair_share(stage, cycle);
            if above_share.is_empty() {
                return;
            }
            let mut is_helped = false;
            for (job, party) in jobs.into_iter().take(left) {
                left -= 1;
                is_helped = self.preempt_for((job, party), stage, &above_share, freed, cycle);
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

    /// The waiting jobs of starving parties, one per class, lowest satisfaction first.
    fn next_jobs(
        &mut self,
        stage: StarvationStage,
        hopeless: &BTreeSet<ShareParty>,
        freed: &FreedResources<'s>,
        cycle: &CycleState<'s>,
    ) -> Vec<(Candidate<'s>, ShareParty)> {
        let mut ranking = ranking::rank(cycle.state, self.resolved);
        let mut jobs: Vec<(f64, Candidate<'s>, ShareParty)> = Vec::new();
        while jobs.len() < MAX_TRIED_JOBS
            && let Some(job) = ranking.next()
        {
            if cycle.has_started(job.job) || freed.has_victims(job.job) {
                ranking.follow(job);
                continue;
            }
            let party = self
                .shares
                .party(job.job, Some(job.class.id))
                .filter(|party| !hopeless.contains(party));
            if let Some(party) = party
                && self.starves(party, job, stage, cycle)
                && waits_for_resources(job, cycle)
            {
                let satisfaction = self
                    .shares
                    .entitled(party)
                    .map_or(0.0, |entitled| entitled.satisfaction());
                jobs.push((satisfaction, job, party));
            }
            ranking.pass(job);
        }
        // Jobs with equal satisfaction stay in queue order.
        jobs.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        jobs.into_iter()
            .map(|(_, job, party)| (job, party))
            .collect()
    }

    /// Whether the party of a waiting job starves enough for this stage. If it does not, and the
    /// job is one of a group of similar jobs, notes the time at which the job's status changes.
    fn starves(
        &mut self,
        party: ShareParty,
        job: Candidate,
        stage: StarvationStage,
        cycle: &CycleState,
    ) -> bool {
        let since = self.below_share_since(party, job, cycle);
        let patience = self.shares.patience(party);
        let starves = StarvationStatus::of(since, &patience, cycle.now) >= stage.required_status();
        // Each job of a group of similar jobs begins to starve at a different time.
        if let Some(since) = since
            && !starves
            && is_of_similar_jobs(party)
        {
            let next = StarvationStatus::next(since, &patience, cycle.now);
            self.later = self.later.into_iter().chain(next).min();
        }
        starves
    }

    /// Since when the party of a waiting job is below its fair share; for similar jobs, not before
    /// the job began to wait. None if the party is not below its fair share.
    fn below_share_since(
        &self,
        party: ShareParty,
        job: Candidate,
        cycle: &CycleState,
    ) -> Option<Time> {
        // A party no longer starves if the decisions of this cycle give it enough resources.
        let tolerance = self.shares.patience(party).tolerance;
        if !self.shares.entitled(party)?.is_below(tolerance) {
            return None;
        }
        let since = cycle
            .starving()
            .time_below
            .since(&StarvationSubject::Party(party))?;
        if is_of_similar_jobs(party)
            && let Some(waiting) = cycle.state.waiting(job.job)
        {
            Some(since.max(waiting.wait.since))
        } else {
            Some(since)
        }
    }

    /// The running jobs that may be preempted in this stage.
    fn above_fair_share(&mut self, stage: StarvationStage, cycle: &CycleState) -> AboveFairShare {
        let (policy, starving, preempted) =
            (cycle.policy(), cycle.starving(), preempted_jobs(cycle));
        let last = stage.last_group();
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

    /// Preempts victims on the first node where this lets the waiting job start. If the site's
    /// hooks must decide first, requests their decision. Returns false if there is no such node.
    fn preempt_for(
        &mut self,
        (job, party): (Candidate<'s>, ShareParty),
        stage: StarvationStage,
        above_share: &AboveFairShare,
        freed: &mut FreedResources<'s>,
        cycle: &mut CycleState<'s>,
    ) -> bool {
        let line = self.shares.line(party);
        let is_to: Vec<bool> = above_share
            .to
            .iter()
            .map(|to: &Exposure| to.is_to(line))
            .collect();
        for (ix, spares) in above_share.by_node() {
            let victims: Vec<(JobId, PreemptAction)> = spares
                .iter()
                .filter(|spare| spare.party != party && is_to[spare.line])
                .map(|spare| (spare.job, spare.action))
                .collect();
            if victims.is_empty() || !freed.could_hold(ix, &victims, job) {
                continue;
            }
            let Some(outcome) = freed.evict_from(job, &victims, stage.cause(), cycle) else {
                continue;
            };
            self.visited.insert(ix);
            if outcome == EvictionOutcome::Preempted {
                let until = cycle.now + cycle.policy().starvation.backoff;
                cycle.exempt_from_preemption(ix, until);
            }
            return true;
        }
        false
    }

    /// If a party starves, requests cycles for the times at which more nodes or jobs become
    /// preemptible.
    fn schedule_retry(&self, cycle: &mut CycleState) {
        let next = cycle
            .starving()
            .backoff
            .values()
            .copied()
            .filter(|until| *until > cycle.now)
            .min();
        if self.has_starving_party(cycle) {
            for time in next.into_iter().chain(self.later) {
                cycle.schedule_cycle_at(time);
            }
        }
    }
}

fn is_of_similar_jobs(party: ShareParty) -> bool {
    matches!(party, ShareParty::Alike(_))
}

/// The jobs being preempted, by decisions of earlier cycles or of this cycle.
fn preempted_jobs(cycle: &CycleState) -> BTreeSet<JobId> {
    let earlier = cycle.state.bookings.preempted().map(|(job, _)| job);
    earlier.chain(cycle.preempted_jobs()).collect()
}

/// The running jobs for which `is_included` is true, in the order in which repair preempts them:
/// first the jobs above the fair shares of their operations, newest first within each group (Y8).
pub fn repair_order(cycle: &CycleState, is_included: impl Fn(JobId) -> bool) -> Vec<JobId> {
    let state = cycle.state;
    let (shares, preempted) = (shares(cycle), preempted_jobs(cycle));
    let assessor = Assessor::new((state, cycle.policy()), &shares, &preempted, cycle.now);
    let included = state
        .running
        .keys()
        .copied()
        .filter(|job| is_included(*job));
    let operations: BTreeSet<JobId> = included.map(operation_of).collect();
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
                .filter(|(_, age)| is_included(age.1)),
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

    /// Of ten CPUs, six subjobs of array 1 use one each, and the protected job 9 uses four.
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

    /// Runs a cycle and applies its plan; the preempted jobs keep running. Returns the preempted
    /// jobs, each with its preemptor.
    fn decide(fixture: &mut TestCluster, seconds: i64) -> String {
        fixture.now = Time(seconds * 1000);
        let plan = fixture.plan();
        fixture.apply(&plan);
        let preempted = plan
            .preempts
            .iter()
            .map(|preemption| format!("{} for {}", preemption.job, preemption.by.unwrap()));
        preempted.collect::<Vec<_>>().join("; ")
    }

    /// Y17: the array uses six CPUs; one subjob is being preempted, so five CPUs count. The array's
    /// fair share is 3 if job 3 requests 3 CPUs, and 3.5 if job 3 requests 2. In both cases the
    /// array may lose two more subjobs. They release 2 CPUs, too few if job 3 requests 3.
    #[test]
    fn a_job_being_preempted_counts_as_ended_and_is_not_preempted_again() {
        for (ncpus, expected) in [(3, ""), (2, "1[5] for 3; 1[4] for 3")] {
            let fixture = full().queued(2, "select=1:ncpus=1");
            let mut fixture = fixture.queued(3, &format!("select=1:ncpus={ncpus}"));
            assert_eq!(decide(&mut fixture, 7), "");
            assert_eq!(
                decide(&mut fixture, 37),
                "1[6] for 2",
                "a cycle preempts for only one job on a node"
            );
            assert_eq!(decide(&mut fixture, 38), expected, "{ncpus}");
        }
    }

    /// The node is not exempt from preemption, because no job has been preempted yet.
    #[test]
    fn hooks_decide_before_a_job_is_preempted_for_a_starving_party() {
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
