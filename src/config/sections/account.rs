//! `[[account]]`: the accounts of the fair-share tree, with settings for accounts as pools.

use super::starvation::{THRESHOLD, TIME};
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    AmountTable, BOOLEAN, Custom, FROM_0_TO_1, Kind, OneOf, Optional, Scalar, ScalarType, TEXT,
    custom, list, one_of, scalar, table,
};
use crate::model::account::pool_terms::{FifoKey, PoolMode};
use crate::model::account::{Account, Shares, UsageTarget, check};
use crate::model::resource::Resources;
use std::collections::BTreeSet;
use toml::Value;
use toml::de::DeValue;

/// The largest number of shares. The bound keeps the sum of shares, a divisor, finite.
const MOST_SHARES: f64 = 1e9;
/// The smallest number of shares other than 0. The bound keeps the sum of shares, a divisor, above
/// 0.
const LEAST_SHARES: f64 = 1e-9;

const NAME: Scalar<String> = scalar("a name without blanks, commas, `/`, `:` and `@`", |name| {
    is_name(name)
});
const PARENT: Scalar<String> = scalar("the name of another account", |name| is_name(name));
const SHARES: Custom<Shares> = custom(
    || "0, a number from 1e-9 to 1e9, or \"parent\"".to_string(),
    read_shares,
    |shares| Some(write_shares(shares)),
);
/// The kind for a usage target: a percentage of all usage, or a cap in seconds of weighted
/// resources.
pub const TARGET: Custom<UsageTarget> = custom(
    || {
        "percent of all usage: 25 or \"25\" (target), \"25+\" (at least), \"25-\" (at most), \
         \"25%\" (cap), or \"86400^\" (cap in seconds)"
            .to_string()
    },
    read_target,
    |target| Some(target.to_string().into()),
);
const USERS: Custom<Vec<(String, Shares)>> = custom(
    || {
        "a list of distinct users, such as [\"ann\", \"bob\"], or a table of their shares, \
         such as { ann = 1, bob = \"parent\" }"
            .to_string()
    },
    read_users,
    |users| write_users(users),
);
const LARGEST_PART: Scalar<f64> = scalar("a part of the cluster, above 0 and at most 1", |part| {
    *part > 0.0 && *part <= 1.0
});
const FIFO_SORT: Custom<Vec<FifoKey>> = custom(
    || format!("a list of distinct sort keys ({})", one_of(FifoKey::ALL)),
    read_fifo_sort,
    |keys| write_fifo_sort(keys),
);

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut Account) -> &mut K::Value,
) -> Key<Account, K> {
    Key::new(name, kind, field)
}

