//! The charges of a transaction. Updates are added to the transaction at once; the scheduler's view
//! changes after the commit.

use crate::model::account::charge::Charge;
use crate::model::job::Job;
use crate::model::job::event::Event;
use crate::model::job::release::Division;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::sched::share_tree::usage::UsageTable;
use crate::sched::view::change::Change;
use crate::server::accounting::AccountingContext;
use crate::server::charging;
use crate::server::state::ServerState;
use crate::server::state::Transaction;
use crate::update::Update;
use std::borrow::Cow;
use std::sync::Arc;

/// The charges of an attempt are numbered. The final charge has number 0, charges for released
/// shares have numbers from 1 on, and charges up to a suspension have numbers from this constant
/// on.
const FIRST_PAUSE_NUMBER: u32 = 1 << 31;

/// The charges that a transaction adds and removes.
#[derive(Default)]
pub(crate) struct Charges {
    ended: Vec<(JobId, Charge)>,
    forgotten: Vec<Charge>,
}

impl Transaction {
    /// Charges an attempt that has ended, and adds its accounting record.
    pub(crate) fn charge_ended(
        &mut self,
        accounting: &AccountingContext,
        job: &Job,
        event: Option<&Event>,
    ) {
        self.changes.extend(accounting.of_attempt(job, event));
        let charge = charging::of_ended(accounting.setup, job, event, accounting.now);
        let Some((charge, run)) = charge.zip(job.life.run.as_ref()) else {
            return;
        };
        if !charge.is_empty() {
            self.changes.push(Update::Charge(
                (job.id, run.attempt, 0),
                Box::new(charge.clone()),
            ));
        }
        self.charges.ended.push((job.id, charge));
    }

    /// Charges released shares until now, or until the suspension if the job is suspended. The
    /// attempt continues on its other shares.
    pub(crate) fn charge_released(
        &mut self,
        accounting: &AccountingContext,
        job: &Job,
        division: &Division,
    ) {
        let Some(run) = job.life.open_run() else {
            return;
        };
        let Some(charge) =
            charging::of_released(accounting.setup, job, &division.released, accounting.now)
        else {
            return;
        };
        let part = u32::try_from(run.released.len()).unwrap_or(u32::MAX);
        if !charge.is_empty() {
            self.changes.push(Update::Charge(
                (job.id, run.attempt, part),
                Box::new(charge.clone()),
            ));
        }
        self.charges.ended.push((job.id, charge));
    }

    /// Charges an attempt up to its suspension, which begins now.
    pub(crate) fn charge_suspended(&mut self, accounting: &AccountingContext, job: &Job) {
        let Some(run) = job.life.open_run() else {
            return;
        };
        let Some(charge) = charging::of_stopped(accounting.setup, job, accounting.now) else {
            return;
        };
        let part = FIRST_PAUSE_NUMBER.saturating_add(run.pauses().count);
        if !charge.is_empty() {
            self.changes.push(Update::Charge(
                (job.id, run.attempt, part),
                Box::new(charge.clone()),
            ));
        }
        self.charges.ended.push((job.id, charge));
    }

    /// Adds the accounting record of a job ended by force. Charges for its attempt continue until
    /// the nodes report the end.
    pub(crate) fn record_forced_end(&mut self, accounting: &AccountingContext, job: &Job) {
        self.changes.extend(accounting.of_forced(job));
    }

    /// Adds the accounting record of a job if it has finished without an open attempt. An array
    /// gets no record of its own.
    pub(crate) fn record_unstarted_end(&mut self, accounting: &AccountingContext, job: &Job) {
        let is_over = job.life.state == JobState::Finished && job.life.open_run().is_none();
        self.changes
            .extend((is_over && !job.id.is_array()).then(|| accounting.of_waiting(job)));
    }
}

impl ServerState {
    /// Loads the stored usage, and adds the charges of running jobs. These charges have no end yet.
    pub fn load_usage(&mut self, usage: UsageTable) {
        self.cluster.make(Change::Usage(Cow::Owned(usage)));
        let jobs: Vec<Arc<Job>> = self.jobs.values().cloned().collect();
        jobs.iter().for_each(|job| self.charge_running(job));
    }

    /// Removes expired charges from the usage when the transaction is committed.
    pub fn remove_charges(&mut self, charges: Vec<Charge>) {
        self.transaction.charges.forgotten.extend(charges);
    }

    /// Updates the usage in the scheduler's view after a committed transaction, which changed the
    /// jobs in `touched`.
    pub(crate) fn settle_charges(&mut self, charges: Charges, touched: &[Arc<Job>]) {
        for (id, charge) in charges.ended {
            self.cluster.make(Change::Charged(id, Cow::Owned(charge)));
        }
        if !charges.forgotten.is_empty() {
            self.cluster
                .make(Change::Forgotten(Cow::Owned(charges.forgotten)));
        }
        touched.iter().for_each(|job| self.charge_running(job));
    }

    fn charge_running(&mut self, job: &Job) {
        let charge = charging::of_running(&self.setup, job);
        if let Some(charge) =
            charge.filter(|charge| !self.cluster.usage().is_charged(job.id, charge))
        {
            self.cluster
                .make(Change::Charged(job.id, Cow::Owned(charge)));
        }
    }
}
