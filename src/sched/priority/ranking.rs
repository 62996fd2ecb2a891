//! Walks the waiting jobs in order without sorting them: a heap holds the first job of each shape,
//! then of its classes as needed, then their jobs one after another. Jobs of one class differ only
//! in their place in the queue, and classes of one shape share refusals for lack of resources.

use crate::model::job_id::JobId;
use crate::sched::placement::resolution::Resolved;
use crate::sched::view::class::{InOrder, WaitingJob};
use crate::sched::view::request_groups::{Members, RequestGroup};
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::{Array, Class, ClusterState, QueuePlace, QueuePosition};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, btree_set};
use std::iter::Peekable;

/// A job that is considered.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'s> {
    /// Its id.
    pub job: JobId,
    /// Its class, as the policy resolves it.
    pub class: &'s ClassKey,
    /// The number of started, unfinished subjobs, if the class is an array with a limit of its own.
    pub begun: u32,
    line: usize,
}

/// The waiting jobs, best first.
pub struct Ranking<'s> {
    state: &'s ClusterState,
    resolved: &'s Resolved,
    lines: Vec<ClassJobs<'s>>,
    rows: Vec<ShapeClasses<'s>>,
    /// The best job of each row that is still considered.
    heads: BinaryHeap<Reverse<(SortPlace, usize)>>,
}

/// A job's position: the negated key that precedes its priority, then its position in the queue.
type SortPlace = (i64, QueuePosition);

/// The classes of a shape.
struct ShapeClasses<'s> {
    members: &'s Members,
    /// The classes of which no job has been drawn, by their best jobs.
    fresh: Peekable<btree_set::Iter<'s, (QueuePosition, ClassId)>>,
    /// The key that precedes their priorities.
    ahead: i64,
    /// The next jobs of the other classes, with their lines.
    begun: BinaryHeap<Reverse<(SortPlace, usize)>>,
}

/// Starts a walk through the queue in its order.
pub fn rank<'s>(state: &'s ClusterState, resolved: &'s Resolved) -> Ranking<'s> {
    let rows = state
        .alike
        .groups()
        .map(|(group, members)| ShapeClasses::new(group, members))
        .collect();
    let mut ranking = Ranking {
        state,
        resolved,
        lines: Vec::new(),
        rows,
        heads: BinaryHeap::new(),
    };
    ranking.heads = (0..ranking.rows.len())
        .filter_map(|row| ranking.head(row))
        .collect::<Vec<_>>()
        .into();
    ranking
}

/// Jobs for a reservation come before all others (M1): they use no resources of the others.
fn ahead_of(requests_reservation: bool, ahead: i64) -> i64 {
    if requests_reservation {
        i64::MAX
    } else {
        ahead
    }
}

