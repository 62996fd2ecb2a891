//! `[[qos]]`: the qualities of service there are; and what `[order]` lets owners say of their jobs.

use super::precedence::from_0_to_1;
use super::queue::{CHARGE, charge};
use super::scheduling::named;
use super::{BOOLEAN, boolean, each, keys, list, text, whole};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::limit::{Limit, Limits, Scope, Selector};
use crate::model::policy::quality::{Flag, Grant, Named, Qualities, Quality};
use crate::model::policy::{OwnSay, UserPriority};
use std::collections::BTreeSet;
use toml::de::DeValue;

const NAME: &str = "a name without blanks and any of / [ ] \" ; : | < > + , ? *";
const NAMES: &str = "a list of names, as [\"ann\", \"bob\"]; \"*\" is everybody, [] is nobody";

/// All `[[qos]]`; where there is none, the preset's.
pub fn qualities(root: &Section, preset: Qualities) -> Result<Qualities, ConfigError> {
    let all = each(root, "qos", quality)?;
    Ok(if all.is_empty() {
        preset
    } else {
        Qualities::only(all)
    })
}

fn quality(section: &Section) -> Result<Quality, ConfigError> {
    section.only(keys("qos"))?;
    Ok(Quality {
        name: section.require("name", NAME, name)?,
        factor: section
            .read("factor", "a number from 0 to 1", from_0_to_1)?
            .unwrap_or(Qualities::NORMAL_FACTOR),
        grant: grant(section)?,
        exempt: section.read("exempt", BOOLEAN, boolean)?.unwrap_or(false),
        priority: section
            .read("priority", "a whole number", whole::<i32>)?
            .unwrap_or(0)
            .into(),
        flags: section
            .read("flags", &format!("a list of {}", Flag::NAMES), list(flag))?
            .unwrap_or_default(),
        default_for: default_for(section)?,
        charge: section.read("charge", CHARGE, charge)?.unwrap_or(1.0),
    })
}

fn flag(value: &DeValue) -> Option<Flag> {
    Flag::named(value.as_str()?)
}

/// `default_for = { queues = ["night"] }`.
fn default_for(section: &Section) -> Result<Named, ConfigError> {
    let Some(table) = section.section("default_for")? else {
        return Ok(Named::default());
    };
    table.only(LISTS)?;
    Ok(named_by(&table)?.unwrap_or_default())
}

/// Limits, with those that flags of qualities of service come to: none, in the place of others
/// (M27).
pub fn lift(limits: Limits, qualities: &Qualities) -> Limits {
    let counted: BTreeSet<_> = limits
        .all
        .iter()
        .map(|limit| (limit.stage, &limit.quantity))
        .collect();
    let mut none = Vec::new();
    for quality in &qualities.all {
        let ignored = counted
            .iter()
            .filter(|(_, quantity)| quality.flags.iter().any(|flag| flag.ignores(quantity)));
        none.extend(ignored.map(|&(stage, quantity)| Limit {
            scope: Scope {
                qos: Selector::Named(quality.name.clone()),
                ..Scope::default()
            },
            stage,
            quantity: quantity.clone(),
            soft: None,
            hard: None,
            overrides: true,
        }));
    }
    none.splice(..0, limits.all.iter().cloned());
    Limits {
        all: none,
        ..limits
    }
}

/// The lists of a [`Named`].
const LISTS: &[&str] = &["users", "groups", "accounts", "queues"];

/// Where no list is given, everybody may ask for it.
fn grant(section: &Section) -> Result<Grant, ConfigError> {
    Ok(named_by(section)?.map_or(Grant::All, Grant::Listed))
}

/// Whom lists name; None where there is no list.
fn named_by(section: &Section) -> Result<Option<Named>, ConfigError> {
    let names = |key: &str| section.read(key, NAMES, list(text));
    let (users, groups, accounts, queues) = (
        names("users")?,
        names("groups")?,
        names("accounts")?,
        names("queues")?,
    );
    let is_any = [&users, &groups, &accounts, &queues]
        .into_iter()
        .any(Option::is_some);
    let [users, groups, accounts, queues] =
        [users, groups, accounts, queues].map(Option::unwrap_or_default);
    Ok(is_any.then_some(Named {
        users,
        groups,
        accounts,
        queues,
    }))
}

fn name(value: &DeValue) -> Option<String> {
    let is_name = |name: &String| {
        crate::model::job::value_syntax::project(name) && !name.contains(char::is_whitespace)
    };
    text(value).filter(|name| !name.is_empty() && is_name(name))
}

