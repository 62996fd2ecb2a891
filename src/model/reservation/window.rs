//! A window: what a reservation sets aside, from when to when, and for whom.
//!
//! It is what the scheduler sees of an advance reservation (`R12`), of one occurrence of a standing
//! one (`S13.2`), or of a `[[reservation]]` of the configuration (`night.20`). Whether somebody may
//! use it is a pure question of credentials ([`Window::admits`]). Where windows lie on top of each
//! other, all that are open on a node must admit (M39).

use crate::model::credentials::Credentials;
use crate::model::job::NodeShare;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Asks for any window that admits, instead of one by its name.
pub const ANY: &str = "*";

/// Resources of nodes set aside for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The reservation's name, and of a standing one the number of the occurrence after a dot.
    pub id: String,
    /// When it opens.
    pub from: Time,
    /// When it closes; `Time::NEVER` for one without an end.
    pub to: Time,
    /// What it sets aside, task by task. A task is as much of one node; how the jobs inside use
    /// what lies on a node together is not bound to the tasks' shape (M38).
    pub shares: Vec<NodeShare>,
    /// Its nodes belong to it as a whole, whatever its shares say: who is kept out gets nothing of
    /// them.
    pub whole: bool,
    /// Who may use it.
    pub access: WindowAccess,
    /// Only those may use it who ask for it by its name (M42, `BYNAME`).
    pub by_name: bool,
    /// Those it is for may preempt those who are in it besides (M42, `OWNERPREEMPT`).
    pub owner_preempts: bool,
}

/// Who may use a window: one entry that fits grants access (M37).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowAccess {
    /// Users by name; [`ANY`] for all, in each of these lists of names.
    pub users: Vec<String>,
    /// Primary groups, by number.
    pub groups: Vec<u32>,
    /// Projects.
    pub projects: Vec<String>,
    /// Accounts.
    pub accounts: Vec<String>,
    /// Queues, Maui's classes.
    pub queues: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    /// Jobs of at most this walltime.
    pub duration: Option<Span>,
    /// How long a job may overlap the window.
    pub limit: Option<TimeLimit>,
}

/// `TIMELIMIT`: how long a job may overlap a window (M41).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimit {
    /// At most so long.
    pub most: Span,
    /// Binds those too who have access by another entry; else it is one more entry, and grants
    /// such an overlap to everybody.
    pub binds_all: bool,
}

/// How a window treats a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// May use what it sets aside.
    Inside,
    /// May use it while they overlap by no more than this (M41).
    For(Span),
    /// May use nothing of it.
    KeptOut,
}

impl Admission {
    /// Whether a job that runs from `start` to `end` may use the window.
    pub fn permits(self, window: &Window, start: Time, end: Time) -> bool {
        match self {
            Admission::Inside => true,
            Admission::For(most) => window.overlap(start, end) <= most,
            Admission::KeptOut => !window.meets(start, end),
        }
    }
}

impl Window {
    /// How the window treats a job with these credentials and this walltime that asks for this
    /// reservation by name, for [`ANY`], or for none.
    pub fn admits(&self, who: &Credentials, asks_for: Option<&str>, walltime: Span) -> Admission {
        if self.by_name && !asks_for.is_some_and(|asked| self.is_called(asked)) {
            return Admission::KeptOut;
        }
        let is_granted = self.access.grants(who, walltime);
        // A limit binds those with access, or it grants access to the others.
        match self.access.limit {
            Some(limit) if limit.binds_all == is_granted => Admission::For(limit.most),
            _ if is_granted => Admission::Inside,
            _ => Admission::KeptOut,
        }
    }

    /// Whether `asked` is its id, its reservation's name, or [`ANY`].
    pub fn is_called(&self, asked: &str) -> bool {
        asked == ANY || asked == self.id || asked == self.name()
    }

    /// The name of its reservation: `S13` of `S13.2`.
    pub fn name(&self) -> &str {
        match self.id.rsplit_once('.') {
            Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => &self.id,
        }
    }

    /// Whether it is open at this moment.
    pub fn is_open(&self, now: Time) -> bool {
        self.from <= now && now < self.to
    }

    /// Whether something that lasts from `start` to `end` and the window have a moment in common.
    pub fn meets(&self, start: Time, end: Time) -> bool {
        start < self.to && self.from < end
    }

    /// How long something that lasts from `start` to `end` and the window are there together.
    pub fn overlap(&self, start: Time, end: Time) -> Span {
        end.min(self.to).since(start.max(self.from))
    }

    /// Whether jobs in it are ended when it closes: those in the queue of its name.
    pub fn ends_jobs(&self) -> bool {
        self.access.queues.iter().any(|queue| queue == self.name())
    }

    /// Whether it sets something aside on this node.
    pub fn covers(&self, node: &str) -> bool {
        self.shares.iter().any(|share| share.node == node)
    }
}

impl WindowAccess {
    /// Whether one of the entries fits; the time limit is none of them.
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
    fn m37_one_entry_that_fits_grants_access() {
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
    fn m39_where_windows_are_stacked_all_must_admit() {
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
    fn m41_a_time_limit_lets_short_overlaps_pass() {
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
    fn m42_one_that_must_be_asked_for_admits_nobody_else() {
        let window = Window {
            by_name: true,
            ..window(for_john())
        };
        let admits = |asked| window.admits(&who("john", USERS), asked, HOUR);
        assert_eq!(admits(None), Admission::KeptOut);
        assert_eq!(admits(Some("ann")), Admission::KeptOut);
        for asked in ["john.1", "john", ANY] {
            assert_eq!(admits(Some(asked)), Admission::Inside, "{asked}");
        }
        assert_eq!(
            window.admits(&who("mary", USERS), Some("john.1"), HOUR),
            Admission::KeptOut
        );
    }

    #[test]
    fn what_ends_as_a_window_opens_does_not_meet_it() {
        let window = window(for_john());
        assert!(!window.meets(Time(0), window.from) && !window.meets(window.to, Time::NEVER));
        assert_eq!(window.overlap(Time(0), Time::NEVER), HOUR);
        assert_eq!(window.overlap(window.to, Time::NEVER), Span(0));
        assert!(window.is_open(window.from) && !window.is_open(window.to));
        assert!(Admission::KeptOut.permits(&window, Time(0), window.from));
        assert!(!Admission::KeptOut.permits(&window, Time(0), Time::NEVER));
    }
}
