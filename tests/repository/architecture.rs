//! Rules for the sources that the compiler does not check: layers, banned names, size of files.

use crate::support::source::Source;
use crate::support::{files, root};

/// Forbidden imports: modules with the first prefix never name the others. These modules write each
/// `use crate::...` on its own line, so that no name is hidden in a list.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "model/",
        &[
            "config", "sched", "server", "spool", "wire", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "config/",
        &[
            "sched", "server", "spool", "wire", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "sched/",
        &[
            "config", "server", "spool", "wire", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "wire/order.rs",
        &[
            "sched", "server", "spool", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "wire/message.rs",
        &[
            "sched", "server", "spool", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "wire/",
        &["sched", "server", "spool", "schedd", "noded", "cli", "sim"],
    ),
    (
        "shown/",
        &[
            "sched", "server", "spool", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "server/",
        &["spool", "schedd", "noded", "cli", "sim", "sys"],
    ),
    (
        "update.rs",
        &[
            "sched", "server", "spool", "wire", "schedd", "noded", "cli", "sim", "sys",
        ],
    ),
    (
        "spool/",
        &["sched", "server", "schedd", "noded", "cli", "sim"],
    ),
    (
        "sys/",
        &[
            "config", "sched", "server", "spool", "wire", "schedd", "noded", "cli", "sim",
        ],
    ),
    ("schedd/", &["noded", "cli", "sim"]),
    ("sim/", &["spool", "schedd", "noded", "cli"]),
    (
        "noded/",
        &["sched", "server", "spool", "schedd", "cli", "sim"],
    ),
];

/// Files and directories of each layer, in order: each imports only those before it.
const ORDER: &[(&str, &[&str])] = &[
    (
        "model",
        &[
            "time",
            "text",
            "signal",
            "spelling",
            "server_name",
            "job_id",
            "refusal",
            "indices",
            "resource",
            "expression",
            "request",
            "system_resource",
            "node",
            "credentials",
            "limit",
            "reason",
            "job",
            "account",
            "queue",
            "policy",
            "attribute",
            "admission",
            "reservation",
            "hook",
            "trigger",
            "report",
        ],
    ),
    (
        "sched",
        &[
            "amounts",
            "share_tree",
            "view",
            "fairshare",
            "placement",
            "priority",
            "backfill",
            "cycle",
            "explain",
        ],
    ),
    (
        "schedd",
        &[
            "accounts",
            "configuration",
            "timers",
            "storage",
            "nodes",
            "programs",
            "clients",
            "inbox",
            "state",
            "reload",
            "commit",
            "hook_approval",
            "deciding",
            "tick",
            "forecasts",
            "client_requests",
            "housekeeping",
            "shutdown",
            "event_loop",
            "control",
            "check",
            "nested",
            "start",
        ],
    ),
    (
        "cli",
        &[
            "client",
            "arguments",
            "session",
            "output",
            "report",
            "commands",
            "lanai",
            "programs",
            "completion",
            "multicall",
            "example",
        ],
    ),
];

/// Sources of side effects, forbidden in `model`, `config`, `sched` and `server`: decisions there
/// depend on their arguments only.
const IMPURE: &[&str] = &[
    "fs::",
    "net::",
    "process::",
    "env::",
    "thread::",
    "std::io",
    "std::os",
    "SystemTime",
    "Instant",
    "Utc",
    "Local::now",
    "HashMap",
    "HashSet",
    "RandomState",
    "rand",
    "nix",
    "static mut",
    "println!",
    "eprintln!",
    "dbg!",
];

/// Words allowed only in files with the given prefixes. `clippy.toml` also bans the functions among
/// them; this test does not need clippy.
const RESERVED_WORDS: &[(&[&str], &[&str])] = &[
    (&["unsafe"], &["sys/"]),
    (&["rusqlite"], &["spool/"]),
    (
        &["clap"],
        &[
            "cli/",
            "bin/",
            "schedd/start.rs",
            "noded/args.rs",
            "noded/mod.rs",
        ],
    ),
    (
        &[
            "SystemTime::now",
            "Instant::now",
            "Utc::now",
            "Local::now",
            "thread::sleep",
        ],
        &["sys/"],
    ),
    (
        &["std::env", "process::exit", "process::Command"],
        &["sys/"],
    ),
];

/// Maximum length of a file in lines of code.
const MAX_CODE_LINES: usize = 600;

/// Longer files, with reasons.
const LONG_FILES: &[(&str, &str)] = &[
    (
        "sched/backfill/bookings/tests.rs",
        "unit tests of one subject",
    ),
    ("sched/fixture.rs", "not yet divided by subject"),
    (
        "sched/cycle/preemption/tests.rs",
        "unit tests of one subject",
    ),
    (
        "sched/placement/shared_hosts/tests.rs",
        "unit tests of one subject",
    ),
];

/// File names without meaning.
const VAGUE_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "manager", "common", "misc",
];

fn sources() -> Vec<Source> {
    let folder = root().join("src");
    let rust = files(&folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let source = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Source::new(
            path.strip_prefix(&folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_string(),
            text,
        )
    };
    let sources: Vec<Source> = rust.map(source).collect();
    assert!(
        sources.len() > 20,
        "only {} sources in {}",
        sources.len(),
        folder.display()
    );
    sources
}

/// Fails with `rule` and one line per breach, if there are any.
fn assert_none(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}\n  {}", breaches.join("\n  "));
}

/// `path:line: phrase` for the first occurrence in `code` of each phrase.
fn found<'a>(
    source: &Source,
    code: &str,
    phrases: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let breach = |phrase| {
        Some(format!(
            "src/{}:{}: {phrase}",
            source.path,
            Source::line_of(code, phrase)?
        ))
    };
    phrases.into_iter().filter_map(breach).collect()
}

#[test]
fn layers_import_only_lower_layers() {
    let mut breaches = Vec::new();
    for source in sources() {
        for (_, above) in LAYERS
            .iter()
            .filter(|(layer, _)| source.path.starts_with(layer))
        {
            let paths = above
                .iter()
                .flat_map(|module| [format!("crate::{module}"), format!("super::{module}")]);
            let phrases: Vec<String> = paths.chain(["crate::{".to_string()]).collect();
            breaches.extend(found(
                &source,
                source.production(),
                phrases.iter().map(String::as_str),
            ));
        }
    }
    assert_none(
        "forbidden imports of other layers (LAYERS in tests/repository/architecture.rs):",
        breaches,
    );
}

#[test]
fn directories_import_only_earlier_directories() {
    let mut breaches = Vec::new();
    for source in sources() {
        let Some((layer, below)) = source.path.split_once('/') else {
            continue;
        };
        let name = below.split(['/', '.']).next().unwrap_or_default();
        for (_, order) in ORDER.iter().filter(|(ordered, _)| *ordered == layer) {
            let Some(place) = order.iter().position(|other| *other == name) else {
                continue;
            };
            let to_layer = "super::".repeat(below.matches('/').count() + 1);
            let paths = order[place + 1..].iter().flat_map(|later| {
                [
                    format!("crate::{layer}::{later}"),
                    format!(" {to_layer}{later}"),
                ]
            });
            let phrases: Vec<String> = paths.collect();
            breaches.extend(found(
                &source,
                source.production(),
                phrases.iter().map(String::as_str),
            ));
        }
    }
    assert_none(
        "imports of later directories (ORDER in tests/repository/architecture.rs):",
        breaches,
    );
}

#[test]
fn every_directory_of_an_ordered_layer_is_listed() {
    let missing = sources().into_iter().filter_map(|source| {
        let (layer, below) = source.path.split_once('/')?;
        let name = below.split(['/', '.']).next()?;
        let (_, order) = ORDER.iter().find(|(ordered, _)| *ordered == layer)?;
        let has_place = order.contains(&name) || ["mod", "named", "fixture"].contains(&name);
        (!has_place).then(|| format!("src/{}", source.path))
    });
    assert_none(
        "add the directories of these files to ORDER in tests/repository/architecture.rs:",
        missing.collect(),
    );
}

#[test]
fn decisions_depend_only_on_their_arguments() {
    let pure = |source: &Source| {
        ["model/", "config/", "sched/", "server/"]
            .iter()
            .any(|layer| source.path.starts_with(layer))
    };
    let breaches = sources()
        .into_iter()
        .filter(pure)
        .flat_map(|s| found(&s, s.production(), IMPURE.to_vec()));
    assert_none(
        "`model`, `config`, `sched` and `server` use no I/O, clock, random numbers or hash maps:",
        breaches.collect(),
    );
}

#[test]
fn reserved_words_appear_only_in_permitted_files() {
    let mut breaches = Vec::new();
    for source in sources() {
        for (words, places) in RESERVED_WORDS {
            if !places.iter().any(|place| source.path.starts_with(place)) {
                breaches.extend(found(&source, source.production(), words.to_vec()));
            }
        }
    }
    assert_none(
        "permitted only in other files (RESERVED_WORDS in tests/repository/architecture.rs):",
        breaches,
    );
}

#[test]
fn every_unsafe_block_has_a_safety_comment() {
    let mut breaches = Vec::new();
    for source in sources() {
        let text: Vec<&str> = source.text.lines().collect();
        for (number, _) in source
            .code
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains("unsafe {"))
        {
            let above = text[..number]
                .iter()
                .rev()
                .take_while(|line| line.trim_start().starts_with("//"));
            if !above
                .chain([&text[number]])
                .any(|line| line.contains("SAFETY:"))
            {
                breaches.push(format!("src/{}:{}", source.path, number + 1));
            }
        }
    }
    assert_none(
        "write `// SAFETY: ...` above these unsafe blocks:",
        breaches,
    );
}

#[test]
fn every_file_begins_with_a_module_comment() {
    let undocumented = sources()
        .into_iter()
        .filter(|source| !source.text.starts_with("//!"));
    assert_none(
        "begin these files with a `//!` comment:",
        undocumented
            .map(|source| format!("src/{}", source.path))
            .collect(),
    );
}

#[test]
fn files_are_short_and_have_specific_names() {
    let mut breaches = Vec::new();
    for source in sources() {
        let lines = source.code_lines();
        if lines > MAX_CODE_LINES && !LONG_FILES.iter().any(|(path, _)| *path == source.path) {
            breaches.push(format!(
                "src/{} has {lines} lines of code, at most {MAX_CODE_LINES} allowed: split it",
                source.path
            ));
        }
        if source
            .path
            .split(['/', '.', '_'])
            .any(|word| VAGUE_NAMES.contains(&word))
        {
            breaches.push(format!("src/{}: rename it after its content", source.path));
        }
    }
    assert_none("files that are too long or vaguely named:", breaches);
}
