//! Requests of `pbs_rsub` and `pbs_ralter`, converted to times, occurrences and terms.

use super::recurrence::{RecurrenceRule, Zone};
use super::{Occurrence, Repetition, ReservationTerms};
use crate::model::job::value_syntax;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::request::select::Request;
use crate::model::resource::{ResourceValue, Resources};
use crate::model::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options of `pbs_rsub` or `pbs_ralter`. None means the default (`pbs_rsub`) or no change
/// (`pbs_ralter`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRequest {
    /// `-N`: name of the reservation.
    pub name: Option<String>,
    /// `-R`: start.
    pub from: Option<Wall>,
    /// `-E`: end.
    pub to: Option<Wall>,
    /// `-D`: duration, unparsed.
    pub duration: Option<String>,
    /// `-U`: users, entries separated by commas.
    pub users: Option<String>,
    /// `-G`: groups, entries separated by commas.
    pub groups: Option<String>,
    /// `-H`: hosts, entries separated by commas.
    pub hosts: Option<String>,
    /// `-l`: requested resources, name and text.
    pub resources: Vec<(String, String)>,
    /// `--hosts`: names of nodes to reserve entirely.
    pub nodes: Vec<String>,
    /// `-r`: recurrence rule.
    pub rule: Option<String>,
    /// `PBS_TZID`: time zone of the rule.
    pub zone: Option<String>,
    /// `--job`: reserves the resources of this running job until the end of the job's walltime.
    pub job: Option<JobId>,
    /// Other attributes by PBS name: `Mail_Points`, `Mail_Users`.
    pub other: BTreeMap<String, String>,
    /// Variables displayed as `Variable_List`, such as `PBS_O_HOST`.
    pub variables: Vec<(String, String)>,
    /// Host on which the command ran.
    pub submit_host: String,
}

/// Maximum length of a reservation name in bytes.
const LONGEST_NAME: usize = 230;

/// Maximum size of all texts of a request in bytes. It is limited because reservations are kept in
/// memory.
const LARGEST: usize = 64 << 10;

/// End of the year 9999, the upper bound of times.
const LAST: i64 = 253_402_300_799;

