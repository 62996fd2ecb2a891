//! Job ids on the command line: `12`, `12.head`, `12@head`, `12[3].head`.

use super::exit::Failure;
use crate::model::job::array::Indices;
use crate::model::job_id::JobId;
use crate::model::server_name::same_server;
use std::ffi::OsStr;

/// A job id from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// `12`; `12[3]`; `12[]`, also for a range of subjobs.
    id: JobId,
    /// The subjobs selected by a range such as `12[1-5:2]`.
    only: Option<Indices>,
    /// The server after `.` or `@`; if both are given, the one after `@`.
    server: Option<String>,
    /// True if the server follows an `@`.
    is_at: bool,
}

impl Operand {
    /// Parses an id; trailing newlines are ignored. Anything else fails with `illegally formed job
    /// identifier`, exit status 1.
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

    /// The selected range of subjobs.
    pub fn only(&self) -> Option<Indices> {
        self.only
    }

    /// True if the id names a server, which must then be compared with the one that answers.
    pub fn names_server(&self) -> bool {
        self.server.is_some()
    }

    /// The job at `server`; None if the id names another server.
    pub fn job(&self, server: &str) -> Option<JobId> {
        let is_here = self
            .server
            .as_deref()
            .is_none_or(|named| same_server(named, server));
        is_here.then_some(self.id)
    }

    /// The failure for an id that names another server; `word` is the id as given. After a `.` the
    /// id is malformed; after an `@` the host is unknown.
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

    /// The job id; None if it names a server.
    pub fn local(&self) -> Option<JobId> {
        self.server.is_none().then_some(self.id)
    }

    /// The id without its server.
    pub fn short(&self) -> String {
        match self.only {
            None => self.id.to_string(),
            Some(only) => format!("{}[{only}]", self.id.number),
        }
    }

    /// The id with the name of `server`, which the caller has matched to the id.
    pub fn full_on(&self, server: &str) -> String {
        format!("{}.{server}", self.short())
    }

    /// The full id, as displayed in messages: `12.head`. `server` is used if the id names none.
    pub fn full(&self, server: &str) -> String {
        format!(
            "{}.{}",
            self.short(),
            self.server.as_deref().unwrap_or(server)
        )
    }
}

/// Splits text from server; None if the server is empty or has an illegal character.
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
    fn all_spellings_of_an_id_mean_the_same_job() {
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
