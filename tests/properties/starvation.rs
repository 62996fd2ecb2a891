//! Properties of fair shares and of preemption for starving jobs, for random demands and clusters.

use crate::fixture::{TestCluster, cluster};
use crate::support::cases;
use lanai::model::account::starvation::Boundary;
use lanai::model::account::{Account, Shares};
use lanai::model::job::preemption::PreemptCause;
use lanai::model::job_id::JobId;
use lanai::model::policy::{Policy, Preset};
use lanai::model::time::Time;
use lanai::sched::fairshare::starvation::groups::{AllocationGroup, Thresholds, divide};
use lanai::sched::share_tree::ClusterTotal;
use lanai::sched::share_tree::water_filling::{Demand, split};
use proptest::prelude::*;
use std::sync::Arc;

fn a_claim() -> impl Strategy<Value = Demand> {
    (0.01f64..8.0, 0.0f64..0.6, 0.0f64..1.0).prop_map(|(weight, least, most)| Demand {
        weight,
        least,
        most,
    })
}

fn claims(least: usize) -> impl Strategy<Value = Vec<Demand>> {
    prop::collection::vec(a_claim(), least..12)
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    (
        0.0f64..0.5,
        0.0f64..0.5,
        any::<bool>(),
        0i64..4,
        any::<bool>(),
    )
        .prop_map(|(low, more, gives, spared, allow)| Thresholds {
            aggressive: low,
            preemption: low + more,
            boundary: if gives {
                Boundary::Give
            } else {
                Boundary::Keep
            },
            spared: if spared > 0 {
                vec![(0, spared)]
            } else {
                Vec::new()
            },
            allow_aggressive: allow,
        })
}

/// A full node with running jobs of these sizes, oldest first, of an account without a fair share.
/// A job of another account has been starving for a long time.
fn crowded(sizes: &[u32], needs: u32) -> TestCluster {
    let all: u32 = sizes.iter().sum();
    let mut fixture = cluster(&format!("1 x ncpus={all}"));
    fixture.policy = Policy {
        default_walltime: fixture.policy.default_walltime,
        ..Preset::Ytsaurus.policy()
    };
    let account = |name: &str, shares| Account {
        name: name.into(),
        shares,
        ..Account::default()
    };
    fixture.policy.fair_share.accounts = vec![
        account("own", Shares::Of(1.0)),
        account("idle", Shares::Of(0.0)),
    ];
    for (size, number) in sizes.iter().zip(1u64..) {
        fixture = fixture.running(number, &format!("select=1:ncpus={size}"), "n1", 100_000);
        fixture = fixture.candidate(JobId::job(number), number as i64, 0.0, |_| ());
    }
    let mut job = fixture.job(99, &format!("select=1:ncpus={needs}"));
    Arc::make_mut(&mut job.spec).account = Some("own".to_string());
    fixture.state.enqueue(&job);
    let policy = fixture.policy.clone();
    fixture.state.prioritise(&policy, Time(100_000));
    fixture.now = Time(100_000);
    let plan = fixture.plan();
    assert!(plan.preempts.is_empty(), "the job does not starve yet");
    fixture.apply(&plan);
    fixture.at(200)
}

