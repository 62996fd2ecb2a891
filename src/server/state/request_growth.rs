//! Larger requests for the retries of jobs that exceeded their memory or walltime
//! (`-W retry_mem=`, `-W retry_walltime=`), within the limits of the queue and of the nodes.

use crate::model::job::Job;
use crate::model::job::Spec;
use crate::model::job::event::Event;
use crate::model::job::growth::GrownResource;
use crate::model::job::growth::Growth;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::queue::counters::EnteringJob;
use crate::model::refusal::Refusal;
use crate::model::resource::ResourceList;
use crate::model::resource::ResourceValue;
use crate::sched::placement::nearest_fit::Never;
use crate::server::queue_admission::with_queue_admission;
use crate::server::state::ServerState;
use std::sync::Arc;

/// Number of steps in the search for the largest factor with which a job of several chunks fits on
/// the nodes.
const STEPS: u32 = 8;

impl ServerState {
    /// The options of a job for the retry after this event, or why the job is not retried. None if
    /// the event does not end an attempt at a limit for which the job has a factor.
    pub(super) fn request_growth(
        &mut self,
        id: JobId,
        event: &Event,
    ) -> Option<Result<Spec, String>> {
        let Event::Ended { outcome, .. } = event else {
            return None;
        };
        let job = self.jobs.get(&id)?.clone();
        let growth = Growth::after(&job.spec, &outcome.how)?;
        if job.life.retries >= job.spec.retry {
            return Some(Err(format!("retry {} was the last", job.spec.retry)));
        }
        Some(self.grown_spec(&job, growth))
    }

    /// The options of a job with a larger request, at most as large as the queue and the nodes
    /// allow. The amount of the exceeded resource is larger than before.
    fn grown_spec(&mut self, job: &Arc<Job>, growth: Growth) -> Result<Spec, String> {
        let queue = self.setup.queue(&job.spec.queue);
        let is_exempt = self
            .setup
            .policy
            .qualities
            .is_exempt(job.spec.qos.as_deref());
        let most = queue.filter(|_| !is_exempt).map(|queue| queue.most.clone());
        let most = most.unwrap_or_default();
        let spec = self.with_growth(job, growth, &most)?;
        if !is_larger(job, &spec, growth) {
            return Err(format!(
                "{} cannot exceed the maximum of queue {}",
                requested(job, growth),
                job.spec.queue
            ));
        }
        match self.never_runs(&with_spec(job, &spec)) {
            None => Ok(spec),
            Some(never) => self
                .within_nodes(job, growth, &most, &never)
                .ok_or_else(|| {
                    let requested = requested(job, growth);
                    format!("no nodes have enough resources for more than {requested}")
                }),
        }
    }

    /// The largest request that fits on the nodes, given why the full growth never fits.
    fn within_nodes(
        &mut self,
        job: &Arc<Job>,
        growth: Growth,
        most: &ResourceList,
        never: &Never,
    ) -> Option<Spec> {
        if let Some(spec) = self.nearest(job, growth, most, never) {
            return Some(spec);
        }
        let (mut fits, mut exceeds, mut found) = (1.0, growth.factor, None);
        for _ in 0..STEPS {
            let factor = (fits + exceeds) / 2.0;
            let smaller = Growth { factor, ..growth };
            let spec = self.with_growth(job, smaller, most).ok()?;
            match self.never_runs(&with_spec(job, &spec)) {
                None => (fits, found) = (factor, Some(spec)),
                Some(_) => exceeds = factor,
            }
        }
        found.filter(|spec| is_larger(job, spec, growth))
    }

