//! Time zones: the zone of this host and UTC.

use crate::model::reservation::recurrence::Zone;
use crate::model::time::Wall;
use chrono::{DateTime, Local, NaiveDateTime, TimeDelta, TimeZone, Utc};
use std::path::Path;

/// The names of UTC.
const UTC: [&str; 6] = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal"];

/// A supported time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownZone {
    /// The zone of this host.
    Own,
    /// UTC.
    Utc,
}

/// The zone with this name; None if the zone is not supported.
pub fn named(name: &str) -> Option<KnownZone> {
    let name = name.trim_start_matches(':');
    if UTC.iter().any(|utc| utc.eq_ignore_ascii_case(name)) {
        return Some(KnownZone::Utc);
    }
    (own_name() == name).then_some(KnownZone::Own)
}

/// The name of this host's zone: from the variable `TZ`, else from the link `/etc/localtime`, else
/// UTC.
pub fn own_name() -> String {
    match super::env::text("TZ") {
        Some(name) if !name.is_empty() => name.trim_start_matches(':').to_string(),
        _ => linked_name().unwrap_or_else(|| "UTC".to_string()),
    }
}

fn linked_name() -> Option<String> {
    let target = std::fs::canonicalize("/etc/localtime").ok()?;
    let name = target.strip_prefix(Path::new("/usr/share/zoneinfo")).ok()?;
    Some(name.to_string_lossy().into_owned())
}

impl Zone for KnownZone {
    fn wall(&self, civil: NaiveDateTime) -> Wall {
        match self {
            KnownZone::Own => moment(civil, &Local),
            KnownZone::Utc => moment(civil, &Utc),
        }
    }

    fn civil(&self, wall: Wall) -> Option<NaiveDateTime> {
        let at = DateTime::from_timestamp(wall.0, 0)?;
        Some(match self {
            KnownZone::Own => at.with_timezone(&Local).naive_local(),
            KnownZone::Utc => at.naive_utc(),
        })
    }
}

fn moment<Z: TimeZone>(civil: NaiveDateTime, zone: &Z) -> Wall {
    let mut found = zone.from_local_datetime(&civil).earliest();
    if found.is_none() {
        // If the clock skips this time in spring, use the time one hour later.
        let later = civil.checked_add_signed(TimeDelta::hours(1));
        found = later.and_then(|later| zone.from_local_datetime(&later).earliest());
    }
    Wall(found.map_or_else(|| civil.and_utc().timestamp(), |at| at.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_and_the_zone_of_this_host_are_supported() {
        assert_eq!(named("Etc/UTC"), Some(KnownZone::Utc));
        assert_eq!(named("Nowhere/Atlantis"), None);
        assert!(named(&own_name()).is_some());
    }

    #[test]
    fn conversion_to_civil_time_can_be_reversed() {
        for zone in [KnownZone::Own, KnownZone::Utc] {
            assert_eq!(
                zone.civil(Wall(1_795_000_000))
                    .map(|civil| zone.wall(civil)),
                Some(Wall(1_795_000_000))
            );
        }
    }
}
