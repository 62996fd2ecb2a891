//! What a cycle has decided so far and what that leaves.

mod bounds;

mod preemptions;

mod resumptions;

mod refused_together;

use super::limits::LimitCounters;
use super::numbers::Numbers;
use super::preemptible_backfill::Borrowed;
use super::refusals::{Refusals, Refused};
use crate::model::job::SubjobLimit;
use crate::model::job_id::JobId;
use crate::model::policy::{self, Backfill, Filling, Policy};
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::backfill::bookings::{self, BookingBudget};
use crate::sched::backfill::calendar::Calendar;
use crate::sched::backfill::limits::BackfillLimits;
use crate::sched::backfill::reservation_access::Windows;
use crate::sched::placement::availability_map::{AvailabilityMap, JobAmounts};
use crate::sched::placement::guide::Guide;
use crate::sched::placement::resolution::Resolved;
use crate::sched::placement::{availability_policy, place};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::current_bookings::OVERDUE;
use crate::sched::view::plan::{Plan, Start};
use crate::sched::view::shape::{ClassId, ClassKey, Shape, ShapeId};
use crate::sched::view::snapshot::ClusterState;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a walk through the queue considers jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// To start them in order of priority.
    Order,
    /// To plan the starts of jobs within their soft limits before others start: they have been
    /// considered already, so they do not count towards the backfill depth (M23).
    SoftLimitPlans,
    /// To start jobs that exceed a soft limit, and no hard one (M23).
    OverSoftLimits,
    /// To start more subjobs of an array than its own limit (Q15).
    Expansion,
}

/// The books of one cycle.
pub struct CycleState<'s> {
    /// What the cycle sees.
    pub state: &'s ClusterState,
    /// When it is.
    pub now: Time,
    /// What is free now, less what was started.
    pub space: AvailabilityMap<'s>,
    /// Computed for the first request that is checked ([`CycleState::vacant`]).
    vacant: OnceCell<AvailabilityMap<'s>>,
    guide: Arc<Guide>,
    /// The numbers of processors and GPUs that are free.
    pub numbers: Numbers,
    pub(super) policy: &'s Policy,
    pub(super) windows: Windows<'s>,
    pub(super) calendar: Calendar<'s>,
    pub(super) promises: BookingBudget<'s>,
    /// The blocked job that no other job may pass, and when it can start.
    pub(super) gate: Option<(JobId, Time)>,
    pub(super) gaps: BackfillLimits,
    /// What has been lent to fillers, once it is wanted back.
    borrowed: Option<Borrowed<'s>>,
    /// Starts of elements of arrays that limit themselves, by the array's number; with true, of
    /// those that had begun before.
    counted: BTreeMap<(u64, bool), u32>,
    /// Whether a shape could ever run.
    possible: BTreeMap<ShapeId, bool>,
    pub(super) refusals: Refusals,
    /// What limits on what runs leave, if there are any.
    pub(super) limits: Option<LimitCounters<'s>>,
    /// What was started in passes before the last.
    started: BTreeSet<JobId>,
    pub(super) plan: Plan,
}

