//! What the policy adds to a job's request before nodes are looked for: who may share its nodes, sets
//! of nodes, the site's veto. Most requests stay as they are.

use super::cluster::{Cluster, Condition};
use super::screen::Screen;
use super::sets::Sets;
use super::shape::{ClassKey, Shape, ShapeId, Tenancy, facts};
use crate::model::expression::Expression;
use crate::model::policy::{Access, Allocation, Placement};
use crate::model::resource::{ResourceList, Value};
use crate::model::time::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests as the policy has them.
pub struct Resolution {
    placement: Placement,
    veto: Option<Expression>,
    /// Whether it matters whose a job is.
    is_personal: bool,
    /// Whether nothing is added to any request that does not ask for it.
    is_plain: bool,
    known: BTreeMap<(ShapeId, Marks), Arc<Shape>>,
}

/// What else decides where a request fits.
type Marks = (Option<super::tenant::User>, Option<Time>, bool, Option<super::shape::ClassId>);

impl Resolution {
    /// By this policy, on these nodes.
    pub fn new(placement: &Placement, cluster: &Cluster) -> Resolution {
        // An expression that cannot be read is refused with the configuration.
        let veto = placement.veto.as_deref().and_then(|text| Expression::parse(text).ok());
        let is_owned = |condition: Condition| matches!(condition, Condition::Of(_));
        let is_personal = placement.access == Access::SingleUser
            || cluster
                .kinds()
                .any(|(_, kind)| kind.terms.max_user_jobs.is_some() || kind.terms.access == Access::SingleUser)
            || cluster.buckets().any(|(key, _)| is_owned(key.condition));
        let is_plain = !is_personal
            && veto.is_none()
            && placement.access == Access::Shared
            && placement.allocation != Allocation::LastAvailable
            && placement.sets.is_none();
        Resolution { placement: placement.clone(), veto, is_personal, is_plain, known: BTreeMap::new() }
    }

    /// When a job that waits since then need not wait for a set of nodes any longer.
    pub fn spans_from(&self, since: Option<Time>) -> Option<Time> {
        Some(since? + self.placement.sets.as_ref()?.delay?)
    }

    /// The request of a class, for a job that waits since then and would end at `end`.
    pub fn shape(&mut self, class: &ClassKey, since: Option<Time>, now: Time, end: Time) -> Arc<Shape> {
        let shape = &class.shape;
        if shape.tenancy == Tenancy::User {
            self.is_personal = true;
        }
        let asks_gap = shape.allocation.unwrap_or(self.placement.allocation) == Allocation::LastAvailable;
        if self.is_plain && !self.is_personal && !asks_gap {
            return shape.clone();
        }
        let may_span = self.spans_from(since).is_some_and(|from| from <= now);
        let user = self.is_personal.then_some(shape.user);
        let marks = (user, asks_gap.then_some(end), may_span, self.veto.as_ref().map(|_| class.id));
        if let Some(known) = self.known.get(&(shape.id, marks)) {
            return known.clone();
        }
        let resolved = Arc::new(self.resolve(class, may_span, marks));
        self.known.insert((shape.id, marks), resolved.clone());
        resolved
    }

    fn resolve(&self, class: &ClassKey, may_span: bool, marks: Marks) -> Shape {
        let mut shape = Shape::clone(&class.shape);
        if shape.tenancy == Tenancy::Unsaid {
            shape.tenancy = shape.tenant().by_default(self.placement.access).tenancy;
            shape.is_single_task |= self.placement.access == Access::SingleTask;
        }
        shape.end = marks.1;
        shape.sets = self.placement.sets.clone().map(|sets| Arc::new(Sets { sets, may_span }));
        if let Some(veto) = &self.veto {
            let list: ResourceList = class
                .walltime
                .map(|walltime: Span| ("walltime".to_string(), Value::Time(walltime)))
                .into_iter()
                .collect();
            let known = shape.screen.as_deref().cloned();
            let screen = known.unwrap_or_else(|| Screen { job: facts(&class.who, &list, None), ..Screen::default() });
            shape.screen = Some(Arc::new(Screen { veto: Some(veto.clone()), ..screen }));
        }
        shape.renamed(&marks)
    }
}
