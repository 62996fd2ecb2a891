//! Scheduling scenarios: each file in `tests/scenarios` gives the result that it states.

use crate::support::sandbox::bin;
use crate::support::{files, root};
use lanai::cli::commands::qsim::grammar::GRAMMAR;
use lanai::sim::check::{self, CheckReport};
use lanai::sim::scenario::Scenario;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn scenarios(folder: &str) -> Vec<PathBuf> {
    let mut found = files(&root().join(folder));
    found.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    found
}

fn play(path: &Path) -> Result<CheckReport, String> {
    let text = std::fs::read_to_string(path).unwrap();
    Scenario::parse(&text, GRAMMAR)
        .map(|scenario| check::play(&scenario))
        .map_err(|error| error.to_string())
}

/// Names and reports of the scenarios that fail.
fn failures(folder: &str) -> Vec<String> {
    let failure = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match play(path) {
            Ok(report) if report.is_good() => None,
            Ok(report) => Some(format!("{name}\n{}", report.explain())),
            Err(refusal) => Some(format!("{name}: {refusal}\n")),
        }
    };
    scenarios(folder).iter().filter_map(failure).collect()
}

#[test]
fn every_scenario_gives_the_expected_result() {
    assert!(
        scenarios("tests/scenarios").len() > 30,
        "tests/scenarios must contain the scenarios"
    );
    let failures = failures("tests/scenarios");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_example_scenarios_for_administrators_pass() {
    assert!(scenarios("etc/scenarios").len() >= 3);
    let failures = failures("etc/scenarios");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Directories of the rules, by the first letter of the rule id.
const SOURCES: &[(char, &str)] = &[
    ('F', "flux"),
    ('G', "invariants"),
    ('I', "it4i"),
    ('M', "maui"),
    ('P', "problems"),
    ('Q', "qube"),
    ('X', "conflicts"),
    ('Y', "ytsaurus"),
];

/// File name of a scenario without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Rule id of a scenario: the part of its name before the first hyphen.
fn rule(path: &Path) -> String {
    stem(path).split('-').next().unwrap().to_string()
}

/// True if the directory, the file name and the first line of a scenario give the same rule.
fn is_named_after_its_rule(path: &Path) -> bool {
    let id = rule(path);
    let folder = path.parent().unwrap().file_name().unwrap();
    let number = id[1..].trim_end_matches(|c: char| c.is_ascii_lowercase());
    let text = std::fs::read_to_string(path).unwrap();
    SOURCES
        .iter()
        .any(|&(letter, source)| id.starts_with(letter) && folder == source)
        && number.parse::<u32>().is_ok()
        && text.starts_with(&format!("# {id}: "))
}

#[test]
fn scenarios_are_named_after_their_rules() {
    let mut unnamed = scenarios("tests/scenarios");
    unnamed.retain(|path| !is_named_after_its_rule(path));
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}

/// Rules stated by the documents of the five systems that Lanai follows.
const STATED: &[&str] = &[
    "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15",
    "Q16", "M1", "M2", "M3", "M4", "M5", "M6", "M8", "M9", "M10", "I1", "I2", "I2b", "I3", "I4",
    "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12", "Y1", "Y2", "Y3", "Y4", "Y5", "Y6", "Y7",
    "Y8", "Y9", "Y10", "Y11", "Y12", "Y13", "Y14", "Y15", "Y16", "Y17", "Y18", "Y19", "F1", "F2",
    "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F13", "F14", "F15", "F18", "F19",
    "F20",
];

/// F17 has none: a scenario has one scheduler. Nested instances are tested live (`nested`).
#[test]
fn every_stated_rule_has_a_scenario() {
    let all: BTreeSet<String> = scenarios("tests/scenarios")
        .iter()
        .map(|path| rule(path))
        .collect();
    let missing: Vec<&&str> = STATED.iter().filter(|id| !all.contains(**id)).collect();
    assert!(missing.is_empty(), "no scenario: {missing:?}");
}

/// Ambiguous points in the documents of the five systems, each with the scenario that shows Lanai's
/// behavior.
const TRAPS: &[(&str, &str)] = &[
    (
        "the documents put jobs of a higher queue first; the published formula may not",
        "I2b-formula-prefers-lower-queue",
    ),
    (
        "fair share of a project before any usage: 0 divided by 0",
        "I3-fair-share-of-projects",
    ),
    (
        "a user priority of 300 equals five hours of queue time, not five minutes",
        "M14-user-priority-and-queue-time",
    ),
    (
        "an early end of a job moves a planned start forward",
        "M28-backfill-early-finish",
    ),
    (
        "two names for one parameter: RESOURCEAVAILABILITYPOLICY, NODEAVAILABILITYPOLICY",
        "M6-policy-by-resource",
    ),
    (
        "a preemptor needs a higher priority; an equal one is not enough",
        "M43-preemptor-and-preemptee",
    ),
    (
        "whether the allocation that crosses a threshold is protected",
        "Y6-crossing-allocation-kept",
    ),
    (
        "the smallest subset of victims, or the first ones that suffice",
        "Y12-smallest-subset",
    ),
    (
        "preemption stops at the tolerance, so a victim keeps the last 20%",
        "Y10-starvation-ends-at-the-tolerance",
    ),
    (
        "a factor of 0.5 means balanced usage in classic fair share, not in the fair tree",
        "F12-fair-tree",
    ),
    (
        "a user factor only lowers the priority, because its default is the maximum",
        "F7-user-factor",
    ),
    (
        "the priority of a job is fixed when it starts",
        "F9-update-period",
    ),
    (
        "whether `*` in a cluster path includes the level itself",
        "Q19-host-restrictions",
    ),
    (
        "whether a host order is ascending or descending",
        "Q23-host-order",
    ),
    (
        "a large job without a planned start waits forever",
        "X3-easy-is-the-default",
    ),
    (
        "two jobs that preempt each other in turn",
        "G9-no-preemption-cycle",
    ),
];

#[test]
fn every_trap_has_a_scenario() {
    let names: BTreeSet<String> = scenarios("tests/scenarios")
        .iter()
        .map(|path| stem(path))
        .collect();
    let missing: Vec<_> = TRAPS
        .iter()
        .filter(|(_, name)| !names.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no scenario: {missing:#?}");
}

#[test]
fn a_scenario_gives_the_same_report_every_time() {
    for path in scenarios("tests/scenarios") {
        let (one, other) = (play(&path).unwrap(), play(&path).unwrap());
        assert_eq!(one.explain(), other.explain(), "{}", path.display());
    }
}

const NODE: &str = "name = \"x\"\n[[node]]\nname = \"n\"\ncount = 2\nncpus = 2\n";
const JOB: &str = "[[job]]\nid = 1\nqsub = \"-l select=1:ncpus=1 -l walltime=60\"\n";

fn refusal(text: &str) -> String {
    Scenario::parse(text, GRAMMAR).unwrap_err().to_string()
}

#[test]
fn errors_in_a_scenario_are_reported_with_line_and_hint() {
    let expect = "[[expect]]\njob = 1\nstart = 0\n";
    for (text, message) in [
        (
            format!("{NODE}{JOB}"),
            "line 1: this scenario has no expectation: add an [[expect]]",
        ),
        (
            format!("{NODE}{JOB}[[expect]]\njob = 1\nstrat = 0"),
            "unknown key `strat` in [[expect]]; the nearest known name is `start`",
        ),
        (
            format!("{NODE}{JOB}[[expect]]\njob = 1"),
            "this [[expect]] has no expected value",
        ),
        (
            format!("{NODE}{JOB}[[expect]]\nstart = 0"),
            "`start` requires a job",
        ),
        (
            format!("{NODE}{JOB}[[expect]]\njob = 1\nreason = \"busy\""),
            "`reason` requires a time",
        ),
        (
            format!("{NODE}{JOB}[[expect]]\njob = 1\nstart = -1"),
            "`start` in [[expect]] must be a number of seconds",
        ),
        (
            format!("{NODE}{JOB}{JOB}{expect}"),
            "job 1 exists already (line 6)",
        ),
        (
            format!("{NODE}[[job]]\nid = 1\nqsub = \"-l ncpus=1\"\n{expect}"),
            "this job has no `runs` and no walltime",
        ),
        (
            format!("{NODE}[[node]]\nname = \"n2\"\nncpu = 2\n{expect}"),
            "the nearest known name is `ncpus`",
        ),
        (
            format!("{NODE}[[node]]\nname = \"n2\"\n{expect}"),
            "two nodes are named `n2`",
        ),
        (
            format!("{NODE}[[event]]\nat = 1\ndo = \"qhodl 1\"\n{expect}"),
            "unknown command `qhodl`; the nearest known name is `qhold`",
        ),
        (
            format!("{NODE}[[event]]\nat = 1\ndo = \"node-down\"\n{expect}"),
            "`node-down` must have the form `node-down NODE`",
        ),
        (
            format!("{NODE}[[event]]\nat = 1\n{expect}"),
            "this event has no action",
        ),
        (
            format!("config = {{ preset = \"slurm\" }}\n{NODE}{expect}"),
            "in `config`: `preset` in the file must be",
        ),
        (expect.to_string(), "the scenario has no `name`"),
        ("name = \"x\"\nname = \"y\"".to_string(), "duplicate key"),
    ] {
        let found = refusal(&text);
        assert!(found.contains(message), "{message}\n  {found}\n  {text}");
    }
}

#[test]
fn a_refused_submission_fails_a_scenario_that_does_not_expect_it() {
    let job = "[[job]]\nid = 1\nruns = 9\nqsub = \"-q nosuch\"\n";
    let report_of = |expect: &str| {
        check::play(&Scenario::parse(&format!("{NODE}{job}{JOB2}{expect}"), GRAMMAR).unwrap())
    };
    let report = report_of("[[expect]]\njob = 2\nstart = 0\n");
    assert_eq!(report.differences[0].found, "refused: Unknown queue");
    assert!(report_of("[[expect]]\njob = 1\nrefused = \"Unknown queue\"\n").is_good());
}

const JOB2: &str = "[[job]]\nid = 2\nqsub = \"-l select=1:ncpus=1 -l walltime=60\"\n";

#[test]
fn dependencies_arrays_and_begin_times_work_as_in_schedd() {
    let text = format!(
        "clock = \"2024-03-01 06:00\"\n{NODE}{JOB}
        [[job]]
        id = 2
        qsub = \"-l walltime=60 -W depend=afterok:1\"
        [[job]]
        id = 3
        qsub = \"-l walltime=60 -W depend=afternotok:1\"
        [[job]]
        id = 4
        qsub = \"-l walltime=60 -a 0700\"
        [[job]]
        id = 5
        qsub = \"-l select=1:ncpus=2 -l walltime=60 -J 1-5:2%1\"
        [[event]]
        at = 90
        do = \"qdel 5[5]\"
        [[expect]]
        job = 2
        start = 60
        [[expect]]
        job = 3
        never = true
        exit = 271
        [[expect]]
        job = 4
        start = \"1h\"
        [[expect]]
        order = [\"5[1]\", \"5[3]\"]
        [[expect]]
        job = \"5[]\"
        state = \"F\"
        exit = 1
        "
    );
    let report = check::play(&Scenario::parse(&text, GRAMMAR).unwrap());
    assert!(report.is_good(), "{}", report.explain());
}

#[test]
fn the_program_prints_the_differences_and_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "a.toml",
        &format!("{NODE}{JOB}[[expect]]\njob = 1\nstart = 0\n"),
    );
    let run = |options: &[&str]| {
        let output = Command::new(bin("qsim"))
            .arg("check")
            .args(options)
            .arg(folder.path())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, output) = run(&[]);
    assert_eq!((code, output.lines().count()), (Some(0), 1), "{output}");
    write(
        "b.toml",
        &format!("{NODE}{JOB}[[expect]]\njob = 1\nstart = 5\nnodes = [\"n2\"]\n"),
    );
    let (code, output) = run(&[]);
    assert_eq!(code, Some(1));
    for part in [
        "job 1: start\n    expected  5\n    found     0",
        "expected  n2",
        "1    ann   0       0",
        "1 ok, 1 failed",
    ] {
        assert!(output.contains(part), "{part}\n{output}");
    }
    write("c.toml", "name = \"nothing\"");
    let (code, output) = run(&["-F", "json"]);
    assert_eq!(code, Some(2));
    let document: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (
            &document["passed"],
            &document["failed"],
            &document["refused"]
        ),
        (&1.into(), &1.into(), &1.into())
    );
    assert_eq!(document["scenarios"][1]["differences"][1]["found"], "0");
}
