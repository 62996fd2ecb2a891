//! Who shares the cluster, what they want of it, and what they have.

use super::fair::Party;
use super::operations::operation_of;
use crate::model::credentials::Credentials;
use crate::model::job::JobId;
use crate::model::lineage::Lineages;
use crate::model::policy::pool::{FifoKey, Mode};
use crate::model::policy::{FairShare, PoolTerms};
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, multiple, subtract};
use crate::sched::class::{Class, Waiting};
use crate::sched::snapshot::State;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

/// What is as good as happened, though the state does not say so yet.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Waiting jobs that start, or for which others make way.
    pub coming: BTreeSet<JobId>,
    /// Running jobs that make way.
    pub leaving: BTreeSet<JobId>,
}

/// An operation, or operations alike.
#[derive(Clone, Debug)]
pub struct Wish {
    pub party: Party,
    /// Its pool and those above it, by place in [`Wishes::lines`].
    pub line: usize,
    /// How many they are.
    pub number: u64,
    /// What each has.
    pub has: Amounts,
    /// What each wants, with what it has.
    pub wants: Amounts,
    priority: i32,
    since: Time,
    pending: u64,
}

/// All that share.
pub struct Wishes {
    pub all: Vec<Wish>,
    /// Pools, each with those above it behind it; of no pool an empty line.
    pub lines: Vec<Vec<String>>,
    /// By what the operations of each stand in line, if they do.
    keys: Vec<Option<Vec<FifoKey>>>,
}

/// The pool of a line; the empty name for none.
pub fn pool_of(line: &[String]) -> &str {
    line.first().map_or("", String::as_str)
}

impl Wishes {
    /// Those of a state, in which these classes wait.
    pub fn of<'s>(
        state: &'s State,
        classes: impl Iterator<Item = &'s Class>,
        policy: &'s FairShare,
        ahead: &Ahead,
        now: Time,
    ) -> Wishes {
        let lineages = Lineages::new(&policy.accounts);
        let terms = policy.accounts.iter().map(|account| (account.name.as_str(), &account.pool)).collect();
        let (found, lines) = (BTreeMap::new(), Vec::new());
        let mut finder = Finder { state, lineages, terms, known: BTreeMap::new(), lines, found };
        finder.enter_running();
        let waiting = classes.filter(|class| may_ever_start(state, class, now));
        waiting.for_each(|class| finder.enter_waiting(class));
        ahead.leaving.iter().for_each(|job| finder.leave(*job));
        ahead.coming.iter().for_each(|job| finder.come(*job));
        finder.done()
    }

    /// Whether somebody stands in line.
    pub fn is_in_line(&self, wish: &Wish) -> bool {
        self.keys[wish.line].is_some()
    }
}

/// Whether the jobs of a class wait for room: what is put off, asks for a reservation, or waits in a stopped
/// queue wants nothing of the cluster.
fn may_ever_start(state: &State, class: &Class, now: Time) -> bool {
    let is_put_off = class.key.not_before.is_some_and(|moment| moment > now);
    let is_open = state.queues.get(&class.key.who.queue).is_some_and(|queue| queue.started);
    is_open && !is_put_off && class.key.asks_for.is_none()
}

struct Finder<'s> {
    state: &'s State,
    lineages: Lineages<'s>,
    terms: BTreeMap<&'s str, &'s PoolTerms>,
    /// The lines found so far, by user and account.
    known: BTreeMap<(&'s str, Option<&'s str>), usize>,
    lines: Vec<Vec<String>>,
    found: BTreeMap<Party, Wish>,
}

impl<'s> Finder<'s> {
    fn line(&mut self, who: &'s Credentials) -> usize {
        let key = (who.user.as_str(), who.account.as_deref());
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let line = self.lineages.of(&who.user, who.account.as_deref());
        let place = self.lines.iter().position(|known| *known == line).unwrap_or_else(|| {
            self.lines.push(line);
            self.lines.len() - 1
        });
        self.known.insert(key, place);
        place
    }

    fn mode(&self, line: usize) -> Mode {
        self.terms.get(pool_of(&self.lines[line])).map_or(Mode::default(), |terms| terms.mode)
    }

