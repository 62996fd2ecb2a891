//! Advance reservations: resources set aside for users during a period.
//!
//! A standing reservation recurs; all its occurrences are computed when it is created. Only
//! [`Reservation::apply`] changes the state of a reservation; it accepts every event in every state
//! and does no I/O. For the scheduler, a reservation consists of [`Window`]s.

pub mod recurrence;
pub mod request;
pub mod window;

use crate::model::job::{NodeShare, Owner};
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::request::select::Request;
use crate::model::time::{ClockTable, Time, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use window::{Window, WindowAccess};

/// Advance, standing or maintenance reservation, or one from the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    /// Id: `R12`, `S12` for a standing reservation, `M12` for maintenance. For a reservation from
    /// the configuration: name and number of the instance, such as `night.20261123`.
    pub id: String,
    /// User who created the reservation.
    pub owner: Owner,
    /// Host on which the user created the reservation.
    pub submit_host: String,
    /// Requested terms.
    pub terms: ReservationTerms,
    /// All occurrences, at least one.
    pub occurrences: Vec<Occurrence>,
    /// Index of the present or next occurrence.
    pub current: usize,
    /// Present state; [`Reservation::apply`] changes it.
    pub state: ReservationState,
    /// Nodes of the present or next occurrence that are offline, deleted, or down for more than a
    /// minute. Empty if entire nodes are reserved.
    pub lost: Vec<String>,
    /// Creation time.
    pub ctime: Time,
    /// Time of the last change.
    pub mtime: Time,
}

/// Requested terms of a reservation; `pbs_ralter` changes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationTerms {
    /// Name given by the user, `Reserve_Name`.
    pub name: Option<String>,
    /// `Authorized_Users`, `-U`: users who may submit to the reservation's queue besides the owner.
    /// Examples: `bob@head`, and `-bob` to deny access.
    pub users: Vec<String>,
    /// `Authorized_Groups`, `-G`: groups that may submit to the reservation's queue.
    pub groups: Vec<String>,
    /// `Authorized_Hosts`, `-H`: stored and displayed only.
    pub hosts: Vec<String>,
    /// Requested resources.
    pub request: Arc<Request>,
    /// True if the reservation sets aside entire nodes, regardless of running jobs. This is so for
    /// maintenance (`pbs_rsub --hosts`), and if the configuration lists the nodes.
    pub whole: bool,
    /// Recurrence rule, for a standing reservation.
    pub rule: Option<Repetition>,
    /// Attributes stored and displayed only, by PBS name: `Mail_Points`, `Mail_Users`.
    pub other: BTreeMap<String, String>,
    /// Variables displayed as `Variable_List`, such as `PBS_O_HOST`.
    pub variables: Vec<(String, String)>,
    /// The reservation took over the resources of this running job (`pbs_rsub --job`).
    pub job: Option<JobId>,
    /// Access rules, if the reservation is from the configuration. Access to any other reservation
    /// is through the queue of that reservation.
    pub access: Option<SiteAccess>,
}

/// Access rules of a reservation from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteAccess {
    /// Jobs that may use the reservation.
    pub access: WindowAccess,
    /// True if jobs must request the reservation by name.
    pub by_name: bool,
    /// True if the reservation has the flag `ownerpreempt`, which has no effect.
    pub owner_preempts: bool,
}

/// Recurrence of a standing reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// iCalendar rule, `reserve_rrule`.
    pub rule: String,
    /// Time zone of the rule, `PBS_TZID`.
    pub zone: String,
}

/// Occurrence of a reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occurrence {
    /// Start by the wall clock.
    pub from: Wall,
    /// End by the wall clock.
    pub to: Wall,
    /// Reserved resources by node; empty before the reservation is confirmed.
    pub shares: Vec<NodeShare>,
}

/// State of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationState {
    /// The reservation is submitted, but not confirmed or denied yet.
    Unconfirmed,
    /// Nodes are assigned, and the next occurrence has not begun.
    Confirmed,
    /// An occurrence has begun. The reservation's queue, if any, is started.
    Running,
    /// The last occurrence has ended; the remaining jobs are being deleted.
    Finished,
    /// A user or the configuration deleted the reservation; the remaining jobs are being deleted.
    DeletingJobs,
    /// The reservation was denied, or no job is left after its end or deletion.
    Deleted,
}

/// Event in the history of a reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Happened {
    /// This `user@host` requested the reservation.
    Submitted(String),
    /// The reservation got these resources, by occurrence.
    Confirmed(Vec<Vec<NodeShare>>),
    /// The reservation was denied for this reason.
    Denied(String),
    /// This `user@host` altered the reservation.
    Altered(String),
    /// An occurrence began.
    Began,
    /// An occurrence ended.
    Ended,
    /// [`Reservation::lost`] changed to this list.
    Lost(Vec<String>),
    /// This `user@host`, or `configuration`, requested the deletion.
    DeleteWanted(String),
    /// No job is left after the end or deletion of the reservation.
    Emptied,
}

