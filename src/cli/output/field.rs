//! Named values for all formats: with units for users, as plain numbers for programs.

use super::full::printable;
use crate::model::time::{Span, Wall};
use crate::shown::timestamp;
use serde_json::{Value, json};

/// A named value.
pub type Field = (&'static str, Cell);

/// A value with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A count.
    Count(i64),
    /// A number without unit.
    Real(f64),
    /// A duration in milliseconds; programs get seconds.
    Length(f64),
    /// A time in milliseconds since the Unix epoch; programs get seconds.
    Moment(i64),
    /// Kilobytes.
    Kilobytes(u64),
    /// A fraction of a whole, which is 1; users get percent.
    Part(f64),
    /// Yes or no.
    Flag(bool),
    /// Unknown or not applicable.
    Nothing,
}

impl Cell {
    /// Applies `cell` to a value; [`Cell::Nothing`] for None.
    pub fn or_nothing<T>(value: Option<T>, cell: fn(T) -> Cell) -> Cell {
        value.map_or(Cell::Nothing, cell)
    }

    /// The value as JSON.
    pub fn data(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Count(count) => json!(count),
            Cell::Real(number) | Cell::Part(number) => json!(number),
            Cell::Length(ms) => json!(ms / 1000.0),
            Cell::Moment(ms) => json!(ms.div_euclid(1000)),
            Cell::Kilobytes(kb) => json!(kb),
            Cell::Flag(flag) => json!(flag),
            Cell::Nothing => Value::Null,
        }
    }

    /// The value as a field of comma-separated values (RFC 4180); empty for [`Cell::Nothing`].
    pub fn csv(&self) -> String {
        match self.data() {
            Value::Null => String::new(),
            Value::String(text) if text.contains([',', '"', '\n', '\r']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// The value as text for users.
    pub fn shown(&self) -> String {
        match self {
            Cell::Text(text) if text.is_empty() => "--".to_string(),
            Cell::Text(text) => printable(text).into_owned(),
            Cell::Count(count) => count.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Length(ms) => brief(Span(*ms as i64)),
            Cell::Moment(ms) => timestamp::ctime(Wall(ms.div_euclid(1000))).to_string(),
            Cell::Kilobytes(kb) => format!("{kb}kb"),
            Cell::Part(part) => format!("{:.1}%", 100.0 * part),
            Cell::Flag(flag) => if *flag { "yes" } else { "no" }.to_string(),
            Cell::Nothing => "--".to_string(),
        }
    }
}

/// A duration as text; below a minute, in seconds with two decimals.
pub fn brief(span: Span) -> String {
    if span < Span::seconds(60) {
        format!("{:.2}s", span.0 as f64 / 1000.0)
    } else {
        span.to_string()
    }
}

/// Named values as one JSON object.
pub fn object(fields: &[Field]) -> Value {
    fields
        .iter()
        .map(|(name, cell)| (name.to_string(), cell.data()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The header line of comma-separated values.
pub fn csv_head(fields: &[Field]) -> String {
    fields
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(",")
        + "\n"
}

/// A line of comma-separated values.
pub fn csv_line(fields: &[Field]) -> String {
    fields
        .iter()
        .map(|(_, cell)| cell.csv())
        .collect::<Vec<_>>()
        .join(",")
        + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_a_form_for_each_format() {
        let fields = [
            ("user", Cell::Text("a,\"b\"\n".into())),
            ("jobs", Cell::Count(3)),
            ("time", Cell::Length(7_500.0)),
            ("end", Cell::Moment(1_500)),
            ("part", Cell::Part(0.125)),
            ("mem", Cell::Kilobytes(4)),
            ("deleted", Cell::Flag(true)),
            ("wait", Cell::Nothing),
        ];
        assert_eq!(
            csv_head(&fields),
            "user,jobs,time,end,part,mem,deleted,wait\n"
        );
        assert_eq!(
            csv_line(&fields),
            "\"a,\"\"b\"\"\n\",3,7.5,1,0.125,4,true,\n"
        );
        let expected = r#"{"deleted":true,"end":1,"jobs":3,"mem":4,"part":0.125,"time":7.5,"user":"a,\"b\"\n","wait":null}"#;
        let mut object: Vec<(String, Value)> = object(&fields)
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .collect();
        object.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(Value::from_iter(object).to_string(), expected);
        let shown: Vec<String> = fields.iter().map(|(_, cell)| cell.shown()).collect();
        assert_eq!(
            [&shown[0], &shown[2], &shown[4], &shown[5], &shown[7]],
            ["a,\"b\"\\n", "7.50s", "12.5%", "4kb", "--"]
        );
    }
}
