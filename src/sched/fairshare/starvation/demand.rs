//! The demand and the usage of the parties that share the cluster. A *party* is an operation (a
//! job, or an array with all its subjobs), or each job of a group of similar waiting jobs. A *line*
//! is a pool (account) followed by the pools above it.

use crate::model::account::lineage::Lineages;
use crate::model::account::pool_terms::{FifoKey, PoolMode, PoolTerms};
use crate::model::credentials::Credentials;
use crate::model::job_id::JobId;
use crate::model::policy::FairShare;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, add_times, multiple, subtract};
use crate::sched::view::class::{Class, WaitingJob};
use crate::sched::view::operations::operation_of;
use crate::sched::view::snapshot::ClusterState;
use crate::sched::view::starvation::ShareParty;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Changes that the cycle has decided but that are not in the state yet.
#[derive(Clone, Debug, Default)]
pub struct PendingChanges {
    /// Waiting jobs that start, or for which other jobs are preempted.
    pub coming: BTreeSet<JobId>,
    /// Running jobs that are preempted.
    pub preempted: BTreeSet<JobId>,
}

/// The demand of one operation, or of several similar waiting jobs.
#[derive(Clone, Debug)]
pub struct OperationDemand<'s> {
    pub party: ShareParty,
    /// The pool with the pools above it, as an index into [`ResourceDemand::lines`].
    pub line: usize,
    /// The number of similar jobs; 1 for an operation.
    pub number: u64,
    /// The usage of the operation, or of each similar job. Empty for no usage.
    pub has: Cow<'s, [i64]>,
    /// The demand of the operation, or of each similar job, including the usage. Empty for no
    /// demand.
    pub wants: Cow<'s, [i64]>,
    /// In a FIFO pool, the position of the operation. The operations of all FIFO pools are numbered
    /// together: pool by pool, in the order of each pool. None if the pool is not FIFO.
    pub place: Option<usize>,
    // The sort keys for `place`, used in FIFO pools only.
    priority: i32,
    since: Time,
    pending: u64,
}

/// The demand of all parties.
pub struct ResourceDemand<'s> {
    /// The entries, sorted by party; each party occurs once.
    pub all: Vec<OperationDemand<'s>>,
    pub lines: Vec<PoolDemand<'s>>,
}

/// A line: a pool with the pools above it.
pub struct PoolDemand<'s> {
    /// The pool and the pools above it; empty for jobs without account.
    pub pools: Vec<String>,
    /// The keys by which the operations of the pool are sorted, if the pool is FIFO.
    keys: Option<&'s [FifoKey]>,
}

/// The pool of a line, which is its first element; an empty name if the line is empty.
pub fn pool_of(line: &[String]) -> &str {
    line.first().map_or("", String::as_str)
}

