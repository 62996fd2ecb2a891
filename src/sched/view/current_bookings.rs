//! The planned starts of the last plan, and the events since that plan.
//!
//! A cycle only reads them. [`ClusterState::take_over`] stores the planned starts of a plan for the
//! next cycle.

use super::plan::{Booking, Plan};
use super::snapshot::ClusterState;
use crate::model::job::preemption::{JobPreemption, PreemptAction};
use crate::model::job::promise::PromisedStart;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The assumed remaining time of a running job past its walltime: the shortest possible time.
pub const OVERDUE: Span = Span(1);

/// The planned starts of the last plan, and the events since that plan.
#[derive(Clone, Debug, Default)]
pub struct CurrentBookings {
    promises: BTreeMap<JobId, Booking>,
    /// The latest planned end among the jobs that have ended or released resources since the last
    /// plan; None if there is no such job.
    released: Option<Time>,
    /// The waiting jobs that are not rerunnable; an array is one entry.
    not_rerunnable: BTreeSet<JobId>,
    /// The running backfilled jobs that may be preempted when a planned start is due (M34).
    backfilled: BTreeSet<JobId>,
    /// The running jobs that are being preempted, each with its preemptor and the action.
    preempted: BTreeMap<JobId, (Option<JobId>, PreemptAction)>,
    /// The running subjobs that exceeded their array's limit on running subjobs when they started,
    /// each with that limit (Q15).
    over_limit: BTreeMap<JobId, u32>,
    /// The time at which resources were last freed before the last plan.
    freed: Option<Time>,
}

/// The maximum time for which resources are held for a preemptor after its victims have ended.
pub(in crate::sched) const KEPT: Span = Span::seconds(60);

impl CurrentBookings {
    /// The planned starts, by job.
    pub fn promises(&self) -> impl Iterator<Item = &Booking> {
        self.promises.values()
    }

    /// The planned start of a job.
    pub fn promise(&self, job: JobId) -> Option<&Booking> {
        self.promises.get(&job)
    }

    /// Whether jobs have released resources that they were expected to use after `now`.
    pub fn has_freed_resources(&self, now: Time) -> bool {
        self.released.is_some_and(|until| until > now)
    }

    /// Whether no job has ended or released resources since the last plan.
    pub fn is_as_planned(&self) -> bool {
        self.released.is_none()
    }

    /// The time at which resources were last freed. This is `now` if resources were freed after the
    /// last plan. None if none were ever freed.
    pub fn freed(&self, now: Time) -> Option<Time> {
        self.released.map(|_| now).or(self.freed)
    }

    /// Notes whether a job is rerunnable.
    pub fn note_rerunnable(&mut self, job: JobId, rerunnable: bool) {
        if rerunnable {
            self.not_rerunnable.remove(&job)
        } else {
            self.not_rerunnable.insert(job)
        };
    }

    /// Whether a job may use resources of planned starts, that is, whether it is rerunnable (M34).
    pub fn may_use_booked_resources(&self, job: JobId) -> bool {
        !self.not_rerunnable.contains(&job.parent().unwrap_or(job))
    }

    /// Notes the end of a job that could have run until `until`.
    pub fn note_end(&mut self, job: JobId, until: Time) {
        self.backfilled.remove(&job);
        self.preempted.remove(&job);
        self.over_limit.remove(&job);
        self.note_release(until);
    }

    /// Notes that a job that could have run until `until` has released resources.
    pub fn note_release(&mut self, until: Time) {
        self.released = self.released.max(Some(until));
    }

    /// The running backfilled jobs that may be preempted when a planned start is due.
    pub fn preemptible_backfill(&self) -> impl DoubleEndedIterator<Item = JobId> {
        self.backfilled.iter().copied()
    }

    /// Notes whether a running job is being preempted, and if so, for which job and how.
    pub fn note_preemption(&mut self, job: JobId, preemption: Option<&JobPreemption>) {
        match preemption {
            Some(preemption) => drop(
                self.preempted
                    .insert(job, (preemption.to, preemption.action)),
            ),
            None => drop(self.preempted.remove(&job)),
        }
    }

    /// Whether a running job is being preempted. If the preempted job may run to its end, the
    /// preemption lasts only while resources are held for the preemptor.
    pub fn is_preempted(&self, job: JobId) -> bool {
        self.preempted
            .get(&job)
            .is_some_and(|preemption| self.is_in_progress(*preemption))
    }

