//! The text format of `qstat -f`: one attribute per line, long values wrapped as in PBS.

use crate::shown::attributes::{AttributeDisplay, Attributes, ShownAttribute};
use crate::shown::timestamp;
use std::borrow::Cow;
use std::fmt::Write;

/// The first column after the TAB at the beginning of a continuation line.
const AFTER_TAB: usize = 8;

/// Wrapping of long values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Wrapped before column 80.
    Wrapped,
    /// One line for each attribute.
    Whole,
}

/// Writes one object: a line such as `Job Id: 12.head`, the attributes, and an empty line.
pub fn write(out: &mut String, heading: &str, id: &str, attributes: &Attributes, lines: Lines) {
    let _ = writeln!(out, "{heading}: {id}");
    for attribute in &attributes.0 {
        let Some(value) = text(attribute) else {
            continue;
        };
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

/// An attribute's value as text; None if only JSON displays it.
pub fn text<'a>(attribute: &'a ShownAttribute) -> Option<Cow<'a, str>> {
    Some(match &attribute.shown {
        AttributeDisplay::Text(text) => Cow::Borrowed(text),
        AttributeDisplay::Number(number) => number.to_string().into(),
        AttributeDisplay::Real(number) => number.to_string().into(),
        AttributeDisplay::Moment(wall) => timestamp::ctime(*wall).to_string().into(),
        AttributeDisplay::Pairs(pairs) => joined(pairs).into(),
        AttributeDisplay::List(list) => list.join(", ").into(),
        AttributeDisplay::Data(_) => return None,
    })
}

/// `K=V,K=V`, with `\` before a comma, `"` or `\` in a name or value.
fn joined(pairs: &[(Cow<str>, Cow<str>)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        let special = [',', '"'];
        let _ = write!(
            text,
            "{}={}",
            escaped(name, &special),
            escaped(value, &special)
        );
    }
    text
}

/// Puts `\` before `\` and before the `special` characters.
fn escaped<'a>(text: &'a str, special: &[char]) -> Cow<'a, str> {
    if !text.contains('\\') && !text.contains(special) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c == '\\' || special.contains(&c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped.into()
}

fn is_control(c: char) -> bool {
    c.is_ascii_control() && c != '\t'
}

/// Displays a newline as `\n` and other ASCII control characters as `^X`, so that no value can
/// imitate another attribute. TAB is kept.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            c if is_control(c) => shown.extend(['^', char::from(c as u8 ^ 0x40)]),
            c => shown.push(c),
        }
    }
    shown.into()
}

/// Wraps a value. The value consists of pieces that end at commas: a piece that would reach column
/// 78 begins a new line, unless it is the first. A piece that is too long for one line is broken
/// after column 79.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(name: &str, value: &str) -> String {
        let mut attributes = Attributes::default();
        attributes.text(name, value);
        let mut out = String::new();
        write(&mut out, "Job Id", "1.head", &attributes, Lines::Wrapped);
        out.strip_prefix("Job Id: 1.head\n")
            .unwrap()
            .strip_suffix("\n\n")
            .unwrap()
            .to_string()
    }

    #[test]
    fn a_value_without_commas_is_broken_after_column_79() {
        let comment = "Job run at Fri Nov 20 at 10:20 on (head:ncpus=2:mem=524288kb) and terminated by alice@head";
        let expected = "    comment = Job run at Fri Nov 20 at 10:20 on (head:ncpus=2:mem=524288kb) and\n\t terminated by alice@head";
        assert_eq!(shown("comment", comment), expected);
        let arguments = "-N r1 -l select=1:ncpus=2:mem=512mb -l walltime=1:00:00 job.sh";
        let expected = "    Submit_arguments = -N r1 -l select=1:ncpus=2:mem=512mb -l walltime=1:00:00 \n\tjob.sh";
        assert_eq!(shown("Submit_arguments", arguments), expected);
    }

    #[test]
    fn a_list_breaks_at_commas_and_keeps_them_at_the_end() {
        let arguments = "-N bench -A acct7 -l select=1:ncpus=2:mem=512mb:mpiprocs=2 -l walltime=1:00:00 \
                         -j oe -v N=4,F=1.5,Z=007,E=,T=true,M=-3,X=0x10,S=a b job.sh";
        let expected = "    Submit_arguments = -N bench -A acct7 -l select=1:ncpus=2:mem=512mb:mpiprocs\n\
                        \t=2 -l walltime=1:00:00 -j oe -v N=4,F=1.5,Z=007,E=,T=true,M=-3,X=0x10,\n\
                        \tS=a b job.sh";
        assert_eq!(shown("Submit_arguments", arguments), expected);
    }

    #[test]
    fn a_piece_that_would_reach_column_78_moves_to_the_next_line() {
        let fits = shown("A", &format!("x,{}", "y".repeat(67)));
        assert_eq!(fits, format!("    A = x,{}", "y".repeat(67)));
        let breaks = shown("A", &format!("x,{}", "y".repeat(68)));
        assert_eq!(breaks, format!("    A = x,\n\t{}", "y".repeat(68)));
    }

    #[test]
    fn a_value_of_exactly_one_line_is_not_followed_by_an_empty_line() {
        assert_eq!(
            shown("A", &"y".repeat(71)),
            format!("    A = {}", "y".repeat(71))
        );
        assert_eq!(
            shown("A", &"y".repeat(72)),
            format!("    A = {}\n\ty", "y".repeat(71))
        );
    }

    #[test]
    fn separators_within_variables_are_escaped() {
        let pairs =
            [("A,B\\", "x,\"y\""), ("C", "")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(joined(&pairs), r#"A\,B\\=x\,\"y\",C="#);
    }

    #[test]
    fn no_value_can_imitate_another_attribute() {
        assert_eq!(
            shown("comment", "a\n    job_state = F"),
            "    comment = a\\n    job_state = F"
        );
        assert_eq!(
            shown("comment", "bell\u{7}tab\tdel\u{7f}"),
            "    comment = bell^Gtab\tdel^?"
        );
    }

    proptest! {
        #[test]
        fn wrapped_lines_rejoin_to_the_whole_value(value in "[a-c,= é]{0,400}") {
            let wrapped = shown("Variable_List", &value);
            prop_assert!(wrapped.split('\n').all(|line| line.chars().count() <= 79), "{wrapped}");
            prop_assert_eq!(wrapped.replace("\n\t", ""), format!("    Variable_List = {value}"));
        }
    }
}
