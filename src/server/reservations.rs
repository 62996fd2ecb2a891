//! Reservations of users: the commands, one function each, and time-driven changes (`advance`).
//!
//! A request is confirmed or denied at once, in the transaction that adds the reservation. Only if
//! no node is usable and the reservation begins later, it stays unconfirmed. In this case, the
//! client gets a reply at once, and [`advance`] tries again.

use crate::model::job::Job;
use crate::model::job::NodeShare;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::refusal::Refusal;
use crate::model::reservation::Happened;
use crate::model::reservation::Occurrence;
use crate::model::reservation::Reservation;
use crate::model::reservation::ReservationState;
use crate::model::reservation::recurrence::Zone;
use crate::model::reservation::request::ReservationRequest;
use crate::model::reservation::window::ANY;
use crate::model::time::Span;
use crate::model::time::Wall;
use crate::sched::backfill::reservation_window;
use crate::sched::backfill::reservation_window::WindowRequest;
use crate::server::caller::Caller;
use crate::server::granted::Granted;
use crate::server::outside::Accounts;
use crate::server::request_context::RequestContext;
use crate::server::request_context::is_member;
use crate::server::reservation_limits;
use crate::server::site_calendar;
use crate::server::state::ServerState;
use std::sync::Arc;

impl RequestContext<'_> {
    /// `pbs_rsub`: adds a reservation, and replies whether it is confirmed.
    pub(crate) fn reserve(&mut self, requested: &ReservationRequest) -> Result<Granted, Refusal> {
        requested.check()?;
        reservation_limits::check_number(self.server, self.caller, 1)?;
        if let Some(job) = requested.job {
            let job = self.owned_job(job)?;
            let id = reserve_nodes_of(self.server, &job, requested.name.clone())
                .ok_or_else(Refusal::bad_state)?;
            return Ok(self.reply_for(&id, Some(true)));
        }
        if !requested.nodes.is_empty() {
            self.caller.must_be_privileged()?;
        }
        let accounts = &*self.server.setup.installation.accounts;
        let first = requested.times(self.server.wall())?;
        let zone = zone_of(requested, accounts)?;
        let zone = zone.as_deref().unwrap_or(accounts.zone());
        let occurrences = requested.occurrences(first, zone)?;
        reservation_limits::check_number(self.server, self.caller, occurrences.len())?;
        let length = Span::seconds(first.1.0 - first.0.0);
        let terms = requested.terms(&self.caller.shown(), length, &self.server.setup.resources)?;
        reservation_limits::check_size(
            self.server,
            self.caller,
            &terms.request,
            &occurrences,
            None,
        )?;
        let nodes = self.shares_of_hosts(&requested.nodes)?;
        let letter = if terms.whole {
            'M'
        } else if terms.rule.is_some() {
            'S'
        } else {
            'R'
        };
        let reservation = Reservation {
            id: format!("{letter}{}", self.server.take_number(false).number),
            owner: self.caller.owner.clone(),
            submit_host: requested.submit_host.clone(),
            terms,
            occurrences: if nodes.is_empty() {
                occurrences
            } else {
                with_shares(occurrences, &nodes)
            },
            current: 0,
            state: ReservationState::Unconfirmed,
            lost: Vec::new(),
            ctime: self.server.now,
            mtime: self.server.now,
        };
        Ok(self.submitted_reservation(reservation))
    }

    fn submitted_reservation(&mut self, reservation: Reservation) -> Granted {
        let (id, by) = (reservation.id.clone(), self.caller.shown());
        self.server.add_reservation(reservation);
        self.server
            .apply_reservation_event(&id, Happened::Submitted(by));
        let confirmed = confirm(self.server, &id);
        self.reply_for(&id, confirmed)
    }

    fn reply_for(&self, id: &str, confirmed: Option<bool>) -> Granted {
        Granted::Reserved(format!("{id}.{}", self.server.setup.name), confirmed)
    }

    /// Shares with all resources of all nodes that are on these hosts or have these names.
    fn shares_of_hosts(&self, hosts: &[String]) -> Result<Vec<NodeShare>, Refusal> {
        let mut names = Vec::new();
        for host in hosts {
            let facts = self.server.nodes().map(|node| &node.facts);
            let found: Vec<String> = facts
                .filter(|facts| facts.host == *host || facts.name == *host)
                .map(|facts| facts.name.clone())
                .collect();
            if found.is_empty() {
                return Err(Refusal::no_such_node(host));
            }
            names.extend(
                found
                    .into_iter()
                    .filter(|name| !names.contains(name))
                    .collect::<Vec<_>>(),
            );
        }
        reservation_window::whole(self.server.cluster(), &names)
            .map_err(|name| Refusal::no_such_node(&name))
    }

    /// `pbs_ralter`: applies all requested changes or none.
    pub(crate) fn alter_reservation(
        &mut self,
        id: &str,
        changes: &ReservationRequest,
        force: bool,
    ) -> Result<Granted, Refusal> {
        let was = self.own_reservation(id)?;
        if force {
            self.caller.must_be_privileged()?;
        }
        changes.check()?;
        let begun = was.state == ReservationState::Running;
        if begun && !changes.resources.is_empty() {
            return Err(Refusal::bad_state());
        }
        let old = was.occurrence();
        let (from, to) = changes.changed_period((old.from, old.to), begun, self.server.wall())?;
        let terms = changes.changed(
            &was.terms,
            Span::seconds(to.0 - from.0),
            &self.server.setup.resources,
        )?;
        let mut after = (*was).clone();
        let same =
            (from, to, &terms.request.select) == (old.from, old.to, &was.terms.request.select);
        after.terms = terms;
        after.occurrences[was.current] = Occurrence {
            from,
            to,
            shares: old.shares.clone(),
        };
        if !same {
            let changed = std::slice::from_ref(after.occurrence());
            reservation_limits::check_size(
                self.server,
                self.caller,
                &after.terms.request,
                changed,
                Some(id),
            )?;
        }
        if !same && !force {
            match fitting_shares(self.server, &after) {
                Some(shares) => after.occurrences[was.current].shares = shares,
                None => return Ok(self.reply_for(id, Some(false))),
            }
        }
        self.server
            .change_reservation(id, |reservation| *reservation = after);
        self.server
            .apply_reservation_event(id, Happened::Altered(self.caller.shown()));
        self.server.update_jobs_inside(id);
        Ok(self.reply_for(id, Some(true)))
    }

    /// `pbs_rdel`: deletes a reservation and its jobs.
    pub(crate) fn delete_reservation(&mut self, id: &str) -> Result<Granted, Refusal> {
        self.own_reservation(id)?;
        let by = self.caller.shown();
        self.server
            .apply_reservation_event(id, Happened::DeleteWanted(by.clone()));
        delete_jobs(self.server, id, &by);
        Ok(Granted::Done)
    }

    fn own_reservation(&self, id: &str) -> Result<Arc<Reservation>, Refusal> {
        let found = self
            .server
            .reservation(id)
            .filter(|reservation| !reservation.is_over());
        let reservation = found.cloned().ok_or_else(Refusal::unknown_reservation)?;
        if !reservation.has_queue() {
            return Err(Refusal::unsupported(
                "this reservation is defined in lanai.toml: change that file instead",
            ));
        }
        if self.caller.privileged || self.caller.owner.is_same_account(&reservation.owner) {
            Ok(reservation)
        } else {
            Err(Refusal::unauthorized())
        }
    }

    /// Whether a job may request a reservation of this name: the reservation exists or is
    /// configured, or the name is [`ANY`].
    pub(crate) fn is_reservation(&self, name: &str) -> bool {
        let configured = self
            .server
            .setup
            .config
            .reservations
            .iter()
            .any(|known| known.name == name);
        configured
            || name == ANY
            || self
                .server
                .cluster()
                .windows()
                .any(|window| window.has_name(name))
    }

    /// Checks that the caller may submit to the queue of a reservation.
    pub(crate) fn may_enter(&self, reservation: &Reservation) -> Result<(), Refusal> {
        let owner = &self.caller.owner;
        // The user's groups are looked up only if the reservation names a group.
        let is_member = |group: &str| is_member(&self.server.setup, owner, group);
        let host = &self.server.setup.host;
        if self.caller.privileged || reservation.grants_access(owner, host, is_member) {
            Ok(())
        } else {
            Err(Refusal::queue_denied())
        }
    }
}

