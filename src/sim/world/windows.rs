//! `[[reservation]]`, `[[dedicated]]` and `[primetime]` in a world: made ahead and shown to the
//! scheduler as schedd does it.

use super::{World, wall};
use crate::config::{ReservationConfig, Times};
use crate::model::job::{Job, Share};
use crate::model::job_id::JobId;
use crate::model::policy::site_time::{Prime, SiteTime};
use crate::model::reservation::recurrence::{Instance, Zone};
use crate::model::reservation::request::Reserving;
use crate::model::reservation::window::{Access, Window};
use crate::model::time::{Span, Time};
use crate::model::trigger::{Moment, Trigger};
use crate::sched::backfill::reservation_window::{self, Wanted};
use crate::sched::view::change::Change;
use crate::sys::zone::Known;
use chrono::NaiveDateTime;
use std::borrow::Cow;
use std::collections::BTreeSet;

impl World {
    /// Brings what is set aside, and the hours of the site, up to this moment.
    pub(super) fn attend_windows(&mut self) {
        self.tell_site_time();
        for id in self.over() {
            self.want_cycle(Trigger::Reservation(id.clone()));
            self.state.make(&Change::NoWindow(Cow::Owned(id)));
        }
        let Some(now) = Known::Own.civil(wall(self.now)) else {
            return;
        };
        for site in self.config.reservations.clone() {
            for instance in instances(&site, now) {
                self.open(&site, instance);
            }
        }
    }

    /// When a window is over next.
    pub(super) fn next_close(&self) -> Option<Time> {
        self.state
            .windows()
            .map(|window| window.to)
            .filter(|to| *to != Time::NEVER)
            .min()
    }

    fn over(&self) -> Vec<String> {
        self.state
            .windows()
            .filter(|window| window.to <= self.now)
            .map(|window| window.id.clone())
            .collect()
    }

    fn tell_site_time(&mut self) {
        let dedicated = self
            .config
            .dedicated
            .iter()
            .map(|time| (moment(time.from), moment(time.to)));
        let mut dedicated: Vec<(Time, Time)> = dedicated.filter(|(_, to)| *to > self.now).collect();
        dedicated.sort_unstable();
        let prime = self
            .config
            .primetime
            .as_ref()
            .zip(Known::Own.civil(wall(self.now)))
            .map(|(hours, now)| {
                let (is_on, until) = hours.at(now);
                Prime {
                    is_on,
                    until: moment(until),
                    may_cross: hours.may_cross,
                }
            });
        let dedicated = (!self.config.dedicated.is_empty()).then_some(dedicated);
        let site_time = SiteTime { dedicated, prime };
        if *self.state.site_time() != site_time {
            self.state.make(&Change::SiteTime(Cow::Owned(site_time)));
            self.want_cycle(Trigger::Timer(Moment::Calendar));
        }
    }

    /// Sets aside what an instance asks for, if it can be had and is not there already.
    fn open(&mut self, site: &ReservationConfig, instance: Instance) {
        let id = match instance.number {
            0 => site.name.clone(),
            number => format!("{}.{number}", site.name),
        };
        if self.state.windows().any(|window| window.id == id) {
            return;
        }
        let from = if instance.from == NaiveDateTime::MIN {
            Time(0)
        } else {
            moment(instance.from)
        };
        let to = instance.to.map_or(Time::NEVER, moment);
        let Some(shares) = self.shares(site, &id, (from, to)) else {
            return;
        };
        let groups = site
            .groups
            .iter()
            .filter_map(|name| self.groups.get(name).copied())
            .collect();
        let window = Window {
            id,
            from,
            to,
            shares,
            whole: !site.nodes.is_empty(),
            access: Access {
                groups,
                ..site.access.clone()
            },
            by_name: site.by_name,
            owner_preempts: site.owner_preempts,
        };
        self.want_cycle(Trigger::Reservation(window.id.clone()));
        self.state.make(&Change::Window(Cow::Owned(window)));
    }

    fn shares(
        &self,
        site: &ReservationConfig,
        id: &str,
        (from, to): (Time, Time),
    ) -> Option<Vec<Share>> {
        let Some(select) = &site.select else {
            return reservation_window::whole(&self.state, &site.nodes).ok();
        };
        let resources = vec![("select".to_string(), select.clone())];
        let asked = Reserving {
            name: Some(site.name.clone()),
            resources,
            ..Reserving::default()
        };
        let length = if to == Time::NEVER {
            LONG
        } else {
            to.since(from)
        };
        let terms = asked.terms("operator@sim", length, &self.resources).ok()?;
        let wanted = Wanted {
            request: &terms.request,
            from: from.max(self.now),
            to,
            except: id,
        };
        reservation_window::place(&self.state, &wanted, &self.insiders(), self.now).ok()
    }

    /// The jobs that run in what is set aside.
    pub(super) fn insiders(&self) -> BTreeSet<JobId> {
        self.jobs
            .values()
            .filter(|job| self.is_inside(job))
            .map(|job| job.id)
            .collect()
    }

    fn is_inside(&self, job: &Job) -> bool {
        job.life.open_run().is_some()
            && self
                .state
                .reservation_of(job, self.policy.default_walltime, self.now)
                .is_some()
    }
}

/// As long as what never ends.
const LONG: Span = Span::seconds(10 * 366 * 86_400);

fn instances(site: &ReservationConfig, now: NaiveDateTime) -> Vec<Instance> {
    match &site.times {
        Times::Standing(standing) => standing.instances(now),
        Times::Once { from, to } if *to > now => vec![Instance {
            number: 0,
            from: *from,
            to: Some(*to),
        }],
        Times::Once { .. } => Vec::new(),
    }
}

fn moment(civil: NaiveDateTime) -> Time {
    super::time(Known::Own.wall(civil))
}
