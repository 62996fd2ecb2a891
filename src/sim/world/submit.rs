//! Submission, as schedd does it, to the world's own queues.

use super::{Fate, World};
use crate::model::attribute::{self, Origin, Rights, Setting};
use crate::model::job::dependency::effects::{self, Bonds};
use crate::model::job::dependency::label::circle::{self, Newcomer};
use crate::model::job::dependency::label::{Awaited, Mark};
use crate::model::job::dependency::{Kind, Progress, Verdict, Wish, fate, judge};
use crate::model::job::event::Event;
use crate::model::job::state::State;
use crate::model::job::{Digest, Job, Life, Owner, Program, Spec};
use crate::model::job_id::JobId;
use crate::model::queue::counters::Comer;
use crate::model::refusal::Refusal;
use crate::model::text::Text;
use std::sync::Arc;

/// What somebody submits.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The number it is to have.
    pub number: u64,
    /// Whose it is.
    pub owner: Owner,
    /// What `qsub` was told.
    pub settings: Vec<Setting>,
    /// What it will do.
    pub fate: Fate,
}

impl World {
    /// Takes in a job, or an array, or refuses it as schedd would.
    pub fn submit(&mut self, submission: Submission) -> Result<JobId, Refusal> {
        let Submission {
            number,
            owner,
            settings,
            fate,
        } = submission;
        let is_member = |group: &str| self.is_member(&owner, group);
        let rights = Rights {
            privileged: self.is_privileged(&owner.user),
            running: false,
        };
        let mut draft = attribute::submit(
            &settings,
            origin(),
            &self.context(&owner, rights, &is_member),
        )?;
        let mut bonds = self.grant(&draft.depend)?;
        bonds.labels = self.awaited(None, (&owner, &draft.spec), &draft.depend);
        self.no_circle(None, (&owner, &draft.spec), &bonds)?;
        let is_held = !draft.holds.is_none() || !bonds.bars().are_open();
        let is_early = draft
            .spec
            .begin
            .is_some_and(|begin| begin > super::wall(self.now));
        let standing = if is_held {
            State::Held
        } else if is_early {
            State::Waiting
        } else {
            State::Queued
        };
        self.assign_account(&owner, &mut draft.spec);
        let entered = self.enter(Comer::New(standing), &owner, &draft.spec, standing)?;
        draft.spec = entered.spec;
        draft.notes.extend(entered.notes);
        let most = self.config.server.max_array_size;
        let count = draft.spec.element_count();
        if count.is_some_and(|count| most.is_some_and(|most| count > most)) {
            return Err(Refusal::array_too_large());
        }
        let elements = draft.spec.elements().map(Arc::new);
        let id = if elements.is_some() {
            JobId::array(number)
        } else {
            JobId::job(number)
        };
        let mut life = Life::new(draft.holds, draft.run_count, self.now);
        let spec = Arc::new(draft.spec);
        let new = Job {
            id,
            owner: owner.clone(),
            spec: spec.clone(),
            life: life.clone(),
            elements: None,
        };
        self.refuse_impossible(&new)?;
        life.comment = draft.comment;
        life.bars = bonds.bars();
        life.awaits = bonds.labels.clone();
        draft
            .eligible_time
            .into_iter()
            .for_each(|time| life.eligibility.set(time, self.now));
        self.notes.insert(id, draft.notes);
        self.fates.insert(number, fate);
        self.jobs.insert(
            id,
            Job {
                id,
                owner,
                spec,
                life,
                elements,
            },
        );
        self.happen(id, Event::Submitted);
        effects::bind(self, id, &bonds, false);
        Ok(id)
    }

    /// Those labels that are still to be waited for: by the job of that label that was submitted
    /// last, if there is one, that is decided at once (Q29).
    pub(super) fn awaited(
        &self,
        before: Option<&Job>,
        (owner, spec): (&Owner, &Spec),
        wish: &Wish,
    ) -> Vec<Awaited> {
        let is_met = |awaited: &Awaited| {
            let mark = Mark::new(owner.uid, spec.process_group.as_deref(), &awaited.label);
            let carries = |job: &&Job| Mark::carried_by(job).as_ref() == Some(&mark);
            let others = self
                .jobs
                .values()
                .rev()
                .filter(|job| before.is_none_or(|before| before.id != job.id));
            let last = others.filter(carries).max_by_key(|job| job.id);
            last.is_some_and(|job| judge(awaited.condition, Progress::of(job)) == Verdict::Met)
        };
        let is_new =
            |awaited: &&Awaited| before.is_none_or(|job| !job.life.awaits.contains(awaited));
        wish.labels
            .iter()
            .filter(is_new)
            .filter(|awaited| !is_met(awaited))
            .cloned()
            .collect()
    }

    /// Refuses what would have jobs wait for one another's labels for ever.
    pub(super) fn no_circle(
        &self,
        before: Option<&Job>,
        whose: (&Owner, &Spec),
        bonds: &Bonds,
    ) -> Result<(), Refusal> {
        let new = Newcomer::of(&self.ties, before, whose, bonds);
        let Some(trail) = circle::find(&self.ties, &new) else {
            return Ok(());
        };
        let this = before.map_or("this job".to_string(), |job| job.id.full("sim"));
        let circle = circle::spelt(&trail, &this, "sim");
        Err(Refusal::dependency(&format!(
            "jobs would wait in a circle: {circle}"
        )))
    }

    /// Judges a wish for dependencies: conditions met already are left out.
    pub(super) fn grant(&self, wish: &Wish) -> Result<Bonds, Refusal> {
        let mut bonds = Bonds {
            on: wish.on,
            ..Bonds::default()
        };
        for edge in &wish.edges {
            let full = edge.job.full("sim");
            let other = self
                .jobs
                .get(&edge.job)
                .ok_or_else(|| Refusal::no_such_job(&full))?;
            match edge.kind {
                Kind::After(condition) => match judge(condition, Progress::of(other)) {
                    Verdict::Met => {}
                    Verdict::Pending => bonds.conditions.push((edge.job, condition)),
                    Verdict::Impossible => {
                        let which = format!("{}:{full}, {}", edge.kind.name(), fate(&other.life));
                        return Err(Refusal::unmet_dependency(&which));
                    }
                },
                Kind::Before(condition) => bonds.before.push((edge.job, condition)),
                Kind::RunOne => {
                    bonds.mates.push(edge.job);
                    let runs = other.life.state.is_under_way() || other.has_begun();
                    bonds.rival = bonds.rival.or(if runs {
                        Some(edge.job)
                    } else {
                        other.life.bars.rival
                    });
                }
            }
        }
        Ok(bonds)
    }
}

/// Nothing of this matters where nothing really runs.
fn origin() -> Origin {
    Origin {
        program: Program::Script(Digest([0; 32])),
        environ: Digest([0; 32]),
        workdir: Text::from("/"),
        submit_host: "sim".to_string(),
        arguments: Text::default(),
    }
}
