//! `[fairshare]` and `[[account]]`: who owns which share, and what usage makes of it.

use super::{by_name, each, keys, list, one_of, starvation, text};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::account::{Account, Shares, Target, check};
use crate::model::policy::FairShare;
use crate::model::policy::fair_share::{Distance, Method, Subject, Ties};
use std::collections::BTreeSet;
use toml::de::DeValue;

const NAME: &str = "a name without blanks and without any of , / : @";
const SHARES: &str = "a number from 0 to 1000000000, or \"parent\"";
pub(super) const TARGET: &str = "percent of all usage, as 25 or \"25\", as \"25+\" (at least), \"25-\" (at most), \"25%\" (never \
                      more), or \"86400^\" (never more seconds)";
const USERS: &str = "a list of users, each once, as [\"ann\", \"bob\"], or a table of their shares, as \
                     { ann = 1, bob = \"parent\" }";

/// The most shares anybody may have: what is divided by their sum stays above nothing.
const MOST_SHARES: f64 = 1e9;

/// The least above none.
const LEAST_SHARES: f64 = 1e-9;

/// `[fairshare]` with all `[[account]]`.
pub fn fair_share(root: &Section, preset: FairShare) -> Result<FairShare, ConfigError> {
    let policy = match root.section("fairshare")? {
        Some(section) => settings(&section, preset)?,
        None => preset,
    };
    let accounts = accounts(root)?;
    if let Some(name) = policy
        .default_account
        .as_ref()
        .filter(|name| !accounts.iter().any(|a| a.name == **name))
    {
        let said = format!(
            "there is no [[account]] named `{name}`: add one, or name another as `default_account`"
        );
        let section = root.section("fairshare")?;
        return Err(section
            .as_ref()
            .unwrap_or(root)
            .wrong_at("default_account", said));
    }
    Ok(FairShare { accounts, ..policy })
}

fn settings(section: &Section, preset: FairShare) -> Result<FairShare, ConfigError> {
    section.only(keys("fairshare"))?;
    Ok(FairShare {
        method: section
            .read("method", &one_of(Method::ALL), by_name(Method::named))?
            .unwrap_or(preset.method),
        subject: section
            .read("subject", &one_of(Subject::ALL), by_name(Subject::named))?
            .unwrap_or(preset.subject),
        ties: section
            .read("ties", &one_of(Ties::ALL), by_name(Ties::named))?
            .unwrap_or(preset.ties),
        distance: section
            .read("distance", &one_of(Distance::ALL), by_name(Distance::named))?
            .unwrap_or(preset.distance),
        default_account: section.read("default_account", "the name of an account", text)?,
        accounts: preset.accounts,
    })
}

fn accounts(root: &Section) -> Result<Vec<Account>, ConfigError> {
    let accounts = each(root, "account", account)?;
    let Err((place, fault)) = check(&accounts) else {
        return Ok(accounts);
    };
    let sections = root.sections("account")?;
    Err(sections
        .get(place)
        .unwrap_or(root)
        .wrong_at("parent", fault.to_string()))
}

fn account(section: &Section) -> Result<Account, ConfigError> {
    section.only(keys("account"))?;
    Ok(Account {
        name: section.require("name", NAME, name)?,
        parent: section.read("parent", "the name of another account", name)?,
        shares: section.read("shares", SHARES, shares)?.unwrap_or_default(),
        target: section.read("target", TARGET, target)?,
        users: section.read("users", USERS, users)?,
        pool: starvation::pool(section)?,
    })
}

fn name(value: &DeValue) -> Option<String> {
    text(value).filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !",/:@".contains(c);
    !name.is_empty() && name.len() <= 255 && name.chars().all(is_plain)
}

fn shares(value: &DeValue) -> Option<Shares> {
    if value.as_str() == Some("parent") {
        return Some(Shares::Parent);
    }
    let is_sensible =
        |shares: &f64| *shares == 0.0 || (LEAST_SHARES..=MOST_SHARES).contains(shares);
    number(value).filter(is_sensible).map(Shares::Of)
}

