//! `[[node]]`: what the file and `qmgr` say of nodes.

use super::objects::{Object, Said, named};
use super::{Known, amount, list};
use crate::config::overrides::{AttributeKey, QmgrObject, QmgrOverrides};
use crate::config::{Config, NodeConfig};
use crate::model::request::cluster_path::ClusterPath;
use toml::Value;
use toml::de::DeTable;

/// All nodes of which something is said.
pub(super) fn nodes<'c>(
    config: &'c Config,
    root: Option<&'c DeTable<'c>>,
    amendments: &'c QmgrOverrides,
) -> impl Iterator<Item = Object> + 'c {
    config.nodes.iter().map(move |node| {
        let target = QmgrObject::Node(node.name.clone());
        let mut object = named("node", &node.name, keys(node), root, |key| match key {
            "name" => !node.is_listed,
            key => amendments.says_of(&target, attribute(key)),
        });
        object
            .keys
            .extend(node.available.iter().map(|(name, value)| {
                let key = AttributeKey {
                    attribute: "resources_available".to_string(),
                    resource: Some(name.clone()),
                };
                Said {
                    key: name.clone().into(),
                    value: amount(value),
                    by_qmgr: amendments.says(&target, &key),
                }
            }));
        object
    })
}

/// `qmgr`'s name for a key, where it has another; the file knows these, too.
pub(super) fn attribute(key: &str) -> &str {
    match key {
        "max_jobs" => "max_running",
        "max_user_jobs" => "max_user_run",
        key => key,
    }
}

fn keys(node: &NodeConfig) -> Vec<Known> {
    let terms = &node.terms;
    let numbers = |numbers: &[u16]| {
        numbers
            .iter()
            .map(|number| i64::from(*number).into())
            .collect::<Vec<Value>>()
    };
    let count = |most: Option<u32>| most.map(|most| i64::from(most).into());
    let load = |thousandths: u32| f64::from(thousandths) / 1000.0;
    vec![
        ("name", Some(node.name.clone().into())),
        (
            "socket",
            node.socket
                .as_ref()
                .map(|path| path.display().to_string().into()),
        ),
        ("gpus", node.gpus.as_deref().map(numbers).map(Value::from)),
        (
            "exclude_gpus",
            Some(numbers(&node.exclude_gpus))
                .filter(|list| !list.is_empty())
                .map(Value::from),
        ),
        ("sharing", Some(terms.sharing.name().into())),
        ("access", Some(terms.access.name().into())),
        ("max_jobs", count(terms.max_jobs)),
        ("max_user_jobs", count(terms.max_user_jobs)),
        ("max_load", terms.max_load.map(load).map(Value::from)),
        ("adjust", Some(terms.adjust.name().into())),
        (
            "cluster",
            Some(&terms.cluster)
                .filter(|path| **path != ClusterPath::default())
                .map(|path| path.to_string().into()),
        ),
        ("groups", list(&terms.groups)),
        (
            "restrictions",
            terms
                .restrictions
                .as_ref()
                .map(|clusters| clusters.to_string().into()),
        ),
        ("priority", Some(i64::from(terms.priority).into())),
    ]
}
