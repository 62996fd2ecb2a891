//! Decay of usage over time.
//!
//! The decayed usage is computed from raw usage intervals. With steps and windows, intervals are
//! split at the boundaries of periods (half-lives or windows). The first period begins at [`Time`]
//! 0, the Unix epoch on schedd's clock; a restart does not move the boundaries.

use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;
use std::ops::RangeInclusive;

named! {
    /// Kind of decay (X7).
    DecayKind {
        /// Continuous exponential decay with a half-life.
        Continuous = "continuous",
        /// Halving at the end of every half-life (I4, F13).
        Step = "step",
        /// Windows of time. Each weighs a factor times as much as the next younger window; only the
        /// newest windows count (M13).
        Window = "window",
        /// No decay.
        None = "none",
    }
}

/// Decay with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// No decay.
    None,
    /// Halving at the end of every period.
    Step {
        /// Half-life and length of a period, above zero.
        half_life: Span,
    },
    /// Continuous exponential decay.
    Continuous {
        /// Half-life, above zero.
        half_life: Span,
    },
    /// Windows of time, each with a weight.
    Window {
        /// Length of a window, above zero.
        length: Span,
        /// Number of windows that count, including the present one.
        count: u32,
        /// Weight of a window divided by the weight of the next younger window.
        factor: f64,
    },
}

impl Decay {
    /// One week.
    pub const WEEK: Span = Span::seconds(7 * 24 * 3600);
}

impl Default for Decay {
    fn default() -> Decay {
        Decay::Continuous {
            half_life: Decay::WEEK,
        }
    }
}

/// Usage at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsageInterval {
    /// Start.
    pub from: Time,
    /// End; the interval has no usage if `to` is not after `from`.
    pub to: Time,
    /// Usage per second.
    pub rate: f64,
}

/// Number of half-lives after which usage is negligible at any displayed precision.
const HALVES: u32 = 64;

/// Consecutive periods: the last `count` periods count, and each weighs `factor` times as much as
/// the next younger period.
#[derive(Clone, Copy)]
struct Periods {
    length: Span,
    count: u32,
    factor: f64,
}

impl Periods {
    /// Returns the number of the period that contains a time.
    fn of(self, time: Time) -> i64 {
        time.0.div_euclid(self.length.0.max(1))
    }

    /// Returns the periods that count at `now`.
    fn counted(self, now: Time) -> RangeInclusive<i64> {
        let current = self.of(now);
        current
            .saturating_sub(i64::from(self.count))
            .saturating_add(1)..=current
    }

    fn weight(self, period: i64, now: Time) -> f64 {
        let age = self.of(now).saturating_sub(period);
        if age < 0 || age >= i64::from(self.count) {
            0.0
        } else {
            self.factor.powi(age as i32)
        }
    }

    /// Divides the usage of an interval among the periods that count at `now`, without decay.
    fn pieces(self, interval: UsageInterval, now: Time) -> impl Iterator<Item = (i64, f64)> {
        let first = self.of(interval.from).max(*self.counted(now).start());
        let last = if interval.to > interval.from {
            self.of(interval.to)
        } else {
            first - 1
        };
        (first..=last).map(move |period| {
            let begin = Time(period.saturating_mul(self.length.0));
            let (from, to) = (
                interval.from.max(begin),
                interval.to.min(begin + self.length),
            );
            (period, interval.rate * seconds(to.since(from)))
        })
    }
}

impl Decay {
    /// Returns the decayed usage at `now`, in the unit of the rate times seconds. Usage after `now`
    /// does not count.
    pub fn left(self, interval: UsageInterval, now: Time) -> f64 {
        let interval = UsageInterval {
            to: interval.to.min(now),
            ..interval
        };
        let length = seconds(interval.to.since(interval.from));
        match self {
            Decay::None => interval.rate * length,
            // Integral of rate * 2^-((now - t) / half_life).
            Decay::Continuous { half_life } if length > 0.0 => {
                let speed = LN_2 / seconds(half_life);
                let latest = (-speed * seconds(now.since(interval.to))).exp();
                interval.rate / speed * latest * -(-speed * length).exp_m1()
            }
            Decay::Continuous { .. } => 0.0,
            Decay::Step { .. } | Decay::Window { .. } => {
                let periods = self.periods();
                total(
                    periods
                        .pieces(interval, now)
                        .map(|(period, amount)| amount * periods.weight(period, now)),
                )
            }
        }
    }

