//! The end of a transaction: all changes are on disk, or all are undone.

use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::sched::view::change::Change;
use crate::sched::view::change::is_candidate;
use crate::server::state::ServerState;
use crate::server::state::arrays;
use crate::server::state::verdict_classes;
use crate::update::Update;
use std::borrow::Cow;
use std::sync::Arc;

impl ServerState {
    /// Takes the updates that the current transaction must write, in order.
    pub fn changes(&mut self) -> Vec<Update> {
        let steps = self
            .steps
            .iter()
            .map(|&(since, ahead)| Update::ClockStep(since, ahead));
        let mut changes: Vec<Update> = steps
            .chain(std::mem::take(&mut self.transaction.changes))
            .collect();
        if self.transaction.next.is_some() {
            changes.push(Update::Meta("next", self.next.to_string()));
        }
        for (id, touched) in &self.transaction.jobs {
            let Some(job) = self.jobs.get_mut(id) else {
                continue;
            };
            if let Some(rewrite) = arrays::unwritten(job) {
                changes.push(Update::Elements(*id, rewrite));
            }
            let verdict_classes = is_candidate(job).then(|| verdict_classes(job));
            changes.push(if touched.whole {
                Update::Job(job.clone(), verdict_classes)
            } else {
                Update::Life(job.clone(), verdict_classes)
            });
        }
        changes.extend(self.unwritten_reservations());
        changes.extend(self.transaction.purge.take().map(Update::Purge));
        changes
    }

    /// Completes a transaction that is on disk. Returns the changed jobs. Finished jobs without an
    /// open attempt are removed from memory.
    pub fn settle(&mut self) -> Vec<Arc<Job>> {
        let mut transaction = std::mem::take(&mut self.transaction);
        self.steps.clear();
        self.dependencies.settle();
        self.undo_log.settle();
        self.settle_reservations();
        self.mails.append(&mut transaction.mails);
        self.notices.append(&mut transaction.notices);
        self.log.append(&mut transaction.log);
        self.attempts.started += transaction.attempts.started;
        self.attempts.ended += transaction.attempts.ended;
        let touched: Vec<Arc<Job>> = transaction
            .jobs
            .keys()
            .filter_map(|id| self.jobs.get(id).cloned())
            .collect();
        self.settle_charges(transaction.charges, &touched);
        self.settle_setup(transaction.setup);
        self.license_counts.settle();
        for job in &touched {
            if job.life.state == JobState::Finished && job.life.open_run().is_none() {
                self.jobs.remove(&job.id);
            }
        }
        touched
    }

    /// Undoes all changes of a transaction that could not be written.
    pub fn roll_back(&mut self) {
        let transaction = std::mem::take(&mut self.transaction);
        self.dependencies.roll_back();
        self.undo_log.roll_back();
        self.roll_back_setup(transaction.setup);
        self.roll_back_license_counts();
        self.roll_back_reservations();
        if let Some(next) = transaction.next {
            self.next = next;
        }
        for (id, touched) in transaction.jobs {
            if let Some(begin) = self.jobs.get(&id).and_then(|job| job.spec.begin) {
                self.waiting.remove(&(begin, id));
            }
            match touched.before {
                Some(job) => self.jobs.insert(id, job),
                None => self.jobs.remove(&id),
            };
            self.refresh_job(id);
        }
        for (name, before) in transaction.nodes {
            match before {
                Some(node) => {
                    self.cluster.make(Change::of_node(&node));
                    self.nodes.insert(name, node);
                }
                None => {
                    self.cluster.make(Change::NoNode(Cow::Borrowed(&name)));
                    self.nodes.remove(&name);
                }
            }
        }
    }
}
