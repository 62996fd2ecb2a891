//! What the cycle may see: nodes, queues, jobs that wait and jobs that run.
//!
//! schedd keeps it up to date, change by change; it is never made anew for a cycle. Jobs that wait
//! are kept by class, nodes by bucket, and the ends of running jobs in order, so that a cycle
//! touches kinds of things and not things.

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

/// The cluster and its work, as the scheduler sees them. A copy shares what is large and many -
/// classes, nodes, running jobs - until it is changed, so that one is quickly made.
#[derive(Clone, Debug)]
pub struct ClusterState {
    pub(in crate::sched) cluster: Cluster,
    pub(in crate::sched) queues: BTreeMap<String, Queue>,
    pub(in crate::sched) classes: BTreeMap<ClassId, Arc<Class>>,
    /// The classes that ask for the same, so that they can share a refusal.
    pub(in crate::sched) alike: RequestGroups,
    pub(in crate::sched) running: BTreeMap<JobId, Arc<RunningJob>>,
    /// The ends of the running jobs, soonest first; those without an end are not in it.
    pub(in crate::sched) ends: BTreeSet<(Time, JobId)>,
    /// What they give back, by the moment.
    pub(in crate::sched) releases: BTreeMap<Time, Amounts>,
    /// What was promised, and what has happened since.
    pub(in crate::sched) bookings: CurrentBookings,
    /// What reservations set aside, now and later, by id; none that is over.
    pub(in crate::sched) windows: BTreeMap<String, Window>,
    /// The jobs that run in a reservation, and its name.
    pub(in crate::sched) insiders: BTreeMap<JobId, String>,
    /// Dedicated time and prime time.
    pub(in crate::sched) site_time: SiteTime,
    /// Each candidate's class, and its place in the order.
    pub(in crate::sched) jobs: BTreeMap<JobId, (ClassId, u64)>,
    /// The answers of the allocation script, by class.
    pub(in crate::sched) answers: BTreeMap<ClassId, AllocationAnswer>,
    /// What has been used, and by whom.
    pub(in crate::sched) usage: Arc<UsageTable>,
    /// Counts what has happened to it, so that a cycle can tell whether anything has.
    pub(in crate::sched) edition: u64,
    /// The priorities computed last.
    pub(in crate::sched) ranks: PriorityCache,
    /// When each queue had its last turn.
    pub(in crate::sched) served: QueueTurns,
    /// The owners of the waiting classes.
    pub(in crate::sched) owners: ClassOwners,
    /// The classes of arrays that take more room than they limit themselves to (Q15).
    pub(in crate::sched) expanding: BTreeSet<ClassId>,
    /// The classes with a priority of their owner's (`-p`).
    pub(in crate::sched) prioritized: BTreeSet<ClassId>,
    /// The limits of arrays on their running subjobs, by the number of the array.
    pub(in crate::sched) subjob_limits: BTreeMap<u64, SubjobLimit>,
    /// The jobs that the site's hooks have let start: others are preempted only for these. None
    /// where no hooks are asked about starts.
    pub(in crate::sched) permits: Option<BTreeSet<JobId>>,
    /// Which candidates a limit of their own bars.
    pub(super) limited: Limited,
    /// What runs, by whose it is.
    pub(in crate::sched) holdings: Holdings,
    /// What stands still and waits to go on.
    pub(in crate::sched) suspended: BTreeMap<JobId, Arc<Suspended>>,
    /// The running jobs by operation.
    pub(in crate::sched) operations: Arc<Operations>,
    /// Since when operations and pools have had less than their fair shares.
    pub(in crate::sched) starvation: Starving,
}

/// What is taken on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assigned {
    /// `resources_assigned`: of each consumable, sizes in kilobytes.
    pub taken: ResourceList,
    /// The jobs that have something of it, also those that only bar others from it.
    pub jobs: Vec<JobId>,
    /// Whether one job has it alone.
    pub exclusive: bool,
}

impl ClusterState {
    /// No nodes, no queues, no jobs. Resource names are interned: a resource's index is its place
    /// in `Resources::consumables`.
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
            insiders: BTreeMap::new(),
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

