//! `[order.components]`: the components of a job's priority (M11).

use super::account::TARGET;
use super::launch::above_zero;
use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Nested, Table, key};
use crate::config::kinds::{
    BOOLEAN, Custom, NUMBER, Optional, Scalar, ScalarType, TableOf, custom, read_by_name, scalar,
    table, table_by_name, time,
};
use crate::model::account::UsageTarget;
use crate::model::policy::components::{Component, ComponentKind, Goal, WeightAndCap};
use crate::model::resource::Resources;
use std::collections::BTreeMap;
use toml::Value;
use toml::de::DeValue;

const WEIGHT: Custom<WeightAndCap> = custom(
    || "a number, or a table such as { weight = 1, cap = 30 }".to_string(),
    read_weight,
    write_weight,
);
const PRIORITIES: TableOf<BTreeMap<String, f64>> = TableOf {
    read: |table, resources| read_by_name(table, &NUMBER, resources),
    write: |all| Some(table_by_name(all, ScalarType::write)),
};
const USERS: TableOf<BTreeMap<String, UsageTarget>> = TableOf {
    read: |table, resources| read_by_name(table, &TARGET, resources),
    write: |all| Some(table_by_name(all, |target| target.to_string().into())),
};
const GOALS: TableOf<BTreeMap<String, Goal>> = TableOf {
    read: read_goals,
    write: |all| Some(table_by_name(all, write_goal)),
};

/// A number above 1.
pub const ABOVE_ONE: Scalar<f64> = scalar("a number above 1", |number| *number > 1.0);

/// `[order.components]`.
pub static COMPONENTS: Table<Config> = Table::new(
    "order.components",
    &[
        &key("min_walltime", time("a time, such as \"10m\""), |c| {
            &mut c.policy.precedence.components.min_walltime
        })
        .text("The walltime that expansion factors use for jobs with a shorter walltime."),
        &key("enable_negative", BOOLEAN, |c| {
            &mut c.policy.precedence.components.enable_negative
        })
        .text("Whether a job's priority may be below 1."),
        &Nested::new(
            "credential",
            &CREDENTIAL,
            "The table for the priorities of the job's owner, group, account, QoS and queue.",
        ),
        &Nested::new(
            "fair_share",
            &FAIR_SHARE,
            "The table for the distance of the owner's and the account's usage from the targets.",
        ),
        &Nested::new("resource", &RESOURCE, "The table for the job's request."),
        &Nested::new(
            "service",
            &SERVICE,
            "The table for the wait of the job, and for how often other jobs have passed the job.",
        ),
        &Nested::new(
            "target",
            &TARGETS,
            "The table for how near a job is to the service targets of its quality of service.",
        ),
        &Nested::new("usage", &USAGE, "The table for the usage of running jobs."),
    ],
);

static CREDENTIAL: Table<Config> = Table::new(
    "order.components.credential",
    &[
        &key("weight", NUMBER, |c| {
            &mut component_total(c, ComponentKind::Credential).weight
        })
        .text("The weight of the component."),
        &key("cap", Optional(NUMBER), |c| {
            &mut component_total(c, ComponentKind::Credential).cap
        })
        .text("The maximum of the sum of the component's parts, before the weight is applied.")
        .default("none")
        .example("1000"),
        &key("user", WEIGHT, |c| {
            component_part(c, ComponentKind::Credential, "user")
        })
        .text("The weight of the priority of the job's owner."),
        &key("group", WEIGHT, |c| {
            component_part(c, ComponentKind::Credential, "group")
        })
        .text("The weight of the priority of the owner's primary group."),
        &key("account", WEIGHT, |c| {
            component_part(c, ComponentKind::Credential, "account")
        })
        .text("The weight of the priority of the job's account."),
        &key("qos", WEIGHT, |c| {
            component_part(c, ComponentKind::Credential, "qos")
        })
        .text("The weight of the priority of the job's quality of service."),
        &key("queue", WEIGHT, |c| {
            component_part(c, ComponentKind::Credential, "queue")
        })
        .text("The weight of the priority of the job's queue."),
        &Nested::inline(
            "priorities",
            &CREDENTIAL_PRIORITIES,
            "The priorities of users, groups, accounts, qualities of service and queues: a table \
             for each, with a priority for each name.",
        ),
    ],
);

