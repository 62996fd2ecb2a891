//! States of the subjobs of an array. They are stored as runs of equal states, so a million subjobs
//! in one state take no more space than one subjob.

use super::attempt::DELETED;
use crate::model::indices::spans::Spans;
pub use crate::model::indices::{Indices, NotIndices};
use crate::model::job_id::JobId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of a subjob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SubjobState {
    /// The subjob has never started, or is to be rerun after its end. A record of an earlier
    /// attempt is ignored.
    Waiting,
    /// The subjob has started and not finished. It has a record like any job.
    Begun,
    /// The subjob has finished with this `Exit_status`; 271 if it was deleted.
    Ended(i32),
}

/// States of all subjobs of an array, by position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elements {
    waiting: Spans,
    begun: Spans,
    ended: BTreeMap<i32, Spans>,
    /// Ranges of positions (first, last) with state changes since the last write to the spool.
    #[serde(skip)]
    unwritten: Vec<(u32, u32)>,
}

/// Number of subjobs in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjobCounts {
    /// Waiting subjobs.
    pub waiting: u32,
    /// Subjobs started and not finished.
    pub begun: u32,
    /// Finished subjobs.
    pub ended: u32,
}

/// Consecutive subjobs in the same state (a run): first position, last position, state.
pub type SubjobRange = (u32, u32, SubjobState);

impl Elements {
    /// Creates the states of `count` waiting subjobs.
    pub fn new(count: u32) -> Elements {
        let mut elements = Elements::default();
        elements.mark(0, count - 1, SubjobState::Waiting);
        elements
    }

    /// Creates the states of waiting subjobs at these positions. Other positions have no subjob.
    pub fn of(positions: &Spans) -> Elements {
        let mut elements = Elements::default();
        for (first, last) in positions.iter() {
            elements.mark(first, last, SubjobState::Waiting);
        }
        elements
    }

    /// Creates the subjob states described by these runs.
    pub fn of_runs(runs: impl IntoIterator<Item = SubjobRange>) -> Elements {
        let mut elements = Elements::default();
        for (first, last, state) in runs {
            elements.set(state).insert(first, last);
        }
        elements
    }

    /// Returns the state of the subjob at `position`; None if the array has no such subjob.
    pub fn subjob_state(&self, position: u32) -> Option<SubjobState> {
        self.sets()
            .find(|(_, set)| set.contains(position))
            .map(|(state, _)| state)
    }

    /// Returns each state, with the positions of the subjobs in that state.
    fn sets(&self) -> impl Iterator<Item = (SubjobState, &Spans)> {
        let sets = [
            (SubjobState::Waiting, &self.waiting),
            (SubjobState::Begun, &self.begun),
        ];
        let ended = self
            .ended
            .iter()
            .map(|(&status, set)| (SubjobState::Ended(status), set));
        sets.into_iter().chain(ended)
    }

    /// Sets the state of the subjobs from position `first` to position `last`.
    pub fn mark(&mut self, first: u32, last: u32, state: SubjobState) {
        self.waiting.remove(first, last);
        self.begun.remove(first, last);
        self.ended.retain(|_, set| {
            set.remove(first, last);
            !set.is_empty()
        });
        self.set(state).insert(first, last);
        self.unwritten.push((first, last));
    }

    fn set(&mut self, state: SubjobState) -> &mut Spans {
        match state {
            SubjobState::Waiting => &mut self.waiting,
            SubjobState::Begun => &mut self.begun,
            SubjobState::Ended(status) => self.ended.entry(status).or_default(),
        }
    }

    /// Returns the positions of the waiting subjobs.
    pub fn waiting(&self) -> &Spans {
        &self.waiting
    }

    /// Returns the positions of the started, unfinished subjobs.
    pub fn begun(&self) -> &Spans {
        &self.begun
    }

    /// Returns the positions of the finished subjobs, by `Exit_status`.
    pub fn ended(&self) -> &BTreeMap<i32, Spans> {
        &self.ended
    }

    /// Tests whether a change is not written to the spool yet.
    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Returns the number of runs of equal states.
    pub fn pieces(&self) -> usize {
        self.waiting.runs()
            + self.begun.runs()
            + self.ended.values().map(Spans::runs).sum::<usize>()
    }

    /// Returns the number of subjobs in each state.
    pub fn counts(&self) -> SubjobCounts {
        let ended = self.ended.values().map(Spans::len).sum();
        SubjobCounts {
            waiting: self.waiting.len(),
            begun: self.begun.len(),
            ended,
        }
    }

