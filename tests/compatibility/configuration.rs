//! `lanai.toml` sets every key of version 0.1. `lanai.toml.checked` holds the values that its
//! `schedd --check` printed for them, by section, with line numbers.

use super::{old_file, old_text};
use crate::support::sandbox::Sandbox;
use std::collections::BTreeSet;
use std::fs;

/// Settings in the output of `schedd --check` that come from a line of the file: each with its
/// section name, and without the spaces that align comments.
fn settings(checked: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut settings = BTreeSet::new();
    for line in checked.lines() {
        if line.starts_with('[') {
            section = line.split(" #").next().unwrap().trim().to_string();
        } else if line.contains("# line ") {
            let words: Vec<&str> = line.split_whitespace().collect();
            settings.insert(format!("{section} {}", words.join(" ")));
        }
    }
    settings
}

#[test]
fn an_old_configuration_keeps_its_values() {
    let sandbox = Sandbox::new();
    fs::copy(old_file("lanai.toml"), sandbox.home().join("lanai.toml")).unwrap();
    let expected = settings(&old_text("lanai.toml.checked"));
    assert!(expected.len() > 300, "{}", expected.len());
    let found = settings(&sandbox.run("schedd", &["--check"]).ok());
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