/// PBS's short and long names of reservation states, by PBS's state number.
const NAMES: [(&str, &str); 13] = [
    ("NO", "RESV_NONE"),
    ("UN", "RESV_UNCONFIRMED"),
    ("CO", "RESV_CONFIRMED"),
    ("WT", "RESV_WAIT"),
    ("TR", "RESV_TIME_TO_RUN"),
    ("RN", "RESV_RUNNING"),
    ("FN", "RESV_FINISHED"),
    ("BD", "RESV_BEING_DELETED"),
    ("DE", "RESV_DELETED"),
    ("DJ", "RESV_DELETING_JOBS"),
    ("DG", "RESV_DEGRADED"),
    ("AL", "RESV_BEING_ALTERED"),
    ("IC", "RESV_IN_CONFLICT"),
];

/// PBS's number of the degraded state.
const DEGRADED: usize = 10;

impl ReservationState {
    /// Returns PBS's state number.
    fn number(self) -> usize {
        match self {
            ReservationState::Unconfirmed => 1,
            ReservationState::Confirmed => 2,
            ReservationState::Running => 5,
            ReservationState::Finished => 6,
            ReservationState::Deleted => 8,
            ReservationState::DeletingJobs => 9,
        }
    }
}

impl Reservation {
    /// Applies an event.
    pub fn apply(&mut self, fact: &Happened, now: Time) {
        match fact {
            Happened::Submitted(_) => self.state = ReservationState::Unconfirmed,
            Happened::Confirmed(shares) => self.confirm(shares),
            Happened::Denied(_) if self.state == ReservationState::Unconfirmed => {
                self.state = ReservationState::Deleted
            }
            Happened::Began if self.state == ReservationState::Confirmed => {
                self.state = ReservationState::Running
            }
            Happened::Ended => self.end_occurrence(),
            Happened::Lost(nodes) => self.lost = nodes.clone(),
            Happened::DeleteWanted(_) if !self.is_over() => {
                self.state = ReservationState::DeletingJobs
            }
            Happened::Emptied if self.is_over() => self.state = ReservationState::Deleted,
            Happened::Denied(_)
            | Happened::Altered(_)
            | Happened::Began
            | Happened::DeleteWanted(_)
            | Happened::Emptied => {}
        }
        self.mtime = now;
    }

    fn confirm(&mut self, shares: &[Vec<NodeShare>]) {
        for (occurrence, shares) in self.occurrences.iter_mut().zip(shares) {
            occurrence.shares = shares.clone();
        }
        if self.state == ReservationState::Unconfirmed {
            self.state = ReservationState::Confirmed;
        }
    }

    fn end_occurrence(&mut self) {
        if self.is_over() {
            return;
        }
        if self.current + 1 < self.occurrences.len() {
            (self.current, self.state) = (self.current + 1, ReservationState::Confirmed)
        } else {
            self.state = ReservationState::Finished
        }
    }

