//! Arrays of jobs: which indices one has, and how each of its elements stands, in sets of runs, so
//! that a million elements that stand alike cost no more than one.

use super::job::{Attempt, Exit, Job, JobId, Life, Want};
use super::life::{DELETED, Moment};
use super::spans::Spans;
use super::state::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// `X-Y[:Z]`: the indices from X to Y, each Z-th.
///
/// The k-th of them is its *position* k: elements are kept by position, because positions lie
/// close together whatever the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Indices {
    first: u32,
    last: u32,
    step: u32,
}

impl Indices {
    /// The indices from `first` to `last`, each `step`-th; None when there are none.
    pub fn new(first: u32, last: u32, step: u32) -> Option<Indices> {
        (first <= last && step > 0 && last < u32::MAX).then_some(Indices { first, last, step })
    }

    /// One index alone.
    pub fn one(index: u32) -> Indices {
        Indices { first: index, last: index, step: 1 }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        (self.last - self.first) / self.step + 1
    }

    /// The index at a position below [`Indices::count`].
    pub fn at(self, position: u32) -> u32 {
        self.first + position * self.step
    }

    /// Whether none is left out between the first and the last.
    pub fn is_dense(self) -> bool {
        self.step == 1 || self.count() == 1
    }

    /// The position of an index, if it is one of them.
    pub fn position(self, index: u32) -> Option<u32> {
        let beyond = index.checked_sub(self.first)?;
        (index <= self.last && beyond.is_multiple_of(self.step)).then_some(beyond / self.step)
    }

    /// The largest index.
    pub fn largest(self) -> u32 {
        self.at(self.count() - 1)
    }

    /// Those that are also among `others`; None if there are none.
    pub fn common(self, others: Indices) -> Option<Indices> {
        let (coarse, fine) = if self.step >= others.step { (self, others) } else { (others, self) };
        let wide = |index: u32| u64::from(index);
        let (low, high) = (self.first.max(others.first), self.last.min(others.last));
        let steps = wide(low - coarse.first).div_ceil(wide(coarse.step));
        let start = wide(coarse.first) + steps * wide(coarse.step);
        // What remains when divided by the finer step comes again after so many of the coarser.
        let candidates = (0..wide(fine.step)).map(|k| start + k * wide(coarse.step));
        let mut candidates = candidates.take_while(|&index| index <= wide(high));
        let first = candidates.find(|&index| (index - wide(fine.first)).is_multiple_of(wide(fine.step)))?;
        let step = wide(coarse.step) / gcd(wide(coarse.step), wide(fine.step)) * wide(fine.step);
        // A step beyond the last index is as good as any.
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        Indices::new(u32::try_from(first).ok()?, high, step)
    }

    /// The positions of `some` of these, as numbers in steps.
    pub fn positions(self, some: Indices) -> Option<Indices> {
        let common = self.common(some)?;
        let last = self.position(common.largest())?;
        Some(Indices { first: self.position(common.first)?, last, step: (common.step / self.step).max(1) })
    }

    /// As `-J` writes them: always with both bounds.
    pub fn submitted(self) -> String {
        match self.step {
            1 => format!("{}-{}", self.first, self.last),
            step => format!("{}-{}:{step}", self.first, self.last),
        }
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.count()).map(move |position| self.at(position))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Indices {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.count(), self.step) {
            (1, _) => write!(f, "{}", self.first),
            (_, 1) => write!(f, "{}-{}", self.first, self.last),
            (_, step) => write!(f, "{}-{}:{step}", self.first, self.last),
        }
    }
}

/// Not indices: `X`, `X-Y` or `X-Y:Z` with X at most Y and Z at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a range of indices")]
pub struct NotIndices;

impl FromStr for Indices {
    type Err = NotIndices;

    fn from_str(text: &str) -> Result<Indices, NotIndices> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().ok_or(NotIndices)
        };
        let (bounds, step) = text.split_once(':').unwrap_or((text, "1"));
        let (first, last) = bounds.split_once('-').unwrap_or((bounds, bounds));
        Indices::new(number(first)?, number(last)?, number(step)?).ok_or(NotIndices)
    }
}

/// How an element stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Standing {
    /// Never started: it has no record of its own.
    Waiting,
    /// Started and not over: a job like any other.
    Begun,
    /// Over, with this `Exit_status`; 271 also for one deleted before it started.
    Ended(i32),
}

/// The elements of an array, by position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elements {
    waiting: Spans,
    begun: Spans,
    ended: BTreeMap<i32, Spans>,
    /// Positions that stand otherwise than the spool has it.
    #[serde(skip)]
    unwritten: Vec<(u32, u32)>,
}

