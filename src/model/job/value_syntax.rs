//! Syntax checks of attribute values. The server and the commands use these checks; a command
//! prints its usage on an error.

use super::Join;
use super::state::Holds;
use crate::model::signal;
use crate::model::text::{is_number, is_word, whole_number};
use std::collections::BTreeSet;

/// Maximum length of a job name in bytes.
const NAME_LIMIT: usize = 230;

/// Error in a job name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// The name is longer than 230 bytes.
    TooLong,
    /// The name is empty or contains a character other than letters, digits and `- _ + .`.
    Illegal,
}

/// Checks the name of a job.
pub fn job_name(name: &str) -> Result<(), NameFault> {
    if name.len() > NAME_LIMIT {
        return Err(NameFault::TooLong);
    }
    if is_word(name, "-_+.") {
        Ok(())
    } else {
        Err(NameFault::Illegal)
    }
}

/// Parses a priority, from -1024 (PBS) to 9999 (Qube). The server checks the site's range.
pub fn priority(text: &str) -> Option<i32> {
    text.parse()
        .ok()
        .filter(|priority| (-1024..=9999).contains(priority))
}

/// Parses a decimal number from 0 to 1, without sign and exponent.
pub fn fraction(text: &str) -> Option<f64> {
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    text.parse()
        .ok()
        .filter(|number| (0.0..=1.0).contains(number))
}

/// Parses a system priority: 0 to 1000000.
pub fn system_priority(text: &str) -> Option<i32> {
    text.parse()
        .ok()
        .filter(|number| (0..=1_000_000).contains(number))
}

/// Parses a value of `-j`: `oe`, `eo` or `n`.
pub fn join(text: &str) -> Option<Join> {
    match text {
        "n" => Some(Join::No),
        "oe" => Some(Join::Output),
        "eo" => Some(Join::Error),
        _ => None,
    }
}

/// Accepts values of `-k`: `n`, or letters of `o e d`, but not `d` alone.
pub fn keep_files(text: &str) -> bool {
    text == "n" || (has_only(text, "oed") && text != "d")
}

/// Accepts values of `-R`: letters of `o e`.
pub fn remove_files(text: &str) -> bool {
    has_only(text, "oe")
}

/// Accepts values of `-m`: `n`, or letters of `a b e j`.
pub fn mail_points(text: &str) -> bool {
    text == "n" || has_only(text, "abej")
}

fn has_only(text: &str, allowed: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| allowed.contains(c))
}

/// Accepts `user[@host]` entries separated by commas. No host may occur twice, and only one entry
/// may lack a host.
pub fn user_list(text: &str) -> bool {
    let mut hosts = BTreeSet::new();
    text.split(',')
        .all(|entry| host_of(entry).is_some_and(|host| hosts.insert(host)))
}

/// Returns the host of `user[@host]`, empty without a host; None if malformed.
fn host_of(entry: &str) -> Option<&str> {
    match entry.split_once('@') {
        Some((user, host)) => (is_account_word(user) && is_account_word(host)).then_some(host),
        None => is_account_word(entry).then_some(""),
    }
}

/// Tests whether a text can be the name of a user or host.
fn is_account_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '@')
}

/// Accepts `group[@host]` entries separated by commas; hosts may repeat.
pub fn group_list(text: &str) -> bool {
    text.split(',').all(|entry| host_of(entry).is_some())
}

/// Accepts mail addresses separated by commas.
pub fn mail_users(text: &str) -> bool {
    text.split(',').all(mail_address)
}

/// Accepts a plain mail address, `user[@host]`.
///
/// Mail programs deliver a recipient such as `|program`, `/file` or `:include:/file` to a program
/// or a file, and interpret a recipient that begins with a dash as an option. A plain address
/// contains no such characters, and no characters that are special in a shell or a message header.
pub fn mail_address(text: &str) -> bool {
    match text.split_once('@') {
        Some((user, host)) => is_mail_word(user, "._+-=") && is_mail_word(host, ".-"),
        None => is_mail_word(text, "._+-="),
    }
}

/// Tests whether a text contains only letters, digits and characters in `others`, and begins with a
/// letter, a digit or `_`.
fn is_mail_word(text: &str, others: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || others.contains(c))
}

/// Accepts `path[@host]` entries separated by commas: absolute paths, at most one without a host.
pub fn shell_list(text: &str) -> bool {
    text.split(',').all(|path| path.starts_with('/'))
        && text.split(',').filter(|path| !path.contains('@')).count() <= 1
}

