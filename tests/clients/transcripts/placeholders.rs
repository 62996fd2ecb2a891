//! Placeholders in recorded lines. The first use binds a placeholder to a value, and later uses
//! must match it.

use std::collections::BTreeMap;

/// Substitute for the number of a job that was not created here.
const NO_SUCH_JOB: &str = "88888";

/// Job numbers here, by their placeholder names in the recording.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    numbers: BTreeMap<String, String>,
    /// Number of the last created job.
    pub last: Option<String>,
    /// Id last printed by `qsub`, without the server; None if it refused the job.
    pub last_id: Option<String>,
}

/// A piece of an expected line.
enum Piece<'a> {
    Text(&'a str),
    /// Number of a job, such as `J1`.
    Number(&'a str),
    /// Fixed form: `9` matches a digit, `a` a letter, `_` a space or digit, other characters
    /// themselves.
    Form(&'static str),
    /// One or more characters of this class.
    Some(fn(char) -> bool),
}

/// Placeholders with a fixed form.
const FORMS: &[(&str, &str)] = &[
    ("CTIME", "aaa aaa _9 99:99:99 9999"),
    ("DAY at H:M", "aaa aaa _9 at 99:99"),
    ("MM/DD/YYYY HH:MM:SS", "99/99/9999 99:99:99"),
    ("EPOCH", "9999999999"),
    ("HHMMSS", "99:99:99"),
    ("PID", "99999"),
    ("H:M", "99:99"),
    ("DAY H:M", "aaa 99:99"),
];

fn placeholder(name: &str) -> Option<Piece<'_>> {
    if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) {
        return Some(Piece::Form(form));
    }
    match name {
        "N" => Some(Piece::Some(|char| char.is_ascii_digit())),
        "PORT" | "RANK" | "COOKIE" => Some(Piece::Some(|char| !char.is_whitespace())),
        "VERSION" => Some(Piece::Some(|char| char.is_ascii_digit() || char == '.')),
        _ => is_number(name).then_some(Piece::Number(name)),
    }
}

/// True for the name of a job number: `J1`, `Ja`, `K1`.
fn is_number(name: &str) -> bool {
    matches!(name.as_bytes(), [b'J' | b'K', one] if one.is_ascii_alphanumeric())
}

fn pieces(line: &str) -> Vec<Piece<'_>> {
    let (mut found, mut begin, mut at) = (Vec::new(), 0, 0);
    while let Some(open) = line[at..].find('<').map(|open| at + open) {
        let named = line[open..]
            .find('>')
            .map(|end| (&line[open + 1..open + end], open + end + 1));
        at = open + 1;
        if let Some((piece, end)) = named.and_then(|(name, end)| Some((placeholder(name)?, end))) {
            found.extend([Piece::Text(&line[begin..open]), piece]);
            (begin, at) = (end, end);
        }
    }
    found.push(Piece::Text(&line[begin..]));
    found
}

/// Strips a prefix of this form from `text`; None if it does not match.
fn formed<'t>(text: &'t str, form: &str) -> Option<&'t str> {
    let mut chars = text.chars();
    let fits = form.chars().all(|wanted| {
        chars.next().is_some_and(|char| match wanted {
            '9' => char.is_ascii_digit(),
            'a' => char.is_ascii_alphabetic(),
            '_' => char.is_ascii_digit() || char == ' ',
            other => char == other,
        })
    });
    fits.then_some(chars.as_str())
}

impl Bindings {
    /// Strips a prefix that matches the whole expected line from `text`, and binds new job numbers.
    fn strip_match<'t>(&mut self, expected: &str, text: &'t str) -> Option<&'t str> {
        let mut rest = text;
        for piece in pieces(expected) {
            rest = match piece {
                Piece::Text(text) => rest.strip_prefix(text)?,
                Piece::Form(form) => formed(rest, form)?,
                Piece::Some(is_member) => Some(rest.trim_start_matches(is_member))
                    .filter(|left| left.len() < rest.len())?,
                Piece::Number(name) => self.number(name, rest)?,
            };
        }
        Some(rest)
    }

    fn number<'t>(&mut self, name: &str, text: &'t str) -> Option<&'t str> {
        if let Some(known) = self.numbers.get(name) {
            return text.strip_prefix(known.as_str());
        }
        let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
        let number = &text[..text.len() - rest.len()];
        let is_new = !number.is_empty() && !self.numbers.values().any(|known| known == number);
        is_new.then(|| {
            self.numbers.insert(name.into(), number.into());
            self.last = Some(number.into());
            rest
        })
    }

    /// True if the line matches; binds job numbers only in that case.
    pub fn fits(&mut self, expected: &str, line: &str) -> bool {
        let mut bound = self.clone();
        let fits = bound.strip_match(expected, line) == Some("");
        if fits {
            *self = bound;
        }
        fits
    }

    /// Records the id that a `qsub` has printed.
    pub fn note(&mut self, command: &str, out: &str) {
        if command.contains("qsub") {
            let id = out.lines().find_map(|line| line.strip_suffix(".head"));
            self.last_id = id.map(str::to_string);
        }
    }

    /// True if the line matches or continues after the match with a space or punctuation.
    pub fn begins(&mut self, expected: &str, line: &str) -> bool {
        let rest = self.strip_match(expected.trim_end(), line);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':', ';', ',', '(', '.']))
    }

    /// Replaces the placeholders in a command by job numbers.
    pub fn filled(&self, command: &str) -> String {
        let number = |name| {
            self.numbers
                .get(name)
                .map_or(NO_SUCH_JOB, |number| number.as_str())
        };
        let mut filled = String::new();
        let mut rest = command;
        while let Some((before, behind)) = rest.split_once('<') {
            let name = behind.split_once('>').filter(|(name, _)| is_number(name));
            filled += before;
            filled += name.map_or("<", |(name, _)| number(name));
            rest = name.map_or(behind, |(_, rest)| rest);
        }
        filled + rest
    }

    /// Replaces job numbers by their placeholders, for comparison with the recording by a reader.
    pub fn named(&self, text: &str) -> String {
        let mut text = text.to_string();
        for (name, number) in &self.numbers {
            text = text.replace(number.as_str(), &format!("<{name}>"));
        }
        text
    }
}

#[test]
fn a_bound_placeholder_matches_only_its_value() {
    let mut bound = Bindings::default();
    assert!(bound.fits("<J1>.head", "1001.head"));
    assert!(!bound.fits("<J1>.head", "1002.head"));
    assert!(
        !bound.fits("<J2>.head", "1001.head"),
        "two placeholders have different numbers"
    );
    assert!(bound.fits(
        "ctime = <CTIME> <jsdl>",
        "ctime = Fri Nov 20 10:20:21 2026 <jsdl>"
    ));
    assert!(!bound.fits("t = <HHMMSS>", "t = 0:00:01"));
    assert_eq!(
        bound.filled("qstat <J1> '<J3>[]' < x"),
        "qstat 1001 '88888[]' < x"
    );
    assert!(
        bound.begins("qsub: Unknown node ", "qsub: Unknown node: x")
            && !bound.begins("qsub: Un", "qsub: Unknown")
    );
}
