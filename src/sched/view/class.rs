//! Classes of interchangeable waiting jobs, with the order in which the jobs of a class start.

use super::shape::ClassKey;
use super::sort_key::SortKey;
use crate::model::job::array::{Elements, Indices};
use crate::model::job::eligible_time::Eligibility;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use std::sync::Arc;

/// The place of a job in the queue: its rank, which `qorder` can swap, then its id.
pub type QueuePlace = (u64, JobId);

/// The position of a job among all waiting jobs: its sort key, then its place in the queue.
pub type QueuePosition = (SortKey, QueuePlace);

/// A class of interchangeable waiting jobs.
#[derive(Clone, Debug)]
pub(in crate::sched) struct Class {
    /// The properties that all jobs of the class share.
    pub key: ClassKey,
    /// The jobs by place in the queue. An array with all its subjobs is one entry.
    pub(in crate::sched) jobs: BTreeMap<QueuePlace, WaitingJob>,
    /// The order of starts. None means the order of places in the queue.
    sequence: Option<BTreeSet<QueuePosition>>,
}

/// A waiting job or array.
#[derive(Clone, Debug)]
pub(in crate::sched) struct WaitingJob {
    /// The current priority.
    pub sort_key: SortKey,
    /// The waiting time of the job.
    pub wait: Wait,
    /// The subjobs, for an array.
    pub array: Option<Array>,
}

/// The waiting time of a job, and the number of jobs that have passed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sched) struct Wait {
    /// Since when the job has waited.
    pub since: Time,
    /// The eligible time of the job.
    pub eligibility: Eligibility,
    /// How many jobs that are behind the job in the queue order have started before it, as far as
    /// `count_bypasses` counts them (M18).
    pub bypassed: u32,
}

impl WaitingJob {
    /// The number of waiting subjobs of an array; 1 for any other job.
    pub fn count(&self) -> u64 {
        self.array
            .as_ref()
            .map_or(1, |array| u64::from(array.elements.waiting().len()))
    }
}

/// An array with waiting subjobs.
#[derive(Clone, Debug)]
pub(in crate::sched) struct Array {
    /// The indices of all subjobs.
    pub indices: Indices,
    /// The states of the subjobs.
    pub elements: Arc<Elements>,
}

impl Class {
    /// A class without jobs.
    pub fn new(key: ClassKey) -> Class {
        Class {
            key,
            jobs: BTreeMap::new(),
            sequence: None,
        }
    }

    /// The position of the job that starts first.
    pub fn first(&self) -> Option<QueuePosition> {
        match &self.sequence {
            Some(sequence) => sequence.first().copied(),
            None => self
                .jobs
                .first_key_value()
                .map(|(place, waiting)| (waiting.sort_key, *place)),
        }
    }

    /// Whether the class has no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The job at a place in the queue.
    pub fn get(&self, place: QueuePlace) -> Option<&WaitingJob> {
        self.jobs.get(&place)
    }

    /// The job at a place in the queue. The caller must not change the sort key.
    pub fn get_mut(&mut self, place: QueuePlace) -> Option<&mut WaitingJob> {
        self.jobs.get_mut(&place)
    }

    /// The jobs, by place in the queue.
    pub fn jobs(&self) -> impl Iterator<Item = (QueuePlace, &WaitingJob)> {
        self.jobs.iter().map(|(place, waiting)| (*place, waiting))
    }

    /// The jobs, in the order of their starts.
    pub fn in_order(&self) -> InOrder<'_> {
        match &self.sequence {
            None => InOrder::Queue(self.jobs.iter()),
            Some(sequence) => InOrder::Own(sequence.iter(), &self.jobs),
        }
    }

    /// Adds a job.
    pub fn insert(&mut self, place: QueuePlace, waiting: WaitingJob) {
        let head = (waiting.sort_key, place);
        self.jobs.insert(place, waiting);
        if self.sequence.is_none() && !self.is_in_order_at(head) {
            self.sequence = Some(self.positions().collect());
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.insert(head);
        }
    }

    /// Whether the job and its neighbors in the queue are in the order of priority.
    fn is_in_order_at(&self, (sort_key, place): QueuePosition) -> bool {
        let before = self
            .jobs
            .range(..place)
            .next_back()
            .is_none_or(|(_, waiting)| waiting.sort_key <= sort_key);
        before
            && self
                .jobs
                .range(place..)
                .nth(1)
                .is_none_or(|(_, waiting)| sort_key <= waiting.sort_key)
    }

    fn positions(&self) -> impl Iterator<Item = QueuePosition> {
        self.jobs
            .iter()
            .map(|(place, waiting)| (waiting.sort_key, *place))
    }

    /// Removes a job.
    pub fn remove(&mut self, place: QueuePlace) -> Option<WaitingJob> {
        let waiting = self.jobs.remove(&place)?;
        if let Some(sequence) = &mut self.sequence {
            sequence.remove(&(waiting.sort_key, place));
        }
        Some(waiting)
    }

    /// Sets the sort key of each job.
    pub fn set_sort_keys(&mut self, sort_key: impl Fn(QueuePlace, &WaitingJob) -> SortKey) {
        for (&place, waiting) in &mut self.jobs {
            waiting.sort_key = sort_key(place, waiting);
        }
        self.update_sequence();
    }

    /// Sorts the jobs again after a change of their sort keys.
    pub fn update_sequence(&mut self) {
        let is_in_order = self
            .jobs
            .values()
            .map(|waiting| waiting.sort_key)
            .is_sorted();
        self.sequence = (!is_in_order).then(|| self.positions().collect());
    }

    /// The number of subjobs that have started and not finished, if the class is an array with a
    /// limit on its running subjobs; otherwise 0.
    pub fn begun(&self) -> u32 {
        self.limited()
            .map_or(0, |(_, array)| array.elements.begun().len())
    }

    /// The array that forms this class; None unless the array has a limit on its running subjobs.
    pub fn limited(&self) -> Option<(JobId, &Array)> {
        // An array with a limit is the only job of its class.
        self.key.at_once?;
        self.jobs
            .iter()
            .find_map(|((_, id), waiting)| Some((*id, waiting.array.as_ref()?)))
    }
}

