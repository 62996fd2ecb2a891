//! Reads and sets the limits of a configuration as PBS's limit attributes. These attributes have
//! two styles: in the new style (`max_run`, `max_queued_res.ncpus`) the value names the limited
//! owners, in the old style (`max_user_run`) the name of the attribute determines the owners.

use super::forms::definition;
use super::{AttributeKey, QmgrObject};
use crate::config::Config;
use crate::config::kinds::parse_not_negative;
use crate::model::limit::pbs::{self, LimitEntry, LimitOwners};
use crate::model::limit::{Limit, LimitScope, LimitStage, Quantity, Selector};
use crate::model::refusal::Refusal;
use crate::model::resource::{ResourceType, ResourceValue, Resources, Size};

/// The properties of a limit attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitForm {
    /// The jobs that the limit counts.
    pub stage: LimitStage,
    /// Whether the attribute sets soft limits.
    pub is_soft: bool,
    /// Whether the attribute limits resources instead of the number of jobs.
    pub of_resources: bool,
    /// The limited owners of an attribute in the old style; None for the new style.
    pub old: Option<OldStyleOwners>,
}

/// The owners that are limited by an attribute in the old style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldStyleOwners {
    /// All users together.
    All,
    /// Each user.
    User,
    /// Each group.
    Group,
}

impl OldStyleOwners {
    fn owners(self) -> LimitOwners {
        match self {
            OldStyleOwners::All => LimitOwners::Everybody,
            OldStyleOwners::User => LimitOwners::User(Selector::Each),
            OldStyleOwners::Group => LimitOwners::Group(Selector::Each),
        }
    }
}

impl LimitForm {
    pub(super) fn is_of_resources(self) -> bool {
        self.of_resources
    }
}

/// The queue of a limit on this object. A limit on the server counts the jobs of all queues
/// together.
fn queue(target: &QmgrObject) -> Selector {
    match target {
        QmgrObject::Queue(name) => Selector::Named(name.clone()),
        _ => Selector::All,
    }
}

/// The owners of a limit; None for a limit of another object, or for owners that PBS's syntax
/// cannot express: an account, a quality of service, a combination, or a name with quotes.
fn owners(limit: &Limit, target: &QmgrObject) -> Option<LimitOwners> {
    if limit.scope.queue == queue(target) {
        LimitOwners::of(&limit.scope)
    } else {
        None
    }
}

/// Whether the file or qmgr sets limits of the target, except limits on idle jobs and limits for
/// owners that PBS's syntax cannot express.
pub(super) fn has_any(config: &Config, target: &QmgrObject) -> bool {
    config
        .policy
        .limits
        .all
        .iter()
        .any(|limit| limit.stage != LimitStage::Idle && owners(limit, target).is_some())
}

/// Whether qmgr set limits of a target in the old style.
pub(super) fn is_old_style(config: &Config, target: &QmgrObject) -> bool {
    config
        .kept
        .contains_key(&(target.clone(), AttributeKey::plain(OLD_STYLE)))
}

/// The name in `Config::kept` that marks an object with limits in the old style.
const OLD_STYLE: &str = "old style limits";

/// The entries of a limit attribute, each with its resource. Empty if the limits of the object and
/// the attribute differ in style.
pub(super) fn read(
    config: &Config,
    target: &QmgrObject,
    form: LimitForm,
) -> Vec<(Option<String>, String)> {
    if form.old.is_some() != is_old_style(config, target) {
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
    let amount = amount_text(kind, amount);
    let text = if form.old.is_some() {
        amount
    } else {
        LimitEntry { owners, amount }.to_string()
    };
    Some((resource, text))
}

/// Replaces the limits of an attribute with the entries of `text`, or removes the limits if `text`
/// is None.
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
        refuse_mixed_styles(config, target, form)?;
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
        config.kept.insert(
            (target.clone(), AttributeKey::plain(OLD_STYLE)),
            String::new(),
        );
    }
    if !has_any(config, target) {
        config
            .kept
            .remove(&(target.clone(), AttributeKey::plain(OLD_STYLE)));
    }
    Ok(())
}

fn refuse_mixed_styles(
    config: &Config,
    target: &QmgrObject,
    form: LimitForm,
) -> Result<(), Refusal> {
    let other_style = is_old_style(config, target) != form.old.is_some();
    if other_style && has_any(config, target) {
        Err(Refusal::mixed_limits())
    } else {
        Ok(())
    }
}

/// Removes the limits on this quantity that an attribute can set: the hard or the soft limits at
/// its stage. An attribute in the old style removes only limits for its owners. It does not matter
/// whether the file, this style or the other style set the limits.
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
    parse_not_negative(kind, text)?.amount()
}

/// An amount as text. A size uses the largest unit that gives a whole number.
pub(super) fn amount_text(kind: ResourceType, amount: i64) -> String {
    match kind {
        ResourceType::Size => Size::exactly(amount.max(0).unsigned_abs()).to_string(),
        _ => ResourceValue::of_amount(kind, amount).to_string(),
    }
}
