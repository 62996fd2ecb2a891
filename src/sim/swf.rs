//! Reads the Standard Workload Format: one job per line, 18 numbers each, and a header of `;`
//! lines.
//!
//! The file is read line by line, and only the used fields are kept. The first bytes show whether
//! the file is compressed. [`super::trace`] converts the records to jobs.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// The number of fields of a line.
pub const FIELDS: usize = 18;

/// Lines of this many bytes or more are refused, because files in other formats might have lines
/// that fill the memory.
const LONGEST_LINE: u64 = 1 << 16;

/// Numbers of this size or more are refused, so that times in milliseconds fit in 64 bits.
const TOO_LARGE: u64 = 1 << 43;

/// The used fields of a line, without fractions. -1 means unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The line number in the file, from 1.
    pub line: usize,
    /// Field 1: the job number.
    pub id: i64,
    /// Field 2: the submission time in seconds.
    pub submit: i64,
    /// Field 4: the run time in seconds.
    pub run: i64,
    /// Field 5: the allocated processors.
    pub allocated: i64,
    /// Field 8: the requested processors.
    pub requested: i64,
    /// Field 9: the requested time in seconds.
    pub estimate: i64,
    /// Field 12: the user number.
    pub user: i64,
    /// Field 14: the number of the executable.
    pub executable: i64,
    /// Whether a field of the line, used or not, has a fraction. Fractions are cut off.
    pub truncated: bool,
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// `MaxProcs` of the header; None if missing or not above zero.
    pub max_procs: Option<u32>,
    /// `MaxNodes` of the header; None if missing or not above zero.
    pub max_nodes: Option<u32>,
    /// The records in the order of the file.
    pub records: Vec<Record>,
}

impl Log {
    /// The number of processors in the header: `MaxProcs`, else `MaxNodes`.
    pub fn processors(&self) -> Option<u32> {
        self.max_procs.or(self.max_nodes)
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SwfError {
    /// A read error, or damaged compressed data.
    #[error("line {line}: {error}")]
    Io {
        /// The line that could not be read.
        line: usize,
        /// The error.
        error: io::Error,
    },
    /// A line with a wrong number of fields.
    #[error("line {line}: {found} fields instead of {FIELDS}")]
    Fields {
        /// The line number.
        line: usize,
        /// The number of fields in the line.
        found: usize,
    },
    /// A field that is not a number, or a number that is too large.
    #[error("line {line}: field {field} is `{text}`, which is not a number or is too large")]
    Number {
        /// The line number.
        line: usize,
        /// The field, from 1.
        field: usize,
        /// The text of the field.
        text: String,
    },
    /// A line that is too long for a trace.
    #[error(
        "line {line} has {LONGEST_LINE} bytes or more: this is not a file in the Standard \
         Workload Format"
    )]
    Long {
        /// The line number.
        line: usize,
    },
}

/// Reads a trace, plain or compressed by gzip. The error names the line.
pub fn read(mut source: impl BufRead) -> Result<Log, SwfError> {
    let start = source
        .fill_buf()
        .map_err(|error| SwfError::Io { line: 1, error })?;
    if start.starts_with(&[0x1f, 0x8b]) {
        read_plain(BufReader::with_capacity(
            1 << 16,
            MultiGzDecoder::new(source),
        ))
    } else {
        read_plain(source)
    }
}

fn read_plain(mut source: impl BufRead) -> Result<Log, SwfError> {
    let (mut log, mut text, mut line) = (Log::default(), Vec::new(), 0);
    loop {
        line += 1;
        text.clear();
        let mut bounded = source.by_ref().take(LONGEST_LINE);
        let length = bounded
            .read_until(b'\n', &mut text)
            .map_err(|error| SwfError::Io { line, error })?;
        match text.trim_ascii() {
            _ if length as u64 == LONGEST_LINE => return Err(SwfError::Long { line }),
            _ if length == 0 => return Ok(log),
            [] => (),
            [b';', remark @ ..] => read_header_line(&mut log, remark),
            numbers => log.records.push(record(line, numbers)?),
        }
    }
}

/// Reads a header line such as `MaxProcs: 128`.
fn read_header_line(log: &mut Log, remark: &[u8]) {
    let remark = String::from_utf8_lossy(remark);
    let Some((name, value)) = remark.split_once(':') else {
        return;
    };
    let digits = value
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next();
    let number = digits
        .and_then(|digits| digits.parse().ok())
        .filter(|&number| number > 0);
    match name.trim() {
        "MaxProcs" => log.max_procs = number.or(log.max_procs),
        "MaxNodes" => log.max_nodes = number.or(log.max_nodes),
        _ => (),
    }
}

