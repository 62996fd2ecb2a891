//! What expressions are about: values, and the scope that knows them by name.

use super::node::show_number;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A value, borrowed from where it is kept if that is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// There is none.
    Undefined,
    /// A number, finite.
    Number(f64),
    /// True or false; counts as 1 or 0 where a number is needed.
    Boolean(bool),
    /// A text. In a list, texts are separated by commas.
    Text(Cow<'a, str>),
    /// Several texts, as `host.groups`.
    List(Cow<'a, [String]>),
}

impl Value<'_> {
    /// The same value, borrowed from this one.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Undefined => Value::Undefined,
            Value::Number(number) => Value::Number(*number),
            Value::Boolean(boolean) => Value::Boolean(*boolean),
            Value::Text(text) => Value::from(text.as_ref()),
            Value::List(list) => Value::from(list.as_ref()),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [String]> for Value<'a> {
    fn from(list: &'a [String]) -> Value<'a> {
        Value::List(Cow::Borrowed(list))
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(boolean: bool) -> Self {
        Value::Boolean(boolean)
    }
}

/// As a refusal shows what it found: texts without quotes, lists with commas.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Undefined => f.write_str("undefined"),
            Value::Number(number) => show_number(*number, f),
            Value::Boolean(boolean) => boolean.fmt(f),
            Value::Text(text) => f.write_str(text),
            Value::List(list) => f.write_str(&list.join(",")),
        }
    }
}

/// What names mean: a host for a job that asks about it, a job for a formula.
pub trait Scope {
    /// The value of `name`, as in `host.memory.total`; None if there is no such name, or no value
    /// here.
    fn value(&self, name: &str) -> Option<Value<'_>>;
}

impl<F: Fn(&str) -> Option<Value<'static>>> Scope for F {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        self(name)
    }
}

impl Scope for BTreeMap<String, Value<'_>> {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        self.get(name).map(Value::borrowed)
    }
}
