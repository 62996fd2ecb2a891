//! The promises in force, and what has happened since they were made.
//!
//! A cycle only reads them. Whoever carries out its plan has the state take it over
//! ([`ClusterState::take_over`]), and so the next cycle knows what was promised.

use super::plan::{Booking, Plan};
use super::snapshot::ClusterState;
use crate::model::job::preemption::{JobPreemption, PreemptAction};
use crate::model::job::promise::PromisedStart;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A job past its walltime counts as ending this long after now: as soon as can be, but later.
pub const OVERDUE: Span = Span(1);

/// What the last plan promised, and what has happened since.
#[derive(Clone, Debug, Default)]
pub struct CurrentBookings {
    promises: BTreeMap<JobId, Booking>,
    /// The latest moment until which something was planned to run that is over now.
    released: Option<Time>,
    /// Waiting jobs that must not be put back into the queue once they run; arrays once.
    lasting: BTreeSet<JobId>,
    /// Running jobs that must make way when a promise is due (M34).
    backfilled: BTreeSet<JobId>,
    /// Running jobs that have been told to make way, for whom, and how.
    preempted: BTreeMap<JobId, (Option<JobId>, PreemptAction)>,
    /// Running elements beyond what their arrays limit themselves to, with that limit (Q15).
    over_limit: BTreeMap<JobId, u32>,
    /// When something ended last, as far as plans know.
    freed: Option<Time>,
}

/// How long room is kept for whom others have made way for, once they have.
pub(in crate::sched) const KEPT: Span = Span::seconds(60);

impl CurrentBookings {
    /// The promises, by job.
    pub fn promises(&self) -> impl Iterator<Item = &Booking> {
        self.promises.values()
    }

    /// What a job is promised.
    pub fn promise(&self, job: JobId) -> Option<&Booking> {
        self.promises.get(&job)
    }

    /// Whether something is free from now on that was expected to be taken.
    pub fn is_loose(&self, now: Time) -> bool {
        self.released.is_some_and(|until| until > now)
    }

    /// Whether nothing has ended since the last plan.
    pub fn is_as_planned(&self) -> bool {
        self.released.is_none()
    }

    /// When something became free last.
    pub fn freed(&self, now: Time) -> Option<Time> {
        self.released.map(|_| now).or(self.freed)
    }

    /// Whether a job may be put back into the queue.
    pub fn note_rerunnable(&mut self, job: JobId, rerunnable: bool) {
        if rerunnable {
            self.lasting.remove(&job)
        } else {
            self.lasting.insert(job)
        };
    }

    /// Whether a job may have room on loan: it can be put back into the queue (M34).
    pub fn may_borrow(&self, job: JobId) -> bool {
        !self.lasting.contains(&job.parent().unwrap_or(job))
    }

    /// A job is over that could have run until then.
    pub fn note_end(&mut self, job: JobId, until: Time) {
        self.backfilled.remove(&job);
        self.preempted.remove(&job);
        self.over_limit.remove(&job);
        self.note_release(until);
    }

    /// A running job that could have run until then gives back something of what it had, or
    /// earlier.
    pub fn note_release(&mut self, until: Time) {
        self.released = self.released.max(Some(until));
    }

    /// The running jobs that must make way when a promise is due.
    pub fn preemptible_backfill(&self) -> impl DoubleEndedIterator<Item = JobId> {
        self.backfilled.iter().copied()
    }

    /// A running job was told to make way, or was not.
    pub fn note_told(&mut self, job: JobId, told: Option<&JobPreemption>) {
        match told {
            Some(told) => drop(self.preempted.insert(job, (told.to, told.action))),
            None => drop(self.preempted.remove(&job)),
        }
    }

    /// Whether a running job has been told to make way. One that may finish first stays if the
    /// other has found room elsewhere, or wants it no more.
    pub fn is_preempted(&self, job: JobId) -> bool {
        self.preempted
            .get(&job)
            .is_some_and(|way| self.is_awaited(*way))
    }

    fn is_awaited(&self, (to, action): (Option<JobId>, PreemptAction)) -> bool {
        if !action.waits_for_end() {
            return true;
        }
        let booking = to.and_then(|to| self.promise(to));
        booking.is_some_and(|booking| booking.held_until.is_some())
    }