static CREDENTIAL_PRIORITIES: Table<Config> = Table::new(
    "order.components.credential.priorities",
    &[
        &key("user", PRIORITIES, |c| {
            &mut c.policy.precedence.components.priorities.user
        })
        .text("The priorities of users; \"*\" for all other users.")
        .example("{ john = 300, \"*\" = 0 }"),
        &key("group", PRIORITIES, |c| {
            &mut c.policy.precedence.components.priorities.group
        })
        .text("The priorities of groups; \"*\" for all other groups.")
        .example("{ staff = 60 }"),
        &key("account", PRIORITIES, |c| {
            &mut c.policy.precedence.components.priorities.account
        })
        .text("The priorities of accounts; \"*\" for all other accounts.")
        .example("{ physics = 120 }"),
        &key("qos", PRIORITIES, |c| {
            &mut c.policy.precedence.components.priorities.qos
        })
        .text("The priorities of qualities of service; \"*\" for all other qualities of service.")
        .example("{ high = 1440 }"),
        &key("queue", PRIORITIES, |c| {
            &mut c.policy.precedence.components.priorities.queue
        })
        .text(
            "The priorities of queues; \"*\" for all other queues. Without \"*\", a queue not \
             listed has the priority of its [[queue]].",
        )
        .example("{ express = 2880 }"),
    ],
);

static FAIR_SHARE: Table<Config> = Table::new(
    "order.components.fair_share",
    &[
        &key("weight", NUMBER, |c| {
            &mut component_total(c, ComponentKind::FairShare).weight
        })
        .text("The weight of the component."),
        &key("cap", Optional(NUMBER), |c| {
            &mut component_total(c, ComponentKind::FairShare).cap
        })
        .text("The maximum of the sum of the component's parts, before the weight is applied.")
        .default("none")
        .example("1000"),
        &key("user", WEIGHT, |c| {
            component_part(c, ComponentKind::FairShare, "user")
        })
        .text(
            "The weight of how far the user's usage is below the target; usage above the target \
             lowers the priority.",
        ),
        &key("account", WEIGHT, |c| {
            component_part(c, ComponentKind::FairShare, "account")
        })
        .text(
            "The weight of how far the account's usage is below the target; usage above the target \
             lowers the priority.",
        ),
        &key("users", USERS, |c| {
            &mut c.policy.precedence.components.users
        })
        .text("The targets of users, in the form of [[account]] target; \"*\" for all other users.")
        .example("{ john = 50, \"*\" = \"25-\" }"),
    ],
);

static RESOURCE: Table<Config> = Table::new(
    "order.components.resource",
    &[
        &key("weight", NUMBER, |c| {
            &mut component_total(c, ComponentKind::Resource).weight
        })
        .text("The weight of the component."),
        &key("cap", Optional(NUMBER), |c| {
            &mut component_total(c, ComponentKind::Resource).cap
        })
        .text("The maximum of the sum of the component's parts, before the weight is applied.")
        .default("none")
        .example("1000"),
        &key("nodes", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "nodes")
        })
        .text("The weight of the number of chunks."),
        &key("processors", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "processors")
        })
        .text("The weight of the requested ncpus."),
        &key("memory", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "memory")
        })
        .text("The weight of the requested mem, in megabytes."),
        &key("swap", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "swap")
        })
        .text("The weight of the requested resource swap, in megabytes, if the site defines it."),
        &key("disk", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "disk")
        })
        .text("The weight of the requested resource disk, in megabytes, if the site defines it."),
        &key("processor_seconds", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "processor_seconds")
        })
        .text("The weight of processors times walltime, in processor-seconds."),
        &key("processor_equivalents", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "processor_equivalents")
        })
        .text(
            "The weight of the processor equivalents: all processors times the largest part \
             that the job requests of any resource.",
        ),
        &key("walltime", WEIGHT, |c| {
            component_part(c, ComponentKind::Resource, "walltime")
        })
        .text("The weight of the walltime, in seconds."),
    ],
);