fn with_shares(occurrences: Vec<Occurrence>, shares: &[NodeShare]) -> Vec<Occurrence> {
    occurrences
        .into_iter()
        .map(|occurrence| Occurrence {
            shares: shares.to_vec(),
            ..occurrence
        })
        .collect()
}

/// The time zone of a standing reservation's rule; None for a single reservation.
fn zone_of(
    requested: &ReservationRequest,
    accounts: &dyn Accounts,
) -> Result<Option<Box<dyn Zone>>, Refusal> {
    let name = match (&requested.rule, &requested.zone) {
        (None, _) => return Ok(None),
        (Some(_), None) => return Err(Refusal::other_zone("(not set)", &accounts.zone_name())),
        (Some(_), Some(name)) => name,
    };
    let zone = accounts.zone_named(name);
    zone.map(Some)
        .ok_or_else(|| Refusal::other_zone(name, &accounts.zone_name()))
}

/// Assigns nodes to a reservation, or denies and removes the reservation. Returns whether the
/// reservation is confirmed; None if it stays undecided because no node is usable now and it begins
/// later.
fn confirm(server: &mut ServerState, id: &str) -> Option<bool> {
    let reservation = server.reservation(id)?.clone();
    let found = if reservation.terms.whole {
        Ok(reservation
            .occurrences
            .iter()
            .map(|occurrence| occurrence.shares.clone())
            .collect())
    } else {
        reservation
            .occurrences
            .iter()
            .map(|occurrence| find_shares(server, &reservation, occurrence))
            .collect()
    };
    match found {
        Ok(shares) => {
            server.apply_reservation_event(id, Happened::Confirmed(shares));
            Some(true)
        }
        Err(Reason::NoNodes) if reservation.occurrences[0].from > server.wall() => None,
        Err(reason) => {
            server.apply_reservation_event(id, Happened::Denied(reason.to_string()));
            server.drop_reservation(id);
            Some(false)
        }
    }
}

