//! The snapshot: the complete input of a cycle, with nodes, queues, waiting and running jobs.
//! A *candidate* is a waiting job, or an array with waiting subjobs, that a cycle could start.
//!
//! schedd updates the snapshot change by change, and never rebuilds it for a cycle. Waiting jobs
//! are grouped into classes of interchangeable jobs, nodes into classes of interchangeable nodes,
//! and ends of running jobs are sorted. The time of a cycle therefore depends on the number of
//! classes, not on the number of jobs and nodes.

mod running;
mod sharing;
mod waiting;

use super::allocation_answer::AllocationAnswer;
use super::class::Wait;
pub(in crate::sched) use super::class::{Array, Class, QueuePlace, QueuePosition, WaitingJob};
use super::cluster::Cluster;
use super::current_bookings::CurrentBookings;
use super::fair_share_factors::{ClassOwner, ClassOwners, owner_of};
use super::holdings::Holdings;
use super::limited::Limited;
use super::operations::Operations;
use super::plan::Plan;
use super::pools::Pool;
use super::priority_cache::PriorityCache;
use super::queue_turns::QueueTurns;
use super::request_groups::RequestGroups;
use super::shape::Shape;
pub use super::shape::{AccessPolicy, ClassId, ClassKey, JobOwner, User};
use super::sort_key::SortKey;
use super::starvation::Starving;
use super::suspended::Suspended;
use crate::model::job::array::SubjobState;
use crate::model::job::eligible_time::{Accrues, Eligibility};
use crate::model::job::{Job, SubjobLimit};
use crate::model::job_id::JobId;
use crate::model::node::NodeFacts;
use crate::model::policy::site_time::SiteTime;
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::reservation::window::Window;
use crate::model::resource::{ResourceList, Resources};
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, Catalog, add};
use crate::sched::share_tree::usage::UsageTable;
pub(in crate::sched) use running::RunningJob;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The cluster and its jobs, as input of the scheduler. A copy is cheap: it shares classes, nodes
/// and running jobs until they change.
#[derive(Clone, Debug)]
pub struct ClusterState {
    pub(in crate::sched) cluster: Cluster,
    pub(in crate::sched) queues: BTreeMap<String, Queue>,
    pub(in crate::sched) classes: BTreeMap<ClassId, Arc<Class>>,
    /// The waiting classes by request group (classes with the same request). A refusal for lack of
    /// resources usually holds for a whole group.
    pub(in crate::sched) alike: RequestGroups,
    pub(in crate::sched) running: BTreeMap<JobId, Arc<RunningJob>>,
    /// The ends of the running jobs, soonest first. Jobs without a known end are missing.
    pub(in crate::sched) ends: BTreeSet<(Time, JobId)>,
    /// The resources that running jobs release at their ends, by time.
    pub(in crate::sched) releases: BTreeMap<Time, Amounts>,
    /// The planned starts of the last plan, and the events since that plan.
    pub(in crate::sched) bookings: CurrentBookings,
    /// Current and future reservations by id.
    pub(in crate::sched) windows: BTreeMap<String, Window>,
    /// The jobs that run in a reservation, each with the name of the reservation.
    pub(in crate::sched) jobs_in_reservations: BTreeMap<JobId, String>,
    /// Dedicated time and prime time.
    pub(in crate::sched) site_time: SiteTime,
    /// The class and the rank of each candidate. The rank is the position in the queue, which
    /// `qorder` can swap.
    pub(in crate::sched) jobs: BTreeMap<JobId, (ClassId, u64)>,
    /// The answers of the allocation script, by class.
    pub(in crate::sched) answers: BTreeMap<ClassId, AllocationAnswer>,
    /// The usage of all members of the share tree (users under accounts).
    pub(in crate::sched) usage: Arc<UsageTable>,
    /// Incremented by each change, so that a cycle can detect changes.
    pub(in crate::sched) edition: u64,
    /// How and when the priorities of the waiting jobs were last computed.
    pub(in crate::sched) ranks: PriorityCache,
    /// For round-robin order, the queues in the order of their jobs' last starts.
    pub(in crate::sched) served: QueueTurns,
    /// The owners of the waiting classes, each with the number of its classes.
    pub(in crate::sched) owners: ClassOwners,
    /// The classes of arrays that may expand beyond their own limit, and the classes of those of
    /// their subjobs that start again (Q15).
    pub(in crate::sched) expanding: BTreeSet<ClassId>,
    /// The classes of jobs with a `-p` priority other than 0.
    pub(in crate::sched) prioritized: BTreeSet<ClassId>,
    /// The limits of arrays on their running subjobs, by array number.
    pub(in crate::sched) subjob_limits: BTreeMap<u64, SubjobLimit>,
    /// The jobs that the site's hooks allow to start. Only these jobs may preempt other jobs. None
    /// if the site has no such hooks.
    pub(in crate::sched) permits: Option<BTreeSet<JobId>>,
    /// The candidates that the last plan refused because of a limit within their owners' control,
    /// such as a limit on their array or owner (`OwnLimit`).
    pub(super) limited: Limited,
    /// The running jobs by owner.
    pub(in crate::sched) holdings: Holdings,
    /// The suspended jobs that wait to resume.
    pub(in crate::sched) suspended: BTreeMap<JobId, Arc<Suspended>>,
    /// The running jobs by operation (a job, or an array with all its subjobs).
    pub(in crate::sched) operations: Arc<Operations>,
    /// The data of starvation preemption, such as the time since which an operation or pool
    /// (account) has been below its fair share.
    pub(in crate::sched) starvation: Starving,
}

