//! The running jobs above the fair shares of their operations (Y3 to Y6, Y16, Y19, Y27). An
//! operation is a job, or an array with all its subjobs. Operations that starve (stay below their
//! fair share for too long) may preempt these jobs.
//!
//! Most operations use too little to lose any job; [`Thresholds::could_lose`] finds them with one
//! comparison. For the other operations, jobs are examined from the newest on, until a job is
//! within the fair share.

use crate::model::job::preemption::PreemptAction;
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::time::{Span, Time};
use crate::sched::amounts::subtract;
use crate::sched::fairshare::starvation::groups::{AllocationGroup, Thresholds, divide};
use crate::sched::fairshare::starvation::{
    Exposure, FairShares, OperationShare, PreemptionExemption,
};
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::operations::{Age, Operation};
use crate::sched::view::snapshot::{ClusterState, RunningJob};
use crate::sched::view::starvation::ShareParty;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A running job that may be preempted, and one of its nodes.
#[derive(Clone, Copy)]
pub struct Spare {
    /// The node.
    pub node: NodeIx,
    /// The job.
    pub job: JobId,
    /// The operation of the job.
    pub party: ShareParty,
    /// The index of the operation's pool in the fair shares.
    pub line: usize,
    /// The action that preempts the job.
    pub action: PreemptAction,
    group: AllocationGroup,
    started: Time,
}

/// The running jobs that may be preempted.
pub struct AboveFairShare {
    /// Sorted by node; within a node, the first to be preempted comes first.
    spares: Vec<Spare>,
    /// For each pool: the pools that may preempt its jobs.
    pub to: Vec<Exposure>,
    /// The earliest time at which a further job may be preempted, because its exemption ends; None
    /// if no job is exempt for a limited time.
    pub later: Option<Time>,
}

/// Decides which jobs of an operation may be preempted.
pub struct Assessor<'a> {
    state: &'a ClusterState,
    policy: &'a Policy,
    shares: &'a FairShares,
    /// The jobs being preempted, which count as ended.
    preempted: &'a BTreeSet<JobId>,
    now: Time,
}

impl AboveFairShare {
    /// The running jobs that may be preempted, in groups up to `last`, on the nodes for which
    /// `is_open` is true.
    pub fn of(
        assessor: &Assessor,
        exemption: &PreemptionExemption,
        last: AllocationGroup,
        is_open: impl Fn(NodeIx) -> bool,
    ) -> AboveFairShare {
        let mut above_share = AboveFairShare {
            spares: Vec::new(),
            to: exemption.by_line(),
            later: None,
        };
        for (id, operation) in assessor.state.operations.all() {
            let row = assessor.shares.row(ShareParty::Operation(id));
            if let Some(row) = row.filter(|row| !exemption.is_exempt(row)) {
                let lost = assessor.lost(operation, row, last);
                for (group, allocation) in lost {
                    above_share.add(assessor, row, group, allocation)
                }
            }
        }
        above_share.spares.retain(|spare| is_open(spare.node));
        above_share
            .spares
            .sort_unstable_by_key(|one| (one.node, one.group, Reverse((one.started, one.job))));
        above_share
    }

    /// Adds a job with each of its nodes, if an action can preempt the job. If the job is still
    /// exempt from preemption, notes the end of its exemption instead.
    fn add(
        &mut self,
        assessor: &Assessor,
        row: &OperationShare,
        group: AllocationGroup,
        ((started, job), running): Allocation,
    ) {
        let Some(action) = assessor.action(job, running) else {
            return;
        };
        let preemptible_from = assessor.preemptible_from(row, running);
        if preemptible_from > assessor.now {
            self.later = Some(
                self.later
                    .map_or(preemptible_from, |later| later.min(preemptible_from)),
            );
            return;
        }
        self.spares.extend(running.nodes.iter().map(|&node| Spare {
            node,
            job,
            party: row.party,
            line: row.line,
            action,
            group,
            started,
        }));
    }

    /// Whether no job may be preempted.
    pub fn is_empty(&self) -> bool {
        self.spares.is_empty()
    }

