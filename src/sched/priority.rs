//! Who goes first? Walks the waiting jobs by rank without sorting them: a heap over the first job
//! of each class, because jobs of one class differ in nothing but their place in the queue.

use super::resolution::Resolved;
use super::shape::{ClassId, ClassKey};
use super::snapshot::{Array, Class, State};
use crate::model::job::JobId;
use crate::model::policy::Order;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, btree_map};

/// A job that is considered.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'s> {
    /// Its number.
    pub job: JobId,
    /// What it is alike in with others.
    pub class: &'s ClassKey,
    /// How many elements of it have begun, if the class is an array that limits them.
    pub begun: u32,
    line: usize,
}

/// The waiting jobs, best first.
pub struct Ranking<'s> {
    lines: Vec<Line<'s>>,
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next job of a line: its merit where that goes before the rank, its rank, itself, the line.
type Head = (i64, (u64, JobId), usize);

/// Ranks the queue.
pub fn rank<'s>(state: &'s State, order: Order, resolved: &'s Resolved) -> Ranking<'s> {
    // The one order there is: numbers are given as jobs come, `qorder` may change two of them, and a
    // class keeps its jobs in this order.
    let Order::Fcfs = order;
    let mut ranking = Ranking { lines: Vec::with_capacity(state.classes.len()), heads: BinaryHeap::new() };
    for class in state.classes.values() {
        let merit = merit_of(&class.key, 0);
        ranking.lines.push(Line {
            class,
            key: resolved.of(&class.key),
            jobs: class.jobs.iter(),
            array: None,
            merit,
            chosen: 0,
        });
        ranking.advance(ranking.lines.len() - 1);
    }
    ranking
}

/// Jobs that ask for a reservation come before all others (M1): they take nothing from these.
fn merit_of(key: &ClassKey, merit: i64) -> i64 {
    if key.asks_for.is_some() { i64::MAX } else { merit }
}

impl<'s> Candidate<'s> {
    /// A job considered by itself, outside of any order.
    pub fn alone(job: JobId, class: &'s ClassKey) -> Candidate<'s> {
        Candidate { job, class, begun: 0, line: usize::MAX }
    }
}

impl<'s> Ranking<'s> {
    /// The best job left. The rest of its class comes only after [`Ranking::follow`].
    pub fn next(&mut self) -> Option<Candidate<'s>> {
        let Reverse((_, (_, job), line)) = self.heads.pop()?;
        let Line { class, key, .. } = self.lines[line];
        Some(Candidate { job, class: key, begun: class.begun(), line })
    }

    /// Lets the next job of the class stand for it: this one was not refused.
    pub fn follow(&mut self, candidate: Candidate) {
        self.advance(candidate.line);
    }

    /// From here on the jobs of the classes with most merit come first, and rank decides between
    /// equals.
    pub fn prefer(&mut self, merit: impl Fn(&ClassKey) -> i64) {
        let heads = std::mem::take(&mut self.heads).into_vec();
        for Reverse((_, head, line)) in heads {
            let key = &self.lines[line].class.key;
            let merit = merit_of(key, merit(key));
            self.lines[line].merit = merit;
            self.heads.push(Reverse((merit.saturating_neg(), head, line)));
        }
    }

    /// From here on so many jobs of these classes come first, and the others after them.
    pub fn choose(&mut self, counts: &BTreeMap<ClassId, usize>) {
        for line in &mut self.lines {
            line.chosen = counts.get(&line.class.key.id).copied().unwrap_or(0);
        }
        for Reverse((_, head, line)) in std::mem::take(&mut self.heads).into_vec() {
            let merit = self.lines[line].spend();
            self.heads.push(Reverse((merit, head, line)));
        }
    }

    /// The classes that are left, in the order of their next jobs, with so many of these at most.
    pub fn rest(&self, most: usize) -> Vec<(&'s ClassKey, Vec<JobId>)> {
        let mut heads: Vec<_> = self.heads.iter().map(|&Reverse((_, head, line))| (head, line)).collect();
        heads.sort_unstable();
        let of = |((_, first), line): ((u64, JobId), usize)| {
            let later = self.lines[line].clone().map(|(_, job)| job);
            (&self.lines[line].class.key, std::iter::once(first).chain(later).take(most).collect())
        };
        heads.into_iter().map(of).collect()
    }

