//! `[fairshare]`: how usage lowers the priority of jobs.

use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Table, key};
use crate::config::kinds::{OneOf, Optional, Scalar, scalar};
use crate::model::policy::fair_share::{Distance, Method, TieRule, UsageSubject};

const ACCOUNT: Scalar<String> = scalar("the name of an account", |_| true);

/// `[fairshare]`.
pub static FAIR_SHARE: Table<Config> = Table::new(
    "fairshare",
    &[
        &key("method", OneOf(Method::ALL), |c| {
            &mut c.policy.fair_share.method
        })
        .text("How the fair-share factor is computed from shares and usage."),
        &key("subject", OneOf(UsageSubject::ALL), |c| {
            &mut c.policy.fair_share.subject
        })
        .text(
            "The usage that counts for a job: by its user, its account, its user in this account, \
             or its pool.",
        ),
        &key("ties", OneOf(TieRule::ALL), |c| {
            &mut c.policy.fair_share.tie_rule
        })
        .text("Which levels the method \"fairtree\" considers equal."),
        &key("distance", OneOf(Distance::ALL), |c| {
            &mut c.policy.fair_share.distance
        })
        .text("How the method \"target\" measures the distance of usage from the target."),
        &key("default_account", Optional(ACCOUNT), |c| {
            &mut c.policy.fair_share.default_account
        })
        .text("The [[account]] below which users without an account get an account of their own.")
        .default("none")
        .example("\"physics\""),
    ],
);

/// Checks that the default account exists.
pub fn check_default_account(root: &Section, config: &Config) -> Result<(), ConfigError> {
    let Some(name) = &config.policy.fair_share.default_account else {
        return Ok(());
    };
    let accounts = &config.policy.fair_share.accounts;
    if accounts.iter().any(|account| account.name == *name) {
        return Ok(());
    }
    let text =
        format!("there is no [[account]] named `{name}`: add it, or change `default_account`");
    let section = root.section("fairshare")?;
    let section = section.as_ref().unwrap_or(root);
    Err(section.key_error("default_account", text))
}
