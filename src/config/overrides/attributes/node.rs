//! The attributes of nodes.

use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, attribute};

pub(super) const NODE: &[QmgrAttribute] = &[
    attribute("Mom", AttributeForm::ReadOnly),
    attribute("Port", AttributeForm::ReadOnly),
    attribute("pbs_version", AttributeForm::ReadOnly),
    attribute("ntype", AttributeForm::ReadOnly),
    attribute("state", AttributeForm::ReadOnly),
    attribute("pcpus", AttributeForm::ReadOnly),
    attribute("Priority", AttributeForm::Key),
    attribute("jobs", AttributeForm::ReadOnly),
    attribute("resources_available", AttributeForm::Available),
    attribute("resources_assigned", AttributeForm::ReadOnly),
    attribute("comment", AttributeForm::ReadOnly),
    attribute("resv_enable", AttributeForm::Always("True")),
    attribute("sharing", AttributeForm::Key),
    attribute("max_running", AttributeForm::Key),
    attribute("max_user_run", AttributeForm::Key),
    attribute("socket", AttributeForm::Key),
    attribute("max_group_run", AttributeForm::Missing),
    attribute("queue", AttributeForm::Missing),
    attribute("no_multinode_jobs", AttributeForm::Missing),
    attribute("partition", AttributeForm::Missing),
    attribute("license", AttributeForm::ReadOnly),
    attribute("last_state_change_time", AttributeForm::ReadOnly),
    attribute("last_used_time", AttributeForm::ReadOnly),
];
