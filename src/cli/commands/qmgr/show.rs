//! The output of `list` and `print`; `print` writes commands that recreate the objects.

use super::grammar::ObjectKind;
use crate::cli::client::source::Answers;
use crate::cli::output::full::{self, printable};
use crate::cli::output::nodes::{self, NodeFormat};
use crate::cli::output::queues;
use crate::config::overrides::attributes::{known, place};
use crate::config::overrides::description::AttributeValue;
use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::node::NodeSharing;
use crate::shown::attributes::Attributes;
use crate::wire::message::ServerFacts;
use std::borrow::Cow;
use std::fmt::Write;

/// All objects and their attributes.
pub struct ConfiguredObjects {
    answers: Answers,
}

/// An object with its attributes.
pub struct ObjectAttributes {
    target: QmgrObject,
    /// The name in the heading of a list.
    name: String,
    lines: Vec<AttributeValue>,
}

/// Reported attributes of a node that `print` writes. `sharing` is treated separately.
const OF_NODE: [&str; 3] = ["state", "resources_available", "comment"];

/// Reported attributes of a node that `print` omits, besides those in [`READ_ONLY`].
const READ_ONLY_OF_NODE: [&str; 12] = [
    "Mom",
    "Port",
    "ntype",
    "pcpus",
    "last_state_change_time",
    "last_used_time",
    "resv",
    "loadave",
    "resources_utilized",
    "gpus",
    "gpus_assigned",
    "gpus_used_outside",
];

/// Attributes that qmgr cannot set, for any kind of object except the scheduler and hooks.
const READ_ONLY: [&str; 9] = [
    "jobs",
    "total_jobs",
    "state_count",
    "resources_assigned",
    "sched_host",
    "server_state",
    "server_host",
    "pbs_version",
    "license",
];

impl ConfiguredObjects {
    /// Stores `answers`: the combined answers about the server, configured objects, queues and
    /// nodes.
    pub fn new(answers: Answers) -> ConfiguredObjects {
        ConfiguredObjects { answers }
    }

    /// The names of all objects of a kind.
    pub fn names(&self, object: ObjectKind) -> Vec<String> {
        let configured = self
            .answers
            .objects
            .iter()
            .map(|described| &described.target);
        match object {
            ObjectKind::Node => self
                .answers
                .nodes
                .iter()
                .map(|record| record.node.facts.name.clone())
                .collect(),
            ObjectKind::Queue | ObjectKind::Resource | ObjectKind::Hook => configured
                .filter(|target| target.kind() == object.name())
                .map(|target| target.name().to_string())
                .collect(),
            ObjectKind::Server => vec![self.answers.server.name.clone()],
            ObjectKind::Sched => vec![SCHED.to_string()],
        }
    }

    /// An object; None if no object of this kind has this name. The name of the server or the
    /// scheduler is ignored.
    pub fn object(&self, object: ObjectKind, name: &str) -> Option<ObjectAttributes> {
        if !self.names(object).iter().any(|known| known == name)
            && !matches!(object, ObjectKind::Server | ObjectKind::Sched)
        {
            return None;
        }
        let target = object.target(name);
        let configured = self.configured(&target);
        let mut lines = self.reported(&target, name);
        lines.retain(|line| {
            !configured
                .iter()
                .any(|other| (&other.name, &other.resource) == (&line.name, &line.resource))
        });
        lines.extend(configured);
        lines.sort_by_key(|line| place(&target, &line.name));
        let name = match object {
            ObjectKind::Server => self.answers.server.name.clone(),
            ObjectKind::Sched => SCHED.to_string(),
            _ => name.to_string(),
        };
        Some(ObjectAttributes {
            target,
            name,
            lines,
        })
    }

    /// The facts of the server.
    pub fn server(&self) -> &ServerFacts {
        &self.answers.server
    }

    /// The program of a hook; None if the hook does not exist or has no program.
    pub fn program(&self, hook: &str) -> Option<String> {
        program(&self.configured(&QmgrObject::Hook(hook.to_string()))).map(str::to_string)
    }

    fn configured(&self, target: &QmgrObject) -> Vec<AttributeValue> {
        let described = self
            .answers
            .objects
            .iter()
            .find(|described| described.target == *target);
        described
            .map(|described| described.lines.clone())
            .unwrap_or_default()
    }

