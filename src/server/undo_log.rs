//! The last action of each user, for `lanai undo`. While a request is handled that can be
//! reverted, each job that it changes is recorded as it was before its first change.

use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::Run;
use crate::model::job::dependency::DependencyKind;
use crate::model::job::dependency::graph::DependencyGraph;
use crate::model::job::event::Event;
use crate::model::job::undo::AlterationBefore;
use crate::model::job::undo::DependenciesBefore;
use crate::model::job::undo::JobBefore;
use crate::model::job::undo::MOST_JOBS;
use crate::model::job::undo::UndoKind;
use crate::model::job::undo::UserAction;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::update::Update;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of recorded rivals in a job's `runone` set.
const MOST_RIVALS: usize = 64;

/// The last actions by uid, and the request that is being recorded.
#[derive(Debug, Default)]
pub struct UndoLog {
    actions: BTreeMap<u32, Arc<UserAction>>,
    /// The actions before the current transaction, for a rollback.
    before: BTreeMap<u32, Option<Arc<UserAction>>>,
    recording: Option<Recording>,
    /// The connection of the current request.
    connection: Option<u64>,
}

/// The jobs that the current request has changed.
#[derive(Debug)]
struct Recording {
    kind: UndoKind,
    jobs: BTreeMap<JobId, ChangedJob>,
    unrecorded: u64,
}

/// A job before its first change by the current request.
#[derive(Debug)]
struct ChangedJob {
    job: Arc<Job>,
    is_dependent: bool,
    dependencies: DependenciesBefore,
    added_dependencies: bool,
}

impl UndoLog {
    /// The log with the stored actions.
    pub fn new(actions: Vec<UserAction>) -> UndoLog {
        let by_uid = |action: UserAction| (action.owner.uid, Arc::new(action));
        UndoLog {
            actions: actions.into_iter().map(by_uid).collect(),
            ..UndoLog::default()
        }
    }

    /// Sets the connection of the requests that follow.
    pub fn set_connection(&mut self, connection: u64) {
        self.connection = Some(connection);
    }

    /// Starts to record a request.
    pub fn start(&mut self, kind: UndoKind) {
        self.recording = Some(Recording {
            kind,
            jobs: BTreeMap::new(),
            unrecorded: 0,
        });
    }

    /// Whether a request is being recorded.
    pub fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Records a job before a change. `event` is the event that changes the job; None for another
    /// change.
    pub fn note(&mut self, job: &Arc<Job>, graph: &DependencyGraph, event: Option<&Event>) {
        if let Some(recording) = &mut self.recording {
            recording.note(job, graph, event);
        }
    }

    /// Ends the recording. `current` returns a job after the request. Returns the update that
    /// stores the action; None if the request has changed no job.
    pub fn finish(
        &mut self,
        owner: &Owner,
        now: Time,
        current: impl Fn(JobId) -> Option<Arc<Job>>,
    ) -> Option<Update> {
        let recording = self.recording.take()?;
        if recording.jobs.is_empty() {
            return None;
        }
        let (kind, unrecorded) = (recording.kind, recording.unrecorded);
        let mut jobs = recording.into_jobs(now, current);
        let uid = owner.uid;
        self.keep_for_rollback(uid);
        let same = self.actions.get_mut(&uid).filter(|action| {
            action.kind == kind
                && action.connection.is_some()
                && action.connection == self.connection
                && action.owner == *owner
        });
        let Some(action) = same else {
            let action = Arc::new(UserAction {
                kind,
                owner: owner.clone(),
                at: now,
                unrecorded,
                connection: self.connection,
                jobs,
            });
            self.actions.insert(uid, action.clone());
            return Some(Update::UserAction(uid, Some(action), 0));
        };
        let action = Arc::make_mut(action);
        let first = action.jobs.len();
        let excess = (first + jobs.len()).saturating_sub(MOST_JOBS);
        jobs.truncate(jobs.len() - excess);
        action.jobs.append(&mut jobs);
        action.unrecorded += unrecorded + excess as u64;
        Some(Update::UserAction(
            uid,
            self.actions.get(&uid).cloned(),
            first,
        ))
    }

    /// The last action of a user, if it can be reverted now.
    pub fn last(&self, owner: &Owner, now: Time) -> Option<Arc<UserAction>> {
        let action = self.actions.get(&owner.uid)?;
        (owner.is_same_account(&action.owner) && !action.is_expired(now)).then(|| action.clone())
    }

    /// Removes the action of a user. Returns the update that removes the stored action.
    pub fn forget(&mut self, uid: u32) -> Update {
        self.keep_for_rollback(uid);
        self.actions.remove(&uid);
        Update::UserAction(uid, None, 0)
    }

