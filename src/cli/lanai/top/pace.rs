//! The time between two refreshes. A refresh that needs much processor time is followed by a longer
//! pause, so that the display of many changing jobs takes about 2 percent of a processor.

/// The shortest time between two refreshes, in microseconds.
const SHORTEST: u64 = 250_000;

/// The longest time for which a known change is not displayed, in microseconds.
const LONGEST: u64 = 2_000_000;

/// The time between two refreshes as a multiple of the processor time of the last refresh.
const FACTOR: u64 = 50;

/// Decides when the next refresh may begin. All times are in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefreshPace {
    /// Monotonic time and processor time of this process at the beginning of the last refresh.
    last: Option<(u64, u64)>,
}

impl RefreshPace {
    /// Records the beginning of a refresh.
    pub fn begin(&mut self, now: u64, processor_time: u64) {
        self.last = Some((now, processor_time));
    }

    /// The time at which the next refresh may begin, if this process has used `processor_time`.
    pub fn earliest(&self, processor_time: u64) -> u64 {
        let Some((begin, before)) = self.last else {
            return 0;
        };
        let used = processor_time.saturating_sub(before);
        begin.saturating_add(used.saturating_mul(FACTOR).clamp(SHORTEST, LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_refresh_is_followed_by_a_long_pause() {
        let mut pace = RefreshPace::default();
        assert_eq!(pace.earliest(7), 0);
        pace.begin(1_000_000, 300);
        assert_eq!(pace.earliest(400), 1_250_000);
        assert_eq!(pace.earliest(10_300), 1_500_000);
        assert_eq!(pace.earliest(1_000_300), 3_000_000);
    }
}
