//! A cluster that is not there, with a clock that jumps: jobs live by [`Job::apply`], the
//! scheduler's view follows them by [`Change::of`], and [`cycle::run`] decides, all three as in
//! schedd. What is made up is what machines and people do.
//!
//! Of what happens at one instant, ends come first ([`World::reach`]), then what people do
//! ([`World::submit`], [`World::act`]), then the scheduler looks ([`World::decide`]).

pub mod act;

mod arrays;

mod attempts;

mod choice;

mod entrance;

mod fate;

mod nodes;

mod outside;

mod reservations;

mod rights;

mod submit;

mod windows;

use crate::config::Config;
use crate::model::account::charge::Charge;
use crate::model::job::dependency::Tie;
use crate::model::job::dependency::effects::{Standing, Tied};
use crate::model::job::dependency::graph::Ties;
use crate::model::job::event::Event;
use crate::model::job::life::Moment;
use crate::model::job::preemption::Action;
use crate::model::job::state::State as Stand;
use crate::model::job::suspension::Manner;
use crate::model::job::{How, Job, Want};
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::policy::Policy;
use crate::model::queue::Queue;
use crate::model::queue::counters::Census;
use crate::model::reason::Reason;
use crate::model::report::outlook::Prospect;
use crate::model::reservation::Reservation;
use crate::model::resource::Resources;
use crate::model::system_resource::Telling;
use crate::model::time::{Span, Time, Wall};
use crate::model::trigger::{Moment as When, Trigger, Triggers};
use crate::sched::cycle;
use crate::sched::explain::forecast::{self, Budget};
use crate::sched::placement::cycle_cache::Memory;
use crate::sched::placement::nearest_fit::Possible;
use crate::sched::share_tree::usage::Usage as Used;
use crate::sched::view::change::Change;
use crate::sched::view::plan::{Booking, Plan, Preemption};
use crate::sched::view::snapshot::State;
pub use attempts::Past;
pub use fate::{Excess, Fate};
pub use nodes::number;
use std::borrow::Cow;
use std::collections::BTreeMap;
pub use submit::Submission;

/// After so many cycles at one instant something goes round in a circle.
const MOST_CYCLES: usize = 10_000;

/// The cluster, its jobs, and what became of them so far.
#[derive(Debug)]
pub struct World {
    now: Time,
    config: Config,
    policy: Policy,
    resources: Resources,
    state: State,
    jobs: BTreeMap<JobId, Job>,
    fates: BTreeMap<u64, Fate>,
    nodes: BTreeMap<String, Node>,
    /// The numbers of groups.
    groups: BTreeMap<String, u32>,
    ties: Ties,
    /// Those that somebody made.
    reservations: BTreeMap<String, Reservation>,
    plan: Plan,
    memory: Memory,
    is_due: bool,
    past: Vec<Past>,
    /// What was said to who submitted or altered a job last.
    notes: BTreeMap<JobId, Vec<String>>,
    /// Those that are over, raw: under other rules they come to something else.
    charges: Vec<Charge>,
    cycles: Vec<(Time, Triggers)>,
    /// What has happened since the last of them.
    triggers: Triggers,
    queues: Vec<Queue>,
    /// How many there are, where limits ask.
    census: Census,
    possible: Possible,
    /// Those in routing queues, with when they are tried next.
    routed: BTreeMap<JobId, Time>,
    /// What was last told of what the whole system has.
    told: BTreeMap<String, Telling>,
}

