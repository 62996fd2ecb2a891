//! Kinds of values: how `lanai.toml` and qmgr write them, and which values are valid.

use super::document::{ConfigError, Section};
use crate::model::expression::Expression;
use crate::model::resource::{self, ResourceList, Resources, Size};
use crate::model::time::Span;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use toml::Value;
use toml::de::DeValue;

/// A kind of value.
pub trait Kind: Sync + 'static {
    /// The type of the value in the configuration.
    type Value: Clone + 'static;

    /// The description of valid values, for error messages: "true or false".
    fn wanted(&self) -> String;

    /// Reads a value of the file; None if invalid, or if only `read_key` reads values of this kind.
    fn read(&self, value: &DeValue) -> Option<Self::Value>;

    /// The value as written in the file; None if nothing is written, for instance if not set.
    fn write(&self, value: &Self::Value) -> Option<Value>;

    /// Reads a key of a section; None if the section lacks the key. Kinds that need the list of
    /// resources, or that have their own error messages, override this method.
    fn read_key(
        &self,
        section: &Section,
        key: &str,
        _resources: &Resources,
    ) -> Result<Option<Self::Value>, ConfigError> {
        section.read(key, &self.wanted(), |value| self.read(value))
    }

    /// Reads qmgr's text; None if invalid, or if qmgr cannot set values of this kind.
    fn parse(&self, _text: &str) -> Option<Self::Value> {
        None
    }

    /// The value as displayed by qmgr; None if qmgr does not display the value.
    fn show(&self, _value: &Self::Value) -> Option<String> {
        None
    }

    /// The value after qmgr's `unset`; None if the kind has no empty value.
    fn empty(&self) -> Option<Self::Value> {
        None
    }

    /// The value if it is a list of resources, else None.
    fn resources<'v>(&self, _value: &'v mut Self::Value) -> Option<&'v mut ResourceList> {
        None
    }
}

/// A simple type, such as a number or a duration, with its forms in the file and in qmgr.
pub trait ScalarType: Sized + Clone + 'static {
    /// Reads a value of the file; None if invalid.
    fn read(value: &DeValue) -> Option<Self>;

    /// The value as written in the file.
    fn write(&self) -> Value;

    /// Reads qmgr's text; None for an invalid text.
    fn parse(text: &str) -> Option<Self>;

    /// The value as displayed by qmgr.
    fn show(&self) -> String;
}

/// The kind for a simple type, restricted to the values that satisfy a condition.
#[derive(Clone, Copy)]
pub struct Scalar<V> {
    wanted: &'static str,
    accepts: fn(&V) -> bool,
}

/// The values that satisfy `accepts`; `wanted` describes these values.
pub const fn scalar<V: ScalarType>(wanted: &'static str, accepts: fn(&V) -> bool) -> Scalar<V> {
    Scalar { wanted, accepts }
}

impl<V: ScalarType> Kind for Scalar<V> {
    type Value = V;

    fn wanted(&self) -> String {
        self.wanted.to_string()
    }

    fn read(&self, value: &DeValue) -> Option<V> {
        V::read(value).filter(self.accepts)
    }

    fn write(&self, value: &V) -> Option<Value> {
        Some(value.write())
    }

    fn parse(&self, text: &str) -> Option<V> {
        V::parse(text).filter(self.accepts)
    }

    fn show(&self, value: &V) -> Option<String> {
        Some(value.show())
    }
}

/// The kind for the whole numbers that satisfy a condition.
#[derive(Clone, Copy)]
pub struct WholeNumber<N> {
    wanted: &'static str,
    accepts: fn(&N) -> bool,
}

/// The whole numbers that satisfy `accepts`; `wanted` describes these numbers.
pub const fn whole<N>(wanted: &'static str, accepts: fn(&N) -> bool) -> WholeNumber<N> {
    WholeNumber { wanted, accepts }
}

impl<N> Kind for WholeNumber<N>
where
    N: TryFrom<i64> + Into<i64> + FromStr + Display + Copy + 'static,
{
    type Value = N;

    fn wanted(&self) -> String {
        self.wanted.to_string()
    }

    fn read(&self, value: &DeValue) -> Option<N> {
        integer(value).filter(self.accepts)
    }

    fn write(&self, value: &N) -> Option<Value> {
        Some(Value::Integer((*value).into()))
    }

    fn parse(&self, text: &str) -> Option<N> {
        text.trim().parse().ok().filter(self.accepts)
    }

    fn show(&self, value: &N) -> Option<String> {
        Some(value.to_string())
    }
}

