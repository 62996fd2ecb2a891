//! Files around a job: what is copied before and after it (`-W stagein`, `stageout`), where it
//! works (`-W sandbox`), and which of its output is removed (`-R`) or written at its place at once
//! (`-k`).

use super::placeholder;
use crate::model::job_id::JobId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One entry of a list to copy: `local@host:remote`. Before a job `remote` is copied to `local`,
/// after it `local` to `remote`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Where the job works: relative to its folder.
    pub local: String,
    /// The other host.
    pub host: String,
    /// The path there: relative to the owner's home folder.
    pub remote: String,
}

/// Reads `local@host:remote` joined by commas; None when an entry has not all three parts.
pub fn transfers(text: &str) -> Option<Vec<Transfer>> {
    text.split(',').map(transfer).collect()
}

fn transfer(entry: &str) -> Option<Transfer> {
    let (local, remote) = entry.split_once('@')?;
    let (host, remote) = remote.split_once(':')?;
    if local.is_empty() || host.is_empty() || remote.is_empty() {
        return None;
    }
    Some(Transfer {
        local: local.into(),
        host: host.into(),
        remote: remote.into(),
    })
}

/// What is done about files before and after a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Copied before it.
    pub before: Vec<Transfer>,
    /// Whether the job waits while files to copy before it are missing.
    pub awaited: bool,
    /// Copied after it.
    pub after: Vec<Transfer>,
    /// It works in a folder of its own, which is removed after it.
    pub private: bool,
    /// Its output file is removed if it ends with status 0.
    pub remove_output: bool,
    /// Its error file is removed if it ends with status 0.
    pub remove_error: bool,
    /// Its output file is written at its place while it runs, instead of brought there when it is
    /// over.
    pub direct_output: bool,
    /// So is its error file.
    pub direct_error: bool,
}

impl Files {
    /// What the attributes of a job ask for.
    pub fn of(attributes: &BTreeMap<String, String>) -> Files {
        let [stagein, stageout, sandbox, remove, keep] = [
            "stagein",
            "stageout",
            "sandbox",
            "Remove_Files",
            "Keep_Files",
        ]
        .map(|name| attributes.get(name).map_or("", String::as_str));
        Files {
            before: transfers(stagein).unwrap_or_default(),
            awaited: false,
            after: transfers(stageout).unwrap_or_default(),
            private: sandbox == "PRIVATE",
            remove_output: remove.contains('o'),
            remove_error: remove.contains('e'),
            // Kept files stay in the home directory, or with `d` at their usual place.
            direct_output: keep.contains('o'),
            direct_error: keep.contains('e'),
        }
    }

    /// The same with all in the paths that is known of the job: each subjob has files of its own.
    pub fn filled(mut self, id: JobId, name: &str) -> Files {
        for transfer in self.before.iter_mut().chain(&mut self.after) {
            for path in [&mut transfer.local, &mut transfer.remote] {
                let filled = placeholder::filled(path.as_bytes(), id, name);
                *path = String::from_utf8_lossy(&filled).into_owned();
            }
        }
        self
    }

    /// Whether something is to be done before the job.
    pub fn come_first(&self) -> bool {
        self.private || !self.before.is_empty()
    }

    /// Whether something may be to be done after the job.
    pub fn come_last(&self) -> bool {
        self.private || !self.after.is_empty() || self.remove_output || self.remove_error
    }
}

/// Whether a file's name fits a pattern of the shell's: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before
/// a character that is to stand for itself. A dot that comes first must be named.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let hidden = name.first() == Some(&b'.') && pattern.first() != Some(&b'.');
    !hidden && matches(pattern, name)
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where the last star stands, and how much of the name it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(length) = one(&pattern[p..], name[n]) {
            p += length;
            n += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// How much of the pattern stands for this one byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match set(rest) {
            Some((negated, members, length)) => {
                (holds(members, byte) != negated).then_some(1 + length)
            }
            None => (byte == b'[').then_some(1),
        },
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

/// The set that follows a bracket: whether it is turned round, its members, its length.
fn set(rest: &[u8]) -> Option<(bool, &[u8], usize)> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let begin = usize::from(negated);
    // A bracket that comes first is a member.
    let end = rest.iter().skip(begin + 1).position(|&b| b == b']')? + begin + 1;
    Some((negated, &rest[begin..end], end + 1))
}

fn holds(mut members: &[u8], byte: u8) -> bool {
    loop {
        match members {
            [low, b'-', high, rest @ ..] => {
                if (*low..=*high).contains(&byte) {
                    return true;
                }
                members = rest;
            }
            [member, rest @ ..] => {
                if *member == byte {
                    return true;
                }
                members = rest;
            }
            [] => return false,
        }
    }
}

/// Whether a name is a pattern.
pub fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| b"*?[".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_have_three_parts_each() {
        let read = transfers("in.dat@head:/data/x,sub/y@localhost:y").unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (&*read[1].local, &*read[1].host, &*read[1].remote),
            ("sub/y", "localhost", "y")
        );
        for bad in ["", "x", "a@h:", "@h:b", "a@:b", "a@h:b,"] {
            assert_eq!(transfers(bad), None, "{bad}");
        }
    }

    #[test]
    fn patterns_are_the_shells() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*", ".a", false),
            (".*", ".a", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("?.dat", "1.dat", true),
            ("?.dat", "12.dat", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*", "xaybz", true),
            ("**", "", true),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn each_subjob_copies_files_of_its_own() {
        let asked = BTreeMap::from([(
            "stageout".into(),
            "out.^array_index^@head:^job_name^/^array_index^".into(),
        )]);
        let paths = |id| {
            let files = Files::of(&asked).filled(id, "name");
            files
                .after
                .into_iter()
                .map(|transfer| (transfer.local, transfer.remote))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths(JobId::element(12, 7)),
            [("out.7".to_string(), "name/7".to_string())]
        );
        assert_eq!(
            paths(JobId::job(12)),
            [(
                "out.^array_index^".to_string(),
                "name/^array_index^".to_string()
            )]
        );
    }

    #[test]
    fn nothing_asked_for_is_nothing_done() {
        let files = Files::of(&BTreeMap::new());
        assert!(!files.come_first() && !files.come_last());
        let files = Files::of(&BTreeMap::from([("Remove_Files".into(), "e".into())]));
        assert!(
            !files.come_first() && files.come_last() && files.remove_error && !files.remove_output
        );
        let files = Files::of(&BTreeMap::from([("Keep_Files".into(), "od".into())]));
        assert!(files.direct_output && !files.direct_error && !files.come_last());
    }
}