/// What owners may say, in `[order]`.
pub fn own_say(section: &Section, preset: OwnSay) -> Result<OwnSay, ConfigError> {
    let flag = |key: &str, preset: bool| Ok(section.read(key, BOOLEAN, boolean)?.unwrap_or(preset));
    let lowest_is_best = flag("lowest_is_best", preset.lowest_is_best)?;
    // A bound of the other direction means nothing in this one.
    let bound = preset
        .highest_user_priority
        .filter(|_| lowest_is_best == preset.lowest_is_best);
    let mut own_say = OwnSay {
        lowest_is_best,
        user_priority: named(
            section,
            "user_priority",
            UserPriority::ALL,
            UserPriority::named,
        )?
        .unwrap_or(preset.user_priority),
        highest_user_priority: None,
        user_factor_ratchet: flag("user_factor_ratchet", preset.user_factor_ratchet)?,
    };
    let range = own_say.range();
    let wanted = format!("a priority, from {} to {}", range.start(), range.end());
    let priority = |value: &DeValue| whole(value).filter(|priority| range.contains(priority));
    own_say.highest_user_priority = section
        .read("highest_user_priority", &wanted, priority)?
        .or(bound);
    if own_say.user_priority == UserPriority::Clamp && own_say.highest_user_priority.is_none() {
        let said = format!("`user_priority = \"clamp\"` needs a `highest_user_priority`, {wanted}");
        return Err(section.wrong_at("user_priority", said));
    }
    Ok(own_say)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn said(text: &str) -> String {
        Config::parse(text).expect_err(text).to_string()
    }

    /// F4.
    #[test]
    fn qualities_of_service_are_read() {
        let policy = |text: &str| Config::parse(text).unwrap().policy();
        assert_eq!(policy("").qualities, Qualities::default());
        let text = "[[qos]]\nname = \"high\"\nfactor = 0.8\nusers = [\"ann\"]\naccounts = [\"a\"]\nexempt = true\n\
                    priority = 7\ncharge = false\n[[qos]]\nname = \"low\"\n[order]\nby = \"multifactor\"\n";
        let policy = policy(text);
        let [high, low, normal] = policy.qualities.all.as_slice() else {
            panic!("{policy:?}")
        };
        assert_eq!((high.factor, high.exempt, high.priority), (0.8, true, 7));
        assert_eq!([high.charge, low.charge], [0.0, 1.0], "X24");
        let named = Named {
            users: vec!["ann".into()],
            accounts: vec!["a".into()],
            ..Named::default()
        };
        let grant = Grant::Listed(named);
        assert_eq!(
            (&high.grant, &low.grant, low.factor),
            (&grant, &Grant::All, 0.5)
        );
        assert_eq!(
            (normal.name.as_str(), policy.qualities.closed),
            ("normal", true)
        );
        assert_eq!(
            (
                policy.precedence.qos["high"],
                policy.precedence.qos.get("expedite")
            ),
            (0.8, None)
        );
        assert_eq!(
            policy.precedence.components.priorities.qos,
            [("high".to_string(), 7.0)].into()
        );
    }

    /// M27.
    #[test]
    fn flags_and_who_has_a_quality_without_asking_are_read() {
        let text = "[[qos]]\nname = \"a\"\nflags = [\"NOBF\", \"IGNMAXJOB\"]\nqueues = [\"night\"]\n\
                    default_for = { users = [\"ann\"] }\n[[limit]]\nuser = \"*\"\n\
                    running = { jobs = 2, nodes = 3 }\nqueued = { jobs = 9 }\n";
        let policy = Config::parse(text).unwrap().policy();
        let quality = policy.qualities.find("a").unwrap();
        assert_eq!(
            quality
                .flags
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["NOBF", "IGNMAXJOB"]
        );
        assert_eq!(
            (
                &quality.default_for.users[..],
                quality.default_for.queues.len()
            ),
            (&["ann".to_string()][..], 0)
        );
        let none: Vec<_> = policy
            .limits
            .all
            .iter()
            .filter(|limit| limit.overrides)
            .collect();
        assert_eq!(
            none.len(),
            2,
            "of jobs that run and that are queued, not of nodes: {none:?}"
        );
        assert!(
            none.iter()
                .all(|limit| limit.bounds().softly().is_none() && limit.quantity.name() == "jobs")
        );
        let said = said("[[qos]]\nname = \"a\"\nflags = [\"PREEMPT\"]\n");
        assert!(said.contains("a list of DEDICATED, NOBF"), "{said}");
    }

    #[test]
    fn what_is_no_quality_of_service_is_refused_with_its_line() {
        assert!(said("[[qos]]\nfactor = 1").contains("[[qos]] has no `name`"));
        for (wrong, expected) in [
            ("factor = 1.5", "must be a number from 0 to 1, not 1.5"),
            ("users = \"ann\"", "must be a list of names"),
            ("user = [\"ann\"]", "the nearest known one is `users`"),
            (
                "charge = -1",
                "must be true, false or a number from 0 on, not -1",
            ),
            ("priority = 1.5", "must be a whole number"),
        ] {
            let said = said(&format!("[[qos]]\nname = \"a\"\n{wrong}\n"));
            assert!(
                said.starts_with("line 3: ") && said.contains(expected),
                "{wrong}: {said}"
            );
        }
        assert!(said("[[qos]]\nname = \"a b\"").contains("must be a name without blanks"));
        assert!(
            said("[[qos]]\nname = \"a\"\n[[qos]]\nname = \"a\"")
                .contains("there are two [[qos]] named `a`")
        );
    }

    /// X22, Q18.
    #[test]
    fn what_owners_may_say_is_read() {
        let own_say = |text: &str| Config::parse(text).unwrap().policy().precedence.own_say;
        assert_eq!(own_say(""), OwnSay::default());
        let clamp = OwnSay {
            user_priority: UserPriority::Clamp,
            highest_user_priority: Some(100),
            lowest_is_best: true,
            user_factor_ratchet: true,
        };
        let text = "[order]\nuser_priority = \"clamp\"\nhighest_user_priority = 100\nlowest_is_best = true\n\
                    user_factor_ratchet = true\n";
        assert_eq!(own_say(text), clamp);
        let qube = own_say("preset = \"qube\"");
        assert_eq!(
            (qube.lowest_is_best, qube.highest_user_priority),
            (true, Some(1))
        );
        assert_eq!(
            own_say("preset = \"it4i\"").user_priority,
            UserPriority::Free
        );
        let said_of = |text: &str| said(&format!("[order]\n{text}\n"));
        assert!(
            said_of("user_priority = \"clamp\"")
                .contains("needs a `highest_user_priority`, a priority, from -1024")
        );
        assert!(said_of("highest_user_priority = 1024").contains("a priority, from -1024 to 1023"));
        assert!(
            said_of("highest_user_priority = 0\nlowest_is_best = true")
                .contains("a priority, from 1 to 9999")
        );
    }
}
