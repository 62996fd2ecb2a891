//! `[usage]`: what usage counts, and for how long.

use super::{A_SECOND_OR_MORE, by_name, from_one, keys, one_of, span_from_a_second};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::account::charge::{UsageRules, Weights};
use crate::model::account::decay::{Decay, Fading};
use crate::model::resource::Resources;
use crate::model::time::Span;
use toml::de::DeValue;

const DAY: Span = Span::seconds(24 * 3600);
/// The most windows: each is a number for each member.
const MOST_WINDOWS: u32 = 1000;
const WINDOWS: &str = "a number of windows from 1 to 1000";
const FACTOR: &str = "a number from 0 to 1";
const RESET: &str = "a time of a second or more, as \"365d\", or \"never\"";
const WEIGHT: &str = "a number from 0 to 1e9";

/// `[usage]`.
pub fn usage(
    section: &Section,
    preset: UsageRules,
    resources: &Resources,
) -> Result<UsageRules, ConfigError> {
    section.only(keys("usage"))?;
    Ok(UsageRules {
        decay: decay(section, preset.decay)?,
        reset: section.read("reset", RESET, reset)?.unwrap_or(preset.reset),
        weights: weights(section, preset.weights, resources)?,
    })
}

fn decay(section: &Section, preset: Decay) -> Result<Decay, ConfigError> {
    let own = fading(preset);
    let fading = section
        .read("decay", &one_of(Fading::ALL), by_name(Fading::named))?
        .unwrap_or(own);
    let half_life = section.read("half_life", A_SECOND_OR_MORE, span_from_a_second)?;
    let length = section.read("window", A_SECOND_OR_MORE, span_from_a_second)?;
    let count = section.read("windows", WINDOWS, |value| {
        from_one(value).filter(|count| *count <= MOST_WINDOWS)
    })?;
    let factor = section.read("factor", FACTOR, |value| {
        number(value).filter(|factor| *factor <= 1.0)
    })?;
    let half_life = half_life.unwrap_or(Decay::WEEK);
    Ok(match fading {
        Fading::None => Decay::None,
        Fading::Step => Decay::Step { half_life },
        Fading::Continuous => Decay::Continuous { half_life },
        Fading::Window => {
            let (length, count) = (length.unwrap_or(DAY), count.unwrap_or(7));
            Decay::Window {
                length,
                count,
                factor: factor.unwrap_or(1.0),
            }
        }
    })
}

fn fading(decay: Decay) -> Fading {
    match decay {
        Decay::None => Fading::None,
        Decay::Step { .. } => Fading::Step,
        Decay::Continuous { .. } => Fading::Continuous,
        Decay::Window { .. } => Fading::Window,
    }
}

fn reset(value: &DeValue) -> Option<Option<Span>> {
    match value.as_str() {
        Some("never") => Some(None),
        _ => span_from_a_second(value).map(Some),
    }
}

/// A table of weights, as `{ cores = 1, mem = 0.25, power = 0.01 }`: of what is always counted, and
/// of any consumable that is not counted by such a name.
fn weights(
    section: &Section,
    mut weights: Weights,
    resources: &Resources,
) -> Result<Weights, ConfigError> {
    let Some(table) = section.section("weights")? else {
        return Ok(weights);
    };
    let consumable = resources
        .iter()
        .filter(|(_, definition)| definition.consumable)
        .map(|(name, _)| name);
    let others = consumable.filter(|name| !Weights::is_counted_by_another_name(name));
    let names: Vec<&str> = Weights::NAMES.into_iter().chain(others).collect();
    for (name, value) in table.rest(&[]) {
        if !names.contains(&name) {
            return Err(table.unknown(name, &names));
        }
        let weight = number(value.get_ref()).filter(|weight| *weight <= 1e9);
        let weight = weight.ok_or_else(|| table.refuse(name, value, WEIGHT))?;
        match name {
            "nodes" => weights.nodes = weight,
            "cores" => weights.cores = weight,
            "gpus" => weights.gpus = weight,
            "mem" => weights.mem = weight,
            _ => _ = weights.resources.insert(name.to_string(), weight),
        }
    }
    Ok(weights)
}

/// A number from 0 on, whole or not.
fn number(value: &DeValue) -> Option<f64> {
    let whole = || value.as_integer()?.as_str().parse().ok();
    let number: f64 = value
        .as_float()
        .and_then(|number| number.as_str().parse().ok())
        .or_else(whole)?;
    (number.is_finite() && number >= 0.0).then_some(number)
}
