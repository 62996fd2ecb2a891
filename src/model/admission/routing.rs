//! Where a routing queue passes a job on to.

use super::{Entered, QueueAdmission};
use crate::model::job::{Job, Spec};
use crate::model::queue::{Queue, Route};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a job in a routing queue when it is its turn.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteOutcome {
    /// It goes on, as this.
    PassOn(Box<Spec>),
    /// It has waited too long.
    Delete,
    /// It is tried again after this long.
    Wait(Span),
}

/// What came of asking destinations: a queue that two ways lead to is asked once.
type TriedQueues = BTreeMap<String, Refusal>;

impl QueueAdmission<'_> {
    /// What becomes of a job that waits in a routing queue. One that no destination will ever take
    /// stays, for its owner to see and to alter.
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

    /// What a job that waits in a routing queue comes to at the first destination that takes it;
    /// None if none does for now. Refused if none ever will.
    pub fn pass_on(&self, spec: &Spec, queue: &Queue) -> Result<Option<Entered>, Refusal> {
        match self.pass_through(spec, queue, &mut TriedQueues::new()) {
            Err(refusal) if refusal.may_pass() => Ok(None),
            other => other.map(Some),
        }
    }

    fn pass_through(
        &self,
        spec: &Spec,
        queue: &Queue,
        asked: &mut TriedQueues,
    ) -> Result<Entered, Refusal> {
        let mut told = Vec::new();
        for name in queue.route.iter().flat_map(|route| &route.destinations) {
            let refusal = match asked.get(name) {
                Some(refusal) => refusal.clone(),
                None => {
                    // Who comes back to where it is just being asked goes round in a circle.
                    asked.insert(name.clone(), Refusal::too_many_hops());
                    match self.hand_over(spec, name, asked) {
                        Ok(entered) => return Ok(entered),
                        Err(refusal) => refusal,
                    }
                }
            };
            asked.insert(name.clone(), refusal.clone());
            told.push((name, refusal));
        }
        if let Some((_, refusal)) = told.iter().find(|(_, refusal)| refusal.may_pass()) {
            return Err(refusal.clone());
        }
        if told.is_empty() {
            let why = format!(
                "queue {0} has none (qmgr -c 'set queue {0} route_destinations = ...')",
                queue.name
            );
            return Err(Refusal::no_destination().because(&why));
        }
        let told = told
            .iter()
            .map(|(name, refusal)| format!("{name}: {}", refusal.text.trim_end()));
        Err(Refusal::no_destination().because(&told.collect::<Vec<_>>().join("; ")))
    }

    /// What it comes to in one destination, or behind that.
    fn hand_over(
        &self,
        spec: &Spec,
        name: &str,
        asked: &mut TriedQueues,
    ) -> Result<Entered, Refusal> {
        let queue = self.find(name)?;
        self.keep_quality(spec, name)?;
        let fitted = self.admit(spec, queue, true)?;
        if queue.route.is_none() {
            return self.settle(fitted);
        }
        let entered = self.pass_through(&fitted, queue, asked)?;
        if queue.started {
            Ok(entered)
        } else {
            Err(Refusal::queue_disabled())
        }
    }
}

/// Why queues cannot route as they say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    /// A destination is none of them.
    #[error(
        "there is no queue named `{destination}`: add one, or take it out of the destinations of `{queue}`"
    )]
    Unknown {
        /// The routing queue.
        queue: String,
        /// Where it leads.
        destination: String,
    },
    /// Jobs would go round in a circle.
    #[error("jobs would go round in a circle: take one of the destinations out of {0}")]
    Circle(String),
}

/// Whether all routing queues lead somewhere: the first that does not, by its place, and why.
pub fn check(queues: &[Queue]) -> Result<(), (usize, RouteFault)> {
    let mut good = BTreeSet::new();
    for (place, queue) in queues.iter().enumerate() {
        walk(queue, queues, &mut Vec::new(), &mut good).map_err(|fault| (place, fault))?;
    }
    Ok(())
}

/// Follows all ways from a queue on; `path` are those walked to it, `good` those known to lead
/// somewhere.
fn walk<'a>(
    queue: &'a Queue,
    queues: &'a [Queue],
    path: &mut Vec<&'a str>,
    good: &mut BTreeSet<&'a str>,
) -> Result<(), RouteFault> {
    if good.contains(queue.name.as_str()) {
        return Ok(());
    }
    let goes_round = path.contains(&queue.name.as_str());
    path.push(&queue.name);
    if goes_round {
        return Err(RouteFault::Circle(path.join(" -> ")));
    }
    for destination in queue.route.iter().flat_map(|route| &route.destinations) {
        let next = queues
            .iter()
            .find(|queue| queue.name == *destination)
            .ok_or_else(|| RouteFault::Unknown {
                queue: queue.name.clone(),
                destination: destination.clone(),
            })?;
        walk(next, queues, path, good)?;
    }
    path.pop();
    good.insert(&queue.name);
    Ok(())
}