impl ReservationRequest {
    /// Refuses oversized requests, times out of range, invalid names and invalid mail users.
    pub fn check(&self) -> Result<(), Refusal> {
        let texts = [
            &self.name,
            &self.duration,
            &self.users,
            &self.groups,
            &self.hosts,
            &self.rule,
            &self.zone,
        ];
        let mut size = self.submit_host.len();
        size += texts.into_iter().flatten().map(String::len).sum::<usize>();
        size += self.nodes.iter().map(|name| name.len() + 32).sum::<usize>();
        for (name, text) in self.resources.iter().chain(&self.variables) {
            size += name.len() + text.len() + 64;
        }
        for (name, text) in &self.other {
            size += name.len() + text.len() + 64;
        }
        if size > LARGEST {
            return Err(Refusal::too_large("a request", LARGEST));
        }
        let mut times = [self.from, self.to].into_iter().flatten();
        if !times.all(|time| (0..=LAST).contains(&time.0)) {
            return Err(Refusal::bad_times());
        }
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control))
        {
            return Err(Refusal::illegal_value("Reserve_Name"));
        }
        if let Some(users) = self.other.get("Mail_Users")
            && !value_syntax::mail_users(users)
        {
            return Err(Refusal::illegal_value("Mail_Users"));
        }
        Ok(())
    }

    /// Returns start and end of a new reservation. Two of start, end and duration are required; if
    /// all three are given, they must agree. The start must not be a minute or more before
    /// `now`. The end must be after the start and after `now`, and not after the year 9999.
    pub fn times(&self, now: Wall) -> Result<(Wall, Wall), Refusal> {
        let (from, to) = self.given_period()?;
        future_period(from, to, now)
    }

    /// Returns start and end as given by at least two of start, end and duration, which must agree
    /// if all three are given.
    fn given_period(&self) -> Result<(Wall, Wall), Refusal> {
        let length = self.length()?;
        Ok(match (self.from, self.to, length) {
            (Some(from), Some(to), None) => (from, to),
            (Some(from), None, Some(length)) => (from, plus(from, length)),
            (None, Some(to), Some(length)) => (Wall(to.0.saturating_sub(length.as_seconds())), to),
            (Some(from), Some(to), Some(length)) if to == plus(from, length) => (from, to),
            _ => return Err(Refusal::bad_times()),
        })
    }

    /// Returns start and end after a change. `was` is the present period; `begun` is true if the
    /// reservation has started; its start must then not change. A new start alone keeps the
    /// duration. A new end or duration alone keeps the start. If two or three of start, end and
    /// duration are given, they define the period as in a new reservation.
    pub fn changed_period(
        &self,
        was: (Wall, Wall),
        begun: bool,
        now: Wall,
    ) -> Result<(Wall, Wall), Refusal> {
        let kept = Span::seconds(was.1.0 - was.0.0);
        let length = self.length()?;
        let (from, to) = match (self.from, self.to, length) {
            (None, None, None) => return Ok(was),
            (None, Some(to), None) => (was.0, to),
            (Some(from), None, None) => (from, plus(from, kept)),
            (None, None, Some(length)) => (was.0, plus(was.0, length)),
            _ => self.given_period()?,
        };
        if begun && (from != was.0 || to <= now || to <= from || to.0 > LAST) {
            Err(Refusal::bad_times())
        } else if begun {
            Ok((from, to))
        } else {
            future_period(from, to, now)
        }
    }

    fn length(&self) -> Result<Option<Span>, Refusal> {
        let Some(text) = &self.duration else {
            return Ok(None);
        };
        match Span::parse(text) {
            Some(length) if length >= Span::seconds(1) => Ok(Some(length)),
            _ => Err(Refusal::illegal_value("Resource_List.walltime")),
        }
    }

    /// Returns all occurrences; `first` is the start and end of the first occurrence, `zone` the
    /// time zone of the rule.
    pub fn occurrences(
        &self,
        first: (Wall, Wall),
        zone: &dyn Zone,
    ) -> Result<Vec<Occurrence>, Refusal> {
        let seconds = first.1.0 - first.0.0;
        let Some(rule) = &self.rule else {
            return Ok(vec![occurrence(first.0, seconds)]);
        };
        let start = zone.civil(first.0).ok_or_else(Refusal::bad_times)?;
        let starts = RecurrenceRule::parse(rule)
            .and_then(|rule| rule.occurrences(start, Span::seconds(seconds)))
            .map_err(|fault| Refusal::bad_rule(&fault.to_string()))?;
        Ok(starts
            .into_iter()
            .map(|start| occurrence(zone.wall(start), seconds))
            .collect())
    }

    /// Returns the terms of a new reservation with duration `length`. Without `-U`, only `owner`
    /// is an authorized user.
    pub fn terms(
        &self,
        owner: &str,
        length: Span,
        resources: &Resources,
    ) -> Result<ReservationTerms, Refusal> {
        let request = free(Request::parse(&self.resources, resources)?, resources)?;
        let zone = self.zone.clone().unwrap_or_default();
        Ok(ReservationTerms {
            name: self.name.clone(),
            users: self
                .users
                .as_deref()
                .map_or_else(|| vec![owner.to_string()], entries),
            groups: self.groups.as_deref().map(entries).unwrap_or_default(),
            hosts: self.hosts.as_deref().map(entries).unwrap_or_default(),
            request: Arc::new(lasting(request, length)),
            whole: !self.nodes.is_empty(),
            rule: self.rule.clone().map(|rule| Repetition { rule, zone }),
            other: self.other.clone(),
            variables: self.variables.clone(),
            job: self.job,
            access: None,
        })
    }

    /// Returns the terms of a reservation after a change; `was` are the present terms.
    pub fn changed(
        &self,
        was: &ReservationTerms,
        length: Span,
        resources: &Resources,
    ) -> Result<ReservationTerms, Refusal> {
        let request = if self.resources.is_empty() {
            (*was.request).clone()
        } else {
            was.request.alter(&self.resources, resources)?
        };
        let mut other = was.other.clone();
        other.extend(self.other.clone());
        Ok(ReservationTerms {
            name: self.name.clone().or_else(|| was.name.clone()),
            users: amended(self.users.as_deref(), &was.users),
            groups: amended(self.groups.as_deref(), &was.groups),
            request: Arc::new(lasting(request, length)),
            other,
            ..was.clone()
        })
    }
}

