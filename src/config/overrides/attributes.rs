//! The attributes of `qmgr`, under PBS's names and in display order.

mod hook;

mod node;

mod preempting;

mod queue;

mod server;

mod texts;

pub(super) use texts::split_names;

use super::QmgrObject;
use super::forms::{AttributeForm, QmgrAttribute, attribute};
use super::limits::{self, OldStyleOwners};
use crate::model::limit::LimitStage;
use hook::HOOK;
use node::NODE;
use queue::{QUEUE, QUEUE_HEAD};
use server::{SCHED, SCHED_TAIL, SERVER, SERVER_HEAD};

const fn limit(
    stage: LimitStage,
    is_soft: bool,
    of_resources: bool,
    old: Option<OldStyleOwners>,
) -> AttributeForm {
    AttributeForm::Limit(limits::LimitForm {
        stage,
        is_soft,
        of_resources,
        old,
    })
}

/// The properties of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeInfo {
    /// PBS's spelling of the name.
    pub name: &'static str,
    /// Whether the attribute is a list of resources.
    pub of_resources: bool,
    /// Whether the value is a list to which `+=` appends.
    pub is_list: bool,
    /// Whether the value uses PBS's syntax of limits, such as `[u:ann=2]`.
    pub is_limit: bool,
    /// Whether the attribute is stored and displayed, but has no effect.
    pub is_idle: bool,
}

/// The attribute with this name, ignoring case.
pub(super) fn find(target: &QmgrObject, name: &str) -> Option<&'static QmgrAttribute> {
    all(target).find(|attribute| attribute.name.eq_ignore_ascii_case(name))
}

/// The properties of the attribute with this name.
pub fn known(target: &QmgrObject, name: &str) -> Option<AttributeInfo> {
    find(target, name).map(|attribute| AttributeInfo {
        name: attribute.name,
        of_resources: attribute.form.is_of_resources(),
        is_list: LISTS.contains(&attribute.name),
        is_limit: matches!(
            attribute.form,
            AttributeForm::Limit(limits::LimitForm { old: None, .. })
        ),
        is_idle: matches!(attribute.form, AttributeForm::Kept(_)) && attribute.name != "comment",
    })
}

/// The names of the attributes of an object that a command can set, in display order.
pub fn names(target: &QmgrObject) -> Vec<&'static str> {
    let is_settable = |attribute: &&QmgrAttribute| {
        !matches!(
            attribute.form,
            AttributeForm::ReadOnly | AttributeForm::Missing
        )
    };
    all(target)
        .filter(is_settable)
        .map(|attribute| attribute.name)
        .collect()
}

/// The position of an attribute in the display order; `usize::MAX` for an unknown attribute.
pub fn place(target: &QmgrObject, name: &str) -> usize {
    all(target)
        .position(|attribute| attribute.name == name)
        .unwrap_or(usize::MAX)
}

/// All attributes of an object.
pub(super) fn all(target: &QmgrObject) -> impl Iterator<Item = &'static QmgrAttribute> {
    let (first, middle, last): (&[QmgrAttribute], &[QmgrAttribute], &[QmgrAttribute]) = match target
    {
        QmgrObject::Resource(_) => (&[], RESOURCE, &[]),
        QmgrObject::Server => (SERVER_HEAD, LIMITS, SERVER),
        QmgrObject::Sched => (SCHED, &preempting::OF_SCHED, SCHED_TAIL),
        QmgrObject::Queue(_) => (QUEUE_HEAD, LIMITS, QUEUE),
        QmgrObject::Node(_) => (&[], NODE, &[]),
        QmgrObject::Hook(_) => (&[], HOOK, &[]),
    };
    first.iter().chain(middle).chain(last)
}

/// Attributes with lists of names as values.
const LISTS: [&str; 8] = [
    "managers",
    "operators",
    "acl_users",
    "acl_groups",
    "acl_hosts",
    "route_destinations",
    "event",
    "restrict_res_to_release_on_suspend",
];

const LIMITS: &[QmgrAttribute] = &[
    attribute("max_run", limit(LimitStage::Running, false, false, None)),
    attribute(
        "max_run_soft",
        limit(LimitStage::Running, true, false, None),
    ),
    attribute("max_run_res", limit(LimitStage::Running, false, true, None)),
    attribute(
        "max_run_res_soft",
        limit(LimitStage::Running, true, true, None),
    ),
    attribute("max_queued", limit(LimitStage::Queued, false, false, None)),
    attribute(
        "max_queued_res",
        limit(LimitStage::Queued, false, true, None),
    ),
    attribute(
        "queued_jobs_threshold",
        limit(LimitStage::Waiting, false, false, None),
    ),
    attribute(
        "queued_jobs_threshold_res",
        limit(LimitStage::Waiting, false, true, None),
    ),
    attribute(
        "max_running",
        limit(LimitStage::Running, false, false, Some(OldStyleOwners::All)),
    ),
    attribute(
        "max_queuable",
        limit(LimitStage::Queued, false, false, Some(OldStyleOwners::All)),
    ),
    attribute(
        "max_user_run",
        limit(
            LimitStage::Running,
            false,
            false,
            Some(OldStyleOwners::User),
        ),
    ),
    attribute(
        "max_user_run_soft",
        limit(LimitStage::Running, true, false, Some(OldStyleOwners::User)),
    ),
    attribute(
        "max_group_run",
        limit(
            LimitStage::Running,
            false,
            false,
            Some(OldStyleOwners::Group),
        ),
    ),
    attribute(
        "max_group_run_soft",
        limit(
            LimitStage::Running,
            true,
            false,
            Some(OldStyleOwners::Group),
        ),
    ),
    attribute(
        "max_user_res",
        limit(LimitStage::Running, false, true, Some(OldStyleOwners::User)),
    ),
    attribute(
        "max_user_res_soft",
        limit(LimitStage::Running, true, true, Some(OldStyleOwners::User)),
    ),
    attribute(
        "max_group_res",
        limit(
            LimitStage::Running,
            false,
            true,
            Some(OldStyleOwners::Group),
        ),
    ),
    attribute(
        "max_group_res_soft",
        limit(LimitStage::Running, true, true, Some(OldStyleOwners::Group)),
    ),
];

const RESOURCE: &[QmgrAttribute] = &[
    attribute("type", AttributeForm::ReadOnly),
    attribute("flag", AttributeForm::ReadOnly),
];
