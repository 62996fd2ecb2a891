//! The state of a cycle: its decisions so far and the resources that they leave.

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

/// The purpose of a pass through the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Start jobs in order of priority.
    Order,
    /// Plan the starts of jobs within their soft limits before other jobs start. These jobs were
    /// considered before, so they do not count towards the backfill depth (M23).
    SoftLimitPlans,
    /// Start jobs that exceed a soft limit but no hard limit (M23).
    OverSoftLimits,
    /// Start more subjobs of an array than its own limit allows (Q15).
    Expansion,
}

/// The state of one cycle.
pub struct CycleState<'s> {
    /// The snapshot that the cycle works on.
    pub state: &'s ClusterState,
    /// The time of the cycle.
    pub now: Time,
    /// The resources that are free now, less those of jobs started in this cycle.
    pub space: AvailabilityMap<'s>,
    /// The resources that would be free without any job; see [`CycleState::vacant`].
    vacant: OnceCell<AvailabilityMap<'s>>,
    guide: Arc<Guide>,
    /// The free CPU and GPU numbers.
    pub numbers: Numbers,
    pub(super) policy: &'s Policy,
    pub(super) windows: Windows<'s>,
    pub(super) calendar: Calendar<'s>,
    pub(super) promises: BookingBudget<'s>,
    /// The blocked job that no later job may pass, and its earliest start (I18).
    pub(super) barrier: Option<(JobId, Time)>,
    pub(super) backfill_limits: BackfillLimits,
    /// The resources of planned starts that backfilled jobs use; computed when a planned start is
    /// due.
    borrowed: Option<Borrowed<'s>>,
    /// The number of subjobs that this cycle starts of each array with a limit of its own, by array
    /// number; with `true`, of those that had already started once.
    counted: BTreeMap<(u64, bool), u32>,
    /// Whether a shape could ever run.
    possible: BTreeMap<ShapeId, bool>,
    pub(super) refusals: Refusals,
    /// The counters of the limits on running jobs; None without limits.
    pub(super) limits: Option<LimitCounters<'s>>,
    /// Jobs that earlier passes have started.
    started: BTreeSet<JobId>,
    pub(super) plan: Plan,
}

