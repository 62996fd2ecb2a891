//! Iterates over the waiting jobs in order of priority without sorting all of them. Waiting jobs
//! are grouped: interchangeable jobs form a *class*, and classes with the same request form a
//! *request group*. A heap contains the first job of each group. A refusal often holds for a whole
//! class or group. The other classes of a group, and the other jobs of a class, are therefore
//! visited only when needed.

use crate::model::job_id::JobId;
use crate::sched::placement::resolution::Resolved;
use crate::sched::view::class::{InOrder, WaitingJob};
use crate::sched::view::request_groups::{Members, RequestGroup};
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::{Array, Class, ClusterState, QueuePlace, QueuePosition};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, btree_set};
use std::iter::Peekable;

/// A waiting job that the cycle tries to start.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'s> {
    /// The id of the job.
    pub job: JobId,
    /// The class of the job, with the defaults of the policy.
    pub class: &'s ClassKey,
    /// The number of subjobs that have started and not finished, if the class is an array with a
    /// limit on its running subjobs; otherwise 0.
    pub begun: u32,
    /// The index of the class in [`Ranking::opened`].
    class_index: usize,
}

/// The waiting jobs, highest priority first.
pub struct Ranking<'s> {
    state: &'s ClusterState,
    resolved: &'s Resolved,
    /// The classes that have been opened. Their jobs are visited one by one.
    opened: Vec<ClassJobs<'s>>,
    /// The request groups.
    groups: Vec<GroupClasses<'s>>,
    /// The first job of each group that is still considered, with the index of the group.
    heads: BinaryHeap<Reverse<(SortPlace, usize)>>,
}

/// The position of a job: first the negated preference of its class, then its priority and its
/// place in the queue.
type SortPlace = (i64, QueuePosition);

/// The classes of a request group.
struct GroupClasses<'s> {
    members: &'s Members,
    /// The classes that have not been opened, sorted by their first jobs.
    unopened: Peekable<btree_set::Iter<'s, (QueuePosition, ClassId)>>,
    /// The preference of the unopened classes.
    preference: i64,
    /// The next job of each opened class, with the index of the class in [`Ranking::opened`].
    opened: BinaryHeap<Reverse<(SortPlace, usize)>>,
}

/// Starts an iteration over the waiting jobs in order of priority.
pub fn rank<'s>(state: &'s ClusterState, resolved: &'s Resolved) -> Ranking<'s> {
    let groups = state
        .alike
        .groups()
        .map(|(group, members)| GroupClasses::new(group, members))
        .collect();
    let mut ranking = Ranking {
        state,
        resolved,
        opened: Vec::new(),
        groups,
        heads: BinaryHeap::new(),
    };
    ranking.heads = (0..ranking.groups.len())
        .filter_map(|group| ranking.head(group))
        .collect::<Vec<_>>()
        .into();
    ranking
}

/// The preference of a class. Jobs that request a reservation come before all other jobs (M1),
/// because they use only the resources of their reservation.
fn preference_of(requests_reservation: bool, preference: i64) -> i64 {
    if requests_reservation {
        i64::MAX
    } else {
        preference
    }
}

