//! Orders in which jobs take turns: queues one after the other (I22), and pools by how well they have been
//! served (X10). A job's turn hangs on the jobs before it in its own queue or pool, so turns are dealt once
//! all are rated. An array takes one turn with all its elements.

use super::class::{Class, Place, Waiting};
use super::merit::Merit;
use super::pool_turns::PoolTurns;
use super::shape::{ClassId, ClassKey};
use super::yardstick::Yardstick;
use crate::model::policy::{Order, Precedence, Turns};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Precedence {
    /// Whether a job's turn hangs on those before it.
    pub fn takes_turns(&self) -> bool {
        self.order == Order::Pool || self.tiers.turns == Turns::RoundRobin
    }
}

/// A job in the line of its queue or pool.
struct InLine<'a> {
    line: String,
    merit: Merit,
    place: Place,
    class: &'a ClassKey,
}

/// Deals the turns.
pub fn deal(classes: &mut BTreeMap<ClassId, Arc<Class>>, yardstick: &Yardstick) {
    let turns = match yardstick.policy.precedence.order {
        Order::Pool => by_pool(classes, yardstick),
        _ => by_queue(classes, &yardstick.state.served),
    };
    for (id, class) in classes.iter_mut() {
        let merit = |place: Place, waiting: &Waiting| turns.get(&(*id, place)).copied().unwrap_or(waiting.merit);
        Arc::make_mut(class).rate_by(merit);
    }
}

type Dealt = BTreeMap<(ClassId, Place), Merit>;

/// The lines, each in its order.
fn in_lines<'a>(classes: &'a BTreeMap<ClassId, Arc<Class>>, line: impl Fn(&ClassKey) -> String) -> Vec<InLine<'a>> {
    let of_class = |class: &'a Arc<Class>| {
        let line = line(&class.key);
        class.in_order().map(move |((merit, place), _)| InLine { line: line.clone(), merit, place, class: &class.key })
    };
    let mut all: Vec<InLine> = classes.values().flat_map(of_class).collect();
    all.sort_by(|a, b| (&a.line, a.merit, a.place).cmp(&(&b.line, b.merit, b.place)));
    all
}

/// When each queue had its last turn: the later, the higher. Never for those that are not there.
#[derive(Clone, Debug, Default)]
pub struct Served(BTreeMap<String, u64>);

impl Served {
    /// A job of a queue has started.
    pub fn note(&mut self, queue: &str) {
        let turn = 1 + self.0.values().max().copied().unwrap_or(0);
        match self.0.get_mut(queue) {
            Some(last) => *last = turn,
            None => drop(self.0.insert(queue.to_string(), turn)),
        }
    }

    /// How many of these queues had their last turn before.
    fn before<'q>(&self, queue: &str, all: impl Iterator<Item = &'q str>) -> i64 {
        let last = self.0.get(queue);
        all.filter(|other| self.0.get(*other) < last).count() as i64
    }
}

/// The first of each queue, then the second of each; of the queues that one first whose last turn is longest
/// ago.
fn by_queue(classes: &BTreeMap<ClassId, Arc<Class>>, served: &Served) -> Dealt {
    let lines = in_lines(classes, |class| class.who.queue.clone());
    let queues: BTreeSet<&str> = lines.iter().map(|job| job.line.as_str()).collect();
    let of_queue = |line: &[InLine]| -> Vec<((ClassId, Place), Merit)> {
        let before = line.first().map_or(0, |job| served.before(&job.line, queues.iter().copied()));
        let turn = |(turn, job): (usize, &InLine)| {
            let behind = (turn * queues.len()) as i64 + before;
            ((job.class.id, job.place), Merit::of(job.merit.tier() - behind, job.merit.score()))
        };
        line.iter().enumerate().map(turn).collect()
    };
    lines.chunk_by(|a, b| a.line == b.line).flat_map(of_queue).collect()
}

/// Who is of the pool that has been served worst, were all before it served.
fn by_pool(classes: &BTreeMap<ClassId, Arc<Class>>, yardstick: &Yardstick) -> Dealt {
    let mut pools =
        PoolTurns::new(yardstick.state, &yardstick.policy.fair_share, classes.values().map(|class| &**class));
    let lines = in_lines(classes, |class| pools.pool_of(class));
    let satisfied = lines.iter().map(|job| {
        let satisfaction = pools.serve(&job.line, job.class);
        // M11: what an operator says stands above whatever its pool has had.
        let merit = match job.class.system_priority {
            Some(_) => job.merit,
            None => Merit::of(job.merit.tier(), -satisfaction),
        };
        ((job.class.id, job.place), merit)
    });
    satisfied.collect()
}
