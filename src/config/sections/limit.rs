//! `[[limit]]`: limits on the jobs and resources of users, groups, projects, accounts, queues or
//! qualities of service.

use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    BOOLEAN, Custom, Kind, TableOf, custom, integer, read_resource_value, table, wanted_of_type,
    write_resource_value,
};
use crate::model::account::ROOT_NAME;
use crate::model::limit::{Limit, LimitScope, LimitStage, Limits, Quantity, Selector};
use crate::model::resource::{self, Resources, Size};
use std::collections::BTreeMap;
use toml::Value;
use toml::de::DeValue;

type Quantities = BTreeMap<String, resource::ResourceValue>;

/// A section `[[limit]]`. It defines limits with the same scope, one for each stage and quantity
/// that the section sets.
#[derive(Default)]
pub struct LimitConfig {
    scope: LimitScope,
    running: Quantities,
    running_soft: Quantities,
    idle: Quantities,
    queued: Quantities,
    queued_soft: Quantities,
    waiting: Quantities,
    waiting_soft: Quantities,
    overrides: bool,
}

const SELECTOR: Custom<Selector> = custom(
    || "a name, or \"*\" for each name separately".to_string(),
    read_selector,
    write_selector,
);
const QUANTITIES: TableOf<Quantities> = TableOf {
    read: read_quantities,
    write: |all| {
        let entries = all
            .iter()
            .map(|(name, value)| (name.as_str(), write_resource_value(value)));
        (!all.is_empty()).then(|| table(entries))
    },
};

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut LimitConfig) -> &mut K::Value,
) -> Key<LimitConfig, K> {
    Key::new(name, kind, field)
}

/// `[[limit]]`.
pub static LIMIT: Table<LimitConfig> = Table::new(
    "limit",
    &[
        &key("queue", SELECTOR, |l| &mut l.scope.queue)
            .text("The queue of the counted jobs: a name, or \"*\" for each queue separately.")
            .default("all")
            .example("\"workq\""),
        &key("user", SELECTOR, |l| &mut l.scope.user)
            .text("The owner of the counted jobs: a name, or \"*\" for each user separately.")
            .default("all")
            .example("\"*\""),
        &key("group", SELECTOR, |l| &mut l.scope.group)
            .text(
                "The primary group of the counted jobs: a name, or \"*\" for each group separately.",
            )
            .default("all")
            .example("\"staff\""),
        &key("project", SELECTOR, |l| &mut l.scope.project)
            .text("The project of the counted jobs: a name, or \"*\" for each project separately.")
            .default("all")
            .example("\"wave\""),
        &key("account", SELECTOR, |l| &mut l.scope.account)
            .text(
                "The account of the counted jobs, including accounts below it: a name, or \"*\" \
                 for each account separately.",
            )
            .default("all")
            .example("\"physics\""),
        &key("qos", SELECTOR, |l| &mut l.scope.qos)
            .text("The QoS of the counted jobs: a name, or \"*\" for each QoS separately.")
            .default("all")
            .example("\"expedite\""),
        &key("running", QUANTITIES, |l| &mut l.running)
            .text("The largest amounts of running jobs, such as { jobs = 4, mem = \"1tb\" }.")
            .default("no limit")
            .example("{ jobs = 8, ncpus = 128 }"),
        &key("running_soft", QUANTITIES, |l| &mut l.running_soft)
            .text(
                "The amounts above which jobs are considered only after all jobs within their soft \
                 limits.",
            )
            .default("no limit")
            .example("{ jobs = 2 }"),
        &key("idle", QUANTITIES, |l| &mut l.idle)
            .text(
                "The largest amounts of waiting jobs that a cycle considers, such as { jobs = 10 }.",
            )
            .default("no limit")
            .example("{ jobs = 10 }"),
        &key("queued", QUANTITIES, |l| &mut l.queued)
            .text("The largest amounts of unfinished jobs; a submission above them is refused.")
            .default("no limit")
            .example("{ jobs = 1000 }"),
        &key("queued_soft", QUANTITIES, |l| &mut l.queued_soft)
            .text("The amounts of unfinished jobs above which a submission gets a warning.")
            .default("no limit")
            .example("{ jobs = 500 }"),
        &key("waiting", QUANTITIES, |l| &mut l.waiting)
            .text("The largest amounts of jobs in state Q; a submission above them is refused.")
            .default("no limit")
            .example("{ jobs = 100 }"),
        &key("waiting_soft", QUANTITIES, |l| &mut l.waiting_soft)
            .text("The amounts of jobs in state Q above which a submission gets a warning.")
            .default("no limit")
            .example("{ jobs = 50 }"),
        &Key::<LimitConfig, _>::computed(
            "override",
            BOOLEAN,
            |l| l.overrides.then_some(true),
            |l, overrides| l.overrides = overrides,
        )
        .text(
            "Whether jobs of this QoS are subject to this limit instead of limits without the key \
             qos on the same quantity and stage (running, idle, queued or waiting).",
        )
        .default("false")
        .example("true"),
    ],
)
.finish(finish);