impl<'s> Candidate<'s> {
    /// A job considered by itself, outside of any order.
    pub fn alone(job: JobId, class: &'s ClassKey) -> Candidate<'s> {
        Candidate {
            job,
            class,
            begun: 0,
            line: usize::MAX,
        }
    }

    /// A subjob of an array with a limit of its own and `begun` started, unfinished subjobs.
    pub fn element(job: JobId, class: &'s ClassKey, begun: u32) -> Candidate<'s> {
        Candidate {
            begun,
            ..Candidate::alone(job, class)
        }
    }

    /// This job with another class.
    pub fn asking(self, class: &'s ClassKey) -> Candidate<'s> {
        Candidate { class, ..self }
    }
}

impl<'s> Ranking<'s> {
    /// The best remaining job. Other jobs of its shape come only after [`Ranking::follow`] or
    /// [`Ranking::pass`].
    pub fn next(&mut self) -> Option<Candidate<'s>> {
        let (place, line) = loop {
            let Reverse((_, row)) = self.heads.pop()?;
            if let Some(drawn) = self.draw(row) {
                break drawn;
            }
        };
        let ClassJobs { class, key, .. } = self.lines[line];
        Some(Candidate {
            job: place.1,
            class: key,
            begun: class.begun(),
            line,
        })
    }

    /// Continues with the next job of the class, and with all classes of the same request.
    pub fn follow(&mut self, candidate: Candidate) {
        self.advance(candidate.line);
        self.pass(candidate);
    }

    /// Continues with the other classes of the same request: this class was refused for a reason of
    /// its own.
    pub fn pass(&mut self, candidate: Candidate) {
        let head = self.head(self.lines[candidate.line].row);
        self.heads.extend(head);
    }

    /// Drops the request groups for which `is_done` is true. Calls it in the order of the groups.
    pub fn dismiss(&mut self, mut is_done: impl FnMut(&'s Members) -> bool) {
        let mut stays = vec![false; self.rows.len()];
        for &Reverse((_, row)) in &self.heads {
            stays[row] = true;
        }
        for (row, stays) in stays.iter_mut().enumerate().filter(|(_, stays)| **stays) {
            *stays = !is_done(self.rows[row].members);
        }
        self.heads.retain(|&Reverse((_, row))| stays[row]);
    }

    /// From here on, jobs of the classes with the highest priority come first; equals keep their
    /// order.
    pub fn prefer(&mut self, priority: impl Fn(&ClassKey) -> i64) {
        self.reorder(|line| {
            let key = &line.class.key;
            line.ahead = ahead_of(key.reservation.is_some(), priority(key));
        });
    }

    /// From here on, these numbers of jobs of the classes come first, and all others after them.
    pub fn choose(&mut self, counts: &BTreeMap<ClassId, usize>) {
        self.reorder(|line| line.chosen = counts.get(&line.class.key.id).copied().unwrap_or(0));
    }

    /// The remaining classes in the order of their next jobs, each with at most `most` jobs.
    pub fn rest(&mut self, most: usize) -> Vec<(&'s ClassKey, Vec<JobId>)> {
        let rows: Vec<usize> = self.heads.iter().map(|Reverse((_, row))| *row).collect();
        for &row in &rows {
            self.open_all(row);
        }
        let begun = rows.iter().flat_map(|&row| &self.rows[row].begun);
        let mut heads: Vec<_> = begun
            .map(|&Reverse(((_, head), line))| (head, line))
            .collect();
        heads.sort_unstable();
        heads
            .into_iter()
            .map(|((_, (_, first)), line)| {
                let line = &self.lines[line];
                let later = line.clone().map(|(_, (_, job))| job);
                let jobs = std::iter::once(first).chain(later).take(most).collect();
                (line.key, jobs)
            })
            .collect()
    }

    /// Reorders the remaining jobs after a change to each line.
    fn reorder(&mut self, change: impl Fn(&mut ClassJobs)) {
        for Reverse((_, row)) in std::mem::take(&mut self.heads).into_vec() {
            self.open_all(row);
            for Reverse(((_, head), line)) in std::mem::take(&mut self.rows[row].begun).into_vec() {
                change(&mut self.lines[line]);
                let turn = (self.lines[line].take_key(), head);
                self.rows[row].begun.push(Reverse((turn, line)));
            }
            let head = self.head(row);
            self.heads.extend(head);
        }
    }

    /// Takes the best job of a row, with its line.
    fn draw(&mut self, row: usize) -> Option<(QueuePlace, usize)> {
        let begun = self.rows[row].begun.peek().map(|&Reverse((turn, _))| turn);
        if self.rows[row]
            .first_fresh()
            .is_some_and(|fresh| begun.is_none_or(|begun| fresh < begun))
        {
            self.open(row);
        }
        let Reverse(((_, (_, place)), line)) = self.rows[row].begun.pop()?;
        Some((place, line))
    }

    /// Opens the first class of a row without a drawn job.
    fn open(&mut self, row: usize) {
        let class = self.rows[row]
            .fresh
            .next()
            .and_then(|(_, class)| self.state.classes.get(class));
        let Some(class) = class else { return };
        let ahead = self.rows[row].ahead;
        let key = self.resolved.of(&class.key);
        self.lines.push(ClassJobs {
            row,
            class,
            key,
            jobs: class.in_order(),
            array: None,
            ahead,
            chosen: 0,
        });
        self.advance(self.lines.len() - 1);
    }

    fn open_all(&mut self, row: usize) {
        while self.rows[row].fresh.peek().is_some() {
            self.open(row);
        }
    }

    fn advance(&mut self, line: usize) {
        if let Some(head) = self.lines[line].next() {
            let turn = (self.lines[line].take_key(), head);
            self.rows[self.lines[line].row]
                .begun
                .push(Reverse((turn, line)));
        }
    }

    /// The heap entry of a row: its best job. None if it has none left.
    fn head(&mut self, row: usize) -> Option<Reverse<(SortPlace, usize)>> {
        let begun = self.rows[row].begun.peek().map(|&Reverse((turn, _))| turn);
        let best = self.rows[row]
            .first_fresh()
            .into_iter()
            .chain(begun)
            .min()?;
        Some(Reverse((best, row)))
    }
}

impl<'s> ShapeClasses<'s> {
    fn new(group: &RequestGroup, members: &'s Members) -> ShapeClasses<'s> {
        let ahead = ahead_of(group.requests_reservation, 0);
        ShapeClasses {
            members,
            fresh: members.classes.iter().peekable(),
            ahead,
            begun: BinaryHeap::new(),
        }
    }

    /// The position of the best job of the classes that are not opened yet.
    fn first_fresh(&mut self) -> Option<SortPlace> {
        self.fresh
            .peek()
            .map(|&&(head, _)| (self.ahead.saturating_neg(), head))
    }
}

/// The jobs of a class, one after another; of an array, its waiting subjobs.
#[derive(Clone)]
struct ClassJobs<'s> {
    row: usize,
    class: &'s Class,
    /// The class as the policy resolves it.
    key: &'s ClassKey,
    jobs: InOrder<'s>,
    /// The array of the next subjobs, with its position in the queue and the position to continue
    /// from.
    array: Option<(QueuePosition, &'s Array, u32)>,
    /// The key that precedes the priority.
    ahead: i64,
    /// How many more of its jobs come before all others.
    chosen: usize,
}

impl ClassJobs<'_> {
    /// Takes the key that precedes the priority of the next job, lowest first.
    fn take_key(&mut self) -> i64 {
        let is_chosen = self.chosen > 0;
        self.chosen -= usize::from(is_chosen);
        if is_chosen {
            i64::MIN
        } else {
            self.ahead.saturating_neg()
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
    fn subjobs_come_at_the_place_of_their_array_by_index() {
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
    fn an_array_without_waiting_subjobs_hides_no_job() {
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
    fn a_rank_precedes_the_job_number() {
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
            "the job number breaks ties"
        );
        let mut fixture = fixture("rank=0");
        fixture.state.withdraw(JobId::job(3));
        assert_eq!(
            fixture.starts(),
            "1 on n1",
            "a job with a rank of its own is withdrawn like any other"
        );
    }

    #[test]
    fn a_class_shares_its_refusal() {
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
            "the verdict of the job with a planned start holds for all"
        );
        assert_eq!(fixture.reason(100).unwrap().code(), "amount.ncpus");
    }

    #[test]
    fn a_class_gets_a_reason_behind_planned_starts_of_the_same_request() {
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
