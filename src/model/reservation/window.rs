//! Reservation windows: resources that a reservation sets aside for a period, with access rules.
//!
//! The scheduler uses windows for an advance reservation (`R12`), an occurrence of a standing
//! reservation (`S13.2`), and an instance of a `[[reservation]]` of the configuration
//! (`night.20261123`). Access depends on the credentials, the walltime and the requested
//! reservation of a job ([`Window::admits`]). Where windows overlap on a node, a job needs access
//! to all open windows (M39).

use crate::model::credentials::Credentials;
use crate::model::job::NodeShare;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// A job that requests this name as its reservation may use any window to which it has access. In a
/// list of names, this name matches all names.
pub const ANY: &str = "*";

/// Resources of nodes set aside for a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Name of the reservation. For a recurring reservation, a dot and the number or date of the
    /// occurrence follow.
    pub id: String,
    /// Opening time.
    pub from: Time,
    /// Closing time; `Time::NEVER` without an end.
    pub to: Time,
    /// Resources set aside: one share for each chunk. A share is on one node. Jobs in the window
    /// may divide the total of a node in any way (M38).
    pub shares: Vec<NodeShare>,
    /// True if the window reserves entire nodes: jobs without access get nothing on the nodes of
    /// `shares`.
    pub whole: bool,
    /// Access rules.
    pub access: WindowAccess,
    /// True if jobs must request the window by name (M42, `BYNAME`).
    pub by_name: bool,
    /// True if the reservation has the flag `ownerpreempt` (M42), which has no effect.
    pub owner_preempts: bool,
}

/// Access rules of a window: one matching entry grants access (M37).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowAccess {
    /// User names; in this and all other lists of names, [`ANY`] matches all names.
    pub users: Vec<String>,
    /// Primary group ids.
    pub groups: Vec<u32>,
    /// Names of projects.
    pub projects: Vec<String>,
    /// Names of accounts.
    pub accounts: Vec<String>,
    /// Names of queues (Maui's classes).
    pub queues: Vec<String>,
    /// Names of qualities of service.
    pub qos: Vec<String>,
    /// Jobs with at most this walltime have access.
    pub duration: Option<Span>,
    /// Limit on the overlap of a job with the window; None for no limit.
    pub limit: Option<TimeLimit>,
}

/// `TIMELIMIT`: limit on the overlap of a job with a window (M41).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimit {
    /// Maximum overlap.
    pub most: Span,
    /// If true, the limit applies to jobs to which another entry grants access, and all other jobs
    /// have no access. If false, jobs to which another entry grants access have full access, and
    /// the limit applies to all other jobs.
    pub binds_all: bool,
}

/// Access of a job to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Full access to the resources set aside.
    Inside,
    /// Access if the job overlaps the window for at most this time (M41).
    For(Span),
    /// No access.
    KeptOut,
}

impl Admission {
    /// Tests whether a job with this access may use the window's resources from `start` to `end`.
    pub fn permits(self, window: &Window, start: Time, end: Time) -> bool {
        match self {
            Admission::Inside => true,
            Admission::For(most) => window.overlap(start, end) <= most,
            Admission::KeptOut => !window.meets(start, end),
        }
    }
}

impl Window {
    /// Returns the access of a job. `requested` is the name of the requested reservation, [`ANY`],
    /// or None.
    pub fn admits(&self, who: &Credentials, requested: Option<&str>, walltime: Span) -> Admission {
        if self.by_name && !requested.is_some_and(|name| self.has_name(name)) {
            return Admission::KeptOut;
        }
        let is_granted = self.access.grants(who, walltime);
        // With binds_all, the limit restricts jobs with access; otherwise the limit grants access
        // to all other jobs.
        match self.access.limit {
            Some(limit) if limit.binds_all == is_granted => Admission::For(limit.most),
            _ if is_granted => Admission::Inside,
            _ => Admission::KeptOut,
        }
    }

    /// Tests whether `name` is the id, the reservation's name, or [`ANY`].
    pub fn has_name(&self, name: &str) -> bool {
        name == ANY || name == self.id || name == self.name()
    }

    /// Returns the name of the reservation: `S13` for `S13.2`.
    pub fn name(&self) -> &str {
        match self.id.rsplit_once('.') {
            Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => &self.id,
        }
    }

    /// Tests whether the window is open at `now`.
    pub fn is_open(&self, now: Time) -> bool {
        self.from <= now && now < self.to
    }

    /// Tests whether the period from `start` to `end` overlaps the window.
    pub fn meets(&self, start: Time, end: Time) -> bool {
        start < self.to && self.from < end
    }

    /// Returns the overlap of the period from `start` to `end` with the window.
    pub fn overlap(&self, start: Time, end: Time) -> Span {
        end.min(self.to).since(start.max(self.from))
    }

    /// Tests whether a queue with the name of the reservation has access. Running jobs in that
    /// queue are ended when the window closes.
    pub fn ends_jobs(&self) -> bool {
        self.access.queues.iter().any(|queue| queue == self.name())
    }

    /// Tests whether the window has resources on `node`.
    pub fn covers(&self, node: &str) -> bool {
        self.shares.iter().any(|share| share.node == node)
    }
}