    /// Tests whether the reservation was denied, has ended or was deleted. Its jobs may still be
    /// running.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            ReservationState::Finished | ReservationState::DeletingJobs | ReservationState::Deleted
        )
    }

    /// Tests whether this is a standing reservation.
    pub fn is_recurring(&self) -> bool {
        self.terms.rule.is_some()
    }

    /// Tests whether the reservation gets a queue of its own. Reservations from the configuration
    /// get no queue.
    pub fn has_queue(&self) -> bool {
        self.terms.access.is_none()
    }

    /// Returns the queue of the reservation. The queue exists from the confirmation to the end of
    /// the reservation, and is started while an occurrence runs.
    pub fn queue(&self) -> Option<Queue> {
        let has_one =
            self.has_queue() && !self.is_over() && self.state != ReservationState::Unconfirmed;
        let started = self.state == ReservationState::Running;
        has_one.then(|| Queue {
            started,
            ..Queue::named(&self.id)
        })
    }

    /// Returns the present or next occurrence.
    pub fn occurrence(&self) -> &Occurrence {
        &self.occurrences[self.current.min(self.occurrences.len().saturating_sub(1))]
    }

    /// Returns the wall-clock time of the next start or end of an occurrence; None before the
    /// confirmation and after the end of the reservation.
    pub fn next_turn(&self) -> Option<Wall> {
        match self.state {
            ReservationState::Confirmed => Some(self.occurrence().from),
            ReservationState::Running => Some(self.occurrence().to),
            ReservationState::Unconfirmed
            | ReservationState::Finished
            | ReservationState::DeletingJobs
            | ReservationState::Deleted => None,
        }
    }

    /// Returns the windows for the scheduler: one for each occurrence that has not ended, and none
    /// before the confirmation. `clock` converts wall-clock times.
    pub fn windows(&self, clock: &ClockTable) -> Vec<Window> {
        if self.is_over() || self.state == ReservationState::Unconfirmed {
            return Vec::new();
        }
        let left = self.occurrences.iter().enumerate().skip(self.current);
        left.map(|(index, occurrence)| self.window(index, occurrence, clock))
            .collect()
    }

    fn window(&self, index: usize, occurrence: &Occurrence, clock: &ClockTable) -> Window {
        let begun = index == self.current && self.state == ReservationState::Running;
        let site = self
            .terms
            .access
            .clone()
            .unwrap_or_else(|| self.access_through_queue());
        Window {
            id: self.window_id(index),
            // A begun occurrence stays open, even if the wall clock is set back.
            from: if begun {
                Time(0)
            } else {
                schedd_time(clock, occurrence.from)
            },
            to: schedd_time(clock, occurrence.to),
            shares: occurrence.shares.clone(),
            whole: self.terms.whole,
            access: site.access,
            by_name: site.by_name,
            owner_preempts: site.owner_preempts,
        }
    }

    /// Returns the access rules of a reservation with a queue: all jobs in that queue have access,
    /// and no others. The queue has already checked the access of their owners.
    fn access_through_queue(&self) -> SiteAccess {
        let queues = if self.has_queue() {
            vec![self.id.clone()]
        } else {
            Vec::new()
        };
        let by_name = self.has_queue();
        SiteAccess {
            access: WindowAccess {
                queues,
                ..WindowAccess::default()
            },
            by_name,
            owner_preempts: false,
        }
    }

    /// Returns the window id of an occurrence: `S12.2` for the second occurrence of the standing
    /// reservation `S12`; otherwise the reservation's id.
    pub fn window_id(&self, index: usize) -> String {
        if self.is_recurring() {
            format!("{}.{}", self.id, index + 1)
        } else {
            self.id.clone()
        }
    }

    /// Returns PBS's state number. A confirmed reservation is degraded while it has lost nodes.
    fn number(&self) -> usize {
        match self.state {
            ReservationState::Confirmed if !self.lost.is_empty() => DEGRADED,
            state => state.number(),
        }
    }

    /// Returns PBS's short name, such as `CO`.
    pub fn short_state(&self) -> &'static str {
        NAMES[self.number()].0
    }

    /// Returns PBS's long name, such as `RESV_CONFIRMED`.
    pub fn long_state(&self) -> &'static str {
        NAMES[self.number()].1
    }

    /// Returns PBS's `reserve_substate`: degraded while the reservation has lost nodes, otherwise
    /// equal to the state number.
    pub fn substate(&self) -> i64 {
        if self.lost.is_empty() {
            self.number() as i64
        } else {
            DEGRADED as i64
        }
    }

    /// Tests whether the user `asker` at `host` has access to the queue of the reservation. The
    /// owner always has access. For other users, the first matching entry of `Authorized_Users`
    /// grants or denies access. Users without a matching entry have access only as members of a
    /// listed group. `is_member` tests whether the user is a member of a group.
    pub fn grants_access(
        &self,
        asker: &Owner,
        host: &str,
        is_member: impl Fn(&str) -> bool,
    ) -> bool {
        if asker.is_same_account(&self.owner) {
            return true;
        }
        for entry in &self.terms.users {
            let (is_denied, entry) = match entry.strip_prefix('-') {
                Some(entry) => (true, entry),
                None => (false, entry.strip_prefix('+').unwrap_or(entry)),
            };
            let (name, at) = entry.split_once('@').unwrap_or((entry, "*"));
            if (name == "*" || name == asker.user) && (at == "*" || at.eq_ignore_ascii_case(host)) {
                return !is_denied;
            }
        }
        self.terms.groups.iter().any(|group| is_member(group))
    }
}

