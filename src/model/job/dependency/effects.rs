//! What ties jobs to one another does to them, wherever they are kept.
//!
//! Whoever keeps jobs notes every turn of a tied one ([`DependencyGraph::observe`]); [`pass_on`]
//! judges its dependents, and theirs in turn, one after another from a list: a chain of any length
//! falls at once, in linear time. A job without dependencies costs a look into an index.

use super::graph::{DependencyGraph, TieEvent};
use super::label::Mark;
use super::progress::{DependencyProgress, DependencyVerdict, fate, judge};
use super::{Awaited, Bars, DependencyCondition, DependencyKind, Edge, Tie};
use crate::model::job::Job;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;

/// Where tied jobs are kept.
pub trait Tied {
    /// A job that is not over, or is over since a moment ago.
    fn job(&self, id: JobId) -> Option<&Job>;
    /// What ties them.
    fn dependencies(&self) -> &DependencyGraph;
    /// The same, to be changed.
    fn dependencies_mut(&mut self) -> &mut DependencyGraph;
    /// Takes note of what happened to a job alone.
    fn note(&mut self, id: JobId, event: Event);
    /// A tie stands otherwise than before.
    fn keep(&mut self, tie: Tie, state: TieState);
    /// The name after the dot of every job id.
    fn server(&self) -> &str;
}

/// How a tie stands; the numbers are the spool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieState {
    /// Not decided: it bars the job, or ended it.
    Open = 0,
    /// Met.
    Met = 1,
    /// The job was released from it, though it is not met.
    Lifted = 2,
}

/// What a granted wish comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDependencies {
    /// `on`: how many jobs are to name this one.
    pub on: u32,
    /// What is waited for and not decided yet.
    pub conditions: Vec<(JobId, DependencyCondition)>,
    /// Jobs that are to wait for this one.
    pub before: Vec<(JobId, DependencyCondition)>,
    /// Members of the `runone` sets joined.
    pub mates: Vec<JobId>,
    /// The member of its set that has begun.
    pub rival: Option<JobId>,
    /// What is waited for by label, and not decided yet.
    pub labels: Vec<Awaited>,
}

impl JobDependencies {
    /// What they bar a new job by.
    pub fn bars(&self) -> Bars {
        Bars {
            unmet: (self.conditions.len() + self.labels.len()) as u32,
            on: self.on,
            rival: self.rival,
            broken: false,
        }
    }
}

/// Passes on all that has been noted, until nothing more follows from it.
pub fn pass_on(jobs: &mut impl Tied) {
    while let Some((id, turn)) = jobs.dependencies_mut().next_turn() {
        match turn {
            TieEvent::Began => began(jobs, id),
            TieEvent::Returned => each_rival(jobs, id, |job| Event::RivalReturned { job }),
            TieEvent::Ended => over(jobs, id),
        }
    }
}

fn began(jobs: &mut impl Tied, id: JobId) {
    for (dependent, condition) in jobs.dependencies().dependents(id) {
        if condition == DependencyCondition::Begun {
            meet(jobs, dependent, condition, id);
        }
    }
    each_rival(jobs, id, |job| Event::RivalBegan { job });
    answer_label(jobs, id);
}

