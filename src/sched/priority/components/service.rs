//! The service of a job so far, and its nearness to a target (M16, M18, M19).

use crate::model::policy::components::Goal;
use crate::model::time::Span;

/// Minutes of waiting, the expansion factor, and how many jobs of lower priority have started
/// before the job.
pub fn values(waited: Span, walltime: Span, least: Span, bypassed: u32) -> [f64; 3] {
    [
        minutes(waited),
        xfactor(waited, walltime, least),
        f64::from(bypassed),
    ]
}

fn minutes(span: Span) -> f64 {
    span.0 as f64 / 60_000.0
}

/// M16: (wait + walltime) / walltime; the walltime counts as at least `least`.
fn xfactor(waited: Span, walltime: Span, least: Span) -> f64 {
    1.0 + waited.0 as f64 / walltime.max(least).max(Span::seconds(1)).0 as f64
}

/// The maximum of nearness (M19).
const MOST: f64 = 1e6;

/// M19: nearness of waiting minutes and expansion factor to their targets; maximal once the target
/// is reached, 0 without a target.
pub fn nearness(goal: &Goal, service: &[f64; 3]) -> [f64; 2] {
    let [waited, xfactor, _] = *service;
    let second = minutes(Span::seconds(1));
    [
        goal.queue_time
            .map_or(0.0, |target| near((minutes(target) - waited).max(second))),
        goal.xfactor.map_or(0.0, |target| near(target - xfactor)),
    ]
}

/// The inverse of the square of a distance.
fn near(distance: f64) -> f64 {
    if distance <= 0.0 {
        MOST
    } else {
        (distance * distance).recip().min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes_of(minutes: i64) -> Span {
        Span::seconds(60 * minutes)
    }

    /// M16.
    #[test]
    fn the_expansion_factor_is_wait_plus_walltime_over_walltime() {
        assert_eq!(xfactor(minutes_of(480), minutes_of(60), Span(0)), 9.0);
        assert_eq!(
            xfactor(minutes_of(10), minutes_of(1), minutes_of(10)),
            2.0,
            "short jobs count as longer ones"
        );
        assert_eq!(xfactor(minutes_of(1), Span(0), Span(0)), 61.0);
    }

    /// M14.
    #[test]
    fn waiting_counts_in_minutes() {
        assert_eq!(
            values(Span::seconds(90), minutes_of(1), Span(0), 3),
            [1.5, 2.5, 3.0]
        );
    }

    /// M19.
    #[test]
    fn the_nearer_the_target_the_more_it_counts() {
        let goal = Goal {
            queue_time: Some(minutes_of(60)),
            xfactor: Some(3.0),
        };
        let at = |minutes: f64, xfactor: f64| nearness(&goal, &[minutes, xfactor, 0.0]);
        assert_eq!(at(50.0, 1.0), [0.01, 0.25]);
        assert_eq!(at(58.0, 2.5), [0.25, 4.0]);
        // The minimum distance is one second of time and a thousandth of the expansion factor.
        assert_eq!(at(60.0, 3.0).map(f64::round), [3600.0, 1e6]);
        assert_eq!(
            at(600.0, 30.0).map(f64::round),
            [3600.0, 1e6],
            "it stays maximal past the target"
        );
        assert_eq!(nearness(&Goal::default(), &[60.0, 3.0, 0.0]), [0.0, 0.0]);
    }
}
