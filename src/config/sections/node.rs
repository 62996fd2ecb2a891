//! `[[node]]`: a node and the conditions for jobs on it.

use crate::config::NodeConfig;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    Custom, Kind, List, OneOf, Optional, Scalar, ScalarType, TEXT, WholeNumber, custom, list,
    list_if_any, read_resource_value, scalar, wanted_of_type, whole,
};
use crate::model::node::{Adjust, NodeSharing};
use crate::model::request::cluster_path::{ClusterPath, Restriction};
use crate::model::request::placement_policy::NodeAccess;
use crate::model::resource::{Definition, ResourceList, Resources, is_plain};
use std::collections::BTreeSet;
use std::path::PathBuf;
use toml::Value;
use toml::de::DeValue;

const NAME: Scalar<String> = scalar("a node name: letters, digits, `-`, `_` and `.`", |name| {
    is_host_name(name)
});
const SOCKET: Scalar<PathBuf> = scalar("the absolute path of a socket", |path| path.is_absolute());
const GPU_NUMBERS: Custom<Vec<u16>> = custom(
    || "a list of distinct GPU numbers, such as [0, 1]".to_string(),
    read_gpu_numbers,
    |numbers| write_gpu_numbers(numbers),
);
const JOBS: WholeNumber<u32> = whole("a number of jobs, at least 1", |count| *count > 0);
const LOAD: Custom<u32> = custom(
    || "a load above 0, such as 8 or 7.5".to_string(),
    read_load,
    |thousandths| Some((f64::from(*thousandths) / 1000.0).into()),
);
const CLUSTER: Custom<ClusterPath> = custom(
    || "a cluster, such as \"/film/shot3\"".to_string(),
    |value| value.as_str()?.parse().ok(),
    |path| (*path != ClusterPath::default()).then(|| path.to_string().into()),
);
const GROUPS: List<Scalar<String>> = list_if_any(TEXT, "a list of names, such as [\"gpu\"]");
const RESTRICTIONS: Custom<Restriction> = custom(
    || "an expression over clusters, such as \"/a/+ || /b\"".to_string(),
    |value| value.as_str()?.parse().ok(),
    |clusters| Some(clusters.to_string().into()),
);
const PRIORITY: WholeNumber<i32> = whole("a whole number", |_| true);

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut NodeConfig) -> &mut K::Value,
) -> Key<NodeConfig, K> {
    Key::new(name, kind, field)
}

/// `[[node]]`. Keys that are not in this table are names of host-level resources.
pub static NODE: Table<NodeConfig> = Table::new(
    "node",
    &[
        &key("name", NAME, |n| &mut n.name)
            .required()
            .text("The name that the node's noded reports.")
            .example("\"hut\""),
        &key("socket", Optional(SOCKET), |n| &mut n.socket)
            .pbs(&["socket"])
            .text("The absolute path of the socket of the node's noded.")
            .default("the noded of this host")
            .example("\"/run/lanai/hut.sock\""),
        &key("gpus", Optional(GPU_NUMBERS), |n| &mut n.gpus)
            .text("The GPUs for jobs, by number, in the order of allocation.")
            .default("all that noded finds, the lowest first")
            .example("[2, 3, 0, 1]"),
        &Key::<NodeConfig, _>::computed(
            "exclude_gpus",
            GPU_NUMBERS,
            |n| Some(n.exclude_gpus.clone()).filter(|numbers| !numbers.is_empty()),
            |n, numbers| n.exclude_gpus = numbers,
        )
        .text("The GPUs, by number, that are never allocated.")
        .default("none")
        .example("[0]"),
        &key("sharing", OneOf(NodeSharing::ALL), |n| &mut n.terms.sharing)
            .pbs(&["sharing"])
            .unset("default_shared")
            .hidden_by_default()
            .text("Whether jobs share the node; the values are those of PBS."),
        &key("access", OneOf(NodeAccess::ALL), |n| &mut n.terms.access)
            .text("Which other jobs may run on the node together with a job."),
        &key("max_jobs", Optional(JOBS), |n| &mut n.terms.max_jobs)
            .alias("max_running")
            .pbs(&["max_running"])
            .text("The largest number of jobs on the node at once.")
            .default("no limit")
            .example("32"),
        &key("max_user_jobs", Optional(JOBS), |n| {
            &mut n.terms.max_user_jobs
        })
        .alias("max_user_run")
        .pbs(&["max_user_run"])
        .text("The largest number of jobs of one user on the node at once.")
        .default("no limit")
        .example("8"),
        &key("max_load", Optional(LOAD), |n| &mut n.terms.max_load)
            .text("The load at which the node accepts no more jobs, such as 7.5.")
            .default("none")
            .example("7.5"),
        &key("adjust", OneOf(Adjust::ALL), |n| &mut n.terms.adjust)
            .text("How the key max_load limits new jobs."),
        &key("cluster", CLUSTER, |n| &mut n.terms.cluster)
            .text("The node's position in the tree of clusters, such as \"/film/shot3\".")
            .default("\"/\"")
            .example("\"/\""),
        &key("groups", GROUPS, |n| &mut n.terms.groups)
            .text("The host groups of the node, such as [\"gpu\"].")
            .default("none")
            .example("[\"gpu\"]"),
        &key("restrictions", Optional(RESTRICTIONS), |n| {
            &mut n.terms.restrictions
        })
        .text("The clusters from which the node accepts jobs, such as \"/film/+ || /promo\".")
        .default("all")
        .example("\"/film/+ || /promo\""),
        &key("priority", PRIORITY, |n| &mut n.terms.priority)
            .pbs(&["Priority"])
            .unset("0")
            .hidden_by_default()
            .text("The value of the variable PRIORITY in [placement] rank; a whole number."),
    ],
)
.open()
.finish(|node, section, resources| {
    node.is_listed = true;
    node.available = read_available(section, resources)?;
    Ok(())
});

