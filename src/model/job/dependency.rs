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

/// What must become of one job before another may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DependencyCondition {
    /// It has begun.
    Begun,
    /// It ended with status 0.
    EndedOk,
    /// It ended with another status, or was deleted.
    EndedNotOk,
    /// It ended, however it did.
    Ended,
}

/// How one job is bound to another, seen from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DependencyKind {
    /// `after...`: it waits for the other.
    After(DependencyCondition),
    /// `before...`: the other waits for it.
    Before(DependencyCondition),
    /// `runone`: only one of the two runs.
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

    /// As it is written: `afterok`.
    pub fn name(self) -> &'static str {
        DependencyKind::NAMES
            .iter()
            .find(|&&(kind, _)| kind == self)
            .map_or("", |(_, name)| name)
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<DependencyKind> {
        DependencyKind::NAMES
            .iter()
            .find(|&&(_, known)| known == name)
            .map(|&(kind, _)| kind)
    }

    /// The same bond, seen from the other job.
    pub fn mirrored(self) -> DependencyKind {
        match self {
            DependencyKind::After(condition) => DependencyKind::Before(condition),
            DependencyKind::Before(condition) => DependencyKind::After(condition),
            DependencyKind::RunOne => DependencyKind::RunOne,
        }
    }
}

/// What must become of a job of this label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Awaited {
    /// How far it must have come.
    pub condition: DependencyCondition,
    /// Its label.
    pub label: String,
}

/// `afterok:@sim`, as in the value of `depend`.
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

/// A bond to another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// How it is bound.
    pub kind: DependencyKind,
    /// To which job.
    pub job: JobId,
}

/// A bond as it is kept: whose, which, to what. `before...` is kept as the other job's `after...`;
/// the jobs of a `runone` set are all bound to the job after which the set is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The job that waits, or the member of a set.
    pub job: JobId,
    /// What it is bound to, and how.
    pub edge: Edge,
}

/// A bond as it is shown, with the state of the other job where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyView {
    /// The bond.
    pub edge: Edge,
    /// How the job at its other end stands.
    pub state: Option<JobState>,
}

/// What of its dependencies bars a job from starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bars {
    /// Conditions on other jobs that are not met yet.
    pub unmet: u32,
    /// `on`: how many jobs have yet to name this one in a `before...`.
    pub on: u32,
    /// The job of its `runone` set that has begun and is not over.
    pub rival: Option<JobId>,
    /// Whether the job has ended because a condition can never be met.
    pub broken: bool,
}

impl Bars {
    /// Whether nothing bars the job.
    pub fn are_open(&self) -> bool {
        self.unmet == 0 && self.on == 0 && self.rival.is_none()
    }
}

/// What a value of `depend` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedDependency {
    /// `on`: how many jobs are to name this one in a `before...`.
    pub on: u32,
    /// Bonds to other jobs, each once, in the order given.
    pub edges: Vec<Edge>,
    /// What is waited for by label, likewise.
    pub labels: Vec<Awaited>,
}

/// What is wrong with a value of `depend`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyFault {
    /// Not of the form `kind:id[:id...][,...]`.
    Malformed,
    /// Of that form, but no such count, or a kind that nobody supports.
    Illegal,
    /// A job of another server, as it was written.
    Elsewhere(String),
}

impl ParsedDependency {
    /// Reads the value of `depend`. Who does not know the server's name gives None and accepts any.
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

    /// What both ask for.
    pub fn with(mut self, more: ParsedDependency) -> ParsedDependency {
        self.on = self.on.saturating_add(more.on);
        self.edges.extend(more.edges);
        self.labels.extend(more.labels);
        self.each_once()
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.on == 0 && self.edges.is_empty() && self.labels.is_empty()
    }
}

/// As long as the name of a job may be.
const LONGEST: usize = 230;

/// Whether a text can be a label, or a process group.
pub fn is_label(text: &str) -> bool {
    text.len() <= LONGEST && is_word(text, "-_.+")
}

/// Whether a text names what may be waited for: a label, or one element of an array of that label,
/// as `sim[3]`.
pub fn is_awaitable(text: &str) -> bool {
    match frame(text) {
        Some((label, _)) => is_label(label),
        None => is_label(text),
    }
}

/// The label and the index of `sim[3]`; None for a label alone, or an index that is not written as
/// it is shown.
fn frame(text: &str) -> Option<(&str, u32)> {
    let (label, index) = text.strip_suffix(']')?.rsplit_once('[')?;
    let number: u32 = index.parse().ok()?;
    (number.to_string() == index).then_some((label, number))
}

/// Qube's words for what is waited for by label (Q29): `done-job-sim` is `afterok:@sim`, and
/// `done-frame-sim-3`, of one element of an array, `afterok:@sim[3]`.
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

/// A kind by its name, or by TORQUE's for arrays alone: `afterokarray`, `afterstartarray`.
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

/// `12`, `12[]`, each with `.server` or `@server` behind it. Elements of arrays are none.
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

/// `on:1,afterok:12.head@head:13.head@head,beforeany:14.head@head,afterok:@sim`, as `qstat -f`
/// shows it; None when there is nothing to show.
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
    fn every_spelling_of_a_dependency_is_read() {
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
    fn labels_stand_where_jobs_do_or_in_the_words_of_callbacks() {
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
            "what is shown can be given back"
        );
    }

    #[test]
    fn what_is_no_dependency_is_told_apart_from_what_nobody_supports() {
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
    fn dependencies_are_shown_kind_by_kind() {
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
            "what is shown can be given back"
        );
        assert_eq!(shown(0, &[], &[], "head"), None);
    }
}