/// How many elements stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Not started yet.
    pub waiting: u32,
    /// Started and not over.
    pub begun: u32,
    /// Over.
    pub ended: u32,
}

/// A run of elements that stand alike: first and last position.
pub type Run = (u32, u32, Standing);

impl Elements {
    /// So many that wait.
    pub fn new(count: u32) -> Elements {
        let mut elements = Elements::default();
        elements.mark(0, count - 1, Standing::Waiting);
        elements
    }

    /// The elements that these runs make up.
    pub fn of_runs(runs: impl IntoIterator<Item = Run>) -> Elements {
        let mut elements = Elements::default();
        for (first, last, standing) in runs {
            elements.set(standing).insert(first, last);
        }
        elements
    }

    /// How the element at this position stands; None if there is none.
    pub fn standing(&self, position: u32) -> Option<Standing> {
        let sets = [(Standing::Waiting, &self.waiting), (Standing::Begun, &self.begun)];
        let ended = self.ended.iter().map(|(&status, set)| (Standing::Ended(status), set));
        sets.into_iter().chain(ended).find(|(_, set)| set.contains(position)).map(|(standing, _)| standing)
    }

    /// From now on the elements from `first` to `last` stand so.
    pub fn mark(&mut self, first: u32, last: u32, standing: Standing) {
        self.waiting.remove(first, last);
        self.begun.remove(first, last);
        self.ended.values_mut().for_each(|set| set.remove(first, last));
        self.ended.retain(|_, set| !set.is_empty());
        self.set(standing).insert(first, last);
        self.unwritten.push((first, last));
    }

    fn set(&mut self, standing: Standing) -> &mut Spans {
        match standing {
            Standing::Waiting => &mut self.waiting,
            Standing::Begun => &mut self.begun,
            Standing::Ended(status) => self.ended.entry(status).or_default(),
        }
    }

    /// Those that wait.
    pub fn waiting(&self) -> &Spans {
        &self.waiting
    }

    /// Those that have started and are not over.
    pub fn begun(&self) -> &Spans {
        &self.begun
    }

    /// Those that ended, by `Exit_status`.
    pub fn ended(&self) -> &BTreeMap<i32, Spans> {
        &self.ended
    }

    /// Whether the spool has still to be told of a change.
    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// In how many runs they are kept.
    pub fn pieces(&self) -> usize {
        self.waiting.runs() + self.begun.runs() + self.ended.values().map(Spans::runs).sum::<usize>()
    }

    /// How many stand how.
    pub fn counts(&self) -> Counts {
        let ended = self.ended.values().map(Spans::len).sum();
        Counts { waiting: self.waiting.len(), begun: self.begun.len(), ended }
    }

    /// Whether none waits or runs any more.
    pub fn are_over(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    /// Whether all ended well.
    pub fn are_ok(&self) -> bool {
        self.are_over() && self.ended.keys().all(|&status| status == 0)
    }

    /// Those that ended otherwise than well, but for those that were deleted.
    pub fn failed(&self) -> impl Iterator<Item = &Spans> {
        self.ended.iter().filter(|(status, _)| !matches!(**status, 0 | DELETED)).map(|(_, set)| set)
    }

    /// Whether all were deleted.
    fn are_deleted(&self) -> bool {
        self.are_over() && self.ended.keys().all(|&status| status == DELETED)
    }

    /// The runs, in order.
    pub fn runs(&self) -> Vec<Run> {
        self.runs_within(0, u32::MAX)
    }

    fn runs_within(&self, first: u32, last: u32) -> Vec<Run> {
        let sets = [(Standing::Waiting, &self.waiting), (Standing::Begun, &self.begun)];
        let ended = self.ended.iter().map(|(&status, set)| (Standing::Ended(status), set));
        let within = |(standing, set): (Standing, &Spans)| {
            set.touching(first, last).map(|(first, last)| (first, last, standing)).collect::<Vec<_>>()
        };
        let mut runs: Vec<Run> = sets.into_iter().chain(ended).flat_map(within).collect();
        runs.sort_unstable();
        runs
    }

    /// What the spool has still to be told, once: where runs may have begun that do so no longer,
    /// and the runs that lie there now or next to it.
    pub fn take_unwritten(&mut self) -> Option<Rewrite> {
        let places = std::mem::take(&mut self.unwritten);
        if places.is_empty() {
            return None;
        }
        let near = |&(first, last): &(u32, u32)| self.runs_within(first.saturating_sub(1), last.saturating_add(1));
        let mut runs: Vec<Run> = places.iter().flat_map(near).collect();
        runs.sort_unstable();
        runs.dedup();
        // The run that follows a place may have begun within it.
        let gone = places.iter().map(|&(first, last)| (first, last.saturating_add(1))).collect();
        Some(Rewrite { gone, runs })
    }
}

/// A change of stored runs: first all that begin within `gone` go, then `runs` come, each in the
/// place of one that begins where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// First and last position.
    pub gone: Vec<(u32, u32)>,
    /// The runs to be there afterwards.
    pub runs: Vec<Run>,
}