    fn is_in_progress(&self, (to, action): (Option<JobId>, PreemptAction)) -> bool {
        if !action.waits_for_end() {
            return true;
        }
        let booking = to.and_then(|to| self.promise(to));
        booking.is_some_and(|booking| booking.held_until.is_some())
    }

    /// The running jobs that are being preempted, each with the action.
    pub fn preempted(&self) -> impl Iterator<Item = (JobId, PreemptAction)> + '_ {
        let awaited = self
            .preempted
            .iter()
            .filter(|(_, preemption)| self.is_in_progress(**preemption));
        awaited.map(|(&job, &(_, action))| (job, action))
    }

    /// The running jobs that are preempted for one of the jobs that `is_preemptor` selects. Does
    /// not check [`is_preempted`](Self::is_preempted).
    pub fn preempted_for(
        &self,
        is_preemptor: impl Fn(JobId) -> bool,
    ) -> impl Iterator<Item = JobId> {
        self.preempted
            .iter()
            .filter(move |(_, (to, _))| to.is_some_and(&is_preemptor))
            .map(|(job, _)| *job)
    }

    /// Notes a running subjob that exceeded its array's limit on running subjobs when it started.
    pub fn note_over_limit(&mut self, element: JobId, limit: u32) {
        self.over_limit.insert(element, limit);
    }

    /// Removes the planned start of a job that has started.
    pub fn remove_promise(&mut self, job: JobId) {
        self.promises.remove(&job);
    }
}

impl ClusterState {
    /// The time at which the resources of a running job are expected to be free. If the job is
    /// overdue or [counts as ending](Self::counts_as_ending), the time is [`OVERDUE`] after `now`.
    /// Otherwise it is `until`, the end of the job's walltime.
    pub(in crate::sched) fn planned_end(&self, job: JobId, until: Time, now: Time) -> Time {
        let soonest = now + OVERDUE;
        if self.counts_as_ending(job) {
            soonest
        } else {
            until.max(soonest)
        }
    }