fn occurrence(from: Wall, seconds: i64) -> Occurrence {
    Occurrence {
        from,
        to: Wall(from.0 + seconds),
        shares: Vec::new(),
    }
}

fn plus(wall: Wall, length: Span) -> Wall {
    Wall(wall.0.saturating_add(length.as_seconds()))
}

fn future_period(from: Wall, to: Wall, now: Wall) -> Result<(Wall, Wall), Refusal> {
    // A start less than a minute ago counts as future, because users give times without seconds.
    let is_ahead = from.0 > now.0 - 60 && to > now && to.0 <= LAST;
    if from < to && is_ahead {
        Ok((from, to))
    } else {
        Err(Refusal::bad_times())
    }
}

/// Adds `place=free` unless `select`, `place` or `nodes` is requested.
fn free(request: Request, resources: &Resources) -> Result<Request, Refusal> {
    let shaped = request
        .asked
        .iter()
        .any(|(name, _)| ["select", "place", "nodes"].contains(&name.as_str()));
    if shaped {
        Ok(request)
    } else {
        request.alter(&[("place".into(), "free".into())], resources)
    }
}

fn lasting(mut request: Request, length: Span) -> Request {
    request
        .list
        .insert("walltime".into(), ResourceValue::Time(length));
    request
}

fn entries(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(String::from)
        .collect()
}

