//! The state of a cycle: the decisions so far and the resources that are still free.

mod bounds;

mod preemptions;

mod resumptions;

mod refused_together;

use super::limits::LimitCounters;
use super::numbers::Numbers;
use super::preemptible_backfill::PreemptibleBackfill;
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
    /// Plan the starts of jobs within their soft limits before jobs over a soft limit start (M23).
    /// An earlier pass has considered these jobs, so they do not count towards the key `consider`
    /// of `[backfill]` again.
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
    /// The resources that are free at the start of the cycle, minus those of jobs that the cycle
    /// has started or resumed, and minus those that it holds for suspended jobs.
    pub space: AvailabilityMap<'s>,
    /// The resources that would be free without any job; see [`CycleState::vacant`].
    vacant: OnceCell<AvailabilityMap<'s>>,
    guide: Arc<Guide>,
    /// The free CPU and GPU numbers.
    pub numbers: Numbers,
    pub(super) policy: &'s Policy,
    pub(super) windows: Windows<'s>,
    pub(super) calendar: Calendar<'s>,
    pub(super) booking_budget: BookingBudget<'s>,
    /// The blocked job that no later job may pass, and its expected start (I18). The start is
    /// `Time::NEVER` if it is not known.
    pub(super) barrier: Option<(JobId, Time)>,
    pub(super) backfill_limits: BackfillLimits,
    /// The preemptible backfilled jobs and the resources that they would free; computed when the
    /// first planned start is due.
    backfilled: Option<PreemptibleBackfill<'s>>,
    /// The number of subjobs that this cycle starts, for arrays with a limit on running subjobs.
    /// The key is the array's number, and whether the subjobs had already started before.
    started_subjobs: BTreeMap<(u64, bool), u32>,
    /// Whether a shape (chunks, arrangement, conditions on nodes) could ever run.
    feasible: BTreeMap<ShapeId, bool>,
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
        let booking_budget = BookingBudget::open(
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
            booking_budget,
            barrier: None,
            backfill_limits: BackfillLimits::default(),
            backfilled: None,
            started_subjobs: BTreeMap::new(),
            feasible: BTreeMap::new(),
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

    /// The walltime of the jobs of a class (equal jobs), or the default walltime of the policy.
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

    /// Whether the request could run on the configured nodes if no other job ran. True if there are
    /// no nodes.
    pub fn is_possible(&mut self, shape: &Shape) -> bool {
        if let Some(&is_possible) = self.feasible.get(&shape.id) {
            return is_possible;
        }
        let vacant = self.vacant();
        // Without nodes, no request can be ruled out.
        let is_possible = vacant.has_no_nodes() || place::fits(vacant, shape);
        self.feasible.insert(shape.id, is_possible);
        is_possible
    }

    /// The number of running subjobs of the candidate's array, including those that this cycle
    /// starts.
    pub fn running_subjobs_of(&self, candidate: Candidate) -> u32 {
        let number = candidate.job.number;
        let [first, again] = [false, true].map(|again| {
            self.started_subjobs
                .get(&(number, again))
                .copied()
                .unwrap_or(0)
        });
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
        // The class of a requeued subjob contains the limit that applied when the subjob first
        // started. The array may have been altered since, so its present limit applies.
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

    /// The priority threshold of the policy and the priority of a job; None if the policy has no
    /// threshold or the job has no priority.
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

    /// Whether a job is blocked and the default pool of planned starts is used up. If so, later
    /// jobs are backfilled.
    pub fn is_fully_planned(&self) -> bool {
        self.booking_budget.is_spent()
    }

    /// Adds 1 to the number of considered jobs in the plan.
    pub fn count_considered(&mut self) {
        self.plan.considered += 1;
    }

    /// Whether an earlier pass through the queue started this job.
    pub fn has_started(&self, job: JobId) -> bool {
        self.started.contains(&job)
    }

    /// Begins another pass through the queue: [`CycleState::has_started`] now covers all starts so
    /// far.
    pub fn begin_again(&mut self) {
        self.started = self.plan.starts.iter().map(|start| start.job).collect();
    }

    /// Adds a start to the plan and claims its resources.
    pub fn add_start(&mut self, job: Candidate, start: Start, claim: JobAmounts) {
        self.booking_budget.note_considered(job.job, job.class);
        if job.class.at_once.or(job.class.beyond).is_some() {
            *self
                .started_subjobs
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

    /// Records a refusal. If the job is blocked and the policy allows another planned start, plans
    /// the job's start. Returns the jobs for which the refusal holds.
    pub fn record_refusal(&mut self, candidate: Candidate<'s>, mut reason: Arc<Reason>) -> Refused {
        self.booking_budget
            .note_considered(candidate.job, candidate.class);
        if self
            .plan
            .eligible
            .refusal(candidate.class.id, candidate.job)
            .is_some()
        {
            // `eligibility::set_verdicts` adds the verdict of this class at the end of the cycle,
            // because not all jobs of the class are on the list of eligible jobs.
            return Refused::Class;
        }
        // Jobs inside a reservation, and jobs to which an operator denies planned starts, get none.
        let is_plannable = reason.is_blocked()
            && candidate.class.reservation.is_none()
            && !candidate.class.unpromised;
        let at = if is_plannable {
            self.plan_start(candidate)
        } else {
            None
        };
        if at.is_some()
            && let Reason::Busy { until, .. } = Arc::make_mut(&mut reason)
        {
            *until = at;
        }
        self.schedule_cycle_for(&reason);
        self.refusals.note_delay(candidate.job, &reason);
        let counts =
            self.booking_budget.blocked.is_some() && self.backfill_limits.counts(self.backfill());
        let is_followed = at.is_some() && self.booking_budget.considers_more(candidate.class);
        let considers_next = counts
            || is_followed
            || self
                .booking_budget
                .has_unconsidered_booking(candidate.class);
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

    /// Schedules a cycle for the time, if known, at which this reason can cease to hold although no
    /// job ends.
    pub fn schedule_cycle_for(&mut self, reason: &Reason) {
        if let Reason::Deferred { until } | Reason::KeptForWider { until, .. } = *reason {
            self.plan.request_cycle(until);
        }
        if let Reason::Limited(excess) = reason {
            // M21: the counted usage decreases with time, even if no job ends.
            if let Some(until) = excess.until {
                self.plan.request_cycle(until);
            }
        }
        if let Some(change) = self.next_change(reason) {
            self.plan.request_cycle(change);
        }
    }

    /// Adds the verdict of the class's whole shape if the refusal holds for the shape; otherwise
    /// the verdict of the class, unless the class has a verdict.
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

    /// The next change of reservations or site times, if they cause this reason; otherwise None.
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
    fn plan_start(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        self.backfill_limits
            .note_blocked(self.backfill(), self.processors(&candidate.class.shape));
        let is_first = self.booking_budget.blocked.is_none();
        self.booking_budget.blocked.get_or_insert(candidate.job);
        if self.policy.backfill.policy == Filling::None
            && !self.booking_budget.is_preemptor(candidate.job)
        {
            return if is_first {
                self.block_later_jobs(candidate)
            } else {
                None
            };
        }
        let is_kept = self.booking_budget.has_kept_booking(candidate.job);
        let may = !self.calendar.is_full() && self.booking_budget.take_booking(candidate.class);
        let at = if may || is_kept {
            self.book(candidate)
        } else {
            None
        };
        if may && at.is_none() {
            self.booking_budget.return_booking(candidate.class);
            self.refusals.note_unplannable(&candidate.class.shape);
        }
        at
    }

    /// I18: lets no later job pass this blocked job. Returns the job's expected start, if known.
    fn block_later_jobs(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let at = self.book(candidate);
        self.barrier = Some((candidate.job, at.unwrap_or(Time::NEVER)));
        at
    }

    /// Plans the job's earliest start, or keeps the start that is already planned. If the start is
    /// due and the policy is `Preempt`, preempts the backfilled jobs that use the resources of this
    /// planned start.
    fn book(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let at = self.plan_start_beyond_depth(candidate)?;
        if at <= self.now + OVERDUE && self.backfill().policy == Filling::Preempt {
            let backfilled = self
                .backfilled
                .get_or_insert_with(|| PreemptibleBackfill::new(self.state, &self.space));
            let preemptions = backfilled.reclaim(candidate.job, &candidate.class.shape);
            self.reclaim_for_booking(candidate.job, preemptions);
        }
        Some(at)
    }

    /// Plans the job's earliest start, even beyond the maximum number of planned starts (the key
    /// `depth` of `[backfill]`); None if the start cannot be computed.
    pub fn plan_start_beyond_depth(&mut self, candidate: Candidate<'s>) -> Option<Time> {
        let Candidate { job, class, .. } = candidate;
        if self.calendar.entry(job).is_none() {
            self.calendar.book(
                &self.space,
                &self.windows,
                job,
                (class, self.span_of(class)),
            )?;
        }
        let promise = self.calendar.entry(job)?;
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
        let moves = self.booking_budget.has_kept_booking(job)
            && had.is_some_and(|had| had.at != at || had.nodes != promise.nodes);
        // A start planned for `now + OVERDUE` waits for a job that is past its walltime or is being
        // preempted. An immediate cycle would not help.
        if at > self.now + OVERDUE {
            // Jobs that would have delayed the old planned start may be able to start now.
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

/// The nodes of future reservations, each with the time at which the reservation begins. In M8b,
/// this time counts like a planned start on the node.
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
