//! The classes that wait, by what they ask for: what fits for one fits for all of them, and a refusal
//! for want of room is one for all. On a busy machine nearly every job is a class of its own, for
//! walltimes and owners differ; what they ask for differs much less.

use super::shape::{ClassId, ShapeId};
use super::snapshot::{Class, Place};
use std::collections::{BTreeMap, BTreeSet};

/// By what is asked for: the classes, each by its first job.
#[derive(Clone, Debug, Default)]
pub struct Alike(BTreeMap<ShapeId, BTreeSet<(Place, ClassId)>>);

impl Alike {
    /// The classes of each shape, those first whose first jobs come first.
    pub fn shapes(&self) -> impl ExactSizeIterator<Item = (ShapeId, &BTreeSet<(Place, ClassId)>)> {
        self.0.iter().map(|(&shape, classes)| (shape, classes))
    }

    /// Brings a class in line with its jobs, of which `before` was the first.
    pub fn refile(&mut self, class: &Class, before: Option<Place>) {
        let (shape, id, now) = (class.key.shape.id, class.key.id, class.first());
        if before == now {
            return;
        }
        let classes = self.0.entry(shape).or_default();
        if let Some(place) = before {
            classes.remove(&(place, id));
        }
        classes.extend(now.map(|place| (place, id)));
        if classes.is_empty() {
            self.0.remove(&shape);
        }
    }
}
