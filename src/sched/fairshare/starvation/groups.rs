//! The three groups of the allocations (running jobs) of an operation, which is a job, or an array
//! with all its subjobs (Y3 to Y6, Y16). From the oldest to the newest allocation: allocations that
//! are kept, allocations that aggressively starving operations may preempt, and allocations that
//! any starving operation may preempt.

use crate::model::account::starvation::{Boundary, PreemptionThresholds};
use crate::sched::amounts::{Amounts, subtract};
use crate::sched::share_tree::ClusterTotal;
use std::fmt;

/// Fractions of the cluster that differ by less than this count as equal.
pub const ROUNDING: f64 = 1e-9;

/// The group of an allocation: which operations may preempt it. The groups are sorted by the order
/// in which they are preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationGroup {
    /// Any starving operation.
    Preemptible,
    /// Aggressively starving operations.
    Aggressively,
    /// No operation.
    Kept,
}

impl AllocationGroup {
    /// The satisfaction (usage divided by fair share) below which an operation or pool loses no
    /// allocation of this group.
    pub fn threshold(self, cutoffs: PreemptionThresholds) -> f64 {
        match self {
            AllocationGroup::Preemptible => cutoffs.preemption,
            AllocationGroup::Aggressively | AllocationGroup::Kept => cutoffs.aggressive,
        }
    }
}

/// Formats a group as a letter: `P` (preemptible), `A` (aggressively preemptible) or `N`
/// (non-preemptible), as in YTsaurus.
impl fmt::Display for AllocationGroup {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            AllocationGroup::Preemptible => "P",
            AllocationGroup::Aggressively => "A",
            AllocationGroup::Kept => "N",
        })
    }
}

/// The thresholds that divide the allocations of an operation into groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// The fraction of the cluster up to which all allocations are kept.
    pub aggressive: f64,
    /// The fraction of the cluster above which allocations are preemptible.
    pub preemption: f64,
    /// Whether an allocation that crosses a threshold counts as below or above it.
    pub boundary: Boundary,
    /// Thresholds: (resource index, amount). An operation that uses less than the amount of each of
    /// these resources keeps all its allocations (Y16). Empty for no such thresholds.
    pub spared: Vec<(usize, i64)>,
    /// Whether the group [`AllocationGroup::Aggressively`] exists. Otherwise its allocations are
    /// kept (Y19).
    pub allow_aggressive: bool,
}

impl Thresholds {
    /// Whether an operation that uses this fraction of the cluster could have allocations in the
    /// groups up to `last`.
    pub fn could_lose(&self, part: f64, last: AllocationGroup) -> bool {
        let is_between_lost = last == AllocationGroup::Aggressively && self.allow_aggressive;
        let bound = if is_between_lost {
            self.aggressive
        } else {
            self.preemption
        };
        last == AllocationGroup::Kept || part >= bound - ROUNDING
    }

    /// The group of an allocation. `before` is the fraction of the cluster that all older
    /// allocations of the operation use. `with` also includes this allocation.
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

/// Divides the allocations of an operation into groups. The allocations are given newest first,
/// each with its resources; `together` is the sum of these resources. Returns the allocations of
/// the groups up to `last`.
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
        // All older allocations are in the same group or in a later group.
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

    /// The groups of allocations of these sizes on ten CPUs, as letters, oldest allocation first.
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

    /// Y6: the fair share is half of the cluster. The lower threshold is half of the fair share,
    /// the higher threshold is the fair share.
    #[test]
    fn the_boundary_setting_decides_the_group_of_an_allocation_that_crosses_a_threshold() {
        assert_eq!(divided(&[1; 10], &THRESHOLDS), "NNAAAPPPPP");
        let keep = Thresholds {
            boundary: Boundary::Keep,
            ..THRESHOLDS
        };
        assert_eq!(divided(&[1; 10], &keep), "NNNAAPPPPP");
        let pass = [THRESHOLDS, keep].map(|thresholds| divided(&[4, 1, 3, 1], &thresholds));
        assert_eq!(pass, ["AAPP", "NAPP"]);
    }

    /// Y16: an operation that uses less than three CPUs is not preempted, whatever its fair share.
    #[test]
    fn an_operation_below_its_usage_threshold_keeps_all_its_allocations() {
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
    fn without_aggressive_preemption_only_allocations_above_the_higher_threshold_are_preemptible() {
        let kept = Thresholds {
            allow_aggressive: false,
            ..THRESHOLDS
        };
        assert_eq!(divided(&[1; 10], &kept), "NNNNNPPPPP");
    }

    /// Y5.
    #[test]
    fn with_equal_thresholds_allocations_are_either_kept_or_preemptible() {
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
