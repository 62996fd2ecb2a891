//! Compares the programs with the recordings of a real PBS (`../shared/spec/pbs-transcripts`):
//! every block is equal, or listed in `transcripts/differences.txt` with a reason.
//!
//! `LANAI_TRANSCRIPTS=DIR` writes the differences there, one file per recording.
//! `LANAI_TRANSCRIPTS_ONLY=03,05` selects recordings.

mod placeholders;
mod rows;
mod runner;
mod tables;
mod verdict;
pub mod world;

use crate::support::blocks::{self, Block};
use crate::support::root;
use runner::{Outcome, Player};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use tables::{Place, Reason};
use verdict::Verdict;

/// Number of recordings replayed at the same time. Most of the time they sleep.
const AT_ONCE: usize = 6;

/// Recordings that take longest; they start first.
const LONGEST: &[u8] = &[12, 10, 13, 5, 9, 7, 11, 3];

#[test]
fn every_recorded_block_is_equal_or_a_listed_difference() {
    let Some(files) = recordings() else { return };
    if let Some(why) = world::missing() {
        return println!("transcripts: skipped: {why}");
    }
    let (directions, differences) = (tables::directions(), tables::differences());
    let known: BTreeSet<Place> = differences.keys().copied().collect();
    let (waiting, outcomes) = (Mutex::new(files), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((file, blocks)) = { waiting.lock().unwrap().pop() } {
                    let player = Player {
                        file,
                        directions: &directions,
                        known: &known,
                    };
                    let played = player.play(&blocks);
                    runner::write_differences(file, &played);
                    outcomes.lock().unwrap().extend(played);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{}", report(&outcomes, &differences));
    let failures: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| failure(outcome, &differences))
        .collect();
    assert!(
        failures.is_empty(),
        "{} unexpected results\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// All recordings, the longest last. None, with a message on standard output, if there are none.
fn recordings() -> Option<Vec<(u8, Vec<Block>)>> {
    let folder = root().join("../shared/spec/pbs-transcripts");
    let only = std::env::var("LANAI_TRANSCRIPTS_ONLY").unwrap_or_default();
    let mut found: Vec<(u8, Vec<Block>)> = crate::support::files(&folder)
        .iter()
        .filter_map(|path| {
            let number = path
                .file_name()?
                .to_str()?
                .strip_suffix(".t")?
                .split('-')
                .next()?;
            let is_selected = only.is_empty() || only.split(',').any(|selected| selected == number);
            Some((
                number.parse().ok()?,
                blocks::read(path).filter(|_| is_selected)?,
            ))
        })
        .collect();
    if found.is_empty() {
        println!("transcripts: skipped: no {}", folder.display());
        return None;
    }
    let rank = |file: &u8| {
        LONGEST
            .iter()
            .position(|long| long == file)
            .unwrap_or(LONGEST.len())
    };
    found.sort_by_key(|(file, _)| std::cmp::Reverse(rank(file)));
    Some(found)
}

/// Describes a block that differs without a listed reason, or no longer differs; None if it is as
/// expected.
fn failure(outcome: &Outcome, differences: &BTreeMap<Place, Reason>) -> Option<String> {
    let (file, line) = outcome.place;
    match (outcome.verdict, differences.get(&outcome.place)) {
        (Verdict::Differs, None) => {
            Some(format!("{file:02}:{line} differs\n{}", outcome.difference))
        }
        (Verdict::Same | Verdict::MoreText, Some(reason)) if !reason.depends_on_timing() => {
            Some(format!("{file:02}:{line} no longer differs: {reason:?}"))
        }
        _ => None,
    }
}

/// Number of equal blocks per file, and of the other blocks by category.
fn report(outcomes: &[Outcome], differences: &BTreeMap<Place, Reason>) -> String {
    let mut counts: BTreeMap<u8, [usize; 4]> = BTreeMap::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes {
        let count = counts.entry(outcome.place.0).or_default();
        count[0] += 1;
        count[1 + outcome.verdict as usize] += 1;
        if outcome.verdict == Verdict::Differs {
            let reason = differences
                .get(&outcome.place)
                .map_or("not listed", |reason| &reason.category);
            *kinds.entry(reason.into()).or_default() += 1;
        }
    }
    let line = |(file, [all, same, more, differ]): (String, [usize; 4])| {
        format!("{file:>4} {all:6} {same:6} {more:10} {differ:8}\n")
    };
    let sum = counts.values().fold([0; 4], |sum, count| {
        std::array::from_fn(|at| sum[at] + count[at])
    });
    let rows: String = counts
        .into_iter()
        .map(|(file, count)| line((format!("{file:02}"), count)))
        .collect();
    format!(
        "file blocks   same  more text  differs\n{rows}{}{kinds:?}",
        line(("all".into(), sum))
    )
}
