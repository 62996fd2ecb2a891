//! A node's attributes.

use super::{Attribute, Form, at};

pub(super) const NODE: &[Attribute] = &[
    at("Mom", Form::ReadOnly),
    at("Port", Form::ReadOnly),
    at("pbs_version", Form::ReadOnly),
    at("ntype", Form::ReadOnly),
    at("state", Form::ReadOnly),
    at("pcpus", Form::ReadOnly),
    at("Priority", Form::Key),
    at("jobs", Form::ReadOnly),
    at("resources_available", Form::Available),
    at("resources_assigned", Form::ReadOnly),
    at("comment", Form::ReadOnly),
    at("resv_enable", Form::Always("True")),
    at("sharing", Form::Key),
    at("max_running", Form::Key),
    at("max_user_run", Form::Key),
    at("socket", Form::Key),
    at("max_group_run", Form::Missing),
    at("queue", Form::Missing),
    at("no_multinode_jobs", Form::Missing),
    at("partition", Form::Missing),
    at("license", Form::ReadOnly),
    at("last_state_change_time", Form::ReadOnly),
    at("last_used_time", Form::ReadOnly),
];
