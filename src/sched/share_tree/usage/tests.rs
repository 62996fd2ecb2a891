//! Tests of usage tables. A charge is the usage of one attempt (start) of a job.

use super::*;
use crate::model::account::charge::Weights;
use crate::model::account::decay::Decay;
use crate::model::job::held::Held;
use crate::model::time::Span;
use proptest::prelude::*;

const HOUR: i64 = 3600;

fn at(second: i64) -> Time {
    Time(0) + Span::seconds(second)
}

fn member(name: &str) -> Member {
    Member {
        account: format!("of-{name}"),
        user: name.into(),
    }
}

fn charge(name: &str, from: i64, cores: u32) -> Charge {
    Charge {
        member: member(name),
        from: at(from),
        to: None,
        held: Held {
            nodes: 1,
            cores,
            ..Held::default()
        },
        amounts: BTreeMap::new(),
        factor: 1.0,
    }
}

fn rules(decay: Decay) -> UsageRules {
    UsageRules {
        decay,
        ..UsageRules::default()
    }
}

#[test]
fn the_usage_of_a_running_job_grows_until_its_charge_ends() {
    let mut usage = UsageTable::new(rules(Decay::None));
    usage.charge(JobId::job(1), &charge("ann", 0, 4));
    usage.charge(JobId::job(2), &charge("ann", 50, 1));
    assert_eq!(
        (
            usage.decayed(&member("ann"), at(100)),
            usage.in_use(&member("ann"))
        ),
        (450.0, 5.0)
    );
    usage.charge(JobId::job(1), &charge("ann", 0, 4).until(at(60)));
    assert_eq!(
        (
            usage.decayed(&member("ann"), at(100)),
            usage.in_use(&member("ann"))
        ),
        (290.0, 1.0)
    );
    assert_eq!(usage.decayed(&member("bob"), at(100)), 0.0);
}

#[test]
fn i4_16_cores_for_half_an_hour_are_8_core_hours_and_decay_by_the_half_life() {
    let mut usage = UsageTable::new(rules(Decay::Step {
        half_life: Decay::WEEK,
    }));
    usage.charge(JobId::job(1), &charge("ann", 0, 16));
    usage.charge(JobId::job(1), &charge("ann", 0, 16).until(at(1800)));
    let hours = |hour: i64| usage.decayed(&member("ann"), at(hour * HOUR)) / HOUR as f64;
    assert_eq!([hours(1), hours(168), hours(336)], [8.0, 4.0, 2.0]);
}

#[test]
fn a_charge_that_is_reported_twice_counts_once_and_a_new_charge_replaces_it() {
    let mut usage = UsageTable::new(rules(Decay::default()));
    usage.charge(JobId::job(1), &charge("ann", 0, 4));
    let once = usage.clone();
    usage.charge(JobId::job(1), &charge("ann", 0, 4));
    assert_eq!(usage, once);
    // The job is charged to another member while it runs.
    usage.charge(JobId::job(1), &charge("bob", 0, 4));
    assert_eq!(
        (
            usage.members().cloned().collect::<Vec<_>>(),
            usage.in_use(&member("bob"))
        ),
        (vec![member("bob")], 4.0)
    );
}

#[test]
fn a_member_without_charges_is_removed() {
    let mut usage = UsageTable::new(rules(Decay::Window {
        length: Span::seconds(HOUR),
        count: 2,
        factor: 1.0,
    }));
    let [first, second] = [
        charge("ann", 0, 4).until(at(60)),
        charge("ann", 0, 4).until(at(90)),
    ];
    usage.add(&first);
    usage.add(&second);
    usage.forget(&first);
    assert_eq!(usage.all(at(100))[0].raw, 360.0);
    usage.forget(&second);
    assert_eq!(usage, UsageTable::new(usage.rules.clone()));
    usage.add(&charge("ann", 5, 4).until(at(5)));
    assert_eq!(
        usage.members().count(),
        0,
        "a charge without duration does not count"
    );
}

#[test]
fn usage_survives_serialization() {
    let mut usage = UsageTable::new(rules(Decay::default()));
    usage.add(&charge("ann", 0, 4).until(at(777)));
    usage.charge(JobId::job(3), &charge("bob", 333, 3));
    usage.charge(JobId::job(4), &charge("bob", 334, 3));
    let text = serde_json::to_string(&usage).unwrap();
    assert_eq!(serde_json::from_str::<UsageTable>(&text).unwrap(), usage);
}

#[test]
fn no_rounding_errors_remain_after_the_last_job() {
    let weights = Weights {
        nodes: 0.1,
        cores: 0.0,
        ..Weights::default()
    };
    let mut usage = UsageTable::new(UsageRules {
        weights: weights.clone(),
        ..rules(Decay::None)
    });
    let held = |nodes| Charge {
        held: Held {
            nodes,
            ..Held::default()
        },
        ..charge("ann", 0, 0)
    };
    let charges = [held(1), held(2), held(7)];
    charges
        .iter()
        .zip(1..)
        .for_each(|(charge, id)| usage.charge(JobId::job(id), charge));
    charges
        .iter()
        .zip(1..)
        .for_each(|(charge, id)| usage.charge(JobId::job(id), &charge.clone().until(at(10))));
    assert_eq!(
        (usage.in_use(&member("ann")), usage.rules().weights.clone()),
        (0.0, weights)
    );
    let ended: Vec<Charge> = charges
        .into_iter()
        .map(|charge| charge.until(at(10)))
        .collect();
    assert_eq!(usage, UsageTable::of(usage.rules().clone(), &ended));
}

