//! One line of advice for the next request.
//!
//! The recommended memory is the used memory plus a fifth; the recommended walltime is one and a
//! half times the used time. Both are rounded up. Amounts that save less than a quarter are not
//! recommended.

use super::JobEfficiency;
use crate::model::time::Span;

/// Kilobytes in a megabyte.
const MB: u64 = 1 << 10;
/// Kilobytes in a gigabyte.
const GB: u64 = 1 << 20;
/// A smaller amount is recommended only if it is at most this fraction of the requested amount.
const WORTHWHILE: f64 = 0.75;
/// Less memory is recommended only if more than this amount was requested, in kilobytes.
const SMALL_MEMORY: u64 = 256 * MB;
/// More is recommended if at least this fraction of the requested memory or walltime was used.
const EXHAUSTED: f64 = 0.98;

/// The highest requested and the highest used amounts of one or several jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Processors: allocated, and busy on average. If the number of allocated processors is 0,
    /// there is no advice on processors.
    pub cores: (u32, f64),
    /// Memory in kilobytes: requested and used.
    pub mem: Option<(u64, u64)>,
    /// Time: requested and used.
    pub time: Option<(Span, Span)>,
}

/// The larger requested and the larger used amount of two pairs.
fn maximum<T: Ord>(first: Option<(T, T)>, second: Option<(T, T)>) -> Option<(T, T)> {
    match (first, second) {
        (Some(first), Some(second)) => Some((first.0.max(second.0), first.1.max(second.1))),
        (first, second) => first.or(second),
    }
}

impl Peak {
    /// The request and the use of one job.
    pub fn of(used: &JobEfficiency) -> Peak {
        let busy = used.used.cput.0 as f64 / used.used.walltime.0.max(1) as f64;
        // A run of less than a second gives no evidence about the use of processors.
        let cores = if used.used.walltime >= Span::seconds(1) {
            used.cores
        } else {
            0
        };
        Peak {
            cores: (cores, busy),
            mem: used
                .requested
                .mem_kb
                .map(|requested| (requested, used.used.mem_kb)),
            time: used
                .requested
                .walltime
                .map(|requested| (requested, used.used.walltime)),
        }
    }

    /// The maxima of both peaks.
    pub fn merge(self, other: Peak) -> Peak {
        Peak {
            cores: (
                self.cores.0.max(other.cores.0),
                self.cores.1.max(other.cores.1),
            ),
            mem: maximum(self.mem, other.mem),
            time: maximum(self.time, other.time),
        }
    }
}

