//! Reservations in the server: what the tick changes of them, their queues, and the windows that
//! the scheduler sees.

use crate::model::job::Job;
use crate::model::job_id::JobId;
use crate::model::policy::site_time::SiteTime;
use crate::model::queue::Queue;
use crate::model::reservation::Happened;
use crate::model::reservation::Reservation;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::model::trigger::AwaitedMoment;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use crate::server::site_calendar;
use crate::server::state::ServerState;
use crate::update::Update;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All reservations, and what the tick has changed.
#[derive(Default)]
pub(crate) struct Reservations {
    all: BTreeMap<String, Arc<Reservation>>,
    /// Those changed in this tick, as they were before it.
    before: BTreeMap<String, Option<Arc<Reservation>>>,
    /// The windows the scheduler was told of, by reservation.
    told: BTreeMap<String, Vec<String>>,
    /// When nodes were last looked for in place of those that are lost.
    searched: Time,
}

impl ServerState {
    /// Takes over what the spool held.
    pub fn load_reservations(&mut self, reservations: Vec<Reservation>) {
        for reservation in reservations {
            let id = reservation.id.clone();
            self.reservations
                .all
                .insert(id.clone(), Arc::new(reservation));
            self.show_windows(&id);
        }
        // Jobs were seen before there was a window for them to be in.
        let holders: Vec<JobId> = self.holders().map(|job| job.id).collect();
        holders.into_iter().for_each(|job| self.view(job));
    }

    /// A reservation.
    pub fn reservation(&self, id: &str) -> Option<&Arc<Reservation>> {
        self.reservations.all.get(id)
    }

    /// The reservation whose queue has this name.
    pub fn reservation_queue(&self, name: &str) -> Option<&Arc<Reservation>> {
        self.reservation(name)
            .filter(|reservation| reservation.has_queue())
    }

    /// All reservations, by id.
    pub fn reservations(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.reservations.all.values()
    }

    /// Adds a reservation.
    pub fn add_reservation(&mut self, reservation: Reservation) {
        let id = reservation.id.clone();
        self.reservations.before.entry(id.clone()).or_insert(None);
        self.reservations
            .all
            .insert(id.clone(), Arc::new(reservation));
        self.show_windows(&id);
    }

    /// Takes note of what happened to a reservation; of one that is not known, for the record
    /// alone.
    pub fn happen_to_reservation(&mut self, id: &str, fact: Happened) {
        tracing::info!("reservation {id}: {fact:?}");
        let now = self.now;
        self.change_reservation(id, |reservation| reservation.apply(&fact, now));
        self.also(Update::ReservationEvent(now, id.to_string(), fact));
    }

    /// Changes a reservation in another way.
    pub fn change_reservation(&mut self, id: &str, change: impl FnOnce(&mut Reservation)) {
        let Some(reservation) = self.reservations.all.get_mut(id) else {
            return;
        };
        self.reservations
            .before
            .entry(id.to_string())
            .or_insert_with(|| Some(reservation.clone()));
        change(Arc::make_mut(reservation));
        self.show_windows(id);
    }

    /// Nothing is left of a reservation.
    pub fn drop_reservation(&mut self, id: &str) {
        if let Some(reservation) = self.reservations.all.remove(id) {
            self.reservations
                .before
                .entry(id.to_string())
                .or_insert(Some(reservation));
            self.show_windows(id);
        }
    }

    /// A queue, be it that of a reservation.
    pub fn queue(&self, name: &str) -> Option<Queue> {
        self.setup.queue(name).cloned().or_else(|| {
            self.reservation_queue(name)
                .and_then(|reservation| reservation.queue())
        })
    }

    /// When the server must look at reservations and the calendar next: something changes then, or
    /// it tries again to make a reservation of the configuration.
    pub fn next_turn(&self) -> Option<Time> {
        let retry = site_calendar::next_retry(self);
        self.next_calendar_change().into_iter().chain(retry).min()
    }

    /// When a reservation begins or ends next, or another part of the calendar begins.
    pub fn next_calendar_change(&self) -> Option<Time> {
        let turns = self
            .reservations()
            .filter_map(|reservation| reservation.next_turn());
        let turn = turns.min().map(|wall| self.clock.table().time(wall));
        let change = self.cluster.site_time().next_change(self.now);
        turn.into_iter().chain(change).min()
    }

    /// Tells the scheduler what of the calendar lies ahead.
    pub fn set_site_time(&mut self, site_time: SiteTime) {
        if *self.cluster.site_time() != site_time {
            self.cluster.make(Change::SiteTime(Cow::Owned(site_time)));
            self.want_cycle(Trigger::Timer(AwaitedMoment::Calendar));
        }
    }

