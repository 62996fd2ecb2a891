//! `[preemption.starvation]`: for how long who has less than its fair share waits before others
//! make way, and who does not (Y1 to Y19, Y29).

use crate::model::account::pool_terms::Overrides;
use crate::model::account::{Account, DEEPEST, ROOT_NAME};
use crate::model::resource::ResourceList;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// `[preemption.starvation]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Starvation {
    /// What holds for pools that say nothing, nor any above them.
    pub patience: Patience,
    /// What an operation has up to this part of its fair share is taken by nobody.
    pub aggressive_threshold: f64,
    /// What it has beyond this part is the first to go; what lies between goes to who starves
    /// aggressively.
    pub preemption_threshold: f64,
    /// On which side of a threshold the allocation lies that crosses it.
    pub boundary: Boundary,
    /// An operation with less of each of these is not preempted (Y16).
    pub non_preemptible_threshold: ResourceList,
    /// For so long nobody else makes way on a node where somebody has (Y11).
    pub backoff: Span,
    /// How long fair shares are held still, unless who shares has changed.
    pub update_period: Span,
}

impl Default for Starvation {
    fn default() -> Starvation {
        Starvation {
            patience: Patience::default(),
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
    /// What holds for a pool: what it says itself, else what the nearest above it says (Y29).
    pub fn terms_of<'a>(&'a self, pool: &str, accounts: &'a [Account]) -> OperationTerms<'a> {
        let line = nearest_first(pool, accounts);
        let cutoffs = Cutoffs {
            aggressive: self.aggressive_threshold,
            preemption: self.preemption_threshold,
        };
        let mut terms = OperationTerms {
            patience: self.patience,
            cutoffs,
            non_preemptible: &self.non_preemptible_threshold,
        };
        for account in line.into_iter().rev() {
            terms.patience = terms.patience.under(&account.pool.starvation);
            terms.cutoffs = terms.cutoffs.under(&account.pool.starvation);
            if !account.pool.non_preemptible_threshold.is_empty() {
                terms.non_preemptible = &account.pool.non_preemptible_threshold;
            }
        }
        terms
    }

    /// What makes the operations of a pool starve.
    pub fn patience_of(&self, pool: &str, accounts: &[Account]) -> Patience {
        self.terms_of(pool, accounts).patience
    }
}

/// What holds for the operations of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationTerms<'a> {
    /// What makes them starve.
    pub patience: Patience,
    /// The thresholds that divide their allocations.
    pub cutoffs: Cutoffs,
    /// An operation with less of each of these is not preempted.
    pub non_preemptible: &'a ResourceList,
}

/// A pool and the pools above it, the nearest first; the root is the last, also for a pool that is
/// no account.
fn nearest_first<'a>(pool: &str, accounts: &'a [Account]) -> Vec<&'a Account> {
    let mut next = find(pool, accounts).or_else(|| find(pool.rsplit_once('/')?.0, accounts));
    let mut line: Vec<&Account> = Vec::new();
    while let Some(account) = next
        && line.len() < DEEPEST
    {
        line.push(account);
        let parent = account.parent.as_deref();
        next = parent
            .filter(|parent| *parent != ROOT_NAME)
            .and_then(|parent| find(parent, accounts));
    }
    if let Some(root) = find(ROOT_NAME, accounts)
        && line.iter().all(|account| account.name != ROOT_NAME)
    {
        line.push(root);
    }
    line
}

fn find<'a>(name: &str, accounts: &'a [Account]) -> Option<&'a Account> {
    accounts.iter().find(|account| account.name == name)
}

named! {
    /// On which side of a threshold the allocation lies that crosses it (Y6).
    Boundary {
        /// With it an operation has more than the threshold: it goes.
        Give = "give",
        /// Without it the operation would have less: it stays.
        Keep = "keep",
    }
}

/// What makes an operation of a pool starve, and whether others' starving reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patience {
    /// Who has less than this part of its fair share is below it (Y1).
    pub tolerance: f64,
    /// Who is below it for so long starves (Y2).
    pub timeout: Span,
    /// Who is below it for so long starves aggressively; no shorter than `timeout` (Y2).
    pub aggressive_timeout: Span,
    /// Whether anybody ever does (Y18).
    pub enable_aggressive: bool,
    /// Whether those who do are given what lies between the two thresholds (Y19).
    pub allow_aggressive: bool,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            tolerance: 0.8,
            timeout: Span::seconds(30),
            aggressive_timeout: Span::seconds(120),
            enable_aggressive: false,
            allow_aggressive: true,
        }
    }
}

/// The thresholds that divide an operation's allocations, as parts of its fair share (Y5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cutoffs {
    /// Up to it, allocations are not preemptible.
    pub aggressive: f64,
    /// Beyond it, they are preemptible; no lower than `aggressive`.
    pub preemption: f64,
}

impl Cutoffs {
    /// The same where a pool sets its own.
    fn under(self, said: &Overrides) -> Cutoffs {
        Cutoffs {
            aggressive: said.aggressive_threshold.unwrap_or(self.aggressive),
            preemption: said.preemption_threshold.unwrap_or(self.preemption),
        }
    }
}

impl Patience {
    /// The same where somebody says otherwise.
    pub fn under(self, said: &Overrides) -> Patience {
        Patience {
            tolerance: said.tolerance.unwrap_or(self.tolerance),
            timeout: said.timeout.unwrap_or(self.timeout),
            aggressive_timeout: said.aggressive_timeout.unwrap_or(self.aggressive_timeout),
            enable_aggressive: said.enable_aggressive.unwrap_or(self.enable_aggressive),
            allow_aggressive: said.allow_aggressive.unwrap_or(self.allow_aggressive),
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

    /// Y29: p1 says .6, p2 below it nothing, p3 below that .5.
    #[test]
    fn the_nearest_pool_above_that_says_something_says_what_holds() {
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

    /// Y5, Y16: each threshold by itself.
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

    /// Y18, Y19: each by itself.
    #[test]
    fn what_a_pool_does_not_say_stays_as_it_is() {
        let said = Overrides {
            enable_aggressive: Some(true),
            timeout: Some(Span::seconds(5)),
            ..Default::default()
        };
        let own = Patience::default().under(&said);
        let expected = Patience {
            enable_aggressive: true,
            timeout: Span::seconds(5),
            ..Patience::default()
        };
        assert_eq!(own, expected);
        assert_eq!(own.under(&Overrides::default()), own);
    }
}
