//! For each waiting job: the first and the current planned start, and the slips (delays of the
//! planned start) with their causes.
//!
//! A slip is stored as an event of the job. Planned starts may move with each cycle; only changed
//! rows are written. A continuing slip with the same cause is not stored again until the total slip
//! has doubled and has grown by at least [`MIN_CONTINUED_SLIP`].
//!
//! A planned start lapses when a cycle plans none for the job, for example because a node is down.
//! The row of a lapsed planned start is deleted from the spool. In memory, schedd keeps the planned
//! start while the job waits, to compare the next planned start with it.

use crate::model::job::event::Event;
use crate::model::job::promise::{PromisedStart, SlipCause};
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::view::plan::Booking;
use crate::schedd::timers::FIGURES;
use crate::schedd::timers::SOON;
use crate::update::Update;
use std::collections::{BTreeMap, BTreeSet};

/// Shorter slips are not reported.
const MIN_SLIP: Span = Span::seconds(1);
/// Minimum further slip before a continuing slip is reported again.
const MIN_CONTINUED_SLIP: Span = Span::seconds(60);
/// Maximum number of slips of a job that one run of schedd reports.
const MAX_SLIPS: u32 = 100;

/// The current and the lapsed planned starts, and changes that are not in the spool yet.
#[derive(Default)]
pub struct Promises {
    given: BTreeMap<JobId, Kept>,
    /// Jobs with a row to write or to delete.
    unwritten: BTreeSet<JobId>,
    /// Slips to write, each with the time of detection and the job.
    slips: Vec<(Time, JobId, Slip)>,
}

/// A planned start and its reported slips.
struct Kept {
    promise: PromisedStart,
    /// Whether the planned start has lapsed: the latest cycle has planned none.
    lapsed: bool,
    /// The planned start with which the next one is compared to detect a slip.
    reported: Time,
    /// The cause of the last reported slips, and the total length of consecutive slips with this
    /// cause.
    latest: Option<(SlipCause, Span)>,
    slips: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct Slip {
    from: Time,
    to: Time,
    cause: SlipCause,
}

impl Promises {
    /// Starts with the stored planned starts of an earlier schedd.
    pub fn new(written: BTreeMap<JobId, PromisedStart>) -> Promises {
        let given = written
            .into_iter()
            .map(|(job, promise)| (job, Kept::new(promise)))
            .collect();
        Promises {
            given,
            ..Promises::default()
        }
    }

    /// The planned starts of the latest cycle, without lapsed ones.
    pub fn current(&self) -> BTreeMap<JobId, PromisedStart> {
        let kept = self.given.iter().filter(|(_, kept)| !kept.lapsed);
        kept.map(|(job, kept)| (*job, kept.promise.clone()))
            .collect()
    }

    /// Applies the bookings (planned starts) of a cycle. Returns how soon changes must be written;
    /// None without changes. `waits` reports whether a job still waits.
    pub fn update(
        &mut self,
        bookings: &[Booking],
        waits: impl Fn(JobId) -> bool,
        now: Time,
    ) -> Option<Span> {
        let booked: BTreeSet<JobId> = bookings.iter().map(|booking| booking.job).collect();
        let mut delay = None;
        self.given.retain(|job, kept| {
            if booked.contains(job) {
                return true;
            }
            if !std::mem::replace(&mut kept.lapsed, true) {
                self.unwritten.insert(*job);
                delay = Some(FIGURES);
            }
            waits(*job)
        });
        bookings
            .iter()
            .filter_map(|booking| self.keep(booking, now))
            .chain(delay)
            .min()
    }

    /// Applies one booking. Returns how soon the change must be written; None without a change.
    fn keep(&mut self, booking: &Booking, now: Time) -> Option<Span> {
        let mut promise = PromisedStart {
            at: booking.at,
            first: booking.at,
            nodes: booking.nodes.to_vec(),
            held_until: booking.held_until,
        };
        let Some(kept) = self.given.get_mut(&booking.job) else {
            self.given.insert(booking.job, Kept::new(promise));
            self.unwritten.insert(booking.job);
            return Some(SOON);
        };
        promise.first = kept.promise.first;
        let had_lapsed = std::mem::take(&mut kept.lapsed);
        if kept.promise == promise && !had_lapsed {
            return None;
        }
        kept.promise = promise;
        self.unwritten.insert(booking.job);
        // If the view has no earlier planned start, for example after a lapse, the cause of the
        // move is unknown.
        let unknown = booking.was.is_none().then_some(SlipCause::Changed);
        let slip = match booking.cause.clone().or(unknown) {
            Some(cause) => kept.slipped(booking.at, cause),
            None => {
                kept.reported = booking.at;
                None
            }
        };
        let delay = if slip.is_some() || had_lapsed {
            SOON
        } else {
            FIGURES
        };
        self.slips.extend(slip.map(|slip| (now, booking.job, slip)));
        Some(delay)
    }

    /// The updates for changes that are not in the spool yet.
    pub fn changes(&self) -> impl Iterator<Item = Update> {
        let rows = self.unwritten.iter().map(|job| {
            let kept = self.given.get(job).filter(|kept| !kept.lapsed);
            Update::Promise(*job, kept.map(|kept| kept.promise.clone()))
        });
        let events = self.slips.iter().map(|(at, job, slip)| {
            let Slip { from, to, cause } = slip.clone();
            Update::Event(*at, *job, Event::Slipped { from, to, cause })
        });
        rows.chain(events)
    }

