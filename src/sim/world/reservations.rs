//! Reservations that somebody makes: room is found for them, and they open and close with their
//! queues and jobs as in schedd. Those that have their room are called `R1`, `R2`, ... in their
//! order, and `M1` and so on if they are whole hosts.

use super::{World, time, wall};
use crate::model::job::event::Event;
use crate::model::job::{Job, Owner, Share};
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::reservation::request::Reserving;
use crate::model::reservation::{Happened, Occurrence, Reservation, State};
use crate::model::time::{ClockTable, Span, Time};
use crate::model::trigger::Trigger;
use crate::sched::backfill::reservation_window::{self, Wanted};
use crate::sched::view::change::Change;
use std::borrow::Cow;

/// Who makes and deletes them.
const MAKER: &str = "operator@sim";

impl World {
    /// `pbs_rsub`; the error says what is wrong with it, or why it cannot be had.
    pub(super) fn reserve(&mut self, asked: &Reserving) -> Result<(), String> {
        let reservation = self.planned(asked).map_err(|refusal| refusal.text)?;
        let shares = match asked.nodes.is_empty() {
            true => self.room_for(&reservation)?,
            false => self.all_of(&asked.nodes)?,
        };
        let id = reservation.id.clone();
        self.reservations.insert(id.clone(), reservation);
        self.happen_to_reservation(&id, &Happened::Confirmed(vec![shares]));
        Ok(())
    }

    /// `pbs_rdel`: its jobs go with it.
    pub(super) fn unreserve(&mut self, id: &str) -> Result<(), String> {
        if self.reservations.get(id).is_none_or(Reservation::is_over) {
            return Err(Refusal::unknown_reservation().text);
        }
        self.happen_to_reservation(id, &Happened::DeleteWanted(MAKER.to_string()));
        self.end_jobs_of(id);
        Ok(())
    }

    /// Opens and closes what is due.
    pub(super) fn attend_reservations(&mut self) {
        let now = wall(self.now);
        let is_due =
            |reservation: &&Reservation| reservation.next_turn().is_some_and(|turn| turn <= now);
        while let Some(due) = self.reservations.values().find(is_due) {
            let (id, begins) = (due.id.clone(), due.state == State::Confirmed);
            self.happen_to_reservation(
                &id,
                if begins {
                    &Happened::Began
                } else {
                    &Happened::Ended
                },
            );
            if !begins {
                self.end_jobs_of(&id);
            }
        }
    }

    /// When one opens or closes next.
    pub(super) fn next_turn(&self) -> Option<Time> {
        self.reservations
            .values()
            .filter_map(Reservation::next_turn)
            .map(time)
            .min()
    }

    /// The reservation whose queue this is.
    pub(super) fn reservation_queue(&self, name: &str) -> Option<Queue> {
        self.reservations.get(name)?.queue()
    }

    /// When the reservation closes in whose queue a job is: the job goes with it.
    pub(super) fn close_of(&self, job: &Job) -> Option<Time> {
        let reservation = self
            .reservations
            .get(&job.spec.queue)
            .filter(|reservation| !reservation.is_over())?;
        Some(time(reservation.occurrence().to))
    }

    fn planned(&self, asked: &Reserving) -> Result<Reservation, Refusal> {
        asked.check()?;
        let (from, to) = asked.times(wall(self.now))?;
        let terms = asked.terms(MAKER, Span::seconds(to.0 - from.0), &self.resources)?;
        let letter = if terms.whole { 'M' } else { 'R' };
        Ok(Reservation {
            id: format!("{letter}{}", self.reservations.len() + 1),
            owner: Owner {
                user: "operator".to_string(),
                uid: 0,
                gid: 0,
            },
            submit_host: "sim".to_string(),
            terms,
            occurrences: vec![Occurrence {
                from,
                to,
                shares: Vec::new(),
            }],
            current: 0,
            state: State::Unconfirmed,
            lost: Vec::new(),
            ctime: self.now,
            mtime: self.now,
        })
    }

    fn room_for(&self, reservation: &Reservation) -> Result<Vec<Share>, String> {
        let Occurrence { from, to, .. } = *reservation.occurrence();
        let request = &reservation.terms.request;
        let wanted = Wanted {
            request,
            from: time(from).max(self.now),
            to: time(to),
            except: &reservation.id,
        };
        let found = reservation_window::place(&self.state, &wanted, &self.insiders(), self.now);
        found.map_err(|reason| format!("it cannot be had: {reason}"))
    }

    fn all_of(&self, hosts: &[String]) -> Result<Vec<Share>, String> {
        let mut names: Vec<String> = Vec::new();
        for host in hosts {
            let of_host = self.nodes.values().map(|node| &node.facts);
            let of_host = of_host.filter(|facts| facts.host == *host || facts.name == *host);
            let found: Vec<String> = of_host.map(|facts| facts.name.clone()).collect();
            if found.is_empty() {
                return Err(Refusal::no_such_node(host).text);
            }
            names.extend(found);
        }
        names.sort_unstable();
        names.dedup();
        reservation_window::whole(&self.state, &names)
            .map_err(|name| Refusal::no_such_node(&name).text)
    }

    fn happen_to_reservation(&mut self, id: &str, fact: &Happened) {
        let now = self.now;
        self.reservations
            .entry(id.to_string())
            .and_modify(|reservation| reservation.apply(fact, now));
        self.show_reservation(id);
    }

    /// Brings the scheduler's view of a reservation in line with it.
    fn show_reservation(&mut self, id: &str) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let windows = reservation.windows(&ClockTable::default());
        let queue = reservation.queue();
        self.state.make(&Change::NoWindow(Cow::Borrowed(id)));
        self.state.make(&match queue {
            Some(queue) => Change::Queue(Cow::Owned(queue)),
            None => Change::NoQueue(Cow::Borrowed(id)),
        });
        windows
            .into_iter()
            .for_each(|window| self.state.make(&Change::Window(Cow::Owned(window))));
        self.want_cycle(Trigger::Reservation(id.to_string()));
    }

    fn end_jobs_of(&mut self, id: &str) {
        let is_there = |job: &&Job| {
            job.spec.queue == id && job.id.index().is_none() && job.life.exit.is_none()
        };
        let jobs: Vec<JobId> = self
            .jobs
            .values()
            .filter(is_there)
            .map(|job| job.id)
            .collect();
        for job in jobs {
            self.happen_to_all(
                job,
                &Event::DeleteWanted {
                    by: MAKER.to_string(),
                    force: false,
                },
            );
            self.end_unwanted(job);
        }
    }
}
