//! Comparison of lines. Attributes that only one of the two systems shows are skipped, and values
//! that depend on time may differ.

use super::placeholders::Bindings;

/// A compared line: in both outputs, only in the recording, or only in Lanai's output.
#[derive(Debug, PartialEq, Eq)]
pub enum Row {
    Same(String),
    Missing(String),
    Extra(String),
}

/// Attributes shown by Lanai but not by the recorded server, with reasons.
const ALSO_SHOWN: &[(&str, &str)] = &[
    ("eligible_time", "Lanai always computes eligible time"),
    ("accrue_type", "Lanai always computes eligible time"),
    ("comment", "every waiting job has a comment"),
    ("estimated", "every waiting job has an estimated start"),
    ("session_id", "known as soon as the job runs"),
    ("jobdir", "known as soon as the job runs"),
    ("lanai_reason", "the reason of the comment, for programs"),
    ("score", "the default order computes a score"),
    (
        "resources_used",
        "known from the start of the job; the recorded node reports it later",
    ),
    ("loadave", "noded measures the load of its node"),
    ("resources_utilized", "noded measures the usage of its node"),
];

/// Attributes that Lanai does not show, with reasons.
const NOT_SHOWN: &[(&str, &str)] = &[
    ("license", "Lanai has no licenses"),
    ("license_count", "Lanai has no licenses"),
    ("Port", "nodes have no ports"),
    ("pbs_version", "only the server shows a version, not nodes"),
    (
        "last_used_time",
        "stored only with other changes of the node",
    ),
    ("partition", "Lanai has no partitions"),
    ("power_provisioning", "Lanai does not switch off nodes"),
    ("schedselect", "internal to the recorded server"),
    ("hashname", "internal to the recorded server"),
    ("queue_rank", "internal to the recorded server"),
    ("queue_type", "internal to the recorded server"),
    ("run_version", "internal to the recorded server"),
    ("euser", "jobs run as their owner"),
    ("egroup", "jobs run as their owner"),
    (
        "PBS_O_INTERACTIVE_AUTH_METHOD",
        "internal to the recorded server",
    ),
    (
        "PBS_O_INTERACTIVE_ENCRYPT_METHOD",
        "internal to the recorded server",
    ),
];

/// Reasons that `qstat -s` shows where the recorded server shows none.
const WAIT_REASONS: [&str; 2] = ["   Job held: ", "   Not Running: Waiting until "];

fn is_wait_reason(line: &str) -> bool {
    WAIT_REASONS.iter().any(|reason| line.starts_with(reason))
}

/// Number of following output lines in which a recorded line is searched.
const NEAR: usize = 12;

/// Compares two outputs line by line and binds new job numbers.
pub fn rows(recorded: &str, actual: &str, bindings: &mut Bindings) -> Vec<Row> {
    let (wanted, actual) = (lines(recorded), lines(actual));
    let (mut rows, mut wanted_at, mut actual_at) = (Vec::new(), 0, 0);
    while wanted_at < wanted.len() || actual_at < actual.len() {
        let fits = |actual_at: usize, bindings: &mut Bindings| {
            wanted_at < wanted.len()
                && lines_match(&wanted[wanted_at], &actual[actual_at], bindings)
        };
        if actual_at < actual.len() && fits(actual_at, bindings) {
            rows.push(Row::Same(wanted[wanted_at].clone()));
            (wanted_at, actual_at) = (wanted_at + 1, actual_at + 1);
        } else if wanted_at < wanted.len() && is_one_of(&wanted[wanted_at], NOT_SHOWN) {
            wanted_at += 1;
        } else if actual_at < actual.len()
            && (is_one_of(&actual[actual_at], ALSO_SHOWN) || is_wait_reason(&actual[actual_at]))
        {
            actual_at = index_after(&actual, actual_at);
        } else if let Some(found) = (actual_at + 1..actual.len().min(actual_at + NEAR))
            .find(|actual_at| fits(*actual_at, bindings))
        {
            rows.extend(actual[actual_at..found].iter().cloned().map(Row::Extra));
            actual_at = found;
        } else if wanted_at < wanted.len() {
            rows.push(Row::Missing(wanted[wanted_at].clone()));
            wanted_at += 1;
        } else {
            rows.push(Row::Extra(actual[actual_at].clone()));
            actual_at += 1;
        }
    }
    rows
}

/// Lines of a text. A wrapped variable list or comment is joined; variables and fields separated by
/// `|` become lines of their own.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut in_list = false;
    let begins = |line: &String| {
        line.starts_with("    Variable_List = ") || line.starts_with("    comment = ")
    };
    for line in text.split('\n') {
        match (in_list, line.strip_prefix('\t')) {
            (true, Some(more)) if !more.starts_with('\t') => {
                *lines.last_mut().expect("a list starts with a line") += more
            }
            _ => lines.push(line.to_string()),
        }
        in_list = lines.last().is_some_and(begins);
    }
    lines.iter().flat_map(|line| parts(line)).collect()
}

