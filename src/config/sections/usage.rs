//! `[usage]`: which usage counts for fair share, and how usage loses weight with age.

use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Table, computed, key};
use crate::config::kinds::{
    A_SECOND_OR_MORE, Kind, OneOf, OrWord, Scalar, TableOf, WholeNumber, scalar, table, whole,
};
use crate::model::account::charge::Weights;
use crate::model::account::decay::{Decay, DecayKind};
use crate::model::resource::Resources;
use crate::model::time::Span;
use toml::Value;

const DAY: Span = Span::seconds(24 * 3600);
/// The largest number of windows. Each window needs a number per member of the fair-share tree.
const MOST_WINDOWS: u32 = 1000;

const WINDOWS: WholeNumber<u32> = whole("a number of windows from 1 to 1000", |count| {
    (1..=MOST_WINDOWS).contains(count)
});
const FACTOR: Scalar<f64> = scalar("a number from 0 to 1", |part| (0.0..=1.0).contains(part));
const RESET: OrWord<Scalar<Span>> = OrWord {
    word: "never",
    kind: A_SECOND_OR_MORE,
    wanted: "a time of at least a second, such as \"365d\", or \"never\"",
};
const WEIGHT: Scalar<f64> = scalar("a number from 0 to 1e9", |weight| {
    (0.0..=1e9).contains(weight)
});
const WEIGHTS: TableOf<Weights> = TableOf {
    read: read_weights,
    write: write_weights,
};

/// `[usage]`.
pub static USAGE: Table<Config> = Table::new(
    "usage",
    &[
        &computed(
            "decay",
            OneOf(DecayKind::ALL),
            |c| Some(fading(c.policy.usage.decay)),
            |c, fading| c.policy.usage.decay = decay(fading),
        )
        .text("How usage loses weight with age."),
        &computed("half_life", A_SECOND_OR_MORE, half_life, set_half_life)
            .text(
                "With decay = \"continuous\" or \"step\", the time after which usage counts half, \
                 at least a second.",
            )
            .default("\"7d\"")
            .example("\"7d\""),
        &computed(
            "window",
            A_SECOND_OR_MORE,
            |c| Some(window(c)?.0),
            |c, length| {
                if let Decay::Window { length: known, .. } = &mut c.policy.usage.decay {
                    *known = length;
                }
            },
        )
        .text("With decay = \"window\", the length of a window, at least a second.")
        .default("\"24h\"")
        .example("\"24h\""),
        &computed(
            "windows",
            WINDOWS,
            |c| Some(window(c)?.1),
            |c, count| {
                if let Decay::Window { count: known, .. } = &mut c.policy.usage.decay {
                    *known = count;
                }
            },
        )
        .text("With decay = \"window\", the number of windows that count, at most 1000.")
        .default("7")
        .example("7"),
        &computed(
            "factor",
            FACTOR,
            |c| Some(window(c)?.2),
            |c, factor| {
                if let Decay::Window { factor: known, .. } = &mut c.policy.usage.decay {
                    *known = factor;
                }
            },
        )
        .text("The weight, 0 to 1, of a window relative to the next younger window.")
        .default("1")
        .example("1.0"),
        &key("reset", RESET, |c| &mut c.policy.usage.reset)
            .text("The period at the end of which earlier usage is discarded, or \"never\"."),
        &key("weights", WEIGHTS, |c| &mut c.policy.usage.weights).text(
            "The weight of each resource per second (sizes: per GiB), such as { cores = 1, \
             gpus = 10 }.",
        ),
    ],
);

fn fading(decay: Decay) -> DecayKind {
    match decay {
        Decay::None => DecayKind::None,
        Decay::Step { .. } => DecayKind::Step,
        Decay::Continuous { .. } => DecayKind::Continuous,
        Decay::Window { .. } => DecayKind::Window,
    }
}

fn decay(fading: DecayKind) -> Decay {
    let half_life = Decay::WEEK;
    match fading {
        DecayKind::None => Decay::None,
        DecayKind::Step => Decay::Step { half_life },
        DecayKind::Continuous => Decay::Continuous { half_life },
        DecayKind::Window => Decay::Window {
            length: DAY,
            count: 7,
            factor: 1.0,
        },
    }
}

fn half_life(config: &Config) -> Option<Span> {
    match config.policy.usage.decay {
        Decay::Step { half_life } | Decay::Continuous { half_life } => Some(half_life),
        Decay::None | Decay::Window { .. } => None,
    }
}

fn set_half_life(config: &mut Config, time: Span) {
    match &mut config.policy.usage.decay {
        Decay::Step { half_life } | Decay::Continuous { half_life } => *half_life = time,
        Decay::None | Decay::Window { .. } => {}
    }
}

fn window(config: &Config) -> Option<(Span, u32, f64)> {
    match config.policy.usage.decay {
        Decay::Window {
            length,
            count,
            factor,
        } => Some((length, count, factor)),
        _ => None,
    }
}

/// Reads the weights of `cores`, `gpus`, `mem`, `nodes` and other consumable resources.
fn read_weights(section: &Section, resources: &Resources) -> Result<Weights, ConfigError> {
    let mut weights = Weights::default();
    let consumable = resources
        .iter()
        .filter(|(_, definition)| definition.consumable);
    let others = consumable
        .map(|(name, _)| name)
        .filter(|name| !Weights::is_counted_by_another_name(name));
    let names: Vec<&str> = Weights::NAMES.into_iter().chain(others).collect();
    for (name, value) in section.keys_except(&[]) {
        if !names.contains(&name) {
            return Err(section.unknown(name, &names));
        }
        let weight = WEIGHT.read(value.get_ref());
        let weight = weight.ok_or_else(|| section.refuse(name, value, &WEIGHT.wanted()))?;
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

fn write_weights(weights: &Weights) -> Option<Value> {
    let known = [
        ("cores", weights.cores),
        ("gpus", weights.gpus),
        ("mem", weights.mem),
        ("nodes", weights.nodes),
    ];
    let others = weights
        .resources
        .iter()
        .map(|(name, weight)| (name.as_str(), *weight));
    let all = known.into_iter().chain(others);
    Some(table(all.map(|(name, weight)| (name, weight.into()))))
}
