//! Dependency graph of unfinished jobs, indexed from both ends, with the queue of changes that
//! dependent jobs have not been notified of.

use super::label::{Mark, Waiters};
use super::{DependencyCondition, DependencyKind, Edge, Tie};
use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::job_id::{IdPart, JobId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State change that affects dependent jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieEvent {
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
    /// (waited for, waiting, condition)
    dependents: BTreeSet<(JobId, JobId, DependencyCondition)>,
    /// (waiting, waited for, condition)
    conditions: BTreeSet<(JobId, JobId, DependencyCondition)>,
    /// The `runone` set of each member.
    sets: BTreeMap<JobId, JobId>,
    /// (set, member)
    members: BTreeSet<(JobId, JobId)>,
    /// Index of jobs that wait for labels.
    waiters: Waiters,
    turns: VecDeque<(JobId, TieEvent)>,
    /// Additions (true) and removals of this tick, to be undone if the tick fails.
    journal: Vec<(Tie, bool)>,
    /// A change was propagated since this flag was last cleared.
    pub stirred: bool,
}

/// Smallest and largest id: bounds for ranges over the second of two ids.
const FIRST: JobId = JobId {
    number: 0,
    part: IdPart::Whole,
};
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

    /// Adds a dependency; false if it exists.
    pub fn add(&mut self, tie: Tie) -> bool {
        let new = self.put(tie);
        if new {
            self.journal.push((tie, true));
        }
        new
    }

    /// Removes a dependency; false if it does not exist.
    pub fn remove(&mut self, tie: Tie) -> bool {
        let known = self.take(tie);
        if known {
            self.journal.push((tie, false));
        }
        known
    }

    /// Removes a job's conditions and its membership in a set.
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
            // Stored as the other job's `after...`.
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

    /// Returns the conditions of this job on others.
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

    /// Records the change of a job from state `was`, if other jobs depend on it.
    pub fn observe(&mut self, was: JobState, job: &Job) {
        self.waiters.follow(job);
        if !self.is_tied(job) {
            return;
        }
        let turn = match (was, job.life.state) {
            (was, is) if was == is => return,
            (before, JobState::Running | JobState::Suspended) if before.is_under_way() => return,
            (_, JobState::Running) => TieEvent::Began,
            (_, JobState::Finished) => TieEvent::Ended,
            (JobState::Running | JobState::Suspended, _) => TieEvent::Returned,
            _ => return,
        };
        self.notify(job.id, turn);
    }

    /// Records the start of an array's first subjob, if other jobs depend on the array.
    pub fn note_began(&mut self, array: &Job) {
        if self.is_tied(array) {
            self.notify(array.id, TieEvent::Began);
        }
    }

    fn is_tied(&self, job: &Job) -> bool {
        let id = job.id;
        self.has_dependents(id)
            || range(&self.conditions, id).next().is_some()
            || self.sets.contains_key(&id)
            || !self.waiters.of(job).is_empty()
    }

    /// Updates the label index from a new or loaded job.
    pub fn follow(&mut self, job: &Job) {
        self.waiters.follow(job);
    }

    /// Removes a job from the label index.
    pub fn unfollow(&mut self, id: JobId) {
        self.waiters.forget(id);
    }

    /// Returns the unfinished jobs that carry a label.
    pub fn carriers(&self, mark: &Mark) -> impl Iterator<Item = JobId> {
        self.waiters.carriers(mark)
    }

    /// Returns the labels that a job waits for.
    pub fn labels_awaited_by(&self, id: JobId) -> impl Iterator<Item = Mark> {
        self.waiters.awaited_by(id).cloned()
    }

    /// Returns the jobs that wait for a job's label, with their conditions.
    pub fn awaiting(&self, job: &Job) -> Vec<(JobId, DependencyCondition)> {
        self.waiters.of(job)
    }

    fn notify(&mut self, id: JobId, turn: TieEvent) {
        self.turns.push_back((id, turn));
    }

    /// Takes the next change to propagate.
    pub fn next_turn(&mut self) -> Option<(JobId, TieEvent)> {
        self.turns.pop_front()
    }

    /// Confirms the tick: it is on disk.
    pub fn settle(&mut self) {
        self.journal.clear();
    }

    /// Undoes the tick.
    pub fn roll_back(&mut self) {
        for (tie, added) in std::mem::take(&mut self.journal).into_iter().rev() {
            if added {
                self.take(tie)
            } else {
                self.put(tie)
            };
        }
        self.turns.clear();
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
            "the array of the same number is another job"
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
