//! The waiting classes, grouped by request. If the request of one class fits, the equal requests of
//! all classes of the group fit, and a refusal for lack of resources usually holds for the whole
//! group. On a busy cluster nearly every job has a class of its own, because walltimes and owners
//! differ, but there are few different requests.

use super::class::{Class, QueuePosition};
use super::shape::{ClassId, ClassKey, Shape, ShapeId};
use crate::model::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Classes of interchangeable jobs, sorted by the position of their first jobs in the queue.
pub type OrderedClasses = BTreeSet<(QueuePosition, ClassId)>;

/// The key of a group of classes with the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestGroup {
    /// Whether the classes request a reservation.
    pub requests_reservation: bool,
    shape: ShapeId,
}

impl RequestGroup {
    /// The group of a class.
    pub fn of(class: &ClassKey) -> RequestGroup {
        RequestGroup {
            requests_reservation: class.reservation.is_some(),
            shape: class.shape.id,
        }
    }
}

/// The waiting classes by group. A copy is cheap, because it shares the groups until they change.
#[derive(Clone, Debug, Default)]
pub struct RequestGroups(BTreeMap<RequestGroup, Arc<Members>>);

/// The classes of a group.
#[derive(Clone, Debug)]
pub struct Members {
    /// The shape: the part of the request that decides where a job fits.
    pub shape: Arc<Shape>,
    /// The classes.
    pub classes: OrderedClasses,
    /// The walltimes, each with the number of classes that request it.
    spans: BTreeMap<Option<Span>, usize>,
    /// The queues, each with the number of classes in the queue.
    queues: BTreeMap<String, usize>,
    /// The number of classes that can wait although their resources are free: deferred jobs, arrays
    /// with a limit on their running subjobs, subjobs of these arrays that start again, and jobs
    /// that request a reservation.
    with_other_conditions: usize,
}

impl RequestGroups {
    /// All groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&RequestGroup, &Members)> {
        self.0.iter().map(|(group, members)| (group, &**members))
    }

    /// The shared shape with this id; None if no waiting job has it.
    pub(super) fn shape(&self, shape: ShapeId) -> Option<&Arc<Shape>> {
        [false, true].into_iter().find_map(|requests_reservation| {
            let group = RequestGroup {
                requests_reservation,
                shape,
            };
            Some(&self.0.get(&group)?.shape)
        })
    }

    /// The shortest walltime in the group of a class; `default` is the walltime of jobs that
    /// request none.
    pub fn shortest(&self, class: &ClassKey, default: Span) -> Span {
        let spans = self
            .0
            .get(&RequestGroup::of(class))
            .into_iter()
            .flat_map(|members| members.spans.keys());
        // The sorted walltimes begin with None, if present; the next one is the shortest.
        spans
            .take(2)
            .map(|span| span.unwrap_or(default))
            .min()
            .unwrap_or(default)
    }

    /// Updates a class after a change of its jobs; `before` is the former position of its first
    /// job.
    pub fn refile(&mut self, class: &Class, before: Option<QueuePosition>) {
        let (group, key, now) = (RequestGroup::of(&class.key), &class.key, class.first());
        if before == now {
            return;
        }
        let members = self
            .0
            .entry(group)
            .or_insert_with(|| Arc::new(Members::of(key.shape.clone())));
        let members = Arc::make_mut(members);
        match before {
            Some(head) => drop(members.classes.take(&(head, key.id))),
            None => members.join(key),
        }
        match now {
            Some(head) => drop(members.classes.replace((head, key.id))),
            None => members.leave(key),
        }
        if members.classes.is_empty() {
            self.0.remove(&group);
        }
    }
}

