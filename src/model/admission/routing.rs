//! Routing of jobs from routing queues.

use super::{Entered, QueueAdmission};
use crate::model::job::{Job, Spec};
use crate::model::queue::{Queue, Route};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Decision about a job in a routing queue.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteOutcome {
    /// The job moves to a destination, with these options.
    PassOn(Box<Spec>),
    /// The job is deleted, because it has waited in the queue for `route_lifetime`.
    Delete,
    /// The job stays; routing is tried again after this time.
    Wait(Span),
}

/// Refusals by destination, so that a destination of several queues is tried only once.
type TriedQueues = BTreeMap<String, Refusal>;

impl QueueAdmission<'_> {
    /// Tries to route a waiting job. A job that no destination can ever accept is tried again, too,
    /// because the job or the queues may be altered.
    pub fn turn(&self, job: &Job, queue: &Queue, now: Time) -> RouteOutcome {
        let route = queue.route.clone().unwrap_or_default();
        let waited = now.since(job.life.qtime);
        if route.lifetime.is_some_and(|lifetime| waited >= lifetime) {
            return RouteOutcome::Delete;
        }
        if queue.started
            && route.passes(job.life.state)
            && let Ok(Some(entered)) = self.pass_on(&job.spec, queue)
        {
            return RouteOutcome::PassOn(Box::new(entered.spec));
        }
        let left = route.lifetime.map(|lifetime| Span(lifetime.0 - waited.0));
        let pause = route.retry_time.unwrap_or(Route::RETRY);
        RouteOutcome::Wait(left.map_or(pause, |left| left.min(pause)))
    }

    /// Returns the job with the settings of the first destination that accepts the job. None if a
    /// destination may accept the job later; an error if no destination ever can.
    pub fn pass_on(&self, spec: &Spec, queue: &Queue) -> Result<Option<Entered>, Refusal> {
        match self.pass_through(spec, queue, &mut TriedQueues::new()) {
            Err(refusal) if refusal.may_pass() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Tries the destinations of a routing queue in order.
    fn pass_through(
        &self,
        spec: &Spec,
        queue: &Queue,
        tried: &mut TriedQueues,
    ) -> Result<Entered, Refusal> {
        let mut refusals = Vec::new();
        for name in queue.route.iter().flat_map(|route| &route.destinations) {
            let refusal = match tried.get(name) {
                Some(refusal) => refusal.clone(),
                None => {
                    // A destination that is reached again while it is being tried is part of a
                    // cycle.
                    tried.insert(name.clone(), Refusal::too_many_hops());
                    match self.admit_to(spec, name, tried) {
                        Ok(entered) => return Ok(entered),
                        Err(refusal) => refusal,
                    }
                }
            };
            tried.insert(name.clone(), refusal.clone());
            refusals.push((name, refusal));
        }
        if let Some((_, refusal)) = refusals.iter().find(|(_, refusal)| refusal.may_pass()) {
            return Err(refusal.clone());
        }
        if refusals.is_empty() {
            let why = format!(
                "queue {0} has no destinations (qmgr -c 'set queue {0} route_destinations = ...')",
                queue.name
            );
            return Err(Refusal::no_destination().because(&why));
        }
        let refusals = refusals
            .iter()
            .map(|(name, refusal)| format!("{name}: {}", refusal.text.trim_end()));
        Err(Refusal::no_destination().because(&refusals.collect::<Vec<_>>().join("; ")))
    }

    /// Admits the job to a destination; if this is a routing queue, to one of its destinations.
    fn admit_to(
        &self,
        spec: &Spec,
        name: &str,
        tried: &mut TriedQueues,
    ) -> Result<Entered, Refusal> {
        let queue = self.find(name)?;
        self.keep_quality(spec, name)?;
        let fitted = self.admit(spec, queue, true)?;
        if queue.route.is_none() {
            return self.settle(fitted);
        }
        let entered = self.pass_through(&fitted, queue, tried)?;
        if queue.started {
            Ok(entered)
        } else {
            Err(Refusal::queue_disabled())
        }
    }
}

/// Error in the routes of queues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    /// A destination is not a configured queue.
    #[error(
        "there is no queue named `{destination}`: add it, or remove it from the destinations of \
         `{queue}`"
    )]
    Unknown {
        /// Routing queue.
        queue: String,
        /// Name of the destination.
        destination: String,
    },
    /// The routes form a cycle.
    #[error("the routes form a cycle: remove one of the destinations in {0}")]
    Cycle(String),
}

/// Checks the routes of all queues. The error contains the fault, and the index of the first queue
/// with a route that leads to a fault.
pub fn check(queues: &[Queue]) -> Result<(), (usize, RouteFault)> {
    let mut good = BTreeSet::new();
    for (place, queue) in queues.iter().enumerate() {
        check_routes(queue, queues, &mut Vec::new(), &mut good).map_err(|fault| (place, fault))?;
    }
    Ok(())
}

/// Checks all routes from a queue. `path` contains the queues on the way to `queue`; `good`
/// contains the checked queues without a fault in their routes.
fn check_routes<'a>(
    queue: &'a Queue,
    queues: &'a [Queue],
    path: &mut Vec<&'a str>,
    good: &mut BTreeSet<&'a str>,
) -> Result<(), RouteFault> {
    if good.contains(queue.name.as_str()) {
        return Ok(());
    }
    let is_cycle = path.contains(&queue.name.as_str());
    path.push(&queue.name);
    if is_cycle {
        return Err(RouteFault::Cycle(path.join(" -> ")));
    }
    for destination in queue.route.iter().flat_map(|route| &route.destinations) {
        let next = queues
            .iter()
            .find(|queue| queue.name == *destination)
            .ok_or_else(|| RouteFault::Unknown {
                queue: queue.name.clone(),
                destination: destination.clone(),
            })?;
        check_routes(next, queues, path, good)?;
    }
    path.pop();
    good.insert(&queue.name);
    Ok(())
}