    /// Marks all changes as written.
    pub fn written(&mut self) {
        self.unwritten.clear();
        self.slips.clear();
    }
}

impl Kept {
    fn new(promise: PromisedStart) -> Kept {
        Kept {
            reported: promise.at,
            promise,
            lapsed: false,
            latest: None,
            slips: 0,
        }
    }

    /// The slip to report when the planned start moves to `to`; None if it moves by too little or
    /// to an earlier time, or if [`MAX_SLIPS`] slips have been reported.
    fn slipped(&mut self, to: Time, cause: SlipCause) -> Option<Slip> {
        if to <= self.reported {
            (self.reported, self.latest) = (to, None);
            return None;
        }
        let before = self
            .latest
            .as_ref()
            .filter(|(before, _)| *before == cause)
            .map(|&(_, length)| length);
        let length = to.since(self.reported);
        if length < before.map_or(MIN_SLIP, |before| before.max(MIN_CONTINUED_SLIP))
            || self.slips >= MAX_SLIPS
        {
            return None;
        }
        let from = std::mem::replace(&mut self.reported, to);
        self.latest = Some((cause.clone(), length + before.unwrap_or_default()));
        self.slips += 1;
        Some(Slip { from, to, cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(at: i64) -> Kept {
        Kept::new(PromisedStart {
            at: Time(at * 1000),
            first: Time(at * 1000),
            nodes: vec![],
            held_until: None,
        })
    }

    /// The reported slips, each as its old and new time in seconds. The start is first planned at
    /// second 100, and then moves to each time of `moves` (in milliseconds).
    fn reported_slips(moves: &[(i64, SlipCause)]) -> Vec<(i64, i64)> {
        let mut kept = kept(100);
        let slips = moves
            .iter()
            .filter_map(|(to, cause)| kept.slipped(Time(*to), cause.clone()));
        slips
            .map(|slip| (slip.from.0 / 1000, slip.to.0 / 1000))
            .collect()
    }

    fn overdue(job: u64) -> SlipCause {
        SlipCause::Overdue {
            job: JobId::job(job),
        }
    }

    #[test]
    fn a_move_to_a_later_start_is_reported_and_a_move_to_an_earlier_start_is_not() {
        let lost = SlipCause::NodeLost { node: "n1".into() };
        let moves = [
            (200_000, overdue(1)),
            (300_000, lost),
            (250_000, SlipCause::Changed),
            (260_000, overdue(1)),
        ];
        assert_eq!(reported_slips(&moves), [(100, 200), (200, 300), (250, 260)]);
    }

    fn booking(job: u64, at: i64) -> Booking {
        let (job, at) = (JobId::job(job), Time(at * 1000));
        let (class, nodes) = (crate::sched::view::snapshot::ClassId(0), [].into());
        Booking {
            job,
            class,
            at,
            until: at + Span::seconds(60),
            nodes,
            was: None,
            cause: None,
            held_until: None,
        }
    }

    /// The row to write for the promise: planned start and first planned start, in seconds.
    fn row(promises: &Promises) -> Option<(i64, i64)> {
        let promise = promises.changes().find_map(|change| match change {
            Update::Promise(_, promise) => promise,
            _ => None,
        });
        promise.map(|promise| (promise.at.0 / 1000, promise.first.0 / 1000))
    }

    #[test]
    fn the_first_planned_start_survives_a_lapse_while_the_job_waits() {
        let mut promises = Promises::default();
        promises.update(&[booking(1, 100)], |_| true, Time(0));
        promises.written();
        assert!(promises.update(&[], |_| true, Time(1000)).is_some());
        assert!(
            matches!(promises.changes().next(), Some(Update::Promise(_, None))),
            "the row of the lapsed promise is deleted"
        );
        promises.written();
        assert_eq!(promises.update(&[], |_| true, Time(2000)), None);
        promises.update(&[booking(1, 300)], |_| true, Time(3000));
        assert_eq!(
            (row(&promises), promises.slips.len()),
            (Some((300, 100)), 1)
        );
        promises.written();
        promises.update(&[], |_| false, Time(4000));
        promises.update(&[booking(1, 400)], |_| true, Time(5000));
        assert_eq!(
            (row(&promises), promises.slips.len()),
            (Some((400, 400)), 0),
            "the job had started meanwhile"
        );
    }

    #[test]
    fn a_later_planned_start_without_a_cause_is_no_slip() {
        let mut promises = Promises::default();
        promises.update(&[booking(1, 100)], |_| true, Time(0));
        let moved = Booking {
            was: Some(Time(100_000)),
            ..booking(1, 200)
        };
        promises.update(&[moved], |_| true, Time(0));
        assert_eq!(
            (row(&promises), promises.slips.len()),
            (Some((200, 100)), 0)
        );
        promises.update(
            &[Booking {
                cause: Some(overdue(2)),
                ..booking(1, 300)
            }],
            |_| true,
            Time(0),
        );
        assert_eq!(
            promises
                .slips
                .iter()
                .map(|(_, _, slip)| slip.from)
                .collect::<Vec<Time>>(),
            [Time(200_000)]
        );
    }

    #[test]
    fn many_small_slips_with_one_cause_are_reported_a_few_times() {
        let moves: Vec<_> = (0..100_000)
            .map(|step| (100_000 + step * 100, overdue(1)))
            .collect();
        let slips_of_moves = reported_slips(&moves);
        assert_eq!(slips_of_moves[..3], [(100, 101), (101, 161), (161, 222)]);
        assert!(slips_of_moves.len() < 15, "{slips_of_moves:?}");
    }
}
