//! Charges for attempts: the resources held, multiplied by the duration and by the charge factors
//! of the queue and the quality of service. A factor of 0 means no charge. The final charge uses
//! the duration that the shepherd, the process that runs the attempt, has measured.
//!
//! A charge is stored in the transaction in which the attempt ends, is suspended or releases nodes.
//! The scheduler's view is updated after the commit; a transaction that is rolled back charges
//! nothing.

use crate::model::account::charge::Charge;
use crate::model::job::Job;
use crate::model::job::NodeShare;
use crate::model::job::Run;
use crate::model::job::event::Event;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::server::setup::Setup;

/// The charge of a running job, with an open end. None if the job does not run, is suspended or
/// is not charged.
pub fn of_running(setup: &Setup, job: &Job) -> Option<Charge> {
    let run = job.life.open_run().filter(|run| !run.is_stopped())?;
    charged(setup, job).map(|factor| Charge::of(job, run, factor))
}

/// The final charge for an attempt that has just ended. `event`, if given, is the event that ended
/// it. Without a final measurement by the shepherd, the last reported duration counts. None if the
/// attempt has not ended or is not charged.
pub fn of_ended(setup: &Setup, job: &Job, event: Option<&Event>, now: Time) -> Option<Charge> {
    let run = job.life.run.as_ref().filter(|run| !run.open)?;
    let factor = charged(setup, job)?;
    let charge = Charge::of(job, run, factor);
    // The running time before the last suspension is charged already.
    let before = charge
        .from
        .since(run.started + run.pauses().total)
        .max(Span(0));
    let rest = Span(lasted(job, event).0.saturating_sub(before.0).max(0));
    let to = (charge.from + rest).min(now);
    Some(charge.until(to))
}

/// The charge up to the suspension that starts now. Suspended time is free, even if the job keeps
/// resources.
pub fn of_stopped(setup: &Setup, job: &Job, now: Time) -> Option<Charge> {
    let run = job.life.open_run()?;
    charged(setup, job).map(|factor| Charge::of(job, run, factor).until(now))
}

/// The charge for the shares that a job with an open attempt releases now. If the job is suspended,
/// the charge ends at the suspension.
pub fn of_released(setup: &Setup, job: &Job, released: &[NodeShare], now: Time) -> Option<Charge> {
    let run = job.life.open_run()?;
    let part = Run {
        shares: released.to_vec(),
        ..run.clone()
    };
    let now = run
        .suspension
        .as_ref()
        .and_then(|suspension| suspension.still)
        .unwrap_or(now);
    charged(setup, job).map(|factor| Charge::of(job, &part, factor).until(now))
}

/// The running time of the latest attempt. `event`, if given, has just ended the attempt. 0 if the
/// attempt never ran.
pub fn lasted(job: &Job, event: Option<&Event>) -> Span {
    match event {
        Some(Event::Ended { outcome, .. }) if !outcome.how.ran() => Span(0),
        Some(Event::Ended { outcome, .. }) => outcome.used.walltime.max(job.life.used.walltime),
        _ => job.life.used.walltime,
    }
}

/// The charge factor of a job, from its quality of service and its queue. The queue of a
/// reservation has no charge factor (I5, X24).
pub fn factor(setup: &Setup, job: &Job) -> f64 {
    setup
        .policy
        .qualities
        .charge(job.spec.qos.as_deref(), setup.queue(&job.spec.queue))
}

/// The charge factor of a job; None if the factor is not positive.
fn charged(setup: &Setup, job: &Job) -> Option<f64> {
    Some(factor(setup, job)).filter(|factor| *factor > 0.0)
}