    /// Removes the actions that can no longer be reverted.
    pub fn forget_expired(&mut self, now: Time) -> Vec<Update> {
        let expired: Vec<u32> = self
            .actions
            .iter()
            .filter(|(_, action)| action.is_expired(now))
            .map(|(&uid, _)| uid)
            .collect();
        expired.into_iter().map(|uid| self.forget(uid)).collect()
    }

    fn keep_for_rollback(&mut self, uid: u32) {
        let action = self.actions.get(&uid);
        self.before.entry(uid).or_insert_with(|| action.cloned());
    }

    /// Makes the changes of the current transaction final.
    pub fn settle(&mut self) {
        self.before.clear();
    }

    /// Undoes the changes of the current transaction.
    pub fn roll_back(&mut self) {
        self.recording = None;
        for (uid, before) in std::mem::take(&mut self.before) {
            match before {
                Some(action) => self.actions.insert(uid, action),
                None => self.actions.remove(&uid),
            };
        }
    }
}

impl Recording {
    fn note(&mut self, job: &Arc<Job>, graph: &DependencyGraph, event: Option<&Event>) {
        let id = job.id;
        // The record of an array covers its subjobs.
        if id
            .parent()
            .is_some_and(|array| self.jobs.contains_key(&array))
        {
            return;
        }
        if !self.jobs.contains_key(&id) {
            if self.jobs.len() >= MOST_JOBS {
                self.unrecorded += 1;
                return;
            }
            let has_dependencies = matches!(self.kind, UndoKind::Cancel | UndoKind::Release);
            let dependencies = if has_dependencies {
                dependencies_of(job, graph)
            } else {
                DependenciesBefore::default()
            };
            self.jobs.insert(
                id,
                ChangedJob {
                    job: job.clone(),
                    is_dependent: event.is_some_and(is_of_dependent),
                    dependencies,
                    added_dependencies: false,
                },
            );
        }
        if let (Some(changed), Some(event)) = (self.jobs.get_mut(&id), event) {
            changed.follow(event);
        }
    }

    fn into_jobs(self, at: Time, current: impl Fn(JobId) -> Option<Arc<Job>>) -> Vec<JobBefore> {
        let kind = self.kind;
        let before = |changed: ChangedJob| changed.before(kind, at, &current);
        self.jobs.into_values().map(before).collect()
    }
}

/// Whether the event is the effect of another job's end.
fn is_of_dependent(event: &Event) -> bool {
    matches!(
        event,
        Event::DependencyMet { .. } | Event::LabelMet { .. } | Event::DependencyBroken { .. }
    )
}

fn dependencies_of(job: &Job, graph: &DependencyGraph) -> DependenciesBefore {
    DependenciesBefore {
        conditions: graph.conditions(job.id),
        labels: job.life.awaits.clone(),
        on: job.life.bars.on,
        set: graph.membership(job.id).map(|tie| tie.edge.job),
        rivals: graph.some_rivals(job.id, MOST_RIVALS),
        ..DependenciesBefore::default()
    }
}

impl ChangedJob {
    fn follow(&mut self, event: &Event) {
        let dependencies = &mut self.dependencies;
        match event {
            Event::DependencyMet { edge } => {
                if let DependencyKind::After(condition) = edge.kind {
                    let met = (edge.job, condition);
                    dependencies.conditions.retain(|other| *other != met);
                    dependencies.met.push(met);
                }
            }
            Event::LabelMet {
                condition,
                label,
                by,
            } => {
                let labels = std::mem::take(&mut dependencies.labels);
                for awaited in labels {
                    if awaited.condition == *condition && awaited.label == *label {
                        dependencies.met_labels.push((*by, awaited));
                    } else {
                        dependencies.labels.push(awaited);
                    }
                }
            }
            Event::Altered { attributes, .. } => {
                let is_dependency = |name: &String| ["depend", "hold_jid"].contains(&&name[..]);
                self.added_dependencies |= attributes.iter().any(is_dependency);
            }
            _ => {}
        }
    }

    fn before(
        self,
        kind: UndoKind,
        at: Time,
        current: &impl Fn(JobId) -> Option<Arc<Job>>,
    ) -> JobBefore {
        let (job, life) = (&self.job, &self.job.life);
        let after = current(job.id);
        let after_holds = after.as_ref().map_or(life.holds, |after| after.life.holds);
        let elements = job.elements.as_ref().filter(|_| kind == UndoKind::Cancel);
        let has_dependencies = self.dependencies != DependenciesBefore::default();
        JobBefore {
            job: job.id,
            at,
            attempt: life.attempt,
            had_started: life.open_run().is_some_and(Run::has_script)
                || life.state.is_under_way()
                || job.has_begun(),
            is_dependent: self.is_dependent,
            held: after_holds.without(life.holds),
            released: life.holds.without(after_holds),
            waiting: elements.map_or(Vec::new(), |elements| elements.waiting().iter().collect()),
            alteration: after
                .filter(|_| kind == UndoKind::Alter)
                .and_then(|after| self.alteration(&after)),
            dependencies: has_dependencies.then(|| Box::new(self.dependencies)),
        }
    }