/// The resources in use on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assigned {
    /// `resources_assigned`: the amount of each consumable, sizes in kilobytes.
    pub taken: ResourceList,
    /// The jobs on the node. A job with an exclusive host is on all nodes of the host, even on
    /// nodes where it uses no resources.
    pub jobs: Vec<JobId>,
    /// Whether a job has the node exclusively.
    pub exclusive: bool,
}

impl ClusterState {
    /// A state without nodes, queues and jobs. Resource names are interned: consumable resources
    /// have an index in the `Catalog`.
    pub fn new(resources: &Resources) -> ClusterState {
        ClusterState {
            cluster: Cluster::new(Catalog::new(resources)),
            queues: BTreeMap::new(),
            classes: BTreeMap::new(),
            alike: RequestGroups::default(),
            running: BTreeMap::new(),
            ends: BTreeSet::new(),
            releases: BTreeMap::new(),
            bookings: CurrentBookings::default(),
            windows: BTreeMap::new(),
            jobs_in_reservations: BTreeMap::new(),
            site_time: SiteTime::default(),
            jobs: BTreeMap::new(),
            answers: BTreeMap::new(),
            usage: Arc::default(),
            edition: 0,
            ranks: PriorityCache::default(),
            served: QueueTurns::default(),
            owners: ClassOwners::new(),
            expanding: BTreeSet::new(),
            prioritized: BTreeSet::new(),
            subjob_limits: BTreeMap::new(),
            permits: None,
            limited: Limited::default(),
            holdings: Holdings::default(),
            suspended: BTreeMap::new(),
            operations: Arc::default(),
            starvation: Starving::default(),
        }
    }

    /// Notes a change that can affect every priority.
    pub(super) fn note_change(&mut self) {
        self.edition += 1;
        self.ranks.note_change();
    }

    /// The usage of all members of the share tree.
    pub fn usage(&self) -> &UsageTable {
        &self.usage
    }

    /// How long a candidate has waited, and how often other jobs passed it; for a subjob that is no
    /// candidate, the same for its array. None for any other job.
    pub(super) fn wait(&self, id: JobId) -> Option<&Wait> {
        self.waiting(id).map(|waiting| &waiting.wait)
    }

    /// A candidate; for a subjob that is no candidate, its array. None for any other job.
    pub(in crate::sched) fn waiting(&self, id: JobId) -> Option<&WaitingJob> {
        self.listed(id).or_else(|| self.listed(id.parent()?))
    }

    fn listed(&self, id: JobId) -> Option<&WaitingJob> {
        let &(class, rank) = self.jobs.get(&id)?;
        self.classes.get(&class)?.get((rank, id))
    }

    /// Adds or changes a node. `usable` means up, and neither offline nor under maintenance. The
    /// jobs on the node stay.
    pub fn set_node(&mut self, facts: &NodeFacts, usable: bool) {
        self.note_change();
        if self.cluster.set(facts, usable) {
            self.forget_answers();
        }
        self.put_in_order();
    }

    /// The number of hosts.
    pub fn host_count(&self) -> usize {
        self.cluster.host_count()
    }

    /// Puts the nodes with these names first in the order of the nodes. A node with such a name
    /// need not exist. All other nodes are sorted by name.
    pub fn list_nodes(&mut self, names: &[String]) {
        self.note_change();
        self.cluster.list(names);
        self.put_in_order();
    }