    /// Returns the decayed usage at `now` divided by the decayed usage at `then`, if no usage is
    /// added in between. None with windows, because this quotient depends on when the usage
    /// occurred.
    pub fn part(self, then: Time, now: Time) -> Option<f64> {
        match self {
            Decay::None => Some(1.0),
            Decay::Continuous { half_life } => {
                Some((-LN_2 / seconds(half_life) * seconds(now.since(then))).exp())
            }
            Decay::Step { .. } => {
                let periods = self.periods();
                Some(
                    periods.factor.powi(
                        periods
                            .of(now)
                            .saturating_sub(periods.of(then))
                            .clamp(0, 9999) as i32,
                    ),
                )
            }
            Decay::Window { .. } => None,
        }
    }

    /// Returns the number of each window that overlaps the interval and counts at `now`, and the
    /// usage in the window, without decay.
    pub fn windows(self, interval: UsageInterval, now: Time) -> impl Iterator<Item = (i64, f64)> {
        self.periods().pieces(
            UsageInterval {
                to: interval.to.min(now),
                ..interval
            },
            now,
        )
    }

    /// Returns the weight at `now` of the window with this number; 0 if the window does not count.
    pub fn weight(self, window: i64, now: Time) -> f64 {
        self.periods().weight(window, now)
    }

    /// Returns the time for which usage counts; None if usage counts forever.
    pub fn counts_for(self) -> Option<Span> {
        match self {
            Decay::None => None,
            Decay::Step { half_life } | Decay::Continuous { half_life } => {
                Some(times(half_life, HALVES))
            }
            Decay::Window { length, count, .. } => Some(times(length, count)),
        }
    }

    fn periods(self) -> Periods {
        match self {
            Decay::Step { half_life } => Periods {
                length: half_life,
                count: HALVES,
                factor: 0.5,
            },
            Decay::Window {
                length,
                count,
                factor,
            } => Periods {
                length,
                count,
                factor,
            },
            Decay::None | Decay::Continuous { .. } => Periods {
                length: Span(i64::MAX),
                count: u32::MAX,
                factor: 1.0,
            },
        }
    }
}

/// Returns the sum of amounts; 0 without amounts. `Iterator::sum` would return -0, which is
/// displayed with a minus sign.
pub fn total(amounts: impl Iterator<Item = f64>) -> f64 {
    amounts.fold(0.0, |sum, amount| sum + amount)
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1000.0
}

