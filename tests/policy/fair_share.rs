//! Fair share compared with published values of other systems, to the printed digit, and properties
//! of arbitrary trees.
//!
//! `fairshare_vectors.json` holds examples from the tests and manuals of other systems. Examples of
//! methods that Lanai has must match. [`NOT_APPLICABLE`] gives the reason why each other kind does
//! not apply.

use crate::support::cases;
use crate::support::sandbox::Sandbox;
use lanai::model::account::member::Member;
use lanai::model::account::{Account, ROOT_NAME, Shares, UsageTarget};
use lanai::model::expression::{self, Expression};
use lanai::model::policy::FairShare;
use lanai::model::policy::components::{Component, WeightAndCap};
use lanai::model::policy::fair_share::{Distance, Method, TieRule, UsageSubject};
use lanai::sched::share_tree::{ShareRow, ShareTable, Tree, classic, linear, share_table, target};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds of examples that no fair-share method covers, each with its reason.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    ("flux_usage", "decay of usage, not fair-share factors"),
    (
        "maui_fs_usage",
        "decay of usage by windows, not fair-share factors",
    ),
    (
        "it4i_decay",
        "decay of usage by steps, not fair-share factors",
    ),
    (
        "slurm_decay",
        "decay of usage in steps, which drifts; Lanai's decay is exact",
    ),
    (
        "yt_fair_share",
        "division of the cluster among pools, not fair-share factors",
    ),
    (
        "yt_hdrf",
        "division of the cluster among pools, not fair-share factors",
    ),
    (
        "yt_guarantees",
        "guarantees of pools, not fair-share factors",
    ),
    (
        "yt_starvation",
        "which pool may preempt, not the order of jobs",
    ),
    (
        "yt_preemption_classes",
        "which jobs may be preempted, not the order of jobs",
    ),
];

#[test]
fn examples_of_other_systems_match_to_the_printed_digit() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("fairshare_vectors.json")).unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for vector in &vectors {
        let (kind, name) = (text(&vector["kind"]), text(&vector["name"]));
        *counts.entry(kind).or_default() += 1;
        let (input, expected) = (&vector["input"], &vector["expected"]);
        match kind {
            "slurm_classic" => slurm(name, Method::Classic, input, expected),
            "slurm_fair_tree" => slurm(name, Method::Tree, input, expected),
            "flux_weighted_walk" => flux_walk(name, input, expected),
            "flux_priority" => flux_priority(input, expected),
            "openpbs_fairshare" => openpbs(input, expected),
            "maui_fs_priority" => maui_priority(input, expected),
            "it4i_priority" => it4i_priority(input, expected),
            _ => assert!(
                NOT_APPLICABLE.iter().any(|(other, _)| *other == kind),
                "example {name} has the unknown kind {kind}"
            ),
        }
    }
    let covered: usize = counts
        .iter()
        .filter(|(kind, _)| !NOT_APPLICABLE.iter().any(|(e, _)| e == *kind))
        .map(|x| x.1)
        .sum();
    assert_eq!((vectors.len(), covered), (40, 17), "{counts:?}");
    assert!(
        NOT_APPLICABLE
            .iter()
            .all(|(kind, _)| counts.contains_key(kind)),
        "NOT_APPLICABLE contains a kind without examples"
    );
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is not a string"))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .or_else(|| value.as_str()?.parse().ok())
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

fn shares(value: &Value) -> Shares {
    if value == "parent" {
        Shares::Parent
    } else {
        Shares::Of(number(value))
    }
}

/// Accounts and the usage of their members.
#[derive(Default)]
struct Site {
    accounts: Vec<Account>,
    usage: BTreeMap<Member, f64>,
}

impl Site {
    fn add_account(&mut self, name: &str, parent: Option<&str>, shares: Shares) {
        let parent = parent.map(str::to_string);
        let account = Account {
            name: name.to_string(),
            parent,
            shares,
            users: Some(Vec::new()),
            ..Account::default()
        };
        self.accounts.push(account);
    }

    fn add_user(&mut self, account: &str, user: &str, shares: Shares, usage: f64) {
        let users = self
            .accounts
            .iter_mut()
            .find(|known| known.name == account)
            .and_then(|known| known.users.as_mut());
        users.unwrap().push((user.to_string(), shares));
        self.usage.insert(member(account, user), usage);
    }

