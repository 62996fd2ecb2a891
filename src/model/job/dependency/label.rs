//! Labels (Q29): names of jobs within a process group. As in Qube!, a process group is a named
//! group of jobs of one owner. All jobs of an owner without a process group form one group. Other
//! jobs can wait for a label before a job with that label exists.
//!
//! A job that waits for a label may start as soon as a job with that label satisfies the condition
//! by its start or its end. If a job with the label ends without satisfying the condition, the
//! waiting job continues to wait, because another job with the label can still be submitted, and
//! the ended job can be rerun.

pub mod circle;

use super::{DependencyCondition, frame};
use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// Label with its scope: owner and process group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// User id of the owner.
    pub uid: u32,
    /// `group:label`. Neither the group nor the label contains a colon.
    pub text: String,
}

impl Mark {
    /// Returns the mark of `label` in the job's process group.
    pub fn of(job: &Job, label: &str) -> Mark {
        Mark::new(job.owner.uid, job.spec.process_group.as_deref(), label)
    }

    /// Creates the mark of `label` in a process group of a user.
    pub fn new(uid: u32, group: Option<&str>, label: &str) -> Mark {
        Mark {
            uid,
            text: format!("{}:{label}", group.unwrap_or_default()),
        }
    }

    /// Returns the label without the group.
    pub fn label(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, label)| label)
    }

    /// Returns the mark of a job; None without a label. The mark of a subjob includes the index, as
    /// in `sim[3]`.
    pub fn carried_by(job: &Job) -> Option<Mark> {
        let label = job.spec.label.as_deref()?;
        Some(match job.id.index() {
            Some(index) => Mark::of(job, &format!("{label}[{index}]")),
            None => Mark::of(job, label),
        })
    }

    /// Splits the mark of a subjob into the array's mark and the index; None for other marks.
    pub fn frame(&self) -> Option<(Mark, u32)> {
        let (text, index) = frame(&self.text)?;
        Some((
            Mark {
                uid: self.uid,
                text: text.to_string(),
            },
            index,
        ))
    }
}

/// Index of the jobs that wait for labels, and of the jobs that have labels.
#[derive(Debug, Default)]
pub struct LabelIndex {
    /// Jobs that wait for a label, with their conditions.
    waiting: BTreeSet<(Mark, JobId, DependencyCondition)>,
    /// Labels for which each job waits, with the job's conditions.
    awaited: BTreeMap<JobId, Vec<(Mark, DependencyCondition)>>,
    /// Unfinished jobs with a label.
    jobs_with_label: BTreeSet<(Mark, JobId)>,
    /// Label of each unfinished job that has a label.
    label_of: BTreeMap<JobId, Mark>,
}

impl LabelIndex {
    /// Updates the entries of a job.
    pub fn follow(&mut self, job: &Job) {
        self.note_label(job);
        if job.life.awaits.is_empty() || job.life.state == JobState::Finished {
            return self.remove_waiter(job.id);
        }
        let marks = job
            .life
            .awaits
            .iter()
            .map(|awaited| (Mark::of(job, &awaited.label), awaited.condition));
        self.set_awaited(job.id, marks.collect());
    }

    fn set_awaited(&mut self, id: JobId, marks: Vec<(Mark, DependencyCondition)>) {
        if self.awaited.get(&id) == Some(&marks) {
            return;
        }
        self.remove_waiter(id);
        self.waiting.extend(
            marks
                .iter()
                .map(|(mark, condition)| (mark.clone(), id, *condition)),
        );
        self.awaited.insert(id, marks);
    }

    fn note_label(&mut self, job: &Job) {
        // Subjobs have no entries of their own.
        if job.id.index().is_some()
            || job.spec.label.is_none() && !self.label_of.contains_key(&job.id)
        {
            return;
        }
        let mark = if job.life.state == JobState::Finished {
            None
        } else {
            Mark::carried_by(job)
        };
        if self.label_of.get(&job.id) == mark.as_ref() {
            return;
        }
        self.drop_label(job.id);
        if let Some(mark) = mark {
            self.jobs_with_label.insert((mark.clone(), job.id));
            self.label_of.insert(job.id, mark);
        }
    }

    fn drop_label(&mut self, id: JobId) {
        if let Some(mark) = self.label_of.remove(&id) {
            self.jobs_with_label.remove(&(mark, id));
        }
    }

    /// Removes the entries of a job.
    pub fn forget(&mut self, id: JobId) {
        self.drop_label(id);
        self.remove_waiter(id);
    }

    /// Returns the unfinished jobs with this label.
    pub fn jobs_with_label(&self, mark: &Mark) -> impl Iterator<Item = JobId> {
        let from = (mark.clone(), JobId::job(0));
        self.jobs_with_label
            .range(from..)
            .take_while(move |(known, _)| known == mark)
            .map(|(_, id)| *id)
    }

