//! Reservations in the server: changes in a transaction, queues of reservations, and windows
//! (reservations as the scheduler sees them).

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

/// All reservations, and the changes of the current transaction.
#[derive(Default)]
pub(crate) struct Reservations {
    all: BTreeMap<String, Arc<Reservation>>,
    /// The reservations that the current transaction changed, as they were before; None for a new
    /// reservation.
    before: BTreeMap<String, Option<Arc<Reservation>>>,
    /// The windows in the scheduler's view, by reservation.
    shown: BTreeMap<String, Vec<String>>,
    /// When replacements for lost nodes were last searched for.
    searched: Time,
}

impl ServerState {
    /// Loads the stored reservations.
    pub fn load_reservations(&mut self, reservations: Vec<Reservation>) {
        for reservation in reservations {
            let id = reservation.id.clone();
            self.reservations
                .all
                .insert(id.clone(), Arc::new(reservation));
            self.update_windows(&id);
        }
        // The view of running jobs names their reservations, which were not loaded yet when the
        // view was built.
        let holders: Vec<JobId> = self.holders().map(|job| job.id).collect();
        holders
            .into_iter()
            .for_each(|job| self.update_job_view(job));
    }

    /// The reservation with this id.
    pub fn reservation(&self, id: &str) -> Option<&Arc<Reservation>> {
        self.reservations.all.get(id)
    }

