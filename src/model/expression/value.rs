//! Values of expressions, and the scope that defines names.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Value of an expression; texts and lists are borrowed if possible.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionValue<'a> {
    /// No value.
    Undefined,
    /// Finite number.
    Number(f64),
    /// Boolean; counts as 1 or 0 in place of a number.
    Boolean(bool),
    /// Text. Operators that need a list split the text at commas.
    Text(Cow<'a, str>),
    /// List of texts, such as `host.groups`.
    List(Cow<'a, [String]>),
}

impl ExpressionValue<'_> {
    /// Returns a copy that borrows texts and lists from this value.
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

/// Formats a value for messages: texts without quotes, lists with commas.
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

/// Scope that defines names, such as a host for the requirements of a job, or a job for a formula.
pub trait NameScope {
    /// Returns the value of `name`, such as `host.memory.total`; None if the name is not defined
    /// or has no value.
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

/// Formats a number. Only numbers with an absolute value of at least 1e16, and numbers other than 0
/// with an absolute value below 1e-6, get an exponent.
pub(super) fn show_number(number: f64, f: &mut fmt::Formatter) -> fmt::Result {
    let everyday = number == 0.0 || (1e-6..1e16).contains(&number.abs());
    if everyday {
        write!(f, "{number}")
    } else {
        write!(f, "{number:e}")
    }
}
