//! Detection of dependency cycles that include labels (Q29).
//!
//! A job can finish if all jobs for which it waits can finish, and all labels for which it waits
//! can be satisfied. A label can be satisfied if an unfinished job with the label can finish. It
//! can also be satisfied if no unfinished job has the label, because a job with the label can still
//! be submitted. All other jobs and labels are in a cycle or wait for a cycle.
//!
//! Example: job 1 has label `sim` and waits for `@comp`, job 2 has label `comp` and waits for
//! `@sim`. These jobs form a cycle. If a job 3 has label `sim` and waits for nothing, there is no
//! cycle, because job 2 can start after job 3.

use super::Mark;
use crate::model::job::dependency::effects::JobDependencies;
use crate::model::job::dependency::graph::DependencyGraph;
use crate::model::job::{Job, Owner, Spec};
use crate::model::job_id::JobId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of dependencies searched. If more can be reached from the checked job, no cycle
/// is detected.
const MOST: usize = 5000;
/// Maximum number of jobs and labels listed in the message to the user.
const NAMED: usize = 8;

/// Job with new dependencies to be checked.
#[derive(Clone, Debug, Default)]
pub struct CheckedJob {
    /// Job id, if the job exists already.
    pub id: Option<JobId>,
    /// Label of the job; None without a label.
    pub carries: Option<Mark>,
    /// Labels that the job will wait for.
    pub labels: Vec<Mark>,
    /// Jobs that the job will wait for.
    pub jobs: Vec<JobId>,
}