/// Finds free shares of nodes for an occurrence of a reservation.
pub(crate) fn find_shares(
    server: &ServerState,
    reservation: &Reservation,
    when: &Occurrence,
) -> Result<Vec<NodeShare>, Reason> {
    let clock = server.clock().table();
    let request = &reservation.terms.request;
    let wanted = WindowRequest {
        request,
        from: clock.time(when.from).max(server.now),
        to: clock.time(when.to),
        except: &reservation.id,
    };
    reservation_window::place(
        server.cluster(),
        &wanted,
        &server.running_reserved_jobs(),
        server.now,
    )
}

/// Finds the shares for a changed reservation. A running reservation can only keep its shares. None
/// if the change does not fit.
fn fitting_shares(server: &ServerState, after: &Reservation) -> Option<Vec<NodeShare>> {
    let when = after.occurrence();
    if after.terms.whole {
        return Some(when.shares.clone());
    }
    if after.state != ReservationState::Running {
        return find_shares(server, after, when).ok();
    }
    let clock = server.clock().table();
    let request = &after.terms.request;
    let wanted = WindowRequest {
        request,
        from: server.now,
        to: clock.time(when.to),
        except: &after.id,
    };
    let keeps = reservation_window::keeps(
        server.cluster(),
        &wanted,
        &when.shares,
        &server.running_reserved_jobs(),
        server.now,
    );
    keeps.then(|| when.shares.clone())
}

