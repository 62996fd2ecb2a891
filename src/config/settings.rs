//! The settings in effect: every key with its value and origin. If the settings are written as a
//! `lanai.toml`, this file has the same effect as the original file and qmgr together.

mod objects;

use super::Config;
use super::key::{Entry, KeyRow, Table};
use super::overrides::{QmgrObject, QmgrOverrides};
use super::sections::{ONCE, PRIME_TIME};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingOrigin {
    /// The preset, or the default of all presets.
    Preset,
    /// This line of the file, counted from 1.
    Line(usize),
    /// `qmgr`, which overrides the file.
    Qmgr,
}

/// A key with its value and origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeySetting {
    /// The section name, such as `order.weights`; empty for keys before the first section.
    pub section: &'static str,
    /// The name of the object in a section that may occur several times; None in a section that
    /// occurs once. Limits and dedicated times have numbers instead of names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key, such as `wait_time`.
    pub key: Cow<'static, str>,
    /// The value as written in the file; None for a key that is not set and has no default.
    pub value: Option<Value>,
    /// The origin of the value.
    pub origin: SettingOrigin,
}

impl KeySetting {
    /// The full name of the key, such as `[order] by` or `[[queue]] gpu enabled`.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("[[{}]] {name} {}", self.section, self.key),
            None => format!("[{}] {}", self.section, self.key),
        }
    }
}

/// All settings of `config`. `text` is the file from which `config` was read; `overrides` are the
/// settings of qmgr that `config` already contains.
pub fn effective(config: &Config, text: &str, overrides: &QmgrOverrides) -> Vec<KeySetting> {
    let table = DeTable::parse(text).ok();
    let source = Source {
        root: table.as_ref().map(|table| table.get_ref()),
        text,
        overrides,
    };
    let mut scratch = config.clone();
    let mut all = vec![KeySetting {
        section: "",
        name: None,
        key: "preset".into(),
        value: Some(config.preset.name().into()),
        origin: source.origin("", "preset"),
    }];
    for table in ONCE {
        source.collect(table, &mut scratch, &mut all);
    }
    if let Some(hours) = &mut scratch.primetime {
        source.collect(&PRIME_TIME, hours, &mut all);
    }
    all.extend(objects::settings(config, &source));
    all
}

/// The file and the qmgr overrides, in which the origin of a value is looked up.
struct Source<'s> {
    root: Option<&'s DeTable<'s>>,
    text: &'s str,
    overrides: &'s QmgrOverrides,
}

impl Source<'_> {
    /// Adds the settings of a section that occurs once, and of its nested tables, to `all`.
    fn collect<T>(&self, table: &Table<T>, object: &mut T, all: &mut Vec<KeySetting>) {
        let value = |row: &&'static dyn KeyRow<T>| {
            let entry = row.entry();
            let value = row.value(object);
            if row.nested().is_some() && value.is_none() {
                return None;
            }
            let origin = if self.is_overridden(entry) {
                SettingOrigin::Qmgr
            } else {
                self.origin(table.name, entry.name)
            };
            Some(KeySetting {
                section: table.name,
                name: None,
                key: entry.name.into(),
                value,
                origin,
            })
        };
        all.extend(table.keys.iter().filter_map(value));
        for row in table.keys {
            if let (Some(nested), None) = (row.nested(), row.value(object)) {
                self.collect(nested, object, all);
            }
        }
    }

    /// Whether qmgr set or unset a key of a section that occurs once.
    fn is_overridden(&self, entry: &Entry) -> bool {
        let targets = [QmgrObject::Server, QmgrObject::Sched];
        entry.pbs.iter().any(|name| {
            targets
                .iter()
                .any(|target| self.overrides.sets_attribute(target, name))
        })
    }

    fn origin(&self, section: &str, key: &str) -> SettingOrigin {
        let line = self.root.and_then(|root| self.line(root, section, key));
        line.map_or(SettingOrigin::Preset, SettingOrigin::Line)
    }

    /// The line that sets a key, counted from 1; None if no line sets the key.
    fn line(&self, table: &DeTable, section: &str, key: &str) -> Option<usize> {
        let mut table = table;
        for name in section.split('.').filter(|name| !name.is_empty()) {
            table = match table.get(name)?.get_ref() {
                DeValue::Table(below) => below,
                _ => return None,
            };
        }
        let (key, _) = table.get_key_value(key)?;
        let before = self.text.as_bytes().iter().take(key.span().start);
        Some(1 + before.filter(|byte| **byte == b'\n').count())
    }

    /// All sections with this name, for a section that may occur several times.
    fn tables(&self, section: &str) -> Vec<&DeTable<'_>> {
        let array = self
            .root
            .and_then(|root| root.get(section)?.get_ref().as_array());
        let tables = array.into_iter().flat_map(|array| array.iter());
        tables
            .filter_map(|table| table.get_ref().as_table())
            .collect()
    }
}

/// Displays the settings as a `lanai.toml`, with the origin of each setting in a comment.
pub struct Written<'s>(pub &'s [KeySetting]);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(setting_line).collect();
        let widths = lines.iter().map(|line| line.chars().count());
        let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        let (mut section, mut mark) = (("", None), "");
        for (setting, line) in self.0.iter().zip(&lines) {
            if (setting.section, setting.name.as_deref()) != section {
                section = (setting.section, setting.name.as_deref());
                // Default qualities of service are written as comments: if a file defines any
                // quality of service, jobs may request only the defined ones.
                let is_default =
                    setting.section == "qos" && setting.origin == SettingOrigin::Preset;
                mark = if is_default { "# " } else { "" };
                match setting.name {
                    Some(_) => writeln!(f, "\n{mark}[[{}]]", setting.section)?,
                    None => writeln!(f, "\n{mark}[{}]", setting.section)?,
                }
            }
            f.write_str(mark)?;
            match setting.origin {
                SettingOrigin::Qmgr => writeln!(f, "{line:<width$}  # qmgr")?,
                SettingOrigin::Line(number) => writeln!(f, "{line:<width$}  # line {number}")?,
                SettingOrigin::Preset if setting.value.is_none() => writeln!(f, "{line}")?,
                SettingOrigin::Preset => writeln!(f, "{line:<width$}  # preset")?,
            }
        }
        Ok(())
    }
}

fn setting_line(setting: &KeySetting) -> String {
    match &setting.value {
        Some(value) => format!("{} = {value}", setting.key),
        None => format!("# {} is not set", setting.key),
    }
}

/// Lines longer than this do not affect the alignment of comments.
const WIDEST: usize = 60;

#[cfg(test)]
mod tests;
