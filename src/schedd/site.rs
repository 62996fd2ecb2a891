//! What the configuration sets aside: `[[reservation]]` windows, made ahead as they come again
//! (M40), dedicated time and prime time (I23).

use super::ledger::Ledger;
use super::reservations::{NEVER, find};
use crate::config::{ReservationConfig, Times};
use crate::model::job::Share;
use crate::model::policy::site_time::{Prime, SiteTime};
use crate::model::reservation::recurrence::{Instance, Zone};
use crate::model::reservation::request::Reserving;
use crate::model::reservation::{Happened, Occurrence, Reservation, SiteAccess, State};
use crate::model::time::{Span, Time, Wall};
use crate::sched::backfill::reservation_window;
use crate::sys::user;
use crate::sys::zone::Known;

/// How often it is looked at whether there is something new to be made, if nothing else happens.
const PACE: Span = Span::seconds(30);

/// Makes the windows that are due, and tells the scheduler of the calendar.
pub(super) fn attend(ledger: &mut Ledger) {
    tell_site_time(ledger);
    let configured = ledger.setup.config.reservations.clone();
    if configured.is_empty()
        && !ledger
            .reservations()
            .any(|reservation| reservation.terms.access.is_some())
    {
        return;
    }
    let now = Known::Own.civil(ledger.wall());
    let mut wanted = Vec::new();
    for (site, now) in configured
        .iter()
        .flat_map(|site| now.map(|now| (site, now)))
    {
        let instances = match &site.times {
            Times::Standing(standing) => standing.instances(now),
            Times::Once { from, to } => {
                let once = Instance {
                    number: 0,
                    from: *from,
                    to: Some(*to),
                };
                Some(once).filter(|_| *to > now).into_iter().collect()
            }
        };
        wanted.extend(instances.into_iter().map(|instance| (site, instance)));
    }
    forget_unwanted(ledger, &wanted);
    for (site, instance) in wanted {
        make(ledger, site, instance);
    }
}

fn id_of(site: &ReservationConfig, instance: Instance) -> String {
    match instance.number {
        0 => site.name.clone(),
        number => format!("{}.{number}", site.name),
    }
}

/// What is no longer in the configuration goes.
fn forget_unwanted(ledger: &mut Ledger, wanted: &[(&ReservationConfig, Instance)]) {
    let is_wanted = |id: &str| {
        wanted
            .iter()
            .any(|(site, instance)| id_of(site, *instance) == id)
    };
    let of_site = ledger
        .reservations()
        .filter(|reservation| reservation.terms.access.is_some());
    let gone = of_site.filter(|reservation| !reservation.is_over() && !is_wanted(&reservation.id));
    let gone: Vec<String> = gone.map(|reservation| reservation.id.clone()).collect();
    for id in gone {
        ledger.happen_to_reservation(&id, Happened::DeleteWanted("configuration".into()));
    }
}

/// Makes one instance, if it is not there already and its nodes can be had. What cannot be had now
/// is tried again, as nodes come and jobs end.
fn make(ledger: &mut Ledger, site: &ReservationConfig, instance: Instance) {
    let id = id_of(site, instance);
    let access = site_access(site);
    if let Some(known) = ledger.reservation(&id) {
        // A configuration read anew may let others in.
        if known.terms.access.as_ref() != Some(&access) {
            ledger.change_reservation(&id, |reservation| reservation.terms.access = Some(access));
        }
        return;
    }
    let to = instance.to.map_or(NEVER, |to| Known::Own.wall(to));
    let from = if instance.from == chrono::NaiveDateTime::MIN {
        Wall(0)
    } else {
        Known::Own.wall(instance.from)
    };
    let Some(mut reservation) = reservation(ledger, site, &id, access, (from, to)) else {
        return;
    };
    let Some(shares) = shares(ledger, site, &reservation) else {
        return;
    };
    reservation.occurrences[0].shares = shares.clone();
    ledger.add_reservation(reservation);
    ledger.happen_to_reservation(&id, Happened::Submitted("configuration".into()));
    ledger.happen_to_reservation(&id, Happened::Confirmed(vec![shares]));
}

fn site_access(site: &ReservationConfig) -> SiteAccess {
    let mut access = site.access.clone();
    access.groups = site
        .groups
        .iter()
        .filter_map(|name| user::group_number(name))
        .collect();
    SiteAccess {
        access,
        by_name: site.by_name,
        owner_preempts: site.owner_preempts,
    }
}

fn reservation(
    ledger: &Ledger,
    site: &ReservationConfig,
    id: &str,
    access: SiteAccess,
    (from, to): (Wall, Wall),
) -> Option<Reservation> {
    let own = user::own();
    let resources = site
        .select
        .iter()
        .map(|select| ("select".to_string(), select.clone()))
        .collect();
    let asked = Reserving {
        name: Some(site.name.clone()),
        resources,
        ..Reserving::default()
    };
    let length = Span::seconds(to.0.saturating_sub(from.0).min(10 * 366 * 86_400));
    let by = format!("{}@{}", own.name, ledger.setup.host);
    let terms = asked.terms(&by, length, &ledger.setup.resources);
    let terms = terms
        .inspect_err(|refusal| tracing::warn!("[[reservation]] {id}: {refusal}"))
        .ok()?;
    Some(Reservation {
        id: id.to_string(),
        owner: crate::model::job::Owner {
            user: own.name,
            uid: own.uid,
            gid: own.gid,
        },
        submit_host: ledger.setup.host.clone(),
        terms: crate::model::reservation::Terms {
            access: Some(access),
            whole: !site.nodes.is_empty(),
            ..terms
        },
        occurrences: vec![Occurrence {
            from,
            to,
            shares: Vec::new(),
        }],
        current: 0,
        state: State::Unconfirmed,
        lost: Vec::new(),
        ctime: ledger.now,
        mtime: ledger.now,
    })
}

fn shares(
    ledger: &Ledger,
    site: &ReservationConfig,
    reservation: &Reservation,
) -> Option<Vec<Share>> {
    match site.nodes.is_empty() {
        true => find(ledger, reservation, reservation.occurrence()).ok(),
        false => reservation_window::whole(ledger.cluster(), &site.nodes).ok(),
    }
}

/// Tells the scheduler what of the calendar lies ahead.
fn tell_site_time(ledger: &mut Ledger) {
    let clock = ledger.clock().table().clone();
    let config = &ledger.setup.config;
    let moment = |civil| -> Time { clock.time(Known::Own.wall(civil)) };
    let mut dedicated: Vec<(Time, Time)> = config
        .dedicated
        .iter()
        .map(|time| (moment(time.from), moment(time.to)))
        .filter(|(_, to)| *to > ledger.now)
        .collect();
    dedicated.sort_unstable();
    let dedicated = (!config.dedicated.is_empty()).then_some(dedicated);
    let prime = config
        .primetime
        .as_ref()
        .zip(Known::Own.civil(ledger.wall()))
        .map(|(hours, now)| {
            let (is_on, until) = hours.at(now);
            Prime {
                is_on,
                until: moment(until),
                may_cross: hours.may_cross,
            }
        });
    ledger.set_site_time(SiteTime { dedicated, prime });
}

/// When there is something to look at again.
pub(super) fn next(ledger: &Ledger) -> Option<Time> {
    let config = &ledger.setup.config;
    let change = ledger.cluster().site_time().next_change(ledger.now);
    let pace = (!config.reservations.is_empty()).then(|| ledger.now + PACE);
    change.into_iter().chain(pace).min()
}
