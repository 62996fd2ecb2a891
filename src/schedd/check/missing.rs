//! Warnings of `schedd --check` about objects that the settings name but that do not exist: on this
//! host (users, groups and programs), among the nodes, and in the configuration itself.

use crate::config::Config;
use crate::config::references::{Reference, Referent, references, undefined};
use crate::sys::{env, user};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// One sentence for each name without an object. `nodes` are the nodes that the spool knows; if it
/// is empty, no noded has connected yet, and nodes are not checked.
pub fn warnings(config: &Config, nodes: &BTreeSet<String>) -> Vec<String> {
    let mut all = undefined(config);
    let is_known =
        |name: &String| nodes.contains(name) || config.nodes.iter().any(|node| node.name == *name);
    for reference in references(config) {
        let Reference { place, kind, name } = &reference;
        let fault = match kind {
            Referent::Queue | Referent::Account | Referent::Qos => None,
            Referent::User => has_no_account(name)
                .then(|| format!("{place} names user `{name}`, who has no account on this host")),
            Referent::Group => user::group_number(name)
                .is_none()
                .then(|| format!("{place} names group `{name}`, which this host does not have")),
            Referent::Node => (!nodes.is_empty() && !is_known(name))
                .then(|| format!("{place} names node `{name}`, which does not exist")),
            Referent::Program => {
                program_fault(name).map(|fault| format!("{place}: program {name} {fault}"))
            }
            Referent::NodeProgram => program_fault(name).map(|fault| {
                format!("{place}: program {name} {fault} on this host; noded runs it on each node")
            }),
        };
        all.extend(fault);
    }
    all.extend(unreported_nodes(config, nodes));
    all
}

/// One sentence for each `[[node]]` that no noded has reported.
fn unreported_nodes(config: &Config, nodes: &BTreeSet<String>) -> Vec<String> {
    let listed = config.nodes.iter().filter(|node| node.is_listed);
    let unknown = listed.filter(|node| !nodes.is_empty() && !nodes.contains(&node.name));
    unknown
        .map(|node| {
            format!(
                "[[node]] {} applies to no node: no noded has reported a node of this name",
                node.name
            )
        })
        .collect()
}

/// Whether the host has no user of this name. False if the lookup fails.
fn has_no_account(name: &str) -> bool {
    matches!(user::named(name), Ok(None))
}

/// Why a program cannot run; None if it can.
fn program_fault(name: &str) -> Option<&'static str> {
    let file = if name.contains('/') {
        Some(PathBuf::from(name))
    } else {
        in_path(name)
    };
    match file.and_then(|file| std::fs::metadata(file).ok()) {
        None => Some("does not exist"),
        Some(found) if !found.is_file() => Some("is not a regular file"),
        Some(found) if found.permissions().mode() & 0o111 == 0 => Some("is not executable"),
        Some(_) => None,
    }
}

/// The file that a name without a path refers to; None if no directory of `PATH` has one.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::text("PATH").unwrap_or_default();
    path.split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of(text: &str, nodes: &[&str]) -> Vec<String> {
        let nodes = nodes.iter().map(ToString::to_string).collect();
        warnings(&Config::parse(text).unwrap(), &nodes)
    }

    #[test]
    fn missing_users_groups_and_nodes_are_reported() {
        let text = "
            [[queue]]
            name = \"night\"
            acl_users = [\"root\", \"no-such-user\"]
            acl_groups = [\"root\", \"no-such-group\"]
            [[node]]
            name = \"n2\"
            [[reservation]]
            name = \"office\"
            nodes = [\"n1\", \"n2\", \"n3\"]
        ";
        let of_host = [
            "acl_groups of queue night names group `no-such-group`, which this host does not have",
            "acl_users of queue night names user `no-such-user`, who has no account on this host",
        ];
        let of_nodes = [
            "[[reservation]] office names node `n3`, which does not exist",
            "[[node]] n2 applies to no node: no noded has reported a node of this name",
        ];
        assert_eq!(warnings_of(text, &[]), of_host, "nodes are not known yet");
        let all = [of_nodes[0], of_host[0], of_host[1], of_nodes[1]];
        assert_eq!(warnings_of(text, &["n1"]), all);
    }

    #[test]
    fn programs_that_cannot_run_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let (plain, folder) = (plain.to_str().unwrap(), folder.path().to_str().unwrap());
        let text = format!(
            "[server]\nmailer = \"/nonexistent\"\nnotify = \"{plain}\"\n\
             [placement]\nprogram = \"sh\"\n\
             [launch]\nprologue = \"{folder}\"\nepilogue = \"/bin/sh\"\n"
        );
        let expected = [
            "mailer in [server]: program /nonexistent does not exist".to_string(),
            format!("notify in [server]: program {plain} is not executable"),
            format!(
                "prologue in [launch]: program {folder} is not a regular file on this host; noded \
                 runs it on each node"
            ),
        ];
        assert_eq!(warnings_of(&text, &[]), expected);
    }
}