    fn table(self, method: Method, tie_rule: TieRule) -> ShareTable {
        let policy = FairShare {
            method,
            tie_rule,
            accounts: self.accounts,
            ..FairShare::default()
        };
        assert_eq!(lanai::model::account::check(&policy.accounts), Ok(()));
        share_table(&Tree::of(&policy.accounts), &policy, &self.usage)
    }
}

/// Users directly below the root have no account.
fn member(account: &str, user: &str) -> Member {
    Member::new(if account == ROOT_NAME { "" } else { account }, user)
}

/// Rows of Slurm's own tests: a user belongs to the row given as parent.
fn slurm(name: &str, method: Method, input: &Value, expected: &Value) {
    let mut site = Site::default();
    let mut names: BTreeMap<i64, &str> = BTreeMap::new();
    for row in input.as_array().unwrap() {
        let parent = names.get(&row["parent"].as_i64().unwrap()).copied();
        if row["user"].is_string() {
            site.add_user(
                parent.unwrap(),
                text(&row["user"]),
                shares(&row["shares"]),
                number(&row["usage"]),
            );
            continue;
        }
        let account = text(&row["account"]);
        let account = if parent.is_none() { ROOT_NAME } else { account };
        names.insert(row["id"].as_i64().unwrap(), account);
        let shares = if parent.is_none() {
            Shares::default()
        } else {
            shares(&row["shares"])
        };
        site.add_account(account, parent, shares);
    }
    let table = site.table(method, TieRule::Slurm);
    for (key, row) in expected.as_object().unwrap() {
        let entry = find(&table, key).unwrap_or_else(|| panic!("{name}: no row for {key}"));
        for (column, printed) in row.as_object().unwrap() {
            if let Some(ours) = slurm_column(entry, column, key.ends_with('/')) {
                assert_eq!(&ours, printed, "{name}: {column} of {key}");
            }
        }
    }
}

/// Finds `account/user`, `account/`, or `user` in any account.
fn find<'a>(table: &'a ShareTable, key: &str) -> Option<&'a ShareRow> {
    match key.split_once('/') {
        Some((account, "")) => table.accounts.get(account),
        Some((account, user)) => table.members.get(&member(account, user)),
        None => table
            .members
            .iter()
            .find(|(member, _)| member.user == key)
            .map(|(_, entry)| entry),
    }
}

/// Value of a column as Slurm prints it. Accounts have no factor.
fn slurm_column(entry: &ShareRow, column: &str, is_account: bool) -> Option<Value> {
    let six = |number: f64| Value::from(format!("{number:.6}"));
    match column {
        "shares" => Some(Value::from(entry.shares.to_string())),
        "norm_shares" => Some(six(entry.normalised)),
        "usage" => Some(Value::from(entry.usage.to_string())),
        "norm_usage" => Some(six(entry.used)),
        "eff_usage" => Some(six(entry.effective)),
        "level_fs" => Some(entry.level.map_or(Value::Null, six)),
        "fairshare" => (!is_account).then(|| six(entry.factor)),
        other => panic!("unknown column {other}"),
    }
}

/// Rows of flux-accounting: level, account, user (or a marker for none), shares and usage.
fn flux_walk(name: &str, input: &Value, expected: &Value) {
    let mut site = Site::default();
    for row in input.as_array().unwrap() {
        let (account, user) = (text(&row[1]), text(&row[2]));
        match (user.starts_with('%'), account) {
            (true, ROOT_NAME) => site.add_account(ROOT_NAME, None, Shares::default()),
            (true, _) => site.add_account(account, None, shares(&row[3])),
            (false, _) => site.add_user(account, user, shares(&row[3]), number(&row[4])),
        }
    }
    let table = site.table(Method::Tree, TieRule::Flux);
    let factor = |user: &str| format!("{:.6}", find(&table, user).unwrap().factor);
    for figures in [&expected["fairshare"], &expected["published"]]
        .into_iter()
        .filter_map(Value::as_object)
    {
        for (user, figure) in figures {
            assert_eq!(
                factor(user),
                format!("{:.6}", number(figure)),
                "{name}: {user}"
            );
        }
    }
    let order: Vec<String> = expected["order"]
        .as_array()
        .unwrap()
        .iter()
        .map(|user| factor(text(user)))
        .collect();
    assert!(
        order.is_sorted_by(|before, after| before >= after),
        "{name}: {order:?}"
    );
}