/// The kind for values with names: the file and qmgr use the name.
#[derive(Clone, Copy)]
pub struct OneOf<V: 'static>(pub &'static [(&'static str, V)]);

impl<V: Copy + PartialEq + Sync> Kind for OneOf<V> {
    type Value = V;

    fn wanted(&self) -> String {
        one_of(self.0)
    }

    fn read(&self, value: &DeValue) -> Option<V> {
        self.parse(value.as_str()?)
    }

    fn write(&self, value: &V) -> Option<Value> {
        self.show(value).map(Value::from)
    }

    fn parse(&self, text: &str) -> Option<V> {
        let found = self.0.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value)
    }

    fn show(&self, value: &V) -> Option<String> {
        let found = self.0.iter().find(|(_, known)| known == value);
        found.map(|(name, _)| name.to_string())
    }
}

/// The names of a list, for an error message: `"a", "b" or "c"`.
pub fn one_of<V>(all: &[(&str, V)]) -> String {
    let names: Vec<String> = all.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The kind for a value that can be missing.
pub struct Optional<K>(pub K);

impl<K: Kind> Kind for Optional<K> {
    type Value = Option<K::Value>;

    fn wanted(&self) -> String {
        self.0.wanted()
    }

    fn read(&self, value: &DeValue) -> Option<Option<K::Value>> {
        self.0.read(value).map(Some)
    }

    fn write(&self, value: &Option<K::Value>) -> Option<Value> {
        self.0.write(value.as_ref()?)
    }

    fn read_key(
        &self,
        section: &Section,
        key: &str,
        resources: &Resources,
    ) -> Result<Option<Option<K::Value>>, ConfigError> {
        Ok(self.0.read_key(section, key, resources)?.map(Some))
    }

    fn parse(&self, text: &str) -> Option<Option<K::Value>> {
        self.0.parse(text).map(Some)
    }

    fn show(&self, value: &Option<K::Value>) -> Option<String> {
        self.0.show(value.as_ref()?)
    }

    fn empty(&self) -> Option<Option<K::Value>> {
        Some(None)
    }
}

/// The kind for a value, or for a word that means no value, such as `"never"`. qmgr neither
/// displays nor sets values of this kind.
pub struct OrWord<K> {
    /// The word.
    pub word: &'static str,
    /// The kind of value.
    pub kind: K,
    /// The description of valid values.
    pub wanted: &'static str,
}

impl<K: Kind> Kind for OrWord<K> {
    type Value = Option<K::Value>;

    fn wanted(&self) -> String {
        self.wanted.to_string()
    }

    fn read(&self, value: &DeValue) -> Option<Option<K::Value>> {
        if value.as_str() == Some(self.word) {
            return Some(None);
        }
        self.kind.read(value).map(Some)
    }

    fn write(&self, value: &Option<K::Value>) -> Option<Value> {
        match value {
            Some(value) => self.kind.write(value),
            None => Some(self.word.into()),
        }
    }
}

/// The kind for a list of values.
pub struct List<K> {
    item: K,
    wanted: &'static str,
    hides_empty: bool,
}

/// A list; `wanted` describes valid lists. If `wanted` is empty, error messages describe valid
/// items instead.
pub const fn list<K>(item: K, wanted: &'static str) -> List<K> {
    List {
        item,
        wanted,
        hides_empty: false,
    }
}

/// A list that `schedd --check` does not write while it is empty.
pub const fn list_if_any<K>(item: K, wanted: &'static str) -> List<K> {
    List {
        item,
        wanted,
        hides_empty: true,
    }
}

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;

    fn wanted(&self) -> String {
        if self.wanted.is_empty() {
            return format!("a list of {}", self.item.wanted());
        }
        self.wanted.to_string()
    }

    fn read(&self, value: &DeValue) -> Option<Vec<K::Value>> {
        let items = value.as_array()?.iter();
        items.map(|item| self.item.read(item.get_ref())).collect()
    }

    fn write(&self, value: &Vec<K::Value>) -> Option<Value> {
        let items: Vec<Value> = value
            .iter()
            .filter_map(|item| self.item.write(item))
            .collect();
        (!self.hides_empty || !value.is_empty()).then_some(Value::Array(items))
    }

    fn parse(&self, text: &str) -> Option<Vec<K::Value>> {
        let items = text.split(',').map(str::trim);
        items
            .filter(|item| !item.is_empty())
            .map(|item| self.item.parse(item))
            .collect()
    }

    fn show(&self, value: &Vec<K::Value>) -> Option<String> {
        let items: Vec<String> = value
            .iter()
            .filter_map(|item| self.item.show(item))
            .collect();
        Some(items.join(",")).filter(|text| !text.is_empty())
    }

    fn empty(&self) -> Option<Vec<K::Value>> {
        Some(Vec::new())
    }
}

/// A kind that consists of functions, for values that no other kind covers.
pub struct Custom<V: 'static> {
    /// The description of valid values.
    pub wanted: fn() -> String,
    /// Reads a value of the file.
    pub read: fn(&DeValue) -> Option<V>,
    /// The value as written in the file.
    pub write: fn(&V) -> Option<Value>,
    /// Reads qmgr's text.
    pub parse: fn(&str) -> Option<V>,
    /// The value as displayed by qmgr.
    pub show: fn(&V) -> Option<String>,
}

