//! An advance reservation: what somebody asked to have set aside, when and for whom, and how that
//! stands.
//!
//! A standing reservation is one that comes again: its occurrences are all planned when it is made.
//! [`Reservation::apply`] is the only transition table; it is total and pure, as that of jobs is.
//! What the scheduler sees of it are its [`Window`]s.

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

/// A reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    /// `R12`, `S12` for one that comes again, `M12` for maintenance; the name of one that the
    /// configuration makes, with the number of its instance.
    pub id: String,
    /// Who made it.
    pub owner: Owner,
    /// Where.
    pub submit_host: String,
    /// What was asked for.
    pub terms: ReservationTerms,
    /// Each time it comes; at least one.
    pub occurrences: Vec<Occurrence>,
    /// Which of them is on, or comes next.
    pub current: usize,
    /// Where it stands.
    pub state: ReservationState,
    /// Nodes of it that are down or offline now.
    pub lost: Vec<String>,
    /// Made.
    pub ctime: Time,
    /// Last changed.
    pub mtime: Time,
}

/// What somebody asked for; `pbs_ralter` changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationTerms {
    /// `Reserve_Name`.
    pub name: Option<String>,
    /// `Authorized_Users`, `-U`: who may submit to its queue besides its owner: `bob@head`, `-bob`.
    pub users: Vec<String>,
    /// `Authorized_Groups`, `-G`: whose members may.
    pub groups: Vec<String>,
    /// `Authorized_Hosts`, `-H`: kept and shown.
    pub hosts: Vec<String>,
    /// How much.
    pub request: Arc<Request>,
    /// Whole nodes, whatever runs on them: maintenance.
    pub whole: bool,
    /// When it comes again.
    pub rule: Option<Repetition>,
    /// Kept and shown, by PBS's names: `Mail_Points`, `Mail_Users`.
    pub other: BTreeMap<String, String>,
    /// Shown as `Variable_List`.
    pub variables: Vec<(String, String)>,
    /// The job on whose nodes it was made.
    pub job: Option<JobId>,
    /// Of one that the configuration makes: who may use it. Others are used through their queue.
    pub access: Option<SiteAccess>,
}

/// What the configuration says of the use of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteAccess {
    /// Who may.
    pub access: WindowAccess,
    /// Only who asks for it by name.
    pub by_name: bool,
    /// Those it is for may preempt others in it.
    pub owner_preempts: bool,
}

/// How a standing reservation comes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// `reserve_rrule`.
    pub rule: String,
    /// `PBS_TZID`.
    pub zone: String,
}

/// One time that a reservation comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occurrence {
    /// When it begins, as watches show it.
    pub from: Wall,
    /// When it ends.
    pub to: Wall,
    /// What it has of which node; nothing before it is confirmed.
    pub shares: Vec<NodeShare>,
}

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationState {
    /// Not known yet whether it can be had.
    Unconfirmed,
    /// It has its nodes, and has not begun.
    Confirmed,
    /// Its time has come: its queue is started.
    Running,
    /// It is over; its jobs are being ended.
    Finished,
    /// Taken back; its jobs are being deleted.
    DeletingJobs,
    /// Taken back.
    Deleted,
}

/// A fact about a reservation, in the past tense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Happened {
    /// Asked for, by `user@host`.
    Submitted(String),
    /// It has these shares, occurrence by occurrence.
    Confirmed(Vec<Vec<NodeShare>>),
    /// It cannot be had, for this reason.
    Denied(String),
    /// Changed, by `user@host`.
    Altered(String),
    /// An occurrence has begun.
    Began,
    /// An occurrence is over.
    Ended,
    /// These nodes of it are down or offline; none means that all are back.
    Lost(Vec<String>),
    /// To be deleted, by `user@host`.
    DeleteWanted(String),
    /// The last of its jobs is gone.
    Emptied,
}

/// PBS's shorts and names of the states.
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

/// The number of a degraded reservation among PBS's.
const DEGRADED: usize = 10;

impl ReservationState {
    /// Its number among PBS's.
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
    /// What a fact makes of it.
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

