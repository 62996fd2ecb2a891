//! The three groups of an operation's allocations, oldest first (Y3 to Y6, Y16): allocations that
//! are kept, allocations that aggressively starving parties may preempt, and allocations that any
//! starving party may preempt.

use crate::model::account::starvation::{Boundary, Cutoffs};
use crate::sched::amounts::{Amounts, subtract};
use crate::sched::share_tree::ClusterTotal;
use std::fmt;

/// Parts of the cluster that differ by less count as equal.
pub const ROUNDING: f64 = 1e-9;

/// Which parties may preempt an allocation; the first to be preempted comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationGroup {
    /// Any starving party.
    Preemptible,
    /// Aggressively starving parties.
    Aggressively,
    /// No party.
    Kept,
}

impl AllocationGroup {
    /// The satisfaction below which operations lose no allocation of this group.
    pub fn threshold(self, cutoffs: Cutoffs) -> f64 {
        match self {
            AllocationGroup::Preemptible => cutoffs.preemption,
            AllocationGroup::Aggressively | AllocationGroup::Kept => cutoffs.aggressive,
        }
    }
}

/// The letters of YTsaurus: `P`, `A` and `N`.
impl fmt::Display for AllocationGroup {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            AllocationGroup::Preemptible => "P",
            AllocationGroup::Aggressively => "A",
            AllocationGroup::Kept => "N",
        })
    }
}

/// The thresholds that divide allocations.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Up to this part of the cluster, all allocations are kept.
    pub aggressive: f64,
    /// Above this part, allocations are preemptible.
    pub preemption: f64,
    /// The side of an allocation that crosses a threshold.
    pub boundary: Boundary,
    /// Amounts by resource. An operation with less of each keeps all (Y16); empty for no such
    /// threshold.
    pub spared: Vec<(usize, i64)>,
    /// Whether the group in between exists; otherwise its allocations are kept (Y19).
    pub allow_aggressive: bool,
}

impl Thresholds {
    /// Whether an operation with this part of the cluster could lose an allocation of this group or
    /// an earlier one.
    pub fn could_lose(&self, part: f64, last: AllocationGroup) -> bool {
        let is_between_lost = last == AllocationGroup::Aggressively && self.allow_aggressive;
        let bound = if is_between_lost {
            self.aggressive
        } else {
            self.preemption
        };
        last == AllocationGroup::Kept || part >= bound - ROUNDING
    }

    /// The group of an allocation; `before` and `with` are the operation's parts of the cluster
    /// without and with it.
    fn group(&self, before: f64, with: f64, is_spared: bool) -> AllocationGroup {
        let is_under = |bound: f64| match self.boundary {
            Boundary::Give => with <= bound + ROUNDING,
            Boundary::Keep => before < bound - ROUNDING,
        };
        if is_spared || is_under(self.aggressive) {
            AllocationGroup::Kept
        } else if !is_under(self.preemption) {
            AllocationGroup::Preemptible
        } else if self.allow_aggressive {
            AllocationGroup::Aggressively
        } else {
            AllocationGroup::Kept
        }
    }

    fn spares(&self, with: &[i64]) -> bool {
        !self.spared.is_empty()
            && self
                .spared
                .iter()
                .all(|&(index, threshold)| with[index] < threshold)
    }
}

