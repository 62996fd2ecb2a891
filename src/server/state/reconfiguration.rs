//! Configuration changes at run time. The scheduler's view changes with them, and is restored if
//! the tick cannot be written.

use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::node::NodeFacts;
use crate::model::queue::Queue;
use crate::model::request::select::Request;
use crate::model::reservation::Reservation;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use crate::server::grantees;
use crate::server::grantees::Grantees;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use crate::update::Update;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

impl ServerState {
    /// Applies a configuration. It is written with the tick; then [`ServerState::take_setup`]
    /// returns the replaced one.
    pub fn reconfigure(&mut self, setup: Setup) -> serde_json::Result<()> {
        let facts = setup.facts_on_disk()?;
        let before = std::mem::replace(&mut self.setup, setup);
        self.follow(&before);
        self.recount_jobs();
        self.reapply_node_settings();
        if before.policy.accrual != self.setup.policy.accrual {
            self.recompute_eligibility();
        }
        let queues = self.queues();
        self.tick.changes.extend(facts);
        self.tick.changes.push(Update::Queues(queues));
        self.tick
            .changes
            .push(Update::QmgrOverrides(self.setup.overrides.clone()));
        self.revoke_stale_reports();
        self.tick.setup.get_or_insert_with(|| Box::new(before));
        self.want_cycle(Trigger::Config);
        Ok(())
    }

    /// Binds the name of a manager or an operator to the first account that uses it.
    pub fn bind_grantee(&mut self, owner: &Owner) {
        let server = &self.setup.config.server;
        let is_named =
            grantees::people(server).any(|person| person.account() == Some(owner.user.as_str()));
        if !is_named || !self.setup.grantees.bind(&owner.user, owner.uid) {
            return;
        }
        match serde_json::to_string(&self.setup.grantees) {
            Ok(text) => self.also(Update::Meta(Grantees::KEY, text)),
            Err(error) => tracing::error!("cannot store the uid of {}: {error}", owner.user),
        }
    }

    /// An unfinished job or a reservation that requests a resource, as text with its id.
    pub fn requester_of(&self, resource: &str) -> Option<String> {
        let requests = |job: &&Arc<Job>| {
            job.life.state != JobState::Finished && names(&job.spec.request, resource)
        };
        let reserves = |made: &&Arc<Reservation>| names(&made.terms.request, resource);
        let job = self
            .jobs()
            .find(requests)
            .map(|job| format!("job {}", job.id.full(&self.setup.name)));
        job.or_else(|| {
            self.reservations()
                .find(reserves)
                .map(|made| format!("reservation {}", made.id))
        })
    }

    /// Undefined resources that unfinished jobs request, each with one such job.
    pub fn undefined_requests(&self) -> BTreeMap<&str, JobId> {
        let open = self
            .jobs()
            .filter(|job| job.life.state != JobState::Finished);
        let requested = open.flat_map(|job| {
            job.spec
                .request
                .list
                .keys()
                .map(|name| (name.as_str(), job.id))
        });
        requested
            .filter(|(name, _)| self.setup.resources.get(name).is_none())
            .collect()
    }

    /// Takes the configuration that ticks on disk have replaced.
    pub fn take_setup(&mut self) -> Option<Box<Setup>> {
        self.superseded.take()
    }

    /// Keeps the replaced configuration once the tick is on disk.
    pub(crate) fn settle_setup(&mut self, before: Option<Box<Setup>>) {
        self.superseded = self.superseded.take().or(before);
    }

    /// Restores the configuration if the tick was not written.
    pub(crate) fn roll_back_setup(&mut self, before: Option<Box<Setup>>) {
        if let Some(before) = before {
            tracing::error!("cannot store the new configuration: the earlier one is restored");
            let after = std::mem::replace(&mut self.setup, *before);
            self.follow(&after);
            self.recount_jobs();
        }
    }

    /// Records the facts that a node reported.
    pub fn note_reported_facts(&mut self, facts: &NodeFacts) {
        self.reported_facts
            .insert(facts.name.clone(), facts.clone());
    }

    /// Removes the facts that a node reported.
    pub(crate) fn forget_reported_facts(&mut self, name: &str) {
        self.reported_facts.remove(name);
    }

    /// Updates the scheduler's view to the configuration, which was `before`.
    fn follow(&mut self, before: &Setup) {
        if before.resources != self.setup.resources {
            return self.rebuild_view();
        }
        if before.policy != self.setup.policy {
            self.cluster.follow(&self.setup.policy);
        }
        self.follow_queues(before);
        for (name, pool) in self
            .setup
            .config
            .pools
            .iter()
            .filter(|pool| !before.config.pools.contains(pool))
        {
            let pool = self.license_counts.pool(name, pool);
            self.cluster
                .make(Change::Pool(Cow::Borrowed(name), Cow::Owned(pool)));
        }
        if before.listed() != self.setup.listed() {
            self.cluster.make(Change::Order(self.setup.listed()));
        }
        let (old, new) = (&before.policy, &self.setup.policy);
        if (old.placement.access, old.default_walltime)
            != (new.placement.access, new.default_walltime)
        {
            let holders: Vec<JobId> = self.holders().map(|job| job.id).collect();
            holders.into_iter().for_each(|job| self.view(job));
        }
    }

    fn follow_queues(&mut self, before: &Setup) {
        let queues = self.setup.queues.clone();
        for gone in before
            .queues
            .iter()
            .filter(|queue| !queues.iter().any(|other| other.name == queue.name))
        {
            self.cluster
                .make(Change::NoQueue(Cow::Borrowed(&gone.name)));
        }
        let is_new = |queue: &&Queue| !before.queues.contains(queue);
        queues
            .iter()
            .filter(is_new)
            .for_each(|queue| self.cluster.make(Change::Queue(Cow::Borrowed(queue))));
    }

    /// Rebuilds the scheduler's view: amounts are indexed by resource, so other resources need a
    /// new one.
    fn rebuild_view(&mut self) {
        let usage = self.cluster.usage().clone();
        self.cluster.reset(&self.setup);
        let nodes = self.nodes.values();
        self.cluster
            .add_objects(&self.setup, &self.license_counts, nodes);
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| self.reschedule(id));
        self.view_stale();
        self.rebuild_windows();
        self.cluster.make(Change::Usage(Cow::Owned(usage)));
    }

    fn reapply_node_settings(&mut self) {
        let reported: Vec<NodeFacts> = self.reported_facts.values().cloned().collect();
        for facts in reported {
            let Some(node) = self.nodes.get(&facts.name).filter(|node| node.up).cloned() else {
                continue;
            };
            let facts = self.setup.configured_facts(&facts);
            if facts != node.facts {
                self.set_node(Node { facts, ..node });
            }
        }
    }
}

fn names(request: &Request, resource: &str) -> bool {
    let in_chunks = request
        .select
        .chunks
        .iter()
        .any(|chunk| chunk.get(resource).is_some());
    in_chunks || request.list.contains_key(resource)
}
