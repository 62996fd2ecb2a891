//! The options of a submission, collected from directives and the command line.

use super::dialects::TranslatedLine;
use crate::model::attribute::AttributeSetting;
use crate::model::job::value_syntax;
use crate::model::text::Text;
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The options of one source, or of several sources combined.
#[derive(Clone, Debug, Default)]
pub struct SubmissionOptions {
    /// Attribute settings. An attribute can occur several times until [`Self::override_with`] or
    /// [`Self::append`] merges the settings.
    pub settings: Vec<AttributeSetting>,
    /// The other options.
    pub words: QsubOptions,
}

/// Options that are not attributes.
#[derive(Clone, Debug, Default)]
pub struct QsubOptions {
    /// `-v`.
    pub variables: Option<OsString>,
    /// `-V`.
    pub all_variables: bool,
    /// `-z`.
    pub quiet: bool,
    /// `-d`: the directory in which the job starts.
    pub folder: Option<OsString>,
    /// `-w`: replaces the working directory of qsub.
    pub base: Option<OsString>,
    /// The arguments of the script.
    pub arguments: Option<Vec<OsString>>,
    /// True if a line is for Grid Engine ([`TranslatedLine::is_grid_engine`]).
    pub is_grid_engine: bool,
    /// Warnings about options that have no effect, or another effect than in Grid Engine or TORQUE.
    pub remarks: Vec<String>,
}

impl SubmissionOptions {
    /// Sets an attribute, replacing an earlier value.
    pub fn set(&mut self, attribute: &str, value: impl Into<Text>) {
        self.put(AttributeSetting::new(attribute, value));
    }

    /// Applies a setting, replacing an earlier value.
    pub fn put(&mut self, setting: AttributeSetting) {
        match self.settings.iter_mut().find(|old| same(old, &setting)) {
            Some(old) => old.value = setting.value,
            None => self.settings.push(setting),
        }
    }

    /// True if the attribute is set.
    pub fn sets(&self, attribute: &str) -> bool {
        self.settings
            .iter()
            .any(|setting| setting.attribute.eq_ignore_ascii_case(attribute))
    }

    /// The value of the attribute, if it is set.
    pub fn value(&self, attribute: &str) -> Option<Cow<'_, str>> {
        self.settings
            .iter()
            .find(|setting| setting.attribute.eq_ignore_ascii_case(attribute))
            .map(|setting| setting.value.lossy())
    }

    /// True if the attribute is set to true.
    pub fn is_true(&self, attribute: &str) -> bool {
        self.value(attribute)
            .is_some_and(|value| value_syntax::boolean(&value) == Some(true))
    }

    /// Merges the options of the next directive. As in PBS, the last setting of an attribute
    /// counts, and the first setting of a resource. All dependencies count.
    pub fn append(&mut self, next: SubmissionOptions) {
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
        self.words.append(next.words);
    }

    /// Merges settings that take precedence over all earlier settings.
    pub fn override_with(&mut self, more: SubmissionOptions) {
        for setting in more.settings {
            self.put(setting);
        }
        self.words.append(more.words);
    }
}

impl QsubOptions {
    /// Adds the parts of a translated line that are not PBS options.
    pub fn apply_translated(&mut self, line: TranslatedLine) {
        self.is_grid_engine |= line.is_grid_engine;
        self.remarks.extend(line.remarks);
        self.arguments = Some(line.arguments)
            .filter(|words| !words.is_empty())
            .or(self.arguments.take());
    }

    /// The directory of `-w`; without `-w`, the working directory of qsub.
    pub fn base(&self, workdir: &Path) -> PathBuf {
        self.base
            .as_ref()
            .map_or_else(|| workdir.to_path_buf(), |base| plain(&workdir.join(base)))
    }

    /// The attributes that follow from these options.
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

    fn append(&mut self, next: QsubOptions) {
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

/// The path without `.` components.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// True if both settings set the same attribute or resource.
fn same(a: &AttributeSetting, b: &AttributeSetting) -> bool {
    a.attribute.eq_ignore_ascii_case(&b.attribute) && a.resource == b.resource
}
