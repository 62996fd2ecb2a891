//! The answers of the allocation script (M8i), one for each class of interchangeable jobs. An
//! answer is kept until the nodes change or no job of the class waits any more.

use super::shape::{ClassId, ClassKey};
use super::snapshot::ClusterState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The positions of nodes in the order of preference, by name; the best node has position 0.
pub type NodePlaces = Arc<BTreeMap<String, usize>>;

/// The answer of the allocation script for a class.
#[derive(Clone, Debug)]
pub enum AllocationAnswer {
    /// The script has not answered yet.
    Awaited,
    /// The script gave no usable answer.
    Nothing,
    /// The order of the nodes.
    Order(NodePlaces),
}

impl ClusterState {
    /// The key of a class; None if no job of the class waits.
    pub fn class(&self, class: ClassId) -> Option<&ClassKey> {
        self.classes.get(&class).map(|class| &class.key)
    }

    /// Notes that the script runs for a class. The jobs of the class wait for the answer.
    pub fn await_answer(&mut self, class: ClassId) {
        self.edition += 1;
        if self.classes.contains_key(&class) {
            self.answers.insert(class, AllocationAnswer::Awaited);
        }
    }

    /// Whether the script has yet to answer for a class.
    pub fn is_awaited(&self, class: ClassId) -> bool {
        matches!(self.answers.get(&class), Some(AllocationAnswer::Awaited))
    }

    /// Whether no answer of the script is outstanding.
    pub(in crate::sched) fn has_no_outstanding_answers(&self) -> bool {
        !self
            .answers
            .values()
            .any(|answer| matches!(answer, AllocationAnswer::Awaited))
    }

    /// Stores the answer for a class: node names, the best first, or None if the script chose no
    /// nodes. Returns false if the answer names an unknown node; such an answer counts as unusable.
    /// Ignores a class without waiting jobs.
    pub fn set_answer(&mut self, class: ClassId, nodes: Option<&[String]>) -> bool {
        self.edition += 1;
        let is_known =
            nodes.is_none_or(|nodes| nodes.iter().all(|name| self.cluster.find(name).is_some()));
        if self.classes.contains_key(&class) {
            let answer = match nodes {
                Some(nodes) if is_known => {
                    let mut places = BTreeMap::new();
                    for (place, name) in nodes.iter().enumerate() {
                        places.entry(name.clone()).or_insert(place);
                    }
                    AllocationAnswer::Order(Arc::new(places))
                }
                _ => AllocationAnswer::Nothing,
            };
            self.answers.insert(class, answer);
        }
        is_known
    }

    /// Removes all answers, because the nodes have changed. Outstanding answers stay outstanding.
    pub(in crate::sched) fn forget_answers(&mut self) {
        self.edition += 1;
        self.answers
            .retain(|_, answer| matches!(answer, AllocationAnswer::Awaited));
    }

    /// Removes outstanding answers, so that in a forecast no class waits for the script.
    pub fn drop_outstanding_answers(&mut self) {
        self.edition += 1;
        self.answers
            .retain(|_, answer| !matches!(answer, AllocationAnswer::Awaited));
    }
}
