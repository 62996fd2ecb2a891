//! Attribute values in PBS's text form.

use crate::model::resource::{ResourceType, ResourceValue};
use crate::model::time::Span;

/// `True` or `False`.
pub(super) fn boolean(flag: bool) -> Option<String> {
    Some(ResourceValue::Boolean(flag).to_string())
}

pub(super) fn join_names(list: &[String]) -> Option<String> {
    Some(list.join(",")).filter(|text| !text.is_empty())
}

/// Sets a list from comma-separated names, or empties the list if `text` is None. Returns false if
/// a name contains blanks.
pub(super) fn set_names(list: &mut Vec<String>, text: Option<&str>) -> bool {
    *list = split_names(text.unwrap_or_default());
    list.iter().all(|name| !name.contains(char::is_whitespace))
}

/// The names in a comma-separated list.
pub(in crate::config::overrides) fn split_names(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .collect()
}

/// Parses a boolean; None if invalid. If `text` is None, returns the value `unset`.
pub(super) fn parse_boolean(text: Option<&str>, unset: bool) -> Option<bool> {
    let Some(text) = text else { return Some(unset) };
    match ResourceValue::parse(ResourceType::Boolean, text)? {
        ResourceValue::Boolean(flag) => Some(flag),
        _ => None,
    }
}

pub(super) fn seconds(span: Option<Span>) -> Option<String> {
    span.map(|span| span.as_seconds().to_string())
}

/// Parses a duration; None if invalid. Returns `Some(None)`, which means no duration, if `text` is
/// None, or if the duration is less than a second, such as PBS's 0.
pub(super) fn parse_span(text: Option<&str>) -> Option<Option<Span>> {
    let Some(text) = text else { return Some(None) };
    Span::parse(text).map(|span| Some(span).filter(|span| *span >= Span::seconds(1)))
}