impl<'s> Candidate<'s> {
    /// A job that does not come from a [`Ranking`].
    pub fn alone(job: JobId, class: &'s ClassKey) -> Candidate<'s> {
        Candidate {
            job,
            class,
            begun: 0,
            class_index: usize::MAX,
        }
    }

    /// A job that does not come from a [`Ranking`]. If it is a subjob of an array with a limit on
    /// its running subjobs, `begun` subjobs of the array have started and not finished.
    pub fn element(job: JobId, class: &'s ClassKey, begun: u32) -> Candidate<'s> {
        Candidate {
            begun,
            ..Candidate::alone(job, class)
        }
    }

    /// This job with the request of another class.
    pub fn asking(self, class: &'s ClassKey) -> Candidate<'s> {
        Candidate { class, ..self }
    }
}

impl<'s> Ranking<'s> {
    /// Returns the first remaining job. The other jobs of its request group follow only after a
    /// call of [`Ranking::follow`] or [`Ranking::pass`] for this job.
    pub fn next(&mut self) -> Option<Candidate<'s>> {
        let (place, index) = loop {
            let Reverse((_, group)) = self.heads.pop()?;
            if let Some(drawn) = self.draw(group) {
                break drawn;
            }
        };
        let ClassJobs { class, key, .. } = self.opened[index];
        Some(Candidate {
            job: place.1,
            class: key,
            begun: class.begun(),
            class_index: index,
        })
    }

    /// Continues with the other jobs of the class, and with the other classes of the request group.
    pub fn follow(&mut self, candidate: Candidate) {
        self.advance(candidate.class_index);
        self.pass(candidate);
    }

    /// Continues with the other classes of the request group, without the other jobs of the class.
    pub fn pass(&mut self, candidate: Candidate) {
        let head = self.head(self.opened[candidate.class_index].group);
        self.heads.extend(head);
    }

    /// Removes the request groups for which `is_done` is true. Calls `is_done` once for each group
    /// that still has a first job in the heap, in the order of the groups.
    pub fn dismiss(&mut self, mut is_done: impl FnMut(&'s Members) -> bool) {
        let mut stays = vec![false; self.groups.len()];
        for &Reverse((_, group)) in &self.heads {
            stays[group] = true;
        }
        for (group, stays) in stays.iter_mut().enumerate().filter(|(_, stays)| **stays) {
            *stays = !is_done(self.groups[group].members);
        }
        self.heads.retain(|&Reverse((_, group))| stays[group]);
    }

    /// Reorders the remaining jobs: jobs of the classes for which `priority` is highest come first.
    /// Among classes with equal values, the order does not change. Jobs that request a reservation
    /// still precede all other jobs.
    pub fn prefer(&mut self, priority: impl Fn(&ClassKey) -> i64) {
        self.reorder(|jobs| {
            let key = &jobs.class.key;
            jobs.preference = preference_of(key.reservation.is_some(), priority(key));
        });
    }

    /// Reorders the remaining jobs so that chosen jobs come before all other jobs. `counts`
    /// contains, for each class, how many of its next jobs are chosen.
    pub fn choose(&mut self, counts: &BTreeMap<ClassId, usize>) {
        self.reorder(|jobs| jobs.chosen = counts.get(&jobs.class.key.id).copied().unwrap_or(0));
    }

    /// The remaining classes in the order of their next jobs, each with at most `most` jobs.
    pub fn rest(&mut self, most: usize) -> Vec<(&'s ClassKey, Vec<JobId>)> {
        let groups: Vec<usize> = self
            .heads
            .iter()
            .map(|Reverse((_, group))| *group)
            .collect();
        for &group in &groups {
            self.open_all(group);
        }
        let opened = groups.iter().flat_map(|&group| &self.groups[group].opened);
        let mut heads: Vec<_> = opened
            .map(|&Reverse(((_, head), index))| (head, index))
            .collect();
        heads.sort_unstable();
        heads
            .into_iter()
            .map(|((_, (_, first)), index)| {
                let class_jobs = &self.opened[index];
                let later = class_jobs.clone().map(|(_, (_, job))| job);
                let jobs = std::iter::once(first).chain(later).take(most).collect();
                (class_jobs.key, jobs)
            })
            .collect()
    }

    /// Changes all remaining classes, and reorders the remaining jobs accordingly.
    fn reorder(&mut self, change: impl Fn(&mut ClassJobs)) {
        for Reverse((_, group)) in std::mem::take(&mut self.heads).into_vec() {
            self.open_all(group);
            let opened = std::mem::take(&mut self.groups[group].opened).into_vec();
            for Reverse(((_, head), index)) in opened {
                change(&mut self.opened[index]);
                let place = (self.opened[index].take_key(), head);
                self.groups[group].opened.push(Reverse((place, index)));
            }
            let head = self.head(group);
            self.heads.extend(head);
        }
    }

    /// Removes the first job of a group, and returns it with the index of its class.
    fn draw(&mut self, group: usize) -> Option<(QueuePlace, usize)> {
        let opened = self.first_opened(group);
        if self.groups[group]
            .first_unopened()
            .is_some_and(|unopened| opened.is_none_or(|opened| unopened < opened))
        {
            self.open(group);
        }
        let Reverse(((_, (_, place)), index)) = self.groups[group].opened.pop()?;
        Some((place, index))
    }

    /// Opens the first unopened class of a group.
    fn open(&mut self, group: usize) {
        let class = self.groups[group]
            .unopened
            .next()
            .and_then(|(_, class)| self.state.classes.get(class));
        let Some(class) = class else { return };
        let preference = self.groups[group].preference;
        let key = self.resolved.of(&class.key);
        self.opened.push(ClassJobs {
            group,
            class,
            key,
            jobs: class.in_order(),
            array: None,
            preference,
            chosen: 0,
        });
        self.advance(self.opened.len() - 1);
    }

    fn open_all(&mut self, group: usize) {
        while self.groups[group].unopened.peek().is_some() {
            self.open(group);
        }
    }

    /// Adds the next job of an opened class to its group.
    fn advance(&mut self, index: usize) {
        if let Some(head) = self.opened[index].next() {
            let place = (self.opened[index].take_key(), head);
            self.groups[self.opened[index].group]
                .opened
                .push(Reverse((place, index)));
        }
    }

    /// The position of the first job of the opened classes of a group.
    fn first_opened(&self, group: usize) -> Option<SortPlace> {
        let first = self.groups[group].opened.peek();
        first.map(|&Reverse((place, _))| place)
    }

    /// The heap entry of a group, with the position of its first job. None if the group has no more
    /// jobs.
    fn head(&mut self, group: usize) -> Option<Reverse<(SortPlace, usize)>> {
        let opened = self.first_opened(group);
        let first = self.groups[group]
            .first_unopened()
            .into_iter()
            .chain(opened)
            .min()?;
        Some(Reverse((first, group)))
    }
}

impl<'s> GroupClasses<'s> {
    fn new(group: &RequestGroup, members: &'s Members) -> GroupClasses<'s> {
        let preference = preference_of(group.requests_reservation, 0);
        GroupClasses {
            members,
            unopened: members.classes.iter().peekable(),
            preference,
            opened: BinaryHeap::new(),
        }
    }

    /// The position of the first job of the unopened classes.
    fn first_unopened(&mut self) -> Option<SortPlace> {
        self.unopened
            .peek()
            .map(|&&(head, _)| (self.preference.saturating_neg(), head))
    }
}

/// An iterator over the jobs of a class. For an array, it returns the waiting subjobs.
#[derive(Clone)]
struct ClassJobs<'s> {
    /// The index of the request group.
    group: usize,
    class: &'s Class,
    /// The key of the class, with the defaults of the policy.
    key: &'s ClassKey,
    jobs: InOrder<'s>,
    /// The array with the next subjobs: its position in the queue, the array, and the position of
    /// the subjob from which to continue.
    array: Option<(QueuePosition, &'s Array, u32)>,
    /// The preference of the class, which precedes the priority; higher values come first.
    preference: i64,
    /// The number of chosen jobs, from the next job on. They come before all other jobs.
    chosen: usize,
}

impl ClassJobs<'_> {
    /// The negated preference of the next job, lowest first; the lowest possible number if the job
    /// is chosen. Reduces `chosen` for a chosen job.
    fn take_key(&mut self) -> i64 {
        let is_chosen = self.chosen > 0;
        self.chosen -= usize::from(is_chosen);
        if is_chosen {
            i64::MIN
        } else {
            self.preference.saturating_neg()
        }
    }
}

impl Iterator for ClassJobs<'_> {
    type Item = QueuePosition;

    fn next(&mut self) -> Option<QueuePosition> {
        loop {
            if let Some(((sort_key, (rank, id)), array, from)) = self.array.take()
                && let Some(position) = array.elements.waiting().next(from)
            {
                self.array = Some(((sort_key, (rank, id)), array, position + 1));
                return Some((
                    sort_key,
                    (rank, JobId::element(id.number, array.indices.at(position))),
                ));
            }
            match self.jobs.next()? {
                (head, WaitingJob { array: None, .. }) => return Some(head),
                (
                    head,
                    WaitingJob {
                        array: Some(array), ..
                    },
                ) => self.array = Some((head, array, 0)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::sched::fixture::cluster;

    #[test]
    fn jobs_start_by_number_whatever_their_class() {
        let fixture = cluster("1 x ncpus=3")
            .queued(3, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1 walltime=5")
            .queued(1, "select=1:ncpus=1")
            .queued(4, "select=1:ncpus=1 walltime=5");
        assert_eq!(fixture.starts(), "1 on n1; 2 on n1; 3 on n1");
    }

    #[test]
    fn subjobs_start_at_the_place_of_their_array_in_order_of_their_indices() {
        let fixture = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1 array=1-5:2")
            .queued(3, "select=1:ncpus=1");
        assert_eq!(
            fixture.starts(),
            "1 on n1; 2[1] on n1; 2[3] on n1; 2[5] on n1"
        );
    }

    #[test]
    fn an_array_without_waiting_subjobs_does_not_delay_other_jobs() {
        let fixture = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=1 array=1-2")
            .queued(2, "select=1:ncpus=3");
        assert_eq!(fixture.begun(1, 0, 1).starts(), "2 on n1");
    }

    #[test]
    fn a_million_subjobs_are_not_considered_one_by_one() {
        let fixture = cluster("1 x ncpus=2")
            .queued(1, "select=1:ncpus=1 array=0-999999")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(
            (fixture.starts().as_str(), fixture.plan().considered),
            ("1[0] on n1; 1[1] on n1", 3)
        );
    }

    #[test]
    fn jobs_start_by_rank_then_by_job_number() {
        let fixture = |rank: &str| {
            cluster("1 x ncpus=1")
                .queued(1, "select=1:ncpus=1")
                .queued(2, "select=1:ncpus=1 walltime=5")
                .queued(3, format!("select=1:ncpus=1 {rank}").trim())
        };
        assert_eq!(fixture("").starts(), "1 on n1");
        assert_eq!(fixture("rank=0").starts(), "3 on n1");
        assert_eq!(
            fixture("rank=1").starts(),
            "1 on n1",
            "jobs 1 and 3 have the same rank, so the job number decides"
        );
        let mut fixture = fixture("rank=0");
        fixture.state.withdraw(JobId::job(3));
        assert_eq!(
            fixture.starts(),
            "1 on n1",
            "a job with a changed rank can be withdrawn like any other job"
        );
    }

    #[test]
    fn jobs_of_a_class_share_a_refusal() {
        let mut fixture = cluster("1 x ncpus=1").running(9000, "select=1:ncpus=1", "n1", 60);
        for job in 1..=100 {
            fixture = fixture.queued(
                job,
                if job % 2 == 0 {
                    "select=1:ncpus=1"
                } else {
                    "select=1:ncpus=2"
                },
            );
        }
        let plan = fixture.plan();
        assert_eq!((plan.considered, plan.verdicts.len()), (2, 2));
    }

    #[test]
    fn classes_with_the_same_request_share_a_refusal() {
        let mut fixture = cluster("1 x ncpus=1").running(9000, "select=1:ncpus=1", "n1", 60);
        for job in 1..=100 {
            fixture = fixture.queued(job, &format!("select=1:ncpus=1 walltime={}", 60 + job));
        }
        let plan = fixture.plan();
        assert_eq!(
            (plan.considered, plan.verdicts.len()),
            (1, 1),
            "the verdict of the job with a planned start holds for all jobs"
        );
        assert_eq!(fixture.reason(100).unwrap().code(), "amount.ncpus");
    }

    #[test]
    fn a_job_behind_planned_starts_for_the_same_request_gets_a_reason() {
        let mut fixture = cluster("1 x ncpus=1")
            .running(9000, "select=1:ncpus=1", "n1", 60)
            .queued(1, "select=1:ncpus=1 walltime=60")
            .queued(2, "select=1:ncpus=1 walltime=60")
            .queued(3, "select=1:ncpus=1 walltime=61");
        fixture.policy.backfill.depth = 2;
        assert_eq!(fixture.plan().bookings.len(), 2);
        assert_eq!(fixture.reason(3).unwrap().code(), "amount.ncpus");
    }

    #[test]
    fn a_refusal_of_one_class_does_not_block_others_with_the_same_request() {
        let fixture = cluster("1 x ncpus=2")
            .running(9000, "select=1:ncpus=1", "n1", 60)
            .queued(1, "select=1:ncpus=2")
            .queued(2, "select=1:ncpus=1 walltime=61")
            .queued(3, "select=1:ncpus=1 queue=night")
            .queued(4, "select=1:ncpus=1 walltime=60");
        assert_eq!(fixture.starts(), "4 on n1");
    }
}
