//! Orders to a shepherd while its job runs. noded appends each order as a line to a file in the
//! attempt's directory. If it cannot write a cancel, for instance because the disk is full, it
//! sends the cancel as the value of a signal instead (a bare signal).

use crate::model::job::run_limits::{TimeLimits, Warning};
use crate::model::text::Text;
use crate::model::time::Span;
use nix::libc::SIGKILL;
use std::num::ParseIntError;

/// An order to a shepherd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// End the attempt.
    Cancel(Cancel),
    /// Send this signal to the job.
    Signal(i32),
    /// Change the time limits.
    Times(TimeLimits),
    /// Suspend all processes.
    Suspend,
    /// Resume all processes. Bind them to these processors unless the list is empty.
    Resume(Vec<u16>),
    /// Write a line to the job's output files.
    Message {
        /// Whether to write to standard output.
        output: bool,
        /// Whether to write to standard error.
        errors: bool,
        /// The line.
        text: Text,
    },
}

/// How an attempt is ended, and whether its job runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    /// Time between the first signal and SIGKILL.
    pub grace: Span,
    /// The signal that is sent first; None for SIGTERM.
    pub signal: Option<i32>,
    /// Whether the job runs again.
    pub again: bool,
}

/// Flag in the value of a bare signal: the job runs again. The lower bits are the signal that is
/// sent to the job first.
const AGAIN: i32 = 1 << 8;

impl Cancel {
    /// The cancel as text: `10000`, `10000 10`, `+10000 10`. The grace time in milliseconds comes
    /// first, then the signal, if any. The plus sign means that the job runs again. Shepherds of
    /// earlier versions ignore the sign and parse the same number.
    pub fn words(self) -> String {
        let sign = if self.again { "+" } else { "" };
        let signal = self
            .signal
            .map_or(String::new(), |signal| format!(" {signal}"));
        format!("{sign}{}{signal}", self.grace.0)
    }

    /// The cancel of a job deleted by force. The job's processes are killed at once. The shepherd
    /// is killed if it does not end in time.
    pub const FORCED: Cancel = Cancel {
        grace: Span(0),
        signal: Some(SIGKILL),
        again: false,
    };

    /// Whether the job was deleted by force.
    pub fn is_forced(self) -> bool {
        self == Cancel::FORCED
    }

    /// Parses [`Cancel::words`].
    pub fn parse(words: &str) -> Option<Cancel> {
        let (grace, signal) = words
            .split_once(' ')
            .map_or((words, None), |(grace, signal)| (grace, Some(signal)));
        let signal = signal.map(str::parse).transpose().ok()?;
        Some(Cancel {
            grace: Span(grace.parse().ok()?),
            signal,
            again: grace.starts_with('+'),
        })
    }

    /// The value of a bare signal with all parts of the cancel except the grace time.
    pub fn value(self) -> i32 {
        self.signal.unwrap_or(0) & (AGAIN - 1) | if self.again { AGAIN } else { 0 }
    }

    /// Decodes the value of a bare signal, which does not contain the grace time. A noded of an
    /// earlier version sends 0: no signal is named, and the job does not run again.
    pub fn of_value(value: i32, grace: Span) -> Cancel {
        let signal = Some(value & (AGAIN - 1)).filter(|signal| *signal > 0);
        Cancel {
            grace,
            signal,
            again: value & AGAIN != 0,
        }
    }
}

impl Control {
    /// The order as a line of text.
    pub fn line(&self) -> String {
        match self {
            Control::Cancel(cancel) => format!("cancel {}", cancel.words()),
            Control::Signal(number) => format!("signal {number}"),
            Control::Suspend => "suspend all".to_string(),
            Control::Resume(cpus) => format!("resume {}", words(cpus)),
            Control::Times(TimeLimits {
                walltime,
                cput,
                warning,
            }) => {
                let warning = warning.map_or("none".to_string(), |w| {
                    format!("{}@{}", w.signal, w.before.0)
                });
                format!(
                    "times {} {} {warning}",
                    span_word(*walltime),
                    span_word(*cput)
                )
            }
            // The text is written in hexadecimal, because it may contain newlines.
            Control::Message {
                output,
                errors,
                text,
            } => {
                let files = [("o", *output), ("e", *errors)]
                    .map(|(letter, is)| if is { letter } else { "" })
                    .concat();
                let digits: String = text.0.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("message {files}:{digits}")
            }
        }
    }

