//! Startup of schedd: locks the spool (schedd's database), loads the stored state, and builds the
//! working state.

use crate::model::job::promise::PromisedStart;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::reservation::Reservation;
use crate::model::time::Time;
use crate::schedd::configuration;
use crate::schedd::storage::expiry;
use crate::schedd::storage::recording::Recording;
use crate::schedd::timers;
use crate::server::clock::Clock;
use crate::server::clock::Saved;
use crate::server::grantees::Grantees;
use crate::server::scheduler_view::Recorder;
use crate::server::setup::Setup;
use crate::server::startup::StartupGrace;
use crate::server::state::{ServerState, StoredState};
use crate::spool::lock::Lock;
use crate::spool::{self, Spool};
use crate::sys::home::Home;
use crate::update::Update;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of loading the spool.
pub struct Recovered {
    /// Held until schedd exits.
    pub lock: Lock,
    /// The writer's connection.
    pub spool: Spool,
    /// The working state.
    pub server: ServerState,
    /// The number of this start of schedd: the epoch of the last schedd plus one.
    pub epoch: u64,
    /// The stored verdicts (why jobs wait) by job class, each with the time since which the class
    /// has had the same reason code. The first cycle confirms or removes the verdicts.
    pub verdicts: BTreeMap<u64, (Reason, Time)>,
    /// The nodes to wait for before the first cycle.
    pub startup_grace: StartupGrace,
    /// The planned starts.
    pub promises: BTreeMap<JobId, PromisedStart>,
    /// The number of the last stored cycle record.
    pub last_cycle: u64,
}

/// Locks and loads the spool of an installation.
pub fn recover(home: &Home) -> Result<Recovered> {
    let setup = configuration::read(home)?;
    let lock = Lock::take(home)?;
    let file = spool::file(home);
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
        .with_grantees(grantees)
        .with_overrides(Arc::new(spool.overrides()?));
    for conflict in &setup.conflicts {
        tracing::warn!(
            "a setting of qmgr conflicts with {} and is ignored: {conflict}",
            setup.installation.config.display()
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
    let startup_grace = StartupGrace::new(&nodes);
    nodes.iter_mut().for_each(|node| node.up = false);
    let next = spool.meta::<u64>("next")?.unwrap_or(1);
    let (verdicts, promises, last_cycle) =
        (spool.verdicts()?, spool.promises()?, spool.last_cycle()?);
    let cycle = &setup.config.cycle;
    let recording = cycle
        .record
        .as_ref()
        .and_then(|path| Recording::open(path, cycle.record_size.bytes()));
    let recorder = recording.map(|recording| Box::new(recording) as Box<dyn Recorder>);
    let stored = StoredState {
        jobs,
        nodes,
        reported: spool.license_reports()?,
        next,
    };
    let mut server = ServerState::new(setup, recorder, clock, stored);
    server.dependencies.load(spool.open_dependencies()?);
    for (resource, job) in server.undefined_requests() {
        tracing::warn!(
            "job {job} requests `{resource}`, which is not a [[resource]] any more: \
             this resource is not counted until {} defines it again",
            server.setup.installation.config.display()
        );
    }
    server.keep_log();
    server.begin(&reading);
    server.recompute_eligibility();
    server.revoke_stale_reports();
    server.load_reservations(reservations);
    server.load_user_actions(spool.user_actions()?);
    server.load_usage(expiry::stored_usage(
        server.setup.policy.usage.clone(),
        &spool,
    )?);
    server.restore_promises(&promises);
    Ok(Recovered {
        lock,
        spool,
        server,
        epoch,
        verdicts,
        startup_grace,
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
