//! The data of starvation preemption that is kept from cycle to cycle: the operations and pools
//! below their fair share, since when, and the fair shares as last computed (Y1, Y2). An
//! *operation* is a job, or an array with all its subjobs. A *pool* is an account, in the sense of
//! YTsaurus.

use super::shape::ClassId;
use crate::model::job_id::JobId;
use crate::model::limit::Limits;
use crate::model::policy::FairShare;
use crate::model::time::Time;
use crate::sched::share_tree::ClusterTotal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of starvation between two cycles. A restart of schedd resets it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Starving {
    /// The operations and pools below their fair share, and since when.
    pub time_below: TimeBelow,
    /// The fair shares as last computed.
    pub held: Option<Arc<HeldShares>>,
    /// The nodes on which jobs were preempted, and for each the time until which no further job is
    /// preempted there (Y11).
    pub backoff: BTreeMap<String, Time>,
}

/// A receiver of a fair share: an operation, or each job of a class of interchangeable jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareParty {
    /// An operation: a job, or an array with all its subjobs.
    Operation(JobId),
    /// Each waiting job of a class. These jobs are neither arrays nor subjobs.
    Alike(ClassId),
}

/// An operation, class or pool that can be below its fair share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StarvationSubject {
    /// An operation, or each job of a class.
    Party(ShareParty),
    /// A pool.
    Pool(String),
}

/// The operations, classes and pools below their fair shares, and since when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeBelow(BTreeMap<StarvationSubject, Time>);

impl TimeBelow {
    /// Since when a subject is below its fair share; None if the subject is not below.
    pub fn since(&self, subject: &StarvationSubject) -> Option<Time> {
        self.0.get(subject).copied()
    }

    /// The table for the subjects that are below their fair share at `now`. A subject that was
    /// below before keeps its time, and the time of a new subject is `now`. A subject that is no
    /// longer below is removed at once (Y2).
    pub fn renewed(&self, below: impl Iterator<Item = StarvationSubject>, now: Time) -> TimeBelow {
        TimeBelow(
            below
                .map(|subject| (self.since(&subject).unwrap_or(now), subject))
                .map(|(at, subject)| (subject, at))
                .collect(),
        )
    }

    /// All subjects below their fair shares, each with the time since which it has been below.
    pub fn all(&self) -> impl Iterator<Item = (&StarvationSubject, Time)> {
        self.0.iter().map(|(subject, since)| (subject, *since))
    }
}

/// The parts of the policy on which fair shares depend.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct FairSharePolicy {
    /// The fair-share policy.
    pub fair_share: FairShare,
    /// The limits, which can reduce the fair shares of pools.
    pub limits: Limits,
}

/// Fair shares that are reused until the update period ends or the input changes.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldShares {
    /// The time of the computation.
    pub(in crate::sched) at: Time,
    pub(in crate::sched) rule: Arc<FairSharePolicy>,
    /// The total of each resource at the time of the computation.
    pub(in crate::sched) whole: ClusterTotal,
    /// For each operation or class: the number of its jobs that share (1 for an operation), and the
    /// fair share of each of them.
    pub(in crate::sched) parties: Vec<(ShareParty, u64, f64)>,
    pub(in crate::sched) pools: BTreeMap<String, f64>,
}
