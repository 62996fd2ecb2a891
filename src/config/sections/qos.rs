//! `[[qos]]`: the qualities of service.

use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    BOOLEAN, Custom, FROM_0_TO_1, Kind, List, Scalar, ScalarType, TEXT, TableOf, WholeNumber,
    custom, list, list_if_any, scalar, table, whole,
};
use crate::model::job::value_syntax;
use crate::model::policy::quality::{Flag, JobCriteria, QosGrant, Qualities, Quality};
use crate::model::resource::Resources;
use toml::Value;
use toml::de::DeValue;

const NAME: Scalar<String> = scalar(
    "a name without blanks and without any of / [ ] \" ; : | < > + , ? *",
    |name| !name.is_empty() && value_syntax::project(name) && !name.contains(char::is_whitespace),
);
const NAMES: List<Scalar<String>> = list(
    TEXT,
    "a list of names, such as [\"ann\", \"bob\"]; \"*\" for all, [] for none",
);
const PRIORITY: WholeNumber<i64> = whole("a whole number", |number| i32::try_from(*number).is_ok());
const FLAGS: List<Custom<Flag>> = list_if_any(
    custom(
        || Flag::NAMES.to_string(),
        |value| Flag::named(value.as_str()?),
        |flag| Some(flag.to_string().into()),
    ),
    "",
);
const DEFAULT_FOR: TableOf<JobCriteria> = TableOf {
    read: read_default_for,
    write: write_default_for,
};
/// The kind for the factor by which usage is charged to the owners of jobs (X24).
pub const CHARGE: Custom<f64> = custom(
    || "true, false or a number of at least 0".to_string(),
    read_charge,
    |charge| Some((*charge).into()),
);

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut Quality) -> &mut K::Value,
) -> Key<Quality, K> {
    Key::new(name, kind, field)
}

const fn names_key(
    name: &'static str,
    get: fn(&Quality) -> Option<Vec<String>>,
    set: fn(&mut Quality, Vec<String>),
) -> Key<Quality, List<Scalar<String>>> {
    Key::computed(name, NAMES, get, set)
}

/// `[[qos]]`.
pub static QOS: Table<Quality> = Table::new(
    "qos",
    &[
        &key("name", NAME, |q| &mut q.name)
            .required()
            .text("The name of the quality of service (QoS), without blanks.")
            .example("\"expedite\""),
        &key("factor", FROM_0_TO_1, |q| &mut q.factor).text(
            "The value of the factor qos for jobs with this QoS, from 0 to 1; see \
             [order.weights].",
        ),
        &names_key(
            "users",
            |q| Some(listed_owners(q)?.users.clone()),
            |q, users| change_grant(q, |named| named.users = users),
        )
        .text("The users who, besides operators and managers, may request the QoS; \"*\" for all.")
        .default(ALL_IF_UNSET)
        .example("[\"ann\"]"),
        &names_key(
            "groups",
            |q| if_any(&listed_owners(q)?.groups),
            |q, groups| change_grant(q, |named| named.groups = groups),
        )
        .text("The groups that may request the QoS; \"*\" for all.")
        .default(ALL_IF_UNSET)
        .example("[\"staff\"]"),
        &names_key(
            "accounts",
            |q| if_any(&listed_owners(q)?.accounts),
            |q, accounts| change_grant(q, |named| named.accounts = accounts),
        )
        .text("The accounts (-A) under which jobs may request the QoS; \"*\" for all.")
        .default(ALL_IF_UNSET)
        .example("[\"paying\"]"),
        &names_key(
            "queues",
            |q| if_any(&listed_owners(q)?.queues),
            |q, queues| change_grant(q, |named| named.queues = queues),
        )
        .text("The queues in which jobs may request the QoS; \"*\" for all.")
        .default(ALL_IF_UNSET)
        .example("[\"night\"]"),
        &key("exempt", BOOLEAN, |q| &mut q.exempt).text(
            "Whether jobs of the QoS are exempt from resources_min and resources_max of queues.",
        ),
        &key("priority", PRIORITY, |q| &mut q.priority).text(
            "The priority of the QoS, weighted by the key qos in [order.components.credential].",
        ),
        &key("flags", FLAGS, |q| &mut q.flags)
            .text("The special rules for jobs of the QoS, such as [\"NOBF\", \"IGNMAXJOB\"].")
            .default("none")
            .example("[\"NOBF\", \"IGNMAXJOB\"]"),
        &key("default_for", DEFAULT_FOR, |q| &mut q.default_for)
            .text("The users, groups, accounts or queues with this QoS as the default.")
            .default("none")
            .example("{ queues = [\"night\"] }"),
        &key("charge", CHARGE, |q| &mut q.charge).text(
            "The factor applied to usage charged to job owners: a number, true (1) or false (0).",
        ),
    ],
);