/// F16: the formula of scenario F16 with the weights of the example.
fn flux_priority(input: &Value, expected: &Value) {
    let formula = "fairshare_factor * fairshare_weight + queue_priority * queue_weight + bank * bank_weight \
                   + (urgency - 16) * 1000";
    let names = [
        "fairshare_factor",
        "queue_priority",
        "bank",
        "urgency",
        "fairshare_weight",
        "queue_weight",
        "bank_weight",
    ];
    let defaults = [0.0, 0.0, 0.0, 16.0, 100_000.0, 10_000.0, 0.0];
    let value = |name: &str| {
        let place = names.iter().position(|known| *known == name)?;
        Some(expression::ExpressionValue::Number(
            input[place].as_f64().unwrap_or(defaults[place]),
        ))
    };
    assert_eq!(
        Expression::parse(formula).unwrap().number(&value),
        Ok(Some(number(expected))),
        "{input}"
    );
}

/// PBS starts with one second for every user and adds the value set by `pbsfs` to all ancestors.
/// With such usage, the classic formulas give the same numbers. Decay, and the sum of walltime and
/// ncpus, are covered by the decay and formula tests.
fn openpbs(input: &Value, expected: &Value) {
    let tree = input["tree"].as_object().unwrap();
    let parent = |name: &str| text(&tree[name][0]).to_string();
    let least = number(&input["min_usage"]);
    let set = |name: &str| input["pbsfs_set"].get(name).map(number);
    let below = |above: &str| -> f64 {
        let is_below = |name: &str| above == "root" || parent(name) == above;
        tree.keys()
            .filter(|name| is_below(name))
            .filter_map(|name| set(name))
            .sum()
    };
    let total = least + below("root");
    let part = |name: &str| {
        let siblings = tree.keys().filter(|other| parent(other) == parent(name));
        number(&tree[name][1]) / siblings.map(|other| number(&tree[other][1])).sum::<f64>()
    };
    for (user, printed) in expected["tree_usage"].as_object().unwrap() {
        let group = (least + below(&parent(user))) / total;
        let effective = classic::effective(set(user).unwrap_or(least) / total, group, part(user));
        let entitlement = part(&parent(user)) * part(user);
        assert_eq!(
            &Value::from(format!("{effective:.4}")),
            printed,
            "usage of {user}"
        );
        assert_eq!(
            format!("{entitlement:.4}"),
            format!("{:.4}", number(&expected["perc"][user])),
            "perc of {user}"
        );
        let factor = format!("{:.4}", classic::factor(effective, entitlement));
        assert_eq!(
            Value::from(factor),
            expected["factor"][user],
            "factor of {user}"
        );
    }
}

fn maui_priority(input: &Value, expected: &Value) {
    let target = |value: &Value| match value {
        Value::String(text) => UsageTarget::parse(text.split(' ').next()?),
        other => UsageTarget::parse(&other.as_f64()?.to_string()),
    };
    let distance = |name: &String| {
        let delta =
            |target| target::delta(target, number(&input["usage"][name]), Distance::Difference);
        target(&input["target"][name]).map_or(0.0, delta)
    };
    let weights = input["weights"].as_object().unwrap();
    let component = Component {
        whole: WeightAndCap::of(number(&input["FSWEIGHT"])),
        parts: weights
            .values()
            .map(|weight| WeightAndCap::of(number(weight)))
            .collect(),
    };
    assert_eq!(
        component.value(&weights.keys().map(distance).collect::<Vec<_>>()),
        number(expected)
    );
}

/// The fair-share component, and the whole priority with queue and eligible time by the published
/// formula.
fn it4i_priority(input: &Value, expected: &Value) {
    let value = linear::priority(
        number(&input["usage_project"]),
        number(&input["usage_total"]),
    );
    assert_eq!(
        format!("{value:.6}"),
        format!("{:.6}", number(&expected["fairshare_priority"]))
    );
    let whole = 1000.0 * number(&input["queue_priority"])
        + value / 1000.0
        + number(&input["eligible_time"]) / 864_000.0;
    assert_eq!(
        format!("{whole:.6}"),
        format!("{:.6}", number(&expected["priority"]))
    );
}

#[test]
fn schedd_shows_how_shares_are_divided() {
    let config =
        "[[account]]\nname = \"a\"\nshares = 3\nusers = [\"ann\"]\n[[account]]\nname = \"b\"\n";
    let sandbox = Sandbox::configured(config);
    let output = sandbox.run("schedd", &["--check"]).ok();
    let expected = "# fairshare: classic, by user@account\n#   a: shares 3, 75.00% of the cluster: ann 1\n#   \
                      b: shares 1, 25.00% of the cluster: any user\n";
    assert!(output.ends_with(expected), "{output}");
}

