//! Dependencies between jobs (`-W depend=`): their syntax and their kinds.

pub mod effects;
pub mod graph;
pub mod label;
pub mod progress;

use super::state::JobState;
use crate::model::job_id::JobId;
use crate::model::server_name::same_server;
use crate::model::text::is_word;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write;

/// Condition that a job must satisfy before another job may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DependencyCondition {
    /// The job has started.
    Begun,
    /// The job ended with status 0.
    EndedOk,
    /// The job ended with a status other than 0 or was deleted.
    EndedNotOk,
    /// The job ended with any status.
    Ended,
}

/// Kind of dependency of one job on another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DependencyKind {
    /// `after...`: this job waits for the other job.
    After(DependencyCondition),
    /// `before...`: the other job waits for this job.
    Before(DependencyCondition),
    /// `runone`: only one of the two jobs runs.
    RunOne,
}

impl DependencyKind {
    const NAMES: [(DependencyKind, &str); 9] = [
        (DependencyKind::After(DependencyCondition::Begun), "after"),
        (
            DependencyKind::After(DependencyCondition::EndedOk),
            "afterok",
        ),
        (
            DependencyKind::After(DependencyCondition::EndedNotOk),
            "afternotok",
        ),
        (
            DependencyKind::After(DependencyCondition::Ended),
            "afterany",
        ),
        (DependencyKind::Before(DependencyCondition::Begun), "before"),
        (
            DependencyKind::Before(DependencyCondition::EndedOk),
            "beforeok",
        ),
        (
            DependencyKind::Before(DependencyCondition::EndedNotOk),
            "beforenotok",
        ),
        (
            DependencyKind::Before(DependencyCondition::Ended),
            "beforeany",
        ),
        (DependencyKind::RunOne, "runone"),
    ];

    /// Returns the name in `depend`, such as `afterok`.
    pub fn name(self) -> &'static str {
        DependencyKind::NAMES
            .iter()
            .find(|&&(kind, _)| kind == self)
            .map_or("", |(_, name)| name)
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<DependencyKind> {
        DependencyKind::NAMES
            .iter()
            .find(|&&(_, known)| known == name)
            .map(|&(kind, _)| kind)
    }

    /// Returns the kind of the same dependency as seen from the other job.
    pub fn mirrored(self) -> DependencyKind {
        match self {
            DependencyKind::After(condition) => DependencyKind::Before(condition),
            DependencyKind::Before(condition) => DependencyKind::After(condition),
            DependencyKind::RunOne => DependencyKind::RunOne,
        }
    }
}

/// Condition on any job with a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Awaited {
    /// Condition to satisfy.
    pub condition: DependencyCondition,
    /// Label. Several jobs may have the same label.
    pub label: String,
}

/// Formats as in the value of `depend`: `afterok:@sim`.
impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{}:@{}",
            DependencyKind::After(self.condition).name(),
            self.label
        )
    }
}

/// Dependency on another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// Kind of dependency.
    pub kind: DependencyKind,
    /// Other job.
    pub job: JobId,
}

/// Dependency of a job, as stored. A `before...` dependency is stored as an `after...` dependency
/// of the other job. A set of `runone` jobs is identified by one of its jobs; each member depends
/// on that job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// Waiting job, or member of a `runone` set.
    pub job: JobId,
    /// Dependency on the other job.
    pub edge: Edge,
}

/// Dependency as displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyView {
    /// Dependency.
    pub edge: Edge,
    /// State of the other job; None if unknown.
    pub state: Option<JobState>,
}

/// Unsatisfied dependencies of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetDependencies {
    /// Number of unmet conditions on other jobs and on labels.
    pub unmet: u32,
    /// `on`: number of jobs that must still name this job in a `before...` dependency.
    pub on: u32,
    /// Job of the `runone` set that has started and not finished.
    pub rival: Option<JobId>,
    /// True if the job, or the waiting subjobs of the array, ended because a condition can never be
    /// satisfied.
    pub broken: bool,
}

impl UnmetDependencies {
    /// Tests whether all dependencies are satisfied.
    pub fn are_open(&self) -> bool {
        self.unmet == 0 && self.on == 0 && self.rival.is_none()
    }
}

/// Parsed value of `depend`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedDependency {
    /// `on`: number of jobs that must name this job in a `before...` dependency.
    pub on: u32,
    /// Dependencies on jobs, without duplicates, in the order given.
    pub edges: Vec<Edge>,
    /// Conditions on labels, without duplicates, in the order given.
    pub labels: Vec<Awaited>,
}