/// What becomes of an array as its elements come and go.
impl Job {
    /// How the element of this index stands; None if there is none.
    pub fn standing(&self, index: u32) -> Option<Standing> {
        self.elements.as_ref()?.standing(self.indices()?.position(index)?)
    }

    /// An element of this array that has no record of its own: it has never started, or is to run once
    /// more from the beginning. None if there is no such index.
    pub fn unrecorded(&self, index: u32) -> Option<Job> {
        let standing = self.standing(index)?;
        let mut life = Life { comment: None, began: None, ..self.life.clone() };
        match standing {
            Standing::Ended(status) => {
                life.state = State::Finished;
                life.exit = Some(Exit { status, deleted: true });
                life.obittime = self.life.obittime.or(Some(self.life.mtime));
            }
            _ if self.life.state == State::Begun => life.state = State::Queued,
            _ => {}
        }
        let id = JobId::element(self.id.number, index);
        Some(Job { id, owner: self.owner.clone(), spec: self.spec.clone(), life, elements: None })
    }

    /// From now on one of its elements stands so; an array whose last element is over is over, well
    /// if all of them are.
    pub fn element_stands(&mut self, index: u32, standing: Standing, moment: Moment) {
        let position = self.indices().and_then(|indices| indices.position(index));
        if let (Some(position), Some(elements)) = (position, self.elements.as_mut().map(Arc::make_mut)) {
            elements.mark(position, position, standing);
            if standing == Standing::Begun {
                self.life.began.get_or_insert(moment.now);
            }
            self.life.mtime = moment.now;
            self.conclude(moment);
        }
    }

    /// Those of its elements that have never started, from one position to another, never will.
    pub fn end_waiting(&mut self, first: u32, last: u32, moment: Moment) {
        if let Some(elements) = self.elements.as_mut().map(Arc::make_mut) {
            let waiting: Vec<(u32, u32)> = elements.waiting().within(first, last).collect();
            waiting.into_iter().for_each(|(first, last)| elements.mark(first, last, Standing::Ended(DELETED)));
            self.life.mtime = moment.now;
            self.conclude(moment);
        }
    }

    /// Those of its elements that have failed wait again; their next attempt is above any before.
    pub fn run_failed_again(&mut self, highest: Attempt, moment: Moment) {
        let Some(elements) = self.elements.as_mut().map(Arc::make_mut) else { return };
        let failed: Vec<(u32, u32)> = elements.failed().flat_map(Spans::iter).collect();
        failed.into_iter().for_each(|(first, last)| elements.mark(first, last, Standing::Waiting));
        let life = &mut self.life;
        (life.attempt, life.state, life.want) = (life.attempt.max(highest), State::Begun, Want::Run);
        (life.exit, life.obittime, life.mtime) = (None, None, moment.now);
        self.settle(moment);
    }

    fn conclude(&mut self, moment: Moment) {
        let Some(elements) = self.elements.as_ref() else { return };
        match (&self.life.want, elements.are_over()) {
            (_, false) => self.settle(moment),
            (_, true) if self.life.state == State::Finished => {}
            (Want::Gone(_), true) => self.finish(DELETED, true, moment),
            (_, true) if elements.are_deleted() => self.finish(DELETED, true, moment),
            (_, true) => self.finish(i32::from(!elements.are_ok()), false, moment),
        }
    }
}

/// The indices of positions, as PBS lists them: `1,3,5-9:2`; `-` for none.
pub fn shown(set: &Spans, indices: Indices) -> String {
    let span = |(first, last): (u32, u32)| Indices { first: indices.at(first), last: indices.at(last), ..indices };
    let spans: Vec<String> = set.iter().map(|runs| span(runs).to_string()).collect();
    if spans.is_empty() { "-".to_string() } else { spans.join(",") }
}

