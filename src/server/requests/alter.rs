//! `qalter`: computes and applies the change of a job.

use crate::model::attribute;
use crate::model::attribute::AttributeSetting;
use crate::model::attribute::Draft;
use crate::model::job::Job;
use crate::model::job::Spec;
use crate::model::job::dependency::effects;
use crate::model::job::dependency::effects::JobDependencies;
use crate::model::job::event::Event;
use crate::model::job::state::Holds;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::request_context::RequestContext;
use crate::server::request_context::is_member;
use crate::server::request_context::may_hold;
use crate::server::requests::submission::LARGEST_REST;
use crate::server::requests::submission::size_of;
use std::sync::Arc;

/// A job before and after an alteration.
pub(crate) struct Alteration {
    /// The job before the alteration.
    pub job: Arc<Job>,
    /// The draft of the altered job.
    pub after: Draft,
    dependencies: JobDependencies,
}

impl RequestContext<'_> {
    /// Computes the job with these settings. Refuses settings that are not allowed.
    pub(crate) fn altered(
        &mut self,
        id: JobId,
        settings: &[AttributeSetting],
    ) -> Result<Alteration, Refusal> {
        let job = self.owned_whole_job(id)?;
        self.altered_job(job, settings)
    }

    /// Computes this job with these settings. Refuses settings that are not allowed.
    pub(crate) fn altered_job(
        &mut self,
        job: Arc<Job>,
        settings: &[AttributeSetting],
    ) -> Result<Alteration, Refusal> {
        let id = job.id;
        if size_of(settings) > LARGEST_REST {
            return Err(Refusal::too_large("a request", LARGEST_REST));
        }
        let before = Draft::of(&job);
        let is_member = |group: &str| is_member(&self.server.setup, &job.owner, group);
        let context = self.context(&job.owner, job.life.state.is_under_way(), &is_member);
        let mut after = attribute::alter(&before, settings, &context)?;
        self.add_named_dependencies(&job.owner, &mut after);
        let above = self.check_altered(&job, &mut after.spec)?;
        after.notes.extend(above);
        if let Some(reservation) = self.server.reservation_queue(&after.spec.queue) {
            after.spec.reservation = Some(reservation.id.clone());
        }
        if let Some(name) = &after.spec.reservation
            && after.spec.reservation != job.spec.reservation
            && !self.is_reservation(name)
        {
            return Err(Refusal::unknown_reservation());
        }
        let changed = after
            .holds
            .without(before.holds)
            .with(before.holds.without(after.holds));
        may_hold(self.caller, changed)?;
        let mut dependencies = self.dependencies(Some(id), &after.depend)?;
        dependencies.labels =
            self.unmet_labels(Some(&job), (&job.owner, &after.spec), &after.depend.labels)?;
        self.refuse_label_circles(Some(&job), (&job.owner, &after.spec), &dependencies)?;
        self.grant_group(&job.owner, Some(&job.spec), &after.spec)?;
        self.check_hosts(Some(&job.spec), &after.spec)?;
        self.refuse_impossible(&job, &after.spec)?;
        Ok(Alteration {
            job,
            after,
            dependencies,
        })
    }

    /// Refuses an alteration after which the job could never run; `qsub` refuses such jobs too.
    /// Running jobs are not checked, nor are alterations that keep request, placement and quality
    /// of service.
    fn refuse_impossible(&mut self, job: &Job, after: &Spec) -> Result<(), Refusal> {
        let before = &job.spec;
        let is_same = (&before.request, &before.placement, &before.qos)
            == (&after.request, &after.placement, &after.qos);
        if job.life.state.is_under_way() || is_same {
            return Ok(());
        }
        self.server.refuse_impossible(&Job {
            spec: Arc::new(after.clone()),
            ..job.clone()
        })
    }

    pub(crate) fn alter(
        &mut self,
        id: JobId,
        settings: &[AttributeSetting],
    ) -> Result<Granted, Refusal> {
        let Alteration {
            job,
            after,
            dependencies,
        } = self.altered(id, settings)?;
        self.server.store_specs_of_started(id);
        let (now, before, holds) = (self.server.now, job.life.holds, after.holds);
        let (depends, notes) = (!after.depend.is_empty(), after.notes);
        self.server.change(id, |job| {
            after
                .eligible_time
                .into_iter()
                .for_each(|time| job.life.eligibility.set(time, now));
            job.spec = Arc::new(after.spec);
            job.life.holds = after.holds;
            job.life.run_count = after.run_count;
            if job.life.comment != after.comment {
                job.life.comment = after.comment;
                job.life.deferral = None;
            }
        });
        let attributes = settings
            .iter()
            .map(|setting| setting.attribute.clone())
            .collect();
        self.server.apply_event(
            id,
            Event::Altered {
                by: self.caller.shown(),
                attributes,
            },
        );
        self.hold_started(id, before, holds);
        if depends {
            effects::bind(self.server, id, &dependencies, true);
        }
        Ok(Granted::Altered(id, notes))
    }

    /// Applies the changed holds of an array to its started, unfinished subjobs.
    fn hold_started(&mut self, id: JobId, before: Holds, after: Holds) {
        let (more, fewer) = (after.without(before), before.without(after));
        if !more.is_none() {
            self.server.apply_event_to_started(
                id,
                &Event::Held {
                    holds: more,
                    by: self.caller.shown(),
                },
            );
        }
        if !fewer.is_none() {
            self.server.apply_event_to_started(
                id,
                &Event::Released {
                    holds: fewer,
                    by: self.caller.shown(),
                },
            );
        }
    }
}
