//! `[[qos]]` and `[[account]]`: what jobs have by whose they are.

use super::{Known, list, starvation, table};
use crate::model::account::{Account, Shares};
use crate::model::policy::quality::{Grant, Named, Quality};
use toml::Value;

/// A quality of service. Without any list it is for everybody, with an empty one for nobody.
pub(super) fn quality(quality: &Quality) -> Vec<Known> {
    let listed = match &quality.grant {
        Grant::All => None,
        Grant::Listed(named) => Some(named),
    };
    let flags: Vec<String> = quality.flags.iter().map(ToString::to_string).collect();
    vec![
        ("name", Some(quality.name.clone().into())),
        ("factor", Some(quality.factor.into())),
        ("users", listed.map(|named| named.users.clone().into())),
        ("groups", listed.and_then(|named| list(&named.groups))),
        ("accounts", listed.and_then(|named| list(&named.accounts))),
        ("queues", listed.and_then(|named| list(&named.queues))),
        ("exempt", Some(quality.exempt.into())),
        ("priority", Some(quality.priority.into())),
        ("flags", list(&flags)),
        ("default_for", default_for(&quality.default_for)),
        ("charge", Some(quality.charge.into())),
    ]
}

fn default_for(named: &Named) -> Option<Value> {
    let lists = [
        ("users", &named.users),
        ("groups", &named.groups),
        ("accounts", &named.accounts),
        ("queues", &named.queues),
    ];
    let lists: Vec<(&str, Value)> = lists
        .into_iter()
        .filter_map(|(name, names)| Some((name, list(names)?)))
        .collect();
    (!lists.is_empty()).then(|| table(lists))
}

/// An account.
pub(super) fn account(account: &Account) -> Vec<Known> {
    let users = account
        .users
        .as_ref()
        .map(|users| table(users.iter().map(|(name, own)| (name.as_str(), shares(own)))));
    vec![
        ("name", Some(account.name.clone().into())),
        ("parent", account.parent.clone().map(Value::from)),
        ("shares", Some(shares(&account.shares))),
        (
            "target",
            account
                .target
                .as_ref()
                .map(|target| target.to_string().into()),
        ),
        ("users", users),
    ]
    .into_iter()
    .chain(starvation::pool(&account.pool))
    .collect()
}

fn shares(shares: &Shares) -> Value {
    match shares {
        Shares::Parent => "parent".into(),
        Shares::Of(number) if number.fract() == 0.0 => (*number as i64).into(),
        Shares::Of(number) => (*number).into(),
    }
}
