//! Admission of jobs to a queue, shared by submission, `qmove` and routing.
//!
//! A queue checks whether it is enabled, the user's access, and the size of the request; then the
//! job gets the queue's defaults. A routing queue keeps no job that one of its destinations
//! accepts.

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
    /// Checks limits on the queue that the job names; returns warnings for the user (I19).
    pub room: &'a dyn Fn(&Spec) -> Result<Vec<String>, Refusal>,
}

/// Admitted job.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    /// Job with the queue's defaults.
    pub spec: Spec,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// Returns the options of a job that moves to another queue. A job that leaves the queue of a
/// reservation leaves the reservation; one requested by name stays.
pub fn elsewhere(spec: &Spec, queue: &str) -> Spec {
    let mut spec = spec.clone();
    if spec.queue != queue {
        spec.reservation = spec.reservation.filter(|asked| *asked != spec.queue);
        spec.queue = queue.to_string();
    }
    spec
}

impl QueueAdmission<'_> {
    /// Admits a job, which will have this state, to the queue that it names, or to a destination
    /// of that queue.
    pub fn enter(&self, spec: &Spec, state: JobState) -> Result<Entered, Refusal> {
        let queue = self.find(&spec.queue)?;
        let own = self.admit(spec, queue, false)?;
        let Some(route) = &queue.route else {
            return self.settle(own);
        };
        // A job that no destination can ever accept is refused, whether it would be routed now or
        // not. Routing starts from the job as this queue completes it, as it does for a job that
        // has waited.
        match self.pass_on(&own, queue)? {
            Some(entered) if queue.started && route.passes(state) => Ok(entered),
            _ => self.settle(own),
        }
    }

    fn settle(&self, spec: Spec) -> Result<Entered, Refusal> {
        let notes = (self.room)(&spec)?;
        Ok(Entered { spec, notes })
    }

    fn find(&self, name: &str) -> Result<&Queue, Refusal> {
        self.queues
            .iter()
            .find(|queue| queue.name == name)
            .ok_or_else(Refusal::unknown_queue)
    }

    /// Returns the job as completed by a queue, if the queue accepts it. `is_routed` marks jobs
    /// from a routing queue.
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

    /// Applies a queue's defaults to a job and checks the queue's bounds; a quality of service
    /// may be exempt from these (F4).
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