static SERVICE: Table<Config> = Table::new(
    "order.components.service",
    &[
        &key("weight", NUMBER, |c| {
            &mut component_total(c, ComponentKind::Service).weight
        })
        .text("The weight of the component."),
        &key("cap", Optional(NUMBER), |c| {
            &mut component_total(c, ComponentKind::Service).cap
        })
        .text("The maximum of the sum of the component's parts, before the weight is applied.")
        .default("none")
        .example("1000"),
        &key("queue_time", WEIGHT, |c| {
            component_part(c, ComponentKind::Service, "queue_time")
        })
        .text("The weight of the eligible time, in minutes.")
        .example("{ weight = 1, cap = 1440 }"),
        &key("xfactor", WEIGHT, |c| {
            component_part(c, ComponentKind::Service, "xfactor")
        })
        .text("The weight of the expansion factor: 1 + eligible time / walltime."),
        &key("bypass", WEIGHT, |c| {
            component_part(c, ComponentKind::Service, "bypass")
        })
        .text("The weight of the number of lower-priority jobs that have started before the job."),
    ],
);

static TARGETS: Table<Config> = Table::new(
    "order.components.target",
    &[
        &key("weight", NUMBER, |c| {
            &mut component_total(c, ComponentKind::Target).weight
        })
        .text("The weight of the component."),
        &key("cap", Optional(NUMBER), |c| {
            &mut component_total(c, ComponentKind::Target).cap
        })
        .text("The maximum of the sum of the component's parts, before the weight is applied.")
        .default("none")
        .example("1000"),
        &key("queue_time", WEIGHT, |c| {
            component_part(c, ComponentKind::Target, "queue_time")
        })
        .text("The weight of 1 / m^2, where m is the minutes left until the target queue time."),
        &key("xfactor", WEIGHT, |c| {
            component_part(c, ComponentKind::Target, "xfactor")
        })
        .text("The weight of 1 / d^2, where d is the difference to the target expansion factor."),
        &key("qos", GOALS, |c| &mut c.policy.precedence.components.goals)
            .text("The service targets of each quality of service."),
    ],
);

/// The targets of one quality of service in `[order.components.target.qos]` (M19).
pub static GOAL: Table<Goal> = Table::new(
    "order.components.target.qos",
    &[
        &Key::<Goal, _>::new(
            "queue_time",
            Optional(above_zero("a time above zero, such as \"1h\"")),
            |goal| &mut goal.queue_time,
        )
        .text("The longest time, above 0, that jobs of the QoS should wait."),
        &Key::<Goal, _>::new("xfactor", Optional(ABOVE_ONE), |goal| &mut goal.xfactor)
            .text("The highest expansion factor, above 1, that jobs of the QoS should have."),
    ],
);

static USAGE: Table<Config> = Table::new(
    "order.components.usage",
    &[
        &key("weight", NUMBER, |c| {
            &mut component_total(c, ComponentKind::Usage).weight
        })
        .text("The weight of the component."),
        &key("cap", Optional(NUMBER), |c| {
            &mut component_total(c, ComponentKind::Usage).cap
        })
        .text("The maximum of the sum of the component's parts, before the weight is applied.")
        .default("none")
        .example("1000"),
        &key("consumed", WEIGHT, |c| {
            component_part(c, ComponentKind::Usage, "consumed")
        })
        .text("The weight of the used processor-seconds."),
        &key("remaining", WEIGHT, |c| {
            component_part(c, ComponentKind::Usage, "remaining")
        })
        .text("The weight of the remaining processor-seconds."),
        &key("percent", WEIGHT, |c| {
            component_part(c, ComponentKind::Usage, "percent")
        })
        .text("The weight of the used part of the walltime, in percent."),
        &key("execution_time", WEIGHT, |c| {
            component_part(c, ComponentKind::Usage, "execution_time")
        })
        .text("The weight of the time since the start, in minutes."),
    ],
);

fn component(config: &mut Config, kind: ComponentKind) -> &mut Component {
    let all = &mut config.policy.precedence.components.all;
    all.entry(kind).or_insert_with(|| Component::of(kind))
}

