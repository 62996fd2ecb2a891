//! On what terms jobs get a node, and what the whole system has: keys of `[[node]]` and
//! `[[resource]]`.

use super::hooks;
use super::{
    A_SECOND_OR_MORE, BOOLEAN, boolean, by_name, from_one, list, one_of, resource_value,
    span_from_a_second,
};
use super::{text, whole};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::node::{Adjust, NodeSharing, Terms};
use crate::model::request::cluster_path::{ClusterPath, Restriction};
use crate::model::request::host_list::HostList;
use crate::model::request::placement_policy::NodeAccess;
use crate::model::resource::Kind;
use crate::model::system_resource::{Meter, Pool};
use std::str::FromStr;
use toml::de::DeValue;

/// The terms of a `[[node]]`.
pub fn of_node(section: &Section) -> Result<Terms, ConfigError> {
    let jobs = |key: &str| section.read(key, "a number of jobs from 1 on", from_one);
    let sharing = section.read(
        "sharing",
        &one_of(NodeSharing::ALL),
        by_name(NodeSharing::named),
    )?;
    let access = section.read(
        "access",
        &one_of(NodeAccess::ALL),
        by_name(NodeAccess::named),
    )?;
    let adjust = section.read("adjust", &one_of(Adjust::ALL), by_name(Adjust::named))?;
    Ok(Terms {
        sharing: sharing.unwrap_or_default(),
        access: access.unwrap_or_default(),
        max_jobs: jobs("max_jobs")?.or(jobs("max_running")?),
        max_user_jobs: jobs("max_user_jobs")?.or(jobs("max_user_run")?),
        max_load: section.read("max_load", "a load above 0, as 8 or 7.5", thousandths)?,
        adjust: adjust.unwrap_or_default(),
        cluster: section
            .read(
                "cluster",
                "a cluster, as \"/film/shot3\"",
                parsed::<ClusterPath>,
            )?
            .unwrap_or_default(),
        groups: section
            .read("groups", "a list of names, as [\"gpu\"]", list(text))?
            .unwrap_or_default(),
        restrictions: section.read(
            "restrictions",
            "clusters, as \"/a/+ || /b\"",
            parsed::<Restriction>,
        )?,
        priority: section
            .read("priority", "a whole number", whole)?
            .unwrap_or(0),
    })
}

/// What the whole system has of a resource that is consumable and not of nodes; None for others.
pub fn of_resource(section: &Section) -> Result<Option<(String, Pool)>, ConfigError> {
    let flag = |key: &str, default| Ok(section.read(key, BOOLEAN, boolean)?.unwrap_or(default));
    let is_pooled = flag("consumable", false)? && !flag("host_level", true)?;
    let kind = if section.read("type", "a type", text)?.as_deref() == Some("size") {
        Kind::Size
    } else {
        Kind::Long
    };
    let amount = |value: &DeValue| resource_value(kind, value)?.amount();
    let total = section.read("total", "how much there is, as 50 or \"10tb\"", amount)?;
    let per_host = flag("per_host", false)?;
    let hosts = section.read("hosts", "a list of hosts, as [\"n1\", \"n2\"]", list(text))?;
    let name = section.require("name", "a name", text)?;
    if !is_pooled {
        let key = ["total", "per_host", "hosts"].into_iter().zip([
            total.is_some(),
            per_host,
            hosts.is_some(),
        ]);
        let given = key
            .into_iter()
            .find(|&(_, is_given)| is_given)
            .map(|(key, _)| key);
        let said = "is for what the whole system has: consumable = true and host_level = false";
        return given.map_or(Ok(None), |key| {
            Err(section.wrong_at(key, format!("`{key}` {said}")))
        });
    }
    let missing =
        format!("jobs take `{name}` of what the whole system has: say how much, as total = 50");
    let total = total.ok_or_else(|| section.wrong_at("host_level", missing))?;
    let scope = hosts.map(|hosts| hosts.join(",")).unwrap_or_default();
    let wrong = |_| {
        section.wrong_at(
            "hosts",
            "`hosts` must be a list of hosts, as [\"n1\", \"n2\"]".to_string(),
        )
    };
    let scope = HostList::default().with("hosts", &scope).map_err(wrong)?;
    Ok(Some((
        name,
        Pool {
            total,
            per_host,
            scope,
            ..Pool::default()
        },
    )))
}

/// How it is found out what there is of such a resource; None where nobody is asked.
pub fn meter_of_resource(section: &Section) -> Result<Option<(String, Meter)>, ConfigError> {
    let pool = of_resource(section)?;
    let command = section.read("command", hooks::COMMAND, hooks::command)?;
    let time = |key: &str| section.read(key, A_SECOND_OR_MORE, span_from_a_second);
    let (interval, timeout) = (time("interval")?, time("timeout")?);
    let stray = [
        ("interval", interval.is_some()),
        ("timeout", timeout.is_some()),
    ]
    .into_iter()
    .find(|(_, given)| *given);
    match (command, pool, stray) {
        (Some(command), Some((name, _)), _) => {
            let (interval, timeout) = (
                interval.unwrap_or(Meter::INTERVAL),
                timeout.unwrap_or(Meter::TIMEOUT),
            );
            Ok(Some((
                name,
                Meter {
                    command,
                    interval,
                    timeout,
                },
            )))
        }
        (Some(_), None, _) => {
            let said = "`command` is for what the whole system has: consumable = true and host_level = false";
            Err(section.wrong_at("command", said.to_string()))
        }
        (None, _, Some((key, _))) => Err(section.wrong_at(
            key,
            format!("`{key}` is for a `command`, and there is none"),
        )),
        (None, _, None) => Ok(None),
    }
}

fn parsed<T: FromStr>(value: &DeValue) -> Option<T> {
    value.as_str()?.parse().ok()
}

fn thousandths(value: &DeValue) -> Option<u32> {
    let number: f64 = match (value.as_integer(), value.as_float()) {
        (Some(_), _) => f64::from(whole::<u32>(value)?),
        (None, Some(number)) => number.as_str().parse().ok()?,
        (None, None) => return None,
    };
    (number > 0.0 && number < 4_000_000.0).then_some((number * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::node::{Adjust, NodeSharing};
    use crate::model::request::placement_policy::NodeAccess;
    use crate::model::system_resource::Meter;
    use crate::model::time::Span;

    #[test]
    fn the_terms_of_a_node_are_read() {
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
    fn what_the_whole_system_has_is_read() {
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
            "line 5: jobs take `nuke` of what the whole system has: say how much, as total = 50"
        );
        let said = "line 5: `total` is for what the whole system has: consumable = true and host_level = false";
        assert_eq!(refusal("total = 5"), said);
    }

    #[test]
    fn who_is_asked_what_there_is_of_a_resource_is_read() {
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
            Meter::INTERVAL
        );
        assert!(meters("").is_empty());
        let refusal = |config: Result<Config, _>| {
            config
                .map(|_| ())
                .map_err(|error: crate::config::ConfigError| error.to_string())
                .unwrap_err()
        };
        assert!(refusal(pooled("command = \"free\"")).contains("absolute"));
        assert!(refusal(pooled("interval = \"5s\"")).contains("there is none"));
        assert!(refusal(resource("command = \"/bin/free\"")).contains("what the whole system has"));
    }
}
