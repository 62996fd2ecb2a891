//! Repeats the cycles of a recording (`[cycle] record`): with the same state, policy and time, each
//! cycle must make the same decisions as in the recording (M53, G6).

use crate::model::policy::Policy;
use crate::sched::cycle;
use crate::sched::view::change::RecordedEntry;
use crate::sched::view::snapshot::ClusterState;
use std::io::{self, BufRead};

/// The result of repeating a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The number of cycles that gave the recorded plan.
    pub cycles: usize,
    /// The first plan that differs from the recorded plan; None if there is none.
    pub difference: Option<Deviation>,
    /// Whether schedd stopped recording because the file reached its maximum size.
    pub is_cut: bool,
}

/// A plan that differs from the recorded plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The line of the recording.
    pub line: usize,
    /// The recorded plan.
    pub recorded: String,
    /// The plan of the repetition.
    pub made: String,
}

/// Why a recording cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line that is not part of a recording.
    #[error(
        "line {line}: the line is not part of a recording ({why}): to record cycles, set the key \
         `record` in [cycle]"
    )]
    Malformed {
        /// The line number.
        line: usize,
        /// The error in the line.
        why: String,
    },
    /// An entry before the first `Begin`.
    #[error("line {line}: the recording is incomplete: its first line is missing")]
    NoBeginning {
        /// The line number.
        line: usize,
    },
    /// A recording without cycles.
    #[error("the recording has no cycles")]
    Empty,
}

/// Reads a line of a recording.
fn read_entry(line: &[u8]) -> Result<RecordedEntry<'static>, String> {
    let text = str::from_utf8(line).map_err(|error| error.to_string())?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The lines of a plan without the sentences about why jobs wait and why planned starts move. These
/// sentences may change from version to version.
fn decisions(plan: &str) -> impl Iterator<Item = &str> {
    plan.lines().map(|line| match line.split_once(' ') {
        Some(("wait", rest)) => rest.trim_start().split(' ').next().unwrap_or(rest),
        Some(("book", _)) if line.contains(", not in ") => {
            line.split_once(": ").map_or(line, |(decision, _)| decision)
        }
        _ => line,
    })
}

