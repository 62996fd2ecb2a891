//! `[preemption.starvation]` (Y1 to Y19, Y29): an operation (a job, or an array with all its
//! subjobs) that stays below its fair share for too long starves. The scheduler may then preempt
//! jobs of other operations that use more than a given fraction of their fair shares. Accounts are
//! the pools of operations.

use crate::model::account::pool_terms::Overrides;
use crate::model::account::{Account, DEEPEST, ROOT_NAME};
use crate::model::resource::ResourceList;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// `[preemption.starvation]`: thresholds and timeouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Starvation {
    /// Settings for pools that neither set nor inherit a value.
    pub patience: StarvationConditions,
    /// Fraction of the fair share up to which no allocation is preempted for starving operations.
    pub aggressive_threshold: f64,
    /// Fraction of the fair share beyond which allocations may be preempted for all starving
    /// operations. Allocations between `aggressive_threshold` and this fraction may be preempted
    /// only for aggressively starving operations.
    pub preemption_threshold: f64,
    /// Whether an allocation that crosses a threshold counts as above or below the threshold.
    pub boundary: Boundary,
    /// An operation that uses less than these amounts of all listed resources is not preempted
    /// (Y16).
    pub non_preemptible_threshold: ResourceList,
    /// Minimum time between two preemptions on the same node (Y11).
    pub backoff: Span,
    /// Time for which computed fair shares are kept. They are recomputed earlier if the operations,
    /// the nodes or the policy change.
    pub update_period: Span,
}

impl Default for Starvation {
    fn default() -> Starvation {
        Starvation {
            patience: StarvationConditions::default(),
            aggressive_threshold: 0.2,
            preemption_threshold: 1.0,
            boundary: Boundary::default(),
            non_preemptible_threshold: ResourceList::new(),
            backoff: Span::seconds(5),
            update_period: Span::seconds(1),
        }
    }
}

impl Starvation {
    /// Returns the effective settings of a pool. Each value comes from the nearest pool that sets
    /// it (the pool itself or a pool above), else from `self` (Y29).
    pub fn terms_of<'a>(&'a self, pool: &str, accounts: &'a [Account]) -> OperationTerms<'a> {
        let lineage = nearest_first(pool, accounts);
        let cutoffs = PreemptionThresholds {
            aggressive: self.aggressive_threshold,
            preemption: self.preemption_threshold,
        };
        let mut terms = OperationTerms {
            patience: self.patience,
            cutoffs,
            non_preemptible: &self.non_preemptible_threshold,
        };
        for account in lineage.into_iter().rev() {
            terms.patience = terms.patience.under(&account.pool.starvation);
            terms.cutoffs = terms.cutoffs.under(&account.pool.starvation);
            if !account.pool.non_preemptible_threshold.is_empty() {
                terms.non_preemptible = &account.pool.non_preemptible_threshold;
            }
        }
        terms
    }

    /// Returns the starvation settings of a pool's operations.
    pub fn patience_of(&self, pool: &str, accounts: &[Account]) -> StarvationConditions {
        self.terms_of(pool, accounts).patience
    }
}

/// Effective settings for the operations of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationTerms<'a> {
    /// Conditions for starvation.
    pub patience: StarvationConditions,
    /// Thresholds that divide the allocations of an operation.
    pub cutoffs: PreemptionThresholds,
    /// An operation that uses less than these amounts of all listed resources is not preempted.
    pub non_preemptible: &'a ResourceList,
}

/// Returns a pool and the pools above it, the nearest first, as far as they are configured as
/// accounts. If the root is configured, it is always the last element.
fn nearest_first<'a>(pool: &str, accounts: &'a [Account]) -> Vec<&'a Account> {
    let mut next = find(pool, accounts).or_else(|| find(pool.rsplit_once('/')?.0, accounts));
    let mut lineage: Vec<&Account> = Vec::new();
    while let Some(account) = next
        && lineage.len() < DEEPEST
    {
        lineage.push(account);
        let parent = account.parent.as_deref();
        next = parent
            .filter(|parent| *parent != ROOT_NAME)
            .and_then(|parent| find(parent, accounts));
    }
    if let Some(root) = find(ROOT_NAME, accounts)
        && lineage.iter().all(|account| account.name != ROOT_NAME)
    {
        lineage.push(root);
    }
    lineage
}

fn find<'a>(name: &str, accounts: &'a [Account]) -> Option<&'a Account> {
    accounts.iter().find(|account| account.name == name)
}

named! {
    /// Whether an allocation that crosses a threshold counts as above or below the threshold (Y6).
    Boundary {
        /// The allocation counts as above the threshold, because the operation is above it with
        /// this allocation.
        Give = "give",
        /// The allocation counts as below the threshold, because the operation would be below it
        /// without this allocation.
        Keep = "keep",
    }
}

/// Conditions under which the operations of a pool starve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StarvationConditions {
    /// An operation counts as below its fair share if it uses less than this fraction of the fair
    /// share (Y1).
    pub tolerance: f64,
    /// Time below the fair share after which an operation starves (Y2).
    pub timeout: Span,
    /// Time below the fair share after which an operation starves aggressively; at least `timeout`
    /// (Y2).
    pub aggressive_timeout: Span,
    /// True if the pool's operations can starve aggressively (Y18).
    pub enable_aggressive: bool,
    /// True if aggressively starving operations may preempt allocations of this pool's operations
    /// between the two thresholds (Y19).
    pub allow_aggressive: bool,
}

