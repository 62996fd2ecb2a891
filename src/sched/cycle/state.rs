//! What a cycle has decided so far and what that leaves.

mod bounds;

mod preemptions;

mod resumptions;

mod refusals;

pub use refusals::Refused;

use super::launch::Numbers;
use super::limits::Books;
use super::preemptible_backfill::Borrowed;
use super::{eligibility, threshold, throttling};
use crate::model::job::SubjobLimit;
use crate::model::job_id::JobId;
use crate::model::policy::quality::Flag;
use crate::model::policy::{self, Backfill, Filling, Policy};
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::backfill::bookings::{self, Promises};
use crate::sched::backfill::calendar::Calendar;
use crate::sched::backfill::limits::Gaps;
use crate::sched::backfill::reservation_access::{Leave, Windows};
use crate::sched::placement::availability_map::{Claim, Space};
use crate::sched::placement::matching::{self, Placement};
use crate::sched::placement::rank::Guide;
use crate::sched::placement::resolution::Resolved;
use crate::sched::placement::{availability_policy, shortage};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::current_bookings::OVERDUE;
use crate::sched::view::plan::{Booking, Plan, Start};
use crate::sched::view::shape::{ClassId, ClassKey, Shape, ShapeId};
use crate::sched::view::snapshot::State;
use refusals::Refusals;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The books of one cycle.
pub struct Ledger<'s> {
    /// What the cycle sees.
    pub state: &'s State,
    /// When it is.
    pub now: Time,
    /// What is free now, less what was started.
    pub space: Space<'s>,
    /// What would be free with every node up and nobody there.
    pub vacant: Space<'s>,
    /// The numbers of processors and GPUs that are free.
    pub numbers: Numbers,
    policy: &'s Policy,
    windows: Windows<'s>,
    calendar: Calendar<'s>,
    promises: Promises<'s>,
    /// The blocked job that nobody may pass, and when it can start.
    gate: Option<(JobId, Time)>,
    gaps: Gaps,
    /// Whether others have made way for the job that is considered.
    is_awaited: bool,
    /// Whether the job that is considered may have room on loan.
    may_borrow: bool,
    /// Whether the job that is about to start takes what others are promised.
    borrows: bool,
    /// What has been lent to fillers, once it is wanted back.
    borrowed: Option<Borrowed<'s>>,
    /// Whether all promises are given: what starts now fills gaps.
    is_filling: bool,
    /// Whether anybody was refused for the sake of a promise.
    was_in_the_way: bool,
    /// Whether arrays get more elements than they limit themselves to.
    gives_extra: bool,
    /// Starts of elements of arrays that limit themselves, by the array's number; with true, of
    /// those that had begun before.
    counted: BTreeMap<(u64, bool), u32>,
    /// Whether a shape could ever run.
    possible: BTreeMap<ShapeId, bool>,
    refusals: Refusals,
    /// What limits on what runs leave, if there are any.
    limits: Option<Books<'s>>,
    /// What was started in passes before the last.
    started: BTreeSet<JobId>,
    plan: Plan,
}