impl World {
    /// An empty cluster.
    pub fn new(config: Config, now: Time) -> World {
        let mut world = World {
            now,
            policy: config.policy(),
            resources: config.resources(),
            state: State::new(&config.resources()),
            config,
            jobs: BTreeMap::new(),
            fates: BTreeMap::new(),
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            ties: Ties::default(),
            reservations: BTreeMap::new(),
            plan: Plan::new(now),
            memory: Memory::default(),
            is_due: false,
            past: Vec::new(),
            notes: BTreeMap::new(),
            charges: Vec::new(),
            cycles: Vec::new(),
            triggers: Triggers::default(),
            queues: Vec::new(),
            census: Census::default(),
            possible: Possible::default(),
            routed: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        world.state.make(&Change::Usage(Cow::Owned(Used::new(
            world.policy.usage.clone(),
        ))));
        let listed = world
            .config
            .nodes
            .iter()
            .map(|node| node.name.clone())
            .collect();
        world.state.make(&Change::Order(listed));
        world.set_queues();
        world
    }

    fn set_queues(&mut self) {
        self.queues = self.config.queues();
        self.possible = Possible::default();
        self.census = Census::new(&self.policy.limits, self.policy.default_walltime);
        for queue in &self.queues {
            self.state.make(&Change::Queue(Cow::Borrowed(queue)));
        }
        for (name, pool) in self.config.pools.clone() {
            self.show_pool(&name, &pool);
        }
    }

    /// From now on another configuration holds; resources stay as they are.
    pub fn configure(&mut self, config: Config) {
        self.want_cycle(Trigger::Config);
        self.policy = config.policy();
        self.number_groups();
        self.config = config;
        self.set_queues();
        self.state.make(&Change::Usage(Cow::Owned(Used::of(
            self.policy.usage.clone(),
            &self.charges,
        ))));
        let moment = self.moment();
        self.jobs
            .values_mut()
            .for_each(|job| job.life.eligibility = job.eligibility(moment));
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.charge(id);
            self.view(id);
        }
    }

    /// What has been used, and by whom.
    pub fn usage(&self) -> &Used {
        self.state.usage()
    }

    /// Groups have these numbers.
    pub fn name_groups(&mut self, groups: BTreeMap<String, u32>) {
        self.groups = groups;
        self.number_groups();
    }

    fn number_groups(&mut self) {
        let groups = &self.groups;
        self.policy
            .precedence
            .components
            .number_groups(|name| groups.get(name).copied());
        self.policy
            .limits
            .number_groups(|name| groups.get(name).copied());
    }

