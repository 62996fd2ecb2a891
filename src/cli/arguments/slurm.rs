//! Slurm's options, and the PBS options that correspond to them.
//!
//! `qsub` does not accept Slurm's options. The translations appear in its messages: for an unknown
//! long option such as `--mem=4G`, and for `#SBATCH` lines, which qsub ignores.

use crate::cli::arguments::directives::{self, Directive};
use crate::model::time::Span;
use std::ffi::OsString;

/// The prefix of Slurm's directives.
const PREFIX: &[u8] = b"#SBATCH";

/// An option of `sbatch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmOption {
    /// The long name without dashes.
    pub name: String,
    /// The value; empty for a flag.
    pub value: String,
}

/// Slurm options in PBS's form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PbsForm {
    /// The options of qsub.
    pub options: Vec<String>,
    /// The Slurm options that have no counterpart in this table.
    pub others: Vec<String>,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionValue {
    /// None.
    Flag,
    /// The next word, or the text after `=`.
    Text,
}

/// What an option means.
#[derive(Clone, Copy)]
enum Meaning {
    /// Part of the resource request ([`request`]).
    Resource,
    /// The option of qsub for this value; None if qsub has no counterpart for the value.
    Option(fn(&str) -> Option<String>),
}

/// An option that this module translates: long name, letter (or a blank), value and meaning.
type Row = (&'static str, char, OptionValue, Meaning);

/// The translated options.
const TABLE: &[Row] = {
    use Meaning::{Option, Resource};
    use OptionValue::{Flag, Text};
    &[
        (
            "account",
            'A',
            Text,
            Option(|value| Some(format!("-A {value}"))),
        ),
        ("array", 'a', Text, Option(array)),
        ("begin", 'b', Text, Option(begin)),
        (
            "chdir",
            'D',
            Text,
            Option(|value| Some(format!("-d {value}"))),
        ),
        ("cpus-per-task", 'c', Text, Resource),
        ("dependency", 'd', Text, Option(dependency)),
        (
            "error",
            'e',
            Text,
            Option(|value| Some(format!("-e {value}"))),
        ),
        ("exclusive", ' ', Flag, Option(|_| Some("-n".to_string()))),
        ("export", ' ', Text, Option(export)),
        ("gpus", 'G', Text, Resource),
        ("gpus-per-node", ' ', Text, Resource),
        ("gres", ' ', Text, Resource),
        ("hold", 'H', Flag, Option(|_| Some("-h".to_string()))),
        (
            "job-name",
            'J',
            Text,
            Option(|value| Some(format!("-N {value}"))),
        ),
        ("mail-type", ' ', Text, Option(mail_type)),
        (
            "mail-user",
            ' ',
            Text,
            Option(|value| Some(format!("-M {value}"))),
        ),
        ("mem", ' ', Text, Resource),
        ("mem-per-cpu", ' ', Text, Resource),
        (
            "no-requeue",
            ' ',
            Flag,
            Option(|_| Some("-r n".to_string())),
        ),
        ("nodes", 'N', Text, Resource),
        ("ntasks", 'n', Text, Resource),
        ("ntasks-per-node", ' ', Text, Resource),
        (
            "output",
            'o',
            Text,
            Option(|value| Some(format!("-o {value}"))),
        ),
        (
            "partition",
            'p',
            Text,
            Option(|value| Some(format!("-q {value}"))),
        ),
        (
            "qos",
            'q',
            Text,
            Option(|value| Some(format!("-W qos={value}"))),
        ),
        ("requeue", ' ', Flag, Option(|_| Some("-r y".to_string()))),
        (
            "test-only",
            ' ',
            Flag,
            Option(|_| Some("--dry-run".to_string())),
        ),
        ("time", 't', Text, Option(time)),
        (
            "wrap",
            ' ',
            Text,
            Option(|value| Some(format!("-- sh -c '{value}'"))),
        ),
    ]
};

/// Whether this module translates the long option `name`.
pub fn is_known(name: &str) -> bool {
    TABLE.iter().any(|(known, ..)| *known == name)
}

/// The options in PBS's form. All resource options together become one request.
pub fn in_pbs(options: &[SlurmOption]) -> PbsForm {
    let mut form = PbsForm::default();
    for option in options {
        let row = TABLE.iter().find(|(name, ..)| *name == option.name);
        match row.map(|(.., meaning)| meaning) {
            Some(Meaning::Resource) => {}
            Some(Meaning::Option(translate)) if translate(&option.value).is_some() => {
                form.options.extend(translate(&option.value));
            }
            _ => form.others.push(option.to_string()),
        }
    }
    form.options.extend(request(options));
    form
}

impl std::fmt::Display for SlurmOption {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.value.as_str() {
            "" => write!(f, "--{}", self.name),
            value => write!(f, "--{}={value}", self.name),
        }
    }
}