impl<'s> CycleState<'s> {
    /// Opens a cycle without any decisions.
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
                limits.is_none_or(|limits| limits.exceeded_limit(class).is_none())
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
            barrier: None,
            backfill_limits: BackfillLimits::default(),
            borrowed: None,
            counted: BTreeMap::new(),
            possible: BTreeMap::new(),
            refusals: Refusals::new(resolved.distinguishes_classes()),
            limits,
            started: BTreeSet::new(),
            plan: Plan {
                by_use,
                next: resolved.next,
                ..Plan::new(now)
            },
        }
    }

    /// The walltime of a class, or the default walltime of the policy.
    pub fn span_of(&self, class: &ClassKey) -> Span {
        class.walltime.unwrap_or(self.policy.default_walltime)
    }

    /// The total number of CPUs of a request.
    pub fn processors(&self, shape: &Shape) -> i64 {
        self.state
            .cluster
            .catalog
            .index("ncpus")
            .map_or(0, |index| shape.total[index])
    }

    /// The end of a job of this class if it started now.
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
        // Without nodes, no request can be ruled out.
        let is_possible = vacant.has_no_nodes() || place::fits(vacant, shape);
        self.possible.insert(shape.id, is_possible);
        is_possible
    }

    /// The number of running subjobs of the candidate's array, including those that this cycle
    /// starts.
    pub fn running_of(&self, candidate: Candidate) -> u32 {
        let number = candidate.job.number;
        let [first, again] =
            [false, true].map(|again| self.counted.get(&(number, again)).copied().unwrap_or(0));
        match candidate.class.beyond {
            None => candidate.begun + first,
            Some(_) => self.state.running_elements(number) + first + again,
        }
    }

    /// How many subjobs of a candidate's array may run at once; None if there is no limit.
    pub fn subjob_limit(&self, candidate: Candidate) -> Option<SubjobLimit> {
        let class = candidate.class;
        let limit = class.at_once.or(class.beyond)?;
        let as_requested = SubjobLimit {
            limit,
            most: class.expands_to.unwrap_or(limit),
        };
        // A subjob that starts again carries the limit of its first start; the array may have been
        // altered since.
        let now = class
            .beyond
            .and_then(|_| self.state.subjob_limit(candidate.job.number));
        Some(now.unwrap_or(as_requested))
    }

    /// The reservations, with the resources that they leave to other jobs.
    pub fn windows(&self) -> &Windows<'s> {
        &self.windows
    }

    /// The planned starts.
    pub fn calendar(&self) -> &Calendar<'s> {
        &self.calendar
    }

    /// The priority threshold and the priority of a job; None without a threshold or a priority.
    pub fn threshold(&self, job: JobId) -> Option<(f64, f64)> {
        let least = self.policy.precedence.threshold?;
        Some((least, self.state.score(self.policy, job)?))
    }

    /// The backfill policy.
    pub fn backfill(&self) -> &'s Backfill {
        &self.policy.backfill
    }

    /// The placement policy.
    pub fn placement(&self) -> &'s policy::PlacementPolicy {
        &self.policy.placement
    }

    /// Whether all planned starts that the policy allows are given: later jobs are backfilled.
    pub fn is_fully_planned(&self) -> bool {
        self.promises.is_spent()
    }

    /// Counts a considered job.
    pub fn consider(&mut self) {
        self.plan.considered += 1;
    }

    /// Whether an earlier pass through the queue started a job.
    pub fn has_started(&self, job: JobId) -> bool {
        self.started.contains(&job)
    }

    /// Begins another pass through the queue.
    pub fn begin_again(&mut self) {
        self.started = self.plan.starts.iter().map(|start| start.job).collect();
    }

    /// Adds a start to the plan and claims its resources.
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

    /// Records a refusal, and plans the start of a blocked job if the policy allows another planned
    /// start.
    pub fn wait(&mut self, candidate: Candidate<'s>, mut reason: Arc<Reason>) -> Refused {
        self.promises.visit(candidate.job, candidate.class);
        if self
            .plan
            .eligible
            .refusal(candidate.class.id, candidate.job)
            .is_some()
        {
            // `close` adds the verdict: the list contains only some jobs of this class.
            return Refused::Class;
        }
        // A job that waits for resources of a reservation gets no planned start elsewhere.
        let is_promised = reason.is_blocked()
            && candidate.class.reservation.is_none()
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
        self.schedule_cycle_for(&reason);
        self.refusals.note(candidate.job, &reason);
        let counts =
            self.promises.blocked.is_some() && self.backfill_limits.counts(self.backfill());
        let is_followed = at.is_some() && self.promises.considers_more(candidate.class);
        let considers_next =
            counts || is_followed || self.promises.has_unconsidered(candidate.class);
        let refused = if considers_next {
            Refused::Job
        } else if self.is_for_all(candidate, &reason) {
            Refused::Shape
        } else {
            Refused::Class
        };
        self.add_verdict(candidate.class, reason, refused);
        refused
    }

    /// Schedules a cycle for the time at which this reason may cease to hold although no job ends.
    pub fn schedule_cycle_for(&mut self, reason: &Reason) {
        if let Reason::Deferred { until } | Reason::KeptForWider { until, .. } = *reason {
            self.plan.request_cycle(until);
        }
        if let Reason::Limited(excess) = reason {
            // M21: the usage that counts decays although no job ends.
            if let Some(until) = excess.until {
                self.plan.request_cycle(until);
            }
        }
        if let Some(change) = self.next_change(reason) {
            self.plan.request_cycle(change);
        }
    }

    /// Adds the verdict of a class, unless it has one, or of its whole shape.
    fn add_verdict(&mut self, class: &ClassKey, reason: Arc<Reason>, refused: Refused) {
        match refused {
            // Other classes of this shape may have no verdict yet, even if this class has one.
            Refused::Shape => self
                .plan
                .verdicts
                .push((ClassId::of_shape(class.shape.id), reason)),
            Refused::Job | Refused::Class if !self.refusals.has_verdict(class) => {
                self.plan.verdicts.push((class.id, reason));
            }
            Refused::Job | Refused::Class => (),
        }
        if refused == Refused::Job {
            self.refusals.note_verdict(class);
        }
    }

    /// The next change of reservations or of site times, if the reason is due to them.
    fn next_change(&self, reason: &Reason) -> Option<Time> {
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

    /// Plans the start of a blocked job; None if it gets no planned start.
    fn promise(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        self.backfill_limits
            .note_blocked(self.backfill(), self.processors(&candidate.class.shape));
        let is_first = self.promises.blocked.is_none();
        self.promises.blocked.get_or_insert(candidate.job);
        if self.policy.backfill.policy == Filling::None
            && !self.promises.is_preemptor(candidate.job)
        {
            return if is_first {
                self.block_later_jobs(candidate)
            } else {
                None
            };
        }
        let is_kept = self.promises.has_kept_booking(candidate.job);
        let may = !self.calendar.is_full() && self.promises.take(candidate.class);
        let at = if may || is_kept {
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

    /// I18: lets no later job pass the first blocked job. Returns a forecast of its start.
    fn block_later_jobs(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let at = self.book(candidate);
        self.barrier = Some((candidate.job, at.unwrap_or(Time::NEVER)));
        at
    }

    /// Plans the earliest start or renews the existing plan. If the start is due, reclaims its
    /// resources from backfilled jobs.
    fn book(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let at = self.promise_beyond(candidate)?;
        if at <= self.now + OVERDUE && self.backfill().policy == Filling::Preempt {
            let borrowed = self
                .borrowed
                .get_or_insert_with(|| Borrowed::new(self.state, &self.space));
            let preemptions = borrowed.reclaim(candidate.job, &candidate.class.shape);
            self.take_back(candidate.job, preemptions);
        }
        Some(at)
    }

    /// Plans the earliest start regardless of the reservation depth of the policy; None if it
    /// cannot be computed.
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
        let moves = self.promises.has_kept_booking(job)
            && had.is_some_and(|had| had.at != at || had.nodes != promise.nodes);
        // A start planned for the next moment waits for an overdue job: another cycle at once would
        // not help.
        if at > self.now + OVERDUE {
            // Jobs that the old planned start had delayed may start now that it has moved.
            let next = if moves && self.refusals.has_delayed_jobs() {
                self.now + Span(1)
            } else {
                at
            };
            self.plan.request_cycle(next);
        }
        Some(at)
    }
}

/// The nodes of future reservations, each with the begin: M8b treats them as planned starts.
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
