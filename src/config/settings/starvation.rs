//! `[preemption.starvation]` and what accounts say as pools, as they hold.

use super::{Known, amounts, span};
use crate::model::account::pool_terms::PoolTerms;
use crate::model::account::pool_terms::{FifoKey, Mode};
use crate::model::policy::Starvation;
use toml::Value;

pub(super) fn starvation(rule: &Starvation) -> Vec<Known> {
    let patience = rule.patience;
    vec![
        ("tolerance", Some(patience.tolerance.into())),
        ("timeout", Some(span(patience.timeout))),
        (
            "aggressive_timeout",
            Some(span(patience.aggressive_timeout)),
        ),
        ("enable_aggressive", Some(patience.enable_aggressive.into())),
        ("allow_aggressive", Some(patience.allow_aggressive.into())),
        (
            "aggressive_threshold",
            Some(rule.aggressive_threshold.into()),
        ),
        (
            "preemption_threshold",
            Some(rule.preemption_threshold.into()),
        ),
        ("boundary", Some(rule.boundary.name().into())),
        (
            "non_preemptible_threshold",
            amounts(&rule.non_preemptible_threshold),
        ),
        ("backoff", Some(span(rule.backoff))),
        ("update_period", Some(span(rule.update_period))),
    ]
}

/// What an account says as a pool.
pub(super) fn pool(terms: &PoolTerms) -> Vec<Known> {
    let said = &terms.starvation;
    let line: Vec<Value> = terms
        .fifo_sort
        .iter()
        .map(|key: &FifoKey| key.name().into())
        .collect();
    vec![
        ("guarantee", amounts(&terms.guarantee)),
        ("max_share", terms.max_share.map(Value::from)),
        (
            "mode",
            (terms.mode != Mode::default()).then(|| terms.mode.name().into()),
        ),
        ("fifo_sort", (!line.is_empty()).then(|| line.into())),
        ("tolerance", said.tolerance.map(Value::from)),
        ("starvation_timeout", said.timeout.map(span)),
        (
            "aggressive_starvation_timeout",
            said.aggressive_timeout.map(span),
        ),
        (
            "enable_aggressive_starvation",
            said.enable_aggressive.map(Value::from),
        ),
        (
            "allow_aggressive_preemption",
            said.allow_aggressive.map(Value::from),
        ),
        (
            "aggressive_preemption_threshold",
            said.aggressive_threshold.map(Value::from),
        ),
        (
            "preemption_threshold",
            said.preemption_threshold.map(Value::from),
        ),
        (
            "non_preemptible_threshold",
            amounts(&terms.non_preemptible_threshold),
        ),
    ]
}