fn record(line: usize, text: &[u8]) -> Result<Record, SwfError> {
    let (mut numbers, mut found, mut truncated) = ([0_i64; FIELDS], 0, false);
    for word in text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
    {
        found += 1;
        if let Some(place) = numbers.get_mut(found - 1) {
            let number = number(word).ok_or_else(|| SwfError::Number {
                line,
                field: found,
                text: shown(word),
            })?;
            *place = number.0;
            truncated |= number.1;
        }
    }
    if found != FIELDS {
        return Err(SwfError::Fields { line, found });
    }
    let [
        id,
        submit,
        _,
        run,
        allocated,
        _,
        _,
        requested,
        estimate,
        _,
        _,
        user,
        _,
        executable,
        ..,
    ] = numbers;
    Ok(Record {
        line,
        id,
        submit,
        run,
        allocated,
        requested,
        estimate,
        user,
        executable,
        truncated,
    })
}

/// The whole part of a number, and whether the number has a fraction other than 0. None for an
/// invalid or too large number.
fn number(word: &[u8]) -> Option<(i64, bool)> {
    let text = str::from_utf8(word).ok()?;
    let (whole, has_fraction) = match text.parse::<i64>() {
        Ok(whole) => (whole, false),
        // Numbers beyond 64 bits saturate and are refused below.
        Err(_) => text
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite())
            .map(|n| (n.trunc() as i64, n.fract() != 0.0))?,
    };
    (whole.unsigned_abs() < TOO_LARGE).then_some((whole, has_fraction))
}

/// The first 40 characters of a word, for an error message.
fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn error(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn header_and_numbers_are_read() {
        let text = "; Version: 2.2\n;   MaxNodes: 64 (thin)\n; MaxProcs: 128\r\n\n \
                    7 10 -1 30.9 4 -1 -1 8 60 -1 1 42 -1 -1 1 -1 -1 -1\r\n";
        let log = read(text.as_bytes()).unwrap();
        assert_eq!(
            (log.max_procs, log.max_nodes, log.processors()),
            (Some(128), Some(64), Some(128))
        );
        let [record] = log.records[..] else {
            panic!("{log:?}")
        };
        let Record {
            line,
            id,
            submit,
            run,
            allocated,
            requested,
            estimate,
            user,
            executable: _,
            truncated,
        } = record;
        assert_eq!(
            (line, id, submit, run, allocated, requested, estimate, user),
            (5, 7, 10, 30, 4, 8, 60, 42)
        );
        assert!(truncated);
    }

    #[test]
    fn without_max_procs_the_header_uses_max_nodes() {
        let log = read("; MaxProcs: -1\n; MaxNodes: 16\n".as_bytes()).unwrap();
        assert_eq!(log.processors(), Some(16));
        assert_eq!(read("".as_bytes()).unwrap().processors(), None);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let good = "1 0 -1 30 4 -1 -1 8 60 -1 1 42 -1 -1 1 -1 -1 -1\n";
        assert_eq!(
            error(&format!("{good}1 2 3\n")),
            "line 2: 3 fields instead of 18"
        );
        assert_eq!(
            error(&good.replace("\n", " 19\n")),
            "line 1: 19 fields instead of 18"
        );
        let bad = good.replace("30", "half\u{fffd}");
        assert_eq!(
            error(&format!(";\n{bad}")),
            "line 2: field 4 is `half\u{fffd}`, which is not a number or is too large"
        );
        for word in ["nan", "inf", "1e40", "99999999999999", "0x10", "--1"] {
            assert!(
                error(&good.replace("30", word)).starts_with("line 1: field 4 is"),
                "{word}"
            );
        }
        assert!(error(&"1 ".repeat(70_000)).starts_with("line 1 has 65536 bytes or more"));
    }

    #[test]
    fn compressed_and_plain_files_give_the_same_log() {
        let (one, two) = (
            "; MaxProcs: 4\n",
            "1 0 -1 30 4 -1 -1 8 60 -1 1 42 -1 -1 1 -1 -1 -1\n",
        );
        let zipped = |text: &str| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let both = [zipped(one), zipped(two)].concat();
        let log = read(both.as_slice()).unwrap();
        assert_eq!(log, read(format!("{one}{two}").as_bytes()).unwrap());
        let cut = &both[..both.len() - 12];
        assert!(
            read(cut).unwrap_err().to_string().starts_with("line "),
            "a truncated file is an error"
        );
    }
}