    /// Whether nothing comes of it any more, and only its jobs have still to go.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            ReservationState::Finished | ReservationState::DeletingJobs | ReservationState::Deleted
        )
    }

    /// Whether it comes again.
    pub fn is_recurring(&self) -> bool {
        self.terms.rule.is_some()
    }

    /// Whether jobs are submitted to a queue of its name: those of the configuration have none.
    pub fn has_queue(&self) -> bool {
        self.terms.access.is_none()
    }

    /// Its queue, if it has one: started while it runs, there until it is over.
    pub fn queue(&self) -> Option<Queue> {
        let has_one =
            self.has_queue() && !self.is_over() && self.state != ReservationState::Unconfirmed;
        let started = self.state == ReservationState::Running;
        has_one.then(|| Queue {
            started,
            ..Queue::named(&self.id)
        })
    }

    /// The occurrence that is on or comes next.
    pub fn occurrence(&self) -> &Occurrence {
        &self.occurrences[self.current.min(self.occurrences.len().saturating_sub(1))]
    }

    /// When it has something to do next, as watches show it; None when it is over.
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

    /// What the scheduler sees of it: a window for each occurrence that is not over. `clock` tells
    /// when by schedd's clock watches show what.
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
            .unwrap_or_else(|| self.through_its_queue());
        Window {
            id: self.window_id(index),
            // One that has begun stays so if the clock is set back.
            from: if begun {
                Time(0)
            } else {
                moment(clock, occurrence.from)
            },
            to: moment(clock, occurrence.to),
            shares: occurrence.shares.clone(),
            whole: self.terms.whole,
            access: site.access,
            by_name: site.by_name,
            owner_preempts: site.owner_preempts,
        }
    }

    /// Whoever is in the queue was let in there.
    fn through_its_queue(&self) -> SiteAccess {
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

    /// The id of the window of an occurrence: `S12.2` for the second of a standing one.
    pub fn window_id(&self, index: usize) -> String {
        if self.is_recurring() {
            format!("{}.{}", self.id, index + 1)
        } else {
            self.id.clone()
        }
    }

    /// The number of the state among PBS's: one that lacks nodes is degraded until it begins.
    fn number(&self) -> usize {
        match self.state {
            ReservationState::Confirmed if !self.lost.is_empty() => DEGRADED,
            state => state.number(),
        }
    }

    /// `CO`.
    pub fn short_state(&self) -> &'static str {
        NAMES[self.number()].0
    }

    /// `RESV_CONFIRMED`.
    pub fn long_state(&self) -> &'static str {
        NAMES[self.number()].1
    }

    /// `reserve_substate`: as the state, and for one that runs without all its nodes, degraded.
    pub fn substate(&self) -> i64 {
        if self.lost.is_empty() {
            self.number() as i64
        } else {
            DEGRADED as i64
        }
    }

    /// Whether its owner, or one the lists name, asks at `host`.
    pub fn lets_in(&self, asker: &Owner, host: &str, is_member: impl Fn(&str) -> bool) -> bool {
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

fn moment(clock: &ClockTable, wall: Wall) -> Time {
    if wall.0 == i64::MAX {
        Time::NEVER
    } else {
        clock.time(wall)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A reservation that comes so many times, an hour each, a day apart.
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
    fn an_advance_reservation_is_confirmed_runs_and_is_over() {
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
    fn a_recurring_reservation_waits_for_its_next_window() {
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
    fn nothing_comes_of_one_that_was_denied_or_deleted() {
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
    fn its_owner_and_those_named_are_let_in() {
        let reservation = reservation(1);
        let asker = |uid, user: &str| Owner {
            user: user.into(),
            uid,
            gid: uid,
        };
        let lets_in = |uid, user, groups: &[&str]| {
            reservation.lets_in(&asker(uid, user), "head", |name| groups.contains(&name))
        };
        assert!(
            lets_in(1000, "alice", &[])
                && lets_in(1001, "bob", &[])
                && lets_in(1002, "dave", &["staff"])
        );
        assert!(!lets_in(1003, "carol", &["staff"]) && !lets_in(1004, "eve", &[]));
        assert!(!reservation.lets_in(&asker(1001, "bob"), "elsewhere", |_| false));
    }

    #[test]
    fn its_window_admits_who_is_in_its_queue() {
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
