//! The way into a queue of the world: the same door as schedd's ([`Entrance`]).

use super::World;
use crate::model::account::lineage::Lineages;
use crate::model::admission::{Entered, Entrance, Turn, Visitor};
use crate::model::credentials::Credentials;
use crate::model::job::event::Event;
use crate::model::job::state::State;
use crate::model::job::{Job, Owner, Spec};
use crate::model::job_id::JobId;
use crate::model::limit::Subject;
use crate::model::queue::Queue;
use crate::model::queue::counters::Comer;
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use std::sync::Arc;

impl World {
    /// Lets a job into the queue it names, or on to where that routes it.
    pub(super) fn enter(
        &self,
        comer: Comer,
        owner: &Owner,
        spec: &Spec,
        standing: State,
    ) -> Result<Entered, Refusal> {
        match self.reservation_queue(&spec.queue) {
            Some(queue) if !queue.enabled => Err(Refusal::queue_disabled()),
            Some(_) => {
                let spec = Spec {
                    reservation: Some(spec.queue.clone()),
                    ..spec.clone()
                };
                Ok(Entered {
                    notes: self.leave_for(comer, owner, &spec)?,
                    spec,
                })
            }
            None => self.at_the_door(comer, owner, |entrance| entrance.enter(spec, standing)),
        }
    }

    /// An altered job gets what goes without saying in its queue, and is held against that queue's
    /// bounds and against limits on what is queued.
    pub(super) fn fit_again(&self, before: &Job, after: &mut Spec) -> Result<Vec<String>, Refusal> {
        if before.life.state.is_under_way() {
            return Ok(Vec::new());
        }
        let (comer, owner) = (Comer::Known(before.id), &before.owner);
        let is_as_before = before.spec.request == after.request && before.spec.qos == after.qos;
        if let Some(queue) = self.queue(&after.queue).filter(|_| !is_as_before) {
            self.at_the_door(comer, owner, |entrance| entrance.fit(after, queue))?;
        }
        self.leave_for(comer, owner, after)
    }

    /// A queue of the site.
    pub(super) fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// Refuses a queue in which a job may not have its quality of service, unless an operator puts
    /// it there (M27).
    pub(super) fn keep_quality(
        &self,
        job: &Job,
        queue: &str,
        privileged: bool,
    ) -> Result<(), Refusal> {
        if privileged {
            return Ok(());
        }
        self.at_the_door(Comer::Known(job.id), &job.owner, |entrance| {
            entrance.keep_quality(&job.spec, queue)
        })
    }

    fn at_the_door<T>(&self, comer: Comer, owner: &Owner, ask: impl FnOnce(&Entrance) -> T) -> T {
        let (group, is_member) = (
            || self.group_name(owner.gid),
            |group: &str| self.is_member(owner, group),
        );
        ask(&Entrance {
            queues: &self.queues,
            resources: &self.resources,
            qualities: &self.policy.qualities,
            visitor: Visitor {
                user: &owner.user,
                group: &group,
                is_member: &is_member,
                host: "sim",
            },
            room: &|spec| self.leave_for(comer, owner, spec),
        })
    }

    fn leave_for(&self, comer: Comer, owner: &Owner, spec: &Spec) -> Result<Vec<String>, Refusal> {
        let subject = self.subject(&Credentials::new(owner, spec));
        self.census.admit(comer, spec, &subject, &self.resources)
    }

    fn subject(&self, who: &Credentials) -> Subject {
        let accounts =
            Lineages::new(&self.policy.fair_share.accounts).of(&who.user, who.account.as_deref());
        Subject::new(who, self.group_name(who.gid), accounts)
    }

    fn group_name(&self, gid: u32) -> String {
        let named = self.groups.iter().find(|(_, number)| **number == gid);
        named.map_or_else(|| gid.to_string(), |(name, _)| name.clone())
    }

    /// The account of a job that asks for none and whose user none lists (Y25).
    pub(super) fn assign_account(&self, owner: &Owner, spec: &mut Spec) {
        if spec.account.is_none() {
            spec.account = self.policy.fair_share.default_for(&owner.user);
        }
    }

    /// Refuses a job that can never run, with the nearest request that could (P24).
    pub(super) fn refuse_impossible(&mut self, job: &Job) -> Result<(), Refusal> {
        if !self.config.server.refuse_impossible {
            return Ok(());
        }
        let world = (&self.state, &self.policy, &self.resources);
        match self.possible.never(world, job, self.now) {
            Some(never) => Err(Refusal::out_of_bounds(&never.to_string())),
            None => Ok(()),
        }
    }

    /// Counts a job as it stands, and takes note of whether it waits to be passed on.
    pub(super) fn note_crowd(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if !self.census.is_idle() {
            let subject = self.subject(&Credentials::of(job));
            self.census.count(job, |_| subject);
        }
        // Elements go where their array goes.
        let queue = self.queue(&job.spec.queue).filter(|_| id.index().is_none());
        match queue.is_some_and(|queue| queue.routes(job.life.state)) {
            true => drop(self.routed.insert(id, self.now)),
            false => drop(self.routed.remove(&id)),
        }
    }

    /// When a job in a routing queue is tried next.
    pub(super) fn next_routed(&self) -> Option<Time> {
        self.routed.values().min().copied()
    }

    /// Tries all jobs in routing queues whose turn it is.
    pub(super) fn attend_routing(&mut self) {
        let due = self
            .routed
            .iter()
            .filter(|(_, next)| **next <= self.now)
            .map(|(id, _)| *id);
        for id in due.collect::<Vec<_>>() {
            let Some(job) = self.jobs.get(&id).cloned() else {
                continue;
            };
            let Some(queue) = self.queue(&job.spec.queue).cloned() else {
                continue;
            };
            let by = "Server@sim".to_string();
            match self.at_the_door(Comer::Known(id), &job.owner, |entrance| {
                entrance.turn(&job, &queue, self.now)
            }) {
                Turn::PassOn(spec) => self.put_into(id, *spec, by),
                Turn::Delete => self.happen_to_all(id, &Event::DeleteWanted { by, force: false }),
                Turn::Wait(pause) => drop(self.routed.insert(id, self.now + pause)),
            }
        }
    }

    /// A job goes into another queue, as what it comes to there.
    pub(super) fn put_into(&mut self, id: JobId, spec: Spec, by: String) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let (from, to) = (job.spec.queue.clone(), spec.queue.clone());
        job.spec = Arc::new(spec);
        self.happen(id, Event::Moved { by, from, to });
    }
}