impl Default for StarvationConditions {
    fn default() -> StarvationConditions {
        StarvationConditions {
            tolerance: 0.8,
            timeout: Span::seconds(30),
            aggressive_timeout: Span::seconds(120),
            enable_aggressive: false,
            allow_aggressive: true,
        }
    }
}

/// Thresholds that divide an operation's allocations, as fractions of its fair share (Y5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreemptionThresholds {
    /// Allocations up to this fraction are not preemptible for starving operations.
    pub aggressive: f64,
    /// Allocations beyond this fraction are preemptible for all starving operations; at least
    /// `aggressive`.
    pub preemption: f64,
}

impl PreemptionThresholds {
    /// Returns the thresholds with the overrides of a pool.
    fn under(self, overrides: &Overrides) -> PreemptionThresholds {
        PreemptionThresholds {
            aggressive: overrides.aggressive_threshold.unwrap_or(self.aggressive),
            preemption: overrides.preemption_threshold.unwrap_or(self.preemption),
        }
    }
}

impl StarvationConditions {
    /// Returns the settings with the overrides of a pool.
    pub fn under(self, overrides: &Overrides) -> StarvationConditions {
        StarvationConditions {
            tolerance: overrides.tolerance.unwrap_or(self.tolerance),
            timeout: overrides.timeout.unwrap_or(self.timeout),
            aggressive_timeout: overrides
                .aggressive_timeout
                .unwrap_or(self.aggressive_timeout),
            enable_aggressive: overrides
                .enable_aggressive
                .unwrap_or(self.enable_aggressive),
            allow_aggressive: overrides.allow_aggressive.unwrap_or(self.allow_aggressive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::ResourceValue;

    fn pool(name: &str, parent: Option<&str>, tolerance: Option<f64>) -> Account {
        let mut account = Account {
            name: name.into(),
            parent: parent.map(str::to_string),
            ..Account::default()
        };
        account.pool.starvation.tolerance = tolerance;
        account
    }

    /// Y29: p1 sets 0.6, p2 below p1 sets nothing, p3 below p2 sets 0.5.
    #[test]
    fn the_nearest_pool_with_a_value_decides() {
        let mut accounts = vec![
            pool("p1", None, Some(0.6)),
            pool("p2", Some("p1"), None),
            pool("p3", Some("p2"), Some(0.5)),
            pool("other", None, None),
        ];
        let starvation = Starvation::default();
        let of =
            |name: &str, accounts: &[Account]| starvation.patience_of(name, accounts).tolerance;
        let all = ["p1", "p2", "p3", "p2/ann", "other", "nowhere", ""];
        assert_eq!(
            all.map(|name| of(name, &accounts)),
            [0.6, 0.6, 0.5, 0.6, 0.8, 0.8, 0.8]
        );
        accounts.push(pool("root", None, Some(0.7)));
        assert_eq!(
            all.map(|name| of(name, &accounts)),
            [0.6, 0.6, 0.5, 0.6, 0.7, 0.7, 0.7]
        );
    }

    /// Y5, Y16: a pool inherits each threshold separately.
    #[test]
    fn pools_inherit_the_thresholds_that_they_do_not_set() {
        let mut accounts = vec![
            pool("p1", None, None),
            pool("p2", Some("p1"), None),
            pool("other", None, None),
        ];
        accounts[0].pool.starvation.preemption_threshold = Some(2.0);
        accounts[1].pool.starvation.aggressive_threshold = Some(0.5);
        let amount =
            |count| ResourceList::from([("ncpus".to_string(), ResourceValue::Long(count))]);
        accounts[0].pool.non_preemptible_threshold = amount(4);
        let starvation = Starvation {
            non_preemptible_threshold: amount(1),
            ..Starvation::default()
        };
        let of = |name: &str| {
            let OperationTerms {
                cutoffs,
                non_preemptible,
                ..
            } = starvation.terms_of(name, &accounts);
            (
                cutoffs.aggressive,
                cutoffs.preemption,
                non_preemptible.clone(),
            )
        };
        let expected = [
            (0.2, 2.0, amount(4)),
            (0.5, 2.0, amount(4)),
            (0.2, 1.0, amount(1)),
            (0.2, 1.0, amount(1)),
        ];
        assert_eq!(["p1", "p2/ann", "other", ""].map(of), expected);
    }

    /// Y18, Y19: a pool inherits each setting separately.
    #[test]
    fn unset_values_are_inherited() {
        let overrides = Overrides {
            enable_aggressive: Some(true),
            timeout: Some(Span::seconds(5)),
            ..Default::default()
        };
        let own = StarvationConditions::default().under(&overrides);
        let expected = StarvationConditions {
            enable_aggressive: true,
            timeout: Span::seconds(5),
            ..StarvationConditions::default()
        };
        assert_eq!(own, expected);
        assert_eq!(own.under(&Overrides::default()), own);
    }
}
