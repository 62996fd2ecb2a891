//! Values accepted by `qsub` are read back unchanged from `qstat`: names, accounts, paths,
//! environments, comments and commands with arbitrary bytes.
//!
//! The parsers in this file follow PBS's rules: text is rejoined at newline and TAB, dsv is split
//! at its delimiter, JSON is read by a JSON parser. Some values are ambiguous in these formats:
//!
//! * In all three, bytes that are not UTF-8: each invalid sequence becomes one U+FFFD, because JSON
//!   cannot represent it and text readers fail on it. Two variables with names that differ only
//!   in such bytes are the same JSON key.
//! * In text and dsv, a control character and `^` with its letter: PBS writes both as `^G`.
//! * In text, a newline and the characters `\n`, because values are not escaped. In `Variable_List`
//!   and in dsv `\` is escaped, so they differ.

use crate::support::cases;
use crate::support::grammars;
use crate::support::sandbox::Sandbox;
use lanai::cli::commands::qsub;
use lanai::cli::output::dsv;
use lanai::cli::output::full::{self, Lines};
use lanai::shown::attributes;
use lanai::wire::message::{JobRecord, NewJob};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Attributes of a job, or its variables, by name.
type Named = BTreeMap<String, String>;

/// Values that have caused errors in clients and terminals.
const ODD: &[&str] = &[
    "a",
    "b c",
    "007",
    "1e5",
    "true",
    "null",
    "[1]",
    "{}",
    "-0",
    "\n",
    "\n\t",
    "\t",
    "\r",
    "\x07",
    "\x1b[31m",
    "\x7f",
    "\\",
    "\\n",
    "\\,",
    "\"",
    "'",
    ",",
    ",,",
    "=",
    "|",
    ":",
    "::",
    ";",
    "^",
    "^A",
    "^?",
    "é",
    "\u{1f600}",
    "\u{2028}",
    "\u{85}",
    "() { :;}; echo x",
    " ",
    "    job_state = F",
    "\n    job_state = F",
    "\n\nJob Id: 1.head\n",
    "Variable_List=A=1",
    "</jsdl-hpcpa:Argument>",
    "&amp;",
    "$HOME",
    "%s",
    "#",
    "~",
    "*",
];

/// Bytes that are not valid UTF-8.
const INVALID_UTF8: &[&[u8]] = &[b"\xff", b"\xc3", b"\xf0\x9f", b"\x80,"];

/// Texts composed of [`ODD`] values, some longer than a line.
fn text() -> impl Strategy<Value = String> {
    let long = (
        prop::sample::select(&["x", "é,", "y z", ",", "\\"][..]),
        20usize..90,
    )
        .prop_map(|(text, times)| text.repeat(times));
    let piece = prop_oneof![9 => prop::sample::select(ODD).prop_map(String::from), 1 => long, 1 => "[ -~]{1,4}"];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// Texts as from [`text`], some with invalid UTF-8.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::sample::select(INVALID_UTF8);
    (text(), prop::option::weighted(0.3, odd), text()).prop_map(|(before, odd, after)| match odd {
        Some(odd) => [before.as_bytes(), odd, after.as_bytes()].concat(),
        None => before.into_bytes(),
    })
}

/// Any job name that PBS accepts.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,4}",
        "[A-Za-z0-9+._-]{1,30}",
        "[a-z.]{1,230}",
        Just("1e5".into()),
        Just("true".into()),
        Just("-N".into())
    ]
}

/// A variable: plain, a function exported by bash, or with arbitrary bytes.
fn variable() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let plain = "[A-Z][A-Z0-9_]{0,6}".prop_map(String::into_bytes);
    let function = "BASH_FUNC_[a-z]{1,3}%%".prop_map(String::into_bytes);
    let any = bytes().prop_map(|name| name.into_iter().filter(|&b| b != b'=').collect::<Vec<u8>>());
    // Variables used by the programs under test are not changed.
    let reserved: [&[u8]; 9] = [
        b"PBS_", b"LANAI_", b"LD_", b"PATH", b"HOME", b"USER", b"LOGNAME", b"TZ", b"LANG",
    ];
    let is_free = move |name: &Vec<u8>| {
        !name.is_empty() && !reserved.iter().any(|taken| name.starts_with(taken))
    };
    (
        prop_oneof![4 => plain, 1 => function, 2 => any].prop_filter("a name", is_free),
        bytes(),
    )
}

