//! Tests of the share table: the numerical examples of the rules (F, I, M, X), and edge cases.

use super::*;
use crate::model::account::member::Member;
use crate::model::account::{Account, ROOT_NAME, Shares, UsageTarget};
use crate::model::policy::FairShare;
use crate::model::policy::components::{Component, WeightAndCap};
use crate::model::policy::fair_share::{Distance, Method, TieRule, UsageSubject};
use std::collections::BTreeMap;

/// An account from `name<parent:shares user=shares ...`. Without `<parent`, the account is under
/// the root. Without users, it is open to all users.
fn account(text: &str) -> Account {
    let mut words = text.split(' ');
    let (name, shares) = words.next().unwrap().split_once(':').unwrap();
    let (name, parent) = name.split_once('<').map_or((name, None), |(name, parent)| {
        (name, Some(parent.to_string()))
    });
    let of = |text: &str| text.parse().map_or(Shares::Parent, Shares::Of);
    let user = |word: &str| {
        word.split_once('=')
            .map(|(user, shares)| (user.to_string(), of(shares)))
            .unwrap()
    };
    let users: Vec<(String, Shares)> = words.map(user).collect();
    let users = Some(users).filter(|users| !users.is_empty());
    Account {
        name: name.to_string(),
        parent,
        shares: of(shares),
        users,
        ..Account::default()
    }
}

fn accounts(texts: &[&str]) -> Vec<Account> {
    texts.iter().map(|text| account(text)).collect()
}

/// The usage of members, which are named `account/user` or `user`.
fn usage(all: &[(&str, f64)]) -> BTreeMap<Member, f64> {
    all.iter()
        .map(|&(name, used)| (member(name), used))
        .collect()
}

fn member(name: &str) -> Member {
    let (account, user) = name.split_once('/').unwrap_or(("", name));
    Member::new(account, user)
}

fn table(method: Method, all: &[&str], used: &[(&str, f64)]) -> ShareTable {
    let policy = FairShare {
        method,
        accounts: accounts(all),
        ..FairShare::default()
    };
    share_table(&Tree::of(&policy.accounts), &policy, &usage(used))
}

fn factor(table: &ShareTable, name: &str) -> f64 {
    table.of(&member(name)).unwrap().factor
}

fn six(number: f64) -> String {
    format!("{number:.6}")
}

/// The accounts A to F and the users 1 to 5 of the example of method `classic` (F10, F11).
const HIERARCHY: &[&str] = &[
    "A:40",
    "D:60",
    "B<A:30 1=1",
    "C<A:10 2=1 3=1",
    "E<D:25 4=1",
    "F<D:35 5=1",
];

#[test]
fn f10_children_divide_the_part_of_their_parent() {
    let table = table(Method::Classic, HIERARCHY, &[]);
    let entitlement = |name: &str| six(table.accounts[name].normalised);
    assert_eq!(
        [
            entitlement("A"),
            entitlement("D"),
            entitlement("B"),
            entitlement("C")
        ],
        ["0.400000", "0.600000", "0.300000", "0.100000"]
    );
    assert_eq!(six(table.members[&member("C/3")].normalised), "0.050000");
}

#[test]
fn f10_a_user_can_be_in_several_accounts() {
    let table = table(
        Method::Classic,
        &["a:1 ann=1", "b:1 ann=1 bob=1"],
        &[("a/ann", 50.0), ("b/bob", 50.0)],
    );
    assert_eq!(factor(&table, "a/ann"), 0.5);
    assert!(factor(&table, "b/ann") > factor(&table, "b/bob"));
    let tree = Tree::of(&accounts(&["a:1 ann=1", "b:1 ann=1 bob=1"]));
    assert_eq!(tree.member("ann", None), member("a/ann"));
    assert_eq!(tree.member("ann", Some("b")), member("b/ann"));
    assert_eq!(tree.member("eve", None), member("eve"));
    assert_eq!(tree.member("eve", Some(ROOT_NAME)), member("eve"));
}