fn parts(line: &str) -> Vec<String> {
    let variables = line
        .trim_start_matches("    ")
        .strip_prefix("Variable_List")
        .map(|rest| rest.split(','));
    let fields = line
        .contains('|')
        .then(|| line.split('|'))
        .filter(|_| line.contains('='));
    match (variables, fields) {
        (Some(variables), _) => variables.map(|part| format!("{part},")).collect(),
        (None, Some(fields)) => fields.flat_map(parts).collect(),
        (None, None) => vec![line.to_string()],
    }
}

/// True if a line shows one of these attributes, in any format of `qstat` and `pbsnodes`.
fn is_one_of(line: &str, attributes: &[(&str, &str)]) -> bool {
    let name = line.trim_start().trim_start_matches('"');
    let is_attribute = line.starts_with([' ', '\t']) || line.contains('=');
    let ends = |rest: &str| rest.starts_with([' ', '=', '"', '.', ':']);
    is_attribute
        && attributes
            .iter()
            .any(|(attribute, _)| name.strip_prefix(attribute).is_some_and(ends))
}

/// Index after this line, or after the JSON object that begins on it.
fn index_after(lines: &[String], at: usize) -> usize {
    let is_end = |line: &String| line.trim().starts_with('}');
    let object = lines[at]
        .ends_with('{')
        .then(|| lines[at..].iter().position(is_end))
        .flatten();
    at + object.unwrap_or(0) + 1
}

/// True if the lines are equal, or differ only in times or in a longer comment.
fn lines_match(wanted: &str, actual: &str, bindings: &mut Bindings) -> bool {
    let (wanted, actual) = (without_comma(wanted), without_comma(actual));
    // The recorded server had not measured usage yet.
    let not_yet = actual
        .replace("00:00:00 R ", "       0 R ")
        .replace(" R 00:00", " R   --");
    // A second more or less depends on the speed of the recorder's machine.
    let sooner = [" R ", " F "]
        .iter()
        .fold(actual.to_string(), |text, state| {
            text.replace(&format!("{state}00:01"), &format!("{state}00:00"))
        });
    let started = ["substate = 41", "substate=41", "\"substate\":\t41"];
    let wanted = started.iter().fold(wanted.to_string(), |text, old| {
        text.replace(old, &old.replace("41", "42"))
    });
    let is_additional_reason = wanted == "    -- " && is_wait_reason(actual);
    is_additional_reason
        || bindings.fits(&wanted, actual)
        || bindings.fits(&wanted, &not_yet)
        || bindings.fits(&wanted, &sooner)
        || comments_match(&wanted, actual, bindings)
}

/// Removes the trailing comma, which the last line of a JSON object lacks.
fn without_comma(line: &str) -> &str {
    if line.starts_with('\t') {
        line.strip_suffix(',').unwrap_or(line)
    } else {
        line
    }
}

/// Decision 14: the comment of a queued job has figures. Other comments may be longer, too
/// (decision 21).
fn comments_match(wanted: &str, actual: &str, bindings: &mut Bindings) -> bool {
    // If several resources are insufficient, only one of them is named.
    let never = "Can Never Run: Insufficient amount of resource: ";
    let one_of_them = wanted
        .split_once(never)
        .zip(actual.split_once(never))
        .is_some_and(|((wanted, _), (actual, _))| bindings.fits(wanted, actual));
    let busy = [
        "Not Running: Not enough free nodes available",
        "Not Running: No available resources on nodes",
    ];
    let figures = busy.iter().any(|busy| {
        let before = wanted.strip_suffix(busy);
        before.is_some_and(|before| {
            actual
                .split_once("Not Running: Insufficient amount")
                .is_some_and(|(actual, _)| bindings.fits(before, actual))
        })
    });
    figures
        || one_of_them
        || (is_one_of(wanted, &[("comment", "")])
            && bindings.begins(wanted.trim_end_matches('"'), actual.trim_end_matches('"')))
}

#[test]
fn attributes_of_only_one_system_are_skipped() {
    let mut bound = Bindings::default();
    let recorded = "    substate = 41\n    license = l\n    run_count = 1\n";
    let actual =
        "    session_id = 7\n    substate = 42\n    eligible_time = 00:00:01\n    run_count = 1\n";
    assert!(
        rows(recorded, actual, &mut bound)
            .iter()
            .all(|row| matches!(row, Row::Same(_)))
    );
    let rows = rows("a\n", "    run_count = 2\na\n", &mut bound);
    assert_eq!(rows[0], Row::Extra("    run_count = 2".into()));
}

#[test]
fn comments_may_have_figures_and_additional_text() {
    let mut bound = Bindings::default();
    let busy = "    comment = Not Running: Not enough free nodes available";
    assert!(lines_match(
        busy,
        "    comment = Not Running: Insufficient amount of resource: ncpus",
        &mut bound
    ));
    assert!(lines_match(
        "    comment = ran and failed",
        "    comment = ran and failed (mem)",
        &mut bound
    ));
    assert!(!lines_match(
        "    comment = ran and failed",
        "    comment = ran and finished",
        &mut bound
    ));
}
