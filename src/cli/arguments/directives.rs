//! `#PBS` lines: finds the directives of a script and splits them into words.

use crate::cli::client::exit::Failure;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The default prefix of directives.
pub const PREFIX: &str = "#PBS";

/// A directive of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The number of its first line in the script; the first line has number 1.
    pub line: usize,
    /// The text after the prefix.
    pub text: Vec<u8>,
}

/// The directives of a script, without the prefix. Continuation lines are joined.
///
/// The search ends at the first line that is no directive, is not blank, and does not begin with
/// `#` or `:`. White space at the beginning of a line is ignored. With an empty prefix, a script
/// has no directives.
pub fn find(script: &[u8], prefix: &[u8]) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(script.split(|&b| b == b'\n'));
    while let Some((number, line)) = lines.next() {
        let line = line.trim_ascii_start();
        match line.strip_prefix(prefix) {
            Some(directive) if !prefix.is_empty() => found.push(Directive {
                line: number,
                text: continued(directive, &mut lines.by_ref().map(|(_, line)| line)),
            }),
            _ if line.is_empty() || line.starts_with(b"#") || line.starts_with(b":") => {}
            _ => break,
        }
    }
    found
}

/// The prefix of Grid Engine's directives.
const GRID_ENGINE: &[u8] = b"#$";

/// Grid Engine's directives: lines that begin with `#$` and an option. If a directive precedes the
/// first command, all directives of the script are returned. Otherwise none are returned, because
/// the lines can be part of another script that this script writes.
pub fn grid_engine(script: &[u8]) -> Vec<Directive> {
    let mut early = find(script, GRID_ENGINE).into_iter();
    if !early.any(|directive| is_option(&directive.text)) {
        return Vec::new();
    }
    (1..)
        .zip(script.split(|&b| b == b'\n'))
        .filter_map(|(line, text)| {
            let text = text.strip_prefix(GRID_ENGINE)?.to_vec();
            is_option(&text).then_some(Directive { line, text })
        })
        .collect()
}

fn is_option(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"-")
}

/// Joins a line with the following lines as long as the result ends in `\`.
fn continued<'a>(line: &[u8], lines: &mut impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut whole = line.to_vec();
    while whole.last() == Some(&b'\\') {
        whole.pop();
        whole.extend_from_slice(lines.next().unwrap_or_default());
    }
    whole
}

/// The words of a directive. Quotes and `\` work as in a shell; nothing is expanded. Fails if a
/// quotation does not end, or if the line contains a zero byte, which command lines cannot contain.
pub fn words(line: &[u8]) -> Result<Vec<OsString>, Failure> {
    if line.contains(&0) {
        let shown = String::from_utf8_lossy(line).trim().replace('\0', "^@");
        return Err(error(&[shown.into()], ""));
    }
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t') => words.extend(word.take()),
            (None, b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (Some(b'"'), b'\\') => {
                let escaped = bytes.next_if(|&next| next == b'"' || next == b'\\');
                word.get_or_insert_default().push(escaped.unwrap_or(b'\\'));
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if let Some(open) = quote {
        return Err(Failure::new(1, format!("unmatched {}", char::from(open))));
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// PBS's message for a directive with an error. The reason `why`, if not empty, precedes it.
pub fn error(words: &[OsString], why: &str) -> Failure {
    let shown: String = words
        .iter()
        .map(|word| format!("{} ", word.to_string_lossy()))
        .collect();
    let before = if why.is_empty() {
        String::new()
    } else {
        format!("{why}\nqsub: ")
    };
    Failure::new(1, format!("{before}directive error: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> Vec<String> {
        let found = find(script.as_bytes(), b"#PBS");
        found
            .into_iter()
            .map(|directive| String::from_utf8(directive.text).unwrap())
            .collect()
    }

    #[test]
    fn directives_are_found_as_in_pbs() {
        let none: [&str; 0] = [];
        for script in [
            "# PBS -N x\n",
            "##PBS -N x\n",
            "#pbs -N x\n",
            "export A\n#PBS -N x\n",
            "",
        ] {
            assert_eq!(found(script), none, "{script}");
        }
        for (script, expected) in [
            ("#PBS-N x\n", "-N x"),
            ("  #PBS -N x\n", " -N x"),
            ("\t#PBS\t-N\tx\n", "\t-N\tx"),
            ("#PBSfoo\n", "foo"),
            ("#PBS\n", ""),
            ("#PBS -N x", " -N x"),
            ("\n\n# c\n#PBS -N x\n", " -N x"),
            ("\n   \n#PBS -N x\n", " -N x"),
            (":\n#PBS -N x\n", " -N x"),
            ("#!/bin/sh\n: x\n#PBS -N x\n", " -N x"),
            ("#PBS -N \\\nx\n", " -N x"),
            ("#PBS -N \\\n#PBS x\n", " -N #PBS x"),
            ("#PBS -N inner\necho x\n#PBS -N late\n", " -N inner"),
            ("#PBS -N \\", " -N "),
        ] {
            assert_eq!(found(script), [expected], "{script}");
        }
    }

    #[test]
    fn directives_have_the_number_of_their_first_line() {
        let numbers = |found: Vec<Directive>| found.iter().map(|d| d.line).collect::<Vec<_>>();
        let script = b"#!/bin/sh\n#PBS -N \\\nx\n\n#PBS -z\n";
        assert_eq!(numbers(find(script, b"#PBS")), [2, 5]);
        assert_eq!(
            numbers(grid_engine(b"#!/bin/sh\n#$ -cwd\necho\n#$ -j y\n")),
            [2, 4]
        );
    }

    #[test]
    fn the_prefix_can_be_changed_or_empty() {
        let line = 1;
        let text = b" -N x".to_vec();
        assert_eq!(
            find(b"XX -N x\n#PBS -N y\n", b"XX"),
            [Directive { line, text }]
        );
        assert!(find(b"#PBS -N y\n", b"").is_empty());
    }

    #[test]
    fn grid_engine_directives_may_follow_commands() {
        let shown = |script: &str| {
            let found = grid_engine(script.as_bytes())
                .into_iter()
                .map(|directive| String::from_utf8(directive.text).unwrap());
            found.collect::<Vec<_>>()
        };
        assert_eq!(
            shown("#!/bin/sh\n#$ -cwd\n#$-N x\necho\n#$ -j y\n"),
            [" -cwd", "-N x", " -j y"]
        );
        for none in [
            "#$Id: x$\n#$HOME\n",
            "echo\n#$ -cwd\n",
            "# $ -cwd\n",
            "#PBS -N x\n",
        ] {
            assert!(shown(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn words_are_quoted_as_in_a_shell() {
        for (line, expected) in [
            ("-A \"a b\"", &["-A", "a b"][..]),
            ("-A a\\ b", &["-A", "a b"]),
            ("-A 'a b'c", &["-A", "a bc"]),
            ("-A $HOME", &["-A", "$HOME"]),
            ("-C ''", &["-C", ""]),
            ("-v \"A=x\\,y\",'B=\"'", &["-v", "A=x\\,y,B=\""]),
            (" \t ", &[]),
        ] {
            let words = words(line.as_bytes()).unwrap();
            assert_eq!(words, expected, "{line}");
        }
        assert_eq!(
            words(b"-A \"x").unwrap_err(),
            Failure::new(1, "unmatched \"")
        );
        assert_eq!(words(b"-A 'x").unwrap_err(), Failure::new(1, "unmatched '"));
        assert_eq!(
            words(b" -A a\0b").unwrap_err(),
            Failure::new(1, "directive error: -A a^@b ")
        );
    }
}