    /// The jobs that run for a reservation they asked for.
    pub fn inside(&self) -> BTreeSet<JobId> {
        let reserved = self.holders().filter(|job| job.spec.reservation.is_some());
        reserved.map(|job| job.id).collect()
    }

    /// The jobs in a queue that are not over, or hold something still; of an array, itself alone.
    pub fn jobs_in(&self, queue: &str) -> Vec<JobId> {
        self.jobs()
            .filter(|job| job.spec.queue == queue && job.id.index().is_none())
            .map(|job| job.id)
            .collect()
    }

    /// The reservation a running job is inside: the one it asked for, else one that admits it to a
    /// node it has.
    pub(crate) fn reservation_of(&self, job: &Job) -> Option<String> {
        self.cluster
            .reservation_of(job, self.setup.policy.default_walltime, self.now)
    }

    /// Whether it is time to look again for nodes in place of those that are lost; asked once.
    pub fn searches(&mut self, pace: Span) -> bool {
        let rings = self.now.since(self.reservations.searched) >= pace;
        if rings {
            self.reservations.searched = self.now;
        }
        rings
    }

    /// The times of a reservation have changed: what runs in it goes with it at another moment.
    pub fn show_insiders(&mut self, id: &str) {
        let insiders = self
            .holders()
            .filter(|job| job.spec.reservation.as_deref() == Some(id));
        let insiders: Vec<JobId> = insiders.map(|job| job.id).collect();
        insiders.into_iter().for_each(|job| self.view(job));
    }

    /// When the reservation closes that a job asks for: the job goes with it.
    pub(crate) fn close_of(&self, job: &Job) -> Option<Time> {
        let reservation = self.reservation_queue(job.spec.reservation.as_deref()?)?;
        Some(self.clock.table().time(reservation.occurrence().to))
    }

    /// The wall clock was stepped: windows lie elsewhere on schedd's own.
    pub(crate) fn show_all_windows(&mut self) {
        let ids: Vec<String> = self.reservations.all.keys().cloned().collect();
        for id in ids {
            self.show_windows(&id);
            self.show_insiders(&id);
        }
    }

    /// The scheduler's view was made anew, and knows of no window.
    pub(crate) fn show_windows_anew(&mut self) {
        self.reservations.told.clear();
        self.show_all_windows();
    }

    /// Brings the scheduler's view of a reservation in line with it.
    fn show_windows(&mut self, id: &str) {
        for window in self.reservations.told.remove(id).unwrap_or_default() {
            self.cluster.make(Change::NoWindow(Cow::Owned(window)));
        }
        self.want_cycle(Trigger::Reservation(id.to_string()));
        let Some(reservation) = self.reservations.all.get(id).cloned() else {
            return self.cluster.make(Change::NoQueue(Cow::Borrowed(id)));
        };
        match reservation.queue() {
            Some(queue) => self.cluster.make(Change::Queue(Cow::Owned(queue))),
            None => self.cluster.make(Change::NoQueue(Cow::Borrowed(id))),
        }
        let windows = reservation.windows(self.clock.table());
        let told = windows.iter().map(|window| window.id.clone()).collect();
        self.reservations.told.insert(id.to_string(), told);
        windows
            .into_iter()
            .for_each(|window| self.cluster.make(Change::Window(Cow::Owned(window))));
    }

    /// What of the reservations this tick must write.
    pub(crate) fn unwritten_reservations(&self) -> Vec<Update> {
        let row = |id: &String| match self.reservations.all.get(id) {
            Some(reservation) => Update::Reservation(reservation.clone()),
            None => Update::ReservationGone(id.clone()),
        };
        let mut changes: Vec<Update> = self.reservations.before.keys().map(row).collect();
        if !changes.is_empty() {
            changes.push(Update::Queues(self.queues()));
        }
        changes
    }

    /// All queues, those of reservations too.
    pub fn queues(&self) -> Vec<Queue> {
        let of_reservations = self
            .reservations()
            .filter_map(|reservation| reservation.queue());
        self.setup
            .queues
            .iter()
            .cloned()
            .chain(of_reservations)
            .collect()
    }

    /// The tick is on disk.
    pub(crate) fn settle_reservations(&mut self) {
        self.reservations.before.clear();
    }

    /// The tick was not written: reservations are as they were before it.
    pub(crate) fn roll_back_reservations(&mut self) {
        for (id, before) in std::mem::take(&mut self.reservations.before) {
            match before {
                Some(reservation) => self.reservations.all.insert(id.clone(), reservation),
                None => self.reservations.all.remove(&id),
            };
            self.show_windows(&id);
        }
    }
}
