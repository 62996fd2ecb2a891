//! Starvation data kept from cycle to cycle: the parties below their fair share and since when, and
//! the fair shares in force (Y1, Y2).

use super::shape::ClassId;
use crate::model::job_id::JobId;
use crate::model::limit::Limits;
use crate::model::policy::FairShare;
use crate::model::time::Time;
use crate::sched::share_tree::ClusterTotal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of starvation between two cycles; lost when schedd restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Starving {
    /// Operations and pools below their fair share, and since when.
    pub time_below: TimeBelow,
    /// The fair shares computed last.
    pub held: Option<Arc<HeldShares>>,
    /// Nodes on which jobs were preempted, and the end of their exemption from further preemption
    /// (Y11).
    pub backoff: BTreeMap<String, Time>,
}

/// An operation or a class of jobs with a fair share of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareParty {
    /// An operation.
    Operation(JobId),
    /// Each waiting job of a class that is not an array.
    Alike(ClassId),
}

/// An operation, class or pool that may be below its fair share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StarvationSubject {
    /// An operation, or a class of jobs.
    Party(ShareParty),
    /// A pool.
    Pool(String),
}

/// Operations, classes and pools below their fair shares, and since when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeBelow(BTreeMap<StarvationSubject, Time>);

impl TimeBelow {
    /// Since when a subject is below its fair share; None if it is not.
    pub fn since(&self, subject: &StarvationSubject) -> Option<Time> {
        self.0.get(subject).copied()
    }

    /// The subjects that are below now. Subjects that were below before keep their time; new ones
    /// start at `now`. All others are dropped at once (Y2).
    pub fn renewed(&self, below: impl Iterator<Item = StarvationSubject>, now: Time) -> TimeBelow {
        TimeBelow(
            below
                .map(|subject| (self.since(&subject).unwrap_or(now), subject))
                .map(|(at, subject)| (subject, at))
                .collect(),
        )
    }

    /// All subjects.
    pub fn all(&self) -> impl Iterator<Item = (&StarvationSubject, Time)> {
        self.0.iter().map(|(subject, since)| (subject, *since))
    }
}

/// The parts of the policy that fair shares depend on.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct FairSharePolicy {
    /// The fair-share policy.
    pub fair_share: FairShare,
    /// The limits, which bound the fair shares of pools.
    pub limits: Limits,
}

/// Fair shares that stay in force for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldShares {
    pub(in crate::sched) at: Time,
    pub(in crate::sched) rule: Arc<FairSharePolicy>,
    pub(in crate::sched) whole: ClusterTotal,
    /// By party: the number of jobs, and the fair share of each.
    pub(in crate::sched) parties: Vec<(ShareParty, u64, f64)>,
    pub(in crate::sched) pools: BTreeMap<String, f64>,
}
