//! Circular dependencies between jobs.

use crate::model::job::dependency::graph::DependencyGraph;
use crate::model::job_id::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of jobs that a message about a circle names.
const MAX_NAMED: usize = 8;

/// Finds a path along dependencies from a job of `waited_for` to a job of `waiting`. If a path
/// exists, a further job would wait for itself if it depended on all of `waited_for` and all of
/// `waiting` depended on it.
pub fn find(
    dependencies: &DependencyGraph,
    waited_for: &[JobId],
    waiting: &BTreeSet<JobId>,
) -> Option<Vec<JobId>> {
    if waiting.is_empty() {
        return None;
    }
    let mut came_from: BTreeMap<JobId, Option<JobId>> =
        waited_for.iter().map(|&id| (id, None)).collect();
    let mut ahead: Vec<JobId> = waited_for.to_vec();
    while let Some(id) = ahead.pop() {
        if waiting.contains(&id) {
            return Some(trail(&came_from, id));
        }
        for (next, _) in dependencies.conditions(id) {
            came_from.entry(next).or_insert_with(|| {
                ahead.push(next);
                Some(id)
            });
        }
    }
    None
}

fn trail(came_from: &BTreeMap<JobId, Option<JobId>>, end: JobId) -> Vec<JobId> {
    let back = |id: &JobId| came_from.get(id).copied().flatten();
    let mut trail: Vec<JobId> = std::iter::successors(Some(end), back).collect();
    trail.reverse();
    trail
}

/// The circle as text, each job waiting for the next: `this job -> 12.head -> 13.head -> this job`.
pub fn cycle_text(trail: &[JobId], this: &str, server: &str) -> String {
    let names = trail.iter().map(|id| id.full(server));
    let mut shown: Vec<String> = names.clone().take(MAX_NAMED).collect();
    if trail.len() > MAX_NAMED {
        shown.push(format!("... {} more ...", trail.len() - MAX_NAMED));
    }
    format!("{this} -> {} -> {this}", shown.join(" -> "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::dependency::{DependencyCondition, DependencyKind, Edge, Tie};

    fn chain(length: u64) -> DependencyGraph {
        let mut dependencies = DependencyGraph::default();
        let kind = DependencyKind::After(DependencyCondition::Ended);
        let link = |n| Tie {
            job: JobId::job(n + 1),
            edge: Edge {
                kind,
                job: JobId::job(n),
            },
        };
        dependencies.load((1..length).map(link).collect());
        dependencies
    }

    fn found(length: u64, waited_for: u64, waiting: &[u64]) -> Option<String> {
        let waiting = waiting.iter().map(|&id| JobId::job(id)).collect();
        find(&chain(length), &[JobId::job(waited_for)], &waiting)
            .map(|trail| cycle_text(&trail, "this job", "head"))
    }

    #[test]
    fn a_circle_is_found_and_shown() {
        assert_eq!(
            found(3, 3, &[1]).unwrap(),
            "this job -> 3.head -> 2.head -> 1.head -> this job"
        );
        assert_eq!(found(3, 2, &[2]).unwrap(), "this job -> 2.head -> this job");
        assert_eq!(found(3, 1, &[3]), None, "no circle");
        assert_eq!(found(3, 3, &[]), None);
        let long = found(20, 20, &[1]).unwrap();
        assert!(
            long.starts_with("this job -> 20.head -> ")
                && long.ends_with("13.head -> ... 12 more ... -> this job")
        );
    }
}
