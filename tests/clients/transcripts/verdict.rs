//! Compares the result of a command with its recording.

use super::alike::{Row, rows};
use super::placeholders::Bindings;
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
    SaysMore,
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
    let mut fit = |wanted: &str, said: &str| {
        rows(wanted, said, bindings)
            .iter()
            .all(|row| matches!(row, Row::Same(_)))
    };
    let wanted = without_usage(&expected(&block.out));
    let out = fit(&wanted, &as_if_today(&wanted, &without_usage(&done.out)));
    let (wanted, said) = (
        without_usage(&expected(&block.err)),
        without_usage(&done.err),
    );
    let needs_no_usage = wanted.ends_with("<USAGE>\n");
    let same =
        fit(&wanted, &said) || (needs_no_usage && fit(usage_apart(&wanted), usage_apart(&said)));
    match (
        out && code == done.code,
        same,
        says_all(&wanted, &said, bindings),
    ) {
        (true, true, _) => Verdict::Same,
        (true, false, true) => Verdict::SaysMore,
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
        .fold(text, |text, moment| {
            text.replace(&format!("Today {moment}"), "Today <H:M>")
        });
    text.split_inclusive('\n').map(measured).collect()
}

/// Recorded reservations begin and end on the same day. Late in the evening they cross midnight
/// here, and a weekday is printed: replaces it by `Today` where the recording has that.
fn as_if_today(wanted: &str, said: &str) -> String {
    let line = |(wanted, said): (&str, &str)| {
        let (wanted, mut said) = (
            wanted.split(" / ").collect::<Vec<_>>(),
            said.split(" / ").map(String::from).collect::<Vec<_>>(),
        );
        if let ([before, _, after], [start, _, end]) = (&wanted[..], &mut said[..]) {
            let at = start.len().saturating_sub("  Sun 00:31".len());
            if before.ends_with("Today <H:M>")
                && start
                    .get(at..)
                    .is_some_and(|moment| moment.starts_with("  "))
            {
                start.replace_range(at..at + "  Sun".len(), "Today");
            }
            if after.starts_with("Today <H:M>") && end.get(9..11) == Some("  ") {
                *end = format!("Today{}{}", &end[3..9], &end[11..]);
            }
        }
        said.join(" / ")
    };
    let wanted = wanted.split_inclusive('\n').chain(std::iter::repeat(""));
    wanted.zip(said.split_inclusive('\n')).map(line).collect()
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
fn without_usage(text: &str) -> String {
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
fn usage_apart(text: &str) -> &str {
    text.strip_suffix("<USAGE>\n").unwrap_or(text)
}

/// True if the output contains every expected line in order, each possibly continued.
fn says_all(expected: &str, text: &str, bindings: &mut Bindings) -> bool {
    let mut said = text.lines();
    let mut wanted = usage_apart(expected).lines().peekable();
    let is_silent = wanted.peek().is_none();
    wanted.all(|wanted| said.any(|line| bindings.begins(wanted, line))) && !is_silent
}

/// Block for a reader: equal lines unchanged, others as `-` recorded and `+` actual.
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
    for (mark, recorded, said) in [("", &block.out, out), ("2> ", &block.err, err)] {
        for row in rows(&expected(recorded), said, bindings) {
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
