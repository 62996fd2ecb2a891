//! Attribute values in PBS's text form.

use crate::model::resource::{ResourceType, ResourceValue};
use crate::model::time::Span;

/// `True` or `False`.
pub(super) fn boolean(is_so: bool) -> Option<String> {
    Some(ResourceValue::Boolean(is_so).to_string())
}

pub(super) fn joined(list: &[String]) -> Option<String> {
    Some(list.join(",")).filter(|text| !text.is_empty())
}

pub(super) fn put(list: &mut Vec<String>, text: Option<&str>) -> bool {
    *list = names(text.unwrap_or_default());
    list.iter().all(|name| !name.contains(char::is_whitespace))
}

/// The names in a comma-separated list.
pub(in crate::config::overrides) fn names(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .collect()
}

pub(super) fn truth(text: Option<&str>, unset: bool) -> Option<bool> {
    let Some(text) = text else { return Some(unset) };
    match ResourceValue::parse(ResourceType::Boolean, text)? {
        ResourceValue::Boolean(is_so) => Some(is_so),
        _ => None,
    }
}

pub(super) fn seconds(span: Option<Span>) -> Option<String> {
    span.map(|span| span.as_seconds().to_string())
}

/// A duration of at least a second, or none. PBS uses 0 for none.
pub(super) fn span(text: Option<&str>) -> Option<Option<Span>> {
    let Some(text) = text else { return Some(None) };
    Span::parse(text).map(|span| Some(span).filter(|span| *span >= Span::seconds(1)))
}
