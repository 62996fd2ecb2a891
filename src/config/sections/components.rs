//! `[order.components]`: what the components of a job's worth count for (M11).

use super::precedence::{above_one, number};
use super::{BOOLEAN, boolean, keys, sharing, span, span_above_zero};
use crate::config::ConfigError;
use crate::config::document::{Section, entry};
use crate::model::account::Target;
use crate::model::policy::components::{Component, Components, Count, Goal, Kind, Priorities};
use std::collections::BTreeMap;
use toml::de::DeValue;

const A_NUMBER: &str = "a number";
const A_COUNT: &str = "a number, or a table as { weight = 1, cap = 30 }";
const A_TIME: &str = "a time above zero, as \"1h\"";

/// `[order.components]`.
pub fn components(section: &Section, preset: Components) -> Result<Components, ConfigError> {
    section.only(keys("order.components"))?;
    let mut components = Components {
        min_walltime: section
            .read("min_walltime", "a time, as \"10m\"", span)?
            .unwrap_or(preset.min_walltime),
        enable_negative: section
            .read("enable_negative", BOOLEAN, boolean)?
            .unwrap_or(preset.enable_negative),
        ..preset
    };
    for &(name, kind) in Kind::ALL {
        let Some(section) = section.section(name)? else {
            continue;
        };
        let counts = component(&section, kind, components.component(kind).clone())?;
        components.all.insert(kind, counts);
        match kind {
            Kind::Credential => {
                components.priorities = priorities(&section, components.priorities)?
            }
            Kind::FairShare => components.users = users(&section)?.unwrap_or(components.users),
            Kind::Target => components.goals = goals(&section)?.unwrap_or(components.goals),
            Kind::Resource | Kind::Service | Kind::Usage => (),
        }
    }
    Ok(components)
}

/// What a component counts for, and what its parts do.
fn component(section: &Section, kind: Kind, preset: Component) -> Result<Component, ConfigError> {
    section.only(keys(&format!("order.components.{}", kind.name())))?;
    let mut component = preset;
    let weight = section
        .read("weight", A_NUMBER, number)?
        .unwrap_or(component.whole.weight);
    let cap = section
        .read("cap", A_NUMBER, number)?
        .or(component.whole.cap);
    component.whole = Count { weight, cap };
    for (part, name) in component.parts.iter_mut().zip(kind.parts()) {
        *part = section.read(name, A_COUNT, count)?.unwrap_or(*part);
    }
    Ok(component)
}

/// A weight, or a weight with a cap.
fn count(value: &DeValue) -> Option<Count> {
    let Some(table) = value.as_table() else {
        return number(value).map(Count::of);
    };
    let is_known = table
        .keys()
        .all(|key| ["weight", "cap"].contains(&key.get_ref().as_ref()));
    let weight = entry(table, "weight")
        .and_then(number)
        .filter(|_| is_known)?;
    match entry(table, "cap") {
        Some(cap) => Some(Count {
            weight,
            cap: Some(number(cap)?),
        }),
        None => Some(Count::of(weight)),
    }
}

/// `[order.components.credential.priorities]` (M14).
fn priorities(section: &Section, preset: Priorities) -> Result<Priorities, ConfigError> {
    let Some(section) = section.section("priorities")? else {
        return Ok(preset);
    };
    section.only(keys("order.components.credential.priorities"))?;
    let of = |kind: &str, preset| Ok(named(&section, kind, A_NUMBER, number)?.unwrap_or(preset));
    Ok(Priorities {
        user: of("user", preset.user)?,
        group: of("group", preset.group)?,
        account: of("account", preset.account)?,
        qos: of("qos", preset.qos)?,
        queue: of("queue", preset.queue)?,
        groups: preset.groups,
    })
}

/// What users are to have (M12).
fn users(section: &Section) -> Result<Option<BTreeMap<String, Target>>, ConfigError> {
    named(section, "users", sharing::TARGET, sharing::target)
}

/// `[order.components.target.qos]` (M19).
fn goals(section: &Section) -> Result<Option<BTreeMap<String, Goal>>, ConfigError> {
    let Some(all) = section.section("qos")? else {
        return Ok(None);
    };
    let goal = |(name, _): (&str, _)| {
        let Some(section) = all.section(name)? else {
            return Ok((name.to_string(), Goal::default()));
        };
        section.only(keys("order.components.target.qos"))?;
        let queue_time = section.read("queue_time", A_TIME, span_above_zero)?;
        Ok((
            name.to_string(),
            Goal {
                queue_time,
                xfactor: section.read("xfactor", "a number above 1", above_one)?,
            },
        ))
    };
    all.rest(&[]).map(goal).collect::<Result<_, _>>().map(Some)
}