    fn put_in_order(&mut self) {
        if let Some(moves) = self.cluster.put_in_order() {
            let nodes = self
                .running
                .values_mut()
                .flat_map(|running| &mut Arc::make_mut(running).nodes);
            for ix in nodes {
                *ix = moves.of(*ix);
            }
        }
    }

    /// Sets a system-wide resource (Q21). Ignores a resource that is not consumable, or that
    /// belongs to nodes.
    pub fn set_pool(&mut self, resource: &str, pool: Pool) {
        self.note_change();
        let catalog = &self.cluster.catalog;
        if let Some(index) = catalog
            .index(resource)
            .filter(|index| catalog.pooled().contains(index))
        {
            self.cluster.set_pool(index, pool);
        }
    }

    /// Sets the total of a system-wide resource and the amount that is used outside the cluster
    /// (`elsewhere`), as a site program reports them. The configured total does not change, and
    /// jobs keep the amounts that they use.
    pub fn set_total(&mut self, resource: &str, total: i64, elsewhere: i64) {
        self.note_change();
        let index = self.cluster.catalog.index(resource);
        if let Some((index, pool)) =
            index.and_then(|index| Some((index, self.cluster.pools.get(index)?.clone())))
        {
            self.cluster.pools.set(
                index,
                Pool {
                    missing: (pool.total - total).max(0),
                    elsewhere,
                    ..pool
                },
            );
        }
    }

    /// The used amount and the configured total of a system-wide resource. The used amount includes
    /// the amount used outside the cluster, and the part of the total that is missing at the
    /// moment. None if there is no such resource.
    pub fn pool(&self, resource: &str) -> Option<(i64, i64)> {
        let index = self.cluster.catalog.index(resource)?;
        Some((
            self.cluster.pools.used(index),
            self.cluster.pools.get(index)?.total,
        ))
    }

    /// The free amount of a system-wide resource; negative if more than the total is used, 0 if the
    /// resource is unknown.
    pub fn pool_free(&self, resource: &str) -> i64 {
        self.cluster
            .catalog
            .index(resource)
            .map_or(0, |index| self.cluster.pools.free(index))
    }

    /// The settings of a system-wide resource, and the amount that jobs use. None if there is no
    /// such resource.
    pub fn pool_use(&self, resource: &str) -> Option<(Pool, i64)> {
        let index = self.cluster.catalog.index(resource)?;
        let pool = self.cluster.pools.get(index)?;
        Some((
            pool.clone(),
            self.cluster.pools.used(index) - pool.missing - pool.elsewhere,
        ))
    }

    /// Returns the number of a user, and records the name for expressions.
    pub fn user(&mut self, name: &str) -> User {
        let user = User::of(name);
        self.cluster
            .users
            .entry(user)
            .or_insert_with(|| name.to_string());
        user
    }

    /// Removes a node. The jobs on the node stay known, in case the node returns.
    pub fn remove_node(&mut self, name: &str) {
        self.note_change();
        self.forget_answers();
        self.cluster.remove(name);
    }

    /// Adds or changes a queue. Jobs in an unknown queue do not start.
    pub fn set_queue(&mut self, queue: &Queue) {
        self.note_change();
        self.queues.insert(queue.name.clone(), queue.clone());
    }

    /// Removes a queue. The jobs in the queue no longer start.
    pub fn remove_queue(&mut self, name: &str) {
        self.note_change();
        self.queues.remove(name);
    }

    /// Adds or changes a reservation.
    pub fn set_window(&mut self, window: Window) {
        self.edition += 1;
        self.windows.insert(window.id.clone(), window);
    }

    /// Removes a reservation that has ended or is deleted.
    pub fn remove_window(&mut self, id: &str) {
        self.edition += 1;
        self.windows.remove(id);
    }

    /// Puts a running job, with its resources, inside a reservation.
    pub fn enclose(&mut self, id: JobId, reservation: &str) {
        self.edition += 1;
        self.jobs_in_reservations
            .insert(id, reservation.to_string());
    }

    /// Sets the dedicated and prime time from now on.
    pub fn set_site_time(&mut self, site_time: SiteTime) {
        self.edition += 1;
        self.site_time = site_time;
    }

    /// The dedicated and prime time from now on.
    pub fn site_time(&self) -> &SiteTime {
        &self.site_time
    }

