//! PBS's limit attributes (`max_run`, `max_queued_res.ncpus`, the old `max_user_run`) as limits of
//! a configuration.

use super::forms::definition;
use super::{AttributeKey, QmgrObject};
use crate::config::Config;
use crate::config::kinds::not_negative;
use crate::model::limit::pbs::{self, LimitEntry, LimitOwners};
use crate::model::limit::{Limit, LimitScope, LimitStage, Quantity, Selector};
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceType, ResourceValue, Resources, Size};

/// The limit that an attribute sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitForm {
    /// The jobs that it counts.
    pub stage: LimitStage,
    /// Whether it is a soft limit.
    pub is_soft: bool,
    /// Whether it limits a resource and not jobs.
    pub of_resources: bool,
    /// The owners in the old style; None in the new style.
    pub old: Option<Old>,
}

/// The owners that a limit in the old style applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// All users together.
    All,
    /// Each user.
    User,
    /// Each group.
    Group,
}

impl Old {
    fn owners(self) -> LimitOwners {
        match self {
            Old::All => LimitOwners::Everybody,
            Old::User => LimitOwners::User(Selector::Each),
            Old::Group => LimitOwners::Group(Selector::Each),
        }
    }
}

impl LimitForm {
    pub(super) fn is_of_resources(self) -> bool {
        self.of_resources
    }
}

/// The queue of a limit. Limits of the server apply to all queues together.
fn queue(target: &QmgrObject) -> Selector {
    match target {
        QmgrObject::Queue(name) => Selector::Named(name.clone()),
        _ => Selector::All,
    }
}

/// The owners of a limit; None if it is not the target's or PBS cannot express it. Limits of a
/// quality of service, and those that override others, cannot be expressed.
fn owners(limit: &Limit, target: &QmgrObject) -> Option<LimitOwners> {
    if limit.scope.queue == queue(target) {
        LimitOwners::of(&limit.scope)
    } else {
        None
    }
}

/// Whether the target has limits that the new style can express, whatever their origin.
pub(super) fn has_any(config: &Config, target: &QmgrObject) -> bool {
    config
        .policy
        .limits
        .all
        .iter()
        .any(|limit| limit.stage != LimitStage::Idle && owners(limit, target).is_some())
}

/// Whether qmgr set limits of a target in the old style.
pub(super) fn is_old(config: &Config, target: &QmgrObject) -> bool {
    config
        .kept
        .contains_key(&(target.clone(), AttributeKey::plain(OLD)))
}

/// The name under which [`Config`] stores that limits are in the old style.
const OLD: &str = "old style limits";

