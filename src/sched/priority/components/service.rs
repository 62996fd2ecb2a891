//! The service component, and the nearness of a job to its service target (M16, M18, M19).

use crate::model::policy::components::Goal;
use crate::model::time::Span;

/// The parts of the service component: eligible time in minutes, the expansion factor, and how many
/// later jobs have started before the job.
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

/// The expansion factor: (wait + walltime) / walltime. The walltime counts as at least `least`
/// (M16) and at least one second.
fn xfactor(waited: Span, walltime: Span, least: Span) -> f64 {
    1.0 + waited.0 as f64 / walltime.max(least).max(Span::seconds(1)).0 as f64
}

/// The maximum nearness (M19). The nearness of the waiting time cannot reach it, because a distance
/// in time counts as at least one second.
const MOST: f64 = 1e6;

/// The nearness of the waiting time and of the expansion factor to their targets (M19). Each of the
/// two stays at its maximum after its target is reached, and is 0 without a target.
pub fn nearness(goal: &Goal, service: &[f64; 3]) -> [f64; 2] {
    let [waited, xfactor, _] = *service;
    let second = minutes(Span::seconds(1));
    [
        goal.queue_time
            .map_or(0.0, |target| near((minutes(target) - waited).max(second))),
        goal.xfactor.map_or(0.0, |target| near(target - xfactor)),
    ]
}

/// The nearness at a distance: 1 / distance², at most [`MOST`].
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
            "a walltime below the minimum counts as the minimum"
        );
        assert_eq!(xfactor(minutes_of(1), Span(0), Span(0)), 61.0);
    }

    /// M14.
    #[test]
    fn waiting_time_counts_in_minutes() {
        assert_eq!(
            values(Span::seconds(90), minutes_of(1), Span(0), 3),
            [1.5, 2.5, 3.0]
        );
    }

    /// M19.
    #[test]
    fn nearness_grows_until_the_target_is_reached() {
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
            "nearness stays maximal after the target is reached"
        );
        assert_eq!(nearness(&Goal::default(), &[60.0, 3.0, 0.0]), [0.0, 0.0]);
    }
}
