//! A node's attributes.

use super::texts::{count, number};
use super::{Attribute, Form, at};
use crate::model::node::NodeSharing;
use std::path::PathBuf;

pub(super) const NODE: &[Attribute] = &[
    at("Mom", Form::ReadOnly),
    at("Port", Form::ReadOnly),
    at("pbs_version", Form::ReadOnly),
    at("ntype", Form::ReadOnly),
    at("state", Form::ReadOnly),
    at("pcpus", Form::ReadOnly),
    at(
        "Priority",
        Form::Node(
            |node| Some(node.terms.priority.to_string()).filter(|_| node.terms.priority != 0),
            |node, text| {
                let priority = number(text, "0").and_then(|number| i32::try_from(number).ok());
                priority
                    .map(|priority| node.terms.priority = priority)
                    .is_some()
            },
        ),
    ),
    at("jobs", Form::ReadOnly),
    at("resources_available", Form::Available),
    at("resources_assigned", Form::ReadOnly),
    at("comment", Form::ReadOnly),
    at("resv_enable", Form::Always("True")),
    at(
        "sharing",
        Form::Node(
            |node| {
                Some(node.terms.sharing.name().to_string())
                    .filter(|_| node.terms.sharing != NodeSharing::default())
            },
            |node, text| {
                let sharing = text.map_or(Some(NodeSharing::default()), NodeSharing::named);
                sharing
                    .map(|sharing| node.terms.sharing = sharing)
                    .is_some()
            },
        ),
    ),
    at(
        "max_running",
        Form::Node(
            |node| node.terms.max_jobs.map(|most| most.to_string()),
            |node, text| count(text).map(|most| node.terms.max_jobs = most).is_some(),
        ),
    ),
    at(
        "max_user_run",
        Form::Node(
            |node| node.terms.max_user_jobs.map(|most| most.to_string()),
            |node, text| {
                count(text)
                    .map(|most| node.terms.max_user_jobs = most)
                    .is_some()
            },
        ),
    ),
    at(
        "socket",
        Form::Node(
            |node| {
                node.socket
                    .as_ref()
                    .map(|path| path.to_string_lossy().into_owned())
            },
            |node, text| {
                let path = text.map(PathBuf::from);
                let is_good = path.as_ref().is_none_or(|path| path.is_absolute());
                node.socket = path.filter(|_| is_good);
                is_good
            },
        ),
    ),
    at("max_group_run", Form::Missing),
    at("queue", Form::Missing),
    at("no_multinode_jobs", Form::Missing),
    at("partition", Form::Missing),
    at("license", Form::ReadOnly),
    at("last_state_change_time", Form::ReadOnly),
    at("last_used_time", Form::ReadOnly),
];
