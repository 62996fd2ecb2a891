//! What `-W depend=` asks for, judged against the jobs there are: granted whole or refused.

use super::super::caller::Caller;
use super::super::ledger::Ledger;
use super::cycle;
use crate::model::depend::{Bars, Condition, Edge, Kind, Progress, Tie, Verdict, Wish, fate, judge};
use crate::model::event::Event;
use crate::model::job::{Job, JobId};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::spool::Spool;
use crate::spool::commit::Change;
use crate::spool::ties::Standing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a granted wish comes to.
#[derive(Clone, Debug, Default)]
pub struct Bonds {
    on: u32,
    /// What is waited for and not decided yet.
    conditions: Vec<(JobId, Condition)>,
    /// Jobs that are to wait for this one.
    before: Vec<(JobId, Condition)>,
    /// Members of the `runone` sets joined.
    mates: Vec<JobId>,
    rival: Option<JobId>,
}

impl Bonds {
    /// What they bar a new job by.
    pub fn bars(&self) -> Bars {
        Bars { unmet: self.conditions.len() as u32, on: self.on, rival: self.rival, broken: false }
    }
}

/// Who asks, of what.
pub struct Asked<'a> {
    /// The jobs there are.
    pub ledger: &'a Ledger,
    /// The jobs there were.
    pub spool: &'a Spool,
    /// Whose wish it is.
    pub caller: &'a Caller,
    /// The job to be bound; None for one that has no number yet.
    pub job: Option<JobId>,
}

impl Asked<'_> {
    /// Judges a wish: conditions met already are left out, any that cannot be refuses the whole.
    pub fn grant(&self, wish: &Wish) -> Result<Bonds, Refusal> {
        let mut bonds = Bonds { on: wish.on, ..Bonds::default() };
        let mut room = BTreeMap::new();
        for &edge in &wish.edges {
            if self.job == Some(edge.job) {
                return Err(Refusal::dependency(&format!("{} cannot depend on itself", self.full(edge.job))));
            }
            let job = self.found(edge.job)?;
            match edge.kind {
                Kind::After(condition) => self.condition(&mut bonds, &job, condition)?,
                Kind::Before(condition) => {
                    self.may_precede(&job, room.entry(edge.job).or_insert(job.life.bars.on))?;
                    bonds.before.push((edge.job, condition));
                }
                Kind::RunOne => self.mate(&mut bonds, &job)?,
            }
        }
        self.refuse_circles(&bonds)?;
        Ok(bonds)
    }

    fn full(&self, id: JobId) -> String {
        id.full(&self.ledger.setup.name)
    }

    /// The job, finished or not.
    fn found(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        if let Some(job) = self.ledger.job(id) {
            return Ok(job.clone());
        }
        let unknown = || Refusal::no_such_job(&self.full(id));
        // No number beyond the spool's integers has ever been given.
        i64::try_from(id.number).map_err(|_| unknown())?;
        let past = self.spool.job(id).map_err(Refusal::spool)?;
        past.filter(|job| job.id == id).map(Arc::new).ok_or_else(unknown)
    }

    fn condition(&self, bonds: &mut Bonds, other: &Job, condition: Condition) -> Result<(), Refusal> {
        let edge = Edge { kind: Kind::After(condition), job: other.id };
        match judge(condition, Progress::of(other)) {
            Verdict::Met => {}
            Verdict::Impossible => {
                let which = format!("{}:{}, {}", edge.kind.name(), self.full(other.id), fate(&other.life));
                return Err(Refusal::unmet_dependency(&which));
            }
            Verdict::Pending if self.job.is_some_and(|job| self.ledger.ties.holds(Tie { job, edge })) => {}
            Verdict::Pending => bonds.conditions.push((other.id, condition)),
        }
        Ok(())
    }

    /// Whether `other` may be made to wait for the job; `room` is its free `on` count.
    fn may_precede(&self, other: &Job, room: &mut u32) -> Result<(), Refusal> {
        let no = |why: &str| Err(Refusal::dependency(&format!("{} {why}", self.full(other.id))));
        match other.life.state {
            _ if self.caller.must_own(other).is_err() => no("is another user's job"),
            State::Finished => no("has finished"),
            State::Running => no("runs already"),
            _ if other.has_begun() => no("has begun"),
            _ if *room == 0 => no("waits for no further job: submit it with -W depend=on:COUNT"),
            _ => {
                *room -= 1;
                Ok(())
            }
        }
    }

    /// Joins the set of `other`; one that was deleted before it ran has left it.
    fn mate(&self, bonds: &mut Bonds, other: &Job) -> Result<(), Refusal> {
        if self.caller.must_own(other).is_err() {
            return Err(Refusal::dependency(&format!("{} is another user's job", self.full(other.id))));
        }
        match Progress::of(other) {
            Progress::Ended { began: false, .. } => {}
            Progress::Ended { .. } => {
                let which = format!("runone:{}, {}", self.full(other.id), fate(&other.life));
                return Err(Refusal::unmet_dependency(&which));
            }
            _ => {
                bonds.mates.push(other.id);
                let running = other.life.state == State::Running || other.has_begun();
                let rival = if running { Some(other.id) } else { other.life.bars.rival };
                bonds.rival = bonds.rival.or(rival);
            }
        }
        Ok(())
    }

    fn refuse_circles(&self, bonds: &Bonds) -> Result<(), Refusal> {
        let mut waiting: BTreeSet<JobId> = bonds.before.iter().map(|&(id, _)| id).collect();
        let mut waited_for: Vec<JobId> = bonds.conditions.iter().map(|&(id, _)| id).collect();
        if let Some(job) = self.job {
            waiting.extend(Some(job).filter(|&job| self.ledger.ties.has_dependents(job)));
            waited_for.extend(self.ledger.ties.conditions(job).into_iter().map(|(id, _)| id));
        }
        let this = self.job.map_or("this job".to_string(), |job| self.full(job));
        match cycle::find(&self.ledger.ties, &waited_for, &waiting) {
            Some(mut trail) => {
                trail.pop_if(|last| Some(*last) == self.job);
                let circle = cycle::spelt(&trail, &this, &self.ledger.setup.name);
                Err(Refusal::dependency(&format!("jobs would wait in a circle: {circle}")))
            }
            None => Ok(()),
        }
    }
}