    /// Something has changed that may make anybody worth more or less.
    pub(super) fn note_change(&mut self) {
        self.edition += 1;
        self.ranks.note_change();
    }

    /// What has been used, and by whom.
    pub fn usage(&self) -> &UsageTable {
        &self.usage
    }

    /// How long a candidate waits; an element as long as its array.
    pub(super) fn wait(&self, id: JobId) -> Option<&Wait> {
        self.waiting(id).map(|waiting| &waiting.wait)
    }

    /// A candidate as it waits; an element as its array.
    pub(in crate::sched) fn waiting(&self, id: JobId) -> Option<&WaitingJob> {
        self.listed(id).or_else(|| self.listed(id.parent()?))
    }

    fn listed(&self, id: JobId) -> Option<&WaitingJob> {
        let &(class, rank) = self.jobs.get(&id)?;
        self.classes.get(&class)?.get((rank, id))
    }

    /// Adds or changes a node; `usable` is up and not offline. The jobs on it stay.
    pub fn set_node(&mut self, facts: &NodeFacts, usable: bool) {
        self.note_change();
        if self.cluster.set(facts, usable) {
            self.forget_answers();
        }
        self.put_in_order();
    }

    /// How many hosts its nodes have.
    pub fn host_count(&self) -> usize {
        self.cluster.host_count()
    }

    /// Gives these nodes the first places in the order of the nodes, whether they are there or not;
    /// all others come by name.
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

    /// Says what the whole system has of a resource (Q21). One that is not consumable, or that
    /// nodes have, is passed over.
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

    /// Says what there is now of a resource that the whole system has, and how much of that is in
    /// use elsewhere; what it is configured with stays. Jobs that have of it keep it.
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

    /// What is in use of a resource that the whole system has, what is not there included, of how
    /// much.
    pub fn pool(&self, resource: &str) -> Option<(i64, i64)> {
        let index = self.cluster.catalog.index(resource)?;
        Some((
            self.cluster.pools.used(index),
            self.cluster.pools.get(index)?.total,
        ))
    }

    /// What is free of it; below zero when there is less than jobs have, zero of what there is
    /// none.
    pub fn pool_free(&self, resource: &str) -> i64 {
        self.cluster
            .catalog
            .index(resource)
            .map_or(0, |index| self.cluster.pools.free(index))
    }

    /// A resource that the whole system has as it stands, and how much of it jobs have.
    pub fn pool_use(&self, resource: &str) -> Option<(Pool, i64)> {
        let index = self.cluster.catalog.index(resource)?;
        let pool = self.cluster.pools.get(index)?;
        Some((
            pool.clone(),
            self.cluster.pools.used(index) - pool.missing - pool.elsewhere,
        ))
    }

    /// A user by name, whose name expressions can ask for from now on.
    pub fn user(&mut self, name: &str) -> User {
        let user = User::of(name);
        self.cluster
            .users
            .entry(user)
            .or_insert_with(|| name.to_string());
        user
    }

    /// Takes a node out. Jobs found on it stay known and are there again when it comes back.
    pub fn remove_node(&mut self, name: &str) {
        self.note_change();
        self.forget_answers();
        self.cluster.remove(name);
    }

    /// Adds or changes a queue. Jobs in a queue that was never set do not start.
    pub fn set_queue(&mut self, queue: &Queue) {
        self.note_change();
        self.queues.insert(queue.name.clone(), queue.clone());
    }

    /// Jobs in this queue no longer start.
    pub fn remove_queue(&mut self, name: &str) {
        self.note_change();
        self.queues.remove(name);
    }

    /// Sets aside what a window says, or changes that.
    pub fn set_window(&mut self, window: Window) {
        self.edition += 1;
        self.windows.insert(window.id.clone(), window);
    }

    /// A window is over, or given up.
    pub fn remove_window(&mut self, id: &str) {
        self.edition += 1;
        self.windows.remove(id);
    }

    /// A running job is inside a reservation: what it has is the reservation's.
    pub fn enclose(&mut self, id: JobId, reservation: &str) {
        self.edition += 1;
        self.insiders.insert(id, reservation.to_string());
    }