    /// The running jobs that [count as ending](Self::counts_as_ending): preemptible backfilled
    /// jobs, and jobs that are being preempted.
    pub(in crate::sched) fn jobs_counted_as_ending(&self) -> impl Iterator<Item = JobId> + '_ {
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
            .filter(|job| self.counts_as_ending(*job))
    }

    /// Whether the resources of a running job count as free almost immediately, because the job is
    /// preemptible backfill or is being preempted. A preempted job that may run to its end counts
    /// as ending only if its end is unknown, because its preemptor would otherwise get no planned
    /// start.
    fn counts_as_ending(&self, job: JobId) -> bool {
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

    /// The running subjobs that exceed their array's limit on running subjobs (Q15). If an array
    /// exceeds its limit by N, these are the N subjobs with the highest indices among those that
    /// started above the limit.
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

    /// The number of running subjobs of an array.
    pub(in crate::sched) fn running_elements(&self, array: u64) -> u32 {
        self.running
            .range(JobId::element(array, 0)..=JobId::element(array, u32::MAX))
            .count() as u32
    }

    /// Stores the results of a plan that the next cycle uses, such as planned starts and
    /// preemptions. Must be called once for each plan, before or after the starts of the plan are
    /// carried out, but before any other change.
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
                .map(|victim| (victim.job, (victim.by, victim.action))),
        );
        let over_limit = plan
            .starts
            .iter()
            .filter_map(|start| Some((start.job, start.beyond?)));
        self.bookings.over_limit.extend(over_limit);
        self.bookings.freed = self.bookings.freed(plan.now);
        self.bookings.released = None;
    }

    /// The time until which resources are held for a preemptor: at most [`KEPT`] after the end of
    /// the last victim that [`has_ending_victims`](Self::has_ending_victims) counts. None if no
    /// resources are held.
    pub(in crate::sched) fn held_until(&self, job: JobId, now: Time) -> Option<Time> {
        let booking = self.bookings.promise(job)?;
        let until = booking.held_until?;
        // The time is extended only when less than half of `KEPT` is left, because each extension
        // is written to disk.
        let is_extended = until.since(now).0 < KEPT.0 / 2 && self.has_ending_victims(booking);
        let until = if is_extended { now + KEPT } else { until };
        (until > now).then_some(until)
    }

    /// Whether victims of the job of a booking are still ending. Victims of another preemptor also
    /// count if they are on the nodes of the booking and that preemptor has no planned start any
    /// more. That preemptor has possibly started on resources that were freed for the job of
    /// the booking.
    fn has_ending_victims(&self, booking: &Booking) -> bool {
        self.bookings.preempted.iter().any(|(victim, (to, _))| {
            to.is_some_and(|to| {
                to == booking.job
                    || (self.bookings.promise(to).is_none() && self.is_on(*victim, &booking.nodes))
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

    /// Whether resources are held for a waiting job.
    pub fn holds_resources_for(&self, job: JobId) -> bool {
        self.bookings
            .promise(job)
            .is_some_and(|booking| booking.held_until.is_some())
    }

    /// Restores a start that schedd planned for a waiting job before schedd was restarted. Does
    /// nothing if the job no longer waits. Resources may have been freed in the meantime, so the
    /// planned start may become earlier.
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

    /// M32: job 2 got a planned start at second 600, then job 3 was moved before job 2, then schedd
    /// restarted.
    #[test]
    fn a_restored_planned_start_is_kept_and_becomes_earlier_when_resources_are_free() {
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

    /// A cycle reuses the results of the last cycle unless the edition has changed.
    #[test]
    fn new_facts_about_jobs_increment_the_edition() {
        let fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=2", "n1", 60)
            .queued(2, "select=1:ncpus=4");
        let mut last = fixture.state.edition;
        let mut is_counted = |fixture: TestCluster, what: &str| {
            assert!(fixture.state.edition > last, "{what}");
            last = fixture.state.edition;
            fixture
        };
        let fixture = is_counted(
            fixture.candidate(JobId::job(1), 0, 5.0, |_| ()),
            "preemption candidate",
        );
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
        is_counted(fixture, "a planned start");
    }

    /// M34.
    #[test]
    fn a_backfilled_job_that_is_reported_again_stays_backfilled() {
        let mut fixture = cluster("2 x ncpus=4").running(1, "select=1:ncpus=2", "n1", 60);
        let job = JobId::job(1);
        fixture.state.take_over(&Plan::new(Time(0)));
        fixture.state.bookings.backfilled.insert(job);
        let fixture = fixture.running(1, "select=1:ncpus=2", "n1", 60);
        assert!(
            fixture.state.bookings.preemptible_backfill().eq([job])
                && !fixture.state.bookings.has_freed_resources(Time(0))
        );
        let fixture = fixture.running(1, "select=1:ncpus=1", "n1", 60);
        assert!(
            fixture.state.bookings.preemptible_backfill().eq([job])
                && fixture.state.bookings.has_freed_resources(Time(0))
        );
    }

    /// M34: a planned start can use the resources of a preemptible backfilled job at once, whether
    /// or not the end of the job is known.
    #[test]
    fn the_resources_of_a_backfilled_job_can_be_booked_at_once() {
        for (until, other) in [
            (i64::MAX, "place=excl"),
            (50, "place=excl"),
            (i64::MAX, "place=free"),
            (50, "place=free"),
        ] {
            // If job 99 requests exclusive nodes, planned starts are pinned to nodes; otherwise
            // only amounts are counted. Job 99 is in a stopped queue and never starts.
            let fixture = cluster("1 x ncpus=4")
                .queued(99, &format!("select=1:ncpus=2 {other} queue=stopped"));
            let mut fixture = fixture.running(1, "select=1:ncpus=2", "n1", until).running(
                3,
                "select=1:ncpus=2",
                "n1",
                100,
            );
            fixture.state.bookings.backfilled.insert(JobId::job(1));
            for is_preempted in [false, true] {
                let preemption = JobPreemption {
                    attempt: None,
                    to: None,
                    cause: PreemptCause::Promise,
                    action: PreemptAction::Requeue,
                    at: Time(0),
                };
                fixture
                    .state
                    .bookings
                    .note_preemption(JobId::job(1), Some(&preemption).filter(|_| is_preempted));
                let case = format!("{until} {other} {is_preempted}");
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

    /// Q11: with action `Finish`, a preempted job may run to its end.
    #[test]
    fn a_finishing_job_is_not_preempted_for_a_job_without_held_resources() {
        let (job, mut bookings) = (JobId::job(1), CurrentBookings::default());
        let to = Some(JobId::job(2));
        bookings.note_preemption(
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
        bookings.note_preemption(
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

    /// M34. Job 1 is preemptible backfill only in the first case.
    #[test]
    fn resources_of_preempted_backfill_are_held_for_the_preemptor() {
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
