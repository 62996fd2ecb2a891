//! What operations have beyond their fair shares (Y3 to Y6, Y16, Y19, Y27): the running jobs of
//! whom others can have the place that starve.
//!
//! An operation is passed over after a look at two numbers if it has too little to lose anything;
//! of all others those jobs are looked at that it loses, from the newest on, and one more.

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

/// A running job that may be told to make way, on one of its nodes.
#[derive(Clone, Copy)]
pub struct Spare {
    /// Where.
    pub node: NodeIx,
    /// Which it is.
    pub job: JobId,
    /// Of which operation.
    pub party: ShareParty,
    /// The operation's pool, by place among those of the fair shares.
    pub line: usize,
    /// How it makes way.
    pub action: PreemptAction,
    group: AllocationGroup,
    started: Time,
}

/// Those that may be told to make way.
pub struct AboveFairShare {
    /// By node; of each node the first to go first.
    spares: Vec<Spare>,
    /// By line: who may have what those in it lose.
    pub to: Vec<Exposure>,
    /// When somebody can be told who has not run for long enough.
    pub later: Option<Time>,
}

/// What is asked for all operations.
pub struct Assessor<'a> {
    state: &'a ClusterState,
    policy: &'a Policy,
    shares: &'a FairShares,
    /// Those that leave already are as good as gone.
    preempted: &'a BTreeSet<JobId>,
    now: Time,
}

impl AboveFairShare {
    /// Those of groups no later than this, on nodes that are open.
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
            if let Some(row) = row.filter(|row| !exemption.is_before(row)) {
                let lost = assessor.lost(operation, row, last);
                for (group, allocation) in lost {
                    above_share.enter(assessor, row, group, allocation)
                }
            }
        }
        above_share.spares.retain(|spare| is_open(spare.node));
        above_share
            .spares
            .sort_unstable_by_key(|one| (one.node, one.group, Reverse((one.started, one.job))));
        above_share
    }

    /// A job may be told to make way unless it has not run for long enough.
    fn enter(
        &mut self,
        assessor: &Assessor,
        row: &OperationShare,
        group: AllocationGroup,
        ((started, job), running): Allocation,
    ) {
        let Some(action) = assessor.action(job, running) else {
            return;
        };
        let settled = assessor.settled(row, running);
        if settled > assessor.now {
            self.later = Some(self.later.map_or(settled, |later| later.min(settled)));
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spares.is_empty()
    }

    /// The nodes, each with those on it.
    pub fn by_node(&self) -> impl Iterator<Item = (NodeIx, &[Spare])> {
        self.spares
            .chunk_by(|one, other| one.node == other.node)
            .map(|spares| (spares[0].node, spares))
    }
}

/// A running job of an operation.
type Allocation<'a> = (Age, &'a RunningJob);

impl<'a> Assessor<'a> {
    /// As things stand.
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

    /// The allocations of an operation that are of no later group than this, newest first.
    pub fn lost(
        &self,
        operation: &'a Operation,
        row: &OperationShare,
        last: AllocationGroup,
    ) -> Vec<(AllocationGroup, Allocation<'a>)> {
        let thresholds = self.thresholds(row);
        // What it is to have besides is counted there too, so its allocations come to no more than
        // that.
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

    /// What an operation has without those that leave.
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

    /// What divides the allocations of an operation.
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

    /// From when on a job may be told to make way. One that has made way before is left alone for
    /// longer each time: so however often others starve, it is done in the end.
    fn settled(&self, row: &OperationShare, running: &RunningJob) -> Time {
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

    /// How a job makes way, if it may be asked at all: not if its owner wants it left alone, or it
    /// has what a reservation set aside.
    fn action(&self, job: JobId, running: &RunningJob) -> Option<PreemptAction> {
        let candidate = running.candidate.as_deref()?;
        if candidate.protected || self.state.insiders.contains_key(&job) {
            return None;
        }
        let actions = self.policy.preemption.actions.of(candidate.left(self.now));
        actions
            .iter()
            .copied()
            .find(|action| candidate.can(*action, &self.policy.preemption))
    }
}