/// Sets up what was granted. A new job has its bars already; one that was altered gets them now.
pub fn bind(ledger: &mut Ledger, id: JobId, bonds: &Bonds, altered: bool) {
    for &(other, condition) in &bonds.conditions {
        add(ledger, id, Edge { kind: Kind::After(condition), job: other });
    }
    for &(other, condition) in &bonds.before {
        if add(ledger, other, Edge { kind: Kind::After(condition), job: id }) {
            ledger.happen(other, Event::Named { by: id, condition });
            judge_at_once(ledger, other, condition, id);
        }
    }
    if altered {
        let Bars { unmet, on, rival, .. } = bonds.bars();
        ledger.happen(id, Event::Bound { unmet, on, rival });
    }
    join(ledger, id, &bonds.mates);
    if let Some(rival) = bonds.rival {
        confront(ledger, rival);
    }
}

/// A job that was put back into its queue has begun already.
fn judge_at_once(ledger: &mut Ledger, waiting: JobId, condition: Condition, id: JobId) {
    let progress = ledger.job(id).map(|job| Progress::of(job));
    if progress.is_some_and(|progress| judge(condition, progress) == Verdict::Met) {
        super::meet(ledger, waiting, condition, id);
    }
}

/// False if the bond was there.
fn add(ledger: &mut Ledger, job: JobId, edge: Edge) -> bool {
    let tie = Tie { job, edge };
    let new = ledger.ties.add(tie);
    if new {
        ledger.also(Change::Tie(tie, Standing::Open));
    }
    new
}

/// Those who have come into one set with a job that has begun wait for its end.
fn confront(ledger: &mut Ledger, rival: JobId) {
    for member in ledger.ties.rivals(rival) {
        if ledger.job(member).is_some_and(|job| job.life.bars.rival.is_none()) {
            ledger.happen(member, Event::RivalBegan { job: rival });
        }
    }
}

/// Makes one `runone` set of a job and its mates, and of the sets they are in.
fn join(ledger: &mut Ledger, id: JobId, mates: &[JobId]) {
    let Some(&first) = mates.first() else { return };
    let set = ledger.ties.membership(first).map_or(first, |tie| tie.edge.job);
    for &one in mates.iter().chain([&id]) {
        let others = match ledger.ties.membership(one) {
            Some(tie) if tie.edge.job == set => continue,
            Some(tie) => ledger.ties.members(tie.edge.job),
            None => vec![one],
        };
        for member in others {
            if let Some(old) = ledger.ties.membership(member) {
                ledger.ties.remove(old);
                ledger.also(Change::Tie(old, Standing::Met));
            }
            add(ledger, member, Edge { kind: Kind::RunOne, job: set });
        }
    }
}