/// The jobs of a class, in the order of their starts.
#[derive(Clone)]
pub(in crate::sched) enum InOrder<'s> {
    /// The order of the places in the queue.
    Queue(btree_map::Iter<'s, QueuePlace, WaitingJob>),
    /// The order of the sort keys, which differs from the order of the places in the queue.
    Own(
        btree_set::Iter<'s, QueuePosition>,
        &'s BTreeMap<QueuePlace, WaitingJob>,
    ),
}

impl<'s> Iterator for InOrder<'s> {
    type Item = (QueuePosition, &'s WaitingJob);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            InOrder::Queue(jobs) => jobs
                .next()
                .map(|(place, waiting)| ((waiting.sort_key, *place), waiting)),
            InOrder::Own(positions, jobs) => positions.next().map(|head| (*head, &jobs[&head.1])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::cluster;

    fn class_without_jobs() -> Class {
        let fixture = cluster("1 x ncpus=1").queued(1, "select=1:ncpus=1");
        Class::new(fixture.state.waiting_class(JobId::job(1)).unwrap().clone())
    }

    fn waiting_with_score(score: f64) -> WaitingJob {
        let wait = Wait {
            since: Time(0),
            eligibility: Eligibility::default(),
            bypassed: 0,
        };
        WaitingJob {
            sort_key: SortKey::of(0, score),
            wait,
            array: None,
        }
    }

    fn started(class: &Class) -> Vec<u64> {
        class
            .in_order()
            .map(|((_, (_, job)), _)| job.number)
            .collect()
    }

    /// A class of jobs with these (number, score) pairs. The rank of a job equals its number.
    fn with(scores: &[(u64, f64)]) -> Class {
        let mut class = class_without_jobs();
        scores.iter().for_each(|&(rank, score)| {
            class.insert((rank, JobId::job(rank)), waiting_with_score(score))
        });
        class
    }

    /// X18.
    #[test]
    fn the_job_with_the_highest_priority_starts_first_whenever_it_is_added() {
        assert_eq!(
            started(&with(&[(1, 5.0), (2, 7.0)])),
            [2, 1],
            "last in the queue"
        );
        assert_eq!(
            started(&with(&[(2, 7.0), (1, 5.0)])),
            [2, 1],
            "first in the queue"
        );
        assert_eq!(
            started(&with(&[(1, 7.0), (3, 5.0), (2, 4.0)])),
            [1, 3, 2],
            "between jobs of higher priority"
        );
        assert_eq!(
            started(&with(&[(1, 7.0), (3, 5.0), (2, 8.0)])),
            [2, 1, 3],
            "between jobs of lower priority"
        );
        let mut class = with(&[(1, 5.0), (2, 7.0), (3, 7.0), (4, 5.0)]);
        assert_eq!(started(&class), [2, 3, 1, 4]);
        assert_eq!(
            class
                .remove((2, JobId::job(2)))
                .map(|waiting| waiting.sort_key.score()),
            Some(7.0)
        );
        assert_eq!(
            (started(&class), class.first().map(|(_, place)| place.0)),
            (vec![3, 1, 4], Some(3))
        );
        class.set_sort_keys(|place, _| SortKey::of(0, -(place.0 as f64)));
        assert_eq!(started(&class), [1, 3, 4]);
    }

    #[test]
    fn a_class_stores_an_order_only_if_it_differs_from_the_queue() {
        let keeps_order = |scores: &[(u64, f64)]| with(scores).sequence.is_some();
        assert!(!keeps_order(&[
            (1, 7.0),
            (2, 7.0),
            (4, 5.0),
            (3, 6.0),
            (5, 5.0)
        ]));
        assert!(keeps_order(&[(1, 7.0), (2, 7.5)]));
        let mut class = with(&[(1, 7.0), (2, 7.5)]);
        class.set_sort_keys(|_, _| SortKey::default());
        assert!(class.sequence.is_none());
    }
}
