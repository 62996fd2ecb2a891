//! Effects of job events on dependent jobs. The server implements [`JobStore`], on which these
//! functions work.
//!
//! The store reports each state change of a job to [`DependencyGraph::observe`]. If the job has
//! dependencies, or other jobs depend on it, its start, requeue or end is added to a list of
//! changes. [`pass_on`] then evaluates the dependent jobs, and adds their own changes to the list.
//! A chain of any length therefore takes linear time.

use super::graph::{DependencyEvent, DependencyGraph};
use super::label::Mark;
use super::progress::{DependencyProgress, DependencyVerdict, fate, judge};
use super::{Awaited, DependencyCondition, DependencyKind, Edge, Tie, UnmetDependencies};
use crate::model::job::Job;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;

/// Store of jobs with dependencies.
pub trait JobStore {
    /// Returns an unfinished or just finished job.
    fn job(&self, id: JobId) -> Option<&Job>;
    /// Returns the dependency graph.
    fn dependencies(&self) -> &DependencyGraph;
    /// Returns a mutable reference to the dependency graph.
    fn dependencies_mut(&mut self) -> &mut DependencyGraph;
    /// Applies an event to one job.
    fn note(&mut self, id: JobId, event: Event);
    /// Stores the new state of a dependency.
    fn keep(&mut self, tie: Tie, state: TieState);
    /// Returns the server name, which follows the dot in full job ids.
    fn server(&self) -> &str;
}

/// State of a dependency. The numbers are stored in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieState {
    /// The condition is undecided, or the job ended because the condition cannot be satisfied.
    Open = 0,
    /// The condition is satisfied. For `runone`: the job is no longer a member of the set.
    Met = 1,
    /// The dependency was removed although its condition is not satisfied.
    Lifted = 2,
}

/// Accepted dependencies of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDependencies {
    /// `on`: number of jobs that must name this job in a `before...` dependency.
    pub on: u32,
    /// Undecided conditions on other jobs.
    pub conditions: Vec<(JobId, DependencyCondition)>,
    /// Jobs that will wait for this job, with their conditions.
    pub before: Vec<(JobId, DependencyCondition)>,
    /// Jobs named in `runone` dependencies. The job joins their sets.
    pub runone_jobs: Vec<JobId>,
    /// Member of the `runone` set that has started.
    pub rival: Option<JobId>,
    /// Undecided conditions on labels.
    pub labels: Vec<Awaited>,
}

impl JobDependencies {
    /// Counts these dependencies, none of which is satisfied yet.
    pub fn bars(&self) -> UnmetDependencies {
        UnmetDependencies {
            unmet: (self.conditions.len() + self.labels.len()) as u32,
            on: self.on,
            rival: self.rival,
            broken: false,
        }
    }
}

/// Applies the effects of all queued changes to dependent jobs, until the queue is empty.
pub fn pass_on(jobs: &mut impl JobStore) {
    while let Some((id, change)) = jobs.dependencies_mut().next_change() {
        match change {
            DependencyEvent::Began => apply_start(jobs, id),
            DependencyEvent::Returned => each_rival(jobs, id, |job| Event::RivalReturned { job }),
            DependencyEvent::Ended => apply_end(jobs, id),
        }
    }
}

fn apply_start(jobs: &mut impl JobStore, id: JobId) {
    for (dependent, condition) in jobs.dependencies().dependents(id) {
        if condition == DependencyCondition::Begun {
            satisfy(jobs, dependent, condition, id);
        }
    }
    each_rival(jobs, id, |job| Event::RivalBegan { job });
    release_label_waiters(jobs, id);
}

/// Marks conditions on the label of the job `id` as satisfied if this job meets them now.
fn release_label_waiters(jobs: &mut impl JobStore, id: JobId) {
    let Some(job) = jobs.job(id) else { return };
    let progress = DependencyProgress::of(job);
    for (waiting, condition) in jobs.dependencies().awaiting(job) {
        if is_live(jobs, waiting) && judge(condition, progress) == DependencyVerdict::Met {
            jobs.dependencies_mut().has_affected_jobs = true;
            jobs.note(
                waiting,
                Event::LabelMet {
                    condition,
                    by: id,
                    label: label_of(jobs, id),
                },
            );
        }
    }
}

fn label_of(jobs: &impl JobStore, id: JobId) -> String {
    let mark = jobs.job(id).and_then(Mark::carried_by);
    mark.map_or(String::new(), |mark| mark.label().to_string())
}

fn each_rival(jobs: &mut impl JobStore, id: JobId, event: fn(JobId) -> Event) {
    for rival in jobs.dependencies().rivals(id) {
        jobs.dependencies_mut().has_affected_jobs = true;
        jobs.note(rival, event(id));
    }
}

