//! `[preemption.starvation]`, and what each `[[account]]` says as a pool.

use super::precedence::{from_0_to_1, number};
use super::scheduling::named;
use super::{BOOLEAN, boolean, by_name, keys, list, one_of, queue, span};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::account::Account;
use crate::model::account::pool_terms::PoolTerms;
use crate::model::account::pool_terms::{FifoKey, Mode};
use crate::model::account::starvation::{Boundary, Cutoffs, Overrides, Patience};
use crate::model::policy::Starvation;
use crate::model::resource::Resources;
use toml::de::DeValue;

const A_PART: &str = "a number from 0 to 1";
const A_SHARE: &str = "a part of the cluster, above 0 and at most 1";
const A_THRESHOLD: &str = "a number from 0 on";
const A_TIME: &str = "a time, as \"30s\"";

/// `[preemption.starvation]`.
pub fn starvation(
    root: &Section,
    preset: &Starvation,
    resources: &Resources,
) -> Result<Starvation, ConfigError> {
    let section = match root.section("preemption")? {
        Some(section) => section.section("starvation")?,
        None => None,
    };
    let Some(section) = section else {
        return Ok(preset.clone());
    };
    section.only(keys("preemption.starvation"))?;
    let said = Overrides {
        tolerance: section.read("tolerance", A_PART, from_0_to_1)?,
        timeout: section.read("timeout", A_TIME, span)?,
        aggressive_timeout: section.read("aggressive_timeout", A_TIME, span)?,
        enable_aggressive: section.read("enable_aggressive", BOOLEAN, boolean)?,
        allow_aggressive: section.read("allow_aggressive", BOOLEAN, boolean)?,
        ..Overrides::default()
    };
    let threshold = |key, usual| Ok(section.read(key, A_THRESHOLD, from_zero)?.unwrap_or(usual));
    let spared = queue::amounts(&section, "non_preemptible_threshold", resources)?;
    let rule = Starvation {
        patience: preset.patience.under(&said),
        aggressive_threshold: threshold("aggressive_threshold", preset.aggressive_threshold)?,
        preemption_threshold: threshold("preemption_threshold", preset.preemption_threshold)?,
        boundary: named(&section, "boundary", Boundary::ALL, Boundary::named)?
            .unwrap_or(preset.boundary),
        non_preemptible_threshold: if spared.is_empty() {
            preset.non_preemptible_threshold.clone()
        } else {
            spared
        },
        backoff: section
            .read("backoff", A_TIME, span)?
            .unwrap_or(preset.backoff),
        update_period: section
            .read("update_period", A_TIME, span)?
            .unwrap_or(preset.update_period),
    };
    let keys = ["aggressive_threshold", "preemption_threshold"];
    check_thresholds(&section, keys, rule.terms_of("", &[]).cutoffs)?;
    check_patience(&section, ["timeout", "aggressive_timeout"], rule.patience)?;
    Ok(rule)
}

/// Y5: the aggressive threshold is not above the other.
fn check_thresholds(
    section: &Section,
    keys: [&str; 2],
    cutoffs: Cutoffs,
) -> Result<(), ConfigError> {
    let Cutoffs {
        aggressive,
        preemption,
    } = cutoffs;
    if aggressive <= preemption {
        return Ok(());
    }
    let said = format!(
        "`{}` is {aggressive} and `{}` is {preemption}: lower the first or raise the second",
        keys[0], keys[1]
    );
    Err(section.wrong_at(said_one(section, keys), said))
}

/// Y2: who starves aggressively has starved before.
fn check_patience(
    section: &Section,
    keys: [&str; 2],
    patience: Patience,
) -> Result<(), ConfigError> {
    let Patience {
        timeout,
        aggressive_timeout,
        ..
    } = patience;
    if timeout <= aggressive_timeout {
        return Ok(());
    }
    let said = format!(
        "`{}` is {aggressive_timeout} and `{}` is {timeout}: raise the first or lower the second",
        keys[1], keys[0]
    );
    Err(section.wrong_at(said_one(section, keys), said))
}

/// The one of two keys that the section has.
fn said_one<'k>(section: &Section, keys: [&'k str; 2]) -> &'k str {
    let has = |key: &&str| section.rest(&[]).any(|(known, _)| known == *key);
    keys.into_iter().find(has).unwrap_or(keys[0])
}

/// Whether what holds in each pool makes sense, as far as that says something itself.
pub fn check_pools(
    root: &Section,
    rule: &Starvation,
    accounts: &[Account],
) -> Result<(), ConfigError> {
    for (section, account) in root.sections("account")?.iter().zip(accounts) {
        let said = &account.pool.starvation;
        if said.timeout.is_some() || said.aggressive_timeout.is_some() {
            let patience = rule.patience_of(&account.name, accounts);
            check_patience(
                section,
                ["starvation_timeout", "aggressive_starvation_timeout"],
                patience,
            )?;
        }
        if said.aggressive_threshold.is_some() || said.preemption_threshold.is_some() {
            let cutoffs = rule.terms_of(&account.name, accounts).cutoffs;
            check_thresholds(
                section,
                ["aggressive_preemption_threshold", "preemption_threshold"],
                cutoffs,
            )?;
        }
    }
    Ok(())
}