#[test]
fn f11_classic_gives_the_factors_of_the_example() {
    let used = [("B/1", 20.0), ("C/2", 25.0), ("E/4", 25.0), ("x", 30.0)];
    let table = table(Method::Classic, HIERARCHY, &used);
    let factors = ["B/1", "C/2", "C/3", "E/4", "F/5"].map(|name| six(factor(&table, name)));
    assert_eq!(
        factors,
        ["0.408479", "0.022097", "0.125000", "0.500000", "0.749154"]
    );
    assert_eq!(six(table.members[&member("B/1")].effective), "0.387500");
}

#[test]
fn f3_a_factor_of_one_half_means_exactly_the_share() {
    let accounts = ["a:1 ann=1", "b:3 bob=1"];
    let of = |ann: f64, bob: f64| {
        factor(
            &table(
                Method::Classic,
                &accounts,
                &[("a/ann", ann), ("b/bob", bob)],
            ),
            "a/ann",
        )
    };
    assert_eq!(of(25.0, 75.0), 0.5);
    assert_eq!(of(0.0, 100.0), 1.0);
    assert!(of(100.0, 0.0) < 0.07);
}

#[test]
fn f12_fairtree_gives_the_ranks_of_the_example() {
    let accounts = [
        "account1:1000 leaf.1.1=10000 leaf.1.2=1000 leaf.1.3=100000",
        "account2:100 leaf.2.1=100000 leaf.2.2=10000",
        "account3:10 leaf.3.1=100 leaf.3.2=10",
    ];
    let used = [
        ("account1/leaf.1.1", 100.0),
        ("account1/leaf.1.2", 11.0),
        ("account1/leaf.1.3", 10.0),
        ("account2/leaf.2.1", 8.0),
        ("account2/leaf.2.2", 3.0),
        ("account3/leaf.3.2", 1.0),
    ];
    for tie_rule in [TieRule::Slurm, TieRule::Flux] {
        let policy = FairShare {
            method: Method::Tree,
            tie_rule,
            accounts: self::accounts(&accounts),
            ..FairShare::default()
        };
        let table = share_table(&Tree::of(&policy.accounts), &policy, &usage(&used));
        let mut ranked: Vec<_> = table
            .members
            .iter()
            .map(|(m, s)| (s.rank, m.user.as_str(), six(s.factor)))
            .collect();
        ranked.sort();
        let text: Vec<String> = ranked
            .iter()
            .map(|(rank, user, factor)| format!("{rank} {user} {factor}"))
            .collect();
        let expected = [
            "1 leaf.3.1 1.000000",
            "2 leaf.3.2 0.857143",
            "3 leaf.2.1 0.714286",
            "4 leaf.2.2 0.571429",
            "5 leaf.1.3 0.428571",
            "6 leaf.1.1 0.285714",
            "7 leaf.1.2 0.142857",
        ];
        assert_eq!(text, expected);
        assert_eq!(
            table.members[&member("account3/leaf.3.1")].level,
            Some(f64::INFINITY)
        );
        assert_eq!(
            [1, 2, 3],
            ["account3", "account2", "account1"].map(|name| table.accounts[name].rank)
        );
        assert_eq!(
            table.accounts["account1"].factor,
            table.members[&member("account1/leaf.1.3")].factor
        );
    }
}