fn finish(row: &mut LimitConfig, section: &Section, _: &Resources) -> Result<(), ConfigError> {
    if row.scope.account == Selector::Named(ROOT_NAME.to_string()) {
        let text = format!(
            "`{ROOT_NAME}` is the root of the share tree: omit `account` to limit all jobs"
        );
        return Err(section.key_error("account", text));
    }
    if row.overrides && !matches!(row.scope.qos, Selector::Named(_)) {
        return Err(section.key_error(
            "override",
            "`override` requires `qos` with a name".to_string(),
        ));
    }
    for (name, hard) in [("queued", &row.queued), ("waiting", &row.waiting)] {
        if hard.contains_key(Quantity::Equivalents.name()) {
            let text = format!(
                "`pe` depends on the nodes of the cluster: use it in `running`, not in `{name}`"
            );
            return Err(section.key_error(name, text));
        }
    }
    if row.limits().is_empty() {
        let text = "this [[limit]] has no limit: add a limit, such as running = { jobs = 4 }";
        return Err(section.section_error(text.to_string()));
    }
    Ok(())
}

impl LimitConfig {
    /// A section that defines only this limit.
    pub fn from_limit(limit: &Limit, resources: &Resources) -> LimitConfig {
        let mut row = LimitConfig {
            scope: limit.scope.clone(),
            overrides: limit.overrides,
            ..LimitConfig::default()
        };
        let name = limit.quantity.name();
        let definition = match limit.quantity {
            Quantity::Resource(_) => resources.get(name),
            _ => None,
        };
        let kind = definition.map_or(resource::ResourceType::Long, |definition| definition.kind);
        let (hard, soft) = match limit.stage {
            LimitStage::Running => (&mut row.running, &mut row.running_soft),
            LimitStage::Queued => (&mut row.queued, &mut row.queued_soft),
            LimitStage::Waiting => (&mut row.waiting, &mut row.waiting_soft),
            LimitStage::Idle => (&mut row.idle, &mut row.running_soft),
        };
        for (list, amount) in [(hard, limit.hard), (soft, limit.soft)] {
            if let Some(amount) = amount {
                list.insert(name.to_string(), value_of_amount(kind, amount));
            }
        }
        row
    }

    /// The limits that the section defines. Within a stage, limits with a soft value come first.
    pub fn limits(&self) -> Vec<Limit> {
        let none = Quantities::new();
        let stages = [
            (LimitStage::Running, &self.running, &self.running_soft),
            (LimitStage::Idle, &self.idle, &none),
            (LimitStage::Queued, &self.queued, &self.queued_soft),
            (LimitStage::Waiting, &self.waiting, &self.waiting_soft),
        ];
        let mut limits = Vec::new();
        for (stage, hard, soft) in stages {
            let mut names: Vec<&String> = hard.keys().chain(soft.keys()).collect();
            names.sort_by_key(|name| (!soft.contains_key(*name), Quantity::from(name.to_string())));
            names.dedup();
            limits.extend(names.into_iter().map(|name| Limit {
                scope: self.scope.clone(),
                stage,
                quantity: Quantity::from(name.clone()),
                soft: soft.get(name).and_then(resource::ResourceValue::amount),
                hard: hard.get(name).and_then(resource::ResourceValue::amount),
                overrides: self.overrides,
            }));
        }
        limits
    }
}

