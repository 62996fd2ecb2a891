//! `[preemption.starvation]`: when operations (jobs, or arrays with all subjobs) below their fair
//! share preempt other operations.

use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Table, key};
use crate::config::kinds::{AmountTable, BOOLEAN, FROM_0_TO_1, OneOf, Scalar, scalar, time};
use crate::model::account::Account;
use crate::model::account::starvation::{Boundary, PreemptionThresholds, StarvationConditions};
use crate::model::policy::Starvation;
use crate::model::resource::Resources;
use crate::model::time::Span;

/// The kind for a part of a fair share, which may exceed 1.
pub const THRESHOLD: Scalar<f64> = scalar("a number of at least 0", |number| *number >= 0.0);
/// The kind for any duration.
pub const TIME: Scalar<Span> = time("a time, such as \"30s\"");

/// `[preemption.starvation]`.
pub static STARVATION: Table<Config> = Table::new(
    "preemption.starvation",
    &[
        &key("tolerance", FROM_0_TO_1, |c| {
            &mut c.policy.starvation.patience.tolerance
        })
        .text("The part of its fair share, 0 to 1, below which an operation can starve."),
        &key("timeout", TIME, |c| {
            &mut c.policy.starvation.patience.timeout
        })
        .text("How long an operation must be below its fair share to starve."),
        &key("aggressive_timeout", TIME, |c| {
            &mut c.policy.starvation.patience.aggressive_timeout
        })
        .text("How long an operation must be below its fair share to starve aggressively."),
        &key("enable_aggressive", BOOLEAN, |c| {
            &mut c.policy.starvation.patience.enable_aggressive
        })
        .text("Whether operations (jobs or arrays) can starve aggressively."),
        &key("allow_aggressive", BOOLEAN, |c| {
            &mut c.policy.starvation.patience.allow_aggressive
        })
        .text(
            "Whether aggressively starving operations may preempt allocations between \
             aggressive_threshold and preemption_threshold.",
        ),
        &key("aggressive_threshold", THRESHOLD, |c| {
            &mut c.policy.starvation.aggressive_threshold
        })
        .text("The part of its fair share that an operation never loses to starving operations."),
        &key("preemption_threshold", THRESHOLD, |c| {
            &mut c.policy.starvation.preemption_threshold
        })
        .text(
            "The part of its fair share beyond which allocations of an operation may be preempted.",
        ),
        &key("boundary", OneOf(Boundary::ALL), |c| {
            &mut c.policy.starvation.boundary
        })
        .text(
            "How an allocation across a threshold counts: \"give\" (beyond) or \"keep\" (below).",
        ),
        &key("non_preemptible_threshold", AmountTable, |c| {
            &mut c.policy.starvation.non_preemptible_threshold
        })
        .text("An operation that uses less than each of these amounts is not preempted.")
        .default("none")
        .example("{ ncpus = 4 }"),
        &key("backoff", TIME, |c| &mut c.policy.starvation.backoff)
            .text("The shortest time between two preemptions on a node."),
        &key("update_period", TIME, |c| {
            &mut c.policy.starvation.update_period
        })
        .text("How long computed fair shares are kept while operations and nodes stay the same."),
    ],
)
.finish(finish);

fn finish(config: &mut Config, section: &Section, _: &Resources) -> Result<(), ConfigError> {
    let rule = &config.policy.starvation;
    let keys = ["aggressive_threshold", "preemption_threshold"];
    check_thresholds(section, keys, rule.terms_of("", &[]).cutoffs)?;
    check_timeouts(section, ["timeout", "aggressive_timeout"], rule.patience)
}

/// Checks that the aggressive threshold does not exceed the preemption threshold (Y5).
fn check_thresholds(
    section: &Section,
    keys: [&str; 2],
    cutoffs: PreemptionThresholds,
) -> Result<(), ConfigError> {
    let PreemptionThresholds {
        aggressive,
        preemption,
    } = cutoffs;
    if aggressive <= preemption {
        return Ok(());
    }
    let [low, high] = keys;
    let text = format!(
        "`{low}` is {aggressive} and `{high}` is {preemption}: lower `{low}` or raise `{high}`"
    );
    Err(section.key_error(first_set_key(section, keys), text))
}