/// Repeats the cycles of a recording up to the first difference.
pub fn replay(recording: impl BufRead) -> Result<Replayed, RecordingError> {
    let mut replayed = Replayed {
        cycles: 0,
        difference: None,
        is_cut: false,
    };
    let mut world: Option<(ClusterState, Policy)> = None;
    let mut incomplete = None;
    for (number, text) in recording.split(b'\n').enumerate() {
        let (line, text) = (number + 1, text?);
        let entry = match (read_entry(&text), incomplete.take()) {
            (Ok(entry @ RecordedEntry::Begin { .. }), _) | (Ok(entry), None) => entry,
            // A schedd that is killed can leave an incomplete line. The next line must then begin a
            // new recording.
            (Err(why), None) => {
                incomplete = Some(RecordingError::Malformed { line, why });
                continue;
            }
            (_, Some(fault)) => return Err(fault),
        };
        match (entry, &mut world) {
            (RecordedEntry::Begin { resources, policy }, world) => {
                *world = Some((ClusterState::new(&resources), policy.into_owned()))
            }
            (RecordedEntry::Full, _) => replayed.is_cut = true,
            (_, None) => return Err(RecordingError::NoBeginning { line }),
            (RecordedEntry::Policy(now), Some((_, policy))) => *policy = now.into_owned(),
            (RecordedEntry::Change(change), Some((state, _))) => state.make(&change),
            (RecordedEntry::Cycle { now, plan, .. }, Some((state, policy))) => {
                state.prioritise(policy, now);
                let decided = cycle::run(state, policy, now);
                let made = decided.to_string();
                state.take_over(&decided);
                if !decisions(&made).eq(decisions(&plan)) {
                    replayed.difference = Some(Deviation {
                        line,
                        recorded: plan.into_owned(),
                        made,
                    });
                    return Ok(replayed);
                }
                replayed.cycles += 1;
            }
        }
    }
    match incomplete {
        _ if replayed.cycles > 0 => Ok(replayed),
        Some(fault) => Err(fault),
        None => Err(RecordingError::Empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;
    use crate::sched::fixture::{cluster, queue, resources};
    use crate::sched::view::change::Change;
    use std::borrow::Cow;

    fn recording() -> String {
        let fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=3");
        let job = fixture.job(1, "select=1:ncpus=3");
        let entries = [
            RecordedEntry::Begin {
                resources: Cow::Owned(resources()),
                policy: Cow::Owned(Policy::default()),
            },
            RecordedEntry::Change(Change::Queue(Cow::Owned(queue("workq", true)))),
            RecordedEntry::Change(Change::Waits(Box::new(Cow::Owned(job)))),
            RecordedEntry::Cycle {
                now: Time(0),
                triggers: Default::default(),
                plan: Cow::Owned(cluster("").queued(1, "select=1:ncpus=3").plan().to_string()),
            },
        ];
        entries
            .iter()
            .map(|entry| serde_json::to_string(entry).unwrap() + "\n")
            .collect()
    }

    #[test]
    fn an_altered_recording_gives_a_deviation() {
        let text = recording();
        assert_eq!(
            replay(text.as_bytes()).unwrap(),
            Replayed {
                cycles: 1,
                difference: None,
                is_cut: false
            }
        );
        let altered = text.replace("wait   ", "wait   x");
        assert_ne!(altered, text);
        let difference = replay(altered.as_bytes()).unwrap().difference.unwrap();
        assert_eq!(difference.line, 4);
        assert!(difference.recorded.contains("wait   x") && !difference.made.contains("wait   x"));
    }

    #[test]
    fn the_sentence_of_a_reason_may_differ_from_the_recording() {
        let text = recording();
        let altered = text.replace("No nodes", "No node");
        assert_ne!(altered, text);
        assert_eq!(replay(altered.as_bytes()).unwrap().difference, None);
    }

    #[test]
    fn sentences_are_no_part_of_the_decisions() {
        let plan = |cause: &str, reason: &str| {
            format!(
                "start  1  n1, for 01:00:00\nbook   2  n1,n2, in 01:00:00, not in 00:30:00: {cause}\n\
                 book   3  n3, in 01:00:00\nwait   0badc0de  {reason}\n"
            )
        };
        let first = plan("job 1 runs longer: 01:00:00", "Not Running: a limit");
        let expected = [
            "start  1  n1, for 01:00:00",
            "book   2  n1,n2, in 01:00:00, not in 00:30:00",
            "book   3  n3, in 01:00:00",
            "0badc0de",
        ];
        assert_eq!(decisions(&first).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_changed_policy_applies_to_the_following_cycles() {
        let text = recording();
        let walltime = |seconds| Policy {
            default_walltime: crate::model::time::Span::seconds(seconds),
            ..Policy::default()
        };
        let policy =
            serde_json::to_string(&RecordedEntry::Policy(Cow::Owned(walltime(60)))).unwrap();
        let last = text.lines().last().unwrap();
        let replayed = replay(format!("{text}{policy}\n{last}\n").as_bytes()).unwrap();
        assert_eq!((replayed.cycles, replayed.difference), (2, None));
    }

    #[test]
    fn a_recording_can_begin_again_after_an_incomplete_line() {
        let text = recording();
        let half = &text[..text.len() - 9];
        for (recording, cycles) in [
            (format!("{text}{half}\n{text}"), 2),
            (format!("{text}{half}"), 1),
        ] {
            assert_eq!(replay(recording.as_bytes()).unwrap().cycles, cycles);
        }
        let amid = text.replacen('\n', "\n{\n", 1);
        assert!(
            replay(amid.as_bytes())
                .unwrap_err()
                .to_string()
                .starts_with("line 2:")
        );
    }

    #[test]
    fn an_invalid_recording_is_reported_with_its_line() {
        let text = recording();
        let rest = text.split_once('\n').unwrap().1;
        assert_eq!(
            replay(rest.as_bytes())
                .unwrap_err()
                .to_string()
                .split(':')
                .next(),
            Some("line 1")
        );
        assert!(
            replay(&b"\xff\n"[..])
                .unwrap_err()
                .to_string()
                .contains("not part of a recording")
        );
        assert!(matches!(replay(&b""[..]), Err(RecordingError::Empty)));
    }
}