impl<'s> Ledger<'s> {
    /// Nothing decided yet.
    pub fn open(
        state: &'s State,
        policy: &'s Policy,
        resolved: &'s Resolved,
        now: Time,
    ) -> Ledger<'s> {
        let placement = &policy.placement;
        let guide = Arc::new(Guide::new(placement, &state.cluster));
        let mut space = Space::now(&state.cluster).guided(guide.clone());
        availability_policy::observe(&mut space, placement);
        windows_ahead(state, now).for_each(|(ix, from)| space.promise(ix, from));
        let by_use = availability_policy::by_use(&state.cluster, placement);
        let mut calendar = Calendar::new(state, now);
        let windows = Windows::open(state, now);
        let mut limits = Books::open(state, policy, now);
        let may_run = |class: &ClassKey| {
            limits
                .as_mut()
                .is_none_or(|limits| limits.bar(class).is_none())
        };
        let view = (state, resolved);
        let promises = Promises::open(
            &policy.backfill,
            view,
            &mut calendar,
            (&space, &windows),
            now,
            may_run,
        );
        Ledger {
            state,
            policy,
            now,
            space,
            vacant: Space::vacant(&state.cluster).guided(guide),
            numbers: Numbers::default(),
            windows,
            calendar,
            promises,
            gate: None,
            gaps: Gaps::default(),
            is_awaited: false,
            may_borrow: false,
            borrows: false,
            borrowed: None,
            is_filling: false,
            was_in_the_way: false,
            gives_extra: false,
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

    /// Whether the request could run on the nodes as configured, with nobody there.
    pub fn is_possible(&mut self, shape: &Shape) -> bool {
        // A cluster without nodes tells nothing about any request.
        let is_possible = |vacant: &Space| vacant.is_void() || matching::fits(vacant, shape);
        *self
            .possible
            .entry(shape.id)
            .or_insert_with(|| is_possible(&self.vacant))
    }

    /// Where the job fits now without delaying a promise, or why it does not.
    pub fn place(&mut self, candidate: Candidate<'s>) -> Result<Placement, Arc<Reason>> {
        let is_promised = self.calendar.promise(candidate.job).is_some();
        let placement = self.place_as_it_may(candidate)?;
        let passes = self.promises.blocked.is_some() && !is_promised;
        if passes && self.passes_nobody(candidate.class) {
            return Err(Reason::NoBackfill.into());
        }
        Ok(placement)
    }

    /// Whether jobs of a class never pass a blocked one (M27).
    pub fn passes_nobody(&self, class: &ClassKey) -> bool {
        self.policy
            .qualities
            .flags(class.who.qos.as_deref())
            .contains(&Flag::NoBackfill)
    }

    /// The same, whatever its quality of service says.
    fn place_as_it_may(&mut self, candidate: Candidate<'s>) -> Result<Placement, Arc<Reason>> {
        self.borrows = false;
        self.is_awaited = self.promises.is_earmarked(candidate.job);
        // Q9: who wants to be left alone has nothing on loan.
        let may_leave = !candidate.class.protected && self.state.standing.may_borrow(candidate.job);
        self.may_borrow = may_leave && self.lends();
        let promised = self
            .calendar
            .promise(candidate.job)
            .map(|promise| promise.at);
        if self.promises.blocked.is_some() {
            self.gaps.look(self.backfill(), promised.is_some())?;
        }
        if let Some(at) = promised {
            if self.promises.stands(at, self.now) && !self.is_awaited {
                return Err(self.not_yet(candidate, at));
            }
            self.calendar.cancel(candidate.job);
        }
        self.place_beside(candidate.class)
    }

    /// Whether fillers have promised nodes on loan: not what others made for somebody (G8).
    fn lends(&self) -> bool {
        self.backfill().policy == Filling::Preempt
            && self.plan.preempts.is_empty()
            && !self.promises.are_earmarked()
    }

    /// Why a job waits for the start it was promised.
    fn not_yet(&mut self, candidate: Candidate, at: Time) -> Arc<Reason> {
        let promised = Arc::new(Reason::WouldDelayBooking {
            holder: candidate.job,
            at,
        });
        match self.refusals.is_told(candidate.class) {
            true => promised,
            false => self.place_beside(candidate.class).err().unwrap_or(promised),
        }
    }

    /// Where a job that is promised nothing fits beside promises and windows, or within one.
    pub fn place_beside(&mut self, class: &ClassKey) -> Result<Placement, Arc<Reason>> {
        let until = self.end_of(class);
        match self.windows.fit(&self.space, class, until)? {
            None => self.place_openly(class),
            Some(Leave {
                placement,
                is_inside: true,
            }) => Ok(placement?),
            Some(Leave { placement, .. }) => {
                // What does not fit though nothing were set aside, waits for that.
                self.place_openly(class)?;
                self.place_beside_both(class, until, placement?)
            }
        }
    }

    /// Where a job fits in what windows leave without delaying a promise; it does fit without
    /// either.
    fn place_beside_both(
        &mut self,
        class: &ClassKey,
        until: Time,
        left: Placement,
    ) -> Result<Placement, Arc<Reason>> {
        if self.borrows || self.calendar.lets_pass(until) {
            return Ok(left);
        }
        let shape = &class.shape;
        let beside = self.windows.left(class, until);
        let placement =
            beside.and_then(|left| self.calendar.within(left, &self.space, shape, until));
        match self.calendar.in_the_way(shape, until) {
            Some((holder, at)) => {
                placement.ok_or_else(|| Arc::new(Reason::WouldDelayBooking { holder, at }))
            }
            None => Ok(left),
        }
    }

    fn place_openly(&mut self, class: &ClassKey) -> Result<Placement, Arc<Reason>> {
        let (shape, until) = (&class.shape, self.end_of(class));
        // What keeps others out does not keep out one for which there is room set aside.
        if let Some(reason) = self.refusals.of_shape(shape).filter(|_| !self.is_awaited) {
            return Err(reason);
        }
        if let Some(misfit) = matching::misfit(&self.space, shape) {
            return Err(self
                .refusals
                .refuse(shape, shortage::now(&self.space, shape, misfit)));
        }
        if let Some((holder, at)) = self.gate.filter(|_| !self.is_awaited) {
            // Nothing starts any more: so it is for all of this shape.
            return Err(self
                .refusals
                .refuse(shape, Reason::WouldDelayBooking { holder, at }));
        }
        self.gaps.keep(
            self.backfill(),
            &self.state.standing,
            self.processors(shape),
            self.now,
        )?;
        if self.calendar.lets_pass(until) {
            return self.place_now(shape);
        }
        if let Some(reason) = self.refusals.of_span(shape, self.span_of(class)) {
            return Err(reason);
        }
        // X4: nobody can tell when it ends.
        if !self.may_borrow && until == Time::NEVER && class.walltime.is_none() {
            return Err(Reason::NoWalltime.into());
        }
        if let Some(placement) = self.calendar.beside(&self.space, shape, until) {
            return Ok(placement);
        }
        if self.may_borrow {
            self.borrows = true;
            return self.place_now(shape);
        }
        match self.calendar.in_the_way(shape, until) {
            Some((holder, at)) => Err(Reason::WouldDelayBooking { holder, at }.into()),
            None => self.place_now(shape),
        }
    }

    /// Where the request fits now, whatever is promised to others.
    pub fn place_now(&mut self, shape: &Shape) -> Result<Placement, Arc<Reason>> {
        let space = &self.space;
        matching::fit(space, shape).map_err(|misfit| {
            self.refusals
                .refuse(shape, shortage::now(space, shape, misfit))
        })
    }

    /// How many elements of an array that limits itself have begun, with those that this cycle
    /// starts; for one of them that is to start once more, how many run.
    pub fn running_of(&self, candidate: Candidate) -> u32 {
        let number = candidate.job.number;
        let started = |again| self.counted.get(&(number, again)).copied().unwrap_or(0);
        match candidate.class.beyond {
            None => candidate.begun + started(false),
            Some(_) => self.state.running_elements(number) + started(false) + started(true),
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
    pub fn placement(&self) -> &'s policy::Placement {
        &self.policy.placement
    }

    /// Whether all promises are given, when that has just come about.
    pub fn is_filling(&mut self) -> bool {
        let begins = !self.is_filling && self.promises.is_spent();
        self.is_filling |= begins;
        begins
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

    /// Enters a start.
    pub fn start(&mut self, job: Candidate, start: Start, claim: Claim) {
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
        let preemptible = std::mem::take(&mut self.borrows);
        let until = if preemptible {
            self.now + OVERDUE
        } else {
            start.until
        };
        self.windows
            .start(job.class, &claim, start.until, &self.space);
        self.calendar.start(start.job, claim, until, &self.space);
        let behind = self.plan.bookings.len();
        let limit = self.subjob_limit(job).filter(|_| self.gives_extra);
        let beyond = limit.map(|limit| limit.limit);
        self.plan.starts.push(Start {
            passed: self.promises.blocked,
            behind,
            preemptible,
            beyond,
            ..start
        });
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
        self.was_in_the_way |=
            matches!(*reason, Reason::WouldDelayBooking { holder, .. } if holder != candidate.job);
        let counts = self.promises.blocked.is_some() && self.gaps.counts(self.backfill());
        let is_followed = at.is_some() && self.promises.goes_on(candidate.class);
        let goes_on = counts || is_followed || self.promises.awaits(candidate.class);
        let refused = match goes_on {
            true => Refused::Job,
            false if self.is_for_all(candidate, &reason) => Refused::Shape,
            false => Refused::Class,
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
            excess
                .until
                .into_iter()
                .for_each(|until| self.plan.look_again(until));
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
            && !self.promises.is_earmarked(candidate.job)
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
        let is_elsewhere = |had: &Booking| had.at != at || had.nodes != promise.nodes;
        let moves =
            self.promises.had(job) && self.state.standing.promise(job).is_some_and(is_elsewhere);
        // A job that is overdue ends when it ends: to look again at once would help nobody.
        if at > self.now + OVERDUE {
            // Those ahead that had no room beside a promise may have some where that is another one
            // now.
            self.plan.look_again(if moves && self.was_in_the_way {
                self.now + Span(1)
            } else {
                at
            });
        }
        Some(at)
    }

    /// The plan.
    pub fn close(mut self) -> Plan {
        debug_assert_eq!(self.plan.audit(self.state), Ok(()));
        self.look_again_when_room_is_free();
        throttling::tell_stopped(self.state, &mut self.plan);
        threshold::tell_low(self.state, self.policy, &mut self.plan);
        if let Some(limits) = &mut self.limits {
            throttling::tell_limited(self.state, limits, &mut self.plan);
        }
        let names = |class| {
            self.state
                .classes
                .get(&class)
                .map(|class| class.key.verdict_names())
        };
        eligibility::tell(&mut self.plan, names);
        self.plan
    }
}

/// The nodes that windows set aside later, and from when on: promises too, as far as M8b goes.
fn windows_ahead(state: &State, now: Time) -> impl Iterator<Item = (NodeIx, Time)> + '_ {
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
