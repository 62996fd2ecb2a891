//! A configuration that becomes another while jobs wait and run: what of it the scheduler sees
//! changes with it, and is as before if the tick cannot be written.

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
    /// From now on this holds. It is written with the tick; [`ServerState::take_setup`] tells when
    /// it is.
    pub fn reconfigure(&mut self, setup: Setup) -> serde_json::Result<()> {
        let facts = setup.facts_on_disk()?;
        let before = std::mem::replace(&mut self.setup, setup);
        self.follow(&before);
        self.count_anew();
        self.lay_over_nodes();
        if before.policy.accrual != self.setup.policy.accrual {
            self.accrue_anew();
        }
        let queues = self.queues();
        self.tick.changes.extend(facts);
        self.tick.changes.push(Update::Queues(queues));
        self.tick
            .changes
            .push(Update::QmgrOverrides(self.setup.overrides.clone()));
        self.forget_unasked();
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
            Err(error) => tracing::error!("the account of {} cannot be kept: {error}", owner.user),
        }
    }

    /// A job that is not over, or a reservation, that asks for a resource: its id.
    pub fn asks_for(&self, resource: &str) -> Option<String> {
        let is_asking = |job: &&Arc<Job>| {
            job.life.state != JobState::Finished && names(&job.spec.request, resource)
        };
        let is_reserving = |made: &&Arc<Reservation>| names(&made.terms.request, resource);
        let job = self
            .jobs()
            .find(is_asking)
            .map(|job| format!("job {}", job.id.full(&self.setup.name)));
        job.or_else(|| {
            self.reservations()
                .find(is_reserving)
                .map(|made| format!("reservation {}", made.id))
        })
    }

    /// Resources that there are not any more, each with a job that is not over and asks for it.
    pub fn asked_in_vain(&self) -> BTreeMap<&str, JobId> {
        let open = self
            .jobs()
            .filter(|job| job.life.state != JobState::Finished);
        let asked = open.flat_map(|job| {
            job.spec
                .request
                .list
                .keys()
                .map(|name| (name.as_str(), job.id))
        });
        asked
            .filter(|(name, _)| self.setup.resources.get(name).is_none())
            .collect()
    }

    /// How it was configured before ticks that are on disk changed that; asked once.
    pub fn take_setup(&mut self) -> Option<Box<Setup>> {
        self.superseded.take()
    }

    /// What the tick has changed of the configuration is on disk.
    pub(crate) fn settle_setup(&mut self, before: Option<Box<Setup>>) {
        self.superseded = self.superseded.take().or(before);
    }

    /// The tick was not written: all is configured as before.
    pub(crate) fn roll_back_setup(&mut self, before: Option<Box<Setup>>) {
        if let Some(before) = before {
            tracing::error!("all is configured as before: the spool did not take the change");
            let after = std::mem::replace(&mut self.setup, *before);
            self.follow(&after);
            self.count_anew();
        }
    }

    /// What a node says of itself.
    pub fn note_told(&mut self, facts: &NodeFacts) {
        self.reported_facts
            .insert(facts.name.clone(), facts.clone());
    }

    /// What a node has said of itself counts no more.
    pub(crate) fn forget_told(&mut self, name: &str) {
        self.reported_facts.remove(name);
    }

    /// Brings the scheduler's view in line with the configuration, which was another before.
    fn follow(&mut self, before: &Setup) {
        if before.resources != self.setup.resources {
            return self.view_anew();
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

    /// Amounts are counted by resource: with other resources the view is made as at the start.
    fn view_anew(&mut self) {
        let usage = self.cluster.usage().clone();
        self.cluster.begin_anew(&self.setup);
        let nodes = self.nodes.values();
        self.cluster
            .furnish(&self.setup, &self.license_counts, nodes);
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| self.reschedule(id));
        self.view_stale();
        self.show_windows_anew();
        self.cluster.make(Change::Usage(Cow::Owned(usage)));
    }

    fn lay_over_nodes(&mut self) {
        let told: Vec<NodeFacts> = self.reported_facts.values().cloned().collect();
        for facts in told {
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