fn apply_end(jobs: &mut impl JobStore, id: JobId) {
    let Some(job) = jobs.job(id).cloned() else {
        return;
    };
    let progress = DependencyProgress::of(&job);
    for (dependent, condition) in jobs.dependencies().dependents(id) {
        match judge(condition, progress) {
            DependencyVerdict::Met => satisfy(jobs, dependent, condition, id),
            DependencyVerdict::Impossible => {
                let edge = Edge {
                    kind: DependencyKind::After(condition),
                    job: id,
                };
                fail_dependency(jobs, dependent, edge, &fate(&job.life));
            }
            DependencyVerdict::Pending => {}
        }
    }
    if matches!(progress, DependencyProgress::Ended { began: true, .. }) {
        let edge = Edge {
            kind: DependencyKind::RunOne,
            job: id,
        };
        for rival in jobs.dependencies().rivals(id) {
            fail_dependency(jobs, rival, edge, "and that job has run");
        }
    } else if job.life.bars.rival.is_none()
        && let Some(tie) = jobs.dependencies().membership(id)
    {
        // Neither this job nor another member of its `runone` set has started. Another member can
        // still run.
        jobs.keep(tie, TieState::Met);
    }
    jobs.dependencies_mut().forget(id);
    release_label_waiters(jobs, id);
}

/// Marks the condition of `job` on the job `other` as satisfied.
fn satisfy(jobs: &mut impl JobStore, job: JobId, condition: DependencyCondition, other: JobId) {
    let edge = Edge {
        kind: DependencyKind::After(condition),
        job: other,
    };
    let tie = Tie { job, edge };
    if is_live(jobs, job) && jobs.dependencies_mut().remove(tie) {
        jobs.dependencies_mut().has_affected_jobs = true;
        jobs.keep(tie, TieState::Met);
        jobs.note(job, Event::DependencyMet { edge });
    }
}

fn fail_dependency(jobs: &mut impl JobStore, job: JobId, edge: Edge, how: &str) {
    let other = edge.job.full(jobs.server());
    let why = format!(
        "Job deleted as result of dependency on job {other}: {}, {how}",
        edge.kind.name()
    );
    if is_live(jobs, job) {
        jobs.note(job, Event::DependencyBroken { edge, why });
    }
}

/// Tests whether a job is unfinished. Another dependency may have just ended the job.
fn is_live(jobs: &impl JobStore, id: JobId) -> bool {
    jobs.job(id)
        .is_some_and(|job| job.life.state != JobState::Finished)
}

/// Adds the accepted dependencies of a job. A new job already counts them in `bars`; an altered job
/// (`altered`) gets an event that counts them.
pub fn bind(jobs: &mut impl JobStore, id: JobId, dependencies: &JobDependencies, altered: bool) {
    for &(other, condition) in &dependencies.conditions {
        add(
            jobs,
            id,
            Edge {
                kind: DependencyKind::After(condition),
                job: other,
            },
        );
    }
    for &(other, condition) in &dependencies.before {
        if add(
            jobs,
            other,
            Edge {
                kind: DependencyKind::After(condition),
                job: id,
            },
        ) {
            happen(jobs, other, Event::Named { by: id, condition });
            satisfy_if_met(jobs, other, condition, id);
        }
    }
    if altered {
        let UnmetDependencies {
            unmet, on, rival, ..
        } = dependencies.bars();
        happen(
            jobs,
            id,
            Event::Bound {
                unmet,
                on,
                rival,
                labels: dependencies.labels.clone(),
            },
        );
    }
    join(jobs, id, &dependencies.runone_jobs);
    if let Some(rival) = dependencies.rival {
        add_started_rival(jobs, rival);
    }
}

/// Marks the condition of the job `waiting` as satisfied at once if the job `id` already meets it.
/// For example, a requeued job has already started.
fn satisfy_if_met(
    jobs: &mut impl JobStore,
    waiting: JobId,
    condition: DependencyCondition,
    id: JobId,
) {
    let progress = jobs.job(id).map(DependencyProgress::of);
    if progress.is_some_and(|progress| judge(condition, progress) == DependencyVerdict::Met) {
        satisfy(jobs, waiting, condition, id);
    }
}

/// Adds a dependency. Returns false if the dependency exists already.
fn add(jobs: &mut impl JobStore, job: JobId, edge: Edge) -> bool {
    let tie = Tie { job, edge };
    let new = jobs.dependencies_mut().add(tie);
    if new {
        jobs.keep(tie, TieState::Open);
    }
    new
}

/// Makes the other members of a `runone` set wait for the member that has started.
fn add_started_rival(jobs: &mut impl JobStore, rival: JobId) {
    for member in jobs.dependencies().rivals(rival) {
        if jobs
            .job(member)
            .is_some_and(|job| job.life.bars.rival.is_none())
        {
            happen(jobs, member, Event::RivalBegan { job: rival });
        }
    }
}

/// Merges a job, the jobs `runone_jobs` and all `runone` sets of these jobs into one set.
fn join(jobs: &mut impl JobStore, id: JobId, runone_jobs: &[JobId]) {
    let Some(&first) = runone_jobs.first() else {
        return;
    };
    let set = jobs
        .dependencies()
        .membership(first)
        .map_or(first, |tie| tie.edge.job);
    for &one in runone_jobs.iter().chain([&id]) {
        let others = match jobs.dependencies().membership(one) {
            Some(tie) if tie.edge.job == set => continue,
            Some(tie) => jobs.dependencies().members(tie.edge.job),
            None => vec![one],
        };
        for member in others {
            if let Some(old) = jobs.dependencies().membership(member) {
                jobs.dependencies_mut().remove(old);
                jobs.keep(old, TieState::Met);
            }
            add(
                jobs,
                member,
                Edge {
                    kind: DependencyKind::RunOne,
                    job: set,
                },
            );
        }
    }
}

fn happen(jobs: &mut impl JobStore, id: JobId, event: Event) {
    jobs.note(id, event);
    pass_on(jobs);
}
