//! May it run yet? The place where limits stand; today a queue may be stopped, and a job whose
//! start failed waits a while.

use super::shape::ClassKey;
use super::snapshot::State;
use crate::model::reason::Reason;
use crate::model::time::Time;

/// Refuses what its queue or a failed start bars for now.
pub fn admit(class: &ClassKey, state: &State, now: Time) -> Result<(), Reason> {
    if !state.queues.get(&class.queue).is_some_and(|queue| queue.started) {
        return Err(Reason::QueueStopped);
    }
    match class.not_before {
        Some(until) if until > now => Err(Reason::Deferred { until }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::time::Time;
    use crate::sched::fixture::{cluster, queue};

    #[test]
    fn a_stopped_queue_starts_nothing_and_blocks_nobody() {
        let mut scene = cluster("1 x ncpus=1").queued(1, "queue=night").queued(2, "queue=workq");
        assert_eq!(scene.why(1), "Not Running: Queue not started.");
        assert_eq!(scene.starts(), "2 on n1");
        scene.state.set_queue(&queue("night", true));
        assert_eq!(scene.starts(), "1 on n1");
    }

    #[test]
    fn a_failed_start_is_tried_again_in_time() {
        let scene = cluster("1 x ncpus=1").queued(1, "not_before=60").queued(2, "select=1:ncpus=1");
        assert_eq!((scene.starts().as_str(), scene.plan().next), ("2 on n1", Some(Time(60_000))));
        assert_eq!(scene.reason(1).unwrap().code(), "deferred");
        assert_eq!(scene.at(60).starts(), "1 on n1");
    }
}