fn number(value: &DeValue) -> Option<f64> {
    match value {
        DeValue::Integer(_) => super::whole::<i64>(value).map(|number| number as f64),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

pub(super) fn target(value: &DeValue) -> Option<Target> {
    let text = text(value).or_else(|| number(value).map(|number| number.to_string()))?;
    Target::parse(&text)
}

/// Users with their shares, by a list or a table.
fn users(value: &DeValue) -> Option<Vec<(String, Shares)>> {
    let users = listed(value).or_else(|| shared_out(value))?;
    let distinct: BTreeSet<&str> = users.iter().map(|(name, _)| name.as_str()).collect();
    (distinct.len() == users.len() && distinct.iter().all(|name| is_name(name))).then_some(users)
}

fn listed(value: &DeValue) -> Option<Vec<(String, Shares)>> {
    Some(
        list(text)(value)?
            .into_iter()
            .map(|name| (name, Shares::default()))
            .collect(),
    )
}

fn shared_out(value: &DeValue) -> Option<Vec<(String, Shares)>> {
    let users = value.as_table()?.iter();
    users
        .map(|(name, value)| Some((name.get_ref().to_string(), shares(value.get_ref())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::account::TargetKind;

    fn refusal(text: &str) -> String {
        Config::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn accounts_and_the_method_are_read() {
        let config = Config::parse(
            r#"
            [fairshare]
            method = "fairtree"
            subject = "account"
            ties = "flux"
            distance = "ratio"
            [[account]]
            name = "crystals"
            parent = "physics"
            shares = "parent"
            users = ["ann", "bob"]
            [[account]]
            name = "physics"
            shares = 40
            target = "25+"
            users = { eve = 2, dan = 0.5, fay = "parent" }
            [[account]]
            name = "guests"
            target = 10
            "#,
        )
        .unwrap();
        let policy = config.policy().fair_share;
        assert_eq!(
            (policy.method, policy.subject),
            (Method::Tree, Subject::Account)
        );
        assert_eq!(
            (policy.ties, policy.distance),
            (Ties::Flux, Distance::Ratio)
        );
        let [crystals, physics, guests] = policy.accounts.as_slice() else {
            panic!("{policy:?}")
        };
        assert_eq!(
            (crystals.parent.as_deref(), crystals.shares),
            (Some("physics"), Shares::Parent)
        );
        let one = |name: &str| (name.to_string(), Shares::Of(1.0));
        assert_eq!(crystals.users, Some(vec![one("ann"), one("bob")]));
        assert_eq!(
            (physics.shares, physics.target),
            (Shares::Of(40.0), Target::parse("25+"))
        );
        let shares = |user: &str| {
            physics
                .users
                .iter()
                .flatten()
                .find(|(name, _)| name == user)
                .map(|(_, s)| *s)
        };
        assert_eq!(shares("eve"), Some(Shares::Of(2.0)));
        assert_eq!(
            (shares("dan"), shares("fay")),
            (Some(Shares::Of(0.5)), Some(Shares::Parent))
        );
        assert_eq!(
            (guests.parent.as_deref(), guests.shares, &guests.users),
            (None, Shares::Of(1.0), &None)
        );
        assert_eq!(
            guests.target,
            Some(Target {
                value: 10.0,
                bound: TargetKind::Target
            })
        );
    }

    #[test]
    fn a_preset_says_how_usage_counts() {
        let policy = |text: &str| Config::parse(text).unwrap().policy().fair_share;
        assert_eq!(policy(""), FairShare::default());
        assert_eq!(policy("").method, Method::Classic);
        let it4i = policy("preset = \"it4i\"");
        assert_eq!(
            (it4i.method, it4i.subject),
            (Method::Linear, Subject::Account)
        );
        assert_eq!(
            policy("preset = \"it4i\"\n[fairshare]\nmethod = \"off\"").subject,
            Subject::Account
        );
        assert_eq!(policy("preset = \"maui\"").method, Method::Target);
        assert_eq!(policy("preset = \"qube\"").method, Method::Off);
    }

    #[test]
    fn what_makes_no_tree_is_refused_with_its_line() {
        let said = refusal("[[account]]\nname = \"a\"\nparent = \"b\"");
        assert_eq!(
            said,
            "line 3: there is no [[account]] named `b`: add one, or correct the parent of `a`"
        );
        let said = refusal(
            "[[account]]\nname = \"a\"\nparent = \"b\"\n[[account]]\nname = \"b\"\nparent = \"a\"",
        );
        assert_eq!(
            said,
            "line 3: `a` is its own ancestor: remove one of the parents in a -> b -> a"
        );
        let said = refusal("[[account]]\nname = \"a\"\n[[account]]\nname = \"a\"");
        assert_eq!(
            said,
            "line 4: there are two [[account]] named `a`: remove one or rename it"
        );
        assert_eq!(
            refusal("[[account]]\nshares = 1"),
            format!("line 1: [[account]] has no `name`: add one, {NAME}")
        );
    }

    #[test]
    fn shares_and_names_out_of_bounds_are_refused() {
        let of = |more: &str| refusal(&format!("[[account]]\nname = \"a\"\n{more}"));
        let said = "line 3: `shares` in [[account]] must be a number from 0 to 1000000000, or \"parent\", not -1";
        assert_eq!(of("shares = -1"), said);
        for shares in ["inf", "nan", "1e-30", "1e10", "\"10\"", "true"] {
            assert!(
                of(&format!("shares = {shares}")).contains("must be a number from 0"),
                "{shares}"
            );
        }
        for users in [
            "[\"ann\", \"ann\"]",
            "[\"a b\"]",
            "{ ann = -1 }",
            "\"ann\"",
            "[1]",
            "[\"\"]",
        ] {
            assert!(
                of(&format!("users = {users}")).contains("must be a list of users"),
                "{users}"
            );
        }
        for target in ["\"25*\"", "-1", "101", "true"] {
            assert!(
                of(&format!("target = {target}")).contains("must be percent of all usage"),
                "{target}"
            );
        }
        assert!(
            refusal("[[account]]\nname = \"a/b\"")
                .contains("`name` in [[account]] must be a name without blanks")
        );
        assert!(
            refusal("[fairshare]\nmethod = \"best\"")
                .contains("must be \"classic\", \"linear\", \"fairtree\"")
        );
        assert!(
            refusal("[fairshare]\nhalf = 1")
                .starts_with("line 2: unknown key `half` in [fairshare]")
        );
    }
}
