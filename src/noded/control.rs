//! What a shepherd is ordered while its job runs: each order is a line in the attempt's folder.

use crate::model::bounds::{Times, Warning};
use crate::model::text::Text;
use crate::model::time::Span;

/// An order to a shepherd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// TERM, then KILL after this grace; or first another signal.
    Cancel(Span, Option<i32>),
    /// The cancel that comes next is no end of its job, which is to run again. An order of its own, so that a
    /// shepherd of an earlier version heeds the cancel.
    Again,
    /// Send this signal.
    Signal(i32),
    /// New limits on its time.
    Times(Times),
    /// Stop all processes.
    Suspend,
    /// Let them go on, bound to these processors if any are named.
    Resume(Vec<u16>),
    /// Write a line into the job's files.
    Message {
        /// Whether into its standard output.
        output: bool,
        /// Whether into its standard error.
        errors: bool,
        /// What to say.
        text: Text,
    },
}

impl Control {
    /// The line.
    pub fn line(&self) -> String {
        match self {
            Control::Cancel(grace, None) => format!("cancel {}", grace.0),
            Control::Cancel(grace, Some(signal)) => format!("cancel {} {signal}", grace.0),
            Control::Again => "again next".to_string(),
            Control::Signal(number) => format!("signal {number}"),
            Control::Suspend => "suspend all".to_string(),
            Control::Resume(cpus) => format!("resume {}", words(cpus)),
            Control::Times(Times { walltime, cput, warning }) => {
                let span = |span: Option<Span>| span.map_or("none".to_string(), |span| span.0.to_string());
                let warning = warning.map_or("none".to_string(), |w| format!("{}@{}", w.signal, w.before.0));
                format!("times {} {} {warning}", span(*walltime), span(*cput))
            }
            // In digits: the text may hold anything, newlines too.
            Control::Message { output, errors, text } => {
                let files = [("o", *output), ("e", *errors)].map(|(letter, is)| if is { letter } else { "" }).concat();
                let digits: String = text.0.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("message {files}:{digits}")
            }
        }
    }

    /// Reads a line; None for one of a version to come.
    pub fn parse(line: &str) -> Option<Control> {
        match line.split_once(' ')? {
            ("cancel", words) => match words.split_once(' ') {
                None => Some(Control::Cancel(Span(words.parse().ok()?), None)),
                Some((grace, signal)) => Some(Control::Cancel(Span(grace.parse().ok()?), Some(signal.parse().ok()?))),
            },
            ("again", "next") => Some(Control::Again),
            ("suspend", "all") => Some(Control::Suspend),
            ("resume", cpus) => parse_words(cpus).map(Control::Resume),
            ("signal", number) => Some(Control::Signal(number.parse().ok()?)),
            ("times", times) => parse_times(times).map(Control::Times),
            ("message", rest) => {
                let (files, digits) = rest.split_once(':')?;
                let text = Text(digits.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?);
                Some(Control::Message { output: files.contains('o'), errors: files.contains('e'), text })
            }
            _ => None,
        }
    }
}

/// `0,2,3`, or `any` where there are none.
fn words(cpus: &[u16]) -> String {
    let numbers: Vec<String> = cpus.iter().map(u16::to_string).collect();
    if numbers.is_empty() { "any".to_string() } else { numbers.join(",") }
}

fn parse_words(text: &str) -> Option<Vec<u16>> {
    match text {
        "any" => Some(Vec::new()),
        numbers => numbers.split(',').map(|number| number.parse().ok()).collect(),
    }
}

fn parse_times(text: &str) -> Option<Times> {
    let words: Vec<Option<&str>> = text.split(' ').map(|word| Some(word).filter(|word| *word != "none")).collect();
    let [walltime, cput, warning] = words[..] else { return None };
    let span = |word: Option<&str>| word.map(|word| word.parse().map(Span)).transpose().ok();
    let warning = warning.map(|word| {
        let (signal, before) = word.split_once('@')?;
        Some(Warning { signal: signal.parse().ok()?, before: Span(before.parse().ok()?) })
    });
    // One that is there and cannot be read makes nothing of the whole.
    let warning = match warning {
        Some(None) => return None,
        Some(warning) => warning,
        None => None,
    };
    Some(Times { walltime: span(walltime)?, cput: span(cput)?, warning })
}

/// The byte that two digits stand for.
fn byte(digits: &[u8]) -> Option<u8> {
    let is_whole = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    u8::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_whole)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_its_line() {
        for order in [
            Control::Cancel(Span(10_000), None),
            Control::Cancel(Span(10_000), Some(2)),
            Control::Again,
            Control::Signal(10),
            Control::Suspend,
            Control::Resume(vec![]),
            Control::Resume(vec![0, 2, 17]),
            Control::Times(Times::default()),
            Control::Times(Times { walltime: Some(Span(1)), ..Times::default() }),
            Control::Times(Times {
                cput: Some(Span(7)),
                warning: Some(Warning { signal: 10, before: Span(5) }),
                ..Times::default()
            }),
            Control::Message { output: true, errors: false, text: Text(b"a\n\xff:".to_vec()) },
            Control::Message { output: true, errors: true, text: Text::default() },
        ] {
            assert_eq!(Control::parse(&order.line()), Some(order));
        }
        for junk in [
            "",
            "cancel",
            "cancel x",
            "suspend",
            "suspend me",
            "resume",
            "resume 1,x",
            "dance 5",
            "message o",
            "message o:6",
            "message o:+1",
            "times 5",
            "times 5 5 x",
            "times x none none",
        ] {
            assert_eq!(Control::parse(junk), None, "{junk}");
        }
    }
}
