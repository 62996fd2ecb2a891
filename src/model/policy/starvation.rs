//! `[preemption.starvation]`: for how long who has less than its fair share waits before others make way, and
//! who does not (Y1 to Y19, Y29).

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
    /// What it has beyond this part is the first to go; what lies between goes to who starves aggressively.
    pub preemption_threshold: f64,
    /// On which side of a threshold the allocation lies that crosses it.
    pub boundary: Boundary,
    /// What an operation has first is taken by nobody, up to so much of each of these (Y16).
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
    pub fn patience_of(&self, pool: &str, accounts: &[Account]) -> Patience {
        let find = |name: &str| accounts.iter().find(|account| account.name == name);
        let above = |account: &&Account| find(account.parent.as_deref()?).filter(|above| above.name != ROOT_NAME);
        let own = find(pool).or_else(|| find(pool.rsplit_once('/')?.0));
        let mut line: Vec<&Account> = std::iter::successors(own, above).take(DEEPEST).collect();
        line.extend(find(ROOT_NAME).filter(|root| line.iter().all(|account| account.name != root.name)));
        line.iter().rev().fold(self.patience, |patience, account| patience.under(&account.pool.starvation))
    }
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

/// What a pool says instead of what holds above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// As [`Patience::tolerance`].
    pub tolerance: Option<f64>,
    /// As [`Patience::timeout`].
    pub timeout: Option<Span>,
    /// As [`Patience::aggressive_timeout`].
    pub aggressive_timeout: Option<Span>,
    /// As [`Patience::enable_aggressive`].
    pub enable_aggressive: Option<bool>,
    /// As [`Patience::allow_aggressive`].
    pub allow_aggressive: Option<bool>,
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

    fn pool(name: &str, parent: Option<&str>, tolerance: Option<f64>) -> Account {
        let mut account = Account { name: name.into(), parent: parent.map(str::to_string), ..Account::default() };
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
        let of = |name: &str, accounts: &[Account]| starvation.patience_of(name, accounts).tolerance;
        let all = ["p1", "p2", "p3", "p2/ann", "other", "nowhere", ""];
        assert_eq!(all.map(|name| of(name, &accounts)), [0.6, 0.6, 0.5, 0.6, 0.8, 0.8, 0.8]);
        accounts.push(pool("root", None, Some(0.7)));
        assert_eq!(all.map(|name| of(name, &accounts)), [0.6, 0.6, 0.5, 0.6, 0.7, 0.7, 0.7]);
    }

    /// Y18, Y19: each by itself.
    #[test]
    fn what_a_pool_does_not_say_stays_as_it_is() {
        let said = Overrides { enable_aggressive: Some(true), timeout: Some(Span::seconds(5)), ..Default::default() };
        let own = Patience::default().under(&said);
        let expected = Patience { enable_aggressive: true, timeout: Span::seconds(5), ..Patience::default() };
        assert_eq!(own, expected);
        assert_eq!(own.under(&Overrides::default()), own);
    }
}
