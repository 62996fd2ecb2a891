//! The site's calendar in the configuration: dedicated time and prime time (I23), and reservations
//! (`[[reservation]]`), which are created ahead of each recurrence (M40).

use crate::config::ReservationConfig;
use crate::config::Times;
use crate::model::job::NodeShare;
use crate::model::policy::site_time::Prime;
use crate::model::policy::site_time::SiteTime;
use crate::model::reservation::Happened;
use crate::model::reservation::Occurrence;
use crate::model::reservation::Reservation;
use crate::model::reservation::ReservationState;
use crate::model::reservation::SiteAccess;
use crate::model::reservation::recurrence::Instance;
use crate::model::reservation::recurrence::Zone;
use crate::model::reservation::request::ReservationRequest;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::model::time::Wall;
use crate::sched::backfill::reservation_window;
use crate::server::outside::Accounts;
use crate::server::reservations::NEVER;
use crate::server::reservations::find_shares;
use crate::server::state::ServerState;

/// Interval of the attempts to create missing reservations, if nothing else triggers an attempt.
const RETRY_INTERVAL: Span = Span::seconds(30);

/// Creates the reservations that are due, deletes reservations that are no longer configured, and
/// updates dedicated time and prime time.
pub(crate) fn advance(server: &mut ServerState) {
    update_site_time(server);
    let configured = server.setup.config.reservations.clone();
    if configured.is_empty()
        && !server
            .reservations()
            .any(|reservation| reservation.terms.access.is_some())
    {
        return;
    }
    let now = zone(server).civil(server.wall());
    let mut wanted = Vec::new();
    for (site, now) in configured
        .iter()
        .flat_map(|site| now.map(|now| (site, now)))
    {
        let instances = match &site.times {
            Times::Standing(recurring) => recurring.instances(now),
            Times::Once { to, .. } if *to <= now => Vec::new(),
            Times::Once { from, to } => vec![Instance {
                number: 0,
                from: *from,
                to: Some(*to),
            }],
        };
        wanted.extend(instances.into_iter().map(|instance| (site, instance)));
    }
    forget_unwanted(server, &wanted);
    for (site, instance) in wanted {
        make(server, site, instance);
    }
}

fn id_of(site: &ReservationConfig, instance: Instance) -> String {
    match instance.number {
        0 => site.name.clone(),
        number => format!("{}.{number}", site.name),
    }
}

/// Deletes the site's reservations that are not among the wanted instances.
fn forget_unwanted(server: &mut ServerState, wanted: &[(&ReservationConfig, Instance)]) {
    let is_wanted = |id: &str| {
        wanted
            .iter()
            .any(|(site, instance)| id_of(site, *instance) == id)
    };
    let of_site = server
        .reservations()
        .filter(|reservation| reservation.terms.access.is_some());
    let gone = of_site.filter(|reservation| !reservation.is_over() && !is_wanted(&reservation.id));
    let gone: Vec<String> = gone.map(|reservation| reservation.id.clone()).collect();
    for id in gone {
        server.apply_reservation_event(&id, Happened::DeleteWanted("configuration".into()));
    }
}

/// Creates one instance of a configured reservation, or updates the access rules of an existing
/// one. If the nodes are not available now, a later call creates the instance.
fn make(server: &mut ServerState, site: &ReservationConfig, instance: Instance) {
    let id = id_of(site, instance);
    let access = site_access(&*server.setup.installation.accounts, site);
    if let Some(known) = server.reservation(&id) {
        // The configuration may have been reloaded with other access rules.
        if known.terms.access.as_ref() != Some(&access) {
            server.change_reservation(&id, |reservation| reservation.terms.access = Some(access));
        }
        return;
    }
    let to = instance.to.map_or(NEVER, |to| zone(server).wall(to));
    let from = if instance.from == chrono::NaiveDateTime::MIN {
        Wall(0)
    } else {
        zone(server).wall(instance.from)
    };
    let Some(mut reservation) = reservation(server, site, &id, access, (from, to)) else {
        return;
    };
    let Some(shares) = shares(server, site, &reservation) else {
        return;
    };
    reservation.occurrences[0].shares = shares.clone();
    server.add_reservation(reservation);
    server.apply_reservation_event(&id, Happened::Submitted("configuration".into()));
    server.apply_reservation_event(&id, Happened::Confirmed(vec![shares]));
}

fn site_access(accounts: &dyn Accounts, site: &ReservationConfig) -> SiteAccess {
    let mut access = site.access.clone();
    access.groups = site
        .groups
        .iter()
        .filter_map(|name| accounts.group_number(name))
        .collect();
    SiteAccess {
        access,
        by_name: site.by_name,
        owner_preempts: site.owner_preempts,
    }
}

fn reservation(
    server: &ServerState,
    site: &ReservationConfig,
    id: &str,
    access: SiteAccess,
    (from, to): (Wall, Wall),
) -> Option<Reservation> {
    let own = server.setup.installation.own.clone();
    let resources = site
        .select
        .iter()
        .map(|select| ("select".to_string(), select.clone()))
        .collect();
    let request = ReservationRequest {
        name: Some(site.name.clone()),
        resources,
        ..ReservationRequest::default()
    };
    let length = Span::seconds(to.0.saturating_sub(from.0).min(10 * 366 * 86_400));
    let by = format!("{}@{}", own.user, server.setup.host);
    let terms = request.terms(&by, length, &server.setup.resources);
    let terms = terms
        .inspect_err(|refusal| tracing::warn!("[[reservation]] {id}: {refusal}"))
        .ok()?;
    Some(Reservation {
        id: id.to_string(),
        owner: own,
        submit_host: server.setup.host.clone(),
        terms: crate::model::reservation::ReservationTerms {
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
        state: ReservationState::Unconfirmed,
        lost: Vec::new(),
        ctime: server.now,
        mtime: server.now,
    })
}

fn shares(
    server: &ServerState,
    site: &ReservationConfig,
    reservation: &Reservation,
) -> Option<Vec<NodeShare>> {
    if site.nodes.is_empty() {
        find_shares(server, reservation, reservation.occurrence()).ok()
    } else {
        reservation_window::whole(server.cluster(), &site.nodes).ok()
    }
}

/// Updates the scheduler's view of dedicated time and prime time.
fn update_site_time(server: &mut ServerState) {
    let clock = server.clock().table().clone();
    let config = &server.setup.config;
    let moment = |civil| -> Time { clock.time(zone(server).wall(civil)) };
    let mut dedicated: Vec<(Time, Time)> = config
        .dedicated
        .iter()
        .map(|time| (moment(time.from), moment(time.to)))
        .filter(|(_, to)| *to > server.now)
        .collect();
    dedicated.sort_unstable();
    let dedicated = (!config.dedicated.is_empty()).then_some(dedicated);
    let prime = config
        .primetime
        .as_ref()
        .zip(zone(server).civil(server.wall()))
        .map(|(hours, now)| {
            let (is_on, until) = hours.at(now);
            Prime {
                is_on,
                until: moment(until),
                may_cross: hours.may_cross,
            }
        });
    server.set_site_time(SiteTime { dedicated, prime });
}

/// When schedd next tries to create missing configured reservations; None if the configuration has
/// no reservations.
pub(crate) fn next_retry(server: &ServerState) -> Option<Time> {
    let reservations = &server.setup.config.reservations;
    (!reservations.is_empty()).then(|| server.now + RETRY_INTERVAL)
}

fn zone(server: &ServerState) -> &dyn Zone {
    server.setup.installation.accounts.zone()
}