    fn advance(&mut self, line: usize) {
        if let Some(head) = self.lines[line].next() {
            let merit = self.lines[line].spend();
            self.heads.push(Reverse((merit, head, line)));
        }
    }
}

/// The jobs of a class, one after another; of an array, those of its elements that wait.
#[derive(Clone)]
struct Line<'s> {
    class: &'s Class,
    /// As the policy has it.
    key: &'s ClassKey,
    jobs: btree_map::Iter<'s, (u64, JobId), Option<Array>>,
    /// The array whose elements come next with its rank, and the position to go on from.
    array: Option<((u64, JobId), &'s Array, u32)>,
    /// What goes before the rank.
    merit: i64,
    /// How many of its jobs were chosen to come before all others.
    chosen: usize,
}

impl Line<'_> {
    /// What goes before the rank of its next job, lowest first.
    fn spend(&mut self) -> i64 {
        let is_chosen = self.chosen > 0;
        self.chosen -= usize::from(is_chosen);
        if is_chosen { i64::MIN } else { self.merit.saturating_neg() }
    }
}

impl Iterator for Line<'_> {
    type Item = (u64, JobId);

    fn next(&mut self) -> Option<(u64, JobId)> {
        loop {
            if let Some(((rank, id), array, from)) = self.array.take()
                && let Some(position) = array.elements.waiting().next(from)
            {
                self.array = Some(((rank, id), array, position + 1));
                return Some((rank, JobId::element(id.number, array.indices.at(position))));
            }
            match self.jobs.next()? {
                (head, None) => return Some(*head),
                (head, Some(array)) => self.array = Some((*head, array, 0)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job::JobId;
    use crate::sched::fixture::cluster;

    #[test]
    fn jobs_start_by_number_whatever_their_class() {
        let scene = cluster("1 x ncpus=3")
            .queued(3, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1 walltime=5")
            .queued(1, "select=1:ncpus=1")
            .queued(4, "select=1:ncpus=1 walltime=5");
        assert_eq!(scene.starts(), "1 on n1; 2 on n1; 3 on n1");
    }

    #[test]
    fn the_elements_of_an_array_come_in_its_place_by_index() {
        let scene = cluster("1 x ncpus=4")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1 array=1-5:2")
            .queued(3, "select=1:ncpus=1");
        assert_eq!(scene.starts(), "1 on n1; 2[1] on n1; 2[3] on n1; 2[5] on n1");
    }

    #[test]
    fn a_million_elements_are_not_looked_at_one_by_one() {
        let scene = cluster("1 x ncpus=2").queued(1, "select=1:ncpus=1 array=0-999999").queued(2, "select=1:ncpus=1");
        assert_eq!((scene.starts().as_str(), scene.plan().considered), ("1[0] on n1; 1[1] on n1", 3));
    }

    #[test]
    fn a_rank_stands_above_the_number_within_a_class_and_between_classes() {
        let scene = |rank: &str| {
            cluster("1 x ncpus=1")
                .queued(1, "select=1:ncpus=1")
                .queued(2, "select=1:ncpus=1 walltime=5")
                .queued(3, format!("select=1:ncpus=1 {rank}").trim())
        };
        assert_eq!(scene("").starts(), "1 on n1");
        assert_eq!(scene("rank=0").starts(), "3 on n1");
        assert_eq!(scene("rank=1").starts(), "1 on n1", "ties go by the number");
        let mut scene = scene("rank=0");
        scene.state.withdraw(JobId::job(3));
        assert_eq!(scene.starts(), "1 on n1", "a job with a rank of its own is withdrawn like any other");
    }

    #[test]
    fn a_class_shares_its_refusal() {
        let mut scene = cluster("1 x ncpus=1").running(9000, "select=1:ncpus=1", "n1", 60);
        for job in 1..=100 {
            scene = scene.queued(job, if job % 2 == 0 { "select=1:ncpus=1" } else { "select=1:ncpus=2" });
        }
        let plan = scene.plan();
        assert_eq!((plan.considered, plan.verdicts.len()), (2, 2));
    }
}