impl<'s> ResourceDemand<'s> {
    /// The demand of all running jobs, and of the waiting jobs of `classes`, after the changes
    /// `ahead`.
    pub fn of(
        state: &'s ClusterState,
        classes: impl Iterator<Item = &'s Class>,
        policy: &'s FairShare,
        ahead: &PendingChanges,
        now: Time,
    ) -> ResourceDemand<'s> {
        let lineages = Lineages::new(&policy.accounts);
        let terms = policy
            .accounts
            .iter()
            .map(|account| (account.name.as_str(), &account.pool))
            .collect();
        let mut finder = Finder {
            lineages,
            terms,
            known: BTreeMap::new(),
            last: None,
            lines: Vec::new(),
            found: Vec::new(),
        };
        finder.enter_running(state);
        for class in classes.filter(|class| has_demand(state, class, now)) {
            finder.enter_waiting(class);
        }
        let mut demand = ResourceDemand {
            all: merged(finder.found),
            lines: finder.lines,
        };
        demand.add_pending_changes(state, ahead);
        demand.set_fifo_places();
        demand
    }

    /// For each line, the sum of the amounts that `of` selects from its entries, each multiplied by
    /// the number of similar jobs.
    pub fn by_line(
        &self,
        nothing: &Amounts,
        of: impl for<'w> Fn(&'w OperationDemand<'s>) -> &'w [i64],
    ) -> Vec<Amounts> {
        let mut sums = vec![nothing.clone(); self.lines.len()];
        for operation in &self.all {
            add_times(&mut sums[operation.line], of(operation), operation.number);
        }
        sums
    }

    fn find(&self, party: ShareParty) -> Option<usize> {
        self.all
            .binary_search_by_key(&party, |operation| operation.party)
            .ok()
    }

    fn add_pending_changes(&mut self, state: &'s ClusterState, ahead: &PendingChanges) {
        for job in &ahead.preempted {
            self.subtract_preempted(state, *job);
        }
        let new: Vec<OperationDemand> = ahead
            .coming
            .iter()
            .filter_map(|job| self.add_start(state, *job))
            .collect();
        if !new.is_empty() {
            self.all.extend(new);
            self.all = merged(std::mem::take(&mut self.all));
        }
        self.all.retain(|operation| operation.number > 0);
    }

    /// Subtracts the usage of a preempted job. The demand of its operation stays.
    fn subtract_preempted(&mut self, state: &ClusterState, job: JobId) {
        let Some(running) = state.running.get(&job) else {
            return;
        };
        if let Some(at) = self.find(ShareParty::Operation(operation_of(job))) {
            subtract(self.all[at].has.to_mut(), &running.taken);
        }
    }

    /// Adds the usage of a job that is about to start. If the job is one of several similar jobs,
    /// it becomes an operation of its own, which is returned.
    fn add_start(&mut self, state: &'s ClusterState, job: JobId) -> Option<OperationDemand<'s>> {
        let class = state.waiting_class(job)?;
        let (party, total) = (
            ShareParty::Operation(operation_of(job)),
            Cow::Borrowed(&*class.shape.total),
        );
        if let Some(at) = self.find(party) {
            add_or_set(&mut self.all[at].has, total);
            return None;
        }
        let at = self.find(ShareParty::Alike(class.id))?;
        let similar = &mut self.all[at];
        similar.number = similar.number.checked_sub(1)?;
        Some(OperationDemand {
            party,
            number: 1,
            has: total,
            ..similar.clone()
        })
    }

    /// Sets [`OperationDemand::place`] for the operations of FIFO pools (Y23).
    fn set_fifo_places(&mut self) {
        let lines = &self.lines;
        let mut in_line: Vec<(&[FifoKey], &mut OperationDemand)> = self
            .all
            .iter_mut()
            .filter_map(|operation| Some((lines[operation.line].keys?, operation)))
            .collect();
        in_line.sort_by(|(keys, a), (_, b)| in_order(keys, a, b));
        for (place, (_, operation)) in in_line.into_iter().enumerate() {
            operation.place = Some(place);
        }
    }
}

/// Sorts the entries by party, and merges the entries of each party.
fn merged(mut found: Vec<OperationDemand>) -> Vec<OperationDemand> {
    // The sort is stable: entries of running jobs stay before entries of waiting jobs.
    found.sort_by_key(|operation| operation.party);
    found.dedup_by(|more, operation| {
        let is_same = more.party == operation.party;
        if is_same {
            operation.merge(more);
        }
        is_same
    });
    found
}

impl<'s> OperationDemand<'s> {
    fn merge(&mut self, more: &mut OperationDemand<'s>) {
        add_or_set(&mut self.has, std::mem::take(&mut more.has));
        add_or_set(&mut self.wants, std::mem::take(&mut more.wants));
        self.priority = more.priority;
        self.pending += more.pending;
    }
}

/// Adds `more` to `sum`, which may be empty.
fn add_or_set<'s>(sum: &mut Cow<'s, [i64]>, more: Cow<'s, [i64]>) {
    if sum.is_empty() {
        *sum = more
    } else {
        add(sum.to_mut(), &more)
    }
}

/// Whether jobs of a class have a demand. Deferred jobs, jobs that request a reservation, and jobs
/// in a stopped queue have no demand.
fn has_demand(state: &ClusterState, class: &Class, now: Time) -> bool {
    let is_deferred = class.key.not_before.is_some_and(|moment| moment > now);
    let is_open = state
        .queues
        .get(&class.key.who.queue)
        .is_some_and(|queue| queue.started);
    is_open && !is_deferred && class.key.reservation.is_none()
}

struct Finder<'s> {
    lineages: Lineages<'s>,
    terms: BTreeMap<&'s str, &'s PoolTerms>,
    /// The lines found so far, by user and account.
    known: BTreeMap<UserAndAccount<'s>, usize>,
    /// The owner and the line of the last search: successive jobs often have the same owner.
    last: Option<(UserAndAccount<'s>, usize)>,
    lines: Vec<PoolDemand<'s>>,
    found: Vec<OperationDemand<'s>>,
}