proptest! {
    #![proptest_config(cases(400))]

    /// Y20: each claim gets at most its maximum and at least its guarantee. All resources are
    /// distributed or all claims satisfied. Unsatisfied claims get equal amounts by weight, or
    /// their guarantee if that is more.
    #[test]
    fn unsatisfied_claims_get_equal_amounts_by_weight(all in claims(1)) {
        let parts = split(1.0, &all);
        let least = |claim: &Demand| claim.least.min(claim.most);
        let is_short = all.iter().map(least).sum::<f64>() > 1.0;
        let wanted: f64 = all.iter().map(|claim| claim.most).sum();
        prop_assert!((parts.iter().sum::<f64>() - wanted.min(1.0)).abs() < 1e-9);
        let risen = parts.iter().zip(&all).filter(|(part, claim)| **part > least(claim) + 1e-9);
        let highest = risen.map(|(part, claim)| part / claim.weight).fold(0.0, f64::max);
        for (part, claim) in parts.iter().zip(&all) {
            prop_assert!(*part <= claim.most + 1e-12);
            prop_assert!(is_short || *part + 1e-9 >= least(claim));
            let is_full = part + 1e-9 >= claim.most;
            prop_assert!(is_short || is_full || part / claim.weight + 1e-6 >= highest, "{parts:?}");
        }
    }

    /// Y20: a larger weight never gets less.
    #[test]
    fn a_larger_weight_gets_no_less(all in claims(2), more in 0.0f64..5.0) {
        let mut heavier = all.clone();
        heavier[0].weight += more;
        prop_assert!(split(1.0, &heavier)[0] + 1e-9 >= split(1.0, &all)[0]);
    }

    /// A claim multiplied by N gets as much as N such claims.
    #[test]
    fn equal_claims_get_the_same_in_total_if_they_are_combined(one in a_claim(), others in claims(0), number in 1u64..9) {
        let each: Vec<Demand> = (0..number).map(|_| one).chain(others.clone()).collect();
        let together: Vec<Demand> = std::iter::once(one.times(number)).chain(others).collect();
        let (each, together) = (split(1.0, &each)[0] * number as f64, split(1.0, &together)[0]);
        prop_assert!((each - together).abs() < 1e-9, "{each} {together}");
    }

    /// Y3 to Y6: every allocation is in one group, and an older one is never in a group that is
    /// preempted earlier. With the documented boundary rule, the kept amount is within the
    /// threshold, or spared in any case.
    #[test]
    fn every_allocation_is_in_one_group_and_groups_are_ordered_by_age(sizes in prop::collection::vec(1i64..4, 0..12), thresholds in thresholds()) {
        let all: i64 = sizes.iter().sum();
        let taken: Vec<_> = sizes.iter().map(|size| vec![*size].into_boxed_slice()).collect();
        let age = |place: usize| (Time(place as i64), JobId::element(1, place as u32));
        let newest_first = taken.iter().enumerate().map(|(place, taken)| (age(place), taken)).rev();
        let together = vec![all].into_boxed_slice();
        let whole = ClusterTotal::new(&[20]);
        let divided = divide(newest_first, &together, &whole, &thresholds, AllocationGroup::Kept);
        prop_assert_eq!(divided.len(), sizes.len());
        prop_assert!(divided.windows(2).all(|pair| pair[0].1 > pair[1].1 && pair[0].0 <= pair[1].0), "{:?}", divided);
        let of = |group: AllocationGroup| divided.iter().filter(move |(found, _)| *found == group);
        let kept: i64 = of(AllocationGroup::Kept).map(|(_, (at, _))| sizes[at.0 as usize]).sum();
        let bound = if thresholds.allow_aggressive { thresholds.aggressive } else { thresholds.preemption };
        let spared = thresholds.spared.first().map_or(0, |(_, most)| *most);
        if thresholds.boundary == Boundary::Give {
            prop_assert!(kept as f64 / 20.0 <= bound + 1e-9 || kept < spared, "{kept} {thresholds:?}");
        }
        prop_assert!(thresholds.allow_aggressive || of(AllocationGroup::Aggressively).next().is_none());
    }

    /// Y12: the victims suffice, each is necessary, and the oldest one ends the shortest sufficient
    /// sequence of the newest jobs. No job is preempted in vain (G8).
    #[test]
    fn victims_are_sufficient_and_all_are_necessary(sizes in prop::collection::vec(1u32..5, 1..8), needs in 1u32..12) {
        let plan = crowded(&sizes, needs).plan();
        let victims: Vec<u32> = plan.preempts.iter().map(|preempt| sizes[preempt.job.number as usize - 1]).collect();
        let all: u32 = victims.iter().sum();
        if needs > sizes.iter().sum() {
            prop_assert!(victims.is_empty());
            return Ok(());
        }
        prop_assert!(plan.preempts.iter().all(|preempt| preempt.cause == PreemptCause::Starvation));
        prop_assert!(all >= needs, "{victims:?}");
        prop_assert!(victims.iter().all(|size| all - size < needs), "{victims:?}");
        let mut newest = 0;
        let oldest = sizes.iter().enumerate().rev().find(|(_, size)| { newest += **size; newest >= needs });
        let last = plan.preempts.iter().map(|preempt| preempt.job.number).min().unwrap();
        prop_assert_eq!(oldest.map(|(place, _)| place as u64 + 1), Some(last), "the oldest victim");
    }
}
