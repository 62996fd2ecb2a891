//! Admission of jobs to a queue, shared by submission, `qmove` and routing.
//!
//! Admission to a queue checks the settings of the queue, such as `enabled`, and the access of the
//! user. It then adds the queue's defaults to the job, and checks the request against the queue's
//! bounds and limits. A started routing queue passes a job on to the first destination that accepts
//! the job.

mod access;

mod bounds;

mod quality;

mod routing;

use super::queue::Queue;
use crate::model::job::Spec;
use crate::model::job::state::JobState;
use crate::model::policy::quality::Qualities;
use crate::model::refusal::Refusal;
use crate::model::request::Defaults;
use crate::model::resource::Resources;
use crate::model::spelling::choice;
use std::sync::Arc;

pub use access::Visitor;
pub use routing::{RouteFault, RouteOutcome, check};

/// Context for the admission of a job to a queue.
#[derive(Clone, Copy)]
pub struct QueueAdmission<'a> {
    /// All queues.
    pub queues: &'a [Queue],
    /// All resources.
    pub resources: &'a Resources,
    /// Configured qualities of service.
    pub qualities: &'a Qualities,
    /// User and host that submit the job.
    pub visitor: Visitor<'a>,
    /// Checks the limits on jobs in the queue that accepts the job; returns warnings for the user
    /// (I19).
    pub room: &'a dyn Fn(&Spec) -> Result<Vec<String>, Refusal>,
}

/// Result of the admission of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    /// Options of the job, with the queue's defaults.
    pub spec: Spec,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// Returns the options of a job that moves to `queue`. If the reservation of the job has the name
/// of the queue that the job leaves, the job also leaves the reservation. The job keeps any other
/// reservation.
pub fn elsewhere(spec: &Spec, queue: &str) -> Spec {
    let mut spec = spec.clone();
    if spec.queue != queue {
        spec.reservation = spec.reservation.filter(|asked| *asked != spec.queue);
        spec.queue = queue.to_string();
    }
    spec
}

impl QueueAdmission<'_> {
    /// Admits a job to the queue in `spec`, or to a destination of that queue. `state` is the state
    /// that the job will have.
    pub fn enter(&self, spec: &Spec, state: JobState) -> Result<Entered, Refusal> {
        let queue = self.find(&spec.queue)?;
        let own = self.admit(spec, queue, false)?;
        let Some(route) = &queue.route else {
            return self.settle(own);
        };
        // A job that no destination can ever accept is refused, even if it would not be routed now.
        // Destinations get the job with the defaults of this queue, as if the job had waited here.
        match self.pass_on(&own, queue)? {
            Some(entered) if queue.started && route.passes(state) => Ok(entered),
            _ => self.settle(own),
        }
    }

    /// Checks the limits on jobs in the queue, and returns the admitted job.
    fn settle(&self, spec: Spec) -> Result<Entered, Refusal> {
        let notes = (self.room)(&spec)?;
        Ok(Entered { spec, notes })
    }

    fn find(&self, name: &str) -> Result<&Queue, Refusal> {
        self.queues
            .iter()
            .find(|queue| queue.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.queues.iter().map(|queue| &*queue.name).collect();
                Refusal::unknown_queue()
                    .of_setting("queue")
                    .with_remedy(format!("{name}: {}", choice(name, "queues", &known)))
            })
    }

    /// Returns the job with the queue's defaults, if the queue accepts the job. `is_routed` is true
    /// if a routing queue passes the job on.
    fn admit(&self, spec: &Spec, queue: &Queue, is_routed: bool) -> Result<Spec, Refusal> {
        if !queue.enabled {
            return Err(Refusal::queue_disabled());
        }
        if queue.from_route_only && !is_routed {
            return Err(Refusal::queue_denied());
        }
        queue.access.admits(&self.visitor, &queue.name)?;
        let count = spec.subjob_count();
        if count.is_some_and(|count| queue.max_array_size.is_some_and(|most| count > most)) {
            return Err(Refusal::array_too_large());
        }
        let mut spec = Spec {
            queue: queue.name.clone(),
            ..spec.clone()
        };
        self.assign_quality(&mut spec);
        self.fit(&mut spec, queue)?;
        Ok(spec)
    }

    /// Adds a queue's defaults to a job and checks the queue's bounds on the request. A job of an
    /// exempt quality of service gets no default time limits from `resources_max`, and its request
    /// is not checked (F4).
    pub fn fit(&self, spec: &mut Spec, queue: &Queue) -> Result<(), Refusal> {
        let is_exempt = self.qualities.is_exempt(spec.qos.as_deref());
        let defaults = Defaults::new(queue.defaults.clone(), queue.chunk_defaults.clone());
        let defaults = if is_exempt {
            defaults
        } else {
            defaults.bounded(&queue.most)
        };
        spec.request = Arc::new(spec.request.with(&defaults, self.resources)?);
        if is_exempt {
            Ok(())
        } else {
            bounds::check(queue, &spec.request, self.resources)
        }
    }
}

#[cfg(test)]
mod tests;