/// The resource request that corresponds to the number of nodes, tasks, processors and GPUs, and to
/// the memory.
fn request(options: &[SlurmOption]) -> Option<String> {
    let value = |name: &str| {
        let last = options.iter().rev().find(|option| option.name == name);
        last.map(|option| option.value.as_str())
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
    let processors = number("cpus-per-task");
    let per_task = processors.unwrap_or(1);
    let gpus = value("gpus-per-node")
        .or(value("gres").and_then(|gres| gres.strip_prefix("gpu")))
        .or(value("gpus"))
        .map(|text| text.rsplit(':').next().unwrap_or_default())
        .map(|text| text.parse::<u64>().unwrap_or(1));
    let (nodes, tasks) = (number("nodes"), number("ntasks"));
    let tasks_per_node = number("ntasks-per-node");
    let chunks = match (nodes, tasks, tasks_per_node) {
        (Some(nodes), Some(tasks), None) => (nodes, tasks.div_ceil(nodes.max(1))),
        (Some(nodes), _, Some(tasks)) => (nodes, tasks),
        (Some(nodes), None, None) => (nodes, 1),
        (None, Some(tasks), Some(each)) => (tasks.div_ceil(each.max(1)), each),
        // Slurm's --mem and GPUs are for each node. A chunk on one node keeps that meaning.
        (None, Some(tasks), None) if value("mem").is_some() || gpus.is_some() => (1, tasks),
        (None, Some(tasks), None) => (tasks, 1),
        (None, None, Some(tasks)) => (1, tasks),
        (None, None, None) => (1, 1),
    };
    let (count, tasks_each) = chunks;
    let memory = match (value("mem"), value("mem-per-cpu")) {
        (Some(text), _) => size(text, 1),
        (None, Some(text)) => size(text, tasks_each.saturating_mul(per_task)),
        (None, None) => None,
    };
    let mut resources = Vec::new();
    let is_simple = (count, tasks_each) == (1, 1);
    let total = tasks_each.saturating_mul(per_task);
    if !is_simple || processors.is_some() || tasks.is_some() || nodes.is_some() {
        resources.push(format!("ncpus={total}"));
    }
    if !is_simple {
        resources.push(format!("mpiprocs={tasks_each}"));
    }
    resources.extend(memory.map(|memory| format!("mem={memory}")));
    resources.extend(gpus.map(|gpus| format!("ngpus={gpus}")));
    match (resources.is_empty(), is_simple) {
        (true, _) => None,
        (false, true) => Some(format!("-l {}", resources.join(","))),
        (false, false) => Some(format!("-l select={count}:{}", resources.join(":"))),
    }
}

/// A size in PBS's form, times `factor`. Slurm's unit is a letter, by default M.
fn size(text: &str, factor: u64) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse::<u64>().ok()?.checked_mul(factor)?;
    let unit = unit.chars().next().unwrap_or('m').to_ascii_lowercase();
    // Slurm's 0 requests all memory of a node.
    ("kmgt".contains(unit) && number > 0).then(|| format!("{number}{unit}b"))
}

/// Slurm's times: minutes, `M:SS`, `H:MM:SS`, `D-HH`, `D-HH:MM` and `D-HH:MM:SS`.
fn time(text: &str) -> Option<String> {
    let span = match text.split_once('-') {
        Some((days, clock)) => {
            let clock = match clock.matches(':').count() {
                0 => format!("{clock}:00:00"),
                1 => format!("{clock}:00"),
                _ => clock.to_string(),
            };
            let days = days.parse::<i64>().ok()?.checked_mul(86400)?;
            Span::seconds(Span::parse(&clock)?.as_seconds().checked_add(days)?)
        }
        None if text.contains(':') => Span::parse(text)?,
        None => Span::seconds(text.parse::<i64>().ok()?.checked_mul(60)?),
    };
    (span > Span(0)).then(|| format!("-l walltime={span}"))
}