    /// The running jobs that have been told to make way, each with how.
    pub fn preempted(&self) -> impl Iterator<Item = (JobId, PreemptAction)> + '_ {
        let awaited = self
            .preempted
            .iter()
            .filter(|(_, way)| self.is_awaited(**way));
        awaited.map(|(&job, &(_, action))| (job, action))
    }

    /// The running jobs that leave for one of these.
    pub fn preempted_for(&self, is_meant: impl Fn(JobId) -> bool) -> impl Iterator<Item = JobId> {
        self.preempted
            .iter()
            .filter(move |(_, (to, _))| to.is_some_and(&is_meant))
            .map(|(job, _)| *job)
    }

    /// A running element goes beyond so many that its array limits itself to.
    pub fn note_extra(&mut self, element: JobId, limit: u32) {
        self.over_limit.insert(element, limit);
    }

    /// A job has what it was promised.
    pub fn redeem(&mut self, job: JobId) {
        self.promises.remove(&job);
    }
}

impl ClusterState {
    /// When what a running job has can be given to others at the latest, as seen from `now`: a job
    /// past its walltime ends at once but later than now, and a filler makes way at any moment.
    pub(in crate::sched) fn planned_end(&self, job: JobId, until: Time, now: Time) -> Time {
        let soonest = now + OVERDUE;
        if self.makes_way(job) {
            soonest
        } else {
            until.max(soonest)
        }
    }

    /// The running jobs whose resources can be given to others at any moment: fillers, and
    /// preempted jobs.
    pub(in crate::sched) fn making_way(&self) -> impl Iterator<Item = JobId> + '_ {
        let preempted = self
            .bookings
            .preempted
            .keys()
            .filter(|job| !self.bookings.backfilled.contains(job));
        self.bookings
            .backfilled
            .iter()
            .chain(preempted)
            .copied()
            .filter(|job| self.makes_way(*job))
    }

    /// A job that may finish ends when its walltime is over. If it has none, its end is unknown:
    /// the job that preempts it could be promised nothing, and its resources would not be kept.
    fn makes_way(&self, job: JobId) -> bool {
        if self.bookings.backfilled.contains(&job) {
            return true;
        }
        let Some((_, action)) = self.bookings.preempted.get(&job) else {
            return false;
        };
        let is_endless = self
            .running
            .get(&job)
            .is_some_and(|running| running.is_endless());
        self.bookings.is_preempted(job) && (!action.waits_for_end() || is_endless)
    }

    /// The running elements beyond what their arrays limit themselves to, which they have because
    /// nobody else wanted the room (Q15): of those that were started so the last ones, as many as
    /// run above the limit now.
    pub fn over_limit_subjobs(&self) -> Vec<JobId> {
        let over_limit: Vec<(JobId, u32)> = self
            .bookings
            .over_limit
            .iter()
            .map(|(&id, &limit)| (id, limit))
            .collect();
        let of_arrays = over_limit.chunk_by(|(one, _), (other, _)| one.number == other.number);
        of_arrays
            .flat_map(|of_array| self.over_limit_among(of_array))
            .collect()
    }

    fn over_limit_among(&self, of_array: &[(JobId, u32)]) -> Vec<JobId> {
        let Some(&(last, limit)) = of_array.last() else {
            return Vec::new();
        };
        let above = self.running_elements(last.number).saturating_sub(limit);
        of_array
            .iter()
            .rev()
            .take(above as usize)
            .map(|&(id, _)| id)
            .collect()
    }

    /// How many elements of an array run.
    pub(in crate::sched) fn running_elements(&self, array: u64) -> u32 {
        self.running
            .range(JobId::element(array, 0)..=JobId::element(array, u32::MAX))
            .count() as u32
    }

    /// Takes note of what a plan promises. To be told of each plan before or after its starts are
    /// carried out, but before anything else happens.
    pub fn take_over(&mut self, plan: &Plan) {
        self.count_bypasses(plan);
        self.starvation = plan.starving.clone().unwrap_or_default();
        self.bookings.promises = plan
            .bookings
            .iter()
            .map(|booking| (booking.job, booking.clone()))
            .collect();
        self.bookings.backfilled.extend(
            plan.starts
                .iter()
                .filter(|start| start.preemptible)
                .map(|start| start.job),
        );
        self.bookings.preempted.extend(
            plan.preempts
                .iter()
                .map(|way| (way.job, (way.by, way.action))),
        );
        let over_limit = plan
            .starts
            .iter()
            .filter_map(|start| Some((start.job, start.beyond?)));
        self.bookings.over_limit.extend(over_limit);
        self.bookings.freed = self.bookings.freed(plan.now);
        self.bookings.released = None;
    }

    /// Until when the room is kept at least that others make for a job that waits: as long as any
    /// of them has not made way yet, and a while longer.
    pub(in crate::sched) fn held_until(&self, job: JobId, now: Time) -> Option<Time> {
        let booking = self.bookings.promise(job)?;
        let until = booking.held_until?;
        // Told anew only once half of it is over: it is written down.
        let goes_on = until.since(now).0 < KEPT.0 / 2 && self.is_made_way_for(booking);
        let until = if goes_on { now + KEPT } else { until };
        (until > now).then_some(until)
    }

    /// Whether anybody still makes way for a promise: for its job, or on its nodes for one that has
    /// found room elsewhere, perhaps where others had made way for this one.
    fn is_made_way_for(&self, booking: &Booking) -> bool {
        self.bookings.preempted.iter().any(|(leaver, (to, _))| {
            to.is_some_and(|to| {
                to == booking.job
                    || (self.bookings.promise(to).is_none() && self.is_on(*leaver, &booking.nodes))
            })
        })
    }

    fn is_on(&self, job: JobId, nodes: &[String]) -> bool {
        let on = self
            .running
            .get(&job)
            .into_iter()
            .flat_map(|running| &running.nodes);
        on.map(|&ix| &self.cluster.node(ix).name)
            .any(|name| nodes.contains(name))
    }

    /// Whether a waiting job is to have what others give up for it.
    pub fn keeps_room_for(&self, job: JobId) -> bool {
        self.bookings
            .promise(job)
            .is_some_and(|booking| booking.held_until.is_some())
    }

    /// Stands by what a candidate was promised by an earlier scheduler, for so long. What has
    /// become free since that one decided last is not known: so the start may come earlier.
    pub fn recall(&mut self, job: JobId, promise: &PromisedStart, span: Span) {
        let Some(class) = self.class_of(job) else {
            return;
        };
        self.edition += 1;
        let (at, nodes) = (promise.at, promise.nodes.as_slice().into());
        let booking = Booking {
            job,
            class,
            at,
            until: at + span,
            nodes,
            was: None,
            cause: None,
            held_until: promise.held_until,
        };
        self.bookings.promises.insert(job, booking);
        self.bookings.note_release(at);
    }
}