impl CheckedJob {
    /// Combines new dependencies with those that the job already has. `before` is the existing job;
    /// None for a new job.
    pub fn of(
        graph: &DependencyGraph,
        before: Option<&Job>,
        (owner, spec): (&Owner, &Spec),
        dependencies: &JobDependencies,
    ) -> CheckedJob {
        let group = spec.process_group.as_deref();
        let had = before.iter().flat_map(|job| &job.life.awaits);
        let known = before.iter().flat_map(|job| graph.conditions(job.id));
        CheckedJob {
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

    /// Returns the job `id` as a member of a cycle.
    fn member(&self, id: JobId) -> CycleMember {
        if Some(id) == self.id {
            CycleMember::This
        } else {
            CycleMember::Job(id)
        }
    }
}

/// Member of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CycleMember {
    /// Job being checked.
    This,
    /// Another job.
    Job(JobId),
    /// A label.
    Label(Mark),
}

/// Returns a cycle of dependencies that starts and ends at the checked job, without that job
/// itself. None without a cycle, after more than `MOST` dependencies, or if the checked job has
/// no label or waits for no label.
pub fn find(graph: &DependencyGraph, new: &CheckedJob) -> Option<Vec<CycleMember>> {
    if new.carries.is_none() || new.labels.is_empty() {
        return None;
    }
    let (edges, found) = explored(graph, new)?;
    let stuck = stuck(&edges, &found);
    trail(&edges, &stuck)
}

/// Formats a cycle: `this job -> @sim -> 12.head -> @comp -> this job`. Each member waits for the
/// next member. `this` is the text for the checked job.
pub fn cycle_text(trail: &[CycleMember], this: &str, server: &str) -> String {
    let mut text = this.to_string();
    for link in trail.iter().take(NAMED) {
        text.push_str(" -> ");
        match link {
            CycleMember::This => text.push_str(this),
            CycleMember::Job(id) => text.push_str(&id.full(server)),
            CycleMember::Label(mark) => text.push_str(&format!("@{}", mark.label())),
        }
    }
    if trail.len() > NAMED {
        text.push_str(&format!(" -> ... {} more ...", trail.len() - NAMED));
    }
    format!("{text} -> {this}")
}

type Edges = BTreeMap<CycleMember, Vec<CycleMember>>;

/// Returns the dependencies of all jobs and labels that are reachable from the checked job, and
/// these jobs and labels in breadth-first order. None if there are more than [`MOST`] dependencies.
fn explored(graph: &DependencyGraph, new: &CheckedJob) -> Option<(Edges, Vec<CycleMember>)> {
    let (mut edges, mut found) = (Edges::new(), Vec::new());
    let (mut ahead, mut left) = (VecDeque::from([CycleMember::This]), MOST);
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

/// Returns the jobs and labels for which a member waits; for a label, at most `most` + 1 jobs.
fn waited_for(
    graph: &DependencyGraph,
    new: &CheckedJob,
    link: &CycleMember,
    most: usize,
) -> Vec<CycleMember> {
    match link {
        CycleMember::This => new
            .labels
            .iter()
            .cloned()
            .map(CycleMember::Label)
            .chain(new.jobs.iter().map(|&id| new.member(id)))
            .collect(),
        CycleMember::Job(id) => {
            let labels = graph.labels_awaited_by(*id).map(CycleMember::Label);
            labels
                .chain(
                    graph
                        .conditions(*id)
                        .into_iter()
                        .map(|(id, _)| new.member(id)),
                )
                .collect()
        }
        CycleMember::Label(mark) => {
            // The label of a subjob can be satisfied only if the label of its array can.
            let of_array = mark.frame().map(|(array, _)| array);
            let mark = of_array.as_ref().unwrap_or(mark);
            let own = (new.carries.as_ref() == Some(mark)).then_some(CycleMember::This);
            let others = graph
                .jobs_with_label(mark)
                .filter(|id| Some(*id) != new.id)
                .map(CycleMember::Job);
            own.into_iter()
                .chain(others)
                .take(most.saturating_add(1))
                .collect()
        }
    }
}

/// Returns the members that can never finish or be satisfied.
fn stuck<'e>(edges: &'e Edges, found: &'e [CycleMember]) -> BTreeSet<&'e CycleMember> {
    let mut stuck: BTreeSet<&CycleMember> = found.iter().collect();
    loop {
        let before = stuck.len();
        // Reverse order needs fewer rounds, because later members are dependencies of earlier
        // members.
        for link in found.iter().rev() {
            let waits_for = &edges[link];
            let comes = match link {
                CycleMember::Label(_) => {
                    waits_for.is_empty() || waits_for.iter().any(|next| !stuck.contains(next))
                }
                CycleMember::This | CycleMember::Job(_) => {
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

/// Returns the shortest cycle that contains the checked job and otherwise only `stuck` members.
fn trail(edges: &Edges, stuck: &BTreeSet<&CycleMember>) -> Option<Vec<CycleMember>> {
    let mut came_from: BTreeMap<&CycleMember, &CycleMember> = BTreeMap::new();
    let mut ahead = VecDeque::from([&CycleMember::This]);
    while let Some(link) = ahead.pop_front() {
        for next in edges
            .get(link)
            .into_iter()
            .flatten()
            .filter(|next| stuck.contains(next))
        {
            if *next == CycleMember::This {
                let back = std::iter::successors(Some(link), |link| came_from.get(link).copied());
                let mut trail: Vec<CycleMember> = back
                    .filter(|link| **link != CycleMember::This)
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
            &CheckedJob {
                carries: Some(mark(carries)),
                labels,
                ..CheckedJob::default()
            },
        )?;
        let words = cycle_text(&links, "this", "h")
            .replace(".h", "")
            .replace('@', "");
        words
            .strip_prefix("this -> ")?
            .strip_suffix(" -> this")
            .map(|words| words.replace(" -> ", " "))
    }

    #[test]
    fn jobs_that_wait_for_each_others_labels_form_a_cycle() {
        let one = graph(&[job(1, Some("sim"), &["comp"])]);
        assert_eq!(found(&one, "comp", &["sim"]).as_deref(), Some("sim 1 comp"));
        assert_eq!(found(&one, "comp", &["other"]), None);
        assert_eq!(
            found(&one, "other", &["sim"]),
            None,
            "a later job may have label comp"
        );
        let frame = graph(&[job(1, Some("sim"), &["comp[2]"])]);
        assert_eq!(
            found(&frame, "comp", &["sim[3]"]).as_deref(),
            Some("sim[3] 1 comp[2]")
        );
        assert_eq!(
            found(&DependencyGraph::default(), "sim", &["sim"]).as_deref(),
            Some("sim"),
            "the job waits for its own label"
        );
        let three = graph(&[job(1, Some("a"), &["b"]), job(2, Some("b"), &["c"])]);
        assert_eq!(
            found(&three, "c", &["free", "a"]).as_deref(),
            Some("a 1 b 2 c")
        );
    }

    #[test]
    fn another_unfinished_job_with_the_label_resolves_the_cycle() {
        let mut all = vec![job(1, Some("sim"), &["comp"]), job(3, Some("sim"), &[])];
        assert_eq!(found(&graph(&all), "comp", &["sim"]), None);
        all[1].life.state = crate::model::job::state::JobState::Finished;
        assert!(
            found(&graph(&all), "comp", &["sim"]).is_some(),
            "a finished job with the label does not resolve the cycle"
        );
        let stuck = graph(&[
            job(1, Some("sim"), &["comp"]),
            job(3, Some("sim"), &["comp"]),
        ]);
        assert!(found(&stuck, "comp", &["sim"]).is_some());
        let mut gone = graph(&all);
        gone.remove_labels(JobId::job(1));
        assert_eq!(found(&gone, "comp", &["sim"]), None);
    }

    #[test]
    fn a_cycle_can_include_dependencies_on_job_ids() {
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
    fn a_new_state_replaces_the_known_state_of_an_altered_job() {
        let graph = graph(&[job(1, Some("sim"), &[]), job(2, Some("comp"), &["sim"])]);
        let new = |id| CheckedJob {
            id: Some(JobId::job(id)),
            carries: Some(mark("sim")),
            labels: vec![mark("comp")],
            jobs: vec![],
        };
        assert!(
            find(&graph, &new(1)).is_some(),
            "the stored state of job 1, which waits for nothing, does not count"
        );
        assert!(
            find(&graph, &new(7)).is_none(),
            "job 1 has the same label and waits for nothing"
        );
    }

    #[test]
    fn only_the_first_members_of_a_long_cycle_are_listed() {
        let described = |length: u64| {
            let links: Vec<CycleMember> = (1..=length)
                .map(|id| CycleMember::Job(JobId::job(id)))
                .collect();
            cycle_text(&links, "this", "h")
        };
        assert_eq!(described(2), "this -> 1.h -> 2.h -> this");
        let eight = "this -> 1.h -> 2.h -> 3.h -> 4.h -> 5.h -> 6.h -> 7.h -> 8.h";
        assert_eq!(
            [8, 11].map(described),
            [
                format!("{eight} -> this"),
                format!("{eight} -> ... 3 more ... -> this")
            ]
        );
    }

    #[test]
    fn a_search_beyond_the_maximum_finds_no_cycle() {
        // Two dependencies for each job with the label, and two for the checked job.
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
            &CheckedJob::default(),
            &CycleMember::Label(mark("sim")),
            10,
        );
        assert_eq!(next.len(), 11, "one more than the maximum of 10");
    }
}