/// A generated job.
#[derive(Clone, Debug)]
struct GeneratedJob {
    name: String,
    account: String,
    comment: String,
    /// None for the default path, in a directory with an odd name.
    path: Option<Vec<u8>>,
    /// Variables passed with `-V`.
    exported: Vec<(Vec<u8>, Vec<u8>)>,
    /// Variables passed with `-v`.
    named: Vec<(Vec<u8>, Vec<u8>)>,
    words: Vec<Vec<u8>>,
}

fn generated_job() -> impl Strategy<Value = GeneratedJob> {
    let path = prop::option::of(bytes().prop_filter("a path here", |path| {
        !path.contains(&b':') && !path.contains(&b'^')
    }));
    let named = variable().prop_filter("a name for -v", |(name, _)| {
        !name.iter().any(|b| b",\"'\\".contains(b))
    });
    let variables = (
        prop::collection::vec(variable(), 0..4),
        prop::collection::vec(named, 0..4),
    );
    (
        name(),
        text(),
        text(),
        path,
        variables,
        prop::collection::vec(bytes(), 0..3),
    )
        .prop_map(
            |(name, account, comment, path, (exported, named), words)| GeneratedJob {
                name,
                account,
                comment,
                path,
                exported,
                named,
                words,
            },
        )
}

impl GeneratedJob {
    /// Command line of `qsub`. The comment is set separately.
    fn line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = ["-h", "-V", "-N", &self.name, "-A", &self.account]
            .map(OsString::from)
            .to_vec();
        if let Some(path) = &self.path {
            line.extend(["-o".into(), OsString::from_vec(path.clone())]);
        }
        if !self.named.is_empty() {
            let entry = |(name, value): &(Vec<u8>, Vec<u8>)| {
                [name, &b"="[..], &with_escapes(value)].concat()
            };
            let list: Vec<Vec<u8>> = self.named.iter().map(entry).collect();
            line.extend(["-v".into(), OsString::from_vec(list.join(&b','))]);
        }
        line.extend(["--".into(), "/bin/echo".into()]);
        line.extend(
            self.words
                .iter()
                .map(|word| OsString::from_vec(word.clone())),
        );
        line
    }

    /// Resulting variables of the job: `-v` overrides `-V`, and later values override earlier ones.
    fn variables(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.exported.iter().chain(&self.named).cloned().collect()
    }
}

/// Escapes a value of `-v`: `\` before characters that end the value or would be removed.
fn with_escapes(value: &[u8]) -> Vec<u8> {
    let escaped = |&byte: &u8| {
        if b",\\\"'".contains(&byte) {
            vec![b'\\', byte]
        } else {
            vec![byte]
        }
    };
    value.iter().flat_map(escaped).collect()
}

/// Text as PBS prints it, with replacements for control characters.
fn printed(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => "\\n".to_string(),
        '\t' => "\t".to_string(),
        c if c.is_ascii_control() => format!("^{}", char::from(c as u8 ^ 0x40)),
        c => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Reverses [`printed`].
fn unprinted(text: &str) -> String {
    let (mut plain, mut chars) = (String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '^' if chars
                .peek()
                .is_some_and(|c| "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_?".contains(*c)) =>
            {
                plain.extend(chars.next().map(|c| char::from(c as u8 ^ 0x40)));
            }
            '\\' if chars.next_if_eq(&'n').is_some() => plain.push('\n'),
            c => plain.push(c),
        }
    }
    plain
}

/// True if text output represents the given value exactly, apart from ambiguous characters.
fn represents(shown: &str, given: &str) -> bool {
    shown == printed(given)
        && (unprinted(shown) == given || given.contains("\\n") || given.contains('^'))
}