    fn enter_running(&mut self) {
        for (id, operation) in self.state.operations.all() {
            let line = self.line(&operation.who);
            let since = operation.allocations.first().map_or(Time(0), |(started, _)| *started);
            let (has, wants, party) = (operation.taken.clone(), operation.taken.clone(), Party::Operation(id));
            let wish = Wish { party, line, number: 1, has, wants, priority: 0, since, pending: 0 };
            self.found.insert(party, wish);
        }
    }

    fn enter_waiting(&mut self, class: &'s Class) {
        let line = self.line(&class.key.who);
        let is_in_line = self.mode(line) == Mode::Fifo;
        let mut alike = 0;
        for ((_, id), waiting) in class.jobs() {
            match &waiting.array {
                // What has run before belongs to its array still.
                None if !is_in_line && id.parent().is_none() => alike += 1,
                _ => self.enter_one(class, line, operation_of(id), waiting),
            }
        }
        if alike > 0 {
            let jobs = class.jobs().filter(|((_, id), _)| id.parent().is_none());
            let first = jobs.map(|(_, waiting)| waiting.wait.since).next().unwrap_or(Time(0));
            let wish = self.blank(Party::Alike(class.key.id), class, line, first);
            let wish = Wish { number: alike, wants: class.key.shape.total.clone(), pending: 1, ..wish };
            self.found.insert(wish.party, wish);
        }
    }

    fn enter_one(&mut self, class: &'s Class, line: usize, id: JobId, waiting: &Waiting) {
        let blank = self.blank(Party::Operation(id), class, line, waiting.wait.since);
        let wish = self.found.entry(blank.party).or_insert(blank);
        let slots = class.key.at_once.map_or(u64::MAX, |most| u64::from(most.saturating_sub(class.begun())));
        add(&mut wish.wants, &multiple(&class.key.shape.total, waiting.count().min(slots)));
        wish.priority = class.key.priority;
        wish.pending += waiting.count();
    }

    fn blank(&self, party: Party, class: &Class, line: usize, since: Time) -> Wish {
        let nothing = || self.state.cluster.catalog.nothing();
        let priority = class.key.priority;
        Wish { party, line, number: 1, has: nothing(), wants: nothing(), priority, since, pending: 0 }
    }

    /// What it has goes back; it wants as much as before.
    fn leave(&mut self, job: JobId) {
        let Some(running) = self.state.running.get(&job) else { return };
        if let Some(wish) = self.found.get_mut(&Party::Operation(operation_of(job))) {
            subtract(&mut wish.has, &running.taken);
        }
    }

    /// It has some of what it wants.
    fn come(&mut self, job: JobId) {
        let Some(class) = self.state.waiting_class(job) else { return };
        let (id, total) = (class.id, class.shape.total.clone());
        let party = Party::Operation(operation_of(job));
        if !self.found.contains_key(&party) {
            let Some(alike) = self.found.get_mut(&Party::Alike(id)).filter(|alike| alike.number > 0) else { return };
            alike.number -= 1;
            let one = Wish { party, number: 1, ..alike.clone() };
            self.found.insert(party, one);
        }
        if let Some(wish) = self.found.get_mut(&party) {
            add(&mut wish.has, &total);
        }
    }

    fn done(self) -> Wishes {
        let Finder { terms, lines, found, .. } = self;
        let mut all: Vec<Wish> = found.into_values().filter(|wish| wish.number > 0).collect();
        let terms = |line: &Vec<String>| terms.get(pool_of(line)).filter(|terms| terms.mode == Mode::Fifo);
        let keys: Vec<Option<Vec<FifoKey>>> =
            lines.iter().map(|line| terms(line).map(|terms| terms.line().to_vec())).collect();
        if keys.iter().any(Option::is_some) {
            // Those of pools that are no lines stay as they are, by number.
            all.sort_by(|a, b| {
                a.line.cmp(&b.line).then_with(|| in_line(keys[a.line].as_deref().unwrap_or_default(), a, b))
            });
        }
        Wishes { all, lines, keys }
    }
}

/// Who of two comes first (Y23).
fn in_line(keys: &[FifoKey], a: &Wish, b: &Wish) -> Ordering {
    let by = |key: &FifoKey| match key {
        FifoKey::Weight => Reverse(a.priority).cmp(&Reverse(b.priority)),
        FifoKey::StartTime => a.since.cmp(&b.since),
        FifoKey::PendingJobCount => a.pending.cmp(&b.pending),
    };
    keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(a.party.cmp(&b.party))
}
