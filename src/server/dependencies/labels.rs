//! Dependencies on labels (Q29). If the last submitted job with the label already meets the
//! condition, the dependent job does not wait. Otherwise the dependent job waits until a job with
//! the label starts or ends and then meets the condition; jobs that ended earlier do not count.

use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::Spec;
use crate::model::job::dependency::Awaited;
use crate::model::job::dependency::DependencyCondition;
use crate::model::job::dependency::effects::JobDependencies;
use crate::model::job::dependency::label::Mark;
use crate::model::job::dependency::label::circle;
use crate::model::job::dependency::label::circle::CheckedJob;
use crate::model::job::dependency::progress::DependencyProgress;
use crate::model::job::dependency::progress::DependencyVerdict;
use crate::model::job::dependency::progress::judge;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::request_context::RequestContext;

/// Maximum number of labels a job may wait for.
const MAX_LABELS: usize = 1000;

impl RequestContext<'_> {
    /// The `labels` for which a job of this owner must wait, without those for which it waits
    /// already. `before` is the job before an alteration; None for a new job.
    pub(crate) fn unmet_labels(
        &self,
        before: Option<&Job>,
        (owner, spec): (&Owner, &Spec),
        labels: &[Awaited],
    ) -> Result<Vec<Awaited>, Refusal> {
        let (mut awaited, had) = (Vec::new(), before.map_or(0, |job| job.life.awaits.len()));
        if had + labels.len() > MAX_LABELS {
            return Err(Refusal::dependency(&format!(
                "a job may depend on at most {MAX_LABELS} labels"
            )));
        }
        for label in labels
            .iter()
            .filter(|label| before.is_none_or(|job| !job.life.awaits.contains(label)))
        {
            if self.label_met_by(before, (owner, spec), label)?.is_none() {
                awaited.push(label.clone());
            }
        }
        Ok(awaited)
    }

    /// The job that meets a condition on a label now; None if the condition is unmet. `before` is
    /// the job with the condition, which does not count; None for a new job.
    pub(crate) fn label_met_by(
        &self,
        before: Option<&Job>,
        (owner, spec): (&Owner, &Spec),
        awaited: &Awaited,
    ) -> Result<Option<JobId>, Refusal> {
        let mark = Mark::new(owner.uid, spec.process_group.as_deref(), &awaited.label);
        self.met_by(&mark, awaited.condition, before.map(|job| job.id))
    }

    /// Refuses jobs that would wait for each other's labels forever.
    pub(crate) fn refuse_label_circles(
        &self,
        before: Option<&Job>,
        (owner, spec): (&Owner, &Spec),
        dependencies: &JobDependencies,
    ) -> Result<(), Refusal> {
        let new = CheckedJob::of(
            &self.server.dependencies,
            before,
            (owner, spec),
            dependencies,
        );
        let Some(trail) = circle::find(&self.server.dependencies, &new) else {
            return Ok(());
        };
        let server = &self.server.setup.name;
        let this = before.map_or("this job".to_string(), |job| job.id.full(server));
        let circle = circle::cycle_text(&trail, &this, server);
        Err(Refusal::dependency(&format!(
            "jobs would wait in a circle: {circle}"
        )))
    }

    /// The last job with a label, if it meets the condition. The job `except` does not count.
    fn met_by(
        &self,
        mark: &Mark,
        condition: DependencyCondition,
        except: Option<JobId>,
    ) -> Result<Option<JobId>, Refusal> {
        let (carrier, index) = mark
            .frame()
            .map_or((mark.clone(), None), |(array, index)| (array, Some(index)));
        let carries = |job: &&std::sync::Arc<Job>| {
            Mark::carried_by(job).as_ref() == Some(&carrier) && Some(job.id) != except
        };
        // Jobs submitted in the current transaction are not in the spool yet.
        let new = self
            .server
            .changed_jobs()
            .filter(carries)
            .map(|job| job.id)
            .max();
        let known = self.history.labelled(&carrier, except)?;
        let Some(last) = new.max(known) else {
            return Ok(None);
        };
        let last = index.map_or(last, |index| JobId::element(last.number, index));
        let progress = match self.server.job(last) {
            Some(job) => Some(DependencyProgress::of(job)),
            None => self.stored_job(last)?.as_ref().map(DependencyProgress::of),
        };
        let met = progress.filter(|&progress| judge(condition, progress) == DependencyVerdict::Met);
        Ok(met.map(|_| last))
    }
}
