//! Accounting records. Each ended attempt has one, except a failed start that is retried. A job
//! that ends while it waits also has one.
//!
//! A record is stored in the transaction that ends the attempt or job, together with the charge.
//! Therefore each such end has exactly one record. A job ended by force gets its record at once,
//! and no second record when its attempt ends.

use crate::model::account::accounting::AccountingEntry;
use crate::model::account::accounting::AttemptCredentials;
use crate::model::account::accounting::AttemptTimes;
use crate::model::account::accounting::JobEnd;
use crate::model::account::accounting::RequestedResources;
use crate::model::job::Job;
use crate::model::job::NodeShare;
use crate::model::job::Run;
use crate::model::job::Usage;
use crate::model::job::event::Event;
use crate::model::job::held::Held;
use crate::model::job::state::JobState;
use crate::model::time::ClockTable;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::server::charging;
use crate::server::setup::Setup;
use crate::update::Update;

/// The inputs of an accounting record.
pub struct AccountingContext<'a> {
    /// The configuration, which has the charge factors.
    pub setup: &'a Setup,
    /// Maps server time to wall-clock time.
    pub clock: &'a ClockTable,
    /// Time of the record.
    pub now: Time,
}

impl AccountingContext<'_> {
    /// The record for an attempt that has just ended. `event`, if given, is the event that ended
    /// it. None if the attempt has not ended, or for a failed start that is retried.
    pub fn of_attempt(&self, job: &Job, event: Option<&Event>) -> Option<Update> {
        let run = job.life.run.as_ref().filter(|run| !run.open)?;
        let ran = !matches!(event, Some(Event::Ended { outcome, .. }) if !outcome.how.ran());
        if !ran && job.life.state != JobState::Finished {
            return None;
        }
        Some(self.row(
            job,
            Some((run, used(job, event))),
            charging::lasted(job, event),
        ))
    }

    /// The record for a job that is ended by force now, before its node reports the end. The record
    /// counts the last reported usage, and the nodes as held until now. None if the job has no open
    /// attempt.
    pub fn of_forced(&self, job: &Job) -> Option<Update> {
        let run = job.life.open_run()?;
        Some(self.row(job, Some((run, job.life.used)), run.ran(self.now)))
    }

    /// The record for a job that ends now without a running attempt.
    pub fn of_waiting(&self, job: &Job) -> Update {
        self.row(job, None, Span(0))
    }

    fn row(&self, job: &Job, attempt: Option<(&Run, Usage)>, lasted: Span) -> Update {
        let (spec, run) = (&job.spec, attempt.map(|(run, _)| run));
        let shares = run.map_or_else(Vec::new, Run::all_shares);
        let held = Held::of(&shares);
        let kept = run.map_or_else(Held::default, |run| Held::of(&run.shares));
        let released = run.map_or(0, Run::released_core_ms);
        let suspended = run.map_or(Span(0), |run| run.suspended_time(self.now));
        let ended = run.map_or(self.now, |run| {
            (run.started + lasted + suspended).min(self.now)
        });
        let length = run.map_or(Span(0), |run| {
            Span(ended.since(run.started + suspended).0.max(0))
        });
        let entry = AccountingEntry {
            job: job.id,
            attempt: run.map_or(0, |run| run.attempt),
            name: spec.name.clone(),
            of: parties(job),
            stamps: self.stamps(job, run, ended),
            end: job.life.exit.map(|exit| JobEnd {
                status: exit.status,
                deleted: exit.deleted,
            }),
            places: shares
                .iter()
                .map(|share| (share.host.clone(), processors(share)))
                .collect(),
            asked: RequestedResources::of(&spec.request),
            held,
            used: Usage {
                walltime: length,
                ..attempt.map(|(_, used)| used).unwrap_or_default()
            },
            core_ms: length
                .0
                .saturating_mul(kept.cores.into())
                .saturating_add(released),
            factor: charging::factor(self.setup, job),
            made_way: match run {
                Some(run) if job.was_preempted(run) => job.life.preemption.clone(),
                _ => None,
            },
        };
        Update::Entry(self.now, Box::new(entry))
    }

    fn stamps(&self, job: &Job, run: Option<&Run>, ended: Time) -> AttemptTimes {
        let wall = |time| self.clock.wall_ms(time);
        // A step of the wall clock does not count as waiting time.
        let eligible = |since: Time| {
            run.map_or(wall(since), |run| {
                wall(run.started) - run.started.since(since).0
            })
        };
        AttemptTimes {
            submitted: wall(job.life.ctime),
            eligible: job.life.etime.map(eligible),
            began: run.map(|run| wall(run.started)),
            ended: wall(ended),
        }
    }
}

/// The usage of an attempt: for each resource, the larger of the last reported value and the final
/// value in `event`.
fn used(job: &Job, event: Option<&Event>) -> Usage {
    let (known, Some(Event::Ended { outcome, .. })) = (job.life.used, event) else {
        return job.life.used;
    };
    let reported = outcome.used;
    Usage {
        walltime: known.walltime.max(reported.walltime),
        cput: known.cput.max(reported.cput),
        mem_kb: known.mem_kb.max(reported.mem_kb),
        vmem_kb: known.vmem_kb.max(reported.vmem_kb),
        ncpus: known.ncpus.max(reported.ncpus),
    }
}

fn parties(job: &Job) -> AttemptCredentials {
    let spec = &job.spec;
    AttemptCredentials {
        user: job.owner.user.clone(),
        gid: job.owner.gid,
        account: spec.account.clone().unwrap_or_default(),
        project: spec.project.clone(),
        queue: spec.queue.clone(),
        qos: spec.qos.clone().unwrap_or_default(),
    }
}

fn processors(share: &NodeShare) -> u32 {
    Held::of(std::slice::from_ref(share)).cores
}
