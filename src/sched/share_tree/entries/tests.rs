//! Tests of the rows of the fair-share report, mostly of the time to balance: the time until an
//! account or user with usage above its share has only its share of all usage again.

use super::*;
use crate::model::account::charge::{Charge, UsageRules};
use crate::model::account::decay::Decay;
use crate::model::account::{Account, Shares, UsageTarget};
use crate::model::job::held::Held;
use crate::model::job_id::JobId;
use crate::model::policy::fair_share::{Method, UsageSubject};
use crate::model::time::Span;

const HOUR: i64 = 3600;
const WEEK: i64 = 168 * HOUR;

fn at(hours: i64) -> Time {
    Time(0) + Span::seconds(hours * HOUR)
}

/// Accounts from lines such as `physics:40 ann=1`: account physics with 40 shares, and in it user
/// ann with 1 share.
fn accounts(lines: &[&str]) -> Vec<Account> {
    let shares = |text: &str| Shares::Of(text.parse().unwrap());
    let account = |line: &&str| {
        let mut words = line.split(' ');
        let (name, own) = words.next().unwrap().split_once(':').unwrap();
        let users: Vec<_> = words
            .map(|word| word.split_once('=').unwrap())
            .map(|(user, own)| (user.to_string(), shares(own)))
            .collect();
        let users = Some(users).filter(|users| !users.is_empty());
        Account {
            name: name.to_string(),
            shares: shares(own),
            users,
            ..Account::default()
        }
    };
    lines.iter().map(account).collect()
}

/// Usage from ended jobs `(account, user, CPUs, hours)`, which ran until hour 0, and from running
/// jobs `(account, user, CPUs)`, which start at hour 0.
fn usage(
    decay: Decay,
    ended: &[(&str, &str, u32, i64)],
    running: &[(&str, &str, u32)],
) -> UsageTable {
    let mut usage = UsageTable::new(UsageRules {
        decay,
        ..UsageRules::default()
    });
    let charge = |account: &str, user: &str, cores, from, to| Charge {
        member: Member::new(account, user),
        from: at(from),
        to,
        held: Held {
            cores,
            ..Held::default()
        },
        amounts: Default::default(),
        factor: 1.0,
    };
    ended.iter().for_each(|&(account, user, cores, hours)| {
        usage.add(&charge(account, user, cores, -hours, Some(at(0))));
    });
    for (number, &(account, user, cores)) in running.iter().enumerate() {
        usage.charge(
            JobId::job(number as u64 + 1),
            &charge(account, user, cores, 0, None),
        );
    }
    usage
}

fn table(method: Method, lines: &[&str], usage: &UsageTable) -> Vec<ShareStatus> {
    let policy = FairShare {
        method,
        accounts: accounts(lines),
        ..FairShare::default()
    };
    rows_of(&policy, usage, &[], 0)
}

fn rows_of(
    policy: &FairShare,
    usage: &UsageTable,
    waiting: &[Member],
    hour: i64,
) -> Vec<ShareStatus> {
    let tree = Tree::of(&policy.accounts);
    let mut decayed: BTreeMap<Member, f64> = usage
        .members()
        .map(|member| (tree.named(member), usage.decayed(member, at(hour))))
        .collect();
    decayed.extend(waiting.iter().map(|member| (member.clone(), 0.0)));
    entries(&tree, policy, usage, &decayed, at(hour))
}

fn balance(entries: &[ShareStatus], name: &str) -> TimeToBalance {
    let has_name = |entry: &&ShareStatus| entry.user.as_ref().unwrap_or(&entry.account) == name;
    entries
        .iter()
        .find(has_name)
        .unwrap_or_else(|| panic!("no row of {name}"))
        .balance
}

/// Checks that the time to balance is this number of hours, within 1 percent.
#[track_caller]
fn is_about(balance: TimeToBalance, hours: f64) {
    let TimeToBalance::After(span) = balance else {
        panic!("{balance:?}, not after {hours} h")
    };
    let after = span.0 as f64 / 3_600_000.0;
    assert!(
        (after - hours).abs() <= 0.01 * hours,
        "after {after} h, not {hours} h"
    );
}

