//! Axes: positions and labels of ticks.

use super::period::{formatted, round_times};

/// The steps between ticks of a time axis in seconds, each with the format of its labels.
const TIME_STEPS: [(i64, &str); 21] = [
    (1, "%H:%M:%S"),
    (5, "%H:%M:%S"),
    (15, "%H:%M:%S"),
    (30, "%H:%M:%S"),
    (60, "%H:%M"),
    (120, "%H:%M"),
    (300, "%H:%M"),
    (600, "%H:%M"),
    (900, "%H:%M"),
    (1_800, "%H:%M"),
    (3_600, "%H:%M"),
    (7_200, "%H:%M"),
    (14_400, "%H:%M"),
    (21_600, "%H:%M"),
    (43_200, "%H:%M"),
    (86_400, "%b %-d"),
    (2 * 86_400, "%b %-d"),
    (5 * 86_400, "%b %-d"),
    (10 * 86_400, "%b %-d"),
    (30 * 86_400, "%b %-d"),
    (90 * 86_400, "%Y-%m"),
];

/// The maximum number of ticks of a time axis.
const MOST_TIMES: i64 = 6;

/// A tick: its value and its label.
pub type Tick<T> = (T, String);

/// The ticks of a time axis at round local times. A label at midnight is a date.
pub fn times(from: i64, to: i64) -> Vec<Tick<i64>> {
    let length = (to - from) / 1000;
    let (last, last_format) = TIME_STEPS[TIME_STEPS.len() - 1];
    let (step, format) = TIME_STEPS
        .into_iter()
        .find(|(step, _)| length <= step * MOST_TIMES)
        .unwrap_or(((length / MOST_TIMES / last + 1) * last, last_format));
    round_times(from, to, step)
        .map(|at| {
            let is_midnight = format == "%H:%M" && formatted(at, "%H:%M") == "00:00";
            let format = if is_midnight { "%b %-d" } else { format };
            (at, formatted(at, format))
        })
        .collect()
}

/// The title of a time axis: `Local time (UTC+01:00)`, with the day if the axis shows only times
/// of day.
pub fn time_title(from: i64, to: i64) -> String {
    let zone = format!("Local time (UTC{})", formatted(from, "%:z"));
    let day = |at| formatted(at, "%Y-%m-%d");
    if day(from) == day(to) {
        format!("{zone}, {}", day(from))
    } else {
        zone
    }
}

/// The ticks of an axis from 0 to at least `largest`: the last tick is the end of the axis. All
/// ticks are whole numbers if `is_whole`.
pub fn numbers(largest: f64, is_whole: bool) -> Vec<Tick<f64>> {
    let largest = if largest > 0.0 { largest } else { 1.0 };
    let magnitude = 10f64.powf((largest / 4.0).log10().floor());
    let mut step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * magnitude)
        .into_iter()
        .find(|step| step * 4.0 >= largest * 0.999_999)
        .unwrap_or(10.0 * magnitude);
    if is_whole {
        step = step.ceil();
    }
    let count = (largest / step - 1e-6).ceil().max(1.0) as usize;
    (0..=count)
        .map(|tick| (tick as f64 * step, number(tick as f64 * step)))
        .collect()
}

/// A number with few characters: `0.5`, `20`, `1.5k`, `2M`.
pub fn number(value: f64) -> String {
    let (value, suffix) = match value {
        1_000_000.0.. => (value / 1e6, "M"),
        1_000.0.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tick_is_at_least_the_largest_value() {
        let labels = |largest, is_whole| {
            let ticks = numbers(largest, is_whole);
            assert!(ticks[ticks.len() - 1].0 >= largest && ticks.len() <= 6);
            ticks
                .into_iter()
                .map(|tick| tick.1)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(labels(16.0, true), "0 5 10 15 20");
        assert_eq!(labels(4.0, true), "0 1 2 3 4");
        assert_eq!(labels(1.0, true), "0 1");
        assert_eq!(labels(1.0, false), "0 0.25 0.5 0.75 1");
        assert_eq!(labels(0.0, false), "0 0.25 0.5 0.75 1");
        assert_eq!(labels(28_000.0, true), "0 10k 20k 30k");
        assert_eq!(labels(1.7e6, true), "0 500k 1M 1.5M 2M");
    }

    #[test]
    fn time_axes_have_few_ticks_at_round_times() {
        let from = 1_699_999_123_456;
        for seconds in [
            3,
            40,
            3_600,
            86_400,
            7 * 86_400,
            30 * 86_400,
            4_000 * 86_400,
        ] {
            let ticks = times(from, from + 1000 * seconds);
            assert!((2..=7).contains(&ticks.len()), "{seconds}: {ticks:?}");
            assert!(ticks.iter().all(|(at, _)| *at >= from));
            let labels: Vec<&str> = ticks.iter().map(|tick| &*tick.1).collect();
            assert!(
                labels.windows(2).all(|pair| pair[0] != pair[1]),
                "{labels:?}"
            );
        }
    }
}