/// A table within a section that has one value for each name.
fn named<T>(
    section: &Section,
    key: &str,
    wanted: &str,
    read: fn(&DeValue) -> Option<T>,
) -> Result<Option<BTreeMap<String, T>>, ConfigError> {
    let Some(table) = section.section(key)? else {
        return Ok(None);
    };
    let one = |(name, value)| {
        let value = table
            .read(name, wanted, read)?
            .ok_or_else(|| table.refuse(name, value, wanted))?;
        Ok((name.to_string(), value))
    };
    table.rest(&[]).map(one).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, KEYS};
    use crate::model::policy::Order;
    use crate::model::time::Span;

    fn read(text: &str) -> Components {
        let text = format!("[order]\nby = \"components\"\n{text}");
        let precedence = Config::parse(&text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .policy()
            .precedence;
        assert_eq!(precedence.order, Order::Components);
        *precedence.components
    }

    fn refusal(text: &str) -> String {
        Config::parse(text).expect_err(text).to_string()
    }

    /// M11.
    #[test]
    fn components_and_their_parts_have_weights_and_caps() {
        let components = read(
            "[order.components]\nmin_walltime = \"10m\"\nenable_negative = true\n\
             [order.components.service]\nweight = 2\ncap = 100.5\nqueue_time = { weight = 1, cap = 30 }\nbypass = 7\n",
        );
        let service = components.component(Kind::Service);
        assert_eq!(
            service.whole,
            Count {
                weight: 2.0,
                cap: Some(100.5)
            }
        );
        assert_eq!(
            service.parts,
            [
                Count {
                    weight: 1.0,
                    cap: Some(30.0)
                },
                Count::of(0.0),
                Count::of(7.0)
            ]
        );
        assert_eq!(
            (components.min_walltime, components.enable_negative),
            (Span::seconds(600), true)
        );
        assert_eq!(
            components.component(Kind::Usage),
            &Component::of(Kind::Usage)
        );
        assert_eq!(read(""), Components::default());
    }

    /// M12, M14, M19.
    #[test]
    fn priorities_and_targets_are_given_by_name() {
        let components = read(
            "[order.components.credential.priorities]\nuser = { john = 300, \"*\" = -5 }\nqos = { hi = 1.5 }\n\
             [order.components.fair_share.users]\njohn = \"25+\"\npaul = 30\n\
             [order.components.target.qos]\nhi = { queue_time = \"1h\", xfactor = 3 }\nlo = { queue_time = \"1d\" }\n",
        );
        assert_eq!(
            (
                components.priorities.user["*"],
                components.priorities.qos["hi"]
            ),
            (-5.0, 1.5)
        );
        assert_eq!(
            (
                components.users["john"].to_string(),
                components.users["paul"].value
            ),
            ("25+".to_string(), 30.0)
        );
        assert_eq!(
            components.goals["hi"],
            Goal {
                queue_time: Some(Span::seconds(3600)),
                xfactor: Some(3.0)
            }
        );
        assert_eq!(components.goals["lo"].xfactor, None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_the_remedy() {
        for (text, wanted) in [
            (
                "[order.components]\nservise = { bypass = 1 }",
                "line 2: unknown key `servise` in [order.components]; the nearest known one is `service`",
            ),
            (
                "[order.components.service]\nqueuetime = 1",
                "line 2: unknown key `queuetime` in [order.components.service]; the nearest known one is `queue_time`",
            ),
            (
                "[order.components.service]\nbypass = { weigth = 1 }",
                "line 2: `bypass` in [order.components.service] must be a number, or a table as { weight = 1, cap = 30 }, \
                 not { weigth = 1 }",
            ),
            (
                "[order.components.credential.priorities.user]\njohn = \"high\"",
                "line 2: `john` in [order.components.credential.priorities.user] must be a number, not \"high\"",
            ),
            (
                "[order.components.target.qos.hi]\nxfactor = 1",
                "line 2: `xfactor` in [order.components.target.qos.hi] must be a number above 1, not 1",
            ),
            (
                "[order.components.target]\nqos = { hi = 5 }",
                "line 2: `hi` is a table and stands once: write [order.components.target.qos.hi]",
            ),
        ] {
            assert_eq!(refusal(text), wanted);
        }
        let target = refusal("[order.components.fair_share]\nusers = { john = \"25!\" }");
        assert!(
            target.starts_with(
                "line 2: `john` in [order.components.fair_share.users] must be percent"
            ),
            "{target}"
        );
    }

    #[test]
    fn every_part_has_its_key() {
        for (name, kind) in Kind::ALL {
            let section = format!("order.components.{name}");
            let known = KEYS.iter().find(|(name, _)| *name == section).unwrap().1;
            assert!(
                ["weight", "cap"]
                    .iter()
                    .chain(kind.parts())
                    .all(|key| known.contains(key)),
                "{section}"
            );
        }
    }
}