/// Lets those go on that wait for the label of a job that has come so far.
fn answer_label(jobs: &mut impl Tied, id: JobId) {
    let Some(job) = jobs.job(id) else { return };
    let progress = DependencyProgress::of(job);
    for (waiting, condition) in jobs.dependencies().awaiting(job) {
        if is_live(jobs, waiting) && judge(condition, progress) == DependencyVerdict::Met {
            jobs.dependencies_mut().stirred = true;
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

fn label_of(jobs: &impl Tied, id: JobId) -> String {
    let mark = jobs.job(id).and_then(Mark::carried_by);
    mark.map_or(String::new(), |mark| mark.label().to_string())
}

fn each_rival(jobs: &mut impl Tied, id: JobId, event: fn(JobId) -> Event) {
    for rival in jobs.dependencies().rivals(id) {
        jobs.dependencies_mut().stirred = true;
        jobs.note(rival, event(id));
    }
}

fn over(jobs: &mut impl Tied, id: JobId) {
    let Some(job) = jobs.job(id).cloned() else {
        return;
    };
    let progress = DependencyProgress::of(&job);
    for (dependent, condition) in jobs.dependencies().dependents(id) {
        match judge(condition, progress) {
            DependencyVerdict::Met => meet(jobs, dependent, condition, id),
            DependencyVerdict::Impossible => {
                let edge = Edge {
                    kind: DependencyKind::After(condition),
                    job: id,
                };
                break_off(jobs, dependent, edge, &fate(&job.life));
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
            break_off(jobs, rival, edge, "and that one has run");
        }
    } else if job.life.bars.rival.is_none()
        && let Some(tie) = jobs.dependencies().membership(id)
    {
        // One of the other members of the set will run.
        jobs.keep(tie, TieState::Met);
    }
    jobs.dependencies_mut().forget(id);
    answer_label(jobs, id);
}

/// Lets a job go on from a condition that is met.
fn meet(jobs: &mut impl Tied, job: JobId, condition: DependencyCondition, other: JobId) {
    let edge = Edge {
        kind: DependencyKind::After(condition),
        job: other,
    };
    let tie = Tie { job, edge };
    if is_live(jobs, job) && jobs.dependencies_mut().remove(tie) {
        jobs.dependencies_mut().stirred = true;
        jobs.keep(tie, TieState::Met);
        jobs.note(job, Event::DependencyMet { edge });
    }
}

fn break_off(jobs: &mut impl Tied, job: JobId, edge: Edge, how: &str) {
    let other = edge.job.full(jobs.server());
    let why = format!(
        "Job deleted as result of dependency on job {other}: {}, {how}",
        edge.kind.name()
    );
    if is_live(jobs, job) {
        jobs.note(job, Event::DependencyBroken { edge, why });
    }
}

/// A job may have been ended a moment ago, by another of its bonds.
fn is_live(jobs: &impl Tied, id: JobId) -> bool {
    jobs.job(id)
        .is_some_and(|job| job.life.state != JobState::Finished)
}

/// Sets up what was granted. A new job has its bars already; one that was altered gets them now.
pub fn bind(jobs: &mut impl Tied, id: JobId, dependencies: &JobDependencies, altered: bool) {
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
            judge_at_once(jobs, other, condition, id);
        }
    }
    if altered {
        let Bars {
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
    join(jobs, id, &dependencies.mates);
    if let Some(rival) = dependencies.rival {
        confront(jobs, rival);
    }
}

/// A job that was put back into its queue has begun already.
fn judge_at_once(jobs: &mut impl Tied, waiting: JobId, condition: DependencyCondition, id: JobId) {
    let progress = jobs.job(id).map(DependencyProgress::of);
    if progress.is_some_and(|progress| judge(condition, progress) == DependencyVerdict::Met) {
        meet(jobs, waiting, condition, id);
    }
}

/// False if the bond was there.
fn add(jobs: &mut impl Tied, job: JobId, edge: Edge) -> bool {
    let tie = Tie { job, edge };
    let new = jobs.dependencies_mut().add(tie);
    if new {
        jobs.keep(tie, TieState::Open);
    }
    new
}

/// Those who have come into one set with a job that has begun wait for its end.
fn confront(jobs: &mut impl Tied, rival: JobId) {
    for member in jobs.dependencies().rivals(rival) {
        if jobs
            .job(member)
            .is_some_and(|job| job.life.bars.rival.is_none())
        {
            happen(jobs, member, Event::RivalBegan { job: rival });
        }
    }
}

/// Makes one `runone` set of a job and its mates, and of the sets they are in.
fn join(jobs: &mut impl Tied, id: JobId, mates: &[JobId]) {
    let Some(&first) = mates.first() else { return };
    let set = jobs
        .dependencies()
        .membership(first)
        .map_or(first, |tie| tie.edge.job);
    for &one in mates.iter().chain([&id]) {
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

fn happen(jobs: &mut impl Tied, id: JobId, event: Event) {
    jobs.note(id, event);
    pass_on(jobs);
}