/// A recommendation for the next request; None if the past request was adequate.
pub fn advice(peak: &Peak) -> Option<String> {
    let exhausted = [short_of_memory(peak), short_of_time(peak)];
    let mut sentences: Vec<String> = exhausted.into_iter().flatten().collect();
    let less = [less_memory(peak), less_time(peak), fewer_processors(peak)];
    let less: Vec<String> = less.into_iter().flatten().collect();
    if !less.is_empty() {
        sentences.push(format!("Request {}.", less.join(", ")));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn less_memory(peak: &Peak) -> Option<String> {
    let (requested, used) = peak
        .mem
        .filter(|(requested, used)| *used > 0 && *requested > SMALL_MEMORY)?;
    let recommended = used.saturating_add(used / 5);
    let step = if recommended <= GB { 64 * MB } else { GB };
    let recommended = recommended.div_ceil(step).saturating_mul(step);
    (recommended as f64 <= WORTHWHILE * requested as f64)
        .then(|| format!("mem={} instead of {}", size(recommended), size(requested)))
}

fn less_time(peak: &Peak) -> Option<String> {
    let (requested, used) = peak.time?;
    let recommended = used
        .as_seconds()
        .saturating_add(used.as_seconds() / 2)
        .max(1);
    let step = match recommended {
        ..=600 => 60,
        601..=7200 => 600,
        _ => 3600,
    };
    let recommended = Span::seconds(recommended.saturating_add(step - 1) / step * step);
    (recommended.0 as f64 <= WORTHWHILE * requested.0 as f64).then(|| {
        format!(
            "walltime={} instead of {}",
            clock(recommended),
            clock(requested)
        )
    })
}

fn fewer_processors(peak: &Peak) -> Option<String> {
    let (requested, busy) = peak.cores;
    let recommended = (busy - 0.1).ceil().max(1.0);
    (recommended <= WORTHWHILE * f64::from(requested))
        .then(|| format!("ncpus={recommended} instead of {requested} (used {busy:.1})"))
}

fn short_of_memory(peak: &Peak) -> Option<String> {
    let (requested, used) = peak.mem?;
    (used as f64 >= EXHAUSTED * requested as f64).then(|| {
        format!(
            "At least 98% of mem={} was used: request more.",
            size(requested)
        )
    })
}

fn short_of_time(peak: &Peak) -> Option<String> {
    let (requested, used) = peak.time?;
    (used.0 as f64 >= EXHAUSTED * requested.0 as f64).then(|| {
        format!(
            "At least 98% of walltime={} was used: request more.",
            clock(requested)
        )
    })
}

/// A time without the leading zero of the hours, as users write times.
fn clock(span: Span) -> String {
    let text = span.to_string();
    text.strip_prefix('0').unwrap_or(&text).to_string()
}

/// A size in gb or mb if the number is whole; otherwise in mb (rounded) above 100 MB, else in kb.
pub fn size(kb: u64) -> String {
    match kb {
        0 => "0kb".to_string(),
        _ if kb.is_multiple_of(GB) => format!("{}gb", kb / GB),
        _ if kb.is_multiple_of(MB) => format!("{}mb", kb / MB),
        _ if kb > 100 * MB => format!("{:.0}mb", kb as f64 / MB as f64),
        _ => format!("{kb}kb"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::used;
    use super::*;

    fn advise(cores: u32, hours: f64, cput: f64, mem_gb: f64, requested: (u64, i64)) -> String {
        advice(&Peak::of(&used(cores, hours, cput, mem_gb, requested))).unwrap_or_default()
    }

    /// Rule P11.
    #[test]
    fn advice_has_a_margin_and_needs_considerable_savings() {
        assert_eq!(
            advise(8, 8.0, 60.0, 50.0, (64, 12)),
            "",
            "the request fits the usage"
        );
        assert_eq!(
            advise(8, 8.0, 24.0, 50.0, (64, 12)),
            "Request ncpus=3 instead of 8 (used 3.0)."
        );
        assert_eq!(
            advise(8, 8.0, 0.8, 50.0, (64, 12)),
            "Request ncpus=1 instead of 8 (used 0.1)."
        );
        assert_eq!(
            advise(1, 8.0, 0.1, 0.05, (64, 12)),
            "Request mem=64mb instead of 64gb."
        );
        assert_eq!(
            advise(1, 8.0, 8.0, 39.5, (64, 12)),
            "Request mem=48gb instead of 64gb."
        );
        assert_eq!(advise(1, 8.0, 8.0, 40.5, (64, 12)), "");
        assert_eq!(
            advise(1, 0.01, 0.01, 40.5, (64, 12)),
            "Request walltime=0:01:00 instead of 12:00:00."
        );
        assert_eq!(
            advise(1, 1.0, 1.0, 40.5, (64, 100)),
            "Request walltime=1:30:00 instead of 100:00:00."
        );
        let short = "At least 98% of mem=64gb was used: request more. \
                     At least 98% of walltime=12:00:00 was used: request more.";
        assert_eq!(advise(1, 12.0, 12.0, 64.0, (64, 12)), short);
        assert_eq!(
            advise(4, 0.0001, 0.0, 0.0, (64, 1)),
            "Request walltime=0:01:00 instead of 1:00:00."
        );
    }

    #[test]
    fn advice_for_many_jobs_uses_the_highest_usage() {
        let (a, b) = (
            Peak::of(&used(8, 1.0, 1.0, 4.5, (64, 12))),
            Peak::of(&used(8, 7.0, 56.0, 1.0, (64, 12))),
        );
        assert_eq!(
            advice(&a.merge(b)).unwrap(),
            "Request mem=6gb instead of 64gb."
        );
        assert_eq!(Peak::default().merge(a).mem, a.mem);
        assert_eq!(advice(&Peak::default()), None);
    }

    #[test]
    fn sizes_have_the_largest_suitable_unit() {
        assert_eq!(
            [0, 5, 2 * MB, 3 * GB, 200 * MB + 7].map(size),
            ["0kb", "5kb", "2mb", "3gb", "200mb"]
        );
    }
}
