//! The server's state in memory, and the changes of the current transaction.
//!
//! The spool (schedd's database) stores the same state. Each change in memory also adds an update
//! for the spool. schedd writes the updates of a transaction together; if this fails, the server
//! undoes the whole transaction ([`ServerState::roll_back`]).

mod arrays;

mod charges;

mod commit;

mod eligible_time;

mod impossible;

mod job_counters;

mod licenses;

mod maintenance;

mod messages;

mod nodes;

mod reconfiguration;

mod request_growth;

mod reservations;

mod scheduler_changes;

mod user_actions;

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Usage;
use crate::model::job::deferral::Deferral;
use crate::model::job::dependency::effects;
use crate::model::job::dependency::graph::DependencyGraph;
use crate::model::job::event::Event;
use crate::model::job::life::EventContext;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::node::NodeFacts;
use crate::model::queue::counters::JobCounters;
use crate::model::system_resource::ReportedCount;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::model::time::Wall;
use crate::model::trigger::Trigger;
use crate::model::trigger::Triggers;
use crate::sched::placement::nearest_fit::Possible;
use crate::sched::view::change::is_candidate;
use crate::sched::view::snapshot::ClassId;
use crate::server::accounting::AccountingContext;
use crate::server::clock::Clock;
use crate::server::clock::Reading;
use crate::server::job_comment;
use crate::server::license_counts::LicenseCounts;
use crate::server::log_lines;
use crate::server::log_lines::JobBefore;
use crate::server::log_lines::LogLine;
use crate::server::mail;
use crate::server::mail::Letter;
use crate::server::node_uses::NodeUses;
use crate::server::notices::Notice;
use crate::server::scheduler_view::Recorder;
use crate::server::scheduler_view::SchedulerView;
use crate::server::setup::Setup;
use crate::server::shared_requests::SharedRequests;
use crate::server::undo_log::UndoLog;
use crate::update::Update;
use crate::update::VerdictClasses;
use crate::wire::message::AttemptCounts;
use crate::wire::message::ServerFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The working state.
pub struct ServerState {
    /// The current configuration.
    pub setup: Setup,
    /// The server time of the current transaction.
    pub now: Time,
    /// Dependencies between jobs.
    pub dependencies: DependencyGraph,
    clock: Clock,
    jobs: BTreeMap<JobId, Arc<Job>>,
    sharing: SharedRequests,
    nodes: BTreeMap<String, Node>,
    uses: NodeUses,
    /// The nodes with measurements that are not on disk yet.
    measured: BTreeSet<String>,
    cluster: SchedulerView,
    reservations: reservations::Reservations,
    license_counts: LicenseCounts,
    job_counters: JobCounters,
    possible: Possible,
    routed: job_counters::Routed,
    /// When this schedd started.
    began: Time,
    /// Jobs that wait for their begin time.
    waiting: BTreeSet<(Wall, JobId)>,
    /// Changed arrays that the scheduler's view does not reflect yet.
    stale: BTreeSet<JobId>,
    next: u64,
    transaction: Transaction,
    /// Steps of the wall clock that are not on disk yet. A rollback keeps them.
    steps: Vec<(Time, i64)>,
    /// The last reported facts of each node.
    reported_facts: BTreeMap<String, NodeFacts>,
    /// The configuration before the first change that was committed since the last
    /// [`ServerState::take_setup`].
    superseded: Option<Box<Setup>>,
    /// Mail of committed transactions that is not sent yet.
    mails: Vec<Letter>,
    notices: Vec<Notice>,
    /// Lines of committed transactions that are not in the log yet.
    log: Vec<LogLine>,
    /// Whether to collect lines for the log.
    keeps_log: bool,
    /// Numbers of attempts in committed transactions.
    attempts: AttemptCounts,
    /// Whether dependencies are evaluated only after all requests of a batch.
    defers_dependencies: bool,
    /// The last action of each user.
    undo_log: UndoLog,
    cycle_due: bool,
    /// The reasons why a cycle is due.
    triggers: Triggers,
    sweep_due: bool,
}

/// The stored state that a server loads at startup.
pub struct StoredState {
    /// Unfinished jobs, and jobs with an open attempt.
    pub jobs: Vec<Job>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// The last reported amounts of system-wide resources.
    pub reported: BTreeMap<String, ReportedCount>,
    /// The number of the next job.
    pub next: u64,
}