    /// Parses a line; None for an invalid line, and for an order of a later version.
    pub fn parse(line: &str) -> Option<Control> {
        match line.split_once(' ')? {
            ("cancel", words) => Cancel::parse(words).map(Control::Cancel),
            ("suspend", "all") => Some(Control::Suspend),
            ("resume", cpus) => parse_words(cpus).map(Control::Resume),
            ("signal", number) => Some(Control::Signal(number.parse().ok()?)),
            ("times", times) => parse_times(times).map(Control::Times),
            ("message", rest) => {
                let (files, digits) = rest.split_once(':')?;
                let text = Text(
                    digits
                        .as_bytes()
                        .chunks(2)
                        .map(byte)
                        .collect::<Option<_>>()?,
                );
                Some(Control::Message {
                    output: files.contains('o'),
                    errors: files.contains('e'),
                    text,
                })
            }
            _ => None,
        }
    }
}

/// Processor numbers as text: `0,2,3`, or `any` if the list is empty.
fn words(cpus: &[u16]) -> String {
    let numbers: Vec<String> = cpus.iter().map(u16::to_string).collect();
    if numbers.is_empty() {
        "any".to_string()
    } else {
        numbers.join(",")
    }
}

fn parse_words(text: &str) -> Option<Vec<u16>> {
    match text {
        "any" => Some(Vec::new()),
        numbers => numbers
            .split(',')
            .map(|number| number.parse().ok())
            .collect(),
    }
}

fn parse_times(text: &str) -> Option<TimeLimits> {
    let words: Vec<Option<&str>> = text
        .split(' ')
        .map(|word| Some(word).filter(|word| *word != "none"))
        .collect();
    let [walltime, cput, warning] = words[..] else {
        return None;
    };
    // An invalid warning makes the whole line invalid.
    let warning = match warning {
        Some(word) => Some(read_warning(word)?),
        None => None,
    };
    Some(TimeLimits {
        walltime: read_span(walltime).ok()?,
        cput: read_span(cput).ok()?,
        warning,
    })
}

fn read_warning(word: &str) -> Option<Warning> {
    let (signal, before) = word.split_once('@')?;
    Some(Warning {
        signal: signal.parse().ok()?,
        before: Span(before.parse().ok()?),
    })
}

fn span_word(span: Option<Span>) -> String {
    span.map_or("none".to_string(), |span| span.0.to_string())
}

fn read_span(word: Option<&str>) -> Result<Option<Span>, ParseIntError> {
    word.map(|word| word.parse().map(Span)).transpose()
}

/// Decodes two hexadecimal digits.
fn byte(digits: &[u8]) -> Option<u8> {
    if digits.len() != 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_parsed_as_written() {
        for order in [
            Control::Cancel(Cancel {
                grace: Span(10_000),
                ..Cancel::default()
            }),
            Control::Cancel(Cancel {
                signal: Some(2),
                ..Cancel::default()
            }),
            Control::Cancel(Cancel {
                again: true,
                ..Cancel::default()
            }),
            Control::Cancel(Cancel {
                grace: Span(7),
                signal: Some(10),
                again: true,
            }),
            Control::Signal(10),
            Control::Suspend,
            Control::Resume(vec![]),
            Control::Resume(vec![0, 2, 17]),
            Control::Times(TimeLimits::default()),
            Control::Times(TimeLimits {
                walltime: Some(Span(1)),
                ..TimeLimits::default()
            }),
            Control::Times(TimeLimits {
                cput: Some(Span(7)),
                warning: Some(Warning {
                    signal: 10,
                    before: Span(5),
                }),
                ..TimeLimits::default()
            }),
            Control::Message {
                output: true,
                errors: false,
                text: Text(b"a\n\xff:".to_vec()),
            },
            Control::Message {
                output: true,
                errors: true,
                text: Text::default(),
            },
        ] {
            assert_eq!(Control::parse(&order.line()), Some(order));
        }
        for junk in [
            "",
            "cancel",
            "cancel x",
            "cancel 5 x",
            "cancel +",
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

    #[test]
    fn an_earlier_version_parses_the_same_grace_time() {
        let cancel = Cancel {
            grace: Span(10_000),
            signal: None,
            again: true,
        };
        assert_eq!(
            (cancel.words().as_str(), cancel.words().parse()),
            ("+10000", Ok(10_000))
        );
    }

    #[test]
    fn a_bare_signal_carries_all_but_the_grace_time() {
        for (signal, again) in [
            (None, false),
            (Some(9), true),
            (Some(64), false),
            (None, true),
        ] {
            let cancel = Cancel {
                grace: Span(5),
                signal,
                again,
            };
            assert_eq!(Cancel::of_value(cancel.value(), Span(5)), cancel);
        }
        assert_eq!(
            Cancel::of_value(0, Span(5)),
            Cancel {
                grace: Span(5),
                ..Cancel::default()
            },
            "a signal without a value"
        );
    }
}