/// The entries of a limit, each with its resource.
pub(super) fn read(
    config: &Config,
    target: &QmgrObject,
    form: LimitForm,
) -> Vec<(Option<String>, String)> {
    if form.old.is_some() != is_old(config, target) {
        return Vec::new();
    }
    let resources = config.resources();
    let limits = config.policy.limits.all.iter();
    let mut all: Vec<(Option<String>, String)> = limits
        .filter_map(|limit| entry(limit, target, form, &resources))
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// The entry of a limit with its resource; None if the attribute does not display this limit.
fn entry(
    limit: &Limit,
    target: &QmgrObject,
    form: LimitForm,
    resources: &Resources,
) -> Option<(Option<String>, String)> {
    let owners = owners(limit, target)?;
    let resource = resource_of(&limit.quantity)?;
    let amount = if form.is_soft { limit.soft } else { limit.hard }?;
    let is_shown = limit.stage == form.stage
        && resource.is_some() == form.of_resources
        && form.old.is_none_or(|old| old.owners() == owners);
    if !is_shown {
        return None;
    }
    let kind = match &resource {
        Some(name) => kind(resources, name),
        None => ResourceType::Long,
    };
    let amount = shown(kind, amount);
    let text = if form.old.is_some() {
        amount
    } else {
        LimitEntry { owners, amount }.to_string()
    };
    Some((resource, text))
}

/// Sets the limits of an attribute for all named owners, or unsets them.
pub(super) fn write(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    form: LimitForm,
    text: Option<&str>,
) -> Result<(), Refusal> {
    let illegal = || Refusal::illegal_value(&key.to_string());
    let quantity = quantity(config, key)?;
    let entries = match (text, form.old) {
        (None, _) => Vec::new(),
        (Some(text), None) => pbs::parse(text).ok_or_else(illegal)?,
        (Some(text), Some(old)) => vec![LimitEntry {
            owners: old.owners(),
            amount: text.trim().to_string(),
        }],
    };
    let resources = config.resources();
    let amount =
        |entry: &LimitEntry| amount(&resources, &quantity, &entry.amount).ok_or_else(illegal);
    let amounts = entries
        .iter()
        .map(amount)
        .collect::<Result<Vec<i64>, Refusal>>()?;
    if text.is_some() {
        not_mixed(config, target, form)?;
    }
    clear(config, target, form, &quantity);
    for (entry, amount) in entries.iter().zip(amounts) {
        set(
            config,
            entry.owners.scope(&queue(target)),
            form,
            &quantity,
            amount,
        );
    }
    if form.old.is_some() && text.is_some() {
        config
            .kept
            .insert((target.clone(), AttributeKey::plain(OLD)), String::new());
    }
    if !has_any(config, target) {
        config
            .kept
            .remove(&(target.clone(), AttributeKey::plain(OLD)));
    }
    Ok(())
}

fn not_mixed(config: &Config, target: &QmgrObject, form: LimitForm) -> Result<(), Refusal> {
    let other_style = is_old(config, target) != form.old.is_some();
    if other_style && has_any(config, target) {
        Err(Refusal::mixed_limits())
    } else {
        Ok(())
    }
}

fn clear(config: &mut Config, target: &QmgrObject, form: LimitForm, quantity: &Quantity) {
    for limit in &mut config.policy.limits.all {
        let Some(owners) = owners(limit, target) else {
            continue;
        };
        let is_meant = form.old.is_none_or(|old| old.owners() == owners);
        if is_meant && limit.stage == form.stage && limit.quantity == *quantity {
            if form.is_soft {
                limit.soft = None;
            } else {
                limit.hard = None;
            }
        }
    }
    config
        .policy
        .limits
        .all
        .retain(|limit| limit.soft.is_some() || limit.hard.is_some());
}

fn set(config: &mut Config, scope: LimitScope, form: LimitForm, quantity: &Quantity, amount: i64) {
    let all = &mut config.policy.limits.all;
    let is_same = |limit: &Limit| {
        limit.scope == scope && limit.stage == form.stage && limit.quantity == *quantity
    };
    let place = all.iter().position(is_same).unwrap_or_else(|| {
        let (stage, quantity) = (form.stage, quantity.clone());
        all.push(Limit {
            scope,
            stage,
            quantity,
            soft: None,
            hard: None,
            overrides: false,
        });
        all.len() - 1
    });
    let side = if form.is_soft {
        &mut all[place].soft
    } else {
        &mut all[place].hard
    };
    *side = Some(amount);
}

/// PBS's name for the number of nodes.
const NODES: &str = "nodect";

fn quantity(config: &Config, key: &AttributeKey) -> Result<Quantity, Refusal> {
    match key.resource.as_deref() {
        None => Ok(Quantity::Jobs),
        Some(NODES) => Ok(Quantity::Nodes),
        Some(name) => {
            if definition(config, key)?.consumable {
                Ok(Quantity::Resource(name.to_string()))
            } else {
                Err(Refusal::illegal_value(&key.to_string()))
            }
        }
    }
}

/// The resource of a quantity, `Some(None)` for jobs; None if PBS cannot express the quantity.
fn resource_of(quantity: &Quantity) -> Option<Option<String>> {
    match quantity {
        Quantity::Jobs => Some(None),
        Quantity::Nodes => Some(Some(NODES.to_string())),
        Quantity::Resource(name) => Some(Some(name.clone())),
        Quantity::Equivalents | Quantity::ProcessorSeconds | Quantity::Seconds => None,
    }
}

fn kind(resources: &Resources, name: &str) -> ResourceType {
    resources
        .get(name)
        .map_or(ResourceType::Long, |definition| definition.kind)
}

fn amount(resources: &Resources, quantity: &Quantity, text: &str) -> Option<i64> {
    let kind = match quantity {
        Quantity::Resource(name) => kind(resources, name),
        _ => ResourceType::Long,
    };
    not_negative(kind, text)?.amount()
}

/// An amount as text. A size uses the largest unit that gives a whole number.
pub(super) fn shown(kind: ResourceType, amount: i64) -> String {
    match kind {
        ResourceType::Size => Size::exactly(amount.max(0).unsigned_abs()).to_string(),
        _ => ResourceValue::of_amount(kind, amount).to_string(),
    }
}