/// A user, and the requested account.
type UserAndAccount<'s> = (&'s str, Option<&'s str>);

impl<'s> Finder<'s> {
    fn line(&mut self, who: &'s Credentials) -> usize {
        let owner = (who.user.as_str(), who.account.as_deref());
        if let Some((_, line)) = self.last.filter(|(last, _)| *last == owner) {
            return line;
        }
        let line = match self.known.get(&owner) {
            Some(&line) => line,
            None => self.new_line(owner),
        };
        self.last = Some((owner, line));
        line
    }

    fn new_line(&mut self, owner: UserAndAccount<'s>) -> usize {
        let pools = self.lineages.of(owner.0, owner.1);
        let line = self
            .lines
            .iter()
            .position(|known| known.pools == pools)
            .unwrap_or_else(|| {
                let terms = self
                    .terms
                    .get(pool_of(&pools))
                    .filter(|terms| terms.mode == PoolMode::Fifo);
                self.lines.push(PoolDemand {
                    pools,
                    keys: terms.map(|terms| terms.line()),
                });
                self.lines.len() - 1
            });
        self.known.insert(owner, line);
        line
    }

    fn enter_running(&mut self, state: &'s ClusterState) {
        for (id, operation) in state.operations.all() {
            let line = self.line(&operation.who);
            let since = operation
                .allocations
                .first()
                .map_or(Time(0), |(started, _)| *started);
            self.found.push(OperationDemand {
                party: ShareParty::Operation(id),
                line,
                number: 1,
                has: Cow::Borrowed(&operation.taken),
                wants: Cow::Borrowed(&operation.taken),
                place: None,
                priority: 0,
                since,
                pending: 0,
            });
        }
    }

    fn enter_waiting(&mut self, class: &'s Class) {
        let line = self.line(&class.key.who);
        let is_in_line = self.lines[line].keys.is_some();
        let (mut similar, mut first) = (0, None);
        for ((_, id), waiting) in class.jobs() {
            match &waiting.array {
                // A requeued subjob belongs to the operation of its array.
                None if !is_in_line && id.parent().is_none() => {
                    similar += 1;
                    first.get_or_insert(waiting.wait.since);
                }
                _ => self.enter_one(class, line, operation_of(id), waiting),
            }
        }
        if let Some(first) = first {
            let operation = waiting_demand(ShareParty::Alike(class.key.id), class, line, first);
            let wants = Cow::Borrowed(&*class.key.shape.total);
            self.found.push(OperationDemand {
                number: similar,
                wants,
                ..operation
            });
        }
    }

    fn enter_one(&mut self, class: &'s Class, line: usize, id: JobId, waiting: &WaitingJob) {
        let slots = class.key.at_once.map_or(u64::MAX, |most| {
            u64::from(most.saturating_sub(class.begun()))
        });
        let wants = multiple(&class.key.shape.total, waiting.count().min(slots));
        let operation = waiting_demand(ShareParty::Operation(id), class, line, waiting.wait.since);
        self.found.push(OperationDemand {
            wants: Cow::Owned(wants.into()),
            pending: waiting.count(),
            ..operation
        });
    }
}

/// The entry of a waiting party, with empty amounts.
fn waiting_demand<'s>(
    party: ShareParty,
    class: &Class,
    line: usize,
    since: Time,
) -> OperationDemand<'s> {
    OperationDemand {
        party,
        line,
        number: 1,
        has: Cow::default(),
        wants: Cow::default(),
        place: None,
        priority: class.key.priority,
        since,
        pending: 0,
    }
}

/// Compares two operations: first by line, then by the sort keys of the FIFO pool.
fn in_order(keys: &[FifoKey], a: &OperationDemand, b: &OperationDemand) -> Ordering {
    let in_line = keys
        .iter()
        .map(|key| match key {
            FifoKey::Weight => b.priority.cmp(&a.priority),
            FifoKey::StartTime => a.since.cmp(&b.since),
            FifoKey::PendingJobCount => a.pending.cmp(&b.pending),
        })
        .find(|order| order.is_ne())
        .unwrap_or(a.party.cmp(&b.party));
    a.line.cmp(&b.line).then(in_line)
}