/// Returns the value for `host` in a list `value[@host],...`. The host of an entry is compared up
/// to its first dot. Without an entry for `host`, returns the first value without a host.
pub fn for_host<'a>(list: &'a [u8], host: &str) -> Option<&'a [u8]> {
    let mut default = None;
    for entry in list.split(|&b| b == b',').filter(|entry| !entry.is_empty()) {
        let Some(at) = entry.iter().rposition(|&b| b == b'@') else {
            default = default.or(Some(entry));
            continue;
        };
        let mut labels = entry[at + 1..].split(|&b| b == b'.');
        if labels.next() == Some(host.as_bytes()) {
            return Some(&entry[..at]);
        }
    }
    default
}

/// Accepts values of `-c`: `n`, `s`, `c`, `w`, `c=MINUTES` or `w=MINUTES`. 0 minutes are accepted
/// here; the server refuses them ([`checkpoint_never`]).
pub fn checkpoint(text: &str) -> bool {
    let minutes = text.strip_prefix("c=").or_else(|| text.strip_prefix("w="));
    match minutes {
        Some(minutes) => is_number(minutes),
        None => ["n", "s", "c", "w"].contains(&text),
    }
}

/// Tests whether a value of `-c` has an interval of 0 minutes.
pub fn checkpoint_never(text: &str) -> bool {
    text.split_once('=')
        .is_some_and(|(_, minutes)| minutes.bytes().all(|b| b == b'0'))
}

/// Accepts a project name: no control characters and none of `/ [ ] " ; : | < > + , ? *`.
pub fn project(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || "/[]\";:|<>+,?*".contains(c))
}

/// Parses an octal umask, 0 to 777.
pub fn umask(text: &str) -> Option<u32> {
    if !is_number(text) {
        return None;
    }
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|&mask| mask <= 0o777)
}

/// Parses a number of starts.
pub fn run_count(text: &str) -> Option<u32> {
    whole_number(text)
}

/// Parses the maximum number of running subjobs while resources are idle (Q15). `-1` and
/// `unlimited` give `u32::MAX`, which means no limit. With 0, the array's own limit always applies.
pub fn expand(text: &str) -> Option<u32> {
    match text {
        "-1" | "unlimited" => Some(u32::MAX),
        number => run_count(number),
    }
}

/// Parses `y` or `n`, `True` or `False`, `t` or `f`, `1` or `0`, in upper or lower case.
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "true" | "t" | "1" => Some(true),
        "n" | "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// Parses holds: letters of `u o s p`, or `n` for no hold.
pub fn holds(text: &str) -> Option<Holds> {
    Holds::parse(text)
}

/// Accepts values of `-W sandbox=`: `PRIVATE`, `HOME` or `O_WORKDIR`.
pub fn sandbox(text: &str) -> bool {
    ["PRIVATE", "HOME", "O_WORKDIR"].contains(&text)
}

/// Accepts an empty text, or the absolute path of a program: at most 4096 bytes, without control
/// characters.
pub fn program(text: &str) -> bool {
    text.is_empty()
        || (text.starts_with('/') && text.len() <= 4096 && !text.contains(char::is_control))
}

/// Accepts `local@host:remote` entries separated by commas.
pub fn staging(text: &str) -> bool {
    super::staging::transfers(text).is_some() && !text.contains('\0')
}

/// Accepts values of `-J`: `X-Y[:Z][%M]` with X below Y and Z at least 1. M is not checked here.
pub fn array_range(text: &str) -> bool {
    let range = text.split('%').next().unwrap_or_default();
    let (bounds, step) = range.split_once(':').unwrap_or((range, "1"));
    let (first, last) = bounds.split_once('-').unwrap_or_default();
    let (first, last): (Option<u64>, Option<u64>) = (whole_number(first), whole_number(last));
    first.is_some() && first < last && whole_number::<u64>(step).is_some_and(|step| step > 0)
}

/// Accepts ranges `X-Y[:Z]` with X at most Y, and single indices, separated by commas.
pub fn array_list(text: &str) -> bool {
    text.split(',').all(|range| match range.split_once('-') {
        Some((first, last)) if first == last => is_number(first),
        Some(_) => array_range(range) && !range.contains('%'),
        None => is_number(range),
    })
}

/// Accepts values of `-W tolerate_node_failures=`: `all`, `job_start` or `none`.
pub fn tolerance(text: &str) -> bool {
    ["all", "job_start", "none"].contains(&text)
}

/// Accepts the name or number of a signal that a program can trap.
pub fn interruption(text: &str) -> bool {
    const UNTRAPPABLE: [i32; 3] = [0, 9, 19];
    signal::parse(text).is_some_and(|number| !UNTRAPPABLE.contains(&number))
}

/// Accepts `host:path`, the stored form of output paths.
pub fn hosted_path(bytes: &[u8]) -> bool {
    let colon = bytes.iter().position(|&b| b == b':');
    colon.is_some_and(|colon| colon > 0 && colon + 1 < bytes.len() && !bytes.contains(&0))
}

/// Maximum number of characters in a text accepted by [`is_line`].
const LONGEST_LINE: usize = 1024;

