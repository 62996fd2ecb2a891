//! Graph of the dependencies between unfinished jobs, with a queue of the job changes not yet
//! applied to dependent jobs.

use super::label::{LabelIndex, Mark};
use super::{DependencyCondition, DependencyKind, Edge, Tie};
use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::job_id::{IdPart, JobId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State change that affects dependent jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyEvent {
    /// The job started.
    Began,
    /// The job returned to its queue.
    Returned,
    /// The job finished.
    Ended,
}

/// Dependencies between jobs, with indices.
#[derive(Debug, Default)]
pub struct DependencyGraph {
    /// Dependencies as (other job, waiting job, condition).
    dependents: BTreeSet<(JobId, JobId, DependencyCondition)>,
    /// Dependencies as (waiting job, other job, condition).
    conditions: BTreeSet<(JobId, JobId, DependencyCondition)>,
    /// The `runone` set of each member. The id of one job identifies a set.
    sets: BTreeMap<JobId, JobId>,
    /// Members of `runone` sets as (set, member).
    members: BTreeSet<(JobId, JobId)>,
    /// Labels of the jobs, and labels for which jobs wait.
    labels: LabelIndex,
    changes: VecDeque<(JobId, DependencyEvent)>,
    /// Dependencies added (true) and removed (false) in this tick. They are undone if the changes
    /// of the tick cannot be stored.
    journal: Vec<(Tie, bool)>,
    /// A change of a job has affected a dependent job since this flag was last cleared.
    pub has_affected_jobs: bool,
}

/// Smallest id, for ranges over all ids.
const FIRST: JobId = JobId {
    number: 0,
    part: IdPart::Whole,
};
/// Largest id, for ranges over all ids.
const LAST: JobId = JobId {
    number: u64::MAX,
    part: IdPart::Element(u32::MAX),
};

impl DependencyGraph {
    /// Loads the dependencies stored in the spool.
    pub fn load(&mut self, graph: Vec<Tie>) {
        for tie in graph {
            self.put(tie);
        }
    }

    /// Adds a dependency. Returns false if the dependency exists already.
    pub fn add(&mut self, tie: Tie) -> bool {
        let new = self.put(tie);
        if new {
            self.journal.push((tie, true));
        }
        new
    }

    /// Removes a dependency. Returns false if the dependency does not exist.
    pub fn remove(&mut self, tie: Tie) -> bool {
        let known = self.take(tie);
        if known {
            self.journal.push((tie, false));
        }
        known
    }

    /// Removes the dependencies of a job on other jobs, and its membership in a `runone` set.
    pub fn forget(&mut self, id: JobId) {
        for (other, condition) in self.conditions(id) {
            self.remove(Tie {
                job: id,
                edge: Edge {
                    kind: DependencyKind::After(condition),
                    job: other,
                },
            });
        }
        if let Some(tie) = self.membership(id) {
            self.remove(tie);
        }
    }

    fn put(&mut self, tie: Tie) -> bool {
        let Tie {
            job,
            edge: Edge { kind, job: other },
        } = tie;
        match kind {
            DependencyKind::After(condition) => {
                self.dependents.insert((other, job, condition));
                self.conditions.insert((job, other, condition))
            }
            DependencyKind::RunOne => {
                self.members.insert((other, job));
                self.sets.insert(job, other) != Some(other)
            }
            // A `before...` dependency is stored as the other job's `after...`.
            DependencyKind::Before(_) => false,
        }
    }

    fn take(&mut self, tie: Tie) -> bool {
        let Tie {
            job,
            edge: Edge { kind, job: other },
        } = tie;
        match kind {
            DependencyKind::After(condition) => {
                self.dependents.remove(&(other, job, condition));
                self.conditions.remove(&(job, other, condition))
            }
            DependencyKind::RunOne => {
                self.sets.remove(&job);
                self.members.remove(&(other, job))
            }
            DependencyKind::Before(_) => false,
        }
    }

    /// Returns the jobs that wait for this job, with their conditions.
    pub fn dependents(&self, id: JobId) -> Vec<(JobId, DependencyCondition)> {
        range(&self.dependents, id).collect()
    }

    /// Tests whether any job waits for this job.
    pub fn has_dependents(&self, id: JobId) -> bool {
        range(&self.dependents, id).next().is_some()
    }

    /// Returns the jobs for which this job waits, with its conditions.
    pub fn conditions(&self, id: JobId) -> Vec<(JobId, DependencyCondition)> {
        range(&self.conditions, id).collect()
    }

    /// Tests whether the dependency exists.
    pub fn holds(&self, tie: Tie) -> bool {
        match tie.edge.kind {
            DependencyKind::After(condition) => {
                self.conditions
                    .contains(&(tie.job, tie.edge.job, condition))
            }
            DependencyKind::RunOne => self.sets.get(&tie.job) == Some(&tie.edge.job),
            DependencyKind::Before(_) => false,
        }
    }

    /// Returns the membership of a job in its `runone` set.
    pub fn membership(&self, id: JobId) -> Option<Tie> {
        self.sets.get(&id).map(|&set| Tie {
            job: id,
            edge: Edge {
                kind: DependencyKind::RunOne,
                job: set,
            },
        })
    }

    /// Returns the members of a `runone` set.
    pub fn members(&self, set: JobId) -> Vec<JobId> {
        self.members
            .range((set, FIRST)..=(set, LAST))
            .map(|&(_, member)| member)
            .collect()
    }

    /// Returns the other members of a job's `runone` set.
    pub fn rivals(&self, id: JobId) -> Vec<JobId> {
        let set = self
            .sets
            .get(&id)
            .map_or(Vec::new(), |&set| self.members(set));
        set.into_iter().filter(|&member| member != id).collect()
    }

    /// Returns the other members of a job's `runone` set, at most `most` of them.
    pub fn some_rivals(&self, id: JobId, most: usize) -> Vec<JobId> {
        let Some(&set) = self.sets.get(&id) else {
            return Vec::new();
        };
        let members = self.members.range((set, FIRST)..=(set, LAST));
        members
            .map(|&(_, member)| member)
            .filter(|&member| member != id)
            .take(most)
            .collect()
    }

    /// Updates the label index from a job that was in state `was` before its last change. If the
    /// change is a start, a return to the job's queue or the end, also adds it to the queue of
    /// changes. Changes of a job without dependencies and dependent jobs are not added.
    pub fn observe(&mut self, was: JobState, job: &Job) {
        self.labels.follow(job);
        if !self.is_tied(job) {
            return;
        }
        let change = match (was, job.life.state) {
            (was, is) if was == is => return,
            (before, JobState::Running | JobState::Suspended) if before.is_under_way() => return,
            (_, JobState::Running) => DependencyEvent::Began,
            (_, JobState::Finished) => DependencyEvent::Ended,
            (JobState::Running | JobState::Suspended, _) => DependencyEvent::Returned,
            _ => return,
        };
        self.notify(job.id, change);
    }

    /// Queues the start of an array's first subjob, if the array has dependencies or other jobs
    /// depend on it.
    pub fn note_began(&mut self, array: &Job) {
        if self.is_tied(array) {
            self.notify(array.id, DependencyEvent::Began);
        }
    }

    fn is_tied(&self, job: &Job) -> bool {
        let id = job.id;
        self.has_dependents(id)
            || range(&self.conditions, id).next().is_some()
            || self.sets.contains_key(&id)
            || !self.labels.waiting_for_label_of(job).is_empty()
    }

    /// Updates the label index from a new, loaded or changed job.
    pub fn follow(&mut self, job: &Job) {
        self.labels.follow(job);
    }

    /// Removes a job from the label index.
    pub fn remove_labels(&mut self, id: JobId) {
        self.labels.forget(id);
    }

    /// Returns the unfinished jobs with this label.
    pub fn jobs_with_label(&self, mark: &Mark) -> impl Iterator<Item = JobId> {
        self.labels.jobs_with_label(mark)
    }

    /// Returns the labels that a job waits for.
    pub fn labels_awaited_by(&self, id: JobId) -> impl Iterator<Item = Mark> {
        self.labels.awaited_by(id).cloned()
    }

    /// Returns the jobs that wait for a job's label, with their conditions.
    pub fn awaiting(&self, job: &Job) -> Vec<(JobId, DependencyCondition)> {
        self.labels.waiting_for_label_of(job)
    }

    fn notify(&mut self, id: JobId, change: DependencyEvent) {
        self.changes.push_back((id, change));
    }

    /// Removes and returns the oldest queued change.
    pub fn next_change(&mut self) -> Option<(JobId, DependencyEvent)> {
        self.changes.pop_front()
    }

    /// Makes the additions and removals of this tick final. To be called when they are on disk.
    pub fn settle(&mut self) {
        self.journal.clear();
    }

    /// Undoes the additions and removals of this tick, and empties the queue of changes.
    pub fn roll_back(&mut self) {
        for (tie, added) in std::mem::take(&mut self.journal).into_iter().rev() {
            if added {
                self.take(tie)
            } else {
                self.put(tie)
            };
        }
        self.changes.clear();
    }
}

fn range(
    set: &BTreeSet<(JobId, JobId, DependencyCondition)>,
    id: JobId,
) -> impl Iterator<Item = (JobId, DependencyCondition)> + use<'_> {
    let all = (id, FIRST, DependencyCondition::Begun)..=(id, LAST, DependencyCondition::Ended);
    set.range(all)
        .map(|&(_, other, condition)| (other, condition))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tie(job: u64, name: &str, other: u64) -> Tie {
        Tie {
            job: JobId::job(job),
            edge: Edge {
                kind: DependencyKind::from_name(name).unwrap(),
                job: JobId::job(other),
            },
        }
    }

    #[test]
    fn a_dependency_is_found_from_both_jobs_until_removed() {
        let mut graph = DependencyGraph::default();
        assert!(
            graph.add(tie(2, "afterok", 1))
                && graph.add(tie(3, "after", 1))
                && !graph.add(tie(3, "after", 1))
        );
        let two = (JobId::job(2), DependencyCondition::EndedOk);
        assert_eq!(
            graph.dependents(JobId::job(1)),
            [two, (JobId::job(3), DependencyCondition::Begun)]
        );
        assert_eq!(
            graph.conditions(JobId::job(3)),
            [(JobId::job(1), DependencyCondition::Begun)]
        );
        graph.forget(JobId::job(3));
        assert_eq!(graph.dependents(JobId::job(1)), [two]);
        assert!(
            !graph.has_dependents(JobId::array(1)),
            "an array with the same number is another job"
        );
    }

    #[test]
    fn a_rolled_back_tick_changes_nothing() {
        let mut graph = DependencyGraph::default();
        graph.load(vec![
            tie(2, "afterok", 1),
            tie(5, "runone", 4),
            tie(4, "runone", 4),
        ]);
        graph.remove(tie(2, "afterok", 1));
        graph.remove(tie(5, "runone", 4));
        graph.add(tie(5, "runone", 6));
        graph.add(tie(3, "after", 1));
        graph.roll_back();
        assert_eq!(
            graph.dependents(JobId::job(1)),
            [(JobId::job(2), DependencyCondition::EndedOk)]
        );
        assert_eq!(graph.rivals(JobId::job(5)), [JobId::job(4)]);
        assert!(graph.members(JobId::job(6)).is_empty());
    }
}