/// A kind for keys without qmgr attributes.
pub const fn custom<V>(
    wanted: fn() -> String,
    read: fn(&DeValue) -> Option<V>,
    write: fn(&V) -> Option<Value>,
) -> Custom<V> {
    Custom {
        wanted,
        read,
        write,
        parse: |_| None,
        show: |_| None,
    }
}

impl<V: Clone> Kind for Custom<V> {
    type Value = V;

    fn wanted(&self) -> String {
        (self.wanted)()
    }

    fn read(&self, value: &DeValue) -> Option<V> {
        (self.read)(value)
    }

    fn write(&self, value: &V) -> Option<Value> {
        (self.write)(value)
    }

    fn parse(&self, text: &str) -> Option<V> {
        (self.parse)(text)
    }

    fn show(&self, value: &V) -> Option<String> {
        (self.show)(value)
    }
}

/// The kind for a table within a section, read by a function.
pub struct TableOf<V: 'static> {
    /// Reads the table.
    pub read: fn(&Section, &Resources) -> Result<V, ConfigError>,
    /// The value as written in the file.
    pub write: fn(&V) -> Option<Value>,
}

impl<V: Clone> Kind for TableOf<V> {
    type Value = V;

    fn wanted(&self) -> String {
        "a table".to_string()
    }

    fn read(&self, _value: &DeValue) -> Option<V> {
        None
    }

    fn write(&self, value: &V) -> Option<Value> {
        (self.write)(value)
    }

    fn read_key(
        &self,
        section: &Section,
        key: &str,
        resources: &Resources,
    ) -> Result<Option<V>, ConfigError> {
        let table = section.section(key)?;
        table
            .map(|table| (self.read)(&table, resources))
            .transpose()
    }
}

/// The kind for a table of resources, such as `{ ncpus = 4, walltime = "1:00:00" }`.
pub struct AmountTable;

impl Kind for AmountTable {
    type Value = ResourceList;

    fn wanted(&self) -> String {
        "a table of resources".to_string()
    }

    fn read(&self, _value: &DeValue) -> Option<ResourceList> {
        None
    }

    fn write(&self, value: &ResourceList) -> Option<Value> {
        let entries = value
            .iter()
            .map(|(name, value)| (name.as_str(), write_resource_value(value)));
        (!value.is_empty()).then(|| table(entries))
    }

    fn read_key(
        &self,
        section: &Section,
        key: &str,
        resources: &Resources,
    ) -> Result<Option<ResourceList>, ConfigError> {
        let Some(table) = section.section(key)? else {
            return Ok(None);
        };
        let mut amounts = ResourceList::new();
        for (name, value) in table.keys_except(&[]) {
            let Some(definition) = resources.get(name) else {
                let names: Vec<&str> = resources.iter().map(|(name, _)| name).collect();
                return Err(table.unknown(name, &names));
            };
            let wanted = wanted_of_type(definition.kind);
            let amount = read_resource_value(definition.kind, value.get_ref());
            let amount = amount.ok_or_else(|| table.refuse(name, value, wanted))?;
            amounts.insert(name.to_string(), amount);
        }
        Ok(Some(amounts))
    }

