//! Tables of the keys in each section. The row of a key contains the name, the kind of value, the
//! field in the configuration, the qmgr attributes and a description. The reader of `lanai.toml`,
//! `schedd --check` and qmgr use these rows; tests compare the manual page and the example file
//! with them.

use super::Config;
use super::document::{ConfigError, Section};
use super::kinds::Kind;
use crate::model::resource::ResourceList;
use crate::model::resource::Resources;
use std::collections::BTreeSet;
use toml::Value;

/// A section: its keys, and the rules that involve several keys. The values are stored in a `T`,
/// such as [`Config`].
pub struct Table<T: 'static> {
    /// The name, such as `order.weights`.
    pub name: &'static str,
    /// The keys in the order in which they are read and shown.
    pub keys: &'static [&'static dyn KeyRow<T>],
    is_open: bool,
    finish: Finish<T>,
}

/// Checks and completes a section after its keys are read.
type Finish<T> = fn(&mut T, &Section, &Resources) -> Result<(), ConfigError>;

impl<T> Table<T> {
    /// A section with independent keys.
    pub const fn new(name: &'static str, keys: &'static [&'static dyn KeyRow<T>]) -> Table<T> {
        Table {
            name,
            keys,
            is_open: false,
            finish: |_, _, _| Ok(()),
        }
    }

    /// Sets the function that checks and completes the section.
    pub const fn finish(mut self, finish: Finish<T>) -> Table<T> {
        self.finish = finish;
        self
    }

    /// Allows other keys, which the `finish` function reads.
    pub const fn open(mut self) -> Table<T> {
        self.is_open = true;
        self
    }

    /// The names of all keys, aliases included.
    pub fn names(&self) -> Vec<&'static str> {
        let names = |row: &&'static dyn KeyRow<T>| [Some(row.entry().name), row.entry().alias];
        self.keys.iter().flat_map(names).flatten().collect()
    }

    /// Reads a section of the file.
    pub fn read(
        &self,
        object: &mut T,
        section: &Section,
        resources: &Resources,
    ) -> Result<(), ConfigError> {
        if !self.is_open {
            section.refuse_unknown(&self.names())?;
        }
        for row in self.keys {
            row.read(object, section, resources)?;
        }
        (self.finish)(object, section, resources)
    }

    /// Reads all sections with the table's name, such as `[[queue]]`. `blank` creates the object
    /// for a section. Returns an error if two objects have the same name.
    pub fn read_each(
        &self,
        root: &Section,
        resources: &Resources,
        blank: impl Fn(&str) -> T,
    ) -> Result<Vec<T>, ConfigError> {
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        for section in root.sections(self.name)? {
            let mut object = blank("");
            self.read(&mut object, &section, resources)?;
            all.push(object);
            let name = section.read("name", "a name", |value| value.as_str().map(String::from))?;
            if let Some(name) = name
                && !names.insert(name.clone())
            {
                let kind = self.name;
                let text =
                    format!("there are two [[{kind}]] named `{name}`: remove one or rename it");
                return Err(section.key_error("name", text));
            }
        }
        Ok(all)
    }

    /// The row that sets a qmgr attribute, in this table or in a nested table.
    pub fn attribute(&self, name: &str) -> Option<&'static dyn KeyRow<T>> {
        let sets_attribute = |row: &&&'static dyn KeyRow<T>| row.entry().pbs.contains(&name);
        let nested = || self.keys.iter().filter_map(|row| row.nested());
        let own = self.keys.iter().find(sets_attribute).copied();
        own.or_else(|| nested().find_map(|table| table.attribute(name)))
    }
}

/// A row of a table: reads, shows and sets the value of a key in a `T`. The type of the value is
/// hidden, so that one table can have rows for values of all types.
pub trait KeyRow<T>: Sync {
    /// The name, the description and other properties of the key.
    fn entry(&self) -> &Entry;

    /// Reads the key from a section, if the section has it.
    fn read(
        &self,
        object: &mut T,
        from: &Section,
        resources: &Resources,
    ) -> Result<(), ConfigError>;

    /// The value as written in the file; None if not set, or if `schedd --check` writes the value
    /// as a separate section.
    fn value(&self, object: &mut T) -> Option<Value>;

    /// The value as displayed by qmgr; None if qmgr does not display the value.
    fn shown(&self, _object: &mut T) -> Option<String> {
        None
    }

