//! Times and durations as people say them: `12m`, `1h 5m`, `in 12m`, `3d ago`.

use crate::model::time::{Span, Wall};

/// The units, largest first, in seconds.
const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];

/// A duration in at most two units: `45s`, `2m 5s`, `1h 5m`, `3d 4h`. The rest is cut off.
pub fn duration(span: Span) -> String {
    let seconds = span.as_seconds().max(0);
    let first = UNITS
        .iter()
        .position(|(unit, _)| seconds >= *unit)
        .unwrap_or(UNITS.len() - 1);
    let (unit, letter) = UNITS[first];
    let whole = format!("{}{letter}", seconds / unit);
    match UNITS.get(first + 1) {
        Some((smaller, letter)) if seconds % unit / smaller > 0 => {
            format!("{whole} {}{letter}", seconds % unit / smaller)
        }
        _ => whole,
    }
}

/// A time relative to `now`: `3m ago`, `now`, `in 2h 5m`.
pub fn relative(at: Wall, now: Wall) -> String {
    let seconds = at.0.saturating_sub(now.0);
    match seconds {
        0 => "now".to_string(),
        1.. => format!("in {}", duration(Span::seconds(seconds))),
        _ => format!("{} ago", duration(Span::seconds(seconds.saturating_neg()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (125, "2m 5s"),
            (3_900, "1h 5m"),
            (86_400, "1d"),
            (86_400 + 60, "1d"),
            (100_000, "1d 3h"),
        ] {
            assert_eq!(duration(Span::seconds(seconds)), text);
        }
    }

    #[test]
    fn times_are_in_the_past_or_future() {
        let now = Wall(1_000);
        assert_eq!(relative(Wall(1_000), now), "now");
        assert_eq!(relative(Wall(1_090), now), "in 1m 30s");
        assert_eq!(relative(Wall(940), now), "1m ago");
    }
}
