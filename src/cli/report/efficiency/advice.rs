//! One line of advice for the next request.
//!
//! The recommended memory is a fifth above the amount used; the recommended walltime is one and a
//! half times the time used. Without considerable savings there is no advice.

use super::Use;
use crate::model::time::Span;

const MB: u64 = 1 << 10;
const GB: u64 = 1 << 20;
/// A smaller request is recommended only below this fraction of the present one.
const MUCH_LESS: f64 = 0.75;
/// Requests up to this amount of memory, in kilobytes, get no advice.
const LITTLE: u64 = 256 * MB;
/// From this fraction on, a resource counts as exhausted.
const ALL: f64 = 0.98;

/// The requested and the highest used amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Processors: requested, and busy on average.
    pub cores: (u32, f64),
    /// Memory in kilobytes: requested and used.
    pub mem: Option<(u64, u64)>,
    /// Time: requested and used.
    pub time: Option<(Span, Span)>,
}

/// The larger of the amounts requested, and of the amounts used.
fn most_known<T: Ord>(one: Option<(T, T)>, other: Option<(T, T)>) -> Option<(T, T)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.max(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

impl Peak {
    /// The request and the use of one job.
    pub fn of(used: &Use) -> Peak {
        let busy = used.used.cput.0 as f64 / used.used.walltime.0.max(1) as f64;
        // A run of less than a second gives no evidence about the use of processors.
        let cores = if used.used.walltime >= Span::seconds(1) {
            used.cores
        } else {
            0
        };
        Peak {
            cores: (cores, busy),
            mem: used.asked.mem_kb.map(|asked| (asked, used.used.mem_kb)),
            time: used.asked.walltime.map(|asked| (asked, used.used.walltime)),
        }
    }

    /// The maximum of both, for each amount.
    pub fn and(self, other: Peak) -> Peak {
        Peak {
            cores: (
                self.cores.0.max(other.cores.0),
                self.cores.1.max(other.cores.1),
            ),
            mem: most_known(self.mem, other.mem),
            time: most_known(self.time, other.time),
        }
    }
}

/// A recommendation for the next request; None if the present one is adequate.
pub fn advice(peak: &Peak) -> Option<String> {
    let short = [short_of_memory(peak), short_of_time(peak)];
    let mut sentences: Vec<String> = short.into_iter().flatten().collect();
    let less = [less_memory(peak), less_time(peak), fewer_processors(peak)];
    let less: Vec<String> = less.into_iter().flatten().collect();
    if !less.is_empty() {
        sentences.push(format!("Ask for {}.", less.join(", ")));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn less_memory(peak: &Peak) -> Option<String> {
    let (asked, used) = peak
        .mem
        .filter(|(asked, used)| *used > 0 && *asked > LITTLE)?;
    let wanted = used.saturating_add(used / 5);
    let step = if wanted <= GB { 64 * MB } else { GB };
    let wanted = wanted.div_ceil(step).saturating_mul(step);
    (wanted as f64 <= MUCH_LESS * asked as f64)
        .then(|| format!("mem={} instead of {}", size(wanted), size(asked)))
}

fn less_time(peak: &Peak) -> Option<String> {
    let (asked, used) = peak.time?;
    let wanted = used
        .as_seconds()
        .saturating_add(used.as_seconds() / 2)
        .max(1);
    let step = match wanted {
        ..=600 => 60,
        601..=7200 => 600,
        _ => 3600,
    };
    let wanted = Span::seconds(wanted.saturating_add(step - 1) / step * step);
    (wanted.0 as f64 <= MUCH_LESS * asked.0 as f64)
        .then(|| format!("walltime={} instead of {}", clock(wanted), clock(asked)))
}

fn fewer_processors(peak: &Peak) -> Option<String> {
    let (asked, busy) = peak.cores;
    let wanted = (busy - 0.1).ceil().max(1.0);
    (wanted <= MUCH_LESS * f64::from(asked))
        .then(|| format!("ncpus={wanted} instead of {asked} (used {busy:.1})"))
}

fn short_of_memory(peak: &Peak) -> Option<String> {
    let (asked, used) = peak.mem?;
    (used as f64 >= ALL * asked as f64)
        .then(|| format!("All of mem={} was used: ask for more.", size(asked)))
}

fn short_of_time(peak: &Peak) -> Option<String> {
    let (asked, used) = peak.time?;
    (used.0 as f64 >= ALL * asked.0 as f64)
        .then(|| format!("All of walltime={} was used: ask for more.", clock(asked)))
}

/// A time without the leading zero of the hours, as users write it.
fn clock(span: Span) -> String {
    let text = span.to_string();
    text.strip_prefix('0').unwrap_or(&text).to_string()
}

/// A size in the largest unit that leaves a whole number; otherwise rounded to megabytes above 100
/// MB.
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

    fn said(cores: u32, hours: f64, cput: f64, mem_gb: f64, asked: (u64, i64)) -> String {
        advice(&Peak::of(&used(cores, hours, cput, mem_gb, asked))).unwrap_or_default()
    }

    /// Rule P11.
    #[test]
    fn advice_leaves_room_and_is_given_only_where_it_pays() {
        assert_eq!(said(8, 8.0, 60.0, 50.0, (64, 12)), "", "all well asked for");
        assert_eq!(
            said(8, 8.0, 24.0, 50.0, (64, 12)),
            "Ask for ncpus=3 instead of 8 (used 3.0)."
        );
        assert_eq!(
            said(8, 8.0, 0.8, 50.0, (64, 12)),
            "Ask for ncpus=1 instead of 8 (used 0.1)."
        );
        assert_eq!(
            said(1, 8.0, 0.1, 0.05, (64, 12)),
            "Ask for mem=64mb instead of 64gb."
        );
        assert_eq!(
            said(1, 8.0, 8.0, 39.5, (64, 12)),
            "Ask for mem=48gb instead of 64gb."
        );
        assert_eq!(said(1, 8.0, 8.0, 40.5, (64, 12)), "");
        assert_eq!(
            said(1, 0.01, 0.01, 40.5, (64, 12)),
            "Ask for walltime=0:01:00 instead of 12:00:00."
        );
        assert_eq!(
            said(1, 1.0, 1.0, 40.5, (64, 100)),
            "Ask for walltime=1:30:00 instead of 100:00:00."
        );
        let short = "All of mem=64gb was used: ask for more. All of walltime=12:00:00 was used: ask for more.";
        assert_eq!(said(1, 12.0, 12.0, 64.0, (64, 12)), short);
        assert_eq!(
            said(4, 0.0001, 0.0, 0.0, (64, 1)),
            "Ask for walltime=0:01:00 instead of 1:00:00."
        );
    }

    #[test]
    fn many_are_advised_by_those_that_used_most() {
        let (a, b) = (
            Peak::of(&used(8, 1.0, 1.0, 4.5, (64, 12))),
            Peak::of(&used(8, 7.0, 56.0, 1.0, (64, 12))),
        );
        assert_eq!(
            advice(&a.and(b)).unwrap(),
            "Ask for mem=6gb instead of 64gb."
        );
        assert_eq!(Peak::default().and(a).mem, a.mem);
        assert_eq!(advice(&Peak::default()), None);
    }

    #[test]
    fn sizes_are_told_in_a_unit_that_fits() {
        assert_eq!(
            [0, 5, 2 * MB, 3 * GB, 200 * MB + 7].map(size),
            ["0kb", "5kb", "2mb", "3gb", "200mb"]
        );
    }
}
