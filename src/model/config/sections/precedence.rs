//! `[priority]`: who goes first.

use super::scheduling::{expression, named};
use super::{A_SECOND_OR_MORE, boolean, keys, span_from_a_second, whole};
use crate::model::config::ConfigError;
use crate::model::config::table::{Section, nearest};
use crate::model::expression::Expression;
use crate::model::policy::{Order, Precedence, Weights};
use crate::model::resource::Resources;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// What a formula may ask for besides resources, by PBS's names.
const KNOWN: &[&str] = &["eligible_time", "job_priority", "queue_priority", "walltime", "nodect"];

/// `[priority]`.
pub fn precedence(section: &Section, preset: &Precedence, resources: &Resources) -> Result<Precedence, ConfigError> {
    section.only(keys("priority"))?;
    let preset = preset.clone();
    let order = named(section, "order", Order::ALL, Order::named)?.unwrap_or(preset.order);
    let formula = expression(section, "formula", "an expression over what is known of a job")?.or(preset.formula);
    if let Some(unknown) = formula.as_deref().and_then(|text| unknown_name(text, resources)) {
        return Err(section.wrong_at("formula", unknown));
    }
    if order == Order::Formula && formula.is_none() {
        return Err(section.wrong_at("order", "`order = \"formula\"` needs a `formula`".to_string()));
    }
    Ok(Precedence {
        order,
        formula,
        weights: section.read("weights", WEIGHTS, |value| weights(value, preset.weights))?.unwrap_or(preset.weights),
        max_wait: section.read("max_wait", A_SECOND_OR_MORE, span_from_a_second)?.unwrap_or(preset.max_wait),
        favor_small: section.read("favor_small", "true or false", boolean)?.unwrap_or(preset.favor_small),
        slowdown_cap: section.read("slowdown_cap", "a number above 1", above_one)?.unwrap_or(preset.slowdown_cap),
        qos: section.read("qos", FACTORS, factors)?.unwrap_or(preset.qos),
        queues: section.read("queues", FACTORS, factors)?.unwrap_or(preset.queues),
    })
}

const WEIGHTS: &str = "a table of numbers, as { wait_time = 1000, fair_share = 10000 }, by wait_time, fair_share, qos, \
                       queue, job_size and slowdown";
const FACTORS: &str = "a table of numbers from 0 to 1, as { expedite = 1, normal = 0.5 }";

fn weights(value: &DeValue, preset: Weights) -> Option<Weights> {
    let mut weights = preset;
    for (name, value) in value.as_table()? {
        let weight = match name.get_ref().as_ref() {
            "wait_time" => &mut weights.wait_time,
            "fair_share" => &mut weights.fair_share,
            "qos" => &mut weights.qos,
            "queue" => &mut weights.queue,
            "job_size" => &mut weights.job_size,
            "slowdown" => &mut weights.slowdown,
            _ => return None,
        };
        *weight = number(value.get_ref())?;
    }
    Some(weights)
}

fn factors(value: &DeValue) -> Option<BTreeMap<String, f64>> {
    let factor = |value: &DeValue| number(value).filter(|factor| (0.0..=1.0).contains(factor));
    value.as_table()?.iter().map(|(name, value)| Some((name.get_ref().to_string(), factor(value.get_ref())?))).collect()
}

fn above_one(value: &DeValue) -> Option<f64> {
    number(value).filter(|number| *number > 1.0)
}

/// A finite number, whole or not.
fn number(value: &DeValue) -> Option<f64> {
    let whole = || whole::<i32>(value).map(f64::from);
    let number = value.as_float().and_then(|float| float.as_str().replace('_', "").parse().ok()).or_else(whole);
    number.filter(|number: &f64| number.is_finite())
}

/// Says of the first name that means nothing which known one is nearest.
fn unknown_name(text: &str, resources: &Resources) -> Option<String> {
    let expression = Expression::parse(text).ok()?;
    let known: Vec<&str> = KNOWN.iter().copied().chain(resources.iter().map(|(name, _)| name)).collect();
    let mut names = expression.names().into_iter().chain(expression.words());
    let unknown = names.find(|name| !known.contains(name))?;
    let near = nearest(unknown, &known).unwrap_or_default();
    Some(format!("`{unknown}` is nothing known of a job; the nearest known name is `{near}`"))
}

#[cfg(test)]
mod tests {
    use crate::model::config::Config;
    use crate::model::policy::{Order, Precedence};

    fn said(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn who_goes_first_is_said_by_name() {
        let config =
            Config::parse("[priority]\norder = \"formula\"\nformula = \"ncpus * 10 + job_priority\"\n").unwrap();
        assert_eq!(config.policy().precedence, Precedence::by_formula("ncpus * 10 + job_priority"));
        assert_eq!(
            Config::parse("[priority]\norder = \"priority\"\n").unwrap().policy().precedence.order,
            Order::Priority
        );
        assert_eq!(Config::default().policy().precedence, Precedence::default());
    }

    /// F1, F2.
    #[test]
    fn factors_have_weights_and_bounds() {
        let text = "[priority]\norder = \"multifactor\"\nweights = { wait_time = 2, qos = 0.5 }\nmax_wait = \"1d\"\n\
                    queues = { debug = 1, batch = 0.3 }\n";
        let precedence = Config::parse(text).unwrap().policy().precedence;
        assert_eq!(
            (precedence.weights.wait_time, precedence.weights.qos, precedence.weights.job_size),
            (2.0, 0.5, 1000.0)
        );
        assert_eq!((precedence.queues["batch"], precedence.qos["expedite"]), (0.3, 1.0));
        for wrong in ["max_wait = \"0\"", "queues = { debug = 2 }", "weights = { size = 1 }", "slowdown_cap = 1.0"] {
            let said = said(&format!("[priority]\n{wrong}\n"));
            assert!(said.contains("line 2"), "{wrong}: {said}");
        }
    }

    /// I15.
    #[test]
    fn a_formula_that_cannot_be_read_is_refused_with_its_place() {
        let said_of = |formula: &str| said(&format!("[priority]\norder = \"formula\"\nformula = \"{formula}\"\n"));
        let syntax = said_of("ncpus * * 2");
        assert!(syntax.contains("line 3") && syntax.contains("column 9"), "{syntax}");
        let unknown = said_of("elegible_time");
        assert!(
            unknown.contains("`elegible_time` is nothing known") && unknown.contains("`eligible_time`"),
            "{unknown}"
        );
        let none = said("[priority]\norder = \"formula\"\n");
        assert!(none.contains("needs a `formula`"), "{none}");
        let name = said("[priority]\norder = \"formulae\"\n");
        assert!(name.contains("formula"), "{name}");
    }
}
