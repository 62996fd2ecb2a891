//! schedd's own clock: never backwards, unmoved by steps of the wall clock.
//!
//! It follows the time since boot, which no step touches. What the wall clock does beside it is
//! kept in a [`ClockTable`]: a step becomes a new row there, so that moments recorded before it
//! are still shown as watches showed them.

use crate::model::time::ClockTable;
pub use crate::model::time::Saved;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::model::time::Wall;

/// The three clocks of the machine, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time since boot.
    pub since_boot: Span,
    /// The wall clock, in milliseconds since the Unix epoch.
    pub wall: i64,
    /// Which boot.
    pub boot: String,
}

/// A wall clock that differs by less than this from what is expected has not been stepped.
const STEP: i64 = 1000;

/// The clock.
#[derive(Clone, Debug)]
pub struct Clock {
    anchor: Saved,
    table: ClockTable,
}

impl Clock {
    /// The clock of a new spool: it starts as the wall clock stands.
    pub fn new(reading: &Reading) -> Clock {
        let time = Time(reading.wall);
        Clock {
            anchor: saved(time, reading),
            table: ClockTable::new(vec![(time, 0)]),
        }
    }

    /// The clock of a spool that has been used: within one boot it has run on; after another boot
    /// the wall clock tells how long the machine was off, but never that time ran backwards.
    pub fn resume(saved_last: Saved, table: ClockTable, reading: &Reading) -> Clock {
        let elsewise = || saved_last.time.max(Time(reading.wall - table.offset()));
        let time = saved_last
            .at(reading.since_boot, &reading.boot)
            .unwrap_or_else(elsewise);
        Clock {
            anchor: saved(time, reading),
            table,
        }
    }

    /// The moment of a reading.
    pub fn now(&self, reading: &Reading) -> Time {
        self.anchor.time + Span((reading.since_boot.0 - self.anchor.since_boot.0).max(0))
    }

    /// Notices a step of the wall clock: since when, and by how much it is now ahead. The caller
    /// makes it durable.
    pub fn observe(&mut self, reading: &Reading) -> Option<(Time, i64)> {
        let now = self.now(reading);
        let ahead = reading.wall - now.0;
        if (ahead - self.table.offset()).abs() < STEP {
            return None;
        }
        self.table.step(now, ahead);
        Some((now, ahead))
    }

    /// What to keep in the spool.
    pub fn save(&self, reading: &Reading) -> Saved {
        saved(self.now(reading), reading)
    }

    /// How the wall clock stood when.
    pub fn table(&self) -> &ClockTable {
        &self.table
    }

    /// What a watch showed at `time`.
    pub fn wall(&self, time: Time) -> Wall {
        self.table.wall(time)
    }
}

fn saved(time: Time, reading: &Reading) -> Saved {
    Saved {
        time,
        since_boot: reading.since_boot,
        boot: reading.boot.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(since_boot: i64, wall: i64) -> Reading {
        Reading {
            since_boot: Span(since_boot),
            wall,
            boot: "b1".into(),
        }
    }

    #[test]
    fn steps_of_the_wall_clock_are_absorbed_in_both_directions() {
        let mut clock = Clock::new(&reading(0, 1_000_000));
        assert_eq!(
            clock.observe(&reading(500, 1_000_900)),
            None,
            "a drift is no step"
        );
        let forward = reading(1_000, 1_001_000 + 3_600_000);
        assert_eq!(
            clock.now(&forward),
            Time(1_001_000),
            "an hour forward is no hour waited"
        );
        assert_eq!(clock.observe(&forward), Some((Time(1_001_000), 3_600_000)));
        let back = reading(2_000, 1_002_000 - 3_600_000);
        assert_eq!(clock.now(&back), Time(1_002_000));
        assert_eq!(clock.observe(&back), Some((Time(1_002_000), -3_600_000)));
        assert_eq!(clock.observe(&back), None, "a step is noticed once");
        assert_eq!(clock.wall(Time(1_001_500)), Wall(1_001_500 / 1000 + 3600));
    }

    #[test]
    fn a_restart_goes_on_and_a_reboot_never_goes_back() {
        let clock = Clock::new(&reading(5_000, 1_000_000));
        let last = clock.save(&reading(6_000, 1_001_000));
        let again = |reading: &Reading| {
            Clock::resume(last.clone(), clock.table().clone(), reading).now(reading)
        };
        assert_eq!(again(&reading(9_000, 77)), Time(1_004_000));
        let rebooted = |wall| Reading {
            since_boot: Span(100),
            wall,
            boot: "b2".into(),
        };
        assert_eq!(again(&rebooted(1_500_000)), Time(1_500_000));
        assert_eq!(again(&rebooted(10)), Time(1_001_000));
    }
}
