//! `[[limit]]`: how much may run or wait on somebody's behalf.

use super::{BOOLEAN, boolean, keys, resource_value, text, wanted, whole};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::account::ROOT_NAME;
use crate::model::limit::{Limit, Limits, Quantity, Scope, Selector, Stage};
use crate::model::resource::Resources;
use std::collections::BTreeMap;
use toml::de::DeValue;

const WHOSE: &str = "a name, or \"*\" for each";

/// What may be written after the name of a stage for the soft limits.
const SOFT: &str = "_soft";

/// All `[[limit]]`, each with a number for each quantity it names.
pub fn limits(root: &Section, resources: &Resources) -> Result<Limits, ConfigError> {
    let mut all = Vec::new();
    for section in root.sections("limit")? {
        all.extend(limit(&section, resources)?);
    }
    Ok(Limits {
        all,
        ..Limits::default()
    })
}

fn limit(section: &Section, resources: &Resources) -> Result<Vec<Limit>, ConfigError> {
    section.only(keys("limit"))?;
    let scope = scope(section)?;
    if scope.account == Selector::Named(ROOT_NAME.to_string()) {
        let said = format!(
            "`{ROOT_NAME}` is the whole system: for a limit on all jobs leave `account` out"
        );
        return Err(section.wrong_at("account", said));
    }
    let overrides = section.read("override", BOOLEAN, boolean)?.unwrap_or(false);
    if overrides && !matches!(scope.qos, Selector::Named(_)) {
        return Err(section.wrong_at("override", "`override` needs a `qos` by name".to_string()));
    }
    let mut limits = Vec::new();
    for (name, stage) in Stage::ALL {
        let mut hard = amounts(section, name, resources)?;
        if [Stage::Queued, Stage::Waiting].contains(&stage)
            && hard.contains_key(&Quantity::Equivalents)
        {
            let said = format!(
                "`pe` is measured against the nodes there are: limit what runs by it, not what is {name}"
            );
            return Err(section.wrong_at(name, said));
        }
        // Jobs that wait are not put off for later (M24).
        let soft = if stage == Stage::Idle {
            BTreeMap::new()
        } else {
            amounts(section, &format!("{name}{SOFT}"), resources)?
        };
        for (quantity, soft) in soft {
            let hard = hard.remove(&quantity);
            limits.push(Limit {
                scope: scope.clone(),
                stage,
                quantity,
                soft: Some(soft),
                hard,
                overrides,
            });
        }
        limits.extend(hard.into_iter().map(|(quantity, hard)| Limit {
            scope: scope.clone(),
            stage,
            quantity,
            soft: None,
            hard: Some(hard),
            overrides,
        }));
    }
    match limits.is_empty() {
        true => {
            Err(section
                .wrong("a [[limit]] limits something: say `running = { jobs = 4 }`".to_string()))
        }
        false => Ok(limits),
    }
}

fn scope(section: &Section) -> Result<Scope, ConfigError> {
    let selector = |key| Ok(section.read(key, WHOSE, selector)?.unwrap_or_default());
    Ok(Scope {
        queue: selector("queue")?,
        user: selector("user")?,
        group: selector("group")?,
        project: selector("project")?,
        account: selector("account")?,
        qos: selector("qos")?,
    })
}

fn selector(value: &DeValue) -> Option<Selector> {
    let name = text(value).filter(|name| !name.is_empty())?;
    Some(if name == "*" {
        Selector::Each
    } else {
        Selector::Named(name)
    })
}

/// A table of quantities, as `{ jobs = 4, mem = "1tb" }`.
fn amounts(
    section: &Section,
    key: &str,
    resources: &Resources,
) -> Result<BTreeMap<Quantity, i64>, ConfigError> {
    let Some(table) = section.section(key)? else {
        return Ok(BTreeMap::new());
    };
    let counted = resources
        .iter()
        .filter(|(_, definition)| definition.consumable)
        .map(|(name, _)| name);
    let names: Vec<&str> = Quantity::NAMED
        .iter()
        .map(|(name, _)| *name)
        .chain(counted)
        .collect();
    let mut amounts = BTreeMap::new();
    for (name, value) in table.rest(&[]) {
        let known = names
            .iter()
            .find(|known| **known == name)
            .ok_or_else(|| table.unknown(name, &names))?;
        let quantity = Quantity::from(known.to_string());
        let (amount, wanted) = match resources
            .get(name)
            .filter(|_| matches!(quantity, Quantity::Resource(_)))
        {
            Some(definition) => {
                let amount = resource_value(definition.kind, value.get_ref())
                    .and_then(|value| value.amount());
                (amount, wanted(definition.kind))
            }
            None => (
                whole(value.get_ref()).filter(|number| *number >= 0),
                "a whole number from 0 on",
            ),
        };
        amounts.insert(
            quantity,
            amount.ok_or_else(|| table.refuse(name, value, wanted))?,
        );
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::limit::{Quantity, Selector, Stage};

    #[test]
    fn a_section_may_limit_several_quantities_at_several_stages() {
        let text = "[[limit]]\nqueue = \"batch\"\nuser = \"*\"\nrunning = { jobs = 8, mem = \"1gb\" }\n\
                    running_soft = { jobs = 2, nodes = 3 }\nidle = { jobs = 9 }\n";
        let limits = Config::parse(text).unwrap().policy().limits.all;
        let told: Vec<_> = limits
            .iter()
            .map(|limit| (limit.stage, limit.quantity.name(), limit.soft, limit.hard))
            .collect();
        assert_eq!(
            told,
            [
                (Stage::Running, "jobs", Some(2), Some(8)),
                (Stage::Running, "nodes", Some(3), None),
                (Stage::Running, "mem", None, Some(1 << 30)),
                (Stage::Idle, "jobs", None, Some(9)),
            ]
        );
        let scope = &limits[0].scope;
        assert_eq!(
            (&scope.queue, &scope.user),
            (&Selector::Named("batch".to_string()), &Selector::Each)
        );
        assert_eq!(
            (&scope.qos, &limits[1].quantity),
            (&Selector::All, &Quantity::Nodes)
        );
    }

    #[test]
    fn what_limits_nothing_or_an_unknown_thing_is_refused() {
        let refusal = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(refusal("[[limit]]\nuser = \"*\"\n").contains("limits something"));
        let unknown = refusal("[[limit]]\nrunning = { job = 4 }\n");
        assert!(
            unknown.contains("`job`") && unknown.contains("jobs"),
            "{unknown}"
        );
        assert!(refusal("[[limit]]\nrunning = { jobs = -1 }\n").contains("from 0 on"));
        let root = refusal("[[limit]]\naccount = \"root\"\nrunning = { jobs = 1 }\n");
        assert!(
            root.contains("line 2") && root.contains("leave `account` out"),
            "{root}"
        );
        assert!(
            refusal("[[limit]]\noverride = true\nrunning = { jobs = 1 }\n")
                .contains("needs a `qos`")
        );
    }
}