    /// The request with the amounts of the nearest request that fits; None if the nearest request
    /// has fewer chunks or no larger amounts.
    fn nearest(
        &mut self,
        job: &Arc<Job>,
        growth: Growth,
        most: &ResourceList,
        never: &Never,
    ) -> Option<Spec> {
        let select = ("select".to_string(), never.nearest.clone()?);
        let nearest = job
            .spec
            .request
            .alter(&[select], &self.setup.resources)
            .ok()?;
        let mut most = most.clone();
        for name in growth.resources {
            if let Some(amount) = nearest.list.get(*name)
                && job
                    .spec
                    .request
                    .select
                    .chunks
                    .iter()
                    .any(|chunk| chunk.get(name).is_some())
            {
                most.insert(name.to_string(), amount.clone());
            }
        }
        let spec = self.with_growth(job, growth, &most).ok()?;
        let fits = self.never_runs(&with_spec(job, &spec)).is_none();
        (fits && is_larger(job, &spec, growth)).then_some(spec)
    }

    /// The options of a job with the grown request and the queue's defaults, if the queue and the
    /// limits on queued jobs accept them.
    fn with_growth(
        &self,
        job: &Arc<Job>,
        growth: Growth,
        most: &ResourceList,
    ) -> Result<Spec, String> {
        let text = |refusal: Refusal| refusal.text.clone();
        let request = &job.spec.request;
        let resources = &self.setup.resources;
        let request = request.grown(growth.resources, growth.factor, most, resources);
        let mut spec = Spec {
            request: Arc::new(request.map_err(text)?),
            ..Spec::clone(&job.spec)
        };
        let entering = EnteringJob::Known(job.id);
        if let Some(queue) = self.setup.queue(&job.spec.queue) {
            with_queue_admission(self, entering, &job.owner, |admission| {
                admission.fit(&mut spec, queue)
            })
            .map_err(text)?;
        }
        // Limits count an array as a whole, with the request of the array.
        if job.id.index().is_none() {
            self.check_limits(entering, &job.owner, &spec)
                .map_err(text)?;
        }
        Ok(spec)
    }

    /// Replaces the options of a requeued job by those with the grown request, and records the
    /// change.
    pub(super) fn grow_request(&mut self, id: JobId, spec: Spec) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let attempt = job.life.attempt;
        let changes = changes(job, &spec);
        self.change(id, |job| job.spec = Arc::new(spec));
        self.apply_event_alone(id, Event::RequestGrown { attempt, changes });
    }
}

/// Adds to the remark on the end of a finished job why the job is not retried.
pub(super) fn explain_end(job: &mut Job, why: &str) {
    let is_deleted = job.life.exit.is_none_or(|exit| exit.deleted);
    if job.life.state == JobState::Finished && !is_deleted {
        let ending = job.life.ending.get_or_insert_default();
        ending.push_str(&format!("; not retried: {why}"));
    }
}

fn with_spec(job: &Job, spec: &Spec) -> Job {
    Job {
        spec: Arc::new(spec.clone()),
        ..job.clone()
    }
}

fn is_larger(job: &Job, spec: &Spec, growth: Growth) -> bool {
    let amount = |spec: &Spec| {
        let value = spec.request.list.get(growth.exceeded);
        value.and_then(ResourceValue::amount).unwrap_or(0)
    };
    amount(spec) > amount(&job.spec)
}

/// The exceeded resource with the requested amount, such as `mem=4gb`.
fn requested(job: &Job, growth: Growth) -> String {
    match job.spec.request.list.get(growth.exceeded) {
        Some(value) => format!("{}={value}", growth.exceeded),
        None => growth.exceeded.to_string(),
    }
}

/// The resources with different amounts in the new options.
fn changes(job: &Job, spec: &Spec) -> Vec<GrownResource> {
    let names = ["mem", "vmem", "pmem", "pvmem", "walltime"].into_iter();
    let (old, new) = (&job.spec.request.list, &spec.request.list);
    names
        .filter_map(|name| {
            let (from, to) = (old.get(name)?, new.get(name)?);
            (from.amount() != to.amount()).then(|| GrownResource {
                resource: name.to_string(),
                from: from.to_string(),
                to: to.to_string(),
            })
        })
        .collect()
}