/// What an `[[account]]` says as a pool, but for what speaks of resources.
pub fn pool(section: &Section) -> Result<PoolTerms, ConfigError> {
    let key = |value: &DeValue| by_name(FifoKey::named)(value);
    let wanted = format!("a list of {}, each once", one_of(FifoKey::ALL));
    let line = section.read("fifo_sort", &wanted, |value| {
        list(key)(value).filter(|line| is_distinct(line))
    })?;
    Ok(PoolTerms {
        max_share: section.read("max_share", A_SHARE, |value| {
            from_0_to_1(value).filter(|share| *share > 0.0)
        })?,
        mode: named(section, "mode", Mode::ALL, Mode::named)?.unwrap_or_default(),
        fifo_sort: line.unwrap_or_default(),
        starvation: Overrides {
            tolerance: section.read("tolerance", A_PART, from_0_to_1)?,
            timeout: section.read("starvation_timeout", A_TIME, span)?,
            aggressive_timeout: section.read("aggressive_starvation_timeout", A_TIME, span)?,
            enable_aggressive: section.read("enable_aggressive_starvation", BOOLEAN, boolean)?,
            allow_aggressive: section.read("allow_aggressive_preemption", BOOLEAN, boolean)?,
            aggressive_threshold: section.read(
                "aggressive_preemption_threshold",
                A_THRESHOLD,
                from_zero,
            )?,
            preemption_threshold: section.read("preemption_threshold", A_THRESHOLD, from_zero)?,
        },
        ..PoolTerms::default()
    })
}

/// What each `[[account]]` says of resources as a pool.
pub fn amounts(
    root: &Section,
    accounts: &mut [Account],
    resources: &Resources,
) -> Result<(), ConfigError> {
    for (section, account) in root.sections("account")?.iter().zip(accounts) {
        account.pool.guarantee = queue::amounts(section, "guarantee", resources)?;
        account.pool.non_preemptible_threshold =
            queue::amounts(section, "non_preemptible_threshold", resources)?;
    }
    Ok(())
}

fn is_distinct(line: &[FifoKey]) -> bool {
    line.iter()
        .enumerate()
        .all(|(place, key)| !line[..place].contains(key))
}

fn from_zero(value: &DeValue) -> Option<f64> {
    number(value).filter(|number| *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::resource::Value;
    use crate::model::time::Span;

    fn refusal(text: &str) -> String {
        Config::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn the_terms_of_starvation_are_read() {
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
        let rule = Config::parse(text).unwrap().policy().starvation;
        let patience = Patience {
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
            non_preemptible_threshold: [("ncpus".to_string(), Value::Long(3))].into(),
            backoff: Span(0),
            update_period: Span(500),
        };
        assert_eq!(rule, expected);
        assert_eq!(
            Config::parse("").unwrap().policy().starvation,
            Starvation::default()
        );
    }

    /// Y18, Y19, Y23, Y26, Y29.
    #[test]
    fn accounts_say_what_they_are_as_pools() {
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
        let accounts = Config::parse(text).unwrap().policy().fair_share.accounts;
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
            &[("ncpus".to_string(), Value::Long(3))].into()
        );
        assert_eq!(
            (guarantee.len(), *max_share, *mode),
            (2, Some(0.5), Mode::Fifo)
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
    fn pairs_that_contradict_each_other_are_refused_with_both_values() {
        let of = |more: &str| refusal(&format!("[preemption.starvation]\n{more}"));
        assert_eq!(
            of("aggressive_threshold = 0.9\npreemption_threshold = 0.8"),
            "line 2: `aggressive_threshold` is 0.9 and `preemption_threshold` is 0.8: lower the first or raise the \
             second"
        );
        assert!(
            of("preemption_threshold = 0.1")
                .starts_with("line 2: `aggressive_threshold` is 0.2 and ")
        );
        assert_eq!(
            of("timeout = \"3m\""),
            "line 2: `aggressive_timeout` is 00:02:00 and `timeout` is 00:03:00: raise the first or lower the second"
        );
        let said = refusal(
            "[[account]]\nname = \"a\"\nstarvation_timeout = \"3m\"\n[[account]]\nname = \"b\"\nparent = \"a\"\n\
             aggressive_starvation_timeout = \"1m\"",
        );
        assert!(
            said.starts_with(
                "line 3: `aggressive_starvation_timeout` is 00:02:00 and `starvation_timeout`"
            ),
            "{said}"
        );
        let said = refusal(
            "[[account]]\nname = \"a\"\nstarvation_timeout = \"2m\"\n[[account]]\nname = \"b\"\nparent = \"a\"\n\
             aggressive_starvation_timeout = \"1m\"",
        );
        assert!(said.starts_with("line 7: "), "{said}");
        let said = refusal(
            "[[account]]\nname = \"a\"\naggressive_preemption_threshold = 0.9\n[[account]]\nname = \"b\"\n\
             parent = \"a\"\npreemption_threshold = 0.5",
        );
        assert!(
            said.starts_with(
                "line 7: `aggressive_preemption_threshold` is 0.9 and `preemption_threshold` is 0.5"
            ),
            "{said}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
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
