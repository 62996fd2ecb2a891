//! schedd's start: take the spool, load what is not over, go on where the last one stopped.

use super::charging;
use super::clock::{Clock, Saved};
use super::grantees::Grantees;
use super::ledger::Ledger;
use super::settling::Settling;
use super::setup::Setup;
use super::timers;
use crate::model::job::JobId;
use crate::model::job::promise::Promise;
use crate::model::reason::Reason;
use crate::model::reservation::Reservation;
use crate::model::time::Time;
use crate::spool::lock::Lock;
use crate::spool::{self, Spool};
use crate::update::Update;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a start comes to.
pub struct Recovered {
    /// Held as long as this schedd lives.
    pub lock: Lock,
    /// The writer's connection.
    pub spool: Spool,
    /// The working state.
    pub ledger: Ledger,
    /// One more than the last schedd's.
    pub epoch: u64,
    /// Classes with a verdict on disk, to be found wrong or right by the first cycle.
    pub verdicts: BTreeMap<u64, (Reason, Time)>,
    /// The nodes to be waited for.
    pub settling: Settling,
    /// The starts promised.
    pub promises: BTreeMap<JobId, Promise>,
    /// The number of the last cycle that is known.
    pub last_cycle: u64,
}

/// Takes the spool of `setup` and reads it.
pub fn recover(setup: Setup) -> Result<Recovered> {
    let lock = Lock::take(&setup.home)?;
    let file = spool::file(&setup.home);
    let mut spool = Spool::open(&file).with_context(|| file.display().to_string())?;
    let reading = timers::read_clocks();
    let saved: Option<Saved> = spool.meta("clock")?;
    let new = saved.is_none();
    let clock = match saved {
        Some(saved) => Clock::resume(saved, spool.clock()?, &reading),
        None => Clock::new(&reading),
    };
    let epoch = spool.meta::<u64>("epoch")?.unwrap_or(0) + 1;
    let reservations = spool.reservations()?;
    let grantees = spool.meta(Grantees::KEY)?.unwrap_or_default();
    let setup = setup
        .granted_to(grantees)
        .with_overrides(Arc::new(spool.amendments()?));
    for misfit in &setup.misfits {
        tracing::warn!(
            "what qmgr has said does not fit {}: {misfit}",
            setup.home.config.display()
        );
    }
    let mut first = first_changes(&setup, &clock, new, epoch)?;
    let queues = reservations.iter().filter_map(Reservation::queue);
    first.push(Update::Queues(
        setup.queues.iter().cloned().chain(queues).collect(),
    ));
    spool
        .commit(&first)
        .with_context(|| file.display().to_string())?;
    let mut jobs = spool.live_jobs()?;
    jobs.extend(spool.unsettled_jobs()?);
    let mut nodes = spool.nodes()?;
    let settling = Settling::of(&nodes);
    nodes.iter_mut().for_each(|node| node.up = false);
    let next = spool.meta::<u64>("next")?.unwrap_or(1);
    let (verdicts, promises, last_cycle) =
        (spool.verdicts()?, spool.promises()?, spool.last_cycle()?);
    let mut ledger = Ledger::new(setup, clock, jobs, nodes, spool.tellings()?, next);
    ledger.ties.load(spool.open_ties()?);
    for (resource, job) in ledger.asked_in_vain() {
        tracing::warn!(
            "job {job} asks for `{resource}`, which is no [[resource]] any more: nothing is counted of it until {} has \
             it again",
            ledger.setup.home.config.display()
        );
    }
    ledger.begin(&reading);
    ledger.accrue_anew();
    ledger.forget_unasked();
    ledger.load_reservations(reservations);
    ledger.load_usage(charging::rebuild(
        ledger.setup.policy.usage.clone(),
        &spool,
    )?);
    ledger.recall(&promises);
    Ok(Recovered {
        lock,
        spool,
        ledger,
        epoch,
        verdicts,
        settling,
        promises,
        last_cycle,
    })
}

fn first_changes(setup: &Setup, clock: &Clock, new: bool, epoch: u64) -> Result<Vec<Update>> {
    let mut changes = vec![Update::Meta("epoch", epoch.to_string())];
    changes.extend(setup.facts_on_disk()?);
    if new {
        let reading = timers::read_clocks();
        changes.push(Update::ClockStep(
            clock.now(&reading),
            clock.table().offset(),
        ));
        changes.push(Update::Meta(
            "clock",
            serde_json::to_string(&clock.save(&reading))?,
        ));
    }
    Ok(changes)
}
