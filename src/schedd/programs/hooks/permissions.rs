//! The starts that hooks have allowed, for a limited time.

use crate::model::job::Spec;
use crate::model::job_id::JobId;
use crate::model::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a start remains allowed. After this time the hooks run again, because conditions may
/// have changed.
const VALIDITY: Span = Span::seconds(60);

/// The jobs that may start, each with its spec when the hooks ran, and the end of the permission.
#[derive(Debug, Default)]
pub struct StartPermissions(BTreeMap<JobId, (Arc<Spec>, Span)>);

impl StartPermissions {
    /// Records that a job may start with this spec.
    pub fn allow(&mut self, job: JobId, spec: Arc<Spec>, now: Span) {
        self.0.insert(job, (spec, now + VALIDITY));
    }

    /// The jobs that may start. `is_same` reports whether a job still has the same spec.
    /// `is_awaited` reports whether resources of preempted jobs are kept for a job; for such a job
    /// the permission does not expire.
    pub fn valid(
        &mut self,
        now: Span,
        is_same: impl Fn(JobId, &Arc<Spec>) -> bool,
        is_awaited: impl Fn(JobId) -> bool,
    ) -> BTreeSet<JobId> {
        self.0
            .retain(|&job, (spec, until)| is_same(job, spec) && (*until > now || is_awaited(job)));
        self.0.keys().copied().collect()
    }

    /// Removes the permission of a job that starts. The job's next start needs approval again.
    pub fn remove(&mut self, job: JobId) {
        self.0.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::cluster;

    #[test]
    fn a_permission_expires_and_ends_with_a_change_of_the_job() {
        let (snapshot, id, now) = (cluster(""), JobId::job(1), Span::seconds(5));
        let spec = |text: &str| snapshot.job(1, text).spec.clone();
        let valid = |started: &str, later: Span, is_awaited: bool| {
            let mut permissions = StartPermissions::default();
            permissions.allow(id, spec("walltime=60"), now);
            let is_same = |_, known: &Arc<Spec>| *known == spec(started);
            let valid = permissions.valid(now + later, is_same, |_| is_awaited);
            permissions.remove(id);
            assert_eq!(permissions.valid(now, is_same, |_| true), BTreeSet::new());
            valid.contains(&id)
        };
        assert!(valid("walltime=60", Span(1), false));
        assert!(!valid("walltime=90", Span(1), true));
        assert!(!valid("walltime=60", VALIDITY, false));
        assert!(
            valid("walltime=60", VALIDITY, true),
            "jobs were preempted for this job"
        );
    }
}