/// Accepts a single line of at most 1024 characters, without control characters.
pub fn is_line(text: &str) -> bool {
    text.chars().count() <= LONGEST_LINE && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function, values that it accepts, and values that it refuses.
    type Case<'a> = (&'a dyn Fn(&str) -> bool, &'a [&'a str], &'a [&'a str]);

    #[test]
    fn values_are_valid_as_in_pbs() {
        let name = |text: &str| job_name(text) == Ok(());
        let cases: &[Case] = &[
            (
                &name,
                &["1abc", "a+b.c-d_e", "+x", ".x"],
                &["", "a b", "a/b", "a:b", "a\"b", "ä", "a;b"],
            ),
            (
                &|t| priority(t).is_some(),
                &["-1024", "0", "1023", "9999"],
                &["10000", "-1025", "5.5", "", "abc"],
            ),
            (
                &|t| fraction(t).is_some(),
                &["0", "1", ".2", "1.0", "0.25"],
                &["1.5", "-0.1", "", ".", "nan", "1e-3", "-0"],
            ),
            (&|t| join(t).is_some(), &["oe", "eo", "n"], &["o", "xx", ""]),
            (
                &keep_files,
                &["oe", "eo", "n", "od", "oed"],
                &["x", "no", "d", ""],
            ),
            (&remove_files, &["o", "oe", "eo", "oo"], &["x", ""]),
            (&mail_points, &["n", "abe", "aj"], &["x", "abn", ""]),
            (
                &group_list,
                &["a@b,c", "a,b", "a\\b"],
                &["", "a b", "a@", ",a"],
            ),
            (
                &user_list,
                &["bob", "alice@head"],
                &["", "alice,bob", "a@h,b@h"],
            ),
            (
                &shell_list,
                &["/bin/sh", "/bin/sh@head,/bin/bash"],
                &["sh", "", "/bin/sh,/bin/bash"],
            ),
            (
                &checkpoint,
                &["n", "s", "c", "w", "c=5", "w=5", "c=0"],
                &["u", "x", "c=abc", "", "wd"],
            ),
            (&project, &["", "a b", "ok_1"], &["a/b", "a:b", "a\nb"]),
            (
                &|t| umask(t).is_some(),
                &["022", "0", "22", "777"],
                &["abc", "-1", "", "1777", "999"],
            ),
            (
                &|t| run_count(t).is_some(),
                &["0", "21"],
                &["-1", "+1", "x", ""],
            ),
            (
                &array_range,
                &["1-3", "1-10:20", "5-6%1", "01-03"],
                &["5", "5-5", "10-1", "a-b", "1-", "-3", "1-3:0", ""],
            ),
            (&sandbox, &["PRIVATE", "O_WORKDIR"], &["FOO", ""]),
            (&program, &["/a/b", "/", ""], &["a", "~/a", "/a\0", "/a\nb"]),
            (&staging, &["a@head:b", "a@h:b,c@h:d"], &["x", "", "a@h:"]),
        ];
        for (number, (check, good, bad)) in cases.iter().enumerate() {
            good.iter()
                .for_each(|text| assert!(check(text), "case {number}: {text:?} should pass"));
            bad.iter()
                .for_each(|text| assert!(!check(text), "case {number}: {text:?} should fail"));
        }
        assert_eq!(job_name(&"a".repeat(231)), Err(NameFault::TooLong));
        assert_eq!(job_name(&"a".repeat(230)), Ok(()));
    }
    #[test]
    fn only_plain_mail_addresses_are_accepted() {
        for text in [
            "a@b,c",
            "a,b",
            "ann.b+c-d_e@mail.far-away.org",
            "_svc",
            "jörg@bücher.example",
        ] {
            assert!(mail_users(text), "{text:?}");
        }
        for text in [
            "",
            "a b",
            "a@",
            ",a",
            "|/bin/sh",
            "/etc/passwd",
            ":include:/etc/passwd",
            "a,|sh",
            "-oQ/tmp",
            "a@b@c",
            "a@-b",
            "a!b",
            "a%b@c",
            "a;b",
            "$HOME",
            "`id`",
            "a&b",
            "a<b>",
            "\"|sh\"",
            "\\|sh",
            "a\nb",
            "(a)b",
            ".a",
            "a/b@c",
            "*",
            "a'b",
        ] {
            assert!(!mail_users(text), "{text:?}");
        }
    }

    #[test]
    fn an_entry_for_a_host_precedes_the_entry_without_a_host() {
        let found = |list: &'static str| {
            for_host(list.as_bytes(), "n1").map(|entry| std::str::from_utf8(entry).unwrap())
        };
        assert_eq!(found("a@n2,b,c@n1.some.where"), Some("c"));
        assert_eq!(found("a@n2,b"), Some("b"));
        assert_eq!(found("a@n2"), None);
        assert_eq!(found(""), None);
    }
}
