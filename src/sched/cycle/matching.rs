//! Matching: finds nodes on which a job can start now without delaying planned starts or using
//! resources of reservations.
//!
//! There are three exceptions. A job may use resources that were freed by preempting other jobs for
//! this job ([`Privileges`]). A job may use resources of a planned start if it can be preempted
//! when that start is due ([`Privileges`]). A job that requests a reservation uses the resources
//! of the reservation regardless of planned starts.

use super::state::{CycleState, Pass};
use crate::model::policy::Filling;
use crate::model::policy::quality::Flag;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::backfill::reservation_access::ReservationFit;
use crate::sched::placement::place::{self, Placement};
use crate::sched::placement::shortage;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::shape::{ClassKey, Shape};
use std::sync::Arc;

/// The rights of a job to use resources that are closed to other jobs.
#[derive(Clone, Copy)]
struct Privileges {
    /// Resources are held for the job because other jobs were preempted for it.
    is_preemptor: bool,
    /// The job may delay a planned start, because it is preempted when that start is due (M34).
    may_use_booked_resources: bool,
}

/// Nodes on which a job can start now.
pub struct Match {
    /// The node of each chunk.
    pub placement: Placement,
    /// The job uses resources of a planned start and is preempted when that start is due (M34).
    pub is_preemptible: bool,
}

impl Match {
    /// A match of a job that need not be preempted when a planned start is due.
    pub fn without_delay(placement: Placement) -> Match {
        Match {
            placement,
            is_preemptible: false,
        }
    }
}

/// Finds nodes on which a job can start now. The error is the reason why the job does not start. If
/// the job has a planned start for which it need not wait, first removes this start from the
/// calendar.
pub fn find<'s>(
    job: Candidate<'s>,
    pass: Pass,
    cycle: &mut CycleState<'s>,
) -> Result<Match, Arc<Reason>> {
    let promised = cycle.calendar.entry(job.job).map(|promise| promise.at);
    let has_passed_a_blocked_job = cycle.booking_budget.blocked.is_some();
    if has_passed_a_blocked_job && pass != Pass::SoftLimitPlans {
        cycle
            .backfill_limits
            .consider(cycle.backfill(), promised.is_some())?;
    }
    if let Some(at) = promised {
        if cycle.booking_budget.must_wait(at, cycle.now)
            && !cycle.booking_budget.is_preemptor(job.job)
        {
            return Err(not_before(at, job, cycle));
        }
        cycle.calendar.cancel(job.job);
    }
    let found = cycle.match_now(job)?;
    if has_passed_a_blocked_job && promised.is_none() && cycle.never_backfills(job.class) {
        return Err(Reason::NoBackfill.into());
    }
    Ok(found)
}

/// Returns why a job with a planned start at `at` does not start now. This is the reason why the
/// job does not match now. If the job matches, or if its class already has a verdict, the reason is
/// the planned start itself.
fn not_before<'s>(at: Time, job: Candidate<'s>, cycle: &mut CycleState<'s>) -> Arc<Reason> {
    let planned = Arc::new(Reason::WouldDelayBooking {
        holder: job.job,
        at,
    });
    if cycle.refusals.has_verdict(job.class) {
        return planned;
    }
    cycle.match_now(job).err().unwrap_or(planned)
}

impl<'s> CycleState<'s> {
    /// Whether jobs of a class never start while a job of higher priority is blocked (M27).
    pub fn never_backfills(&self, class: &ClassKey) -> bool {
        self.policy
            .qualities
            .flags(class.who.qos.as_deref())
            .contains(&Flag::NoBackfill)
    }

    fn privileges(&self, job: Candidate) -> Privileges {
        // Q9: a job that must not be preempted may not use resources of planned starts.
        let is_preemptible =
            !job.class.protected && self.state.bookings.may_use_booked_resources(job.job);
        Privileges {
            is_preemptor: self.booking_budget.is_preemptor(job.job),
            may_use_booked_resources: is_preemptible && self.may_backfill_planned_resources(),
        }
    }

    /// Whether backfilled jobs may use resources of planned starts: the policy is `Preempt`, this
    /// cycle has preempted no jobs, and no preemptor waits for its resources (G8).
    fn may_backfill_planned_resources(&self) -> bool {
        self.backfill().policy == Filling::Preempt
            && self.plan.preempts.is_empty()
            && !self.booking_budget.has_preemptors()
    }