/// Splits a text at separators that no `\` precedes; the parts stay escaped.
fn split_unescaped<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        if text[at..].starts_with('\\') {
            at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
        } else if text[at..].starts_with(separator) {
            parts.push(&text[begin..at]);
            at += separator.len();
            begin = at;
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// Removes the escaping `\`; `\n` becomes a newline.
fn unescaped(text: &str) -> String {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
            c => plain.push(c),
        }
    }
    plain
}

/// Parses `Variable_List`: `K=V,K=V`.
fn variables(list: &str) -> Named {
    let entry = |entry: &str| {
        let entry = unescaped(entry);
        let (name, value) = entry
            .split_once('=')
            .unwrap_or_else(|| panic!("no variable: {entry:?} in {list:?}"));
        (name.to_string(), value.to_string())
    };
    split_unescaped(list, ",").into_iter().map(entry).collect()
}

/// Parses `qstat -f`, with or without `-w`: attributes by job id.
fn parse_text(out: &str) -> BTreeMap<String, Named> {
    let whole = out.replace("\n\t", "");
    let job = |block: &str| {
        let mut lines = block.lines();
        let id = lines
            .next()
            .and_then(|line| line.strip_prefix("Job Id: "))
            .unwrap_or_else(|| panic!("no job: {block:?}"));
        let attribute = |line: &str| {
            let (name, value) = line
                .strip_prefix("    ")
                .and_then(|line| line.split_once(" = "))
                .unwrap_or_else(|| panic!("{line:?} in {block:?}"));
            (name.to_string(), value.to_string())
        };
        (id.to_string(), lines.map(attribute).collect())
    };
    whole.split_terminator("\n\n").map(job).collect()
}

/// Parses `qstat -f -F dsv`: attributes by job id.
fn parse_dsv(out: &str, delimiter: &str) -> BTreeMap<String, Named> {
    let job = |line: &str| {
        let parts = line
            .strip_prefix("Job Id: ")
            .unwrap_or_else(|| panic!("no job: {line:?}"));
        let mut parts = split_unescaped(parts, delimiter).into_iter();
        let id = parts.next().unwrap_or_default();
        let attribute = |part: &str| {
            let (name, value) = part
                .split_once('=')
                .unwrap_or_else(|| panic!("{part:?} in {line:?}"));
            (name.to_string(), unescaped(value))
        };
        (id.to_string(), parts.map(attribute).collect())
    };
    out.split_terminator('\n').map(job).collect()
}

/// Expected attributes and variables of a job.
struct Expected {
    texts: Vec<(&'static str, String)>,
    variables: Vec<(String, String)>,
}

impl Expected {
    fn check_text(&self, job: &Named) {
        for (name, given) in &self.texts {
            assert!(
                represents(&job[*name], given),
                "{name}: {:?} for {given:?}",
                job[*name]
            );
        }
        self.check_variables(&job["Variable_List"]);
    }

    fn check_dsv(&self, job: &Named) {
        for (name, given) in &self.texts {
            assert_eq!(job[*name], with_newlines(given), "{name}");
        }
        self.check_variables(&job["Variable_List"]);
    }

    fn check_variables(&self, shown: &str) {
        let list = variables(shown);
        for (name, value) in &self.variables {
            assert_eq!(
                list.get(&with_newlines(name)),
                Some(&with_newlines(value)),
                "{name:?} in {shown:?}"
            );
        }
    }

