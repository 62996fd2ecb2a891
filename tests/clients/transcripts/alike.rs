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
    ("eligible_time", "always counted here"),
    ("accrue_type", "the same"),
    ("comment", "every job that waits is told why"),
    (
        "estimated",
        "every job that waits is told when it is to start",
    ),
    ("session_id", "known as soon as the job runs"),
    ("jobdir", "the same"),
    ("lanai_reason", "the same for programs"),
    ("score", "the default order computes one"),
    (
        "resources_used",
        "known from the first moment; the recorded node was asked later",
    ),
    ("loadave", "noded measures the load of its node"),
    ("resources_utilized", "the same"),
];

/// Attributes that Lanai does not show, with reasons.
const NOT_SHOWN: &[(&str, &str)] = &[
    ("license", "there are no licences"),
    ("license_count", "the same"),
    ("Port", "nodes have no ports"),
    ("pbs_version", "of a node: it is the server's"),
    ("last_used_time", "not kept"),
    ("partition", "there are none"),
    ("power_provisioning", "nodes are not switched off"),
    ("schedselect", "only of the recorded server's own use"),
    ("hashname", "the same"),
    ("queue_rank", "the same"),
    ("queue_type", "the same"),
    ("run_version", "the same"),
    ("euser", "the owner is the user"),
    ("egroup", "the same"),
    (
        "PBS_O_INTERACTIVE_AUTH_METHOD",
        "of the recorded server's own use",
    ),
    ("PBS_O_INTERACTIVE_ENCRYPT_METHOD", "the same"),
];

/// Reasons that `qstat -s` shows where the recorded server shows none.
const WHY: [&str; 2] = ["   Job held: ", "   Not Running: Waiting until "];

fn tells_why(line: &str) -> bool {
    WHY.iter().any(|why| line.starts_with(why))
}

/// Number of following output lines in which a recorded line is searched.
const NEAR: usize = 12;

/// Compares two outputs line by line and binds new job numbers.
pub fn rows(recorded: &str, said: &str, bindings: &mut Bindings) -> Vec<Row> {
    let (wanted, said) = (lines(recorded), lines(said));
    let (mut rows, mut at, mut of) = (Vec::new(), 0, 0);
    while at < wanted.len() || of < said.len() {
        let fits = |of: usize, bindings: &mut Bindings| {
            at < wanted.len() && alike(&wanted[at], &said[of], bindings)
        };
        if of < said.len() && fits(of, bindings) {
            rows.push(Row::Same(wanted[at].clone()));
            (at, of) = (at + 1, of + 1);
        } else if at < wanted.len() && is_one_of(&wanted[at], NOT_SHOWN) {
            at += 1;
        } else if of < said.len() && (is_one_of(&said[of], ALSO_SHOWN) || tells_why(&said[of])) {
            of = behind(&said, of);
        } else if let Some(found) =
            (of + 1..said.len().min(of + NEAR)).find(|of| fits(*of, bindings))
        {
            rows.extend(said[of..found].iter().cloned().map(Row::Extra));
            of = found;
        } else if at < wanted.len() {
            rows.push(Row::Missing(wanted[at].clone()));
            at += 1;
        } else {
            rows.push(Row::Extra(said[of].clone()));
            of += 1;
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
                *lines.last_mut().expect("a list begins") += more
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
fn behind(lines: &[String], at: usize) -> usize {
    let is_end = |line: &String| line.trim().starts_with('}');
    let object = lines[at]
        .ends_with('{')
        .then(|| lines[at..].iter().position(is_end))
        .flatten();
    at + object.unwrap_or(0) + 1
}

/// True if the lines are equal, or differ only in times or in a longer comment.
fn alike(wanted: &str, said: &str, bindings: &mut Bindings) -> bool {
    let (wanted, said) = (without_comma(wanted), without_comma(said));
    // The recorded server had not measured usage yet.
    let not_yet = said
        .replace("00:00:00 R ", "       0 R ")
        .replace(" R 00:00", " R   --");
    // A second more or less depends on the speed of the recorder's machine.
    let sooner = [" R ", " F "].iter().fold(said.to_string(), |text, state| {
        text.replace(&format!("{state}00:01"), &format!("{state}00:00"))
    });
    let started = ["substate = 41", "substate=41", "\"substate\":\t41"];
    let wanted = started.iter().fold(wanted.to_string(), |text, old| {
        text.replace(old, &old.replace("41", "42"))
    });
    let is_told_why = wanted == "    -- " && tells_why(said);
    is_told_why
        || bindings.fits(&wanted, said)
        || bindings.fits(&wanted, &not_yet)
        || bindings.fits(&wanted, &sooner)
        || comments_alike(&wanted, said, bindings)
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
fn comments_alike(wanted: &str, said: &str, bindings: &mut Bindings) -> bool {
    // If several resources are insufficient, only one of them is named.
    let never = "Can Never Run: Insufficient amount of resource: ";
    let one_of_them = wanted
        .split_once(never)
        .zip(said.split_once(never))
        .is_some_and(|((wanted, _), (said, _))| bindings.fits(wanted, said));
    let busy = [
        "Not Running: Not enough free nodes available",
        "Not Running: No available resources on nodes",
    ];
    let figures = busy.iter().any(|busy| {
        let before = wanted.strip_suffix(busy);
        before.is_some_and(|before| {
            said.split_once("Not Running: Insufficient amount")
                .is_some_and(|(said, _)| bindings.fits(before, said))
        })
    });
    figures
        || one_of_them
        || (is_one_of(wanted, &[("comment", "")])
            && bindings.begins(wanted.trim_end_matches('"'), said.trim_end_matches('"')))
}

#[test]
fn attributes_of_one_side_alone_are_passed_over_and_others_are_not() {
    let mut bound = Bindings::default();
    let recorded = "    substate = 41\n    license = l\n    run_count = 1\n";
    let said =
        "    session_id = 7\n    substate = 42\n    eligible_time = 00:00:01\n    run_count = 1\n";
    assert!(
        rows(recorded, said, &mut bound)
            .iter()
            .all(|row| matches!(row, Row::Same(_)))
    );
    let rows = rows("a\n", "    run_count = 2\na\n", &mut bound);
    assert_eq!(rows[0], Row::Extra("    run_count = 2".into()));
}

#[test]
fn comments_may_have_figures_and_more_text() {
    let mut bound = Bindings::default();
    let busy = "    comment = Not Running: Not enough free nodes available";
    assert!(alike(
        busy,
        "    comment = Not Running: Insufficient amount of resource: ncpus",
        &mut bound
    ));
    assert!(alike(
        "    comment = ran and failed",
        "    comment = ran and failed (mem)",
        &mut bound
    ));
    assert!(!alike(
        "    comment = ran and failed",
        "    comment = ran and finished",
        &mut bound
    ));
}
