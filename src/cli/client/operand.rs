//! Job ids on the command line: `12`, `12.head`, `12@head`, `12[3].head`.

use super::exit::Failure;
use crate::model::job::array::Indices;
use crate::model::job_id::JobId;
use crate::model::server_name::same_server;
use std::ffi::OsStr;

/// A job id from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The id without the server. For a range of subjobs, the id of the array: `12[]`.
    id: JobId,
    /// The subjobs selected by a range such as `12[1-5:2]`.
    only: Option<Indices>,
    /// The server after `@`, else the server after `.`, if given.
    server: Option<String>,
    /// True if the server follows an `@`.
    is_at: bool,
}

impl Operand {
    /// Parses an id. Trailing newlines are ignored. Other text fails with the message `illegally
    /// formed job identifier` and exit status 1.
    pub fn parse(text: &OsStr) -> Result<Operand, Failure> {
        let shown = text.to_string_lossy();
        Operand::read(shown.trim_end_matches(['\n', '\r']))
            .ok_or_else(|| Failure::new(1, format!("illegally formed job identifier: {shown}")))
    }

    fn read(text: &str) -> Option<Operand> {
        let (text, at) = split_server(text, '@')?;
        let (text, dot) = split_server(text, '.')?;
        let (id, only) = read_id(text)?;
        Some(Operand {
            id,
            only,
            is_at: at.is_some(),
            server: at.or(dot),
        })
    }

    /// The id without the server.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The selected range of subjobs, if given.
    pub fn only(&self) -> Option<Indices> {
        self.only
    }

    /// True if the id contains a server. Then the caller must use [`Operand::job`] to check it.
    pub fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// The id without the server; None if the id contains a server other than `server`.
    pub fn job(&self, server: &str) -> Option<JobId> {
        let is_here = self
            .server
            .as_deref()
            .is_none_or(|named| same_server(named, server));
        is_here.then_some(self.id)
    }

    /// The failure for an id of another server. `word` is the id on the command line. If the server
    /// follows `.`, the message is that the id is malformed; if it follows `@`, that the host is
    /// unknown.
    pub fn wrong_server(&self, word: &OsStr) -> Failure {
        match &self.server {
            Some(host) if self.is_at => Failure::unknown_host(host),
            _ => {
                let text = format!(
                    "illegally formed job identifier: {}",
                    word.to_string_lossy()
                );
                Failure {
                    unknown: Some(self.id),
                    ..Failure::new(1, text)
                }
            }
        }
    }

    /// The id; None if it contains a server.
    pub fn local(&self) -> Option<JobId> {
        self.server.is_none().then_some(self.id)
    }

    /// The id without the server, as text. Contains the range of subjobs, if given.
    pub fn short(&self) -> String {
        match self.only {
            None => self.id.to_string(),
            Some(only) => format!("{}[{only}]", self.id.number),
        }
    }

    /// The id with `server`, as text. The caller must have checked that the id belongs to `server`.
    pub fn full_on(&self, server: &str) -> String {
        format!("{}.{server}", self.short())
    }

    /// The full id as text for messages, such as `12.head`. `server` is used if the id contains no
    /// server.
    pub fn full(&self, server: &str) -> String {
        format!(
            "{}.{}",
            self.short(),
            self.server.as_deref().unwrap_or(server)
        )
    }
}

/// Splits an id at `separator` from its server. None if the server is empty or has an illegal
/// character.
fn split_server(text: &str, separator: char) -> Option<(&str, Option<String>)> {
    match text.split_once(separator) {
        None => Some((text, None)),
        Some((_, server)) if server.is_empty() || !server.chars().all(is_host_character) => None,
        Some((text, server)) => Some((text, Some(server.to_string()))),
    }
}

fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:".contains(c)
}

/// Parses `12`, `12[]`, `12[3]`, or an array and a range of its subjobs: `12[1-5:2]`.
fn read_id(text: &str) -> Option<(JobId, Option<Indices>)> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(id) = text.parse() {
        return Some((id, None));
    }
    let (number, rest) = text.split_once('[')?;
    Some((
        JobId::array(number.parse().ok()?),
        Some(rest.strip_suffix(']')?.parse().ok()?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Operand, Failure> {
        Operand::parse(OsStr::new(text))
    }

    #[test]
    fn all_forms_of_an_id_select_the_same_job() {
        for text in [
            "12",
            "12.head",
            "12@head",
            "12.head\n",
            "12.HEAD",
            "12.head.example.org",
            "12.x@head",
        ] {
            assert_eq!(
                parse(text).unwrap().job("head"),
                Some(JobId::job(12)),
                "{text}"
            );
        }
        assert_eq!(
            parse("12.head").unwrap().job("head.example.org"),
            Some(JobId::job(12))
        );
        assert_eq!(parse("12").unwrap().full("head"), "12.head");
    }

    #[test]
    fn jobs_of_other_servers_are_not_found() {
        for text in [
            "12.other",
            "12@other",
            "12.hea",
            "12.headx",
            "12[1-5:2].other",
        ] {
            assert_eq!(parse(text).unwrap().job("head"), None, "{text}");
        }
    }

    #[test]
    fn arrays_subjobs_and_ranges_are_distinguished() {
        assert_eq!(parse("12[]").unwrap().job("head"), Some(JobId::array(12)));
        assert_eq!(
            parse("12[3].head").unwrap().job("head"),
            Some(JobId::element(12, 3))
        );
        let range = parse("12[1-5:2].head").unwrap();
        assert_eq!(
            (range.job("head"), range.only()),
            (Some(JobId::array(12)), "1-5:2".parse().ok())
        );
        assert_eq!(range.full("head"), "12[1-5:2].head");
    }

    #[test]
    fn illegal_ids_are_reported_as_in_pbs() {
        for text in [
            "",
            "abc",
            "12x.y",
            "12x",
            ".head",
            "12.",
            "12@",
            "-1",
            "12[3",
            "12[3-1]",
            "12[x]",
            "99999999999999999999",
            "12 13",
        ] {
            let failure = parse(text).unwrap_err();
            assert_eq!(
                failure.text,
                format!("illegally formed job identifier: {text}")
            );
            assert_eq!(failure.code, 1);
        }
    }
}