/// `[[account]]`.
pub static ACCOUNT: Table<Account> = Table::new(
    "account",
    &[
        &key("name", NAME, |a| &mut a.name)
            .required()
            .text("The name of the account, without blanks, commas, \"/\", \":\" or \"@\".")
            .example("\"physics\""),
        &key("parent", Optional(PARENT), |a| &mut a.parent)
            .text("The parent account in the fair-share tree.")
            .default("none")
            .example("\"science\""),
        &key("shares", SHARES, |a| &mut a.shares).text(
            "The account's shares; with \"parent\", members compete with the account's siblings.",
        ),
        &key("target", Optional(TARGET), |a| &mut a.target)
            .text(
                "With [fairshare] method = \"target\", the target: percent of all usage, such as \
                 \"25+\".",
            )
            .default("the part that the account's shares give it")
            .example("\"25+\""),
        &key("users", Optional(USERS), |a| &mut a.users)
            .text("The account's users: a list, or a table with the shares of each.")
            .default("all users who charge the account, with one share each")
            .example("{ ann = 1, bob = 2 }"),
        &key("guarantee", AmountTable, |a| &mut a.pool.guarantee)
            .text("The resources that the account gets before shares apply, up to its demand.")
            .default("none")
            .example("{ ncpus = 16 }"),
        &key("max_share", Optional(LARGEST_PART), |a| {
            &mut a.pool.max_share
        })
        .text("The largest part of the cluster, up to 1, that the account's fair share may reach.")
        .default("the whole cluster")
        .example("0.5"),
        &Key::<Account, _>::computed(
            "mode",
            OneOf(PoolMode::ALL),
            |a| Some(a.pool.mode).filter(|mode| *mode != PoolMode::default()),
            |a, mode| a.pool.mode = mode,
        )
        .text("The order of the account's jobs and arrays: \"fair_share\" or \"fifo\".")
        .default("\"fair_share\"")
        .example("\"fair_share\""),
        &key("fifo_sort", FIFO_SORT, |a| &mut a.pool.fifo_sort)
            .text("With mode = \"fifo\", the keys by which jobs and arrays are sorted.")
            .default("[\"start_time\"]")
            .example("[\"weight\", \"start_time\"]"),
        &key("tolerance", Optional(FROM_0_TO_1), |a| {
            &mut a.pool.starvation.tolerance
        })
        .text("Overrides [preemption.starvation] tolerance in the account's subtree.")
        .default(INHERITED)
        .example("0.8"),
        &key("starvation_timeout", Optional(TIME), |a| {
            &mut a.pool.starvation.timeout
        })
        .text("Overrides [preemption.starvation] timeout in the account's subtree.")
        .default(INHERITED)
        .example("\"30s\""),
        &key("aggressive_starvation_timeout", Optional(TIME), |a| {
            &mut a.pool.starvation.aggressive_timeout
        })
        .text("Overrides [preemption.starvation] aggressive_timeout in the account's subtree.")
        .default(INHERITED)
        .example("\"2m\""),
        &key("enable_aggressive_starvation", Optional(BOOLEAN), |a| {
            &mut a.pool.starvation.enable_aggressive
        })
        .text("Overrides [preemption.starvation] enable_aggressive in the account's subtree.")
        .default(INHERITED)
        .example("false"),
        &key("allow_aggressive_preemption", Optional(BOOLEAN), |a| {
            &mut a.pool.starvation.allow_aggressive
        })
        .text("Overrides [preemption.starvation] allow_aggressive in the account's subtree.")
        .default(INHERITED)
        .example("true"),
        &key(
            "aggressive_preemption_threshold",
            Optional(THRESHOLD),
            |a| &mut a.pool.starvation.aggressive_threshold,
        )
        .text("Overrides [preemption.starvation] aggressive_threshold in the account's subtree.")
        .default(INHERITED)
        .example("0.2"),
        &key("preemption_threshold", Optional(THRESHOLD), |a| {
            &mut a.pool.starvation.preemption_threshold
        })
        .text("Overrides [preemption.starvation] preemption_threshold in the account's subtree.")
        .default(INHERITED)
        .example("1.0"),
        &key("non_preemptible_threshold", AmountTable, |a| {
            &mut a.pool.non_preemptible_threshold
        })
        .text(
            "Overrides [preemption.starvation] non_preemptible_threshold in the account's subtree.",
        )
        .default(INHERITED)
        .example("{ ncpus = 4 }"),
    ],
);

const INHERITED: &str = "inherited from the parent account, else from [preemption.starvation]";

/// Reads all accounts of the file. Returns an error if the accounts do not form a tree.
pub fn read_accounts(root: &Section, resources: &Resources) -> Result<Vec<Account>, ConfigError> {
    let accounts = ACCOUNT.read_each(root, resources, |_| Account::default())?;
    let Err((place, fault)) = check(&accounts) else {
        return Ok(accounts);
    };
    let sections = root.sections("account")?;
    let section = sections.get(place).unwrap_or(root);
    Err(section.key_error("parent", fault.to_string()))
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !",/:@".contains(c);
    !name.is_empty() && name.len() <= 255 && name.chars().all(is_plain)
}

fn read_shares(value: &DeValue) -> Option<Shares> {
    if value.as_str() == Some("parent") {
        return Some(Shares::Parent);
    }
    let is_share = |number: &f64| *number == 0.0 || (LEAST_SHARES..=MOST_SHARES).contains(number);
    f64::read(value).filter(is_share).map(Shares::Of)
}

fn write_shares(shares: &Shares) -> Value {
    match shares {
        Shares::Parent => "parent".into(),
        Shares::Of(number) if number.fract() == 0.0 => (*number as i64).into(),
        Shares::Of(number) => (*number).into(),
    }
}

fn read_target(value: &DeValue) -> Option<UsageTarget> {
    let text = String::read(value).or_else(|| Some(f64::read(value)?.to_string()))?;
    UsageTarget::parse(&text)
}

