//! File staging of a job (`-W stagein`, `stageout`, `sandbox`), removal of its output files (`-R`),
//! and output files that are written directly at their final place (`-k`).

use super::placeholder;
use crate::model::job_id::JobId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Entry of a staging list, `local@host:remote`. Stage-in copies `remote` to `local`, stage-out
/// `local` to `remote`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Path on the execution host, absolute or relative to the directory of the job: the owner's
    /// home directory, or the private directory with `sandbox`.
    pub local: String,
    /// Host of the remote file.
    pub host: String,
    /// Path on `host`, absolute or relative to the owner's home directory.
    pub remote: String,
}

/// Parses entries `local@host:remote` separated by commas; None if a part of an entry is missing.
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

/// File operations before and after a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Files staged in.
    pub before: Vec<Transfer>,
    /// The job waits while files to stage in are missing.
    pub awaited: bool,
    /// Files staged out.
    pub after: Vec<Transfer>,
    /// The job runs in a private directory that is removed when the job has ended.
    pub private: bool,
    /// The output file is removed if the job ends with status 0.
    pub remove_output: bool,
    /// The error file is removed if the job ends with status 0.
    pub remove_error: bool,
    /// The output file is written to its final place while the job runs, instead of being copied
    /// there at the end.
    pub direct_output: bool,
    /// The error file is written to its final place while the job runs.
    pub direct_error: bool,
}

impl Files {
    /// Returns the file operations requested by job attributes.
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
            // `-k` writes a file directly: to the home directory, or with `d` to its usual place.
            direct_output: keep.contains('o'),
            direct_error: keep.contains('e'),
        }
    }

    /// Replaces the placeholders in all paths. Placeholders give each subjob its own files.
    pub fn filled(mut self, id: JobId, name: &str) -> Files {
        for transfer in self.before.iter_mut().chain(&mut self.after) {
            for path in [&mut transfer.local, &mut transfer.remote] {
                let filled = placeholder::filled(path.as_bytes(), id, name);
                *path = String::from_utf8_lossy(&filled).into_owned();
            }
        }
        self
    }

    /// Tests whether there are operations before the job.
    pub fn has_work_before(&self) -> bool {
        self.private || !self.before.is_empty()
    }

    /// Tests whether operations after the job are requested. Whether files are removed depends on
    /// the job's exit status.
    pub fn has_work_after(&self) -> bool {
        self.private || !self.after.is_empty() || self.remove_output || self.remove_error
    }
}

/// Tests whether a file name matches a shell pattern. Patterns contain `*`, `?`, `[a-z]`, `[!a-z]`,
/// and `\` before a literal character. A leading dot of a name matches only a literal dot.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let hidden = name.first() == Some(&b'.') && pattern.first() != Some(&b'.');
    !hidden && matches(pattern, name)
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Position of the latest star reached in the pattern, and the end of the bytes of `name` that
    // the star matches.
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

/// Returns the length of the first element of the pattern; None if the element does not match
/// `byte`.
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

/// Parses a set after its opening bracket. Returns whether the set is negated, its members, and its
/// length; None without a closing bracket.
fn set(rest: &[u8]) -> Option<(bool, &[u8], usize)> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let begin = usize::from(negated);
    // A closing bracket in first position is a member of the set.
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

/// Tests whether a name contains wildcards.
pub fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| b"*?[".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transfer_has_three_parts() {
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
    fn patterns_match_as_in_the_shell() {
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
    fn each_subjob_stages_its_own_files() {
        let attributes = BTreeMap::from([(
            "stageout".into(),
            "out.^array_index^@head:^job_name^/^array_index^".into(),
        )]);
        let paths = |id| {
            let files = Files::of(&attributes).filled(id, "name");
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
    fn without_attributes_no_files_are_handled() {
        let files = Files::of(&BTreeMap::new());
        assert!(!files.has_work_before() && !files.has_work_after());
        let files = Files::of(&BTreeMap::from([("Remove_Files".into(), "e".into())]));
        assert!(
            !files.has_work_before()
                && files.has_work_after()
                && files.remove_error
                && !files.remove_output
        );
        let files = Files::of(&BTreeMap::from([("Keep_Files".into(), "od".into())]));
        assert!(files.direct_output && !files.direct_error && !files.has_work_after());
    }
}
