//! A simulated cluster, in which time jumps from event to event. The server handles requests and
//! reports as in schedd; users, nodes and jobs are simulated.
//!
//! At each instant jobs end first ([`World::advance_to`]), then users act ([`World::submit`],
//! [`World::perform`]), then the scheduler runs ([`World::run_scheduler`]).

mod accounts;

pub mod act;

mod attempts;

mod behavior;

mod history;

pub mod nodes;

use crate::config::Config;
use crate::model::account::charge::Charge;
use crate::model::job::state::{Holds, JobState};
use crate::model::job::{Job, NodeShare, Owner};
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::report::outlook::Prospect;
use crate::model::time::{Span, Time};
use crate::model::trigger::{AwaitedMoment, Trigger, Triggers};
use crate::sched::explain::forecast::{self, Budget};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::share_tree::usage::UsageTable as Used;
use crate::sched::view::plan::{Booking, Plan};
use crate::server::clock::{Clock, Reading};
use crate::server::reservations;
use crate::server::routing;
use crate::server::setup::{Installation, Setup};
use crate::server::state::{ServerState, StoredState};
use crate::update::Update;
use accounts::WorldAccounts;
pub use behavior::{JobBehavior, OverLimitPeriod};
use history::WorldHistory;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The host of a world, and the name of its server.
const HOST: &str = "sim";

/// The boot id of all hosts. Only the report of a returning host contains another one.
const BOOT: &str = "1";

/// The maximum number of cycles at one instant. More cycles are reported as an endless loop.
const MOST_CYCLES: usize = 10_000;

/// The record of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct PastAttempt {
    /// The job.
    pub job: JobId,
    /// The start time.
    pub start: Time,
    /// The end time; None while the attempt runs.
    pub end: Option<Time>,
    /// The allocated resources.
    pub shares: Vec<NodeShare>,
    /// Whether the attempt was started ahead of a job that keeps waiting.
    pub is_backfilled: bool,
}

/// A simulated cluster: the server, the simulated behavior of jobs, and a record of the attempts
/// and cycles.
pub struct World {
    server: ServerState,
    history: WorldHistory,
    behaviors: BTreeMap<u64, JobBehavior>,
    users: BTreeMap<String, Owner>,
    /// The number of reservations made so far.
    reservations: u64,
    plan: Plan,
    cache: CycleCache,
    past: Vec<PastAttempt>,
    /// The messages of the last submission, alteration or move of each job.
    notes: BTreeMap<JobId, Vec<String>>,
    /// All charges. After a change of the usage policy, usage is recomputed from the charges.
    charges: Vec<Charge>,
    cycles: Vec<(Time, Triggers)>,
}

impl World {
    /// An empty cluster, in which the groups have these gids.
    pub fn new(config: Config, groups: BTreeMap<String, u32>, now: Time) -> World {
        let installation = Installation {
            host: HOST.to_string(),
            own: Owner {
                user: "operator".to_string(),
                uid: 0,
                gid: 0,
            },
            system: false,
            nested: false,
            config: PathBuf::new(),
            mailer: None,
            accounts: Arc::new(WorldAccounts { groups }),
        };
        let setup = Setup::new(installation, "".into(), Arc::new(config));
        let usage = Used::new(setup.policy.usage.clone());
        let stored = StoredState {
            jobs: Vec::new(),
            nodes: Vec::new(),
            reported: BTreeMap::new(),
            next: 1,
        };
        let mut server = ServerState::new(setup, None, Clock::new(&reading(now)), stored);
        server.begin(&reading(now));
        server.load_usage(usage);
        // An empty cluster needs no cycle.
        server.take_triggers();
        server.take_cycle_due();
        World {
            server,
            history: WorldHistory::default(),
            behaviors: BTreeMap::new(),
            users: BTreeMap::new(),
            reservations: 0,
            plan: Plan::new(now),
            cache: CycleCache::default(),
            past: Vec::new(),
            notes: BTreeMap::new(),
            charges: Vec::new(),
            cycles: Vec::new(),
        }
    }