/// Reserves the resources of a running job on its nodes until its walltime ends, and moves the job
/// into this reservation. Returns the id; None for a subjob, or if the job does not run or has a
/// reservation.
fn reserve_nodes_of(server: &mut ServerState, job: &Job, name: Option<String>) -> Option<String> {
    let is_in_reservation = job.spec.reservation.is_some();
    if job.life.state != JobState::Running || is_in_reservation || job.id.index().is_some() {
        return None;
    }
    let run = job.life.open_run()?;
    let walltime = job
        .spec
        .walltime()
        .unwrap_or(server.setup.policy.default_walltime);
    let (now, by) = (
        server.now,
        format!("{}@{}", job.owner.user, job.spec.submit_host),
    );
    let to = server.clock().wall(run.until(walltime, now));
    let shares = run.shares.clone();
    let id = format!("R{}", server.take_number(false).number);
    let requested = ReservationRequest {
        name,
        job: Some(job.id),
        ..ReservationRequest::default()
    };
    let terms = requested
        .terms(&by, walltime, &server.setup.resources)
        .ok()?;
    let reservation = Reservation {
        id: id.clone(),
        owner: job.owner.clone(),
        submit_host: job.spec.submit_host.clone(),
        terms: crate::model::reservation::ReservationTerms {
            request: job.spec.request.clone(),
            ..terms
        },
        occurrences: vec![Occurrence {
            from: server.wall(),
            to,
            shares: shares.clone(),
        }],
        current: 0,
        state: ReservationState::Unconfirmed,
        lost: Vec::new(),
        ctime: now,
        mtime: now,
    };
    server.add_reservation(reservation);
    for fact in [
        Happened::Submitted(by.clone()),
        Happened::Confirmed(vec![shares]),
        Happened::Began,
    ] {
        server.apply_reservation_event(&id, fact);
    }
    let from = job.spec.queue.clone();
    server.change(job.id, |job| {
        let spec = Arc::make_mut(&mut job.spec);
        (spec.queue, spec.reservation) = (id.clone(), Some(id.clone()));
    });
    server.apply_event(
        job.id,
        Event::Moved {
            by,
            from,
            to: id.clone(),
        },
    );
    Some(id)
}

/// `-W create_resv_from_job=true`: reserves the resources of a job that has just started.
pub(crate) fn create_from_started_job(server: &mut ServerState, id: JobId) {
    let Some(job) = server.job(id).cloned() else {
        return;
    };
    let is_requested = job
        .spec
        .other
        .get("create_resv_from_job")
        .is_some_and(|text| text == "True");
    let owner = Caller::of(job.owner.clone(), &server.setup);
    if is_requested && reservation_limits::check_number(server, &owner, 1).is_ok() {
        reserve_nodes_of(server, &job, None);
    }
}

/// Time-driven changes: reservations begin and end, unconfirmed reservations are retried, lost
/// nodes are replaced, and finished reservations are removed once they have no jobs.
pub(crate) fn advance(server: &mut ServerState) {
    site_calendar::advance(server);
    let may_search = server.may_search_replacements(SEARCH_INTERVAL);
    let ids: Vec<String> = server
        .reservations()
        .map(|reservation| reservation.id.clone())
        .collect();
    for id in ids {
        begin_or_end_due(server, &id);
        notice_lost_nodes(server, &id, may_search);
        let is_over = server
            .reservation(&id)
            .is_some_and(|reservation| reservation.is_over());
        let has_jobs =
            || server.reservation_queue(&id).is_some() && !server.jobs_in(&id).is_empty();
        if is_over && !has_jobs() {
            server.apply_reservation_event(&id, Happened::Emptied);
            server.drop_reservation(&id);
        }
    }
}

