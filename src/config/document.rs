//! Reads TOML tables key by key, with errors that name the line.

use crate::model::spelling::nearest;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// An error in a `lanai.toml`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The line number, from 1.
    pub line: usize,
    /// The problem and, except for most syntax errors, the remedy.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl ConfigError {
    /// An error at the byte `offset` of `source`.
    fn at_offset(source: &str, offset: usize, text: String) -> ConfigError {
        let before = source.as_bytes().iter().take(offset);
        ConfigError {
            line: 1 + before.filter(|&&byte| byte == b'\n').count(),
            text,
        }
    }

    /// A syntax error found by the TOML parser.
    pub fn syntax(source: &str, error: &Error) -> ConfigError {
        let offset = error.span().map_or(0, |span| span.start);
        ConfigError::at_offset(
            source,
            offset,
            error.message().trim_end().replace('\n', "; "),
        )
    }
}

/// A table of the file.
pub struct Section<'a> {
    source: &'a str,
    /// The title, such as `[server]` or `[[queue]]`; empty for the file itself.
    title: String,
    offset: usize,
    table: &'a DeTable<'a>,
}

/// A value, with its position in the file.
pub type LocatedValue<'a> = Spanned<DeValue<'a>>;

impl<'a> Section<'a> {
    /// The top-level table.
    pub fn root(source: &'a str, table: &'a DeTable<'a>) -> Section<'a> {
        Section {
            source,
            title: String::new(),
            offset: 0,
            table,
        }
    }

    /// The table `[name]`, or `[section.name]` within a section; None if missing. Returns an error
    /// if the value is no table.
    pub fn section(&self, name: &str) -> Result<Option<Section<'a>>, ConfigError> {
        let Some(value) = self.table.get(name) else {
            return Ok(None);
        };
        let within = self.title.trim_matches(['[', ']']);
        let title = if within.is_empty() {
            format!("[{name}]")
        } else {
            format!("[{within}.{name}]")
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(
                value,
                format!("`{name}` must be a single table: write {title}"),
            ));
        };
        Ok(Some(Section {
            source: self.source,
            title,
            offset: value.span().start,
            table,
        }))
    }

    /// All tables `[[name]]`, in the order of the file; empty if there are none. Returns an error
    /// if the value is no list of tables.
    pub fn sections(&self, name: &str) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some(value) = self.table.get(name) else {
            return Ok(Vec::new());
        };
        let title = format!("[[{name}]]");
        let refusal = |value| {
            self.error(
                value,
                format!("`{name}` must be a list of tables: write {title}"),
            )
        };
        let DeValue::Array(array) = value.get_ref() else {
            return Err(refusal(value));
        };
        let section = |value: &'a LocatedValue<'a>| match value.get_ref() {
            DeValue::Table(table) => Ok(Section {
                source: self.source,
                title: title.clone(),
                offset: value.span().start,
                table,
            }),
            _ => Err(refusal(value)),
        };
        array.iter().map(section).collect()
    }

    /// Returns an error for the first key that is not in `known`.
    pub fn refuse_unknown(&self, known: &[&str]) -> Result<(), ConfigError> {
        match self.keys_except(known).next() {
            Some((key, _)) => Err(self.unknown(key, known)),
            None => Ok(()),
        }
    }

    /// The keys that are not in `known`, with their values.
    pub fn keys_except(
        &self,
        known: &[&str],
    ) -> impl Iterator<Item = (&'a str, &'a LocatedValue<'a>)> {
        self.table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), value))
            .filter(|(key, _)| !known.contains(key))
    }

    /// The error for a key that is not in `known`. The message names the nearest known key.
    pub fn unknown(&self, key: &str, known: &[&str]) -> ConfigError {
        let offset = self
            .table
            .get_key_value(key)
            .map_or(self.offset, |(key, _)| key.span().start);
        let place = if self.title.is_empty() {
            String::new()
        } else {
            format!(" in {}", self.title)
        };
        let remedy = nearest(key, known)
            .map(|near| format!("; the nearest known name is `{near}`"))
            .unwrap_or_default();
        ConfigError::at_offset(
            self.source,
            offset,
            format!("unknown key `{key}`{place}{remedy}"),
        )
    }

    /// Reads the value of `key` with `read`; None if not set. Returns an error if `read` returns
    /// None; `wanted` describes the valid values.
    pub fn read<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl Fn(&DeValue) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        read(value.get_ref())
            .map(Some)
            .ok_or_else(|| self.refuse(key, value, wanted))
    }

    /// Reads the value of `key`, which must be set.
    pub fn require<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl Fn(&DeValue) -> Option<T>,
    ) -> Result<T, ConfigError> {
        self.read(key, wanted, read)?
            .ok_or_else(|| self.missing(key, wanted))
    }

    /// Whether the section sets `key`.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The error for a required key that is not set.
    pub fn missing(&self, key: &str, wanted: &str) -> ConfigError {
        self.section_error(format!("{} has no `{key}`: set it to {wanted}", self.title))
    }

    /// The error for an invalid or missing value of `key`; `wanted` describes the valid values.
    pub fn refuse_key(&self, key: &str, wanted: &str) -> ConfigError {
        match self.table.get(key) {
            Some(value) => self.refuse(key, value, wanted),
            None => self.missing(key, wanted),
        }
    }

    /// The error for this `value` of `key`; `wanted` describes the valid values.
    pub fn refuse(&self, key: &str, value: &LocatedValue, wanted: &str) -> ConfigError {
        let found: String = self
            .source
            .get(value.span())
            .unwrap_or_default()
            .chars()
            .take(60)
            .collect();
        let place = if self.title.is_empty() {
            "the file"
        } else {
            &self.title
        };
        self.error(
            value,
            format!("`{key}` in {place} must be {wanted}, not {found}"),
        )
    }

    /// An error at the value of `key`, or at the section if `key` is not set.
    pub fn key_error(&self, key: &str, text: String) -> ConfigError {
        let offset = self
            .table
            .get(key)
            .map_or(self.offset, |value| value.span().start);
        ConfigError::at_offset(self.source, offset, text)
    }

    /// An error at the beginning of the section.
    pub fn section_error(&self, text: String) -> ConfigError {
        ConfigError::at_offset(self.source, self.offset, text)
    }

    /// The number of the section's first line, from 1.
    pub fn line(&self) -> usize {
        ConfigError::at_offset(self.source, self.offset, String::new()).line
    }

    fn error(&self, value: &LocatedValue, text: String) -> ConfigError {
        ConfigError::at_offset(self.source, value.span().start, text)
    }
}
