//! The scheduler's view of the server's state. [`SchedulerView::make`] applies the changes of this
//! state, and can record them for a later replay.

use crate::model::job::eligible_time::OwnLimit;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::policy::Policy;
use crate::model::time::Time;
use crate::model::trigger::Triggers;
use crate::sched::view::change::Change;
use crate::sched::view::change::RecordedEntry;
use crate::sched::view::plan::Plan;
use crate::sched::view::snapshot::ClusterState;
use crate::server::license_counts::LicenseCounts;
use crate::server::setup::Setup;
use std::borrow::Cow;
use std::ops::Deref;

/// Writes a recording: the changes of the scheduler's view, and the cycles with their plans.
pub trait Recorder {
    /// Appends a recorded entry, as a line of JSON.
    fn write(&mut self, line: &[u8]);
    /// Passes the written lines to the operating system.
    fn flush(&mut self);
}

/// The cluster state that the cycle reads, with an optional recorder of its changes.
pub struct SchedulerView {
    state: ClusterState,
    recorder: Option<Box<dyn Recorder>>,
}

impl SchedulerView {
    /// Creates an empty view, and begins the recording if there is a recorder.
    pub fn new(setup: &Setup, recorder: Option<Box<dyn Recorder>>) -> SchedulerView {
        let mut view = SchedulerView {
            state: ClusterState::new(&setup.resources),
            recorder,
        };
        view.begin(setup);
        view
    }

    /// Records a changed policy, which applies to the following cycles.
    pub fn follow(&mut self, policy: &Policy) {
        self.record(|| RecordedEntry::Policy(Cow::Borrowed(policy)));
    }

    /// Resets to an empty view under the current configuration.
    pub fn reset(&mut self, setup: &Setup) {
        self.state = ClusterState::new(&setup.resources);
        self.begin(setup);
    }

    fn begin(&mut self, setup: &Setup) {
        self.record(|| RecordedEntry::Begin {
            resources: Cow::Borrowed(&setup.resources),
            policy: Cow::Borrowed(&setup.policy),
        });
    }

    /// Adds the nodes, queues and system-wide resources.
    pub(crate) fn add_objects<'n>(
        &mut self,
        setup: &Setup,
        license_counts: &LicenseCounts,
        nodes: impl IntoIterator<Item = &'n Node>,
    ) {
        self.make(Change::Order(setup.listed()));
        for queue in &setup.queues {
            self.make(Change::Queue(Cow::Borrowed(queue)));
        }
        for (name, pool) in &setup.config.pools {
            let pool = license_counts.pool(name, pool);
            self.make(Change::Pool(Cow::Borrowed(name), Cow::Owned(pool)));
        }
        for node in nodes {
            self.make(Change::of_node(node));
        }
    }

    /// Applies and records a change.
    pub fn make(&mut self, change: Change) {
        self.state.make(&change);
        self.record(|| RecordedEntry::Change(change));
    }

    /// Updates priorities and sorts the queue for a cycle.
    pub fn prioritise(&mut self, policy: &Policy, now: Time) {
        self.state.prioritise(policy, now);
    }

    /// For each waiting job, the limit by which this plan blocks the job. Only limits within the
    /// owner's control count, such as a limit on the job's array, owner, group or project; None if
    /// no such limit blocks the job. Jobs for which this limit cannot have changed since the
    /// previous plan are omitted. The result is not recorded, because no plan depends on it.
    pub fn judge_limits(&mut self, plan: &Plan) -> Vec<(JobId, Option<OwnLimit>)> {
        self.state.judge_limits(plan)
    }

    /// Applies the bookings of a plan to the view, and records the cycle with its triggers and its
    /// plan.
    pub fn take_over(&mut self, plan: &Plan, triggers: &Triggers) {
        self.state.take_over(plan);
        let now: Time = plan.now;
        let plan = || Cow::Owned(plan.to_string());
        self.record(|| RecordedEntry::Cycle {
            now,
            triggers: Cow::Borrowed(triggers),
            plan: plan(),
        });
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }

    fn record<'e>(&mut self, entry: impl FnOnce() -> RecordedEntry<'e>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if let Ok(line) = serde_json::to_vec(&entry()) {
            recorder.write(&line);
        }
    }
}

impl Deref for SchedulerView {
    type Target = ClusterState;

    fn deref(&self) -> &ClusterState {
        &self.state
    }
}