    /// Tests whether all subjobs have finished.
    pub fn are_finished(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    /// Tests whether all subjobs finished with status 0.
    pub fn are_successful(&self) -> bool {
        self.are_finished() && self.ended.keys().all(|&status| status == 0)
    }

    /// Returns the positions of the subjobs that finished with a status other than 0 and were not
    /// deleted.
    pub fn failed(&self) -> Spans {
        let mut failed = Spans::default();
        for (status, set) in &self.ended {
            if !matches!(*status, 0 | DELETED) {
                for (first, last) in set.iter() {
                    failed.insert(first, last);
                }
            }
        }
        failed
    }

    /// Tests whether all subjobs were deleted.
    pub(super) fn are_deleted(&self) -> bool {
        self.are_finished() && self.ended.keys().all(|&status| status == DELETED)
    }

    /// Returns the runs in order of position.
    pub fn runs(&self) -> Vec<SubjobRange> {
        self.runs_within(0, u32::MAX)
    }

    fn runs_within(&self, first: u32, last: u32) -> Vec<SubjobRange> {
        let mut runs = Vec::new();
        for (state, set) in self.sets() {
            let touching = set.touching(first, last);
            runs.extend(touching.map(|(first, last)| (first, last, state)));
        }
        runs.sort_unstable();
        runs
    }

    /// Returns the changes that the spool does not contain yet, and marks them as written; None
    /// without changes.
    pub fn take_unwritten(&mut self) -> Option<Rewrite> {
        let places = std::mem::take(&mut self.unwritten);
        if places.is_empty() {
            return None;
        }
        if places.len() > self.pieces() / 4 {
            // Rewriting all runs is cheaper than many small changes.
            return Some(Rewrite {
                gone: vec![(0, u32::MAX)],
                runs: self.runs(),
            });
        }
        let mut runs = Vec::new();
        for (first, last) in &places {
            runs.extend(self.runs_within(first.saturating_sub(1), last.saturating_add(1)));
        }
        runs.sort_unstable();
        runs.dedup();
        // The stored run that begins right after a changed range may now be part of a run that
        // begins earlier.
        let gone = places
            .iter()
            .map(|&(first, last)| (first, last.saturating_add(1)))
            .collect();
        Some(Rewrite { gone, runs })
    }
}

/// Change of the runs in the spool: first delete all runs that begin within `gone`, then store
/// `runs`. A stored run replaces a run with the same first position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Ranges of positions: the runs that begin in these ranges are deleted.
    pub gone: Vec<(u32, u32)>,
    /// Runs to store.
    pub runs: Vec<SubjobRange>,
}

/// Formats the indices at the positions in `set` as PBS does: `1,3,5-9:2`; `-` for an empty set.
pub fn shown(set: &Spans, indices: Indices) -> String {
    let spans: Vec<String> = set
        .iter()
        .map(|(first, last)| indices.between(first, last).to_string())
        .collect();
    if spans.is_empty() {
        "-".to_string()
    } else {
        spans.join(",")
    }
}

/// Returns the ids of an array's subjobs at the positions in `set`.
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
    fn waiting_subjobs_are_shown_as_indices() {
        let indices: Indices = "1-20:2".parse().unwrap();
        let mut elements = Elements::new(indices.count());
        elements.mark(0, 1, SubjobState::Ended(0));
        elements.mark(3, 3, SubjobState::Begun);
        assert_eq!(shown(elements.waiting(), indices), "5,9-19:2");
        assert_eq!(shown(&Spans::default(), indices), "-");
        assert_eq!(
            elements.counts(),
            SubjobCounts {
                waiting: 7,
                begun: 1,
                ended: 2
            }
        );
        let begun: Vec<JobId> = ids(JobId::array(4), elements.begun(), indices).collect();
        assert_eq!(begun, [JobId::element(4, 7)]);
    }

    #[test]
    fn an_array_is_successful_if_all_subjobs_ended_with_status_0() {
        let mut elements = Elements::new(3);
        elements.mark(0, 2, SubjobState::Ended(0));
        assert!(elements.are_successful());
        elements.mark(1, 1, SubjobState::Ended(3));
        assert!(elements.are_finished() && !elements.are_successful());
    }

    #[test]
    fn a_million_equal_states_are_one_run() {
        let mut elements = Elements::new(1_000_000);
        elements.mark(0, 499_999, SubjobState::Ended(0));
        assert_eq!(elements.runs().len(), 2);
    }

    fn subjob_state() -> impl Strategy<Value = SubjobState> {
        prop_oneof![
            Just(SubjobState::Waiting),
            Just(SubjobState::Begun),
            (0..3).prop_map(SubjobState::Ended)
        ]
    }

    proptest! {
        /// After each write, spool and memory contain the same runs.
        #[test]
        fn rewrites_keep_the_stored_runs_equal_to_those_in_memory(
            batches in prop::collection::vec(
                prop::collection::vec((0u32..40, 0u32..12, subjob_state()), 1..6),
                1..8,
            )
        ) {
            let mut elements = Elements::new(50);
            let mut plain = vec![SubjobState::Waiting; 50];
            let mut stored: BTreeMap<u32, (u32, SubjobState)> = BTreeMap::new();
            for batch in batches {
                for (first, more, state) in batch {
                    let last = (first + more).min(49);
                    elements.mark(first, last, state);
                    plain[first as usize..=last as usize].fill(state);
                }
                let rewrite = elements.take_unwritten().unwrap();
                for (first, last) in rewrite.gone {
                    stored.retain(|&start, _| start < first || start > last);
                }
                for (first, last, state) in rewrite.runs {
                    stored.insert(first, (last, state));
                }
                let runs: Vec<SubjobRange> = stored
                    .iter()
                    .map(|(&first, &(last, state))| (first, last, state))
                    .collect();
                prop_assert_eq!(&runs, &elements.runs());
                let again = Elements::of_runs(runs);
                for (position, state) in plain.iter().enumerate() {
                    prop_assert_eq!(again.subjob_state(position as u32), Some(*state));
                }
            }
        }
    }
}
