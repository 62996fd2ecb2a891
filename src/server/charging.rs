//! What attempts are charged: as long as they lasted by their shepherd's measure, and what they had
//! in all that time. Nothing in queues that are free of charge.
//!
//! The row is written in the transaction of the attempt's end, and the scheduler's view learns of
//! it when that is on disk, so a tick that is taken back has charged nobody.

use crate::model::account::charge::Charge;
use crate::model::job::Job;
use crate::model::job::NodeShare;
use crate::model::job::Run;
use crate::model::job::event::Event;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::server::setup::Setup;

/// The charge that goes on for a job; None if it does not run, or is not charged.
pub fn of_running(setup: &Setup, job: &Job) -> Option<Charge> {
    let run = job.life.open_run().filter(|run| !run.is_still())?;
    charged(setup, job).map(|factor| Charge::of(job, run, factor))
}

/// The charge for the attempt of a job that is over just now, and by which event, if by one. What
/// no shepherd has measured to its end is charged as far as it was measured.
pub fn of_ended(setup: &Setup, job: &Job, event: Option<&Event>, now: Time) -> Option<Charge> {
    let run = job.life.run.as_ref().filter(|run| !run.open)?;
    let factor = charged(setup, job)?;
    let charge = Charge::of(job, run, factor);
    // What it lasted before it stood still last has been charged.
    let before = charge
        .from
        .since(run.started + run.pauses().total)
        .max(Span(0));
    let rest = Span(lasted(job, event).0.saturating_sub(before.0).max(0));
    let to = (charge.from + rest).min(now);
    Some(charge.until(to))
}

/// The charge for what a job had until it stood still just now: that costs it nothing, whatever it
/// holds.
pub fn of_stopped(setup: &Setup, job: &Job, now: Time) -> Option<Charge> {
    let run = job.life.open_run()?;
    charged(setup, job).map(|factor| Charge::of(job, run, factor).until(now))
}

/// The charge for what a running job has given back just now.
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

/// How long the latest attempt of a job lasted that is over just now, and by which event, if by
/// one.
pub fn lasted(job: &Job, event: Option<&Event>) -> Span {
    match event {
        Some(Event::Ended { outcome, .. }) if !outcome.how.ran() => Span(0),
        Some(Event::Ended { outcome, .. }) => outcome.used.walltime.max(job.life.used.walltime),
        _ => job.life.used.walltime,
    }
}

/// How much of what a job has is charged: as its quality of service says, and its queue, if that is
/// one of the configuration and not of a reservation (I5, X24).
pub fn factor(setup: &Setup, job: &Job) -> f64 {
    setup
        .policy
        .qualities
        .charge(job.spec.qos.as_deref(), setup.queue(&job.spec.queue))
}

/// The same, unless that is nothing.
fn charged(setup: &Setup, job: &Job) -> Option<f64> {
    Some(factor(setup, job)).filter(|factor| *factor > 0.0)
}
