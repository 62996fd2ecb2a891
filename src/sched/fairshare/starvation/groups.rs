//! The three groups of an operation's allocations (Y3 to Y6, Y16): oldest first, those that are its
//! own, those that it loses to who starves aggressively, and those that it loses to anybody who
//! starves.

use crate::model::account::starvation::{Boundary, Cutoffs};
use crate::sched::amounts::{Amounts, subtract};
use crate::sched::share_tree::ClusterTotal;
use std::fmt;

/// Parts of the whole that differ by less are equal.
pub const ROUNDING: f64 = 1e-9;

/// To whom an operation loses an allocation; who is the first to lose it comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationGroup {
    /// To anybody who starves.
    Preemptible,
    /// To who starves aggressively.
    Aggressively,
    /// To nobody.
    Kept,
}

impl AllocationGroup {
    /// The threshold up to which operations lose no allocation of this group.
    pub fn threshold(self, cutoffs: Cutoffs) -> f64 {
        match self {
            AllocationGroup::Preemptible => cutoffs.preemption,
            AllocationGroup::Aggressively | AllocationGroup::Kept => cutoffs.aggressive,
        }
    }
}

/// As YTsaurus has them: `P`, `A` and `N`.
impl fmt::Display for AllocationGroup {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            AllocationGroup::Preemptible => "P",
            AllocationGroup::Aggressively => "A",
            AllocationGroup::Kept => "N",
        })
    }
}

/// What divides them.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// With no more than this part of the whole all is kept.
    pub aggressive: f64,
    /// With more than this part it is preemptible.
    pub preemption: f64,
    /// On which side lies what crosses.
    pub boundary: Boundary,
    /// By resource: with less than this all is kept (Y16); empty for no such threshold.
    pub spared: Vec<(usize, i64)>,
    /// Whether what lies between the two is lost to anybody (Y19).
    pub allow_aggressive: bool,
}

impl Thresholds {
    /// Whether an operation that has this part of the whole could lose an allocation of this group,
    /// or of one before.
    pub fn could_lose(&self, part: f64, last: AllocationGroup) -> bool {
        let is_between_lost = last == AllocationGroup::Aggressively && self.allow_aggressive;
        let bound = if is_between_lost {
            self.aggressive
        } else {
            self.preemption
        };
        last == AllocationGroup::Kept || part >= bound - ROUNDING
    }

    /// That of an allocation before which, and with which, an operation has this part of the whole.
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

/// Divides an operation's allocations, which are given newest first, each with what it has, and
/// have so much together. As many are told of as are of no later group than asked for.
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
        // Who is older is of no earlier group.
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

    /// Allocations of so many of ten processors each, oldest first; told oldest first.
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
        let few = divide(
            newest_first,
            &together,
            &whole,
            thresholds,
            AllocationGroup::Preemptible,
        );
        assert!(
            few.iter().eq(all
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
    fn what_crosses_a_threshold_lies_beyond_it_or_not_as_the_site_says() {
        assert_eq!(divided(&[1; 10], &THRESHOLDS), "NNAAAPPPPP");
        let keep = Thresholds {
            boundary: Boundary::Keep,
            ..THRESHOLDS
        };
        assert_eq!(divided(&[1; 10], &keep), "NNNAAPPPPP");
        let pass = [THRESHOLDS, keep].map(|thresholds| divided(&[4, 1, 3, 1], &thresholds));
        assert_eq!(pass, ["AAPP", "NAPP"]);
    }

    /// Y16: an operation with less than three processors is not preempted, whatever its fair share
    /// is.
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
    fn what_lies_between_is_kept_where_the_pool_says_so() {
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
