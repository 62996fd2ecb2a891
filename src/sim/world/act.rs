//! What people and machines do to the world, beside submitting jobs.

use super::World;
use crate::config::Config;
use crate::model::admission::elsewhere;
use crate::model::attribute::{self, Draft, Rights, Setting};
use crate::model::job::array::Indices;
use crate::model::job::dependency::effects;
use crate::model::job::event::Event;
use crate::model::job::retry::Again;
use crate::model::job::state::{Holds, State};
use crate::model::job::suspension::Turn;
use crate::model::job::{Job, Spec};
use crate::model::job_id::JobId;
use crate::model::queue::counters::Comer;
use crate::model::refusal::Refusal;
use crate::model::reservation::request::Reserving;
use crate::model::trigger::Trigger;
use crate::sched::cycle::forced;
use crate::sched::view::change::is_candidate;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

/// Something done.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// `qhold`.
    Hold(JobId, Holds),
    /// `qrls`.
    Release(JobId, Holds),
    /// `qdel`, of a job or of some elements of an array.
    Delete(JobId, Option<Indices>),
    /// `qalter`.
    Alter(JobId, Vec<Setting>),
    /// `qalter --retry`, of a job or of some elements of an array.
    Retry(JobId, Option<Indices>),
    /// `qalter --shove`.
    Shove(JobId),
    /// `qrerun`.
    Rerun(JobId),
    /// `qsig -s suspend` and its kin.
    Turn(JobId, Turn),
    /// `qrun`, on these nodes if any are named.
    Run(JobId, BTreeSet<String>),
    /// `qmove`.
    Move(JobId, String),
    /// `qorder`.
    Swap(JobId, JobId),
    /// A node answers no more.
    NodeDown(String),
    /// It was booted, and answers.
    NodeUp(String),
    /// An operator takes a node out of service, or puts it back for false.
    Offline(String, bool),
    /// A node offers this much of a resource.
    Offer(String, String, String),
    /// So much of a resource of a node is really in use.
    Use(String, String, String),
    /// The load of a node, in thousandths.
    Load(String, u32),
    /// Processes outside the queue use these GPUs of a node.
    UseGpus(String, Vec<u16>),
    /// There is so much of a resource of the whole system, and so much of it used elsewhere.
    Tell(String, String, Option<String>),
    /// `pbs_rsub`.
    Reserve(Box<Reserving>),
    /// `pbs_rdel`.
    Unreserve(String),
    /// The site's program is asked about a job.
    AskProgram(JobId),
    /// It has named these nodes for it, the best first.
    HearProgram(JobId, Vec<String>),
    /// Another `lanai.toml`.
    Configure(Box<Config>),
    /// The scheduler looks.
    Cycle,
}

/// Who does it.
const OPERATOR: &str = "operator@sim";

impl World {
    /// Does something as an operator, or says why it was refused.
    pub fn act(&mut self, deed: &Deed) -> Result<(), String> {
        self.act_with(deed, true)
    }

    /// Does what is allowed; `privileged` says whether it is an operator's doing.
    pub(super) fn act_with(&mut self, deed: &Deed, privileged: bool) -> Result<(), String> {
        let by = OPERATOR.to_string();
        let text = |refusal: Refusal| refusal.text;
        match deed {
            Deed::Hold(id, holds) => {
                self.live(*id).map_err(text)?;
                self.happen_to_all(*id, &Event::Held { holds: *holds, by });
            }
            Deed::Release(id, holds) => {
                self.live(*id).map_err(text)?;
                self.happen_to_all(*id, &Event::Released { holds: *holds, by });
            }
            Deed::Delete(id, only) => self.delete(*id, *only).map_err(text)?,
            Deed::Alter(id, settings) => self.alter(*id, settings, privileged).map_err(text)?,
            Deed::Retry(id, only) => self.retry(*id, *only).map_err(text)?,
            Deed::Shove(id) => self.shove(*id).map_err(text)?,
            Deed::Rerun(id) => self.rerun(*id).map_err(text)?,
            Deed::Turn(id, turn) => self.turn(*id, *turn).map_err(text)?,
            Deed::Run(id, on) => self.run_now(*id, on)?,
            Deed::Move(id, queue) => self.put(*id, queue, privileged).map_err(text)?,
            Deed::Swap(one, other) => self.swap(*one, *other, privileged).map_err(text)?,
            Deed::NodeDown(name) => self.lose_node(name)?,
            Deed::NodeUp(name) => self.regain_node(name)?,
            Deed::Offline(name, offline) => self.mark_offline(name, *offline)?,
            Deed::Offer(name, resource, text) => self.offer(name, resource, text)?,
            Deed::Use(name, resource, text) => self.note_use(name, resource, text)?,
            Deed::Load(name, load) => self.change_facts(name, |facts| facts.load = *load)?,
            Deed::UseGpus(name, gpus) => self.use_gpus_outside(name, gpus.clone())?,
            Deed::Tell(name, total, used) => self.tell(name, total, used.as_deref())?,
            Deed::Reserve(asked) => self.reserve(asked)?,
            Deed::Unreserve(id) => self.unreserve(id)?,
            Deed::AskProgram(id) => self.ask_program(*id)?,
            Deed::HearProgram(id, nodes) => self.hear_program(*id, nodes)?,
            Deed::Configure(config) => self.configure(Config::clone(config)),
            Deed::Cycle => self.want_cycle(Trigger::Asked),
        }
        Ok(())
    }