    /// What is known of resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// A job, also one that is over; an element only once it has begun.
    pub fn find(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// All jobs, also those that are over.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// What was said to who submitted or altered a job last.
    pub fn notes(&self, id: JobId) -> &[String] {
        self.notes.get(&id).map_or(&[], Vec::as_slice)
    }

    /// All attempts, in the order of their starts.
    pub fn past(&self) -> &[Past] {
        &self.past
    }

    /// The moments at which the scheduler has looked, and why.
    pub fn cycles(&self) -> &[(Time, Triggers)] {
        &self.cycles
    }

    /// Why the scheduler has left a job waiting when it last looked.
    pub fn reason(&self, id: JobId) -> Option<&Reason> {
        self.state.verdict(&self.plan, id)
    }

    /// What the scheduler has promised a job when it last looked.
    pub fn booking(&self, id: JobId) -> Option<&Booking> {
        self.plan.bookings.iter().find(|booking| booking.job == id)
    }

    /// When a job starts that waits, as `qstat --start` would tell; None if that cannot be told.
    pub fn foreseen(&self, id: JobId) -> Option<Time> {
        let outlook = forecast::run(
            self.state.clone(),
            &self.policy,
            self.now,
            Budget::default(),
        );
        match outlook.of(id)?.prospect {
            Prospect::Starts { at, .. } => Some(at),
            Prospect::Waits(_) | Prospect::Beyond => None,
        }
    }

    /// Whether every job is over.
    pub fn is_over(&self) -> bool {
        self.jobs
            .values()
            .all(|job| job.life.state == Stand::Finished)
    }

    /// When something happens next, if nobody does anything.
    pub fn next(&self) -> Option<Time> {
        let ends = self
            .jobs
            .values()
            .filter_map(|job| self.end_of(job))
            .map(|(end, _)| end);
        let begins = self
            .jobs
            .values()
            .filter(|job| job.life.state == Stand::Waiting);
        let begins = begins.filter_map(|job| job.spec.begin).map(time);
        let turns = self
            .next_close()
            .into_iter()
            .chain(self.next_turn())
            .chain(self.next_routed());
        ends.chain(begins)
            .chain(self.plan.next)
            .chain(turns)
            .filter(|next| *next > self.now)
            .min()
    }

    /// Lets time pass until `now`: jobs end, and those whose time has come may start.
    pub fn reach(&mut self, now: Time) {
        self.now = now;
        let over = |job: &Job| {
            self.end_of(job)
                .filter(|(end, _)| *end <= now)
                .map(|(_, how)| (job.id, how))
        };
        let ends: Vec<(JobId, How)> = self.jobs.values().filter_map(over).collect();
        ends.into_iter().for_each(|(id, how)| self.end(id, how));
        let is_due =
            |job: &&Job| job.life.state == Stand::Waiting && job.spec.begin <= Some(wall(now));
        let begins: Vec<JobId> = self
            .jobs
            .values()
            .filter(is_due)
            .map(|job| job.id)
            .collect();
        begins
            .into_iter()
            .for_each(|id| self.happen(id, Event::Due));
        if self.plan.next.is_some_and(|next| next <= now) {
            self.want_cycle(Trigger::Timer(When::Plan));
        }
    }

    /// The scheduler looks, once more after each look that has changed more than it decided. The
    /// error is a plan that cannot be carried out, or one that never comes to an end.
    pub fn decide(&mut self) -> Result<(), String> {
        self.attend_windows();
        self.attend_reservations();
        self.attend_routing();
        for _ in 0..MOST_CYCLES {
            if !std::mem::take(&mut self.is_due) {
                return Ok(());
            }
            self.ties.stirred = false;
            self.state.prioritise(&self.policy, self.now);
            let plan = cycle::run_again(&self.state, &self.policy, self.now, &mut self.memory);
            plan.audit(&self.state)?;
            self.cycles
                .push((self.now, std::mem::take(&mut self.triggers)));
            self.state.take_over(&plan);
            let freed = self.carry_out(&plan);
            self.judge_limits(&plan);
            self.plan = plan;
            // What was started leaves a cycle nothing to decide, unless it was lost or freed
            // others.
            self.is_due = freed || self.ties.stirred;
        }
        Err(format!(
            "the scheduler looks for ever at second {}",
            self.now.0 / 1000
        ))
    }

    /// The scheduler is to look, for this reason.
    pub fn want_cycle(&mut self, trigger: Trigger) {
        self.is_due = true;
        self.triggers.note(trigger);
    }

    /// True if a start has failed, or others have made way.
    fn carry_out(&mut self, plan: &Plan) -> bool {
        let mut freed = self.preempt(plan);
        self.resume(plan);
        // An array is rated anew once one of its elements has begun.
        let scores: Vec<Option<f64>> = plan
            .starts
            .iter()
            .map(|start| self.state.score(&self.policy, start.job))
            .collect();
        for (start, score) in plan.starts.iter().zip(scores) {
            freed |= self.start(start, score);
        }
        freed
    }

    /// Takes note of whom a limit of his own bars.
    fn judge_limits(&mut self, plan: &Plan) {
        let moment = self.moment();
        for (id, limit) in self.state.judge_limits(plan) {
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            let Some(eligibility) = job.judged(limit, moment) else {
                continue;
            };
            job.life.eligibility = eligibility;
            self.state.make(&Change::Accrues(id, eligibility));
        }
    }

    /// The eligible time of a job at a moment since the last change, an element's with its array's.
    pub fn eligible_time(&self, id: JobId, at: Time) -> Option<Span> {
        let element = || self.jobs.get(&id.parent()?)?.unrecorded(id.index()?);
        let job = self.jobs.get(&id).cloned().or_else(element)?;
        Some(job.life.eligibility.at(at))
    }

    /// What a job that waits is worth at a moment since the last change, or was worth when it
    /// started last (F9); None for one that was never rated.
    pub fn score(&self, id: JobId, at: Time) -> Option<f64> {
        let waiting = self
            .state
            .worth(&self.policy, at, id)
            .map(|worth| worth.score);
        waiting.or_else(|| self.jobs.get(&id)?.life.run.as_ref()?.score)
    }

    /// Tells jobs to make way; whether any is gone at once.
    fn preempt(&mut self, plan: &Plan) -> bool {
        let mut freed = false;
        for way in &plan.preempts {
            let run = self
                .jobs
                .get(&way.job)
                .filter(|job| job.life.want == Want::Run);
            let Some(attempt) = run.and_then(|job| Some(job.life.open_run()?.attempt)) else {
                continue;
            };
            let &Preemption {
                job,
                by: to,
                cause,
                action,
            } = way;
            let by = || "Scheduler@sim".to_string();
            self.happen(
                job,
                Event::Preempted {
                    attempt,
                    to,
                    cause,
                    action,
                    by: by(),
                },
            );
            if let (Action::Suspend, Some(to)) = (action, to) {
                let manner = Manner::For {
                    job: to,
                    releases: self.policy.preemption.releases.clone(),
                };
                self.happen(
                    job,
                    Event::SuspendWanted {
                        by: by(),
                        attempt,
                        manner,
                    },
                );
                self.come_to_rest(job);
            }
            self.end_unwanted(job);
            freed |= action != Action::Finish;
        }
        for (job, by) in plan.rooms_made() {
            self.happen(job, Event::RoomMade { by });
        }
        freed
    }

    /// Takes note of what happened to a job, and of what that means for those tied to it.
    fn happen(&mut self, id: JobId, event: Event) {
        self.note(id, event);
        crate::model::job::dependency::effects::pass_on(self);
    }

    fn moment(&self) -> Moment {
        let (rules, accrual) = (self.config.rules(), self.policy.accrual);
        Moment {
            now: self.now,
            wall: wall(self.now),
            rules,
            accrual,
            hosts: self.state.host_count(),
        }
    }

    /// Charges what a job has, as much of it as counts; nothing, where it is free of charge (I5,
    /// X24).
    fn charge(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let factor = self
            .policy
            .qualities
            .charge(job.spec.qos.as_deref(), self.queue(&job.spec.queue));
        let charge = match job
            .life
            .open_run()
            .filter(|run| factor > 0.0 && !run.is_still())
        {
            Some(run) => Some(Charge::of(job, run, factor)),
            None => self
                .state
                .usage()
                .open(id)
                .map(|open| open.clone().until(self.now)),
        };
        if let Some(charge) = charge {
            self.charges.extend(charge.to.map(|_| charge.clone()));
            self.state.make(&Change::Charged(id, Cow::Owned(charge)));
        }
    }

    /// Brings the scheduler's view of a job in line with the job.
    fn view(&mut self, id: JobId) {
        self.is_due = true;
        self.note_crowd(id);
        let (job, walltime) = (self.jobs.get(&id), self.policy.default_walltime);
        let limit = Change::of_limit(id, job, &self.state);
        limit.iter().for_each(|limit| self.state.make(limit));
        let change = Change::of(id, job, &self.policy);
        let change = match job.filter(|job| job.life.open_run().is_some()) {
            Some(job) => change.inside(
                self.state.reservation_of(job, walltime, self.now),
                self.close_of(job),
            ),
            None => change,
        };
        self.state.make(&change);
    }
}

impl Tied for World {
    fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    fn ties(&self) -> &Ties {
        &self.ties
    }