/// Returns a changed list. If all changes have a sign, entries with `+` are added and entries with
/// `-` are removed; otherwise `changes` replaces the list. If `changes` is None, the list stays as
/// it was.
fn amended(changes: Option<&str>, was: &[String]) -> Vec<String> {
    let Some(changes) = changes else {
        return was.to_vec();
    };
    let changes = entries(changes);
    if !changes.iter().all(|entry| entry.starts_with(['+', '-'])) || changes.is_empty() {
        return changes;
    }
    let mut list = was.to_vec();
    for entry in changes {
        let (sign, name) = entry.split_at(1);
        list.retain(|known| known.trim_start_matches('+') != name);
        if sign == "+" {
            list.push(name.to_string());
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, NaiveDateTime};

    struct Utc;

    impl Zone for Utc {
        fn wall(&self, civil: NaiveDateTime) -> Wall {
            Wall(civil.and_utc().timestamp())
        }

        fn civil(&self, wall: Wall) -> Option<NaiveDateTime> {
            DateTime::from_timestamp(wall.0, 0).map(|at| at.naive_utc())
        }
    }

    fn request_for(
        from: Option<i64>,
        to: Option<i64>,
        duration: Option<&str>,
    ) -> ReservationRequest {
        let duration = duration.map(String::from);
        ReservationRequest {
            from: from.map(Wall),
            to: to.map(Wall),
            duration,
            ..ReservationRequest::default()
        }
    }

    #[test]
    fn two_of_start_end_and_duration_define_a_period() {
        let times = |from, to, length| {
            request_for(from, to, length)
                .times(Wall(1000))
                .map(|(from, to)| (from.0, to.0))
        };
        assert_eq!(times(Some(2000), Some(2600), None), Ok((2000, 2600)));
        assert_eq!(times(Some(2000), None, Some("10:00")), Ok((2000, 2600)));
        assert_eq!(times(None, Some(2600), Some("600")), Ok((2000, 2600)));
        assert_eq!(times(Some(2000), Some(2600), Some("600")), Ok((2000, 2600)));
        for (from, to, length) in [
            (Some(2000), None, None),
            (None, None, Some("60")),
            (Some(2000), Some(2000), None),
            (Some(900), Some(2000), None),
            (Some(2000), Some(2600), Some("60")),
        ] {
            assert_eq!(
                times(from, to, length),
                Err(Refusal::bad_times()),
                "{from:?} {to:?} {length:?}"
            );
        }
        assert_eq!(
            times(Some(2000), None, Some("x")),
            Err(Refusal::illegal_value("Resource_List.walltime"))
        );
    }

    #[test]
    fn a_change_of_times_keeps_omitted_values() {
        let was = (Wall(2000), Wall(2600));
        let changed_times = |request: ReservationRequest, begun| {
            request
                .changed_period(was, begun, Wall(2100))
                .map(|(from, to)| (from.0, to.0))
        };
        assert_eq!(
            changed_times(request_for(Some(3000), None, None), false),
            Ok((3000, 3600))
        );
        assert_eq!(
            changed_times(request_for(None, Some(2700), None), true),
            Ok((2000, 2700))
        );
        assert_eq!(
            changed_times(request_for(None, None, Some("200")), true),
            Ok((2000, 2200))
        );
        assert_eq!(
            changed_times(request_for(None, None, Some("50")), true),
            Err(Refusal::bad_times())
        );
        assert_eq!(
            changed_times(request_for(Some(3000), None, None), true),
            Err(Refusal::bad_times())
        );
        assert_eq!(
            changed_times(request_for(None, None, None), true),
            Ok((2000, 2600))
        );
    }

    #[test]
    fn a_reservation_that_has_started_keeps_its_start() {
        let was = (Wall(2000), Wall(2600));
        let changed_times = |from, to, length| {
            request_for(from, to, length)
                .changed_period(was, true, Wall(5000))
                .map(|(from, to)| (from.0, to.0))
        };
        let refused = Err(Refusal::bad_times());
        assert_eq!(changed_times(Some(6000), Some(7000), None), refused);
        assert_eq!(changed_times(Some(6000), None, Some("600")), refused);
        assert_eq!(changed_times(None, Some(7000), Some("600")), refused);
        assert_eq!(
            changed_times(Some(2000), Some(7000), None),
            Ok((2000, 7000))
        );
        assert_eq!(
            changed_times(None, Some(7000), Some("5000")),
            Ok((2000, 7000))
        );
    }

    #[test]
    fn a_rule_defines_the_occurrences() {
        let daily = ReservationRequest {
            rule: Some("FREQ=DAILY;COUNT=2".into()),
            ..ReservationRequest::default()
        };
        let found = daily.occurrences((Wall(3600), Wall(3660)), &Utc).unwrap();
        let times: Vec<(i64, i64)> = found
            .iter()
            .map(|occurrence| (occurrence.from.0, occurrence.to.0))
            .collect();
        assert_eq!(times, [(3600, 3660), (90_000, 90_060)]);
        let endless = ReservationRequest {
            rule: Some("FREQ=DAILY".into()),
            ..ReservationRequest::default()
        };
        let refusal = endless
            .occurrences((Wall(3600), Wall(3660)), &Utc)
            .unwrap_err();
        assert!(refusal.text.contains("COUNT= or UNTIL="), "{refusal}");
    }

    #[test]
    fn changes_with_signs_amend_a_list_and_others_replace_it() {
        let was = ["ann".to_string(), "bob".to_string()];
        assert_eq!(amended(Some("+eve,-bob"), &was), ["ann", "eve"]);
        assert_eq!(amended(Some("eve"), &was), ["eve"]);
        assert_eq!(amended(Some(""), &was), [""; 0]);
    }

    #[test]
    fn terms_request_the_duration_as_walltime() {
        let resources = Resources::builtin();
        let terms = ReservationRequest::default()
            .terms("ann@head", Span::seconds(600), &resources)
            .unwrap();
        assert_eq!(terms.request.list["walltime"].to_string(), "00:10:00");
        assert_eq!(
            (terms.request.select.text.as_str(), terms.users),
            ("1:ncpus=1", vec!["ann@head".to_string()])
        );
        let more = ReservationRequest {
            resources: vec![("select".into(), "2:ncpus=3".into())],
            ..ReservationRequest::default()
        };
        let changed = more.changed(
            &ReservationRequest::default()
                .terms("a", Span::seconds(1), &resources)
                .unwrap(),
            Span::seconds(5),
            &resources,
        );
        assert_eq!(changed.unwrap().request.select.text, "2:ncpus=3");
        let huge = ReservationRequest {
            users: Some("x".repeat(LARGEST + 1)),
            ..ReservationRequest::default()
        };
        assert!(huge.check().is_err() && ReservationRequest::default().check().is_ok());
        assert!(request_for(Some(i64::MIN), None, None).check().is_err());
        let ages = "9223372036854775".to_string();
        let endless = ReservationRequest {
            duration: Some(ages),
            ..request_for(Some(2000), None, None)
        };
        assert_eq!(endless.times(Wall(0)), Err(Refusal::bad_times()));
    }
}