    fn live(&self, id: JobId) -> Result<&Job, Refusal> {
        let known = self.jobs.get(&id).ok_or_else(Refusal::unknown_job)?;
        if known.life.state == State::Finished {
            Err(Refusal::finished())
        } else {
            Ok(known)
        }
    }

    fn delete(&mut self, id: JobId, only: Option<Indices>) -> Result<(), Refusal> {
        let by = OPERATOR.to_string();
        match only.or(id.index().map(Indices::one)) {
            None => {
                self.live(id)?;
                self.happen_to_all(id, &Event::DeleteWanted { by, force: false });
            }
            Some(only) => self.delete_elements(id.parent().unwrap_or(id), only)?,
        }
        self.end_unwanted(id.parent().unwrap_or(id));
        Ok(())
    }

    fn delete_elements(&mut self, array: JobId, only: Indices) -> Result<(), Refusal> {
        let indices = self
            .live(array)?
            .indices()
            .ok_or_else(Refusal::unknown_job)?;
        for element in self.begun(array) {
            if element
                .index()
                .is_some_and(|index| only.position(index).is_some())
            {
                self.happen(
                    element,
                    Event::DeleteWanted {
                        by: OPERATOR.to_string(),
                        force: false,
                    },
                );
            }
        }
        self.change_array(array, |job, moment| {
            for position in only.iter().filter_map(|index| indices.position(index)) {
                job.end_waiting(position, position, moment);
            }
        });
        effects::pass_on(self);
        Ok(())
    }

    fn alter(&mut self, id: JobId, settings: &[Setting], privileged: bool) -> Result<(), Refusal> {
        let job = self.live(id)?.clone();
        let is_member = |group: &str| self.is_member(&job.owner, group);
        let rights = Rights {
            privileged,
            running: job.life.state.is_under_way(),
        };
        let context = self.context(&job.owner, rights, &is_member);
        let mut after = attribute::alter(&Draft::of(&job), settings, &context)?;
        let above = self.fit_again(&job, &mut after.spec)?;
        after.notes.extend(above);
        let mut bonds = self.grant(&after.depend)?;
        bonds.labels = self.awaited(Some(&job), (&job.owner, &after.spec), &after.depend);
        self.no_circle(Some(&job), (&job.owner, &after.spec), &bonds)?;
        self.notes.insert(id, after.notes);
        let now = self.now;
        if let Some(job) = self.jobs.get_mut(&id) {
            after
                .eligible_time
                .into_iter()
                .for_each(|time| job.life.eligibility.set(time, now));
            job.spec = Arc::new(after.spec);
            (job.life.holds, job.life.run_count, job.life.comment) =
                (after.holds, after.run_count, after.comment);
        }
        let attributes = settings
            .iter()
            .map(|setting| setting.attribute.clone())
            .collect();
        self.happen(
            id,
            Event::Altered {
                by: OPERATOR.to_string(),
                attributes,
            },
        );
        if !after.depend.is_empty() {
            effects::bind(self, id, &bonds, true);
        }
        Ok(())
    }

    fn retry(&mut self, id: JobId, only: Option<Indices>) -> Result<(), Refusal> {
        let (only, id) = (
            only.or(id.index().map(Indices::one)),
            id.parent().unwrap_or(id),
        );
        let job = self.jobs.get(&id).ok_or_else(Refusal::unknown_job)?;
        if !job.can_run_again(Again::Unsuccessful(only)) {
            return Err(Refusal::bad_state());
        }
        let highest = job.life.highest;
        self.happen(
            id,
            Event::Retried {
                by: OPERATOR.to_string(),
                only,
                highest,
            },
        );
        Ok(())
    }

