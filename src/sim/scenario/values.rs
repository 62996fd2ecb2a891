//! Readers for the values in a scenario.

use crate::model::job_id::JobId;
use crate::model::time::Span;
use toml::de::DeValue;

/// The description of the values that [`moment`] reads, for messages.
pub const A_MOMENT: &str =
    "a number of seconds, such as 90, or a duration, such as \"1h 30m\" or \"1:30:00\"";

/// The description of the values that [`job`] reads, for messages.
pub const A_JOB: &str = "the id of a job, such as 3 or \"3[7]\"";

/// A text that is not blank.
pub fn nonempty_text(value: &DeValue) -> Option<String> {
    value
        .as_str()
        .map(str::to_string)
        .filter(|text| !text.trim().is_empty())
}

/// Any text.
pub fn text(value: &DeValue) -> Option<String> {
    value.as_str().map(str::to_string)
}

/// A whole number that fits into the type `N`.
pub fn whole<N: TryFrom<i64>>(value: &DeValue) -> Option<N> {
    let number = value.as_integer()?;
    N::try_from(i64::from_str_radix(number.as_str(), number.radix()).ok()?).ok()
}

/// A duration of at least 0. Numbers are seconds.
pub fn moment(value: &DeValue) -> Option<Span> {
    let span = match value {
        DeValue::Integer(_) => Span(whole::<i64>(value)?.checked_mul(1000)?),
        DeValue::Float(number) => {
            let seconds: f64 = number
                .as_str()
                .parse()
                .ok()
                .filter(|seconds: &f64| (0.0..1e12).contains(seconds))?;
            Span((seconds * 1000.0).round() as i64)
        }
        DeValue::String(text) if text.contains(':') => Span::parse(text)?,
        DeValue::String(text) => {
            let length = humantime::parse_duration(text).ok()?;
            Span(i64::try_from(length.as_millis()).ok()?)
        }
        _ => return None,
    };
    (span >= Span(0)).then_some(span)
}

/// The id of a job, an array or a subjob.
pub fn job(value: &DeValue) -> Option<JobId> {
    match value {
        DeValue::Integer(_) => whole(value).map(JobId::job),
        DeValue::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A list of values that `read` accepts.
pub fn list<T>(read: fn(&DeValue) -> Option<T>) -> impl Fn(&DeValue) -> Option<Vec<T>> {
    move |value| {
        value
            .as_array()?
            .iter()
            .map(|item| read(item.get_ref()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    #[test]
    fn times_are_seconds_or_texts() {
        let read = |text: &str| {
            let line = format!("x = {text}");
            let table = DeTable::parse(&line).unwrap().into_inner();
            moment(table.get("x").unwrap().get_ref()).map(|span| span.0)
        };
        for (text, expected) in [
            ("90", Some(90_000)),
            ("0.5", Some(500)),
            ("\"1h 30m\"", Some(5_400_000)),
            ("\"1:30:00\"", Some(5_400_000)),
            ("-1", None),
            ("\"soon\"", None),
            ("1e300", None),
            ("true", None),
            ("9223372036854775807", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