    /// Finds nodes on which a job delays no planned start, or can be preempted when that start is
    /// due, and uses no resources of reservations. For a job that requests a reservation, finds
    /// nodes within the reservation.
    pub fn match_now(&mut self, job: Candidate) -> Result<Match, Arc<Reason>> {
        let (class, until) = (job.class, self.end_of(job.class));
        let Some(ReservationFit {
            placement,
            is_inside,
        }) = self.windows.fit(&self.space, class, until)?
        else {
            return self.match_without_delay(job);
        };
        if is_inside {
            return Ok(Match::without_delay(placement?));
        }
        // If the job would not fit even without the reservations, it waits for resources or planned
        // starts. This reason is reported first.
        let Match { is_preemptible, .. } = self.match_without_delay(job)?;
        let placement = placement?;
        if is_preemptible {
            return Ok(Match {
                placement,
                is_preemptible,
            });
        }
        self.match_without_delay_or_reserved(class, until, placement)
            .map(Match::without_delay)
    }

    /// Finds nodes on which a job delays no planned start and uses no resources of reservations.
    /// The caller has checked that the job can satisfy each of these two conditions alone. `left`
    /// is a placement that uses no resources of reservations.
    fn match_without_delay_or_reserved(
        &mut self,
        class: &ClassKey,
        until: Time,
        left: Placement,
    ) -> Result<Placement, Arc<Reason>> {
        if self.calendar.ends_before_bookings(until) {
            return Ok(left);
        }
        let shape = &class.shape;
        let beside = self.windows.left(class, until);
        let placement =
            beside.and_then(|left| self.calendar.fit_within(left, &self.space, shape, until));
        match self.calendar.delayed_booking(shape, until) {
            Some((holder, at)) => {
                placement.ok_or_else(|| Arc::new(Reason::WouldDelayBooking { holder, at }))
            }
            None => Ok(left),
        }
    }

    /// Finds nodes on which a job delays no planned start or can be preempted when that start is
    /// due. Ignores reservations.
    fn match_without_delay(&mut self, job: Candidate) -> Result<Match, Arc<Reason>> {
        let (class, privileges) = (job.class, self.privileges(job));
        let (shape, until) = (&class.shape, self.end_of(class));
        if !privileges.is_preemptor
            && let Some(reason) = self.refusals.for_shape(shape)
        {
            return Err(reason);
        }
        if let Some(misfit) = place::misfit(&self.space, shape) {
            return Err(self
                .refusals
                .refuse(shape, shortage::now(&self.space, shape, misfit)));
        }
        if !privileges.is_preemptor
            && let Some((holder, at)) = self.barrier
        {
            // Behind the barrier no job starts, so the refusal holds for the whole shape.
            return Err(self
                .refusals
                .refuse(shape, Reason::WouldDelayBooking { holder, at }));
        }
        self.backfill_limits.check_set_aside(
            self.backfill(),
            &self.state.bookings,
            self.processors(shape),
            self.now,
        )?;
        if self.calendar.ends_before_bookings(until) {
            return self.match_free(shape).map(Match::without_delay);
        }
        if let Some(reason) = self.refusals.for_walltime(shape, self.span_of(class)) {
            return Err(reason);
        }
        // X4: a job without a walltime has no known end, so it could delay every planned start.
        if !privileges.may_use_booked_resources && until == Time::NEVER && class.walltime.is_none()
        {
            return Err(Reason::NoWalltime.into());
        }
        if let Some(placement) = self.calendar.fit_without_delay(&self.space, shape, until) {
            return Ok(Match::without_delay(placement));
        }
        if privileges.may_use_booked_resources {
            let placement = self.match_free(shape)?;
            return Ok(Match {
                placement,
                is_preemptible: true,
            });
        }
        match self.calendar.delayed_booking(shape, until) {
            Some((holder, at)) => Err(Reason::WouldDelayBooking { holder, at }.into()),
            None => self.match_free(shape).map(Match::without_delay),
        }
    }

    /// Finds nodes among all free nodes, regardless of planned starts and reservations.
    pub fn match_free(&mut self, shape: &Shape) -> Result<Placement, Arc<Reason>> {
        let space = &self.space;
        place::fit(space, shape).map_err(|misfit| {
            self.refusals
                .refuse(shape, shortage::now(space, shape, misfit))
        })
    }
}
