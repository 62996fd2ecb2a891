//! The factors of the priority of a job, each from 0 to 1, and their weighted sum (F1).

use crate::model::policy::{Factors, Favor, Precedence};
use crate::model::report::priority_score::Part;
use crate::model::time::Span;
use crate::sched::view::shape::ClassKey;

/// Those of a job of a class that has not waited yet; `fair_share` and `queue` are the factors of
/// its owner and of its queue.
pub fn of(
    rule: &Precedence,
    class: &ClassKey,
    job_size: f64,
    (fair_share, queue): (f64, f64),
) -> Factors {
    Factors {
        wait_time: 0.0,
        fair_share,
        qos: qos(rule, class.who.qos.as_deref()),
        queue,
        job_size,
        user: class.user_factor,
        slowdown: 0.0,
    }
}

/// The same after a wait.
pub fn after(factors: Factors, waited: Span, walltime: Span, rule: &Precedence) -> Factors {
    Factors {
        wait_time: part(waited.0 as f64, rule.max_wait.0 as f64),
        slowdown: slowdown(waited, walltime, rule.slowdown_cap),
        ..factors
    }
}

/// Each with what it comes from and what it counts for; the job needs `nodes`.
pub fn parts(
    factors: &Factors,
    rule: &Precedence,
    class: &ClassKey,
    nodes: u64,
    waited: Span,
    walltime: Span,
) -> Vec<Part> {
    let seconds = |span: Span| format!("{} s", span.as_seconds());
    let inputs = [
        seconds(waited),
        class.who.user.clone(),
        class
            .who
            .qos
            .as_deref()
            .unwrap_or(Precedence::NORMAL)
            .to_string(),
        class.who.queue.clone(),
        counted(nodes),
        class.who.user.clone(),
        class.walltime.map_or("no walltime".to_string(), |_| {
            format!("walltime {}", seconds(walltime))
        }),
    ];
    let numbers = factors.each().into_iter().zip(rule.weights.each());
    let named = Factors::NAMES.into_iter().zip(inputs).zip(numbers);
    named
        .map(|((name, input), (factor, weight))| Part::weighed(name, input, factor, weight))
        .collect()
}

fn counted(nodes: u64) -> String {
    if nodes == 1 {
        "1 node".to_string()
    } else {
        format!("{nodes} nodes")
    }
}

fn part(of: f64, all: f64) -> f64 {
    (of / all).clamp(0.0, 1.0)
}

fn qos(rule: &Precedence, name: Option<&str>) -> f64 {
    let factor = name
        .and_then(|name| rule.qos.get(name))
        .or_else(|| rule.qos.get(Precedence::NORMAL));
    factor.copied().unwrap_or(0.0)
}

/// F6: the size factor of a job that needs so many of all nodes.
pub fn size(asked: u64, nodes: usize, favor: Favor) -> f64 {
    let (asked, nodes) = ((asked as f64).min(nodes as f64), nodes as f64);
    match favor {
        Favor::Small if nodes > 1.0 => 1.0 - part((asked - 1.0).max(0.0), nodes - 1.0),
        Favor::Small => 1.0,
        Favor::Large => part(asked, nodes.max(1.0)),
    }
}

/// 0 for a job that would have started at once, 1 from the cap on.
fn slowdown(waited: Span, walltime: Span, cap: f64) -> f64 {
    let least = Span::seconds(1).0 as f64;
    part(waited.0 as f64 / (walltime.0 as f64).max(least), cap - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;
    use crate::sched::fixture::cluster;

    const HOUR: i64 = 3600;

    /// F1: 12 h of 168 h, a share of .5, normal, queue 1, 4 of 16 nodes, 1 of its user. F7: with .2
    /// of its user.
    #[test]
    fn the_sum_is_that_of_the_text() {
        let rule = Precedence {
            weights: Factors::FLUX,
            slowdown_cap: 100.0,
            ..Precedence::default()
        };
        let scene = cluster("16 x ncpus=1").queued(1, "select=4:ncpus=1 walltime=3600");
        let class = scene
            .state
            .waiting_class(crate::model::job_id::JobId::job(1))
            .unwrap();
        let waited = Time(12 * HOUR * 1000).since(Time(0));
        let size = size(4, 16, rule.favor);
        let factors = after(
            of(&rule, class, size, (0.5, 1.0)),
            waited,
            Span::seconds(HOUR),
            &rule,
        );
        assert_eq!(format!("{:.2}", factors.weighed(&rule.weights)), "9321.43");
        assert_eq!(
            format!(
                "{:.2}",
                Factors {
                    user: 0.2,
                    ..factors
                }
                .weighed(&rule.weights)
            ),
            "8521.43"
        );
        assert_eq!(factors.weighed(&Factors::NONE), 0.0);
        assert_eq!(
            format!(
                "{:.4}",
                factors.weighed(&Factors {
                    slowdown: 99.0,
                    ..Factors::NONE
                })
            ),
            "12.0000"
        );
        let parts = parts(&factors, &rule, class, 4, waited, Span::seconds(HOUR));
        assert_eq!(
            parts.iter().filter_map(Part::product).sum::<f64>(),
            factors.weighed(&rule.weights)
        );
    }

    /// F2.
    #[test]
    fn a_wait_counts_no_more_than_the_longest() {
        assert_eq!((part(200.0, 168.0), part(84.0, 168.0)), (1.0, 0.5));
    }

    /// F4.
    #[test]
    fn who_says_nothing_of_quality_has_the_normal_one() {
        let rule = Precedence::default();
        assert_eq!(
            [Some("expedite"), None, Some("normal"), Some("standby")].map(|name| qos(&rule, name)),
            [1.0, 0.5, 0.5, 0.0]
        );
    }

    /// F6.
    #[test]
    fn large_or_small_jobs_are_favoured() {
        assert_eq!(
            (
                size(4, 16, Favor::Large),
                size(4, 16, Favor::Small),
                size(1, 16, Favor::Small),
                size(99, 16, Favor::Small)
            ),
            (0.25, 0.8, 1.0, 0.0)
        );
        assert_eq!(
            (size(1, 1, Favor::Small), size(1, 0, Favor::Large)),
            (1.0, 0.0)
        );
    }

    #[test]
    fn a_slowdown_is_counted_from_none_to_the_cap() {
        let hours = |hours: i64| Span::seconds(hours * HOUR);
        assert_eq!(
            (
                slowdown(hours(8), hours(1), 9.0),
                slowdown(hours(4), hours(1), 9.0)
            ),
            (1.0, 0.5)
        );
        assert_eq!(
            (
                slowdown(hours(0), hours(1), 9.0),
                slowdown(hours(80), hours(1), 9.0)
            ),
            (0.0, 1.0)
        );
    }
}
