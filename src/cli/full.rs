//! `qstat -f` in text: one attribute a line, long values wrapped as PBS wraps them.

use super::attributes::{Attribute, Attributes, Shown};
use super::when;
use std::borrow::Cow;
use std::fmt::Write;

/// Where a value begins on a line that goes on after newline and TAB.
const AFTER_TAB: usize = 8;

/// Whether long values are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Wrapped before column 80.
    Wrapped,
    /// One line for each attribute.
    Whole,
}

/// Writes one thing: `Job Id: 12.head`, its attributes, an empty line.
pub fn write(out: &mut String, heading: &str, id: &str, attributes: &Attributes, lines: Lines) {
    let _ = writeln!(out, "{heading}: {id}");
    for attribute in &attributes.0 {
        let Some(value) = text(attribute) else { continue };
        let start = out.len();
        let _ = write!(out, "    {}", attribute.name);
        if let Some(resource) = attribute.resource {
            let _ = write!(out, ".{resource}");
        }
        out.push_str(" = ");
        let column = out[start..].chars().count();
        let value = printable(&value);
        match lines {
            Lines::Wrapped => wrap(out, &value, column),
            Lines::Whole => out.push_str(&value),
        }
        out.push('\n');
    }
    out.push('\n');
}

/// An attribute's value as text; None if it is for JSON alone.
pub fn text<'a>(attribute: &'a Attribute) -> Option<Cow<'a, str>> {
    Some(match &attribute.shown {
        Shown::Text(text) => Cow::Borrowed(text),
        Shown::Number(number) => number.to_string().into(),
        Shown::Real(number) => number.to_string().into(),
        Shown::Moment(wall) => when::ctime(*wall).to_string().into(),
        Shown::Pairs(pairs) => joined(pairs).into(),
        Shown::List(list) => list.join(", ").into(),
        Shown::Data(_) => return None,
    })
}

/// `K=V,K=V`, with `\` before a comma or `\` inside.
fn joined(pairs: &[(Cow<str>, Cow<str>)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        let _ = write!(text, "{name}={}", escaped(value, ','));
    }
    text
}

/// `\` before `\` and before `special`.
pub fn escaped(text: &str, special: char) -> Cow<'_, str> {
    if !text.contains(['\\', special]) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c == '\\' || c == special {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped.into()
}

/// A newline as `\n` and other control characters as `^X`: no value may look like a further
/// attribute. TAB stays.
pub fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_ascii_control() && c != '\t';
    if !text.contains(hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            c if hidden(c) => shown.extend(['^', char::from(c as u8 ^ 0x40)]),
            c => shown.push(c),
        }
    }
    shown.into()
}

/// Breaks before a comma's next piece when that would reach column 78, and within a piece that is
/// longer than a line after column 79.
fn wrap(out: &mut String, value: &str, mut column: usize) {
    for (place, piece) in value.split(',').enumerate() {
        if place > 0 {
            out.push(',');
            column += 1;
        }
        let width = piece.chars().count();
        if column + width < 78 {
            out.push_str(piece);
            column += width;
            continue;
        }
        if place > 0 {
            out.push_str("\n\t");
            column = AFTER_TAB + 1;
        }
        for c in piece.chars() {
            if column > 78 {
                out.push_str("\n\t");
                column = AFTER_TAB;
            }
            out.push(c);
            column += 1;
        }
    }
}