/// Whether a text has 1 to 255 characters, all of them letters, digits, `-`, `_` or `.`.
pub fn is_host_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name.chars().all(is_plain)
}

/// Reads the keys of a `[[node]]` that are names of resources.
fn read_available(section: &Section, resources: &Resources) -> Result<ResourceList, ConfigError> {
    let own = NODE.names();
    let can_be_set = |name: &str, definition: &Definition| {
        definition.host_level && definition.requestable && !["host", "vnode"].contains(&name)
    };
    let mut available = ResourceList::new();
    for (key, value) in section.keys_except(&own) {
        let definition = resources.get(key);
        let Some(definition) = definition.filter(|known| can_be_set(key, known)) else {
            let settable = resources
                .iter()
                .filter(|(name, known)| can_be_set(name, known));
            let names: Vec<&str> = own
                .iter()
                .copied()
                .chain(settable.map(|(name, _)| name))
                .collect();
            return Err(section.unknown(key, &names));
        };
        let amount = read_resource_value(definition.kind, value.get_ref());
        let refusal = || section.refuse(key, value, wanted_of_type(definition.kind));
        available.insert(key.to_string(), amount.ok_or_else(refusal)?);
    }
    Ok(available)
}

fn read_gpu_numbers(value: &DeValue) -> Option<Vec<u16>> {
    let kind: WholeNumber<u16> = whole("", |_| true);
    let numbers = list(kind, "").read(value)?;
    let distinct: BTreeSet<u16> = numbers.iter().copied().collect();
    (distinct.len() == numbers.len()).then_some(numbers)
}

fn write_gpu_numbers(numbers: &[u16]) -> Option<Value> {
    let numbers = numbers.iter().map(|number| i64::from(*number).into());
    Some(numbers.collect::<Vec<Value>>().into())
}