#[test]
fn i3_with_linear_all_users_of_an_account_have_the_priority_of_the_account() {
    let policy = FairShare {
        method: Method::Linear,
        subject: UsageSubject::Account,
        ..FairShare::default()
    };
    let used = usage(&[
        ("P1/ann", 4000.0),
        ("P1/bob", 2000.0),
        ("P2/ann", 3000.0),
        ("P3/eve", 1000.0),
        ("P4/dan", 0.0),
    ]);
    let table = share_table(&Tree::of(&[]), &policy, &used);
    let value = |name: &str| table.of(&member(name)).unwrap().level.unwrap();
    assert_eq!(
        ["P1/ann", "P1/bob", "P2/ann", "P3/eve"].map(value),
        [400_000.0, 400_000.0, 700_000.0, 900_000.0]
    );
    assert_eq!(value("P4/dan"), linear::MAX_FAIRSHARE);
    assert_eq!(factor(&table, "P1/ann"), 0.4);
    let nothing = share_table(&Tree::of(&[]), &policy, &usage(&[("P1/ann", 0.0)]));
    assert_eq!(nothing.of(&member("P1/ann")).unwrap().level, Some(1e6));
    assert_eq!(linear::priority(0.0, 0.0), 1e6);
}

#[test]
fn i16_classic_gives_the_factor_of_the_pbs_example() {
    let group = classic::effective(0.45, 0.45, 1.0);
    let held = classic::effective(0.2, group, 0.75);
    assert_eq!(six(classic::factor(held, 0.3)), "0.408479");
}

#[test]
fn m12_distances_from_targets_give_the_fair_share_component_of_the_example() {
    let delta = |text: &str, percent: f64| {
        target::delta(
            UsageTarget::parse(text).unwrap(),
            percent,
            Distance::Difference,
        )
    };
    let component = Component {
        whole: WeightAndCap::of(100.0),
        parts: [10.0, 20.0, 30.0, 40.0].map(WeightAndCap::of).into(),
    };
    assert_eq!(
        component.value(&[
            delta("50", 45.0),
            0.0,
            delta("25", 35.0),
            delta("10+", 25.0)
        ]),
        -25_000.0
    );
    assert_eq!([delta("10+", 4.0), delta("10+", 12.0)], [6.0, 0.0]);
    assert_eq!([delta("10-", 4.0), delta("10-", 12.0)], [0.0, -2.0]);
    assert_eq!([delta("10%", 90.0), delta("10^", 90.0)], [0.0, 0.0]);
    let ratio = |text: &str, percent: f64| {
        target::delta(UsageTarget::parse(text).unwrap(), percent, Distance::Ratio)
    };
    assert_eq!(
        [
            ratio("50", 25.0),
            ratio("50", 50.0),
            ratio("50", 100.0),
            ratio("0", 0.0)
        ],
        [0.5, 0.0, -1.0, 1.0]
    );
}

#[test]
fn m12_a_cap_changes_no_factor() {
    let mut capped = accounts(&["a:1", "b:1", "c:1"]);
    capped[0].target = UsageTarget::parse("20%");
    capped[1].target = UsageTarget::parse("10^");
    let policy = FairShare {
        method: Method::Target,
        subject: UsageSubject::Account,
        accounts: capped,
        ..FairShare::default()
    };
    let table = share_table(
        &Tree::of(&policy.accounts),
        &policy,
        &usage(&[("a/x", 30.0), ("b/x", 10.0), ("c/x", 60.0)]),
    );
    let row = |name: &str| (table.accounts[name].is_capped, table.accounts[name].factor);
    assert_eq!([row("a"), row("b")], [(true, 0.5), (false, 0.5)]);
    assert!(row("c").1 < 0.5 && !row("c").0);
}

#[test]
fn m12_without_a_target_the_entitlement_is_the_target() {
    let table = table(
        Method::Target,
        &["a:1 x=1", "b:3 y=1"],
        &[("a/x", 25.0), ("b/y", 75.0)],
    );
    assert_eq!([factor(&table, "a/x"), factor(&table, "b/y")], [0.5, 0.5]);
}

#[test]
fn f20_a_user_with_less_usage_has_a_higher_factor() {
    for method in [
        Method::Classic,
        Method::Linear,
        Method::Tree,
        Method::Target,
    ] {
        let table = table(method, &[], &[("a", 10.0), ("b", 30.0), ("c", 60.0)]);
        assert!(factor(&table, "a") > factor(&table, "b"), "{method:?}");
        assert!(factor(&table, "b") > factor(&table, "c"), "{method:?}");
        assert_eq!(
            ["a", "b", "c"].map(|name| table.of(&member(name)).unwrap().rank),
            [1, 2, 3]
        );
    }
}

