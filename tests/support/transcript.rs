//! Transcripts of shell sessions: commands as a user types them, and their output.
//!
//! A line `$ command` is run and lines `> more` continue it. The lines below are its output on both
//! streams. `[..]` matches any text within a line, a line `[...]` any number of lines. The expected
//! exit status is 0, unless a line `? 3` precedes the output.

use std::path::Path;
use std::process::{Command, Stdio};

/// A command and its expected result.
#[derive(Debug)]
pub struct Step {
    /// Command line for the shell.
    pub command: String,
    /// Expected exit status.
    pub status: i32,
    /// Expected output lines.
    pub output: Vec<String>,
}

/// Parses a transcript.
pub fn read(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.to_string(),
                status: 0,
                output: Vec::new(),
            });
            continue;
        }
        let step = steps
            .last_mut()
            .expect("a transcript begins with `$ command`");
        match (line.strip_prefix("> "), line.strip_prefix("? ")) {
            (Some(more), _) if step.output.is_empty() => step.command += &format!("\n{more}"),
            (_, Some(status)) if step.output.is_empty() => {
                step.status = status.parse().expect("a number behind `?`")
            }
            _ => step.output.push(line.to_string()),
        }
    }
    steps
}

/// Separator between the outputs of two commands; no command prints it.
const MARK: &str = "\u{1}end of step ";

/// Runs the steps in one shell in `folder`, with only `variables` in the environment. Returns one
/// message for each step that did not go as expected.
pub fn run(steps: &[Step], folder: &Path, variables: &[(&str, &Path)]) -> Vec<String> {
    let script: String = steps
        .iter()
        .map(|step| format!("{}\necho \"{MARK}$?\"\n", step.command))
        .collect::<Vec<_>>()
        .join("");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("exec 2>&1\n{script}")])
        .current_dir(folder)
        .stdin(Stdio::null());
    shell.env_clear().envs(
        variables
            .iter()
            .map(|(name, value)| (name, value.as_os_str())),
    );
    let printed = shell.output().expect("sh runs").stdout;
    let printed = String::from_utf8_lossy(&printed);
    let mut blocks = printed.split(MARK);
    let mut block = blocks.next().unwrap_or_default();
    let mut failures = Vec::new();
    for step in steps {
        let Some(next) = blocks.next() else {
            failures.push(format!(
                "$ {}\n  the shell ended here: {block}",
                step.command
            ));
            break;
        };
        let (status, rest) = next.split_once('\n').unwrap_or((next, ""));
        failures.extend(compare(step, block, status));
        block = rest;
    }
    failures
}

fn compare(step: &Step, printed: &str, status: &str) -> Option<String> {
    let lines: Vec<&str> = printed.lines().collect();
    let expected: Vec<&str> = step.output.iter().map(String::as_str).collect();
    if lines_fit(&expected, &lines) && status == step.status.to_string() {
        return None;
    }
    let (expected, status_wanted) = (expected.join("\n"), step.status);
    Some(format!(
        "$ {}\n--- expected, exit status {status_wanted}:\n{expected}\n--- got, exit status {status}:\n{printed}",
        step.command
    ))
}

/// True if the lines match the patterns.
fn lines_fit(patterns: &[&str], lines: &[&str]) -> bool {
    match patterns {
        [] => lines.is_empty(),
        ["[...]", rest @ ..] => (0..=lines.len()).any(|skipped| lines_fit(rest, &lines[skipped..])),
        [first, rest @ ..] => {
            lines.first().is_some_and(|line| fits(first, line)) && lines_fit(rest, &lines[1..])
        }
    }
}

/// True if the line matches the pattern.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((before, after)) = pattern.split_once("[..]") else {
        return pattern == line;
    };
    let Some(rest) = line.strip_prefix(before) else {
        return false;
    };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(after, &rest[at..]))
}

#[test]
fn transcripts_detect_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = [("PATH", Path::new("/usr/bin:/bin"))];
    let failures = |text: &str| run(&read(text), folder.path(), &path).len();
    assert_eq!(
        failures("$ x=a\n$ cat <<END\n> $x 17 b\n> END\na [..] b\n$ pwd\n/[..]\n$ false\n? 1\n"),
        0
    );
    assert_eq!(
        failures("$ seq 5\n1\n[...]\n5\n$ seq 2\n[...]\n1\n2\n[...]\n"),
        0
    );
    assert_eq!(failures("$ echo b\na\n"), 1);
    assert_eq!(failures("$ echo a\n$ echo b\nb\n"), 1);
    assert_eq!(failures("$ false\n$ true\n? 1\n"), 2);
    assert_eq!(failures("$ exit 0\n$ true\n"), 1);
}