    /// The nodes, each with the jobs that may be preempted there.
    pub fn by_node(&self) -> impl Iterator<Item = (NodeIx, &[Spare])> {
        self.spares
            .chunk_by(|one, other| one.node == other.node)
            .map(|spares| (spares[0].node, spares))
    }
}

/// A running job of an operation, with its start time.
type Allocation<'a> = (Age, &'a RunningJob);

impl<'a> Assessor<'a> {
    /// An assessor of the current state.
    pub fn new(
        (state, policy): (&'a ClusterState, &'a Policy),
        shares: &'a FairShares,
        preempted: &'a BTreeSet<JobId>,
        now: Time,
    ) -> Assessor<'a> {
        Assessor {
            state,
            policy,
            shares,
            preempted,
            now,
        }
    }

    /// The running jobs of an operation that belong to groups up to `last`, newest first.
    pub fn lost(
        &self,
        operation: &'a Operation,
        row: &OperationShare,
        last: AllocationGroup,
    ) -> Vec<(AllocationGroup, Allocation<'a>)> {
        let thresholds = self.thresholds(row);
        // `entitled.used` also counts jobs that are about to start, so it is an upper bound.
        if !thresholds.could_lose(row.entitled.used, last) {
            return Vec::new();
        }
        let staying = operation
            .allocations
            .iter()
            .rev()
            .filter(|age| !self.preempted.contains(&age.1));
        let allocations = staying.filter_map(|age| Some((*age, self.running(age.1)?)));
        let newest_first = allocations.map(|(age, running)| ((age, running), &running.taken));
        divide(
            newest_first,
            &self.together(operation),
            &self.shares.whole,
            &thresholds,
            last,
        )
    }

    /// The resources in use by an operation, without those of the jobs being preempted.
    fn together(&self, operation: &'a Operation) -> Cow<'a, [i64]> {
        let mut together = Cow::Borrowed(&*operation.taken);
        if !self.preempted.is_empty() {
            let preempted = operation
                .allocations
                .iter()
                .filter(|age| self.preempted.contains(&age.1));
            let gone = preempted.filter_map(|age| self.running(age.1));
            for running in gone {
                subtract(together.to_mut(), &running.taken);
            }
        }
        together
    }

    fn running(&self, job: JobId) -> Option<&'a RunningJob> {
        self.state.running.get(&job).map(|running| &**running)
    }

    /// The thresholds that divide the running jobs of an operation into groups.
    fn thresholds(&self, row: &OperationShare) -> Thresholds {
        let line = &self.shares.lines[row.line];
        Thresholds {
            aggressive: row.entitled.fair * line.cutoffs.aggressive,
            preemption: row.entitled.fair * line.cutoffs.preemption,
            boundary: self.policy.starvation.boundary,
            spared: line.spared.clone(),
            allow_aggressive: line.patience.allow_aggressive,
        }
    }

    /// The time from which a job may be preempted. After each start, the job is exempt from
    /// preemption for some time. If the job has been preempted before, the exemption lasts at least
    /// for the timeout of its pool, doubled for each earlier preemption, so that the job eventually
    /// finishes.
    fn preemptible_from(&self, row: &OperationShare, running: &RunningJob) -> Time {
        let Some(candidate) = running.candidate.as_deref() else {
            return Time::NEVER;
        };
        let timeout = self.shares.lines[row.line].patience.timeout;
        let again = match candidate.preempted {
            0 => Span(0),
            times => Span(timeout.0.max(1000).saturating_mul(1 << times.min(30))),
        };
        candidate.started + again.max(self.policy.preemption.exempt)
    }

    /// The first possible action that preempts a job. None if no action is possible, if the owner
    /// exempts the job, or if the job runs inside a reservation.
    fn action(&self, job: JobId, running: &RunningJob) -> Option<PreemptAction> {
        let candidate = running.candidate.as_deref()?;
        if candidate.protected || self.state.jobs_in_reservations.contains_key(&job) {
            return None;
        }
        let actions = self.policy.preemption.actions.of(candidate.left(self.now));
        actions
            .iter()
            .copied()
            .find(|action| candidate.can(*action, &self.policy.preemption))
    }
}