impl WindowAccess {
    /// Tests whether an entry other than `limit` grants access.
    pub fn grants(&self, who: &Credentials, walltime: Span) -> bool {
        let names = [
            (&self.users, Some(&who.user)),
            (&self.projects, Some(&who.project)),
            (&self.accounts, who.account.as_ref()),
            (&self.queues, Some(&who.queue)),
            (&self.qos, who.qos.as_ref()),
        ];
        names
            .into_iter()
            .any(|(list, name)| name.is_some_and(|name| is_named(list, name)))
            || self.groups.contains(&who.gid)
            || self.duration.is_some_and(|longest| walltime <= longest)
    }
}

fn is_named(list: &[String], name: &str) -> bool {
    list.iter().any(|entry| entry == ANY || entry == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::seconds(3600);

    const USERS: u32 = 100;
    const STAFF: u32 = 50;

    fn who(user: &str, gid: u32) -> Credentials {
        Credentials {
            user: user.into(),
            gid,
            project: "p".into(),
            account: None,
            qos: None,
            queue: "workq".into(),
        }
    }

    fn window(access: WindowAccess) -> Window {
        Window {
            id: "john.1".into(),
            from: Time(0) + HOUR,
            to: Time(0) + Span::seconds(7200),
            shares: Vec::new(),
            whole: true,
            access,
            by_name: false,
            owner_preempts: false,
        }
    }

    fn for_john() -> WindowAccess {
        WindowAccess {
            users: vec!["john".into()],
            ..WindowAccess::default()
        }
    }

    #[test]
    fn m37_one_matching_entry_grants_access() {
        let access = WindowAccess {
            groups: vec![STAFF],
            duration: Some(Span::seconds(60)),
            ..for_john()
        };
        let window = window(access);
        let admits = |user, group, walltime| window.admits(&who(user, group), None, walltime);
        assert_eq!(admits("john", USERS, HOUR), Admission::Inside);
        assert_eq!(admits("mary", STAFF, HOUR), Admission::Inside);
        assert_eq!(admits("mary", USERS, Span::seconds(60)), Admission::Inside);
        assert_eq!(admits("mary", USERS, HOUR), Admission::KeptOut);
        let in_queue = WindowAccess {
            queues: vec!["R12".into()],
            accounts: vec![ANY.into()],
            ..WindowAccess::default()
        };
        let own = Credentials {
            queue: "R12".into(),
            ..who("mary", USERS)
        };
        assert!(in_queue.grants(&own, HOUR) && !in_queue.grants(&who("mary", USERS), HOUR));
    }

    #[test]
    fn m39_a_job_needs_access_to_all_overlapping_windows() {
        let stack = [
            window(for_john()),
            window(WindowAccess {
                groups: vec![STAFF],
                ..WindowAccess::default()
            }),
        ];
        let admitted = |group| {
            stack
                .iter()
                .all(|w| w.admits(&who("john", group), None, HOUR) == Admission::Inside)
        };
        assert!(admitted(STAFF) && !admitted(USERS));
    }

    #[test]
    fn m41_a_time_limit_grants_access_or_restricts_it() {
        let limit = Some(TimeLimit {
            most: HOUR,
            binds_all: false,
        });
        let mut window = Window {
            to: Time::NEVER,
            ..window(WindowAccess {
                limit,
                ..for_john()
            })
        };
        let admission = window.admits(&who("mary", USERS), None, HOUR);
        assert_eq!(admission, Admission::For(HOUR));
        let start = window.from;
        assert!(admission.permits(&window, start, start + Span::seconds(50 * 60)));
        assert!(!admission.permits(&window, start, start + Span::seconds(70 * 60)));
        assert_eq!(
            window.admits(&who("john", USERS), None, HOUR),
            Admission::Inside
        );
        window.access.limit = Some(TimeLimit {
            most: HOUR,
            binds_all: true,
        });
        assert_eq!(
            window.admits(&who("mary", USERS), None, HOUR),
            Admission::KeptOut
        );
        assert_eq!(
            window.admits(&who("john", USERS), None, HOUR),
            Admission::For(HOUR)
        );
    }

    #[test]
    fn m42_a_window_by_name_admits_only_jobs_that_request_it() {
        let window = Window {
            by_name: true,
            ..window(for_john())
        };
        let admits = |name| window.admits(&who("john", USERS), name, HOUR);
        assert_eq!(admits(None), Admission::KeptOut);
        assert_eq!(admits(Some("ann")), Admission::KeptOut);
        for name in ["john.1", "john", ANY] {
            assert_eq!(admits(Some(name)), Admission::Inside, "{name}");
        }
        assert_eq!(
            window.admits(&who("mary", USERS), Some("john.1"), HOUR),
            Admission::KeptOut
        );
    }

    #[test]
    fn a_job_that_ends_as_a_window_opens_does_not_overlap() {
        let window = window(for_john());
        assert!(!window.meets(Time(0), window.from) && !window.meets(window.to, Time::NEVER));
        assert_eq!(window.overlap(Time(0), Time::NEVER), HOUR);
        assert_eq!(window.overlap(window.to, Time::NEVER), Span(0));
        assert!(window.is_open(window.from) && !window.is_open(window.to));
        assert!(Admission::KeptOut.permits(&window, Time(0), window.from));
        assert!(!Admission::KeptOut.permits(&window, Time(0), Time::NEVER));
    }
}