#[test]
fn without_usage_all_members_have_factor_1() {
    for method in [Method::Classic, Method::Linear, Method::Tree] {
        let table = table(method, HIERARCHY, &[]);
        assert!(
            table
                .members
                .values()
                .all(|row| row.factor == 1.0 && row.rank == 1),
            "{method:?}"
        );
    }
    assert!(
        table(Method::Target, &[], &[("a", 0.0)])
            .members
            .values()
            .all(|row| row.factor == 1.0)
    );
    assert!(table(Method::Classic, &[], &[]).members.is_empty());
}

#[test]
fn without_accounts_a_requested_account_does_not_count() {
    let table = table(
        Method::Classic,
        &[],
        &[("ann", 50.0), ("new/ann", 0.0), ("bob", 50.0)],
    );
    assert_eq!(table.members.len(), 2);
    assert_eq!(
        [
            factor(&table, "new/ann"),
            factor(&table, "other/ann"),
            factor(&table, "bob")
        ],
        [0.5, 0.5, 0.5]
    );
}

#[test]
fn if_accounts_are_configured_unlisted_users_come_last() {
    let used = [
        ("a/ann", 90.0),
        ("a/eve", 0.0),
        ("x/eve", 0.0),
        ("eve", 0.0),
        ("open/eve", 0.0),
    ];
    let table = table(Method::Classic, &["a:1 ann=1", "open:1"], &used);
    assert!(factor(&table, "a/ann") > 0.0);
    assert_eq!(
        ["a/eve", "x/eve", "eve"].map(|name| factor(&table, name)),
        [0.0, 0.0, 0.0]
    );
    assert_eq!(factor(&table, "open/eve"), 1.0);
    assert_eq!(table.of(&member("a/nobody")), None);
    let walk = self::table(Method::Tree, &["a:1 ann=1", "open:1"], &used);
    assert_eq!(
        ["open/eve", "a/ann"].map(|name| walk.of(&member(name)).unwrap().rank),
        [1, 2]
    );
    assert_eq!(
        ["a/eve", "x/eve", "eve"].map(|name| walk.of(&member(name)).unwrap().rank),
        [3, 4, 4]
    );
}

#[test]
fn users_of_the_root_are_at_the_level_of_the_accounts() {
    let table = table(
        Method::Classic,
        &["a:3 ann=1", "root:1 bob=1"],
        &[("a/ann", 75.0), ("bob", 25.0), ("eve", 0.0)],
    );
    assert_eq!(
        [
            factor(&table, "a/ann"),
            factor(&table, "bob"),
            factor(&table, "eve")
        ],
        [0.5, 0.5, 0.0]
    );
    assert_eq!(factor(&table, "root/bob"), 0.5);
}

#[test]
fn x5_the_subject_selects_the_usage_that_counts() {
    let used = usage(&[("a/ann", 30.0), ("b/ann", 30.0), ("b/bob", 40.0)]);
    let of = |subject: UsageSubject, name: &str| {
        let policy = FairShare {
            method: Method::Linear,
            subject,
            accounts: accounts(&["a:1", "b:1"]),
            ..FairShare::default()
        };
        share_table(&Tree::of(&policy.accounts), &policy, &used)
            .of(&member(name))
            .unwrap()
            .level
            .unwrap()
            .round()
    };
    assert_eq!(
        ["a/ann", "b/bob"].map(|name| of(UsageSubject::Member, name)),
        [700_000.0, 600_000.0]
    );
    assert_eq!(
        ["a/ann", "b/bob"].map(|name| of(UsageSubject::User, name)),
        [400_000.0, 600_000.0]
    );
    assert_eq!(
        ["a/ann", "b/bob"].map(|name| of(UsageSubject::Account, name)),
        [700_000.0, 300_000.0]
    );
    assert_eq!(
        ["a/ann", "b/bob"].map(|name| of(UsageSubject::Pool, name)),
        [700_000.0, 300_000.0]
    );
}