    /// The reservation that has a queue of this name.
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
        self.update_windows(&id);
    }

    /// Applies and records an event of a reservation. The event of an unknown reservation is only
    /// recorded.
    pub fn apply_reservation_event(&mut self, id: &str, fact: Happened) {
        tracing::info!("reservation {id} {}", event_text(&fact));
        let now = self.now;
        self.change_reservation(id, |reservation| reservation.apply(&fact, now));
        self.add_update(Update::ReservationEvent(now, id.to_string(), fact));
    }

    /// Changes a reservation without recording an event. Does nothing for an unknown reservation.
    pub fn change_reservation(&mut self, id: &str, change: impl FnOnce(&mut Reservation)) {
        let Some(reservation) = self.reservations.all.get_mut(id) else {
            return;
        };
        self.reservations
            .before
            .entry(id.to_string())
            .or_insert_with(|| Some(reservation.clone()));
        change(Arc::make_mut(reservation));
        self.update_windows(id);
    }

    /// Removes a reservation.
    pub fn drop_reservation(&mut self, id: &str) {
        if let Some(reservation) = self.reservations.all.remove(id) {
            self.reservations
                .before
                .entry(id.to_string())
                .or_insert(Some(reservation));
            self.update_windows(id);
        }
    }

    /// A queue of the configuration or of a reservation.
    pub fn queue(&self, name: &str) -> Option<Queue> {
        self.setup.queue(name).cloned().or_else(|| {
            self.reservation_queue(name)
                .and_then(|reservation| reservation.queue())
        })
    }

    /// The next time at which a reservation or the site's calendar changes, or schedd tries to
    /// create missing configured reservations.
    pub fn next_reservation_time(&self) -> Option<Time> {
        let retry = site_calendar::next_retry(self);
        self.next_calendar_change().into_iter().chain(retry).min()
    }

    /// The next time at which a reservation begins or ends, or prime time or dedicated time
    /// changes.
    pub fn next_calendar_change(&self) -> Option<Time> {
        let turns = self
            .reservations()
            .filter_map(|reservation| reservation.next_turn());
        let turn = turns.min().map(|wall| self.clock.table().time(wall));
        let change = self.cluster.site_time().next_change(self.now);
        turn.into_iter().chain(change).min()
    }

    /// Sets dedicated time and prime time in the scheduler's view.
    pub fn set_site_time(&mut self, site_time: SiteTime) {
        if *self.cluster.site_time() != site_time {
            self.cluster.make(Change::SiteTime(Cow::Owned(site_time)));
            self.want_cycle(Trigger::Timer(AwaitedMoment::Calendar));
        }
    }

    /// The jobs that hold resources of nodes and have requested a reservation.
    pub fn running_reserved_jobs(&self) -> BTreeSet<JobId> {
        let reserved = self.holders().filter(|job| job.spec.reservation.is_some());
        reserved.map(|job| job.id).collect()
    }

    /// The jobs and arrays of a queue that are unfinished or have an open attempt, without subjobs.
    pub fn jobs_in(&self, queue: &str) -> Vec<JobId> {
        self.jobs()
            .filter(|job| job.spec.queue == queue && job.id.index().is_none())
            .map(|job| job.id)
            .collect()
    }

    /// The reservation that a running job uses. This is the requested reservation, or else an open
    /// reservation that has one of the job's nodes and admits the job for its whole walltime.
    pub(crate) fn reservation_of(&self, job: &Job) -> Option<String> {
        self.cluster
            .reservation_of(job, self.setup.policy.default_walltime, self.now)
    }

    /// Whether to search for replacements of lost nodes now. Returns true at most once per
    /// `interval`.
    pub fn may_search_replacements(&mut self, interval: Span) -> bool {
        let is_due = self.now.since(self.reservations.searched) >= interval;
        if is_due {
            self.reservations.searched = self.now;
        }
        is_due
    }

    /// After a change of a reservation's times, updates the view of its jobs that hold resources,
    /// because they end with the reservation.
    pub fn update_jobs_inside(&mut self, id: &str) {
        let jobs_inside = self
            .holders()
            .filter(|job| job.spec.reservation.as_deref() == Some(id));
        let jobs_inside: Vec<JobId> = jobs_inside.map(|job| job.id).collect();
        jobs_inside
            .into_iter()
            .for_each(|job| self.update_job_view(job));
    }

    /// The end of the reservation that a job requested. The job ends no later. None if the job
    /// requested no reservation, or one without a queue.
    pub(crate) fn reservation_end(&self, job: &Job) -> Option<Time> {
        let reservation = self.reservation_queue(job.spec.reservation.as_deref()?)?;
        Some(self.clock.table().time(reservation.occurrence().to))
    }

    /// Updates all windows, and the ends of the jobs in reservations. A step of the wall clock
    /// changes their server times.
    pub(crate) fn update_all_windows(&mut self) {
        let ids: Vec<String> = self.reservations.all.keys().cloned().collect();
        for id in ids {
            self.update_windows(&id);
            self.update_jobs_inside(&id);
        }
    }

    /// Adds all windows to a new, empty view.
    pub(crate) fn rebuild_windows(&mut self) {
        self.reservations.shown.clear();
        self.update_all_windows();
    }

    /// Replaces a reservation's windows and queue in the scheduler's view.
    fn update_windows(&mut self, id: &str) {
        for window in self.reservations.shown.remove(id).unwrap_or_default() {
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
        let shown = windows.iter().map(|window| window.id.clone()).collect();
        self.reservations.shown.insert(id.to_string(), shown);
        windows
            .into_iter()
            .for_each(|window| self.cluster.make(Change::Window(Cow::Owned(window))));
    }

    /// The updates of reservations that the current transaction must write.
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

    /// All queues, including those of reservations.
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

    /// Drops the data for a rollback, after the commit.
    pub(crate) fn settle_reservations(&mut self) {
        self.reservations.before.clear();
    }

    /// Restores the reservations that a transaction changed, because the transaction was not
    /// written.
    pub(crate) fn roll_back_reservations(&mut self) {
        for (id, before) in std::mem::take(&mut self.reservations.before) {
            match before {
                Some(reservation) => self.reservations.all.insert(id.clone(), reservation),
                None => self.reservations.all.remove(&id),
            };
            self.update_windows(&id);
        }
    }
}

/// An event of a reservation, for the log, where the text follows the id of the reservation.
fn event_text(event: &Happened) -> String {
    match event {
        Happened::Submitted(by) => format!("is requested by {by}"),
        Happened::Confirmed(_) => "is confirmed".to_string(),
        Happened::Denied(why) => format!("is denied: {why}"),
        Happened::Altered(by) => format!("is altered by {by}"),
        Happened::Began => "begins".to_string(),
        Happened::Ended => "ends".to_string(),
        Happened::Lost(nodes) if nodes.is_empty() => "has all nodes again".to_string(),
        Happened::Lost(nodes) => format!("lacks nodes: {}", nodes.join(", ")),
        Happened::DeleteWanted(by) => format!("will be deleted at request of {by}"),
        Happened::Emptied => "is over and has no jobs, and is removed".to_string(),
    }
}