    fn alteration(&self, after: &Job) -> Option<Box<AlterationBefore>> {
        let (job, life) = (&self.job, &self.job.life);
        let is_recounted = life.run_count != after.life.run_count;
        let altered_comment = life.comment != after.life.comment;
        Some(Box::new(AlterationBefore {
            spec: job.spec.clone(),
            after: after.spec.revision().ok()?,
            run_count: is_recounted.then_some(life.run_count),
            altered_comment,
            comment: life.comment.clone().filter(|_| altered_comment),
            added_dependencies: self.added_dependencies,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fixture::cluster;

    fn owner(uid: u32) -> Owner {
        Owner {
            user: format!("user{uid}"),
            uid,
            gid: 1,
        }
    }

    /// A user deletes a job with a command on this connection.
    fn delete(log: &mut UndoLog, uid: u32, connection: u64, numbers: &[u64]) -> Option<usize> {
        log.set_connection(connection);
        log.start(UndoKind::Cancel);
        let graph = DependencyGraph::default();
        for &number in numbers {
            let job = Arc::new(cluster("1 x ncpus=1").job(number, "select=1:ncpus=1"));
            log.note(&job, &graph, None);
        }
        match log.finish(&owner(uid), Time(5), |_| None) {
            Some(Update::UserAction(_, Some(_), first)) => Some(first),
            _ => None,
        }
    }

    fn jobs(log: &UndoLog, uid: u32) -> Vec<u64> {
        let action = log.last(&owner(uid), Time(6));
        let jobs = action.map_or(Vec::new(), |action| action.jobs.clone());
        jobs.iter().map(|before| before.job.number).collect()
    }

    #[test]
    fn requests_on_one_connection_are_one_action() {
        let mut log = UndoLog::default();
        assert_eq!(delete(&mut log, 1, 7, &[1, 2]), Some(0));
        assert_eq!(delete(&mut log, 1, 7, &[3]), Some(2));
        assert_eq!(delete(&mut log, 2, 7, &[4]), Some(0));
        assert_eq!((jobs(&log, 1), jobs(&log, 2)), (vec![1, 2, 3], vec![4]));
        assert_eq!(delete(&mut log, 1, 8, &[5]), Some(0));
        assert_eq!(jobs(&log, 1), [5]);
        assert_eq!(delete(&mut log, 1, 9, &[]), None);
        assert_eq!(jobs(&log, 1), [5], "a refused request is no action");
    }

    #[test]
    fn a_rolled_back_transaction_keeps_the_earlier_action() {
        let mut log = UndoLog::default();
        delete(&mut log, 1, 7, &[1]);
        log.settle();
        delete(&mut log, 1, 7, &[2]);
        delete(&mut log, 2, 8, &[3]);
        log.roll_back();
        assert_eq!((jobs(&log, 1), jobs(&log, 2)), (vec![1], vec![]));
        log.forget(1);
        log.roll_back();
        assert_eq!(jobs(&log, 1), [1]);
    }

    #[test]
    fn actions_expire_and_belong_to_an_account() {
        let mut log = UndoLog::default();
        delete(&mut log, 1, 7, &[1]);
        let renamed = Owner {
            user: "other".into(),
            ..owner(1)
        };
        assert!(log.last(&renamed, Time(6)).is_none());
        let later = Time(6) + crate::model::job::undo::UNDO_PERIOD;
        assert!(log.last(&owner(1), later).is_none());
        assert_eq!(log.forget_expired(Time(6)).len(), 0);
        assert_eq!(log.forget_expired(later).len(), 1);
    }

    #[test]
    fn the_number_of_recorded_jobs_is_limited() {
        let mut log = UndoLog::default();
        let numbers: Vec<u64> = (1..=MOST_JOBS as u64 - 1).collect();
        delete(&mut log, 1, 7, &numbers);
        delete(&mut log, 1, 7, &[20_001, 20_002, 20_003]);
        let action = log.last(&owner(1), Time(6)).unwrap();
        assert_eq!((action.jobs.len(), action.unrecorded), (MOST_JOBS, 2));
    }
}
