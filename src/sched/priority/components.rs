//! The priority as a sum of components (M11): credentials, fair share, requested resources, service
//! (such as waiting time), and nearness to a service target.
//!
//! The first three components are equal for all jobs of a class (a set of interchangeable jobs).

mod credential;

mod resource;

mod service;

pub mod usage;

use super::inputs::PriorityInputs;
use crate::model::policy::Components;
use crate::model::policy::components::{ComponentKind, Goal};
use crate::model::report::priority_score::ScorePart;
use crate::model::time::Span;
use crate::sched::view::class::Wait;
use crate::sched::view::shape::ClassKey;

/// The components that all jobs of a class share. Each component has a value for each of its parts,
/// in the order of [`ComponentKind::parts`].
pub struct Common<'y> {
    rule: &'y Components,
    credential: [f64; 5],
    fair_share: [f64; 2],
    resource: [f64; 8],
    walltime: Span,
    goal: Goal,
    /// The sum of the components credential, fair share and resource.
    sum: f64,
}

impl<'y> Common<'y> {
    /// Computes the common components of a class.
    pub fn of(inputs: &'y PriorityInputs, class: &ClassKey) -> Common<'y> {
        let rule = &inputs.policy.precedence.components;
        let credential = credential::values(rule, class, inputs.queue_priority(class));
        let fair_share = inputs
            .shares
            .percents
            .distances(rule, &inputs.policy.fair_share, class);
        let resource = resource::values(inputs, class);
        let qos = class.who.qos.as_deref();
        let sum = rule.value(ComponentKind::Credential, &credential)
            + rule.value(ComponentKind::FairShare, &fair_share)
            + rule.value(ComponentKind::Resource, &resource);
        Common {
            rule,
            credential,
            fair_share,
            resource,
            walltime: inputs.walltime(class),
            goal: qos
                .and_then(|qos| rule.goals.get(qos))
                .copied()
                .unwrap_or_default(),
            sum,
        }
    }

    /// The score of a job of the class; `waited` is its eligible time.
    pub(super) fn score(&self, waited: Span, wait: &Wait) -> f64 {
        let (service, target) = self.service(waited, wait);
        let served = self.rule.value(ComponentKind::Service, &service)
            + self.rule.value(ComponentKind::Target, &target);
        self.rule.bounded(self.sum + served)
    }

    fn service(&self, waited: Span, wait: &Wait) -> ([f64; 3], [f64; 2]) {
        let service = service::values(waited, self.walltime, self.rule.min_walltime, wait.bypassed);
        (service, service::nearness(&self.goal, &service))
    }

    /// The parts with a weight other than 0, then the effects of the components' caps and of the
    /// bounds on the score. The sum of the products of value and weight is the score.
    pub(super) fn parts(&self, waited: Span, wait: &Wait) -> Vec<ScorePart> {
        let (service, target) = self.service(waited, wait);
        let values: [(ComponentKind, &[f64]); 5] = [
            (ComponentKind::Credential, &self.credential),
            (ComponentKind::FairShare, &self.fair_share),
            (ComponentKind::Resource, &self.resource),
            (ComponentKind::Service, &service),
            (ComponentKind::Target, &target),
        ];
        let mut parts: Vec<ScorePart> = values
            .iter()
            .flat_map(|(kind, values)| of_component(self.rule, *kind, values))
            .collect();
        let sum: f64 = values
            .iter()
            .map(|(kind, values)| self.rule.value(*kind, values))
            .sum();
        parts.extend(correction("bounds", sum, self.rule.bounded(sum), 1.0));
        parts
    }
}

/// The parts of a component, without those of weight 0, and the effect of the component's cap.
fn of_component(rule: &Components, kind: ComponentKind, values: &[f64]) -> Vec<ScorePart> {
    let (component, name) = (rule.component(kind), kind.name());
    let whole = component.whole;
    let counting = kind.parts().iter().zip(&component.parts).zip(values);
    let counting = counting.filter(|((_, count), _)| whole.weight != 0.0 && count.weight != 0.0);
    let mut parts: Vec<ScorePart> = counting
        .map(|((part, count), value)| {
            ScorePart::weighed(
                &format!("{name}.{part}"),
                format!("{value}"),
                count.capped(*value),
                whole.weight * count.weight,
            )
        })
        .collect();
    let sum = component.sum(values);
    parts.extend(correction(
        &format!("{name}.cap"),
        sum,
        whole.capped(sum),
        whole.weight,
    ));
    parts
}

/// The part of the score by which a cap or bound changes `sum` to `counts`; None if both are equal,
/// or if the weight is 0.
fn correction(name: &str, sum: f64, counts: f64, weight: f64) -> Option<ScorePart> {
    (counts != sum && weight != 0.0)
        .then(|| ScorePart::weighed(name, format!("{counts}"), counts - sum, weight))
}

#[cfg(test)]
mod tests;