#[test]
fn rows_are_in_the_order_of_the_tree_and_include_the_usage_below() {
    let usage = usage(
        Decay::None,
        &[("art", "bob", 2, 3), ("art", "eve", 1, 1)],
        &[("physics", "ann", 4)],
    );
    let policy = FairShare {
        accounts: accounts(&["physics:40", "art:60 bob=1 eve=2"]),
        ..FairShare::default()
    };
    let entries = rows_of(&policy, &usage, &[Member::new("physics", "new")], 1);
    let row = |entry: &ShareStatus| {
        let name = entry.user.as_ref().unwrap_or(&entry.account).clone();
        (name, entry.depth, entry.raw / 3600.0, entry.in_use)
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    let expected = [
        ("art", 0, 7.0, 0.0),
        ("bob", 1, 6.0, 0.0),
        ("eve", 1, 1.0, 0.0),
        ("physics", 0, 4.0, 4.0),
        ("ann", 1, 4.0, 4.0),
        ("new", 1, 0.0, 0.0),
    ];
    assert_eq!(
        rows,
        expected.map(|(name, depth, raw, now)| (name.to_string(), depth, raw, now))
    );
    assert_eq!(
        (
            entries[0].normalised,
            entries[0].used,
            entries[0].account.as_str()
        ),
        (0.6, 7.0 / 11.0, "art")
    );
    assert!((entries[2].normalised - 0.4).abs() < 1e-12 && entries[5].factor > entries[4].factor);
}

/// Ann has used one CPU for 30 h. Bob's job begins to use one CPU at hour 0. Without decay, bob has
/// used as much as ann after 30 h, so each has half of all usage.
#[test]
fn an_account_is_in_balance_when_the_usage_of_others_has_caught_up() {
    let usage = usage(
        Decay::None,
        &[("heavy", "ann", 1, 30)],
        &[("light", "bob", 1)],
    );
    for method in [
        Method::Classic,
        Method::Linear,
        Method::Tree,
        Method::Target,
    ] {
        let table = table(method, &["heavy:1", "light:1"], &usage);
        is_about(balance(&table, "heavy"), 30.0);
        assert_eq!(balance(&table, "light"), TimeToBalance::Kept, "{method:?}");
    }
    let table = table(Method::Classic, &["heavy:1", "light:3"], &usage);
    is_about(balance(&table, "heavy"), 90.0);
}

/// After t weeks, D * 2^-t is left of ann's usage D, and bob has G * (1 - 2^-t) with
/// G = half-life / ln(2). They are equal when 2^-t = G / (D + G).
#[test]
fn decay_shortens_the_time_to_balance() {
    let usage = usage(
        Decay::default(),
        &[("heavy", "ann", 1, 1)],
        &[("light", "bob", 1)],
    );
    let left = usage.all(at(0))[0].decayed;
    let gain = WEEK as f64 / std::f64::consts::LN_2;
    let weeks = ((left + gain) / gain).log2();
    let table = table(Method::Classic, &["heavy:1", "light:1"], &usage);
    is_about(balance(&table, "heavy"), weeks * 168.0);
    assert!(weeks * 168.0 < 1.0);
}

#[test]
fn without_usage_of_others_an_account_is_in_balance_only_after_its_usage_has_expired() {
    let heavy = &[("heavy", "ann", 1, 30)];
    for decay in [
        Decay::None,
        Decay::default(),
        Decay::Step {
            half_life: Decay::WEEK,
        },
    ] {
        // The time to balance assumes that the account runs no jobs, so its running job of 3 CPUs
        // makes no difference.
        let usage = usage(decay, heavy, &[("heavy", "ann", 3)]);
        assert_eq!(
            balance(
                &table(Method::Classic, &["heavy:1", "light:1"], &usage),
                "heavy"
            ),
            TimeToBalance::Never
        );
    }
    let window = Decay::Window {
        length: Span::seconds(HOUR),
        count: 5,
        factor: 1.0,
    };
    let usage = usage(window, &[("heavy", "ann", 1, 1)], &[]);
    is_about(
        balance(
            &table(Method::Classic, &["heavy:1", "light:1"], &usage),
            "heavy",
        ),
        4.0,
    );
}

/// The effective usage of a user includes a part of the effective usage of the account.
#[test]
fn a_user_is_in_balance_when_its_effective_usage_is_at_its_share() {
    let used = usage(
        Decay::None,
        &[("heavy", "ann", 1, 30)],
        &[("light", "bob", 1)],
    );
    let all = table(Method::Classic, &["heavy:1 ann=1 idle=1", "light:1"], &used);
    // Let a be the fraction of all usage that account heavy has. Each of its users is entitled to
    // 1/4. The effective usage of ann is a + (a - a) / 2 = a, which is at most 1/4 from 90 h on.
    is_about(balance(&all, "ann"), 90.0);
    // The effective usage of idle is 0 + (a - 0) / 2, which is at most 1/4 from 30 h on.
    is_about(balance(&all, "idle"), 30.0);
}

#[test]
fn an_account_is_in_balance_with_method_off_or_with_a_cap() {
    let used = usage(
        Decay::None,
        &[("heavy", "ann", 1, 30)],
        &[("light", "bob", 1)],
    );
    let off = table(Method::Off, &["heavy:1", "light:1"], &used);
    assert!(off.iter().all(|entry| entry.balance == TimeToBalance::Kept));
    let mut capped = accounts(&["heavy:1", "light:1"]);
    capped[0].target = UsageTarget::parse("20%");
    let policy = FairShare {
        method: Method::Target,
        subject: UsageSubject::Account,
        accounts: capped,
        ..FairShare::default()
    };
    let table = rows_of(&policy, &used, &[], 0);
    assert_eq!(table.len(), 2);
    assert!(
        table[0].is_capped
            && table[0].balance == TimeToBalance::Kept
            && table[0].target == UsageTarget::parse("20%")
    );
}

#[test]
fn a_user_with_the_shares_of_its_account_is_in_balance_when_the_account_is() {
    let used = usage(
        Decay::None,
        &[("heavy", "ann", 1, 30)],
        &[("light", "bob", 1)],
    );
    let mut all = accounts(&["heavy:1 ann=1", "light:1", "open:1"]);
    all[0].users = Some(vec![("ann".to_string(), Shares::Parent)]);
    all[2].users = Some(vec![("bob".to_string(), Shares::Of(1.0))]);
    let policy = FairShare {
        accounts: all.clone(),
        ..FairShare::default()
    };
    let table = rows_of(&policy, &used, &[], 0);
    // The entitlement of heavy is a third. After 60 h, its usage of 30 h is a third of all usage.
    is_about(balance(&table, "heavy"), 60.0);
    assert_eq!(balance(&table, "ann"), balance(&table, "heavy"));
    // Directly below the root, an account with the shares of its parent is entitled to the whole
    // cluster, and no usage exceeds this.
    all[0].shares = Shares::Parent;
    let table = rows_of(
        &FairShare {
            accounts: all,
            ..FairShare::default()
        },
        &used,
        &[],
        0,
    );
    assert_eq!(balance(&table, "heavy"), TimeToBalance::Kept);
}