#[test]
fn removing_a_charge_that_was_never_added_changes_nothing() {
    let mut usage = UsageTable::new(rules(Decay::None));
    usage.charge(JobId::job(1), &charge("ann", 0, 4));
    let before = usage.clone();
    usage.forget(&charge("ann", 0, 4).until(at(60)));
    usage.forget(&charge("bob", 0, 4).until(at(60)));
    assert_eq!(usage, before);
}

fn decay() -> impl Strategy<Value = Decay> {
    let length = (1..2000i64).prop_map(Span::seconds);
    prop_oneof![
        Just(Decay::None),
        length
            .clone()
            .prop_map(|half_life| Decay::Step { half_life }),
        length
            .clone()
            .prop_map(|half_life| Decay::Continuous { half_life }),
        (length, 1..9u32, 0..=4u32).prop_map(|(length, count, quarters)| Decay::Window {
            length,
            count,
            factor: f64::from(quarters) / 4.0
        }),
    ]
}

fn usage_rules() -> impl Strategy<Value = UsageRules> {
    let weights = (0..3u32, 0..3u32).prop_map(|(nodes, cores)| Weights {
        nodes: f64::from(nodes) * 0.1,
        cores: f64::from(cores),
        ..Weights::default()
    });
    (
        decay(),
        prop::option::of((1..3000i64).prop_map(Span::seconds)),
        weights,
    )
        .prop_map(|(decay, reset, weights)| UsageRules {
            decay,
            reset,
            weights,
        })
}

/// A job of the test: (whether bob owns it, start, length, delay until the end is reported, CPUs);
/// times are in seconds.
type TestJob = (bool, i64, i64, i64, u32);

/// The decayed usage of `owner` at `now`, summed over the charges one by one.
fn sum_of_charges(rules: &UsageRules, charges: &[Charge], owner: &Member, now: Time) -> f64 {
    charges
        .iter()
        .filter(|charge| charge.member == *owner)
        .map(|charge| rules.left(charge, now))
        .sum()
}

proptest! {
    /// F24: after any sequence of events, and after a restart with the same or with other rules,
    /// the usage equals the sum over the charges.
    #[test]
    fn the_usage_of_a_member_equals_the_sum_over_its_charges(
        jobs in prop::collection::vec(any::<bool>().prop_flat_map(|bob| {
            (Just(bob), 0..3000i64, 0..2000i64, 0..100i64, 1..9u32)
        }), 1..20),
        rules in usage_rules(), others in usage_rules(), now in 0..6000i64, later in 0..3000i64,
    ) {
        let (usage, charges) = replayed(&jobs, rules.clone(), now);
        let restarted = |rules: &UsageRules| {
            let ended = charges.iter().filter(|charge| charge.to.is_some());
            let mut usage = UsageTable::of(rules.clone(), ended);
            let open = charges.iter().enumerate().filter(|(_, charge)| charge.to.is_none());
            open.for_each(|(id, charge)| usage.charge(JobId::job(id as u64), charge));
            usage
        };
        for name in ["ann", "bob"] {
            for moment in [at(now), at(now + later)] {
                let close = |usage: &UsageTable, rules: &UsageRules| {
                    let expected = sum_of_charges(rules, &charges, &member(name), moment);
                    let decayed = usage.decayed(&member(name), moment);
                    (decayed - expected).abs() <= 1e-6 * expected.max(1.0)
                };
                prop_assert!(close(&usage, &rules), "{name}: {usage:?}");
                prop_assert!(close(&restarted(&rules), &rules));
                prop_assert!(close(&restarted(&others), &others));
            }
        }
    }
}

/// The usage at `now`, after all starts and reported ends until then, and the charges at `now`.
fn replayed(jobs: &[TestJob], rules: UsageRules, now: i64) -> (UsageTable, Vec<Charge>) {
    let mut events = Vec::new();
    let mut charges = Vec::new();
    for (id, &(bob, from, lasts, late, cores)) in
        jobs.iter().enumerate().filter(|(_, job)| job.1 <= now)
    {
        let begun = charge(if bob { "bob" } else { "ann" }, from, cores);
        events.push((from, id, begun.clone()));
        let reported = from + lasts + late;
        let ended = begun.clone().until(at(from + lasts));
        charges.push(if reported <= now {
            ended.clone()
        } else {
            begun
        });
        events.extend((reported <= now).then_some((reported, id, ended)));
    }
    events.sort_by_key(|&(moment, id, ref charge)| (moment, id, charge.to.is_some()));
    let mut usage = UsageTable::new(rules);
    events
        .iter()
        .for_each(|(_, id, charge)| usage.charge(JobId::job(*id as u64), charge));
    (usage, charges)
}
