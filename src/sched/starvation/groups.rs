//! The three groups of an operation's allocations (Y3 to Y6, Y16): oldest first, those that are its own, those
//! that it loses to who starves aggressively, and those that it loses to anybody who starves.

use super::operations::Age;
use crate::model::policy::starvation::Boundary;
use crate::sched::amounts::{Amounts, add};
use crate::sched::shares::Whole;
use std::fmt;

/// Parts of the whole that differ by less are equal.
pub const ROUNDING: f64 = 1e-9;

/// To whom an operation loses an allocation; who is the first to lose it comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// To anybody who starves.
    Preemptible,
    /// To who starves aggressively.
    Aggressively,
    /// To nobody.
    Kept,
}

/// As YTsaurus has them: `P`, `A` and `N`.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Group::Preemptible => "P",
            Group::Aggressively => "A",
            Group::Kept => "N",
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
    /// By resource: with no more than this all is kept (Y16); empty for no such threshold.
    pub spared: Vec<(usize, i64)>,
    /// Whether what lies between the two is lost to anybody (Y19).
    pub allow_aggressive: bool,
}

impl Thresholds {
    fn group(&self, before: f64, with: &[i64], whole: &Whole) -> Group {
        let is_spared = !self.spared.is_empty() && self.spared.iter().all(|&(index, most)| with[index] <= most);
        let is_under = |bound: f64| match self.boundary {
            Boundary::Give => whole.part(with) <= bound + ROUNDING,
            Boundary::Keep => before < bound - ROUNDING,
        };
        match () {
            () if is_spared || is_under(self.aggressive) => Group::Kept,
            () if is_under(self.preemption) && !self.allow_aggressive => Group::Kept,
            () if is_under(self.preemption) => Group::Aggressively,
            () => Group::Preemptible,
        }
    }
}

/// An operation's allocations, divided: each group begins where the one before it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Division {
    aggressively_from: Option<Age>,
    preemptible_from: Option<Age>,
}

impl Division {
    /// Divides allocations that are given oldest first, each with what it has.
    pub fn of<'a>(
        allocations: impl Iterator<Item = (Age, &'a Amounts)>,
        whole: &Whole,
        thresholds: &Thresholds,
    ) -> Division {
        let mut division = Division::default();
        let mut sum: Option<Amounts> = None;
        for (age, taken) in allocations {
            let before = sum.as_deref().map_or(0.0, |sum| whole.part(sum));
            let sum = sum.get_or_insert_with(|| vec![0; taken.len()].into());
            add(sum, taken);
            match thresholds.group(before, sum, whole) {
                Group::Kept => (),
                Group::Aggressively => drop(division.aggressively_from.get_or_insert(age)),
                Group::Preemptible => {
                    division.aggressively_from.get_or_insert(age);
                    division.preemptible_from = Some(age);
                    break;
                }
            }
        }
        division
    }

    /// The group of one of them.
    pub fn group(&self, age: Age) -> Group {
        let is_from = |from: Option<Age>| from.is_some_and(|from| age >= from);
        match () {
            () if is_from(self.preemptible_from) => Group::Preemptible,
            () if is_from(self.aggressively_from) => Group::Aggressively,
            () => Group::Kept,
        }
    }

    /// Whether it loses none of them to anybody.
    pub fn keeps_all(&self) -> bool {
        self.aggressively_from.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::JobId;
    use crate::model::time::Time;

    const THRESHOLDS: Thresholds = Thresholds {
        aggressive: 0.25,
        preemption: 0.5,
        boundary: Boundary::Give,
        spared: Vec::new(),
        allow_aggressive: true,
    };

    /// Allocations of so many of ten processors each, oldest first.
    fn divided(sizes: &[i64], thresholds: &Thresholds) -> String {
        let age = |place: usize| (Time(place as i64), JobId::element(1, place as u32));
        let taken: Vec<Amounts> = sizes.iter().map(|size| vec![*size].into()).collect();
        let allocations = taken.iter().enumerate().map(|(place, taken)| (age(place), taken));
        let division = Division::of(allocations, &Whole::new(&[10]), thresholds);
        (0..sizes.len()).map(|place| division.group(age(place)).to_string()).collect()
    }

    /// Y6: a fair share of .5, thresholds of .5 and 1.
    #[test]
    fn what_crosses_a_threshold_lies_beyond_it_or_not_as_the_site_says() {
        assert_eq!(divided(&[1; 10], &THRESHOLDS), "NNAAAPPPPP");
        let keep = Thresholds { boundary: Boundary::Keep, ..THRESHOLDS };
        assert_eq!(divided(&[1; 10], &keep), "NNNAAPPPPP");
        let pass = [THRESHOLDS, keep].map(|thresholds| divided(&[4, 1, 3, 1], &thresholds));
        assert_eq!(pass, ["AAPP", "NAPP"]);
    }

    /// Y16: three processors are kept whatever the fair share is.
    #[test]
    fn what_an_operation_has_first_may_be_its_own_in_any_case() {
        let spared = Thresholds { aggressive: 0.0, preemption: 0.1, spared: vec![(0, 3)], ..THRESHOLDS };
        assert_eq!([divided(&[1, 1], &spared), divided(&[1; 5], &spared)], ["NN", "NNNPP"]);
        assert_eq!(divided(&[2, 2], &spared), "NP");
    }

    /// Y19.
    #[test]
    fn what_lies_between_is_kept_where_the_pool_says_so() {
        let kept = Thresholds { allow_aggressive: false, ..THRESHOLDS };
        assert_eq!(divided(&[1; 10], &kept), "NNNNNPPPPP");
    }

    /// Y5: equal thresholds leave nothing in between.
    #[test]
    fn equal_thresholds_leave_nothing_in_between() {
        assert_eq!(divided(&[1; 4], &Thresholds { aggressive: 0.2, preemption: 0.2, ..THRESHOLDS }), "NNPP");
        assert_eq!(divided(&[1; 2], &Thresholds { aggressive: 0.0, preemption: 0.0, ..THRESHOLDS }), "PP");
        assert_eq!(divided(&[], &THRESHOLDS), "");
    }
}