impl<'s> CycleState<'s> {
    /// Nothing decided yet.
    pub fn open(
        state: &'s ClusterState,
        policy: &'s Policy,
        resolved: &'s Resolved,
        now: Time,
    ) -> CycleState<'s> {
        let placement = &policy.placement;
        let guide = Arc::new(Guide::new(placement, &state.cluster));
        let mut space = AvailabilityMap::now(&state.cluster).guided(guide.clone());
        availability_policy::observe(&mut space, placement);
        for (ix, from) in windows_ahead(state, now) {
            space.promise(ix, from);
        }
        let by_use = availability_policy::by_use(&state.cluster, placement);
        let mut calendar = Calendar::new(state, now);
        let windows = Windows::open(state, now);
        let mut limits = LimitCounters::open(state, policy, now);
        let promises = BookingBudget::open(
            &policy.backfill,
            (state, resolved),
            &mut calendar,
            (&space, &windows),
            now,
            |class| {
                let limits = limits.as_mut();
                limits.is_none_or(|limits| limits.bar(class).is_none())
            },
        );
        CycleState {
            state,
            policy,
            now,
            space,
            vacant: OnceCell::new(),
            guide,
            numbers: Numbers::default(),
            windows,
            calendar,
            promises,
            gate: None,
            gaps: BackfillLimits::default(),
            borrowed: None,
            counted: BTreeMap::new(),
            possible: BTreeMap::new(),
            refusals: Refusals::new(resolved.tells_apart()),
            limits,
            started: BTreeSet::new(),
            plan: Plan {
                by_use,
                next: resolved.next,
                ..Plan::new(now)
            },
        }
    }

    /// How long a job of this class may run.
    pub fn span_of(&self, class: &ClassKey) -> Span {
        class.walltime.unwrap_or(self.policy.default_walltime)
    }

    /// How many processors a request has in all.
    pub fn processors(&self, shape: &Shape) -> i64 {
        self.state
            .cluster
            .catalog
            .index("ncpus")
            .map_or(0, |index| shape.total[index])
    }

    /// When a job of this class would end if it started now.
    pub fn end_of(&self, class: &ClassKey) -> Time {
        self.windows.end_of(class, self.now + self.span_of(class))
    }

    /// The resources that would be free if every node were up and no job ran.
    pub fn vacant(&self) -> &AvailabilityMap<'s> {
        self.vacant
            .get_or_init(|| AvailabilityMap::vacant(&self.state.cluster).guided(self.guide.clone()))
    }

    /// Whether the request could run on the configured nodes if no other job ran.
    pub fn is_possible(&mut self, shape: &Shape) -> bool {
        if let Some(&is_possible) = self.possible.get(&shape.id) {
            return is_possible;
        }
        let vacant = self.vacant();
        // Without nodes it is not known which requests are possible.
        let is_possible = vacant.is_void() || place::fits(vacant, shape);
        self.possible.insert(shape.id, is_possible);
        is_possible
    }

    /// How many elements of an array that limits itself have begun, with those that this cycle
    /// starts; for one of them that is to start once more, how many run.
    pub fn running_of(&self, candidate: Candidate) -> u32 {
        let number = candidate.job.number;
        let [first, again] =
            [false, true].map(|again| self.counted.get(&(number, again)).copied().unwrap_or(0));
        match candidate.class.beyond {
            None => candidate.begun + first,
            Some(_) => self.state.running_elements(number) + first + again,
        }
    }

    /// How many subjobs of a candidate's array run at once, if that is limited.
    pub fn subjob_limit(&self, candidate: Candidate) -> Option<SubjobLimit> {
        let class = candidate.class;
        let limit = class.at_once.or(class.beyond)?;
        let as_asked = SubjobLimit {
            limit,
            most: class.expands_to.unwrap_or(limit),
        };
        // A subjob keeps what its array asked for when it began; the array may have been altered
        // since.
        let now = class
            .beyond
            .and_then(|_| self.state.subjob_limit(candidate.job.number));
        Some(now.unwrap_or(as_asked))
    }

    /// Who may use what reservations set aside.
    pub fn windows(&self) -> &Windows<'s> {
        &self.windows
    }

    /// What is promised.
    pub fn calendar(&self) -> &Calendar<'s> {
        &self.calendar
    }

    /// What a job must be worth more than, and what it is worth; None where there is no such bar.
    pub fn threshold(&self, job: JobId) -> Option<(f64, f64)> {
        let least = self.policy.precedence.threshold?;
        Some((least, self.state.score(self.policy, job)?))
    }

    /// How those behind blocked jobs are dealt with.
    pub fn backfill(&self) -> &'s Backfill {
        &self.policy.backfill
    }

    /// Where jobs go.
    pub fn placement(&self) -> &'s policy::PlacementPolicy {
        &self.policy.placement
    }

    /// Whether all planned starts are given: jobs that start from now on are backfilled.
    pub fn is_fully_planned(&self) -> bool {
        self.promises.is_spent()
    }

    /// Enters a job that was considered.
    pub fn consider(&mut self) {
        self.plan.considered += 1;
    }

    /// Whether a job was started in an earlier pass through the queue.
    pub fn has_started(&self, job: JobId) -> bool {
        self.started.contains(&job)
    }

    /// A pass through the queue is over, and another begins.
    pub fn begin_again(&mut self) {
        self.started = self.plan.starts.iter().map(|start| start.job).collect();
    }

    /// Enters a start of a job that takes these resources.
    pub fn enter(&mut self, job: Candidate, start: Start, claim: JobAmounts) {
        self.promises.visit(job.job, job.class);
        if job.class.at_once.or(job.class.beyond).is_some() {
            *self
                .counted
                .entry((job.job.number, job.class.beyond.is_some()))
                .or_default() += 1;
        }
        if let Some(limits) = &mut self.limits {
            limits.enter(job.class, job.job);
        }
        self.space.claim(&claim);
        let until = if start.preemptible {
            self.now + OVERDUE
        } else {
            start.until
        };
        self.windows
            .start(job.class, &claim, start.until, &self.space);
        self.calendar.start(start.job, claim, until, &self.space);
        self.plan.starts.push(start);
    }

    /// Enters a refusal, and promises a blocked job its start if it may have one.
    pub fn wait(&mut self, candidate: Candidate<'s>, mut reason: Arc<Reason>) -> Refused {
        self.promises.visit(candidate.job, candidate.class);
        if self
            .plan
            .eligible
            .refusal(candidate.class.id, candidate.job)
            .is_some()
        {
            // Its class is told in the end: others of it are considered.
            return Refused::Class;
        }
        // What waits for room in a reservation is promised none elsewhere.
        let is_promised = reason.is_blocked()
            && candidate.class.asks_for.is_none()
            && !candidate.class.unpromised;
        let at = if is_promised {
            self.promise(candidate)
        } else {
            None
        };
        if at.is_some()
            && let Reason::Busy { until, .. } = Arc::make_mut(&mut reason)
        {
            *until = at;
        }
        self.look_again_for(&reason);
        self.refusals.note(candidate.job, &reason);
        let counts = self.promises.blocked.is_some() && self.gaps.counts(self.backfill());
        let is_followed = at.is_some() && self.promises.goes_on(candidate.class);
        let goes_on = counts || is_followed || self.promises.awaits(candidate.class);
        let refused = if goes_on {
            Refused::Job
        } else if self.is_for_all(candidate, &reason) {
            Refused::Shape
        } else {
            Refused::Class
        };
        self.tell(candidate.class, reason, refused);
        refused
    }

    /// Enters when a job could start that waits for this, though nothing happens before.
    pub fn look_again_for(&mut self, reason: &Reason) {
        if let Reason::Deferred { until } | Reason::KeptForWider { until, .. } = *reason {
            self.plan.look_again(until);
        }
        if let Reason::Limited(excess) = reason {
            // M21: less is left of what runs, though nothing ends.
            if let Some(until) = excess.until {
                self.plan.look_again(until);
            }
        }
        if let Some(change) = self.change_awaited(reason) {
            self.plan.look_again(change);
        }
    }

    /// Enters why a job waits, and with it its class or all that ask for the same: once.
    fn tell(&mut self, class: &ClassKey, reason: Arc<Reason>, refused: Refused) {
        match refused {
            // Others may not have been told, whatever this class was.
            Refused::Shape => self
                .plan
                .verdicts
                .push((ClassId::of_shape(class.shape.id), reason)),
            Refused::Job | Refused::Class if !self.refusals.is_told(class) => {
                self.plan.verdicts.push((class.id, reason));
            }
            Refused::Job | Refused::Class => (),
        }
        if refused == Refused::Job {
            self.refusals.note_told(class);
        }
    }

    /// When windows or dedicated times change next, for a job that waits for that.
    fn change_awaited(&self, reason: &Reason) -> Option<Time> {
        match reason {
            Reason::Reserved { .. } | Reason::NotOpen { .. } => self.windows.next_change(),
            Reason::DedicatedTime | Reason::CrossesDedicated { .. } => {
                self.state.site_time.next_change(self.now)
            }
            Reason::PrimeOnly | Reason::NonprimeOnly => self.state.site_time.next_change(self.now),
            Reason::CrossesPrime { .. } => self.state.site_time.next_change(self.now),
            _ => None,
        }
    }

    /// When a blocked job is promised to start; None when it is promised nothing.
    fn promise(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        self.gaps
            .note_blocked(self.backfill(), self.processors(&candidate.class.shape));
        let is_first = self.promises.blocked.is_none();
        self.promises.blocked.get_or_insert(candidate.job);
        if self.policy.backfill.policy == Filling::None
            && !self.promises.is_preemptor(candidate.job)
        {
            return if is_first { self.shut(candidate) } else { None };
        }
        let had = self.promises.had(candidate.job);
        let may = !self.calendar.is_full() && self.promises.take(candidate.class);
        let at = if may || had {
            self.book(candidate)
        } else {
            None
        };
        if may && at.is_none() {
            self.promises.give_back(candidate.class);
            self.refusals.give_up(&candidate.class.shape);
        }
        at
    }

    /// I18: nobody passes the first blocked job. When it can start is a forecast.
    fn shut(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let at = self.book(candidate);
        self.gate = Some((candidate.job, at.unwrap_or(Time::NEVER)));
        at
    }

    /// Books the earliest start, or renews the one there is, and claims the room for one that is
    /// due.
    fn book(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let at = self.promise_beyond(candidate)?;
        if at <= self.now + OVERDUE && self.backfill().policy == Filling::Preempt {
            let borrowed = self
                .borrowed
                .get_or_insert_with(|| Borrowed::new(self.state, &self.space));
            let ways = borrowed.claim_back(candidate.job, &candidate.class.shape);
            self.take_back(candidate.job, ways);
        }
        Some(at)
    }

    /// Promises the earliest start, however deep the policy promises; None if nobody can tell when
    /// that is.
    pub fn promise_beyond(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let Candidate { job, class, .. } = candidate;
        if self.calendar.promise(job).is_none() {
            self.calendar.book(
                &self.space,
                &self.windows,
                job,
                (class, self.span_of(class)),
            )?;
        }
        let promise = self.calendar.promise(job)?;
        let at = promise.at;
        for ix in promise
            .nodes
            .iter()
            .filter_map(|node| self.state.cluster.find(node))
        {
            self.space.promise(ix, at);
        }
        let booking =
            bookings::booking(&self.plan, &self.windows, (job, class), promise, self.state);
        self.plan.bookings.push(booking);
        let had = self.state.bookings.promise(job);
        let moves = self.promises.had(job)
            && had.is_some_and(|had| had.at != at || had.nodes != promise.nodes);
        // An overdue job has no known end: to look again at once would not help.
        if at > self.now + OVERDUE {
            // Jobs ahead that a booking kept from starting may start now that it has moved.
            let next = if moves && self.refusals.has_delayed_jobs() {
                self.now + Span(1)
            } else {
                at
            };
            self.plan.look_again(next);
        }
        Some(at)
    }
}

/// The nodes that windows set aside later, and from when on: promises too, as far as M8b goes.
fn windows_ahead(state: &ClusterState, now: Time) -> impl Iterator<Item = (NodeIx, Time)> + '_ {
    let ahead = state
        .windows
        .values()
        .filter(move |window| window.from > now);
    ahead.flat_map(|window| {
        let nodes = window
            .shares
            .iter()
            .filter_map(|share| state.cluster.find(&share.node));
        nodes.map(|ix| (ix, window.from))
    })
}
