//! Jobs that would wait for one another for ever, some of them by label (Q29).
//!
//! A job comes to an end if all that it waits for does; a label comes if any job that carries it
//! does, or if nobody carries it yet, since somebody may still. Who is left of that waits in a
//! circle, or for one.
//!
//! Example: job 1 carries `sim` and waits for `@comp`, job 2 carries `comp` and waits for `@sim`.
//! Were there a job 3 that carries `sim` and waits for nothing, job 2 would wait for that, and
//! there were no circle.

use super::Mark;
use crate::model::job::dependency::effects::JobDependencies;
use crate::model::job::dependency::graph::DependencyGraph;
use crate::model::job::{Job, Owner, Spec};
use crate::model::job_id::JobId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// More than so many steps from one to another are not looked at: then there may be a circle that
/// nobody sees.
const MOST: usize = 5000;
/// The most jobs and labels of a circle that are named.
const NAMED: usize = 8;

/// A job that is to be bound.
#[derive(Clone, Debug, Default)]
pub struct Newcomer {
    /// Which it is, if it is there already.
    pub id: Option<JobId>,
    /// What it carries.
    pub carries: Option<Mark>,
    /// The labels that it is to wait for.
    pub labels: Vec<Mark>,
    /// The jobs that it is to wait for.
    pub jobs: Vec<JobId>,
}

impl Newcomer {
    /// A job of this owner that asks for this, with what it is to be bound by besides what binds it
    /// as it is.
    pub fn of(
        graph: &DependencyGraph,
        before: Option<&Job>,
        (owner, spec): (&Owner, &Spec),
        dependencies: &JobDependencies,
    ) -> Newcomer {
        let group = spec.process_group.as_deref();
        let had = before.iter().flat_map(|job| &job.life.awaits);
        let known = before.iter().flat_map(|job| graph.conditions(job.id));
        Newcomer {
            id: before.map(|job| job.id),
            carries: spec
                .label
                .as_deref()
                .map(|label| Mark::new(owner.uid, group, label)),
            labels: had
                .chain(&dependencies.labels)
                .map(|awaited| Mark::new(owner.uid, group, &awaited.label))
                .collect(),
            jobs: known
                .chain(dependencies.conditions.iter().copied())
                .map(|(id, _)| id)
                .collect(),
        }
    }

    /// A job as a member of a circle.
    fn member(&self, id: JobId) -> CircleMember {
        if Some(id) == self.id {
            CircleMember::This
        } else {
            CircleMember::Job(id)
        }
    }
}

/// What stands in a circle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CircleMember {
    /// The job that is to be bound.
    This,
    /// Another.
    Job(JobId),
    /// A label.
    Label(Mark),
}

/// The way along what each waits for, from the newcomer back to it, if none of it could ever come;
/// the newcomer itself is left out.
pub fn find(graph: &DependencyGraph, new: &Newcomer) -> Option<Vec<CircleMember>> {
    if new.carries.is_none() || new.labels.is_empty() {
        return None;
    }
    let (edges, found) = explored(graph, new)?;
    let stuck = stuck(&edges, &found);
    trail(&edges, &stuck)
}

/// In words, each waiting for the next: `this job -> @sim -> 12.head -> @comp -> this job`.
pub fn spelt(trail: &[CircleMember], this: &str, server: &str) -> String {
    let mut text = this.to_string();
    for link in trail.iter().take(NAMED) {
        text.push_str(" -> ");
        match link {
            CircleMember::This => text.push_str(this),
            CircleMember::Job(id) => text.push_str(&id.full(server)),
            CircleMember::Label(mark) => text.push_str(&format!("@{}", mark.label())),
        }
    }
    if trail.len() > NAMED {
        text.push_str(&format!(" -> ... {} more ...", trail.len() - NAMED));
    }
    format!("{text} -> {this}")
}

type Edges = BTreeMap<CircleMember, Vec<CircleMember>>;

/// What each waits for of all that the newcomer waits for in the end, in the order in which it is
/// found; None where that is too much.
fn explored(graph: &DependencyGraph, new: &Newcomer) -> Option<(Edges, Vec<CircleMember>)> {
    let (mut edges, mut found) = (Edges::new(), Vec::new());
    let (mut ahead, mut left) = (VecDeque::from([CircleMember::This]), MOST);
    while let Some(link) = ahead.pop_front() {
        if edges.contains_key(&link) {
            continue;
        }
        let next = waited_for(graph, new, &link, left);
        left = left.checked_sub(next.len().max(1))?;
        ahead.extend(
            next.iter()
                .filter(|next| !edges.contains_key(next))
                .cloned(),
        );
        found.push(link.clone());
        edges.insert(link, next);
    }
    Some((edges, found))
}