/// Checks that the aggressive timeout is at least as long as the timeout (Y2).
fn check_timeouts(
    section: &Section,
    keys: [&str; 2],
    patience: StarvationConditions,
) -> Result<(), ConfigError> {
    let (timeout, aggressive) = (patience.timeout, patience.aggressive_timeout);
    if timeout <= aggressive {
        return Ok(());
    }
    let [first, second] = keys;
    let text = format!(
        "`{second}` is {aggressive} and `{first}` is {timeout}: raise `{second}` or lower `{first}`"
    );
    Err(section.key_error(first_set_key(section, keys), text))
}

/// The first of the two keys that the section sets; `keys[0]` if the section sets neither.
fn first_set_key<'k>(section: &Section, keys: [&'k str; 2]) -> &'k str {
    let found = keys.into_iter().find(|key| section.has(key));
    found.unwrap_or(keys[0])
}

/// Checks the two thresholds of each account that sets at least one of them, and likewise the two
/// timeouts. The account can inherit the other value.
pub fn check_accounts(
    root: &Section,
    rule: &Starvation,
    accounts: &[Account],
) -> Result<(), ConfigError> {
    for (section, account) in root.sections("account")?.iter().zip(accounts) {
        let own = &account.pool.starvation;
        if own.timeout.is_some() || own.aggressive_timeout.is_some() {
            let keys = ["starvation_timeout", "aggressive_starvation_timeout"];
            check_timeouts(section, keys, rule.patience_of(&account.name, accounts))?;
        }
        if own.aggressive_threshold.is_some() || own.preemption_threshold.is_some() {
            let keys = ["aggressive_preemption_threshold", "preemption_threshold"];
            let terms = rule.terms_of(&account.name, accounts);
            check_thresholds(section, keys, terms.cutoffs)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::account::pool_terms::Overrides;
    use crate::model::account::pool_terms::{FifoKey, PoolMode, PoolTerms};
    use crate::model::resource::ResourceValue;
    use crate::model::time::Span;

    fn refusal(text: &str) -> String {
        Config::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn starvation_settings_are_read() {
        let text = r#"
            [preemption.starvation]
            tolerance = 0.5
            timeout = "1m"
            aggressive_timeout = "5m"
            enable_aggressive = true
            allow_aggressive = false
            aggressive_threshold = 0.5
            preemption_threshold = 1.5
            boundary = "keep"
            non_preemptible_threshold = { ncpus = 3 }
            backoff = "0s"
            update_period = "500ms"
        "#;
        let rule = Config::parse(text).unwrap().effective_policy().starvation;
        let patience = StarvationConditions {
            tolerance: 0.5,
            timeout: Span::seconds(60),
            aggressive_timeout: Span::seconds(300),
            enable_aggressive: true,
            allow_aggressive: false,
        };
        let expected = Starvation {
            patience,
            aggressive_threshold: 0.5,
            preemption_threshold: 1.5,
            boundary: Boundary::Keep,
            non_preemptible_threshold: [("ncpus".to_string(), ResourceValue::Long(3))].into(),
            backoff: Span(0),
            update_period: Span(500),
        };
        assert_eq!(rule, expected);
        assert_eq!(
            Config::parse("").unwrap().effective_policy().starvation,
            Starvation::default()
        );
    }

    /// Y18, Y19, Y23, Y26, Y29.
    #[test]
    fn pool_settings_of_accounts_are_read() {
        let text = r#"
            [[account]]
            name = "prod"
            guarantee = { ncpus = 6, mem = "1gb" }
            max_share = 0.5
            mode = "fifo"
            fifo_sort = ["weight", "start_time"]
            tolerance = 0.6
            starvation_timeout = "5s"
            aggressive_starvation_timeout = "10s"
            enable_aggressive_starvation = true
            allow_aggressive_preemption = false
            aggressive_preemption_threshold = 0.5
            preemption_threshold = 2
            non_preemptible_threshold = { ncpus = 3 }
            [[account]]
            name = "dev"
        "#;
        let accounts = Config::parse(text)
            .unwrap()
            .effective_policy()
            .fair_share
            .accounts;
        let PoolTerms {
            guarantee,
            max_share,
            mode,
            fifo_sort,
            starvation,
            non_preemptible_threshold,
        } = &accounts[0].pool;
        assert_eq!(
            non_preemptible_threshold,
            &[("ncpus".to_string(), ResourceValue::Long(3))].into()
        );
        assert_eq!(
            (guarantee.len(), *max_share, *mode),
            (2, Some(0.5), PoolMode::Fifo)
        );
        assert_eq!(fifo_sort, &[FifoKey::Weight, FifoKey::StartTime]);
        let expected = Overrides {
            tolerance: Some(0.6),
            timeout: Some(Span::seconds(5)),
            aggressive_timeout: Some(Span::seconds(10)),
            enable_aggressive: Some(true),
            allow_aggressive: Some(false),
            aggressive_threshold: Some(0.5),
            preemption_threshold: Some(2.0),
        };
        assert_eq!(starvation, &expected);
        assert_eq!(accounts[1].pool, PoolTerms::default());
        assert_eq!(accounts[1].pool.line(), [FifoKey::StartTime]);
    }

    /// Y2, Y5.
    #[test]
    fn contradictory_thresholds_and_timeouts_are_refused_with_both_values() {
        let of = |more: &str| refusal(&format!("[preemption.starvation]\n{more}"));
        assert_eq!(
            of("aggressive_threshold = 0.9\npreemption_threshold = 0.8"),
            "line 2: `aggressive_threshold` is 0.9 and `preemption_threshold` is 0.8: \
             lower `aggressive_threshold` or raise `preemption_threshold`"
        );
        assert!(
            of("preemption_threshold = 0.1")
                .starts_with("line 2: `aggressive_threshold` is 0.2 and ")
        );
        assert_eq!(
            of("timeout = \"3m\""),
            "line 2: `aggressive_timeout` is 00:02:00 and `timeout` is 00:03:00: \
             raise `aggressive_timeout` or lower `timeout`"
        );
        let message = refusal(
            "[[account]]\nname = \"a\"\nstarvation_timeout = \"3m\"\n[[account]]\nname = \"b\"\nparent = \"a\"\n\
             aggressive_starvation_timeout = \"1m\"",
        );
        assert!(
            message.starts_with(
                "line 3: `aggressive_starvation_timeout` is 00:02:00 and `starvation_timeout`"
            ),
            "{message}"
        );
        let message = refusal(
            "[[account]]\nname = \"a\"\nstarvation_timeout = \"2m\"\n[[account]]\nname = \"b\"\nparent = \"a\"\n\
             aggressive_starvation_timeout = \"1m\"",
        );
        assert!(message.starts_with("line 7: "), "{message}");
        let message = refusal(
            "[[account]]\nname = \"a\"\naggressive_preemption_threshold = 0.9\n[[account]]\nname = \"b\"\n\
             parent = \"a\"\npreemption_threshold = 0.5",
        );
        assert!(
            message.starts_with(
                "line 7: `aggressive_preemption_threshold` is 0.9 and `preemption_threshold` is 0.5"
            ),
            "{message}"
        );
    }

    #[test]
    fn invalid_starvation_settings_are_refused_with_their_line() {
        for wrong in [
            "tolerance = 1.5",
            "tolerance = -1",
            "timeout = 5",
            "boundary = \"lose\"",
            "backof = \"1s\"",
        ] {
            assert!(
                refusal(&format!("[preemption.starvation]\n{wrong}")).starts_with("line 2: "),
                "{wrong}"
            );
        }
        for wrong in [
            "max_share = 0",
            "max_share = 1.5",
            "mode = \"lifo\"",
            "fifo_sort = [\"weight\", \"weight\"]",
            "guarantee = { nosuch = 1 }",
        ] {
            assert!(
                refusal(&format!("[[account]]\nname = \"a\"\n{wrong}")).starts_with("line 3: "),
                "{wrong}"
            );
        }
    }
}