#[cfg(test)]
mod tests {
    use super::CurrentBookings;
    use crate::model::job::preemption::{JobPreemption, PreemptAction, PreemptCause};
    use crate::model::job::promise::PromisedStart;
    use crate::model::job_id::JobId;
    use crate::model::policy::{Backfill, BookingRetention, Filling};
    use crate::model::time::{Span, Time};
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::view::plan::Plan;

    /// M32: job 2 was promised 600 before job 3 went ahead of it; then another scheduler took over.
    #[test]
    fn what_an_earlier_scheduler_promised_is_kept_and_comes_forward_when_something_is_free() {
        let fixture = || {
            let fixture = cluster("1 x ncpus=4")
                .queued(2, "select=1:ncpus=4 walltime=100")
                .queued(3, "select=1:ncpus=3 walltime=50 rank=1");
            let mut fixture = fixture.running(1, "select=1:ncpus=4", "n1", 600);
            fixture.policy.backfill = Backfill {
                keep: BookingRetention::Highest,
                ..Backfill::default()
            };
            fixture
        };
        let recalled = |mut fixture: TestCluster| {
            let promise = PromisedStart {
                at: Time(600_000),
                first: Time(600_000),
                nodes: vec!["n1".to_string()],
                held_until: None,
            };
            fixture
                .state
                .recall(JobId::job(2), &promise, Span::seconds(100));
            fixture
                .state
                .recall(JobId::job(9), &promise, Span::seconds(100));
            fixture
        };
        assert_eq!(fixture().booked(), "3 at 600 on n1");
        assert_eq!(
            recalled(fixture()).booked(),
            "3 at 700 on n1; 2 at 600 on n1"
        );
        let mut free = fixture();
        free.state.vacate(JobId::job(1));
        free.state.take_over(&Plan::new(Time(0)));
        let free = recalled(free);
        assert_eq!(
            (free.starts().as_str(), free.booked().as_str()),
            ("3 on n1", "2 at 50 on n1")
        );
    }

    /// A cycle takes what the last one has found out for what is so now unless something has been
    /// counted since.
    #[test]
    fn what_is_said_of_jobs_later_is_counted_as_a_change() {
        let fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=2", "n1", 60)
            .queued(2, "select=1:ncpus=4");
        let mut last = fixture.state.edition;
        let mut is_counted = |fixture: TestCluster, what: &str| {
            assert!(fixture.state.edition > last, "{what}");
            last = fixture.state.edition;
            fixture
        };
        let fixture = is_counted(fixture.candidate(JobId::job(1), 0, 5.0, |_| ()), "tenure");
        let mut fixture = is_counted(
            fixture.suspended(3, "select=1:ncpus=1", "n1", 10, 0.0),
            "a suspended job",
        );
        let promise = PromisedStart {
            at: Time(60_000),
            first: Time(60_000),
            nodes: vec!["n1".to_string()],
            held_until: None,
        };
        fixture
            .state
            .recall(JobId::job(2), &promise, Span::seconds(100));
        is_counted(fixture, "a promise");
    }