/// Reads a load above 0 and below 4 million. Returns thousandths, rounded.
fn read_load(value: &DeValue) -> Option<u32> {
    let load = f64::read(value)?;
    (load > 0.0 && load < 4_000_000.0).then_some((load * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::node::{Adjust, NodeSharing};
    use crate::model::request::placement_policy::NodeAccess;
    use crate::model::system_resource::ResourceMeter;
    use crate::model::time::Span;

    #[test]
    fn the_settings_of_a_node_are_read() {
        let config = Config::parse(
            r#"
            [[node]]
            name = "n1"
            sharing = "force_excl"
            access = "singleuser"
            max_running = 4
            max_user_jobs = 2
            max_load = 7.5
            adjust = "procs"
            cluster = "/film"
            groups = ["gpu", "new"]
            restrictions = "/film/+ || /promo"
            priority = -3
            "#,
        )
        .unwrap();
        let terms = &config.nodes[0].terms;
        assert_eq!(
            (terms.sharing, terms.access),
            (NodeSharing::ForceExcl, NodeAccess::SingleUser)
        );
        assert_eq!((terms.max_jobs, terms.max_user_jobs), (Some(4), Some(2)));
        assert_eq!(
            (terms.max_load, terms.adjust, terms.priority),
            (Some(7500), Adjust::Procs, -3)
        );
        assert_eq!(
            (terms.cluster.to_string().as_str(), terms.groups.len()),
            ("/film", 2)
        );
        assert_eq!(
            terms.restrictions.as_ref().unwrap().to_string(),
            "/film/+ || /promo"
        );
        let refusal = Config::parse("[[node]]\nname = \"n1\"\nsharing = \"no\"")
            .unwrap_err()
            .to_string();
        assert!(
            refusal.starts_with("line 3: `sharing` in [[node]] must be \"default_shared\", "),
            "{refusal}"
        );
    }

    #[test]
    fn system_wide_resources_are_read() {
        let resource = |more: &str| {
            Config::parse(&format!(
                "[[resource]]\nname = \"nuke\"\ntype = \"long\"\nconsumable = true\n{more}"
            ))
        };
        let config =
            resource("host_level = false\ntotal = 50\nper_host = true\nhosts = [\"n1\", \"n2\"]")
                .unwrap();
        let (name, pool) = &config.pools[0];
        assert_eq!(
            (name.as_str(), pool.total, pool.per_host),
            ("nuke", 50, true)
        );
        assert_eq!(pool.scope.to_string(), "hosts=n1,n2");
        assert!(resource("").unwrap().pools.is_empty());
        let refusal = |more: &str| resource(more).unwrap_err().to_string();
        assert_eq!(
            refusal("host_level = false"),
            "line 5: `nuke` is a system-wide consumable: set its amount, such as total = 50"
        );
        let expected = "line 5: `total` requires a system-wide resource: \
                    consumable = true and host_level = false";
        assert_eq!(refusal("total = 5"), expected);
    }

    #[test]
    fn a_total_has_the_type_of_its_resource() {
        for (kind, total, amount) in [
            ("long", "50", 50),
            ("size", "\"2kb\"", 2048),
            ("float", "2.5", 2500),
            ("float", "5", 5000),
        ] {
            let resource = format!("[[resource]]\nname = \"nuke\"\ntype = \"{kind}\"");
            let text =
                format!("{resource}\nconsumable = true\nhost_level = false\ntotal = {total}");
            let config = Config::parse(&text).unwrap();
            assert_eq!(config.pools[0].1.total, amount, "{kind} {total}");
        }
    }

    #[test]
    fn commands_that_report_amounts_are_read() {
        let resource = |more: &str| {
            Config::parse(&format!(
                "[[resource]]\nname = \"nuke\"\ntype = \"long\"\nconsumable = true\n{more}"
            ))
        };
        let pooled = |more: &str| resource(&format!("host_level = false\ntotal = 50\n{more}"));
        let meters = |more: &str| pooled(more).unwrap().meters;
        let meter =
            &meters("command = [\"/bin/free\", \"-n\"]\ninterval = \"5s\"\ntimeout = \"2s\"")[0];
        assert_eq!((meter.0.as_str(), meter.1.command.len()), ("nuke", 2));
        assert_eq!(
            (meter.1.interval, meter.1.timeout),
            (Span::seconds(5), Span::seconds(2))
        );
        assert_eq!(
            meters("command = \"/bin/free\"")[0].1.interval,
            ResourceMeter::INTERVAL
        );
        assert!(meters("").is_empty());
        let refusal = |config: Result<Config, _>| {
            config
                .map(|_| ())
                .map_err(|error: crate::config::ConfigError| error.to_string())
                .unwrap_err()
        };
        assert!(refusal(pooled("command = \"free\"")).contains("absolute"));
        assert!(refusal(pooled("interval = \"5s\"")).contains("requires `command`"));
        assert!(
            refusal(resource("command = \"/bin/free\""))
                .contains("requires a system-wide resource")
        );
    }
}