fn component_total(config: &mut Config, kind: ComponentKind) -> &mut WeightAndCap {
    &mut component(config, kind).whole
}

fn component_part<'c>(
    config: &'c mut Config,
    kind: ComponentKind,
    name: &str,
) -> &'c mut WeightAndCap {
    let place = kind.parts().iter().position(|part| *part == name);
    &mut component(config, kind).parts[place.unwrap_or_default()]
}

/// Reads a weight, or a table of a weight and a cap.
fn read_weight(value: &DeValue) -> Option<WeightAndCap> {
    let Some(table) = value.as_table() else {
        return f64::read(value).map(WeightAndCap::of);
    };
    let is_known = |key: &str| ["weight", "cap"].contains(&key);
    if !table.keys().all(|key| is_known(key.get_ref())) {
        return None;
    }
    let weight = f64::read(table.get("weight")?.get_ref())?;
    let cap = match table.get("cap") {
        Some(cap) => Some(f64::read(cap.get_ref())?),
        None => None,
    };
    Some(WeightAndCap { weight, cap })
}

fn write_weight(part: &WeightAndCap) -> Option<Value> {
    let weight = Value::from(part.weight);
    Some(match part.cap {
        None => weight,
        Some(cap) => table([("weight", weight), ("cap", cap.into())]),
    })
}

fn read_goals(all: &Section, resources: &Resources) -> Result<BTreeMap<String, Goal>, ConfigError> {
    let mut goals = BTreeMap::new();
    for (name, _) in all.keys_except(&[]) {
        let mut goal = Goal::default();
        if let Some(section) = all.section(name)? {
            GOAL.read(&mut goal, &section, resources)?;
        }
        goals.insert(name.to_string(), goal);
    }
    Ok(goals)
}

fn write_goal(goal: &Goal) -> Value {
    let mut goal = *goal;
    let rows = GOAL.keys.iter();
    table(rows.filter_map(|row| Some((row.entry().name, row.value(&mut goal)?))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sections::listed;
    use crate::model::policy::Components;
    use crate::model::policy::PriorityOrder;
    use crate::model::policy::components::Component;
    use crate::model::time::Span;

    fn read(text: &str) -> Components {
        let text = format!("[order]\nby = \"components\"\n{text}");
        let precedence = Config::parse(&text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .effective_policy()
            .precedence;
        assert_eq!(precedence.order, PriorityOrder::Components);
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
        let service = components.component(ComponentKind::Service);
        assert_eq!(
            service.whole,
            WeightAndCap {
                weight: 2.0,
                cap: Some(100.5)
            }
        );
        assert_eq!(
            service.parts,
            [
                WeightAndCap {
                    weight: 1.0,
                    cap: Some(30.0)
                },
                WeightAndCap::of(0.0),
                WeightAndCap::of(7.0)
            ]
        );
        assert_eq!(
            (components.min_walltime, components.enable_negative),
            (Span::seconds(600), true)
        );
        assert_eq!(
            components.component(ComponentKind::Usage),
            &Component::of(ComponentKind::Usage)
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
    fn invalid_components_are_refused_with_place_and_remedy() {
        for (text, wanted) in [
            (
                "[order.components]\nservise = { bypass = 1 }",
                "line 2: unknown key `servise` in [order.components]; the nearest known name is `service`",
            ),
            (
                "[order.components.service]\nqueuetime = 1",
                "line 2: unknown key `queuetime` in [order.components.service]; the nearest known name is `queue_time`",
            ),
            (
                "[order.components.service]\nbypass = { weigth = 1 }",
                "line 2: `bypass` in [order.components.service] must be a number, or a table such as { weight = 1, cap = 30 }, \
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
                "line 2: `hi` must be a single table: write [order.components.target.qos.hi]",
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
    fn every_part_of_a_component_has_a_key() {
        for (name, kind) in ComponentKind::ALL {
            let section = format!("order.components.{name}");
            let all = listed();
            let known = all.iter().find(|one| one.name == section).unwrap().names();
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