/// The changes of the current transaction, with the earlier values for a rollback.
#[derive(Default)]
struct Transaction {
    jobs: BTreeMap<JobId, ChangedJob>,
    nodes: BTreeMap<String, Option<Node>>,
    next: Option<u64>,
    changes: Vec<Update>,
    /// Submitted jobs by uid and token. With a token, qsub can repeat a submission safely.
    tokens: BTreeMap<(u32, [u8; 16]), JobId>,
    /// Jobs removed from the history.
    forgotten: BTreeSet<JobId>,
    /// If set, the commit removes from the history the jobs that ended before this time.
    purge: Option<Time>,
    mails: Vec<Letter>,
    notices: Vec<Notice>,
    log: Vec<LogLine>,
    attempts: AttemptCounts,
    /// The server facts for notices, computed once.
    facts: Option<Arc<ServerFacts>>,
    charges: charges::Charges,
    /// The configuration before the transaction, if the transaction changed it.
    setup: Option<Box<Setup>>,
}

/// A job changed in the current transaction.
struct ChangedJob {
    before: Option<Arc<Job>>,
    /// Whether to write the job's whole row, not only its `life`.
    whole: bool,
}

impl ServerState {
    /// The state at the start of a server.
    pub fn new(
        setup: Setup,
        recorder: Option<Box<dyn Recorder>>,
        clock: Clock,
        stored: StoredState,
    ) -> ServerState {
        let StoredState {
            jobs,
            nodes,
            reported,
            next,
        } = stored;
        let license_counts = LicenseCounts::new(reported);
        let mut cluster = SchedulerView::new(&setup, recorder);
        cluster.add_objects(&setup, &license_counts, &nodes);
        let mut sharing = SharedRequests::default();
        let shared = |mut job: Job| {
            if job.life.deferral.is_none() {
                let comment = job.life.comment.as_deref();
                job.life.deferral = comment.and_then(Deferral::of_comment);
            }
            sharing.share(&mut job);
            (job.id, Arc::new(job))
        };
        let mut server = ServerState {
            setup,
            now: Time(0),
            dependencies: DependencyGraph::default(),
            clock,
            jobs: jobs.into_iter().map(shared).collect(),
            sharing,
            nodes: nodes
                .into_iter()
                .map(|node| (node.facts.name.clone(), node))
                .collect(),
            uses: NodeUses::default(),
            measured: BTreeSet::new(),
            cluster,
            reservations: Default::default(),
            license_counts,
            job_counters: JobCounters::default(),
            possible: Possible::default(),
            routed: Default::default(),
            began: Time::NEVER,
            waiting: BTreeSet::new(),
            stale: BTreeSet::new(),
            next,
            transaction: Transaction::default(),
            steps: Vec::new(),
            reported_facts: BTreeMap::new(),
            superseded: None,
            mails: Vec::new(),
            notices: Vec::new(),
            log: Vec::new(),
            keeps_log: false,
            attempts: AttemptCounts::default(),
            defers_dependencies: false,
            undo_log: UndoLog::default(),
            cycle_due: false,
            triggers: Triggers::default(),
            sweep_due: false,
        };
        let ids: Vec<JobId> = server.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| server.refresh_job(id));
        server.recount_jobs();
        server.want_cycle(Trigger::Begin);
        server
    }

    /// Sets the server time from a reading of the clocks, and detects steps of the wall clock.
    pub fn begin(&mut self, reading: &Reading) {
        self.now = self.now.max(self.clock.now(reading));
        self.began = self.began.min(self.now);
        if let Some((since, ahead)) = self.clock.observe(reading) {
            tracing::warn!(
                "the wall clock was stepped and now differs by {} s from schedd's clock, which \
                 ignores steps",
                ahead / 1000
            );
            self.steps.push((since, ahead));
            self.update_all_windows();
        }
    }

    /// The server clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The server facts with the current time, for hooks and notification programs.
    pub fn facts_now(&self) -> ServerFacts {
        ServerFacts {
            clock: self.clock.table().clone(),
            now: self.now,
            ..self.setup.facts()
        }
    }

    /// Whether schedd has run for longer than `time`, so that nodes had this time to connect.
    pub fn is_settled(&self, time: Span) -> bool {
        self.now.since(self.began) > time
    }

    /// The wall-clock time of the current transaction.
    pub fn wall(&self) -> Wall {
        self.clock.wall(self.now)
    }

    /// The context of the current transaction's events, for [`Job::apply`].
    pub fn moment(&self) -> EventContext {
        let (rules, accrual) = (self.setup.config.rules(), self.setup.policy.accrual);
        EventContext {
            now: self.now,
            wall: self.wall(),
            rules,
            accrual,
            hosts: self.cluster.host_count(),
            grows: false,
        }
    }

    /// The job, if it is in memory. Jobs in memory are those that are unfinished, have an open
    /// attempt, or were changed in the current transaction.
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id)
    }

    /// The job that [`ServerState::job`] returns. If that is None, a subjob is derived from its
    /// array, if the array is in memory. Such a subjob has never started, is to be rerun or has
    /// ended.
    pub fn known(&self, id: JobId) -> Option<Arc<Job>> {
        let element = || {
            self.jobs
                .get(&id.parent()?)?
                .subjob_without_record(id.index()?)
                .map(Arc::new)
        };
        self.jobs.get(&id).cloned().or_else(element)
    }

    /// Whether a finished job, or a subjob of a finished array, still waits for reports of nodes.
    pub fn awaits_reports(&self, id: JobId) -> bool {
        let last = JobId::element(id.number, u32::MAX);
        self.jobs.contains_key(&id)
            || (id.is_array() && self.jobs.range(id..=last).next().is_some())
    }

    /// Whether finished subjobs of an array still wait for reports of nodes.
    pub fn has_subjobs_awaiting_reports(&self, array: JobId) -> bool {
        let all = JobId::element(array.number, 0)..=JobId::element(array.number, u32::MAX);
        let is_over =
            |job: &Job| job.life.state == JobState::Finished && job.life.open_run().is_some();
        self.jobs.range(all).any(|(_, element)| is_over(element))
    }

    /// Whether the current transaction removes a job from the history.
    pub fn is_forgotten(&self, id: JobId) -> bool {
        self.transaction.forgotten.contains(&id)
    }

    /// All jobs that hold resources of nodes.
    pub fn holders(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.cluster.holders().filter_map(|id| self.jobs.get(&id))
    }

    /// Whether resources of preempted jobs are kept for this waiting job.
    pub fn holds_resources_for(&self, job: JobId) -> bool {
        self.cluster.holds_resources_for(job)
    }

    /// All jobs in memory, by number.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values()
    }

    /// Requests a cycle and records the reason (Q1).
    pub fn want_cycle(&mut self, trigger: Trigger) {
        self.cycle_due = true;
        self.triggers.note(trigger);
    }

    /// Requests a cycle without recording a reason.
    pub fn request_cycle(&mut self) {
        self.cycle_due = true;
    }

    /// Takes the recorded reasons for the next cycle.
    pub fn take_triggers(&mut self) -> Triggers {
        std::mem::take(&mut self.triggers)
    }

    /// Sets the number of the next new job. For simulations.
    pub fn number_from(&mut self, number: u64) {
        self.next = number;
    }

    /// Replaces the recorded reasons for the next cycle.
    pub fn set_triggers(&mut self, triggers: Triggers) {
        self.triggers = triggers;
    }

    /// The number of the next new job.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Takes the number for a new job.
    pub fn take_number(&mut self, is_array: bool) -> JobId {
        self.transaction.next.get_or_insert(self.next);
        let id = if is_array {
            JobId::array(self.next)
        } else {
            JobId::job(self.next)
        };
        self.next += 1;
        id
    }

    /// Adds a new job.
    pub fn insert(&mut self, mut job: Job) {
        let id = job.id;
        self.sharing.share(&mut job);
        self.transaction.jobs.insert(
            id,
            ChangedJob {
                before: None,
                whole: true,
            },
        );
        self.jobs.insert(id, Arc::new(job));
        self.apply_event(id, Event::Submitted);
    }

    /// Applies an event to a job. Then applies the effects of the event to dependent jobs, unless
    /// these effects are deferred.
    pub fn apply_event(&mut self, id: JobId, event: Event) {
        self.apply_event_alone(id, event);
        if !self.defers_dependencies {
            effects::pass_on(self);
        }
    }

    /// Defers the effects of events on dependent jobs until [`ServerState::pass_on_deferred`].
    pub(crate) fn defer_dependencies(&mut self) {
        self.defers_dependencies = true;
    }

    /// Applies the effects deferred since [`ServerState::defer_dependencies`].
    pub(crate) fn pass_on_deferred(&mut self) {
        self.defers_dependencies = false;
        effects::pass_on(self);
    }

    /// Applies an event to a job, without effects on dependent jobs.
    pub(crate) fn apply_event_alone(&mut self, id: JobId, event: Event) {
        let growth = self.request_growth(id, &event);
        let moment = EventContext {
            grows: matches!(growth, Some(Ok(_))),
            ..self.moment()
        };
        if matches!(event, Event::Started { .. } | Event::RunWanted { .. }) {
            self.create_subjob_record(id);
        }
        let logs_jobs = self.logs_jobs();
        self.record_change(id, Some(&event));
        let Some(job) = touch(&mut self.jobs, &mut self.transaction, id, false) else {
            return;
        };
        let was = job.life.state;
        let was_open = job.life.open_run().is_some();
        let was_maintained = job.is_suspended_for_maintenance();
        let before = logs_jobs.then(|| JobBefore::of(job));
        let retries = job.life.retries;
        job.apply(&event, moment);
        let is_retried = job.life.retries > retries;
        if let Some(Err(why)) = &growth {
            request_growth::explain_end(job, why);
        }
        if matches!(event, Event::Started { .. }) {
            self.transaction.attempts.started += 1;
            nodes::record_directory(job, &self.nodes);
        }
        let is_maintained = job.is_suspended_for_maintenance();
        self.dependencies.observe(was, job);
        let (accounting, is_forced) = (
            accounting(&self.setup, &self.clock, moment.now),
            matches!(event, Event::DeleteWanted { force: true, .. }),
        );
        if let Event::NodesReleased { division, .. } = &event {
            self.uses.record(&division.released, moment.now);
            self.transaction.charge_released(&accounting, job, division);
        }
        if matches!(event, Event::Suspended { .. }) {
            self.transaction.charge_suspended(&accounting, job);
        }
        let closed = job.life.run.as_ref().filter(|run| was_open && !run.open);
        self.triggers.note_event(&event, job, closed);
        if let Some(run) = closed {
            self.transaction.attempts.ended += 1;
            self.uses.record(&run.shares, moment.now);
            self.transaction
                .charge_ended(&accounting, job, Some(&event));
        } else if was != JobState::Finished && !was_open {
            self.transaction.record_unstarted_end(&accounting, job);
        } else if was != JobState::Finished && is_forced {
            self.transaction.record_forced_end(&accounting, job);
        }
        if let Some(comment) = job_comment::comment(job, &event, &self.setup.name, |time| {
            let zone = self.setup.installation.accounts.zone();
            zone.civil(self.clock.wall(time)).unwrap_or_default()
        }) {
            job.life.comment = comment;
            job.life.deferral = job_comment::deferral(job, &event);
        }
        let line =
            before.and_then(|before| log_lines::job_line(&self.setup.name, before, job, &event));
        self.transaction.log.extend(line);
        self.transaction
            .mails
            .extend(mail::letter(&self.setup, was, job, Some(&event)));
        self.add_notices(id, was, Some(&event));
        self.transaction
            .changes
            .push(Update::Event(moment.now, id, event));
        self.refresh_job(id);
        self.update_array_of(id);
        if was_maintained != is_maintained {
            self.maintain_nodes(id, is_maintained);
        }
        if let Some(Ok(spec)) = growth
            && is_retried
        {
            self.grow_request(id, spec);
        }
    }

    /// The attempt number that a start of this job would have; None if it cannot start.
    pub fn next_attempt(&self, id: JobId) -> Option<Attempt> {
        let job = self
            .jobs
            .get(&id)
            .or_else(|| self.jobs.get(&id.parent()?))?;
        is_candidate(job).then_some(job.life.attempt + 1)
    }

    /// Changes a job other than by an event.
    pub fn change(&mut self, id: JobId, change: impl FnOnce(&mut Job)) {
        let now = self.now;
        self.record_change(id, None);
        if let Some(begin) = self.jobs.get(&id).and_then(|job| job.spec.begin) {
            self.waiting.remove(&(begin, id));
        }
        if let Some(job) = touch(&mut self.jobs, &mut self.transaction, id, true) {
            change(job);
            job.life.mtime = now;
            self.refresh_job(id);
        }
    }

    /// Records the usage of a running job. The scheduler's view does not depend on this usage.
    pub fn set_used(&mut self, id: JobId, used: Usage) {
        if let Some(job) = touch(&mut self.jobs, &mut self.transaction, id, false) {
            job.life.used = used;
        }
    }

    /// Removes a finished job from the history. [`ServerState::sweep`] later removes its script and
    /// environment.
    pub fn forget(&mut self, id: JobId) {
        self.transaction.forgotten.insert(id);
        self.add_update(Update::Forget(id));
        self.sweep_due = true;
    }

    /// Removes the scripts and environments of forgotten jobs. A sweep scans all jobs and must be
    /// rare.
    pub fn sweep(&mut self) {
        if std::mem::take(&mut self.sweep_due) {
            self.add_update(Update::Sweep);
        }
    }

    /// Changes the tasks of a job's open attempt. The attempt may end with its last task.
    pub fn change_tasks(&mut self, id: JobId, change: impl FnOnce(&mut Job)) {
        let Some(job) = touch(&mut self.jobs, &mut self.transaction, id, false) else {
            return;
        };
        let closing = job.life.open_run().is_some_and(|run| !run.has_script());
        let gave_back = job
            .life
            .open_run()
            .is_some_and(|run| run.lingering().next().is_some());
        let held = if closing || gave_back {
            job.held()
        } else {
            Vec::new()
        };
        change(job);
        let kept = if closing || gave_back {
            job.held()
        } else {
            Vec::new()
        };
        self.triggers
            .note_freed(held.iter().filter(|share| !kept.contains(share)));
        if closing && job.life.open_run().is_none() {
            self.transaction.attempts.ended += 1;
            self.transaction.charge_ended(
                &accounting(&self.setup, &self.clock, self.now),
                job,
                None,
            );
        }
        if closing || gave_back || job.life.open_run().is_some_and(|run| !run.has_script()) {
            self.refresh_job(id);
        }
    }

    /// Removes from the history the jobs that ended before this time, except jobs that the current
    /// transaction restores.
    pub fn purge(&mut self, before: Time) {
        self.transaction.purge = Some(before);
    }

    /// The jobs changed in the current transaction.
    pub fn changed_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.transaction
            .jobs
            .keys()
            .filter_map(|id| self.jobs.get(id))
    }

    /// Adds an update for the spool only. The jobs and nodes in memory do not change.
    pub fn add_update(&mut self, change: Update) {
        if let Update::Token(uid, token, job, _) = &change {
            self.transaction.tokens.insert((*uid, *token), *job);
        }
        self.transaction.changes.push(change);
    }

    /// The job that the current transaction has recorded for a user's token. The spool does not
    /// contain the job yet.
    pub fn recorded(&self, uid: u32, token: [u8; 16]) -> Option<JobId> {
        self.transaction.tokens.get(&(uid, token)).copied()
    }

    /// Applies [`Event::Due`] to the waiting jobs that have reached their begin time.
    pub fn release_due(&mut self) {
        let now = self.wall();
        let due = self.waiting.iter().take_while(|(begin, _)| *begin <= now);
        let due: Vec<JobId> = due.map(|&(_, id)| id).collect();
        for id in due {
            self.apply_event(id, Event::Due);
        }
    }

    /// The next begin time of a waiting job.
    pub fn next_begin(&self) -> Option<Time> {
        self.waiting
            .first()
            .map(|&(begin, _)| self.clock.table().time(begin))
    }

    /// Updates all that depends on a job's state: the dependency graph, the lists of begin times
    /// and of jobs to route, the counters and the scheduler's view.
    fn refresh_job(&mut self, id: JobId) {
        self.cycle_due = true;
        match self.jobs.get(&id) {
            Some(job) => self.dependencies.follow(job),
            None => self.dependencies.remove_labels(id),
        }
        self.note_waiting(id);
        self.note_routed(id);
        self.count(id);
        if id.is_array() {
            // An array changes with each of its subjobs, so the array's view is updated only once,
            // before the cycle.
            self.stale.insert(id);
        } else {
            self.update_job_view(id);
        }
    }

    fn note_waiting(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let Some(begin) = job.spec.begin else { return };
        match job.life.state {
            JobState::Waiting => self.waiting.insert((begin, id)),
            _ => self.waiting.remove(&(begin, id)),
        };
    }
}

fn accounting<'a>(setup: &'a Setup, clock: &'a Clock, now: Time) -> AccountingContext<'a> {
    AccountingContext {
        setup,
        clock: clock.table(),
        now,
    }
}

/// Returns a job to be changed, and keeps the unchanged job for a rollback.
fn touch<'a>(
    jobs: &'a mut BTreeMap<JobId, Arc<Job>>,
    transaction: &mut Transaction,
    id: JobId,
    whole: bool,
) -> Option<&'a mut Job> {
    let job = jobs.get_mut(&id)?;
    let touched = transaction.jobs.entry(id).or_insert_with(|| ChangedJob {
        before: Some(job.clone()),
        whole,
    });
    touched.whole |= whole;
    Some(Arc::make_mut(job))
}

/// The class and the shape of a job, by which the verdict (why the job waits) is found.
fn verdict_classes(job: &Job) -> VerdictClasses {
    VerdictClasses {
        class: ClassId::of(job).0,
        shape: ClassId::of_request(job).0,
    }
}