/// The ids of an array's elements at these positions.
pub fn ids(array: JobId, set: &Spans, indices: Indices) -> impl Iterator<Item = JobId> {
    let positions = set.iter().flat_map(|(first, last)| first..=last);
    positions.map(move |position| JobId::element(array.number, indices.at(position)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn indices_are_read_counted_and_shown() {
        let odd: Indices = "1-10:2".parse().unwrap();
        assert_eq!((odd.count(), odd.largest(), odd.to_string().as_str()), (5, 9, "1-10:2"));
        assert_eq!(odd.iter().collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
        assert_eq!((odd.position(7), odd.position(8), odd.position(11), odd.position(0)), (Some(3), None, None, None));
        assert_eq!("7".parse::<Indices>().unwrap().to_string(), "7");
        for bad in ["", "-", "1-", "-1", "3-1", "1-3:0", "1-3:", "+1-3", "1-3:2:1", "4294967295"] {
            assert!(bad.parse::<Indices>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn common_indices_are_those_in_both(a in range(), b in range()) {
            let both: Vec<u32> = a.iter().filter(|&index| b.position(index).is_some()).collect();
            let found: Vec<u32> = a.common(b).into_iter().flat_map(Indices::iter).collect();
            prop_assert_eq!(&found, &both);
            let positions: Vec<u32> = both.iter().filter_map(|&index| a.position(index)).collect();
            prop_assert_eq!(a.positions(b).into_iter().flat_map(Indices::iter).collect::<Vec<_>>(), positions);
        }
    }

    fn range() -> impl Strategy<Value = Indices> {
        (0u32..40, 0u32..60, 1u32..12).prop_map(|(first, more, step)| Indices::new(first, first + more, step).unwrap())
    }

    #[test]
    fn ranges_as_wide_as_can_be_are_compared_at_once() {
        let read = |text: &str| text.parse::<Indices>().unwrap();
        let (all, sparse) = (read("0-4294967294"), read("7-4294967294:65537"));
        assert_eq!(all.common(sparse).map(Indices::count), Some(sparse.count()));
        assert_eq!(sparse.common(read("0-4294967294:65536")).unwrap().iter().next(), Some(4_294_574_080));
        assert_eq!(read("0-8:2").common(read("1-9:2")), None);
        assert_eq!((read("1-10:20").submitted(), read("1-3").submitted()), ("1-10:20".into(), "1-3".into()));
    }

    #[test]
    fn what_remains_is_shown_as_indices() {
        let indices: Indices = "1-20:2".parse().unwrap();
        let mut elements = Elements::new(indices.count());
        elements.mark(0, 1, Standing::Ended(0));
        elements.mark(3, 3, Standing::Begun);
        assert_eq!(shown(elements.waiting(), indices), "5,9-19:2");
        assert_eq!(shown(&Spans::default(), indices), "-");
        assert_eq!(elements.counts(), Counts { waiting: 7, begun: 1, ended: 2 });
        let begun: Vec<JobId> = ids(JobId::array(4), elements.begun(), indices).collect();
        assert_eq!(begun, [JobId::element(4, 7)]);
    }

    #[test]
    fn an_array_is_ok_when_all_ended_so() {
        let mut elements = Elements::new(3);
        elements.mark(0, 2, Standing::Ended(0));
        assert!(elements.are_ok());
        elements.mark(1, 1, Standing::Ended(3));
        assert!(elements.are_over() && !elements.are_ok());
    }

    #[test]
    fn a_million_elements_alike_are_one_run() {
        let mut elements = Elements::new(1_000_000);
        elements.mark(0, 499_999, Standing::Ended(0));
        assert_eq!(elements.runs().len(), 2);
    }

    fn standing() -> impl Strategy<Value = Standing> {
        prop_oneof![Just(Standing::Waiting), Just(Standing::Begun), (0..3).prop_map(Standing::Ended)]
    }

    proptest! {
        /// What the spool holds after any changes, in any batches, is what memory holds.
        #[test]
        fn rewrites_keep_the_stored_runs_true(
            batches in prop::collection::vec(prop::collection::vec((0u32..40, 0u32..12, standing()), 1..6), 1..8)
        ) {
            let mut elements = Elements::new(50);
            let mut plain = vec![Standing::Waiting; 50];
            let mut stored: BTreeMap<u32, (u32, Standing)> = BTreeMap::new();
            for batch in batches {
                for (first, more, standing) in batch {
                    let last = (first + more).min(49);
                    elements.mark(first, last, standing);
                    plain[first as usize..=last as usize].fill(standing);
                }
                let rewrite = elements.take_unwritten().unwrap();
                for (first, last) in rewrite.gone {
                    stored.retain(|&start, _| start < first || start > last);
                }
                stored.extend(rewrite.runs.into_iter().map(|(first, last, standing)| (first, (last, standing))));
                let runs: Vec<Run> = stored.iter().map(|(&first, &(last, standing))| (first, last, standing)).collect();
                prop_assert_eq!(&runs, &elements.runs());
                let again = Elements::of_runs(runs);
                for (position, standing) in plain.iter().enumerate() {
                    prop_assert_eq!(again.standing(position as u32), Some(*standing));
                }
            }
        }
    }
}