#[test]
fn x5_fairtree_ranks_accounts_if_only_accounts_count() {
    let accounts = accounts(&["a:1", "b:1", "c<b:1", "d<b:1"]);
    let policy = FairShare {
        method: Method::Tree,
        subject: UsageSubject::Account,
        accounts,
        ..FairShare::default()
    };
    let used = usage(&[("a/ann", 60.0), ("c/bob", 30.0), ("d/bob", 10.0)]);
    let table = share_table(&Tree::of(&policy.accounts), &policy, &used);
    let factors = ["d", "b", "c", "a"].map(|name| six(table.accounts[name].factor));
    assert_eq!(factors, ["1.000000", "1.000000", "0.666667", "0.333333"]);
}

#[test]
fn invalid_usage_gives_factors_from_0_to_1() {
    for method in [
        Method::Classic,
        Method::Linear,
        Method::Tree,
        Method::Target,
        Method::Off,
    ] {
        let used = [
            ("a", f64::NAN),
            ("b", f64::INFINITY),
            ("c", -5.0),
            ("d", f64::MIN_POSITIVE),
        ];
        let table = table(method, &[], &used);
        assert!(
            table
                .members
                .values()
                .all(|row| (0.0..=1.0).contains(&row.factor)),
            "{method:?}: {table:?}"
        );
    }
}

#[test]
fn off_gives_all_members_the_same_factor() {
    let table = table(Method::Off, &[], &[("a", 10.0), ("b", 0.0)]);
    assert!(
        table
            .members
            .values()
            .all(|row| row.factor == 0.5 && row.rank == 1)
    );
}

#[test]
fn the_outline_shows_the_configured_tree() {
    let mut all = accounts(&[
        "physics:40",
        "crystals<physics:30 ann=1 bob=2",
        "art:60",
        "root:1 eve=1",
    ]);
    all[1].target = UsageTarget::parse("25+");
    let policy = FairShare {
        accounts: all,
        ..FairShare::default()
    };
    let expected = "fairshare: classic, by user@account\n  \
                      art: shares 60, 59.41% of the cluster: any user\n  \
                      physics: shares 40, 39.60% of the cluster: any user\n    \
                        crystals: shares 30, 39.60% of the cluster, target 25+: ann 1, bob 2\n  \
                      users directly below the root: eve 1\n";
    assert_eq!(outline(&policy), expected);
    let policy = FairShare {
        accounts: accounts(&["art:60"]),
        ..policy
    };
    let expected =
        "fairshare: classic, by user@account\n  art: shares 60, 100.00% of the cluster: any user\n";
    assert_eq!(
        outline(&policy),
        expected,
        "without account root, the last line is missing"
    );
    let none = "fairshare: classic, by user@account\n  no accounts: every user has one share\n";
    assert_eq!(outline(&FairShare::default()), none);
}

/// Account sub has the shares of its parent a: users x and y and account b divide the part of a.
#[test]
fn f10_an_account_with_the_shares_of_its_parent_adds_no_level() {
    let all = ["a:1", "sub<a:parent x=1 y=1", "b<a:2 z=1", "c:1"];
    let used = [
        ("sub/x", 10.0),
        ("sub/y", 20.0),
        ("b/z", 30.0),
        ("c/w", 40.0),
    ];
    let table = table(Method::Classic, &all, &used);
    let entitlement = |name: &str| table.members[&member(name)].normalised;
    assert_eq!(
        [
            entitlement("sub/x"),
            entitlement("sub/y"),
            entitlement("b/z"),
            entitlement("c/w")
        ],
        [0.125, 0.125, 0.25, 0.5]
    );
    assert_eq!(
        (
            table.accounts["sub"].normalised,
            table.accounts["sub"].effective
        ),
        (0.5, 0.6)
    );
    let walk = self::table(Method::Tree, &all, &used);
    let ranks = ["sub/x", "b/z", "sub/y", "c/w"].map(|name| walk.members[&member(name)].rank);
    assert_eq!(
        (ranks, walk.accounts["sub"].rank),
        ([2, 3, 4, 1], walk.accounts["a"].rank)
    );
}