    /// The attributes that the server reports for an object, such as job counts. Some of them can
    /// also be configured.
    fn reported(&self, target: &QmgrObject, name: &str) -> Vec<AttributeValue> {
        let server = &self.answers.server;
        match target {
            QmgrObject::Queue(_) => {
                let mut queues = self.answers.queues.iter();
                let Some(counted) = queues.find(|counted| counted.queue.name == name) else {
                    return Vec::new();
                };
                with_names(
                    lines(&queues::of_queue(counted, &server.resources)),
                    &["total_jobs", "state_count", "resources_assigned"],
                )
            }
            QmgrObject::Server => {
                let sums = queues::assigned_in_all(&self.answers.queues);
                let all = lines(&queues::of_server(&self.answers.queues, &sums, server));
                let own = [
                    "server_state",
                    "server_host",
                    "total_jobs",
                    "state_count",
                    "resources_assigned",
                    "pbs_version",
                ];
                with_names(all, &own)
            }
            QmgrObject::Node(_) => {
                let record = self
                    .answers
                    .nodes
                    .iter()
                    .find(|record| record.node.facts.name == name);
                record
                    .map(|record| lines(&nodes::attributes(record, server, NodeFormat::Dsv)))
                    .unwrap_or_default()
            }
            QmgrObject::Sched => {
                // The state is always `idle`: schedd answers questions only between cycles, and the
                // spool does not show whether a cycle runs.
                let values = [
                    ("sched_host", &*server.host),
                    ("pbs_version", &*server.version),
                    ("state", "idle"),
                ];
                let lines = values.map(|(name, value)| AttributeValue {
                    name: name.into(),
                    resource: None,
                    value: value.into(),
                });
                lines.into()
            }
            QmgrObject::Resource(_) | QmgrObject::Hook(_) => Vec::new(),
        }
    }
}

/// The attribute with the program of a hook.
const PROGRAM: &str = "command";

fn program(lines: &[AttributeValue]) -> Option<&str> {
    lines
        .iter()
        .find(|line| line.name == PROGRAM)
        .map(|line| line.value.as_str())
}

/// The name of the only scheduler.
pub const SCHED: &str = "default";

fn lines(attributes: &Attributes) -> Vec<AttributeValue> {
    let mut lines = Vec::new();
    for attribute in &attributes.0 {
        let Some(value) = full::text(attribute) else {
            continue;
        };
        let value = if attribute.name == "jobs" {
            value.replace(',', ", ")
        } else {
            value.into_owned()
        };
        lines.push(AttributeValue {
            name: attribute.name.to_string(),
            resource: attribute.resource.map(str::to_string),
            value,
        });
    }
    lines
}

fn with_names(mut lines: Vec<AttributeValue>, names: &[&str]) -> Vec<AttributeValue> {
    lines.retain(|line| names.contains(&line.name.as_str()));
    lines
}

impl ObjectAttributes {
    /// Keeps only the attributes `keys`, or all attributes if `keys` is empty. As in PBS, the last
    /// of `keys` comes first.
    pub fn keep_only(&mut self, keys: &[AttributeKey]) {
        if keys.is_empty() {
            return;
        }
        let mut chosen = Vec::new();
        for key in keys.iter().rev() {
            let meant = self.lines.iter().filter(|line| {
                key.attribute.eq_ignore_ascii_case(&line.name)
                    && (key.resource.is_none() || key.resource == line.resource)
            });
            chosen.extend(meant.cloned());
        }
        self.lines = chosen;
    }

    /// Writes the object in the format of `list`.
    pub fn write_as_list(&self, out: &mut String) {
        let kind = self.target.kind();
        let (head, tail) = kind.split_at(1);
        let _ = writeln!(out, "{}{tail} {}", head.to_ascii_uppercase(), self.name);
        for line in &self.lines {
            let _ = writeln!(out, "    {} = {}", key(line), printable(&line.value));
        }
        out.push('\n');
    }

    /// Writes the settable attributes in the format of `print`.
    pub fn write_as_commands(&self, out: &mut String) {
        let (kind, name) = (self.target.kind(), &self.name);
        match &self.target {
            QmgrObject::Server => {
                out.push_str("#\n# Set server attributes.\n#\n");
                return self.write_settings(out, kind);
            }
            QmgrObject::Sched => {
                let _ = writeln!(
                    out,
                    "#\n# Create and define scheduler {name}\n#\ncreate {kind} {name}"
                );
                return self.write_settings(out, kind);
            }
            _ => {}
        }
        let _ = writeln!(
            out,
            "#\n# Create and define {kind} {name}\n#\ncreate {kind} {name}"
        );
        self.write_settings(out, &format!("{kind} {name}"));
        if let QmgrObject::Hook(_) = &self.target {
            self.write_import(out);
        }
    }

    /// Writes the command that imports a hook's program. A program with arguments is written as a
    /// comment, because only `lanai.toml` can set such a program.
    fn write_import(&self, out: &mut String) {
        let Some(program) = program(&self.lines) else {
            return;
        };
        let _ = if program.contains(' ') && !std::path::Path::new(program).exists() {
            writeln!(out, "# {} runs {}", self.name, printable(program))
        } else {
            writeln!(
                out,
                "import hook {} application/x-executable default {}",
                self.name,
                printable(program)
            )
        };
    }

