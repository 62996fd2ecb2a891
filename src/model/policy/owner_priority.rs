//! Priorities that owners may give their own jobs: `-p` (X1, X22, Q18), and `--user-factor`, which
//! only lowers the priority (F7).

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

named! {
    /// Restriction of `-p` for users who are not operators (X22).
    UserPriority {
        /// Owners may set the default priority or worse.
        LowerOnly = "lower_only",
        /// Owners may set `highest_user_priority` or worse.
        Clamp = "clamp",
        /// Owners may set any priority.
        Free = "free",
    }
}

/// Priorities that owners may set; operators and managers may set any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnerPriorityRule {
    /// True for Qube's priorities: 1 is the best, 9999 the worst and the default. False for PBS's
    /// priorities: 1023 is the best, -1024 the worst, 0 the default.
    pub lowest_is_best: bool,
    /// Restriction of `-p`.
    pub user_priority: UserPriority,
    /// Best priority that owners may set with [`UserPriority::Clamp`]; None for no restriction.
    pub highest_user_priority: Option<i32>,
    /// True if owners can lower the user factor of a job, but not raise it again (F7).
    pub user_factor_ratchet: bool,
}

impl OwnerPriorityRule {
    /// Returns the range of valid priorities.
    pub fn range(&self) -> RangeInclusive<i32> {
        if self.lowest_is_best {
            1..=9999
        } else {
            -1024..=1023
        }
    }

    /// Returns the default priority.
    pub fn default_priority(&self) -> i32 {
        if self.lowest_is_best { 9999 } else { 0 }
    }

    /// Returns the sort key of a priority: higher keys come first. A priority outside the range
    /// was stored before a change of the configuration and counts as the default.
    pub fn score(&self, priority: i32) -> f64 {
        let valid = if self.range().contains(&priority) {
            priority
        } else {
            self.default_priority()
        };
        f64::from(if self.lowest_is_best { -valid } else { valid })
    }

    /// Limits a requested priority to the best that the owner may set, or to the job's present
    /// priority `has` if that is better.
    pub fn granted(&self, requested: i32, has: i32) -> i32 {
        let bound = match self.user_priority {
            UserPriority::LowerOnly => Some(self.default_priority()),
            UserPriority::Clamp => self.highest_user_priority,
            UserPriority::Free => None,
        };
        match bound {
            None => requested,
            Some(bound) if self.lowest_is_best => requested.max(bound.min(has)),
            Some(bound) => requested.min(bound.max(has)),
        }
    }

    /// Returns the settings that limited a priority, in configuration syntax.
    pub fn bounded_by(&self) -> String {
        let mut text = format!("[order] user_priority = \"{}\"", self.user_priority.name());
        if self.user_priority == UserPriority::Clamp
            && let Some(highest) = self.highest_user_priority
        {
            text.push_str(&format!(", highest_user_priority = {highest}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUBE: OwnerPriorityRule = OwnerPriorityRule {
        lowest_is_best: true,
        user_priority: UserPriority::Clamp,
        highest_user_priority: Some(100),
        user_factor_ratchet: false,
    };

    /// X22.
    #[test]
    fn the_restriction_limits_the_priorities_that_owners_may_set() {
        let of = |user_priority| OwnerPriorityRule {
            user_priority,
            highest_user_priority: Some(100),
            ..OwnerPriorityRule::default()
        };
        let granted =
            |rule: OwnerPriorityRule| [-5, 0, 5, 500].map(|requested| rule.granted(requested, 0));
        assert_eq!(granted(OwnerPriorityRule::default()), [-5, 0, 0, 0]);
        assert_eq!(granted(of(UserPriority::Clamp)), [-5, 0, 5, 100]);
        assert_eq!(granted(of(UserPriority::Free)), [-5, 0, 5, 500]);
        assert_eq!(
            of(UserPriority::Clamp).bounded_by(),
            "[order] user_priority = \"clamp\", highest_user_priority = 100"
        );
    }

    /// X22: lowering a priority set by an operator is allowed.
    #[test]
    fn an_owner_can_keep_a_priority_above_the_maximum() {
        assert_eq!(
            [700, 500, 300].map(|requested| OwnerPriorityRule::default().granted(requested, 500)),
            [500, 500, 300]
        );
        assert_eq!(
            [1, 5, 7, 200].map(|requested| QUBE.granted(requested, 5)),
            [5, 5, 7, 200]
        );
    }

    /// Q18.
    #[test]
    fn with_lowest_is_best_the_bound_is_a_minimum() {
        assert_eq!(
            [5, 100, 101, 9999].map(|requested| QUBE.granted(requested, 9999)),
            [100, 100, 101, 9999]
        );
        assert_eq!((QUBE.default_priority(), QUBE.range()), (9999, 1..=9999));
        let lower_only = OwnerPriorityRule {
            user_priority: UserPriority::LowerOnly,
            ..QUBE
        };
        assert_eq!(lower_only.granted(5, 9999), 9999);
    }

    /// X1.
    #[test]
    fn the_best_priority_has_the_highest_score_in_either_direction() {
        assert_eq!(
            [1, 9999, 0, -3].map(|priority| QUBE.score(priority)),
            [-1.0, -9999.0, -9999.0, -9999.0]
        );
        assert_eq!(
            [1023, -5, 9999].map(|priority| OwnerPriorityRule::default().score(priority)),
            [1023.0, -5.0, 0.0]
        );
    }
}