/// F12: the tie rule `slurm` treats levels as equal only if they are exactly equal.
#[test]
fn f12_the_tie_rule_flux_treats_levels_that_differ_by_rounding_as_equal() {
    let accounts = accounts(&["a:1", "b:1", "c:1"]);
    let ranks = |tie_rule, more: f64, of_all: f64| {
        let policy = FairShare {
            method: Method::Tree,
            subject: UsageSubject::Account,
            tie_rule,
            accounts: accounts.clone(),
            ..FairShare::default()
        };
        let used = usage(&[("a/x", 1.0), ("b/y", 1.0 + more), ("c/z", of_all)]);
        let table = share_table(&Tree::of(&policy.accounts), &policy, &used);
        ["a", "b", "c"].map(|name| table.accounts[name].rank)
    };
    for of_all in [10.0, 1e6] {
        assert_eq!(ranks(TieRule::Flux, 5e-10, of_all), [1, 1, 3]);
        assert_eq!(ranks(TieRule::Flux, 2e-9, of_all), [1, 2, 3]);
        assert_eq!(ranks(TieRule::Slurm, 5e-10, of_all), [1, 2, 3]);
    }
}

#[test]
fn m12_the_factor_is_below_one_half_above_the_target_and_above_one_half_below_it() {
    let of = |distance, name: &str| {
        let policy = FairShare {
            method: Method::Target,
            distance,
            accounts: accounts(&["a:1", "b:3"]),
            ..FairShare::default()
        };
        let used = usage(&[("a/x", 60.0), ("b/y", 40.0)]);
        share_table(&Tree::of(&policy.accounts), &policy, &used).accounts[name].factor
    };
    // The usage of a is 35 percentage points above its target of 25 percent, and the usage of b is
    // 35 points below its target of 75 percent.
    assert_eq!(
        ["a", "b"].map(|name| six(of(Distance::Difference, name))),
        ["0.325000", "0.675000"]
    );
    assert_eq!(
        ["a", "b"].map(|name| six(of(Distance::Ratio, name))),
        ["0.000000", "0.733333"]
    );
}

#[test]
fn m12_usage_equal_to_a_cap_is_not_above_it() {
    let is_capped = |text: &str, usage, percent| {
        target::is_capped(UsageTarget::parse(text).unwrap(), usage, percent)
    };
    assert_eq!(
        [19.0, 20.0, 21.0].map(|percent| is_capped("20%", 99.0, percent)),
        [false, false, true]
    );
    assert_eq!(
        [19.0, 20.0, 21.0].map(|usage| is_capped("20^", usage, 99.0)),
        [false, false, true]
    );
    assert!(!is_capped("20", 99.0, 99.0));
}

/// X5: in the list of tree nodes, users stand between accounts, so the indices of accounts change
/// when the users are removed.
#[test]
fn x5_accounts_keep_their_parents_if_users_do_not_count() {
    let accounts = accounts(&["a:1 ann=1 bob=1", "b:3 eve=1", "c<b:1 dan=1", "d<c:1"]);
    let policy = FairShare {
        subject: UsageSubject::Account,
        accounts,
        ..FairShare::default()
    };
    let table = share_table(
        &Tree::of(&policy.accounts),
        &policy,
        &usage(&[("a/ann", 1.0), ("d/eve", 3.0)]),
    );
    let row = |name: &str| (table.accounts[name].normalised, table.accounts[name].usage);
    assert_eq!(
        ["a", "b", "c", "d"].map(row),
        [(0.25, 1.0), (0.75, 3.0), (0.75, 3.0), (0.75, 3.0)]
    );
}
