//! Scheduling: runs scheduling cycles and carries out their plans.

use crate::model::trigger::{AwaitedMoment, CycleRecord, Trigger, Triggers};
use crate::sched::cycle;
use crate::sched::view::plan::Plan;
use crate::schedd::state::Schedd;
use crate::schedd::timers;
use crate::server::effects::Effects;
use crate::spool::SpoolError;
use crate::sys::clock::{monotonic, monotonic_micros};
use crate::sys::fault;

impl Schedd {
    /// Runs cycles. A job can depend on the start of another job. Therefore, if the plan of a cycle
    /// affects dependent jobs, another cycle follows at once.
    pub(super) fn decide(&mut self) {
        self.server.dependencies.has_affected_jobs = false;
        while self.decide_once() && self.server.dependencies.has_affected_jobs {
            self.server.dependencies.has_affected_jobs = false;
            // The reasons (triggers) for this cycle are recorded already.
            self.server.request_cycle();
        }
    }

    /// Runs one scheduling cycle and carries out its plan. Starts are on disk before any node gets
    /// the order to start a job. Returns whether anything was carried out.
    fn decide_once(&mut self) -> bool {
        if !self.may_decide() {
            return false;
        }
        let Some(triggers) = self.due_triggers() else {
            return false;
        };
        let (mut plan, took) = self.run_cycle();
        self.publish(&plan, &triggers);
        let preempts = self.server.apply_preemptions(&plan);
        self.hold_back_unapproved(&mut plan);
        self.server.apply_resumes(&plan.resumes);
        for started in self.server.apply_starts(&plan) {
            self.clear_hook_refusal(started);
        }
        self.cycles.add(record(&plan, triggers, took));
        let judged = self.server.judge_limits(&plan);
        if plan.starts.is_empty() && plan.resumes.is_empty() && !preempts && !judged {
            return false;
        }
        let carried_out = self.commit_plan();
        // The starts of this plan do not require another cycle.
        self.server.take_cycle_due();
        carried_out
    }

    /// Whether the scheduler may run now.
    fn may_decide(&mut self) -> bool {
        // If the disk is almost full, the free space on the disk is reserved for the ends of
        // running jobs. With scheduling off, only `qrun` starts jobs.
        let is_off = !self.reserve.is_complete()
            || !self.server.setup.config.cycle.scheduling
            || self.shutdown_mode.is_some();
        if is_off {
            self.next_cycle = None;
            return false;
        }
        !self.awaits_own_noded() && !self.startup_grace.is_waiting(&mut self.server)
    }

    /// The reasons for the cycle that is due; None if no cycle is due.
    fn due_triggers(&mut self) -> Option<Triggers> {
        if !self.server.take_cycle_due() {
            return None;
        }
        self.allocation_script.ask(&mut self.server, monotonic());
        let triggers = self.server.take_triggers();
        if !triggers.have_poll() && fault::point("cycle.event").is_err() {
            return None;
        }
        self.renew_permits();
        let is_due = cycle::is_due(
            self.server.cluster(),
            &self.server.setup.policy,
            self.server.now,
            &self.cycle_cache,
        );
        is_due.then_some(triggers)
    }

    /// Passes the bookings and reasons of a plan to the next cycle and to the reports for users.
    fn publish(&mut self, plan: &Plan, triggers: &Triggers) {
        self.next_cycle = plan.next;
        self.faults.log_once(
            self.server.cluster().formula_fault(),
            &self.server.setup.policy.precedence,
        );
        self.server.take_over(plan, triggers);
        let fair_shares = self
            .server
            .cluster()
            .fair_share_priorities(&self.server.setup.policy.fair_share);
        self.verdicts.update_fair_shares(fair_shares, monotonic());
        let cluster = self.server.cluster();
        self.verdicts
            .update(plan, |job| cluster.class_of(job).is_some(), monotonic());
    }

    /// Commits the changes of a plan, and sends the resulting orders. Returns false if the commit
    /// failed.
    fn commit_plan(&mut self) -> bool {
        match self.commit() {
            Ok(touched) => {
                self.carry_out(Effects::default(), &touched);
                true
            }
            Err(error) => {
                tracing::error!("cannot store the plan of a cycle in the spool: {error}");
                if matches!(error, SpoolError::Full) {
                    self.reserve.mark_incomplete(SpoolError::Full);
                }
                self.server.want_cycle(Trigger::Timer(AwaitedMoment::Disk));
                self.timers.retry = Some(monotonic() + timers::RETRY);
                false
            }
        }
    }

    /// Runs the cycle. Returns its plan and its duration in microseconds.
    fn run_cycle(&mut self) -> (Plan, u64) {
        let began = monotonic_micros();
        let plan = self.server.plan(&mut self.cycle_cache);
        (plan, monotonic_micros() - began)
    }
}

/// The record of a cycle that took `took` microseconds, for `qstat --cycles`. `Cycles::add` sets
/// the number.
fn record(plan: &Plan, triggers: Triggers, took: u64) -> CycleRecord {
    CycleRecord {
        number: 0,
        at: plan.now,
        triggers,
        considered: plan.considered as u64,
        started: plan.starts.len() as u64,
        preempted: plan.preempts.len() as u64,
        took,
    }
}