const ALL_IF_UNSET: &str = "all, if none of users, groups, accounts and queues is set";

/// Reads the qualities of service. If the file defines none, returns those of the preset.
pub fn read_qualities(
    root: &Section,
    preset: Qualities,
    resources: &Resources,
) -> Result<Qualities, ConfigError> {
    let blank = |_: &str| Quality {
        name: String::new(),
        factor: Qualities::NORMAL_FACTOR,
        grant: QosGrant::All,
        exempt: false,
        priority: 0,
        flags: Vec::new(),
        default_for: JobCriteria::default(),
        charge: 1.0,
    };
    let all = QOS.read_each(root, resources, blank)?;
    Ok(if all.is_empty() {
        preset
    } else {
        Qualities::only(all)
    })
}

fn listed_owners(quality: &Quality) -> Option<&JobCriteria> {
    match &quality.grant {
        QosGrant::All => None,
        QosGrant::Listed(named) => Some(named),
    }
}

/// Changes the lists of users, groups, accounts and queues with access to the quality of service.
/// If all jobs may request the quality of service, the lists are empty before the change.
fn change_grant(quality: &mut Quality, change: impl FnOnce(&mut JobCriteria)) {
    let mut named = listed_owners(quality).cloned().unwrap_or_default();
    change(&mut named);
    quality.grant = QosGrant::Listed(named);
}

fn if_any(names: &[String]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.to_vec())
}

/// Reads `default_for = { queues = ["night"] }`.
fn read_default_for(section: &Section, _: &Resources) -> Result<JobCriteria, ConfigError> {
    section.refuse_unknown(&["users", "groups", "accounts", "queues"])?;
    let names = |key: &str| {
        let names = section.read(key, &NAMES.wanted(), |value| NAMES.read(value))?;
        Ok(names.unwrap_or_default())
    };
    Ok(JobCriteria {
        users: names("users")?,
        groups: names("groups")?,
        accounts: names("accounts")?,
        queues: names("queues")?,
    })
}

fn write_default_for(named: &JobCriteria) -> Option<Value> {
    let lists = [
        ("users", &named.users),
        ("groups", &named.groups),
        ("accounts", &named.accounts),
        ("queues", &named.queues),
    ];
    let mut lists = lists
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .peekable();
    lists.peek()?;
    Some(table(
        lists.map(|(name, names)| (name, names.clone().into())),
    ))
}

