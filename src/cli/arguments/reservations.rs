//! Common code of the reservation commands: ids, times, resource lists, and requests to schedd.

use super::date;
use super::job_options;
use crate::cli::client::exit::Failure;
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;
use crate::model::time::Wall;
use crate::wire::message::{ClientRequest, Reply};
use chrono::{Local, TimeZone};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The id of a reservation on a command line: `R12`, `R12.head`, or the name of a reservation from
/// the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationName(String);

impl ReservationName {
    /// Parses an id. A malformed id is a failure with exit status 1.
    pub fn parse(text: &OsStr) -> Result<ReservationName, Failure> {
        let shown = text.to_string_lossy();
        let is_plain = shown
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let number = shown
            .strip_prefix(['R', 'S', 'M'])
            .unwrap_or(&shown)
            .split('.')
            .next()
            .unwrap_or_default();
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        // If the part after the letter begins with a digit, it must be a number.
        if !shown.is_empty() && is_plain && (digits == 0 || digits == number.len()) {
            Ok(ReservationName(shown.into_owned()))
        } else {
            Err(Failure::new(
                1,
                format!("illegally formed reservation identifier: {shown}"),
            ))
        }
    }

    /// The id as stored by the server: without `.server` if the suffix names this server.
    pub fn local(&self, server: &str) -> String {
        match self.0.split_once('.') {
            Some((id, named)) if same_server(named, server) => id.to_string(),
            _ => self.0.clone(),
        }
    }

    /// The id as displayed in messages.
    pub fn full(&self, server: &str) -> String {
        format!("{}.{server}", self.local(server))
    }
}

/// Parses a time of `-R` or `-E`, local time.
fn moment(letter: char, text: &OsStr, now: Wall) -> Result<Wall, Failure> {
    let clock = Local.timestamp_opt(now.0, 0).single();
    clock
        .and_then(|clock| date::parse(text.to_str()?, &clock))
        .ok_or_else(|| Failure::usage(format!("illegal -{letter} time value")))
}

/// Parses the start (`-R`) and the end (`-E`). If the end has no date and is not after the start,
/// it is moved by whole days until it is after the start.
pub fn bounds(
    from: Option<&OsString>,
    to: Option<&OsString>,
    now: Wall,
) -> Result<(Option<Wall>, Option<Wall>), Failure> {
    let from = from.map(|text| moment('R', text, now)).transpose()?;
    let to = to
        .map(|text| Ok::<_, Failure>(end_after(from, moment('E', text, now)?, text)))
        .transpose()?;
    Ok((from, to))
}

/// The attributes that schedd stores and displays unchanged, by name.
pub fn stored_attributes<const N: usize>(
    given: [(&str, &Option<String>); N],
) -> BTreeMap<String, String> {
    given
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_string(), text.clone()?)))
        .collect()
}

/// The end of a reservation. An end without a date is moved by whole days until it is after the
/// start.
fn end_after(from: Option<Wall>, to: Wall, text: &OsStr) -> Wall {
    let has_date = text
        .to_str()
        .is_none_or(|text| text.split('.').next().is_none_or(|digits| digits.len() > 4));
    match from.filter(|from| !has_date && to <= *from) {
        Some(from) => Wall(to.0 + 86_400 * ((from.0 - to.0) / 86_400 + 1)),
        None => to,
    }
}

/// Parses the values of `-l` into names and texts.
pub fn resources(lists: &[std::ffi::OsString]) -> Result<Vec<(String, String)>, Failure> {
    let mut requested = Vec::new();
    for list in lists {
        for setting in job_options::resource_list(list)? {
            requested.push((
                setting.resource.unwrap_or_default(),
                setting.value.lossy().into_owned(),
            ));
        }
    }
    Ok(requested)
}

/// Checks `-q`: it must name this server, after an `@` or alone.
pub fn check_destination(destination: &Option<String>, server: &str) -> Result<(), Failure> {
    let Some(named) = destination else {
        return Ok(());
    };
    let named = named.rsplit('@').next().unwrap_or_default();
    if same_server(named, server) {
        Ok(())
    } else {
        Err(Failure::from(Refusal::other_server()))
    }
}

/// Sends a request to schedd; the caller handles a refusal.
pub fn call(
    schedd: &mut LazySchedd,
    request: &ClientRequest,
) -> Result<Result<Reply, Refusal>, Failure> {
    Ok(match schedd.call(request)? {
        Reply::Refused(refusal) => Err(refusal),
        reply => Ok(reply),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_in_pbs() {
        let local =
            |text: &str| ReservationName::parse(text.as_ref()).map(|name| name.local("head"));
        for (text, expected) in [
            ("R12", "R12"),
            ("S12.head", "S12"),
            ("99", "99"),
            ("office.20261123", "office.20261123"),
            ("R1.x", "R1.x"),
        ] {
            assert_eq!(local(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["R99x", "9y", "", "R 1"] {
            let text = format!("illegally formed reservation identifier: {bad}");
            assert_eq!(local(bad), Err(Failure::new(1, text)), "{bad}");
        }
        assert_eq!(ReservationName("99".into()).full("head"), "99.head");
    }

    #[test]
    fn an_end_without_a_date_is_after_the_start() {
        let end = |from, to, text: &str| end_after(Some(Wall(from)), Wall(to), text.as_ref()).0;
        assert_eq!(end(5000, 4000, "1128"), 4000 + 86_400);
        assert_eq!(end(5000, 4000, "201128"), 4000);
        assert_eq!(end(5000, 6000, "1128"), 6000);
        assert_eq!(end(5000 + 2 * 86_400, 6000, "1128"), 6000 + 2 * 86_400);
    }
}