/// What it waits for; no more of it than one beyond what may be looked at.
fn waited_for(
    graph: &DependencyGraph,
    new: &Newcomer,
    link: &CircleMember,
    most: usize,
) -> Vec<CircleMember> {
    match link {
        CircleMember::This => new
            .labels
            .iter()
            .cloned()
            .map(CircleMember::Label)
            .chain(new.jobs.iter().map(|&id| new.member(id)))
            .collect(),
        CircleMember::Job(id) => {
            let labels = graph.labels_awaited_by(*id).map(CircleMember::Label);
            labels
                .chain(
                    graph
                        .conditions(*id)
                        .into_iter()
                        .map(|(id, _)| new.member(id)),
                )
                .collect()
        }
        CircleMember::Label(mark) => {
            // An element comes if its array does.
            let of_array = mark.frame().map(|(array, _)| array);
            let mark = of_array.as_ref().unwrap_or(mark);
            let own = (new.carries.as_ref() == Some(mark)).then_some(CircleMember::This);
            let others = graph
                .carriers(mark)
                .filter(|id| Some(*id) != new.id)
                .map(CircleMember::Job);
            own.into_iter()
                .chain(others)
                .take(most.saturating_add(1))
                .collect()
        }
    }
}

/// Those that can never come.
fn stuck<'e>(edges: &'e Edges, found: &'e [CircleMember]) -> BTreeSet<&'e CircleMember> {
    let mut stuck: BTreeSet<&CircleMember> = found.iter().collect();
    loop {
        let before = stuck.len();
        // What is found last is waited for by what was found before.
        for link in found.iter().rev() {
            let waits_for = &edges[link];
            let comes = match link {
                CircleMember::Label(_) => {
                    waits_for.is_empty() || waits_for.iter().any(|next| !stuck.contains(next))
                }
                CircleMember::This | CircleMember::Job(_) => {
                    waits_for.iter().all(|next| !stuck.contains(next))
                }
            };
            if comes {
                stuck.remove(link);
            }
        }
        if stuck.len() == before {
            return stuck;
        }
    }
}

