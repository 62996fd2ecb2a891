//! Which of those who wait are considered at all, where a limit is on how many may be (M24).
//!
//! The list is made once for a cycle, in the order of priority: who is on it is looked at, whatever comes
//! of that, and all others that the limit concerns only when it is made anew. What could not start in any
//! case - no node could ever take it, it is put off, its queue is stopped - takes nobody's place.

use super::ledger::Ledger;
use super::limits::Books;
use super::plan::Plan;
use super::priority;
use super::resolution::Resolved;
use super::shape::ClassId;
use super::{feasibility, throttling};
use crate::model::job::JobId;
use crate::model::limit::Stage;
use crate::model::policy::Policy;
use crate::model::reason::{self, Reason};
use crate::model::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The classes of which only some jobs are considered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Eligible(BTreeMap<ClassId, Few>);

/// Those of a class that are, and why the others are not.
#[derive(Clone, Debug, PartialEq)]
struct Few {
    /// Of arrays their elements, and the array itself.
    jobs: BTreeSet<JobId>,
    why: Arc<Reason>,
}

impl Eligible {
    /// Why a job of a class is not considered; None if it is.
    pub fn refusal(&self, class: ClassId, job: JobId) -> Option<&Arc<Reason>> {
        self.0.get(&class).filter(|some| !some.jobs.contains(&job)).map(|some| &some.why)
    }

    /// Whether of a class not all are.
    pub fn lists(&self, class: ClassId) -> bool {
        self.0.contains_key(&class)
    }

    /// Those that are, of classes of which not all are.
    pub fn jobs(&self) -> impl Iterator<Item = (ClassId, JobId)> + '_ {
        self.0.iter().flat_map(|(class, some)| some.jobs.iter().map(|job| (*class, *job)))
    }
}

/// Makes the list.
pub(super) fn list<'s>(policy: &'s Policy, resolved: &'s Resolved, ledger: &mut Ledger<'s>) -> Eligible {
    list_with(policy, resolved, ledger).map(|(eligible, _)| eligible).unwrap_or_default()
}

/// The same, with the books that this was found out by; None where there are no such limits.
pub(super) fn list_with<'s>(
    policy: &'s Policy,
    resolved: &'s Resolved,
    ledger: &mut Ledger<'s>,
) -> Option<(Eligible, Books<'s>)> {
    let mut books = Books::blank(ledger.state, policy, Stage::Idle, ledger.now)?;
    let (mut listed, mut eligible) = (BTreeMap::<ClassId, BTreeSet<JobId>>::new(), Eligible::default());
    let mut ranking = priority::rank(ledger.state, resolved);
    while let Some(job) = ranking.next() {
        let class = job.class;
        let is_out = feasibility::screen(&class.shape, ledger).is_err() || throttling::is_out(job, ledger);
        if is_out || books.accounts_of(&class.who).is_empty() {
            ranking.pass(job);
            continue;
        }
        match books.bar(class) {
            None => {
                books.enter(class, job.job);
                listed.entry(class.id).or_default().extend([Some(job.job), job.job.parent()].into_iter().flatten());
                ranking.follow(job);
            }
            Some(bar) => {
                let (jobs, why) = (listed.remove(&class.id).unwrap_or_default(), books.reason(bar, class));
                eligible.0.insert(class.id, Few { jobs, why });
                ranking.pass(job);
            }
        }
    }
    Some((eligible, books))
}

/// Says of each class of which not all jobs are considered why the others wait, and of each of those that are
/// what was said of the class, or of all that ask for the same.
pub(super) fn tell(plan: &mut Plan, names: impl Fn(ClassId) -> Option<[ClassId; 2]>) {
    if plan.eligible.0.is_empty() {
        return;
    }
    let eligible = std::mem::take(&mut plan.eligible);
    let said: BTreeMap<ClassId, Arc<Reason>> = plan.verdicts.iter().rev().cloned().collect();
    let started: BTreeSet<JobId> = plan.starts.iter().map(|start| start.job).collect();
    plan.verdicts.retain(|(class, _)| !eligible.0.contains_key(class));
    for (class, some) in &eligible.0 {
        let of_class = names(*class).and_then(|names| names.iter().find_map(|name| said.get(name)));
        let waiting = some.jobs.iter().filter(|job| !started.contains(job));
        let own = |job: &JobId| Some((ClassId(reason::own_name(*job)), of_class?.clone()));
        plan.verdicts.extend(waiting.filter_map(own));
        plan.verdicts.push((*class, some.why.clone()));
    }
    // Who starts makes way on the list, for others that may find room.
    if !plan.starts.is_empty() {
        plan.look_again(plan.now + Span(1));
    }
    plan.eligible = eligible;
}