    fn check_json(&self, job: &Value) {
        for (name, given) in &self.texts {
            assert_eq!(&job[*name], given, "{name}");
        }
        for (name, value) in &self.variables {
            assert_eq!(
                job["Variable_List"].get(name).and_then(Value::as_str),
                Some(value.as_str()),
                "{name:?}"
            );
        }
    }
}

/// Text as printed where `\` is escaped: newlines are kept, other control characters replaced.
fn with_newlines(text: &str) -> String {
    text.split('\n').map(printed).collect::<Vec<_>>().join("\n")
}

impl GeneratedJob {
    /// Expected attributes for a job on `host` with the output path `path`.
    fn expected(&self, path: &[u8], host: &str, arguments: &[OsString]) -> Expected {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut texts = vec![
            ("Job_Name", self.name.clone()),
            ("Account_Name", self.account.clone()),
            ("comment", self.comment.clone()),
            ("Output_Path", format!("{host}:{}", lossy(path))),
            (
                "Submit_arguments",
                lossy(arguments.join(OsStr::new(" ")).as_bytes()),
            ),
        ];
        if !self.words.is_empty() {
            texts.push((
                "argument_list",
                self.words
                    .iter()
                    .map(|word| as_argument_element(&lossy(word)))
                    .collect(),
            ));
        }
        let variables: Vec<(String, String)> = self
            .variables()
            .iter()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .collect();
        // Two names may be printed the same if they contain control characters.
        let is_alone = |name: &str| {
            variables
                .iter()
                .filter(|(other, _)| with_newlines(other) == with_newlines(name))
                .count()
                == 1
        };
        let variables = variables
            .iter()
            .filter(|(name, _)| is_alone(name))
            .cloned()
            .collect();
        Expected { texts, variables }
    }
}

/// A command argument as PBS shows it.
fn as_argument_element(word: &str) -> String {
    let word = word
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<jsdl-hpcpa:Argument>{word}</jsdl-hpcpa:Argument>")
}

/// Submits and records the job with the functions of `qsub` and schedd, without processes.
fn recorded(given: &GeneratedJob, here: &qsub::SubmitEnvironment) -> (NewJob, JobRecord) {
    let submission = qsub::submission_of(given.line(), b"", here)
        .unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut record = grammars::record(&grammars::draft(&submission));
    record.job.life.comment = Some(given.comment.clone());
    record.environ = Some(submission.environ.clone());
    (submission, record)
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn every_format_of_qstat_shows_the_values_that_qsub_accepted(
        given in generated_job(),
        folder in bytes(),
        delimiter in prop::sample::select(&["|", ":", ",", ";", "\t", "::", "é"][..]),
    ) {
        let vars = given.exported.iter().cloned().collect::<BTreeMap<_, _>>().into_iter();
        let vars = vars.map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value))).collect();
        let workdir = OsString::from_vec([b"/nosuch/", &folder[..], b"/w"].concat().into_iter().map(plain).collect());
        let here = qsub::SubmitEnvironment { workdir: workdir.into(), vars, ..grammars::here() };
        let (submission, record) = recorded(&given, &here);
        let path = path_of(&given, here.workdir.as_os_str(), "7");
        let expected = given.expected(&path, "head", &given.line());
        prop_assert_eq!(submission.submit_host, "head");

        let server = grammars::server();
        let attributes = attributes::of_job(&record, &server);
        for lines in [Lines::Wrapped, Lines::Whole] {
            let mut out = String::new();
            full::write(&mut out, "Job Id", "7.head", &attributes, lines);
            let jobs = parse_text(&out);
            prop_assert_eq!(jobs.len(), 1, "{}", out);
            expected.check_text(&jobs["7.head"]);
        }
        let mut out = String::new();
        dsv::write(&mut out, "Job Id: ", "7.head", &attributes, delimiter);
        // Three colons could also be a separator and a colon.
        if delimiter != "::" || !out.contains(":::") {
            expected.check_dsv(&parse_dsv(&out, delimiter)["7.head"]);
        }
        expected.check_json(&grammars::as_json(&record, &server).into());
    }
}

/// Normalized absolute path of the output file.
fn path_of(given: &GeneratedJob, workdir: &OsStr, number: &str) -> Vec<u8> {
    let Some(path) = &given.path else {
        return [
            workdir.as_bytes(),
            b"/",
            given.name.as_bytes(),
            b".o",
            number.as_bytes(),
        ]
        .concat();
    };
    let whole = Path::new(workdir).join(OsStr::from_bytes(path));
    let mut bytes = whole
        .components()
        .collect::<PathBuf>()
        .into_os_string()
        .into_vec();
    if (path.ends_with(b"/") || whole.is_dir()) && !bytes.ends_with(b"/") {
        bytes.push(b'/');
    }
    bytes
}

