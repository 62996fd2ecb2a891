//! What waits in routing queues is passed on: tried when something about the job changes, then
//! again and again.

use super::entrance;
use super::ledger::Ledger;
use crate::model::admission::Turn;
use crate::model::job::event::Event;
use crate::model::job::{Job, Spec};
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::queue::counters::Comer;
use std::sync::Arc;

/// Tries all jobs whose turn it is.
pub fn attend(ledger: &mut Ledger) {
    for id in ledger.routed_due() {
        let job = ledger.job(id).cloned();
        let queue = job
            .as_ref()
            .and_then(|job| ledger.setup.queue(&job.spec.queue).cloned());
        if let Some((job, queue)) = job.zip(queue) {
            attend_to(ledger, &job, &queue);
        }
    }
}

fn attend_to(ledger: &mut Ledger, job: &Job, queue: &Queue) {
    let by = format!("Server@{}", ledger.setup.host);
    let comer = Comer::Known(job.id);
    match entrance::through(ledger, comer, &job.owner, |entrance| {
        entrance.turn(job, queue, ledger.now)
    }) {
        Turn::PassOn(spec) => put_into(ledger, job.id, *spec, by),
        Turn::Delete => ledger.happen_to_all(job.id, &Event::DeleteWanted { by, force: false }),
        Turn::Wait(pause) => ledger.try_again(job.id, pause),
    }
}

/// A job goes into another queue, as what it comes to there.
pub fn put_into(ledger: &mut Ledger, id: JobId, spec: Spec, by: String) {
    let Some(from) = ledger.job(id).map(|job| job.spec.queue.clone()) else {
        return;
    };
    let to = spec.queue.clone();
    ledger.change(id, |job| job.spec = Arc::new(spec));
    ledger.happen(id, Event::Moved { by, from, to });
}
