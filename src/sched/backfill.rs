//! EASY backfill: the first job that is blocked is promised its earliest start, and others pass
//! only where they do not delay it.
//!
//! Example: 16 processors, 8 of them busy until 1:00. Job 2 wants 16 and is promised 1:00 (the
//! *shadow time*). Job 3 wants 8 for 30 minutes: it is over by then and starts. Job 4 wants 8 for
//! two hours and would still hold them at 1:00: it waits, though it fits now. Were there a 17th
//! processor, a job of one processor could start beside the promise, however long it is.
//! (Lifka 1995, The ANL/IBM SP scheduling system.)

use super::cluster::{NodeIx, Room};
use super::shape::Shape;
use super::space::{Claim, Space};
use super::timeline::Opening;
use super::{allocation, matching};
use crate::model::job::JobId;
use crate::model::reason::Reason;
use crate::model::time::Time;
use std::collections::BTreeMap;

/// What stands between the blocked job and those behind it.
pub struct Fence<'s> {
    /// The blocked job.
    pub holder: JobId,
    /// When it is to start; `Time::NEVER` when nobody can tell.
    pub at: Time,
    /// What others may have beyond that time; None when nothing passes at all.
    beside: Option<Beside<'s>>,
}

struct Beside<'s> {
    /// The rooms of the promised nodes at that time, the promised job being there.
    spare: BTreeMap<NodeIx, Room>,
    /// What is free now and stays free: all nodes, the promised ones cut down to their spare.
    space: Space<'s>,
}

impl<'s> Fence<'s> {
    /// A fence that nothing passes.
    pub fn closed(holder: JobId, at: Time) -> Fence<'s> {
        Fence { holder, at, beside: None }
    }

    /// A fence around the nodes on which the holder will start.
    pub fn around(holder: JobId, opening: Opening<'s>, shape: &Shape, now: &Space<'s>) -> Fence<'s> {
        let mut then = opening.space;
        let claim = allocation::claim(then.cluster, shape, &opening.placement);
        then.claim(&claim);
        let spare = claim.holds.keys().map(|&ix| (ix, then.room(ix).clone())).collect();
        let mut beside = Beside { spare, space: now.clone() };
        beside.space.narrow_pools(&then);
        claim.holds.keys().for_each(|&ix| beside.settle(ix, now));
        Fence { holder, at: opening.at, beside: Some(beside) }
    }

    /// Whether a job of this shape that ends at `until` leaves the promise alone, when it fits now.
    pub fn lets_pass(&self, until: Time) -> bool {
        self.beside.is_some() && until <= self.at
    }

    /// Where a job may go that would run beyond the promised start.
    pub fn beside(&self, shape: &Shape) -> Result<matching::Placement, Reason> {
        let placement = self.beside.as_ref().and_then(|beside| matching::fit(&beside.space, shape).ok());
        placement.ok_or(Reason::WouldDelayBooking { holder: self.holder, at: self.at })
    }

    /// Another job has started: what it took is gone, and if it stays, is gone then, too.
    pub fn account(&mut self, claim: &Claim, until: Time, now: &Space<'s>) {
        let Some(beside) = &mut self.beside else { return };
        claim.holds.values().filter(|_| until > self.at).for_each(|taken| beside.space.take_pools(taken));
        beside.space.narrow_pools(now);
        for (ix, taken) in &claim.holds {
            if let Some(room) = beside.spare.get_mut(ix).filter(|_| until > self.at) {
                room.admit(taken, claim.tenant);
            }
            beside.settle(*ix, now);
        }
    }
}

