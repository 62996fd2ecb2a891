//! schedd's start: take the spool, load what is not over, go on where the last one stopped.

use super::clock::{Clock, Saved};
use super::ledger::Ledger;
use super::setup::Setup;
use super::timers;
use crate::model::queue::Queue;
use crate::spool::commit::Change;
use crate::spool::lock::Lock;
use crate::spool::{self, Spool};
use anyhow::{Context, Result};

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
    pub verdicts: Vec<u64>,
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
    let first = first_changes(&setup, &clock, new, epoch)?;
    spool.commit(&first).with_context(|| file.display().to_string())?;
    let mut jobs = spool.live_jobs()?;
    jobs.extend(spool.unsettled_jobs()?);
    let mut nodes = spool.nodes()?;
    nodes.iter_mut().for_each(|node| node.up = false);
    let next = spool.meta::<u64>("next")?.unwrap_or(1);
    let verdicts = spool.verdicts()?;
    let mut ledger = Ledger::new(setup, clock, jobs, nodes, next);
    ledger.ties.load(spool.open_ties()?);
    ledger.begin(&reading);
    ledger.load_reservations(spool.reservations()?);
    let queues = Change::Queues(ledger.queues());
    spool.commit(&[queues])?;
    Ok(Recovered { lock, spool, ledger, epoch, verdicts })
}

fn first_changes(setup: &Setup, clock: &Clock, new: bool, epoch: u64) -> Result<Vec<Change>> {
    let queues: Vec<Queue> = setup.queues.clone();
    let mut changes = vec![
        Change::Meta("epoch", epoch.to_string()),
        Change::Meta("server", serde_json::to_string(&setup.facts())?),
        Change::Queues(queues),
    ];
    if new {
        let reading = timers::read_clocks();
        changes.push(Change::ClockStep(clock.now(&reading), clock.table().offset()));
        changes.push(Change::Meta("clock", serde_json::to_string(&clock.save(&reading))?));
    }
    Ok(changes)
}