/// Reads users with their shares from a list or a table.
fn read_users(value: &DeValue) -> Option<Vec<(String, Shares)>> {
    let users: Vec<(String, Shares)> = match value.as_table() {
        Some(table) => table
            .iter()
            .map(|(name, value)| Some((name.get_ref().to_string(), read_shares(value.get_ref())?)))
            .collect::<Option<_>>()?,
        None => {
            let names = list(TEXT, "").read(value)?.into_iter();
            names.map(|name| (name, Shares::default())).collect()
        }
    };
    let distinct: BTreeSet<&str> = users.iter().map(|(name, _)| name.as_str()).collect();
    let are_names = distinct.iter().all(|name| is_name(name));
    (distinct.len() == users.len() && are_names).then_some(users)
}

fn write_users(users: &[(String, Shares)]) -> Option<Value> {
    let users = users.iter();
    Some(table(
        users.map(|(name, own)| (name.as_str(), write_shares(own))),
    ))
}

fn read_fifo_sort(value: &DeValue) -> Option<Vec<FifoKey>> {
    let keys = list(OneOf(FifoKey::ALL), "").read(value)?;
    let is_double = |place: usize| keys[..place].contains(&keys[place]);
    (!(0..keys.len()).any(is_double)).then_some(keys)
}

fn write_fifo_sort(keys: &[FifoKey]) -> Option<Value> {
    let names: Vec<Value> = keys.iter().map(|key| key.name().into()).collect();
    (!names.is_empty()).then(|| names.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::account::TargetKind;
    use crate::model::policy::FairShare;
    use crate::model::policy::fair_share::{Distance, Method, TieRule, UsageSubject};

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
        let policy = config.effective_policy().fair_share;
        assert_eq!(
            (policy.method, policy.subject),
            (Method::Tree, UsageSubject::Account)
        );
        assert_eq!(
            (policy.tie_rule, policy.distance),
            (TieRule::Flux, Distance::Ratio)
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
            (Shares::Of(40.0), UsageTarget::parse("25+"))
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
            Some(UsageTarget {
                value: 10.0,
                bound: TargetKind::Target
            })
        );
    }

    #[test]
    fn the_preset_sets_the_fair_share_method() {
        let policy = |text: &str| Config::parse(text).unwrap().effective_policy().fair_share;
        assert_eq!(policy(""), FairShare::default());
        assert_eq!(policy("").method, Method::Classic);
        let it4i = policy("preset = \"it4i\"");
        assert_eq!(
            (it4i.method, it4i.subject),
            (Method::Linear, UsageSubject::Account)
        );
        assert_eq!(
            policy("preset = \"it4i\"\n[fairshare]\nmethod = \"off\"").subject,
            UsageSubject::Account
        );
        assert_eq!(policy("preset = \"maui\"").method, Method::Target);
        assert_eq!(policy("preset = \"qube\"").method, Method::Off);
    }

    #[test]
    fn accounts_that_form_no_tree_are_refused_with_their_line() {
        let message = refusal("[[account]]\nname = \"a\"\nparent = \"b\"");
        assert_eq!(
            message,
            "line 3: there is no [[account]] named `b`: add it, or correct the parent of `a`"
        );
        let message = refusal(
            "[[account]]\nname = \"a\"\nparent = \"b\"\n[[account]]\nname = \"b\"\nparent = \"a\"",
        );
        assert_eq!(
            message,
            "line 3: `a` is its own ancestor: remove one of the parents in a -> b -> a"
        );
        let message = refusal("[[account]]\nname = \"a\"\n[[account]]\nname = \"a\"");
        assert_eq!(
            message,
            "line 4: there are two [[account]] named `a`: remove one or rename it"
        );
        assert_eq!(
            refusal("[[account]]\nshares = 1"),
            format!(
                "line 1: [[account]] has no `name`: set it to {}",
                NAME.wanted()
            )
        );
    }

    #[test]
    fn shares_and_names_out_of_bounds_are_refused() {
        let of = |more: &str| refusal(&format!("[[account]]\nname = \"a\"\n{more}"));
        let message = "line 3: `shares` in [[account]] must be 0, a number from 1e-9 to 1e9, \
                    or \"parent\", not -1";
        assert_eq!(of("shares = -1"), message);
        for shares in ["inf", "nan", "1e-30", "1e10", "\"10\"", "true"] {
            assert!(
                of(&format!("shares = {shares}")).contains("must be 0, a number from 1e-9"),
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
                of(&format!("users = {users}")).contains("must be a list of distinct users"),
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