/// Begins and ends the occurrences that are due, in order. Before that, retries an unconfirmed
/// reservation.
fn begin_or_end_due(server: &mut ServerState, id: &str) {
    let now = server.wall();
    let is_due = |server: &ServerState| {
        server
            .reservation(id)
            .and_then(|r| r.next_turn())
            .is_some_and(|turn| turn <= now)
    };
    if server
        .reservation(id)
        .is_some_and(|reservation| reservation.state == ReservationState::Unconfirmed)
    {
        confirm(server, id);
    }
    while is_due(server) {
        let begins = server
            .reservation(id)
            .is_some_and(|reservation| reservation.state == ReservationState::Confirmed);
        server.apply_reservation_event(
            id,
            if begins {
                Happened::Began
            } else {
                Happened::Ended
            },
        );
        if !begins {
            end_jobs(server, id);
        }
    }
}

/// At the end of an occurrence of a reservation, requeues its running jobs that are rerunnable, and
/// deletes its other running jobs. At the end of the last occurrence, deletes all its jobs.
fn end_jobs(server: &mut ServerState, id: &str) {
    let Some(reservation) = server
        .reservation(id)
        .cloned()
        .filter(|reservation| reservation.has_queue())
    else {
        return;
    };
    let by = format!("Scheduler@{}", server.setup.host);
    if reservation.is_over() {
        return delete_jobs(server, id, &by);
    }
    for job in server.jobs_in(id) {
        let Some(job) = server
            .job(job)
            .filter(|job| job.has_begun() || job.life.open_run().is_some())
            .cloned()
        else {
            continue;
        };
        let event = if job.spec.rerunnable {
            Event::RerunWanted { by: by.clone() }
        } else {
            Event::DeleteWanted {
                by: by.clone(),
                force: false,
            }
        };
        server.apply_event_to_all(job.id, &event);
    }
}

fn delete_jobs(server: &mut ServerState, id: &str, by: &str) {
    for job in server.jobs_in(id) {
        server.apply_event_to_all(
            job,
            &Event::DeleteWanted {
                by: by.to_string(),
                force: false,
            },
        );
    }
}

/// A node that has been down for longer than this counts as lost. A restart of noded takes less
/// time.
const DEGRADED_AFTER: Span = Span::seconds(60);

/// Interval at which replacements for lost nodes of reservations are searched for.
const SEARCH_INTERVAL: Span = Span::seconds(60);

/// Records the lost nodes of a reservation. With lost nodes, the reservation is degraded. If the
/// reservation has not begun, replaces its nodes instead, if possible. While the set of lost nodes
/// is unchanged, searches for replacements only if `may_search`.
fn notice_lost_nodes(server: &mut ServerState, id: &str, may_search: bool) {
    let Some(reservation) = server.reservation(id).cloned() else {
        return;
    };
    if reservation.is_over()
        || reservation.state == ReservationState::Unconfirmed
        || reservation.terms.whole
    {
        return;
    }
    let is_lost = |share: &&NodeShare| {
        let node = server.node(&share.node);
        node.is_none_or(|node| {
            node.offline
                || !node.up
                    && server.now.since(node.changed) > DEGRADED_AFTER
                    && server.is_settled(DEGRADED_AFTER)
        })
    };
    let mut lost: Vec<String> = reservation
        .occurrence()
        .shares
        .iter()
        .filter(is_lost)
        .map(|s| s.node.clone())
        .collect();
    lost.dedup();
    let is_known = lost == reservation.lost;
    if is_known && (lost.is_empty() || !may_search) {
        return;
    }
    let elsewhere = if reservation.state == ReservationState::Confirmed && !lost.is_empty() {
        find_shares(server, &reservation, reservation.occurrence()).ok()
    } else {
        None
    };
    match elsewhere {
        Some(shares) => {
            let mut all: Vec<Vec<NodeShare>> = reservation
                .occurrences
                .iter()
                .map(|o| o.shares.clone())
                .collect();
            all[reservation.current] = shares;
            server.apply_reservation_event(id, Happened::Confirmed(all));
        }
        None if is_known => {}
        None => server.apply_reservation_event(id, Happened::Lost(lost)),
    }
}

/// The end time of a reservation that never ends.
pub(crate) const NEVER: Wall = Wall(i64::MAX);
