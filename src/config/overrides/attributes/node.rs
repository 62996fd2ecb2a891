//! A node's attributes.

use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, at};

pub(super) const NODE: &[QmgrAttribute] = &[
    at("Mom", AttributeForm::ReadOnly),
    at("Port", AttributeForm::ReadOnly),
    at("pbs_version", AttributeForm::ReadOnly),
    at("ntype", AttributeForm::ReadOnly),
    at("state", AttributeForm::ReadOnly),
    at("pcpus", AttributeForm::ReadOnly),
    at("Priority", AttributeForm::Key),
    at("jobs", AttributeForm::ReadOnly),
    at("resources_available", AttributeForm::Available),
    at("resources_assigned", AttributeForm::ReadOnly),
    at("comment", AttributeForm::ReadOnly),
    at("resv_enable", AttributeForm::Always("True")),
    at("sharing", AttributeForm::Key),
    at("max_running", AttributeForm::Key),
    at("max_user_run", AttributeForm::Key),
    at("socket", AttributeForm::Key),
    at("max_group_run", AttributeForm::Missing),
    at("queue", AttributeForm::Missing),
    at("no_multinode_jobs", AttributeForm::Missing),
    at("partition", AttributeForm::Missing),
    at("license", AttributeForm::ReadOnly),
    at("last_state_change_time", AttributeForm::ReadOnly),
    at("last_used_time", AttributeForm::ReadOnly),
];
