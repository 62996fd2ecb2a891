//! Tokenizer for expressions.

use super::operator::{SYMBOLS, Sign, WORDS};
use crate::model::resource::Size;

/// Syntax error in an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct Syntax {
    /// Column in characters, from 1.
    pub column: usize,
    /// Description of the error.
    pub message: String,
}

/// Token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExpressionToken<'t> {
    /// Finite number. It is never negative, because a minus sign is a separate token.
    Number(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// Text between quotes.
    Text(&'t str),
    /// Name such as `host.memory.total`; quotes around parts of the name are removed.
    Name(String),
    /// Operator, parenthesis or other sign.
    Sign(Sign),
    /// End of the text.
    End,
}

/// Token with its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed<'t> {
    pub token: ExpressionToken<'t>,
    /// Column in characters, from 1.
    pub column: usize,
    /// Original text.
    pub text: &'t str,
}

/// Reader of the tokens of a text, one by one.
pub(super) struct Tokens<'t> {
    rest: &'t str,
    column: usize,
}

/// Length in bytes of the token at the beginning of a text, and the token.
type Cut<'t> = (usize, ExpressionToken<'t>);

impl<'t> Tokens<'t> {
    /// Creates the tokenizer for `text`.
    pub fn new(text: &'t str) -> Tokens<'t> {
        Tokens {
            rest: text,
            column: 1,
        }
    }

    /// Returns the next token; [`ExpressionToken::End`] after the last token.
    pub fn next(&mut self) -> Result<Placed<'t>, Syntax> {
        let blank = self.rest.len() - self.rest.trim_start().len();
        self.advance(blank);
        let column = self.column;
        let (length, token) = cut(self.rest).map_err(|message| Syntax { column, message })?;
        let text = self.advance(length);
        Ok(Placed {
            token,
            column,
            text,
        })
    }

    fn advance(&mut self, length: usize) -> &'t str {
        let (passed, rest) = self.rest.split_at(length);
        self.column += passed.chars().count();
        self.rest = rest;
        passed
    }
}

fn cut(text: &str) -> Result<Cut<'_>, String> {
    match text.chars().next() {
        None => Ok((0, ExpressionToken::End)),
        Some('"' | '\'') => {
            quoted(text).map(|inner| (inner.len() + 2, ExpressionToken::Text(inner)))
        }
        Some('0'..='9' | '.') => number(text),
        Some(first) if begins_name(first) => name(text),
        Some(first) => symbol(text)
            .ok_or_else(|| format!("unexpected character `{first}`; put text in quotes")),
    }
}

fn symbol(text: &str) -> Option<Cut<'_>> {
    let (spelling, sign) = SYMBOLS
        .iter()
        .find(|(spelling, _)| text.starts_with(spelling))?;
    Some((spelling.len(), ExpressionToken::Sign(*sign)))
}

/// Returns the text between the quote at the beginning and the next quote of the same kind.
fn quoted(text: &str) -> Result<&str, String> {
    let (quote, inner) = text.split_at(1);
    let end = inner
        .find(quote)
        .ok_or_else(|| format!("no closing {quote} for the text that begins here"))?;
    Ok(&inner[..end])
}

fn number(text: &str) -> Result<Cut<'_>, String> {
    let length = number_length(text);
    let tail = text[length..]
        .find(|c: char| !continues_name(c) && c != '.')
        .unwrap_or(text.len() - length);
    if tail > 0 {
        return Err(no_number(&text[..length + tail]));
    }
    let read: Option<f64> = text[..length].parse().ok();
    let value = read.filter(|value| value.is_finite());
    value
        .map(|value| (length, ExpressionToken::Number(value)))
        .ok_or_else(|| no_number(&text[..length]))
}

/// Returns the length of a number such as `12`, `.5`, `1.5` or `2e-3` at the beginning of `text`.
fn number_length(text: &str) -> usize {
    let mut length = digits(text);
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += 1 + digits(fraction);
    }
    if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let count = digits(&exponent[sign..]);
        if count > 0 {
            length += 1 + sign + count;
        }
    }
    length
}

/// Returns the number of digits at the beginning of a text.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns the message for a text that is not a number. Sizes such as `4gb` are refused, because
/// the other side of a comparison may use another unit.
fn no_number(text: &str) -> String {
    if digits(text) < text.len()
        && let Some(size) = Size::parse(text)
    {
        let megabytes = size.bytes() as f64 / f64::from(1 << 20);
        return format!("`{text}` has a unit: write a plain number (memory in MB: {megabytes})");
    }
    format!("`{text}` is not a number; put text in quotes")
}

fn begins_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Tests whether a part of a name needs no quotes.
pub(super) fn is_plain(part: &str) -> bool {
    !part.is_empty() && part.chars().all(continues_name)
}

/// Parses a name, which consists of words joined by dots. All words except the first may be in
/// quotes. A single word may also be an operator, `true` or `false`.
fn name(text: &str) -> Result<Cut<'_>, String> {
    let mut length = plain_length(text);
    let mut whole = text[..length].to_string();
    while let Some(part) = text[length..].strip_prefix('.') {
        let plain = plain_length(part);
        let (inner, typed) = match plain {
            0 => quoted_part(part).map(|inner| (inner, inner.len() + 2))?,
            _ => (&part[..plain], plain),
        };
        whole.push('.');
        whole.push_str(inner);
        length += 1 + typed;
    }
    Ok((
        length,
        word(&text[..length]).unwrap_or(ExpressionToken::Name(whole)),
    ))
}

fn plain_length(text: &str) -> usize {
    text.find(|c| !continues_name(c)).unwrap_or(text.len())
}

fn quoted_part(text: &str) -> Result<&str, String> {
    if !text.starts_with(['"', '\'']) {
        return Err("the name that begins here ends in a dot".to_string());
    }
    let inner = quoted(text)?;
    let is_part = !inner.is_empty() && !inner.contains('.');
    is_part
        .then_some(inner)
        .ok_or_else(|| "a quoted part of a name must not be empty or contain dots".to_string())
}

fn word(text: &str) -> Option<ExpressionToken<'_>> {
    match text {
        "true" => Some(ExpressionToken::Boolean(true)),
        "false" => Some(ExpressionToken::Boolean(false)),
        _ => WORDS
            .iter()
            .find(|(spelling, _)| *spelling == text)
            .map(|(_, sign)| ExpressionToken::Sign(*sign)),
    }
}