/// Converts wall-clock time to schedd's clock; `i64::MAX` stands for no end.
fn schedd_time(clock: &ClockTable, wall: Wall) -> Time {
    if wall.0 == i64::MAX {
        Time::NEVER
    } else {
        clock.time(wall)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a reservation with `times` occurrences of one hour, one day apart.
    pub(crate) fn reservation(times: usize) -> Reservation {
        let rule = Repetition {
            rule: format!("FREQ=DAILY;COUNT={times}"),
            zone: "UTC".into(),
        };
        let occurrence = |n: i64| Occurrence {
            from: Wall(n * 86_400),
            to: Wall(n * 86_400 + 3600),
            shares: Vec::new(),
        };
        Reservation {
            id: "R12".into(),
            owner: Owner {
                user: "alice".into(),
                uid: 1000,
                gid: 100,
            },
            submit_host: "head".into(),
            terms: ReservationTerms {
                name: None,
                users: vec!["bob@head".into(), "-carol".into()],
                groups: vec!["staff".into()],
                hosts: Vec::new(),
                request: Arc::default(),
                whole: false,
                rule: Some(rule).filter(|_| times > 1),
                other: BTreeMap::new(),
                variables: Vec::new(),
                job: None,
                access: None,
            },
            occurrences: (1..=times as i64).map(occurrence).collect(),
            current: 0,
            state: ReservationState::Unconfirmed,
            lost: Vec::new(),
            ctime: Time(0),
            mtime: Time(0),
        }
    }

    fn after(times: usize, facts: &[Happened]) -> Reservation {
        let mut reservation = reservation(times);
        facts
            .iter()
            .for_each(|fact| reservation.apply(fact, Time(5)));
        reservation
    }

    #[test]
    fn an_advance_reservation_is_confirmed_runs_and_finishes() {
        use Happened::{Began, Confirmed, Ended, Lost};
        assert_eq!(reservation(1).short_state(), "UN");
        let confirmed = after(1, &[Confirmed(vec![vec![]])]);
        assert_eq!(
            (confirmed.short_state(), confirmed.next_turn()),
            ("CO", Some(Wall(86_400)))
        );
        let running = after(1, &[Confirmed(vec![]), Began]);
        assert_eq!(
            (running.long_state(), running.next_turn()),
            ("RESV_RUNNING", Some(Wall(90_000)))
        );
        let over = after(1, &[Confirmed(vec![]), Began, Ended]);
        assert_eq!(
            (
                over.short_state(),
                over.next_turn(),
                over.windows(&ClockTable::default()).len()
            ),
            ("FN", None, 0)
        );
        let degraded = after(1, &[Confirmed(vec![]), Lost(vec!["n1".into()])]);
        assert_eq!((degraded.short_state(), degraded.substate()), ("DG", 10));
    }

    #[test]
    fn a_standing_reservation_waits_for_its_next_occurrence() {
        use Happened::{Began, Confirmed, Ended};
        let once = [Confirmed(vec![]), Began, Ended];
        let waiting = after(2, &once);
        assert_eq!(
            (waiting.current, waiting.short_state(), waiting.next_turn()),
            (1, "CO", Some(Wall(2 * 86_400)))
        );
        let ids: Vec<String> = waiting
            .windows(&ClockTable::default())
            .into_iter()
            .map(|window| window.id)
            .collect();
        assert_eq!(ids, ["R12.2"]);
        assert!(after(2, &[&once[..], &[Began, Ended]].concat()).is_over());
    }

    #[test]
    fn a_reservation_does_not_begin_after_denial_or_deletion() {
        use Happened::{Began, Confirmed, DeleteWanted, Denied, Emptied, Ended};
        assert_eq!(
            after(1, &[Denied("busy".into()), Confirmed(vec![]), Began]).state,
            ReservationState::Deleted
        );
        let deleted = [
            Confirmed(vec![]),
            Began,
            DeleteWanted("a@h".into()),
            Ended,
            Began,
        ];
        assert_eq!(after(1, &deleted).short_state(), "DJ");
        assert_eq!(
            after(1, &[&deleted[..], &[Emptied]].concat()).short_state(),
            "DE"
        );
        assert_eq!(after(1, &[Confirmed(vec![]), Emptied]).short_state(), "CO");
    }

    #[test]
    fn only_the_owner_and_listed_users_and_groups_have_access() {
        let reservation = reservation(1);
        let asker = |uid, user: &str| Owner {
            user: user.into(),
            uid,
            gid: uid,
        };
        let grants_access = |uid, user, groups: &[&str]| {
            reservation.grants_access(&asker(uid, user), "head", |name| groups.contains(&name))
        };
        assert!(
            grants_access(1000, "alice", &[])
                && grants_access(1001, "bob", &[])
                && grants_access(1002, "dave", &["staff"])
        );
        assert!(!grants_access(1003, "carol", &["staff"]) && !grants_access(1004, "eve", &[]));
        assert!(!reservation.grants_access(&asker(1001, "bob"), "elsewhere", |_| false));
    }

    #[test]
    fn the_window_of_a_reservation_admits_jobs_in_the_queue_of_the_reservation() {
        let window = after(1, &[Happened::Confirmed(vec![])])
            .windows(&ClockTable::default())
            .remove(0);
        assert_eq!(
            (window.id.as_str(), window.by_name, window.access.queues),
            ("R12", true, vec!["R12".to_string()])
        );
        assert_eq!(
            (window.from, window.to),
            (Time(86_400_000), Time(90_000_000))
        );
    }
}
