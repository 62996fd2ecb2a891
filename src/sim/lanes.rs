//! Assigns numbered processors to jobs for a plot. The replay itself only counts the processors of
//! each job. A job gets adjacent processors if possible, otherwise the lowest free processors in
//! several pieces.

use super::replay::Outcome;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Adjacent processors of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the job's outcome.
    pub job: usize,
    /// The first processor, from 0.
    pub first: u32,
    /// The number of processors.
    pub count: u32,
}

/// Assigns processors to each job. The jobs have run on a machine with this many processors.
pub fn assign(outcomes: &[Outcome], processors: u32) -> Vec<Piece> {
    let mut order: Vec<usize> = (0..outcomes.len()).collect();
    order.sort_by_key(|&job| outcomes[job].start);
    let (mut free, mut ends) = (Gaps::new(processors), BinaryHeap::new());
    let mut pieces = Vec::with_capacity(outcomes.len());
    for job in order {
        let is_over = |Reverse((end, ..)): &Reverse<(i64, u32, u32)>| *end <= outcomes[job].start;
        while let Some(Reverse((_, first, count))) = ends.peek().copied().filter(is_over) {
            ends.pop();
            free.release(first, count);
        }
        for (first, count) in free.allocate(outcomes[job].job.processors) {
            ends.push(Reverse((outcomes[job].end(), first, count)));
            pieces.push(Piece { job, first, count });
        }
    }
    pieces
}

/// Free processors: the first processor of each gap, and the gap's width.
struct Gaps(BTreeMap<u32, u32>);

impl Gaps {
    fn new(processors: u32) -> Gaps {
        Gaps([(0, processors)].into())
    }

    /// Allocates `count` processors from the first gap that is wide enough, or from the lowest gaps
    /// if no gap is wide enough.
    fn allocate(&mut self, count: u32) -> Vec<(u32, u32)> {
        let whole = self
            .0
            .iter()
            .find(|(_, width)| **width >= count)
            .map(|(first, _)| *first);
        let (mut taken, mut left) = (Vec::new(), count);
        while left > 0
            && let Some(first) = whole.or_else(|| self.0.keys().next().copied())
        {
            let width = self.0.remove(&first).unwrap_or(0);
            let part = width.min(left);
            if part < width {
                self.0.insert(first + part, width - part);
            }
            taken.push((first, part));
            left -= part;
        }
        taken
    }

    fn release(&mut self, first: u32, count: u32) {
        let below = self
            .0
            .range(..first)
            .next_back()
            .map(|(&start, &width)| (start, width));
        let above = self.0.remove(&(first + count)).unwrap_or(0);
        match below.filter(|(start, width)| start + width == first) {
            Some((start, width)) => self.0.insert(start, width + count + above),
            None => self.0.insert(first, count + above),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::Via;
    use super::super::trace::TraceJob;
    use super::*;

    fn outcome(start: i64, run: i64, processors: u32) -> Outcome {
        let job = TraceJob {
            id: 0,
            submit: start,
            run,
            estimate: run,
            processors,
            user: 0,
            executable: -1,
        };
        Outcome {
            job,
            start,
            nodes: "".into(),
            via: Via::Priority,
        }
    }

    #[test]
    fn jobs_get_adjacent_processors_or_several_pieces() {
        let outcomes = [
            outcome(0, 10, 2),
            outcome(0, 5, 1),
            outcome(0, 10, 1),
            outcome(5, 5, 4),
            outcome(10, 1, 8),
        ];
        let pieces: Vec<_> = assign(&outcomes, 8)
            .iter()
            .map(|p| (p.job, p.first, p.count))
            .collect();
        assert_eq!(
            pieces,
            [(0, 0, 2), (1, 2, 1), (2, 3, 1), (3, 4, 4), (4, 0, 8)]
        );
        let outcomes = [outcome(0, 5, 2), outcome(0, 9, 1), outcome(5, 4, 3)];
        let pieces: Vec<_> = assign(&outcomes, 4)
            .iter()
            .map(|p| (p.job, p.first, p.count))
            .collect();
        assert_eq!(pieces, [(0, 0, 2), (1, 2, 1), (2, 0, 2), (2, 3, 1)]);
    }

    #[test]
    fn no_two_jobs_share_a_processor() {
        let outcomes: Vec<Outcome> = (0..500)
            .map(|step| outcome(step, 1 + step * 7 % 13, 1 + (step * 5 % 7) as u32))
            .collect();
        let pieces = assign(&outcomes, 200);
        for (at, one) in pieces.iter().enumerate() {
            for other in &pieces[..at] {
                let (a, b) = (&outcomes[one.job], &outcomes[other.job]);
                let in_time = a.start < b.end() && b.start < a.end();
                let in_space =
                    one.first < other.first + other.count && other.first < one.first + one.count;
                assert!(!(in_time && in_space), "{one:?} {other:?}");
            }
        }
    }
}