    /// Sets the value from qmgr's text, or unsets the value if `text` is None. Returns false if the
    /// text is invalid, or if qmgr cannot set or unset the value.
    fn set(&self, _object: &mut T, _text: Option<&str>) -> bool {
        false
    }

    /// The value if it is a list of resources, else None. qmgr sets each resource of such a list
    /// separately.
    fn resources<'t>(&self, _object: &'t mut T) -> Option<&'t mut ResourceList> {
        None
    }

    /// The keys of a nested table, such as `weights` in `[order]`; None if the value is no table.
    fn nested(&self) -> Option<&'static Table<T>> {
        None
    }
}

/// The properties of a key that do not depend on the type of the value.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The key.
    pub name: &'static str,
    /// A second name of the key.
    pub alias: Option<&'static str>,
    /// The qmgr attributes that set the key.
    pub pbs: &'static [&'static str],
    /// A one-line description for the manual.
    pub text: &'static str,
    /// The manual's text about the default, if the key has no default value.
    pub default: &'static str,
    /// The value for the example file, if it differs from the default value.
    pub example: &'static str,
    unset: Option<&'static str>,
    hides_default: bool,
    is_required: bool,
}

impl Entry {
    /// A key without qmgr attributes.
    pub const fn new(name: &'static str, text: &'static str) -> Entry {
        Entry {
            name,
            alias: None,
            pbs: &[],
            text,
            default: "",
            example: "",
            unset: None,
            hides_default: false,
            is_required: false,
        }
    }
}

/// A key that sets a part of a `T`.
pub struct Key<T, K: Kind> {
    entry: Entry,
    kind: K,
    place: KeyPlace<T, K::Value>,
    preset: Option<fn(&T) -> T>,
}

/// The location of a value in a `T`.
enum KeyPlace<T, V> {
    Field(fn(&mut T) -> &mut V),
    Computed(fn(&T) -> Option<V>, fn(&mut T, V)),
}

impl<T, K: Kind> Key<T, K> {
    /// A key for a field.
    pub const fn new(name: &'static str, kind: K, field: fn(&mut T) -> &mut K::Value) -> Self {
        Key {
            entry: Entry::new(name, ""),
            kind,
            place: KeyPlace::Field(field),
            preset: None,
        }
    }

    /// A key for a value that is not a field.
    pub const fn computed(
        name: &'static str,
        kind: K,
        get: fn(&T) -> Option<K::Value>,
        set: fn(&mut T, K::Value),
    ) -> Self {
        Key {
            entry: Entry::new(name, ""),
            kind,
            place: KeyPlace::Computed(get, set),
            preset: None,
        }
    }

    /// Sets the description.
    pub const fn text(mut self, text: &'static str) -> Self {
        self.entry.text = text;
        self
    }

    /// Sets the manual's text about the default, if the key has no default value.
    pub const fn default(mut self, default: &'static str) -> Self {
        self.entry.default = default;
        self
    }

    /// Sets the value for the example file.
    pub const fn example(mut self, example: &'static str) -> Self {
        self.entry.example = example;
        self
    }

    /// Sets a second name.
    pub const fn alias(mut self, alias: &'static str) -> Self {
        self.entry.alias = Some(alias);
        self
    }

    /// Makes the key mandatory in its section.
    pub const fn required(mut self) -> Self {
        self.entry.is_required = true;
        self
    }

