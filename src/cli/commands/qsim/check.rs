//! `qsim check`: runs scenarios and compares the results with the expected results.

use super::grammar::GRAMMAR;
use crate::cli::client::exit::{self, Failure, USAGE};
use crate::sim::check::{self, CheckReport};
use crate::sim::expectation::Difference;
use crate::sim::recorded::{self, Replayed};
use crate::sim::scenario::Scenario;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Run scenarios and compare the scheduler's decisions with the expected decisions.
///
/// A scenario is a file that describes a cluster, events and the expected decisions; qsim(1)
/// describes the format. qsim check needs no installation.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckArgs {
    /// Scenario files, or directories: all *.toml files in them and in their subdirectories
    #[arg(value_name = "SCENARIO", required_unless_present = "recorded")]
    paths: Vec<PathBuf>,

    /// Output format: text, or json for one document with all differences
    #[arg(short = 'F', long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    format: String,

    /// Repeat the cycles that schedd recorded ([cycle] record in lanai.toml), and compare the
    /// decisions; the wording of reasons may differ
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    recorded: Option<PathBuf>,
}

/// The result of a scenario.
#[derive(Serialize)]
struct ScenarioOutcome {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    passed: bool,
    /// The reason why the scenario cannot be run; None if it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    differences: Vec<Difference>,
    #[serde(skip)]
    explanation: String,
}

/// The results of all scenarios.
#[derive(Serialize)]
struct Outcomes {
    passed: usize,
    failed: usize,
    refused: usize,
    scenarios: Vec<ScenarioOutcome>,
}

/// Runs `qsim check`. Exit status 0: all decisions are as expected or recorded; 1: some differ;
/// 2: a scenario cannot be run, or the recording cannot be read.
pub fn run(args: &CheckArgs) -> Result<u8, Failure> {
    if let Some(file) = &args.recorded {
        return replay_recording(file);
    }
    let files = files(&args.paths)?;
    let scenarios: Vec<ScenarioOutcome> = files.iter().map(|file| play(file)).collect();
    let passed = scenarios.iter().filter(|outcome| outcome.passed).count();
    let refused = scenarios
        .iter()
        .filter(|outcome| outcome.refused.is_some())
        .count();
    let outcomes = Outcomes {
        passed,
        failed: scenarios.len() - passed - refused,
        refused,
        scenarios,
    };
    match args.format.as_str() {
        "json" => exit::print(
            serde_json::to_string_pretty(&outcomes).map_err(anyhow::Error::from)? + "\n",
        )?,
        _ => exit::print(text(&outcomes))?,
    }
    Ok(if outcomes.refused > 0 {
        USAGE
    } else {
        u8::from(outcomes.failed > 0)
    })
}

fn play(file: &Path) -> ScenarioOutcome {
    let read = fs::read(file).map_err(|error| error.to_string());
    let text = read.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_string())
    });
    let scenario =
        text.and_then(|text| Scenario::parse(&text, GRAMMAR).map_err(|error| error.to_string()));
    let file = file.display().to_string();
    match scenario {
        Ok(scenario) => {
            let report: CheckReport = check::play(&scenario);
            let (passed, explanation) = (report.is_good(), report.explain());
            let (name, differences) = (Some(scenario.name), report.differences);
            ScenarioOutcome {
                file,
                name,
                passed,
                refused: None,
                differences,
                explanation,
            }
        }
        Err(why) => ScenarioOutcome {
            file,
            name: None,
            passed: false,
            refused: Some(why),
            differences: Vec::new(),
            explanation: String::new(),
        },
    }
}

fn text(outcomes: &Outcomes) -> String {
    let mut lines = String::new();
    for outcome in &outcomes.scenarios {
        let (file, name) = (&outcome.file, outcome.name.as_deref().unwrap_or_default());
        lines += &match &outcome.refused {
            Some(why) => format!("refused  {file}: {why}\n"),
            None if outcome.passed => format!("ok       {file}: {name}\n"),
            None => format!("FAILED   {file}: {name}\n{}\n", outcome.explanation),
        };
    }
    if outcomes.scenarios.len() == 1 {
        return lines;
    }
    let Outcomes {
        passed,
        failed,
        refused,
        ..
    } = outcomes;
    format!("{lines}{passed} ok, {failed} failed, {refused} refused\n")
}

/// The scenario files in `paths`, each once. The files of a directory are sorted by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = below(path).map_err(|error| unreadable(path, &error))?;
            if found.is_empty() {
                return Err(Failure::new(
                    USAGE,
                    format!("{}: no *.toml in this directory", path.display()),
                ));
            }
            files.extend(found);
        } else {
            files.push(path.clone())
        }
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

/// All `*.toml` files in a directory and its subdirectories.
fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| (entry.path(), entry.file_type())));
    let mut entries: Vec<_> = entries.collect::<io::Result<_>>()?;
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    let mut files = Vec::new();
    for (path, kind) in entries {
        if kind?.is_dir() {
            files.extend(below(&path)?);
        } else if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    Ok(files)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(USAGE, format!("{}: {error}", path.display()))
}

fn replay_recording(file: &Path) -> Result<u8, Failure> {
    let open = File::open(file).map_err(|error| unreadable(file, &error))?;
    let replayed = recorded::replay(BufReader::new(open));
    let Replayed {
        cycles,
        difference,
        is_cut,
    } = replayed.map_err(|fault| Failure::new(USAGE, format!("{}: {fault}", file.display())))?;
    let plural = if cycles == 1 { "cycle" } else { "cycles" };
    let cut = if is_cut {
        "; the recording stopped at its maximum size ([cycle] record_size)"
    } else {
        ""
    };
    match difference {
        None => exit::print(format!("{cycles} {plural}, identical{cut}\n")).map(|()| 0),
        Some(found) => {
            let (line, recorded, made) = (found.line, shown(&found.recorded), shown(&found.made));
            let head =
                format!("{cycles} {plural} identical, then line {line} of the recording differs");
            exit::print(format!(
                "{head}\n  recorded\n{recorded}  decided now\n{made}"
            ))
            .map(|()| 1)
        }
    }
}

fn shown(plan: &str) -> String {
    if plan.is_empty() {
        "    (nothing)\n".to_string()
    } else {
        plan.lines().map(|line| format!("    {line}\n")).collect()
    }
}