// ---------------------------------------------------------------- properties of any tree

/// A generated tree of up to 7 accounts. Each has an index for its parent among the earlier
/// accounts, its shares, and users with shares and usage.
type GeneratedTree = Vec<(usize, u32, Vec<(u32, u32)>)>;

fn generated_tree() -> impl Strategy<Value = GeneratedTree> {
    let users = prop::collection::vec((0..5u32, 0..1000u32), 0..5);
    prop::collection::vec((0..8usize, 0..5u32, users), 1..8)
}

/// A value of 4 stands for the parent's shares.
fn generated_shares(number: u32) -> Shares {
    if number == 4 {
        Shares::Parent
    } else {
        Shares::Of(f64::from(number))
    }
}

fn site(tree: &GeneratedTree) -> Site {
    let mut site = Site::default();
    for (place, (parent, shares, users)) in tree.iter().enumerate() {
        let parent = (*parent < place).then(|| format!("a{parent}"));
        site.add_account(
            &format!("a{place}"),
            parent.as_deref(),
            generated_shares(*shares),
        );
        for (number, (shares, usage)) in users.iter().enumerate() {
            site.add_user(
                &format!("a{place}"),
                &format!("u{number}"),
                generated_shares(*shares),
                f64::from(*usage),
            );
        }
    }
    site
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(
        Method::ALL
            .iter()
            .map(|(_, method)| *method)
            .collect::<Vec<_>>(),
    )
}

fn tie_rule() -> impl Strategy<Value = TieRule> {
    prop_oneof![Just(TieRule::Slurm), Just(TieRule::Flux)]
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn factors_lie_between_0_and_1_and_determine_the_ranks(tree in generated_tree(), method in method(), ties in tie_rule()) {
        let table = site(&tree).table(method, ties);
        let rows: Vec<&ShareRow> = table.accounts.values().chain(table.members.values()).collect();
        for row in &rows {
            prop_assert!((0.0..=1.0).contains(&row.factor), "{row:?}");
            let numbers = [row.normalised, row.effective, row.used, row.usage, row.level.unwrap_or(0.0)];
            prop_assert!(!numbers.iter().any(|number| number.is_nan()), "{row:?}");
        }
        for row in table.members.values() {
            let better = table.members.values().filter(|other| other.factor > row.factor).count();
            prop_assert_eq!(row.rank, better + 1);
        }
    }

    #[test]
    fn the_order_of_accounts_and_users_has_no_effect(tree in generated_tree(), method in method(), ties in tie_rule(), rotation in 0..8usize) {
        let original = site(&tree).table(method, ties);
        let mut rotated = site(&tree);
        let middle = rotation % rotated.accounts.len();
        rotated.accounts.rotate_left(middle);
        for account in &mut rotated.accounts {
            account.users.iter_mut().for_each(|users| users.reverse());
        }
        prop_assert_eq!(original, rotated.table(method, ties));
    }

    /// F20: with equal shares, less usage gives a higher factor.
    #[test]
    fn with_equal_shares_less_usage_gives_a_higher_factor(uses in prop::collection::vec(0..1000u32, 2..6), method in method()) {
        prop_assume!(method != Method::Off);
        let users: Vec<(u32, u32)> = uses.iter().map(|&usage| (1, usage)).collect();
        let table = site(&vec![(0, 1, users), (0, 1, vec![(1, 500)])]).table(method, TieRule::Slurm);
        let factor = |number: usize| table.members[&Member::new("a0", &format!("u{number}"))].factor;
        for (one, used) in uses.iter().enumerate() {
            for (other, others) in uses.iter().enumerate() {
                prop_assert_eq!(used < others, factor(one) > factor(other), "{} {}", used, others);
            }
        }
    }

    /// Every member has a row, for every subject of usage, with and without a share tree.
    #[test]
    fn every_member_with_usage_has_a_row(tree in generated_tree(), account in 0..10usize, user in 0..6u32, subject in 0..4usize) {
        let mut site = site(&tree);
        let member = Member::new(&format!("a{account}"), &format!("u{user}"));
        site.usage.entry(member.clone()).or_insert(0.0);
        let subject = UsageSubject::ALL[subject].1;
        for accounts in [site.accounts, Vec::new()] {
            let policy = FairShare { subject, accounts, ..FairShare::default() };
            prop_assert!(share_table(&Tree::of(&policy.accounts), &policy, &site.usage).of(&member).is_some());
        }
    }
}