    /// Sets the qmgr attributes that change the key.
    pub const fn pbs(mut self, names: &'static [&'static str]) -> Self {
        self.entry.pbs = names;
        self
    }

    /// Makes qmgr's `unset` set this text as the value.
    pub const fn unset(mut self, text: &'static str) -> Self {
        self.entry.unset = Some(text);
        self
    }

    /// Makes qmgr's `unset` restore the preset's value.
    pub const fn unset_by(mut self, preset: fn(&T) -> T) -> Self {
        self.preset = Some(preset);
        self
    }

    /// Makes qmgr display the value only if it differs from the text given to [`Key::unset`].
    pub const fn hidden_by_default(mut self) -> Self {
        self.entry.hides_default = true;
        self
    }

    /// Converts the value of the key; None if not set, or if `to` returns None.
    fn convert<R>(&self, object: &mut T, to: impl FnOnce(&K::Value) -> Option<R>) -> Option<R> {
        match self.place {
            KeyPlace::Field(field) => to(field(object)),
            KeyPlace::Computed(get, _) => to(&get(object)?),
        }
    }

    fn assign(&self, object: &mut T, value: K::Value) {
        match self.place {
            KeyPlace::Field(field) => *field(object) = value,
            KeyPlace::Computed(_, set) => set(object, value),
        }
    }

    /// The value for qmgr's text; if `text` is None, the value that qmgr's `unset` sets. Returns
    /// None if the text is invalid, or if qmgr cannot set or unset the key.
    fn parse(&self, object: &T, text: Option<&str>) -> Option<K::Value> {
        if let (None, Some(preset)) = (text, self.preset) {
            return self.convert(&mut preset(object), |value| Some(value.clone()));
        }
        match text.or(self.entry.unset) {
            Some(text) => self.kind.parse(text),
            None => self.kind.empty(),
        }
    }
}

impl<T, K: Kind> KeyRow<T> for Key<T, K> {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn read(
        &self,
        object: &mut T,
        from: &Section,
        resources: &Resources,
    ) -> Result<(), ConfigError> {
        let names = [Some(self.entry.name), self.entry.alias];
        for name in names.into_iter().flatten() {
            if let Some(value) = self.kind.read_key(from, name, resources)? {
                self.assign(object, value);
                return Ok(());
            }
        }
        if self.entry.is_required {
            return Err(from.missing(self.entry.name, &self.kind.wanted()));
        }
        Ok(())
    }

    fn value(&self, object: &mut T) -> Option<Value> {
        self.convert(object, |value| self.kind.write(value))
    }

    fn shown(&self, object: &mut T) -> Option<String> {
        let shown = self.convert(object, |value| self.kind.show(value));
        shown.filter(|text| !self.entry.hides_default || self.entry.unset != Some(text))
    }

    fn set(&self, object: &mut T, text: Option<&str>) -> bool {
        let value = self.parse(object, text);
        value.map(|value| self.assign(object, value)).is_some()
    }

    fn resources<'t>(&self, object: &'t mut T) -> Option<&'t mut ResourceList> {
        match self.place {
            KeyPlace::Field(field) => self.kind.resources(field(object)),
            KeyPlace::Computed(..) => None,
        }
    }
}

/// A key of a section that can occur only once, such as `[server]`.
pub const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut Config) -> &mut K::Value,
) -> Key<Config, K> {
    Key::new(name, kind, field)
}

/// A key of a section that can occur only once, such as `[server]`. The value is not a field.
pub const fn computed<K: Kind>(
    name: &'static str,
    kind: K,
    get: fn(&Config) -> Option<K::Value>,
    set: fn(&mut Config, K::Value),
) -> Key<Config, K> {
    Key::computed(name, kind, get, set)
}

/// A key with a table as its value.
pub struct Nested<T: 'static> {
    entry: Entry,
    table: &'static Table<T>,
    is_inline: bool,
}

impl<T> Nested<T> {
    /// A key with a table that `schedd --check` writes as a separate section.
    pub const fn new(name: &'static str, table: &'static Table<T>, text: &'static str) -> Self {
        Nested {
            entry: Entry::new(name, text),
            table,
            is_inline: false,
        }
    }

    /// A key with a table that `schedd --check` writes inline.
    pub const fn inline(name: &'static str, table: &'static Table<T>, text: &'static str) -> Self {
        Nested {
            is_inline: true,
            ..Nested::new(name, table, text)
        }
    }
}

impl<T> KeyRow<T> for Nested<T> {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn read(
        &self,
        object: &mut T,
        from: &Section,
        resources: &Resources,
    ) -> Result<(), ConfigError> {
        if let Some(section) = from.section(self.entry.name)? {
            self.table.read(object, &section, resources)?;
        }
        Ok(())
    }

    fn value(&self, object: &mut T) -> Option<Value> {
        if !self.is_inline {
            return None;
        }
        let rows = self.table.keys.iter();
        let values =
            rows.filter_map(|row| Some((row.entry().name.to_string(), row.value(object)?)));
        Some(Value::Table(values.collect()))
    }

    fn nested(&self) -> Option<&'static Table<T>> {
        Some(self.table)
    }
}