    fn shove(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.live(id)?;
        if !is_candidate(job) {
            return Err(Refusal::bad_state());
        }
        let is_put_off = |id: &JobId| {
            self.jobs
                .get(id)
                .is_some_and(|job| job.life.not_before.is_some())
        };
        let put_off: Vec<JobId> = job
            .elements_begun()
            .into_iter()
            .filter(is_put_off)
            .collect();
        let by = || OPERATOR.to_string();
        iter::once(id)
            .chain(put_off)
            .for_each(|id| self.happen(id, Event::Shoved { by: by() }));
        Ok(())
    }

    fn rerun(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.live(id)?;
        if job.life.open_run().is_none() {
            return Err(Refusal::bad_state());
        }
        if !job.spec.rerunnable {
            return Err(Refusal::not_rerunnable());
        }
        self.happen(
            id,
            Event::RerunWanted {
                by: OPERATOR.to_string(),
            },
        );
        self.end_unwanted(id);
        Ok(())
    }

    /// Of an array, its elements that it suits.
    fn turn(&mut self, id: JobId, turn: Turn) -> Result<(), Refusal> {
        let ids = if self.live(id)?.id.is_array() {
            self.begun(id)
        } else {
            vec![id]
        };
        let of = |id: &JobId| {
            Some((
                *id,
                turn.of(self.jobs.get(id)?, OPERATOR, &self.config.releases.0),
            ))
        };
        let turned: Vec<_> = ids.iter().filter_map(of).collect();
        if turned.iter().all(|(_, events)| events.is_err()) {
            return Err(turned
                .into_iter()
                .find_map(|(_, events)| events.err())
                .unwrap_or_else(Refusal::bad_state));
        }
        for (id, events) in turned
            .into_iter()
            .filter_map(|(id, events)| Some((id, events.ok()?)))
        {
            events.into_iter().for_each(|event| self.happen(id, event));
            self.come_to_rest(id);
        }
        Ok(())
    }

    fn run_now(&mut self, id: JobId, on: &BTreeSet<String>) -> Result<(), String> {
        let job = self.unstarted(id).map_err(|refusal| refusal.text)?.clone();
        let on = Some(on).filter(|names| !names.is_empty());
        let start = forced::start(&self.state, &self.policy, &job, on, self.now)
            .map_err(|reason| reason.to_string())?;
        self.happen(
            id,
            Event::RunWanted {
                by: OPERATOR.to_string(),
            },
        );
        let score = self.state.score(&self.policy, job.id);
        self.begin(&start, job.life.attempt + 1, score);
        Ok(())
    }

    fn put(&mut self, id: JobId, queue: &str, privileged: bool) -> Result<(), Refusal> {
        let job = self.unstarted(id)?.clone();
        self.keep_quality(&job, queue, privileged)?;
        let spec = elsewhere(&job.spec, queue);
        let entered = self.enter(Comer::Known(id), &job.owner, &spec, job.life.state)?;
        self.notes.insert(id, entered.notes);
        self.put_into(id, entered.spec, OPERATOR.to_string());
        Ok(())
    }

    fn swap(&mut self, one: JobId, other: JobId, privileged: bool) -> Result<(), Refusal> {
        let (first, second) = (self.unstarted(one)?.clone(), self.unstarted(other)?.clone());
        let of_one = self.in_place_of(&first, &second, privileged)?;
        let of_other = self.in_place_of(&second, &first, privileged)?;
        for (id, place, spec) in [(one, &second, of_one), (other, &first, of_other)] {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.life.rank = Some(place.own_rank());
                job.spec = Arc::new(spec);
            }
            self.happen(
                id,
                Event::Reordered {
                    by: OPERATOR.to_string(),
                    with: place.id,
                },
            );
        }
        Ok(())
    }

    /// What a job comes to in the queue of another, which leaves it.
    fn in_place_of(&self, job: &Job, other: &Job, privileged: bool) -> Result<Spec, Refusal> {
        let queue = &other.spec.queue;
        if job.spec.queue == *queue {
            return Ok(Spec::clone(&job.spec));
        }
        self.keep_quality(job, queue, privileged)?;
        let comer = Comer::InPlaceOf {
            own: job.id,
            other: other.id,
        };
        Ok(self
            .enter(
                comer,
                &job.owner,
                &elsewhere(&job.spec, queue),
                job.life.state,
            )?
            .spec)
    }

    fn unstarted(&self, id: JobId) -> Result<&Job, Refusal> {
        let job = self.live(id)?;
        let waits = matches!(job.life.state, State::Queued | State::Held | State::Waiting);
        if waits && !job.has_begun() {
            Ok(job)
        } else {
            Err(Refusal::bad_state())
        }
    }
}
