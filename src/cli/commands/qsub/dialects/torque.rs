//! TORQUE's option values: `-t`, `-F "a b"`, `-L tasks=...`.

use crate::cli::arguments::directives;
use crate::cli::client::exit::Failure;
use crate::model::job::value_syntax;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Converts the indices of `-t` to the format of `-J`; a single index becomes a range. None if the
/// indices are malformed.
pub fn indices(text: &str) -> Option<String> {
    let range = text.split('%').next().unwrap_or_default();
    let is_single = !range.contains(['-', ',']);
    let whole = if is_single {
        format!("{range}-{range}{}", &text[range.len()..])
    } else {
        text.to_string()
    };
    value_syntax::array_list(range).then_some(whole)
}

/// Warnings about `-W` values without effect: Moab's extensions.
pub fn remarks(others: &[OsString]) -> Vec<String> {
    let mut remarks = Vec::new();
    for other in others {
        if other.as_bytes().starts_with(b"x=") {
            let text = other.to_string_lossy();
            remarks.push(format!("warning: -W {text} is for Moab and has no effect"));
        }
    }
    remarks
}

/// The words of `-F`, with quotes as in a shell.
pub fn arguments(text: &OsStr) -> Result<Vec<OsString>, Failure> {
    directives::words(text.as_bytes())
}

/// The select for task requests such as `tasks=2:lprocs=4:memory=8gb:gpus=1`, one chunk for each
/// `-L`.
pub fn tasks_as_select(requests: &[OsString]) -> Result<String, Failure> {
    let chunks: Result<Vec<String>, Failure> = requests
        .iter()
        .map(|request| chunk(&request.to_string_lossy()))
        .collect();
    Ok(chunks?.join("+"))
}

fn illegal_request(part: &str) -> Failure {
    let remedy = "only tasks=N:lprocs=N:memory=SIZE:gpus=N is supported; \
                  use -l select= for other requests";
    Failure::usage(format!("illegal -L value: {part}: {remedy}"))
}

fn chunk(request: &str) -> Result<String, Failure> {
    let mut parts = request.split(':');
    let count = parts
        .next()
        .and_then(|part| part.strip_prefix("tasks="))
        .filter(|count| is_number(count));
    let mut chunk = count.ok_or_else(|| illegal_request(request))?.to_string();
    let mut has_processors = false;
    for part in parts {
        let resource = match part.split_once('=') {
            Some(("lprocs", number)) if is_number(number) => {
                has_processors = true;
                format!("ncpus={number}")
            }
            Some(("memory", size)) if !size.is_empty() => format!("mem={size}"),
            Some(("gpus", number)) if is_number(number) => format!("ngpus={number}"),
            _ => return Err(illegal_request(part)),
        };
        chunk.push_str(&format!(":{resource}"));
    }
    if !has_processors {
        chunk.push_str(":ncpus=1");
    }
    Ok(chunk)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && text.bytes().any(|b| b != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_requests_are_chunks() {
        let select =
            |words: &[&str]| tasks_as_select(&words.iter().map(OsString::from).collect::<Vec<_>>());
        for (words, expected) in [
            (
                &["tasks=2:lprocs=4:memory=8gb:gpus=1"][..],
                "2:ncpus=4:mem=8gb:ngpus=1",
            ),
            (&["tasks=1"], "1:ncpus=1"),
            (&["tasks=1:lprocs=2", "tasks=3"], "1:ncpus=2+3:ncpus=1"),
        ] {
            assert_eq!(select(words).unwrap(), expected);
        }
        for wrong in [
            "",
            "tasks=0",
            "lprocs=2",
            "tasks=1:place=socket",
            "tasks=1:lprocs=all",
            "tasks=1:usecores",
        ] {
            let failure = select(&[wrong]).expect_err(wrong);
            assert!(
                failure.text.starts_with("illegal -L value: "),
                "{}",
                failure.text
            );
            assert!(
                failure.text.ends_with("use -l select= for other requests"),
                "{}",
                failure.text
            );
        }
    }

    #[test]
    fn indices_may_be_single_and_in_lists() {
        for (given, meant) in [
            ("1-5", "1-5"),
            ("7", "7-7"),
            ("7%2", "7-7%2"),
            ("1-5,8%2", "1-5,8%2"),
            ("3,1", "3,1"),
        ] {
            assert_eq!(indices(given).as_deref(), Some(meant), "{given}");
        }
        for wrong in ["", "a", "5-1", "1,", "1-2-3", "%2", "-3"] {
            assert_eq!(indices(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_words_of_arguments_are_read_as_in_a_shell() {
        assert_eq!(
            arguments(OsStr::new("a 'b c' \"d\"")).unwrap(),
            ["a", "b c", "d"]
        );
        assert!(arguments(OsStr::new("")).unwrap().is_empty());
        assert!(arguments(OsStr::new("'a")).is_err());
    }
}