    /// All reservations, by id.
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.windows.values()
    }

    /// Adds a candidate, which is a job in state `Queued` or an array with waiting subjobs.
    /// Replaces an existing candidate with the same id. Withdraws an array without waiting subjobs.
    pub fn enqueue(&mut self, job: &Job) {
        let array = job.indices().zip(job.elements.clone());
        let array = array.map(|(indices, elements)| Array { indices, elements });
        if array
            .as_ref()
            .is_some_and(|array| array.elements.waiting().is_empty())
        {
            return self.withdraw(job.id);
        }
        let (id, bypassed) = (ClassKey::id_of(job), self.bypassed(job.id));
        self.user(&job.owner.user);
        let since = job.life.etime.unwrap_or(job.life.qtime);
        let wait = Wait {
            since,
            eligibility: job.life.eligibility,
            bypassed,
        };
        // A subjob that starts again comes before the other subjobs of its array (X25).
        let rank = job
            .rank()
            .saturating_sub(u64::from(job.id.index().is_some()));
        self.add_waiting(
            (rank, job.id),
            id,
            WaitingJob {
                sort_key: SortKey::default(),
                wait,
                array,
            },
            |state| state.class_key(job),
        );
        self.limited.note_new(job.id);
        self.bookings.note_rerunnable(job.id, job.spec.rerunnable);
    }

    /// Makes a job of a known class a candidate, like [`ClusterState::enqueue`], but without the
    /// [`Job`]. Within a class, the job of lower rank comes first. Arrays are not supported.
    pub fn enqueue_as(&mut self, id: JobId, rank: u64, class: &ClassKey, since: Time) {
        let eligibility = Eligibility {
            accrues: Accrues::Eligible,
            since,
            ..Eligibility::default()
        };
        let waiting = WaitingJob {
            sort_key: SortKey::default(),
            wait: Wait {
                since,
                eligibility,
                bypassed: 0,
            },
            array: None,
        };
        self.add_waiting((rank, id), class.id, waiting, |_| class.clone());
    }

    /// The limits of an array on its running subjobs.
    pub fn subjob_limit(&self, array: u64) -> Option<SubjobLimit> {
        self.subjob_limits.get(&array).copied()
    }

    /// Sets the limits of an array on its running subjobs; None removes the limits.
    pub fn set_subjob_limit(&mut self, array: u64, limit: Option<SubjobLimit>) {
        self.edition += 1;
        self.subjob_limits.remove(&array);
        self.subjob_limits.extend(limit.map(|limit| (array, limit)));
    }

    /// The jobs that the site's hooks allow to start; None if the site has no such hooks.
    pub fn permits(&self) -> Option<&BTreeSet<JobId>> {
        self.permits.as_ref()
    }

    /// Sets the jobs that the site's hooks allow to start.
    pub fn set_permits(&mut self, permits: Option<BTreeSet<JobId>>) {
        self.edition += 1;
        self.permits = permits;
    }

    /// Adds a waiting job to its class, and creates the class if necessary.
    fn add_waiting(
        &mut self,
        place: QueuePlace,
        class: ClassId,
        waiting: WaitingJob,
        key: impl FnOnce(&ClusterState) -> ClassKey,
    ) {
        self.edition += 1;
        let ((rank, id), answer) = (place, self.answers.get(&class).cloned());
        self.withdraw(id);
        if !self.classes.contains_key(&class) {
            let key = key(self);
            self.owners
                .entry(owner_of(&key))
                .or_insert_with(|| (0, key.who.clone()))
                .0 += 1;
            if key.expands_to.is_some() {
                self.expanding.insert(class);
            }
            if key.priority != 0 {
                self.prioritized.insert(class);
            }
            self.classes.insert(class, Arc::new(Class::new(key)));
        }
        let Some(members) = self.classes.get_mut(&class).map(Arc::make_mut) else {
            return;
        };
        let first = members.first();
        members.insert(place, waiting);
        self.alike.refile(members, first);
        self.jobs.insert(id, (class, rank));
        self.ranks.note_new(id);
        // The withdrawal has removed the script's answer if the job was the only job of its class.
        self.answers.extend(answer.map(|answer| (class, answer)));
    }

    /// Removes a job from the candidates, for example because it is held, deleted or started.
    pub fn withdraw(&mut self, id: JobId) {
        self.edition += 1;
        self.limited.forget(id);
        self.ranks.forget(id);
        let Some((class_id, rank)) = self.jobs.remove(&id) else {
            return;
        };
        self.bookings.note_rerunnable(id, true);
        if let Some(class) = self.classes.get_mut(&class_id).map(Arc::make_mut) {
            let first = class.first();
            class.remove((rank, id));
            self.alike.refile(class, first);
            if class.is_empty() {
                let owner = owner_of(&class.key);
                self.classes.remove(&class_id);
                self.expanding.remove(&class_id);
                self.prioritized.remove(&class_id);
                self.answers.remove(&class_id);
                self.remove_class_of(owner);
            }
        }
    }

    /// Reduces the number of waiting classes of an owner by 1.
    fn remove_class_of(&mut self, owner: ClassOwner) {
        if let Entry::Occupied(mut owned) = self.owners.entry(owner) {
            owned.get_mut().0 -= 1;
            if owned.get().0 == 0 {
                owned.remove();
            }
        }
    }

    /// Sets the state of a subjob of a waiting array, without the [`Job`] of the array.
    pub(in crate::sched) fn set_subjob_state(&mut self, id: JobId, state: SubjobState) {
        self.edition += 1;
        let Some((parent, index)) = id.parent().zip(id.index()) else {
            return;
        };
        let Some(&(class, rank)) = self.jobs.get(&parent) else {
            return;
        };
        let class = self.classes.get_mut(&class).map(Arc::make_mut);
        let Some(array) = class.and_then(|class| class.get_mut((rank, parent))?.array.as_mut())
        else {
            return;
        };
        let Some(position) = array.indices.position(index) else {
            return;
        };
        let elements = Arc::make_mut(&mut array.elements);
        elements.mark(position, position, state);
        if elements.waiting().is_empty() {
            self.withdraw(parent);
        }
    }

    /// Whether no job waits to start or to resume.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.suspended.is_empty()
    }

    /// The class of a candidate or of a waiting subjob; None for any other job.
    pub fn class_of(&self, id: JobId) -> Option<ClassId> {
        self.class_and_rank(id).map(|(class, _)| class)
    }

    /// The class and the rank of a candidate; for a waiting subjob, the class and the rank of its
    /// array.
    pub(in crate::sched) fn class_and_rank(&self, id: JobId) -> Option<(ClassId, u64)> {
        let own = self.jobs.get(&id).copied();
        own.or_else(|| {
            self.jobs
                .get(&id.parent()?)
                .copied()
                .filter(|place| self.waits_in(*place, id))
        })
    }

    /// Whether a subjob waits in its array.
    fn waits_in(&self, (class, rank): (ClassId, u64), id: JobId) -> bool {
        let array = id
            .parent()
            .and_then(|array| self.classes.get(&class)?.get((rank, array))?.array.as_ref());
        let position = array
            .zip(id.index())
            .and_then(|(array, index)| array.indices.position(index));
        array
            .zip(position)
            .is_some_and(|(array, position)| array.elements.waiting().contains(position))
    }

    /// The shapes of the waiting jobs. A shape appears twice if some, but not all, of its jobs
    /// request a reservation.
    pub(in crate::sched) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.alike.groups().map(|(_, members)| &*members.shape)
    }

    /// The class key of a candidate or of a waiting subjob; None for any other job.
    pub(in crate::sched) fn waiting_class(&self, id: JobId) -> Option<&ClassKey> {
        self.classes
            .get(&self.class_of(id)?)
            .map(|class| &class.key)
    }

    /// Why a candidate waits, according to a plan; None if the plan gives no reason.
    pub fn verdict<'p>(&self, plan: &'p Plan, id: JobId) -> Option<&'p Reason> {
        plan.verdict_on(self.waiting_class(id)?, id)
    }

    /// The candidates of a class in the order of their starts. An array appears once.
    pub fn jobs_in(&self, class: ClassId) -> impl Iterator<Item = JobId> {
        self.classes
            .get(&class)
            .into_iter()
            .flat_map(|class| class.in_order().map(|((_, (_, job)), _)| job))
    }

    /// The resources in use on a node, for display; empty for an unknown node.
    pub fn assigned(&self, node: &str) -> Assigned {
        let Some(ix) = self.cluster.find(node) else {
            return Assigned::default();
        };
        let node = self.cluster.node(ix);
        let mut sum = self.cluster.catalog.nothing();
        for hold in node.tenants.values() {
            add(&mut sum, &hold.taken);
        }
        let catalog = &self.cluster.catalog;
        let of_nodes = catalog.names()[..catalog.pooled().start].iter();
        let taken = of_nodes
            .enumerate()
            .map(|(i, name)| (name.clone(), catalog.value(i, sum[i])));
        Assigned {
            taken: taken.collect(),
            jobs: node.tenants.keys().copied().collect(),
            exclusive: node.room.alone > 0,
        }
    }
}

#[cfg(test)]
mod tests;