    fn resources<'v>(&self, value: &'v mut ResourceList) -> Option<&'v mut ResourceList> {
        Some(value)
    }
}

/// The kind for an expression. The text describes valid expressions.
pub struct Formula(pub &'static str);

impl Kind for Formula {
    type Value = Option<Expression>;

    fn wanted(&self) -> String {
        self.0.to_string()
    }

    fn read(&self, value: &DeValue) -> Option<Option<Expression>> {
        Expression::parse(value.as_str()?).ok().map(Some)
    }

    fn write(&self, value: &Option<Expression>) -> Option<Value> {
        value.as_ref().map(|formula| formula.text().into())
    }

    fn read_key(
        &self,
        section: &Section,
        key: &str,
        _resources: &Resources,
    ) -> Result<Option<Option<Expression>>, ConfigError> {
        let Some(text) = section.read(key, &self.wanted(), String::read)? else {
            return Ok(None);
        };
        let read = Expression::parse(&text);
        read.map(|formula| Some(Some(formula))).map_err(|fault| {
            section.key_error(key, format!("`{key}` is not a valid expression: {fault}"))
        })
    }
}

// ---------------------------------------------------------------- kinds that several keys use

/// True or false.
pub const BOOLEAN: Scalar<bool> = scalar("true or false", |_| true);
/// Any text.
pub const TEXT: Scalar<String> = scalar("a string", |_| true);
/// Any finite number.
pub const NUMBER: Scalar<f64> = scalar("a number", |_| true);
/// A number from 0 to 1.
pub const FROM_0_TO_1: Scalar<f64> =
    scalar("a number from 0 to 1", |part| (0.0..=1.0).contains(part));
/// A duration of at least a second.
pub const A_SECOND_OR_MORE: Scalar<Span> = scalar(
    "a time of at least a second, such as \"10m\" or \"1:00:00\"",
    |span| *span >= Span::seconds(1),
);
/// The absolute path of a program.
pub const PROGRAM: Scalar<PathBuf> =
    scalar("the absolute path of a program", |path| path.is_absolute());
/// The number of subjobs of an array.
pub const ARRAY_SIZE: WholeNumber<u32> =
    whole("a number of subjobs, at least 1", |count| *count > 0);

/// Any duration; `wanted` describes it for error messages.
pub const fn time(wanted: &'static str) -> Scalar<Span> {
    scalar(wanted, |_| true)
}

// ---------------------------------------------------------------- simple types

impl ScalarType for bool {
    fn read(value: &DeValue) -> Option<bool> {
        value.as_bool()
    }

    fn write(&self) -> Value {
        (*self).into()
    }

    fn parse(text: &str) -> Option<bool> {
        match resource::ResourceValue::parse(resource::ResourceType::Boolean, text)? {
            resource::ResourceValue::Boolean(flag) => Some(flag),
            _ => None,
        }
    }

    fn show(&self) -> String {
        resource::ResourceValue::Boolean(*self).to_string()
    }
}

impl ScalarType for f64 {
    /// Accepts a finite number, whole or not.
    fn read(value: &DeValue) -> Option<f64> {
        let number = match value {
            DeValue::Integer(_) => integer::<i64>(value)? as f64,
            DeValue::Float(number) => number.as_str().replace('_', "").parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    fn write(&self) -> Value {
        (*self).into()
    }

    fn parse(text: &str) -> Option<f64> {
        let number: f64 = text.trim().parse().ok()?;
        number.is_finite().then_some(number)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl ScalarType for String {
    fn read(value: &DeValue) -> Option<String> {
        value.as_str().map(str::to_string)
    }

    fn write(&self) -> Value {
        self.as_str().into()
    }

    fn parse(text: &str) -> Option<String> {
        Some(text.to_string())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl ScalarType for PathBuf {
    fn read(value: &DeValue) -> Option<PathBuf> {
        value.as_str().map(PathBuf::from)
    }

    fn write(&self) -> Value {
        self.show().into()
    }

    fn parse(text: &str) -> Option<PathBuf> {
        Some(PathBuf::from(text))
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

/// The file contains durations such as `"1h 30m"` or `"1:30:00"`; qmgr uses whole seconds.
impl ScalarType for Span {
    fn read(value: &DeValue) -> Option<Span> {
        let text = value.as_str()?;
        if text.contains(':') {
            return Span::parse(text);
        }
        let length = humantime::parse_duration(text).ok()?;
        i64::try_from(length.as_millis()).ok().map(Span)
    }

    /// Uses the largest unit that divides the value.
    fn write(&self) -> Value {
        let units = [
            ("d", 86_400_000),
            ("h", 3_600_000),
            ("m", 60_000),
            ("s", 1000),
        ];
        let divides = |(_, length): &(&str, i64)| self.0 != 0 && self.0 % length == 0;
        match units.into_iter().find(divides) {
            Some((unit, length)) => format!("{}{unit}", self.0 / length).into(),
            None if self.0 == 0 => "0s".into(),
            None => format!("{}ms", self.0).into(),
        }
    }

    fn parse(text: &str) -> Option<Span> {
        let seconds: i32 = text.trim().parse().ok()?;
        Some(Span::seconds(seconds.into()))
    }

    fn show(&self) -> String {
        self.as_seconds().to_string()
    }
}

impl ScalarType for Size {
    fn read(value: &DeValue) -> Option<Size> {
        Size::parse(value.as_str()?)
    }

    fn write(&self) -> Value {
        self.to_string().into()
    }

    fn parse(text: &str) -> Option<Size> {
        Size::parse(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

// ---------------------------------------------------------------- functions for several kinds

/// Reads an integer of the file; None for another type or a number out of range.
pub fn integer<N: TryFrom<i64>>(value: &DeValue) -> Option<N> {
    let number = value.as_integer()?;
    N::try_from(i64::from_str_radix(number.as_str(), number.radix()).ok()?).ok()
}

/// A table as written in the file.
pub fn table<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let entries = entries.into_iter();
    Value::Table(
        entries
            .map(|(key, value)| (key.to_string(), value))
            .collect(),
    )
}

/// A table with a value for each name, as written in the file.
pub fn table_by_name<V>(all: &BTreeMap<String, V>, write: impl Fn(&V) -> Value) -> Value {
    table(all.iter().map(|(name, one)| (name.as_str(), write(one))))
}

/// Reads a table that has a value of this kind for each name.
pub fn read_by_name<K: Kind>(
    table: &Section,
    kind: &K,
    resources: &Resources,
) -> Result<BTreeMap<String, K::Value>, ConfigError> {
    let mut all = BTreeMap::new();
    for (name, value) in table.keys_except(&[]) {
        let read = kind.read_key(table, name, resources)?;
        let refusal = || table.refuse(name, value, &kind.wanted());
        all.insert(name.to_string(), read.ok_or_else(refusal)?);
    }
    Ok(all)
}

/// The description of valid values of a resource type.
pub fn wanted_of_type(kind: resource::ResourceType) -> &'static str {
    match kind {
        resource::ResourceType::Time => "a time, such as \"1:00:00\"",
        resource::ResourceType::Size => "a size, such as \"8gb\"",
        resource::ResourceType::Long => "a whole number of at least 0",
        resource::ResourceType::Float => "a number of at least 0",
        resource::ResourceType::Boolean => "true or false",
        resource::ResourceType::String => "a string",
    }
}

/// Reads a resource value. A TOML string has PBS's form. None if invalid or negative.
pub fn read_resource_value(
    kind: resource::ResourceType,
    value: &DeValue,
) -> Option<resource::ResourceValue> {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(_) => integer::<i64>(value)?.to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => return None,
    };
    parse_not_negative(kind, &text)
}

/// Reads a resource value in PBS's form; None if invalid or negative.
pub fn parse_not_negative(
    kind: resource::ResourceType,
    text: &str,
) -> Option<resource::ResourceValue> {
    resource::ResourceValue::parse(kind, text).filter(|value| match value {
        resource::ResourceValue::Long(number) => *number >= 0,
        resource::ResourceValue::Float(number) => *number >= 0.0,
        _ => true,
    })
}

/// A resource value as written in the file.
pub fn write_resource_value(value: &resource::ResourceValue) -> Value {
    match value {
        resource::ResourceValue::Long(number) => (*number).into(),
        resource::ResourceValue::Float(number) => (*number).into(),
        resource::ResourceValue::Boolean(flag) => (*flag).into(),
        other => other.to_string().into(),
    }
}