    fn ties_mut(&mut self) -> &mut Ties {
        &mut self.ties
    }

    fn note(&mut self, id: JobId, event: Event) {
        if matches!(event, Event::Started { .. } | Event::RunWanted { .. }) {
            self.begin_element(id);
        }
        let moment = self.moment();
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let (was, was_open) = (job.life.state, job.life.open_run().is_some());
        let was_maintained = job.is_maintained_under();
        job.apply(&event, moment);
        let is_maintained = job.is_maintained_under();
        self.ties.observe(was, job);
        let closed = job.life.run.as_ref().filter(|run| was_open && !run.open);
        // Here a job begins the moment it is started, and its node has no news for the scheduler.
        if !matches!(event, Event::Launched { .. }) {
            self.triggers.note_event(&event, job, closed);
        }
        self.charge(id);
        self.view(id);
        self.tell_array(id);
        if was_maintained != is_maintained {
            self.maintain_nodes(id, is_maintained);
        }
    }

    /// Nothing is kept beyond the ties themselves.
    fn keep(&mut self, _: Tie, _: Standing) {}

    fn server(&self) -> &str {
        "sim"
    }
}

fn wall(time: Time) -> Wall {
    Wall(time.0.div_euclid(1000))
}

fn time(wall: Wall) -> Time {
    Time(wall.0.saturating_mul(1000))
}
