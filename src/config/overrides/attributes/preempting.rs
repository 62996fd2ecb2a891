//! The scheduler's attributes that say who makes way for whom and how: `[preemption]`, in PBS's
//! words.

use super::texts::{joined, names};
use super::{Attribute, Form, at};
use crate::config::Config;
use crate::model::job::suspension::Releases;
use crate::model::policy::Preemption;
use crate::model::policy::preemption::{Condition, Victims};

/// PBS's word for who started last.
const NEWEST: &str = "min_time_since_start";

/// In PBS's order.
pub(super) const OF_SCHED: [Attribute; 4] = [
    at(
        "preempt_queue_prio",
        Form::Server(
            |config| Some(config.preemption.express.to_string()),
            set_express,
        ),
    ),
    at(
        "preempt_prio",
        Form::Server(|config| Some(levels(&config.preemption.levels)), set_levels),
    ),
    at(
        "preempt_order",
        Form::Server(
            |config| Some(config.preemption.actions.to_string()),
            set_order,
        ),
    ),
    at(
        "preempt_sort",
        Form::Server(
            |config| Some(sort(config.preemption.victims).to_string()),
            set_sort,
        ),
    ),
];

/// The server's, shown where it is not as preset.
pub(super) const RELEASES: Form = Form::Server(
    |config| {
        Some(&config.releases)
            .filter(|all| **all != Releases::default())
            .and_then(|all| joined(&all.0))
    },
    set_releases,
);

/// What holds where nothing is said.
fn preset(config: &Config) -> Preemption {
    config.preset.policy().preemption
}

fn set_express(config: &mut Config, text: Option<&str>) -> bool {
    let express = text.map_or(Some(preset(config).express), |text| {
        text.trim().parse().ok()
    });
    express
        .map(|express| config.preemption.express = express)
        .is_some()
}

fn levels(levels: &[Vec<Condition>]) -> String {
    let joined = |level: &Vec<Condition>| {
        level
            .iter()
            .map(|one| one.name())
            .collect::<Vec<_>>()
            .join("+")
    };
    levels.iter().map(joined).collect::<Vec<_>>().join(", ")
}

/// `express_queue+fairshare, normal_jobs`: the highest first.
fn set_levels(config: &mut Config, text: Option<&str>) -> bool {
    let level = |level: &str| {
        level
            .split('+')
            .map(|word| Condition::named(word.trim()))
            .collect::<Option<Vec<_>>>()
    };
    let read = text.map_or(Some(preset(config).levels), |text| {
        text.split(',').map(level).collect()
    });
    let is_double =
        |levels: &[Vec<Condition>]| (1..levels.len()).any(|at| levels[..at].contains(&levels[at]));
    read.filter(|levels| !is_double(levels))
        .map(|levels| config.preemption.levels = levels)
        .is_some()
}

fn set_order(config: &mut Config, text: Option<&str>) -> bool {
    let order = text.map_or(Some(preset(config).actions), |text| text.parse().ok());
    order
        .map(|order| config.preemption.actions = order)
        .is_some()
}

fn sort(victims: Victims) -> &'static str {
    if victims == Victims::Newest {
        NEWEST
    } else {
        victims.name()
    }
}

/// PBS has one word; `lanai.toml`'s others are as good.
fn set_sort(config: &mut Config, text: Option<&str>) -> bool {
    let victims = match text.map(str::trim) {
        None => Some(preset(config).victims),
        Some(NEWEST) => Some(Victims::Newest),
        Some(name) => Victims::named(name),
    };
    victims
        .map(|victims| config.preemption.victims = victims)
        .is_some()
}

/// Resources that are counted, each once.
fn set_releases(config: &mut Config, text: Option<&str>) -> bool {
    let Some(text) = text else {
        config.releases = Releases::default();
        return true;
    };
    let (all, resources) = (names(text), config.resources());
    let counted = resources.consumables();
    let is_good = |place: usize| {
        counted.contains(&all[place].as_str()) && !all[..place].contains(&all[place])
    };
    let are_good = !all.is_empty() && (0..all.len()).all(is_good);
    if are_good {
        config.releases = Releases(all);
    }
    are_good
}