/// Error in a value of `depend`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyFault {
    /// The value is not of the form `kind:id[:id...][,...]`, or contains an unknown kind, or an
    /// operand that the kind does not accept, such as a subjob.
    Malformed,
    /// The value contains an invalid count, or a kind that is not supported (`synccount`,
    /// `syncwith`).
    Illegal,
    /// The value contains this job id of another server.
    Elsewhere(String),
}

impl ParsedDependency {
    /// Parses the value of `depend`. `server` is the name of this server; if None, job ids of all
    /// servers are accepted.
    pub fn parse(text: &str, server: Option<&str>) -> Result<ParsedDependency, DependencyFault> {
        let mut dependency = ParsedDependency::default();
        for clause in text.split(',') {
            let clause = clause.trim_start();
            if let Some(awaited) = callback(clause) {
                dependency.labels.push(awaited);
                continue;
            }
            let (word, operands) = clause.split_once(':').ok_or(DependencyFault::Malformed)?;
            match word {
                _ if operands.is_empty() => return Err(DependencyFault::Malformed),
                "on" => dependency.add_count(operands)?,
                "synccount" | "syncwith" => return Err(DependencyFault::Illegal),
                word => dependency.add_edges(word, operands, server)?,
            }
        }
        Ok(dependency.each_once())
    }

    fn each_once(mut self) -> ParsedDependency {
        let mut seen = BTreeSet::new();
        self.edges.retain(|&edge| seen.insert(edge));
        let mut seen = BTreeSet::new();
        self.labels.retain(|awaited| seen.insert(awaited.clone()));
        self
    }

    fn add_count(&mut self, text: &str) -> Result<(), DependencyFault> {
        let count = text
            .parse()
            .ok()
            .filter(|&count| count > 0)
            .ok_or(DependencyFault::Illegal)?;
        self.on = self.on.checked_add(count).ok_or(DependencyFault::Illegal)?;
        Ok(())
    }

    fn add_edges(
        &mut self,
        word: &str,
        operands: &str,
        server: Option<&str>,
    ) -> Result<(), DependencyFault> {
        let (kind, of_arrays) = kind_of(word).ok_or(DependencyFault::Malformed)?;
        for operand in operands.split(':').map(str::trim_start) {
            match (operand.strip_prefix('@'), kind) {
                (None, _) => {}
                (Some(label), DependencyKind::After(condition))
                    if !of_arrays && is_awaitable(label) =>
                {
                    self.labels.push(Awaited {
                        condition,
                        label: label.to_string(),
                    });
                    continue;
                }
                (Some(_), _) => return Err(DependencyFault::Malformed),
            }
            let job = job_of(operand, server)?;
            if of_arrays && !job.is_array() {
                return Err(DependencyFault::Malformed);
            }
            self.edges.push(Edge { kind, job });
        }
        Ok(())
    }

    /// Returns the dependencies of both values, with the sum of their `on` counts.
    pub fn with(mut self, more: ParsedDependency) -> ParsedDependency {
        self.on = self.on.saturating_add(more.on);
        self.edges.extend(more.edges);
        self.labels.extend(more.labels);
        self.each_once()
    }

    /// Tests whether the value contains no dependency.
    pub fn is_empty(&self) -> bool {
        self.on == 0 && self.edges.is_empty() && self.labels.is_empty()
    }
}

/// Maximum length of a label, which equals the maximum length of a job name.
const LONGEST: usize = 230;

/// Tests whether a text is a valid label or process group.
pub fn is_label(text: &str) -> bool {
    text.len() <= LONGEST && is_word(text, "-_.+")
}

/// Tests whether a text is a valid label, or a label with the index of a subjob, such as `sim[3]`.
pub fn is_awaitable(text: &str) -> bool {
    match frame(text) {
        Some((label, _)) => is_label(label),
        None => is_label(text),
    }
}

/// Splits `sim[3]` into label and index. None for a text without a valid index; an index with
/// leading zeros is invalid.
fn frame(text: &str) -> Option<(&str, u32)> {
    let (label, index) = text.strip_suffix(']')?.rsplit_once('[')?;
    let number: u32 = index.parse().ok()?;
    (number.to_string() == index).then_some((label, number))
}

