//! Limits of backfill: how many jobs behind a blocked job are considered, and whether freed
//! resources are held for wide jobs (jobs that request many CPUs).

use crate::model::policy::{Backfill, Filling};
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::view::current_bookings::CurrentBookings;

/// The state of the backfill limits in one cycle.
#[derive(Default)]
pub struct BackfillLimits {
    /// The number of jobs considered behind the first blocked job.
    considered: u32,
    /// Whether a wide job is blocked.
    wide: bool,
}

impl BackfillLimits {
    /// M36: counts one more job behind a blocked job, or refuses the job. A job that already has a
    /// planned start (`is_promised`) is never refused. It is counted, too: otherwise the next cycle
    /// would consider other jobs even if nothing had changed.
    pub fn consider(&mut self, policy: &Backfill, is_promised: bool) -> Result<(), Reason> {
        if !self.has_depth_left(policy) && !is_promised {
            return Err(Reason::BackfillDepth {
                limit: policy.consider,
            });
        }
        self.considered = self.considered.saturating_add(1);
        Ok(())
    }

    /// Whether the limit allows the cycle to consider one more job.
    pub fn has_depth_left(&self, policy: &Backfill) -> bool {
        policy.consider == 0 || self.considered < policy.consider
    }

    /// Whether each job must be considered separately, because the number of considered jobs is
    /// limited and the limit is not reached. Then the refusal of a job does not hold for its class.
    pub fn counts(&self, policy: &Backfill) -> bool {
        self.considered < policy.consider
    }

    /// Notes a blocked job that requests `processors` CPUs.
    pub fn note_blocked(&mut self, policy: &Backfill, processors: i64) {
        self.wide |= policy
            .chunk
            .is_some_and(|chunk| processors >= i64::from(chunk.size));
    }

    /// M35: refuses a job that requests `processors` CPUs and is not wide, if recently freed
    /// resources are held for a wide job. Applies only to first-fit backfill.
    pub fn check_set_aside(
        &self,
        policy: &Backfill,
        bookings: &CurrentBookings,
        processors: i64,
        now: Time,
    ) -> Result<(), Reason> {
        if !self.wide || policy.policy != Filling::FirstFit {
            return Ok(());
        }
        let Some((chunk, freed)) = policy.chunk.zip(bookings.freed(now)) else {
            return Ok(());
        };
        let until = freed + chunk.duration;
        if now < until && processors < i64::from(chunk.size) {
            return Err(Reason::KeptForWider {
                size: chunk.size,
                until,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::SetAside;
    use crate::model::time::Span;

    /// M35: freed resources are held only for wide jobs.
    #[test]
    fn freed_resources_are_held_for_wide_jobs() {
        let chunk = Some(SetAside {
            size: 4,
            duration: Span::seconds(300),
        });
        let policy = Backfill {
            chunk,
            ..Backfill::default()
        };
        let mut bookings = CurrentBookings::default();
        bookings.note_release(Time(9));
        let refused = |limits: &BackfillLimits, processors| {
            limits
                .check_set_aside(&policy, &bookings, processors, Time(0))
                .is_err()
        };
        let mut limits = BackfillLimits::default();
        limits.note_blocked(&policy, 3);
        assert!(!refused(&limits, 3), "no wide job is blocked");
        limits.note_blocked(&policy, 4);
        assert_eq!(
            [3, 4, 5].map(|processors| refused(&limits, processors)),
            [true, false, false]
        );
        assert!(
            limits
                .check_set_aside(&policy, &CurrentBookings::default(), 3, Time(0))
                .is_ok(),
            "no resources have become free"
        );
    }
}