/// The shortest way from the newcomer along what is stuck back to it.
fn trail(edges: &Edges, stuck: &BTreeSet<&CircleMember>) -> Option<Vec<CircleMember>> {
    let mut came_from: BTreeMap<&CircleMember, &CircleMember> = BTreeMap::new();
    let mut ahead = VecDeque::from([&CircleMember::This]);
    while let Some(link) = ahead.pop_front() {
        for next in edges
            .get(link)
            .into_iter()
            .flatten()
            .filter(|next| stuck.contains(next))
        {
            if *next == CircleMember::This {
                let back = std::iter::successors(Some(link), |link| came_from.get(link).copied());
                let mut trail: Vec<CircleMember> = back
                    .filter(|link| **link != CircleMember::This)
                    .cloned()
                    .collect();
                trail.reverse();
                return Some(trail);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, link);
                ahead.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::dependency::Awaited;
    use crate::model::job::dependency::{DependencyCondition, DependencyKind, Edge, Tie};
    use crate::sched::fixture::cluster;
    use std::sync::Arc;

    fn job(id: u64, label: Option<&str>, awaits: &[&str]) -> Job {
        let mut job = cluster("").job(id, "select=1:ncpus=1");
        job.spec = Arc::new(Spec {
            label: label.map(str::to_string),
            ..Spec::clone(&job.spec)
        });
        let awaited = |label: &&str| Awaited {
            condition: DependencyCondition::EndedOk,
            label: label.to_string(),
        };
        job.life.awaits = awaits.iter().map(awaited).collect();
        job
    }

    fn mark(label: &str) -> Mark {
        Mark::of(&job(1, None, &[]), label)
    }

    fn graph(jobs: &[Job]) -> DependencyGraph {
        let mut graph = DependencyGraph::default();
        jobs.iter().for_each(|job| graph.follow(job));
        graph
    }

    fn found(graph: &DependencyGraph, carries: &str, labels: &[&str]) -> Option<String> {
        let labels = labels.iter().map(|label| mark(label)).collect();
        let links = find(
            graph,
            &Newcomer {
                carries: Some(mark(carries)),
                labels,
                ..Newcomer::default()
            },
        )?;
        let words = spelt(&links, "this", "h")
            .replace(".h", "")
            .replace('@', "");
        words
            .strip_prefix("this -> ")?
            .strip_suffix(" -> this")
            .map(|words| words.replace(" -> ", " "))
    }

    #[test]
    fn jobs_that_wait_for_each_others_labels_are_a_circle() {
        let one = graph(&[job(1, Some("sim"), &["comp"])]);
        assert_eq!(found(&one, "comp", &["sim"]).as_deref(), Some("sim 1 comp"));
        assert_eq!(found(&one, "comp", &["other"]), None);
        assert_eq!(
            found(&one, "other", &["sim"]),
            None,
            "somebody may carry comp yet"
        );
        let frame = graph(&[job(1, Some("sim"), &["comp[2]"])]);
        assert_eq!(
            found(&frame, "comp", &["sim[3]"]).as_deref(),
            Some("sim[3] 1 comp[2]")
        );
        assert_eq!(
            found(&DependencyGraph::default(), "sim", &["sim"]).as_deref(),
            Some("sim"),
            "its own"
        );
        let three = graph(&[job(1, Some("a"), &["b"]), job(2, Some("b"), &["c"])]);
        assert_eq!(
            found(&three, "c", &["free", "a"]).as_deref(),
            Some("a 1 b 2 c")
        );
    }

    #[test]
    fn another_that_carries_the_label_and_comes_makes_it_none() {
        let mut all = vec![job(1, Some("sim"), &["comp"]), job(3, Some("sim"), &[])];
        assert_eq!(found(&graph(&all), "comp", &["sim"]), None);
        all[1].life.state = crate::model::job::state::JobState::Finished;
        assert!(
            found(&graph(&all), "comp", &["sim"]).is_some(),
            "one that is over comes no more"
        );
        let stuck = graph(&[
            job(1, Some("sim"), &["comp"]),
            job(3, Some("sim"), &["comp"]),
        ]);
        assert!(found(&stuck, "comp", &["sim"]).is_some());
        let mut gone = graph(&all);
        gone.unfollow(JobId::job(1));
        assert_eq!(found(&gone, "comp", &["sim"]), None);
    }

    #[test]
    fn a_circle_may_go_by_number_in_part() {
        let mut mixed = graph(&[job(1, Some("sim"), &["comp"]), job(2, Some("x"), &[])]);
        let kind = DependencyKind::After(DependencyCondition::Ended);
        mixed.load(vec![Tie {
            job: JobId::job(2),
            edge: Edge {
                kind,
                job: JobId::job(1),
            },
        }]);
        assert_eq!(found(&mixed, "comp", &["x"]).as_deref(), Some("x 2 1 comp"));
    }

    #[test]
    fn who_is_altered_stands_there_once() {
        let graph = graph(&[job(1, Some("sim"), &[]), job(2, Some("comp"), &["sim"])]);
        let new = |id| Newcomer {
            id: Some(JobId::job(id)),
            carries: Some(mark("sim")),
            labels: vec![mark("comp")],
            jobs: vec![],
        };
        assert!(
            find(&graph, &new(1)).is_some(),
            "job 1 as it was does not count"
        );
        assert!(
            find(&graph, &new(7)).is_none(),
            "another that carries it, too"
        );
    }

    #[test]
    fn of_a_long_circle_the_first_are_named() {
        let said = |length: u64| {
            let links: Vec<CircleMember> = (1..=length)
                .map(|id| CircleMember::Job(JobId::job(id)))
                .collect();
            spelt(&links, "this", "h")
        };
        assert_eq!(said(2), "this -> 1.h -> 2.h -> this");
        let eight = "this -> 1.h -> 2.h -> 3.h -> 4.h -> 5.h -> 6.h -> 7.h -> 8.h";
        assert_eq!(
            [8, 11].map(said),
            [
                format!("{eight} -> this"),
                format!("{eight} -> ... 3 more ... -> this")
            ]
        );
    }

    #[test]
    fn what_is_too_much_to_look_at_is_let_be() {
        // Two steps for each that carries the label, and one from and to the newcomer.
        let jobs = |many: usize| {
            let jobs: Vec<Job> = (1..=many as u64)
                .map(|id| job(id, Some("sim"), &["comp"]))
                .collect();
            graph(&jobs)
        };
        assert!(found(&jobs(MOST / 2 - 1), "comp", &["sim"]).is_some());
        assert_eq!(found(&jobs(MOST / 2), "comp", &["sim"]), None);
        let next = waited_for(
            &jobs(100),
            &Newcomer::default(),
            &CircleMember::Label(mark("sim")),
            10,
        );
        assert_eq!(next.len(), 11, "no more than shows that it is too much");
    }
}