    /// Returns the labels that a job waits for.
    pub fn awaited_by(&self, id: JobId) -> impl Iterator<Item = &Mark> {
        self.awaited
            .get(&id)
            .into_iter()
            .flatten()
            .map(|(mark, _)| mark)
    }

    fn remove_waiter(&mut self, id: JobId) {
        for (mark, condition) in self.awaited.remove(&id).unwrap_or_default() {
            self.waiting.remove(&(mark, id, condition));
        }
    }

    /// Returns the jobs that wait for the label of `job`, with their conditions.
    pub fn waiting_for_label_of(&self, job: &Job) -> Vec<(JobId, DependencyCondition)> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let Some(mark) = Mark::carried_by(job) else {
            return Vec::new();
        };
        let from = (mark.clone(), JobId::job(0), DependencyCondition::Begun);
        let those = self
            .waiting
            .range(from..)
            .take_while(|(known, ..)| *known == mark);
        those.map(|&(_, id, condition)| (id, condition)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::Spec;
    use crate::model::job::dependency::Awaited;
    use crate::sched::fixture::cluster;
    use std::sync::Arc;

    fn job(id: u64, label: Option<&str>, group: Option<&str>, awaits: &[&str]) -> Job {
        let mut job = cluster("").job(id, "select=1:ncpus=1");
        let [label, process_group] = [label, group].map(|text| text.map(str::to_string));
        job.spec = Arc::new(Spec {
            label,
            process_group,
            ..Spec::clone(&job.spec)
        });
        let awaited = |label: &&str| Awaited {
            condition: DependencyCondition::EndedOk,
            label: label.to_string(),
        };
        job.life.awaits = awaits.iter().map(awaited).collect();
        job
    }

    fn waiters(known: &LabelIndex, job: &Job) -> Vec<u64> {
        known
            .waiting_for_label_of(job)
            .iter()
            .map(|(id, _)| id.number)
            .collect()
    }

    #[test]
    fn only_jobs_of_the_same_group_and_owner_wait_for_a_label() {
        let mut known = LabelIndex::default();
        known.follow(&job(2, None, Some("show1"), &["sim", "comp"]));
        known.follow(&job(3, None, Some("show2"), &["sim"]));
        known.follow(&job(4, None, None, &["sim"]));
        let mut others = job(5, None, Some("show1"), &["sim"]);
        others.owner.uid = 7;
        known.follow(&others);
        let sim = |group| job(1, Some("sim"), group, &[]);
        let by_group = [Some("show1"), Some("show2"), None, Some("show3")]
            .map(|group| waiters(&known, &sim(group)));
        assert_eq!(by_group, [vec![2], vec![3], vec![4], vec![]]);
        assert_eq!(waiters(&known, &job(1, None, Some("show1"), &[])), [0; 0]);
    }

    #[test]
    fn jobs_that_no_longer_wait_for_labels_are_removed() {
        let (mut known, sim) = (LabelIndex::default(), job(1, Some("sim"), None, &[]));
        let mut waiting = job(2, None, None, &["sim"]);
        known.follow(&waiting);
        known.follow(&waiting);
        assert_eq!(waiters(&known, &sim), [2]);
        waiting.life.awaits[0].label = "comp".to_string();
        known.follow(&waiting);
        assert_eq!((waiters(&known, &sim), known.waiting.len()), (vec![], 1));
        waiting.life.state = JobState::Finished;
        known.follow(&waiting);
        assert!(known.waiting.is_empty() && known.awaited.is_empty());
    }

    #[test]
    fn a_subjobs_label_includes_its_index() {
        let mut known = LabelIndex::default();
        known.follow(&job(2, None, None, &["sim"]));
        let mut array = cluster("").job(1, "array=1-3");
        array.spec = Arc::new(Spec {
            label: Some("sim".to_string()),
            ..Spec::clone(&array.spec)
        });
        assert_eq!(
            (
                waiters(&known, &array),
                waiters(&known, &array.subjob_without_record(1).unwrap())
            ),
            (vec![2], vec![])
        );
        known.follow(&job(3, None, None, &["sim[1]"]));
        let element = |index| array.subjob_without_record(index).unwrap();
        assert_eq!(
            [element(1), element(2)].map(|element| waiters(&known, &element)),
            [vec![3], vec![]]
        );
        assert_eq!(waiters(&known, &array), [2]);
        let mark = Mark::carried_by(&element(1)).unwrap();
        assert_eq!(
            (mark.label(), mark.frame()),
            ("sim[1]", Mark::carried_by(&array).map(|mark| (mark, 1)))
        );
    }
}