fn array(text: &str) -> Option<String> {
    let indices = text.split('%').next().unwrap_or_default();
    let is_one_range = indices.contains('-') && !indices.contains(',');
    Some(format!("{} {text}", if is_one_range { "-J" } else { "-t" }))
}

fn dependency(text: &str) -> Option<String> {
    let is_same = ["after", "afterok", "afternotok", "afterany"]
        .iter()
        .any(|kind| {
            text.strip_prefix(kind)
                .is_some_and(|rest| rest.starts_with(':'))
        });
    is_same.then(|| format!("-W depend={text}"))
}

/// `2026-12-31T22:00[:00]` as `-a 202612312200`.
fn begin(text: &str) -> Option<String> {
    let is_date = text.len() >= 16 && text.as_bytes().get(10) == Some(&b'T');
    let digits: String = text.chars().filter(char::is_ascii_digit).take(12).collect();
    (is_date && digits.len() == 12).then(|| format!("-a {digits}"))
}

fn export(text: &str) -> Option<String> {
    match text {
        "ALL" => Some("-V".to_string()),
        "NONE" => None,
        list => match list.strip_prefix("ALL,") {
            Some(list) => Some(format!("-V -v {list}")),
            None => Some(format!("-v {list}")),
        },
    }
}

fn mail_type(text: &str) -> Option<String> {
    let mut letters = String::new();
    for kind in text.split(',') {
        letters.push_str(match kind.to_ascii_uppercase().as_str() {
            "NONE" => return Some("-m n".to_string()),
            "ALL" => "abe",
            "BEGIN" => "b",
            "END" => "e",
            "FAIL" => "a",
            _ => return None,
        });
    }
    let letters: String = "abe".chars().filter(|c| letters.contains(*c)).collect();
    Some(format!("-m {letters}"))
}

/// The options in the words of an `#SBATCH` line.
fn options(words: &[OsString]) -> Vec<SlurmOption> {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .take_while(|word| !word.starts_with('#'))
        .collect();
    let mut words = words.into_iter().peekable();
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = named(&word);
        let row = TABLE.iter().find(|(known, ..)| *known == name);
        let is_flag = row.is_some_and(|(_, _, kind, _)| *kind == OptionValue::Flag);
        let value = match value {
            Some(value) => value,
            None if is_flag => String::new(),
            None => words
                .next_if(|next| !next.starts_with('-'))
                .unwrap_or_default(),
        };
        options.push(SlurmOption { name, value });
    }
    options
}

/// The long name in a word, and the value if the word contains it: `--mem=4G`, `-n4`.
fn named(word: &str) -> (String, Option<String>) {
    if let Some(long) = word.strip_prefix("--") {
        return match long.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (long.to_string(), None),
        };
    }
    let mut rest = word.strip_prefix('-').unwrap_or(word).chars();
    let letter = rest.next().unwrap_or_default();
    let value = Some(rest.collect::<String>()).filter(|value| !value.is_empty());
    let row = TABLE.iter().find(|(_, known, ..)| *known == letter);
    match row {
        Some((name, ..)) if word.starts_with('-') => (name.to_string(), value),
        _ => (word.trim_start_matches('-').to_string(), None),
    }
}

/// Warnings about the `#SBATCH` lines of a script: the lines, the options, and the options in PBS's
/// form. None if the script has none before its first command, as sbatch reads them.
pub fn warnings(script: &[u8]) -> Vec<String> {
    let lines = directives::find(script, PREFIX);
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
        return Vec::new();
    };
    let place = if first.line == last.line {
        format!("line {} is", first.line)
    } else {
        format!("lines {} to {} are", first.line, last.line)
    };
    let options: Vec<SlurmOption> = lines.iter().flat_map(options_of_line).collect();
    let form = in_pbs(&options);
    let mut warnings = vec![format!(
        "warning: {place} for Slurm (#SBATCH) and ignored: {}",
        shortened(&options.iter().map(ToString::to_string).collect::<Vec<_>>())
    )];
    if !form.options.is_empty() {
        warnings.push(format!("warning: in PBS: #PBS {}", form.options.join(" ")));
    }
    if !form.others.is_empty() && !form.options.is_empty() {
        warnings.push(format!(
            "warning: without a known form in PBS: {}",
            shortened(&form.others)
        ));
    }
    warnings
}