/// Parses Qube's words for conditions on labels (Q29): `done-job-sim` is `afterok:@sim`, and
/// `done-frame-sim-3`, for one subjob, is `afterok:@sim[3]`.
fn callback(clause: &str) -> Option<Awaited> {
    const OF_FRAMES: [(&str, DependencyCondition); 3] = [
        ("done-frame-", DependencyCondition::EndedOk),
        ("failed-frame-", DependencyCondition::EndedNotOk),
        ("complete-frame-", DependencyCondition::Ended),
    ];
    const WORDS: [(&str, DependencyCondition); 3] = [
        ("done-job-", DependencyCondition::EndedOk),
        ("failed-job-", DependencyCondition::EndedNotOk),
        ("complete-job-", DependencyCondition::Ended),
    ];
    for (word, condition) in OF_FRAMES {
        if let Some(frame) = clause.strip_prefix(word) {
            let (label, index) = frame.rsplit_once('-')?;
            let label = format!("{label}[{index}]");
            return is_awaitable(&label).then_some(Awaited { condition, label });
        }
    }
    let (label, condition) = WORDS
        .into_iter()
        .find_map(|(word, condition)| Some((clause.strip_prefix(word)?, condition)))?;
    is_label(label).then(|| Awaited {
        condition,
        label: label.to_string(),
    })
}

/// Returns the kind of dependency with this name. The second value is true for TORQUE's names for
/// dependencies on arrays, such as `afterokarray` and `afterstartarray`.
fn kind_of(word: &str) -> Option<(DependencyKind, bool)> {
    let plain = DependencyKind::from_name(word).map(|kind| (kind, false));
    plain.or_else(|| {
        let stem = word.strip_suffix("array")?;
        let name = match stem {
            "afterstart" => "after",
            "beforestart" => "before",
            "after" | "before" | "runone" => return None,
            stem => stem,
        };
        DependencyKind::from_name(name).map(|kind| (kind, true))
    })
}

/// Parses `12` or `12[]`, optionally with `.server` or `@server`. Subjobs are refused.
fn job_of(text: &str, server: Option<&str>) -> Result<JobId, DependencyFault> {
    let (rest, at) = split_server(text, '@')?;
    let (id, dot) = split_server(rest, '.')?;
    let job: JobId = id.parse().map_err(|_| DependencyFault::Malformed)?;
    if job.index().is_some() || !id.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(DependencyFault::Malformed);
    }
    match (at.or(dot), server) {
        (Some(named), Some(ours)) if !same_server(named, ours) => {
            Err(DependencyFault::Elsewhere(text.to_string()))
        }
        _ => Ok(job),
    }
}

fn split_server(text: &str, separator: char) -> Result<(&str, Option<&str>), DependencyFault> {
    match text.split_once(separator) {
        None => Ok((text, None)),
        Some((id, server)) => {
            if is_word(server, "-_.") {
                Ok((id, Some(server)))
            } else {
                Err(DependencyFault::Malformed)
            }
        }
    }
}

