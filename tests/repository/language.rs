//! Private terms that have a standard term appear neither in names nor in texts. `CONTRIBUTING.md`
//! has the rules of writing, `docs/glossary.md` the standard terms.

use crate::support::source::Source;
use crate::support::{files, root};
use std::path::Path;

/// Private words in names and texts, each with the standard term.
const EVERYWHERE: &[(&str, &str)] = &[
    ("anew", "again"),
    ("brood", "process tree"),
    ("chore", "blocking-I/O helper"),
    ("errand", "staging helper"),
    ("everybody", "all users"),
    ("fasting", "time below fair share"),
    ("heed", "handle, obey"),
    ("heeded", "handled, obeyed"),
    ("heeds", "handles, obeys"),
    ("herald", "notifier"),
    ("household", "job context"),
    ("limbo", "launch timeout"),
    ("nobody", "no user, no job"),
    ("oblivion", "history purge"),
    ("owed", "fair share"),
    ("postman", "mailer"),
    ("pouring", "water-filling"),
    ("rites", "job hooks"),
    ("somebody", "a user"),
    ("standstill", "suspension"),
    ("surplus", "usage above fair share"),
    ("tenure", "preemption candidate"),
    ("told", "reported, notified, set"),
    ("whoever", "the user who"),
    ("whom", "a domain object as subject"),
    ("worth", "priority"),
    ("yardstick", "priority calculator"),
];

/// Private words in names of files, types, functions and modules. In texts these words also have
/// their usual meaning.
const IN_NAMES: &[(&str, &str)] = &[
    ("amendment", "qmgr override"),
    ("attendance", "prologue or epilogue runner"),
    ("bonds", "dependency graph"),
    ("books", "usage counters"),
    ("census", "job counters"),
    ("chooser", "allocation script"),
    ("crowd", "task set, job counters"),
    ("dealing", "chunk distribution"),
    ("desk", "request context"),
    ("earmark", "held for the preemptor"),
    ("entrance", "queue admission"),
    ("extras", "over-limit subjobs"),
    ("farewell", "shutdown mode"),
    ("filing", "node index"),
    ("fillers", "backfilled jobs"),
    ("hunger", "starvation"),
    ("ledger", "cycle state, server state"),
    ("merit", "priority, sort key"),
    ("meters", "dynamic-resource poller"),
    ("portrait", "job JSON"),
    ("scene", "snapshot"),
    ("seat", "interactive client"),
    ("seating", "share-tree index"),
    ("settling", "startup grace period"),
    ("sheet", "attribute output"),
    ("siblings", "subjobs"),
    ("stakes", "share-tree entries"),
    ("standings", "current bookings"),
    ("steering", "job control requests"),
    ("story", "event text"),
    ("tenancy", "node access policy"),
    ("tenant", "job owner"),
    ("viewpoint", "expression context"),
    ("wishes", "placement requirements, resource demand"),
    ("yielding", "preempted"),
];

/// Phrases in comments, messages, manuals and documents.
const IN_TEXTS: &[(&str, &str)] = &[
    ("goes first", "has precedence"),
    ("in whom", "a domain object as subject"),
    ("made way", "was preempted"),
    ("make way", "be preempted"),
    ("makes way", "is preempted"),
    ("making way", "being preempted"),
    ("so many", "up to N"),
    ("what of", "a domain object as subject"),
];

/// Files that contain such words on purpose: these lists, files of an older version, and inputs.
const EXCEPTIONS: &[&str] = &[
    "tests/repository/language.rs",
    "tests/compatibility/v0.1/",
    "tests/policy/traces/",
    "fuzz/corpus/",
    "fuzz/seeds/",
    "fuzz/target/",
];

/// Start of the lines in `CONTRIBUTING.md` with sentences before rewriting.
const BEFORE: &str = "* Before: ";

/// The lower-case words of an identifier or file name.
fn words_of(name: &str) -> Vec<String> {
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

/// The texts of a file, line by line: of a Rust file, its comments and its literals with more than
/// one word.
fn lines_of_text(path: &str, text: String) -> Vec<(usize, String)> {
    let source = Source::new(path.to_string(), text);
    let texts = if path.ends_with(".rs") {
        source.texts()
    } else {
        vec![(1, &*source.text)]
    };
    let mut lines = Vec::new();
    for (first, text) in texts.into_iter().filter(|(_, text)| text.contains(' ')) {
        let numbered = text.lines().enumerate();
        lines.extend(numbered.map(|(index, line)| (first + index, line.to_lowercase())));
    }
    lines
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
    let paths = paths.iter().map(|path| relative(path));
    paths
        .filter(|path| !EXCEPTIONS.iter().any(|start| path.starts_with(start)))
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
        let mut names = vec![stem.to_string()];
        if path.ends_with(".rs")
            && let Some(text) = read(&path)
        {
            let source = Source::new(path.clone(), text);
            names.extend(defined_names(&source.code).into_iter().map(String::from));
        }
        for name in names {
            let words = words_of(&name);
            let terms = EVERYWHERE.iter().chain(IN_NAMES);
            for (term, instead) in terms.filter(|(term, _)| words.iter().any(|word| word == term)) {
                found.push(format!(
                    "{path}: {name}: instead of `{term}` write {instead}"
                ));
            }
        }
    }
    let found = found.join("\n");
    assert!(found.is_empty(), "private terms in names:\n{found}");
}

#[test]
fn texts_contain_no_private_phrase() {
    let mut found = Vec::new();
    for path in text_files() {
        let Some(text) = read(&path) else { continue };
        for (number, line) in lines_of_text(&path, text) {
            if line.trim_start().starts_with(&BEFORE.to_lowercase()) {
                continue;
            }
            let phrases = EVERYWHERE.iter().chain(IN_TEXTS);
            for (phrase, instead) in
                phrases.filter(|(phrase, _)| Source::line_of(&line, phrase).is_some())
            {
                found.push(format!(
                    "{path}:{number}: instead of `{phrase}` write {instead}"
                ));
            }
        }
    }
    let found = found.join("\n");
    assert!(found.is_empty(), "private phrases in texts:\n{found}");
}

#[test]
fn words_and_names_are_found() {
    assert_eq!(
        words_of("JobOwner_of-x2y"),
        ["job", "owner", "of", "x", "y"]
    );
    assert_eq!(
        defined_names("pub fn run() { struct Job; }"),
        ["run", "Job"]
    );
    let text = "// one\nlet x = \"id\" + \"two\\\n Words\";".to_string();
    let expected = [(1, "// one"), (2, "\"two\\"), (3, " words\"")];
    let lines = lines_of_text("x.rs", text);
    assert_eq!(lines, expected.map(|(line, text)| (line, text.to_string())));
}