/// Replaces `^`, which begins a placeholder in a path; these tests do not cover placeholders.
fn plain(byte: u8) -> u8 {
    if byte == b'^' { b'-' } else { byte }
}

/// 34 generated jobs, and known difficult ones.
fn example_jobs() -> Vec<(GeneratedJob, Vec<u8>)> {
    let mut runner = TestRunner::deterministic();
    let strategy = (generated_job(), bytes());
    let any = (0..34).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    let value = |value: &str| vec![(b"V".to_vec(), value.as_bytes().to_vec())];
    let same = |name: &str, text: &str| GeneratedJob {
        name: name.into(),
        account: text.into(),
        comment: text.into(),
        path: None,
        exported: vec![(
            b"BASH_FUNC_f%%".to_vec(),
            b"() {  echo \"a,b\";\n}".to_vec(),
        )],
        named: value(text),
        words: vec![text.as_bytes().to_vec()],
    };
    let hard = [
        ("007", "007"),
        ("1e5", "1e5"),
        ("true", "true"),
        ("-0", "a\\,b"),
        ("...", "=,\"'=\\"),
        ("n", "\n\n\t\n"),
    ];
    any.chain(hard.map(|(name, text)| (same(name, text), b"w".to_vec())))
        .collect()
}

/// Value for `-W comment=` in quotes: `"` in single quotes, the rest in double quotes.
fn as_comment(text: &str) -> String {
    let quoted = text
        .split('"')
        .map(|part| format!("\"{part}\""))
        .collect::<Vec<_>>();
    format!("comment={}", quoted.join("'\"'"))
}

#[test]
fn qstat_shows_the_values_that_qsub_accepted() {
    let sandbox = Sandbox::new();
    let mut expected = BTreeMap::new();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    for (number, (given, folder)) in example_jobs().into_iter().enumerate() {
        let odd: Vec<u8> = folder
            .into_iter()
            .map(plain)
            .filter(|&b| b != b'/')
            .take(120)
            .collect();
        let workdir = sandbox
            .work()
            .join(number.to_string())
            .join(OsStr::from_bytes(&odd));
        std::fs::create_dir_all(&workdir).unwrap();
        let mut command = sandbox.command("qsub");
        command
            .current_dir(&workdir)
            .args(given.line())
            .stdin(Stdio::null());
        command.envs(
            given
                .exported
                .iter()
                .map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))),
        );
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?} {given:?}");
        let id = String::from_utf8(done.stdout)
            .unwrap()
            .trim_end()
            .to_string();
        sandbox
            .run("qalter", &["-W", &as_comment(&given.comment), &id])
            .ok();
        let path = path_of(&given, workdir.as_os_str(), id.split('.').next().unwrap());
        expected.insert(id, given.expected(&path, &host, &given.line()));
    }
    let shown = |options: &[&str]| sandbox.run("qstat", options).ok();
    for jobs in [
        parse_text(&shown(&["-f"])),
        parse_text(&shown(&["-f", "-w"])),
    ] {
        assert_eq!(
            jobs.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        expected
            .iter()
            .for_each(|(id, expected)| expected.check_text(&jobs[id]));
    }
    for (options, delimiter) in [
        (&["-f", "-F", "dsv"][..], "|"),
        (&["-f", "-F", "dsv", "-D", ","], ","),
    ] {
        let jobs = parse_dsv(&shown(options), delimiter);
        expected
            .iter()
            .for_each(|(id, expected)| expected.check_dsv(&jobs[id]));
    }
    let document: Value = serde_json::from_str(&shown(&["-f", "-F", "json"])).unwrap();
    expected
        .iter()
        .for_each(|(id, expected)| expected.check_json(&document["Jobs"][id]));
}
