//! May a job come into a queue, and with what? One door for all ways in: submission, `qmove`, and
//! routing.
//!
//! A queue is asked whether it is open, for whom, and for jobs of which size; then the job gets
//! what goes without saying there. A routing queue keeps no job that one of its destinations takes.

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

/// What decides about a job at the door.
#[derive(Clone, Copy)]
pub struct QueueAdmission<'a> {
    /// The queues of the site.
    pub queues: &'a [Queue],
    /// All resources known.
    pub resources: &'a Resources,
    /// The qualities of service there are.
    pub qualities: &'a Qualities,
    /// Who comes.
    pub visitor: Visitor<'a>,
    /// Whether limits leave room for the job in the queue it names; what is to be said besides
    /// (I19).
    pub room: &'a dyn Fn(&Spec) -> Result<Vec<String>, Refusal>,
}

/// A job that may come in.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    /// What it comes to in its queue.
    pub spec: Spec,
    /// What is to be said of that.
    pub notes: Vec<String>,
}

/// What a job asks for that is to go into another queue: who leaves that of a reservation leaves
/// the reservation; one asked for by name stays.
pub fn elsewhere(spec: &Spec, queue: &str) -> Spec {
    let mut spec = spec.clone();
    if spec.queue != queue {
        spec.reservation = spec.reservation.filter(|asked| *asked != spec.queue);
        spec.queue = queue.to_string();
    }
    spec
}

impl QueueAdmission<'_> {
    /// Lets a job that will stand so into the queue that it names, or right on to where that routes
    /// it.
    pub fn enter(&self, spec: &Spec, state: JobState) -> Result<Entered, Refusal> {
        let queue = self.find(&spec.queue)?;
        let own = self.admit(spec, queue, false)?;
        let Some(route) = &queue.route else {
            return self.settle(own);
        };
        // A job that no destination could ever take is not let in, whether it is passed on now or
        // not. Passed on is what it comes to here: as when it has waited.
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

    /// What a job comes to in a queue, if that takes such jobs; `is_routed` if a routing queue
    /// hands it over.
    fn admit(&self, spec: &Spec, queue: &Queue, is_routed: bool) -> Result<Spec, Refusal> {
        if !queue.enabled {
            return Err(Refusal::queue_disabled());
        }
        if queue.from_route_only && !is_routed {
            return Err(Refusal::queue_denied());
        }
        queue.access.admits(&self.visitor, &queue.name)?;
        let count = spec.element_count();
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

    /// Gives a job what goes without saying in its queue, and holds it against the queue's bounds:
    /// a quality of service may be exempt from them (F4).
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
