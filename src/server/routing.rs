//! Routes jobs from routing queues to other queues: after each change of the job, and periodically.

use crate::model::admission::RouteOutcome;
use crate::model::job::Job;
use crate::model::job::Spec;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::queue::counters::EnteringJob;
use crate::server::queue_admission;
use crate::server::state::ServerState;
use std::sync::Arc;

/// Tries to route the jobs with a routing attempt that is due.
pub fn route_waiting_jobs(server: &mut ServerState) {
    for id in server.routed_due() {
        let job = server.job(id).cloned();
        let queue = job
            .as_ref()
            .and_then(|job| server.setup.queue(&job.spec.queue).cloned());
        if let Some((job, queue)) = job.zip(queue) {
            route_job(server, &job, &queue);
        }
    }
}

fn route_job(server: &mut ServerState, job: &Job, queue: &Queue) {
    let by = format!("Server@{}", server.setup.host);
    let entering = EnteringJob::Known(job.id);
    match queue_admission::with_queue_admission(server, entering, &job.owner, |admission| {
        admission.turn(job, queue, server.now)
    }) {
        RouteOutcome::PassOn(spec) => put_into(server, job.id, *spec, by),
        RouteOutcome::Delete => {
            server.apply_event_to_all(job.id, &Event::DeleteWanted { by, force: false })
        }
        RouteOutcome::Wait(pause) => server.retry_routing_after(job.id, pause),
    }
}

/// Gives a job a new spec, and moves the job to the queue of this spec.
pub fn put_into(server: &mut ServerState, id: JobId, spec: Spec, by: String) {
    let Some(from) = server.job(id).map(|job| job.spec.queue.clone()) else {
        return;
    };
    let to = spec.queue.clone();
    server.change(id, |job| job.spec = Arc::new(spec));
    server.apply_event(id, Event::Moved { by, from, to });
}
