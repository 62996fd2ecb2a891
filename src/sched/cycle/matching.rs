//! Matching: the nodes on which a job can start now, beside planned starts and reservations.
//!
//! A job may use resources that are held from other jobs in two cases ([`Privileges`]): jobs were
//! preempted for it, or it can itself be preempted when a planned start is due.

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

/// The rights of a job to resources that are held from other jobs.
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
    /// A match that delays no planned start.
    pub fn owned(placement: Placement) -> Match {
        Match {
            placement,
            is_preemptible: false,
        }
    }
}

/// Finds nodes on which a job delays no planned start. The error is the reason why there are none.
pub fn find<'s>(
    job: Candidate<'s>,
    pass: Pass,
    cycle: &mut CycleState<'s>,
) -> Result<Match, Arc<Reason>> {
    let promised = cycle.calendar.promise(job.job).map(|promise| promise.at);
    let has_passed_a_blocked_job = cycle.promises.blocked.is_some();
    if has_passed_a_blocked_job && pass != Pass::SoftLimitPlans {
        cycle
            .backfill_limits
            .consider(cycle.backfill(), promised.is_some())?;
    }
    if let Some(at) = promised {
        if cycle.promises.must_wait(at, cycle.now) && !cycle.promises.is_preemptor(job.job) {
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

/// Returns why a job with a planned start does not start now: the lack of resources, or else the
/// planned start itself.
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
            is_preemptor: self.promises.is_preemptor(job.job),
            may_use_booked_resources: is_preemptible && self.lends_planned_resources(),
        }
    }

    /// Whether backfilled jobs may use resources of planned starts. They may not while jobs are
    /// being preempted (G8).
    fn lends_planned_resources(&self) -> bool {
        self.backfill().policy == Filling::Preempt
            && self.plan.preempts.is_empty()
            && !self.promises.has_preemptors()
    }

    /// Finds nodes for a job beside planned starts and reservations, or within its reservation.
    pub fn match_now(&mut self, job: Candidate) -> Result<Match, Arc<Reason>> {
        let (class, until) = (job.class, self.end_of(job.class));
        let Some(ReservationFit {
            placement,
            is_inside,
        }) = self.windows.fit(&self.space, class, until)?
        else {
            return self.match_beside_plans(job);
        };
        if is_inside {
            return Ok(Match::owned(placement?));
        }
        // A job that also does not fit on the nodes without reservations waits for resources.
        let Match { is_preemptible, .. } = self.match_beside_plans(job)?;
        let placement = placement?;
        if is_preemptible {
            return Ok(Match {
                placement,
                is_preemptible,
            });
        }
        self.match_beside_both(class, until, placement)
            .map(Match::owned)
    }

    /// Finds nodes beside planned starts and reservations, for a job that fits beside planned
    /// starts alone and beside reservations alone. `left` is its placement beside reservations.
    fn match_beside_both(
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
            beside.and_then(|left| self.calendar.within(left, &self.space, shape, until));
        match self.calendar.in_the_way(shape, until) {
            Some((holder, at)) => {
                placement.ok_or_else(|| Arc::new(Reason::WouldDelayBooking { holder, at }))
            }
            None => Ok(left),
        }
    }

    /// Finds nodes beside planned starts, as if there were no reservations.
    fn match_beside_plans(&mut self, job: Candidate) -> Result<Match, Arc<Reason>> {
        let (class, privileges) = (job.class, self.privileges(job));
        let (shape, until) = (&class.shape, self.end_of(class));
        if !privileges.is_preemptor
            && let Some(reason) = self.refusals.of_shape(shape)
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
            // No job starts any more, so the refusal holds for the whole shape.
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
            return self.match_free(shape).map(Match::owned);
        }
        if let Some(reason) = self.refusals.of_span(shape, self.span_of(class)) {
            return Err(reason);
        }
        // X4: the end of the job is unknown.
        if !privileges.may_use_booked_resources && until == Time::NEVER && class.walltime.is_none()
        {
            return Err(Reason::NoWalltime.into());
        }
        if let Some(placement) = self.calendar.beside(&self.space, shape, until) {
            return Ok(Match::owned(placement));
        }
        if privileges.may_use_booked_resources {
            let placement = self.match_free(shape)?;
            return Ok(Match {
                placement,
                is_preemptible: true,
            });
        }
        match self.calendar.in_the_way(shape, until) {
            Some((holder, at)) => Err(Reason::WouldDelayBooking { holder, at }.into()),
            None => self.match_free(shape).map(Match::owned),
        }
    }

    /// Finds nodes among all free ones, regardless of planned starts.
    pub fn match_free(&mut self, shape: &Shape) -> Result<Placement, Arc<Reason>> {
        let space = &self.space;
        place::fit(space, shape).map_err(|misfit| {
            self.refusals
                .refuse(shape, shortage::now(space, shape, misfit))
        })
    }
}