/// The resource value for an amount. Sizes are not rounded.
fn value_of_amount(kind: resource::ResourceType, amount: i64) -> resource::ResourceValue {
    match kind {
        resource::ResourceType::Size => {
            let bytes = amount.max(0).unsigned_abs();
            resource::ResourceValue::Size(Size::exactly(bytes))
        }
        kind => resource::ResourceValue::of_amount(kind, amount),
    }
}

/// Reads all limits of the file.
pub fn read_limits(root: &Section, resources: &Resources) -> Result<Limits, ConfigError> {
    let mut all = Vec::new();
    for section in root.sections("limit")? {
        let mut row = LimitConfig::default();
        LIMIT.read(&mut row, &section, resources)?;
        all.extend(row.limits());
    }
    Ok(Limits {
        all,
        ..Limits::default()
    })
}

fn read_selector(value: &DeValue) -> Option<Selector> {
    match value.as_str()? {
        "" => None,
        "*" => Some(Selector::Each),
        name => Some(Selector::Named(name.to_string())),
    }
}

fn write_selector(selector: &Selector) -> Option<Value> {
    match selector {
        Selector::All => None,
        Selector::Each => Some("*".into()),
        Selector::Named(name) => Some(name.clone().into()),
    }
}

/// Reads a table of quantities, such as `{ jobs = 4, mem = "1tb" }`.
fn read_quantities(section: &Section, resources: &Resources) -> Result<Quantities, ConfigError> {
    let counted = resources
        .iter()
        .filter(|(_, definition)| definition.consumable);
    let own = Quantity::NAMED.iter().map(|(name, _)| *name);
    let names: Vec<&str> = own.chain(counted.map(|(name, _)| name)).collect();
    let mut all = Quantities::new();
    for (name, value) in section.keys_except(&[]) {
        if !names.contains(&name) {
            return Err(section.unknown(name, &names));
        }
        let definition = match Quantity::from(name.to_string()) {
            Quantity::Resource(_) => resources.get(name),
            _ => None,
        };
        let (amount, wanted) = match definition {
            Some(definition) => (
                read_resource_value(definition.kind, value.get_ref()),
                wanted_of_type(definition.kind),
            ),
            None => {
                let number = integer(value.get_ref()).filter(|number| *number >= 0);
                (
                    number.map(resource::ResourceValue::Long),
                    "a whole number of at least 0",
                )
            }
        };
        let amount = amount.ok_or_else(|| section.refuse(name, value, wanted))?;
        all.insert(name.to_string(), amount);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::limit::{LimitStage, Quantity, Selector};

    #[test]
    fn a_section_may_limit_several_quantities_at_several_stages() {
        let text = "[[limit]]\nqueue = \"batch\"\nuser = \"*\"\n\
                    running = { jobs = 8, mem = \"1gb\" }\n\
                    running_soft = { jobs = 2, nodes = 3 }\nidle = { jobs = 9 }\n";
        let limits = Config::parse(text).unwrap().effective_policy().limits.all;
        let found: Vec<_> = limits
            .iter()
            .map(|limit| (limit.stage, limit.quantity.name(), limit.soft, limit.hard))
            .collect();
        assert_eq!(
            found,
            [
                (LimitStage::Running, "jobs", Some(2), Some(8)),
                (LimitStage::Running, "nodes", Some(3), None),
                (LimitStage::Running, "mem", None, Some(1 << 30)),
                (LimitStage::Idle, "jobs", None, Some(9)),
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
    fn invalid_limits_are_refused() {
        let refusal = |text: &str| Config::parse(text).unwrap_err().to_string();
        assert!(refusal("[[limit]]\nuser = \"*\"\n").contains("has no limit"));
        let unknown = refusal("[[limit]]\nrunning = { job = 4 }\n");
        assert!(
            unknown.contains("`job`") && unknown.contains("jobs"),
            "{unknown}"
        );
        assert!(refusal("[[limit]]\nrunning = { jobs = -1 }\n").contains("of at least 0"));
        let root = refusal("[[limit]]\naccount = \"root\"\nrunning = { jobs = 1 }\n");
        assert!(
            root.contains("line 2") && root.contains("omit `account`"),
            "{root}"
        );
        assert!(
            refusal("[[limit]]\noverride = true\nrunning = { jobs = 1 }\n")
                .contains("requires `qos`")
        );
    }
}