    /// Writes a `set` command for each attribute that `is_settable` selects.
    fn write_settings(&self, out: &mut String, what: &str) {
        for line in self.lines.iter().filter(|line| self.is_settable(line)) {
            let _ = writeln!(
                out,
                "set {what} {} = {}",
                key(line),
                quoted(&self.target, line)
            );
        }
    }

    fn is_settable(&self, line: &AttributeValue) -> bool {
        let name = line.name.as_str();
        match self.target {
            QmgrObject::Sched => !["sched_host", "pbs_version", "state"].contains(&name),
            QmgrObject::Hook(_) => name != PROGRAM,
            QmgrObject::Node(_) if READ_ONLY_OF_NODE.contains(&name) => false,
            QmgrObject::Node(_) if OF_NODE.contains(&name) => true,
            QmgrObject::Node(_) if name == "sharing" => line.value != NodeSharing::default().name(),
            _ => !READ_ONLY.contains(&name),
        }
    }
}

fn key(line: &AttributeValue) -> String {
    AttributeKey {
        attribute: line.name.clone(),
        resource: line.resource.clone(),
    }
    .to_string()
}

/// A value in a format that qmgr can read.
fn quoted(target: &QmgrObject, line: &AttributeValue) -> String {
    let is_limit = known(target, &line.name).is_some_and(|known| known.is_limit);
    let is_state = matches!(target, QmgrObject::Node(_)) && line.name == "state";
    let value = if !is_state {
        // A line feed in a value would begin another command.
        printable(&line.value)
    } else if line.value.contains("offline") {
        // qmgr can set only one state of a node.
        Cow::Borrowed("offline")
    } else {
        Cow::Borrowed("free")
    };
    let is_plain = !value
        .chars()
        .any(|c| c.is_whitespace() || ";#\\'\"".contains(c) || (c == ',' && !is_limit));
    if is_plain && !value.is_empty() {
        value.into_owned()
    } else {
        in_quotes(&value)
    }
}

/// Quotes a text with double quotes, or with single quotes if the text contains double quotes. If
/// the text contains both, the text is quoted piece by piece.
fn in_quotes(text: &str) -> String {
    if !text.contains('"') {
        format!("\"{text}\"")
    } else if !text.contains('\'') {
        format!("'{text}'")
    } else {
        let pieces = text.split('"').map(|piece| format!("\"{piece}\""));
        pieces.collect::<Vec<_>>().join("'\"'")
    }
}

/// The comment before the objects of a kind in `print`, and before the resources in a `list` of all
/// resources.
pub fn heading(object: ObjectKind) -> &'static str {
    match object {
        ObjectKind::Resource => "#\n# Create resources and set their properties.\n#\n",
        ObjectKind::Queue => "#\n# Create queues and set their attributes.\n#\n",
        ObjectKind::Node => "#\n# Create nodes and set their properties.\n#\n",
        ObjectKind::Hook => "#\n# Create hooks and set their properties.\n#\n",
        ObjectKind::Server | ObjectKind::Sched => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::grammar;
    use super::super::input::commands;
    use super::*;

    /// The output of `print` for a value, and the value read from it.
    fn print_and_read(name: &str, value: &str) -> (String, String) {
        let line = AttributeValue {
            name: name.into(),
            resource: None,
            value: value.into(),
        };
        let target = QmgrObject::Queue("gpu".into());
        let mut out = String::new();
        ObjectAttributes {
            target,
            name: "gpu".into(),
            lines: vec![line],
        }
        .write_as_commands(&mut out);
        let last = out.lines().last().unwrap().to_string();
        assert!(!last.ends_with('\\') && out.lines().count() == 5, "{out}");
        let [command] = commands(&last)
            .try_into()
            .unwrap_or_else(|all| panic!("{last}: {all:?}"));
        let read = grammar::read(&command).unwrap_or_else(|fault| panic!("{last}: {fault:?}"));
        (last, read.edits[0].value.clone())
    }

    #[test]
    fn printed_values_are_read_back_unchanged() {
        for value in [
            "",
            "plain",
            "a b",
            "a,b",
            "a;b",
            "# a",
            "it's",
            "\"a\"",
            "it's \"a\"; b",
            "'\"",
            "end\\",
            "a\u{a0}b",
        ] {
            assert_eq!(print_and_read("comment", value).1, value);
        }
        for value in [
            "[u:a=1]",
            "[u:a;b=1]",
            "[u:a#b=1]",
            "[u:it's=1]",
            "[g:\"domain users\"=4]",
            "[g:\"it's a\"=4]",
        ] {
            assert_eq!(print_and_read("max_run", value).1, value);
        }
        assert_eq!(
            print_and_read("max_run", "[u:a=1]").0,
            "set queue gpu max_run = [u:a=1]",
            "as PBS prints it"
        );
    }

    #[test]
    fn a_value_cannot_inject_a_command() {
        assert_eq!(
            print_and_read("comment", "x\ndelete queue workq #").1,
            "x\\ndelete queue workq #"
        );
    }
}
