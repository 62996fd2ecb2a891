//! What expressions are about: values, and the scope that knows them by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// A value, borrowed from where it is kept if that is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionValue<'a> {
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

impl ExpressionValue<'_> {
    /// The same value, borrowed from this one.
    pub fn borrowed(&self) -> ExpressionValue<'_> {
        match self {
            ExpressionValue::Undefined => ExpressionValue::Undefined,
            ExpressionValue::Number(number) => ExpressionValue::Number(*number),
            ExpressionValue::Boolean(boolean) => ExpressionValue::Boolean(*boolean),
            ExpressionValue::Text(text) => ExpressionValue::from(text.as_ref()),
            ExpressionValue::List(list) => ExpressionValue::from(list.as_ref()),
        }
    }
}

impl<'a> From<&'a str> for ExpressionValue<'a> {
    fn from(text: &'a str) -> ExpressionValue<'a> {
        ExpressionValue::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [String]> for ExpressionValue<'a> {
    fn from(list: &'a [String]) -> ExpressionValue<'a> {
        ExpressionValue::List(Cow::Borrowed(list))
    }
}

impl From<f64> for ExpressionValue<'_> {
    fn from(number: f64) -> Self {
        ExpressionValue::Number(number)
    }
}

impl From<bool> for ExpressionValue<'_> {
    fn from(boolean: bool) -> Self {
        ExpressionValue::Boolean(boolean)
    }
}

/// As a refusal shows what it found: texts without quotes, lists with commas.
impl fmt::Display for ExpressionValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ExpressionValue::Undefined => f.write_str("undefined"),
            ExpressionValue::Number(number) => show_number(*number, f),
            ExpressionValue::Boolean(boolean) => boolean.fmt(f),
            ExpressionValue::Text(text) => f.write_str(text),
            ExpressionValue::List(list) => f.write_str(&list.join(",")),
        }
    }
}

/// What names mean: a host for a job that asks about it, a job for a formula.
pub trait NameScope {
    /// The value of `name`, as in `host.memory.total`; None if there is no such name, or no value
    /// here.
    fn value(&self, name: &str) -> Option<ExpressionValue<'_>>;
}

impl<F: Fn(&str) -> Option<ExpressionValue<'static>>> NameScope for F {
    fn value(&self, name: &str) -> Option<ExpressionValue<'_>> {
        self(name)
    }
}

impl NameScope for BTreeMap<String, ExpressionValue<'_>> {
    fn value(&self, name: &str) -> Option<ExpressionValue<'_>> {
        self.get(name).map(ExpressionValue::borrowed)
    }
}

/// Numbers of everyday length in full, others with an exponent, so that none is longer than a line.
pub(super) fn show_number(number: f64, f: &mut fmt::Formatter) -> fmt::Result {
    let everyday = number == 0.0 || (1e-6..1e16).contains(&number.abs());
    if everyday {
        write!(f, "{number}")
    } else {
        write!(f, "{number:e}")
    }
}