    /// What of the calendar lies ahead, anew.
    pub fn set_site_time(&mut self, site_time: SiteTime) {
        self.edition += 1;
        self.site_time = site_time;
    }

    /// What of the calendar lies ahead.
    pub fn site_time(&self) -> &SiteTime {
        &self.site_time
    }

    /// All windows, by id.
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.windows.values()
    }

    /// Makes a job in state `Queued` a candidate, or the waiting elements of an array; one that is
    /// a candidate already is read anew. An array of which no element waits is none.
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
        // An element that has begun before comes before those of its array that have not (X25).
        let rank = job
            .rank()
            .saturating_sub(u64::from(job.id.index().is_some()));
        self.file(
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

    /// Makes a job of a class a candidate as [`ClusterState::enqueue`] does, without a look at the
    /// job: of two of a class, the lower rank goes first. It waits since then. Not for arrays.
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
        self.file((rank, id), class.id, waiting, |_| class.clone());
    }

    /// The limit of an array's running subjobs.
    pub fn subjob_limit(&self, array: u64) -> Option<SubjobLimit> {
        self.subjob_limits.get(&array).copied()
    }

    /// Sets it; None for an array that is no more.
    pub fn set_subjob_limit(&mut self, array: u64, limit: Option<SubjobLimit>) {
        self.edition += 1;
        self.subjob_limits.remove(&array);
        self.subjob_limits.extend(limit.map(|limit| (array, limit)));
    }

    /// The jobs that the site's hooks have let start; None where no hooks are asked.
    pub fn permits(&self) -> Option<&BTreeSet<JobId>> {
        self.permits.as_ref()
    }

    /// Sets them.
    pub fn set_permits(&mut self, permits: Option<BTreeSet<JobId>>) {
        self.edition += 1;
        self.permits = permits;
    }

    fn file(
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
        // A job that is read anew may have been the last of its class for a moment.
        self.answers.extend(answer.map(|answer| (class, answer)));
    }

    /// A job is no longer a candidate: held, deleted, or altered and to be enqueued again.
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
                self.disown(owner);
            }
        }
    }

    /// An owner has a class less.
    fn disown(&mut self, owner: ClassOwner) {
        if let Entry::Occupied(mut owned) = self.owners.entry(owner) {
            owned.get_mut().0 -= 1;
            if owned.get().0 == 0 {
                owned.remove();
            }
        }
    }

    /// An element of a waiting array stands so now, where nobody has the array to enqueue it anew.
    pub(in crate::sched) fn element_stands(&mut self, id: JobId, state: SubjobState) {
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

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.suspended.is_empty()
    }

    /// The class of a candidate; None for a job that is not one.
    pub fn class_of(&self, id: JobId) -> Option<ClassId> {
        self.class_and_rank(id).map(|(class, _)| class)
    }

    /// The same, with its rank.
    pub(in crate::sched) fn class_and_rank(&self, id: JobId) -> Option<(ClassId, u64)> {
        let own = self.jobs.get(&id).copied();
        own.or_else(|| {
            self.jobs
                .get(&id.parent()?)
                .copied()
                .filter(|place| self.waits_in(*place, id))
        })
    }

    /// Whether an element waits with its array.
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

    /// What is asked for by those that wait.
    pub(in crate::sched) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.alike.groups().map(|(_, members)| &*members.shape)
    }

    /// What a candidate is alike in with others.
    pub(in crate::sched) fn waiting_class(&self, id: JobId) -> Option<&ClassKey> {
        self.classes
            .get(&self.class_of(id)?)
            .map(|class| &class.key)
    }

    /// Why a candidate waits, as a plan has it.
    pub fn verdict<'p>(&self, plan: &'p Plan, id: JobId) -> Option<&'p Reason> {
        plan.verdict_on(self.waiting_class(id)?, id)
    }

    /// The candidates of a class, in the order in which they start; an array once.
    pub fn jobs_in(&self, class: ClassId) -> impl Iterator<Item = JobId> {
        self.classes
            .get(&class)
            .into_iter()
            .flat_map(|class| class.in_order().map(|((_, (_, job)), _)| job))
    }

    /// What is taken on a node, for displays; nothing for a node that is not known.
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
