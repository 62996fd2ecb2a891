//! Configuration changes at run time. The scheduler's view changes with the configuration; both are
//! restored if the transaction cannot be written.

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
    /// Applies a configuration, which is written with the transaction. After the commit,
    /// [`ServerState::take_setup`] returns the earlier configuration.
    pub fn reconfigure(&mut self, setup: Setup) -> serde_json::Result<()> {
        let facts = setup.facts_on_disk()?;
        let before = std::mem::replace(&mut self.setup, setup);
        self.update_view(&before);
        self.recount_jobs();
        self.reapply_node_settings();
        if before.policy.accrual != self.setup.policy.accrual {
            self.recompute_eligibility();
        }
        let queues = self.queues();
        self.transaction.changes.extend(facts);
        self.transaction.changes.push(Update::Queues(queues));
        self.transaction
            .changes
            .push(Update::QmgrOverrides(self.setup.overrides.clone()));
        self.revoke_stale_reports();
        self.transaction
            .setup
            .get_or_insert_with(|| Box::new(before));
        self.want_cycle(Trigger::Config);
        Ok(())
    }

    /// Binds the name of a manager or operator to the uid of the first account that uses this name.
    pub fn bind_grantee(&mut self, owner: &Owner) {
        let server = &self.setup.config.server;
        let is_named =
            grantees::people(server).any(|person| person.account() == Some(owner.user.as_str()));
        if !is_named || !self.setup.grantees.bind(&owner.user, owner.uid) {
            return;
        }
        match serde_json::to_string(&self.setup.grantees) {
            Ok(text) => self.add_update(Update::Meta(Grantees::KEY, text)),
            Err(error) => tracing::error!("cannot store the uid of user {}: {error}", owner.user),
        }
    }

    /// An unfinished job or a reservation that requests a resource, as a text such as "job 3.head".
    pub fn requester_of(&self, resource: &str) -> Option<String> {
        let requests = |job: &&Arc<Job>| {
            job.life.state != JobState::Finished && requests_resource(&job.spec.request, resource)
        };
        let reserves = |made: &&Arc<Reservation>| requests_resource(&made.terms.request, resource);
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

    /// Undefined resources in the `Resource_List` of unfinished jobs, each with one such job.
    /// Resources that occur only in chunks are not found.
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

    /// Takes the configuration before the first change that was committed since the last call; None
    /// without a change.
    pub fn take_setup(&mut self) -> Option<Box<Setup>> {
        self.superseded.take()
    }

    /// After the commit, keeps the replaced configuration for [`ServerState::take_setup`]. An
    /// earlier one that has not been taken yet has precedence.
    pub(crate) fn settle_setup(&mut self, before: Option<Box<Setup>>) {
        self.superseded = self.superseded.take().or(before);
    }

    /// Restores the configuration that a transaction changed, because the transaction was not
    /// written.
    pub(crate) fn roll_back_setup(&mut self, before: Option<Box<Setup>>) {
        if let Some(before) = before {
            tracing::error!(
                "cannot store the new configuration: schedd restores the earlier configuration"
            );
            let after = std::mem::replace(&mut self.setup, *before);
            self.update_view(&after);
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

    /// Updates the scheduler's view after the configuration has changed from `before`.
    fn update_view(&mut self, before: &Setup) {
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
            holders
                .into_iter()
                .for_each(|job| self.update_job_view(job));
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

    /// Rebuilds the scheduler's view after a change of the resource definitions, because the view
    /// indexes amounts by resource.
    fn rebuild_view(&mut self) {
        let usage = self.cluster.usage().clone();
        self.cluster.reset(&self.setup);
        let nodes = self.nodes.values();
        self.cluster
            .add_objects(&self.setup, &self.license_counts, nodes);
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| self.refresh_job(id));
        self.update_stale_arrays();
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

fn requests_resource(request: &Request, resource: &str) -> bool {
    let in_chunks = request
        .select
        .chunks
        .iter()
        .any(|chunk| chunk.get(resource).is_some());
    in_chunks || request.list.contains_key(resource)
}