fn times(span: Span, count: u32) -> Span {
    Span(span.0.saturating_mul(i64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    /// A negative zero would be displayed as -0.
    #[test]
    fn no_usage_is_zero_without_a_sign() {
        let window = Decay::Window {
            length: Span::seconds(HOUR),
            count: 2,
            factor: 0.5,
        };
        for decay in [
            Decay::None,
            Decay::default(),
            Decay::Step {
                half_life: Decay::WEEK,
            },
            window,
        ] {
            let left = decay.left(interval(5, 5, 1.0), at(9));
            assert!(left == 0.0 && left.is_sign_positive(), "{decay:?}");
        }
        assert!(total(std::iter::empty()).is_sign_positive());
    }

    /// Creates an interval from second to second.
    fn interval(from: i64, to: i64, rate: f64) -> UsageInterval {
        UsageInterval {
            from: at(from),
            to: at(to),
            rate,
        }
    }

    fn at(second: i64) -> Time {
        Time(0) + Span::seconds(second)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    /// Creates a usage of `amount` within the last millisecond before a time.
    fn burst(second: i64, amount: f64) -> UsageInterval {
        UsageInterval {
            from: Time(at(second).0 - 1),
            to: at(second),
            rate: amount * 1000.0,
        }
    }

    #[test]
    fn i4_usage_is_halved_every_168_hours_in_one_step() {
        let step = Decay::Step {
            half_life: Decay::WEEK,
        };
        let usage = interval(0, 3600, 6000.0 / 3600.0);
        let left = |hours: i64, seconds: i64| step.left(usage, at(hours * HOUR + seconds));
        assert!(
            near(left(167, 3599), 6000.0)
                && near(left(168, 0), 3000.0)
                && near(left(336, 0), 1500.0)
        );
        let steady = Decay::default();
        assert_eq!(
            format!("{:.2}", steady.left(burst(0, 6000.0), at(84 * HOUR))),
            "4242.64"
        );
        assert!(
            near(
                Decay::None.left(interval(0, 1800, 16.0), at(9 * HOUR)),
                8.0 * 3600.0
            ),
            "16 cores for 30 min"
        );
    }

    #[test]
    fn f13_two_half_lives_leave_a_quarter() {
        let now = at(14 * 24 * HOUR);
        assert_eq!(
            format!("{:.2}", Decay::default().left(burst(0, 1000.0), now)),
            "250.00"
        );
    }

    #[test]
    fn f13_each_older_half_life_counts_half_as_much() {
        let step = Decay::Step {
            half_life: Span::seconds(100),
        };
        let bins = [(250, 100.0), (150, 243.5), (50, 8.7)];
        let left: f64 = bins
            .iter()
            .map(|&(second, amount)| step.left(burst(second, amount), at(260)))
            .sum();
        assert_eq!(format!("{left:.3}"), "223.925");
    }

    #[test]
    fn m13_the_weight_of_a_window_falls_with_age() {
        let window = Decay::Window {
            length: Span::seconds(24 * HOUR),
            count: 4,
            factor: 0.5,
        };
        let now = at(3 * 24 * HOUR + 12 * HOUR);
        let sum = |uses: [f64; 4]| -> f64 {
            let used =
                |(age, amount): (usize, f64)| burst((3 - age as i64) * 24 * HOUR + HOUR, amount);
            uses.into_iter()
                .enumerate()
                .map(used)
                .map(|interval| window.left(interval, now))
                .sum()
        };
        let (john, total) = (
            sum([60.0, 0.0, 10.0, 50.0]),
            sum([110.0, 125.0, 100.0, 150.0]),
        );
        assert_eq!(
            format!("{john:.2}/{total:.2}={:.2}", john / total * 100.0),
            "68.75/216.25=31.79"
        );
        assert_eq!(
            window.left(burst(HOUR, 7.0), at(4 * 24 * HOUR)),
            0.0,
            "the fifth window does not count"
        );
    }

    #[test]
    fn intervals_are_split_at_period_boundaries() {
        let step = Decay::Step {
            half_life: Span::seconds(100),
        };
        // 50 s in the first period, 100 s in the second, 30 s in the third, which is current.
        assert!(near(
            step.left(interval(50, 230, 2.0), at(240)),
            2.0 * (12.5 + 50.0 + 30.0)
        ));
        let steady = Decay::Continuous {
            half_life: Span::seconds(100),
        };
        let pieces: f64 = (0..1000)
            .map(|n| steady.left(interval(n, n + 1, 2.0), at(1500)))
            .sum();
        assert!(near(pieces, steady.left(interval(0, 1000, 2.0), at(1500))));
    }

    #[test]
    fn future_intervals_are_not_counted() {
        for decay in [
            Decay::None,
            Decay::default(),
            Decay::Step {
                half_life: Decay::WEEK,
            },
        ] {
            assert_eq!(
                decay.left(interval(100, 200, 1.0), at(50)),
                0.0,
                "{decay:?}"
            );
            assert!(near(
                decay.left(interval(0, 200, 1.0), at(50)),
                decay.left(interval(0, 50, 1.0), at(50))
            ));
        }
    }

    #[test]
    fn usage_counts_until_it_is_negligible() {
        let day = Span::seconds(24 * HOUR);
        let window = Decay::Window {
            length: day,
            count: 3,
            factor: 0.5,
        };
        let of = [
            Decay::None,
            Decay::Step { half_life: day },
            Decay::Continuous { half_life: day },
            window,
        ];
        assert_eq!(
            of.map(|decay| decay.counts_for().map(|span| span.0 / day.0)),
            [None, Some(64), Some(64), Some(3)]
        );
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let longest = UsageInterval {
            from: Time(i64::MIN),
            to: Time::NEVER,
            rate: 1.0,
        };
        for decay in [
            Decay::None,
            Decay::Continuous {
                half_life: Span(i64::MAX),
            },
            Decay::Step {
                half_life: Span(i64::MAX),
            },
            Decay::Step { half_life: Span(1) },
            Decay::Window {
                length: Span(i64::MAX),
                count: u32::MAX,
                factor: 1.0,
            },
        ] {
            assert!(
                decay.left(longest, Time(1_700_000_000_000)).is_finite(),
                "{decay:?}"
            );
            assert!(decay.counts_for().is_none_or(|span| span > Span(0)));
        }
    }
}