fn options_of_line(line: &Directive) -> Vec<SlurmOption> {
    // A line with an open quote has no readable options.
    options(&directives::words(&line.text).unwrap_or_default())
}

/// The number of options in a warning.
const MOST_SHOWN: usize = 6;

fn shortened(options: &[String]) -> String {
    let shown = options[..options.len().min(MOST_SHOWN)].join(" ");
    match options.len().saturating_sub(MOST_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pbs(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let form = in_pbs(&options(&words));
        let others = form.others.iter().map(|option| format!("?{option}"));
        form.options
            .into_iter()
            .chain(others)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn options_have_their_form_in_pbs() {
        for (slurm, expected) in [
            ("--mem=4G", "-l mem=4gb"),
            ("--mem 500", "-l mem=500mb"),
            ("--array=1-10%2", "-J 1-10%2"),
            ("--array 1,3", "-t 1,3"),
            ("-a 7", "-t 7"),
            ("--time=01:30:00", "-l walltime=01:30:00"),
            ("-t 90", "-l walltime=01:30:00"),
            ("-t1-12", "-l walltime=36:00:00"),
            ("--time=2:30", "-l walltime=00:02:30"),
            ("--cpus-per-task=4", "-l ncpus=4"),
            ("-c 4 --mem=8G", "-l ncpus=4,mem=8gb"),
            ("-n 1", "-l ncpus=1"),
            ("--ntasks=4", "-l select=4:ncpus=1:mpiprocs=1"),
            (
                "--ntasks=64 --mem=900G",
                "-l select=1:ncpus=64:mpiprocs=64:mem=900gb",
            ),
            (
                "-N 2 --ntasks-per-node=8 -c 2 --mem-per-cpu=1G",
                "-l select=2:ncpus=16:mpiprocs=8:mem=16gb",
            ),
            ("-N 2 -n 8", "-l select=2:ncpus=4:mpiprocs=4"),
            ("--gres=gpu:2", "-l ngpus=2"),
            ("--gres=gpu", "-l ngpus=1"),
            ("-G a100:1 -c 8", "-l ncpus=8,ngpus=1"),
            ("--partition=gpu -J sim -A phys", "-q gpu -N sim -A phys"),
            ("-o out -e err", "-o out -e err"),
            ("--dependency=afterok:1:2", "-W depend=afterok:1:2"),
            ("--dependency=singleton", "?--dependency=singleton"),
            ("--mail-type=END,FAIL --mail-user=a@b", "-m ae -M a@b"),
            ("--begin=2026-12-31T22:00", "-a 202612312200"),
            ("--export=ALL,A=1", "-V -v A=1"),
            ("--hold --exclusive", "-h -n"),
            (
                "--constraint=fast -n 2",
                "-l select=2:ncpus=1:mpiprocs=1 ?--constraint=fast",
            ),
            ("-n 1 # one task", "-l ncpus=1"),
            ("--mem=0", ""),
        ] {
            assert_eq!(pbs(slurm), expected, "{slurm}");
        }
    }

    #[test]
    fn a_script_with_slurm_lines_gets_warnings() {
        let script = b"#!/bin/sh\n#SBATCH --ntasks=4\n# text\n#SBATCH -t 10 --foo\nhostname\n";
        assert_eq!(
            warnings(script),
            [
                "warning: lines 2 to 4 are for Slurm (#SBATCH) and ignored: --ntasks=4 --time=10 \
                 --foo",
                "warning: in PBS: #PBS -l walltime=00:10:00 -l select=4:ncpus=1:mpiprocs=1",
                "warning: without a known form in PBS: --foo",
            ]
        );
        assert!(warnings(b"#!/bin/sh\nhostname\n#SBATCH -n 4\n").is_empty());
        assert_eq!(
            warnings(b"#SBATCH --x='a\n"),
            ["warning: line 1 is for Slurm (#SBATCH) and ignored: "]
        );
    }
}
