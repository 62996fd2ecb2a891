//! The entries of the accounts: one for each attempt that is over, and one for a job that ends
//! while it waits.
//!
//! An entry is written in the transaction of the end it tells of, beside the charge, so the
//! accounts lack no job and have none twice: the end of an attempt whose job was ended by force
//! before adds none. A start that failed and is tried again leaves none.

use crate::model::account::accounting::AccountingEntry;
use crate::model::account::accounting::JobEnd;
use crate::model::account::accounting::Parties;
use crate::model::account::accounting::RequestedResources;
use crate::model::account::accounting::Stamps;
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

/// What an entry is made by.
pub struct AccountingContext<'a> {
    /// What is charged where.
    pub setup: &'a Setup,
    /// What a watch showed when.
    pub clock: &'a ClockTable,
    /// This moment.
    pub now: Time,
}

impl AccountingContext<'_> {
    /// The row for a job's attempt that is over just now, and by which event, if by one; None if it
    /// was a start that failed and is tried again.
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

    /// The row for a job that is over by force just now, whatever its node says of the attempt and
    /// when: what is known of that now is what stays in the accounts. Until now the attempt has had
    /// its nodes.
    pub fn of_forced(&self, job: &Job) -> Option<Update> {
        let run = job.life.open_run()?;
        Some(self.row(job, Some((run, job.life.used)), run.ran(self.now)))
    }

    /// The row for a job that has ended just now and does not run.
    pub fn of_waiting(&self, job: &Job) -> Update {
        self.row(job, None, Span(0))
    }

    fn row(&self, job: &Job, attempt: Option<(&Run, Usage)>, lasted: Span) -> Update {
        let (spec, run) = (&job.spec, attempt.map(|(run, _)| run));
        let shares = run.map_or_else(Vec::new, Run::all_shares);
        let held = Held::of(&shares);
        let kept = run.map_or_else(Held::default, |run| Held::of(&run.shares));
        let released = run.map_or(0, Run::released_core_ms);
        let stood = run.map_or(Span(0), |run| run.stood_still(self.now));
        let ended = run.map_or(self.now, |run| (run.started + lasted + stood).min(self.now));
        let length = run.map_or(Span(0), |run| {
            Span(ended.since(run.started + stood).0.max(0))
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
                Some(run) if job.makes_way(run) => job.life.preemption.clone(),
                _ => None,
            },
        };
        Update::Entry(self.now, Box::new(entry))
    }

    fn stamps(&self, job: &Job, run: Option<&Run>, ended: Time) -> Stamps {
        let wall = |time| self.clock.wall_ms(time);
        // No step of the wall clock is taken for waiting.
        let eligible = |since: Time| {
            run.map_or(wall(since), |run| {
                wall(run.started) - run.started.since(since).0
            })
        };
        Stamps {
            submitted: wall(job.life.ctime),
            eligible: job.life.etime.map(eligible),
            began: run.map(|run| wall(run.started)),
            ended: wall(ended),
        }
    }
}

/// What an attempt used: what its nodes told last, or its end. A job that was declared over before
/// has taken in nothing since.
fn used(job: &Job, event: Option<&Event>) -> Usage {
    let (known, Some(Event::Ended { outcome, .. })) = (job.life.used, event) else {
        return job.life.used;
    };
    let told = outcome.used;
    Usage {
        walltime: known.walltime.max(told.walltime),
        cput: known.cput.max(told.cput),
        mem_kb: known.mem_kb.max(told.mem_kb),
        vmem_kb: known.vmem_kb.max(told.vmem_kb),
        ncpus: known.ncpus.max(told.ncpus),
    }
}

fn parties(job: &Job) -> Parties {
    let spec = &job.spec;
    Parties {
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