/// Divides an operation's allocations, given newest first with their resources; `together` is their
/// sum. Returns those of groups up to `last`.
pub fn divide<'a, T>(
    newest_first: impl Iterator<Item = (T, &'a Amounts)>,
    together: &[i64],
    whole: &ClusterTotal,
    thresholds: &Thresholds,
    last: AllocationGroup,
) -> Vec<(AllocationGroup, T)> {
    let (mut left, mut with) = (together.to_vec(), whole.part(together));
    let mut divided = Vec::new();
    for (allocation, taken) in newest_first {
        let is_spared = thresholds.spares(&left);
        subtract(&mut left, taken);
        let before = whole.part(&left);
        // Older allocations are of the same group or a later one.
        let group = thresholds.group(before, with, is_spared);
        if group > last {
            break;
        }
        divided.push((group, allocation));
        with = before;
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::time::Time;
    use crate::sched::view::operations::Age;

    const THRESHOLDS: Thresholds = Thresholds {
        aggressive: 0.25,
        preemption: 0.5,
        boundary: Boundary::Give,
        spared: Vec::new(),
        allow_aggressive: true,
    };

    /// Allocations of these sizes out of ten CPUs, given and shown oldest first.
    fn divided(sizes: &[i64], thresholds: &Thresholds) -> String {
        let age = |place: usize| -> Age { (Time(place as i64), JobId::element(1, place as u32)) };
        let taken: Vec<Amounts> = sizes.iter().map(|size| vec![*size].into()).collect();
        let newest_first = taken
            .iter()
            .enumerate()
            .map(|(place, taken)| (age(place), taken))
            .rev();
        let together: Amounts = vec![sizes.iter().sum()].into();
        let whole = ClusterTotal::new(&[10]);
        let all = divide(
            newest_first.clone(),
            &together,
            &whole,
            thresholds,
            AllocationGroup::Kept,
        );
        assert!(
            all.iter()
                .map(|(_, age)| *age)
                .eq((0..sizes.len()).rev().map(age))
        );
        let preemptible = divide(
            newest_first,
            &together,
            &whole,
            thresholds,
            AllocationGroup::Preemptible,
        );
        assert!(
            preemptible.iter().eq(all
                .iter()
                .filter(|(group, _)| *group == AllocationGroup::Preemptible))
        );
        for last in [
            AllocationGroup::Preemptible,
            AllocationGroup::Aggressively,
            AllocationGroup::Kept,
        ] {
            let loses = all.iter().any(|(group, _)| *group <= last);
            assert!(
                !loses || thresholds.could_lose(whole.part(&together), last),
                "{last} of {sizes:?}"
            );
        }
        all.iter()
            .rev()
            .map(|(group, _)| group.to_string())
            .collect()
    }

    /// Y6: a fair share of .5, thresholds of .5 and 1.
    #[test]
    fn the_boundary_rule_decides_the_group_at_a_threshold() {
        assert_eq!(divided(&[1; 10], &THRESHOLDS), "NNAAAPPPPP");
        let keep = Thresholds {
            boundary: Boundary::Keep,
            ..THRESHOLDS
        };
        assert_eq!(divided(&[1; 10], &keep), "NNNAAPPPPP");
        let pass = [THRESHOLDS, keep].map(|thresholds| divided(&[4, 1, 3, 1], &thresholds));
        assert_eq!(pass, ["AAPP", "NAPP"]);
    }

    /// Y16: an operation with less than three CPUs is not preempted, whatever its fair share.
    #[test]
    fn an_operation_below_its_usage_threshold_keeps_all() {
        let spared = Thresholds {
            aggressive: 0.0,
            preemption: 0.1,
            spared: vec![(0, 3)],
            ..THRESHOLDS
        };
        assert_eq!(
            [divided(&[1, 1], &spared), divided(&[1; 5], &spared)],
            ["NN", "NNPPP"]
        );
        assert_eq!(divided(&[2, 2], &spared), "NP");
    }

    /// Y19.
    #[test]
    fn a_pool_may_keep_the_group_in_between() {
        let kept = Thresholds {
            allow_aggressive: false,
            ..THRESHOLDS
        };
        assert_eq!(divided(&[1; 10], &kept), "NNNNNPPPPP");
    }

    /// Y5: equal thresholds leave nothing in between.
    #[test]
    fn equal_thresholds_leave_nothing_in_between() {
        assert_eq!(
            divided(
                &[1; 4],
                &Thresholds {
                    aggressive: 0.2,
                    preemption: 0.2,
                    ..THRESHOLDS
                }
            ),
            "NNPP"
        );
        assert_eq!(
            divided(
                &[1; 2],
                &Thresholds {
                    aggressive: 0.0,
                    preemption: 0.0,
                    ..THRESHOLDS
                }
            ),
            "PP"
        );
        assert_eq!(divided(&[], &THRESHOLDS), "");
    }
}
