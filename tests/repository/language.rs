//! Private terms that have a standard term appear neither in names nor in texts. `CONTRIBUTING.md`
//! has the rules of writing, `docs/glossary.md` the standard terms.

use crate::support::source::Source;
use crate::support::{files, root};
use std::path::Path;

/// Terms that do not appear in names of files, types, functions and modules, and what to write
/// instead.
const TERMS: &[(&str, &str)] = &[
    ("amendment", "qmgr override"),
    ("attendance", "prologue or epilogue runner"),
    ("bonds", "dependency graph"),
    ("books", "usage counters"),
    ("brood", "process tree"),
    ("census", "job counters"),
    ("chooser", "allocation script"),
    ("chore", "blocking-I/O helper"),
    ("crowd", "task set, job counters"),
    ("dealing", "chunk distribution"),
    ("desk", "request context"),
    ("earmark", "held for the preemptor"),
    ("entrance", "queue admission"),
    ("errand", "staging helper"),
    ("extras", "over-limit subjobs"),
    ("farewell", "shutdown mode"),
    ("fasting", "time below fair share"),
    ("filing", "node index"),
    ("fillers", "backfilled jobs"),
    ("herald", "notifier"),
    ("household", "job context"),
    ("hunger", "starvation"),
    ("ledger", "cycle state, server state"),
    ("limbo", "launch timeout"),
    ("merit", "priority, sort key"),
    ("meters", "dynamic-resource poller"),
    ("oblivion", "history purge"),
    ("owed", "fair share"),
    ("portrait", "job JSON"),
    ("postman", "mailer"),
    ("pouring", "water-filling"),
    ("rites", "job hooks"),
    ("scene", "snapshot"),
    ("seat", "interactive client"),
    ("seating", "share-tree index"),
    ("settling", "startup grace period"),
    ("sheet", "attribute output"),
    ("siblings", "subjobs"),
    ("stakes", "share-tree entries"),
    ("standings", "current bookings"),
    ("standstill", "suspension"),
    ("steering", "job control requests"),
    ("story", "event text"),
    ("surplus", "usage above fair share"),
    ("tenancy", "node access policy"),
    ("tenant", "job owner"),
    ("tenure", "preemption candidate"),
    ("viewpoint", "expression context"),
    ("wishes", "placement requirements, resource demand"),
    ("worth", "priority"),
    ("yardstick", "priority calculator"),
    ("yielding", "preempted"),
];

/// Words and phrases that do not appear in comments, messages, manuals and documents, and what to
/// write instead.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "again"),
    ("chore", "blocking-I/O helper"),
    ("errand", "staging helper"),
    ("everybody", "all users"),
    ("goes first", "has precedence"),
    ("heed", "handle, obey"),
    ("heeded", "handled, obeyed"),
    ("heeds", "handles, obeys"),
    ("in whom", "a domain object as subject"),
    ("made way", "was preempted"),
    ("make way", "be preempted"),
    ("makes way", "is preempted"),
    ("making way", "being preempted"),
    ("nobody", "no user, no job"),
    ("oblivion", "history purge"),
    ("owed", "fair share"),
    ("so many", "up to N"),
    ("somebody", "a user"),
    ("standstill", "suspension"),
    ("tenure", "preemption candidate"),
    ("told", "reported, notified, set"),
    ("what of", "a domain object as subject"),
    ("whoever", "the user who"),
    ("whom", "a domain object as subject"),
    ("worth", "priority"),
    ("yardstick", "priority calculator"),
];

/// Texts that contain such words for a reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("CONTRIBUTING.md", "examples of sentences before rewriting"),
    ("tests/repository/language.rs", "the lists above"),
    ("tests/compatibility/v0.1/", "files of an older version"),
    ("tests/policy/traces/", "workload traces"),
    ("fuzz/seeds/", "inputs"),
];

/// The lower-case words of an identifier or file name.
fn parts(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    for c in name.chars() {
        if !c.is_ascii_alphabetic() || c.is_ascii_uppercase() {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic() {
            words.last_mut().unwrap().push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The names of the types, functions and modules that this code defines.
fn defined_names(code: &str) -> Vec<&str> {
    let words: Vec<&str> = code
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    words
        .windows(2)
        .filter(|pair| ["struct", "enum", "trait", "type", "fn", "mod"].contains(&pair[0]))
        .map(|pair| pair[1])
        .collect()
}

/// The texts of a line of Rust: its comment, or its string literals with more than one word.
fn texts_of(line: &str) -> Vec<&str> {
    let bare = line.trim_start();
    if bare.starts_with("//") {
        return vec![bare];
    }
    let literals = line.split('"').skip(1).step_by(2);
    literals.filter(|text| text.contains(' ')).collect()
}

/// The files with texts, as paths relative to the repository.
fn text_files() -> Vec<String> {
    let mut paths = Vec::new();
    for folder in [
        "src",
        "tests",
        "benches",
        "fuzz",
        "man",
        "docs",
        "etc",
        "completions",
    ] {
        paths.extend(files(&root().join(folder)));
    }
    paths.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"].map(|name| root().join(name)),
    );
    let relative = |path: &Path| {
        let path = path.strip_prefix(root()).unwrap();
        path.to_str().unwrap().to_string()
    };
    paths
        .iter()
        .map(|path| relative(path))
        .filter(|path| !EXCEPTIONS.iter().any(|(start, _)| path.starts_with(start)))
        .filter(|path| !path.starts_with("fuzz/corpus") && !path.starts_with("fuzz/target"))
        .collect()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

#[test]
fn names_contain_no_private_term() {
    let mut found = Vec::new();
    for path in text_files() {
        let stem = path.rsplit('/').next().unwrap().split('.').next().unwrap();
        let source = read(&path).filter(|_| path.ends_with(".rs"));
        let source = source.map(|text| Source::new(path.clone(), text));
        let names = source.iter().flat_map(|source| defined_names(&source.code));
        for name in names.chain([stem]) {
            for part in parts(name) {
                let term = TERMS.iter().find(|(term, _)| *term == part);
                found.extend(term.map(|(term, instead)| {
                    format!("{path}: {name}: instead of `{term}` write {instead}")
                }));
            }
        }
    }
    assert!(
        found.is_empty(),
        "private terms in names:\n{}",
        found.join("\n")
    );
}

#[test]
fn texts_contain_no_private_phrase() {
    let mut found = Vec::new();
    for path in text_files() {
        let Some(text) = read(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let texts = if path.ends_with(".rs") {
                texts_of(line)
            } else {
                vec![line]
            };
            for text in texts {
                let text = text.to_lowercase();
                let phrases = PHRASES
                    .iter()
                    .filter(|(phrase, _)| Source::line_of(&text, phrase).is_some());
                found.extend(phrases.map(|(phrase, instead)| {
                    format!(
                        "{path}:{}: instead of `{phrase}` write {instead}",
                        number + 1
                    )
                }));
            }
        }
    }
    assert!(
        found.is_empty(),
        "private phrases in texts:\n{}",
        found.join("\n")
    );
}

#[test]
fn names_and_texts_are_split_as_intended() {
    assert_eq!(parts("JobOwner_of-x2y"), ["job", "owner", "of", "x", "y"]);
    assert_eq!(
        defined_names("pub fn run() { struct Job; }"),
        ["run", "Job"]
    );
    assert_eq!(texts_of("    // a comment"), ["// a comment"]);
    assert_eq!(texts_of("let x = \"one\" + \"two words\";"), ["two words"]);
}