fn read_charge(value: &DeValue) -> Option<f64> {
    match value.as_bool() {
        Some(is_charged) => Some(f64::from(is_charged)),
        None => f64::read(value).filter(|part| *part >= 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::policy::{OwnerPriorityRule, UserPriority};

    fn refusal(text: &str) -> String {
        Config::parse(text).expect_err(text).to_string()
    }

    /// F4.
    #[test]
    fn qualities_of_service_are_read() {
        let policy = |text: &str| Config::parse(text).unwrap().effective_policy();
        assert_eq!(policy("").qualities, Qualities::default());
        let text = "[[qos]]\nname = \"high\"\nfactor = 0.8\nusers = [\"ann\"]\n\
                    accounts = [\"a\"]\nexempt = true\npriority = 7\ncharge = false\n[[qos]]\n\
                    name = \"low\"\n[order]\nby = \"multifactor\"\n";
        let policy = policy(text);
        let [high, low, normal] = policy.qualities.all.as_slice() else {
            panic!("{policy:?}")
        };
        assert_eq!((high.factor, high.exempt, high.priority), (0.8, true, 7));
        assert_eq!([high.charge, low.charge], [0.0, 1.0], "X24");
        let named = JobCriteria {
            users: vec!["ann".into()],
            accounts: vec!["a".into()],
            ..JobCriteria::default()
        };
        let grant = QosGrant::Listed(named);
        assert_eq!(
            (&high.grant, &low.grant, low.factor),
            (&grant, &QosGrant::All, 0.5)
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
    fn flags_and_default_owners_of_a_quality_are_read() {
        let text = "[[qos]]\nname = \"a\"\nflags = [\"NOBF\", \"IGNMAXJOB\"]\n\
                    queues = [\"night\"]\ndefault_for = { users = [\"ann\"] }\n[[limit]]\n\
                    user = \"*\"\nrunning = { jobs = 2, nodes = 3 }\nqueued = { jobs = 9 }\n";
        let policy = Config::parse(text).unwrap().effective_policy();
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
        let exemptions: Vec<_> = policy
            .limits
            .all
            .iter()
            .filter(|limit| limit.overrides)
            .collect();
        assert_eq!(
            exemptions.len(),
            2,
            "for running and queued jobs, not for nodes: {exemptions:?}"
        );
        assert!(
            exemptions
                .iter()
                .all(|limit| limit.bounds().soft_limit().is_none()
                    && limit.quantity.name() == "jobs")
        );
        let refusal = refusal("[[qos]]\nname = \"a\"\nflags = [\"PREEMPT\"]\n");
        assert!(refusal.contains("a list of DEDICATED, NOBF"), "{refusal}");
    }

    #[test]
    fn invalid_qualities_of_service_are_refused_with_their_line() {
        assert!(refusal("[[qos]]\nfactor = 1").contains("[[qos]] has no `name`"));
        for (wrong, expected) in [
            ("factor = 1.5", "must be a number from 0 to 1, not 1.5"),
            ("users = \"ann\"", "must be a list of names"),
            ("user = [\"ann\"]", "the nearest known name is `users`"),
            (
                "charge = -1",
                "must be true, false or a number of at least 0, not -1",
            ),
            ("priority = 1.5", "must be a whole number"),
        ] {
            let refusal = refusal(&format!("[[qos]]\nname = \"a\"\n{wrong}\n"));
            assert!(
                refusal.starts_with("line 3: ") && refusal.contains(expected),
                "{wrong}: {refusal}"
            );
        }
        assert!(refusal("[[qos]]\nname = \"a b\"").contains("must be a name without blanks"));
        assert!(
            refusal("[[qos]]\nname = \"a\"\n[[qos]]\nname = \"a\"")
                .contains("there are two [[qos]] named `a`")
        );
    }

    /// X22, Q18.
    #[test]
    fn rules_for_the_priorities_of_users_are_read() {
        let own_say = |text: &str| {
            Config::parse(text)
                .unwrap()
                .effective_policy()
                .precedence
                .own_say
        };
        assert_eq!(own_say(""), OwnerPriorityRule::default());
        let clamp = OwnerPriorityRule {
            user_priority: UserPriority::Clamp,
            highest_user_priority: Some(100),
            lowest_is_best: true,
            user_factor_ratchet: true,
        };
        let text = "[order]\nuser_priority = \"clamp\"\nhighest_user_priority = 100\n\
                    lowest_is_best = true\nuser_factor_ratchet = true\n";
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
        let order_refusal = |text: &str| refusal(&format!("[order]\n{text}\n"));
        assert!(
            order_refusal("user_priority = \"clamp\"")
                .contains("requires `highest_user_priority`, a priority from -1024")
        );
        assert!(
            order_refusal("highest_user_priority = 1024").contains("a priority from -1024 to 1023")
        );
        assert!(
            order_refusal("highest_user_priority = 0\nlowest_is_best = true")
                .contains("a priority from 1 to 9999")
        );
    }
}