impl<'s> Beside<'s> {
    fn settle(&mut self, ix: NodeIx, now: &Space<'s>) {
        let mut room = now.room(ix).clone();
        if let Some(spare) = self.spare.get(&ix) {
            room.narrow(spare);
        }
        self.space.refile(ix, room);
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job::JobId;
    use crate::model::reason::Reason;
    use crate::model::time::Time;
    use crate::sched::fixture::{Scene, cluster};

    /// 16 processors, 8 busy until 3600; job 2 wants all for an hour.
    fn blocked() -> Scene {
        cluster("1 x ncpus=16")
            .running(1, "select=1:ncpus=8", "n1", 3600)
            .queued(2, "select=1:ncpus=16 walltime=1:00:00")
    }

    #[test]
    fn a_filler_may_not_delay_the_booked_job() {
        let scene =
            blocked().queued(3, "select=1:ncpus=8 walltime=0:30:00").queued(4, "select=1:ncpus=8 walltime=2:00:00");
        assert_eq!(scene.starts(), "3 on n1");
        assert_eq!(scene.booked(), "2 at 3600 on n1");
        let alone = blocked().queued(4, "select=1:ncpus=8 walltime=2:00:00");
        assert_eq!(alone.reason(4), Some(Reason::WouldDelayBooking { holder: JobId::job(2), at: Time(3_600_000) }));
    }

    #[test]
    fn a_filler_may_end_at_the_very_moment() {
        assert_eq!(blocked().queued(3, "select=1:ncpus=8 walltime=1:00:00").starts(), "3 on n1");
        assert_eq!(blocked().queued(3, "select=1:ncpus=8 walltime=1:00:01").starts(), "");
    }

    #[test]
    fn a_long_job_may_run_beside_the_booking() {
        let scene = cluster("1 x ncpus=16, 1 x ncpus=2")
            .running(1, "select=1:ncpus=8", "n1", 3600)
            .queued(2, "select=1:ncpus=14 walltime=1:00:00")
            .queued(3, "select=2:ncpus=1")
            .queued(4, "select=2:ncpus=2");
        assert_eq!(scene.starts(), "3 on n2,n2");
        assert_eq!(scene.why(4), "Not Running: Job would conflict with the promised start of job 2");
    }

    #[test]
    fn an_exclusive_filler_stays_off_the_booked_nodes() {
        let scene = cluster("2 x ncpus=8")
            .running(1, "select=1:ncpus=8", "n1", 3600)
            .queued(2, "select=2:ncpus=2 place=scatter")
            .queued(3, "select=1:ncpus=1 place=excl")
            .queued(4, "select=1:ncpus=1 place=excl walltime=1:00:00");
        assert_eq!(scene.starts(), "4 on n2");
    }

    #[test]
    fn the_booking_follows_an_early_end() {
        // M28: A 1 of 2 until 3 h, B wants 2 for 1 h, C 1 for 2 h.
        let mut scene = cluster("1 x ncpus=2")
            .running(1, "select=1:ncpus=1", "n1", 3 * 3600)
            .queued(2, "select=1:ncpus=2 walltime=1:00:00")
            .queued(3, "select=1:ncpus=1 walltime=2:00:00");
        assert_eq!((scene.starts().as_str(), scene.booked().as_str()), ("3 on n1", "2 at 10800 on n1"));
        let plan = scene.plan();
        scene.apply(&plan);
        scene.state.vacate(JobId::job(1));
        let scene = scene.at(3600);
        assert_eq!((scene.starts().as_str(), scene.booked().as_str()), ("", "2 at 7200 on n1"));
    }

    #[test]
    fn without_backfill_nothing_passes() {
        let scene = blocked().strictly().queued(3, "select=1:ncpus=1 walltime=0:01:00").queued(4, "select=1:ncpus=9");
        assert_eq!(scene.starts(), "");
        assert_eq!(scene.reason(3).unwrap().code(), "would_delay_booking");
        assert_eq!(scene.reason(4).unwrap().code(), "busy");
    }

    #[test]
    fn only_a_job_that_can_be_told_a_time_is_booked() {
        let scene = cluster("2 x ncpus=8")
            .node("n2", "ncpus=16", false)
            .running(1, "select=1:ncpus=4", "n1", 600)
            .queued(2, "select=1:ncpus=16")
            .queued(3, "select=1:ncpus=99")
            .queued(4, "select=1:ncpus=8")
            .queued(5, "select=1:ncpus=8 walltime=1:00");
        assert_eq!(scene.booked(), "4 at 600 on n1");
        assert_eq!(scene.reason(3).unwrap().code(), "never_enough");
    }

    #[test]
    fn a_job_past_its_walltime_ends_soon_but_not_now() {
        let scene = blocked().queued(3, "select=1:ncpus=8 walltime=0:30:00").at(7200);
        let plan = scene.plan();
        assert_eq!(plan.bookings[0].at, Time(7_200_001));
        assert!(plan.starts.is_empty());
        assert_eq!(plan.next, None);
    }

    #[test]
    fn a_second_cycle_decides_nothing() {
        let mut scene =
            blocked().queued(3, "select=1:ncpus=4 walltime=0:30:00").queued(4, "select=1:ncpus=4 walltime=2:00:00");
        let plan = scene.plan();
        scene.apply(&plan);
        assert_eq!(scene.starts(), "");
        assert_eq!(scene.booked(), "2 at 3600 on n1");
    }
}
