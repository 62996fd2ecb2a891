//! schedd's clock. schedd's time never goes backwards and ignores steps of the wall clock.
//!
//! schedd's time advances with the time since boot. A [`ClockTable`] records each step of the wall
//! clock; therefore earlier times are still displayed as the wall clock showed them.

use crate::model::time::ClockTable;
pub use crate::model::time::Saved;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::model::time::Wall;

/// The clocks of the machine and its boot id, read at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time since boot.
    pub since_boot: Span,
    /// The wall clock, in milliseconds since the Unix epoch.
    pub wall: i64,
    /// The kernel's boot id.
    pub boot: String,
}

/// Minimum difference between the actual and the expected wall clock that counts as a step, in
/// milliseconds.
const MIN_STEP: i64 = 1000;

/// The server clock.
#[derive(Clone, Debug)]
pub struct Clock {
    anchor: Saved,
    table: ClockTable,
}

impl Clock {
    /// The clock of a new spool, set to the wall clock.
    pub fn new(reading: &Reading) -> Clock {
        let time = Time(reading.wall);
        Clock {
            anchor: saved(time, reading),
            table: ClockTable::new(vec![(time, 0)]),
        }
    }

    /// The clock of an existing spool. Within one boot, server time continues with the time since
    /// boot. After a reboot, server time continues from the wall clock, but never goes back.
    pub fn resume(saved_last: Saved, table: ClockTable, reading: &Reading) -> Clock {
        let after_reboot = || saved_last.time.max(Time(reading.wall - table.offset()));
        let time = saved_last
            .at(reading.since_boot, &reading.boot)
            .unwrap_or_else(after_reboot);
        Clock {
            anchor: saved(time, reading),
            table,
        }
    }

    /// Server time of a reading.
    pub fn now(&self, reading: &Reading) -> Time {
        self.anchor.time + Span((reading.since_boot.0 - self.anchor.since_boot.0).max(0))
    }

    /// Detects a step of the wall clock. Returns the current server time, and by how many
    /// milliseconds the wall clock is ahead of server time; None without a step. The caller stores
    /// both.
    pub fn observe(&mut self, reading: &Reading) -> Option<(Time, i64)> {
        let now = self.now(reading);
        let ahead = reading.wall - now.0;
        if (ahead - self.table.offset()).abs() < MIN_STEP {
            return None;
        }
        self.table.step(now, ahead);
        Some((now, ahead))
    }

    /// The state of the clock to store in the spool.
    pub fn save(&self, reading: &Reading) -> Saved {
        saved(self.now(reading), reading)
    }

    /// The steps of the wall clock.
    pub fn table(&self) -> &ClockTable {
        &self.table
    }

    /// Wall-clock time at `time`.
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
    fn the_server_clock_ignores_steps_of_the_wall_clock_in_both_directions() {
        let mut clock = Clock::new(&reading(0, 1_000_000));
        assert_eq!(
            clock.observe(&reading(500, 1_000_900)),
            None,
            "a small drift is not a step"
        );
        let forward = reading(1_000, 1_001_000 + 3_600_000);
        assert_eq!(
            clock.now(&forward),
            Time(1_001_000),
            "the server clock ignores the step"
        );
        assert_eq!(clock.observe(&forward), Some((Time(1_001_000), 3_600_000)));
        let back = reading(2_000, 1_002_000 - 3_600_000);
        assert_eq!(clock.now(&back), Time(1_002_000));
        assert_eq!(clock.observe(&back), Some((Time(1_002_000), -3_600_000)));
        assert_eq!(clock.observe(&back), None, "a step is reported once");
        assert_eq!(clock.wall(Time(1_001_500)), Wall(1_001_500 / 1000 + 3600));
    }

    #[test]
    fn time_continues_after_a_restart_and_never_goes_back_after_a_reboot() {
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
