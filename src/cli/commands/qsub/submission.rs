//! What a job's submitter wants, gathered from directives and from the command line.

use super::dialects::TranslatedLine;
use crate::model::attribute::AttributeSetting;
use crate::model::job::value_syntax;
use crate::model::text::Text;
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What the options of one place, or of several together, ask for.
#[derive(Clone, Debug, Default)]
pub struct SubmissionOptions {
    /// Attributes; those of one place may name one twice until they are joined with others.
    pub settings: Vec<AttributeSetting>,
    /// What is no attribute.
    pub words: QsubOptions,
}

/// Wishes that are no attribute.
#[derive(Clone, Debug, Default)]
pub struct QsubOptions {
    /// `-v`.
    pub variables: Option<OsString>,
    /// `-V`.
    pub all_variables: bool,
    /// `-z`.
    pub quiet: bool,
    /// `-d`: where the job starts.
    pub folder: Option<OsString>,
    /// `-w`: what counts as where qsub runs.
    pub base: Option<OsString>,
    /// What the script is given.
    pub arguments: Option<Vec<OsString>>,
    /// Some of it was said in Grid Engine's words.
    pub is_grid_engine: bool,
    /// Options that have no effect or another effect here.
    pub remarks: Vec<String>,
}

impl SubmissionOptions {
    /// Sets an attribute, whatever it was.
    pub fn set(&mut self, attribute: &str, value: impl Into<Text>) {
        self.put(AttributeSetting::new(attribute, value));
    }

    /// Sets what `setting` sets, whatever it was.
    pub fn put(&mut self, setting: AttributeSetting) {
        match self.settings.iter_mut().find(|old| same(old, &setting)) {
            Some(old) => old.value = setting.value,
            None => self.settings.push(setting),
        }
    }

    /// Whether the attribute is set.
    pub fn sets(&self, attribute: &str) -> bool {
        self.settings
            .iter()
            .any(|setting| setting.attribute.eq_ignore_ascii_case(attribute))
    }

    /// What the attribute is set to.
    pub fn value(&self, attribute: &str) -> Option<Cow<'_, str>> {
        self.settings
            .iter()
            .find(|setting| setting.attribute.eq_ignore_ascii_case(attribute))
            .map(|setting| setting.value.lossy())
    }

    /// Whether the attribute is set to true.
    pub fn is_true(&self, attribute: &str) -> bool {
        self.value(attribute)
            .is_some_and(|value| value_syntax::boolean(&value) == Some(true))
    }

    /// Adds a directive. As in PBS the last one counts, except that of resources requested twice
    /// the first counts; dependencies add up.
    pub fn follow(&mut self, next: SubmissionOptions) {
        for setting in next.settings {
            let again =
                setting.resource.is_some() && self.settings.iter().any(|old| same(old, &setting));
            match self
                .settings
                .iter_mut()
                .find(|old| old.attribute == "depend" && same(old, &setting))
            {
                Some(old) => old.value = Text([&old.value.0[..], &setting.value.0].join(&b',')),
                None if again => {}
                None => self.put(setting),
            }
        }
        self.words.follow(next.words);
    }

    /// Takes in what counts more than all so far.
    pub fn outweigh(&mut self, more: SubmissionOptions) {
        for setting in more.settings {
            self.put(setting);
        }
        self.words.follow(more.words);
    }
}

impl QsubOptions {
    /// Takes in what a line in other words says beside its words in PBS's.
    pub fn apply_translated(&mut self, line: TranslatedLine) {
        self.is_grid_engine |= line.is_grid_engine;
        self.remarks.extend(line.remarks);
        self.arguments = Some(line.arguments)
            .filter(|words| !words.is_empty())
            .or(self.arguments.take());
    }

    /// What counts as where qsub runs.
    pub fn base(&self, workdir: &Path) -> PathBuf {
        self.base
            .as_ref()
            .map_or_else(|| workdir.to_path_buf(), |base| plain(&workdir.join(base)))
    }

    /// What it comes to in attributes.
    pub fn attributes(&self, workdir: &Path) -> Vec<(&'static str, Text)> {
        let mut attributes = Vec::new();
        let folder = match (&self.folder, &self.base) {
            (Some(folder), _) => Some(plain(&workdir.join(folder))),
            (None, Some(_)) => Some(self.base(workdir)),
            (None, None) => None,
        };
        if let Some(folder) = folder {
            attributes.push(("init_work_dir", Text(folder.into_os_string().into_vec())));
        }
        let mut arguments = Vec::new();
        for word in self.arguments.iter().flatten() {
            arguments.extend([word.as_bytes(), b"\0"].concat());
        }
        if !arguments.is_empty() {
            attributes.push(("job_arguments", Text(arguments)));
        }
        attributes
    }

    fn follow(&mut self, next: QsubOptions) {
        self.variables = next.variables.or(self.variables.take());
        self.folder = next.folder.or(self.folder.take());
        self.base = next.base.or(self.base.take());
        self.arguments = next.arguments.or(self.arguments.take());
        self.is_grid_engine |= next.is_grid_engine;
        self.remarks.extend(next.remarks);
        self.all_variables |= next.all_variables;
        self.quiet |= next.quiet;
    }
}

/// The path without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Whether both set one attribute, or one resource.
fn same(a: &AttributeSetting, b: &AttributeSetting) -> bool {
    a.attribute.eq_ignore_ascii_case(&b.attribute) && a.resource == b.resource
}