impl RequestGroups {
    /// Sets the order of the classes in all groups. `heads` contains the position of the first job
    /// of each class.
    pub fn set_order(&mut self, mut heads: Vec<(RequestGroup, QueuePosition, ClassId)>) {
        heads.sort_unstable();
        for of_group in heads.chunk_by(|a, b| a.0 == b.0) {
            let members = of_group
                .first()
                .and_then(|(group, ..)| self.0.get_mut(group));
            if let Some(members) = members {
                let classes = of_group.iter().map(|&(_, head, class)| (head, class));
                Arc::make_mut(members).classes = classes.collect();
            }
        }
    }
}

impl Members {
    fn of(shape: Arc<Shape>) -> Members {
        let (spans, queues) = (BTreeMap::new(), BTreeMap::new());
        Members {
            shape,
            classes: OrderedClasses::new(),
            spans,
            queues,
            with_other_conditions: 0,
        }
    }

    fn join(&mut self, class: &ClassKey) {
        *self.spans.entry(class.walltime).or_default() += 1;
        *self.queues.entry(class.who.queue.clone()).or_default() += 1;
        self.with_other_conditions += usize::from(has_other_conditions(class));
    }

    fn leave(&mut self, class: &ClassKey) {
        decrement(&mut self.spans, &class.walltime);
        decrement(&mut self.queues, &class.who.queue);
        self.with_other_conditions -= usize::from(has_other_conditions(class));
    }

    /// Whether the group has none of the classes that `with_other_conditions` counts.
    pub fn wait_only_for_resources(&self) -> bool {
        self.with_other_conditions == 0
    }

    /// The queues of the jobs.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }
}

fn has_other_conditions(class: &ClassKey) -> bool {
    class.reservation.is_some()
        || class.not_before.is_some()
        || class.at_once.is_some()
        || class.beyond.is_some()
}

fn decrement<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::model::time::Span;
    use crate::sched::fixture::{TestCluster, cluster};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn jobs_with_equal_requests_share_a_shape_whatever_their_owner_and_walltime() {
        let mut fixture = cluster("1 x ncpus=1");
        for job in 0..300 {
            fixture = fixture.owned(&format!("u{}", job % 100));
            fixture = fixture.queued(
                job,
                &format!("select=1:ncpus={} walltime={}", 2 + job % 3, 60 + job),
            );
        }
        let classes = fixture.state.classes.values();
        let shapes: BTreeSet<_> = classes.map(|class| Arc::as_ptr(&class.key.shape)).collect();
        assert_eq!((fixture.state.classes.len(), shapes.len()), (300, 3));
        let fixture = fixture
            .queued(998, "select=1:ncpus=1 hosts=n1")
            .queued(999, "select=1:ncpus=1 hosts=n1 walltime=9");
        let own: Vec<_> = fixture
            .state
            .classes
            .values()
            .filter(|class| !class.key.shape.is_common())
            .collect();
        assert!(own.len() == 2 && !Arc::ptr_eq(&own[0].key.shape, &own[1].key.shape));
    }

    #[test]
    fn the_shortest_walltime_of_a_group_is_the_shortest_of_its_waiting_jobs() {
        let job =
            |id: u64, walltime: &str| format!("select=1:ncpus={} walltime={walltime}", 1 + id / 10);
        let waiting = [(1, "90"), (2, "60"), (3, "60"), (4, "120"), (11, "5")];
        let mut fixture = waiting.iter().fold(cluster(""), |fixture, &(id, span)| {
            fixture.queued(id, &job(id, span))
        });
        let class = fixture.state.class_key(&fixture.job(1, &job(1, "90")));
        let shortest = |fixture: &TestCluster| {
            fixture
                .state
                .alike
                .shortest(&class, Span::seconds(30))
                .as_seconds()
        };
        assert_eq!(shortest(&fixture), 60);
        fixture.state.withdraw(JobId::job(2));
        assert_eq!(shortest(&fixture), 60);
        fixture.state.withdraw(JobId::job(3));
        assert_eq!(shortest(&fixture), 90);
        let fixture = fixture.queued(5, "select=1:ncpus=1");
        assert_eq!(
            shortest(&fixture),
            30,
            "a job without walltime counts with the default walltime"
        );
    }
}