/// Formats as `qstat -f` does:
/// `on:1,afterok:12.head@head:13.head@head,beforeany:14.head@head,afterok:@sim`. None for an
/// empty value.
pub fn shown(on: u32, edges: &[Edge], labels: &[Awaited], server: &str) -> Option<String> {
    let mut kinds: Vec<DependencyKind> = Vec::new();
    for edge in edges {
        if !kinds.contains(&edge.kind) {
            kinds.push(edge.kind);
        }
    }
    let mut text = if on > 0 {
        format!("on:{on}")
    } else {
        String::new()
    };
    for kind in kinds {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{}", kind.name());
        for edge in edges.iter().filter(|edge| edge.kind == kind) {
            let _ = write!(text, ":{}@{server}", edge.job.full(server));
        }
    }
    for awaited in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{awaited}");
    }
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(text: &str) -> Result<Vec<(&'static str, String)>, DependencyFault> {
        let dependency = ParsedDependency::parse(text, Some("head"))?;
        Ok(dependency
            .edges
            .iter()
            .map(|edge| (edge.kind.name(), edge.job.to_string()))
            .collect())
    }

    #[test]
    fn every_spelling_of_a_dependency_is_parsed() {
        for (text, expected) in [
            ("afterok:1", &[("afterok", "1")][..]),
            (
                "afterok:1:2,afternotok:3",
                &[("afterok", "1"), ("afterok", "2"), ("afternotok", "3")],
            ),
            (
                "after:1.head,afterany:2@head",
                &[("after", "1"), ("afterany", "2")],
            ),
            ("afterok: 1.head@head:1", &[("afterok", "1")]),
            ("afterok:3[].head", &[("afterok", "3[]")]),
            (
                "before:1,beforeok:2, beforenotok:3,beforeany:4",
                &[
                    ("before", "1"),
                    ("beforeok", "2"),
                    ("beforenotok", "3"),
                    ("beforeany", "4"),
                ],
            ),
            ("runone:7", &[("runone", "7")]),
            (
                "afterokarray:3[],afterstartarray:4[]",
                &[("afterok", "3[]"), ("after", "4[]")],
            ),
            (
                "beforeanyarray:3[],beforestartarray:4[]",
                &[("beforeany", "3[]"), ("before", "4[]")],
            ),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(kind, id)| (*kind, id.to_string()))
                .collect();
            assert_eq!(edges(text), Ok(expected), "{text}");
        }
        assert_eq!(
            ParsedDependency::parse("on:2,afterok:1", None)
                .map(|dependency| (dependency.on, dependency.edges.len())),
            Ok((2, 1))
        );
    }

    /// Q29.
    #[test]
    fn labels_are_accepted_in_place_of_jobs_and_in_qube_callbacks() {
        let labels = |text: &str| {
            let dependency = ParsedDependency::parse(text, None)?;
            Ok(dependency
                .labels
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","))
        };
        for (text, expected) in [
            ("afterok:@sim", "afterok:@sim"),
            (
                "afterok:1:@sim:@comp,after:@sim",
                "afterok:@sim,afterok:@comp,after:@sim",
            ),
            (
                "done-job-sim,failed-job-sim, complete-job-a.b",
                "afterok:@sim,afternotok:@sim,afterany:@a.b",
            ),
            ("done-job-sim,afterok:@sim", "afterok:@sim"),
            (
                "done-frame-a-b-3,failed-frame-sim-12",
                "afterok:@a-b[3],afternotok:@sim[12]",
            ),
            (
                "afterany:@sim[0]:@sim,complete-frame-sim-7",
                "afterany:@sim[0],afterany:@sim,afterany:@sim[7]",
            ),
        ] {
            assert_eq!(labels(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "afterok:@",
            "before:@sim",
            "runone:@sim",
            "afterok:@a b",
            "done-job-",
            "gone-job-sim",
            "done-frame-sim",
            "done-frame-sim-x",
            "done-frame--3",
            "afterok:@sim[]",
            "afterok:@sim[03]",
            "afterok:@sim[3",
            "afterok:@[3]",
            "afterok:@sim[3][4]",
            "afterok:@sim[99999999999]",
            "afterokarray:@sim",
        ] {
            assert_eq!(labels(text), Err(DependencyFault::Malformed), "{text}");
        }
        let dependency = ParsedDependency::parse("on:1,afterok:1,done-job-sim", None).unwrap();
        let text = shown(dependency.on, &dependency.edges, &dependency.labels, "head").unwrap();
        assert_eq!(text, "on:1,afterok:1.head@head,afterok:@sim");
        assert_eq!(
            ParsedDependency::parse(&text, Some("head")),
            Ok(dependency),
            "the displayed form parses to the same value"
        );
    }

    #[test]
    fn malformed_and_unsupported_dependencies_have_different_errors() {
        for text in [
            "",
            "on",
            "on:",
            "foo:1",
            "afterok",
            "afterok:",
            "afterok:abc",
            "afterok:1x",
            "afterok:1[1]",
            "afterok:1[1-2]",
            "afterok:1;afterany:2",
            "afterok:1,",
            "AFTEROK:1",
            "afterok::1",
            "afterok:+1",
            "afterokarray:1",
            "afterarray:1[]",
            "runonearray:1[]",
            "array:1[]",
            "afterok:1.",
            "afterok:-1",
        ] {
            assert_eq!(
                ParsedDependency::parse(text, None),
                Err(DependencyFault::Malformed),
                "{text}"
            );
        }
        for text in [
            "on:0",
            "on:x",
            "on:-1",
            "on:99999999999",
            "synccount:2",
            "syncwith:1",
        ] {
            assert_eq!(
                ParsedDependency::parse(text, None),
                Err(DependencyFault::Illegal),
                "{text}"
            );
        }
        assert_eq!(
            ParsedDependency::parse("afterok:1.other", Some("head")),
            Err(DependencyFault::Elsewhere("1.other".into()))
        );
        assert!(
            ParsedDependency::parse("afterok:1.other", None).is_ok(),
            "a client does not know the server's name"
        );
    }

    #[test]
    fn shown_dependencies_are_grouped_by_kind() {
        let dependency =
            ParsedDependency::parse("on:1,afterok:1,afterany:2,afterok:3[]", None).unwrap();
        let text = shown(dependency.on, &dependency.edges, &[], "head").unwrap();
        assert_eq!(
            text,
            "on:1,afterok:1.head@head:3[].head@head,afterany:2.head@head"
        );
        let again = ParsedDependency::parse(&text, Some("head")).unwrap();
        assert_eq!(
            shown(again.on, &again.edges, &[], "head"),
            Some(text),
            "the displayed form parses to the same value"
        );
        assert_eq!(shown(0, &[], &[], "head"), None);
    }
}
