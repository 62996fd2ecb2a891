//! Compares the result of a command with its recording.

use super::placeholders::Bindings;
use super::rows::{Row, rows};
use super::world::{EXEC, PBSHOME, SCRATCH};
use crate::support::blocks::Block;
use crate::support::sandbox::Done;
use std::fmt::Write as _;

/// Result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Equal.
    Same,
    /// Equal except for additional text on standard error (decision 21).
    MoreText,
    /// Different.
    Differs,
}

/// Compares a block with a result; None is a command that timed out.
pub fn verdict(block: &Block, done: Option<&Done>, bindings: &mut Bindings) -> Verdict {
    let (Some(done), Some(code)) = (done, block.code) else {
        return if done.is_none() && block.code.is_none() {
            Verdict::Same
        } else {
            Verdict::Differs
        };
    };
    let mut matches = |wanted: &str, actual: &str| {
        rows(wanted, actual, bindings)
            .iter()
            .all(|row| matches!(row, Row::Same(_)))
    };
    let wanted = mark_usage(&expected(&block.out));
    let out = matches(&wanted, &as_if_today(&wanted, &mark_usage(&done.out)));
    let (wanted, actual) = (mark_usage(&expected(&block.err)), mark_usage(&done.err));
    let needs_no_usage = wanted.ends_with("<USAGE>\n");
    let same = matches(&wanted, &actual)
        || (needs_no_usage && matches(strip_usage_mark(&wanted), strip_usage_mark(&actual)));
    match (
        out && code == done.code,
        same,
        contains_all(&wanted, &actual, bindings),
    ) {
        (true, true, _) => Verdict::Same,
        (true, false, true) => Verdict::MoreText,
        _ => Verdict::Differs,
    }
}

/// Recorded text with local paths, and placeholders for values that depend on the machine.
pub fn expected(text: &str) -> String {
    let text = text
        .replace("<EXEC>", EXEC)
        .replace("<PBSHOME>", PBSHOME)
        .replace("<OVL>", SCRATCH);
    let text = text
        .replace("23.06.06", "<VERSION>")
        .replace("pcpus = 2", "pcpus = <N>")
        .replace("pcpus=2", "pcpus=<N>");
    let text = text.replace("Sat 11:28", "<DAY H:M>");
    let text = ["11:28", "11:38", "12:28", "12:29"]
        .iter()
        .fold(text, |text, time| {
            text.replace(&format!("Today {time}"), "Today <H:M>")
        });
    text.split_inclusive('\n').map(measured).collect()
}

/// Replaces a weekday by `Today` where the recording has `Today`. Recorded reservations begin and
/// end on the same day. If the test runs late in the evening, they cross midnight.
fn as_if_today(wanted: &str, actual: &str) -> String {
    let line = |(wanted, actual): (&str, &str)| {
        let (wanted, mut actual) = (
            wanted.split(" / ").collect::<Vec<_>>(),
            actual.split(" / ").map(String::from).collect::<Vec<_>>(),
        );
        if let ([before, _, after], [start, _, end]) = (&wanted[..], &mut actual[..]) {
            let at = start.len().saturating_sub("  Sun 00:31".len());
            if before.ends_with("Today <H:M>")
                && start.get(at..).is_some_and(|time| time.starts_with("  "))
            {
                start.replace_range(at..at + "  Sun".len(), "Today");
            }
            if after.starts_with("Today <H:M>") && end.get(9..11) == Some("  ") {
                *end = format!("Today{}{}", &end[3..9], &end[11..]);
            }
        }
        actual.join(" / ")
    };
    let wanted = wanted.split_inclusive('\n').chain(std::iter::repeat(""));
    wanted.zip(actual.split_inclusive('\n')).map(line).collect()
}

/// Replaces a measured value in a JSON line by a placeholder.
fn measured(line: &str) -> String {
    let Some((key, value)) = line
        .split_once(":\t")
        .filter(|(key, _)| key.starts_with("\t\t\t"))
    else {
        return line.to_string();
    };
    let end = if value.trim_end().ends_with(',') {
        ",\n"
    } else {
        "\n"
    };
    let is_short = value.starts_with("\"00:00:") && key == "\t\t\t\t\"walltime\"";
    match key.trim_start() {
        "\"mem\"" | "\"vmem\"" if value.contains("kb\"") && !value.contains("1048576") => {
            format!("{key}:\t\"<N>kb\"{end}")
        }
        "\"pcpus\"" | "\"cpupercent\"" => format!("{key}:\t<N>{end}"),
        _ if is_short => format!("{key}:\t\"<HHMMSS>\"{end}"),
        _ => line.to_string(),
    }
}

/// Replaces a usage text by a marker, because usage and help texts differ from PBS's (decision 8).
fn mark_usage(text: &str) -> String {
    let is_usage =
        |line: &&str| line.to_ascii_lowercase().starts_with("usage:") || *line == "<USAGE>";
    let kept: Vec<&str> = text
        .split_inclusive('\n')
        .take_while(|line| !is_usage(&line.trim_end()))
        .collect();
    let is_all = kept.len() == text.split_inclusive('\n').count();
    kept.concat() + if is_all { "" } else { "<USAGE>\n" }
}

/// Text without the marker for a usage.
fn strip_usage_mark(text: &str) -> &str {
    text.strip_suffix("<USAGE>\n").unwrap_or(text)
}

/// True if the output contains every expected line in order, each possibly continued.
fn contains_all(expected: &str, text: &str, bindings: &mut Bindings) -> bool {
    let mut actual = text.lines();
    let mut wanted = strip_usage_mark(expected).lines().peekable();
    let is_empty = wanted.peek().is_none();
    wanted.all(|wanted| actual.any(|line| bindings.begins(wanted, line))) && !is_empty
}

/// Formats a block for readers: equal lines unchanged, others as `-` recorded and `+` actual.
pub fn difference(
    block: &Block,
    command: &str,
    done: Option<&Done>,
    verdict: Verdict,
    bindings: &mut Bindings,
) -> String {
    if verdict == Verdict::Same {
        return String::new();
    }
    let mut text = format!(
        "@@ {} {:?}\n{}$ {}\n",
        block.line,
        verdict,
        block.who,
        bindings.named(command)
    );
    let (code, out, err) = done.map_or((None, "", ""), |done| {
        (Some(done.code), &done.out, &done.err)
    });
    for (mark, recorded, actual) in [("", &block.out, out), ("2> ", &block.err, err)] {
        for row in rows(&expected(recorded), actual, bindings) {
            let _ = match row {
                Row::Same(line) => writeln!(text, " {mark}{line}"),
                Row::Missing(line) => writeln!(text, "-{mark}{line}"),
                Row::Extra(line) => writeln!(text, "+{mark}{}", bindings.named(&line)),
            };
        }
    }
    let name = |code: Option<i32>| code.map_or("TIMEOUT".to_string(), |code| code.to_string());
    if code != block.code {
        let _ = writeln!(text, "-? {}\n+? {}", name(block.code), name(code));
    }
    text
}
