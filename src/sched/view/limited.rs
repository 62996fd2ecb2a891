//! The waiting jobs that the last plan refused because of a limit within their owners' control,
//! such as a limit on their array or owner ([`OwnLimit`]). Under most policies these jobs accrue no
//! eligible time (I13, M17).
//!
//! Verdicts apply to classes of interchangeable jobs, and seldom change from cycle to cycle.
//! Therefore only these are examined: new jobs, classes with a changed limit, and, in classes of
//! which a cycle considers only some jobs, the considered jobs.

use super::plan::Plan;
use super::shape::ClassId;
use super::snapshot::ClusterState;
use crate::model::job::eligible_time::{Eligibility, OwnLimit};
use crate::model::job_id::JobId;
use crate::model::reason;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The limits by which the last plan refused jobs, and the jobs added since that plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Limited {
    /// The limit for each class, or for a single job ([`reason::own_reason_key`]).
    classes: BTreeMap<ClassId, OwnLimit>,
    /// The jobs added since the last plan.
    new: BTreeSet<JobId>,
    /// For each class of which the last cycle considered only some jobs: these jobs.
    listed: BTreeSet<(ClassId, JobId)>,
}

impl Limited {
    /// Notes a job that has started to wait or has changed.
    pub fn note_new(&mut self, id: JobId) {
        self.new.insert(id);
    }

    /// Notes that a job no longer waits.
    pub fn forget(&mut self, id: JobId) {
        self.new.remove(&id);
    }
}

impl ClusterState {
    /// The waiting jobs for which the limit has possibly changed since the previous plan. Each
    /// comes with the limit by which this plan refuses the job; None if no limit within the owner's
    /// control refuses it. An array is one entry. To be called once for each plan.
    pub fn judge_limits(&mut self, plan: &Plan) -> Vec<(JobId, Option<OwnLimit>)> {
        let listed: BTreeSet<(ClassId, JobId)> = plan
            .eligible
            .jobs()
            .filter(|(_, job)| self.jobs.contains_key(job))
            .collect();
        let left = std::mem::replace(&mut self.limited.listed, listed);
        // These limits apply to a class or to one job, never to all classes of a shape.
        let limits = plan
            .verdicts
            .iter()
            .filter_map(|(class, reason)| Some((*class, OwnLimit::of(reason)?)));
        let classes: BTreeMap<ClassId, OwnLimit> = limits.collect();
        let before = std::mem::replace(&mut self.limited.classes, classes);
        let new = std::mem::take(&mut self.limited.new);
        let now = &self.limited.classes;
        let known: BTreeSet<ClassId> = before.keys().chain(now.keys()).copied().collect();
        let changed = known
            .into_iter()
            .filter(|class| before.get(class) != now.get(class));
        let of_changed = changed.flat_map(|class| self.jobs_in(class).map(move |job| (job, class)));
        let of_new = new
            .into_iter()
            .filter_map(|job| Some((job, self.class_of(job)?)));
        let listed = self
            .limited
            .listed
            .iter()
            .chain(&left)
            .map(|(class, job)| (*job, *class));
        let still = listed.filter(|(job, class)| self.class_of(*job) == Some(*class));
        let all: BTreeMap<JobId, ClassId> = of_changed.chain(of_new).chain(still).collect();
        all.into_iter()
            .map(|(job, class)| {
                // If a cycle considers only some jobs of a class, each of them can have a verdict
                // of its own.
                let name = if self.limited.listed.contains(&(class, job)) {
                    ClassId(reason::own_reason_key(job))
                } else {
                    class
                };
                (job, now.get(&name).copied())
            })
            .collect()
    }

    /// Sets the eligible time of a waiting job.
    pub fn set_eligibility(&mut self, id: JobId, eligibility: Eligibility) {
        let Some(&(class, rank)) = self.jobs.get(&id) else {
            return;
        };
        let class = self.classes.get_mut(&class).map(Arc::make_mut);
        if let Some(waiting) = class.and_then(|class| class.get_mut((rank, id))) {
            waiting.wait.eligibility = eligibility;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::eligible_time::Accrues;
    use crate::model::reason::Reason;
    use crate::model::time::{Span, Time};
    use crate::sched::fixture::cluster;
    use std::sync::Arc;

    const RUNNING: Option<OwnLimit> = Some(OwnLimit::Running);

    #[test]
    fn only_jobs_with_a_possibly_changed_limit_are_returned() {
        let mut fixture = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=8")
            .queued(2, "select=1:ncpus=8");
        let class = fixture.state.class_of(JobId::job(1)).unwrap();
        let (free, mut barred) = (Plan::new(Time(0)), Plan::new(Time(0)));
        barred.verdicts.push((
            class,
            Arc::new(Reason::ArrayLimit {
                limit: 1,
                expand: None,
            }),
        ));
        let [one, two, three] = [1, 2, 3].map(JobId::job);
        assert_eq!(
            fixture.state.judge_limits(&free),
            [(one, None), (two, None)]
        );
        assert_eq!(fixture.state.judge_limits(&free), []);
        assert_eq!(
            fixture.state.judge_limits(&barred),
            [(one, RUNNING), (two, RUNNING)]
        );
        let mut fixture = fixture
            .queued(3, "select=1:ncpus=8")
            .queued(4, "select=1:ncpus=8");
        fixture.state.withdraw(JobId::job(4));
        assert_eq!(fixture.state.limited.new, BTreeSet::from([three]));
        assert_eq!(fixture.state.judge_limits(&barred), [(three, RUNNING)]);
        assert_eq!(
            fixture.state.judge_limits(&free),
            [(one, None), (two, None), (three, None)]
        );
    }

    /// I6. The eligible time of a subjob is the eligible time of its array.
    #[test]
    fn eligible_time_grows_only_while_a_job_accrues_it() {
        let mut fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=8 array=0-9");
        let (array, element) = (JobId::array(1), JobId::element(1, 3));
        let eligible = Eligibility {
            accrues: Accrues::Eligible,
            since: Time(5_000),
            had: Span::seconds(2),
            limit: None,
        };
        fixture.state.set_eligibility(array, eligible);
        let at = |fixture: &crate::sched::fixture::TestCluster, id, now| {
            fixture.state.eligible_time(id, Time(now))
        };
        assert_eq!(at(&fixture, array, 9_000), Some(Span::seconds(6)));
        assert_eq!(at(&fixture, element, 19_000), Some(Span::seconds(16)));
        fixture.state.set_eligibility(
            array,
            Eligibility {
                accrues: Accrues::Ineligible,
                ..eligible
            },
        );
        assert_eq!(at(&fixture, array, 9_000), Some(Span::seconds(2)));
        assert_eq!(fixture.state.eligible_time(JobId::job(7), Time(0)), None);
    }
}