    /// M34.
    #[test]
    fn an_unchanged_job_stays_backfilled() {
        let mut fixture = cluster("2 x ncpus=4").running(1, "select=1:ncpus=2", "n1", 60);
        let job = JobId::job(1);
        fixture.state.take_over(&Plan::new(Time(0)));
        fixture.state.bookings.backfilled.insert(job);
        let fixture = fixture.running(1, "select=1:ncpus=2", "n1", 60);
        assert!(
            fixture.state.bookings.preemptible_backfill().eq([job])
                && !fixture.state.bookings.is_loose(Time(0))
        );
        let fixture = fixture.running(1, "select=1:ncpus=1", "n1", 60);
        assert!(
            fixture.state.bookings.preemptible_backfill().eq([job])
                && fixture.state.bookings.is_loose(Time(0))
        );
    }

    /// M34: what a filler has can be promised at any moment, once, whether it would ever end or
    /// not.
    #[test]
    fn room_of_backfilled_jobs_is_booked_at_once_for_one_job() {
        for (until, other) in [
            (i64::MAX, "place=excl"),
            (50, "place=excl"),
            (i64::MAX, "place=free"),
            (50, "place=free"),
        ] {
            // Where a job that wants nodes alone waits in a stopped queue, promises are pinned,
            // else counted.
            let fixture = cluster("1 x ncpus=4")
                .queued(99, &format!("select=1:ncpus=2 {other} queue=stopped"));
            let mut fixture = fixture.running(1, "select=1:ncpus=2", "n1", until).running(
                3,
                "select=1:ncpus=2",
                "n1",
                100,
            );
            fixture.state.bookings.backfilled.insert(JobId::job(1));
            for is_told in [false, true] {
                let way = JobPreemption {
                    attempt: None,
                    to: None,
                    cause: PreemptCause::Promise,
                    action: PreemptAction::Requeue,
                    at: Time(0),
                };
                fixture
                    .state
                    .bookings
                    .note_told(JobId::job(1), Some(&way).filter(|_| is_told));
                let case = format!("{until} {other} {is_told}");
                assert_eq!(
                    fixture.clone().queued(2, "select=1:ncpus=2").booked(),
                    "2 at 0 on n1",
                    "{case}"
                );
                assert_eq!(
                    fixture.clone().queued(2, "select=1:ncpus=4").booked(),
                    "2 at 100 on n1",
                    "{case}"
                );
            }
        }
    }

    /// Q11: who may finish what it is at does not leave for one that waits for its room no more.
    #[test]
    fn who_may_finish_makes_way_for_nobody_who_does_not_wait() {
        let (job, mut bookings) = (JobId::job(1), CurrentBookings::default());
        let to = Some(JobId::job(2));
        bookings.note_told(
            job,
            Some(&JobPreemption {
                attempt: None,
                to,
                cause: PreemptCause::Rank,
                action: PreemptAction::Finish,
                at: Time(0),
            }),
        );
        assert_eq!(
            (bookings.is_preempted(job), bookings.preempted().count()),
            (false, 0)
        );
        bookings.note_told(
            job,
            Some(&JobPreemption {
                attempt: None,
                to,
                cause: PreemptCause::Rank,
                action: PreemptAction::Requeue,
                at: Time(0),
            }),
        );
        assert!(
            bookings.is_preempted(job) && bookings.preempted().eq([(job, PreemptAction::Requeue)])
        );
    }

    /// M34: what fillers give back is kept for the promise, and where nobody gives anything back
    /// nothing is.
    #[test]
    fn room_of_preempted_backfill_is_held_for_the_preemptor() {
        for (job, kept) in [(JobId::job(1), Some(Time(60_000))), (JobId::job(9), None)] {
            let mut fixture = cluster("1 x ncpus=4").running(1, "select=1:ncpus=4", "n1", 100);
            fixture.policy.backfill.policy = Filling::Preempt;
            fixture.state.bookings.backfilled.insert(job);
            let plan = fixture.queued(2, "select=1:ncpus=4").plan();
            let kept_for: Vec<_> = plan
                .bookings
                .iter()
                .map(|booking| (booking.job, booking.held_until))
                .collect();
            assert_eq!(kept_for, [(JobId::job(2), kept)], "{plan}");
        }
    }
}
