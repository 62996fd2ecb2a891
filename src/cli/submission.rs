//! What a job's submitter wants, gathered from directives and from the command line.

use crate::model::attribute::Setting;
use crate::model::check;
use crate::model::text::Text;
use std::borrow::Cow;
use std::ffi::OsString;

/// What the options of one place, or of several together, ask for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Attributes, each at most once.
    pub settings: Vec<Setting>,
    /// What is no attribute.
    pub words: Words,
}

/// Wishes that are no attribute.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// `-v`.
    pub variables: Option<OsString>,
    /// `-V`.
    pub all_variables: bool,
    /// `-z`.
    pub quiet: bool,
    /// `-d`.
    pub folder: Option<OsString>,
}

impl Wanted {
    /// Sets an attribute, whatever it was.
    pub fn set(&mut self, attribute: &str, value: impl Into<Text>) {
        self.put(Setting::new(attribute, value));
    }

    /// Sets what `setting` sets, whatever it was.
    pub fn put(&mut self, setting: Setting) {
        match self.settings.iter_mut().find(|old| same(old, &setting)) {
            Some(old) => old.value = setting.value,
            None => self.settings.push(setting),
        }
    }

    /// Whether the attribute is set.
    pub fn sets(&self, attribute: &str) -> bool {
        self.settings.iter().any(|setting| setting.attribute.eq_ignore_ascii_case(attribute))
    }

    /// What the attribute is set to.
    pub fn value(&self, attribute: &str) -> Option<Cow<'_, str>> {
        let named = |setting: &&Setting| setting.attribute.eq_ignore_ascii_case(attribute);
        self.settings.iter().find(named).map(|setting| setting.value.lossy())
    }

    /// Whether the attribute is set to true.
    pub fn is_true(&self, attribute: &str) -> bool {
        self.value(attribute).is_some_and(|value| check::boolean(&value) == Some(true))
    }

    /// Takes in a further directive: the last counts, except that of a resource asked for twice
    /// the first does, as in PBS, and that dependencies add up.
    pub fn follow(&mut self, next: Wanted) {
        for setting in next.settings {
            let again = setting.resource.is_some() && self.settings.iter().any(|old| same(old, &setting));
            match self.settings.iter_mut().find(|old| old.attribute == "depend" && same(old, &setting)) {
                Some(old) => old.value = Text([&old.value.0[..], &setting.value.0].join(&b',')),
                None if again => {}
                None => self.put(setting),
            }
        }
        self.words.follow(next.words);
    }

    /// Takes in what counts more than all so far.
    pub fn outweigh(&mut self, more: Wanted) {
        more.settings.into_iter().for_each(|setting| self.put(setting));
        self.words.follow(more.words);
    }
}

impl Words {
    fn follow(&mut self, next: Words) {
        self.variables = next.variables.or(self.variables.take());
        self.folder = next.folder.or(self.folder.take());
        self.all_variables |= next.all_variables;
        self.quiet |= next.quiet;
    }
}

/// Whether both set one attribute, or one resource.
fn same(a: &Setting, b: &Setting) -> bool {
    a.attribute.eq_ignore_ascii_case(&b.attribute) && a.resource == b.resource
}