    /// Replaces the configuration, and recomputes the usage by the rules of the new configuration.
    fn configure(&mut self, config: Config) -> Result<(), String> {
        let installation = self.server.setup.installation.clone();
        let setup = Setup::new(installation, "".into(), Arc::new(config));
        self.server
            .reconfigure(setup)
            .map_err(|error| error.to_string())?;
        self.commit();
        let rules = self.server.setup.policy.usage.clone();
        self.server.load_usage(Used::of(rules, &self.charges));
        Ok(())
    }

    /// Takes over the jobs and charges that the server has changed since the last call. Returns all
    /// changes that schedd would write to its spool.
    fn commit(&mut self) -> Vec<Update> {
        let updates = self.server.changes();
        for update in &updates {
            if let Update::Charge(_, charge) = update {
                self.charges.push(Charge::clone(charge));
            }
        }
        self.history.store(self.server.settle());
        updates
    }

    /// The usage of the cluster by account and user.
    pub fn usage(&self) -> &Used {
        self.server.cluster().usage()
    }

    /// A job, finished or not. A subjob that has never started is not found.
    pub fn find(&self, id: JobId) -> Option<&Job> {
        self.history.jobs.get(&id).map(Arc::as_ref)
    }

    /// All jobs, finished or not, except subjobs that have never started.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.history.jobs.values().map(Arc::as_ref)
    }

    /// The messages of the last submission, alteration or move of a job.
    pub fn notes(&self, id: JobId) -> &[String] {
        self.notes.get(&id).map_or(&[], Vec::as_slice)
    }

    /// All attempts, in the order of their starts.
    pub fn past(&self) -> &[PastAttempt] {
        &self.past
    }

    /// The times of all cycles, with their triggers.
    pub fn cycles(&self) -> &[(Time, Triggers)] {
        &self.cycles
    }

    /// The reason why the last cycle did not start a job.
    pub fn reason(&self, id: JobId) -> Option<&Reason> {
        self.server.cluster().verdict(&self.plan, id)
    }

    /// The planned start of a job, as of the last cycle.
    pub fn booking(&self, id: JobId) -> Option<&Booking> {
        self.plan.bookings.iter().find(|booking| booking.job == id)
    }

    /// The start of a waiting job as `qstat --start` predicts it.
    pub fn predicted_start(&self, id: JobId) -> Option<Time> {
        let outlook = forecast::run(
            self.server.cluster().clone(),
            &self.server.setup.policy,
            self.server.now,
            Budget::default(),
        );
        match outlook.of(id)?.prospect {
            Prospect::Starts { at, .. } => Some(at),
            Prospect::Waits(_) | Prospect::Beyond | Prospect::Unknown(_) => None,
        }
    }

    /// The used amount of a system-wide resource, including use outside Lanai, and the total.
    pub fn in_use(&self, name: &str) -> Option<(i64, i64)> {
        self.server.cluster().pool(name)
    }

    /// The code of the reason why the scheduler does not consider a job yet (M3). A held job
    /// without a user, operator or system hold gets `dep_wait`. None for a job that the scheduler
    /// considers, and for a job that is not waiting.
    pub fn ineligible_reason(&self, id: JobId) -> Option<&'static str> {
        let life = &self.find(id)?.life;
        match life.state {
            JobState::Waiting => Some("begin_time"),
            JobState::Held if life.holds.contains(Holds::USER) => Some("held.user"),
            JobState::Held if life.holds.contains(Holds::OPERATOR) => Some("held.operator"),
            JobState::Held if life.holds.contains(Holds::SYSTEM) => Some("held.system"),
            JobState::Held => Some("dep_wait"),
            _ => None,
        }
    }

    /// The eligible time of a job at `at`, which must not be earlier than the last change of the
    /// job. A subjob that has not started has the eligible time of its array.
    pub fn eligible_time(&self, id: JobId, at: Time) -> Option<Span> {
        let job = self.history.job_or_subjob(id)?;
        Some(job.life.eligibility.at(at))
    }

    /// The priority of a waiting job at `at`, which must not be earlier than the last change of the
    /// cluster. For any other job, the priority at its last start (F9); None if the job has not
    /// started or had no priority.
    pub fn score(&self, id: JobId, at: Time) -> Option<f64> {
        let policy = &self.server.setup.policy;
        match self.server.cluster().report(policy, at, id) {
            Some(priority) => Some(priority.score),
            None => self.find(id)?.life.run.as_ref()?.score,
        }
    }

    /// Whether all jobs have finished.
    pub fn all_finished(&self) -> bool {
        self.server
            .jobs()
            .all(|job| job.life.state == JobState::Finished)
    }

    /// The time of the next event that is not an action of a user; None if there is none.
    pub fn next(&self) -> Option<Time> {
        let server = &self.server;
        let ends = server.jobs().filter_map(|job| Some(self.end_of(job)?.0));
        let timers = [
            server.next_begin(),
            server.next_calendar_change(),
            server.next_routed(),
            self.plan.next,
        ];
        let all = ends.chain(timers.into_iter().flatten());
        all.filter(|next| *next > server.now).min()
    }

    /// Advances the time to `now`. Jobs end, jobs that have reached their begin time are released,
    /// and a cycle becomes due if the last plan requested one for `now` or earlier.
    pub fn advance_to(&mut self, now: Time) {
        self.server.begin(&reading(now));
        let mut ends = Vec::new();
        for job in self.server.jobs() {
            if let Some((end, how)) = self.end_of(job)
                && end <= now
            {
                ends.push((job.id, how));
            }
        }
        for (id, how) in ends {
            self.report_end(id, how);
        }
        self.server.release_due();
        if self.plan.next.is_some_and(|next| next <= now) {
            self.server.want_cycle(Trigger::Timer(AwaitedMoment::Plan));
        }
        self.commit();
    }

    /// Updates reservations and routes jobs. Then runs the scheduler if a cycle is due. Repeats the
    /// cycle as long as starts fail, running jobs are ended or suspended by preemption, or
    /// dependencies change jobs. Returns an error for a plan that cannot be carried out, and for an
    /// endless loop.
    pub fn run_scheduler(&mut self) -> Result<(), String> {
        reservations::advance(&mut self.server);
        self.carry_out_orders();
        routing::route_waiting_jobs(&mut self.server);
        self.commit();
        for _ in 0..MOST_CYCLES {
            if !self.server.take_cycle_due() {
                return Ok(());
            }
            self.server.dependencies.has_affected_jobs = false;
            let triggers = self.server.take_triggers();
            let plan = self.server.plan(&mut self.cache);
            plan.audit(self.server.cluster())?;
            self.server.take_over(&plan, &triggers);
            self.cycles.push((self.server.now, triggers));
            let freed = self.carry_out(&plan);
            self.server.judge_limits(&plan);
            self.plan = plan;
            self.commit();
            // A plan that was carried out requires another cycle only if a start failed, if a
            // preemption ends or suspends a job, or if dependencies changed jobs.
            self.server.take_cycle_due();
            if freed || self.server.dependencies.has_affected_jobs {
                self.server.request_cycle();
            }
        }
        let second = self.server.now.0 / 1000;
        Err(format!(
            "the scheduler repeats cycles endlessly at second {second}"
        ))
    }

    /// Carries out a plan. Returns true if a start failed, or if a new preemption ends or suspends
    /// a job, even if the job needs time to end.
    fn carry_out(&mut self, plan: &Plan) -> bool {
        let is_new = self.server.apply_preemptions(plan);
        self.carry_out_orders();
        self.server.apply_resumes(&plan.resumes);
        let mut freed = is_new && plan.preempts.iter().any(|p| !p.action.waits_for_end());
        for id in self.server.apply_starts(plan) {
            let start = plan.starts.iter().find(|start| start.job == id);
            let is_backfilled = start.is_some_and(|start| start.passed.is_some());
            freed |= !self.launch(id, is_backfilled);
        }
        freed
    }
}

/// The clock reading at a simulated time.
fn reading(now: Time) -> Reading {
    Reading {
        since_boot: Span(now.0),
        wall: now.0,
        boot: BOOT.to_string(),
    }
}
