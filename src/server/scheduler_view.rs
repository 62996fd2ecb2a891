//! The scheduler's view of the server. All that changes it goes through one door, so that it can be
//! recorded and made once more elsewhere.

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

/// Writes down the changes of the scheduler's view.
pub trait Recorder {
    /// Adds a line.
    fn write(&mut self, line: &[u8]);
    /// Hands over to the system what was written.
    fn flush(&mut self);
}

/// What the cycle sees, and where its changes are written down, if anywhere.
pub struct SchedulerView {
    state: ClusterState,
    recorder: Option<Box<dyn Recorder>>,
}

impl SchedulerView {
    /// An empty view.
    pub fn new(setup: &Setup, recorder: Option<Box<dyn Recorder>>) -> SchedulerView {
        let mut view = SchedulerView {
            state: ClusterState::new(&setup.resources),
            recorder,
        };
        view.begin(setup);
        view
    }

    /// From now on cycles go by another policy.
    pub fn follow(&mut self, policy: &Policy) {
        self.record(|| RecordedEntry::Policy(Cow::Borrowed(policy)));
    }

    /// A view of nothing again, under what is configured now.
    pub fn begin_anew(&mut self, setup: &Setup) {
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
    pub(crate) fn furnish<'n>(
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

    /// Makes a change.
    pub fn make(&mut self, change: Change) {
        self.state.make(&change);
        self.record(|| RecordedEntry::Change(change));
    }

    /// Puts the queue in order for a cycle.
    pub fn prioritise(&mut self, policy: &Policy, now: Time) {
        self.state.prioritise(policy, now);
    }

    /// Who may be barred by a limit of his own otherwise than before. Plans go by nothing of that.
    pub fn judge_limits(&mut self, plan: &Plan) -> Vec<(JobId, Option<OwnLimit>)> {
        self.state.judge_limits(plan)
    }

    /// Takes note of what a cycle has made of the view, and of what it promises; why it was run
    /// stands in the recording with it.
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
